#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""40 bodies of 60 KB that decompress to 60 MiB, and another client with 440 KB of plain JSON.

Both are work for compute threads. The plain body must not wait for all of the others.
"""
import contextlib
import gzip
import json
import socket
import time
import urllib.request

import attack

N_BOMBS = 40
N = 150000
BODY = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [N], "data": [1] * N}]}).encode()
BOMB = gzip.compress(b" " * (60 << 20))
REQUEST = (b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\n"
           b"Content-Length: %d\r\n\r\n" % len(BOMB)) + BOMB


def seconds_of_one(server):
    begun = time.monotonic()
    with contextlib.suppress(TimeoutError):
        with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/v2/models/identity/infer", BODY,
                                    timeout=30) as answer:
            answer.read()
    return time.monotonic() - begun


def measure():
    with attack.server({"identity": attack.IDENTITY}, "--http-thread-count=1") as server:
        alone = min(seconds_of_one(server) for _ in range(5))
        opened = [socket.create_connection(("127.0.0.1", server.http_port), 120)
                  for _ in range(N_BOMBS)]
        for one in opened:
            one.sendall(REQUEST)
        worst = max(seconds_of_one(server) for _ in range(3))
        for one in opened:
            one.close()
        yield attack.Figure("alone", 1e3 * alone, "ms")
        yield attack.Figure("worst beside the others", 1e3 * worst, "ms", at_most=200 + 20e3 * alone)


if __name__ == "__main__":
    attack.main(measure, __doc__)
