# SPDX-License-Identifier: BSD-3-Clause
"""CUDA shared memory and models with instances on GPUs: a tensor in a region is used where it lies."""
import concurrent.futures
import json
import struct
import time

import numpy
import pytest
import requests

from cuda_client import Memory
from gate import Gate, gated
from gpus import model_text, opens_gpu_server
from grpc_stubs import SECONDS, client, stubs  # noqa: F401
from models import wait_until
from scrape import metric, wait_for_pending
from test_cuda_shared_memory import OPTIONS, PAGE, Grpc, Http, Region, is_open, wait_until_closed
from test_shared_memory import Later, Object, assert_refused, place

GPU, PINNED, CPU = 2, 1, 0

MODELS = {
    "add_0": model_text("add", gpus=[0]),
    "add_1": model_text("add", gpus=[1]),
    "add_both": model_text("add", gpus=[0, 1]),
    "add_cpu": model_text("add", kind="KIND_CPU"),
    "add_cpu_outputs": model_text("add", gpus=[0], cpu_outputs="true"),
    "id_0": model_text("identity", gpus=[0]),
    "text_0": model_text("identity", gpus=[0], data_type="TYPE_STRING"),
}
TEN = numpy.arange(10, dtype=numpy.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with opens_gpu_server(tmp_path_factory.mktemp("cuda"), MODELS, *OPTIONS) as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def api(request, server):
    yield Http(server) if request.param == "http" else Grpc(request.getfixturevalue("client"))
    assert Http(server).status_cuda() == []
    wait_until_closed(server)


def ask_add(server, model, sources, target, n=10):
    """Where the backend saw its inputs: memory type and id of each. The sum goes to `target`."""
    body = {"inputs": [{"name": f"INPUT{i}", "datatype": "FP32", "shape": [n], "parameters": place(source)}
                       for i, source in enumerate(sources)],
            "outputs": [{"name": "OUTPUT0", **({"parameters": place(target)} if target else {})},
                        {"name": "WHERE"}]}
    reply = requests.post(f"{server.url}/v2/models/{model}/infer", json=body, timeout=SECONDS)
    assert reply.status_code == 200, reply.text
    outputs = {output["name"]: output.get("data") for output in reply.json()["outputs"]}
    where = outputs["WHERE"]
    return list(zip(where[::2], where[1::2])), outputs["OUTPUT0"]


@pytest.mark.parametrize("model, seen", [("add_0", [(GPU, 0), (GPU, 0)]),
                                         ("add_cpu_outputs", [(GPU, 0), (GPU, 0)])])
def test_in_place(server, model, seen):
    """Inputs reach the backend in the client's memory, and the output is written there, whatever the backend
    prefers."""
    http = Http(server)
    content = TEN.tobytes() + (2 * TEN).tobytes() + bytes(PAGE)
    with Region(http, content) as gpu:
        assert ask_add(server, model, [("r", 0, 40), ("r", 40, 40)], ("r", 400, 40)) == (seen, None)
        assert gpu.read(400, 40) == (3 * TEN).tobytes()
        assert gpu.read(0, 80) == content[:80] and gpu.read(440, 100) == bytes(100)
        # Without a region for the output the answer has it.
        assert ask_add(server, model, [("r", 0, 40), ("r", 40, 40)], None) == (
            seen, (3 * TEN).tolist())


def test_cpu_model_sees_the_host(server):
    with Region(Http(server), TEN.tobytes() + bytes(PAGE)) as gpu:
        where, _ = ask_add(server, "add_cpu", [("r", 0, 40), ("r", 0, 40)], ("r", 400, 40))
        assert all(kind != GPU for kind, _ in where)
        assert gpu.read(400, 40) == (2 * TEN).tobytes()


@pytest.mark.parametrize("model", ["add_0", "add_1", "add_both", "add_cpu"])
def test_mixed(server, model):
    """Inputs of both kinds and of two devices in one request; the output on either, or on the host."""
    http = Http(server)
    with Object(TEN.tobytes() + bytes(PAGE)) as shm, \
            Region(http, (10 * TEN).tobytes() + bytes(PAGE), "zero") as zero, \
            Region(http, (100 * TEN).tobytes() + bytes(PAGE), "one", device=1) as one:
        http.register("host", shm.key, PAGE)
        factors = {"host": 1, "zero": 10, "one": 100}
        memory = {"host": shm, "zero": zero, "one": one}
        for a in factors:
            for b in factors:
                for target in factors:
                    ask_add(server, model, [(a, 0, 40), (b, 0, 40)], (target, 512, 40))
                    assert memory[target].read(512, 40) == (
                        (factors[a] + factors[b]) * TEN).tobytes(), (a, b, target)
        http.unregister("host")


def test_round_trip(api):
    raw = struct.pack("<3f", 1, 2, 3)
    with Region(api, raw + bytes(PAGE)) as gpu:
        assert api.infer("id_0", "FP32", [3], ("r", 0, 12), ("r", 100, 12)) == ([3], b"")
        assert gpu.read(100, 12) == raw
        assert api.infer("id_0", "FP32", [3], ("r", 100, 12)) == ([3], raw)
        assert api.infer("id_0", "FP32", [3], raw[::-1], ("r", 0, 12)) == ([3], b"")
        assert gpu.read(0, 12) == raw[::-1]
        assert api.infer("id_0", "FP32", [0], ("r", 0, 0), ("r", 8, 0)) == ([0], b"")
        assert_refused(400, "shared memory size specified with the request for output 'OUTPUT0' (11 "
                       "bytes) should be at least 12 bytes to hold the results", api.infer, "id_0",
                       "FP32", [3], ("r", 0, 12), ("r", 100, 11))


def test_strings(api):
    raw = struct.pack("<I", 3) + b"abc" + struct.pack("<I", 0)
    with Region(api, raw + bytes(PAGE)) as gpu:
        assert api.infer("text_0", "BYTES", [2], ("r", 0, len(raw)), ("r", 100, len(raw))) == (
            [2], b"")
        assert gpu.read(100, len(raw)) == raw


def test_large(api):
    values = numpy.arange(1 << 20, dtype=numpy.float32).tobytes()
    with Region(api, values + bytes(4 << 20)) as gpu:
        assert api.infer("id_0", "FP32", [1 << 20], ("r", 0, 4 << 20), ("r", 4 << 20, 4 << 20)) == (
            [1 << 20], b"")
        assert gpu.read(4 << 20, 4 << 20) == values


def test_unregistered_while_used(api, server):
    """A region that is unregistered between a request's start and its end; many at a time."""
    raw = struct.pack("<f", 5)
    with Memory(raw + bytes(PAGE)) as gpu:
        handle = gpu.handle()
        for i in range(50):
            api.register_cuda("r", handle, PAGE)
            asked = [Later(api.infer, "id_0", "FP32", [1], ("r", 0, 4), ("r", 8 * k + 8, 4))
                     for k in range(4)]
            api.unregister_cuda("r")
            for later in asked:
                try:
                    assert later.result() == ([1], b"")
                except Exception as err:  # it came after the name was gone
                    assert "Unable to find shared memory region: 'r'" in str(err)
        wait_until_closed(server)
        assert not is_open(server)


def test_later_runs_of_a_request_have_no_part_in_its_copies(tmp_path):
    """An iterative sequence: the input is copied for the first run, whose time for inputs includes that."""
    text = ('backend: "testing" instance_group { kind: KIND_CPU }\n'
            'input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }\n'
            'output { name: "SUM" data_type: TYPE_INT32 dims: 1 }\n'
            'parameters { key: "iterations" value { string_value: "2" } }\n'
            "sequence_batching { max_sequence_idle_microseconds: 60000000 iterative_sequence: true }\n")
    with opens_gpu_server(tmp_path, {"m": gated(text)}, *OPTIONS) as server, \
            Region(Http(server), struct.pack("<i", 7) + bytes(PAGE)), Gate(server, "m") as gate:
        answer = Later(requests.post, f"{server.url}/v2/models/m/infer", json.dumps(
            {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "parameters": place(("r", 0, 4))}]}))
        gate.wait()
        begin_ns = time.monotonic_ns()
        for _ in range(50):  # takes longer than a copy
            assert requests.get(f"{server.url}/v2/models/m", timeout=SECONDS).status_code == 200
        first_ns = time.monotonic_ns() - begin_ns
        gate.open(2)
        assert answer.result().status_code == 200, answer.result().text
        [entry] = requests.get(f"{server.url}/v2/models/m/stats", timeout=SECONDS).json()["model_stats"]
        assert entry["execution_count"] == 2
        assert first_ns < entry["batch_stats"][0]["compute_input"]["ns"] < 2 * first_ns  # the backend's clock starts late
        assert entry["inference_stats"]["compute_input"]["ns"] < first_ns


@pytest.mark.parametrize("strategy", ["direct { }", "oldest { max_candidate_sequences: 4 }"], ids=("direct", "oldest"))
def test_a_failed_copy_refuses_its_request_of_a_batch_of_sequences(tmp_path, strategy):
    """The other sequences of the batch go on, and those of slots stay in their slots."""
    control = tmp_path / "control"
    control.write_text("")
    text = ('backend: "testing" max_batch_size: 4 instance_group { kind: KIND_CPU }\n'
            'input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }\n'
            'output { name: "SUM" data_type: TYPE_INT32 dims: 1 }\n'
            'output { name: "REQUESTS" data_type: TYPE_INT32 dims: 1 }\n'
            f"sequence_batching {{ max_sequence_idle_microseconds: 60000000 {strategy} }}\n")

    def infer(sequence, value, start=True, end=False):
        tensor = {"name": "INPUT0", "datatype": "INT32", "shape": [1, 1]}
        tensor.update({"data": [value]} if value is not None else {"parameters": place(("r", 0, 4))})
        return requests.post(f"{server.url}/v2/models/m/infer", timeout=SECONDS, json={
            "parameters": {"sequence_id": sequence, "sequence_start": start, "sequence_end": end},
            "inputs": [tensor]})

    def sums(reply):
        assert reply.status_code == 200, reply.text
        return {output["name"]: output["data"][0] for output in reply.json()["outputs"]}

    with opens_gpu_server(tmp_path, {"m": gated(text)}, "--exit-timeout-secs=8", *OPTIONS,
                          CONTROL=control) as server, concurrent.futures.ThreadPoolExecutor() as pool, \
            Region(Http(server), struct.pack("<i", 7) + bytes(PAGE)), Gate(server, "m") as gate:
        first = pool.submit(infer, 1, 1)
        gate.wait()
        others = [pool.submit(infer, 2, 2)]
        wait_for_pending(server, "m", 1)
        failing = pool.submit(infer, 3, None)
        wait_for_pending(server, "m", 2)
        others.append(pool.submit(infer, 4, 4))
        wait_for_pending(server, "m", 3)
        control.write_text("FAIL=cuMemcpyDtoHAsync:1+:700\n")
        gate.open(2)
        assert sums(first.result())["SUM"] == 1
        refused = failing.result()
        assert refused.status_code == 503 and "an input cannot be copied from a device" in refused.text
        assert [sums(other.result())["SUM"] for other in others] == [2, 4]
        control.write_text("")
        gate.open(3)
        assert [sums(infer(sequence, 10, False, True))["SUM"] for sequence in (1, 2, 4)] == [11, 12, 14]


@pytest.mark.parametrize("more", ["", "dynamic_batching { }"], ids=("plain", "dynamic_batching"))
def test_no_loop_waits_for_a_copy(tmp_path, more):
    """A small model on the CPU runs on the loops, but for requests whose inputs are copied from a GPU."""
    text = ('backend: "identity" max_batch_size: 4\n'
            'input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }\n'
            f'parameters {{ key: "inline_execution" value {{ string_value: "always" }} }}\n{more}\n')

    def infer(is_shared):
        tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 10]}
        tensor.update({"parameters": place(("r", 0, 40))} if is_shared else {"data": TEN.tolist()})
        reply = requests.post(f"{server.url}/v2/models/m/infer", json={"inputs": [tensor]}, timeout=SECONDS)
        assert reply.json()["outputs"][0]["data"] == TEN.tolist()

    def runs_here(is_shared):
        before = metric(server, "neso_executions_total", "m", path="inline")
        infer(is_shared)
        return metric(server, "neso_executions_total", "m", path="inline") > before

    with opens_gpu_server(tmp_path, {"m": text}, *OPTIONS) as server, \
            Region(Http(server), TEN.tobytes() + bytes(PAGE)):
        for _ in range(5):
            # Not before the instance's thread is idle, which answers first.
            wait_until(lambda: runs_here(False))
            assert not runs_here(True)
