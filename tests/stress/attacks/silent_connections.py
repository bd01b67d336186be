#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""As many connections as the server allows, which send nothing, over each protocol.

Those that have been idle longest make room: new clients are served at once, and a connection with a
request in flight stays. From one address alone not all places are to be had.
"""
import socket
import time

import attack
from frames import PREFACE, SETTINGS, call, frame

LIMIT = 400
N_ASKED = 100
HELLO = {"http": b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n",
         "grpc": PREFACE + frame(SETTINGS, 0, 0) + call(1)}


def open_all(port, n, n_hosts):
    return [socket.create_connection(("127.0.0.1", port), 20, (f"127.0.0.{2 + i % n_hosts}", 0))
            for i in range(n)]


def is_served(port, name):
    """A new client of another address."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.1", 0)) as s:
            s.sendall(HELLO[name])
            return s.recv(1) != b""
    except OSError:
        return False


def measure():
    for name, n_hosts in (("http", 4), ("http", 1), ("grpc", 4)):
        with attack.server({"identity": attack.IDENTITY}, f"--{name}-max-connections={LIMIT}",
                           waits_for=(name,)) as server:
            port = server.port(name)
            silent = open_all(port, LIMIT, n_hosts)
            begun = time.monotonic()
            n_failed = sum(not is_served(port, name) for _ in range(N_ASKED))
            yield attack.Figure(f"{name}: new clients that were not served, {n_hosts} addresses",
                                n_failed, f"of {N_ASKED}", at_most=0)
            yield attack.Figure(f"{name}: time of those", time.monotonic() - begun, "s", at_most=5)
            for s in silent:
                s.close()


if __name__ == "__main__":
    attack.main(measure, __doc__)
