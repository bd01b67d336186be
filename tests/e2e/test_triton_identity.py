# SPDX-License-Identifier: BSD-3-Clause
"""Triton's own identity backend, compiled for GPUs by tests/gpu/runtime/build_identity.sh, on the stand-in of CUDA's
driver: a backend that was written without us, and copies with the runtime library.

NESO_TRITON_IDENTITY names the folder of libtriton_identity.so; without it the module is skipped.
"""
import concurrent.futures
import os
import pathlib

import numpy
import pytest
import requests

from gpus import model_text, opens_gpu_server
from grpc_stubs import SECONDS
from models import load
from test_cuda_shared_memory import OPTIONS, PAGE, Http, Region, wait_until_closed
from test_gpu_pipelines import Copies, step
from test_shared_memory import place

FOLDER = os.environ.get("NESO_TRITON_IDENTITY")
LIBRARY = "libtriton_triton_identity.so"  # our own backend has the name "identity"

pytestmark = pytest.mark.skipif(not FOLDER, reason="NESO_TRITON_IDENTITY names no folder of Triton's identity backend")


def model(group, max_batch_size=0, data_type="TYPE_FP32", more="", n=1):
    tensors = "".join(f'{kind.lower()}put {{ name: "{kind}PUT{i}" data_type: {data_type} dims: [ -1 ] }}\n'
                      for i in range(n) for kind in ("IN", "OUT"))
    return f'backend: "triton_identity" max_batch_size: {max_batch_size}\n{tensors}{group}\n{more}\n'


def line(*models):
    names = ["INPUT0", *(f"T{i}" for i in range(len(models) - 1)), "OUTPUT0"]
    steps = [step(name, {"INPUT0": names[i]}, {"OUTPUT0": names[i + 1]}) for i, name in enumerate(models)]
    return "\n".join(['platform: "ensemble" input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }',
                      'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ensemble_scheduling {', *steps, "}"])


ON_0, ON_1, ON_BOTH = (f"instance_group {{ kind: KIND_GPU gpus: [ {gpus} ] }}" for gpus in ("0", "1", "0, 1"))
BATCHES = "dynamic_batching { max_queue_delay_microseconds: 2000 }"
SEQUENCE = "sequence_batching { max_sequence_idle_microseconds: 60000000 }"
OWN = {
    "id_0": model(ON_0), "id_1": model(ON_1), "both": model(ON_BOTH), "anywhere": model(""),
    "cpu": model("instance_group { kind: KIND_CPU }"), "two": model(ON_0, n=2),
    "text": model(ON_0, data_type="TYPE_STRING"),
    "batches": model(ON_BOTH, 8, more=BATCHES),
    "sequences": model(ON_BOTH, 4, more=SEQUENCE),
}
MODELS = {
    **{name: {"config.pbtxt": text} for name, text in OWN.items()},
    "gpu_0": model_text(gpus=[0]), "gpu_1": model_text(gpus=[1]),
    "three": line("id_0", "id_0", "id_0"), "across": line("id_0", "id_1", "both"), "past_cpu": line("id_0", "cpu", "id_1"),
    "after_gpu": line("gpu_0", "id_0", "gpu_0"), "after_other_gpu": line("gpu_0", "id_1", "gpu_1", "id_0"),
}
TEN = numpy.arange(10, dtype=numpy.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton_identity")
    for name in OWN:
        (folder / "repository" / name).mkdir(parents=True)
        (folder / "repository" / name / LIBRARY).symlink_to(pathlib.Path(FOLDER).resolve() / "libtriton_identity.so")
    with opens_gpu_server(folder, MODELS, "--model-control-mode=explicit", "--load-model=*", *OPTIONS) as running:
        yield running


def ask(server, name, values, batched=False, session=requests, datatype="FP32", **parameters):
    shape = [1, len(values)] if batched else [len(values)]
    reply = session.post(f"{server.url}/v2/models/{name}/infer", timeout=SECONDS, json={
        "parameters": parameters,
        "inputs": [{"name": "INPUT0", "datatype": datatype, "shape": shape, "data": values}]})
    assert reply.status_code == 200, reply.text
    return reply.json()


def data_of(answer):
    return answer["outputs"][0]["data"]


@pytest.mark.parametrize("name", ["id_0", "id_1", "both", "anywhere", "cpu", "three", "across", "past_cpu", "after_gpu",
                                  "after_other_gpu"])
def test_repeats(server, name):
    for n in (1, 10, 50000):
        values = list(range(n))
        assert data_of(ask(server, name, values)) == values
    assert data_of(ask(server, name, [])) == []


def test_groups(server):
    """It names no kind that it prefers, so its models are on the GPUs."""
    config = requests.get(f"{server.url}/v2/models/anywhere/config", timeout=SECONDS).json()
    assert [(group["kind"], group["gpus"]) for group in config["instance_group"]] == [("KIND_GPU", [0, 1])]


def test_parameters_of_responses(server):
    assert ask(server, "id_0", [1])["parameters"] == {
        "param0": "an example string parameter", "param1": 42, "param2": False}


def test_texts(server):
    texts = ["", "a", "ü" * 1000]
    assert data_of(ask(server, "text", texts, datatype="BYTES")) == texts


def test_an_output_that_is_not_asked_for(server):
    inputs = [{"name": f"INPUT{i}", "datatype": "FP32", "shape": [2], "data": [i, i + 1]} for i in range(2)]
    reply = requests.post(f"{server.url}/v2/models/two/infer", timeout=SECONDS,
                          json={"inputs": inputs, "outputs": [{"name": "OUTPUT1"}]})
    assert [(one["name"], one["data"]) for one in reply.json()["outputs"]] == [("OUTPUT1", [1, 2])]


@pytest.mark.parametrize("name", ["batches", "across", "after_other_gpu"])
def test_many_at_once(server, name):
    def one(number):
        with requests.Session() as session:
            for i in range(20):
                values = [number * 100 + i] * (1 + number)
                assert data_of(ask(server, name, values, name == "batches", session)) == values

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for result in [pool.submit(one, number) for number in range(8)]:
            result.result()


def test_sequences(server):
    for i in range(3):
        for number in range(1, 9):
            assert data_of(ask(server, "sequences", [number, i], True, sequence_id=number, sequence_start=i == 0,
                               sequence_end=i == 2)) == [number, i]


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("name", ["id_0", "id_1", "both", "cpu", "three", "across", "past_cpu", "after_other_gpu"])
def test_regions(server, name, device):
    """Input and output in the client's memory, each alone and both, on a GPU that may be another than the instance's."""
    http = Http(server)
    for is_input, is_output in ((True, True), (True, False), (False, True)):
        with Region(http, TEN.tobytes() + bytes(PAGE), device=device) as gpu:
            one = {"name": "INPUT0", "datatype": "FP32", "shape": [10]}
            one.update({"parameters": place(("r", 0, 40))} if is_input else {"data": TEN.tolist()})
            output = {"name": "OUTPUT0", **({"parameters": place(("r", 400, 40))} if is_output else {})}
            reply = requests.post(f"{server.url}/v2/models/{name}/infer", timeout=SECONDS,
                                  json={"inputs": [one], "outputs": [output]})
            assert reply.status_code == 200, reply.text
            if is_output:
                assert gpu.read(400, 40) == TEN.tobytes() and gpu.read(440, 40) == bytes(40)
            else:
                assert data_of(reply.json()) == TEN.tolist()
    wait_until_closed(server)


def test_it_copies_itself(server):
    """The server hands it the client's memory and what steps left on its GPU, and copies nothing."""
    with Copies(server) as copies, Region(Http(server), TEN.tobytes() + bytes(PAGE)) as gpu:
        for name in ("id_0", "both", "three"):
            gpu.write(bytes(PAGE), 40)
            reply = requests.post(f"{server.url}/v2/models/{name}/infer", timeout=SECONDS, json={
                "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [10], "parameters": place(("r", 0, 40))}],
                "outputs": [{"name": "OUTPUT0", "parameters": place(("r", 400, 40))}]})
            assert reply.status_code == 200, reply.text
            assert gpu.read(400, 40) == TEN.tobytes()
    assert copies.bytes == {}


def test_reloads(server):
    for i in range(10):
        text = OWN["both"] + f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{i % 2}" }} }}\n'
        (server.repository / "both" / "config.pbtxt").write_text(text)
        load(server, "both")
        assert data_of(ask(server, "both", [i])) == [i]
