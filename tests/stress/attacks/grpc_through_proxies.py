#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Attacks over gRPC on HAProxy and nginx with the configurations of deploy/, beside a client that goes through the
same balancer and shares its connections to the server.

  grpc_through_proxies.py [haproxy|haproxy-tls|haproxy-sharing|nginx|nginx-tls [name of one attack]]

Each attack has one connection of the balancer or several, for two seconds, and those that wait for a time limit of the
server for longer. The other client (balanced_bystander.py) must get right answers to all of its calls, each within
the 50 ms of `make hostile`; the best of three tries counts for the time alone. The server holds at most 16 bytes for
each byte that the attacker sent, beside a constant and 64 KiB for each connection: nginx, and HAProxy as deploy/ has
it, open one to the server for each call that is at work. The balancer has one thread and one server, so that all its
clients share connections. A part of the attacks comes again with TLS on both sides of the balancer as it is deployed. A
balancer that is not installed is left out.
"""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import attack

sys.path[:0] = [str(attack.ROOT / "tests" / "balancers")]
import frames  # noqa: E402
import h2_attacks  # noqa: E402
import place  # noqa: E402
from balanced_bystander import connect, inference, prefixed  # noqa: E402
from certificates import Authority  # noqa: E402
from frames import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INFER, PING, RST_STREAM, SETTINGS,  # noqa: E402
                    STREAM_INFER, WINDOW_UPDATE, field, frame, head)

OTHERS_MS = 50
HELD_PER_BYTE = 16
HELD_FLOOR = 4 << 20
HELD_PER_CONNECTION = 64 << 10
SECONDS, LONG_SECONDS = 2, 24
TRIES = 3
PAUSE = 0.002
QUIET_PAUSE = 1  # of a client that sends less than the rate of messages that a connection needs
MODELS = {"identity": attack.IDENTITY,
          "slow": attack.IDENTITY.replace('"identity"\n', '"identity"\ninstance_group { count: 4 kind: KIND_CPU }\n'
                                          'parameters { key: "execute_delay_ms" value { string_value: "1000" } }\n')}


# ---- balancers -----------------------------------------------------------------------------------

class Place:
    """A server that runs already, as place.py knows one."""
    name, address = "neso1", "127.0.0.1"

    def __init__(self, server):
        self.ports = {"http": server.http_port, "grpc": server.port("grpc")}


class OneServer:
    """Changes the configuration of deploy/: one server, one thread, and TLS."""
    options = ()  # of the server, that docs/deploy.md asks for
    left_out = ()  # attacks, and lies
    tls = None  # (certificate with its key in one file, certificate, key)

    def with_addresses(self, text):
        server = self.servers[0]
        for number in (11, 12, 13):
            text = text.replace(f"192.0.2.{number}:8000", f"127.0.0.1:{server.ports['http']}")
            text = text.replace(f"192.0.2.{number}:8001", f"127.0.0.1:{server.ports['grpc']}")
        return text

    def write(self, name, text, *changes):
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        path = self.folder / name
        path.write_text(self.changed(text), "utf-8")
        return path


class HaProxy(OneServer, place.HaProxy):
    def changed(self, text):
        lines = [line for line in text.splitlines() if not line.strip().startswith(("server neso2", "server neso3"))]
        text = "global\n    nbthread 1\n" + "\n".join(lines) + "\n"
        if self.tls:
            text = text.replace(f"{self.grpc_port} proto h2", f"{self.grpc_port} ssl crt {self.tls[0]} alpn h2")
            text = text.replace("proto h2 track", "ssl verify none alpn h2 track")
        return text


class SharingHaProxy(HaProxy):
    """With connections that calls of all clients share at a time, as Envoy's: HAProxy by itself uses another
    connection for each call that is at work. A request with more fields than HAProxy 2.6 passes on would end such a
    connection, so it is refused before, as docs/deploy.md says. Attacks on which HAProxy 2.6 itself ends such a
    connection (reset_at_once) or stops reading it (the others) are left out: docs/reliability/attacks-protocols.md has
    what was seen on the wire. In many_lies one of 5585 calls was refused, for a reason that is not known."""
    left_out = ("reset_at_once", "many_lies", "unread_answers", "unread_sockets", "messages_without_end")
    options = ("--grpc-max-reset-rate=0",)

    def changed(self, text):
        text = super().changed(text).replace("\ndefaults\n", "\ndefaults\n    http-reuse always\n")
        assert text.count("    acl reads") == 1
        return text.replace("    acl reads", "    http-request deny if { req.fhdr_cnt gt 90 }\n    acl reads")


class Nginx(OneServer, place.Nginx):
    def changed(self, text):
        text = text.replace("worker_processes auto", "worker_processes 1")
        if self.tls:
            text = text.replace(f"{self.grpc_port} http2;", f"{self.grpc_port} ssl http2;\n        ssl_certificate "
                                f"{self.tls[1]};\n        ssl_certificate_key {self.tls[2]};")
            text = text.replace("grpc_pass grpc://", "grpc_pass grpcs://")
        return text


BALANCERS = {"haproxy": (HaProxy, shutil.which("haproxy")),
             "haproxy-sharing": (SharingHaProxy, shutil.which("haproxy")),
             "nginx": (Nginx, shutil.which(place.nginx_program()))}


PARTS = ("haproxy", "haproxy-tls", "haproxy-sharing", "nginx", "nginx-tls")  # also in run.py


def worker_of(balancer):
    """The process that has the connections: nginx has another one for them."""
    pid = balancer.process.pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return int(children[0]) if children else pid


# ---- what attackers send -------------------------------------------------------------------------

class Attacker:
    """Connections to the ports of a balancer."""

    def __init__(self, balancer, is_tls, seconds):
        self.balancer, self.is_tls = balancer, is_tls
        self.end = time.monotonic() + seconds
        self.n_bytes = self.n_connections = 0
        self.open = []

    def goes_on(self):
        return time.monotonic() < self.end

    def connection(self, greeting=None, port=None, is_tls=None):
        one = connect(port or self.balancer.grpc_port, self.is_tls if is_tls is None else is_tls)
        one.settimeout(0.5)
        self.n_connections += 1
        self.open.append(one)
        if greeting is None:
            greeting = (frames.PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, frames.ACK, 0) +
                        frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
        self.send(one, greeting)
        return one

    def send(self, one, text):
        """False when the balancer has closed it, or takes no more."""
        try:
            one.sendall(text)
        except OSError:
            return False
        self.n_bytes += len(text)
        return True

    def read(self, one, seconds=0.05):
        """What comes until nothing does for so long; False at the end of the connection."""
        one.settimeout(seconds)
        try:
            while more := one.recv(1 << 20):
                self.seen = more
            return False
        except TimeoutError:
            return True
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                one.settimeout(0.5)

    def rounds(self, text, n_connections=1):
        """Sends this again and again, on a new connection each time that the old one was closed."""
        while self.goes_on():
            some = [self.connection() for _ in range(n_connections)]
            for one in some:
                self.send(one, text)
            for one in some:
                self.read(one)
                one.close()

    def close(self):
        for one in self.open:
            one.close()


def head_frame(stream, path=INFER, flags=END_HEADERS, more=b"", **fields):
    return frame(HEADERS, flags, stream, head(path, **fields) + more)


def whole(stream, model=b"identity", value=b"attacker" * 2, path=INFER, more=b"", **fields):
    return (head_frame(stream, path, more=more, **fields) +
            frame(DATA, END_STREAM, stream, prefixed(inference(model, value))))


def ids(n, first=1):
    return range(first, first + 2 * n, 2)


def reset_in_flight(a):
    """Calls of a slow model that reach the server, and are reset then."""
    one, stream = a.connection(), 1
    while a.goes_on():
        some = ids(90, stream)
        stream += 180
        is_open = a.send(one, b"".join(whole(i, b"slow") for i in some))
        time.sleep(0.01)
        is_open &= a.send(one, b"".join(frames.reset(i) for i in some))
        if not is_open or not a.read(one, 0.005):
            one, stream = a.connection(), 1


def reset_at_once(a):
    a.rounds(b"".join(head_frame(i) + frames.reset(i) for i in ids(1500)))


def leave_in_flight(a):
    """Connections that are closed while their calls are at work."""
    while a.goes_on():
        one = a.connection()
        a.send(one, b"".join(whole(i, b"slow") for i in ids(90)))
        time.sleep(0.01)
        one.close()


def of_h2_attacks(name):
    def send(a):
        a.rounds(getattr(h2_attacks, name)())
    send.__name__ = name
    return send


def window_updates(a):
    a.rounds(head_frame(1) + frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)) * 20000)


def empty_frames(a):
    a.rounds(head_frame(1) + frame(DATA, 0, 1) * 20000)


def unread_answers(a):
    """Large answers, and windows of streams that stay zero: four connections, held open."""
    message = prefixed(h2_attacks.large_request(b"identity"))
    some = [a.connection() for _ in range(4)]
    for one in some:
        a.send(one, frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
    drip_all(a, some, [b"".join(head_frame(i) + h2_attacks.body(i, message) for i in ids(8))] * len(some))


def unread_sockets(a):
    """Large answers, open windows, and a client that reads nothing of them."""
    message = prefixed(h2_attacks.large_request(b"identity"))
    for _ in range(4):
        one = a.connection()
        a.send(one, frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 30)))
        a.send(one, head_frame(1) + h2_attacks.body(1, message)[:60000])
    drip_all(a, [a.connection(frames.PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 30)) +
                              frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))],
             [b"".join(head_frame(i) + h2_attacks.body(i, message) for i in ids(8))])


def drip_all(a, some, texts):
    """Sends what the windows of the connections let through, and holds them open."""
    todo = []
    for one, text in zip(some, texts):
        todo.append([one, h2_attacks.Window(type("Raw", (), {"socket": one})), list(h2_attacks.split(text))])
    while a.goes_on():
        for entry in todo:
            one, window, pieces = entry
            try:
                window.read(0.01)
                while pieces and pieces[0][1] <= window.left:
                    piece, cost = pieces.pop(0)
                    window.left -= cost
                    one.sendall(piece)
                    a.n_bytes += len(piece)
            except OSError:
                pieces.clear()
        time.sleep(0.01)


def half_messages(a):
    """A hundred messages that never end, of 1 MiB and of 60 MiB, they say."""
    one = a.connection()
    for i in ids(90):
        a.send(one, head_frame(i) + frame(DATA, 0, i, b"\0" + struct.pack(">I", (1 << 20) * (60 if i % 4 == 1 else 1)) +
                                          bytes(100)))
    while a.goes_on():
        a.read(one, 0.2)


def slow_messages(a):
    """A byte of each message now and then."""
    one = a.connection()
    for i in ids(90):
        a.send(one, head_frame(i) + frame(DATA, 0, i, b"\0\0\0\x10\0"))
    while a.goes_on():
        for i in ids(90):
            if not a.send(one, frame(DATA, 0, i, b"x")):
                one = a.connection()
        a.read(one, 1)


def unended_calls(a):
    """Whole messages without the half-close that must follow."""
    one = a.connection()
    for i in ids(90):
        a.send(one, head_frame(i) + frame(DATA, 0, i, prefixed(inference(b"identity", b"unended!" * 2))))
    while a.goes_on():
        a.read(one, 0.2)


def open_streams(a):
    """Streams that stay open, as many as the balancer permits, on eight connections."""
    some = [a.connection() for _ in range(8)]
    for one in some:
        a.send(one, b"".join(head_frame(i, STREAM_INFER) for i in ids(100)))
    while a.goes_on():
        for one in some:
            a.read(one, 0.1)


def messages_without_end(a):
    """Streams that send to a slow model and read no answer: what waits is held by the server."""
    some = [a.connection() for _ in range(2)]
    value = bytes(1 << 18)
    text = prefixed(inference(b"slow", value))
    drip_all(a, some, [b"".join(head_frame(i, STREAM_INFER) for i in ids(16)) +
                       b"".join(h2_attacks.body(i, text, ends=False) for _ in range(20) for i in ids(16))] * 2)


LIES = {
    "path twice": lambda i: whole(i, more=field(":path", "/x")),
    "pseudo-header last": lambda i: whole(i, more=field(":scheme", "https")),
    "status in a request": lambda i: whole(i, more=field(":status", "200")),
    "unknown pseudo-header": lambda i: whole(i, more=field(":protocol", "websocket")),
    "capitals": lambda i: whole(i, more=field("Neso-Key", "a")),
    "a blank in a name": lambda i: whole(i, more=field("a b", "a")),
    "CR LF in a value": lambda i: whole(i, more=field("a", "b\r\nneso-sequence: 1")),
    "NUL in a value": lambda i: whole(i, more=field("a", "b\0c")),
    "a control character": lambda i: whole(i, more=field("a", "b\x01c")),
    "DEL": lambda i: whole(i, more=field("a", "b\x7fc")),
    "blanks around": lambda i: whole(i, more=field("a", " b ")),
    "bytes above 127": lambda i: whole(i, more=b"\0\x01a\x02\xff\xfe"),
    "te: gzip": lambda i: whole(i, te="gzip"),
    "te: trailers, gzip": lambda i: whole(i, te="trailers, gzip"),
    "te twice": lambda i: whole(i, more=field("te", "trailers")),
    "connection": lambda i: whole(i, more=field("connection", "te, close")),
    "keep-alive": lambda i: whole(i, more=field("keep-alive", "1")),
    "upgrade": lambda i: whole(i, more=field("upgrade", "h2c")),
    "transfer-encoding": lambda i: whole(i, more=field("transfer-encoding", "chunked")),
    "host": lambda i: whole(i, more=field("host", "other")),
    "hosts": lambda i: whole(i, more=field("host", "other") * 2),
    "authority": lambda i: whole(i, **{":authority": "user@[::"}),
    "scheme": lambda i: whole(i, **{":scheme": "file"}),
    "GET": lambda i: whole(i, **{":method": "GET"}),
    "CONNECT": lambda i: whole(i, **{":method": "CONNECT"}),
    "HEAD": lambda i: whole(i, **{":method": "HEAD"}),
    "PRI": lambda i: whole(i, **{":method": "PRI"}),
    "empty path": lambda i: whole(i, path=""),
    "a star": lambda i: whole(i, path="*"),
    "path with a blank": lambda i: whole(i, path=INFER + " HTTP/1.1"),
    "path with a number sign": lambda i: whole(i, path=INFER + "#a"),
    "path with a query": lambda i: whole(i, path=INFER + "?a"),
    "path with escapes": lambda i: whole(i, path=INFER.replace("/ModelInfer", "%2FModelInfer")),
    "path with dots": lambda i: whole(i, path="/x/.." + INFER),
    "a URL": lambda i: whole(i, path="http://other" + INFER),
    "content-length, less": lambda i: whole(i, more=field("content-length", "3")),
    "content-length, more": lambda i: whole(i, more=field("content-length", "99999")),
    "content-length twice": lambda i: whole(i, more=field("content-length", "58") + field("content-length", "3")),
    "content-length, a list": lambda i: whole(i, more=field("content-length", "58, 3")),
    "content-length, no number": lambda i: whole(i, more=field("content-length", "-1")),
    "content-length, too long": lambda i: whole(i, more=field("content-length", "9" * 30)),
    "content-length without a body": lambda i: head_frame(i, flags=END_HEADERS | END_STREAM,
                                                          more=field("content-length", "5")),
    "no body": lambda i: head_frame(i, flags=END_HEADERS | END_STREAM),
    "content-type": lambda i: whole(i, **{"content-type": "text/plain"}),
    "content-type twice": lambda i: whole(i, more=field("content-type", "text/plain")),
    "grpc-timeout: 0n": lambda i: whole(i, b"slow", **{"grpc-timeout": "0n"}),
    "grpc-timeout: 1n": lambda i: whole(i, b"slow", **{"grpc-timeout": "1n"}),
    "grpc-timeout: 99999999H": lambda i: whole(i, **{"grpc-timeout": "99999999H"}),
    "grpc-timeout: 999999999999H": lambda i: whole(i, **{"grpc-timeout": "999999999999H"}),
    "grpc-timeout: -1S": lambda i: whole(i, **{"grpc-timeout": "-1S"}),
    "grpc-timeout: S": lambda i: whole(i, **{"grpc-timeout": "S"}),
    "grpc-timeout, empty": lambda i: whole(i, **{"grpc-timeout": ""}),
    "grpc-timeout twice": lambda i: whole(i, more=field("grpc-timeout", "1S") + field("grpc-timeout", "1n")),
    "grpc-encoding": lambda i: whole(i, **{"grpc-encoding": "gzip, identity"}),
    "grpc-status in a request": lambda i: whole(i, more=field("grpc-status", "0") + field("grpc-message", "%00")),
    "a broken -bin": lambda i: whole(i, more=field("a-bin", "!!!")),
    "metadata twice": lambda i: whole(i, more=field("neso-key", "a") + field("neso-key", "b")),
    "90 fields of a name": lambda i: whole(i, more=field("neso-key", "a" * 60) * 85),
    "150 fields": lambda i: whole(i, more=field("a", "b") * 150),
    "12 KB of metadata": lambda i: whole(i, more=b"\0\x01a\x7f" + h2_attacks.varint(12000 - 127) + b"b" * 12000),
    "message longer than announced": lambda i: head_frame(i) + frame(DATA, END_STREAM, i, b"\0\0\0\0\3" + bytes(60)),
    "message shorter than announced": lambda i: head_frame(i) + frame(DATA, END_STREAM, i, b"\0\0\0\0\x50" + bytes(60)),
    "two messages": lambda i: head_frame(i) + frame(DATA, END_STREAM, i, prefixed(inference(b"identity", bytes(8))) * 2),
    "flag 255": lambda i: head_frame(i) + frame(DATA, END_STREAM, i, b"\xff\0\0\0\3" + bytes(3)),
    "4 GiB announced": lambda i: head_frame(i) + frame(DATA, END_STREAM, i, b"\0\xff\xff\xff\xff" + bytes(3)),
    "trailers": lambda i: head_frame(i) + frame(DATA, 0, i, prefixed(inference(b"identity", bytes(8)))) +
    frame(HEADERS, END_HEADERS | END_STREAM, i, field("a", "b")),
    "trailers with pseudo-headers": lambda i: head_frame(i) + frame(DATA, 0, i, b"\0\0\0\0\0") +
    frame(HEADERS, END_HEADERS | END_STREAM, i, field(":path", "/a") + field(":method", "GET")),
    "trailers with a length": lambda i: head_frame(i) + frame(DATA, 0, i, b"\0\0\0\0\0") +
    frame(HEADERS, END_HEADERS | END_STREAM, i, field("content-length", "1") + field("transfer-encoding", "chunked")),
    "trailers without an end": lambda i: head_frame(i) + frame(DATA, 0, i, b"\0\0\0\0\0") +
    frame(HEADERS, END_HEADERS, i, field("a", "b")) + frame(DATA, END_STREAM, i, b"x"),
    "trailers at once": lambda i: head_frame(i) + frame(HEADERS, END_HEADERS | END_STREAM, i, field("a", "b")),
    "large trailers": lambda i: head_frame(i) + frame(HEADERS, END_HEADERS | END_STREAM, i, field("a", "b" * 100) * 90),
    "data after the end": lambda i: whole(i) + frame(DATA, END_STREAM, i, b"x"),
    "headers after the end": lambda i: whole(i) + head_frame(i),
    "unknown method": lambda i: whole(i, path="/x/y"),
    "padding": lambda i: head_frame(i) + frame(DATA, END_STREAM | 8, i, b"\xff" + bytes(100)),
    "depends on itself": lambda i: frame(HEADERS, END_HEADERS | 0x20, i, struct.pack(">IB", i, 1) + head(INFER)) +
    frame(DATA, END_STREAM, i, b"\0\0\0\0\0"),
}


def lies_for(balancer):
    return [text for name, text in LIES.items() if name not in balancer.left_out]


def lies(a):
    """Each lie alone on a connection."""
    for text in lies_for(a.balancer):
        one = a.connection()
        a.send(one, text(1))
        a.read(one, 0.05)
        one.close()


def many_lies(a):
    """Each lie again and again: those that the balancer passes on cost a reset on its connection to the server."""
    for text in lies_for(a.balancer):
        one, stream, end = a.connection(), 1, time.monotonic() + 0.6
        while time.monotonic() < end:
            if not a.send(one, b"".join(text(i) for i in ids(60, stream))) or not a.read(one, 0.005):
                one, stream = a.connection(), -119
            stream += 120
        one.close()


def other_protocols(a):
    texts = [b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
             b"POST " + INFER.encode() + b" HTTP/1.1\r\nHost: h\r\nContent-Type: application/grpc\r\nTE: trailers\r\n"
             b"Content-Length: 5\r\n\r\n\0\0\0\0\0",
             b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
             b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + frames.PREFACE,
             frames.PREFACE, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500), b"\r\n" * 1000, bytes(4000),
             frames.PREFACE + whole(1), frames.PREFACE + frame(SETTINGS, 0, 0) + whole(2) + whole(1)]
    while a.goes_on():
        for text in texts:
            for port, is_tls in ((a.balancer.grpc_port, None), (a.balancer.grpc_port, not a.is_tls),
                                 (a.balancer.http_port, False)):
                with contextlib.suppress(OSError):
                    one = a.connection(text, port, is_tls)
                    a.read(one, 0.02)
                    one.close()


SHORT = [reset_in_flight, reset_at_once, leave_in_flight,
         *map(of_h2_attacks, ("continuation_flood", "settings_flood", "ping_flood", "hpack_bomb", "header_bomb")),
         window_updates, empty_frames, open_streams, lies, many_lies, other_protocols]
# Those that wait for a limit of the server, beside a client that sends little.
LONG = [unread_answers, unread_sockets, half_messages, slow_messages, unended_calls, messages_without_end]
WITH_TLS = {"reset_in_flight", "leave_in_flight", "settings_flood", "lies", "many_lies", "other_protocols",
            "half_messages"}


def connections_to(port):
    """That are open on this machine: the balancer's to the server."""
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


class Peak(threading.Thread):
    """The most connections to a port at a time."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.n, self.is_over = port, 0, threading.Event()

    def run(self):
        while not self.is_over.wait(0.1):
            self.n = max(self.n, connections_to(self.port))


# ---- measuring -----------------------------------------------------------------------------------

class Result:
    def __init__(self, others, held, most_held):
        self.failures = others["failures"]
        self.n = others["n"]
        self.worst_ms, self.wall_ms = others["worst_ms"], others["wall_ms"]
        self.held, self.most_held = held, most_held


@contextlib.contextmanager
def bystander(server, balancer, pause, is_tls):
    """Yields a function that ends it, and returns what it has seen."""
    one = subprocess.Popen([sys.executable, str(attack.ROOT / "tests/stress/balanced_bystander.py"),
                            str(balancer.grpc_port), str(pause), "tls" if is_tls else "clear",
                            str(server.process.pid), str(worker_of(balancer))], text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        first = json.loads(one.stdout.readline())
        assert not first["failures"], first

        def end():
            one.stdin.write("\n")
            one.stdin.close()
            return json.loads(one.stdout.readline())
        yield end
    finally:
        one.kill()
        one.wait()


def try_attack(server, balancer, send, is_tls):
    is_long = send in LONG
    attack.forget_peak(server.process)
    base = attack.resident_bytes(server.process)
    peak = Peak(server.port("grpc"))
    peak.start()
    with bystander(server, balancer, QUIET_PAUSE if is_long else PAUSE, is_tls) as end:
        attacker = Attacker(balancer, is_tls, LONG_SECONDS if is_long else SECONDS)
        with contextlib.suppress(OSError):
            send(attacker)
        others = end()
        peak.is_over.set()
        attacker.close()
    held = attack.resident_bytes(server.process, "VmHWM") - base
    return Result(others, held, HELD_FLOOR + HELD_PER_BYTE * attacker.n_bytes +
                  HELD_PER_CONNECTION * max(attacker.n_connections, peak.n))


def figures(name, server, balancer, send, is_tls):
    result = try_attack(server, balancer, send, is_tls)
    for _ in range(TRIES - 1):
        if result.failures or result.worst_ms <= OTHERS_MS:
            break
        result = try_attack(server, balancer, send, is_tls)
    name = f"{name}, {send.__name__}"
    for text in result.failures[:3]:
        print(f"             {name}: {text}")
    yield attack.Figure(f"{name}: of {result.n} calls of others failed", len(result.failures), at_most=0)
    yield attack.Figure(f"{name}: worst of others ({result.wall_ms:.0f} with waits for a CPU)", result.worst_ms, "ms",
                        at_most=OTHERS_MS)
    yield attack.Figure(f"{name}: held of what may be", result.held / result.most_held, at_most=1)


def certificates(folder):
    authority = Authority(folder)
    cert, key = authority.issue("server")
    both = folder / "both.pem"
    both.write_text(pathlib.Path(cert).read_text("ascii") + pathlib.Path(key).read_text("ascii"), "ascii")
    return str(both), cert, key


def measure_balancer(name, kind, is_tls, only):
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        folder.chmod(0o755)
        tls = certificates(folder)
        with_tls = ["--grpc-use-ssl=true", f"--grpc-server-cert={tls[1]}", f"--grpc-server-key={tls[2]}"]
        with attack.server(MODELS, *(with_tls if is_tls else ()), *kind.options, waits_for=("http", "grpc")) as server:
            (folder / "balancer").mkdir()
            kind.tls = tls if is_tls else None
            balancer = kind(folder / "balancer", [Place(server)])
            try:
                for send in SHORT + LONG:
                    if only in ("", send.__name__) and send.__name__ not in kind.left_out and (not is_tls or send.__name__ in WITH_TLS):
                        yield from figures(name + ", TLS" * is_tls, server, balancer, send, is_tls)
                        yield attack.holds(f"{name}: the server and the balancer live",
                                           server.process.poll() is None and balancer.process.poll() is None)
            finally:
                balancer.close()


def measure():
    only, send = (sys.argv[1:] + ["", ""])[:2]
    for part in PARTS:
        name = part.removesuffix("-tls")
        kind, program = BALANCERS[name]
        if only not in ("", part):
            continue
        if program is None:
            yield attack.Figure(f"{name} is not installed", 0)
        else:
            yield from measure_balancer(name, kind, part != name, send)


if __name__ == "__main__":
    attack.main(measure, __doc__)
