# SPDX-License-Identifier: BSD-3-Clause
"""What waits for its turn on a loop (src/net/turns.h) is answered completely and in order: pipelines of HTTP, messages
of a stream and unary calls that arrive in one piece, far more than one share. The shares themselves and the order
between connections: tests/unit/net/test_turns.c, tests/unit/http/test_http_conn.c."""
import pathlib
import socket
import struct
import sys
import threading

import pytest

from conftest import TLS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stress" / "attacks"))
import pipelines_and_streams as raw  # noqa: E402


MODELS = {}
OPTIONS = ("--http-thread-count=1", "--grpc-infer-thread-count=1")

pytestmark = pytest.mark.skipif(bool(TLS), reason="speaks to the plain port")


def read_frames(connection, is_last):
    """All frames (kind, flags, stream, payload) up to the one for which is_last() is true."""
    data = b""
    frames = []
    while True:
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
            end = 9 + int.from_bytes(data[:3], "big")
            frames.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9:end]))
            data = data[end:]
            if is_last(frames):
                return frames
        more = connection.recv(1 << 20)
        assert more, "closed before the last frame"
        data += more


@pytest.fixture
def grpc(server):
    with socket.create_connection(("127.0.0.1", server.port("grpc")), 60) as connection:
        yield connection


def send_beside(connection, data):
    sender = threading.Thread(target=connection.sendall, args=(data,), daemon=True)
    sender.start()
    return sender


def test_messages_of_a_stream(grpc):
    n = 30_000
    body = raw.message() * n
    frames = [body[i:i + 16_000] for i in range(0, len(body), 16_000)]
    data = raw.PREFACE + raw.frame(1, 4, 1, raw.head(raw.STREAM))
    data += b"".join(raw.frame(0, one is frames[-1], 1, one) for one in frames)
    sender = send_beside(grpc, data)
    got = read_frames(grpc, lambda f: f[-1][0] == 1 and f[-1][1] & 1)
    sender.join(60)
    answers = b"".join(payload for kind, _, stream, payload in got if (kind, stream) == (0, 1))
    one = answers[:5 + struct.unpack(">I", answers[1:5])[0]]
    assert b"unknown model" in one
    assert answers == one * n


def test_unary_calls(grpc):
    n = 1000
    calls = (raw.frame(1, 4, i, raw.head(raw.UNARY)) + raw.frame(0, 1, i, raw.message())
             for i in range(1, 2 * n, 2))
    sender = send_beside(grpc, raw.PREFACE + b"".join(calls))
    n_ends = 0

    def is_last(frames):
        nonlocal n_ends
        n_ends += frames[-1][0] == 1 and frames[-1][1] & 1
        return n_ends == n

    got = read_frames(grpc, is_last)
    sender.join(60)
    answers = {stream: payload for kind, _, stream, payload in got if kind == 0}
    assert sorted(answers) == list(range(1, 2 * n, 2))
    assert set(answers.values()) == {raw.message(b"\x08\x01")}


def test_pipeline(server):
    n = 20_000
    paths = ("/v2/health/live", "/nothing", "/v2/health/ready")
    data = b"".join(f"GET {paths[i % 3]} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for i in range(n))
    with socket.create_connection(("127.0.0.1", server.http_port), 60) as connection:
        sender = send_beside(connection, data[:-2] + b"Connection: close\r\n\r\n")
        got = b""
        while more := connection.recv(1 << 20):
            got += more
        sender.join(60)
    statuses = [part[:3] for part in got.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [(b"200", b"404", b"200")[i % 3] for i in range(n)]
