#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`neso bench` against wrk and h2load: how many requests per second each of them gets out of a server.

  bench/load_generators.py [--build=build] [--turns=10] [--seconds=2]

The server answers FP32 [1] from core 0; 64 connections come from core 1, of each generator in turn. Prints for
each protocol the median over the pairs of turns of `neso bench`'s rate divided by the other's, with quartiles,
and the CPU time that each side spent on a request: that of the slower side is the limit. The aim is 0.9.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile

import run

CONNECTIONS = 64
AIM = 0.9


def neso_bench(options, server, protocol):
    """Requests per second, and the generator's microseconds of CPU for each."""
    port = server.port if protocol == "http" else server.grpc_port
    before = os.times()
    ended = subprocess.run(
        run.pinned(run.LOAD_CORE, [
            os.path.join(options.build, "neso"), "bench", "-m", "identity", "-i", protocol, "-u",
            f"127.0.0.1:{port}", f"--concurrency-range={CONNECTIONS}", "--shape=INPUT0:1",
            f"--measurement-interval={options.seconds * 1000}", "--max-trials=1",
            "--json"]),
        check=True, capture_output=True, text=True)
    after = os.times()
    [load] = json.loads(ended.stdout)["loads"]
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return load["rate"], spent / (load["rate"] * options.seconds) * 1e6


def others(options, folder):
    """The other generator of each protocol."""
    values = struct.pack("<f", 1.5)
    one = run.binary_request("INPUT0", [1], values)
    message = os.path.join(folder, "message")
    with open(message, "wb") as file:
        file.write(run.prefixed(run.infer_message("identity", values)))
    return {
        "http": ("wrk", lambda server: run.wrk(server, "/v2/models/identity/infer", *one, CONNECTIONS,
                                               options.seconds)),
        "grpc": ("h2load", lambda server: run.h2load(
            server.grpc_port, "/inference.GRPCInferenceService/ModelInfer", message, (CONNECTIONS, 1),
            options.seconds)),
    }


def compare(options, server, protocol, other):
    ratios, costs, rates = [], [], []
    for turn in range(options.turns):
        if turn % 2 == 0:
            ours, cost = neso_bench(options, server, protocol)
            theirs = other(server)
        else:
            theirs = other(server)
            ours, cost = neso_bench(options, server, protocol)
        ratios.append(ours / theirs)
        costs.append(cost)
        rates.append(theirs)
    low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return ratio, low, high, statistics.median(rates), statistics.median(costs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(run.ROOT, "build"))
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    is_good = True
    with tempfile.TemporaryDirectory() as folder:
        repository = os.path.join(folder, "models")
        run.write_identity(repository, "identity")
        with run.Neso(options.build, repository) as server:
            for protocol, (name, other) in others(options, folder).items():
                ratio, low, high, rate, cost = compare(options, server, protocol, other)
                is_good = is_good and ratio >= AIM
                print(f"{protocol}: neso bench / {name} {ratio:.3f} ({low:.3f} to {high:.3f}); {name} {rate:.0f}/s; "
                      f"neso bench spends {cost:.1f} us a request", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
