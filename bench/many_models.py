#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A repository of two thousand models: how long it takes to start, to list, to load, to unload.

  bench/many_models.py --build=build [--models=2000] [--limits]

Models of the identity backend are generated. All are loaded at the start in one server, one by one
on request in another; while that one loads, the index and the server's readiness are asked for all
the time. With --limits it fails when an index takes more than 20 ms or a health question more than
2 ms in the median; the largest are printed, and say more of the machine than of the server when it
has other things to do.
"""
import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INDEX_LIMIT_MS, HEALTH_LIMIT_MS = 20, 2

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


class Asker(threading.Thread):
    """Asks the same again and again; readiness may be "no" while models load."""

    def __init__(self, server, method, path, is_over):
        super().__init__(daemon=True)
        self._server, self._method, self._path, self._is_over = server, method, path, is_over
        self.took_ms = []

    def run(self):
        connection = self._server.connect()
        while not self._is_over.is_set():
            self.took_ms.append(ask(connection, self._method, self._path)[0])
            time.sleep(0.005)
        connection.close()

    def tell(self, name):
        print(f"{name} while models load: median {statistics.median(self.took_ms):.2f} ms, "
              f"99 % {sorted(self.took_ms)[int(len(self.took_ms) * 0.99)]:.2f} ms, "
              f"at most {max(self.took_ms):.2f} ms, of {len(self.took_ms)}")
        return statistics.median(self.took_ms)


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
        health = statistics.median(ask(connection, "GET", "/v2/health/ready")[0]
                                   for _ in range(100))
        print(f"start with {options.models} models: {server.start_seconds:.2f} s, resident "
              f"{server.resident_mib():.0f} MiB; index {index_ms:.1f} ms ({len(text)} bytes); "
              f"ready {health:.2f} ms")
        assert len(json.loads(text)) == options.models
        print(f"stop: {server.stop():.2f} s")

        server = Server(options.build, repository, "--model-control-mode=explicit")
        connection, is_over = server.connect(), threading.Event()
        print(f"start without: {server.start_seconds:.2f} s, resident "
              f"{server.resident_mib():.0f} MiB")
        askers = [Asker(server, "POST", "/v2/repository/index", is_over),
                  Asker(server, "GET", "/v2/health/live", is_over),
                  Asker(server, "GET", "/v2/models/m00000/ready", is_over)]
        for asker in askers:
            asker.start()
        took = {}
        for verb in ("load", "unload"):
            took[verb] = [ask(connection, "POST", f"/v2/repository/models/m{i:05}/{verb}")[0]
                          for i in range(options.models)]
            print(f"{verb} one: median {statistics.median(took[verb]):.2f} ms; all "
                  f"{sum(took[verb]) / 1000:.2f} s, one after the other")
        is_over.set()
        for asker in askers:
            asker.join()
        index, live, ready = (asker.tell(name) for asker, name in zip(
            askers, ("index", "live", "a model's readiness")))
        print(f"stop: {server.stop():.2f} s")
    is_good = max(index, index_ms) <= INDEX_LIMIT_MS and max(live, ready, health) <= HEALTH_LIMIT_MS
    sys.exit(0 if is_good or not options.limits else 1)


if __name__ == "__main__":
    main()
