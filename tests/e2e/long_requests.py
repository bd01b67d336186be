#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Requests that take the server long, sent by a process of their own, and a client beside them that
looks how long it waits.

  long_requests.py <port of HTTP> <port of gRPC> <name> ...      until stdin ends

sends each of the requests named over and over, each on connections of its own, and prints
{"<name>": how many were answered}.
"""
import gzip
import json
import select
import socket
import struct
import subprocess
import sys
import threading
import time

from frames import (ACK, END_HEADERS, END_STREAM, HEADERS, INFER, PREFACE, RST_STREAM, SETTINGS,
                    WINDOW_UPDATE, Raw, call, frame, head)
from h2_attacks import body, prefixed, split, varint

MIB = 1 << 20
MODELS = {
    "any": """backend: "identity"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }
""",
    "text": """backend: "identity"
input { name: "INPUT0" data_type: TYPE_STRING dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_STRING dims: [-1] }
""",
}
# That of the client beside: a request in the queue of "any" waits while the model copies 60 MiB, and no loop is to blame.
MODELS["small"] = MODELS["any"]


def post(text, *fields, model="any", path="infer"):
    lines = [f"POST /v2/models/{model}/{path} HTTP/1.1", "Host: test",
             f"Content-Length: {len(text)}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + text


def packed(text, *fields, **more):
    return post(gzip.compress(text, 9), "Content-Encoding: gzip", *fields, **more)


def spotted(n_bytes):
    """Zeros, and every few kilobytes a 1.0 at a place that does not repeat."""
    values = bytearray(n_bytes)
    at = 0
    for i in range(n_bytes // 8192):
        at += 4096 + 4 * (i * 7919 % 1000)
        values[at:at + 4] = struct.pack("<f", 1)
    return bytes(values)


def binary(n_bytes, output, *fields, datatype="FP32", elements=None, model="any"):
    """A tensor of zeros, compressed: 64 MiB are 64 KiB. Some ones among them keep the ratio honest."""
    start = json.dumps({
        "inputs": [{"name": "INPUT0", "shape": [elements or n_bytes // 4], "datatype": datatype,
                    "parameters": {"binary_data_size": n_bytes}}],
        "outputs": [{"name": "OUTPUT0", "parameters": output}]}).encode()
    values = bytes(n_bytes) if datatype == "BYTES" else spotted(n_bytes)
    return packed(start + values, f"Inference-Header-Content-Length: {len(start)}", *fields,
                  model=model)


def repeated_shapes():
    return packed(b'{"inputs":[{"name":"INPUT0",' + b'"shape":[1],' * 2_200_000 +
                  b'"datatype":"FP32","data":[1]}]}')


def blanks():
    return packed(b" " * (63 * MIB) + b"{}")


def classes():
    return binary(4_000_000, {"classification": 1_000_000})


def long_json():
    """The only one that is as long as what it costs."""
    n = 15_000_000
    return post(b'{"inputs":[{"name":"INPUT0","shape":[%d],"datatype":"FP32","data":[' % n +
                b"1.5," * (n - 1) + b"1.5]}]}")


def long_print():
    return binary(60 * MIB, {"binary_data": False})


def packed_answer():
    return binary(60 * MIB, {"binary_data": True}, "Accept-Encoding: gzip")


def long_generate():
    """As many numbers, for the other way of asking."""
    text = b'{"INPUT0":[' + b"1.5," * 15_000_000 + b"1.5]}"
    return post(text, path="generate")


def strings():
    """Sixteen million elements, each of them empty."""
    return binary(60 * MIB, {"binary_data": True}, datatype="BYTES", elements=15 * MIB,
                  model="text")


def part(number, payload):
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def grpc_request(model, datatype, n_elements, content):
    tensor = part(1, b"INPUT0") + part(2, datatype) + part(3, varint(n_elements))
    return part(1, model) + part(5, tensor + content)


def grpc_call(message, flag=0, **more):
    return frame(HEADERS, END_HEADERS, 1, head(INFER, **more)) + body(1, prefixed(message, flag))


def grpc_packed():
    """1 GiB, in sixteen members, for which a megabyte and a half is sent."""
    return grpc_call(gzip.compress(spotted(64 * MIB)) * 16, 1, **{"grpc-encoding": "gzip"})


def grpc_names():
    """The model's name eleven million times."""
    text = part(1, b"any") * (60 * MIB // 5)
    return grpc_call(gzip.compress(text), 1, **{"grpc-encoding": "gzip"})


def grpc_contents():
    """Sixty million integers, a byte each: `int_contents`, packed."""
    n = 60_000_000
    values = part(5, part(2, bytes(n)))
    text = grpc_request(b"any", b"INT32", n, values)
    return grpc_call(gzip.compress(text), 1, **{"grpc-encoding": "gzip"})


HTTP = (repeated_shapes, blanks, classes, long_json, long_generate, long_print, packed_answer, strings)
GRPC = (grpc_packed, grpc_names, grpc_contents)
# Those that were measured first, all of them together.
FOUR = ("grpc_packed", "classes", "repeated_shapes", "blanks")


class Port:
    def __init__(self, number):
        self.number = number

    def port(self, _):
        return self.number


def send_http(port, text, is_over):
    """Reads the answer to its end; False when there was none."""
    with socket.create_connection(("127.0.0.1", port), 120) as s:
        s.sendall(text)
        start = b""
        while b"\r\n\r\n" not in start and not is_over():
            more = s.recv(65536)
            if not more:
                return False
            start += more
        fields, _, got = start.partition(b"\r\n\r\n")
        length = [line for line in fields.split(b"\r\n") if line.lower().startswith(b"content-len")]
        if not length:  # one chunk; the connection ends here
            return True
        left = int(length[0].partition(b":")[2]) - len(got)
        while left > 0 and not is_over():
            left -= len(s.recv(1 << 20)) or left
        return True


class Sender:
    """One call, within what the server's windows of connection and stream let through."""

    def __init__(self, raw):
        self.frames = raw.frames()
        self.raw = raw
        self.windows = [65535, 65535]
        self.is_ended = False
        self.is_answered = False
        while self.read() != SETTINGS:
            pass

    def read(self):
        start = next(self.frames, None)
        if start is None:
            self.is_ended = True
            return None
        kind, flags, stream, payload = start
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at:at + 6])
                if name == 4:
                    self.windows[1] = value
            self.raw.send(frame(SETTINGS, ACK, 0))
        elif kind == WINDOW_UPDATE:
            self.windows[stream != 0] += int.from_bytes(payload, "big")
        elif kind == RST_STREAM or kind == HEADERS and flags & END_STREAM:
            self.is_ended = True
            self.is_answered = kind == HEADERS
        return kind

    def send(self, text, is_over):
        for piece, cost in split(text):
            while cost > min(self.windows) and not self.is_ended and not is_over():
                self.read()
            if self.is_ended:
                break
            self.windows = [left - cost for left in self.windows]
            self.raw.socket.sendall(piece)
        while not self.is_ended and not is_over():
            self.read()
        return self.is_answered


def send_grpc(port, text, is_over):
    with Raw(Port(port), greeting=PREFACE + frame(SETTINGS, 0, 0, struct.pack(
            ">HI", 4, (1 << 31) - 1))) as raw:
        raw.socket.settimeout(120)
        raw.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 65536)))
        return Sender(raw).send(text, is_over)


def main():
    http, grpc, *names = sys.argv[1:]
    senders = {make.__name__: (make(), send_http, int(http)) for make in HTTP
               if make.__name__ in names}
    senders.update({make.__name__: (make(), send_grpc, int(grpc)) for make in GRPC
                    if make.__name__ in names})
    assert len(senders) == len(names), names
    counts = dict.fromkeys(names, 0)
    over = threading.Event()

    def repeat(name):
        text, send, port = senders[name]
        while not over.is_set():
            try:
                counts[name] += send(port, text, over.is_set)
            except OSError:
                pass  # the server said no before it had read everything

    print("ready", flush=True)
    threads = [threading.Thread(target=repeat, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()
    print(json.dumps(counts), flush=True)


class LongRequests:
    """Has them sent, within `with`."""

    def __init__(self, http, grpc, names):
        self.process = subprocess.Popen([sys.executable, __file__, str(http), str(grpc), *names],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.counts = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        rest, _ = self.process.communicate("", timeout=180)
        self.counts = json.loads(rest)


class Prober:
    """Small requests on connections that stay, one of each protocol, in turns."""

    def __init__(self, http, grpc):
        self.http = socket.create_connection(("127.0.0.1", http), 60)
        self.raw = Raw(Port(grpc))
        self.raw.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
        self.stream = -1
        small = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32",
                                        "data": [1]}]}).encode()
        self.infer = post(small, model="small")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.close()
        self.raw.socket.close()

    def ask_http(self):
        self.http.sendall(self.infer)
        got = b""
        while not got.endswith(b"]}]}"):
            got += self.http.recv(65536)
        assert got.startswith(b"HTTP/1.1 200"), got

    def ask_grpc(self):
        self.stream += 2
        self.raw.send(call(self.stream))
        assert self.raw.has_answer(self.stream)

    def waits(self, seconds, pause=0.003):
        """{protocol: the times that answers took}, for so long."""
        times = {"http": [], "grpc": []}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name, ask in (("http", self.ask_http), ("grpc", self.ask_grpc)):
                start = time.monotonic()
                ask()
                times[name].append(time.monotonic() - start)
            select.select([], [], [], pause)
        return times


if __name__ == "__main__":
    main()
