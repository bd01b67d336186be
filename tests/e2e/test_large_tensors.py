# SPDX-License-Identifier: BSD-3-Clause
"""Requests with more than 64 MiB of binary tensors: the memory budget is their limit, and they take it as
their bytes come. JSON, raw inputs and compressed bodies have the limit of --http-max-input-size."""
import gzip
import hashlib
import json
import struct

import pytest

from conftest import TLS
from frames import DATA, END_HEADERS, HEADERS, INFER, Raw, frame, head, says_status
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from scrape import metrics
from wire import Wire, exchange, request

TAKES_SECONDS = 15

BACKENDS = ("identity",)
MODELS = {"images": """backend: "identity"
max_batch_size: 128
input { name: "INPUT0" data_type: TYPE_FP32 dims: [224, 224, 3] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [224, 224, 3] }
""", "bytes": """backend: "identity"
input { name: "INPUT0" data_type: TYPE_UINT8 dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_UINT8 dims: [-1] }
"""}
MIB = 1 << 20
BUDGET = 512 * MIB
LARGEST = BUDGET - BUDGET // 8  # an eighth is for small requests
MAX_INPUT = 64 * MIB  # the default
MAX_JSON = MAX_INPUT + MIB  # with room for the JSON around tensors
OPTIONS = (f"--memory-budget={BUDGET}", "--http-thread-count=1", "--grpc-infer-thread-count=1")
BATCH = [128, 224, 224, 3]  # 77 MB
PIECE = struct.pack("<3f", 0.5, -1.25, 3e-9)
PIXELS = PIECE * (128 * 224 * 224)


def binary(model, datatype, shape, size):
    """Path and JSON of a request with that many bytes of data."""
    document = {"inputs": [{"name": "INPUT0", "datatype": datatype, "shape": shape,
                            "parameters": {"binary_data_size": size}}],
                "parameters": {"binary_data_output": True}}
    return f"/v2/models/{model}/infer", json.dumps(document).encode()


def announced(path, *fields):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: test", *fields]).encode() + b"\r\n\r\n"


def output(answer):
    return answer.body[int(answer.headers["inference-header-content-length"]):]


def assert_same(a, b):
    assert hashlib.sha256(a).digest() == hashlib.sha256(b).digest()


# ---- what passes --------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_batch_of_images(server, framing):
    path, document = binary("images", "FP32", BATCH, len(PIXELS))
    if framing == "length":
        length, body = f"Content-Length: {len(document) + len(PIXELS)}", (document, PIXELS)
    else:
        length = "Transfer-Encoding: chunked"
        body = (b"%x\r\n" % len(document), document, b"\r\n%x\r\n" % len(PIXELS), PIXELS,
                b"\r\n0\r\n\r\n")
    with Wire(server.http_port, 60) as wire:
        wire.send(announced(path, f"Inference-Header-Content-Length: {len(document)}", length),
                  *body)
        answer = wire.read_answer()
        assert answer.status == 200
        assert_same(output(answer), PIXELS)
        wire.send(request("GET", "/v2/health/live"))
        assert wire.read_answer().status == 200


def test_batch_of_images_over_grpc(server, stubs):  # noqa: F811
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        pb = client.pb
        answer = client.ModelInfer(pb.ModelInferRequest(
            model_name="images", raw_input_contents=[PIXELS],
            inputs=[pb.ModelInferRequest.InferInputTensor(name="INPUT0", datatype="FP32",
                                                          shape=BATCH)]), timeout=60)
    assert_same(answer.raw_output_contents[0], PIXELS)


def test_memory_is_given_back(server):
    """What the large requests held is free again: as many again pass as fit at a time."""
    for _ in range(4):
        test_batch_of_images(server, "length")


# ---- what does not ------------------------------------------------------------------------------


def refusal(answer):
    return answer.status, json.loads(answer.body)["error"]


def test_limit_of_the_budget(server):
    path, document = binary("bytes", "UINT8", [1], 1)
    fields = (f"Inference-Header-Content-Length: {len(document)}", "Expect: 100-continue")
    with Wire(server.http_port) as wire:
        # the loops' pools hold a little
        wire.send(announced(path, *fields, f"Content-Length: {LARGEST - 16 * MIB}"))
        assert wire.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    answer = exchange(server.http_port, announced(path, *fields, f"Content-Length: {LARGEST + 1}"))
    assert refusal(answer) == (413, f"request body of {LARGEST + 1} bytes exceeds the maximum of "
                                    f"{LARGEST} bytes that the server's memory budget "
                                    "(--memory-budget) permits")
    assert answer.headers["connection"] == "close"


JSON_TEXT = ("request JSON size of {} bytes exceeds the maximum allowed input size of 67108864 bytes. "
             "Use --http-max-input-size to increase the limit.")
BODY_TEXT = JSON_TEXT.replace("JSON size", "body")
RAW_TEXT = ("Raw input has a byte_size ({} bytes) that exceeds the maximum allowed value of 67108864 "
            "bytes. Use --http-max-input-size to increase the limit.")
PACKED_TEXT = ("Decompressed data size exceeds the maximum allowed value of 67108864 bytes. Use "
               "--http-max-input-size to increase the limit.")
JSON, TEXT = "application/json", "text/plain"
INFER_PATH = "/v2/models/bytes/infer"
TOO_LARGE = [
    (INFER_PATH, (), MAX_JSON + 1, JSON_TEXT.format(MAX_JSON + 1), JSON),
    (INFER_PATH, ("Inference-Header-Content-Length: 0",), MAX_JSON + 1,
     RAW_TEXT.format(MAX_JSON + 1), JSON),
    (INFER_PATH, (f"Inference-Header-Content-Length: {MAX_INPUT + 1}",), MAX_JSON + 1,
     JSON_TEXT.format(MAX_INPUT + 1), JSON),
    (INFER_PATH, ("Inference-Header-Content-Length: none",), MAX_JSON + 1,
     BODY_TEXT.format(MAX_JSON + 1), TEXT),
    (INFER_PATH, ("Inference-Header-Content-Length: 9", "Content-Encoding: gzip"), MAX_JSON + 1,
     PACKED_TEXT, TEXT),
    # others than infer have no tensors
    ("/v2/models/bytes/generate", ("Inference-Header-Content-Length: 9",), MAX_JSON + 1,
     BODY_TEXT.format(MAX_JSON + 1), JSON),
    ("/v2/repository/models/bytes/load", ("Inference-Header-Content-Length: 9",), MAX_JSON + 1,
     BODY_TEXT.format(MAX_JSON + 1), JSON),
]


@pytest.mark.parametrize("path, fields, size, text, kind", TOO_LARGE)
def test_too_large(server, path, fields, size, text, kind):
    """Refused before the body is read."""
    answer = exchange(server.http_port, announced(path, *fields, f"Content-Length: {size}"))
    assert refusal(answer) == (400, text)
    assert answer.headers["content-type"] == kind


@pytest.mark.parametrize("path, fields", [
    (INFER_PATH, ()), (INFER_PATH, ("Inference-Header-Content-Length: 0",)),
    ("/v2/models/bytes/generate", ("Inference-Header-Content-Length: 9",))])
def test_chunks_too_large(server, path, fields):
    head_of_it = announced(path, *fields, "Transfer-Encoding: chunked")
    answer = exchange(server.http_port, head_of_it, b"%x\r\n" % (MAX_JSON + 1))
    assert refusal(answer) == (400, "request body exceeds the maximum allowed input size of 67108864 "
                                    "bytes. Use --http-max-input-size to increase the limit.")


def test_raw_input_beyond_the_limit(server):
    """Between the limit and that of the body: the handler refuses it."""
    body = bytes(MAX_INPUT + 1)
    answer = exchange(server.http_port, request("POST", INFER_PATH, body,
                                                "Inference-Header-Content-Length: 0"))
    assert refusal(answer) == (400, RAW_TEXT.format(MAX_INPUT + 1))


def test_packed_tensors_beyond_the_limit(server):
    path, document = binary("images", "FP32", BATCH, len(PIXELS))
    body = gzip.compress(document + PIXELS, 1)
    answer = exchange(server.http_port, request(
        "POST", path, body, f"Inference-Header-Content-Length: {len(document)}",
        "Content-Encoding: gzip"))
    assert refusal(answer) == (400, PACKED_TEXT)


# ---- what a peer can make the server hold -------------------------------------------------------


def n_refused(server):
    return metrics(server).get('neso_rejected_total{limit="memory_budget"}', 0)


def test_announced_bytes_are_not_charged(server):
    """Many large bodies of which only the first bytes come leave room for a whole one."""
    path, document = binary("images", "FP32", BATCH, len(PIXELS))
    before = n_refused(server)
    many = [Wire(server.http_port) for _ in range(30)]
    for one in many:
        one.send(announced(path, f"Inference-Header-Content-Length: {len(document)}",
                           f"Content-Length: {len(document) + len(PIXELS)}",
                           "Expect: 100-continue"))
        assert one.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        one.send(document, PIXELS[:100000])
    test_batch_of_images(server, "length")
    assert n_refused(server) == before
    for one in many:
        one.close()


@pytest.mark.skipif(bool(TLS), reason="frames on a plain socket")
@pytest.mark.parametrize("size, limit", [((1 << 31) - 1, "memory_budget"),
                                         (1 << 31, "message_bytes")])
def test_limit_of_a_message(server, size, limit):
    """That of the reference server, INT32_MAX, and of the budget: refused when the length has come."""
    name = f'neso_rejected_total{{limit="{limit}"}}'
    before = metrics(server).get(name, 0)
    with Raw(server) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, head(INFER)) +
                 frame(DATA, 0, 1, b"\0" + struct.pack(">I", size) + b"x"))
        assert says_status(raw.trailers(1), 8)  # RESOURCE_EXHAUSTED
    assert metrics(server)[name] == before + 1


@pytest.mark.skipif(bool(TLS), reason="frames on a plain socket")
def test_announced_messages_are_not_charged(server, stubs):  # noqa: F811
    before = n_refused(server)
    many = [Raw(server) for _ in range(30)]
    for one in many:
        one.send(frame(HEADERS, END_HEADERS, 1, head(INFER)) +
                 frame(DATA, 0, 1, b"\0" + struct.pack(">I", len(PIXELS)) + PIXELS[:10000]))
    test_batch_of_images_over_grpc(server, stubs)
    assert n_refused(server) == before
    for one in many:
        one.socket.close()
