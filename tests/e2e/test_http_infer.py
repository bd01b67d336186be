# SPDX-License-Identifier: BSD-3-Clause
"""POST /v2/models/{m}/infer: what a client sees, with real bytes on a real socket."""
import gzip
import json
import re
import socket
import struct
import threading
import time
import zlib

import numpy
import pytest
import requests

from conftest import FIFO

BACKENDS = ("identity", "testing")
MAX_INPUT = 1 << 20
OPTIONS = (f"--http-max-input-size={MAX_INPUT}", "--http-header-forward-pattern=x-forward|priority",
           "--http-thread-count=2")

TYPES = {
    "BOOL": ("TYPE_BOOL", "?", [True, False, True]),
    "UINT8": ("TYPE_UINT8", "B", [0, 1, 255]),
    "UINT16": ("TYPE_UINT16", "H", [0, 1, 65535]),
    "UINT32": ("TYPE_UINT32", "I", [0, 1, 4294967295]),
    "UINT64": ("TYPE_UINT64", "Q", [0, 1, 18446744073709551615]),
    "INT8": ("TYPE_INT8", "b", [0, -128, 127]),
    "INT16": ("TYPE_INT16", "h", [0, -32768, 32767]),
    "INT32": ("TYPE_INT32", "i", [0, -2147483648, 2147483647]),
    "INT64": ("TYPE_INT64", "q", [0, -9223372036854775808, 9223372036854775807]),
    "FP32": ("TYPE_FP32", "f", [0.5, -1.0, 2.25]),
    "FP64": ("TYPE_FP64", "d", [0.1, -1e300, 2.25]),
}


def tensors(kind, *rows):
    return "".join(f'{kind} {{ name: "{name}" data_type: {kind_of} dims: {dims} {more} }}\n'
                   for name, kind_of, dims, more in rows)


def identity(kind_of, dims, max_batch_size=0, more="", output_more=""):
    return (f'backend: "identity"\nmax_batch_size: {max_batch_size}\n'
            + tensors("input", ("INPUT0", kind_of, dims, ""))
            + tensors("output", ("OUTPUT0", kind_of, dims, output_more)) + more)


MODELS = {f"id_{name.lower()}": identity(kind_of, [-1]) for name, (kind_of, _, _) in TYPES.items()}
MODELS.update({
    "id_bytes": identity("TYPE_STRING", [-1]),
    "id_bytes_one": identity("TYPE_STRING", [1]),
    "id_fp16": identity("TYPE_FP16", [-1]),
    "id_bf16": identity("TYPE_BF16", [-1]),
    "batched": identity("TYPE_FP32", [-1], 4),
    "fixed": identity("TYPE_FP32", [16]),
    "two_open": identity("TYPE_FP32", [-1, -1]),
    "parameters": identity("TYPE_FP32", [-1], more=(
        'parameters { key: "response_parameters" value { string_value: "true" } }')),
    "labelled": {
        "config.pbtxt": identity("TYPE_INT32", [-1], output_more='label_filename: "labels.txt"'),
        "labels.txt": "zero\none\ntwo\n",
    },
    "labelled_batch": {
        "config.pbtxt": identity("TYPE_FP32", [3], 8, output_more='label_filename: "labels.txt"'),
        "labels.txt": "zero\none\ntwo\n",
    },
    "pair": ('backend: "identity"\n'
             + tensors("input", ("INPUT0", "TYPE_FP32", [-1], ""), ("INPUT1", "TYPE_FP32", [-1], ""))
             + tensors("output", ("OUTPUT0", "TYPE_FP32", [-1], ""),
                       ("OUTPUT1", "TYPE_FP32", [-1], ""))),
    "decoupled": ('backend: "testing"\nmodel_transaction_policy { decoupled: true }\n'
                  + tensors("input", ("INPUT0", "TYPE_FP32", [-1], ""))
                  + tensors("output", ("OUTPUT0", "TYPE_FP32", [-1], ""))),
    "gated": {
        "config.pbtxt": (
            'backend: "testing"\ndynamic_batching { }\n'
            + tensors("input", ("INPUT0", "TYPE_FP32", [-1], ""))
            + tensors("output", ("EXECUTIONS", "TYPE_INT32", [1], ""))
            + 'parameters { key: "gate_fifo" value { string_value: "gate" } }\n'
            'parameters { key: "reached_fifo" value { string_value: "reached" } }\n'),
        "gate": FIFO, "reached": FIFO,
    },
    "testing": ('backend: "testing"\n'
                + tensors("input", ("INPUT0", "TYPE_FP32", [-1], ""))
                + tensors("output", ("OUTPUT0", "TYPE_FP32", [-1], ""))),
})


# ---- sending ------------------------------------------------------------------------------------


def infer(server, model, body, path="infer", **arguments):
    """POST; a dict or list goes as JSON, bytes as they are."""
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    return requests.post(f"{server.url}/v2/models/{model}/{path}", data=body, timeout=20,
                         **arguments)


def fp32(name, values, shape=None):
    return {"name": name, "shape": shape or [len(values)], "datatype": "FP32", "data": values}


def binary_body(request, *tails):
    head = json.dumps(request).encode()
    return head + b"".join(tails), {"Inference-Header-Content-Length": str(len(head))}


def split(reply):
    """JSON part and binary part of an answer."""
    length = reply.headers.get("Inference-Header-Content-Length")
    if length is None:
        return reply.json(), b""
    return json.loads(reply.content[:int(length)]), reply.content[int(length):]


def assert_error(reply, status, text, content_type="application/json"):
    assert reply.status_code == status, reply.text
    assert reply.json() == {"error": text}
    assert reply.headers["Content-Type"] == content_type


def strings(*texts):
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


# ---- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
def test_json_round_trip(server, name):
    values = TYPES[name][2]
    reply = infer(server, f"id_{name.lower()}", {"inputs": [
        {"name": "INPUT0", "shape": [3], "datatype": name, "data": values}]})
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    assert "Inference-Header-Content-Length" not in reply.headers
    assert reply.json() == {
        "model_name": f"id_{name.lower()}", "model_version": "1",
        "outputs": [{"name": "OUTPUT0", "datatype": name, "shape": [3], "data": values}]}


@pytest.mark.parametrize("name", [*TYPES, "FP16", "BF16"])
def test_binary_round_trip(server, name):
    raw = struct.pack(f"<3{TYPES[name][1]}", *TYPES[name][2]) if name in TYPES else b"\1\2\3\4\5\6"
    body, headers = binary_body({"inputs": [
        {"name": "INPUT0", "shape": [3], "datatype": name,
         "parameters": {"binary_data_size": len(raw)}}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]}, raw)
    reply = infer(server, f"id_{name.lower()}", body, headers=headers)
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == "application/octet-stream"
    head, tail = split(reply)
    assert head["outputs"] == [{"name": "OUTPUT0", "datatype": name, "shape": [3],
                                "parameters": {"binary_data_size": len(raw)}}]
    assert tail == raw


def test_exact_bytes_of_the_answer(server):
    reply = infer(server, "parameters", {"id": "my id", "inputs": [fp32("INPUT0", [0.1, 1, 1e30])]})
    assert reply.text == (
        '{"id":"my id","model_name":"parameters","model_version":"1",'
        '"parameters":{"param0":"an example string parameter","param1":42,"param2":false},'
        '"outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[3],"data":[0.1,1.0,1e30]}]}')


def test_floats_are_exact(server):
    values = numpy.random.default_rng(1).normal(size=1000).astype(numpy.float32)
    values = numpy.concatenate([values, numpy.float32([1e-45, 3.4028235e38, -0.0, 1e-7])])
    reply = infer(server, "id_fp32", {"inputs": [fp32("INPUT0", [float(v) for v in values])]})
    back = numpy.array(reply.json()["outputs"][0]["data"], dtype=numpy.float32)
    assert back.tobytes() == values.tobytes()


def test_nested_data(server):
    for data in ([1, 2, 3, 4], [[1, 2], [3, 4]], [[[1], 2], [3, 4]]):
        reply = infer(server, "batched", {"inputs": [fp32("INPUT0", data, [1, 4])]})
        assert reply.json()["outputs"][0]["data"] == [1.0, 2.0, 3.0, 4.0]
        assert reply.json()["outputs"][0]["shape"] == [1, 4]


def test_strings_in_json(server):
    texts = ["a", "", "\u00e9\n\"", "\U0001f600", "x" * 5000]
    reply = infer(server, "id_bytes", {"inputs": [
        {"name": "INPUT0", "shape": [5], "datatype": "BYTES", "data": texts}]})
    assert reply.json()["outputs"][0]["data"] == texts


def test_bytes_that_are_not_text_in_json(server):
    """Each is replaced, and the output says so; an output of text has no such parameter."""
    raw = strings(b"a\xff", b"b")
    body, headers = binary_body({
        "inputs": [{"name": "INPUT0", "shape": [2], "datatype": "BYTES",
                    "parameters": {"binary_data_size": len(raw)}}]}, raw)
    output = infer(server, "id_bytes", body, headers=headers).json()["outputs"][0]
    assert output["data"] == ["a\ufffd", "b"]
    assert output["parameters"] == {"neso_replaced_bytes": True}

    reply = infer(server, "id_bytes", {"inputs": [
        {"name": "INPUT0", "shape": [1], "datatype": "BYTES", "data": ["a\ufffd"]}]})
    output = reply.json()["outputs"][0]
    assert output["data"] == ["a\ufffd"]
    assert "parameters" not in output


def test_strings_in_binary(server):
    raw = strings(b"a", b"", b"\xff\x00\xfe", b"x" * 3000)
    body, headers = binary_body({
        "inputs": [{"name": "INPUT0", "shape": [4], "datatype": "BYTES",
                    "parameters": {"binary_data_size": len(raw)}}],
        "parameters": {"binary_data_output": True}}, raw)
    head, tail = split(infer(server, "id_bytes", body, headers=headers))
    assert head["outputs"][0]["parameters"] == {"binary_data_size": len(raw)}
    assert tail == raw


def test_binary_inputs_and_outputs_in_order(server):
    """One input in JSON between two binary ones would be ambiguous if order were not kept."""
    large = numpy.arange(5000, dtype="<f4").tobytes()
    small = struct.pack("<2f", 7, 8)
    body, headers = binary_body({
        "inputs": [
            {"name": "INPUT1", "shape": [5000], "datatype": "FP32",
             "parameters": {"binary_data_size": len(large)}},
            {"name": "INPUT0", "shape": [2], "datatype": "FP32",
             "parameters": {"binary_data_size": len(small)}}],
        "parameters": {"binary_data_output": True}}, large, small)
    head, tail = split(infer(server, "pair", body, headers=headers))
    at = 0
    for output in head["outputs"]:
        size = output["parameters"]["binary_data_size"]
        assert tail[at:at + size] == (small if output["name"] == "OUTPUT0" else large)
        at += size
    assert at == len(tail) == len(large) + len(small)


def test_listed_output_is_json_whatever_the_default(server):
    reply = infer(server, "pair", {
        "inputs": [fp32("INPUT0", [1]), fp32("INPUT1", [2])],
        "outputs": [{"name": "OUTPUT1"}], "parameters": {"binary_data_output": True}})
    assert [o["name"] for o in reply.json()["outputs"]] == ["OUTPUT1"]
    assert reply.json()["outputs"][0]["data"] == [2.0]


def test_zero_size_output(server):
    reply = infer(server, "id_fp32", {
        "inputs": [{"name": "INPUT0", "shape": [0], "datatype": "FP32", "data": []}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]})
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.json()["outputs"] == [{"name": "OUTPUT0", "datatype": "FP32", "shape": [0],
                                        "parameters": {"binary_data_size": 0}}]


def test_version_in_the_path(server):
    body = {"inputs": [fp32("INPUT0", [1])]}
    assert infer(server, "id_fp32", body, "versions/1/infer").json()["model_version"] == "1"
    assert_error(infer(server, "id_fp32", body, "versions/2/infer"), 404,
                 "Request for unknown model: 'id_fp32' version 2 is not found", "text/plain")
    assert_error(infer(server, "id_fp32", body, "versions/99999999999999999999/infer"), 400,
                 "failed to get model version from specified version string "
                 "'99999999999999999999' (details: stol), version should be an integral value > 0",
                 "text/plain")


def test_many_requests_on_one_connection(server):
    with requests.Session() as session:
        for n in range(200):
            reply = session.post(f"{server.url}/v2/models/id_fp32/infer",
                                 json={"id": str(n), "inputs": [fp32("INPUT0", [n, n + 0.5])]})
            assert reply.json()["id"] == str(n)
            assert reply.json()["outputs"][0]["data"] == [n, n + 0.5]


def test_same_json_again_and_again(server):
    """Remembered JSON with other tensors, lengths, headers and models."""
    def fp32_pair(name):
        return {"name": name, "shape": [2], "datatype": "FP32",
                "parameters": {"binary_data_size": 8}}

    good = {"inputs": [fp32_pair("INPUT0")],
            "parameters": {"binary_data_output": True, "mine": 7}}
    stranger = {"inputs": [fp32_pair("OTHER")]}
    with requests.Session() as session:
        def post(model, request, tail, more=()):
            body, headers = binary_body(request, tail)
            return session.post(f"{server.url}/v2/models/{model}/infer", data=body, timeout=20,
                                headers={**headers, **dict(more)})

        for n in range(20):
            tail = struct.pack("<ff", n, n + 0.5)
            assert split(post("id_fp32", good, tail))[1] == tail
            assert split(post("id_fp32", good, tail, {"X-Forward": "1"}))[1] == tail
            assert_error(post("id_fp32", good, tail, {"priority": "1"}), 400,
                         "Header 'priority' is reserved for Triton usage and cannot be forwarded.")
            for model in ("id_fp32", "id_int32"):
                assert_error(post(model, good, tail + b"x"), 400,
                             f"unexpected additional input data for model '{model}'")
                assert_error(post(model, good, tail[:7]), 400,
                             "unexpected size for input 'INPUT0', expecting 1 additional bytes "
                             f"for model '{model}'")
                contains(post(model, stranger, tail), 400, f"for model '{model}'")
            contains(post("id_int32", good, tail), 400,
                     "data-type is 'FP32', but model 'id_int32' expects 'INT32'")


def test_same_outputs_again_and_again(server):
    body = {"inputs": [{"name": "INPUT0", "shape": [2], "datatype": "INT32",
                        "parameters": {"binary_data_size": 8}}],
            "outputs": [{"name": "OUTPUT0", "parameters": {"classification": 1}}]}
    for n in range(10):
        asked, headers = binary_body(body, struct.pack("<ii", n, 5))
        reply = infer(server, "labelled", asked, headers=headers)
        assert reply.json()["outputs"][0]["data"] == [
            f"{max(n, 5)}:1:one" if n < 5 else f"{n}:0:zero"]


def test_many_clients(server):
    failures = []

    def client(number):
        try:
            with requests.Session() as session:
                for n in range(50):
                    value = number * 1000 + n
                    reply = session.post(f"{server.url}/v2/models/id_int32/infer", json={
                        "inputs": [{"name": "INPUT0", "shape": [2], "datatype": "INT32",
                                    "data": [value, -value]}]})
                    assert reply.json()["outputs"][0]["data"] == [value, -value]
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# ---- classification -----------------------------------------------------------------------------


def classify(server, model, datatype, data, shape, k, **parameters):
    return infer(server, model, {
        "inputs": [{"name": "INPUT0", "shape": shape, "datatype": datatype, "data": data}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"classification": k, **parameters}}]})


def test_classification(server):
    reply = classify(server, "id_fp32", "FP32", [1, 4, 2.5, 4], [4], 3)
    assert reply.json()["outputs"] == [{
        "name": "OUTPUT0", "datatype": "BYTES", "shape": [3],
        "data": ["4.000000:1", "4.000000:3", "2.500000:2"]}]


def test_classification_labels(server):
    reply = classify(server, "labelled", "INT32", [5, 30, -1, 7], [4], 10)
    assert reply.json()["outputs"][0]["shape"] == [4]
    assert reply.json()["outputs"][0]["data"] == ["30:1:one", "7:3", "5:0:zero", "-1:2:two"]


def test_classification_of_a_batch(server):
    reply = classify(server, "labelled_batch", "FP32", [1, 2, 3, 9, 8, 7], [2, 3], 2)
    assert reply.json()["outputs"][0]["shape"] == [2, 2]
    assert reply.json()["outputs"][0]["data"] == [
        "3.000000:2:two", "2.000000:1:one", "9.000000:0:zero", "8.000000:1:one"]
    reply = classify(server, "labelled_batch", "FP32", [1, 2, 3], [1, 3], 1)
    assert reply.json()["outputs"][0]["shape"] == [1, 1]


def test_classification_in_binary(server):
    reply = classify(server, "id_uint8", "UINT8", [3, 200], [2], 1, binary_data=True)
    head, tail = split(reply)
    assert head["outputs"][0]["parameters"] == {"binary_data_size": 9}
    assert tail == strings(b"200:1")


def test_classification_of_zero_is_none(server):
    reply = classify(server, "id_fp32", "FP32", [1, 2], [2], 0)
    assert reply.json()["outputs"][0]["data"] == [1.0, 2.0]


def test_classification_refused(server):
    assert_error(classify(server, "id_bool", "BOOL", [True], [1], 1), 400,
                 "class result not available for output due to unsupported type 'BOOL'")
    assert_error(classify(server, "id_bytes", "BYTES", ["a"], [1], 1), 400,
                 "class result not available for output due to unsupported type 'BYTES'")


# ---- raw requests -------------------------------------------------------------------------------

RAW = {"Inference-Header-Content-Length": "0"}


def test_raw(server):
    raw = struct.pack("<3f", 1, 2, 3)
    reply = infer(server, "id_fp32", raw, headers=RAW)
    head, tail = split(reply)
    assert head["outputs"] == [{"name": "OUTPUT0", "datatype": "FP32", "shape": [3],
                                "parameters": {"binary_data_size": 12}}]
    assert tail == raw


def test_raw_of_a_batching_model(server):
    head, tail = split(infer(server, "batched", struct.pack("<2f", 1, 2), headers=RAW))
    assert head["outputs"][0]["shape"] == [1, 2]
    assert tail == struct.pack("<2f", 1, 2)


def test_raw_string(server):
    head, tail = split(infer(server, "id_bytes_one", b"hello", headers=RAW))
    assert head["outputs"][0]["shape"] == [1]
    assert tail == strings(b"hello")


def test_empty_body_is_raw(server):
    reply = infer(server, "batched", b"")
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.json()["outputs"] == [{"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 0],
                                        "parameters": {"binary_data_size": 0}}]


def contains(reply, status, text):
    assert reply.status_code == status, reply.text
    assert text in reply.json()["error"]


def test_raw_refused(server):
    contains(infer(server, "pair", b"abcd", headers=RAW), 400,
             "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'pair' "
             "model configuration")
    contains(infer(server, "two_open", b"abcd", headers=RAW), 400,
             "The shape of the raw input 'INPUT0' can not be deduced because there are more than "
             "one variable-sized dimension")
    contains(infer(server, "id_bytes", b"abcd", headers=RAW), 400,
             "For BYTE datatype raw input 'INPUT0', the model must have input shape [1]")


# ---- faults -------------------------------------------------------------------------------------

ONE_OF = ("Input must set only one of the following fields: 'data', 'binary_data_size' in "
          "'parameters', 'shared_memory_region' in 'parameters'. But")


def missing(member):
    return (f"Unable to parse '{member}': attempt to access non-existing object member '{member}'")


def wrong_type(member, kind):
    return f"Unable to parse '{member}': attempt to access JSON non-{kind} as {kind}"


FAULTS = {
    "syntax": ("{", "failed to parse the request JSON buffer: Missing a name for object member. at 1"),
    "blank": (" ", "failed to parse the request JSON buffer: The document is empty. at 1"),
    "null": ("null", missing("inputs")),
    "array": ("[]", missing("inputs")),
    "no_inputs": ("{}", missing("inputs")),
    "id": ({"id": 1, "inputs": []}, wrong_type("id", "string")),
    "parameters": ({"parameters": 3, "inputs": []},
                   "failed to get request params.: attempt to get members for non-object"),
    "parameter_type": ({"parameters": {"foo": []}, "inputs": []},
                       "parameter 'foo' has invalid type. It should be either 'int', 'bool', or "
                       "'string'."),
    "reserved": ({"parameters": {"triton_x": 1}, "inputs": []},
                 "parameter keys starting with 'triton_' are reserved for Triton usage and should "
                 "not be specified."),
    "priority": ({"parameters": {"priority": -1}, "inputs": []},
                 wrong_type("priority", "unsigned-integer")),
    "no_data": ({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32"}]},
                ONE_OF + " no field is set"),
    "two_sources": ({"inputs": [{**fp32("INPUT0", [1]), "parameters": {"binary_data_size": 4}}]},
                    ONE_OF + " set 'data' 'binary_data_size'"),
    "no_name": ({"inputs": [{"data": [1]}]}, missing("name")),
    "no_datatype": ({"inputs": [{"data": [1], "name": "INPUT0"}]}, missing("datatype")),
    "no_shape": ({"inputs": [{"data": [1], "name": "INPUT0", "datatype": "FP32"}]},
                 missing("shape")),
    "negative_dim": ({"inputs": [fp32("INPUT0", [1], [-1])]},
                     wrong_type("shape", "unsigned-integer")),
    "too_many": ({"inputs": [fp32("INPUT0", [1, 2], [1])]},
                 "Unable to parse 'data': Shape does not match true shape of 'data' field"),
    "too_few": ({"inputs": [fp32("INPUT0", [1], [2])]},
                "Failed to parse 'data' field: shape does not match true shape"),
    "not_a_number": ({"inputs": [fp32("INPUT0", [None])]},
                     "Unable to parse 'data': attempt to access JSON non-number as double"),
    "datatype": ({"inputs": [{**fp32("INPUT0", [1]), "datatype": "FP33"}]},
                 "invalid datatype for input INPUT0"),
    "fp16": ({"inputs": [{**fp32("INPUT0", [1]), "datatype": "FP16"}]},
             "receiving FP16 data via JSON is not supported. Please use the binary data format for "
             "input INPUT0"),
    "binary_missing": ({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32",
                                    "parameters": {"binary_data_size": 4}}]},
                       "unexpected size for input 'INPUT0', expecting 4 additional bytes for model "
                       "'id_fp32'"),
    "duplicate": ({"inputs": [fp32("INPUT0", [1]), fp32("INPUT0", [1])]},
                  "input 'INPUT0' already exists in request"),
    "duplicate_output": ({"inputs": [fp32("INPUT0", [1])],
                          "outputs": [{"name": "OUTPUT0"}, {"name": "OUTPUT0"}]},
                         "output 'OUTPUT0' already exists in request"),
    "classification": ({"inputs": [fp32("INPUT0", [1])],
                        "outputs": [{"name": "OUTPUT0", "parameters": {"classification": -1}}]},
                       "Unable to set 'classification': attempt to access JSON "
                       "non-unsigned-integer as unsigned-integer"),
    "unknown_input": ({"inputs": [fp32("OTHER", [1])]},
                      "unexpected inference input 'OTHER' for model 'id_fp32'"),
    "unknown_output": ({"inputs": [fp32("INPUT0", [1])], "outputs": [{"name": "OTHER"}]},
                       "unexpected inference output 'OTHER' for model 'id_fp32'"),
    "no_input": ({"inputs": []},
                 "expected 1 inputs but got 0 inputs for model 'id_fp32'. Got input(s) [], but "
                 "missing required input(s) ['INPUT0']. Please provide all required input(s)."),
    "other_datatype": ({"inputs": [{**fp32("INPUT0", [1]), "datatype": "INT32"}]},
                       "inference input 'INPUT0' data-type is 'INT32', but model 'id_fp32' expects "
                       "'FP32'"),
    "huge_shape": ({"inputs": [fp32("INPUT0", [1], [9223372036854775807, 2])]},
                   "invalid shape for input 'INPUT0': shape [9223372036854775807,2] causes total "
                   "element count to exceed maximum size of 9223372036854775807"),
    "large_shape": ({"inputs": [fp32("INPUT0", [1], [1 << 20])]},
                    "JSON input 'INPUT0' has a byte_size (4194304 bytes) that exceeds the maximum "
                    f"allowed value of {MAX_INPUT} bytes. Use --http-max-input-size to increase "
                    "the limit."),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(server, name):
    body, text = FAULTS[name]
    reply = infer(server, "id_fp32", body)
    assert reply.status_code == 400, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    error = reply.json()["error"]
    assert error in (text, f"[request id: <id_unknown>] {text}")


CORE_FAULTS = {
    "shape": ("fixed", {"id": "x", "inputs": [fp32("INPUT0", [0] * 15)]},
              "[request id: x] unexpected shape for input 'INPUT0' for model 'fixed'. Expected "
              "[16], got [15]. "),
    "batch": ("batched", {"inputs": [fp32("INPUT0", [0] * 5, [5, 1])]},
              "[request id: <id_unknown>] inference request batch-size must be <= 4 for 'batched'"),
    "no_batch": ("batched", {"inputs": [fp32("INPUT0", [1], [])]},
                 "[request id: <id_unknown>] input 'INPUT0' has no shape but model requires batch "
                 "dimension for 'batched'"),
}


@pytest.mark.parametrize("name", CORE_FAULTS)
def test_core_fault(server, name):
    model, body, text = CORE_FAULTS[name]
    body = json.dumps(body).replace('"shape": [1], "datatype": "FP32", "data": [1]',
                                    '"shape": [], "datatype": "FP32", "data": [1]') \
        if name == "no_batch" else body
    assert_error(infer(server, model, body), 400, text)


def test_short_binary_input_is_the_cores_fault(server):
    body, headers = binary_body({"inputs": [
        {"name": "INPUT0", "shape": [2], "datatype": "FP32",
         "parameters": {"binary_data_size": 4}}]}, b"abcd")
    contains(infer(server, "id_fp32", body, headers=headers), 400,
             "input byte size mismatch for input 'INPUT0' for model 'id_fp32'. Expected 8, got 4")


def test_bytes_left_over(server):
    body, headers = binary_body({"inputs": [fp32("INPUT0", [1])]}, b"x")
    assert_error(infer(server, "id_fp32", body, headers=headers), 400,
                 "unexpected additional input data for model 'id_fp32'")


def test_half_floats_not_in_json(server):
    body, headers = binary_body({"inputs": [
        {"name": "INPUT0", "shape": [1], "datatype": "FP16",
         "parameters": {"binary_data_size": 2}}]}, b"ab")
    assert_error(infer(server, "id_fp16", body, headers=headers), 400,
                 "sending FP16 data via JSON is not supported. Please use the binary data format "
                 "for output")


def test_long_sequence_name(server):
    assert_error(infer(server, "id_fp32", {"parameters": {"sequence_id": "x" * 129}, "inputs": []}),
                 501, "string correlation ID cannot be longer than 128 characters")


def test_shared_memory_that_nobody_registered(server):
    text = "Unable to find shared memory region: 'zz'"
    assert_error(infer(server, "id_fp32", {"inputs": [
        {"name": "INPUT0", "shape": [1], "datatype": "FP32",
         "parameters": {"shared_memory_region": "zz", "shared_memory_byte_size": 4}}]}), 404, text)
    assert_error(infer(server, "id_fp32", {
        "inputs": [fp32("INPUT0", [1])],
        "outputs": [{"name": "OUTPUT0", "parameters": {"shared_memory_region": "zz"}}]}), 404, text)


def test_unknown_model(server):
    assert_error(infer(server, "nobody", {"inputs": []}), 404,
                 "Request for unknown model: 'nobody' is not found", "text/plain")


def test_decoupled_model(server):
    assert_error(infer(server, "decoupled", {"inputs": [fp32("INPUT0", [1])]}), 501,
                 "HTTP end point doesn't support models with decoupled transaction policy",
                 "text/plain")


def test_fault_of_the_model(server):
    for code, status in (("Internal", 500), ("Invalid argument", 400), ("Unavailable", 503),
                         ("Not found", 404), ("Unsupported", 501)):
        reply = infer(server, "testing", {
            "parameters": {"fail": "as asked", "fail_code": code},
            "inputs": [fp32("INPUT0", [1])]})
        assert_error(reply, status, "as asked")


def test_order_of_faults(server):
    """Model before header length before JSON."""
    headers = {"Inference-Header-Content-Length": "x"}
    contains(infer(server, "nobody", "{", headers=headers), 404, "unknown model")
    contains(infer(server, "id_fp32", "{", headers=headers), 400, "Unable to parse Inference-Header")


# ---- headers ------------------------------------------------------------------------------------

LENGTHS = {
    "abc": "Unable to parse Inference-Header-Content-Length, got: abc",
    "99999999999": "Unable to parse Inference-Header-Content-Length, value is out of range "
                   "[ -2147483648, 2147483647 ], got: 99999999999",
    "-1": "inference header size should be in range (0, 2), got: -1",
    "3": "inference header size should be in range (0, 2), got: 3",
}


@pytest.mark.parametrize("value", LENGTHS)
def test_length_of_the_json(server, value):
    assert_error(infer(server, "id_fp32", "{}", headers={"Inference-Header-Content-Length": value}),
                 400, LENGTHS[value], "text/plain")


def test_json_too_large(server):
    reply = infer(server, "id_fp32", " " * (MAX_INPUT + 1))
    assert_error(reply, 400, f"request JSON size of {MAX_INPUT + 1} bytes exceeds the maximum "
                             f"allowed input size of {MAX_INPUT} bytes. Use --http-max-input-size "
                             "to increase the limit.")


@pytest.mark.parametrize("encoding,compress", [("gzip", gzip.compress), ("deflate", zlib.compress),
                                               ("deflate", gzip.compress)])
def test_compressed_request(server, encoding, compress):
    raw = numpy.zeros(1000, dtype="<f4").tobytes()
    body, headers = binary_body({"inputs": [
        {"name": "INPUT0", "shape": [1000], "datatype": "FP32",
         "parameters": {"binary_data_size": len(raw)}}]}, raw)
    headers["Content-Encoding"] = encoding
    reply = infer(server, "id_fp32", compress(body), headers=headers)
    assert reply.json()["outputs"][0]["data"] == [0.0] * 1000


def test_unknown_compression(server):
    reply = infer(server, "id_fp32", "{}", headers={"Content-Encoding": "br"})
    assert_error(reply, 501, "Unsupported compression type", "text/plain")
    assert reply.headers["Accept-Encoding"] == "gzip, deflate"


def test_decompressed_too_large(server):
    body = gzip.compress(b" " * (MAX_INPUT + 1))
    contains(infer(server, "id_fp32", body, headers={"Content-Encoding": "gzip"}), 400,
             "Decompressed data size exceeds the maximum allowed value of")


@pytest.mark.parametrize("accept", ["gzip", "deflate"])
def test_compressed_answer(server, accept):
    raw = numpy.ones(2000, dtype="<f4").tobytes()
    body, headers = binary_body({
        "inputs": [{"name": "INPUT0", "shape": [2000], "datatype": "FP32",
                    "parameters": {"binary_data_size": len(raw)}}],
        "parameters": {"binary_data_output": True}}, raw)
    headers["Accept-Encoding"] = accept
    reply = infer(server, "id_fp32", body, headers=headers)
    assert reply.headers["Content-Encoding"] == accept
    head, tail = split(reply)  # requests has decompressed it
    assert head["outputs"][0]["parameters"]["binary_data_size"] == len(raw)
    assert tail == raw
    assert int(reply.headers["Content-Length"]) < len(raw)


def test_forwarded_headers(server):
    """A forwarded header is a request parameter: the testing backend fails when told to."""
    reply = infer(server, "testing", {"inputs": [fp32("INPUT0", [1])]}, headers={"X-Forward": "1"})
    assert reply.status_code == 200
    assert_error(infer(server, "testing", {"inputs": [fp32("INPUT0", [1])]},
                       headers={"priority": "1"}), 400,
                 "Header 'priority' is reserved for Triton usage and cannot be forwarded.")


# ---- sockets ------------------------------------------------------------------------------------


def raw_request(server, *pieces, close=False):
    """Sends pieces as they are; returns status line, headers and body of the answer."""
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=20) as connection:
        for piece in pieces:
            connection.sendall(piece)
        if close:
            return None
        stream = connection.makefile("rb")
        status = stream.readline()
        headers = {}
        for line in iter(stream.readline, b"\r\n"):
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip()
        return status, headers, stream.read(int(headers[b"content-length"]))


BODY = json.dumps({"inputs": [fp32("INPUT0", [1, 2])]}).encode()
HEAD = b"POST /v2/models/id_fp32/infer HTTP/1.1\r\nHost: x\r\n"


def test_body_in_pieces(server):
    head = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY)
    status, _, body = raw_request(server, *[bytes([byte]) for byte in head + BODY])
    assert status == b"HTTP/1.1 200 OK\r\n"
    assert json.loads(body)["outputs"][0]["data"] == [1.0, 2.0]


def test_chunked_upload(server):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(BODY[i:i + 7]), BODY[i:i + 7])
                      for i in range(0, len(BODY), 7))
    status, _, body = raw_request(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
                                  + b"0\r\n\r\n")
    assert status == b"HTTP/1.1 200 OK\r\n"
    assert json.loads(body)["outputs"][0]["data"] == [1.0, 2.0]


def test_client_that_leaves(server):
    """While the model works: the answer goes nowhere, and the server goes on."""
    body = json.dumps({"parameters": {"delay_ms": 200}, "inputs": [fp32("INPUT0", [1])]}).encode()
    for _ in range(10):
        raw_request(server, b"POST /v2/models/testing/infer HTTP/1.1\r\nHost: x\r\n"
                            b"Content-Length: %d\r\n\r\n%s" % (len(body), body), close=True)
    assert infer(server, "testing", {"inputs": [fp32("INPUT0", [3])]}).json()["outputs"][0][
        "data"] == [3.0]


def pending(server, model):
    """How many requests wait in the model's queue."""
    text = requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=20).text
    line = re.search(rf'^nv_inference_pending_request_count{{model="{model}",version="1"}} (\d+)',
                     text, re.MULTILINE)
    return int(line.group(1))


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
    return True


def test_request_of_a_client_that_left_is_not_executed(server):
    """It waits behind another one, and is taken out of the queue."""
    folder = server.repository / "gated"
    gate = open(folder / "gate", "wb", buffering=0)
    reached = open(folder / "reached", "rb", buffering=0)
    body = json.dumps({"inputs": [fp32("INPUT0", [1])]}).encode()
    head = b"POST /v2/models/gated/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)

    answers = []
    first = threading.Thread(target=lambda: answers.append(
        infer(server, "gated", body).json()["outputs"][0]["data"]))
    first.start()
    assert reached.read(1)
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=20) as connection:
        connection.sendall(head + body)
        wait_until(lambda: pending(server, "gated") == 1)
    wait_until(lambda: pending(server, "gated") == 0)
    gate.write(b"gg")
    first.join()
    assert answers == [[1]]
    assert infer(server, "gated", body).json()["outputs"][0]["data"] == [2]
    gate.close()
    reached.close()


def test_client_that_sends_half(server):
    raw_request(server, HEAD + b"Content-Length: 1000\r\n\r\n" + BODY, close=True)
    assert infer(server, "id_fp32", {"inputs": [fp32("INPUT0", [3])]}).status_code == 200


def test_get_is_refused(server):
    reply = requests.get(f"{server.url}/v2/models/id_fp32/infer", timeout=20)
    assert reply.status_code == 405
    assert reply.json() == {"error": "Method Not Allowed"}
