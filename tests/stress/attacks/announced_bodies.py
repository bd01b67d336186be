#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Heads that announce bodies of all sizes, of which one byte comes, under a memory budget of 1 GiB.

Two kilobytes took all that the budget has for pieces above 64 KiB. Others must get their bodies of some hundred
kilobytes in, over both protocols.
"""
import http.client
import json
import socket
import struct

import attack
from frames import DATA, END_HEADERS, HEADERS, INFER, Raw, frame, head

MIB = 1 << 20
SIZES = [60 * MIB] * 14 + [30 * MIB, 15 * MIB, 7 * MIB, 3 * MIB, MIB, MIB // 2, MIB // 4, MIB // 8, 100000, 70000]
N_ASKED = 20


def is_answered(server, n):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=20)
    try:
        connection.request("POST", "/v2/models/identity/infer", json.dumps(
            {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [n], "data": [1] * n}]}))
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def announce_http(server):
    for size in SIZES:
        one = socket.create_connection(("127.0.0.1", server.http_port), 20)
        one.sendall(b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n{"
                    % size)
        yield one


def announce_grpc(server):
    raw = Raw(server)
    raw.send(b"".join(frame(HEADERS, END_HEADERS, 2 * i + 1, head(INFER)) +
                      frame(DATA, 0, 2 * i + 1, b"\0" + struct.pack(">I", size) + b"a")
                      for i, size in enumerate(SIZES)))
    raw.send(frame(6, 0, 0, bytes(8)))
    next(kind for kind, _, _, _ in raw.frames() if kind == 6)  # all of it has come
    yield raw.socket


def measure():
    for name, announce in (("HTTP", announce_http), ("gRPC", announce_grpc)):
        with attack.server({"identity": attack.IDENTITY}, f"--memory-budget={1024 * MIB}",
                           waits_for=("http", "grpc")) as server:
            opened = list(announce(server))
            n_failed = sum(not is_answered(server, 100000) for _ in range(N_ASKED))
            yield attack.Figure(f"over {name}: bodies of 200 KB, not answered", n_failed,
                                f"of {N_ASKED}", at_most=0)
            for one in opened:
                one.close()


if __name__ == "__main__":
    attack.main(measure, __doc__)
