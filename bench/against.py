#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a change costs: the server's CPU time per request in two builds, in turns.

  bench/against.py --build=build --against=OTHER_BUILD [--only=tiny,json,...] [--turns=12] [--seconds=1]

A server of each build serves the same repository from core 0; the load comes from core 1 (wrk, h2load).
They take turns of a second, and which of the two is first changes with each pair of turns, so that both see
the same machine even where its speed changes. A row is a load: the microseconds of the other build, and the
median over the pairs of this build's time divided by the other's, with quartiles. Above 1 is worse. The
last line names the rows whose median is worse than --bound; then the exit status is 1.
"""
import argparse
import contextlib
import os
import shutil
import statistics
import struct
import sys
import tempfile
import time

import run

IDENTITY = "/v2/models/%s/infer"


class Load:
    """One row: how `seconds` of load on a server are made. Calling it returns requests per second."""

    def __init__(self, server, call):
        self.server, self.call = server, call


def http(model, body, headers, connections, lua="", server="plain"):
    return Load(server, lambda running, seconds: run.wrk(running, IDENTITY % model, body, headers,
                                                         connections, seconds, lua))


def grpc(folder, name, values, load):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(run.prefixed(run.infer_message("identity", values)))
    return Load("plain", lambda running, seconds: run.h2load(
        running.grpc_port, "/inference.GRPCInferenceService/ModelInfer", path, load, seconds))


def write_repository(folder):
    run.identity_repository(folder)
    run.write_pipelines(folder)
    run.write_sequences(folder)
    never = 'parameters { key: "inline_execution" value { string_value: "never" } }'
    for i in range(3):
        run.write_identity(folder, f"hop_{i}", never)
    run.write_ensemble(folder, "hop_three", [f"hop_{i}" for i in range(3)])
    shutil.copytree(run.DIGITS, os.path.join(folder, "digits"))


def loads(folder):
    one = run.binary_request("INPUT0", [1], struct.pack("<f", 1.5))
    mebibyte = run.binary_request("INPUT0", [1 << 18], bytes(1 << 20))
    image = run.binary_request("image", [1, 64], struct.pack("<64f", *range(64)))
    sequences = (b"", {"Content-Type": "application/json"}, 32, run.SEQUENCES_LUA)
    return {
        "tiny": http("identity", *one, 64),
        "tiny, 1 connection": http("identity", *one, 1),
        "tiny, a thread of its own": http("identity_hop", *one, 64),
        "tls, small": http("identity", *one, 64, server="tls"),
        "tls, 1 MiB": http("identity", *mebibyte, 4, server="tls"),
        "large, 1 MiB": http("identity", *mebibyte, 4),
        "json, 1 000 floats": http("identity", *run.json_request(), 16),
        "cache, a hit": http("identity_kept", *one, 16),
        "grpc, 16 connections": grpc(folder, "small", struct.pack("<f", 1.5), (16, 1)),
        "grpc, 64 streams": grpc(folder, "small", struct.pack("<f", 1.5), (1, 64)),
        "grpc, 1 MiB": grpc(folder, "large", bytes(1 << 20), (4, 1)),
        "sequences, direct": http("direct", *sequences),
        "sequences, oldest": http("oldest", *sequences),
        "dynamic batching": http("dynamic", *sequences),
        "chain of three": http("stage0", *one, 16),
        "ensemble of three": http("ensemble", *one, 16),
        "ensemble of three, threads": http("hop_three", *one, 16),
        "digits": http("digits", *image, 64),
    }


def cpu_nanoseconds(pid):
    """CPU time of all threads of the process, those that have ended too: its clock, as
    clock_getcpuclockid(3) makes it."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def microseconds(load, running, seconds):
    """The server's CPU time of one request."""
    before, began = cpu_nanoseconds(running.process.pid), time.monotonic()
    rate = load.call(running, seconds)
    if rate == 0:
        raise SystemExit(f"no request was answered: {' '.join(running.command)}")
    spent, took = cpu_nanoseconds(running.process.pid) - before, time.monotonic() - began
    return spent / 1e3 / (rate * min(took, seconds))


def compare(load, pair, options):
    """[(microseconds of the build, of the other)], a pair of turns each."""
    found = []
    for turn in range(options.turns):
        first = turn % 2
        seen = [0.0, 0.0]
        for which in (first, 1 - first):
            seen[which] = microseconds(load, pair[which], options.seconds)
        found.append(tuple(seen))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(run.ROOT, "build"))
    parser.add_argument("--against", required=True)
    parser.add_argument("--only", help="rows that begin with one of these, separated by commas")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--bound", type=float, default=1.03)
    options = parser.parse_args()
    worse = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        repository = os.path.join(folder, "models")
        write_repository(repository)
        builds = (options.build, options.against)
        servers = {
            "plain": [stack.enter_context(run.Neso(build, repository, "--cache-config=local,size=1048576"))
                      for build in builds],
            "tls": [stack.enter_context(run.NesoTls(build, repository, folder)) for build in builds]}
        for name, load in loads(folder).items():
            if options.only and not name.startswith(tuple(options.only.split(","))):
                continue
            found = compare(load, servers[load.server], options)
            ratios = [this / other for this, other in found]
            low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
            print(f"{name:28} {statistics.median(other for _, other in found):9.2f} us  {median:.3f} "
                  f"({low:.3f} to {high:.3f})", flush=True)
            if median > options.bound:
                worse.append(name)
    print(f"worse than {options.bound}: {', '.join(worse) if worse else 'none'}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
