#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ten thousand streams at once, and the memory they leave behind.

  make soak-streams     or      tests/stress/grpc_streams.py --build=build [--rounds=3]

Each round opens 100 connections of 100 ModelStreamInfer streams each, all open at the same time,
and sends 100 messages through every one; each answer is checked by the client (grpc_load.c): in
order, none lost, with the tensor that was sent. Fails when an answer is wrong or missing, or when
the server's resident memory after the last round is above that after the first by more than 5 % of
what the first needed, right behind it or some seconds later, when most has been given back.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONNECTIONS, STREAMS, MESSAGES = 100, 100, 100
GROWTH_ALLOWED = 0.05
SETTLE_SECONDS = 10  # pools and freed memory go back to the system when loops are quiet

CONFIG = """backend: "identity"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""


def start(build, repository):
    process = subprocess.Popen(
        [os.path.join(build, "neso"), "serve", "--model-repository", repository,
         "--backend-directory", os.path.join(build, "backends"), "--http-port", "0",
         "--http-address", "127.0.0.1", "--grpc-address", "127.0.0.1", "--grpc-port", "0",
         "--metrics-port", "0"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for line in process.stderr:
        found = re.search(r"Started GRPCInferenceService at 127\.0\.0\.1:(\d+)", line)
        if found:
            return process, found.group(1)
    raise SystemExit("the server did not start")


def resident_kib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def one_round(build, port):
    done = subprocess.run(
        [os.path.join(build, "tests", "stress", "grpc_load"), "streams", port, "identity",
         str(CONNECTIONS), str(STREAMS), str(MESSAGES)],
        check=False, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SystemExit("a round failed: " + done.stderr)
    counts = json.loads(done.stdout)
    if counts != {"answers": CONNECTIONS * STREAMS * MESSAGES, "streams": CONNECTIONS * STREAMS}:
        raise SystemExit(f"answers are missing: {counts}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("memory is compared between rounds: two at least")
    with tempfile.TemporaryDirectory() as repository:
        os.makedirs(os.path.join(repository, "identity", "1"))
        with open(os.path.join(repository, "identity", "config.pbtxt"), "w",
                  encoding="ascii") as config:
            config.write(CONFIG)
        process, port = start(options.build, repository)
        try:
            print(f"idle: {resident_kib(process)} KiB", flush=True)
            at_once, kib = [], []
            for i in range(options.rounds):
                one_round(options.build, port)
                at_once.append(resident_kib(process))
                time.sleep(SETTLE_SECONDS)
                kib.append(resident_kib(process))
                print(f"round {i + 1}: {CONNECTIONS * STREAMS * MESSAGES} answers, resident "
                      f"{at_once[-1]} KiB, then {kib[-1]} KiB", flush=True)
        finally:
            process.terminate()
            process.stderr.close()
            process.wait()
    growth = max(at_once[-1] - at_once[0], kib[-1] - kib[0]) / at_once[0]
    print(f"growth from the first round to the last: {100 * growth:.1f} % of what it needed")
    sys.exit(0 if growth <= GROWTH_ALLOWED else 1)


if __name__ == "__main__":
    main()
