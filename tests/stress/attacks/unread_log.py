#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The reader of the log (a collector, `docker logs`) stalls, and clients cause lines.

The pipe of standard error takes 64 KiB. Health checks and inferences must be answered as before, the
stop must end, and when reading goes on, the log says how many lines were lost.
"""
import pathlib
import subprocess
import tempfile
import time

import requests

import attack
import conftest
from test_unread_log import BODY, N_REQUESTS, Unread


def measure():
    with tempfile.TemporaryDirectory() as folder:
        conftest.write_repository(pathlib.Path(folder), {"m": attack.IDENTITY})
        server = Unread(folder, "--log-format=json", "--http-thread-count=1")
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
            n_lost = server.n_lost()
        except (requests.RequestException, AttributeError):  # no answer, or no such metric
            n_lost = -1
        yield attack.Figure("lines lost by the metric", n_lost, "",
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
