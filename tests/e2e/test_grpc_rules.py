# SPDX-License-Identifier: BSD-3-Clause
"""Rules of gRPC that no other module holds: metadata, compression of answers, versions, what
protobuf allows on the wire, and a server that exits."""
import queue
import struct

import grpc
import pytest

from conftest import Server, write_repository
from gate import Gate, gated
from grpc_curl import Curl, curl, framed  # noqa: F401
from grpc_stubs import SECONDS, Client, Stub, client, open_channel, plain, stubs  # noqa: F401

BACKENDS = ("identity", "testing")
OPTIONS = ("--grpc-infer-response-compression-level=high",
           "--grpc-header-forward-pattern=SEQUENCE|^priority$|timeout|headers|binary_data|triton_x|FAI")
SERVICE = "/inference.GRPCInferenceService/"


def tensors(kind, kind_of="TYPE_FP32"):
    return f'{kind} {{ name: "{kind.upper()}0" data_type: {kind_of} dims: [-1] }}\n'


IDENTITY = 'backend: "identity"\n' + tensors("input") + tensors("output")
TESTING = 'backend: "testing"\n' + tensors("input") + tensors("output")
MODELS = {
    "fp32": IDENTITY,
    "testing": TESTING,
    "versions": {"config.pbtxt": IDENTITY + "version_policy { all { } }\n", "3/empty": "",
                 "10/empty": ""},
    "parameters": IDENTITY + ('parameters { key: "response_parameters" value { string_value: "true"'
                              ' } }\n'),
}


def fp32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def one(client, model="fp32", values=(1,), **more):  # noqa: F811
    return client.request(model, [("INPUT0", "FP32", [len(values)])], [fp32(*values)], **more)


# ---- metadata -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sequence_id", "sequence_start", "sequence_end", "priority",
                                  "timeout", "headers", "binary_data_output", "triton_x"])
def test_metadata_that_is_not_forwarded(client, name):  # noqa: F811
    text = f"Header '{name}' is reserved for Triton usage and cannot be forwarded."
    with pytest.raises(grpc.RpcError) as caught:
        client.ModelInfer(one(client), timeout=SECONDS, metadata=[(name, "1")])
    assert (caught.value.code().name, caught.value.details()) == ("INVALID_ARGUMENT", text)
    got = list(client.stream([one(client, id="7")], [(name, "1")]))
    assert [(m.error_message, m.infer_response.id) for m in got] == [(text, "7")]


def test_part_of_metadata_matches(client):  # noqa: F811
    """The pattern has FAI; the testing backend looks for a parameter "fail"."""
    metadata = [("fail", "by metadata")]
    with pytest.raises(grpc.RpcError) as caught:
        client.ModelInfer(one(client, "testing"), timeout=SECONDS, metadata=metadata)
    assert (caught.value.code().name, caught.value.details()) == ("INTERNAL", "by metadata")
    got = list(client.stream([one(client, "testing")] * 2, metadata))
    assert [m.error_message for m in got] == ["by metadata"] * 2


@pytest.mark.parametrize("value", ["ends in a blank ", " begins with one", " "])
def test_blanks_at_the_ends_of_metadata(client, value):  # noqa: F811
    """They belong to the value."""
    got = list(client.stream([one(client, "testing")], [("fail", value)]))
    assert [m.error_message for m in got] == [value]


def test_sequence_names(client):  # noqa: F811
    client.ModelInfer(one(client, parameters={"sequence_id": "x" * 128}), timeout=SECONDS)
    client.ModelInfer(one(client, parameters={"sequence_id": -1}), timeout=SECONDS)
    with pytest.raises(grpc.RpcError) as caught:
        client.ModelInfer(one(client, parameters={"sequence_id": "x" * 129}), timeout=SECONDS)
    assert (caught.value.code().name, caught.value.details()) == (
        "UNIMPLEMENTED", "string correlation ID cannot be longer than 128 characters")


# ---- compression of answers ---------------------------------------------------------------------


@pytest.mark.parametrize("accept,encoding", [
    ("gzip", "gzip"), ("deflate", "deflate"), ("identity,deflate,gzip", None), ("identity", None),
    ("br", None)])
def test_answers_are_compressed_for_who_accepts(curl, client, accept, encoding):  # noqa: F811
    zeros = (0,) * 2000
    asking = ("--header", f"grpc-accept-encoding: {accept}")
    call = curl(SERVICE + "ModelInfer", framed(one(client, values=zeros).SerializeToString()),
                *asking)
    assert call.fields["grpc-status"] == "0"
    if accept == "identity,deflate,gzip":
        assert call.fields["grpc-encoding"] in ("gzip", "deflate")
        encoding = call.fields["grpc-encoding"]
    assert call.is_compressed == [encoding is not None]
    if encoding:
        assert call.fields["grpc-encoding"] == encoding
    reply = client.pb.ModelInferResponse.FromString(call.messages[0])
    assert reply.raw_output_contents[0] == fp32(*zeros)

    call = curl(SERVICE + "ModelStreamInfer",
                framed(one(client, values=zeros).SerializeToString()) * 2, *asking)
    assert call.is_compressed == [encoding is not None] * 2
    for message in call.messages:
        reply = client.pb.ModelStreamInferResponse.FromString(message)
        assert reply.infer_response.raw_output_contents[0] == fp32(*zeros)


def test_other_methods_are_not_compressed(curl, client):  # noqa: F811
    request = client.pb.ModelConfigRequest(name="fp32").SerializeToString()
    call = curl(SERVICE + "ModelConfig", framed(request), "--header", "grpc-accept-encoding: gzip")
    assert (call.fields["grpc-status"], call.is_compressed) == ("0", [False])


def test_no_compression_unless_asked_for(tmp_path, stubs):  # noqa: F811
    """The level is "none" by default, whatever the client accepts."""
    write_repository(tmp_path / "models", {"fp32": IDENTITY})
    running = Server(tmp_path / "models")
    with open_channel(running) as channel:
        message = one(Client(channel, stubs), values=(0,) * 2000).SerializeToString()
    call = Curl(running, tmp_path, SERVICE + "ModelInfer", framed(message), "--header",
                "grpc-accept-encoding: gzip")
    assert (call.fields["grpc-status"], call.is_compressed) == ("0", [False])
    assert running.stop() == 0


# ---- versions, parameters -----------------------------------------------------------------------


def test_version_is_the_highest(client):  # noqa: F811
    for asked, got in (("", "10"), ("1", "1"), ("3", "3"), ("10", "10")):
        request = one(client, "versions", model_version=asked)
        assert client.ModelInfer(request, timeout=SECONDS).model_version == got
        assert [m.infer_response.model_version for m in client.stream([request])] == [got]
        assert client.call("ModelReady", {"name": "versions", "version": asked}).ready is True
    assert list(client.call("ModelMetadata", {"name": "versions"}).versions) == ["1", "3", "10"]
    assert client.call("ModelReady", {"name": "versions", "version": "2"}).ready is False
    got = list(client.stream([one(client, "versions", model_version="2", id="7")]))
    assert [(m.error_message, m.infer_response.id) for m in got] == [
        ("Request for unknown model: 'versions' version 2 is not found", "7")]


def test_a_stream_adds_a_parameter(client):  # noqa: F811
    own = {"param0": "an example string parameter", "param1": 42, "param2": False}
    request = one(client, "parameters")
    assert plain(client.ModelInfer(request, timeout=SECONDS).parameters) == own
    assert [plain(m.infer_response.parameters) for m in client.stream([request])] == [
        {**own, "triton_final_response": True}]


def test_classification_on_a_stream(client):  # noqa: F811
    request = one(client, values=(1, 4, 2.5), outputs=[("OUTPUT0", {"classification": 2})])
    reply, = client.stream([request])
    assert reply.infer_response.outputs[0].datatype == "BYTES"
    assert reply.infer_response.raw_output_contents[0] == (
        struct.pack("<I", 10) + b"4.000000:1" + struct.pack("<I", 10) + b"2.500000:2")


# ---- what protobuf allows -----------------------------------------------------------------------


def varint(number):
    text = b""
    while number > 127:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


def field(number, content):
    """Of length-delimited type for bytes, else a varint."""
    if isinstance(content, bytes):
        return varint(number << 3 | 2) + varint(len(content)) + content
    return varint(number << 3) + varint(content)


def wire_infer(client, message):  # noqa: F811
    call = client.channel.unary_unary(
        SERVICE + "ModelInfer", response_deserializer=client.pb.ModelInferResponse.FromString)
    return call(message, timeout=SECONDS)


def tensor(*more):
    return field(5, b"".join((field(1, b"INPUT0"), field(2, b"FP32"), *more)))


SHAPE_2 = field(3, b"\2")
RAW_2 = field(7, fp32(1, 2))
WIRES = {
    "plain": field(1, b"fp32") + tensor(SHAPE_2) + RAW_2,
    "shape not packed": field(1, b"fp32") + tensor(field(3, 2)) + RAW_2,
    "raw first": RAW_2 + tensor(SHAPE_2) + field(1, b"fp32"),
    "model twice": field(1, b"nobody") + tensor(SHAPE_2) + RAW_2 + field(1, b"fp32"),
    "unknown fields": (field(99, b"what") + field(1, b"fp32") + field(2000, 7)
                       + tensor(SHAPE_2, field(77, b"is"), varint(55 << 3 | 1) + bytes(8),
                                varint(56 << 3 | 5) + bytes(4)) + RAW_2),
    "typed, not packed": field(1, b"fp32") + tensor(
        SHAPE_2, field(5, b"".join(varint(6 << 3 | 5) + fp32(v) for v in (1, 2)))),
    "typed, in two parts": field(1, b"fp32") + tensor(
        SHAPE_2, field(5, field(6, fp32(1))), field(5, field(6, fp32(2)))),
    "parameter with the value first": (
        field(1, b"fp32") + tensor(SHAPE_2) + RAW_2
        + field(4, field(2, field(1, 1)) + field(1, b"sequence_start"))),
    "parameter of two values": (
        field(1, b"fp32") + tensor(SHAPE_2) + RAW_2
        + field(4, field(1, b"sequence_start") + field(2, field(3, b"x") + field(1, 1)))),
}


@pytest.mark.parametrize("name", WIRES)
def test_forms_of_a_message(client, name):  # noqa: F811
    reply = wire_infer(client, WIRES[name])
    assert (reply.model_name, list(reply.raw_output_contents)) == ("fp32", [fp32(1, 2)])


def test_shape_in_two_parts(client):  # noqa: F811
    """They are one after the other."""
    with pytest.raises(grpc.RpcError) as caught:
        wire_infer(client, field(1, b"fp32") + tensor(SHAPE_2, field(3, b"\1")) + RAW_2)
    assert "Expected [-1], got [2,1]" in caught.value.details()


# ---- a server that exits ------------------------------------------------------------------------

EXITING = ("UNAVAILABLE", "Server exiting")
SHUTTING_DOWN = "GRPC server is shutting down and has stopped accepting new requests."


class Requests:
    """What is put, until None."""

    def __init__(self):
        self.queue = queue.Queue()

    def __iter__(self):
        return iter(self.queue.get, None)


def test_while_the_server_exits(tmp_path, stubs):  # noqa: F811
    """A request in flight holds it up: health tells, new requests are refused, a stream that is
    open goes on to refuse, and what was accepted is answered."""
    write_repository(tmp_path, {"gated": gated(TESTING), "fp32": IDENTITY})
    running = Server(tmp_path)
    with Gate(running, "gated") as gate, open_channel(running) as channel:
        own = Client(channel, stubs)
        requests = Requests()
        stream = own.ModelStreamInfer(iter(requests), timeout=SECONDS)
        requests.queue.put(one(own, id="first"))
        assert next(stream).infer_response.id == "first"
        unary = own.ModelInfer.future(one(own, "gated"), timeout=SECONDS)
        gate.wait()
        running.begin_stop()
        running.wait_for_line("All models are stopped, unloading models")

        assert own.refusal("ServerLive") == EXITING
        assert own.refusal("ServerReady") == EXITING
        health = Stub(channel, stubs.health, "Health")
        with pytest.raises(grpc.RpcError) as caught:
            health.Check(stubs.health.HealthCheckRequest(), timeout=SECONDS)
        assert (caught.value.code().name, caught.value.details()) == EXITING
        with pytest.raises(grpc.RpcError) as caught:
            own.ModelInfer(one(own), timeout=SECONDS)
        assert (caught.value.code().name, caught.value.details()) == ("UNAVAILABLE", SHUTTING_DOWN)
        requests.queue.put(one(own, id="late"))
        refused = next(stream)
        assert (refused.error_message, refused.infer_response.id) == (SHUTTING_DOWN, "late")

        gate.open()
        assert unary.result().raw_output_contents[0] == fp32(1)
        requests.queue.put(None)
        assert list(stream) == []
        assert stream.code() == grpc.StatusCode.OK
    assert running.process.wait(20) == 0
    assert running.stop() == 0
