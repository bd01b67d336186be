#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Connections that always have more to do on the only loop, beside an innocent client.

HTTP: 1, 20 and 100 connections send pipelines of small requests (health, paths that do not exist) as fast
as the server takes them. gRPC: 1 and 4 connections send a stream of empty messages, 1 a stream of
reflection requests, 1 and 20 sequences of unary calls. An innocent client asks for health on a connection that lasts
and on new ones (HTTP), or connects and waits for the server's settings (gRPC). What is bounded is its worst
latency. The attackers are processes of their own that send prepared bytes.
"""
import contextlib
import multiprocessing
import select
import socket
import struct
import threading
import time

import attack

SECONDS = 1.5
WORST_MS = 20
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"
MISSING = b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(path):
    return (b"\x83\x86" + literal(b":path", path) + literal(b":authority", b"a")
            + literal(b"te", b"trailers") + literal(b"content-type", b"application/grpc"))


PREFACE = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"\x00\x04\x7f\xff\xff\xff")
           + frame(8, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)))


def message(payload=b""):
    return b"\x00" + struct.pack(">I", len(payload)) + payload


STREAM = b"/inference.GRPCInferenceService/ModelStreamInfer"
REFLECTION = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
UNARY = b"/inference.GRPCInferenceService/ServerLive"


def http_chunk(request):
    return b"", lambda: request * (65536 // len(request))


def stream_chunk(path, payload):
    one = message(payload)
    data = frame(0, 0, 1, one * (16000 // len(one)))
    return PREFACE + frame(1, 4, 1, head(path)), lambda: data * 4


def unary_chunk():
    state = {"id": 1}

    def more():
        parts = []
        for _ in range(200):
            parts.append(frame(1, 4, state["id"], head(UNARY)) + frame(0, 1, state["id"], message()))
            state["id"] += 2
        return b"".join(parts)
    return PREFACE, more


KINDS = {
    "health": lambda: http_chunk(LIVE),
    "404": lambda: http_chunk(MISSING),
    "empty messages": lambda: stream_chunk(STREAM, b""),
    "reflection": lambda: stream_chunk(REFLECTION, b"\x3a\x00"),
    "unary calls": unary_chunk,
}


def send_forever(port, kind, n, ready):
    """Sends what the sockets take, reads all that comes, and connects again where the server ends."""
    poll = select.epoll()
    states = {}

    def connect():
        s = socket.create_connection(("127.0.0.1", port))
        s.setblocking(False)
        first, more = KINDS[kind]()
        states[s.fileno()] = [s, memoryview(first + more()), more]
        poll.register(s, select.EPOLLIN | select.EPOLLOUT)

    for _ in range(n):
        connect()
    ready.set()
    while True:
        for fd, events in poll.poll():
            state = states[fd]
            try:
                if events & ~select.EPOLLOUT and not state[0].recv(1 << 20):
                    raise ConnectionError
                if events & select.EPOLLOUT:
                    state[1] = state[1][state[0].send(state[1]):] or memoryview(state[2]())
            except BlockingIOError:
                pass
            except OSError:
                poll.unregister(fd)
                states.pop(fd)[0].close()
                connect()


@contextlib.contextmanager
def attackers(port, kind, n):
    ready = multiprocessing.Event()
    process = multiprocessing.Process(target=send_forever, args=(port, kind, n, ready), daemon=True)
    process.start()
    ready.wait(10)
    try:
        yield
    finally:
        process.kill()
        process.join()


class SettingsProbe:
    """Connects, sends the preface and a ping, and waits for the answer to the ping."""

    def __init__(self, port):
        self.port = port
        self.seconds = []
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join(30)

    def run(self):
        while not self.ends.is_set():
            begun = time.monotonic()
            with socket.create_connection(("127.0.0.1", self.port), 30) as s:
                s.sendall(PREFACE + frame(6, 0, 0, b"innocent"))
                got = b""
                while b"innocent" not in got:
                    got += s.recv(65536)
            self.seconds.append(time.monotonic() - begun)
            self.ends.wait(0.002)

    @property
    def worst_ms(self):
        return 1e3 * max(self.seconds, default=float("nan"))


def measure():
    options = ("--http-thread-count=1", "--grpc-infer-thread-count=1")
    with attack.server({"m": attack.IDENTITY}, *options, waits_for=("http", "grpc")) as server:
        for kind, n in (("health", 1), ("404", 20), ("404", 100)):
            with attackers(server.http_port, kind, n):
                time.sleep(0.2)
                with attack.Probe(server.http_port) as lasting, \
                        attack.Probe(server.http_port, is_new_each_time=True) as fresh:
                    time.sleep(SECONDS)
            yield attack.Figure(f"{n} x {kind}: worst, a connection that lasts", lasting.worst_ms,
                                "ms", at_most=WORST_MS)
            yield attack.Figure(f"{n} x {kind}: worst, new connections", fresh.worst_ms, "ms",
                                at_most=WORST_MS)
        for kind, n in (("empty messages", 1), ("empty messages", 4), ("empty messages", 20),
                        ("reflection", 1), ("unary calls", 1), ("unary calls", 20)):
            with attackers(server.port("grpc"), kind, n):
                time.sleep(0.2)
                with SettingsProbe(server.port("grpc")) as fresh:
                    time.sleep(SECONDS)
            yield attack.Figure(f"{n} x {kind}: worst, new connections", fresh.worst_ms, "ms",
                                at_most=WORST_MS)


if __name__ == "__main__":
    attack.main(measure, __doc__)
