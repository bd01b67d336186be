#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""One byte on each of many HTTP connections, under a memory budget of 16 MiB.

A part of a head may hold about its own size. Health and small inferences of others are answered, on
connections that were open before and on new ones, and an inference too large for what is left gets 503.
"""
import http.client
import json
import resource
import socket

import attack

N_CONNECTIONS = 6000
N_HOSTS = 4  # source addresses
N_ASKED = 200
BODY = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [2],
                               "data": [1, 2]}]})


def raise_descriptors():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def open_all(port, text):
    """Text on each of many connections, which stay."""
    opened = []
    for i in range(N_CONNECTIONS):
        s = socket.create_connection(("127.0.0.1", port), 20, (f"127.0.0.{2 + i % N_HOSTS}", 0))
        s.sendall(text)
        opened.append(s)
    return opened


def ask(connection):
    """The status of an inference; 0 when there was no answer."""
    try:
        connection.request("POST", "/v2/models/identity/infer", BODY)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException):
        connection.close()
        return 0


def measure():
    raise_descriptors()
    for name, text in (("one byte", b"G"),
                       ("a head without its body",
                        b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: a\r\n"
                        b"Content-Length: 60\r\n\r\n")):
        with attack.server({"identity": attack.IDENTITY}, "--memory-budget=16777216") as server:
            port = server.port("http")
            old = http.client.HTTPConnection("127.0.0.1", port, 20)
            assert ask(old) == 200
            with attack.Probe(port) as kept, attack.Probe(port, is_new_each_time=True) as fresh:
                opened = open_all(port, text)
                statuses = [ask(old) for _ in range(N_ASKED)]
                for _ in range(N_ASKED):
                    new = http.client.HTTPConnection("127.0.0.1", port, 20)
                    statuses.append(ask(new))
                    new.close()
            for s in opened:
                s.close()
            yield attack.Figure(f"{name}: health requests that failed, kept connection",
                                kept.n_failed, f"of {len(kept.statuses)}", at_most=0)
            yield attack.Figure(f"{name}: health requests that failed, new connections",
                                fresh.n_failed, f"of {len(fresh.statuses)}", at_most=0)
            yield attack.Figure(f"{name}: inferences without an answer", statuses.count(0),
                                f"of {len(statuses)}", at_most=0)
            yield attack.Figure(f"{name}: inferences answered 503", statuses.count(503),
                                f"of {len(statuses)}", at_most=0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
