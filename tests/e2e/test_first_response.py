# SPDX-License-Identifier: BSD-3-Clause
"""Models that are not decoupled and answer more than once, or answer and go on: what clients of the
two protocols get of them."""
import json
import struct
import urllib.error
import urllib.request

import grpc
import pytest

from grpc_stubs import SECONDS, client, plain, stubs  # noqa: F401

BACKENDS = ("repeat",)

TENSORS = """backend: "repeat"
input { name: "IN" data_type: TYPE_INT32 dims: -1 }
input { name: "DELAY" data_type: TYPE_UINT32 dims: -1 }
input { name: "WAIT" data_type: TYPE_UINT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
output { name: "IDX" data_type: TYPE_UINT32 dims: 1 }
"""
MODELS = {
    "once": TENSORS,
    "said_so": TENSORS + "model_transaction_policy { decoupled: false }\n",
}

HOUR = 3600 * 1000  # ms


def int32(*values):
    return struct.pack(f"<{len(values)}i", *values)


def repeat(client, values, delays=None, model="once", **more):  # noqa: F811
    delays = [0] * len(values) if delays is None else delays
    return client.request(model, [("IN", "INT32", [len(values)]), ("DELAY", "UINT32", [len(delays)]),
                                  ("WAIT", "UINT32", [1])],
                          [int32(*values), int32(*delays), int32(0)], **more)


def infer(server, values):
    body = {"inputs": [
        {"name": "IN", "shape": [len(values)], "datatype": "INT32", "data": values},
        {"name": "DELAY", "shape": [len(values)], "datatype": "UINT32", "data": [0] * len(values)},
        {"name": "WAIT", "shape": [1], "datatype": "UINT32", "data": [0]}]}
    request = urllib.request.Request(f"{server.url}/v2/models/once/infer", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def outcome(message):
    response = message.infer_response
    return (response.id, message.error_message, plain(response.parameters),
            [struct.unpack("<i", raw)[0] for raw in response.raw_output_contents])


@pytest.mark.parametrize("model", ["once", "said_so"])
def test_one_response(server, client, model):  # noqa: F811
    reply = client.ModelInfer(repeat(client, [7], model=model), timeout=SECONDS)
    assert list(reply.raw_output_contents) == [int32(7), int32(0)]


def test_several_responses_to_one_question(server, client):  # noqa: F811
    status, body = infer(server, [7])
    assert (status, [o["data"] for o in body["outputs"]]) == (200, [[7], [0]])
    assert infer(server, [7, 8]) == (500, {"error": "expected a single response, got 2"})
    with pytest.raises(grpc.RpcError) as caught:
        client.ModelInfer(repeat(client, [7, 8, 9]), timeout=SECONDS)
    assert (caught.value.code().name, caught.value.details()) == (
        "INTERNAL", "expected a single response, got 3")


def test_the_first_response_goes_out_at_once(client):  # noqa: F811
    """The second one is an hour away."""
    stream = client.stream([repeat(client, [7, 8], [0, HOUR], id="1")])
    assert outcome(next(stream)) == ("1", "", {"triton_final_response": False}, [7, 0])
    stream.cancel()


def test_the_others_are_discarded(client):  # noqa: F811
    sent = [repeat(client, [n, n + 1, n + 2], id=str(n)) for n in range(0, 60, 3)]
    assert [outcome(m) for m in client.stream(sent)] == [
        (str(n), "", {"triton_final_response": False}, [n, 0]) for n in range(0, 60, 3)]


def test_early_responses_keep_the_order(client):  # noqa: F811
    """The third request's is there before the second's."""
    sent = [repeat(client, [1, 2], [0, HOUR], id="1"), repeat(client, [3, 4], [100, 0], id="2"),
            repeat(client, [5], id="3")]
    stream = client.stream(sent)
    assert [outcome(next(stream))[0] for _ in range(3)] == ["1", "2", "3"]
    stream.cancel()


def test_shapes_that_do_not_match(client):  # noqa: F811
    text = "expected IN and DELAY shape to match, got [1] and [2]"
    with pytest.raises(grpc.RpcError) as caught:
        client.ModelInfer(repeat(client, [1], [2, 3]), timeout=SECONDS)
    assert (caught.value.code().name, caught.value.details()) == ("INVALID_ARGUMENT", text)
    got = list(client.stream([repeat(client, [1], [2, 3], id="x")]))
    assert [outcome(m) for m in got] == [("x", text, {"triton_final_response": True}, [])]
