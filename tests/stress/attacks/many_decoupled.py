#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Eight thousand small requests to decoupled models, whose responses nobody reads, under a budget of 64 MiB.

Each request asks for far more responses than are kept for a reader. The budget may be charged a little
beyond its maximum, since a few responses of each request are paid for in advance and once more when they
are made. Resident memory beyond an idle server must stay below twice the budget: the allocator adds to
small pieces, and keeps some. Plain inference is answered meanwhile.
"""
import json
import re
import time
import urllib.request

import attack
import decoupled_pipelines as pipelines

MIB = 1 << 20
BUDGET = 64
N_CHANNELS, N_STREAMS, N_REQUESTS = 8, 80, 100  # the requests of each stream
SECONDS = 5
BODY = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [2],
                               "data": [1, 2]}]}).encode()
REQUESTS = {
    "one decoupled model": lambda one: one.request("square", [("IN", "INT32", [1])],
                                                   [pipelines.int32([1000000])]),
    "two decoupled steps": lambda one: pipelines.request(one, 3000, 4),
}


def used_bytes(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port('metrics')}/metrics",
                                timeout=20) as page:
        found = re.search(rb"^neso_memory_budget_used_bytes (\S+)", page.read(), re.MULTILINE)
    return float(found.group(1))


def ask(server, failures):
    """An inference without decoupled models."""
    try:
        with urllib.request.urlopen(f"{server.url}/v2/models/identity/infer", BODY, 20) as answer:
            answer.read()
    except OSError as e:
        failures.append(repr(e))


def measure():
    for name, make in REQUESTS.items():
        with pipelines.server(f"--memory-budget={BUDGET * MIB}", identity=attack.IDENTITY) as server, \
                pipelines.clients(server, N_CHANNELS) as clients:
            idle = attack.resident_bytes(server.process)
            streams = [one.stream([make(one)] * N_REQUESTS)
                       for one in clients for _ in range(N_STREAMS // N_CHANNELS)]
            most_held = most_used = 0
            failures = []
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                ask(server, failures)
                most_held = max(most_held, attack.resident_bytes(server.process) - idle)
                most_used = max(most_used, used_bytes(server))
            yield attack.Figure(f"{name}: charged to the budget", most_used / MIB, "MiB",
                                at_most=BUDGET * 9 / 8)
            yield attack.Figure(f"{name}: resident", most_held / MIB, "MiB", at_most=2 * BUDGET)
            yield attack.Figure(f"{name}: failed plain inferences", len(failures), "", at_most=0)
            for one in clients:
                one.channel.close()
            del streams


if __name__ == "__main__":
    attack.main(measure, __doc__)
