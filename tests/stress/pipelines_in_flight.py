#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ten thousand requests inside an ensemble of ten steps that lets four at a time into each step.

  make soak-pipelines    or
  tests/stress/pipelines_in_flight.py --build=build [--requests=10000] [--any-memory]

The first step's model stops in each execution. The requests, of which each has a number of its own, are
sent over ten gRPC connections. While all of them are inside, the server's memory is read; then

    first round     the model goes on: each request is answered, with its own number
    second round    half of the requests have a deadline, which passes: these are refused while the others
                    wait on, and the others are answered later

Fails when an answer is lost or wrong, when more than four requests are inside the first step's model, or
when a request takes more memory than MAX_BYTES, or leaves more than MAX_LEFT_BYTES of it behind.
"""
import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

import grpc

CONNECTIONS, MAX_INFLIGHT, N_STEPS = 10, 4, 10
MAX_BYTES = 24576  # of a request inside, its gRPC call included: half again what it takes
MAX_LEFT_BYTES = 1024  # on average, after the second round against after the first
MAX_STREAMS = 65536  # of a connection: all of its requests, and one more
PATIENCE_SECONDS = 300
EXPIRED = "in ensemble 'ten', Request timeout expired"

MODEL = """backend: "testing" max_batch_size: 8
input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
parameters { key: "add" value { string_value: "1" } }
"""
GATE = """parameters { key: "gate_fifo" value { string_value: "gate" } }
parameters { key: "reached_fifo" value { string_value: "reached" } }
"""


class Failed(Exception):
    pass


def ensemble_text():
    steps = "".join(
        f'step {{ model_name: "{"one" if i else "slow"}" model_version: -1 '
        f'input_map {{ key: "IN" value: "t{i}" }} output_map {{ key: "OUT" value: "t{i + 1}" }} }}\n'
        for i in range(N_STEPS))
    return (f'platform: "ensemble" max_batch_size: 8\n'
            'input { name: "t0" data_type: TYPE_INT32 dims: [ 1 ] }\n'
            f'output {{ name: "t{N_STEPS}" data_type: TYPE_INT32 dims: [ 1 ] }}\n'
            f'ensemble_scheduling {{ max_inflight_requests: {MAX_INFLIGHT}\n{steps}}}\n')


def varint(number):
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number // 128)


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def message(number, timeout_us=0):
    """A ModelInferRequest with one INT32, whose bytes come last."""
    tensor = field(1, b"t0") + field(2, b"INT32") + field(3, b"\x01\x01")
    timeout = field(4, field(1, b"timeout") + field(2, b"\x10" + varint(timeout_us))) if timeout_us else b""
    return field(1, b"ten") + timeout + field(5, tensor) + field(7, struct.pack("<i", number))


class Server:
    def __init__(self, build, folder):
        self.folder = folder
        for name, text in (("one", MODEL), ("slow", MODEL + GATE), ("ten", ensemble_text())):
            os.makedirs(os.path.join(folder, "models", name, "1"))
            with open(os.path.join(folder, "models", name, "config.pbtxt"), "w", encoding="ascii") as config:
                config.write(text)
        for pipe in ("gate", "reached"):
            os.mkfifo(os.path.join(folder, "models", "slow", pipe))
        self.log = open(os.path.join(folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.path.join(build, "neso"), "serve", f"--model-repository={folder}/models",
             f"--backend-directory={os.path.join(build, 'backends')}", "--http-address=127.0.0.1",
             "--http-port=0", "--grpc-address=127.0.0.1", "--grpc-port=0", "--metrics-port=0",
             f"--grpc-max-concurrent-streams={MAX_STREAMS}"],
            stdout=self.log, stderr=subprocess.STDOUT)
        self.grpc_port = self.port_of("GRPCInferenceService")
        self.metrics_port = self.port_of("Metrics Service")
        # The backend holds both ends, so neither open() waits.
        self.gate = open(os.path.join(folder, "models", "slow", "gate"), "wb", buffering=0)
        self.reached = open(os.path.join(folder, "models", "slow", "reached"), "rb", buffering=0)

    def text(self):
        with open(self.log.name, encoding="utf-8") as log:
            return log.read()

    def port_of(self, service):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            match = re.search(rf"Started {service} at [^\s\"]+:(\d+)", self.text())
            if match:
                return int(match.group(1))
            time.sleep(0.05)
        raise Failed("the server did not start:\n" + self.text())

    def pending(self, model):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=60) as page:
            text = page.read().decode()
        return int(re.search(rf'nv_inference_pending_request_count{{model="{model}".*}} (\d+)',
                             text).group(1))

    def wait_for_pending(self, model, n):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.pending(model) != n:
            if time.monotonic() > deadline:
                raise Failed(f"{self.pending(model)} requests of '{model}' are inside, not {n}")
            time.sleep(0.05)

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) * 1024

    def let_pass(self, n):
        """So many executions, one after the other."""
        for _ in range(n):
            self.reached.read(1)
            self.gate.write(b"g")

    def end(self):
        self.gate.close()
        self.reached.close()
        self.process.terminate()
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed("the server does not end:\n" + self.text()) from None
        if code != 0 or "Sanitizer" in self.text():
            raise Failed(f"exit code {code}:\n" + self.text())


class Round:
    """Requests with the numbers 0, 1, ...; the second half has a deadline, if there is one: all of these
    wait in the line, since others have the first step."""

    def __init__(self, calls, n, timeout_us=0):
        self.wanted_late = range(n // 2, n) if timeout_us else ()
        self.futures = [calls[i % len(calls)].future(
            message(i, timeout_us if i in self.wanted_late else 0), timeout=PATIENCE_SECONDS)
            for i in range(n)]

    def check_late(self):
        """Those with a deadline, whose refusal waits for nothing but that."""
        for i in self.wanted_late:
            error = self.futures[i].exception()
            if error is None or (error.code(), error.details()) != (grpc.StatusCode.UNAVAILABLE, EXPIRED):
                raise Failed(f"request {i}, which has a deadline, ends with {error!r}")
        return len(self.wanted_late)

    def check_answers(self):
        others = [i for i in range(len(self.futures)) if i not in self.wanted_late]
        for i in others:
            got, = struct.unpack("<i", self.futures[i].result()[-4:])
            if got != i + N_STEPS:
                raise Failed(f"request {i} got {got}")
        return len(others)


def measure(server, n):
    """The lines to print, and the bytes that each request took and left."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options) for _ in range(CONNECTIONS)]
    service = "/inference.GRPCInferenceService"
    calls = [c.unary_unary(f"{service}/ModelInfer") for c in channels]
    fences = [c.unary_unary(f"{service}/ServerLive") for c in channels]
    first = Round(calls, 1)
    server.let_pass(1)
    first.check_answers()

    before = server.rss_bytes()
    inside = Round(calls, n)
    # A connection's calls begin in their order: with the last one answered, all others are inside.
    for fence in fences:
        fence(b"", timeout=PATIENCE_SECONDS)
    # One is executed, the others of the four wait in its model's queue; the rest is in the line.
    server.wait_for_pending("slow", MAX_INFLIGHT - 1)
    taken = server.rss_bytes() - before
    server.let_pass(n)
    answered = inside.check_answers()
    after_first = server.rss_bytes()

    inside = Round(calls, n, timeout_us=n * 200)
    refused = inside.check_late()
    server.let_pass(n - refused)
    answered += inside.check_answers()
    for channel in channels:
        channel.close()
    left = server.rss_bytes() - after_first
    print(f"{n} requests inside at a time: {taken / n:.0f} bytes of resident memory each; "
          f"{answered} answers, {refused} refusals at their deadlines; "
          f"{left / 1024:+.0f} KiB after the second round")
    return taken / n, left / n


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--any-memory", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(os.path.abspath(arguments.build), folder)
        try:
            taken, left = measure(server, arguments.requests)
            server.end()
        except (Failed, OSError, grpc.RpcError) as failure:
            server.process.kill()
            print(f"FAILED: {failure}")
            return 1
    if not arguments.any_memory and (taken > MAX_BYTES or left > MAX_LEFT_BYTES):
        print("FAILED: too much memory")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
