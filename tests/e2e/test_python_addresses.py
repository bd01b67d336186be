# SPDX-License-Identifier: BSD-3-Clause
"""Addresses of the memory that a Python model and the server share: as many as are needed, with growth."""
import concurrent.futures
import json
import pathlib
import re
import resource

import pytest
import requests

from conftest import is_sanitized
from python_programs import PYTHON, model, start, stub_of  # noqa: F401 - a fixture

TAKES_SECONDS = 20
BACKENDS = ("python",)
pytestmark = pytest.mark.skipif(is_sanitized(), reason="sanitizers reserve more addresses themselves")

MIB = 1 << 20
IO = """input { name: "X" data_type: TYPE_UINT8 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_UINT8 dims: [ -1 ] }
"""
BEGIN = """
import resource
import numpy as np
import triton_python_backend_utils as pb_utils


def answer(array):
    return pb_utils.InferenceResponse([pb_utils.Tensor("Y", array)])


def addresses():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


class TritonPythonModel:
    def x(self, request):
        return request.inputs()[0].as_numpy()
"""
# Answers with a copy, in the stub's memory. Keeps the first input and checks it each time.
COPY = BEGIN + """
    first = None

    def execute(self, requests):
        if self.first is None:
            self.first = self.x(requests[0])
        assert (self.first == 7).all()
        return [answer(self.x(r).copy()) for r in requests]
"""
# Answers with the last byte: the stub's memory stays small.
LAST = BEGIN + """
    def execute(self, requests):
        return [answer(self.x(r)[..., -1:].copy()) for r in requests]
"""
# The first byte is the number of MiB that it may still map from now on, 0: no change; the second one the
# number of MiB of the answer, 0: a byte.
LIMITED = BEGIN + """
    def execute(self, requests):
        for r in requests:
            room = int(self.x(r).reshape(-1)[0])
            if room:
                resource.setrlimit(resource.RLIMIT_AS, (addresses() + (room << 20), -1))
        return [self.run(r) for r in requests]

    def run(self, request):
        n = int(self.x(request).reshape(-1)[1])
        return answer(np.full(self.x(request).shape[:-1] + (n << 20 or 1,), 5, np.uint8))
"""
# A call of that one by a model whose process has room for the given number of MiB.
CALLER = BEGIN + """
    def execute(self, requests):
        x = self.x(requests[0])
        resource.setrlimit(resource.RLIMIT_AS, (addresses() + (int(x[0]) << 20), -1))
        response = pb_utils.InferenceRequest(
            model_name="limited", requested_output_names=["Y"],
            inputs=[pb_utils.Tensor("X", np.array([0, x[1]], np.uint8))]).exec()
        if response.has_error():
            return [pb_utils.InferenceResponse(error=response.error())]
        return [answer(np.array([len(response.output_tensors()[0].as_numpy()) >> 20], np.uint8))]
"""
BATCH = """max_batch_size: 4
dynamic_batching { preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 10000000 }
"""
LARGE_BODIES = "--http-max-input-size=300000000"
# Its thread has a stack and a heap of its own.
NO_PAGE = "--allow-dashboard=false"
NO_MEMORY = r"Failed to increase the shared memory pool size"


def ask(server, name, data, shape=None):
    """The status, and the bytes of the output or the error."""
    shape = shape or [len(data)]
    head = json.dumps({"parameters": {"binary_data_output": True}, "inputs": [
        {"name": "X", "shape": shape, "datatype": "UINT8",
         "parameters": {"binary_data_size": len(data)}}]}).encode()
    answer = requests.post(f"{server.url}/v2/models/{name}/infer", data=head + data, timeout=60,
                           headers={"Inference-Header-Content-Length": str(len(head))})
    if answer.status_code != 200:
        return answer.status_code, answer.json()["error"]
    return 200, answer.content[int(answer.headers["Inference-Header-Content-Length"]):]


def addresses_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def limited(n_mib):
    return ("prlimit", f"--as={n_mib * MIB}")


def mapped(pid):
    """Sizes of the mappings of the shared memory in MiB, in the order of the file."""
    found = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) .*neso_python",
                       pathlib.Path(f"/proc/{pid}/maps").read_text(), re.M)
    sizes = {int(at, 16): int(end, 16) - int(begin, 16) for begin, end, at in found}
    return [sizes[at] / MIB for at in sorted(sizes) if at > 0]


def test_small_and_large_tensors_under_a_limit(start):
    server = start({"copy": model(COPY, io=IO)}, LARGE_BODIES, under=limited(2048))
    stub = stub_of(server, "copy_0")
    assert ask(server, "copy", b"\7" * 5) == (200, b"\7" * 5)
    assert mapped(stub) == mapped(server.process.pid) == [2, 2]
    for n in 1, 8, 64, 100:
        data = bytes([n]) * (n * MIB)
        assert ask(server, "copy", data) == (200, data)
    for n in 64, 1, 100, 64, 100:
        assert ask(server, "copy", bytes(n * MIB)) == (200, bytes(n * MIB))
    assert sum(mapped(server.process.pid)) < 500  # 2 * (2 + 8 + 64 + 100), unless the last block was late
    assert ask(server, "copy", b"\3") == (200, b"\3")
    assert stub_of(server, "copy_0") == stub


def test_growing_sizes_do_not_add_up(start):
    """Addresses that no tensor uses are returned before a request is refused."""
    server = start({"last": model(LAST, io=IO)}, LARGE_BODIES, NO_PAGE, under=limited(1150))
    stub = stub_of(server, "last_0")
    assert addresses_of(server.process.pid) + sum(range(32, 144, 16)) * MIB > 1150 * MIB
    for n in range(32, 144, 16):
        data = bytes(n * MIB - 1) + bytes([n])
        assert ask(server, "last", data) == (200, bytes([n]))
    assert stub_of(server, "last_0") == stub


def test_a_request_beyond_the_limit_fails_alone(start):
    server = start({"last": model(LAST, io=IO), "copy": model(COPY, io=IO)}, LARGE_BODIES)
    stub = stub_of(server, "last_0")
    assert ask(server, "last", b"1") == (200, b"1")
    pid = server.process.pid
    data = bytes(199 * MIB) + b"2"
    resource.prlimit(pid, resource.RLIMIT_AS, (addresses_of(pid) + 330 * MIB, -1))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        large = pool.submit(ask, server, "last", data)
        assert ask(server, "copy", b"\7" * 9) == (200, b"\7" * 9)
        status, text = large.result()
    assert (status, bool(re.match(NO_MEMORY + r" to \d+ bytes\. .*`ulimit -v`", text))) == (500, True)
    for _ in range(3):
        assert ask(server, "last", b"3") == (200, b"3")
        assert ask(server, "last", bytes(20 * MIB) + b"4") == (200, b"4")
    resource.prlimit(pid, resource.RLIMIT_AS, (-1, -1))
    assert ask(server, "last", data) == (200, b"2")
    assert stub_of(server, "last_0") == stub


def test_an_answer_beyond_the_limit_fails_alone(start):
    """The process, or the server, has no addresses for it."""
    server = start({"limited": model(LIMITED, io=IO)})
    stub = stub_of(server, "limited_0")
    status, text = ask(server, "limited", bytes([190, 128]))  # 128 for the array, 128 for its copy
    assert (status, bool(re.search(NO_MEMORY + r" to \d+ bytes\. ", text))) == (500, True)
    assert ask(server, "limited", bytes([0, 0])) == (200, b"\5")
    assert ask(server, "limited", bytes([0, 20])) == (200, b"\5" * (20 * MIB))
    resource.prlimit(stub, resource.RLIMIT_AS, (-1, -1))
    pid = server.process.pid
    # The loop may give back the buffer of the last answer, 32 MiB, before it has the next one.
    resource.prlimit(pid, resource.RLIMIT_AS, (addresses_of(pid) + 64 * MIB, -1))
    status, text = ask(server, "limited", bytes([0, 128]))
    assert (status, bool(re.search(NO_MEMORY + r" to \d+ bytes\. ", text))) == (500, True)
    assert ask(server, "limited", bytes([0, 16])) == (200, b"\5" * (16 * MIB))
    resource.prlimit(pid, resource.RLIMIT_AS, (-1, -1))
    assert ask(server, "limited", bytes([0, 128])) == (200, b"\5" * (128 * MIB))
    assert stub_of(server, "limited_0") == stub


def test_a_request_that_the_process_cannot_map(start):
    server = start({"limited": model(LIMITED, io=IO)})
    stub = stub_of(server, "limited_0")
    assert ask(server, "limited", bytes([50, 0])) == (200, b"\5")
    for _ in range(3):
        assert ask(server, "limited", bytes(64 * MIB)) == (
            500, NO_MEMORY + ". The Python process has no more addresses (`ulimit -v`).")
        assert ask(server, "limited", bytes([0, 0])) == (200, b"\5")
        assert ask(server, "limited", bytes(16 * MIB)) == (200, b"\5")
    resource.prlimit(stub, resource.RLIMIT_AS, (-1, -1))
    assert ask(server, "limited", bytes(64 * MIB)) == (200, b"\5")
    assert stub_of(server, "limited_0") == stub


@pytest.mark.parametrize("way", ["returns", "sends", "coroutine"])
def test_a_request_of_a_batch_that_the_process_cannot_map(start, way):
    program, config = LIMITED, BATCH
    if way == "sends":
        program = program.replace(
            "return [self.run(r) for r in requests]",
            "[r.get_response_sender().send(self.run(r), flags=1) for r in requests]")
    if way == "coroutine":
        program = program.replace("def execute", "async def execute")
        config += 'parameters { key: "ASYNC_CONCURRENCY" value { string_value: "2" } }\n'
    server = start({"limited": model(program, config,
                                     io=IO.replace("}", "allow_ragged_batch: true }", 1))})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        def ask_both(first, second):
            return [task.result() for task in [
                pool.submit(ask, server, "limited", data, [1, len(data)]) for data in (first, second)]]

        assert ask_both(bytes([50, 0]), bytes([0, 0])) == [(200, b"\5")] * 2
        large, small = ask_both(bytes(64 * MIB), bytes([0, 2]))
        assert small == (200, b"\5" * (2 * MIB))
        assert large == (500, NO_MEMORY + ". The Python process has no more addresses (`ulimit -v`).")
        assert [status for status, _ in ask_both(bytes(64 * MIB), bytes(64 * MIB))] == [500, 500]
        assert ask_both(bytes([0, 0]), bytes([0, 1])) == [(200, b"\5"), (200, b"\5" * MIB)]


def test_an_output_of_a_called_model_that_the_process_cannot_map(start):
    server = start({"limited": model(LIMITED, io=IO), "caller": model(CALLER, io=IO)})
    stub = stub_of(server, "caller_0")
    assert ask(server, "caller", bytes([200, 10])) == (200, bytes([10]))
    for _ in range(3):
        assert ask(server, "caller", bytes([50, 64])) == (
            500, NO_MEMORY + ". The Python process has no more addresses (`ulimit -v`).")
        assert ask(server, "caller", bytes([50, 10])) == (200, bytes([10]))
    assert ask(server, "caller", bytes([200, 64])) == (200, bytes([64]))
    assert stub_of(server, "caller_0") == stub


def test_many_instances_under_a_limit(start):
    config = "instance_group { count: 20 kind: KIND_CPU }\n"
    server = start({"copy": model(COPY, config, io=IO)}, under=limited(3072))
    data = b"\7" * (3 * MIB)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert all(answer == (200, data)
                   for answer in pool.map(lambda _: ask(server, "copy", data), range(60)))


def test_a_limit_too_small_for_the_first_size(start, tmp_path):
    """The server has the addresses, the process has not."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec prlimit --as=500000000 {PYTHON} "$@"\n')
    python.chmod(0o700)
    server = start({"copy": model(COPY, io=IO)}, "--exit-on-error=false",
                   f"--backend-config=python,python-path={python}",
                   "--backend-config=python,shm-default-byte-size=1000000000")
    assert re.search(r"failed to load 'copy' version 1: Internal: \S+ cannot map the memory that it shares "
                     r"with the server: ", server.text())
    assert requests.get(f"{server.url}/v2/health/live", timeout=10).status_code == 200


@pytest.mark.parametrize("setting, at_first, after", [
    ("shm-default-byte-size=67108864", [32, 32], [32, 32]),
    ("shm-growth-byte-size=33554432", [2, 2], [2, 32, 2, 32]),
])
def test_sizes_can_be_set(start, setting, at_first, after):
    server = start({"copy": model(COPY, io=IO)}, f"--backend-config=python,{setting}")
    assert ask(server, "copy", b"\7") == (200, b"\7")
    assert mapped(server.process.pid) == at_first
    assert ask(server, "copy", bytes(8 * MIB)) == (200, bytes(8 * MIB))
    assert mapped(server.process.pid) == mapped(stub_of(server, "copy_0")) == after
