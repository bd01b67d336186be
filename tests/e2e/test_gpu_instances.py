# SPDX-License-Identifier: BSD-3-Clause
"""Instance groups on GPUs, on stand-ins of the driver: two devices of compute capability 9.0, and device 2 of 5.2.

The backend "gpu" refuses a call when another device than its instance's is current on the thread."""
import concurrent.futures
import re

import pytest
import requests

from conftest import patience
import scrape
from gpus import model_text, opens_gpu_server
from models import EXPLICIT, load, model_config, unload

SECONDS = patience(20)
LIMITED = "--rate-limit=execution_count"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with opens_gpu_server(tmp_path_factory.mktemp("instances"), {"m": model_text()},
                          *EXPLICIT) as running:
        yield running


def configured(server, group, name="m", **more):
    """Writes the model with this instance group, or without one."""
    text = model_text(**more)
    begin = text.index("instance_group")
    text = text[:begin] + group + text[text.index("\n", begin):]
    (server.repository / name / "config.pbtxt").write_text(text)


def infer_ok(server, name="m", count=1):
    def one(i):
        values = [float(i), 1.0]
        reply = requests.post(f"{server.url}/v2/models/{name}/infer", timeout=SECONDS, json={
            "inputs": [{"name": "INPUT0", "shape": [2], "datatype": "FP32", "data": values}],
            "outputs": [{"name": "OUTPUT0"}]})
        assert reply.status_code == 200, reply.text
        assert reply.json()["outputs"][0]["data"] == values

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(count)))


def groups(server, name="m"):
    return [(group["name"], group["kind"], group["count"], group["gpus"])
            for group in model_config(server, name)["instance_group"]]


@pytest.mark.parametrize("group, expected", [
    ("", [("m", "KIND_GPU", 1, [0, 1])]),
    ("instance_group { kind: KIND_GPU }", [("m_0", "KIND_GPU", 1, [0, 1])]),
    ("instance_group { count: 2 }", [("m_0", "KIND_GPU", 2, [0, 1])]),
    ("instance_group { gpus: 1 }", [("m_0", "KIND_GPU", 1, [1])]),
    ("instance_group { kind: KIND_GPU gpus: [ 1, 0 ] count: 3 }", [("m_0", "KIND_GPU", 3, [1, 0])]),
    ("instance_group { kind: KIND_CPU }", [("m_0", "KIND_CPU", 1, [])]),
    ("instance_group [ { kind: KIND_GPU gpus: 0 name: \"x\" }, { kind: KIND_CPU count: 2 } ]",
     [("x", "KIND_GPU", 1, [0]), ("m_1", "KIND_CPU", 2, [])]),
    ("instance_group [ { gpus: 0 secondary_devices { device_id: 3 } }, { gpus: 1 } ]",
     [("m_0", "KIND_GPU", 1, [0]), ("m_1", "KIND_GPU", 1, [1])]),
])
def test_groups(server, group, expected):
    configured(server, group)
    load(server, "m")
    assert groups(server) == expected
    infer_ok(server, count=100)
    unload(server, "m")


@pytest.mark.parametrize("group, text", [
    ("instance_group { kind: KIND_GPU gpus: 7 }",
     "instance group m_0 of model m specifies invalid or unsupported gpu id 7. GPUs with at least the minimum "
     "required CUDA compute compatibility of 6.000000 are: 0, 1"),
    ("instance_group { kind: KIND_GPU gpus: [ 0, 2 ] }", "invalid or unsupported gpu id 2. "),
    ("instance_group { kind: KIND_GPU gpus: -1 }", "invalid or unsupported gpu id -1. "),
    ("instance_group { gpus: 2 }",
     "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs"),
    ("instance_group { kind: KIND_CPU gpus: 0 }",
     "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs"),
    ("instance_group { kind: KIND_MODEL gpus: 0 }",
     "instance group m_0 of model m has kind KIND_MODEL but specifies one or more GPUs"),
    ("instance_group { kind: KIND_GPU count: 2049 }",
     "instance group m_0 of model m has count 2049: a model may have at most 4096 instances in all"),
])
def test_refused(server, group, text):
    configured(server, group)
    assert text in load(server, "m", expected=400).json()["error"]


def test_no_gpus(tmp_path):
    with opens_gpu_server(tmp_path, {"m": model_text()}, *EXPLICIT, DEVICES=0) as server:
        assert ("instance group m_0 of model m has kind KIND_GPU but no GPUs are available"
                in load(server, "m", expected=400).json()["error"])


def test_old_devices_are_allowed(tmp_path):
    with opens_gpu_server(tmp_path, {"m": model_text()}, *EXPLICIT,
                          "--min-supported-compute-capability=5.0") as server:
        load(server, "m")
        assert groups(server) == [("m_0", "KIND_GPU", 1, [0, 1, 2])]
        infer_ok(server, count=50)


def test_backend_for_the_cpu(tmp_path):
    """A backend that prefers the CPU stays there when a group names no kind."""
    text = ('backend: "identity" max_batch_size: 0\n'
            'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }\n')
    with opens_gpu_server(tmp_path, {"m": text, "n": text + "instance_group { count: 2 }\n"}) as server:
        assert groups(server) == [("m", "KIND_CPU", 1, [])]
        assert groups(server, "n") == [("n_0", "KIND_CPU", 2, [])]
        infer_ok(server)


def test_a_group_on_gpus_of_a_backend_that_prefers_the_cpu(tmp_path):
    """What the group says counts: tensors stay on the GPU between its steps."""
    step = ('step {{ model_name: "{}" model_version: -1 input_map {{ key: "INPUT0" value: "{}" }} '
            'output_map {{ key: "{}" value: "{}" }} }}')
    models = {
        "first": model_text(gpus=[0]), "second": model_text(gpus=[0]),
        "both": 'platform: "ensemble" max_batch_size: 0\n'
                'input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }\n'
                'output { name: "OUT" data_type: TYPE_INT32 dims: [ -1, 2 ] }\nensemble_scheduling { '
                + step.format("first", "IN", "OUTPUT0", "T") + step.format("second", "T", "WHERE", "OUT") + " }\n",
    }
    with opens_gpu_server(tmp_path, models, "--backend-config=gpu,preferred=KIND_CPU") as server:
        reply = requests.post(f"{server.url}/v2/models/both/infer", timeout=20, json={
            "inputs": [{"name": "IN", "datatype": "FP32", "shape": [2], "data": [1, 2]}]})
        assert reply.status_code == 200, reply.text
        assert reply.json()["outputs"][0]["data"] == [2, 0]  # memory of GPU 0


def test_reports_of_memory(tmp_path):
    """The statistics add up what the model and its instances have reported; a report goes with its instance."""
    def usage(server):
        reply = requests.get(f"{server.url}/v2/models/m/stats", timeout=20)
        return [(one["type"], one["id"], one["byte_size"]) for one in reply.json()["model_stats"][0]["memory_usage"]]

    with opens_gpu_server(tmp_path, {"m": model_text(gpus=[0, 1], count=2, reports="true")}, *EXPLICIT,
                          "--load-model=m") as server:
        assert sorted(usage(server)) == [("CPU", 0, 100), ("GPU", 0, 2000), ("GPU", 1, 2000)]
        (server.repository / "m" / "config.pbtxt").write_text(model_text(gpus=[0, 1], count=1, reports="true"))
        load(server, "m")
        assert sorted(usage(server)) == [("CPU", 0, 100), ("GPU", 0, 1000), ("GPU", 1, 1000)]


def test_updates(server):
    """The instances follow the configuration, on the same devices and on others, and back to the CPU."""
    for group in ("instance_group { kind: KIND_GPU gpus: 0 }",
                  "instance_group { kind: KIND_GPU gpus: 0 count: 3 }",
                  "instance_group { kind: KIND_GPU gpus: [ 0, 1 ] count: 2 }",
                  "instance_group { kind: KIND_GPU gpus: [ 1, 0 ] count: 1 }",
                  "instance_group [ { kind: KIND_GPU gpus: 1 }, { kind: KIND_CPU } ]",
                  "instance_group { kind: KIND_CPU }",
                  "instance_group { kind: KIND_GPU gpus: 1 }"):
        configured(server, group)
        load(server, "m")
        infer_ok(server, count=40)
    assert groups(server) == [("m_0", "KIND_GPU", 1, [1])]
    unload(server, "m")


@pytest.mark.parametrize("device, is_loaded", [(1, True), (0, False)])
def test_rate_limiter_counts_by_device(tmp_path, device, is_loaded):
    """A resource that only one device has is enough for an instance there, and not for one elsewhere."""
    limit = 'rate_limiter { resources { name: "R" count: 1 } }'
    with opens_gpu_server(tmp_path, {"m": model_text(gpus=[1])}, *EXPLICIT, LIMITED,
                          f"--rate-limit-resource=R:1:{device}") as server:
        configured(server, f"instance_group {{ kind: KIND_GPU gpus: 1 {limit} }}")
        reply = load(server, "m", expected=None)
        if is_loaded:
            assert reply.status_code == 200, reply.text
            infer_ok(server, count=10)
        else:
            assert 'Resource count for "R" is limited to 0' in reply.json()["error"]


def test_load_limit(tmp_path):
    """A device that is used beyond its limit takes no further model and no further instance of one; another device
    does. What serves goes on, and may have fewer instances."""
    models = {"a": model_text("add", gpus=[0], scratch="server"), "b": model_text(gpus=[0]),
              "c": model_text(gpus=[1])}

    def add():
        reply = requests.post(f"{server.url}/v2/models/a/infer", timeout=SECONDS, json={
            "inputs": [{"name": name, "shape": [2], "datatype": "FP32", "data": [1, 2]}
                       for name in ("INPUT0", "INPUT1")]})
        assert reply.status_code == 200, reply.text

    with opens_gpu_server(tmp_path, models, *EXPLICIT, "--model-load-gpu-limit=0:0.0") as server:
        load(server, "a")
        add()  # takes the pool
        reply = load(server, "b", expected=None)
        assert reply.status_code != 200 and "can not load model 'b'" in reply.text
        load(server, "c")
        infer_ok(server, "c")
        configured(server, "instance_group { kind: KIND_GPU gpus: 0 count: 2 }", name="a", op="add",
                   scratch="server")
        reply = load(server, "a", expected=None)
        assert reply.status_code == 400
        assert "can not load model 'a'" in server.text()
        add()
        assert groups(server, "a")[0][2] == 1


def test_an_update_with_fewer_instances_is_not_limited(tmp_path):
    two = model_text("add", gpus=[0], count=2, scratch="server")
    with opens_gpu_server(tmp_path, {"m": two}, *EXPLICIT, "--load-model=m", "--model-load-gpu-limit=0:0.0") as server:
        reply = requests.post(f"{server.url}/v2/models/m/infer", timeout=SECONDS, json={
            "inputs": [{"name": name, "shape": [2], "datatype": "FP32", "data": [1, 2]}
                       for name in ("INPUT0", "INPUT1")]})
        assert reply.status_code == 200, reply.text
        configured(server, "instance_group { kind: KIND_GPU gpus: 0 count: 1 }", name="m", op="add", scratch="server")
        load(server, "m")
        assert groups(server, "m")[0][2] == 1


def counters(server, family, model):
    """{UUID of a GPU, or None: value} of the series of a model."""
    found = {}
    for line in scrape.page(server).text.splitlines():
        if line.startswith(family + "{") and f'model="{model}"' in line:
            uuid = re.search(r'gpu_uuid="([^"]*)"', line)
            found[uuid and uuid[1]] = float(line.rpartition(" ")[2])
    return found


def test_metrics_name_the_gpu(tmp_path):
    """What the instances on a GPU count has the label gpu_uuid, other counters have it not."""
    models = {"one": model_text(gpus=[1]), "cpu": model_text(kind="KIND_CPU")}
    with opens_gpu_server(tmp_path, models) as server:
        infer_ok(server, "one", count=3)
        infer_ok(server, "cpu", count=2)
        gpus = [gpu["uuid"] for gpu in requests.get(f"{server.url}/v2/gpus", timeout=SECONDS).json()["gpus"]]
        for family in ("request_success", "count", "exec_count"):
            name = f"nv_inference_{family}"
            assert counters(server, name, "one") == {None: 0, gpus[1]: 3}, family
            assert counters(server, name, "cpu") == {None: 2}, family
        for family in ("request_duration_us", "compute_infer_duration_us"):
            assert counters(server, f"nv_inference_{family}", "one").keys() == {None, gpus[1]}
            assert counters(server, f"nv_inference_{family}", "cpu").keys() == {None}
        page = scrape.page(server).text
        assert not [line for line in page.splitlines() if "pending_request" in line and "gpu_uuid" in line]


def test_metrics_of_a_model_on_several_gpus(tmp_path):
    """Each GPU has a series of its own, whose values add up to the statistics of the model."""
    with opens_gpu_server(tmp_path, {"m": model_text(gpus=[0, 1])}) as server:
        infer_ok(server, count=40)
        gpus = [gpu["uuid"] for gpu in requests.get(f"{server.url}/v2/gpus", timeout=SECONDS).json()["gpus"]]
        found = counters(server, "nv_inference_count", "m")
        assert found.keys() == {None, gpus[0], gpus[1]} and found[None] == 0
        assert found[gpus[0]] > 0 and found[gpus[1]] > 0
        assert found[gpus[0]] + found[gpus[1]] == 40
        durations = counters(server, "nv_inference_compute_infer_duration_us", "m")
        assert durations[gpus[0]] > 0 and durations[gpus[1]] > 0 and durations[None] == 0
        stats = requests.get(f"{server.url}/v2/models/m/stats", timeout=SECONDS).json()["model_stats"][0]
        assert stats["inference_count"] == 40 and stats["inference_stats"]["success"]["count"] == 40
        assert sum(counters(server, "nv_inference_exec_count", "m").values()) == stats["execution_count"]
