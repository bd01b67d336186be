# SPDX-License-Identifier: BSD-3-Clause
"""Allocations that fail while the server serves: some requests fail, or their connections; the server
does not, and once there is memory again everything is answered as before."""
import concurrent.futures
import contextlib
import gzip
import mmap
import struct

import grpc
import pytest
import requests

from conftest import BUILD, Server, is_sanitized, preload, require_build, write_repository
from grpc_stubs import Client, open_channel, stubs  # noqa: F401

TAKES_SECONDS = 25

BACKENDS = ("identity",)
FAIL_ALLOC = BUILD / "tests" / "e2e" / "fail_alloc.so"
IDENTITY = """backend: "identity"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }
"""
TEXT = IDENTITY.replace("FP32", "STRING").replace("INPUT0", "text")
MODELS = {"m": IDENTITY, "text": TEXT, "coming": IDENTITY + "instance_group { count: 2 }"}

ROUNDS = 12
N_THREADS = 4
# What the allocations belong to: the server alone, and with the libraries that serve it.
OURS = "neso,libtritonserver"
ALL = f"{OURS},libuv,libnghttp2,libssl,libcrypto,libprotobuf-c,libz"

pytestmark = pytest.mark.skipif(is_sanitized(), reason="the sanitizer has its own allocator")


class Memory:
    """The other side of fail_alloc.c."""

    def __init__(self, path):
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as f:
            self._map = mmap.mmap(f.fileno(), mmap.PAGESIZE)

    def fail_each(self, n, min_bytes=0):
        self._map[0:8] = struct.pack("=II", n, min_bytes)

    def n_failed(self):
        return struct.unpack("=I", self._map[8:12])[0]


@pytest.fixture(name="short", params=[OURS, ALL], ids=["ours", "all"])
def short_server(request, tmp_path):
    """A server, and what makes its memory short."""
    require_build(BACKENDS)
    write_repository(tmp_path / "models", MODELS)
    memory = Memory(tmp_path / "control")
    environment = {"FAIL_ALLOC": str(tmp_path / "control"),
                   "FAIL_ALLOC_IN": request.param}
    running = Server(tmp_path / "models", (
        "--model-control-mode=explicit", "--load-model=m", "--load-model=text",
        "--http-thread-count=2", "--grpc-infer-thread-count=2", "--log-verbose=1"),
        waits_for=("http", "grpc"),
        under=("env", preload(FAIL_ALLOC), *(f"{name}={value}" for name, value in environment.items())))
    yield running, memory
    memory.fail_each(0)
    assert running.process.poll() is None, running.text()
    assert running.stop() == 0, running.text()


# ---- a mixed load ------------------------------------------------------------------------------

VALUES = [float(i) for i in range(700)]


def infer_json(url, session):
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [len(VALUES)],
                        "data": VALUES}]}
    reply = session.post(f"{url}/v2/models/m/infer", json=body, timeout=20)
    assert reply.json()["outputs"][0]["data"] == VALUES


def infer_binary(url, session):
    raw = struct.pack("<30000f", *([1.5] * 30000))
    head = (b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[30000],"parameters":'
            b'{"binary_data_size":120000}}],"outputs":[{"name":"OUTPUT0","parameters":'
            b'{"binary_data":true}}]}')
    reply = session.post(f"{url}/v2/models/m/infer", gzip.compress(head + raw), headers={
        "Inference-Header-Content-Length": str(len(head)), "Content-Encoding": "gzip",
        "Accept-Encoding": "gzip"}, timeout=20)
    assert reply.content.endswith(raw)


def infer_chunks(url, session):
    body = b'{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["\\n%s"]}]}' % (
        b"x" * 40000)
    reply = session.post(f"{url}/v2/models/text/infer", iter([body[:20000], body[20000:]]),
                         timeout=20)
    assert reply.json()["outputs"][0]["data"] == ["\n" + "x" * 40000]


def expect(reply, status):
    assert reply.status_code == status, reply.text


def ask_errors(url, session):
    expect(session.post(f"{url}/v2/models/m/infer", '{"inputs":[{"name":"' + "n" * 3000,
                        timeout=20), 400)
    expect(session.post(f"{url}/v2/models/unknown/infer", "{}", timeout=20), 404)
    expect(session.get(f"{url}/v2/nothing", timeout=20), 404)


def ask_control(url, session):
    for path in ("v2", "v2/models/m", "v2/models/m/config", "v2/models/stats", "v2/models/m/stats",
                 "v2/logging", "v2/trace/setting"):
        expect(session.get(f"{url}/{path}", timeout=20), 200)
    expect(session.post(f"{url}/v2/repository/index", timeout=20), 200)


def generate(url, session):
    reply = session.post(f"{url}/v2/models/text/generate", json={"text": "hello", "more": 1},
                         timeout=20)
    assert reply.json()["OUTPUT0"] == "hello"
    reply = session.post(f"{url}/v2/models/text/generate_stream", json={"text": "a"}, timeout=20)
    assert '"OUTPUT0":"a"' in reply.text


def load_and_unload(url, session):
    expect(session.post(f"{url}/v2/repository/models/coming/load", timeout=20), 200)
    expect(session.post(f"{url}/v2/repository/models/coming/load", json={"parameters": {
        "config": '{"backend":"identity","max_batch_size":4,"input":[{"name":"A","data_type":'
                  '"TYPE_FP32","dims":[1]}],"output":[{"name":"B","data_type":"TYPE_FP32","dims":'
                  '[1]}]}'}}, timeout=20), 200)
    expect(session.post(f"{url}/v2/repository/models/coming/unload", timeout=20), 200)


HTTP = [infer_json, infer_binary, infer_chunks, ask_errors, ask_control, generate, load_and_unload]


def grpc_request(client, n):
    return client.request("m", [("INPUT0", "FP32", [n])], [struct.pack(f"<{n}f", *([2.5] * n))])


def check_answer(answer, n):
    assert answer.raw_output_contents[0] == struct.pack(f"<{n}f", *([2.5] * n))


def grpc_round(client):
    check_answer(client.ModelInfer(grpc_request(client, 10), timeout=20), 10)
    check_answer(client.ModelInfer(grpc_request(client, 50000), timeout=20,
                                   compression=grpc.Compression.Gzip), 50000)
    for answer in client.ModelStreamInfer(iter([grpc_request(client, 20000)] * 5), timeout=20):
        check_answer(answer.infer_response, 20000)
    client.call("ServerMetadata")
    client.call("ModelConfig", {"name": "m"})
    client.call("ModelStatistics", {"name": ""})
    client.call("RepositoryIndex")


def parts_on(server, session, client, i):
    for ask in HTTP[i % len(HTTP):] + HTTP[:i % len(HTTP)]:
        yield lambda ask=ask: ask(server.url, session)
    yield lambda: grpc_round(client)


def parts(server, stubs, i):  # noqa: F811
    """Everything once, on connections of their own."""
    with requests.Session() as session, open_channel(server) as channel:
        yield from parts_on(server, session, Client(channel, stubs), i)


class Load:
    """Threads with a connection of each protocol that was open before memory became short."""

    def __init__(self, server, stubs):  # noqa: F811
        self.server, self.stubs = server, stubs
        self.stack = contextlib.ExitStack()
        self.kept = []
        for i in range(N_THREADS):
            session = self.stack.enter_context(requests.Session())
            client = Client(self.stack.enter_context(open_channel(server)), stubs)
            self.kept.append((session, client))
            for part in parts_on(server, session, client, i):
                part()

    def run(self):
        """How many parts went well; the others may fail in any way that a client can see."""
        with concurrent.futures.ThreadPoolExecutor(N_THREADS) as pool:
            return sum(pool.map(self._run_thread, range(N_THREADS)))

    def _run_thread(self, thread):
        n_well = 0
        for i in range(ROUNDS):
            on = (parts_on(self.server, *self.kept[thread], thread + i) if i % 2
                  else parts(self.server, self.stubs, thread + i))
            for part in on:
                try:
                    part()
                    n_well += 1
                except (AssertionError, KeyError, IndexError, ValueError, grpc.RpcError,
                        requests.RequestException):
                    pass
        return n_well


def check_alive(server):
    assert server.process.poll() is None, server.text()[-3000:]


@pytest.mark.parametrize("n,min_bytes", [(301, 0), (101, 0), (53, 0), (29, 0), (17, 0), (7, 0),
                                         (3, 0), (2, 0), (1, 0), (1, 4000), (2, 4000), (3, 60000)])
def test_each_nth_allocation_fails(short, stubs, n, min_bytes):  # noqa: F811
    server, memory = short
    load = Load(server, stubs)
    with load.stack:
        memory.fail_each(n, min_bytes)
        print(f"{load.run()} parts went well, {memory.n_failed()} allocations failed")
        check_alive(server)
        memory.fail_each(0)
    assert memory.n_failed() > 0
    # Connections that were refused are gone; whoever comes now is served.
    for i in range(3):
        for part in parts(server, stubs, i):
            part()
    check_alive(server)
    assert "out of memory: unable" not in server.text()
