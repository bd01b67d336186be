#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What an open dashboard costs a loaded server with 500 models.

  bench/open_page.py [--build=build] [--models=500] [--turns=20] [--seconds=3]

wrk asks every model in turn, from core 1, as fast as the server on core 0 answers; so every reading of the page
has news of all models. In every other turn a page is open: its requests, each as soon and as often as the page
sends them (src/web/page/app.js). Prints the median over the pairs of turns of the rate with the page divided by
that without, and of the server's CPU time of a request, with quartiles. The aim is within 2 %.
"""
import argparse
import http.client
import json
import os
import statistics
import struct
import sys
import tempfile
import threading

import against
import run

INTERVAL = 1.0  # seconds between two readings of the page
CONNECTIONS = 64


class Page(threading.Thread):
    def __init__(self, port):
        super().__init__()
        self.port, self.is_closed = port, threading.Event()
        self.n_readings = self.n_bytes = 0

    def run(self):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        seq = log = 0
        while not self.is_closed.is_set():
            link.request("GET", f"/v2/dashboard?since={seq}&log={log}")
            body = link.getresponse().read()
            seq = json.loads(body)["seq"]
            self.n_readings += 1
            self.n_bytes += len(body)
            self.is_closed.wait(INTERVAL)
        link.close()


def all_models_lua(n_models):
    return f'''
local n = -1
request = function()
   n = n + 1
   return wrk.format(nil, "/v2/models/identity_" .. n % {n_models} .. "/infer")
end
'''


def turn(server, load, seconds, is_open):
    """Requests per second, the server's microseconds of CPU for each, and what the page read."""
    page = Page(server.port)
    if is_open:
        page.start()
    before = against.cpu_nanoseconds(server.process.pid)
    rate = load(server, seconds)
    spent = against.cpu_nanoseconds(server.process.pid) - before
    page.is_closed.set()
    if is_open:
        page.join()
    return rate, spent / 1e3 / (rate * seconds), page


def print_ratio(what, ratios):
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    print(f"{what}: open / closed {median:.3f} ({low:.3f} to {high:.3f}, {len(ratios)} pairs)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(run.ROOT, "build"))
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    body, headers = run.binary_request("INPUT0", [1], struct.pack("<f", 1.5))
    lua = all_models_lua(options.models)
    rates, costs, n_readings, n_bytes = [], [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(options.models):
            run.write_identity(folder, f"identity_{i}")
        with run.Neso(options.build, folder) as server:
            def load(running, seconds):
                return run.wrk(running, "/", body, headers, CONNECTIONS, seconds, lua)

            for i in range(options.turns):
                seen = {}
                for is_open in (i % 2 == 0, i % 2 == 1):
                    seen[is_open] = turn(server, load, options.seconds, is_open)
                rates.append(seen[True][0] / seen[False][0])
                costs.append(seen[True][1] / seen[False][1])
                n_readings += seen[True][2].n_readings
                n_bytes += seen[True][2].n_bytes
    print_ratio("rate", rates)
    print_ratio("CPU time of a request", costs)
    print(f"{n_readings} readings of {n_bytes // n_readings} bytes")
    return 0 if statistics.median(rates) >= 0.98 else 1


if __name__ == "__main__":
    sys.exit(main())
