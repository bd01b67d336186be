# SPDX-License-Identifier: BSD-3-Clause
"""ModelStreamInfer: order, errors within the stream, decoupled models, the ends of a stream."""
import queue
import struct

import grpc
import pytest

from conftest import is_sanitized
from gate import Gate, gated
from grpc_stubs import SECONDS, client, plain, stubs  # noqa: F401
from scrape import wait_for_pending

BACKENDS = ("identity", "testing")


def tensors(kind, *rows):
    return "".join(f'{kind} {{ name: "{name}" data_type: {kind_of} dims: {dims} }}\n'
                   for name, kind_of, dims in rows)


INPUT = tensors("input", ("INPUT0", "TYPE_FP32", [-1]))
OUTPUT = tensors("output", ("OUTPUT0", "TYPE_FP32", [-1]))
NUMBER = tensors("output", ("RESPONSE", "TYPE_INT32", [1]))
DECOUPLED = "model_transaction_policy { decoupled: true }\n"

MODELS = {
    "simple": 'backend: "identity"\n' + INPUT + OUTPUT,
    "failing": 'backend: "testing"\n' + INPUT + OUTPUT,
    "gated": gated('backend: "testing"\n' + INPUT + OUTPUT),
    "gated_once": gated('backend: "testing"\n' + INPUT + OUTPUT),
    "many": 'backend: "testing"\n' + DECOUPLED + INPUT + NUMBER,
    "large": 'backend: "testing"\n' + DECOUPLED + INPUT + OUTPUT,
    "gated_many": gated('backend: "testing"\n' + DECOUPLED + INPUT + NUMBER),
}


def fp32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def one(client, model, id="", value=1.0, parameters=None, **more):  # pylint: disable=redefined-builtin
    return client.request(model, [("INPUT0", "FP32", [1])], [fp32(value)], id=id,
                          parameters=parameters, **more)


def number(message):
    return struct.unpack("<i", message.infer_response.raw_output_contents[0])[0]


def is_final(message):
    return message.infer_response.parameters["triton_final_response"].bool_param


@pytest.fixture(scope="module")
def decoupled():
    return "many"


class Requests:
    """An iterator that a test feeds while the stream runs."""

    def __init__(self):
        self._queue = queue.Queue()

    def __iter__(self):
        return iter(self._queue.get, None)

    def send(self, *messages):
        for message in messages:
            self._queue.put(message)

    def close(self):
        self._queue.put(None)


# ---- models that are not decoupled --------------------------------------------------------------


def test_one_response_each_in_order(client):
    sent = [one(client, "simple", str(n), n) for n in range(300)]
    got = list(client.stream(sent))
    assert [m.infer_response.id for m in got] == [str(n) for n in range(300)]
    for n, message in enumerate(got):
        assert message.error_message == ""
        response = message.infer_response
        assert (response.model_name, response.model_version) == ("simple", "1")
        assert plain(response.parameters) == {"triton_final_response": True}
        assert [(o.name, o.datatype, list(o.shape)) for o in response.outputs] == [
            ("OUTPUT0", "FP32", [1])]
        assert list(response.raw_output_contents) == [fp32(n)]


def test_an_early_answer_waits_for_those_before_it(server, client):
    """The second request is answered by another model long before the first."""
    with Gate(server, "gated") as gate:
        requests = Requests()
        stream = client.stream(requests)
        requests.send(one(client, "gated", "first"))
        gate.wait()
        requests.send(one(client, "simple", "second"), one(client, "nobody", "third"),
                      one(client, "many", "decoupled"))
        assert next(stream).infer_response.id == "decoupled"  # waits for nobody
        gate.open()
        assert [next(stream).infer_response.id for _ in range(3)] == ["first", "second", "third"]
        requests.close()
        assert list(stream) == []
        assert stream.code() == grpc.StatusCode.OK


def test_empty_stream(client):
    stream = client.stream([])
    assert list(stream) == []
    assert stream.code() == grpc.StatusCode.OK


def test_large_messages(client):
    raw = bytes(range(256)) * 16384  # 4 MiB
    request = client.request("simple", [("INPUT0", "FP32", [len(raw) // 4])], [raw])
    got = list(client.stream([request] * 5))
    assert [m.infer_response.raw_output_contents[0] == raw for m in got] == [True] * 5


# ---- errors -------------------------------------------------------------------------------------


def test_a_refused_request_does_not_end_the_stream(client):
    got = list(client.stream([
        one(client, "simple", "1"),
        one(client, "nobody", "2"),
        one(client, "simple", "3", model_version="x"),
        one(client, "simple", "4", parameters={"timeout": "x"}),
        client.request("simple", [("INPUT0", "FP32", [1])], id="5"),
        one(client, "many", "6", parameters={"priority": -1}),
        one(client, "simple", "7"),
    ]))
    ordered = [m for m in got if m.infer_response.id != "6"]
    assert [(m.error_message, m.infer_response.id) for m in ordered] == [
        ("", "1"),
        ("Request for unknown model: 'nobody' is not found", "2"),
        ("failed to get model version from specified version string 'x' (details: stol), version "
         "should be an integral value > 0", "3"),
        ("invalid value type for 'timeout' parameter, expected int64_param.", "4"),
        ("unable to find data for input tensor 'INPUT0' for model 'simple' in request.", "5"),
        ("", "7")]
    refused = [m for m in got if m.infer_response.id == "6"]
    assert [m.error_message for m in refused] == [
        "invalid value for 'priority', expected value >= 0."]
    # The id and nothing else.
    assert ordered[1].infer_response == client.pb.ModelInferResponse(id="2")


def test_a_failure_of_the_model(client):
    got = list(client.stream([
        one(client, "failing", "1", parameters={"fail": "as asked"}),
        one(client, "failing", "2", parameters={"fail": "too"}, model_version="1"),
        one(client, "failing", "3")]))
    assert [m.error_message for m in got] == ["as asked", "too", ""]
    response = got[0].infer_response
    assert (response.id, response.model_name, response.model_version) == ("1", "failing", "")
    assert plain(response.parameters) == {"triton_final_response": True}
    assert not response.outputs and not response.raw_output_contents
    assert got[1].infer_response.model_version == "1"  # as in the request


def test_a_malformed_message(client):
    call = client.channel.stream_stream(
        "/inference.GRPCInferenceService/ModelStreamInfer",
        response_deserializer=client.pb.ModelStreamInferResponse.FromString)
    good = one(client, "simple", "2").SerializeToString()
    got = list(call(iter([b"\x1a\x011\x0a\x05abc", good]), timeout=SECONDS))
    assert [m.error_message for m in got] == ["failed to parse the ModelInferRequest message", ""]


def test_errors_as_status(client):
    metadata = [("triton_grpc_error", "true")]
    stream = client.stream([one(client, "simple", "1"),
                            one(client, "failing", "2", parameters={
                                "fail": "as asked", "fail_code": "Not found"}),
                            one(client, "simple", "3")], metadata)
    got = []
    with pytest.raises(grpc.RpcError) as caught:
        for message in stream:
            got.append(message.infer_response.id)
    assert (caught.value.code().name, caught.value.details()) == ("NOT_FOUND", "as asked")
    assert got in ([], ["1"])  # a client may lose what came just before a status

    # What is refused before it is started is told within the stream all the same.
    got = list(client.stream([one(client, "nobody", "1"), one(client, "simple", "2")], metadata))
    assert [m.error_message for m in got] == ["Request for unknown model: 'nobody' is not found", ""]


def test_a_failure_among_several_responses_as_status(client, decoupled):
    """It is not the final one; a third response would follow."""
    stream = client.stream([one(client, decoupled, "x", parameters={
        "responses": 3, "fail": "the second", "fail_at": 1})], [("triton_grpc_error", "true")])
    with pytest.raises(grpc.RpcError) as caught:
        list(stream)
    assert (caught.value.code().name, caught.value.details()) == ("INTERNAL", "the second")


def test_a_status_does_not_wait_for_the_requests_it_cancels(server, client):
    with Gate(server, "gated_once") as gate:
        requests = Requests()
        stream = client.stream(requests, [("triton_grpc_error", "true")])
        requests.send(one(client, "gated_once", "1"))
        gate.wait()
        requests.send(one(client, "gated_once", "2"),
                      one(client, "failing", "3", parameters={"fail": "of three"}))
        with pytest.raises(grpc.RpcError) as caught:
            list(stream)
        assert (caught.value.code().name, caught.value.details()) == ("INTERNAL", "of three")
        gate.open(2)  # the second is cancelled while it waits, or has just begun
        requests.close()


# ---- decoupled models ---------------------------------------------------------------------------


def test_decoupled_responses(client, decoupled):
    got = list(client.stream([one(client, decoupled, "x", parameters={"responses": 5})]))
    assert [number(m) for m in got] == [0, 1, 2, 3, 4]
    assert [m.infer_response.id for m in got] == ["x"] * 5
    # The testing backend ends with flags alone, so no response is the final one.
    assert [plain(m.infer_response.parameters) for m in got] == [
        {"triton_final_response": False}] * 5
    assert {m.infer_response.model_version for m in got} == {"1"}


def test_empty_final_response(client, decoupled):
    asked = {"triton_enable_empty_final_response": True}
    got = list(client.stream([one(client, decoupled, "x", parameters={"responses": 2, **asked})]))
    assert [is_final(m) for m in got] == [False, False, True]
    expected = client.pb.ModelInferResponse(id="x", model_name=decoupled)
    expected.parameters["triton_final_response"].bool_param = True
    assert got[2] == client.pb.ModelStreamInferResponse(infer_response=expected)

    got = list(client.stream([one(client, decoupled, "y", parameters={"responses": 0, **asked})]))
    assert [is_final(m) for m in got] == [True]
    got = list(client.stream([one(client, decoupled, "z", parameters={"responses": 0})]))
    assert got == []


def test_decoupled_failure_in_the_middle(client, decoupled):
    got = list(client.stream([one(client, decoupled, "x", parameters={
        "responses": 3, "fail": "the second", "fail_at": 1})]))
    assert [m.error_message for m in got] == ["", "the second", ""]
    response = got[1].infer_response
    assert (response.id, response.model_name, response.model_version) == ("x", decoupled, "")
    assert plain(response.parameters) == {"triton_final_response": False}


def test_responses_of_several_decoupled_requests(client, decoupled):
    """Each request's responses are in order, whatever comes between them."""
    sent = [one(client, decoupled, str(n), parameters={"responses": 20}) for n in range(10)]
    seen = {}
    for message in client.stream(sent):
        seen.setdefault(message.infer_response.id, []).append(number(message))
    assert seen == {str(n): list(range(20)) for n in range(10)}


def test_many_responses_take_no_memory(server, client, decoupled):
    """Long streams are usual for decoupled models; nothing is kept of what was sent."""

    def resident_pages():
        with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1])

    def run(responses):
        got = client.stream([one(client, "large", parameters={"responses": responses})])
        assert sum(1 for _ in got) == responses

    run(2000)
    before = resident_pages()
    run(20000)
    # 16 MiB; a kept answer would be 18000 times 1 KiB. A sanitizer keeps what was freed.
    assert is_sanitized() or resident_pages() - before < 4096


# ---- the ends of a stream -----------------------------------------------------------------------


def test_cancel_takes_all_requests_along(server, client):
    with Gate(server, "gated_many") as gate:
        requests = Requests()
        stream = client.stream(requests)
        requests.send(*(one(client, "gated_many", str(n)) for n in range(4)))
        gate.wait()
        wait_for_pending(server, "gated_many", 3)
        stream.cancel()
        requests.close()
        # Whatever still waits is taken out of the queue, so the next execution is of a new stream.
        wait_for_pending(server, "gated_many", 0)
        follow = Requests()
        second = client.stream(follow)
        follow.send(one(client, "gated_many", "new"))
        gate.open()
        gate.wait()
        gate.open()
        assert next(second).infer_response.id == "new"
        follow.close()
        assert list(second) == []
        assert not gate.is_reached()


def test_half_close_waits_for_the_answers(server, client):
    with Gate(server, "gated") as gate:
        stream = client.stream([one(client, "gated", str(n)) for n in range(3)])
        for _ in range(3):
            gate.wait()
            gate.open()
        assert [m.infer_response.id for m in stream] == ["0", "1", "2"]
        assert stream.code() == grpc.StatusCode.OK


def test_deadline(server, client):
    with Gate(server, "gated") as gate:
        request = one(client, "gated")
        stream = client.ModelStreamInfer(iter([request]), timeout=2)
        gate.wait()
        with pytest.raises(grpc.RpcError) as caught:
            list(stream)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        gate.open()


def test_more_requests_than_may_be_in_flight(server, client):
    """Beyond the bound the server reads no further, and loses nothing."""
    n = 3000
    with Gate(server, "gated") as gate:
        stream = client.stream(one(client, "gated", str(i)) for i in range(n))
        gate.wait()
        gate.open(n)
        assert [m.infer_response.id for m in stream] == [str(i) for i in range(n)]
        gate.wait(n - 1)


def test_many_streams_at_once(client):
    streams = [client.stream([one(client, "simple", f"{s}-{n}") for n in range(20)])
               for s in range(20)]
    for s, stream in enumerate(streams):
        assert [m.infer_response.id for m in stream] == [f"{s}-{n}" for n in range(20)]
