# SPDX-License-Identifier: BSD-3-Clause
"""A memory budget that connections without a whole request would use up: they cost their own size."""
import contextlib
import json
import socket
import time

import pytest

from conftest import TLS
from frames import (DATA, END_HEADERS, HEADERS, LIVE, PING, PREFACE, RST_STREAM, SETTINGS, STREAM_INFER, Raw,
                    call, frame, head)
from models import wait_until
from scrape import metrics
from wire import Wire, request

MODELS = {"identity": 'backend: "identity"\n'
                      'input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }\n'
                      'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }\n'}
OPTIONS = ("--memory-budget=16777216", "--http-thread-count=2")
N = 1500  # with a read buffer of 16 KiB each they would take more than the budget
INFER = request("POST", "/v2/models/identity/infer",
                body=json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [2],
                                             "data": [1, 2]}]}).encode())

pytestmark = pytest.mark.skipif(bool(TLS), reason="sessions of TLS are not counted")


@pytest.mark.parametrize("part", [b"G", b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: a\r\n"
                                        b"Content-Length: 60\r\n\r\n"])
def test_parts_of_requests(server, part):
    port = server.port("http")
    with Wire(port) as old:
        old.send(INFER)
        assert old.read_answer().status == 200
        many = [Wire(port) for _ in range(N)]
        for one in many:
            one.send(part)
        for _ in range(20):
            old.send(INFER)
            assert old.read_answer().status == 200
            with Wire(port) as new:
                new.send(INFER)
                assert new.read_answer().status == 200
                new.send(request("GET", "/v2/health/live"))
                assert new.read_answer().status == 200
        assert metrics(server)
        many[0].send(b"ET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n" if part == b"G" else
                     b"x" * 60)
        assert many[0].read_answer().status == (200 if part == b"G" else 400)
        for one in many:
            one.close()


def test_longest_kept_heads_make_room(server):
    """Heads of 12 KiB without their end, more than there is room for: the oldest are answered 503, none is
    reset, and whole requests are answered."""
    port = server.port("http")
    many = [Wire(port) for _ in range(N)]
    head = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 12000
    for one in many:
        one.send(head)
    with Wire(port) as one, Wire(port) as other:  # each on a loop of its own, which has then read the heads before it
        for new in (one, other):
            new.send(INFER)
            assert new.read_answer().status == 200
    for one in many:
        one.send(b"\r\n\r\n")
    statuses = [one.read_answer() for one in many]
    for one in many:
        one.close()
    assert None not in statuses
    assert {answer.status for answer in statuses} == {200, 503}
    assert statuses[0].status == 503
    # A loop makes room among its own connections. One that was behind may find all of the budget with the other.
    assert 200 in [answer.status for answer in statuses[-8:]]


def test_unfinished_header_blocks(server):
    """Connections and calls of gRPC are charged: the oldest that have no whole request make room."""
    port = server.port("grpc")
    block = head(**{f"filler-{i}": "x" * 100 for i in range(30)})
    many = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(N)]
    for one in many:
        with contextlib.suppress(OSError):  # it was closed in favour of another
            one.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 0, 1, block))
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", port), 20) as new:
            new.sendall(PREFACE + frame(SETTINGS, 0, 0) + call(1))
            got = b""
            while b"\x01\x04\x00\x00\x00\x01" not in got:  # the HEADERS of the answer
                more = new.recv(4096)
                assert more
                got += more
        with Wire(server.port("http")) as new:
            new.send(INFER)
            assert new.read_answer().status == 200
    assert metrics(server)
    n_closed = 0
    for one in many:
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while one.recv(65536):
                pass
            n_closed += 1
        one.close()
    assert n_closed > N // 4


WATCH = "/grpc.health.v1.Health/Watch"
REFLECT = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
MESSAGE = b"\0\0\0\0\0"
# What the calls of the others have sent: nothing, a whole message without a half-close, the length of a message
# alone, all that there is.
QUIET = [(STREAM_INFER, b"", 0), (LIVE, b"", 0), (LIVE, MESSAGE, 0), (LIVE, b"\0\0\0\0\5", 0),
         (WATCH, MESSAGE, 1), (REFLECT, b"", 0)]


def has_room(server):
    """Whether the connections of earlier tests are gone."""
    return metrics(server)["neso_memory_budget_used_bytes"] < 1 << 22


def is_answered(server):
    """Whether a new connection's call has a status; it may be refused, or closed."""
    with contextlib.suppress(OSError), Raw(server) as raw:
        raw.send(call(1))
        for kind, _, stream, _ in raw.frames():
            if stream == 1:
                return kind == HEADERS
    return False


@pytest.mark.parametrize("path, message, flags", QUIET)
def test_quiet_calls_make_room(server, path, message, flags):
    """Calls that wait for their client take more than the budget: the connections with nothing else make room for
    new ones. A call whose message is on its way stays."""
    wait_until(lambda: has_room(server))
    with Raw(server) as busy:
        busy.send(frame(HEADERS, END_HEADERS, 1, head()) + frame(DATA, 0, 1, b"\0\0\0\0\5\x08"))
        many = [Raw(server) for _ in range(20)]
        for one in many:
            one.send(b"".join(frame(HEADERS, END_HEADERS, i, head(path)) +
                              (frame(DATA, flags, i, message) if message else b"")
                              for i in range(1, 401, 2)) + frame(PING, 0, 0, bytes(8)))
        for one in many:  # all of it was read when the PING is answered, or the connection has ended
            next((kind for kind, *_ in one.frames() if kind == PING), None)
        # On each of the two loops the others have to be quiet for a second first. A message that is on its way has ten.
        deadline = time.monotonic() + 8
        n_answered = 0
        while n_answered < 20:
            n_answered = n_answered + 1 if is_answered(server) else 0
            assert time.monotonic() < deadline
        busy.send(frame(DATA, 1, 1, b"\1\x08\1\x08"))  # fields that nobody knows
        kinds = [kind for kind, _, stream, _ in busy.frames_until_end(1)]
        assert HEADERS in kinds and (RST_STREAM not in kinds)
        for one in many:
            one.socket.close()
