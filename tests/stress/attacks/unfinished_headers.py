#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An unfinished header block on each of many gRPC connections, under a memory budget of 16 MiB.

What the connections and their calls hold is charged to the budget; the oldest make room. HTTP inference,
metrics and health over both protocols are answered meanwhile.
"""
import http.client
import json
import resource
import socket

import attack
from frames import HEADERS, PREFACE, SETTINGS, call, frame, head

N_CONNECTIONS = 6000
N_HOSTS = 4
N_ASKED = 100
MIB = 1 << 20
BODY = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [2],
                               "data": [1, 2]}]})


def ask_grpc(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as s:
            s.sendall(PREFACE + frame(SETTINGS, 0, 0) + call(1))
            got = b""
            while b"\x01\x04\x00\x00\x00\x01" not in got:  # HEADERS of the stream 1
                more = s.recv(4096)
                if not more:
                    return False
                got += more
            return True
    except OSError:
        return False


def ask_http(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, 20)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def measure():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    block = head(**{f"filler-{i}": "x" * 100 for i in range(30)})
    with attack.server({"identity": attack.IDENTITY}, "--memory-budget=16777216",
                       waits_for=("http", "grpc", "metrics")) as server:
        before = attack.resident_bytes(server.process)
        opened = []
        for i in range(N_CONNECTIONS):
            s = socket.create_connection(("127.0.0.1", server.port("grpc")), 20,
                                         (f"127.0.0.{2 + i % N_HOSTS}", 0))
            try:
                s.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 0, 1, block))
            except OSError:
                pass  # it had to make room already
            opened.append(s)
        held = attack.resident_bytes(server.process) - before
        n_grpc = sum(not ask_grpc(server.port("grpc")) for _ in range(N_ASKED))
        n_infer = sum(not ask_http(server.http_port, "POST", "/v2/models/identity/infer", BODY)
                      for _ in range(N_ASKED))
        n_metrics = sum(not ask_http(server.port("metrics"), "GET", "/metrics")
                        for _ in range(N_ASKED))
        for s in opened:
            s.close()
        yield attack.Figure("held by the attack, budget of 16 MiB", held / MIB, "MiB", at_most=24)
        yield attack.Figure("ServerLive over gRPC, not answered", n_grpc, f"of {N_ASKED}",
                            at_most=0)
        yield attack.Figure("inferences over HTTP, not answered with 200", n_infer,
                            f"of {N_ASKED}", at_most=0)
        yield attack.Figure("metrics, not answered", n_metrics, f"of {N_ASKED}", at_most=0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
