#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whoever reads the log (a collector, `docker logs`) stalls, and clients cause lines.

The pipe of standard error takes 64 KiB. Health checks and inferences must be answered as before, the
stop must end, and when reading goes on, the log says how many lines were lost.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import requests

import attack
import conftest

BODY = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]})
N_REQUESTS = 6000  # a line of about 300 bytes for each


class Unread:
    """A server whose log is read until its ports are known."""

    def __init__(self, repository, *options):
        reader, writer = os.pipe()
        self.reader = os.fdopen(reader, "rb", buffering=0)
        self.process = subprocess.Popen(
            [str(conftest.BUILD / "neso"), "serve", f"--model-repository={repository}",
             f"--backend-directory={conftest.BUILD / 'backends'}", "--http-address=127.0.0.1",
             "--http-port=0", "--allow-grpc=false", "--metrics-port=0", "--http-thread-count=1",
             *options], stdin=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        text = b""
        while b"Metrics Service at" not in text:
            text += self.reader.read(4096)
        self.url = "http://127.0.0.1:" + re.search(rb"HTTPService at \S+:(\d+)", text).group(1).decode()
        self.metrics = "http://127.0.0.1:" + re.search(
            rb"Metrics Service at \S+:(\d+)", text).group(1).decode() + "/metrics"


def measure():
    with tempfile.TemporaryDirectory() as folder:
        conftest.write_repository(pathlib.Path(folder), {"m": attack.IDENTITY})
        server = Unread(folder, "--log-format=json")
        session = requests.Session()
        n_answered = 0
        worst = 0
        try:
            for _ in range(N_REQUESTS):
                begun = time.monotonic()
                n_answered += session.post(f"{server.url}/v2/models/m/infer", data=BODY,
                                           timeout=2).status_code == 200
                worst = max(worst, time.monotonic() - begun)
        except requests.RequestException:
            worst = 2
        yield attack.Figure("requests answered while nobody reads", n_answered, "",
                            at_least=N_REQUESTS)
        yield attack.Figure("worst of them", worst * 1e3, "ms", at_most=200)
        try:
            lost = re.search(r"^neso_log_lines_lost_total (\S+)$",
                             requests.get(server.metrics, timeout=2).text, re.M)
        except requests.RequestException:
            lost = None
        yield attack.Figure("lines lost by the metric", float(lost.group(1)) if lost else -1, "",
                            at_least=1)
        begun = time.monotonic()
        server.process.terminate()
        try:
            status = server.process.wait(10)
        except subprocess.TimeoutExpired:
            server.process.kill()
            status = -9
        yield attack.Figure("stop", time.monotonic() - begun, "s", at_most=3)
        yield attack.Figure("its exit status", status, "", at_most=0, at_least=0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
