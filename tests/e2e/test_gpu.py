# SPDX-License-Identifier: BSD-3-Clause
"""Models on GPUs, over both protocols: the server runs on stand-ins of the driver, which end it when it uses a
device wrongly or leaves memory behind."""
import os

import numpy
import pytest
import requests

from conftest import patience
import infer_ways
from gpus import model_text, opens_gpu_server
from grpc_stubs import client, stubs  # noqa: F401
from infer_ways import Case, Tensor, content_of, strings, values_of
from models import EXPLICIT, load, unload

SECONDS = patience(20)
GPU, PINNED, CPU = 2, 1, 0
RELOADS = int(os.environ.get("NESO_RELOADS", "200"))
TAKES_SECONDS = 15

CONTENTS = {
    "BOOL": [True, False, True], "UINT8": [0, 1, 255], "UINT16": [0, 1, 65535],
    "UINT32": [0, 1, 2**32 - 1], "UINT64": [0, 1, 2**64 - 1], "INT8": [0, -128, 127],
    "INT16": [0, -2**15, 2**15 - 1], "INT32": [0, -2**31, 2**31 - 1],
    "INT64": [0, -2**63, 2**63 - 1], "FP32": [0.5, -1.0, 2.25], "FP64": [0.1, -1e300, 2.25],
}
SEQUENCE = ("sequence_batching { state { input_name: \"INPUT_STATE\" output_name: \"OUTPUT_STATE\""
            " data_type: TYPE_FP32 dims: [ 2 ] initial_state { data_type: TYPE_FP32 dims: [ 2 ]"
            " zero_data: true name: \"zero\" } } }")

MODELS = {
    "add": model_text("add"),
    "add_cpu": model_text("add", kind="KIND_CPU"),
    "add_cpu_inputs": model_text("add", cpu_inputs="true"),
    "add_cpu_outputs": model_text("add", cpu_outputs="true"),
    "add_scratch": model_text("add", scratch="server"),
    "add_batch": model_text("add", dims="[ 3 ]", max_batch_size=4, more="dynamic_batching {}"),
    "add_0": model_text("add", gpus=[0]),
    "add_1": model_text("add", gpus=[1]),
    "sum": model_text("state", dims="[ 2 ]", gpus=[0], more=SEQUENCE),
    "id_string": model_text(data_type="TYPE_STRING"),
    "id_fp16": model_text(data_type="TYPE_FP16"),
    "id_bf16": model_text(data_type="TYPE_BF16"),
    **{f"id_{name.lower()}": model_text(data_type=f"TYPE_{name}") for name in CONTENTS},
}
ADDS = [name for name in MODELS if name.startswith("add") and name != "add_batch"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with opens_gpu_server(tmp_path_factory.mktemp("gpu"), MODELS) as running:
        yield running


@pytest.fixture(params=["HttpJson", "HttpBinary", "GrpcRaw", "GrpcTyped", "GrpcStream"])
def way(request, server):
    make = getattr(infer_ways, request.param)
    grpc = request.param.startswith("Grpc")
    return make(request.getfixturevalue("client") if grpc else server)


def fp32(name, values, shape=None):
    return Tensor(name, "FP32", shape or (len(values),), content_of("FP32", values))


def add_case(model, n, **more):
    a, b = numpy.arange(n, dtype="f4"), numpy.arange(n, dtype="f4") / 2
    return Case(model, (fp32("INPUT0", a), fp32("INPUT1", b)), outputs=("OUTPUT0",), **more)


def ask(way, case):
    answer, = way.send([case])
    assert isinstance(answer, infer_ways.Answer), answer
    return {tensor.name: values_of(tensor) for tensor in answer.outputs}


# ---- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ADDS)
def test_add(way, model):
    """Sizes around that of a block of threads, and one that comes in several pieces."""
    for n in (0, 1, 256, 257, 100000):
        assert ask(way, add_case(model, n))["OUTPUT0"] == [1.5 * i for i in range(n)], n


def test_requests_of_a_batch(way):
    cases = [Case("add_batch", (fp32("INPUT0", [i] * 6, (2, 3)), fp32("INPUT1", [1.0] * 6, (2, 3))),
                  outputs=("OUTPUT0",)) for i in range(20)]
    answers = way.send(cases)
    assert [values_of(answer.outputs[0]) for answer in answers] == [[i + 1.0] * 6 for i in range(20)]


@pytest.mark.parametrize("datatype", CONTENTS)
def test_identity(way, datatype):
    values = CONTENTS[datatype]
    case = Case(f"id_{datatype.lower()}", (Tensor("INPUT0", datatype, (3,),
                                                  content_of(datatype, values)),), ("OUTPUT0",))
    assert ask(way, case)["OUTPUT0"] == values


def test_identity_of_strings(way):
    texts = [b"", b"short", b"x" * 100000]
    case = Case("id_string", (Tensor("INPUT0", "BYTES", (3,), strings(texts)),), ("OUTPUT0",))
    assert ask(way, case)["OUTPUT0"] == texts


@pytest.mark.parametrize("way", ["HttpBinary", "GrpcRaw"], indirect=True)
@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_identity_of_two_bytes(way, datatype):
    sent = Tensor("INPUT0", datatype, (3,), b"\x00\x3c\x01\x80\xff\x7b")
    answer, = way.send([Case(f"id_{datatype.lower()}", (sent,), ("OUTPUT0",))])
    assert answer.outputs[0].content == sent.content


# ---- where --------------------------------------------------------------------------------------


def test_where_inputs_lie(way):
    """What came over the network is on the host, whatever the backend prefers."""
    case = add_case("add", 3)
    where = ask(way, Case("add", case.inputs, ("WHERE",)))["WHERE"]
    assert len(where) == 4
    assert where[0] in (CPU, PINNED) and where[2] in (CPU, PINNED)


def test_devices_of_instances(server):
    """An instance on each device that may be used; the third one's compute capability is too low."""
    config = requests.get(f"{server.url}/v2/models/add/config", timeout=SECONDS).json()
    group, = config["instance_group"]
    assert (group["kind"], group["count"], group["gpus"]) == ("KIND_GPU", 1, [0, 1])
    config = requests.get(f"{server.url}/v2/models/add_1/config", timeout=SECONDS).json()
    assert config["instance_group"][0]["gpus"] == [1]


def test_missing_wait_is_seen(tmp_path):
    """The negative control of all others: a backend that does not wait for its stream answers with the bytes that a
    copy which has not run leaves there."""
    models = {"add": model_text("add", unsynchronised="true")}
    with opens_gpu_server(tmp_path, models, DELAY_US=10**9) as server:
        answer, = infer_ways.HttpBinary(server).send([add_case("add", 1000)])
    assert answer.outputs[0].content == b"\xcb" * 4000


# ---- sequences ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["HttpBinary", "GrpcRaw"], indirect=True)
def test_state_of_a_sequence(way):
    total = numpy.zeros(2)
    number = 7 if isinstance(way, infer_ways.Http) else 8
    for i in range(5):
        values = [float(i), 10.0 * i]
        total += values
        case = Case("sum", (fp32("INPUT0", values),), ("OUTPUT0",),
                    (("sequence_id", number), ("sequence_start", i == 0), ("sequence_end", i == 4)))
        assert ask(way, case)["OUTPUT0"] == total.tolist()


# ---- loads --------------------------------------------------------------------------------------


def ask_over_http(server, model):
    assert ask(infer_ways.HttpBinary(server), add_case(model, 1000))["OUTPUT0"] == [
        1.5 * i for i in range(1000)]


def test_reloads_leave_nothing(tmp_path):
    """Each of 200 loads (NESO_RELOADS) takes 1 MiB of a device that has 128: what it left would end the server or the test."""
    models = {"add": model_text("add"), "scratch": model_text("add", scratch="server")}
    with opens_gpu_server(tmp_path, models, *EXPLICIT, MEMORY=128 << 20) as server:
        for i in range(RELOADS):
            model = ("add", "scratch")[i % 2]
            load(server, model)
            ask_over_http(server, model)
            unload(server, model)


def test_no_memory_of_the_device(tmp_path):
    """A failed allocation is an error of its request, which names the driver's text."""
    models = {"add": model_text("add", gpus=[0])}
    control = tmp_path / "control"
    control.write_text("FAIL=cuMemAlloc:1+\n")
    with opens_gpu_server(tmp_path, models, CONTROL=control) as server:
        answer, = infer_ways.HttpBinary(server).send([add_case("add", 1000)])
        assert answer[0] == 500 and "CUDA_ERROR_OUT_OF_MEMORY" in answer[1], answer
        control.write_text("FAIL=\n")
        ask_over_http(server, "add")


def test_failed_load_leaves_nothing(tmp_path):
    models = {"add": model_text("add", gpus=[0])}
    control = tmp_path / "control"
    with opens_gpu_server(tmp_path, models, *EXPLICIT, CONTROL=control) as server:
        for function in ("cuStreamCreate", "cuModuleLoadData", "cuModuleGetFunction"):
            control.write_text(f"FAIL={function}:1+:999\n")
            assert function in load(server, "add", 400).json()["error"]
            control.write_text("FAIL=\n\n")
        load(server, "add")
        ask_over_http(server, "add")
