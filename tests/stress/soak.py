#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory over millions of requests: it must not grow.

  make soak        or        tests/stress/soak.py --build=build [--requests=10000000]

Sends binary FP32 [1] inferences to an identity model over 64 keep-alive connections of the loopback
interface until the number is reached, and reads the server's resident memory after each round of
about a million. Fails when it is more than 2 % larger after the last round than after the first,
or when any request failed.
"""
import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROUND_REQUESTS = 1_000_000
GROWTH_ALLOWED = 0.02
SECONDS_AT_MOST = 120  # for one round

CONFIG = """backend: "identity"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""


def start(build, repository):
    process = subprocess.Popen(
        [os.path.join(build, "neso"), "serve", "--model-repository", repository,
         "--http-address", "127.0.0.1", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for line in process.stderr:
        found = re.search(r"Started HTTPService at 127\.0\.0\.1:(\d+)", line)
        if found:
            return process, int(found.group(1))
    raise SystemExit("the server did not start")


def write_load(folder):
    values = struct.pack("<f", 1.5)
    head = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32",
                                   "parameters": {"binary_data_size": len(values)}}],
                       "parameters": {"binary_data_output": True}}, separators=(",", ":")).encode()
    path = os.path.join(folder, "load.lua")
    with open(path, "w", encoding="ascii") as script:
        script.write('wrk.method = "POST"\nwrk.body = "'
                     + "".join(f"\\{byte:03d}" for byte in head + values) + '"\n'
                     f'wrk.headers["Inference-Header-Content-Length"] = "{len(head)}"\n')
    return path


def resident_kib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def send(port, script, seconds):
    """The number of requests answered 200 and how many a second."""
    text = subprocess.run(["wrk", "-t1", "-c64", f"-d{seconds}s", "-s", script,
                           f"http://127.0.0.1:{port}/v2/models/identity/infer"],
                          check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit("requests failed:\n" + text)
    return int(re.search(r"(\d+) requests in", text).group(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--requests", type=int, default=10_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        repository = os.path.join(folder, "models")
        os.makedirs(os.path.join(repository, "identity", "1"))
        with open(os.path.join(repository, "identity", "config.pbtxt"), "w",
                  encoding="ascii") as config:
            config.write(CONFIG)
        script = write_load(folder)
        process, port = start(options.build, repository)
        try:
            rate = send(port, script, 2) / 2
            total, rss = 0, []
            while total < options.requests:
                seconds = min(SECONDS_AT_MOST, max(1, round(ROUND_REQUESTS / rate)))
                total += send(port, script, seconds)
                rss.append(resident_kib(process))
                print(f"{total:>10} requests, resident {rss[-1]} KiB", flush=True)
        finally:
            process.terminate()
            process.stderr.close()
            code = process.wait()
    growth = rss[-1] / rss[0] - 1
    print(f"resident memory after the last round: {growth:+.2%} of that after the first; "
          f"exit code {code}")
    sys.exit(0 if growth <= GROWTH_ALLOWED and code == 0 else 1)


if __name__ == "__main__":
    main()
