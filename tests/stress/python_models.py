#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Python models for a long time: memory that must not grow, processes that are killed, reloads.

  make soak-python       or       tests/stress/python_models.py --build=build [--requests=1000000]
                                  [--kills=30] [--reloads=1000] [--python=/usr/bin/python3]

Three parts, all over loopback, with a model that gives back what it gets:

* requests of mixed sizes over 16 connections; the resident memory of the server and of the process may not
  be more than 2 % larger after the second half than after the first;
* the process is killed again and again under load (each restart waits longer, up to 10 s); each request is answered once, and those that failed
  say why;
* the model is loaded anew under load; no request fails, and server processes and descriptors stay as many.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GROWTH_ALLOWED = 0.02
CLIENTS = 16
MODEL = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy())])
                for r in requests]
"""
CONFIG = """backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
instance_group { count: 1 kind: KIND_CPU }
"""
UNHEALTHY = "Stub process 'm' is not healthy."


def fail(text):
    raise SystemExit(f"python_models: FAILED: {text}")


class Server:
    def __init__(self, options, repository):
        self.process = subprocess.Popen(
            [os.path.join(options.build, "neso"), "serve", f"--model-repository={repository}",
             f"--backend-directory={os.path.join(options.build, 'backends')}",
             f"--backend-config=python,python-path={options.python}", "--model-control-mode=explicit",
             "--load-model=m", "--http-address=127.0.0.1", "--http-port=0", "--grpc-port=0",
             "--grpc-address=127.0.0.1", "--metrics-port=0"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.port = None
        for line in self.process.stderr:
            found = re.search(r"Started HTTPService at 127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.port is None:
            fail("the server did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def stubs(self):
        text = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(self.process.pid)],
                              capture_output=True, text=True, check=False).stdout
        return [int(line.split()[0]) for line in text.splitlines()
                if "triton_python_backend_stub.py" in line]

    def resident_kib(self):
        """Of the server, and of its processes."""
        def one(pid):
            with open(f"/proc/{pid}/status", encoding="ascii") as status:
                return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))
        return [one(self.process.pid), *map(one, self.stubs())]

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Client:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def post(self, path, body, headers=None):
        self.connection.request("POST", path, body, headers or {})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def infer(self, n, value):
        data = struct.pack("<f", value) * n
        head = json.dumps({"inputs": [{"name": "X", "shape": [n], "datatype": "FP32", "parameters":
                                       {"binary_data_size": len(data)}}],
                           "parameters": {"binary_data_output": True}}).encode()
        status, body = self.post("/v2/models/m/infer", head + data,
                                 {"Inference-Header-Content-Length": str(len(head))})
        if status == 200 and not body.endswith(data):
            fail("an answer with other values than its request")
        return status, body


def run_clients(server, n_requests, on_answer, until=None):
    """Each client sends its share, or goes on until the event is set."""
    def work(number):
        dice, client = random.Random(number), Client(server)
        for i in range(n_requests // CLIENTS if until is None else 10 ** 9):
            if until is not None and until.is_set():
                return
            n = dice.choice((1, 1, 1, 1, 1, 100, 1000, 20000))
            on_answer(*client.infer(n, float(dice.randrange(100) + i % 2)))

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        for task in [pool.submit(work, number) for number in range(CLIENTS)]:
            task.result()


def must_be_right(status, body):
    if status != 200:
        fail(f"{status} {body[:200]}")


def check_memory(server, n_requests):
    run_clients(server, n_requests // 2, must_be_right)
    before = server.resident_kib()
    run_clients(server, n_requests // 2, must_be_right)
    after = server.resident_kib()
    print(f"memory: {n_requests} requests; {before} KiB, then {after} KiB")
    if any(b > a * (1 + GROWTH_ALLOWED) + 1024 for a, b in zip(before, after)):
        fail("it grows")


def check_kills(server, n_kills):
    counts, lock, stop = {200: 0, 500: 0}, threading.Lock(), threading.Event()

    def count(status, body):
        with lock:
            counts[status] = counts.get(status, 0) + 1
        if status == 500 and UNHEALTHY.replace("'m'", "'m_0'") not in body.decode():
            fail(body[:200])

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        load = pool.submit(run_clients, server, 0, count, stop)
        for _ in range(n_kills):
            seen = counts[200]
            deadline = time.monotonic() + 60
            while counts[200] < seen + 20 and time.monotonic() < deadline:
                time.sleep(0.005)
            if counts[200] < seen + 20:
                fail("it did not come back")
            for pid in server.stubs():
                os.kill(pid, signal.SIGKILL)
        stop.set()
        load.result()
    print(f"kills: {n_kills}; {counts[200]} answered, {counts[500]} failed with their process")
    if set(counts) != {200, 500}:
        fail(f"other answers: {counts}")


def check_reloads(server, model, n_reloads):
    stop, client = threading.Event(), Client(server)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        load = pool.submit(run_clients, server, 0, must_be_right, stop)
        for i in range(n_reloads):
            os.utime(model, (i + 1, i + 1))
            status, body = client.post("/v2/repository/models/m/load", b"{}")
            if status != 200:
                fail(body[:200])
            if i == n_reloads // 2:
                before = server.n_descriptors()
        stop.set()
        load.result()
    deadline = time.monotonic() + 60
    while len(server.stubs()) != 1 and time.monotonic() < deadline:
        time.sleep(0.1)  # the last one that was replaced is about to end
    print(f"reloads: {n_reloads}; {before} descriptors, then {server.n_descriptors()}; "
          f"{len(server.stubs())} processes")
    if len(server.stubs()) != 1 or server.n_descriptors() > before + CLIENTS:
        fail("something stayed behind")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--reloads", type=int, default=1000)
    parser.add_argument("--python", default="/usr/bin/python3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as repository:
        model = os.path.join(repository, "m", "1", "model.py")
        os.makedirs(os.path.dirname(model))
        for path, text in ((model, MODEL), (os.path.join(repository, "m", "config.pbtxt"), CONFIG)):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        server = Server(options, repository)
        try:
            check_memory(server, options.requests)
            check_reloads(server, model, options.reloads)
            check_kills(server, options.kills)
        finally:
            server.process.terminate()
            code = server.process.wait(60)
    if code != 0:
        fail(f"the server ended with {code}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
