#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""256 calls that wait for their client on each of 60 gRPC connections, under a memory budget of 64 MiB.

A call takes 10 KiB of the server and 16 bytes of the client. The calls have no message, a message without a
half-close, or watch the health. Soon others must get their answers.
"""
import collections
import contextlib
import time

import attack
from frames import DATA, END_HEADERS, HEADERS, LIVE, PING, STREAM_INFER, Raw, call, frame

N_CONNECTIONS, N_CALLS, N_ASKED = 60, 256, 40
MIB = 1 << 20
WATCH = "/grpc.health.v1.Health/Watch"
KINDS = [("streams without a message", STREAM_INFER, b"", 0),
         ("unary calls without a message", LIVE, b"", 0),
         ("unary calls without a half-close", LIVE, b"\0\0\0\0\0", 0),
         ("watches of the health", WATCH, b"\0\0\0\0\0", 1)]


def blocks(path):
    """A header block that fills the table of the connection, and one of references to it."""
    fields = [(":path", path), (":authority", "l"), ("content-type", "application/grpc"),
              ("te", "trailers")]
    first = b"\x83\x86" + b"".join(b"\x40" + bytes([len(name)]) + name.encode() +
                                   bytes([len(value)]) + value.encode() for name, value in fields)
    return first, b"\x83\x86" + bytes(0x80 | 62 + i for i in (3, 2, 1, 0))


def calls(path, message, flags):
    first, later = blocks(path)
    return b"".join(frame(HEADERS, END_HEADERS, i, first if i == 1 else later) +
                    (frame(DATA, flags, i, message) if message else b"")
                    for i in range(1, 2 * N_CALLS, 2))


def is_answered(server):
    with contextlib.suppress(OSError), Raw(server) as raw:
        raw.send(call(1))
        for kind, _, stream, _ in raw.frames():
            if stream == 1:
                return kind == HEADERS
    return False


def wait_for_ping(raw):
    """All that it has sent was handled, or the server has closed it."""
    with contextlib.suppress(OSError):
        any(kind == PING for kind, _, _, _ in raw.frames())


def measure():
    for name, path, message, flags in KINDS:
        with attack.server({"identity": attack.IDENTITY}, f"--memory-budget={64 * MIB}",
                           waits_for=("http", "grpc")) as server:
            before = attack.resident_bytes(server.process)
            text = calls(path, message, flags)
            opened = [Raw(server) for _ in range(N_CONNECTIONS)]
            for one in opened:
                one.send(text + frame(PING, 0, 0, bytes(8)))
            for one in opened:
                wait_for_ping(one)
            deadline = time.monotonic() + 10
            while not is_answered(server) and time.monotonic() < deadline:
                pass
            held = attack.resident_bytes(server.process) - before
            answers = collections.Counter(is_answered(server) for _ in range(N_ASKED))
            for one in opened:
                one.socket.close()
            yield attack.Figure(f"{name}: sent", len(text) * N_CONNECTIONS / 1024, "KiB")
            yield attack.Figure(f"{name}: held", held / MIB, "MiB", at_most=80)
            yield attack.Figure(f"{name}: others, not answered", answers[False], f"of {N_ASKED}",
                                at_most=2)


if __name__ == "__main__":
    attack.main(measure, __doc__)
