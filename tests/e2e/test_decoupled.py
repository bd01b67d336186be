# SPDX-License-Identifier: BSD-3-Clause
"""Decoupled models: how many responses, when, in which order, and what ends them.

The backends `repeat` and `square` answer from threads of their own, after the request's release.
"""
import json
import struct
import time
import urllib.error
import urllib.request

import grpc
import pytest

from conftest import Server, write_repository
from grpc_stubs import Client, client, stubs  # noqa: F401
from scrape import metric

BACKENDS = ("repeat", "square")

SQUARE = """backend: "square"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
"""
REPEAT = """backend: "repeat"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: -1 }
input { name: "DELAY" data_type: TYPE_UINT32 dims: -1 }
input { name: "WAIT" data_type: TYPE_UINT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
output { name: "IDX" data_type: TYPE_UINT32 dims: 1 }
"""

MODELS = {
    "square": SQUARE,
    "square_counted": SQUARE,
    "repeat": REPEAT,
    "repeat_counted": REPEAT,
}

OPTIONS = ("--grpc-max-response-pool-size=4", "--metrics-config=histogram_latencies=true")

HOUR = 3600 * 1000  # ms


def int32(*values):
    return struct.pack(f"<{len(values)}i", *values)


def square(client, n, id="", model="square"):  # pylint: disable=redefined-builtin
    return client.request(model, [("IN", "INT32", [1])], [int32(n)], id=id)


def repeat(client, values, delays=None, wait=0, model="repeat", **more):
    delays = [0] * len(values) if delays is None else delays
    return client.request(model, [("IN", "INT32", [len(values)]), ("DELAY", "UINT32", [len(delays)]),
                                  ("WAIT", "UINT32", [1])],
                          [int32(*values), int32(*delays), int32(wait)], **more)


def outputs(message):
    response = message.infer_response
    return {output.name: struct.unpack("<i", raw)[0]
            for output, raw in zip(response.outputs, response.raw_output_contents)}


def post(server, path, body=None):
    request = urllib.request.Request(server.url + path, json.dumps(body or {}).encode())
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def squares_over_grpc(server, client, n):
    return [outputs(m)["OUT"] for m in client.stream([square(client, n)])]


def squares_over_http(server, client, n):
    status, body = post(server, "/v2/models/square/generate_stream", {"IN": n})
    assert status == 200
    events = body.decode().split("\n\n")
    assert events.pop() == ""
    return [json.loads(event.removeprefix("data: "))["OUT"] for event in events]


# ---- how many -----------------------------------------------------------------------------------


@pytest.mark.parametrize("squares", [squares_over_grpc, squares_over_http])
@pytest.mark.parametrize("n", [0, 1, 3, 1000])
def test_number_of_responses(server, client, squares, n):
    assert squares(server, client, n) == [n] * n


@pytest.mark.parametrize("n", [0, 1, 3, 1000])
def test_one_response_for_each_element(client, n):
    got = list(client.stream([repeat(client, [7 * i for i in range(n)])]))
    assert [m.error_message for m in got] == [""] * n
    assert [outputs(m) for m in got] == [{"OUT": 7 * i, "IDX": i} for i in range(n)]


def test_only_the_outputs_asked_for(client):
    got = list(client.stream([repeat(client, [5, 6], outputs=["IDX"])]))
    assert [outputs(m) for m in got] == [{"IDX": 0}, {"IDX": 1}]


# ---- when, and in which order -------------------------------------------------------------------


def test_responses_after_the_release_and_over_each_other(client):
    """One instance: it takes the second request while the first one still answers."""
    stream = client.stream([repeat(client, [1, 2], [0, HOUR], id="slow"),
                            repeat(client, [3, 4], id="quick")])
    got = [next(stream) for _ in range(3)]
    stream.cancel()
    assert sorted((m.infer_response.id, outputs(m)["OUT"]) for m in got) == [
        ("quick", 3), ("quick", 4), ("slow", 1)]


def test_many_requests_at_once(client):
    seen = {}
    sent = [repeat(client, range(20), [i % 3 for i in range(20)], id=str(k)) for k in range(30)]
    for message in client.stream(sent):
        seen.setdefault(message.infer_response.id, []).append(outputs(message)["IDX"])
    assert seen == {str(k): list(range(20)) for k in range(30)}


# ---- failures -----------------------------------------------------------------------------------


def test_a_request_that_cannot_be(client):
    got = list(client.stream([repeat(client, [1, 2], [0], id="1"), repeat(client, [1], id="2")]))
    assert sorted((m.infer_response.id, m.error_message) for m in got) == [
        ("1", "expected IN and DELAY shape to match, got [2] and [1]"), ("2", "")]


def test_unary_calls_are_refused(server, client):
    with pytest.raises(grpc.RpcError) as caught:
        client.ModelInfer(square(client, 1), timeout=20)
    assert (caught.value.code().name, caught.value.details()) == (
        "UNIMPLEMENTED", "ModelInfer RPC doesn't support models with decoupled transaction policy")
    status, body = post(server, "/v2/models/square/infer", {"inputs": []})
    assert (status, json.loads(body)) == (
        501, {"error": "HTTP end point doesn't support models with decoupled transaction policy"})


def test_configurations_that_do_not_fit(tmp_path):
    write_repository(tmp_path, {
        "coupled": SQUARE.replace("true", "false"),
        "narrow": REPEAT.replace("TYPE_UINT32 dims: -1", "TYPE_INT32 dims: -1"),
        "batched": "max_batch_size: 2\n" + REPEAT,
    })
    server = Server(tmp_path, ["--exit-on-error=false"])
    assert server.stop() == 0
    for text in ("model 'coupled': the square backend needs model_transaction_policy { decoupled: "
                 "true }",
                 "model 'narrow': the repeat backend needs 'DELAY' with data type TYPE_UINT32",
                 "model 'batched': the repeat backend needs max_batch_size 0"):
        assert text in server.text()


# ---- cancellation and slow readers --------------------------------------------------------------


@pytest.fixture
def brief_server(tmp_path):
    """To be stopped by its test."""
    write_repository(tmp_path, {"square": SQUARE, "repeat": REPEAT})
    server = Server(tmp_path, OPTIONS)
    yield server
    server.process.kill()
    server.process.wait()


@pytest.mark.parametrize("request_of, first", [
    # A response that is an hour away.
    (lambda c: repeat(c, [1, 2], [0, HOUR]), 1),
    # The request's own end is an hour away.
    (lambda c: repeat(c, [1], wait=HOUR), 1),
    # The backend has two thousand million more to say, and waits for room.
    (lambda c: square(c, 2**31 - 1), 2**31 - 1),
])
def test_cancel_ends_all_waiting(brief_server, stubs, request_of, first):  # noqa: F811
    """A model, and with it the server, ends when the last of its responses can come no more."""
    with grpc.insecure_channel(f"127.0.0.1:{brief_server.port('grpc')}") as channel:
        client = Client(channel, stubs)
        stream = client.stream([request_of(client)])
        assert outputs(next(stream))["OUT"] == first
        stream.cancel()
        assert brief_server.stop() == 0


def test_nothing_is_lost_with_little_room(server, client):
    assert sum(1 for _ in client.stream([square(client, 5000)])) == 5000


# ---- statistics ---------------------------------------------------------------------------------


def test_statistics_of_responses(server, client):
    model = "square_counted"
    for n in (3, 1):
        assert len(list(client.stream([square(client, n, model=model)]))) == n
    with urllib.request.urlopen(f"{server.url}/v2/models/{model}/stats", timeout=20) as answer:
        (over_http,) = json.load(answer)["model_stats"]
    responses = over_http["response_stats"]
    assert {index: r["success"]["count"] for index, r in responses.items()} == {
        "0": 2, "1": 1, "2": 1}
    for r in responses.values():
        assert r["compute_infer"]["count"] == r["compute_output"]["count"] == r["success"]["count"]
        assert r["success"]["ns"] == r["compute_infer"]["ns"] + r["compute_output"]["ns"]
        assert all(r[kind] == {"count": 0, "ns": 0} for kind in ("fail", "empty_response", "cancel"))
    assert over_http["inference_count"] == 2
    assert over_http["execution_count"] == 2

    (over_grpc,) = client.call("ModelStatistics", {"name": model}).model_stats
    assert {index: (r.success.count, r.success.ns) for index, r in
            over_grpc.response_stats.items()} == {
        index: (r["success"]["count"], r["success"]["ns"]) for index, r in responses.items()}

    assert metric(server, "nv_inference_first_response_histogram_ms_count", model) == 2


def test_statistics_of_a_cancelled_request(server, client):
    """The response that is not made is counted as cancelled; the server is asked until it is."""
    stream = client.stream([repeat(client, [1, 2, 3], [0, 0, HOUR], model="repeat_counted")])
    assert [outputs(next(stream))["IDX"] for _ in range(2)] == [0, 1]
    stream.cancel()
    deadline = time.monotonic() + 20
    while True:
        with urllib.request.urlopen(f"{server.url}/v2/models/repeat_counted/stats",
                                    timeout=20) as answer:
            (stats,) = json.load(answer)["model_stats"]
        if "2" in stats["response_stats"]:
            break
        assert time.monotonic() < deadline, stats
    assert {index: (r["success"]["count"], r["cancel"]["count"])
            for index, r in stats["response_stats"].items()} == {
                "0": (1, 0), "1": (1, 0), "2": (0, 1)}
