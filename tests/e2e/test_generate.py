# SPDX-License-Identifier: BSD-3-Clause
"""POST .../generate and .../generate_stream: the mapping of JSON to tensors and back, server-sent
events, and what happens to clients that leave."""
import json
import re
import time

import pytest
import requests

from conftest import Server, is_sanitized, write_repository
from gate import Gate, gated
from wire import Wire, exchange, request

BACKENDS = ("identity", "testing")
MAX_INPUT = 1 << 16
OPTIONS = (f"--http-max-input-size={MAX_INPUT}",
           "--http-header-forward-pattern=^fail$|fail_code|priority", "--http-thread-count=2")

NUMBERS = {
    "UINT8": [0, 1, 255], "UINT16": [0, 65535], "UINT32": [0, 4294967295],
    "UINT64": [0, 18446744073709551615], "INT8": [-128, 127], "INT16": [-32768, 32767],
    "INT32": [-2147483648, 2147483647], "INT64": [-9223372036854775808, 9223372036854775807],
    "FP32": [0.5, -1.25], "FP64": [0.1, -1e300],
}


def tensors(kind, *rows):
    return "".join(f'{kind} {{ name: "{name}" data_type: TYPE_{type_of} dims: {dims} }}\n'
                   for name, type_of, dims in rows)


def echo(type_of, dims, max_batch_size=0, name="INPUT0", backend="identity", more=""):
    return (f'backend: "{backend}"\nmax_batch_size: {max_batch_size}\n'
            + tensors("input", (name, type_of, dims))
            + tensors("output", ("OUTPUT0", type_of, dims)) + more)


MODELS = {f"echo_{name.lower()}": echo(name, [-1]) for name in NUMBERS}
MODELS.update({
    "echo_bool": echo("BOOL", [-1]),
    "echo_text": echo("STRING", [-1]),
    "echo_fp16": echo("FP16", [-1]),
    "echo_bf16": echo("BF16", [-1]),
    "fixed": echo("INT32", [2, 3]),
    "open_inner": echo("INT32", [2, -1]),
    "open_outer": echo("INT32", [-1, 2]),
    "open_both": echo("INT32", [-1, -1]),
    "batched": echo("INT32", [2], 4),
    "batched_text": echo("STRING", [1], 4),
    "with_parameters": echo("INT32", [-1], more=(
        'parameters { key: "response_parameters" value { string_value: "true" } }')),
    "input_id": echo("STRING", [-1], name="id"),
    "input_id_int": echo("INT32", [-1], name="id"),
    "input_parameters": echo("INT32", [-1], name="parameters"),
    "two": ('backend: "identity"\n'
            + tensors("input", ("INPUT0", "INT32", [-1]), ("text", "STRING", [1]))
            + tensors("output", ("OUTPUT0", "INT32", [-1]), ("answer", "STRING", [1]))),
    "testing": echo("INT32", [-1], backend="testing"),
    "many": ('backend: "testing"\nmodel_transaction_policy { decoupled: true }\n'
             + tensors("input", ("INPUT0", "INT32", [-1]))
             + tensors("output", ("OUTPUT0", "INT32", [-1]), ("RESPONSE", "INT32", [1]))),
    "gated": gated(echo("INT32", [-1], backend="testing")),
})

DATA = "data: "


def post(server, model, body, kind="generate", **arguments):
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    return requests.post(f"{server.url}/v2/models/{model}/{kind}", data=body, timeout=20,
                         **arguments)


def events(text):
    """The JSON of each event; the framing is checked on the way."""
    assert text == "" or text.endswith("\n\n"), text
    pieces = text.split("\n\n")[:-1]
    assert all(piece.startswith(DATA) for piece in pieces), text
    return [json.loads(piece[len(DATA):]) for piece in pieces]


def output(server, model, value, name="INPUT0"):
    reply = post(server, model, {name: value})
    assert reply.status_code == 200, reply.text
    return reply.json()["OUTPUT0"]


def assert_error(reply, status, text):
    assert reply.status_code == status, reply.text
    assert reply.json() == {"error": text}
    assert reply.headers["Content-Type"] == "application/json"


# ---- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(server, name):
    values = NUMBERS[name]
    assert output(server, f"echo_{name.lower()}", values) == values
    assert output(server, f"echo_{name.lower()}", values[-1]) == values[-1]


def test_bools_and_texts(server):
    assert output(server, "echo_bool", [True, False]) == [True, False]
    assert output(server, "echo_bool", True) is True
    assert output(server, "echo_text", ["a", "", "\u00e9\n\""]) == ["a", "", "\u00e9\n\""]
    assert output(server, "echo_text", "one \\ two") == "one \\ two"
    assert output(server, "echo_text", "") == ""


def test_an_array_of_one_comes_back_as_a_scalar(server):
    assert output(server, "echo_int32", [7]) == 7
    assert output(server, "echo_text", ["x"]) == "x"


def test_no_element(server):
    assert output(server, "echo_int32", []) == []
    assert output(server, "echo_text", []) == []


def test_long_text(server):
    text = "word " * 5000
    assert output(server, "echo_text", text) == text


SHAPES = [
    # model, value, whether it fits
    ("fixed", [1, 2, 3, 4, 5, 6], True), ("fixed", [1, 2, 3, 4, 5], False), ("fixed", 1, False),
    ("fixed", [], False), ("fixed", list(range(12)), False),
    ("open_inner", [1, 2], True), ("open_inner", [1, 2, 3, 4], True), ("open_inner", [1], False),
    ("open_inner", [1, 2, 3], False), ("open_inner", [], True),
    ("open_outer", [1, 2, 3, 4], True), ("open_outer", [1, 2, 3], False),
    ("open_both", [1, 2, 3], True), ("open_both", 1, True),
    ("batched", [1, 2], True), ("batched", [1, 2, 3, 4], True), ("batched", [1, 2, 3], False),
    ("batched_text", "x", True), ("batched_text", ["x", "y", "z"], True),
    ("open_both", [[1, 2], [3]], None), ("fixed", [[1, 2, 3], [4, 5, 6]], False),
]


@pytest.mark.parametrize("model, value, fits", SHAPES)
def test_shapes(server, model, value, fits):
    reply = post(server, model, {"INPUT0": value})
    if fits:
        wanted = value[0] if isinstance(value, list) and len(value) == 1 else value
        assert reply.json()["OUTPUT0"] == wanted
    elif fits is False:
        assert_error(reply, 400, "The schema can not convert input 'INPUT0' to tensor with proper "
                                 "shape")
    else:  # it has as many elements as the shape says, but they are no numbers
        assert_error(reply, 400, "Unable to parse 'data': Shape does not match true shape of "
                                 "'data' field")


def test_batch_is_too_large(server):
    reply = post(server, "batched", {"INPUT0": list(range(10))})
    assert_error(reply, 400, "[request id: <id_unknown>] inference request batch-size must be <= 4 "
                             "for 'batched'")


# ---- the answer ---------------------------------------------------------------------------------


def test_exact_bytes(server):
    answer = exchange_chunked(server, "generate", "with_parameters",
                              {"INPUT0": [1, 2], "id": "7", "x": "ignored"})
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == (b'{"OUTPUT0":[1,2],"id":"7","model_name":"with_parameters",'
                           b'"model_version":"1","param0":"an example string parameter",'
                           b'"param1":42,"param2":false}')


def test_exact_bytes_of_an_event(server):
    answer = exchange_chunked(server, "generate_stream", "two", {"INPUT0": 5, "text": "hello"})
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.body == (b'data: {"OUTPUT0":5,"answer":"hello","model_name":"two",'
                           b'"model_version":"1"}\n\n')


class Chunked:
    """An answer whose body came in chunks."""

    def __init__(self, status, headers, chunks):
        self.status = status
        self.headers = headers
        self.chunks = chunks
        self.body = b"".join(chunks)


def read_head(stream):
    version, status, _ = stream.readline().split(b" ", 2)
    assert version == b"HTTP/1.1"
    headers = {}
    for line in iter(stream.readline, b"\r\n"):
        name, _, value = line.partition(b":")
        headers[name.decode().lower()] = value.strip().decode()
    return int(status), headers


def read_chunk(stream):
    """None at the end."""
    size = int(stream.readline(), 16)
    chunk = stream.read(size)
    assert stream.readline() == b"\r\n"
    return chunk if size > 0 else None


def read_chunked(stream):
    status, headers = read_head(stream)
    assert headers["transfer-encoding"] == "chunked"
    assert "content-length" not in headers
    return Chunked(status, headers, list(iter(lambda: read_chunk(stream), None)))


def exchange_chunked(server, kind, model, body, *headers):
    with Wire(server.http_port) as wire:
        wire.send(request("POST", f"/v2/models/{model}/{kind}", json.dumps(body).encode(),
                          *headers))
        return read_chunked(wire.socket.makefile("rb"))


def test_connection_stays(server):
    """Both kinds, in turns, on one connection."""
    body = json.dumps({"INPUT0": [1, 2]}).encode()
    with Wire(server.http_port) as wire:
        stream = wire.socket.makefile("rb")
        for kind in ("generate", "generate_stream") * 3:
            wire.send(request("POST", f"/v2/models/echo_int32/{kind}", body))
            answer = read_chunked(stream)
            assert answer.status == 200 and b'"OUTPUT0":[1,2]' in answer.body
            assert "connection" not in answer.headers


@pytest.mark.parametrize("kind", ["generate", "generate_stream"])
def test_connection_close(server, kind):
    body = json.dumps({"INPUT0": [1, 2]}).encode()
    with Wire(server.http_port) as wire:
        wire.send(request("POST", f"/v2/models/echo_int32/{kind}", body, "Connection: close"))
        stream = wire.socket.makefile("rb")
        answer = read_chunked(stream)
        assert answer.headers["connection"] == "close"
        assert stream.read() == b""


def test_http_1_0(server):
    """No chunks for it: the object has its length, the stream ends with the connection."""
    body = json.dumps({"INPUT0": [1, 2]}).encode()
    json_text = b'{"OUTPUT0":[1,2],"model_name":"echo_int32","model_version":"1"}'
    head = b"POST /v2/models/echo_int32/%s HTTP/1.0\r\nContent-Length: %d\r\n\r\n"
    answer = exchange(server.http_port, head % (b"generate", len(body)) + body)
    assert answer.body == json_text and answer.headers["connection"] == "close"

    with Wire(server.http_port) as wire:
        wire.send(head % (b"generate_stream", len(body)) + body)
        stream = wire.socket.makefile("rb")
        status, headers = read_head(stream)
        assert status == 200 and headers["connection"] == "close"
        assert "transfer-encoding" not in headers and "content-length" not in headers
        assert stream.read() == b"data: " + json_text + b"\n\n"


def test_never_compressed(server):
    for kind in ("generate", "generate_stream"):
        reply = post(server, "echo_text", {"INPUT0": "x" * 5000}, kind,
                     headers={"Accept-Encoding": "gzip"})
        assert reply.status_code == 200 and "Content-Encoding" not in reply.headers


def test_no_load_metrics(server):
    """No model here has what that header tells of."""
    for load_format in ("text", "json", "nonsense"):
        reply = post(server, "echo_int32", {"INPUT0": 1},
                     headers={"endpoint-load-metrics-format": load_format})
        assert reply.status_code == 200 and "endpoint-load-metrics" not in reply.headers


def test_version_in_the_path(server):
    assert post(server, "echo_int32/versions/1", {"INPUT0": 1}).json()["OUTPUT0"] == 1
    assert_error(post(server, "echo_int32/versions/9", {"INPUT0": 1}), 404,
                 "Request for unknown model: 'echo_int32' version 9 is not found")
    too_large = "99999999999999999999"
    assert_error(post(server, f"echo_int32/versions/{too_large}", {"INPUT0": 1}), 400,
                 f"failed to get model version from specified version string '{too_large}' "
                 "(details: stol), version should be an integral value > 0")


# ---- the id and the parameters ------------------------------------------------------------------


def test_id(server):
    assert post(server, "echo_int32", {"INPUT0": 1, "id": "abc"}).json()["id"] == "abc"
    assert "id" not in post(server, "echo_int32", {"INPUT0": 1}).json()
    assert "id" not in post(server, "echo_int32", {"INPUT0": 1, "id": ""}).json()
    # In a core message, too.
    assert "[request id: abc] " in post(server, "batched",
                                        {"id": "abc", "INPUT0": list(range(10))}).text


def test_id_that_is_an_input(server):
    reply = post(server, "input_id", {"id": "abc"}).json()
    assert (reply["OUTPUT0"], reply["id"]) == ("abc", "abc")
    reply = post(server, "input_id", {"id": ["a", "b"]}).json()
    assert reply["OUTPUT0"] == ["a", "b"] and "id" not in reply
    reply = post(server, "input_id_int", {"id": 5}).json()
    assert reply["OUTPUT0"] == 5 and "id" not in reply


@pytest.mark.parametrize("nested", [False, True])
def test_parameters_reach_the_backend(server, nested):
    """The testing backend fails a request as it is told."""
    wish = {"fail": "as you wish", "fail_code": 4}
    body = {"INPUT0": 1, **({"parameters": wish} if nested else wish)}
    assert_chunked_error(post(server, "testing", body), 503, "as you wish")


def test_inputs_among_the_parameters(server):
    assert post(server, "echo_int32", {"parameters": {"INPUT0": [3, 4]}}).json()[
        "OUTPUT0"] == [3, 4]


def test_parameters_of_every_type(server):
    reply = post(server, "echo_int32", {"INPUT0": 1, "a": "text", "b": -3, "c": True, "d": 1.5,
                                        "parameters": {"a": "text", "b": 3, "c": False, "d": 1e9}})
    assert reply.status_code == 200, reply.text


def assert_chunked_error(reply, status, text):
    assert_error(reply, status, text)
    assert reply.headers["Transfer-Encoding"] == "chunked"


def test_forwarded_headers(server):
    reply = post(server, "testing", {"INPUT0": 1},
                 headers={"Fail": "ignored", "fail": "by header", "fail_code": "4"})
    assert reply.status_code == 503 and reply.json() == {"error": "by header"}
    assert_error(post(server, "testing", {"INPUT0": 1}, headers={"Priority": "1"}), 400,
                 "Header 'Priority' is reserved for Triton usage and cannot be forwarded.")


# ---- faults -------------------------------------------------------------------------------------

SYNTAX = "failed to parse the request JSON buffer: "
BAD_TYPE = ("parameter 'x' has invalid type. It should be either 'int', 'bool', or 'string'.")
NESTED = "Converting keyword: 'parameters': "
NOT_OBJECT = ("Expected JSON object for keyword: 'parameters': attempt to access JSON non-object "
              "as object")

FAULTS = [
    # model, body, text
    ("echo_int32", "", SYNTAX + "The document is empty. at 0"),
    ("echo_int32", "{", SYNTAX + "Missing a name for object member. at 1"),
    ("echo_int32", '{"INPUT0":1} x',
     SYNTAX + "The document root must not be followed by other values. at 13"),
    ("echo_int32", '{"x":null,"INPUT0":[1,}', SYNTAX + "Invalid value. at 22"),
    ("echo_int32", "[" * 101 + "]" * 101,
     "JSON nesting depth exceeds maximum allowed limit (100)"),
    ("echo_int32", "null", "attempt to get members for non-object"),
    ("echo_int32", "3", "attempt to get members for non-object"),
    ("echo_int32", "[]", "attempt to get members for non-object"),
    ("echo_int32", '{"INPUT0":1,"x":null}', BAD_TYPE),
    ("echo_int32", '{"INPUT0":1,"x":[1]}', BAD_TYPE),
    ("echo_int32", '{"INPUT0":1,"x":{}}', BAD_TYPE),
    ("echo_int32", '{"INPUT0":1,"parameters":{"x":[]}}', NESTED + BAD_TYPE),
    ("echo_int32", '{"INPUT0":1,"parameters":{"parameters":{}}}',
     NESTED + BAD_TYPE.replace("'x'", "'parameters'")),
    ("echo_int32", '{"INPUT0":1,"parameters":3}', NOT_OBJECT),
    ("echo_int32", '{"INPUT0":1,"parameters":[]}', NOT_OBJECT),
    ("echo_int32", '{"parameters":{"INPUT0":"x"}}',
     NESTED + "Unable to parse 'data': attempt to access JSON non-signed-integer as "
              "signed-integer"),
    ("input_parameters", '{"parameters":[1]}',
     "Keyword 'parameters' for nested schema also given as input tensor name"),
    ("input_parameters", '{"parameters":{"x":1}}',
     "Keyword 'parameters' for nested schema also given as input tensor name"),
    ("echo_int32", '{"INPUT0":1,"id":3}',
     "Unable to parse 'id': attempt to access JSON non-string as string"),
    ("echo_int32", '{"INPUT0":"x"}',
     "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
    ("echo_int32", '{"INPUT0":{}}',
     "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
    ("echo_fp32", '{"INPUT0":[1,null]}',
     "Unable to parse 'data': attempt to access JSON non-number as double"),
    ("echo_bool", '{"INPUT0":1}',
     "Unable to parse 'data': attempt to access JSON non-boolean as boolean"),
    ("echo_text", '{"INPUT0":1}',
     "Unable to parse JSON bytes array: attempt to access JSON non-string as string"),
    ("echo_text", '{"INPUT0":["a",null]}',
     "Unable to parse JSON bytes array: attempt to access JSON non-string as string"),
    ("echo_fp16", '{"INPUT0":1}', "input 'INPUT0' has unsupported datatype FP16"),
    ("echo_bf16", '{"INPUT0":1}', "input 'INPUT0' has unsupported datatype BF16"),
    ("echo_int32", '{"INPUT0":1,"INPUT0":2}', "[request id: <id_unknown>] input 'INPUT0' already exists in request"),
    ("two", '{"INPUT0":1}',
     "[request id: <id_unknown>] expected 2 inputs but got 1 inputs for model 'two'. Got input(s) "
     "['INPUT0'], but missing required input(s) ['text']. Please provide all required input(s)."),
    ("fixed", '{"x":[],"INPUT0":[1]}', BAD_TYPE),  # the first one is told
]


@pytest.mark.parametrize("kind", ["generate", "generate_stream"])
@pytest.mark.parametrize("model, body, text", FAULTS)
def test_fault(server, model, body, text, kind):
    reply = post(server, model, body, kind)
    assert_error(reply, 400, text)
    assert "Content-Length" in reply.headers


@pytest.mark.parametrize("kind", ["generate", "generate_stream"])
def test_unknown_model(server, kind):
    assert_error(post(server, "nobody", "{", kind), 404,
                 "Request for unknown model: 'nobody' is not found")


@pytest.mark.parametrize("kind", ["generate", "generate_stream"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "Identity"])
def test_content_encoding(server, kind, encoding):
    """Told before the JSON, after the model."""
    assert_error(post(server, "echo_int32", "{", kind, headers={"Content-Encoding": encoding}),
                 400, "Unsupported content-encoding, only 'identity' is supported.")
    assert post(server, "nobody", "{", kind,
                headers={"Content-Encoding": encoding}).status_code == 404


def test_identity_is_no_encoding(server):
    reply = post(server, "echo_int32", {"INPUT0": 1}, headers={"Content-Encoding": "identity"})
    assert reply.status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD"])
def test_method(server, method):
    for kind in ("generate", "generate_stream"):
        reply = requests.request(method, f"{server.url}/v2/models/echo_int32/{kind}", timeout=20)
        assert reply.status_code == 405 and reply.headers["Allow"] == "POST"
        assert reply.headers["Content-Type"] == "application/json"


def test_too_large(server):
    body = json.dumps({"INPUT0": "x" * MAX_INPUT})
    assert_error(post(server, "echo_text", body), 400,
                 f"request JSON size of {len(body)} bytes exceeds the maximum allowed input size "
                 f"of {MAX_INPUT} bytes. Use --http-max-input-size to increase the limit.")
    n = MAX_INPUT // 8 + 1
    assert_error(post(server, "echo_fp64", '{"INPUT0":[' + ",".join("1" * n) + "]}"), 400,
                 f"request size of {8 * n} bytes with input 'INPUT0' of size {8 * n} bytes exceeds "
                 f"the maximum allowed input size of {MAX_INPUT}. Use --http-max-input-size to "
                 "increase the limit.")
    n = MAX_INPUT // 4 + 1
    texts = json.dumps({"INPUT0": [""] * n}, separators=(",", ":"))
    assert_error(post(server, "echo_text", texts), 400,
                 f"request size of {4 * n} bytes with input 'INPUT0' of size {4 * n} bytes exceeds "
                 f"the maximum allowed input size of {MAX_INPUT}. Use --http-max-input-size to "
                 "increase the limit.")


MAX_BODY = MAX_INPUT + (1 << 20)  # with room for the JSON around tensors


@pytest.mark.parametrize("path", ["generate", "generate_stream", "versions/1/generate"])
@pytest.mark.parametrize("framing, size", [
    (f"Content-Length: {MAX_BODY + 1}", f"request body of {MAX_BODY + 1} bytes"),
    ("Transfer-Encoding: chunked", "request body")])
def test_body_over_the_limit(server, path, framing, size):
    """Refused before it is read, with the type of every error."""
    head = f"POST /v2/models/echo_int32/{path} HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n"
    answer = exchange(server.http_port, head.encode(), b"%x\r\n" % (MAX_BODY + 1))
    assert answer.status == 400 and answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body) == {
        "error": f"{size} exceeds the maximum allowed input size of {MAX_INPUT} bytes. Use "
                 "--http-max-input-size to increase the limit."}


# ---- failures of the model ----------------------------------------------------------------------


@pytest.mark.parametrize("code, status", [(1, 500), (2, 404), (3, 400), (4, 503), (5, 501)])
def test_failure_of_the_model(server, code, status):
    body = {"INPUT0": 1, "fail": "no luck", "fail_code": code}
    assert_chunked_error(post(server, "testing", body), status, "no luck")
    reply = post(server, "testing", body, "generate_stream")
    assert reply.status_code == status
    assert reply.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert reply.text == 'data: {"error":"no luck"}\n\n'


# ---- decoupled models ---------------------------------------------------------------------------

EXACTLY_ONE = ("generate expects model to produce exactly 1 response, use generate stream for model "
               "that generates various number of responses")


@pytest.mark.parametrize("n", [0, 1, 2, 5, 3000])
def test_stream_of_responses(server, n):
    reply = post(server, "many", {"INPUT0": [4, 5], "responses": n, "id": "x"}, "generate_stream")
    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert events(reply.text) == [
        {"OUTPUT0": [4, 5], "RESPONSE": i, "id": "x", "model_name": "many", "model_version": "1"}
        for i in range(n)]


@pytest.mark.parametrize("n", [0, 2, 50])
def test_generate_wants_one_response(server, n):
    reply = post(server, "many", {"INPUT0": 4, "responses": n})
    assert_chunked_error(reply, 200, EXACTLY_ONE)
    # The first one decides the status.
    if n > 0:
        assert_chunked_error(post(server, "many", {"INPUT0": 4, "responses": n, "fail": "no",
                                                   "fail_code": 4, "fail_at": 0}), 503, EXACTLY_ONE)


def test_generate_of_a_decoupled_model(server):
    reply = post(server, "many", {"INPUT0": 4, "responses": 1})
    assert reply.status_code == 200 and reply.json()["RESPONSE"] == 0


def test_failure_within_a_stream(server):
    body = {"INPUT0": 4, "responses": 4, "fail": "no luck", "fail_code": 4}
    reply = post(server, "many", {**body, "fail_at": 2}, "generate_stream")
    assert reply.status_code == 200
    assert [event.get("RESPONSE", event.get("error")) for event in events(reply.text)] == [
        0, 1, "no luck", 3]
    reply = post(server, "many", {**body, "fail_at": 0}, "generate_stream")
    assert reply.status_code == 503
    assert [event.get("RESPONSE", event.get("error")) for event in events(reply.text)] == [
        "no luck", 1, 2, 3]


def seconds_between_events(server):
    body = json.dumps({"INPUT0": 4, "responses": 2, "delay_ms": 300}).encode()
    with Wire(server.http_port) as wire:
        wire.send(request("POST", "/v2/models/many/generate_stream", body))
        stream = wire.socket.makefile("rb")
        assert read_head(stream)[0] == 200
        assert b'"RESPONSE":0' in read_chunk(stream)
        first = time.monotonic()
        assert b'"RESPONSE":1' in read_chunk(stream)
        took = time.monotonic() - first
        assert read_chunk(stream) is None
    return took


def test_events_arrive_as_they_are_made(server):
    """The second is made long after the first has been read; a busy client may read it late, but
    two that come together do so always."""
    assert any(seconds_between_events(server) > 0.1 for _ in range(10))


def test_client_that_leaves_a_stream(server):
    """The model is asked for more than it could make in the time of this test, and stops."""
    body = json.dumps({"INPUT0": 4, "responses": 1000000, "delay_ms": 5}).encode()
    with Wire(server.http_port) as wire:
        wire.send(request("POST", "/v2/models/many/generate_stream", body))
        stream = wire.socket.makefile("rb")
        assert read_head(stream)[0] == 200
        assert b'"RESPONSE":0' in read_chunk(stream)
        stream.close()
    # Its only instance is free again.
    assert post(server, "many", {"INPUT0": 4, "responses": 1}).json()["RESPONSE"] == 0


def resident_kib(server):
    status = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))


def settled_kib(server):
    """Once it does not change while others are served."""
    while True:
        before = resident_kib(server)
        for _ in range(50):
            assert requests.get(f"{server.url}/v2/health/live", timeout=20).status_code == 200
        if resident_kib(server) == before:
            return before


def test_reader_that_stops(server):
    """Asked for gigabytes, of which nothing is read: the model waits, and goes on afterwards."""
    values = list(range(8000))
    body = json.dumps({"INPUT0": values, "responses": 2000}).encode()
    with Wire(server.http_port, seconds=60) as wire:
        wire.send(request("POST", "/v2/models/many/generate_stream", body))
        stream = wire.socket.makefile("rb")
        assert read_head(stream)[0] == 200
        peak = settled_kib(server)
        numbers = [json.loads(chunk[len(DATA):])["RESPONSE"]
                   for chunk in iter(lambda: read_chunk(stream), None)]
    assert numbers == list(range(2000))
    assert is_sanitized() or peak < 150 * 1024, f"{peak} KiB"


def test_stopped_reader_that_leaves(server):
    """The model waits for room; the end of its client ends that."""
    body = json.dumps({"INPUT0": list(range(8000)), "responses": 100000}).encode()
    with Wire(server.http_port) as wire:
        wire.send(request("POST", "/v2/models/many/generate_stream", body))
        stream = wire.socket.makefile("rb")
        assert read_head(stream)[0] == 200
        stream.close()
    assert post(server, "many", {"INPUT0": 4, "responses": 1}).json()["RESPONSE"] == 0


# ---- clients ------------------------------------------------------------------------------------


def pending(server, model):
    text = requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=20).text
    return int(re.search(rf'nv_inference_pending_request_count{{model="{model}",.*}} (\d+)',
                         text).group(1))


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline


@pytest.mark.parametrize("kind", ["generate", "generate_stream"])
def test_client_that_leaves(server, kind):
    """Its request waits behind another one, and is taken out of the queue."""
    body = json.dumps({"INPUT0": 1}).encode()
    first = request("POST", f"/v2/models/gated/{kind}", body)
    with Gate(server, "gated") as gate, Wire(server.http_port) as wire:
        wire.send(first)
        gate.wait()
        with Wire(server.http_port) as leaver:
            leaver.send(first)
            wait_until(lambda: pending(server, "gated") == 1)
        wait_until(lambda: pending(server, "gated") == 0)
        gate.open()
        assert read_chunked(wire.socket.makefile("rb")).status == 200
        assert not gate.is_reached()


def test_restricted(tmp_path):
    write_repository(tmp_path, {"echo": echo("INT32", [-1])})
    server = Server(tmp_path, ("--http-restricted-api=inference:key=secret",))
    for kind in ("generate", "generate_stream"):
        assert_error(post(server, "echo", {"INPUT0": 1}, kind), 403,
                     "This API is restricted, expecting header 'key'")
        assert post(server, "echo", {"INPUT0": 1}, kind,
                    headers={"key": "secret"}).status_code == 200
    assert server.stop() == 0
