# SPDX-License-Identifier: BSD-3-Clause
"""A server that is measured, and what sends it its load."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time

import conftest
import gauge

SECONDS = 120           # an answer that takes longer never comes
START_SECONDS = 600     # with ten thousand models on a busy machine
LOG_LINES = 200         # of the server, kept for a failure's text


class Failed(Exception):
    """A load did not do what it should."""


class Server(conftest.Server):
    """Keeps the end of its log only, and reads its ports from a file, since the log may be in a file, too."""

    def __init__(self, port_file, repository, options, **more):
        self._port_file = port_file
        super().__init__(repository, (*options, f"--port-file={port_file}"), **more)

    def _read(self):
        for line in self.process.stdout:
            self.log[:] = self.log[-LOG_LINES:] + [line.decode(errors="replace").rstrip("\n")]

    def _wait_for(self, names):
        deadline = time.monotonic() + START_SECONDS
        while not all(name in self.ports for name in names):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise Failed("the server did not start: " + "\n".join(self.log[-5:]))
            if self._port_file.exists():
                self.ports = {name: int(port) for name, _, port in (
                    line.partition("=") for line in self._port_file.read_text().split())}
            time.sleep(0.01)


class Place:
    def __init__(self, build, folder, models, options=()):
        self.build, self.folder = build, pathlib.Path(folder)
        self.repository = self.folder / "models"
        self.repository.mkdir()
        conftest.write_repository(self.repository, models)
        self.heap = gauge.HeapReader(self.folder)
        self.scratch = self.folder / "tmp"
        self.scratch.mkdir()
        environment = {**self.heap.environment(build / "tests" / "length" / "heap_reader.so"),
                       "TMPDIR": str(self.scratch)}
        begin = time.monotonic()
        self.server = Server(self.folder / "ports", self.repository, [*options, "--http-thread-count=2", "--grpc-infer-thread-count=2"],
                             waits_for=("http", "grpc", "metrics"),
                             under=("env", *(f"{name}={value}" for name, value in environment.items())))
        self.start_seconds = time.monotonic() - begin
        self._connections = {}  # of each thread here

    @property
    def pid(self):
        return self.server.process.pid

    def close(self):
        self.disconnect()
        code = self.server.stop(SECONDS)
        self.heap.close()
        shutil.rmtree(self.repository, ignore_errors=True)
        if code != 0:
            raise Failed(f"the server ends with {code}: " + "\n".join(self.server.log[-5:]))
        left = os.listdir(self.scratch)
        if left:
            raise Failed(f"the server leaves files behind: {left[:5]}")

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    # ---- requests from here ----

    def disconnect(self):
        for connection in self._connections.values():
            connection.close()
        self._connections = {}

    def connect(self, service):
        return http.client.HTTPConnection("127.0.0.1", self.server.port(service), timeout=SECONDS)

    def ask(self, method, path, value=None, status=200):
        """The body of the answer, over a connection that each thread keeps."""
        connection = self._connections.setdefault(threading.get_ident(), self.connect("http"))
        connection.request(method, path, b"" if value is None else json.dumps(value).encode())
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != status:
            raise Failed(f"{method} {path}: {answer.status} {text[:300]!r}")
        return text

    def metrics(self):
        with contextlib.closing(self.connect("metrics")) as connection:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            if answer.status != 200 or b"nv_inference_count" not in answer.read():
                raise Failed(f"no page of metrics: {answer.status}")

    # ---- loads ----

    def run(self, *command):
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            errors = re.findall(r'"errors":\[.+?\]', result.stdout)
            raise Failed(f"{' '.join(str(word) for word in command)}: {result.returncode}: "
                         f"{result.stderr[-300:]} {''.join(errors)[:600] or result.stdout[-300:]}")
        return result.stdout

    def bench(self, protocol, model, n, *options, at_a_time=8):
        """neso bench with that many requests."""
        if n < 1:
            return
        command = [self.build / "neso", "bench", "-m", model, "-i", protocol, "-u",
                   f"127.0.0.1:{self.server.port(protocol)}", f"--request-count={n}", "--json", "--fail-if=errors>0",
                   *options]
        if not any("request-rate" in option for option in options):
            command.append(f"--concurrency-range={min(at_a_time, n)}")
        self.run(*command)

    def connections(self, protocol, model, n, at_a_time):
        return json.loads(self.run(self.build / "tests" / "length" / "connections", protocol,
                                   self.server.port(protocol), model, "make", n, at_a_time))


class Holder:
    """Connections that stay."""

    def __init__(self, place, protocol, model, n):
        self.process = subprocess.Popen(
            [str(place.build / "tests" / "length" / "connections"), protocol, str(place.server.port(protocol)), model,
             "hold", str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if json.loads(self.process.stdout.readline() or "{}").get("answers") != n:
            raise Failed(f"not all of {n} connections were opened")

    def end(self):
        """How many the server has closed meanwhile."""
        out, _ = self.process.communicate("", SECONDS)
        if self.process.returncode != 0:
            raise Failed("connections that should stay have ended with an error")
        return json.loads(out)["closed"]


class Ticker(threading.Thread):
    """Does something again and again beside a load, until it is left."""

    def __init__(self, work, seconds):
        super().__init__(daemon=True)
        self._work, self._seconds, self._over, self._error = work, seconds, threading.Event(), None
        self.n_done = 0

    def run(self):
        try:
            while not self._over.wait(self._seconds):
                self._work()
                self.n_done += 1
        except Exception as error:  # pylint: disable=broad-except
            self._error = error

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join(SECONDS)
        if self._error is not None:
            raise Failed(f"beside the load: {self._error!r}")
