#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Connections that always have more to do on the only loop, beside an innocent client.

HTTP: 1, 20 and 100 connections send pipelines of small requests (health, paths that do not exist) as fast
as the server takes them. gRPC: 1 and 4 connections send a stream of empty messages, 1 a stream of
reflection requests, 1 and 20 sequences of unary calls. An innocent client asks for health on a connection that lasts
and on new ones (HTTP), or connects and waits for the answer to a ping (gRPC). What is bounded is the processor time
that the loop spends between its request and the answer: it is the worst latency of a server that has a core,
and unlike the latency, which is printed with it, does not depend on what else the machine does. The loop goes on while
the innocent client waits for a CPU itself, beside the attackers: requests with such a wait are not judged. The
attackers are processes of their own that send prepared bytes.
"""
import contextlib
import http.client
import multiprocessing
import pathlib
import select
import socket
import struct
import time

import attack

SECONDS = 1.5
WORST_MS = 20
MAX_WAIT_NS = 1_000_000  # of the client for a CPU, in a request that is judged
MIN_JUDGED = 20
MAX_OUTSTANDING = 1 << 20  # bytes of messages without an answer; the stream's window is 4 MiB
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
           + frame(4, 1, 0, b"")  # the server's window of 4 MiB begins with it
           + frame(8, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)))


def message(payload=b""):
    return b"\x00" + struct.pack(">I", len(payload)) + payload


STREAM = b"/inference.GRPCInferenceService/ModelStreamInfer"
REFLECTION = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
UNARY = b"/inference.GRPCInferenceService/ServerLive"


# The first bytes of a connection, a function that returns more, and how many bytes of answers a byte of that
# brings (0: what may be outstanding is not limited).
def http_chunk(request):
    return b"", lambda: request * (65536 // len(request)), 0


def stream_chunk(path, payload, answer_bytes):
    one = message(payload)
    data = frame(0, 0, 1, one * (16000 // len(one)))
    return PREFACE + frame(1, 4, 1, head(path)), lambda: data * 4, answer_bytes / len(one)


def unary_chunk():
    state = {"id": 1}

    def more():
        parts = []
        for _ in range(200):
            parts.append(frame(1, 4, state["id"], head(UNARY)) + frame(0, 1, state["id"], message()))
            state["id"] += 2
        return b"".join(parts)
    return PREFACE, more, 0


KINDS = {
    "health": lambda: http_chunk(LIVE),
    "404": lambda: http_chunk(MISSING),
    "empty messages": lambda: stream_chunk(STREAM, b"", 51),
    "reflection": lambda: stream_chunk(REFLECTION, b"\x3a\x00", 154),
    "unary calls": unary_chunk,
}


def send_forever(port, kind, n, ready):
    """Sends what the sockets take, reads all that comes, and connects again where the server ends."""
    poll = select.epoll()
    states = {}

    def connect():
        s = socket.create_connection(("127.0.0.1", port))
        s.setblocking(False)
        first, more, ratio = KINDS[kind]()
        states[s.fileno()] = [s, memoryview(first + more()), more, ratio, 0, 0]
        poll.register(s, select.EPOLLIN | select.EPOLLOUT)

    for _ in range(n):
        connect()
    ready.set()
    while True:
        for fd, events in poll.poll():
            state = states[fd]
            try:
                if events & ~select.EPOLLOUT:
                    n_read = len(state[0].recv(1 << 20))
                    if n_read == 0:
                        raise ConnectionError
                    state[5] += n_read
                is_owed = state[3] and state[4] - state[5] / state[3] > MAX_OUTSTANDING
                poll.modify(fd, select.EPOLLIN | (0 if is_owed else select.EPOLLOUT))
                if events & select.EPOLLOUT and not is_owed:
                    n_sent = state[0].send(state[1])
                    state[4] += n_sent
                    state[1] = state[1][n_sent:] or memoryview(state[2]())
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


def ping(port):
    """Connects, sends the preface and a ping, and waits for the answer to the ping."""
    with socket.create_connection(("127.0.0.1", port), 30) as s:
        s.sendall(PREFACE + frame(6, 0, 0, b"innocent"))
        got = b""
        while b"innocent" not in got:
            more = s.recv(65536)
            if not more:
                raise ConnectionError("closed before the answer")
            got += more


def ask_anew(port):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as c:
        ask(c)


def ask(connection):
    connection.request("GET", "/v2/health/live")
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200


def loop_stat(process, name):
    """The file with the processor time of the thread."""
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        if (task / "comm").read_text("ascii").strip() == name:
            return task / "schedstat"
    raise LookupError(name)


def used_and_waited(stat):
    """Nanoseconds that the thread of `stat` has run, and that this thread has waited for a CPU."""
    ours = pathlib.Path("/proc/thread-self/schedstat").read_text("ascii")
    return int(stat.read_text("ascii").split()[0]), int(ours.split()[1])


def probe(once, stat):
    """Calls `once` for some time; the worst time, and the worst time of the loop's processor, in ms."""
    worst = worst_of_loop = n_judged = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or (n_judged < MIN_JUDGED and time.monotonic() < end + 10 * SECONDS):
        begun, (used, waited) = time.monotonic(), used_and_waited(stat)
        once()
        worst = max(worst, time.monotonic() - begun)
        used_then, waited_then = used_and_waited(stat)
        if waited_then - waited <= MAX_WAIT_NS:
            n_judged += 1
            worst_of_loop = max(worst_of_loop, used_then - used)
        time.sleep(0.002)
    assert n_judged >= MIN_JUDGED, f"the client waited for a CPU in all requests but {n_judged}"
    return 1e3 * worst, worst_of_loop / 1e6


def figures(name, measured):
    worst, of_loop = measured
    yield attack.Figure(f"{name}: worst time of the loop", of_loop, "ms", at_most=WORST_MS)
    yield attack.Figure(f"{name}: worst latency", worst, "ms")


def measure():
    options = ("--http-thread-count=1", "--grpc-infer-thread-count=1")
    with attack.server({"m": attack.IDENTITY}, *options, waits_for=("http", "grpc")) as server:
        stat = loop_stat(server.process, "neso-http-0")
        lasting = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=30)
        ask(lasting)
        for kind, n in (("health", 1), ("404", 20), ("404", 100)):
            with attackers(server.http_port, kind, n):
                time.sleep(0.2)
                yield from figures(f"{n} x {kind}, a connection that lasts",
                                   probe(lambda: ask(lasting), stat))
                yield from figures(f"{n} x {kind}, new connections",
                                   probe(lambda: ask_anew(server.http_port), stat))
        stat = loop_stat(server.process, "neso-grpc-0")
        port = server.port("grpc")
        for kind, n in (("empty messages", 1), ("empty messages", 4), ("empty messages", 20),
                        ("empty messages", 100), ("reflection", 1), ("reflection", 20),
                        ("unary calls", 1), ("unary calls", 20), ("unary calls", 100)):
            with attackers(port, kind, n):
                time.sleep(0.2)
                yield from figures(f"{n} x {kind}, new connections", probe(lambda: ping(port), stat))


if __name__ == "__main__":
    attack.main(measure, __doc__)
