# SPDX-License-Identifier: BSD-3-Clause
"""What a trace of each kind of request has in it, in both modes: generate, streams, decoupled
models, requests that are cancelled or whose client leaves, points of a backend's own."""
import json
import os
import socket
import subprocess

import grpc
import pytest
import requests

from conftest import BUILD, Server, require_build, write_repository
from gate import Gate, gated
from grpc_stubs import SECONDS, Client, open_channel, stubs  # noqa: F401
from scrape import wait_for_pending
from test_decoupled import SQUARE, square
from test_generate import echo
from test_trace import CORE, by_id
from test_trace_export import Receiver

TAKES_SECONDS = 17

BACKENDS = ("identity", "testing", "square")
MODELS = {"echo": echo("INT32", [-1]), "own": echo("INT32", [-1], backend="testing"),
          "gated": gated(echo("INT32", [1], backend="testing")), "square": SQUARE}

HTTP = ["HTTP_RECV_START", "HTTP_RECV_END", "HTTP_SEND_START", "HTTP_SEND_END"]
GRPC = ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END", "GRPC_SEND_START", "GRPC_SEND_END"]
DONE = "INFER_RESPONSE_COMPLETE"


class InFile:
    """Mode triton. traces(): (model, sorted names of points) of each, after the server's end."""

    def __init__(self, folder):
        self.path = folder / "trace.json"
        self.options = [f"--trace-config=triton,file={self.path}"]

    def traces(self):
        elements = json.loads(self.path.read_text(encoding="utf-8"))
        own = {(e["id"], t["ns"]): t["activity"] for e in elements for t in e.get("timestamps", ())
               if "activity" in t}
        return sorted((model["model_name"], sorted(own.get((number, ns), name) for name, ns in times))
                      for number, (model, times, _) in by_id(elements).items())

    def close(self):
        pass


class Posted:
    """Mode opentelemetry."""

    def __init__(self, _):
        self.receiver = Receiver()
        self.options = ["--trace-config=mode=opentelemetry",
                        f"--trace-config=opentelemetry,url={self.receiver.url}",
                        "--trace-config=opentelemetry,bsp_schedule_delay=1"]
        self.spans = []

    def traces(self):
        while not self.receiver.posts.empty():
            self.spans += self.receiver.spans()
        found = {}
        for span in self.spans:
            model, points = found.setdefault(span["traceId"], (set(), []))
            model.update(next(iter(a["value"].values())) for a in span["attributes"]
                         if a["key"] == "triton.model_name")
            points += [e["name"] for e in span["events"]]
        return sorted((*model, sorted(points)) for model, points in found.values())

    def close(self):
        self.receiver.server.shutdown()
        self.receiver.server.server_close()


@pytest.fixture(params=[InFile, Posted], ids=["triton", "opentelemetry"])
def sink(request, tmp_path):
    one = request.param(tmp_path)
    yield one
    one.close()


@pytest.fixture
def traced(sink, tmp_path):
    require_build(BACKENDS)
    write_repository(tmp_path / "models", MODELS)
    server = Server(tmp_path / "models", [*sink.options, "--trace-config=level=TIMESTAMPS",
                                          "--trace-config=rate=1"], ("http", "grpc", "metrics"))
    yield server
    server.process.kill()
    server.process.wait()


@pytest.fixture
def rpc(traced, stubs):  # noqa: F811
    with open_channel(traced) as channel:
        yield Client(channel, stubs)


def traces(server, sink):
    assert server.stop() == 0, server.text()
    return sink.traces()


def post(server, path, body):
    reply = requests.post(server.url + path, json=body, timeout=SECONDS)
    assert reply.status_code == 200, reply.text
    return reply


def full(front_end):
    return sorted([*front_end, *CORE, DONE])


# ---- kinds of requests --------------------------------------------------------------------------


def test_generate(traced, sink):
    assert post(traced, "/v2/models/echo/generate", {"INPUT0": 7}).json()["OUTPUT0"] == 7
    assert post(traced, "/v2/models/echo/generate_stream", {"INPUT0": 7}).text.count("data: ") == 1
    assert traces(traced, sink) == [("echo", full(HTTP))] * 2


@pytest.mark.parametrize("n", [0, 1, 3])
def test_decoupled_over_http(traced, sink, n):
    """However many responses: one end of the inference, one beginning and end of sending."""
    reply = post(traced, "/v2/models/square/generate_stream", {"IN": n})
    assert reply.text.count("data: ") == n
    ((model, points),) = traces(traced, sink)
    assert model == "square"
    assert set(points) >= {*HTTP, "REQUEST_START", "QUEUE_START", "REQUEST_END", DONE}
    assert [points.count(name) for name in (*HTTP, *CORE, DONE)] == [
        int(name in points) for name in (*HTTP, *CORE, DONE)]


def test_decoupled_over_grpc(traced, sink, rpc):
    sent = [square(rpc, n, id=str(n)) for n in (3, 1, 2)]
    assert len(list(rpc.stream(sent))) == 6
    found = traces(traced, sink)
    assert [model for model, _ in found] == ["square"] * 3
    for _, points in found:
        assert set(points) >= {*GRPC, "REQUEST_START", "QUEUE_START", "REQUEST_END", DONE}
        assert [points.count(name) for name in (*GRPC[:2], DONE)] == [1] * 3
    for name in GRPC[2:]:  # each response is sent alone
        assert sorted(points.count(name) for _, points in found) == [1, 2, 3]


# ---- requests that are not awaited --------------------------------------------------------------


def test_cancelled_in_the_queue(traced, sink, rpc):
    """One executes, the other waits: its trace ends without an execution."""
    def call():
        return rpc.ModelInfer.future(rpc.request(
            "gated", [("INPUT0", "INT32", [1])], [b"\1\0\0\0"]), timeout=SECONDS)

    with Gate(traced, "gated") as gate:
        first = call()
        gate.wait()
        second = call()
        wait_for_pending(traced, "gated", 1)
        second.cancel()
        wait_for_pending(traced, "gated", 0)
        gate.open()
        assert first.result().raw_output_contents[0] == b"\1\0\0\0"
        with pytest.raises(grpc.FutureCancelledError):
            second.result()
    found = traces(traced, sink)
    assert [model for model, _ in found] == ["gated"] * 2
    assert full(GRPC) in [points for _, points in found]
    (other,) = [points for _, points in found if points != full(GRPC)]
    assert {"REQUEST_START", "QUEUE_START", "REQUEST_END", DONE} <= set(other)
    assert not [name for name in other if name.startswith("COMPUTE")]


def test_client_leaves(traced, sink):
    """While its request executes; the trace is complete but for what was not sent."""
    body = b'{"inputs":[{"name":"INPUT0","datatype":"INT32","shape":[1],"data":[1]}]}'
    with Gate(traced, "gated") as gate:
        with socket.create_connection(("127.0.0.1", traced.http_port), timeout=SECONDS) as s:
            s.sendall(b"POST /v2/models/gated/infer HTTP/1.1\r\nHost: x\r\n"
                      b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            gate.wait()
        gate.open()
    ((model, points),) = traces(traced, sink)
    assert model == "gated"
    assert {*CORE, "HTTP_RECV_START", "HTTP_RECV_END", DONE} <= set(points)
    assert len(points) == len(set(points))


def test_refused_before_the_core(traced, sink):
    """No model, no body that can be read: nothing is traced."""
    for path, body in (("/v2/models/nobody/infer", "{}"), ("/v2/models/echo/infer", "{"),
                       ("/v2/models/echo/generate", "[")):
        assert requests.post(traced.url + path, data=body, timeout=SECONDS).status_code >= 400
    post(traced, "/v2/models/echo/generate", {"INPUT0": 7})
    assert traces(traced, sink) == [("echo", full(HTTP))]


# ---- a backend's own ----------------------------------------------------------------------------


def test_custom_activity(traced, sink):
    post(traced, "/v2/models/own/infer", {
        "parameters": {"activity": "THINK"},
        "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [1]}]})
    ((model, points),) = traces(traced, sink)
    assert model == "own"
    assert set(points) == {*full(HTTP), "THINK_START", "THINK_END"}
    if isinstance(sink, Posted):
        spans = {s["name"]: s for s in sink.spans}
        assert set(spans) == {"InferRequest", "own", "compute", "THINK"}
        assert spans["THINK"]["parentSpanId"] == spans["own"]["spanId"]
        assert int(spans["own"]["startTimeUnixNano"]) <= int(spans["THINK"]["startTimeUnixNano"])
        assert int(spans["THINK"]["endTimeUnixNano"]) <= int(spans["own"]["endTimeUnixNano"])


# ---- the start and the end ----------------------------------------------------------------------


def end_of(folder, *options, **environment):
    """Of a server that does not start."""
    write_repository(folder, {"echo": MODELS["echo"]})
    ended = subprocess.run(
        [BUILD / "neso", "serve", f"--model-repository={folder}", "--http-port=0", "--grpc-port=0",
         f"--backend-directory={BUILD / 'backends'}", "--metrics-port=0", *options],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment})
    assert ended.returncode == 1
    assert "loading: echo" not in ended.stderr  # before models are loaded
    assert "successfully loaded" not in ended.stderr
    return ended.stderr


def test_without_libcurl(tmp_path):
    """A library that is none comes first."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcurl.so.4").write_bytes(b"no library\n")
    path = os.pathsep.join([str(tmp_path / "lib"), os.environ.get("LD_LIBRARY_PATH", "")])
    text = end_of(tmp_path / "models", "--trace-config=mode=opentelemetry", LD_LIBRARY_PATH=path)
    assert ("error: trace mode opentelemetry needs libcurl (libcurl.so.4), which could not be "
            "loaded: ") in text


def test_checked_before_the_models(tmp_path):
    assert "trace file name is not given" in end_of(
        tmp_path / "a", "--trace-config=level=TIMESTAMPS")
    assert "trace file '/nowhere/x' can not be written" in end_of(
        tmp_path / "b", "--trace-config=triton,file=/nowhere/x")


def test_exit_timeout(sink, tmp_path):
    """The server leaves while a model is at work: what was traced before is written."""
    require_build(BACKENDS)
    write_repository(tmp_path / "models", MODELS)
    server = Server(tmp_path / "models", [
        *sink.options, "--trace-config=level=TIMESTAMPS", "--trace-config=rate=1",
        "--exit-timeout-secs=1"])
    post(server, "/v2/models/echo/generate", {"INPUT0": 7})
    body = b'{"INPUT0":7}'
    with Gate(server, "gated") as gate, socket.create_connection(
            ("127.0.0.1", server.http_port), timeout=SECONDS) as s:
        s.sendall(b"POST /v2/models/gated/generate HTTP/1.1\r\nHost: x\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        gate.wait()
        assert server.stop() == 1
    assert sink.traces() == [("echo", full(HTTP))]
