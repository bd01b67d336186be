# SPDX-License-Identifier: BSD-3-Clause
"""What strangers send: each gets a clear error or a closed connection, and nobody else notices.

CASES is about a thousand requests of two dozen kinds. Every one is sent alone first, and then all
of them again while memory and descriptors are watched and a well-behaved client is served.
"""
import concurrent.futures
import gzip
import json
import os
import random
import socket
import struct
import threading
import time
import zlib

import pytest
import requests

from conftest import Server, is_sanitized, require_build, write_repository
from scrape import metrics, wait_for_metric, wait_for_pending
from wire import Wire, exchange, request

TAKES_SECONDS = 10

BACKENDS = ("identity", "testing")
MAX_INPUT = 1 << 20
OPTIONS = (f"--http-max-input-size={MAX_INPUT}", "--http-thread-count=2")
HASTY = ("--http-header-timeout-ms=1000", "--http-idle-timeout-ms=2000", "--http-max-connections=40",
         "--http-max-connections-per-address=0",
         "--http-min-body-rate=1000", "--http-thread-count=2")


def tensors(data_type, dims="[-1]"):
    return (f'input {{ name: "INPUT0" data_type: {data_type} dims: {dims} }}\n'
            f'output {{ name: "OUTPUT0" data_type: {data_type} dims: {dims} }}\n')


MODELS = {
    "fp32": 'backend: "identity"\n' + tensors("TYPE_FP32"),
    "batched": 'backend: "identity"\nmax_batch_size: 4\n' + tensors("TYPE_FP32"),
    "fixed": 'backend: "identity"\n' + tensors("TYPE_FP32", "[4]"),
    "strings": 'backend: "identity"\n' + tensors("TYPE_STRING"),
    "open2": 'backend: "identity"\n' + tensors("TYPE_FP32", "[-1,-1]"),
    "slow": 'backend: "testing"\n' + tensors("TYPE_FP32"),
}

GOOD = json.dumps({"inputs": [
    {"name": "INPUT0", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}).encode()
INFER = "/v2/models/fp32/infer"
HEAD = f"POST {INFER} HTTP/1.1\r\nHost: test\r\n".encode()


class Case:
    """Bytes to send, then the end of what the client has to say unless it waits.

    status None: no answer is due, only the end of the connection.
    """

    def __init__(self, kind, sent, status, text=None, waits=True):
        self.kind = kind
        self.sent = sent if isinstance(sent, list) else [sent]
        self.statuses = status if isinstance(status, tuple) else (status,)
        self.text = text
        self.waits = waits


def post(body, *headers, model="fp32"):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return request("POST", f"/v2/models/{model}/infer", body, *headers)


def one_input(**changes):
    """A request with one member of its input changed; None leaves the member out."""
    made = {"name": "INPUT0", "shape": [2], "datatype": "FP32", "data": [1, 2], **changes}
    return {"inputs": [{key: value for key, value in made.items() if value is not None}]}


def binary(size, tail, shape=(2,), model="fp32", datatype="FP32"):
    head = json.dumps({"inputs": [
        {"name": "INPUT0", "shape": list(shape), "datatype": datatype,
         "parameters": {"binary_data_size": size}}]}).encode()
    return post(head + tail, f"Inference-Header-Content-Length: {len(head)}", model=model)


def chunked(*chunks, end=b"0\r\n\r\n"):
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + end


def chunk(part, extension=b""):
    return b"%x%s\r\n%s\r\n" % (len(part), extension, part)


# ---- the kinds ----------------------------------------------------------------------------------


def truncated():
    """At every place; the client stops and waits for what comes."""
    whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD
    for end in range(1, len(whole)):
        yield Case("truncated", whole[:end], None, waits=False)
    whole = chunked(chunk(GOOD[:20]), chunk(GOOD[20:]))
    for end in range(len(HEAD), len(whole)):
        yield Case("truncated", whole[:end], None, waits=False)


def early_disconnects():
    """No more is sent. Whoever still listens may hear that the request was given up."""
    for n in range(60):
        yield Case("early disconnect", post(GOOD, model="slow" if n % 2 else "fp32"),
                   (None, 200, 400), waits=False)


def request_lines():
    bad = ["GET", "GET /", "GET / HTTP", "GET / HTTP/", "GET / HTTP/1", "GET / HTTP/1.",
           "GET / HTTP/x.1", "GET / FTP/1.1", "get /v2 HTTP/1.1", "GE\0T / HTTP/1.1",
           "GET /\0 HTTP/1.1", "GET /\x01 HTTP/1.1", "GET  / HTTP/1.1", "GET / HTTP/1.1 x",
           "GET\t/\tHTTP/1.1", "FROB /v2 HTTP/1.1", "G\xe9T / HTTP/1.1", "\x00" * 40, " ",
           "GET v2 HTTP/1.1", "\xff\xfe\xfd", "{}", "HTTP/1.1 200 OK"]
    for line in bad:
        yield Case("request line", line.encode("latin-1") + b"\r\nHost: test\r\n\r\n", (400, 505))
    for version in ("0.9", "1.2", "2.0", "3.0", "9.9"):
        yield Case("request line", f"GET /v2 HTTP/{version}\r\nHost: test\r\n\r\n".encode(),
                   (400, 505))
    for path in ("*", "/" * 2000, "/v2/../../etc/passwd", "/v2/models/../stats", "/%00",
                 "/v2/models/%2e%2e%2fsecret/infer/x", "http://", "http:///", "http://x/y"):
        yield Case("request line", f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), (400, 404))
    for method in ("CONNECT", "TRACE", "OPTIONS", "PROPFIND", "SUBSCRIBE", "M-SEARCH"):
        yield Case("request line", f"{method} /v2 HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
                   (400, 405))


def headers():
    bad = [b": nameless", b"Name : blank", b" folded: x", b"X: a\r\n folded", b"X: a\r\n\tfolded",
           b"X\0Y: z", b"X: a\0b", b"X: a\rb", b"X: a\nInjected: b", b"X(Y): z", b"no colon",
           b"X: \x7f\x01", b"\xe9: x", b"Host: again",
           b"Expect: the unexpected"]
    for line in bad:
        yield Case("header", b"GET /v2 HTTP/1.1\r\nHost: test\r\n" + line + b"\r\n\r\n",
                   (400, 417))
    for end in (b"\n\n", b"\r\n\n", b"\n\r\n"):
        yield Case("header", b"GET /v2 HTTP/1.1\r\nHost: test" + end, 400, waits=False)
    for size in (32 << 10, 33 << 10, 64 << 10, 1 << 20):
        yield Case("header size", request("GET", "/v2", b"", "X: " + "x" * size), 431)
        yield Case("header size", request("GET", "/v2/" + "x" * size), 431)
        yield Case("header size", request("GET", "/v2", b"", "x" * size + ": y"), 431)
        yield Case("header size", b"x" * size, (400, 431))
    for n in (100, 101, 500, 5000):
        yield Case("header fields", request("GET", "/v2", b"", *("a: b" for _ in range(n))), 431)


def lengths():
    for value in ("-1", "+5", "0x10", "5 5", "5,5", "5, 6", "five", "", "1e3", "5\t6",
                  "18446744073709551616", "99999999999999999999999", "-0"):
        yield Case("content length", HEAD + f"Content-Length: {value}\r\n\r\n".encode(), 400)
    for value in (MAX_INPUT * 2 + 1, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1):
        yield Case("content length", HEAD + b"Content-Length: %d\r\n\r\n" % value, 400,
                   "Use --http-max-input-size to increase the limit.")
    for value in ("-1", "abc", "1 1", "0x10", "2147483648", "-99999999999", str(len(GOOD) + 1),
                  "1e2", "99999999999999999999"):
        yield Case("header length", post(GOOD, f"Inference-Header-Content-Length: {value}"), 400)
    for value in (1, len(GOOD) // 2, len(GOOD) - 1):
        yield Case("header length", post(GOOD, f"Inference-Header-Content-Length: {value}"), 400)


def smuggling():
    inner = b"GET /v2/models/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    for lines in ([b"Content-Length: 4", b"Transfer-Encoding: chunked"],
                  [b"Transfer-Encoding: chunked", b"Content-Length: 4"],
                  [b"Content-Length: 4", b"Content-Length: 5"],
                  [b"Content-Length: 4", b"Content-Length: 4"],
                  [b"Transfer-Encoding: chunked, identity"], [b"Transfer-Encoding: identity"],
                  [b"Transfer-Encoding: xchunked"], [b"Transfer-Encoding: chunked, chunked"],
                  [b"Transfer-Encoding: gzip, chunked"], [b"Transfer-Encoding: chunked",
                                                          b"Transfer-Encoding: identity"],
                  [b"Transfer-Encoding : chunked"], [b"Transfer-Encoding:\x0bchunked"],
                  [b"Transfer-Encoding: \"chunked\""], [b"X: y\r\n Transfer-Encoding: chunked"],
                  [b"Transfer-Encoding:\r\n chunked"], [b"Transfer\x00-Encoding: chunked"],
                  [b"Content-Length: 4\r\nContent-Length : 40"]):
        yield Case("smuggling", HEAD + b"\r\n".join(lines) + b"\r\n\r\n0\r\n\r\n" + inner,
                   (400, 501))
    for end in (b"0\r\n\n", b"0\n\r\n", b"0\r\nA: b\n\r\n", b"0\r\nA: b\r\n\n", b"0;a\n\r\n", b"0\r\r\n",
                b"0\r\nA: b\r\n c\r\n\r\n", b"0\r\n A: b\r\n\r\n",
                b"0\r\nA: b\rB: c\r\n\r\n", b"0\r\n"):
        yield Case("smuggling", chunked(chunk(b"x"), end=end + inner), 400,
                   "malformed HTTP request: ", waits=False)
    yield Case("smuggling", HEAD + b"Inference-Header-Content-Length: 3\r\n"
               b"Inference-Header-Content-Length: 4\r\nContent-Length: 0\r\n\r\n", 400,
               "malformed HTTP request: two Inference-Header-Content-Length that differ")
    yield Case("smuggling", b"GET /v2 HTTP/1.1\r\nA: b\r\n\r\n", 400,
               "malformed HTTP request: no Host, which HTTP/1.1 requires")
    yield Case("smuggling", b"POST /v2 HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
               (400, 501))


def chunks():
    for size in (b"-1", b"+1", b"0x1", b"g", b"", b" 1", b"1 1", b"ffffffffffffffff",
                 b"10000000000000000", b"fffffffffffffffff", b"7fffffffffffffff", b"1\0",
                 b"1;\0"):
        yield Case("chunk size", chunked(size + b"\r\nx\r\n"), 400)
    yield Case("chunk size", chunked(b"%x\r\n" % (3 << 20)), 400,
               "Use --http-max-input-size to increase the limit.")
    for broken in (b"1\r\nxx\r\n", b"1\r\nx0\r\n\r\n", b"2\r\nx\r\n\r\n", b"1\nx\n", b"1\r\nx\n"):
        yield Case("chunk size", chunked(broken), 400, waits=False)
    yield Case("chunk flood", chunked(b"1\r\nx\r\n" * 65537), 400,
               "Chunked request body exceeds maximum of 65536 non-empty chunks. Send fewer or "
               "larger HTTP chunks.")
    yield Case("chunk flood", chunked(chunk(b"x", b";" + b"e" * 300)), 400)
    yield Case("chunk flood", chunked(*(chunk(b"x", b";e=" + b"e" * 200) for _ in range(100)),
                                      end=b"0;" + b"e" * 300 + b"\r\n\r\n"), 400)
    yield Case("chunk flood", chunked(b"0" * 40000 + b"1\r\n"), (400, 431))
    yield Case("chunk flood", chunked(end=b"0\r\n" + b"t: x\r\n" * 101 + b"\r\n"), 431)
    yield Case("chunk flood", chunked(end=b"0\r\nt: " + b"x" * 300_000 + b"\r\n\r\n"), 431)
    part = b" " * 65536
    yield Case("chunk flood", chunked(*(chunk(part) for _ in range(40))), 400,
               "Use --http-max-input-size to increase the limit.")


def json_texts():
    texts = [b"{", b"}", b"[", b"]", b'"', b"nul", b"tru", b"-", b"+1", b"01", b"1.", b".5", b"1e",
             b"1e+", b"0x1", b"'a'", b"{a:1}", b'{"a"}', b'{"a":}', b'{"a":1,}', b"[1,]", b"[,1]",
             b'{"a":1 "b":2}', b"[1 2]", b'{"a":1}}', b'{"a":1}x', b"[]]", b'{"a":"\n"}',
             b'{"a":"\x00"}', b'{"a":"\\x"}', b'{"a":"\\u12"}', b'{"a":"\\ud800"}',
             b'{"a":"\\udc00\\ud800"}', b'{"a":"\xff"}', b'{"a":"\xc0\x80"}', b'{"a":"\xed\xa0\x80"}',
             b'{"a":"\xf5\x80\x80\x80"}', b'{"a":"', b'{"a":"\\', b"\xef\xbb\xbf{}", b"/* */{}",
             b"// x\n{}", b"\x00", b"\x00" * 1000, b"{\"inputs\":", GOOD[:-1], GOOD + b"x",
             GOOD + GOOD, GOOD.replace(b"1", b"1\x00"), b" " * 1000, b"\n", b"\x1f\x8b", b"{}{}",
             b"undefined", b"-Inf", b"[" * 50 + b"]" * 49, GOOD.decode().encode("utf-16")]
    for text in texts:
        yield Case("json", post(text), 400)
    for text in (b"{}", b"[]", b"null", b"3", b"true", b'"x"', b"NaN", b"-Infinity",
                 b'{"input":[]}'):
        yield Case("json", post(text), 400, "inputs")
    for depth in (100, 101, 1000, 100_000, 500_000):
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
            if len(opening) * depth < MAX_INPUT:
                nested = opening * depth + b"1" + closing * depth
                yield Case("deep json", post(b'{"x":' + nested + b',"inputs":[]}'), 400)
                yield Case("deep json", post(opening * depth), 400)
    for depth in (101, 1000, 400_000):
        yield Case("deep json", post(GOOD.replace(b"[1, 2]", b"[" * depth + b"1,2" + b"]" * depth)),
                   400, "JSON nesting depth exceeds maximum allowed limit (100)")


def members():
    for value in (3, "x", [], None, True, {"a": 1}):
        for key in ("inputs", "outputs", "parameters", "id"):
            good = {"inputs": (list, dict), "outputs": list, "parameters": dict, "id": str}[key]
            if isinstance(value, good) and key != "inputs" or (key == "outputs" and value == []):
                continue
            yield Case("members", post({**json.loads(GOOD), key: value}), 400)
    for value in (3, "x", None, True, [], {}):
        yield Case("members", post({"inputs": [value]}), 400)
        yield Case("members", post({**json.loads(GOOD), "outputs": [value]}), 400)
    for key in ("name", "shape", "datatype", "data"):
        yield Case("members", post(one_input(**{key: None})), 400)
        for value in (True, -1, {"a": 1}, "?", [["x"]], [None], [{}], [1.5, "a"]):
            yield Case("members", post(one_input(**{key: value})), 400)
    for name in ("", "INPUT1", "input0", "INPUT0\0", "INPUT0 ", "x" * 100_000, "\u0000", "%s%n"):
        yield Case("members", post(one_input(name=name)), 400)
        yield Case("members", post({**json.loads(GOOD), "outputs": [{"name": name}]}), 400)
    for datatype in ("", "FP31", "fp32", "FP32 ", "FP16", "INT32", "BYTES", "FP32\0", "x" * 1000):
        yield Case("members", post(one_input(datatype=datatype)), 400)
    for data in ([], [1], [1, 2, 3], [1] * 1000, [[1]], [[[[]]]], 1, "12", {"0": 1}, [1, None],
                 [1, "2"], [True, False], [1, [2, [3]]], [{}, {}]):
        yield Case("members", post(one_input(data=data)), 400)
    for parameter in ({"sequence_id": {}}, {"sequence_id": -1}, {"sequence_id": 1.5},
                      {"sequence_start": 1}, {"priority": -1}, {"priority": "x"},
                      {"timeout": -5}, {"timeout": [1]}, {"binary_data_output": "yes"},
                      {"triton_x": 1}, {"a": None}, {"a": [1]}, {"a": {}}):
        yield Case("members", post({**json.loads(GOOD), "parameters": parameter}), 400)
    yield Case("members", post({**json.loads(GOOD), "parameters": {"sequence_id": "x" * 129}}), 501)
    for parameter in ({"classification": -1}, {"classification": "x"}, {"binary_data": 1},
                      {"shared_memory_region": 3}, {"shared_memory_offset": -1},
                      {"shared_memory_region": "r", "classification": 1}):
        yield Case("members", post({**json.loads(GOOD), "outputs": [
            {"name": "OUTPUT0", "parameters": parameter}]}), (400, 404))
    for parameter in ({"shared_memory_region": "r", "shared_memory_byte_size": 8},
                      {"shared_memory_region": "r", "shared_memory_byte_size": (1 << 64) - 1,
                       "shared_memory_offset": (1 << 64) - 1}):
        yield Case("members", post(one_input(data=None, parameters=parameter)), 404)
    yield Case("members", post({"inputs": json.loads(GOOD)["inputs"] * 2}), 400)
    yield Case("members", post({"inputs": json.loads(GOOD)["inputs"] * 8000}), 400)
    yield Case("members", post({**json.loads(GOOD), "outputs": [
        {"name": f"OUTPUT{n}"} for n in range(20_000)]}), 400)
    yield Case("members", post({**json.loads(GOOD), "outputs": [{"name": "OUTPUT0"}] * 20_000}), 400)


def shapes():
    for shape in ([-1], [-2], [3], [2, 1], [], [[2]], ["2"], [2.5], [None], [1e30], 2, "2", {},
                  [1] * 1000, [1] * 100_000, [0, 5], [-(1 << 63)], [1 << 63], [1 << 64],
                  [99999999999999999999999]):
        yield Case("shape", post(one_input(shape=shape)), 400)
    for shape in ([1 << 62, 4], [1 << 32, 1 << 32], [(1 << 63) - 1, 2], [3037000500, 3037000500],
                  [(1 << 63) - 1, (1 << 63) - 1], [1 << 61, 1], [(1 << 63) - 1, 1]):
        yield Case("shape", post(one_input(shape=shape), model="open2"), 400)
        yield Case("shape", binary(8, b"12345678", shape, "open2"), 400)
    for shape in ([1 << 40], [(1 << 63) - 1], [1 << 61], [1 << 62], [2, 3], [1]):
        yield Case("shape", post(one_input(shape=shape)), 400)
        yield Case("shape", binary(8, b"12345678", shape), 400)
    for shape in ([2], [5, 2], [-1, 2], [(1 << 63) - 1, 2], [1, 2, 1]):
        yield Case("shape", post(one_input(shape=shape), model="batched"), 400)
    for shape in ([2], [4, 1], [5], [], [0]):
        yield Case("shape", post(one_input(shape=shape), model="fixed"), 400)


def binaries():
    for size in (-1, 1.5, "8", None, [], 1e30, 1 << 63, 1 << 64, (1 << 64) - 1, 9, 7, 0, 16,
                 MAX_INPUT, 1 << 40):
        yield Case("binary size", binary(size, b"12345678"), 400)
    for tail in (b"", b"1", b"1234567", b"123456789", b"x" * 1000):
        yield Case("binary size", binary(8, tail), 400)
    whole = json.dumps(one_input(data=None, parameters={"binary_data_size": 8})).encode()
    yield Case("binary size", post(whole + b"12345678"), 400)
    yield Case("binary size", post(b"12345", "Inference-Header-Content-Length: 0"), 400)
    for tail in (b"", b"\1", b"\0\0\0", struct.pack("<I", 5), struct.pack("<I", 0xffffffff),
                 struct.pack("<I", 0x80000000) + b"x", struct.pack("<I", 1) + b"xy",
                 struct.pack("<II", 0, 0xfffffffc), struct.pack("<I", 0) * 3):
        yield Case("string lengths", binary(len(tail), tail, (2,), "strings", "BYTES"), 400)


def compressed():
    packed = gzip.compress(GOOD)
    plain = b"".join(bytes([byte]) for byte in range(256))
    for body in (b"x", plain, GOOD, packed[:-1], packed[:-8], packed[:10], packed[:11], packed[:2],
                 packed[:-4] + b"\0\0\0\0", packed[:-8] + b"\0" * 8, packed[:20] + b"\xff" * 20,
                 packed + b"x", b"\x1f\x8b\x08\xff" + b"\xff" * 30, zlib.compress(GOOD)[:-1],
                 b"\x78\x9c", zlib.compress(GOOD, wbits=-15)):
        for encoding in ("gzip", "deflate"):
            yield Case("gzip", post(body, f"Content-Encoding: {encoding}"), 400)
    for encoding in ("br", "zstd", "gzip, gzip", "GZIP", "x-gzip", "identity, gzip", "gzip;q=1"):
        yield Case("gzip", post(packed, f"Content-Encoding: {encoding}"), 501)
    yield Case("gzip", post(gzip.compress(packed), "Content-Encoding: gzip"), 400)


def bombs():
    zeros = b"\0" * (64 << 20)
    blanks = GOOD + b" " * (2 << 20)
    for body in (gzip.compress(zeros), zlib.compress(zeros), gzip.compress(blanks),
                 gzip.compress(gzip.compress(zeros))):
        yield Case("bomb", post(body, "Content-Encoding: gzip"), 400)
    yield Case("bomb", post(gzip.compress(zeros), "Content-Encoding: deflate"), 400,
               "Decompressed data size exceeds the maximum allowed value of 1048576 bytes. Use "
               "--http-max-input-size to increase the limit.")


def other_protocols():
    rng = random.Random(7)
    yield Case("other protocol", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0",
               (400, 505))
    hello = (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + rng.randbytes(32)
             + b"\x20" + rng.randbytes(32) + b"\x00\x04\x13\x01\x13\x02\x01\x00" + b"\0" * 84)
    yield Case("other protocol", hello, 400)
    for text in (b"SSH-2.0-OpenSSH_9.2\r\n", b"EHLO x\r\n", b"USER root\r\n", b"\x00\x00\x00\x85",
                 b"*1\r\n$4\r\nPING\r\n", b"\x05\x01\x00", b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00",
                 b"<xml/>\r\n\r\n", b"\x80\x2e\x01\x00\x02", b"JRMI\x00\x02K", b"GIOP\x01\x00",
                 b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\nGET /v2 HTTP/1.1\r\n\r\n", b"%%%\r\n\r\n"):
        yield Case("other protocol", text, 400)
    for _ in range(80):
        yield Case("noise", b"\xff" + rng.randbytes(rng.randrange(1, 3000)), 400)
    for _ in range(80):
        noise = bytearray(HEAD + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD)
        place = rng.randrange(len(b"POST "))
        noise[place] = rng.choice([0, 1, 127, 128, 255])
        yield Case("noise", bytes(noise), 400)


def pipelines():
    """The good requests are answered; the first bad byte after them ends the connection."""
    good = request("GET", "/v2/health/live")
    for n in (1, 2, 50):
        for garbage in (b"\0", b"garbage\r\n\r\n", b"\xff" * 100, b"GET\r\n\r\n"):
            yield Case("pipeline", [good * n + garbage], (*[200] * n, 400))
    yield Case("pipeline", [post(GOOD) + b"extra bytes\r\n\r\n"], (200, 400))
    yield Case("pipeline", [good + HEAD + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n1234"],
               (200, 400))


KINDS = [truncated, early_disconnects, request_lines, headers, lengths, smuggling, chunks,
         json_texts, members, shapes, binaries, compressed, bombs, other_protocols, pipelines]
CASES = [case for kind in KINDS for case in kind()]


# ---- sending ------------------------------------------------------------------------------------


def answers_to(port, case):
    """Every answer until the connection ends or as many as are due have come."""
    found = []
    with Wire(port) as wire:
        wire.send(*case.sent)
        if not case.waits:
            try:
                wire.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server was quicker
        n_due = len(case.statuses) if case.kind == "pipeline" else 1
        while len(found) < n_due and (answer := wire.read_answer()) is not None:
            found.append(answer)
        if case.kind == "pipeline":
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.is_closed()
    return found


def check(port, case):
    found = answers_to(port, case)
    what = f"{case.kind}: {b''.join(case.sent)[:300]!r} -> {found}"
    statuses = tuple(answer.status for answer in found)
    if case.kind == "pipeline":
        assert statuses == case.statuses, what
    else:
        assert len(found) <= 1 and (statuses[0] if statuses else None) in case.statuses, what
    for answer in found:
        if answer.status >= 400:
            error = json.loads(answer.body)
            assert list(error) == ["error"], what
            # A cancelled request has no text, as the reference has none.
            assert error["error"].strip() or case.kind == "early disconnect", what
            assert case.text is None or case.text in error["error"], what
            assert "/tmp" not in error["error"] and "0x7f" not in error["error"], what


def send_all(server):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda case: check(server.http_port, case), CASES))


class GoodClient:
    """On one connection, again and again; `n` answers were right."""

    def __init__(self, server):
        self.url = f"{server.url}{INFER}"
        self.n = 0
        self.failure = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            with requests.Session() as session:
                while not self._is_over.is_set():
                    reply = session.post(self.url, data=one_text(self.n), timeout=20)
                    assert reply.json()["outputs"][0]["data"] == [self.n, 0.5]
                    self.n += 1
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()


def one_text(n):
    return json.dumps(one_input(data=[n, 0.5]))


def assert_healthy(server):
    assert requests.get(f"{server.url}/v2/health/ready", timeout=20).status_code == 200
    reply = requests.post(server.url + INFER, data=GOOD, timeout=20)
    assert reply.json()["outputs"][0]["data"] == [1.0, 2.0]
    assert server.process.poll() is None


def n_descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def n_connections(server):
    """That the server has not closed, whether their clients have or not."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    established, close_wait = "01", "08"
    return sum(int(row[1].split(":")[1], 16) == server.http_port and
               row[3] in (established, close_wait) for row in rows)


def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as lines:
        return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline


# ---- the tests ----------------------------------------------------------------------------------


def test_there_are_enough():
    assert len(CASES) >= 1000
    assert len({case.kind for case in CASES}) >= 20


@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES}))
def test_kind(server, kind):
    for case in CASES:
        if case.kind == kind:
            check(server.http_port, case)
    assert_healthy(server)


def test_everybody_else_is_served(server):
    """All of them at once from four clients; the fifth behaves, and is not disturbed."""
    with GoodClient(server) as good:
        wait_until(lambda: good.n or good.failure)
        before = good.n
        send_all(server)
        after = good.n
    assert good.failure is None
    assert after - before > 20
    assert_healthy(server)


def test_nothing_is_left_behind(server):
    """Neither memory nor descriptors, after what may be kept is kept."""
    send_all(server)  # the server opens some descriptors at the first request that needs them
    wait_until(lambda: n_connections(server) == 0)
    with Wire(server.http_port) as wire:
        wire.send(request("GET", "/v2"))
        assert wire.read_answer().status == 200
        n_before = n_descriptors(server)

        def largest(n_rounds):
            """What is free is given back now and then, so the peaks are compared."""
            found = []
            for _ in range(n_rounds):
                for case in CASES:
                    check(server.http_port, case)
                found.append(resident_kib(server))
            wait_until(lambda: n_descriptors(server) <= n_before)
            return max(found)

        # Each thread's heap takes some rounds to reach its size. A leak would raise every peak.
        peaks = [largest(6), largest(4)]
        while peaks[-1] > max(peaks[:-1]) * 1.05 and len(peaks) < 8:
            peaks.append(largest(4))
        if not is_sanitized():  # freed memory is kept there, to be watched
            assert peaks[-1] <= max(peaks[:-1]) * 1.05, f"{peaks} KiB"
        wait_until(lambda: n_descriptors(server) == n_before)
    for name in MODELS:
        wait_for_pending(server, name, 0)
    assert_healthy(server)


def test_limits_were_counted(server):
    found = {sample for sample in metrics(server) if sample.startswith("neso_rejected_total")}
    for limit in ("header_bytes", "header_fields", "body_bytes", "chunks",
                  "chunk_extension_bytes"):
        assert f'neso_rejected_total{{limit="{limit}"}}' in found


def test_reset_connections(server):
    """The peer is gone with a bang, at every moment of a request."""
    whole = post(GOOD, model="slow")
    for end in range(0, len(whole) + 1, 3):
        with Wire(server.http_port) as wire:
            wire.send(whole[:end])
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert_healthy(server)


def test_answers_that_nobody_reads(server):
    """Many requests in one go, and the client leaves without reading."""
    for _ in range(20):
        with Wire(server.http_port) as wire:
            wire.send(post(GOOD) * 50)
    assert_healthy(server)


def test_upgrades_are_ignored(server):
    """Neither websockets nor HTTP/2 in clear text are spoken; the request itself is good."""
    for lines in (["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="],
                  ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"]):
        with Wire(server.http_port) as wire:
            wire.send(request("GET", "/v2/health/live", b"", *lines))
            answer = wire.read_answer()
            assert answer.status == 200 and "upgrade" not in answer.headers


def test_continue(server):
    """100 comes when the body is wanted, and the refusal instead when it is not."""
    with Wire(server.http_port) as wire:
        wire.send(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(GOOD))
        assert wire.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(GOOD)
        assert wire.read_answer().status == 200
    with Wire(server.http_port) as wire:
        wire.send(HEAD + b"Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
        answer = wire.read_answer()
        assert answer.status == 400 and answer.headers["connection"] == "close"


# ---- slow peers, on a server that has little patience ---------------------------------------------


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    require_build(BACKENDS)
    repository = tmp_path_factory.mktemp("hasty")
    write_repository(repository, {"fp32": MODELS["fp32"]})
    running = Server(repository, HASTY)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module", autouse=True)
def slow_body(hasty):
    """It is given ten seconds, which pass while other tests run."""
    with Wire(hasty.http_port, 30) as wire:
        wire.send(HEAD + b"Content-Length: 100000\r\n\r\n" + b"x" * 100)
        yield wire


def count_rejected(server, limit):
    return metrics(server).get(f'neso_rejected_total{{limit="{limit}"}}', 0)


def test_slow_headers(hasty):
    """Twenty at once, each with another part of a head; others are served meanwhile."""
    before = count_rejected(hasty, "header_time")
    head = request("GET", "/v2")[:-2]
    started = time.monotonic()
    wires = [Wire(hasty.http_port) for _ in range(20)]
    for n, wire in enumerate(wires):
        wire.send(head[:1 + n])
    with GoodClient(hasty) as good:
        for wire in wires:
            answer = wire.read_answer()
            assert answer.status == 408
            assert json.loads(answer.body) == {"error": "request header was not received in time"}
            assert answer.headers["connection"] == "close"
            wire.close()
    assert 0.9 < time.monotonic() - started < 10
    assert good.failure is None and good.n > 3
    assert count_rejected(hasty, "header_time") == before + 20


def test_head_byte_by_byte(hasty):
    """Each byte comes in time, the whole does not."""
    with Wire(hasty.http_port) as wire:
        started = time.monotonic()
        wire.socket.settimeout(0.05)
        received = b""
        for byte in request("GET", "/v2", b"", "X: " + "x" * 400):
            if not wire.send(bytes([byte])):
                break
            try:
                received += wire.socket.recv(1000)
                break
            except TimeoutError:
                pass
        assert received.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert time.monotonic() - started < 5


def test_idle_connection(hasty):
    """It ends without a word, before the first request and after one."""
    started = time.monotonic()
    with Wire(hasty.http_port) as fresh, Wire(hasty.http_port) as used:
        used.send(request("GET", "/v2"))
        assert used.read_answer().status == 200
        assert fresh.is_closed() and used.is_closed()
        assert 1.8 < time.monotonic() - started < 10


def test_reader_that_stops(hasty):
    """Large answers that are asked for and not taken."""
    before = count_rejected(hasty, "write_stall")
    raw = b"\0" * (16 << 20)
    head = json.dumps({"inputs": [
        {"name": "INPUT0", "shape": [4 << 20], "datatype": "FP32",
         "parameters": {"binary_data_size": len(raw)}}],
        "parameters": {"binary_data_output": True}}).encode()
    with Wire(hasty.http_port) as wire:
        wire.send(post(head + raw, f"Inference-Header-Content-Length: {len(head)}"))
        wait_until(lambda: count_rejected(hasty, "write_stall") == before + 1)
    assert_healthy(hasty)


def test_too_many_connections(hasty):
    """Of connections with a request those beyond the limit are closed; when some go, others may come."""
    before = count_rejected(hasty, "connections")
    wires = []
    try:
        for _ in range(60):
            wires.append(Wire(hasty.http_port))
            wires[-1].send(b"POST /v2/repository/index HTTP/1.1\r\nHost: a\r\n"
                           b"Content-Length: 9\r\n\r\n")
        wait_until(lambda: count_rejected(hasty, "connections") >= before + 10)
    finally:
        for wire in wires:
            wire.close()
    wait_until(lambda: exchange(hasty.http_port, request("GET", "/v2")) is not None)
    assert_healthy(hasty)


def test_slow_body(hasty, slow_body):
    answer = slow_body.read_answer()
    assert answer.status == 408
    assert json.loads(answer.body) == {"error": "request body was received too slowly"}
    assert count_rejected(hasty, "body_rate") == 1
    assert_healthy(hasty)
