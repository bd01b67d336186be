#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""No thread can be made (pids.max, RLIMIT_NPROC), and clients ask for what has threads of its own.

Anyone may ask for readiness, the index and statistics. Every request must be answered, readiness as without
the attack and the others with 503, and the server must go on. Needs the preloaded library of
tests/e2e/test_no_threads.py, which `make hostile` builds.
"""
import pathlib
import tempfile

import requests

import attack
from conftest import BUILD
from test_no_threads import Threads

LIBRARIES = [folder / "tests" / "e2e" / "fail_threads.so" for folder in (BUILD, attack.ROOT / "build")]
READY = [("GET", "/v2/health/ready"), ("GET", "/v2/models/m/ready")]
PATHS = [*READY, ("GET", "/v2/models/stats"),
         ("POST", "/v2/repository/index"), ("POST", "/v2/repository/models/m/load"),
         ("POST", "/v2/repository/models/m/unload")]


def measure():
    library = next(path for path in LIBRARIES if path.exists())
    with tempfile.TemporaryDirectory() as folder:
        threads = Threads(pathlib.Path(folder) / "control")
        with attack.server({"m": attack.IDENTITY}, "--model-control-mode=explicit",
                           "--load-model=m", waits_for=("http", "grpc", "metrics"), under=(
                               "env", f"LD_PRELOAD={library}",
                               f"FAIL_THREADS={folder}/control")) as server:
            threads.fail(True)
            statuses = []
            for method, path in PATHS * 10:
                try:
                    statuses.append(requests.request(method, server.url + path,
                                                     timeout=5).status_code)
                except requests.RequestException:
                    statuses.append(0)
            yield attack.Figure("requests without an answer", statuses.count(0), "", at_most=0)
            yield attack.Figure("readiness 200", statuses.count(200), "", at_least=10 * len(READY))
            yield attack.Figure("other answers 503", statuses.count(503), "",
                                at_least=len(statuses) - 10 * len(READY))
            yield attack.holds("the server goes on", server.process.poll() is None)


if __name__ == "__main__":
    attack.main(measure, __doc__)
