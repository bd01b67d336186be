# SPDX-License-Identifier: BSD-3-Clause
"""Rules of POST .../infer that no other module holds: types of what a request may say, the order in
which faults are told, encodings, limits, and what the core checks."""
import gzip
import json
import struct
import zlib

import pytest
import requests

from wire import exchange, request

BACKENDS = ("identity", "testing")
MAX_INPUT = 4 << 20
OPTIONS = (f"--http-max-input-size={MAX_INPUT}",
           "--http-header-forward-pattern=SEQUENCE|^priority$|timeout|headers|binary_data|triton_|FAI")


def tensors(kind, *rows):
    return "".join(f'{kind} {{ name: "{name}" data_type: {kind_of} dims: {dims} {more} }}\n'
                   for name, kind_of, dims, more in rows)


def identity(kind_of, dims=(-1,), more=""):
    return (f'backend: "identity"\n{more}'
            + tensors("input", ("INPUT0", kind_of, list(dims), ""))
            + tensors("output", ("OUTPUT0", kind_of, list(dims), "")))


PAIR = (tensors("input", ("A", "TYPE_INT32", [2], ""), ("B", "TYPE_INT32", [2], ""))
        + tensors("output", ("OUTPUT_A", "TYPE_INT32", [2], ""), ("OUTPUT_B", "TYPE_INT32", [2], "")))
MODELS = {
    **{name.lower(): identity(f"TYPE_{name}") for name in (
        "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP32",
        "FP64", "FP16", "BF16")},
    "bytes": identity("TYPE_STRING"),
    "pair": 'backend: "identity"\nmax_batch_size: 4\n' + PAIR,
    "optional": ('backend: "identity"\n'
                 + tensors("input", ("A", "TYPE_FP32", [1], ""),
                           ("B", "TYPE_FP32", [1], "optional: true"),
                           ("C", "TYPE_FP32", [1], ""))
                 + tensors("output", ("OUT", "TYPE_FP32", [1], ""))),
    "left_out": ('backend: "identity"\nmax_batch_size: 4\n'
                 + tensors("input", ("INPUT0", "TYPE_FP32", [1], ""),
                           ("INPUT1", "TYPE_INT64", [-1, 2], "optional: true"),
                           ("INPUT2", "TYPE_STRING", [2], "optional: true"))
                 + tensors("output", ("OUTPUT0", "TYPE_FP32", [1], ""),
                           ("OUTPUT1", "TYPE_INT64", [-1, 2], ""),
                           ("OUTPUT2", "TYPE_STRING", [2], ""))),
    "testing": ('backend: "testing"\n' + tensors("input", ("INPUT0", "TYPE_FP32", [-1], ""))
                + tensors("output", ("OUTPUT0", "TYPE_FP32", [-1], ""))),
    "versions": {"config.pbtxt": identity("TYPE_FP32", more="version_policy { all { } }\n"),
                 "3/empty": "", "10/empty": ""},
}


def infer(server, model, body, path="infer", **arguments):
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    return requests.post(f"{server.url}/v2/models/{model}/{path}", data=body, timeout=20,
                         **arguments)


def one(data, datatype="FP32", shape=None, **more):
    return {"inputs": [{"name": "INPUT0", "datatype": datatype, "data": data,
                        "shape": [len(data)] if shape is None else shape}], **more}


def binary(datatype, shape, raw, **more):
    head = json.dumps({"inputs": [{"name": "INPUT0", "datatype": datatype, "shape": shape,
                                   "parameters": {"binary_data_size": len(raw)}}], **more}).encode()
    return head + raw, {"Inference-Header-Content-Length": str(len(head))}


def refusal(reply):
    return reply.status_code, reply.json()["error"]


def wrong(member, kind):
    return f"Unable to parse '{member}': attempt to access JSON non-{kind} as {kind}"


# ---- what is ignored, what is told --------------------------------------------------------------


def test_unknown_members_are_ignored(server):
    reply = infer(server, "fp32", one([1], model_name="another", model_version="7", what=[{}, None]))
    assert reply.json()["model_name"] == "fp32"
    body = one([1])
    body["inputs"][0]["what"] = {"a": [1]}
    body["inputs"][0]["parameters"] = {"what": True}
    body["outputs"] = [{"name": "OUTPUT0", "parameters": {"what": 1}, "what": 2}]
    assert infer(server, "fp32", body).json()["outputs"][0]["data"] == [1.0]


MARK = "\ufeff".encode()  # which editors of another system write at the front of a file


@pytest.mark.parametrize("path,body", [
    ("models/fp32/infer", one([1])), ("models/bytes/generate", {"INPUT0": "a"}),
    ("repository/index", {}), ("logging", {}), ("trace/setting", {})])
def test_byte_order_mark(server, path, body):
    reply = requests.post(f"{server.url}/v2/{path}", MARK + json.dumps(body).encode(), timeout=20)
    assert reply.status_code == 200, reply.text
    reply = requests.post(f"{server.url}/v2/{path}", MARK + MARK + b"{}", timeout=20)
    assert refusal(reply) == (400, "failed to parse the request JSON buffer: Invalid value. at 3")


def test_outputs_of_optional_inputs(server):
    """Zeros and empty strings of the configured shape, as many rows as the request has."""
    outputs = infer(server, "left_out", one([1, 2], shape=[2, 1])).json()["outputs"]
    assert {o["name"]: (o["shape"], o["data"]) for o in outputs} == {
        "OUTPUT0": ([2, 1], [1.0, 2.0]), "OUTPUT1": ([2, 1, 2], [0, 0, 0, 0]),
        "OUTPUT2": ([2, 2], ["", "", "", ""])}


def test_no_id_no_parameters(server):
    for more in ({}, {"id": ""}):
        assert infer(server, "fp32", one([1], **more)).text == (
            '{"model_name":"fp32","model_version":"1","outputs":[{"name":"OUTPUT0",'
            '"datatype":"FP32","shape":[1],"data":[1.0]}]}')


def test_numbers_that_are_none(server):
    body = '{"inputs":[{"name":"INPUT0","shape":[4],"datatype":"%s","data":[NaN,Infinity,-Infinity,-0.0]}]}'
    for datatype in ("FP32", "FP64"):
        reply = infer(server, datatype.lower(), body % datatype)
        assert reply.text.endswith('"data":[NaN,Infinity,-Infinity,-0.0]}]}')


def test_version_is_the_highest(server):
    assert infer(server, "versions", one([1])).json()["model_version"] == "10"
    for version in ("1", "3", "10"):
        assert infer(server, "versions", one([1]), f"versions/{version}/infer").json()[
            "model_version"] == version
    assert refusal(infer(server, "versions", one([1]), "versions/2/infer")) == (
        404, "Request for unknown model: 'versions' version 2 is not found")


def test_free_parameters(server):
    for value in ("text", 7, -7, True, 1.5):
        assert infer(server, "fp32", one([1], parameters={"mine": value})).status_code == 200
    for value in ([1], {"a": 1}, None):
        assert refusal(infer(server, "fp32", one([1], parameters={"mine": value}))) == (
            400, "parameter 'mine' has invalid type. It should be either 'int', 'bool', or "
                 "'string'.")


def test_parameters_of_sequences_and_queues(server):
    for parameters in ({"sequence_id": 7, "sequence_start": True, "sequence_end": False},
                       {"sequence_id": "a name"}, {"priority": 0, "timeout": 10**9},
                       {"sequence_id": 2**64 - 1}):
        assert infer(server, "fp32", one([1], parameters=parameters)).status_code == 200


PARAMETER_FAULTS = {
    "sequence_id": [({}, None), (True, None), (-1, None)],
    "sequence_start": [(1, wrong("sequence_start", "boolean"))],
    "sequence_end": [("x", wrong("sequence_end", "boolean"))],
    "priority": [(-1, wrong("priority", "unsigned-integer")),
                 ("1", wrong("priority", "unsigned-integer"))],
    "timeout": [(-1, wrong("timeout", "unsigned-integer")),
                (1.5, wrong("timeout", "unsigned-integer"))],
    "binary_data_output": [(1, wrong("binary_data_output", "boolean"))],
}


@pytest.mark.parametrize("name", PARAMETER_FAULTS)
def test_types_of_parameters(server, name):
    for value, text in PARAMETER_FAULTS[name]:
        status, got = refusal(infer(server, "fp32", one([1], parameters={name: value})))
        assert status == 400
        assert got == text if text else got.startswith(f"Unable to parse '{name}': ")


TENSOR_FAULTS = {
    "binary_data_size": ({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1],
                                      "parameters": {"binary_data_size": "4"}}]},
                         wrong("binary_data_size", "unsigned-integer")),
    "binary_data": (one([1], outputs=[{"name": "OUTPUT0", "parameters": {"binary_data": 1}}]),
                    wrong("binary_data", "boolean")),
    "outputs": (one([1], outputs={"name": "OUTPUT0"}), None),
    "output name": (one([1], outputs=[{}]),
                    "Unable to parse 'name': attempt to access non-existing object member 'name'"),
    "inputs": ({"inputs": {"name": "INPUT0"}}, None),
    "shape": (one([1], shape=1), None),
    "name": ({"inputs": [{"name": 1, "datatype": "FP32", "shape": [1], "data": [1]}]},
             wrong("name", "string")),
    "datatype": (one([1], datatype=7), wrong("datatype", "string")),
    "fraction": (one([1], shape=[1.0]), wrong("shape", "unsigned-integer")),
}


@pytest.mark.parametrize("name", TENSOR_FAULTS)
def test_types_of_tensor_members(server, name):
    body, text = TENSOR_FAULTS[name]
    status, got = refusal(infer(server, "fp32", body))
    assert status == 400
    assert got == text if text else name in got


# ---- elements -----------------------------------------------------------------------------------

SIGNED = wrong("data", "signed-integer")
UNSIGNED = wrong("data", "unsigned-integer")
NUMBER = "Unable to parse 'data': attempt to access JSON non-number as double"
STRING = "Unable to parse JSON bytes array: attempt to access JSON non-string as string"

ELEMENT_FAULTS = [
    ("BOOL", 1, wrong("data", "boolean")), ("BOOL", "true", wrong("data", "boolean")),
    *((f"INT{n}", value, SIGNED) for n in (8, 16, 32, 64) for value in (1.5, "1", True, None)),
    *((f"UINT{n}", value, UNSIGNED) for n in (8, 16, 32, 64) for value in (-1, 1.5, "1", True)),
    *((f"FP{n}", value, NUMBER) for n in (32, 64) for value in ("1", True, None)),
    ("BYTES", 1, STRING), ("BYTES", None, STRING), ("BYTES", True, STRING),
]


@pytest.mark.parametrize("datatype,value,text", ELEMENT_FAULTS, ids=str)
def test_elements_of_another_type(server, datatype, value, text):
    assert refusal(infer(server, datatype.lower(), one([value], datatype))) == (400, text)


@pytest.mark.parametrize("datatype,value,expected", [
    ("INT8", 300, 44), ("INT8", -129, 127), ("INT16", 65535, -1), ("INT32", 1 << 32, 0),
    ("UINT8", 256, 0), ("UINT16", 65537, 1), ("UINT32", (1 << 32) + 5, 5)])
def test_integers_are_truncated(server, datatype, value, expected):
    reply = infer(server, datatype.lower(), one([value], datatype))
    assert reply.json()["outputs"][0]["data"] == [expected]


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_floats_are_binary(server, datatype):
    via_json = f"{datatype} data via JSON is not supported. Please use the binary data format for"
    assert refusal(infer(server, datatype.lower(), one([1], datatype))) == (
        400, f"receiving {via_json} input INPUT0")
    body, headers = binary(datatype, [1], b"ab")
    assert refusal(infer(server, datatype.lower(), body, headers=headers)) == (
        400, f"sending {via_json} output")


def test_sizes_that_overflow(server):
    largest = (1 << 63) - 1
    assert refusal(infer(server, "fp32", one([1], shape=[1 << 62, 4]))) == (
        400, f"invalid shape for input 'INPUT0': shape [{1 << 62},4] causes total element count to "
             f"exceed maximum size of {largest}")
    assert refusal(infer(server, "fp32", one([1], shape=[1 << 62]))) == (
        400, f"byte size overflow for input 'INPUT0': element count ({1 << 62}) * data type size "
             f"(4) exceeds maximum allowed size ({largest})")


# ---- headers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept,encoding", [
    ("identity", None), ("", None), ("br", None), ("gzip", "gzip"), ("deflate", "deflate"),
    ("gzip, deflate", "gzip"), ("deflate, gzip", "deflate"), ("deflate;q=0.5, gzip;q=0.4", "deflate"),
    ("gzip;q=0.1, deflate;q=0.9", "deflate"), ("identity;q=1, gzip;q=0.9", None),
    ("identity;q=0.5, gzip", "gzip"), ("gzip;q=0, deflate;q=0", None)])
def test_accepted_encodings(server, accept, encoding):
    """The highest weight, then the first; the length of the JSON part is that before compression."""
    raw = bytes(4000)
    body, headers = binary("FP32", [1000], raw, parameters={"binary_data_output": True})
    reply = infer(server, "fp32", body, headers={**headers, "Accept-Encoding": accept}, stream=True)
    assert reply.headers.get("Content-Encoding") == encoding
    content = reply.raw.read(decode_content=False)
    if encoding:
        content = (gzip if encoding == "gzip" else zlib).decompress(content)
    length = int(reply.headers["Inference-Header-Content-Length"])
    assert json.loads(content[:length])["outputs"][0]["parameters"] == {"binary_data_size": 4000}
    assert content[length:] == raw


@pytest.mark.parametrize("fields, encoding", [
    (["identity;q=0.5", "gzip"], "gzip"), (["br", "Deflate"], "deflate"),
    (["gzip", "deflate"], "gzip"), (["gzip;q=0.1", "br", "deflate;q=0.2"], "deflate"),
    (["identity", "gzip"], None), (["", "br"], None)])
def test_several_fields_are_one_list(server, fields, encoding):
    body = json.dumps(one([1])).encode()
    answer = exchange(server.http_port, request(
        "POST", "/v2/models/fp32/infer", body, "Accept-Encoding: " + fields[0], "X-Other: gzip",
        *(f"accept-encoding: {field}" for field in fields[1:])))
    assert (answer.status, answer.headers.get("content-encoding")) == (200, encoding)


@pytest.mark.parametrize("encoding", ["identity", ""])
def test_no_encoding(server, encoding):
    reply = infer(server, "fp32", one([1]), headers={"Content-Encoding": encoding})
    assert reply.json()["outputs"][0]["data"] == [1.0]


@pytest.mark.parametrize("blanks", [" ", "\t", " \t  "])
def test_blanks_around_a_value_are_no_part_of_it(server, blanks):
    """RFC 9110, 5.5."""
    body = gzip.compress(json.dumps(one([1])).encode())
    answer = exchange(server.http_port, request("POST", "/v2/models/fp32/infer", body,
                                                f"Content-Encoding:{blanks}gzip{blanks}"))
    assert answer.status == 200, answer


def test_length_of_json_is_of_the_decompressed_body(server):
    body, headers = binary("FP32", [2], struct.pack("<2f", 1, 2))
    packed = zlib.compress(body)
    assert int(headers["Inference-Header-Content-Length"]) > len(packed)
    reply = infer(server, "fp32", packed, headers={**headers, "Content-Encoding": "deflate"})
    assert reply.json()["outputs"][0]["data"] == [1.0, 2.0]


def test_zeros_are_as_dense_as_can_be(server):
    """A tensor of zeros comes to a thousandth of its size; it is as welcome as any other."""
    reply = infer(server, "fp32", gzip.compress(bytes(MAX_INPUT)), headers={
        "Inference-Header-Content-Length": "0", "Content-Encoding": "gzip",
        "Accept-Encoding": "gzip"})
    assert reply.status_code == 200
    length = int(reply.headers["Inference-Header-Content-Length"])
    assert reply.content[length:] == bytes(MAX_INPUT)


def test_bodies_that_are_compressed_too_much(server):
    reply = infer(server, "fp32", gzip.compress(bytes(range(256)) * (1 << 15)),
                  headers={"Content-Encoding": "gzip"})
    assert refusal(reply) == (400, "Decompressed data size exceeds the maximum allowed value of "
                                   f"{MAX_INPUT} bytes. Use --http-max-input-size to increase the "
                                   "limit.")


@pytest.mark.parametrize("name", ["sequence_id", "sequence_start", "sequence_end", "priority",
                                  "timeout", "headers", "binary_data_output", "triton_anything"])
def test_headers_that_are_not_forwarded(server, name):
    assert refusal(infer(server, "testing", one([1]), headers={name: "1"})) == (
        400, f"Header '{name}' is reserved for Triton usage and cannot be forwarded.")


def test_part_of_a_header_matches(server):
    """The pattern has FAI; the testing backend looks for a parameter "fail"."""
    assert refusal(infer(server, "testing", one([1]), headers={"fail": "by a header"})) == (
        500, "by a header")
    assert infer(server, "testing", one([1]), headers={"x-other": "1"}).status_code == 200


# ---- limits -------------------------------------------------------------------------------------


def test_classes_of_too_many_elements(server):
    def classify(n):
        body, headers = binary("UINT8", [n], bytes(n), outputs=[
            {"name": "OUTPUT0", "parameters": {"classification": 1}}])
        return infer(server, "uint8", body, headers=headers)

    assert classify(1000000).json()["outputs"][0]["data"] == ["0:0"]
    assert refusal(classify(1000001)) == (400, "classification output tensor too large")


def test_raw_input_too_large(server):
    reply = infer(server, "uint8", bytes(MAX_INPUT + 1),
                  headers={"Inference-Header-Content-Length": "0"})
    assert refusal(reply) == (
        400, f"Raw input has a byte_size ({MAX_INPUT + 1} bytes) that exceeds the maximum allowed "
             f"value of {MAX_INPUT} bytes. Use --http-max-input-size to increase the limit.")
    assert infer(server, "uint8", bytes(MAX_INPUT),
                 headers={"Inference-Header-Content-Length": "0"}).status_code == 200


def test_depth_of_data(server):
    deep = "[" * 101 + "1" + "]" * 101
    body = '{"inputs":[{"name":"INPUT0","shape":[1],"datatype":"FP32","data":%s}]}'
    assert refusal(infer(server, "fp32", body % deep)) == (
        400, "JSON nesting depth exceeds maximum allowed limit (100)")
    assert infer(server, "fp32", body % ("[" * 50 + "1" + "]" * 50)).status_code == 200


# ---- the core's checks --------------------------------------------------------------------------


def two(a, b, **more):
    return {"inputs": [{"name": name, "datatype": "INT32", "shape": shape,
                        "data": [0] * (shape[0] * shape[1])}
                       for name, shape in (("A", a), ("B", b))], **more}


def test_batches_of_two_inputs(server):
    assert refusal(infer(server, "pair", two([1, 2], [2, 2], id="x"))) == (
        400, "[request id: x] input 'B' batch size does not match other inputs for 'pair'")
    assert refusal(infer(server, "pair", two([5, 2], [5, 2]))) == (
        400, "[request id: <id_unknown>] inference request batch-size must be <= 4 for 'pair'")


def test_the_last_bad_input_is_named(server):
    status, text = refusal(infer(server, "pair", two([1, 3], [1, 4])))
    assert (status, text.partition(". ")[0]) == (
        400, "[request id: <id_unknown>] unexpected shape for input 'B' for model 'pair'")


def test_optional_inputs(server):
    def send(*names):
        return infer(server, "optional", {"inputs": [
            {"name": name, "datatype": "FP32", "shape": [1], "data": [1]} for name in names]})

    assert send("A", "C").status_code == 200
    assert send("A", "B", "C").status_code == 200
    assert refusal(send("A")) == (
        400, "[request id: <id_unknown>] expected number of inputs between 2 and 3 but got 1 "
             "inputs for model 'optional'. Got input(s) ['A'], but missing required input(s) "
             "['C']. Please provide all required input(s).")


@pytest.mark.parametrize("shape,raw,text", [
    ([2], b"\1\0\0\0a", "expected 2 string elements for inference input 'INPUT0' for model 'bytes', "
                        "got 1"),
    ([1], b"\1\0\0\0a" * 2, "expected 1 string elements for inference input 'INPUT0' for model "
                            "'bytes', got 2"),
    ([1], b"\1\0", "incomplete string length indicator for inference input 'INPUT0' for model "
                   "'bytes', expecting 4 bytes but only 2 bytes available. Please make sure the "
                   "string length indicator is in one buffer."),
    ([1], b"\5\0\0\0a", "incomplete last string element for inference input 'INPUT0' for model "
                        "'bytes', 4 bytes are missing"),
], ids=["few", "many", "length", "element"])
def test_malformed_strings(server, shape, raw, text):
    body, headers = binary("BYTES", shape, raw)
    assert refusal(infer(server, "bytes", body, headers=headers)) == (
        400, f"[request id: <id_unknown>] {text}")


# ---- order of faults ----------------------------------------------------------------------------


def test_order_of_faults(server):
    """Each request has all the faults that follow, too."""
    body = {"id": 1, "parameters": {"timeout": "x"}, "inputs": [{}], "outputs": [{}]}
    headers = {"Content-Encoding": "br", "Inference-Header-Content-Length": "x"}

    def error(model="fp32", text=None, path="infer"):
        return refusal(infer(server, model, json.dumps(body) if text is None else text, path,
                             headers=headers))[1]

    reply = requests.get(f"{server.url}/v2/models/nobody/versions/{10**20}/infer", timeout=20)
    assert refusal(reply) == (405, "Method Not Allowed")
    assert "version string" in error("nobody", path=f"versions/{10**20}/infer")
    assert "unknown model" in error("nobody")
    assert error() == "Unsupported compression type"
    del headers["Content-Encoding"]
    assert error().startswith("Unable to parse Inference-Header-Content-Length")
    del headers["Inference-Header-Content-Length"]
    headers["priority"] = "1"  # forwarded, and refused, last of all but the core's checks
    assert error(text="{").startswith("failed to parse the request JSON buffer")
    assert "'id'" in error()
    body["id"] = "x"
    assert "'timeout'" in error()
    body["parameters"] = {}
    assert "Input must set only one of" in error()
    body["inputs"] = one([1, 2, 3])["inputs"]
    assert "'name'" in error()
    body["outputs"] = [{"name": "OTHER"}]
    assert "reserved" in error()
    del headers["priority"]
    assert error() == "unexpected inference output 'OTHER' for model 'fp32'"


# ---- what is answered with a text of our own, as the compatibility page says --------------------


@pytest.mark.parametrize("body", [b"[]", b"null", b"3", b'"x"', b'[{"ready":true}]'])
def test_index_of_something_else_than_an_object(server, body):
    whole = exchange(server.http_port, request("POST", "/v2/repository/index"))
    answer = exchange(server.http_port, request("POST", "/v2/repository/index", body))
    assert (answer.status, answer.body) == (200, whole.body)
    for path in ("/v2/logging", "/v2/trace/setting"):
        answer = exchange(server.http_port, request("POST", path, body))
        assert (answer.status, json.loads(answer.body)) == (
            400, {"error": "attempt to get members for non-object"})


def test_depth_of_other_bodies(server):
    body = b'{"x":' + b"[" * 101 + b"]" * 101 + b"}"
    for path in ("/v2/repository/index", "/v2/logging", "/v2/trace/setting"):
        answer = exchange(server.http_port, request("POST", path, body))
        assert (answer.status, json.loads(answer.body)) == (
            400, {"error": "JSON nesting depth exceeds maximum allowed limit (100)"})


@pytest.mark.parametrize("number", ["1.5", "-1", "1e3", "18446744073709551616", "true", "[]"])
def test_sequence_ids_that_are_none(server, number):
    body = json.dumps({**one([1]), "parameters": {"sequence_id": 0}}).replace(
        '"sequence_id": 0', f'"sequence_id": {number}')
    assert refusal(infer(server, "fp32", body)) == (
        400, "Unable to parse 'sequence_id': attempt to access JSON non-string as string")


def test_bytes_after_the_json(server):
    body = json.dumps(one([1])).encode()
    for more in (b"\0\0\0\0", b"x", b"{}"):
        assert refusal(infer(server, "fp32", body + more)) == (
            400, "failed to parse the request JSON buffer: The document root must not be followed "
                 f"by other values. at {len(body)}")
    assert infer(server, "fp32", body + b" \r\n").status_code == 200


def test_raw_request_of_a_wrong_size(server):
    assert refusal(infer(server, "fp32", bytes(6),
                         headers={"Inference-Header-Content-Length": "0"})) == (
        400, "[request id: <id_unknown>] input byte size mismatch for input 'INPUT0' for model "
             "'fp32'. Expected 4, got 6")


@pytest.mark.parametrize("length, text", [
    ("{}", "inference header size should be in range (0, {}), got: {}"),
    ("2147483647", "inference header size should be in range (0, {}), got: 2147483647"),
    ("2147483648", "Unable to parse Inference-Header-Content-Length, value is out of range "
                   "[ -2147483648, 2147483647 ], got: 2147483648")])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_json_longer_than_the_body(server, encoding, length, text):
    body = json.dumps(one([1])).encode()
    length = length.format(len(body) + 1)
    sent = gzip.compress(body) if encoding == "gzip" else body
    assert refusal(infer(server, "fp32", sent, headers={
        "Inference-Header-Content-Length": length, "Content-Encoding": encoding})) == (
        400, text.format(len(body), length))
