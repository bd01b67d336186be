#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A gRPC client behind a balancer that means no harm, in a process of its own, while others attack the balancer.

  balanced_bystander.py <port> <pause> <tls|clear> <pid of the server> <pid of the balancer>       until a line on stdin

It has three kinds of calls at work at a time, each with values of its own that the answers must have: inferences one
after the other, an inference that takes a second (the model `slow`), and a stream that gets a message twice a second.
Prints {"n": answers, "worst_ms": of the first kind, "wall_ms": ..., "failures": [...]}; worst_ms is without the time
for which the server's loop, the balancer or this process was ready to run and had no CPU.
"""
import json
import pathlib
import select
import socket
import ssl
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import frames  # noqa: E402
from bystander import loop_of, waited_seconds  # noqa: E402
from hostile_cases import part, varint  # noqa: E402

ANSWER_SECONDS = 30
SENT_BY_CONNECTION = 20000  # calls; then a new connection


def connect(port, is_tls):
    plain = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not is_tls:
        return plain
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(plain)


def inference(model, value):
    """A ModelInferRequest with one tensor, which the answer repeats."""
    tensor = part(1, b"INPUT0") + part(2, b"FP32") + part(3, varint(len(value) // 4))
    return part(1, model) + part(5, tensor) + part(7, value)


def prefixed(message):
    return b"\0" + struct.pack(">I", len(message)) + message


class Client:
    """One connection with any number of calls."""

    def __init__(self, port, is_tls):
        self.socket = connect(port, is_tls)
        self.socket.sendall(frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0) +
                            frames.frame(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
        self.next_id = 1
        self.unread = b""
        self.data = {}
        self.ends = {}  # by stream: "" or why it failed

    def call(self, path, message, is_whole=True):
        stream = self.next_id
        self.next_id += 2
        self.data[stream] = b""
        self.socket.sendall(frames.frame(frames.HEADERS, frames.END_HEADERS, stream, frames.head(path)))
        self.send(stream, message, is_whole)
        return stream

    def send(self, stream, message, is_last):
        self.socket.sendall(frames.frame(frames.DATA, frames.END_STREAM if is_last else 0, stream, prefixed(message)))

    def read(self, seconds):
        if not (isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()) and \
           not select.select([self.socket], [], [], seconds)[0]:
            return
        more = self.socket.recv(1 << 16)
        if not more:
            raise OSError("the balancer has closed the connection")
        self.unread += more
        while len(self.unread) >= 9:
            end = 9 + int.from_bytes(self.unread[:3], "big")
            if len(self.unread) < end:
                break
            self.take(self.unread[3], self.unread[4], int.from_bytes(self.unread[5:9], "big"), self.unread[9:end])
            self.unread = self.unread[end:]

    def take(self, kind, flags, stream, payload):
        if kind == frames.SETTINGS and not flags & frames.ACK:
            self.socket.sendall(frames.frame(frames.SETTINGS, frames.ACK, 0))
        elif kind == frames.PING and not flags & frames.ACK:
            self.socket.sendall(frames.frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.GOAWAY:
            raise OSError(f"GOAWAY {payload[4:]!r}")
        elif kind == frames.DATA:
            self.data[stream] = self.data.get(stream, b"") + payload
        elif kind == frames.RST_STREAM:
            self.ends.setdefault(stream, f"reset {int.from_bytes(payload, 'big')}")
        if kind in (frames.DATA, frames.HEADERS) and flags & frames.END_STREAM:
            self.ends.setdefault(stream, "")

    def forget(self, stream):
        return self.data.pop(stream), self.ends.pop(stream, "no end")

    def close(self):
        self.socket.close()


class Bystander:
    def __init__(self, port, pause, is_tls, server, balancer):
        self.port, self.pause, self.is_tls = port, pause, is_tls
        own = list(pathlib.Path("/proc/self/task").glob("*/schedstat"))
        self.files = [*own, loop_of(server, "neso-grpc"), *pathlib.Path(f"/proc/{balancer}/task").glob("*/schedstat")]
        self.failures = []
        self.number = self.n = 0
        self.worst = self.wall = 0.0
        self.client = None

    def value(self):
        self.number += 1
        return struct.pack(">IIII", 0x6e65736f, self.number, self.number ^ 0x5a5a5a5a, 7)

    def open(self):
        self.client = Client(self.port, self.is_tls)
        self.slow = self.stream = None

    def start_others(self):
        """The slow inference, and the stream with its next message."""
        if self.slow is None:
            value = self.value()
            self.slow = self.client.call(frames.INFER, inference(b"slow", value)), value
        if self.stream is None:
            value = self.value()
            stream = self.client.call(frames.STREAM_INFER, inference(b"identity", value), is_whole=False)
            self.stream = [stream, value, time.monotonic()]

    def look_at_others(self):
        stream, value = self.slow
        if stream in self.client.ends:
            self.check("slow", value, *self.client.forget(stream))
            self.slow = None
        stream, value, sent = self.stream
        if stream in self.client.ends:
            self.check("stream", value, b"", self.client.forget(stream)[1] or "ended")
            self.stream = None
        elif value in self.client.data[stream] and time.monotonic() - sent > 0.5:
            self.client.data[stream] = b""
            self.stream[1:] = self.value(), time.monotonic()
            self.client.send(stream, inference(b"identity", self.stream[1]), False)
        elif time.monotonic() - sent > ANSWER_SECONDS:
            raise OSError("a stream without an answer")

    def check(self, kind, value, data, end):
        self.n += 1
        if end:
            self.failures.append(f"{kind}: {end}")
        elif value not in data:
            self.failures.append(f"{kind}: a wrong answer: {data[:60]!r}")

    def ask(self):
        waited = sum(map(waited_seconds, self.files))
        begun = time.monotonic()
        value = self.value()
        stream = self.client.call(frames.INFER, inference(b"identity", value))
        while stream not in self.client.ends:
            self.client.read(1)
            if time.monotonic() - begun > ANSWER_SECONDS:
                raise OSError("no answer")
        wall = time.monotonic() - begun
        waited = sum(map(waited_seconds, self.files)) - waited
        self.check("call", value, *self.client.forget(stream))
        self.wall = max(self.wall, wall)
        self.worst = max(self.worst, wall - waited)

    def round(self):
        try:
            if self.client is None:
                self.open()
            self.start_others()
            self.ask()
            self.look_at_others()
            if self.client.next_id > 2 * SENT_BY_CONNECTION and not self.client.close():
                self.client = None
        except OSError as e:
            self.failures.append(repr(e))
            if self.client is not None:
                self.client.close()
            self.client = None

    def run(self):
        while not select.select([sys.stdin], [], [], self.pause)[0]:
            self.round()
        self.round()


def main():
    port, pause, kind, server, balancer = sys.argv[1:]
    one = Bystander(int(port), float(pause), kind == "tls", int(server), int(balancer))
    one.round()
    one.worst = one.wall = 0.0
    print(json.dumps({"failures": one.failures}), flush=True)
    one.run()
    print(json.dumps({"n": one.n, "worst_ms": 1e3 * one.worst, "wall_ms": 1e3 * one.wall,
                      "failures": one.failures}), flush=True)


if __name__ == "__main__":
    main()
