#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A trace file for each request: a client sets log_frequency to 1, then sends small requests.

The attacker may change the settings of traces. The number of files must have a bound, since each one
takes an inode; no trace may be lost in silence, and the server must serve on.
"""
import json
import pathlib
import re
import socket
import tempfile
import urllib.request

import attack

N_REQUESTS = 12000
MAX_FILES = 10000  # TRACE_FILE_MAX_FILES of src/trace/trace_file.h
IN_FLIGHT = 40  # pipelined on one connection
SECONDS = 20

BODY = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1],
                               "data": [1]}]}).encode()
REQUEST = (b"POST /v2/models/one/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
           % (len(BODY), BODY))
ANSWERED = b"HTTP/1.1 200 "


def send_requests(port):
    """The number of requests that were answered with 200."""
    n_answered = 0
    with socket.create_connection(("127.0.0.1", port), SECONDS) as peer:
        for _ in range(N_REQUESTS // IN_FLIGHT):
            peer.sendall(REQUEST * IN_FLIGHT)
            text = b""
            while text.count(b'"outputs"') < IN_FLIGHT:
                got = peer.recv(1 << 16)
                if not got:
                    return n_answered
                text += got
            n_answered += text.count(ANSWERED)
    return n_answered


def dropped_traces(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as page:
        found = re.search(rb"^neso_traces_dropped_total (\S+)", page.read(), re.MULTILINE)
    return float(found.group(1))


def traces_in(path):
    return sum("model_name" in element for element in json.loads(path.read_text("utf-8")))


def measure():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "t.json"
        with attack.server({"one": attack.IDENTITY}, f"--trace-config=triton,file={path}",
                           waits_for=("http", "metrics")) as server:
            settings = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "log_frequency": "1"}
            with urllib.request.urlopen(f"{server.url}/v2/trace/setting",
                                        json.dumps(settings).encode(), SECONDS):
                pass
            with attack.Probe(server.port("http")) as probe:
                n_answered = send_requests(server.port("http"))
            n_dropped = dropped_traces(server.port("metrics"))
            status = server.stop()
        files = list(pathlib.Path(folder).iterdir())
        n_traces = sum(traces_in(one) for one in files)
    yield attack.Figure("traced requests that were answered", n_answered, at_least=N_REQUESTS)
    yield attack.Figure("files <file>.<n>", sum(one != path for one in files), at_most=MAX_FILES)
    yield attack.Figure("traces in files, or counted as dropped", n_traces + n_dropped,
                        at_least=N_REQUESTS)
    yield attack.Figure("of these dropped", n_dropped)
    yield attack.Figure("failed health requests", probe.n_failed, at_most=0)
    yield attack.Figure("worst health request", probe.worst_ms, "ms")
    yield attack.holds("the server ended well", status == 0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
