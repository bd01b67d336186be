# SPDX-License-Identifier: BSD-3-Clause
"""Host policies: the cores and the memory of instances' threads, as the kernel tells them."""
import ctypes
import os
import pathlib
import re
import subprocess

import pytest
import requests

from conftest import BUILD, ROOT, require_build
from models import load, opens_server, wait_until
from scrape import metric

BACKENDS = ("identity", "testing")
CORES = sorted(os.sched_getaffinity(0))
CORE = CORES[-1]
NODE = pathlib.Path("/sys/devices/system/node/node0")


@pytest.fixture(scope="module", autouse=True)
def build():
    require_build(BACKENDS)


def model(groups="", backend="testing", more=""):
    outputs = [("OUTPUT0", "TYPE_FP32", -1)]
    if backend == "testing":
        outputs += [("SERIAL", "TYPE_INT64", 1)]
    return (f'backend: "{backend}"\ninput {{ name: "INPUT0" data_type: TYPE_FP32 dims: -1 }}\n'
            + "".join(f'output {{ name: "{name}" data_type: {kind} dims: {dims} }}\n'
                      for name, kind, dims in outputs)
            + groups + more)


def group(policy="", count=1, kind="KIND_CPU"):
    named = f'host_policy: "{policy}"' if policy else ""
    return f"instance_group {{ count: {count} kind: {kind} {named} }}\n"


def infer(server, name):
    """The serial number of the instance that answers, where it has one."""
    reply = requests.post(f"{server.url}/v2/models/{name}/infer", timeout=20, json={"inputs": [
        {"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1.5]}]})
    assert reply.status_code == 200, reply.text
    outputs = {o["name"]: o["data"] for o in reply.json()["outputs"]}
    assert outputs["OUTPUT0"] == [1.5]
    return outputs.get("SERIAL", [None])[0]


def cores_of(text):
    """{0, 1, 2, 3, 8} of "0-3,8"."""
    ranges = [item.split("-") for item in text.strip().split(",") if item]
    return {core for r in ranges for core in range(int(r[0]), int(r[-1]) + 1)}


def threads(server, name):
    """{id: cores} of the server's threads of that name."""
    found = {}
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        try:
            status = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        if re.search(r"^Name:\t(.*)$", status, re.M).group(1) == name:
            allowed = re.search(r"^Cpus_allowed_list:\t(.*)$", status, re.M).group(1)
            found[int(task.name)] = cores_of(allowed)
    return found


def wait_for_cores(server, name, cores):
    """Where the thread of that name is when it has begun; its id, too."""
    wait_until(lambda: list(threads(server, name).values()) == [set(cores)],
               lambda: f"{name}: {threads(server, name)}")
    return threads(server, name)


def policy(name, **settings):
    return [f"--host-policy={name},{key.replace('_', '-')}={value}"
            for key, value in settings.items()]


def test_threads_run_on_their_cores(tmp_path):
    models = {"placed": model(group("mine", count=2)), "anywhere": model(group()),
              "by_kind": model(group(kind="KIND_MODEL"))}
    options = policy("mine", cpu_cores=CORE) + policy("model", cpu_cores=f"{CORE}-{CORE}")
    with opens_server(tmp_path / "models", models, *options) as server:
        for name in ("placed_0_0", "placed_0_1", "by_kind_0_0"):
            wait_for_cores(server, name, [CORE])
        wait_for_cores(server, "anywhere_0_0", CORES)
        for name in models:
            infer(server, name)
        wait_for_cores(server, "neso-http-0", CORES)


def executions(server, name, path):
    return metric(server, "neso_executions_total", name, path=path)


def test_nothing_runs_on_a_loop(tmp_path):
    """Not even where the model wants it; a model that is not placed shows that it would."""
    always = 'parameters { key: "inline_execution" value { string_value: "always" } }\n'
    models = {name: model(group(of), "identity", always)
              for name, of in (("placed", "mine"), ("anywhere", ""))}
    with opens_server(tmp_path / "models", models, *policy("mine", cpu_cores=CORE)) as server:
        for name in models:
            for _ in range(20):
                infer(server, name)
        assert executions(server, "placed", "inline") == 0
        assert executions(server, "placed", "queued") == 20
        assert executions(server, "anywhere", "inline") > 0


def test_another_policy_is_another_instance(tmp_path):
    """Instances whose policy stays keep their threads."""
    options = (policy("mine", cpu_cores=CORE) + policy("other", cpu_cores=CORES[0])
               + ["--model-control-mode=explicit", "--load-model=m"])
    with opens_server(tmp_path / "models", {"m": model(group("mine"))}, *options) as server:
        config = tmp_path / "models" / "m" / "config.pbtxt"
        before = wait_for_cores(server, "m_0_0", [CORE])
        assert infer(server, "m") == 1
        config.write_text(model(group("mine", count=2)))
        load(server, "m")
        assert threads(server, "m_0_0") == before
        wait_for_cores(server, "m_0_1", [CORE])
        config.write_text(model(group("other")))
        load(server, "m")
        wait_until(lambda: not threads(server, "m_0_1"))
        after = wait_for_cores(server, "m_0_0", CORES[:1])
        assert after.keys() != before.keys()
        assert infer(server, "m") == 3  # the third that this server has made


def test_policy_that_nobody_defined(tmp_path):
    with opens_server(tmp_path / "models", {"m": model(group("mine"))}) as server:
        infer(server, "m")
        wait_for_cores(server, "m_0_0", CORES)
        assert ("model 'm': instance group 'm_0' names the host policy 'mine', which is not defined; "
                "its instances run on any core") in server.text()


def can_place_memory():
    libc = ctypes.CDLL(None, use_errno=True)
    get_mempolicy = {"x86_64": 239, "aarch64": 236}.get(os.uname().machine)
    return (NODE.exists() and get_mempolicy is not None
            and libc.syscall(get_mempolicy, None, None, 0, None, 0) == 0)


@pytest.mark.skipif(not can_place_memory(), reason="no NUMA nodes, or not for this process")
def test_node(tmp_path):
    on_node = cores_of((NODE / "cpulist").read_text())
    models = {"near": model(group("near")), "core": model(group("core"))}
    options = policy("near", numa_node=0) + policy("core", numa_node=0, cpu_cores=CORE)
    with opens_server(tmp_path / "models", models, *options) as server:
        near, near_cores = threads(server, "near_0_0").popitem()
        core, core_cores = threads(server, "core_0_0").popitem()
        assert near_cores and near_cores <= on_node
        assert core_cores == {CORE}
        assert "prefer:0" in numa_maps(server, near) and "prefer:0" in numa_maps(server, core)
        for name in models:
            infer(server, name)
        loop, _ = threads(server, "neso-http-0").popitem()
        assert "prefer:0" not in numa_maps(server, loop)


def numa_maps(server, thread):
    return pathlib.Path(f"/proc/{server.process.pid}/task/{thread}/numa_maps").read_text()


@pytest.mark.skipif(not (BUILD / "backends/onnxruntime/libtriton_onnxruntime.so").exists(),
                    reason="backend onnxruntime is not built")
def test_threads_of_the_runtime(tmp_path):
    """They have the name of their model: the thread that made them had it."""
    config = 'backend: "onnxruntime"\nmax_batch_size: 64\n' + group("mine")
    count = 'parameters {{ key: "intra_op_thread_count" value {{ string_value: "{}" }} }}\n'
    network = (ROOT / "examples/models/digits/1/model.onnx").read_bytes()
    models = {name: {"config.pbtxt": config + count.format(n), "1/model.onnx": network}
              for name, n in (("three", 3), ("as_cores", 0))}
    with opens_server(tmp_path / "models", models, *policy("mine", cpu_cores=CORE)) as server:
        assert list(threads(server, "three").values()) == [{CORE}, {CORE}]  # and the instance's
        assert not threads(server, "as_cores")


@pytest.mark.parametrize("option, text", [
    ("mine,cpu-cores=8191", "host policy 'mine': core 8191 is not there, or this process may not "
                            "use it"),
    ("mine,cpu-cores=3-", "host policy 'mine': cpu-cores=3-: '3-' is not a core below 8192 or a "
                          "range of cores, as in 0-3,8"),
    ("mine,numa-node=1023", "host policy 'mine': numa-node=1023: this machine has no NUMA node "
                            "1023"),
    ("mine,cores=1", "Unsupported host policy setting 'cores' is specified, supported settings are "
                     "'numa-node', 'cpu-cores'"),
    ("mine", "expects <name>,<setting>=<value>, got: mine"),
])
def test_policies_that_end_the_start(tmp_path, option, text):
    ended = subprocess.run([BUILD / "neso", "serve", f"--model-repository={tmp_path}",
                            "--http-port=0", "--grpc-port=0", "--metrics-port=0",
                            f"--host-policy={option}"], timeout=60, capture_output=True, text=True)
    assert ended.returncode == 1
    assert text in ended.stdout + ended.stderr
