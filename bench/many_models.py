#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A repository of two thousand models: how long it takes to start, to list, to load, to unload.

  bench/many_models.py --build=build [--models=2000] [--limits]

Models of the identity backend are generated. All are loaded at the start in one server, one by one
on request in another; while that one loads and unloads, the index, the server's health and a model's
are asked for all the time, by a process each, so that none waits for another client's turn. With
--limits it fails when an index takes more than 20 ms or a health question more than 2 ms, of which
one in a thousand may: on a machine that has other things to do the slowest say more of that than of
the server. An index may cost 2 ms of CPU, whatever else runs.
"""
import argparse
import gc
import http.client
import json
import multiprocessing
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INDEX_LIMIT_MS, HEALTH_LIMIT_MS, INDEX_CPU_LIMIT_MS = 20, 2, 2

CONFIG = """backend: "identity"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""


class Server:
    def __init__(self, build, repository, *options):
        begun = time.monotonic()
        self.process = subprocess.Popen(
            [os.path.join(build, "neso"), "serve", "--model-repository", repository,
             "--backend-directory", os.path.join(build, "backends"), "--http-address", "127.0.0.1",
             "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *options],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for line in self.process.stderr:
            found = re.search(r"Started HTTPService at 127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        else:
            raise SystemExit("the server did not start")
        self.start_seconds = time.monotonic() - begun
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024

    def cpu_ms(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def stop(self):
        begun = time.monotonic()
        self.process.terminate()
        code = self.process.wait(120)
        if code != 0:
            raise SystemExit(f"the server ended with {code}")
        return time.monotonic() - begun


def ask(connection, method, path, body=None):
    """Milliseconds, and the answer."""
    begun = time.monotonic()
    connection.request(method, path, body)
    reply = connection.getresponse()
    text = reply.read()
    took_ms = (time.monotonic() - begun) * 1000
    if reply.status not in (200, 400):
        raise SystemExit(f"{path}: {reply.status} {text!r}")
    return took_ms, text


class Asker(multiprocessing.Process):
    """Asks the same again and again, from the moment on at which everybody is at `start`: a process
    that begins keeps a core for milliseconds. Readiness may be "no" while models load."""

    def __init__(self, server, start, name, method, path):
        super().__init__(daemon=True)
        self.title, self.limit_ms = name, HEALTH_LIMIT_MS if method == "GET" else INDEX_LIMIT_MS
        self._port, self._start = server.port, start
        self._question = (f"{method} {path} HTTP/1.1\r\nHost: bench\r\n"
                          "Content-Length: 0\r\n\r\n").encode()
        self._is_over = multiprocessing.Event()
        self._answers, self._results = multiprocessing.Pipe(duplex=False)

    def run(self):
        gc.disable()
        be_on_time()
        took_ms = []
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start.wait()
            while not self._is_over.is_set():
                begun = time.monotonic()
                connection.sendall(self._question)
                receive(connection)
                took_ms.append((time.monotonic() - begun) * 1000)
                time.sleep(0.002)
        self._results.send(took_ms)

    def tell(self):
        """True when it is fast enough."""
        self._is_over.set()
        took_ms = sorted(self._answers.recv())
        self.join()
        at = [took_ms[int(len(took_ms) * share)] for share in (0.5, 0.99, 0.999)]
        n_late = sum(ms > self.limit_ms for ms in took_ms)
        print(f"{self.title} while models load: median {at[0]:.2f} ms, 99 % {at[1]:.2f} ms, "
              f"99.9 % {at[2]:.2f} ms, at most {took_ms[-1]:.2f} ms; {n_late} of {len(took_ms)} "
              f"above {self.limit_ms} ms")
        return at[2] <= self.limit_ms


def be_on_time():
    """What an asker waits for is the server then, not its own turn among the other processes."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        print("without real-time priority: the askers' own waits are in the figures")


def receive(connection):
    """One answer with a length."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += connection.recv(1 << 16)
    head, _, body = text.partition(b"\r\n\r\n")
    left = int(re.search(rb"Content-Length: (\d+)", head).group(1)) - len(body)
    while left > 0:
        left -= len(connection.recv(min(left, 1 << 20)))


def index_cost_ms(server, connection):
    """CPU time of the server, without the client."""
    begun = server.cpu_ms()
    for _ in range(100):
        ask(connection, "POST", "/v2/repository/index")
    return (server.cpu_ms() - begun) / 100


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--limits", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        repository = os.path.join(folder, "models")
        for i in range(options.models):
            os.makedirs(os.path.join(repository, f"m{i:05}", "1"))
            with open(os.path.join(repository, f"m{i:05}", "config.pbtxt"), "w",
                      encoding="ascii") as config:
                config.write(CONFIG)

        server = Server(options.build, repository)
        connection = server.connect()
        index_ms, text = ask(connection, "POST", "/v2/repository/index")
        index_cpu_ms = index_cost_ms(server, connection)
        health = statistics.median(ask(connection, "GET", "/v2/health/ready")[0]
                                   for _ in range(100))
        print(f"start with {options.models} models: {server.start_seconds:.2f} s, resident "
              f"{server.resident_mib():.0f} MiB; index {index_ms:.1f} ms, {index_cpu_ms:.1f} ms of "
              f"CPU ({len(text)} bytes); ready {health:.2f} ms")
        assert len(json.loads(text)) == options.models
        print(f"stop: {server.stop():.2f} s")

        server = Server(options.build, repository, "--model-control-mode=explicit")
        connection = server.connect()
        print(f"start without: {server.start_seconds:.2f} s, resident "
              f"{server.resident_mib():.0f} MiB")
        questions = [("index", "POST", "/v2/repository/index"), ("live", "GET", "/v2/health/live"),
                     ("ready", "GET", "/v2/health/ready"),
                     ("a model's readiness", "GET", "/v2/models/m00000/ready")]
        start = multiprocessing.Barrier(len(questions) + 1, timeout=30)
        askers = [Asker(server, start, *question) for question in questions]
        for asker in askers:
            asker.start()
        start.wait()
        for verb in ("load", "unload"):
            took = [ask(connection, "POST", f"/v2/repository/models/m{i:05}/{verb}")[0]
                    for i in range(options.models)]
            print(f"{verb} one: median {statistics.median(took):.2f} ms; all "
                  f"{sum(took) / 1000:.2f} s, one after the other")
        are_quick = [asker.tell() for asker in askers]
        print(f"stop: {server.stop():.2f} s")
    is_good = (all(are_quick) and index_ms <= INDEX_LIMIT_MS and health <= HEALTH_LIMIT_MS and
               index_cpu_ms <= INDEX_CPU_LIMIT_MS)
    sys.exit(0 if is_good or not options.limits else 1)


if __name__ == "__main__":
    main()
