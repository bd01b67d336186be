# SPDX-License-Identifier: BSD-3-Clause
"""ModelInfer: what a client sees, with grpcio, and that HTTP says the same."""
import concurrent.futures
import json
import struct

import grpc
import numpy
import pytest
import requests

from gate import Gate
from grpc_stubs import SECONDS, Unsigned, client, open_channel, plain, stubs  # noqa: F401
from scrape import wait_for_pending
from test_http_infer import MODELS as HTTP_MODELS
from test_http_infer import TYPES, strings

BACKENDS = ("identity", "testing")
MODELS = HTTP_MODELS
OPTIONS = ("--grpc-header-forward-pattern=x-forward|^priority$|fail",)

# The field of InferTensorContents that carries each type.
FIELDS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents",
    "INT32": "int_contents", "INT64": "int64_contents", "UINT8": "uint_contents",
    "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents",
}


def fp32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def raw_of(name):
    return struct.pack(f"<3{TYPES[name][1]}", *TYPES[name][2])


def one(model, raw=fp32(1), datatype="FP32", shape=(1,), **more):
    """The arguments of a request with one raw input."""
    return dict(model=model, inputs=[("INPUT0", datatype, shape)], raw=[raw], **more)


# ---- data types ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TYPES, "FP16", "BF16"])
def test_raw_round_trip(client, name):
    raw = raw_of(name) if name in TYPES else b"\1\2\3\4\5\6"
    reply = client.infer(**one(f"id_{name.lower()}", raw, name, [3], id="7"))
    assert reply.model_name == f"id_{name.lower()}"
    assert reply.model_version == "1"
    assert reply.id == "7"
    assert not reply.parameters
    assert [(o.name, o.datatype, list(o.shape)) for o in reply.outputs] == [
        ("OUTPUT0", name, [3])]
    assert not reply.outputs[0].HasField("contents") and not reply.outputs[0].parameters
    assert list(reply.raw_output_contents) == [raw]


@pytest.mark.parametrize("name", TYPES)
def test_typed_is_raw_and_is_http(server, client, name):
    values = TYPES[name][2]
    typed = client.infer(f"id_{name.lower()}", [("INPUT0", name, [3], {FIELDS[name]: values})])
    raw = client.infer(**one(f"id_{name.lower()}", raw_of(name), name, [3]))
    assert typed == raw
    over_http = requests.post(f"{server.url}/v2/models/id_{name.lower()}/infer", json={
        "inputs": [{"name": "INPUT0", "datatype": name, "shape": [3], "data": values}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]}, timeout=SECONDS)
    length = int(over_http.headers["Inference-Header-Content-Length"])
    assert over_http.content[length:] == typed.raw_output_contents[0]
    head = json.loads(over_http.content[:length])["outputs"][0]
    assert (head["datatype"], head["shape"]) == (typed.outputs[0].datatype,
                                                 list(typed.outputs[0].shape))


def test_narrow_integers_keep_their_low_bytes(client):
    reply = client.infer("id_uint8", [("INPUT0", "UINT8", [2], {"uint_contents": [256, 511]})])
    assert reply.raw_output_contents[0] == b"\x00\xff"


@pytest.mark.parametrize("texts", [[b"a", b"", b"\xff\x00\xfe"], [b""], [b"x" * (1 << 20), b"", b"y"],
                                   []], ids=["mixed", "empty", "1 MiB", "none"])
def test_bytes(client, texts):
    raw = client.infer(**one("id_bytes", strings(*texts), "BYTES", [len(texts)]))
    assert raw.raw_output_contents[0] == strings(*texts)
    typed = client.infer("id_bytes", [("INPUT0", "BYTES", [len(texts)], {"bytes_contents": texts})])
    assert typed == raw


def test_large_tensors(client):
    """Beyond every window and buffer; outputs of several MiB go out from where they are."""
    values = numpy.random.default_rng(3).integers(0, 255, 8 << 20, dtype=numpy.uint8).tobytes()
    reply = client.infer(**one("id_uint8", values, "UINT8", [len(values)]))
    assert reply.raw_output_contents[0] == values


def test_large_typed_contents(client):
    values = numpy.random.default_rng(4).integers(-2**31, 2**31, 300000)
    reply = client.infer("id_int32", [("INPUT0", "INT32", [len(values)],
                                       {"int_contents": values.tolist()})])
    assert reply.raw_output_contents[0] == values.astype("<i4").tobytes()


def test_zero_size_output(client):
    reply = client.infer(**one("id_fp32", b"", shape=[0]))
    assert list(reply.raw_output_contents) == [b""]
    assert list(reply.outputs[0].shape) == [0]


# ---- inputs and outputs -------------------------------------------------------------------------


def test_raw_contents_belong_to_inputs_in_order(client):
    reply = client.infer("pair", [("INPUT1", "FP32", [1]), ("INPUT0", "FP32", [2])],
                         raw=[fp32(1), fp32(2, 3)])
    values = {o.name: raw for o, raw in zip(reply.outputs, reply.raw_output_contents)}
    assert values == {"OUTPUT0": fp32(2, 3), "OUTPUT1": fp32(1)}


def test_surplus_raw_contents_are_ignored(client):
    reply = client.infer("id_fp32", [("INPUT0", "FP32", [1])], raw=[fp32(5), b"what is this"])
    assert reply.raw_output_contents[0] == fp32(5)


def test_requested_outputs(client):
    inputs = [("INPUT0", "FP32", [1]), ("INPUT1", "FP32", [1])]
    reply = client.infer("pair", inputs, [fp32(1), fp32(2)], outputs=["OUTPUT1"])
    assert [o.name for o in reply.outputs] == ["OUTPUT1"]
    assert list(reply.raw_output_contents) == [fp32(2)]


def test_response_parameters(client):
    reply = client.infer(**one("parameters"))
    assert plain(reply.parameters) == {"param0": "an example string parameter", "param1": 42,
                                       "param2": False}


def test_version(client):
    assert client.infer(**one("id_fp32", model_version="1")).model_version == "1"
    assert client.infer_refusal(**one("id_fp32", model_version="2")) == (
        "NOT_FOUND", "Request for unknown model: 'id_fp32' version 2 is not found")
    assert client.infer_refusal(**one("id_fp32", model_version="abc")) == (
        "INVALID_ARGUMENT", "failed to get model version from specified version string 'abc' "
                            "(details: stol), version should be an integral value > 0")
    assert client.infer_refusal(**one("id_fp32", model_version="-1")) == (
        "INVALID_ARGUMENT", "invalid model version specified '-1' , version should be an integral "
                            "value > 0")


# ---- classification -----------------------------------------------------------------------------


def classify(client, model, datatype, raw, shape, k):
    return client.infer(model, [("INPUT0", datatype, shape)], [raw],
                        outputs=[("OUTPUT0", {"classification": k})])


def test_classification(client):
    reply = classify(client, "id_fp32", "FP32", fp32(1, 4, 2.5, 4), [4], 3)
    assert (reply.outputs[0].datatype, list(reply.outputs[0].shape)) == ("BYTES", [3])
    assert reply.raw_output_contents[0] == strings(b"4.000000:1", b"4.000000:3", b"2.500000:2")


def test_classification_with_labels_and_batches(client):
    reply = classify(client, "labelled", "INT32", struct.pack("<4i", 5, 30, -1, 7), [4], 10)
    assert reply.raw_output_contents[0] == strings(b"30:1:one", b"7:3", b"5:0:zero", b"-1:2:two")
    reply = classify(client, "labelled_batch", "FP32", fp32(1, 2, 3, 9, 8, 7), [2, 3], 2)
    assert list(reply.outputs[0].shape) == [2, 2]
    assert reply.raw_output_contents[0] == strings(b"3.000000:2:two", b"2.000000:1:one",
                                                   b"9.000000:0:zero", b"8.000000:1:one")


def test_classification_refused(client):
    code, text = "INVALID_ARGUMENT", "class result not available for output due to unsupported type"
    with pytest.raises(grpc.RpcError) as caught:
        classify(client, "id_bool", "BOOL", b"\1", [1], 1)
    assert (caught.value.code().name, caught.value.details()) == (code, f"{text} 'BOOL'")


# ---- faults -------------------------------------------------------------------------------------

ARGUMENT = "INVALID_ARGUMENT"
UNEXPECTED = "unexpected explicit tensor data for input tensor 'INPUT0' for model 'id_fp32'"


def type_of(name, expected):
    return f"invalid value type for '{name}' parameter, expected {expected}"


def with_parameters(**parameters):
    return one("id_fp32", parameters=parameters)


def with_input(contents=None, datatype="FP32", parameters=None, raw=()):
    return dict(model="id_fp32", inputs=[("INPUT0", datatype, [1], contents, parameters)], raw=raw)


def with_output(**parameters):
    return one("id_fp32", outputs=[("OUTPUT0", parameters)])


REGION = "shared_memory_region"
OFFSET = "shared_memory_offset"
SIZE = "shared_memory_byte_size"

FAULTS = {
    "sequence_id": (with_parameters(sequence_id=True),
                    type_of("sequence_id", "int64_param or string_param.")),
    "sequence_start": (with_parameters(sequence_start=1),
                       type_of("sequence_start", "bool_param.")),
    "sequence_end": (with_parameters(sequence_end="x"), type_of("sequence_end", "bool_param.")),
    "priority": (with_parameters(priority="1"),
                 type_of("priority", "int64_param or uint64_param.")),
    "negative priority": (with_parameters(priority=-1),
                          "invalid value for 'priority', expected value >= 0."),
    "timeout": (with_parameters(timeout=Unsigned(1)), type_of("timeout", "int64_param.")),
    "empty final": (with_parameters(triton_enable_empty_final_response=1),
                    type_of("triton_enable_empty_final_response", "bool_param.")),
    "reserved": (with_parameters(triton_x=True),
                 "parameter keys starting with 'triton_' are reserved for Triton usage. Only the "
                 "following keys starting with 'triton_' are allowed: "
                 "triton_enable_empty_final_response"),
    "custom uint64": (with_parameters(u=Unsigned(1)),
                      type_of("u", "int64_param, bool_param, or string_param.")),
    "custom unset": (with_parameters(u=None),
                     type_of("u", "int64_param, bool_param, or string_param.")),
    "no data": (with_input(),
                "unable to find data for input tensor 'INPUT0' for model 'id_fp32' in request."),
    "both": (with_input({"fp32_contents": [1]}, raw=[fp32(1)]),
             "contents field must not be specified when using raw_input_contents for 'INPUT0' for "
             "model 'id_fp32'"),
    "wrong contents": (with_input({"int_contents": [1]}),
                       f"{UNEXPECTED} of type 'INT32', expected datatype 'FP32'"),
    "fp16 contents": (with_input({"fp32_contents": [1]}, "FP16"),
                      f"{UNEXPECTED} of type 'FP32', expected datatype 'FP16'"),
    "two kinds": (with_input({"fp32_contents": [1], "fp64_contents": [1]}),
                  f"{UNEXPECTED}, binary data was already supplied."),
    "region type": (with_input(parameters={REGION: 1}),
                    f"invalid value type for '{REGION}' parameter for tensor 'INPUT0', expected "
                    "string_param."),
    "offset alone": (with_input(parameters={OFFSET: 1}, raw=[fp32(1)]),
                     f"'{OFFSET}' can not be specified without '{REGION}' parameter for tensor "
                     "'INPUT0'"),
    "size alone": (with_input(parameters={SIZE: 1}, raw=[fp32(1)]),
                   f"'{SIZE}' can not be specified without '{REGION}' parameter for tensor "
                   "'INPUT0'"),
    "no size": (with_input(parameters={REGION: "r"}),
                f"'{SIZE}' must be specified along with '{REGION}' parameter for tensor 'INPUT0'"),
    "size type": (with_input(parameters={REGION: "r", SIZE: "1"}),
                  f"invalid value type for '{SIZE}' parameter for tensor 'INPUT0', expected "
                  "int64_param."),
    "contents and region": (with_input({"fp32_contents": [1]}, parameters={REGION: "r", SIZE: 4}),
                            "unexpected 'content' provided when using shared memory for input "
                            "tensor 'INPUT0' for model 'id_fp32'"),
    "output without size": (with_output(shared_memory_region="r"),
                            f"'{SIZE}' must be specified along with '{REGION}' parameter for "
                            "tensor 'OUTPUT0'"),
    "classification type": (with_output(classification="1"),
                            "invalid value type for 'classification' parameter, expected "
                            "int64_param"),
    "classification zero": (with_output(classification=0),
                            "invalid value for 'classification' parameter, expected >= 0"),
    "classes in a region": (with_output(classification=1, shared_memory_region="r",
                                        shared_memory_byte_size=4),
                            f"output can't set both '{REGION}' and 'classification'"),
}

# These come from the core, which puts the request's id before them.
CORE_FAULTS = {
    "datatype": (with_input(datatype="FP99", raw=[fp32(1)]),
                 "inference input 'INPUT0' data-type is '<invalid>', but model 'id_fp32' expects "
                 "'FP32'"),
    "other datatype": (with_input(datatype="INT32", raw=[fp32(1)]),
                       "inference input 'INPUT0' data-type is 'INT32', but model 'id_fp32' "
                       "expects 'FP32'"),
    "no input": (dict(model="id_fp32"),
                 "expected 1 inputs but got 0 inputs for model 'id_fp32'. Got input(s) [], but "
                 "missing required input(s) ['INPUT0']. Please provide all required input(s)."),
    "unknown output": (one("id_fp32", outputs=["OTHER"]),
                       "unexpected inference output 'OTHER' for model 'id_fp32'"),
    "batch": (one("batched", fp32(1), shape=[5, 1]),
              "inference request batch-size must be <= 4 for 'batched'"),
    "negative batch": (one("batched", fp32(1), shape=[-1, 1]),
                       "inference request batch-size must be <= 4 for 'batched'"),
    "negative dimension": (one("batched", fp32(1), shape=[1, -1]),
                           "All input dimensions should be specified for input 'INPUT0' for model "
                           "'batched', got [1,-1]"),
    "negative dimension, no batches": (one("id_fp32", fp32(1), shape=[-1]),
                                       "All input dimensions should be specified for input "
                                       "'INPUT0' for model 'id_fp32', got [-1]"),
    "short": (one("id_fp32", b"ab"),
              "input byte size mismatch for input 'INPUT0' for model 'id_fp32'. Expected 4, got 2"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(client, name):
    request, text = FAULTS[name]
    assert client.infer_refusal(**request) == (ARGUMENT, text)


@pytest.mark.parametrize("name", CORE_FAULTS)
def test_core_fault(client, name):
    request, text = CORE_FAULTS[name]
    code, details = client.infer_refusal(**request)
    assert code == ARGUMENT
    assert details.replace("[request id: <id_unknown>] ", "") == text


def test_regions_are_unknown(client):
    text = "Unable to find shared memory region: 'r'"
    assert client.infer_refusal(**with_input(parameters={REGION: "r", SIZE: 4})) == (
        "NOT_FOUND", text)
    assert client.infer_refusal(**with_output(shared_memory_region="r",
                                              shared_memory_byte_size=4)) == ("NOT_FOUND", text)


def test_unknown_model(client):
    assert client.infer_refusal("nobody") == (
        "NOT_FOUND", "Request for unknown model: 'nobody' is not found")


def test_decoupled_model(client):
    assert client.infer_refusal(**one("decoupled")) == (
        "UNIMPLEMENTED", "ModelInfer RPC doesn't support models with decoupled transaction policy")


def test_order_of_faults(client):
    """Version, model, parameters, metadata, data, outputs."""
    wrong = dict(inputs=[("INPUT0", "FP32", [1])], parameters={"timeout": "x"},
                 outputs=[("OUTPUT0", {"classification": 0})])
    assert "version string" in client.infer_refusal("nobody", model_version="x", **wrong)[1]
    assert "unknown model" in client.infer_refusal("nobody", **wrong)[1]
    reserved = [("priority", "1")]
    assert "'timeout'" in client.infer_refusal("id_fp32", metadata=reserved, **wrong)[1]
    wrong["parameters"] = {}
    assert "reserved" in client.infer_refusal("id_fp32", metadata=reserved, **wrong)[1]
    assert "unable to find data" in client.infer_refusal("id_fp32", **wrong)[1]
    wrong["raw"] = [fp32(1)]
    assert "'classification'" in client.infer_refusal("id_fp32", **wrong)[1]


@pytest.mark.parametrize("code,status", [
    ("Unknown", "UNKNOWN"), ("Internal", "INTERNAL"), ("Not found", "NOT_FOUND"),
    ("Invalid argument", "INVALID_ARGUMENT"), ("Unavailable", "UNAVAILABLE"),
    ("Unsupported", "UNIMPLEMENTED"), ("Already exists", "ALREADY_EXISTS"),
    ("Cancelled", "CANCELLED")])
def test_statuses(client, code, status):
    text = "as asked: 100 % \u00fc\n"
    assert client.infer_refusal(**one("testing", parameters={"fail": text, "fail_code": code})) \
        == (status, text)


def test_accepted_parameters(client):
    reply = client.infer(**one("id_fp32", parameters={
        "sequence_id": "a name", "sequence_start": True, "priority": Unsigned(0), "timeout": 10**9,
        "triton_enable_empty_final_response": False, "mine": 1.5, "yours": "x", "ours": -3}))
    assert reply.raw_output_contents[0] == fp32(1)


def test_malformed_message(client):
    call = client.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    for message in (b"\x0a\x05abc", b"\x0a\x01\xff", b"\x00", b"\x2a\x02\x18\x80"):
        with pytest.raises(grpc.RpcError) as caught:
            call(message, timeout=SECONDS)
        assert (caught.value.code().name, caught.value.details()) == (
            ARGUMENT, "failed to parse the ModelInferRequest message")


# ---- metadata, time -----------------------------------------------------------------------------


def test_forwarded_metadata(client):
    """A forwarded entry is a parameter: the testing backend fails when told to."""
    assert client.infer(**one("testing"), metadata=[("x-forward", "1")]).raw_output_contents
    assert client.infer_refusal(**one("testing"), metadata=[("fail", "by metadata")]) == (
        "INTERNAL", "by metadata")
    assert client.infer_refusal(**one("testing"), metadata=[("priority", "1")]) == (
        ARGUMENT, "Header 'priority' is reserved for Triton usage and cannot be forwarded.")


def test_deadline_and_cancel(server, client):
    """Both end a request that waits in the queue; the model goes on with the others."""
    with Gate(server, "gated") as gate:
        request = client.request(**one("gated"))
        running = client.ModelInfer.future(request, timeout=SECONDS)
        gate.wait()
        unwanted = client.ModelInfer.future(request, timeout=SECONDS)
        wait_for_pending(server, "gated", 1)
        late = client.ModelInfer.future(request, timeout=0.2)
        with pytest.raises(grpc.RpcError) as caught:
            late.result()
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        unwanted.cancel()
        assert unwanted.cancelled()
        wait_for_pending(server, "gated", 0)
        following = client.ModelInfer.future(request, timeout=SECONDS)
        gate.open()
        assert struct.unpack("<i", running.result().raw_output_contents[0]) == (1,)
        gate.wait()
        gate.open()
        assert struct.unpack("<i", following.result().raw_output_contents[0]) == (2,)


def test_many_clients(server, stubs):
    from grpc_stubs import Client

    def work(number):
        with open_channel(server) as channel:
            own = Client(channel, stubs)
            for n in range(50):
                value = fp32(number, n)
                reply = own.infer(**one("id_fp32", value, shape=[2], id=f"{number}-{n}"))
                assert reply.id == f"{number}-{n}"
                assert reply.raw_output_contents[0] == value
            futures = [own.ModelInfer.future(own.request(**one("id_fp32", fp32(n))),
                                             timeout=SECONDS) for n in range(100)]
            for n, future in enumerate(futures):
                assert future.result().raw_output_contents[0] == fp32(n)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
