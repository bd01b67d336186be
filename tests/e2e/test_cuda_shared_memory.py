# SPDX-License-Identifier: BSD-3-Clause
"""Tensors in CUDA shared memory, over both protocols: the server runs on stand-ins of GPUs, which end it when
it uses their memory wrongly, and the tests' process is the client to which the memory belongs."""
import base64
import gzip
import json
import os
import struct
import subprocess
import threading

import numpy
import pytest
import requests

import cuda_client
import scrape
import test_shared_memory as system
from conftest import is_sanitized, require_build
from cuda_client import Memory, Other
from gate import Gate, gated
from gpus import fake_gpus, opens_gpu_server
from grpc_stubs import SECONDS, client, stubs  # noqa: F401
from test_http_infer import TYPES, identity, strings
from test_shared_memory import CUDA, SYSTEM, Later, Object, assert_refused, place

BACKENDS = ("identity", "testing")
OPTIONS = ("--allow-client-shm=true",)
PAGE = 4096

SLOW = system.SLOW
EAGER = 'parameters { key: "inline_execution" value { string_value: "always" } }'
MODELS = {f"id_{name.lower()}": identity(kind_of, [-1]) for name, (kind_of, _, _) in TYPES.items()}
MODELS.update({
    "id_bytes": identity("TYPE_STRING", [-1]),
    "fixed": identity("TYPE_FP32", [16]),
    "batched": identity("TYPE_FP32", [4], 8, "dynamic_batching {}"),
    "slow": gated(SLOW),
    "eager": identity("TYPE_FP32", [-1], 0, EAGER),
    "eager_steps": """platform: "ensemble" input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
ensemble_scheduling {
  step { model_name: "eager" model_version: -1
         input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "t" } }
  step { model_name: "eager" model_version: -1
         input_map { key: "INPUT0" value: "t" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }
}""",
    "decoupled": SLOW + "model_transaction_policy { decoupled: true }\n"
                 'parameters { key: "responses" value { string_value: "2" } }\n',
})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    require_build(BACKENDS)
    with opens_gpu_server(tmp_path_factory.mktemp("cuda"), MODELS, *OPTIONS) as running:
        yield running


# ---- two clients with the same words ------------------------------------------------------------


class Http(system.Http):
    def register_cuda(self, name, handle, byte_size, device=0):
        body = {"raw_handle": {"b64": base64.b64encode(handle).decode()}, "device_id": device,
                "byte_size": byte_size}
        assert self.ask("POST", f"{CUDA}/region/{name}/register", body).content == b""

    def unregister_cuda(self, name=None):
        path = f"{CUDA}/region/{name}/unregister" if name else f"{CUDA}/unregister"
        assert self.ask("POST", path).content == b""

    def status_cuda(self, name=None):
        return self.ask("GET", f"{CUDA}/region/{name}/status" if name else f"{CUDA}/status").json()


class Grpc(system.Grpc):
    def register_cuda(self, name, handle, byte_size, device=0):
        assert self.ask("CudaSharedMemoryRegister", name=name, raw_handle=handle, device_id=device,
                        byte_size=byte_size).ByteSize() == 0

    def unregister_cuda(self, name=""):
        assert self.ask("CudaSharedMemoryUnregister", name=name).ByteSize() == 0

    def status_cuda(self, name=""):
        regions = self.ask("CudaSharedMemoryStatus", name=name).regions
        assert all(key == region.name for key, region in regions.items())
        return [{"name": name, "device_id": regions[name].device_id,
                 "byte_size": regions[name].byte_size} for name in sorted(regions)]


def is_open(server):
    """Whether the server has memory of this process open."""
    mine = cuda_client.files_of(os.getpid())
    return any(number in mine for number in cuda_client.mapped_files(server.process.pid))


@pytest.fixture(params=["http", "grpc"])
def api(request, server):
    """Each test begins and ends with an empty registry."""
    yield Http(server) if request.param == "http" else Grpc(request.getfixturevalue("client"))
    assert Http(server).status_cuda() == []
    assert Http(server).status() == []
    assert not is_open(server)


class Region(Memory):
    """Memory that is registered under a name while the block runs."""

    def __init__(self, api, content, name="r", device=0):
        super().__init__(content, device)
        self.api, self.name = api, name

    def __enter__(self):
        self.api.register_cuda(self.name, self.handle(), self.n, self.device)
        return self

    def __exit__(self, *what):
        self.api.unregister_cuda(self.name)
        super().__exit__(*what)


# ---- the registry -------------------------------------------------------------------------------


def test_register_and_status(api, server):
    assert api.status_cuda() == []
    with Memory(bytes(PAGE)) as a, Memory(bytes(2 * PAGE), device=1) as b:
        api.register_cuda("b", b.handle(), 2 * PAGE, 1)
        api.register_cuda("a", a.handle(), 10)
        api.register_cuda("a2", a.handle(), PAGE)  # one allocation, two names
        entry = {"name": "b", "device_id": 1, "byte_size": 2 * PAGE}
        assert api.status_cuda("b") == [entry]
        assert api.status_cuda() == [{"name": "a", "device_id": 0, "byte_size": 10},
                                     {"name": "a2", "device_id": 0, "byte_size": PAGE}, entry]
        assert Http(server).status_cuda() == api.status_cuda()
        assert api.status() == []
        api.unregister_cuda("a")
        api.unregister_cuda("nobody")
        assert_refused(404, "Unable to find cuda shared memory region: 'a'", api.status_cuda, "a")
        api.unregister_cuda()
        assert api.status_cuda() == []
        assert not is_open(server)


def test_kinds(api, server):
    """One set of names; what is done to one kind leaves the other alone."""
    with Object(bytes(PAGE)) as shm, Memory(bytes(PAGE)) as gpu:
        api.register("host", shm.key, PAGE)
        api.register_cuda("gpu", gpu.handle(), PAGE)
        for name, call in (("gpu", lambda: api.register("gpu", shm.key, PAGE)),
                           ("host", lambda: api.register_cuda("host", gpu.handle(), PAGE))):
            if api.name == "http":
                assert_refused(400, f"shared memory region '{name}' already in manager", call)
        assert_refused(404, "The region named 'gpu' is registered as CUDA shared memory, not system "
                       "shared memory", api.status, "gpu")
        assert_refused(404, "The region named 'host' is registered as system shared memory, not "
                       "CUDA shared memory", api.status_cuda, "host")
        api.unregister("gpu")
        api.unregister_cuda("host")
        api.unregister()
        assert (api.status(), len(api.status_cuda())) == ([], 1)
        api.register("host", shm.key, PAGE)
        api.unregister_cuda()
        assert (len(api.status()), api.status_cuda()) == (1, [])
        assert not is_open(server)
        api.unregister()


INVALID_ARGS = "failed to register shared memory region: invalid args"


def test_hostile_handles(api, server):
    with Memory(bytes(PAGE)) as gpu:
        good = gpu.handle()
        numbers = numpy.random.default_rng(1)
        for handle in (bytes(64), b"\xff" * 64, *(numbers.bytes(64) for _ in range(20)),
                       b"\x00" + good[1:]):
            assert_refused(400, INVALID_ARGS, api.register_cuda, "r", handle, 1)
        for n in (0, 1, 63, 65, 512):
            assert_refused(400, f"failed to register shared memory region 'r': raw_handle has {n} "
                           "bytes, a handle has 64", api.register_cuda, "r",
                           (good * 9)[:n], 1)
        for byte_size in (PAGE + 1, 1 << 40, (1 << 64) - 1):
            assert_refused(400, INVALID_ARGS, api.register_cuda, "r", good, byte_size)
        assert_refused(400, "failed to register shared memory region 'r': byte_size must be greater "
                       "than 0", api.register_cuda, "r", good, 0)
        # Of another device.
        assert_refused(400, INVALID_ARGS, api.register_cuda, "r", good, 1, 1)
        for device in (7, (1 << 63) - 1, 1 << 32):
            assert_refused(400, "failed to register shared memory region 'r': unknown device_id "
                           f"{device}, the server has these GPUs: 0,1", api.register_cuda, "r",
                           good, 1, device)
        if api.name == "grpc":
            assert_refused(400, "failed to register shared memory region 'r': unknown device_id -1, "
                           "the server has these GPUs: 0,1", api.register_cuda, "r", good, 1, -1)
        assert api.status_cuda() == []
        assert not is_open(server)
        api.register_cuda("r", good, PAGE)  # the right one is accepted after all of these
        api.unregister_cuda("r")
    assert any("shared memory region 'r' of 1 bytes on GPU 0 cannot be opened: " in line
               for line in server.log)


@pytest.mark.parametrize("body, text", [
    (b"{}", "Shared memory register request has no 'raw_handle' field"),
    (b'{"raw_handle":{"b64":"AA=="}}', "Shared memory register request has no 'device_id' field"),
    (b'{"raw_handle":{"b64":"AA=="},"device_id":0}',
     "Shared memory register request has no 'byte_size' field"),
    (b'{"raw_handle":{"b64":"AA=="},"device_id":-1,"byte_size":1}',
     "Unable to parse 'device_id': attempt to access JSON non-unsigned-integer as "
     "unsigned-integer"),
    (b'{"raw_handle":"AA==","device_id":0,"byte_size":1}',
     "Unable to parse 'raw_handle': attempt to access JSON non-object as object"),
    (b'{"raw_handle":{},"device_id":0,"byte_size":1}',
     "Unable to parse 'b64': attempt to access non-existing object member 'b64'"),
    (b"", "failed to parse the request JSON buffer: The document is empty. at 0"),
], ids=lambda value: str(value)[:40])
def test_bad_bodies(server, body, text):
    reply = requests.post(f"{server.url}{CUDA}/region/r/register", data=body, timeout=SECONDS)
    assert (reply.status_code, reply.json()["error"]) == (400, text)


# ---- inference ----------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("name", TYPES)
def test_round_trip(api, name, device):
    """Bit for bit, input and output in one region; what lies around the output is left alone."""
    raw = struct.pack(f"<3{TYPES[name][1]}", *TYPES[name][2])
    content = bytearray(os.urandom(3 * PAGE))
    content[64:64 + len(raw)] = raw
    with Region(api, bytes(content), device=device) as gpu:
        model = f"id_{name.lower()}"
        assert api.infer(model, name, [3], ("r", 64, len(raw)),
                         ("r", PAGE + 1, len(raw) + 5)) == ([3], b"")
        content[PAGE + 1:PAGE + 1 + len(raw)] = raw
        assert gpu.read(0, 3 * PAGE) == content
        # Only the one or the other.
        assert api.infer(model, name, [3], ("r", 64, len(raw))) == ([3], raw)
        assert api.infer(model, name, [3], raw[::-1] if name != "BOOL" else raw,
                         ("r", 0, len(raw))) == ([3], b"")
        assert gpu.read(0, len(raw)) == (raw[::-1] if name != "BOOL" else raw)


def test_mixed(api):
    """System memory and memory of two devices, in each combination."""
    raw = struct.pack("<2f", 1, 2)
    with Object(raw + bytes(PAGE)) as shm, Region(api, raw + bytes(PAGE), "zero") as zero, \
            Region(api, raw + bytes(PAGE), "one", device=1) as one:
        api.register("host", shm.key, PAGE)
        places = {"host": shm, "zero": zero, "one": one}
        for i, source in enumerate(places):
            for k, target in enumerate(places):
                at = 64 + 8 * (3 * i + k)
                assert api.infer("id_fp32", "FP32", [2], (source, 0, 8), (target, at, 8)) == (
                    [2], b"")
                assert places[target].read(at, 8) == raw
        api.unregister("host")


def test_strings(api):
    raw = strings(b"", b"abc", "\u00fc".encode(), bytes(300))
    with Region(api, raw + bytes(2 * PAGE)) as gpu:
        assert api.infer("id_bytes", "BYTES", [4], ("r", 0, len(raw)), ("r", 1024, 1024)) == (
            [4], b"")
        assert gpu.read(1024, len(raw)) == raw
        # A length that leads out of the tensor.
        gpu.write(struct.pack("<I", 5000), 7)
        with pytest.raises(system.Refused, match="id_bytes") as caught:
            api.infer("id_bytes", "BYTES", [4], ("r", 0, len(raw)))
        assert caught.value.pair[0] == 400


def executions(server, model):
    """How many ran on the thread that read the request, and on another one."""
    return [scrape.metric(server, "neso_executions_total", model, path=path) for path in ("inline", "queued")]


@pytest.mark.parametrize("name", ["eager", "eager_steps"])
def test_no_loop_waits_for_an_output(api, server, name):
    """The copy to the region is made by the instance's thread, also of the last step of an ensemble."""
    raw = struct.pack("<2f", 1, 2)
    with Region(api, raw + bytes(PAGE)) as gpu:
        api.infer(name, "FP32", [2], raw)
        inline, queued = executions(server, "eager")
        api.infer(name, "FP32", [2], raw)
        assert executions(server, "eager")[0] > inline  # the loop runs this model itself
        inline, queued = executions(server, "eager")
        for i in range(5):
            assert api.infer(name, "FP32", [2], raw, ("r", 64 * i + 64, 8)) == ([2], b"")
            assert gpu.read(64 * i + 64, 8) == raw
        assert executions(server, "eager") == [inline, queued + (5 if name == "eager" else 10)]


def test_output_of_the_cache(tmp_path):
    """An answer of the cache goes to the region, too."""
    raw = struct.pack("<2f", 1, 2)
    models = {"kept": identity("TYPE_FP32", [-1], 0, "response_cache { enable: true }")}
    with opens_gpu_server(tmp_path, models, *OPTIONS,
                          "--cache-config=local,size=1048576") as server:
        api = Http(server)
        assert api.infer("kept", "FP32", [2], raw) == ([2], raw)  # which is kept
        with Region(api, bytes(PAGE)) as gpu:
            for i in range(5):
                assert api.infer("kept", "FP32", [2], raw, ("r", 64 * i, 8)) == ([2], b"")
                assert gpu.read(64 * i, 8) == raw
        row = requests.get(f"{server.url}/v2/models/kept/stats", timeout=SECONDS).json()["model_stats"][0]
        counts = {key: pair["count"] for key, pair in row["inference_stats"].items()}
        assert (counts["cache_hit"], counts["cache_miss"], row["execution_count"]) == (5, 1, 1)


@pytest.mark.parametrize("part, may_be_open", [("0", False), ("1", True)])
def test_limit_of_the_memory(tmp_path, part, may_be_open):
    """--client-shm-gpu-limit reaches the registry."""
    models = {"plain": identity("TYPE_FP32", [-1])}
    with opens_gpu_server(tmp_path, models, *OPTIONS, f"--client-shm-gpu-limit={part}") as server:
        api = Http(server)
        with Memory(bytes(PAGE)) as gpu:
            if may_be_open:
                api.register_cuda("r", gpu.handle(), PAGE)
                api.unregister_cuda("r")
            else:
                assert_refused(503, "failed to register shared memory region 'r': regions of clients keep 0 bytes of "
                               f"GPU 0 open, with its allocation of {PAGE} bytes they would exceed the limit of 0 "
                               "(--client-shm-gpu-limit)", api.register_cuda, "r", gpu.handle(), PAGE)
        assert api.status_cuda() == [] and not is_open(server)


def test_large(api):
    values = numpy.arange(1 << 20, dtype=numpy.float32).tobytes()
    with Region(api, values + bytes(4 << 20)) as gpu:
        assert api.infer("id_fp32", "FP32", [1 << 20], ("r", 0, 4 << 20), ("r", 4 << 20, 4 << 20)) == (
            [1 << 20], b"")
        assert gpu.read(4 << 20, 4 << 20) == values


def test_empty(api):
    with Region(api, bytes(PAGE)):
        assert api.infer("id_fp32", "FP32", [0], ("r", 0, 0), ("r", 8, 0)) == ([0], b"")


def test_batches(api):
    """Several at a time, each with its own place."""
    n = 16
    values = numpy.arange(4 * n, dtype=numpy.float32).tobytes()
    with Region(api, values.ljust(PAGE, b"\0") + bytes(PAGE)) as gpu:
        asked = [Later(api.infer, "batched", "FP32", [1, 4], ("r", 16 * i, 16),
                       ("r", PAGE + 16 * i, 16)) for i in range(n)]
        assert [later.result() for later in asked] == [([1, 4], b"")] * n
        assert gpu.read(PAGE, 16 * n) == values


@pytest.mark.parametrize("where, status, text", [
    (("x", 0, 4), 404, system.UNKNOWN),
    (("r", PAGE, 0), 400, system.OFFSET),
    (("r", system.MANY, 4), 400, system.OFFSET),
    (("r", PAGE - 3, 4), 400, system.RANGE),
    (("r", 8, system.MANY), 400, system.RANGE),
])
def test_bad_ranges(api, where, status, text):
    """The region ends before the allocation does."""
    with Memory(bytes(2 * PAGE)) as gpu:
        api.register_cuda("r", gpu.handle(), PAGE)
        assert_refused(status, text, api.infer, "id_fp32", "FP32", [1], where)
        assert_refused(status, text, api.infer, "id_fp32", "FP32", [1], b"1234", where)
        api.unregister_cuda("r")


def test_sizes(api):
    with Region(api, bytes(2 * PAGE)) as gpu:
        for n in (60, 68):
            assert_refused(400, "[request id: <id_unknown>] input byte size mismatch for input "
                           f"'INPUT0' for model 'fixed'. Expected 64, got {n}", api.infer, "fixed",
                           "FP32", [16], ("r", 0, n))
        assert_refused(400, "shared memory size specified with the request for output 'OUTPUT0' "
                       "(63 bytes) should be at least 64 bytes to hold the results", api.infer,
                       "fixed", "FP32", [16], ("r", 0, 64), ("r", PAGE, 63))
        assert gpu.read(PAGE, 64) == bytes(64)
        assert api.infer("fixed", "FP32", [16], ("r", 0, 64), ("r", PAGE, 64)) == ([16], b"")


def test_compressed(server):
    """The body is compressed, the tensor is not in it; so is the answer."""
    raw = struct.pack("<2f", 1, 2)
    with Region(Http(server), raw + bytes(PAGE)) as gpu:
        body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [2],
                            "parameters": place(("r", 0, 8))}],
                "outputs": [{"name": "OUTPUT0", "parameters": place(("r", 64, 8))}]}
        reply = requests.post(f"{server.url}/v2/models/id_fp32/infer", timeout=SECONDS,
                              data=gzip.compress(json.dumps(body).encode()),
                              headers={"Content-Encoding": "gzip", "Accept-Encoding": "gzip"})
        assert (reply.status_code, reply.json()["outputs"]) == (
            200, [{"name": "OUTPUT0", "datatype": "FP32", "shape": [2]}])
        assert gpu.read(64, 8) == raw


# ---- while a request is in flight ---------------------------------------------------------------


def wait_until_closed(server):
    """Asks until the last request has been counted; each look is a request to the server."""
    for _ in range(5000):
        if not is_open(server):
            return
        requests.get(f"{server.url}/v2/health/live", timeout=SECONDS)
    raise AssertionError("a region is held for ever")


def test_unregister_in_flight(api, server):
    raw = struct.pack("<3f", 1, 2, 3)
    with Memory(raw + bytes(2 * PAGE)) as gpu, Gate(server, "slow") as gate:
        api.register_cuda("r", gpu.handle(), 2 * PAGE)
        answer = Later(api.infer, "slow", "FP32", [3], ("r", 0, 12), ("r", PAGE, 12))
        gate.wait()
        api.unregister_cuda("r")
        assert api.status_cuda() == []
        assert_refused(404, "Unable to find shared memory region: 'r'", api.infer, "id_fp32",
                       "FP32", [3], ("r", 0, 12))
        assert is_open(server)
        api.register_cuda("r", gpu.handle(), PAGE)  # its name is free
        api.unregister_cuda()
        assert is_open(server)
        gate.open()
        assert answer.result() == ([3], b"")
        assert gpu.read(PAGE, 12) == raw
        wait_until_closed(server)


def test_stream_of_responses(server, client):
    """Each response is written to the same place; the region is held until the last."""
    api = Grpc(client)
    raw = struct.pack("<2f", 3, 4)
    with Region(api, raw + bytes(PAGE)) as gpu:
        got = list(client.stream([api.request("decoupled", "FP32", [2], ("r", 0, 8), ("r", 300, 8)),
                                  api.request("id_fp32", "FP32", [2], ("r", 0, 8), ("r", 400, 8))]))
        assert [reply.error_message for reply in got] == [""] * 3
        assert [list(reply.infer_response.raw_output_contents) for reply in got] == [[b""]] * 3
        assert gpu.read(300, 8) == gpu.read(400, 8) == raw
        api.unregister_cuda("r")
        wait_until_closed(server)


def test_client_that_dies(api, server):
    """The driver keeps the memory for the server; an unregister closes it as ever."""
    raw = struct.pack("<2f", 1, 2)
    with Other(raw + bytes(PAGE)) as other:
        theirs = cuda_client.files_of(other.process.pid)
        api.register_cuda("r", other.handle, PAGE)
        assert api.infer("id_fp32", "FP32", [2], ("r", 0, 8)) == ([2], raw)
        other.kill()
        assert api.infer("id_fp32", "FP32", [2], ("r", 0, 8), ("r", 64, 8)) == ([2], b"")
        assert api.infer("id_fp32", "FP32", [2], ("r", 64, 8)) == ([2], raw)
        assert_refused(400, INVALID_ARGS, api.register_cuda, "again", b"x" + other.handle[1:], PAGE)
        assert theirs & set(cuda_client.mapped_files(server.process.pid))
        api.unregister_cuda("r")
        assert not theirs & set(cuda_client.mapped_files(server.process.pid))
        assert_refused(400, INVALID_ARGS, api.register_cuda, "r", other.handle, PAGE)


def test_client_that_dies_in_flight(api, server):
    raw = struct.pack("<2f", 1, 2)
    with Other(raw + bytes(PAGE)) as other, Gate(server, "slow") as gate:
        api.register_cuda("r", other.handle, PAGE)
        answer = Later(api.infer, "slow", "FP32", [2], ("r", 0, 8), ("r", 64, 8))
        gate.wait()
        other.kill()
        gate.open()
        assert answer.result() == ([2], b"")
        assert api.infer("id_fp32", "FP32", [2], ("r", 64, 8)) == ([2], raw)
        api.unregister_cuda("r")


def test_thousands(api, server):
    """Nothing is left of any of them."""
    pid = server.process.pid
    with Memory(bytes(PAGE)) as gpu, requests.Session() as session:
        handle = gpu.handle()
        body = {"raw_handle": {"b64": base64.b64encode(handle).decode()}, "device_id": 0,
                "byte_size": PAGE}

        def round_trip():
            if api.name == "grpc":
                api.register_cuda("r", handle, PAGE)
                api.infer("id_fp32", "FP32", [1], ("r", 0, 4), ("r", 8, 4))
                api.unregister_cuda("r")
                return
            for what in ("register", "unregister"):
                assert session.post(f"{server.url}{CUDA}/region/r/{what}", json=body,
                                    timeout=SECONDS).status_code == 200

        for _ in range(200):
            round_trip()
        before = (system.resident_kib(server), len(os.listdir(f"/proc/{pid}/fd")),
                  len(cuda_client.mapped_files(pid)))
        for _ in range(1000):
            round_trip()
        wait_until_closed(server)
        after = (system.resident_kib(server), len(os.listdir(f"/proc/{pid}/fd")),
                 len(cuda_client.mapped_files(pid)))
        assert after[1] <= before[1] + 2  # connections come and go
        assert after[2] <= before[2]
        if not is_sanitized():
            assert after[0] <= before[0] + 2048


def test_many_clients(server, client):
    """Registrations, uses and unregistrations of one name, at any time."""
    raw = struct.pack("<f", 7)
    allowed = ("already in manager", "Unable to find shared memory region: 'r'")
    with Memory(raw + bytes(PAGE)) as gpu:
        handle = gpu.handle()
        failures = []

        def work(api):
            for _ in range(50):
                for call in (lambda: api.register_cuda("r", handle, PAGE),
                             lambda: api.infer("id_fp32", "FP32", [1], ("r", 0, 4), ("r", 8, 4)),
                             lambda: api.unregister_cuda("r")):
                    try:
                        call()
                    except system.Refused as err:
                        if not any(text in err.pair[1] for text in allowed):
                            failures.append(err)
                    except ValueError:
                        pass  # ALREADY_EXISTS has no status in CODES of test_shared_memory.py

        threads = [threading.Thread(target=work, args=(api,))
                   for api in (Http(server), Http(server), Grpc(client), Grpc(client))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        Http(server).unregister_cuda()
        wait_until_closed(server)
        assert gpu.read(0, 4) == raw


# ---- neso bench -----------------------------------------------------------------------------------


def run_bench(server, protocol, *more, environment=None):
    port = server.http_port if protocol == "http" else server.port("grpc")
    return subprocess.run(
        [cuda_client.BUILD / "neso", "bench", "-m", "id_fp32", "--shape", "INPUT0:1000", "-i", protocol,
         "-u", f"127.0.0.1:{port}", "--shared-memory=cuda", "--request-count", "100", *more],
        env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=60,
        check=False)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_bench(server, tmp_path, protocol):
    """Its regions are the server's during the load alone."""
    with fake_gpus(tmp_path) as environment:
        done = run_bench(server, protocol, "--json", environment=environment)
    assert done.returncode == 0, done.stderr
    [load] = json.loads(done.stdout)["loads"]
    assert (load["requests"], load["failed"]) == (100, 0)
    assert Http(server).status_cuda() == []


def test_bench_without_a_gpu(server):
    done = run_bench(server, "http")
    assert done.returncode == 1
    assert "--shared-memory=cuda: this machine has no GPU" in done.stderr
    assert Http(server).status_cuda() == []


# ---- the server's end ---------------------------------------------------------------------------


def test_stop_with_regions(tmp_path):
    """The server closes what clients have left registered."""
    models = {"id_fp32": MODELS["id_fp32"]}
    with opens_gpu_server(tmp_path, models, *OPTIONS) as running, Memory(bytes(PAGE)) as gpu:
        Http(running).register_cuda("r", gpu.handle(), PAGE)
        assert is_open(running)
        assert running.stop() == 0
