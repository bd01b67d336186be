# SPDX-License-Identifier: BSD-3-Clause
"""Tensors in system shared memory, over both protocols."""
import contextlib
import json
import mmap
import os
import re
import socket
import struct
import threading

import grpc
import numpy
import pytest
import requests

from conftest import Server, is_sanitized, require_build, write_repository
from gate import Gate, gated
from grpc_stubs import SECONDS, Client, client, open_channel, stubs  # noqa: F401
from test_http_infer import TYPES, identity, strings

BACKENDS = ("identity", "testing")
OPTIONS = ("--allow-client-shm=true",)
PAGE = mmap.PAGESIZE
SYSTEM = "/v2/systemsharedmemory"
CUDA = "/v2/cudasharedmemory"

SLOW = identity("TYPE_FP32", [-1]).replace('"identity"', '"testing"')
MODELS = {f"id_{name.lower()}": identity(kind_of, [-1]) for name, (kind_of, _, _) in TYPES.items()}
MODELS.update({
    "id_bytes": identity("TYPE_STRING", [-1]),
    "fixed": identity("TYPE_FP32", [16]),
    "batched": identity("TYPE_FP32", [4], 8, "dynamic_batching {}"),
    "slow": gated(SLOW),
    "slow_stream": gated(SLOW),
    "decoupled": SLOW + "model_transaction_policy { decoupled: true }\n"
                 'parameters { key: "responses" value { string_value: "2" } }\n',
})

CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 500: "INTERNAL", 501: "UNIMPLEMENTED"}


# ---- objects ------------------------------------------------------------------------------------


class Object:
    """A shared-memory object as a client makes one."""

    made = 0

    def __init__(self, content):
        Object.made += 1
        self.key = f"/neso_e2e_{os.getpid()}_{Object.made}"
        self.path = "/dev/shm" + self.key
        self.write(content)

    def write(self, content, offset=0):
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(fd, content, offset)
        os.close(fd)

    def read(self, offset, n):
        with open(self.path, "rb") as file:
            return os.pread(file.fileno(), n, offset)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.unlink(self.path)


# ---- two clients with the same words ------------------------------------------------------------


class Refused(Exception):
    """Status and text, the status as over HTTP."""

    def __init__(self, status, text):
        super().__init__(status, text)
        self.pair = status, text


class Http:
    name = "http"

    def __init__(self, server):
        self.url = server.url

    def ask(self, method, path, body=None):
        reply = requests.request(method, self.url + path, json=body, timeout=SECONDS)
        assert reply.headers["Content-Type"] == "application/json"
        if reply.status_code != 200:
            raise Refused(reply.status_code, reply.json()["error"])
        return reply

    def register(self, name, key, byte_size, offset=0):
        body = {"key": key, "byte_size": byte_size, "offset": offset}
        assert self.ask("POST", f"{SYSTEM}/region/{name}/register", body).content == b""

    def unregister(self, name=None):
        path = f"{SYSTEM}/region/{name}/unregister" if name else f"{SYSTEM}/unregister"
        assert self.ask("POST", path).content == b""

    def status(self, name=None):
        path = f"{SYSTEM}/region/{name}/status" if name else f"{SYSTEM}/status"
        return self.ask("GET", path).json()

    def infer(self, model, datatype, shape, source, target=None):
        """`source`: (region, offset, bytes) or bytes of the tensor. The outputs; `target` is where
        OUTPUT0 is to go."""
        tensor = {"name": "INPUT0", "datatype": datatype, "shape": shape}
        body = b""
        if isinstance(source, bytes):
            tensor["parameters"] = {"binary_data_size": len(source)}
            body = source
        else:
            tensor["parameters"] = place(source)
        request = {"inputs": [tensor], "outputs": [{"name": "OUTPUT0", "parameters": (
            place(target) if target else {"binary_data": True})}]}
        text = json.dumps(request).encode()
        reply = requests.post(f"{self.url}/v2/models/{model}/infer", data=text + body,
                              headers={"Inference-Header-Content-Length": str(len(text))},
                              timeout=SECONDS)
        if reply.status_code != 200:
            raise Refused(reply.status_code, reply.json()["error"])
        length = reply.headers.get("Inference-Header-Content-Length")
        assert (length is None) == (target is not None)
        head = json.loads(reply.content[:int(length)] if length else reply.content)
        output, = head["outputs"]
        if target:
            assert output == {"name": "OUTPUT0", "datatype": output["datatype"],
                              "shape": output["shape"]}
        return output["shape"], b"" if target else reply.content[int(length):]


class Grpc:
    name = "grpc"

    def __init__(self, client):
        self.client = client

    def ask(self, method, **fields):
        try:
            return self.client.call(method, fields)
        except grpc.RpcError as err:
            raise refused(err) from None

    def register(self, name, key, byte_size, offset=0):
        assert self.ask("SystemSharedMemoryRegister", name=name, key=key, offset=offset,
                        byte_size=byte_size).ByteSize() == 0

    def unregister(self, name=""):
        assert self.ask("SystemSharedMemoryUnregister", name=name).ByteSize() == 0

    def status(self, name=""):
        regions = self.ask("SystemSharedMemoryStatus", name=name).regions
        assert all(key == region.name for key, region in regions.items())
        return [{"name": name, "key": regions[name].key, "offset": regions[name].offset,
                 "byte_size": regions[name].byte_size} for name in sorted(regions)]

    def request(self, model, datatype, shape, source, target=None, **more):
        raw = isinstance(source, bytes)
        return self.client.request(
            model, [("INPUT0", datatype, shape, None, None if raw else place(source))],
            [source] if raw else (), [("OUTPUT0", place(target) if target else None)], **more)

    def infer(self, *arguments):
        try:
            reply = self.client.ModelInfer(self.request(*arguments), timeout=SECONDS)
        except grpc.RpcError as err:
            raise refused(err) from None
        output, = reply.outputs
        assert not output.parameters and len(reply.raw_output_contents) == 1
        return list(output.shape), reply.raw_output_contents[0]


def refused(err):
    status, = (number for number, code in CODES.items() if code == err.code().name)
    return Refused(status, err.details())


def place(where):
    region, offset, n = where
    parameters = {"shared_memory_region": region, "shared_memory_byte_size": n}
    return {**parameters, "shared_memory_offset": offset} if offset else parameters


@pytest.fixture(params=["http", "grpc"])
def api(request, server):
    """Each test has an empty registry, and leaves one behind."""
    http = Http(server)
    http.unregister()
    yield http if request.param == "http" else Grpc(request.getfixturevalue("client"))
    http.unregister()
    assert mappings(server) == []


def assert_refused(status, text, call, *arguments):
    with pytest.raises(Refused) as caught:
        call(*arguments)
    assert caught.value.pair == (status, text)


def mappings(server):
    with open(f"/proc/{server.process.pid}/maps") as maps:
        return [line for line in maps if "/neso_e2e_" in line]


def descriptors(server):
    folder = f"/proc/{server.process.pid}/fd"
    found = []
    for fd in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"{folder}/{fd}"))
    return [name for name in found if "/neso_e2e_" in name]


# ---- the registry -------------------------------------------------------------------------------


def test_register_and_status(api, server):
    assert api.status() == []
    with Object(bytes(3 * PAGE)) as shm:
        api.register("b", shm.key, 2 * PAGE)
        api.register("a", shm.key.lstrip("/"), 10, PAGE)
        b = {"name": "b", "key": shm.key, "offset": 0, "byte_size": 2 * PAGE}
        a = {"name": "a", "key": shm.key.lstrip("/"), "offset": PAGE, "byte_size": 10}
        assert api.status() == [a, b]
        assert api.status("b") == [b]
        # Both protocols have one registry.
        assert Http(server).status() == [a, b]
        api.unregister("b")
        api.unregister("nobody")
        assert api.status() == [a]
        api.register("b", shm.key, PAGE)
        api.unregister()
        assert api.status() == []
        assert descriptors(server) == mappings(server) == []
        api.register("b", shm.key, PAGE)


def test_already_there(client, server):
    with Object(bytes(PAGE)) as shm:
        Http(server).register("r", shm.key, 1)
        assert_refused(400, "shared memory region 'r' already in manager", Http(server).register,
                       "r", shm.key, 1)
        assert client.refusal("SystemSharedMemoryRegister",
                              {"name": "r", "key": "/nobody", "byte_size": 1}) == (
            "ALREADY_EXISTS", "shared memory region 'r' already in manager")
        Http(server).unregister("r")


@pytest.mark.parametrize("key, status, text", [
    ("/neso_e2e_nobody", 500, "Unable to open shared memory region: '/neso_e2e_nobody'"),
    ("", 400, "cannot register shared memory region 'r' - invalid shm key ''"),
    ("//", 400, "cannot register shared memory region 'r' - invalid shm key '//'"),
    ("/../shm/x", 400, "cannot register shared memory region 'r' - invalid shm key '/../shm/x'"),
    ("/triton_python_backend_shm_region_0", 400,
     "cannot register shared memory region 'r' with key '/triton_python_backend_shm_region_0' as "
     "the key contains the reserved prefix 'triton_python_backend_shm_region_'"),
    ("/" * 40_000_000 + "neso_e2e_nobody", 400, "cannot register shared memory region 'r': its key "
     "has 40000015 bytes, at most 256 are allowed"),
], ids=lambda value: str(value)[:40])
def test_bad_keys(api, key, status, text):
    assert_refused(status, text, api.register, "r", key, 1)


@pytest.mark.parametrize("offset, byte_size, text", [
    (0, 2 * PAGE + 1, "invalid args"),
    (2 * PAGE, 1, "invalid args"),
    ((1 << 64) - PAGE, 2 * PAGE, "invalid args"),
    (0, 0, "byte_size must be greater than 0"),
    (8, 8, f"offset 8 is not a multiple of the page size {PAGE}"),
])
def test_bad_places(api, offset, byte_size, text):
    with Object(bytes(2 * PAGE)) as shm:
        assert_refused(400, f"failed to register shared memory region 'r': {text}", api.register,
                       "r", shm.key, byte_size, offset)


@pytest.mark.parametrize("body, text", [
    (b"{}", "Shared memory register request has no 'key' field"),
    (b'{"key":"/k"}', "Shared memory register request has no 'byte_size' field"),
    (b'{"key":"/k","byte_size":"1"}',
     "Unable to parse 'byte_size': attempt to access JSON non-unsigned-integer as "
     "unsigned-integer"),
    (b"", "failed to parse the request JSON buffer: The document is empty. at 0"),
])
def test_bad_bodies(server, body, text):
    reply = requests.post(f"{server.url}{SYSTEM}/region/r/register", data=body, timeout=SECONDS)
    assert (reply.status_code, reply.json()["error"]) == (400, text)


def test_without_a_name(server, client):
    http = Http(server)
    for path, kind in ((SYSTEM, "system"), (CUDA, "cuda")):
        assert_refused(400, f"'region name' is necessary to register {kind} shared memory region",
                       http.ask, "POST", f"{path}/register", {"key": "/k", "byte_size": 1})
    with Object(bytes(PAGE)) as shm:
        Grpc(client).register("", shm.key, 5)
        assert http.status() == [{"name": "", "key": shm.key, "offset": 0, "byte_size": 5}]
        http.unregister()


def test_cuda(api, server, client):
    http = Http(server)
    text = "failed to register CUDA shared memory region: 'r', GPUs not supported"
    assert_refused(400, text, http.ask, "POST", f"{CUDA}/region/r/register",
                   {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 1})
    assert client.refusal("CudaSharedMemoryRegister", {"name": "r"}) == ("INVALID_ARGUMENT", text)
    with Object(bytes(PAGE)) as shm:
        api.register("r", shm.key, 1)
        text = "The region named 'r' is registered as system shared memory, not CUDA shared memory"
        assert_refused(404, text, http.ask, "GET", f"{CUDA}/region/r/status")
        assert client.refusal("CudaSharedMemoryStatus", {"name": "r"}) == ("NOT_FOUND", text)
        assert http.ask("GET", f"{CUDA}/status").json() == []
        for path in ("/region/r/unregister", "/unregister"):
            assert http.ask("POST", CUDA + path).content == b""
        client.call("CudaSharedMemoryUnregister", {"name": "r"})
        client.call("CudaSharedMemoryUnregister")
        assert [region["name"] for region in api.status()] == ["r"]


# ---- inference ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
def test_round_trip(api, name):
    """Bit for bit, input and output in one region; what lies around the output is left alone."""
    raw = struct.pack(f"<3{TYPES[name][1]}", *TYPES[name][2])
    content = bytearray(os.urandom(4 * PAGE))
    content[PAGE + 64:PAGE + 64 + len(raw)] = raw
    with Object(content) as shm:
        api.register("r", shm.key, 3 * PAGE, PAGE)
        model = f"id_{name.lower()}"
        assert api.infer(model, name, [3], ("r", 64, len(raw)),
                         ("r", PAGE + 1, len(raw) + 5)) == ([3], b"")
        content[2 * PAGE + 1:2 * PAGE + 1 + len(raw)] = raw
        assert shm.read(0, 4 * PAGE) == content
        # Only the one or the other.
        assert api.infer(model, name, [3], ("r", 64, len(raw))) == ([3], raw)
        assert api.infer(model, name, [3], raw[::-1] if name != "BOOL" else raw,
                         ("r", 0, len(raw))) == ([3], b"")
        assert shm.read(PAGE, len(raw)) == (raw[::-1] if name != "BOOL" else raw)


def test_strings(api):
    raw = strings(b"", b"abc", "\u00fc".encode(), bytes(300))
    with Object(raw + bytes(2 * PAGE)) as shm:
        api.register("r", shm.key, PAGE)
        assert api.infer("id_bytes", "BYTES", [4], ("r", 0, len(raw)), ("r", 1024, 1024)) == (
            [4], b"")
        assert shm.read(1024, len(raw)) == raw
        # A length that leads out of the tensor.
        shm.write(struct.pack("<I", 5000), 7)
        with pytest.raises(Refused, match="id_bytes") as caught:
            api.infer("id_bytes", "BYTES", [4], ("r", 0, len(raw)))
        assert caught.value.pair[0] == 400


def test_large(api):
    values = numpy.arange(1 << 20, dtype=numpy.float32)
    with Object(values.tobytes() + bytes(4 << 20)) as shm:
        api.register("in", shm.key, 4 << 20)
        api.register("out", shm.key, 4 << 20, 4 << 20)
        assert api.infer("id_fp32", "FP32", [1 << 20], ("in", 0, 4 << 20),
                         ("out", 0, 4 << 20)) == ([1 << 20], b"")
        assert shm.read(4 << 20, 4 << 20) == values.tobytes()


def test_empty(api):
    with Object(bytes(PAGE)) as shm:
        api.register("r", shm.key, PAGE)
        assert api.infer("id_fp32", "FP32", [0], ("r", 0, 0), ("r", 8, 0)) == ([0], b"")


def test_batches(api):
    """Several at a time, each with its own place."""
    n = 16
    values = numpy.arange(4 * n, dtype=numpy.float32)
    with Object(values.tobytes() + bytes(2 * PAGE)) as shm:
        api.register("r", shm.key, 2 * PAGE)
        failures = []

        def ask(i):
            try:
                assert api.infer("batched", "FP32", [1, 4], ("r", 16 * i, 16),
                                 ("r", PAGE + 16 * i, 16)) == ([1, 4], b"")
            except BaseException as err:
                failures.append(err)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert shm.read(PAGE, 16 * n) == values.tobytes()


UNKNOWN = "Unable to find shared memory region: 'x'"
OFFSET = "Invalid offset for shared memory region: 'r'"
RANGE = "Invalid offset + byte size for shared memory region: 'r'"
MANY = (1 << 63) - 1


@pytest.mark.parametrize("where, status, text", [
    (("x", 0, 4), 404, UNKNOWN),
    (("r", PAGE, 0), 400, OFFSET),
    (("r", MANY, 4), 400, OFFSET),
    (("r", PAGE - 3, 4), 400, RANGE),
    (("r", 8, MANY), 400, RANGE),
])
def test_bad_ranges(api, where, status, text):
    with Object(bytes(2 * PAGE)) as shm:
        api.register("r", shm.key, PAGE)
        assert_refused(status, text, api.infer, "id_fp32", "FP32", [1], where)
        assert_refused(status, text, api.infer, "id_fp32", "FP32", [1], b"1234", where)


def test_overflow(server, client):
    """Sizes that only one of the protocols can say."""
    text = (f"Integer overflow detected: byte_size ({(1 << 64) - 1}) + offset (1) exceeds maximum "
            f"value ({(1 << 64) - 1}) for region 'r'")
    with Object(bytes(PAGE)) as shm:
        Http(server).register("r", shm.key, PAGE)
        assert_refused(400, text, Http(server).infer, "id_fp32", "FP32", [1],
                       ("r", 1, (1 << 64) - 1))
        assert_refused(400, text, Grpc(client).infer, "id_fp32", "FP32", [1], ("r", 1, -1))
        assert_refused(400, OFFSET, Grpc(client).infer, "id_fp32", "FP32", [1], ("r", -1, 4))
        Http(server).unregister()


def test_sizes_and_shapes(api):
    with Object(bytes(2 * PAGE)) as shm:
        api.register("r", shm.key, 2 * PAGE)
        for n in (60, 68):
            assert_refused(400, "[request id: <id_unknown>] input byte size mismatch for input "
                           f"'INPUT0' for model 'fixed'. Expected 64, got {n}", api.infer, "fixed",
                           "FP32", [16], ("r", 0, n))
        assert_refused(400, "shared memory size specified with the request for output 'OUTPUT0' "
                       "(63 bytes) should be at least 64 bytes to hold the results", api.infer,
                       "fixed", "FP32", [16], ("r", 0, 64), ("r", PAGE, 63))
        assert shm.read(PAGE, 64) == bytes(64)
        assert api.infer("fixed", "FP32", [16], ("r", 0, 64), ("r", PAGE, 64)) == ([16], b"")


def test_combinations(server):
    """What only HTTP can say."""
    def ask(tensor, output=None):
        body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], **tensor}]}
        if output:
            body["outputs"] = [{"name": "OUTPUT0", "parameters": output}]
        reply = requests.post(f"{server.url}/v2/models/id_fp32/infer", json=body, timeout=SECONDS)
        return reply.status_code, reply.json().get("error"), reply.json().get("outputs")

    only = ("Input must set only one of the following fields: 'data', 'binary_data_size' in "
            "'parameters', 'shared_memory_region' in 'parameters'. But set")
    with Object(struct.pack("<f", 1.5) + bytes(PAGE)) as shm:
        Http(server).register("r", shm.key, PAGE)
        where = place(("r", 0, 4))
        assert ask({"parameters": where}) == (200, None, [
            {"name": "OUTPUT0", "datatype": "FP32", "shape": [1], "data": [1.5]}])
        assert ask({"data": [1.0], "parameters": where})[:2] == (
            400, only + " 'data' 'shared_memory_region'")
        assert ask({"parameters": {**where, "binary_data_size": 4}})[:2] == (
            400, only + " 'binary_data_size' 'shared_memory_region'")
        assert ask({"parameters": where}, {**where, "classification": 1})[:2] == (
            400, "Output can't set both 'shared_memory_region' and 'classification'")
        assert ask({"parameters": where}, {**where, "binary_data": True})[:2] == (
            400, "Output can't set both 'shared_memory_region' and 'binary_data'")
        assert ask({"parameters": where}, {**where, "binary_data": False})[0] == 200
        assert ask({"data": [1.0]}, {"shared_memory_region": "r"})[:2] == (
            400, "shared memory size specified with the request for output 'OUTPUT0' (0 bytes) "
            "should be at least 4 bytes to hold the results")
        Http(server).unregister()


# ---- while a request is in flight ---------------------------------------------------------------


class Later(threading.Thread):
    """A call on a thread of its own; `result()` waits for it."""

    def __init__(self, call, *arguments):
        super().__init__()
        self._call = call, arguments
        self._answer = self._failure = None
        self.start()

    def run(self):
        call, arguments = self._call
        try:
            self._answer = call(*arguments)
        except BaseException as err:
            self._failure = err

    def result(self):
        self.join(SECONDS)
        assert not self.is_alive()
        if self._failure:
            raise self._failure
        return self._answer


def test_unregister_in_flight(api, server):
    raw = struct.pack("<3f", 1, 2, 3)
    with Object(raw + bytes(2 * PAGE)) as shm, Gate(server, "slow") as gate:
        api.register("r", shm.key, 2 * PAGE)
        answer = Later(api.infer, "slow", "FP32", [3], ("r", 0, 12), ("r", PAGE, 12))
        gate.wait()
        api.unregister("r")
        assert api.status() == []
        assert_refused(404, "Unable to find system shared memory region: 'r'", api.status, "r")
        assert_refused(404, "Unable to find shared memory region: 'r'", api.infer, "id_fp32",
                       "FP32", [3], ("r", 0, 12))
        assert len(mappings(server)) == len(descriptors(server)) == 1
        api.register("r", shm.key, PAGE)  # its name is free
        gate.open()
        assert answer.result() == ([3], b"")
        assert shm.read(PAGE, 12) == raw
        assert len(mappings(server)) == 1


def test_truncated_in_flight(api, server):
    """The server goes on; the request that lost its memory is told, others are not concerned."""
    raw = struct.pack("<2f", 1, 2)
    with Object(bytes(4 * PAGE)) as shm, Object(raw) as other, Gate(server, "slow") as gate:
        api.register("r", shm.key, 4 * PAGE)
        api.register("other", other.key, 8)
        answer = Later(api.infer, "slow", "FP32", [PAGE // 4], ("r", 0, PAGE),
                       ("r", 2 * PAGE, PAGE))
        gate.wait()
        os.truncate(shm.path, 0)
        gate.open()
        assert_refused(400, "memory of shared memory region 'r' was missing while the request used "
                       "it: the object was truncated, or there is no memory for it", answer.result)
        assert_refused(400, RANGE, api.infer, "id_fp32", "FP32", [1], ("r", 0, 4))
        assert api.infer("id_fp32", "FP32", [2], ("other", 0, 8)) == ([2], raw)
        # Registered anew it is as before.
        os.truncate(shm.path, 4 * PAGE)
        api.unregister("r")
        api.register("r", shm.key, 4 * PAGE)
        assert api.infer("id_fp32", "FP32", [1], ("r", 0, 4)) == ([1], bytes(4))


def test_truncated_before(api):
    with Object(struct.pack("<f", 7) + bytes(2 * PAGE)) as shm:
        api.register("r", shm.key, 2 * PAGE)
        os.truncate(shm.path, PAGE)
        assert_refused(400, RANGE, api.infer, "id_fp32", "FP32", [2], ("r", PAGE, 8))
        assert api.infer("id_fp32", "FP32", [1], ("r", 0, 4)) == ([1], struct.pack("<f", 7))


def wait_until_unmapped(server):
    """Asks until the core has counted what it cancelled; each look is a request to the server."""
    for _ in range(5000):
        if not mappings(server):
            return
        requests.get(f"{server.url}/v2/health/live", timeout=SECONDS)
    raise AssertionError("a region is held for ever")


@pytest.mark.parametrize("name", ["http", "grpc"])
def test_client_that_leaves(server, client, name):
    """Its regions stay until the backend is done with them."""
    with Object(bytes(PAGE)) as shm, Gate(server, "slow") as gate:
        http = Http(server)
        http.register("r", shm.key, PAGE)
        if name == "http":
            body = json.dumps({"inputs": [{
                "name": "INPUT0", "datatype": "FP32", "shape": [1],
                "parameters": place(("r", 0, 4))}]}).encode()
            wire = socket.create_connection(("127.0.0.1", server.http_port), timeout=SECONDS)
            wire.sendall(b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d"
                         b"\r\n\r\n" % len(body) + body)
            gate.wait()
            wire.close()
        else:
            call = client.ModelInfer.future(Grpc(client).request(
                "slow", "FP32", [1], ("r", 0, 4), ("r", 8, 4)))
            gate.wait()
            call.cancel()
        http.unregister()
        assert len(mappings(server)) == 1
        gate.open()
        wait_until_unmapped(server)
        assert descriptors(server) == []


def test_stream(server, client):
    api = Grpc(client)
    raw = struct.pack("<2f", 3, 4)
    with Object(raw + bytes(2 * PAGE)) as shm, Gate(server, "slow_stream") as gate:
        api.register("r", shm.key, 2 * PAGE)
        messages = [
            api.request("id_fp32", "FP32", [2], ("r", 0, 8), ("r", 100, 8), id="1"),
            api.request("id_fp32", "FP32", [2], ("x", 0, 8), id="2"),
            api.request("slow_stream", "FP32", [2], ("r", 0, 8), ("r", 200, 8), id="3"),
        ]
        stream = client.stream(messages)
        gate.wait()
        api.unregister()
        assert api.status() == []
        assert len(mappings(server)) == 1
        gate.open()
        first, second, third = stream
        assert [reply.infer_response.id for reply in (first, second, third)] == ["1", "2", "3"]
        assert second.error_message == UNKNOWN
        for reply, at in ((first, 100), (third, 200)):
            assert reply.error_message == ""
            assert list(reply.infer_response.raw_output_contents) == [b""]
            assert shm.read(at, 8) == raw
    assert mappings(server) == descriptors(server) == []


def test_decoupled(server, client):
    """Each response is written to the same place; the region is held until the last."""
    api = Grpc(client)
    raw = struct.pack("<2f", 3, 4)
    with Object(raw + bytes(PAGE)) as shm:
        api.register("r", shm.key, PAGE)
        got = list(client.stream([api.request("decoupled", "FP32", [2], ("r", 0, 8),
                                              ("r", 300, 8))]))
        api.unregister()
        assert mappings(server) == []
        if "not supported yet" in got[0].error_message:
            pytest.skip(got[0].error_message)
        assert [reply.error_message for reply in got] == ["", ""]
        assert [list(reply.infer_response.raw_output_contents) for reply in got] == [[b""]] * 2
        assert shm.read(300, 8) == raw


def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def test_thousands(api, server):
    """Nothing is left of any of them."""
    with Object(bytes(PAGE)) as shm, requests.Session() as session:
        def round_trip():
            if api.name == "grpc":
                api.register("r", shm.key, PAGE)
                api.infer("id_fp32", "FP32", [1], ("r", 0, 4), ("r", 8, 4))
                api.unregister("r")
                return
            url = f"{server.url}{SYSTEM}/region/r"
            assert session.post(f"{url}/register", timeout=SECONDS,
                                json={"key": shm.key, "byte_size": PAGE}).status_code == 200
            assert session.post(f"{url}/unregister", timeout=SECONDS).status_code == 200

        for _ in range(200):
            round_trip()
        before = resident_kib(server), len(os.listdir(f"/proc/{server.process.pid}/fd"))
        for _ in range(1000):
            round_trip()
        after = resident_kib(server), len(os.listdir(f"/proc/{server.process.pid}/fd"))
        assert descriptors(server) == mappings(server) == []
        assert after[1] <= before[1] + 2  # connections come and go
        if not is_sanitized():  # those keep what was freed for a while
            assert after[0] <= before[0] + 2048


# ---- by default ---------------------------------------------------------------------------------


def test_disabled_by_default(tmp_path, stubs):
    require_build(BACKENDS)
    write_repository(tmp_path, {"id_fp32": identity("TYPE_FP32", [-1])})
    running = Server(tmp_path, ())
    text = ("Client shared memory is disabled. Start the server with '--allow-client-shm=true' to "
            "enable.")
    try:
        http = Http(running)
        with Object(bytes(PAGE)) as shm, open_channel(running) as channel:
            api = Grpc(Client(channel, stubs))
            for one in (http, api):
                assert_refused(501, text, one.register, "r", shm.key, 1)
                assert_refused(501, text, one.unregister, "r")
                assert_refused(501, text, one.unregister)
                assert one.status() == []
                assert_refused(404, "Unable to find shared memory region: 'r'", one.infer,
                               "id_fp32", "FP32", [1], ("r", 0, 4))
            assert_refused(501, text, http.ask, "POST", f"{CUDA}/region/r/register", {})
            assert_refused(501, text, http.ask, "POST", f"{SYSTEM}/register", {})
            assert_refused(501, text, api.ask, "CudaSharedMemoryUnregister")
            assert_refused(400, "failed to register CUDA shared memory region: '', GPUs not "
                           "supported", api.ask, "CudaSharedMemoryRegister")
    finally:
        assert running.stop() == 0
