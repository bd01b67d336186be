# SPDX-License-Identifier: BSD-3-Clause
"""Traces in mode opentelemetry: what a receiver gets, and what happens without one."""
import http.server
import json
import queue
import socket
import threading
import time

import numpy
import pytest
import requests

import scrape
from conftest import Server, require_build, write_repository
from grpc_stubs import SECONDS, Client, open_channel, stubs  # noqa: F401
from models import wait_until
from test_http_infer import identity

TAKES_SECONDS = 13

BACKENDS = ("identity",)
MODELS = {"one": identity("TYPE_INT32", [-1])}

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


class Receiver:
    """Keeps what is posted. `answers` are the statuses of the next requests, then 200; while `gate`
    is not set it does not answer."""

    def __init__(self):
        self.posts = queue.Queue()
        self.answers = []
        self.gate = threading.Event()
        self.gate.set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.gate.wait(SECONDS)
                status = receiver.answers.pop(0) if receiver.answers else 200
                receiver.posts.put((self.path, dict(self.headers), status, json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self):
        return self.posts.get(timeout=SECONDS)

    def spans(self):
        """Of the next body."""
        (of_resource,) = self.take()[3]["resourceSpans"]
        (of_scope,) = of_resource["scopeSpans"]
        return of_scope["spans"]


@pytest.fixture
def receiver():
    one = Receiver()
    yield one
    one.gate.set()
    one.server.shutdown()
    one.server.server_close()


@pytest.fixture
def start(tmp_path, receiver):
    started = []
    require_build(BACKENDS)
    write_repository(tmp_path / "models", MODELS)

    def run(*options, url=None, rate=1, delay=1):
        settings = ("mode=opentelemetry", "level=TIMESTAMPS", f"rate={rate}",
                    f"opentelemetry,url={url or receiver.url}",
                    f"opentelemetry,bsp_schedule_delay={delay}", *options)
        started.append(Server(tmp_path / "models", [f"--trace-config={s}" for s in settings],
                              ("http", "grpc", "metrics")))
        return started[-1]

    yield run
    for one in started:
        assert one.stop() == 0, one.text()


def infer(server, **headers):
    body = {"id": "r", "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1],
                                   "data": [1]}]}
    reply = requests.post(f"{server.url}/v2/models/one/infer", json=body, timeout=SECONDS,
                          headers=headers)
    assert reply.status_code == 200, reply.text
    return reply


def attributes(owner):
    return {a["key"]: next(iter(a["value"].values())) for a in owner["attributes"]}


def events(span):
    return [e["name"] for e in span["events"]]


def assert_tree(spans, parent=None):
    root, model, compute = spans
    assert [s["name"] for s in spans] == ["InferRequest", "one", "compute"]
    assert [s["kind"] for s in spans] == [2, 1, 1]
    assert root.get("parentSpanId") == parent
    assert model["parentSpanId"] == root["spanId"]
    assert compute["parentSpanId"] == model["spanId"]
    assert len({s["spanId"] for s in spans}) == 3
    assert len({s["traceId"] for s in spans}) == 1
    assert events(model) == ["REQUEST_START", "QUEUE_START", "REQUEST_END"]
    assert events(compute) == ["COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START",
                               "COMPUTE_END"]
    for span in spans:
        times = [int(e["timeUnixNano"]) for e in span["events"]]
        first, last = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        assert first == min(times) and last == max(times)
        assert abs(first / 1e9 - time.time()) < 60
        reported = attributes(span)
        assert reported.pop("triton.trace_id").isdigit()
        assert reported == {"triton.model_name": "one", "triton.model_version": "1",
                        "triton.trace_parent_id": "0", "triton.request_id": "r"}
    assert int(root["startTimeUnixNano"]) <= int(model["startTimeUnixNano"])
    assert int(model["startTimeUnixNano"]) <= int(compute["startTimeUnixNano"])


def test_spans_over_http(start, receiver):
    server = start("opentelemetry,resource=service.name=mine",
                   "opentelemetry,resource=where=here=there")
    reply = infer(server, traceparent=f"00-{TRACE}-{SPAN}-01", tracestate="a=1,b=2")
    path, headers, _, body = receiver.take()
    assert path == "/v1/traces"
    assert headers["Content-Type"] == "application/json"
    (of_resource,) = body["resourceSpans"]
    assert attributes(of_resource["resource"]) == {"service.name": "mine", "where": "here=there"}
    (of_scope,) = of_resource["scopeSpans"]
    spans = of_scope["spans"]
    assert_tree(spans, SPAN)
    assert events(spans[0]) == ["HTTP_RECV_START", "HTTP_RECV_END", "INFER_RESPONSE_COMPLETE",
                                "HTTP_SEND_START", "HTTP_SEND_END"]
    assert {s["traceId"] for s in spans} == {TRACE}
    assert {s["traceState"] for s in spans} == {"a=1,b=2"}
    assert reply.headers["traceparent"] == f"00-{TRACE}-{spans[0]['spanId']}-01"


def test_spans_over_grpc(start, receiver, stubs):  # noqa: F811
    server = start()
    with open_channel(server) as channel:
        rpc = Client(channel, stubs)
        request = rpc.request(model="one", inputs=[("INPUT0", "INT32", [1])],
                              raw=[numpy.int32(5).tobytes()], id="r")
        _, call = rpc.ModelInfer.with_call(
            request, timeout=SECONDS, metadata=(("traceparent", f"00-{TRACE}-{SPAN}-01"),))
        spans = receiver.spans()
        assert_tree(spans, SPAN)
        assert set(events(spans[0])) == {"GRPC_WAITREAD_START", "GRPC_WAITREAD_END",
                                         "GRPC_SEND_START", "GRPC_SEND_END",
                                         "INFER_RESPONSE_COMPLETE"}
        assert dict(call.initial_metadata())["traceparent"] == (
            f"00-{TRACE}-{spans[0]['spanId']}-01")


def test_who_decides(start, receiver):
    """The client, when it says so; else the rate."""
    server = start(rate=1000)
    assert "traceparent" not in infer(server).headers
    assert "traceparent" not in infer(server, traceparent=f"00-{TRACE}-{SPAN}-00").headers
    assert "traceparent" not in infer(server, traceparent="nonsense").headers
    assert infer(server, traceparent=f"00-{TRACE}-{SPAN}-01").headers["traceparent"].startswith(
        f"00-{TRACE}-")
    assert_tree(receiver.spans(), SPAN)
    assert requests.get(f"{server.url}/v2/trace/setting", timeout=SECONDS).json() == {
        "trace_level": ["TIMESTAMPS"], "trace_rate": "1000", "trace_count": "-1",
        "trace_mode": "opentelemetry", "url": receiver.url, "bsp_max_queue_size": "2048",
        "bsp_schedule_delay": "1", "bsp_max_export_batch_size": "512"}


def test_own_trace(start, receiver):
    server = start()
    infer(server)
    infer(server, traceparent=f"00-{TRACE}-{'0' * 16}-01")  # not valid: as if there were none
    spans = receiver.spans()
    spans += receiver.spans() if len(spans) == 3 else []
    for tree in (spans[:3], spans[3:]):
        assert_tree(tree)
        assert tree[0]["traceId"] != TRACE and int(tree[0]["traceId"], 16) != 0


def test_batches(start, receiver):
    """As many spans at once as was said, the rest at the end."""
    server = start("opentelemetry,bsp_max_export_batch_size=6", delay=100000)
    for _ in range(5):
        infer(server)
    assert len(receiver.spans()) == 6
    assert len(receiver.spans()) == 6
    assert receiver.posts.empty()
    assert server.stop() == 0
    assert len(receiver.spans()) == 3


def test_receiver_that_is_busy(start, receiver):
    receiver.answers = [503, 429]
    server = start()
    infer(server)
    posts = [receiver.take() for _ in range(3)]
    assert [status for _, _, status, _ in posts] == [503, 429, 200]
    assert posts[0][3] == posts[1][3] == posts[2][3]
    server.wait_for_line("failed to export traces to .*: HTTP status 503")
    server.wait_for_line("traces are exported to .* again")
    assert dropped(server) == 0


def dropped(server):
    url = f"http://127.0.0.1:{server.ports['metrics']}/metrics"
    family = scrape.parse(requests.get(url, timeout=SECONDS).text)["neso_traces_dropped_total"]
    return sum(family.samples.values())


def test_receiver_that_refuses(start, receiver):
    receiver.answers = [400]
    server = start()
    infer(server)
    assert receiver.take()[2] == 400
    server.wait_for_line("failed to export traces to .*: HTTP status 400")
    infer(server)
    assert len(receiver.spans()) == 3
    assert dropped(server) == 1


def test_receiver_that_hangs(start, receiver):
    """Requests go on; what does not fit into the queue is counted; the end comes in time."""
    receiver.gate.clear()
    server = start("opentelemetry,bsp_max_queue_size=9", "opentelemetry,bsp_max_export_batch_size=3")
    for _ in range(10):
        infer(server)
    # One is at the receiver (perhaps none yet), three wait; a trace ends behind its answer.
    wait_until(lambda: dropped(server) >= 6)
    assert dropped(server) in (6, 7)
    begun = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begun < 20


def test_no_receiver(start):
    """Nobody listens at the port, and no other program gets it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = start(url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1/traces")
        infer(server)
        server.wait_for_line("failed to export traces to .*[Cc]onnect")
        infer(server)
        assert server.stop() == 0


def test_exemplars(start, receiver):
    """The latency's buckets of the model have the id of a traced request, that which its spans have."""
    server = start(rate=1000)
    infer(server)  # not traced
    infer(server, traceparent=f"00-{TRACE}-{SPAN}-01")
    receiver.take()
    text = requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=SECONDS,
                        headers={"Accept": "application/openmetrics-text"}).text
    marked = [line for line in text.splitlines() if " # {" in line]
    [line] = marked
    name, exemplar = line.split(" # ")
    assert name.startswith('neso_request_duration_seconds_bucket{model="one",version="1",le="')
    labels, seconds, at = exemplar.split(" ")
    assert labels == f'{{trace_id="{TRACE}"}}'
    assert 0 < float(seconds) < SECONDS and abs(float(at) - time.time()) < 60
