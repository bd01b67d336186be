#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures remote repositories; prints one line for each figure.

  measure.py [--bytes N] [--models N] [--connections N]

* the time of a large model from Swift, beside curl with as many connections (ranges of the same object)
* how much memory the server takes more meanwhile
* what a server fetches that was killed at about half of it
* a poll of many models: requests, time, CPU time of the server
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from conftest import e2e  # noqa: E402
from s3_server import ObjectServer  # noqa: E402
from swift_server import REGION, Swift  # noqa: E402
from test_swift import CONFIG  # noqa: E402

BLOCK = 8 << 20


def status(pid, name):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) * 1024


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Zeros:
    """A body of random blocks, for http.client."""

    def __init__(self, n):
        self.n, self.block = n, os.urandom(1 << 20)

    def __len__(self):
        return self.n

    def read(self, size=-1):
        size = min(self.n if size < 0 else size, self.n, len(self.block))
        self.n -= size
        return self.block[:size]


def upload(store, path, n):
    import http.client
    connection = http.client.HTTPConnection("127.0.0.1", store.port, timeout=600)
    headers = {**store.headers("PUT", path), "Content-Length": str(n)}
    connection.request("PUT", path, body=Zeros(n), headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def fetch_with_curl(store, path, n, connections, folder):
    """Each process has one connection and takes every connections-th piece."""
    headers = [f"-H{name}: {value}" for name, value in store.headers("GET", path).items()
               if name != "host"]
    begin = time.monotonic()
    processes = []
    for i in range(connections):
        arguments = []
        for piece in range(i, (n + BLOCK - 1) // BLOCK, connections):
            end = min((piece + 1) * BLOCK, n) - 1
            arguments += [*(["--next"] if arguments else []), "-sS", "-f", *headers, "-r",
                          f"{piece * BLOCK}-{end}", "-o", str(folder / f"piece{piece}"),
                          f"{store.origin}{path}"]
        processes.append(subprocess.Popen(["curl", *arguments]))
    assert all(process.wait() == 0 for process in processes)
    seconds = time.monotonic() - begin
    for piece in folder.glob("piece*"):
        piece.unlink()
    return seconds


def serve(store, bucket, *options):
    return e2e.Server(f"s3://{store.origin}/{bucket}", options)


def post(server, verb, name):
    import requests
    return requests.post(f"{server.url}/v2/repository/models/{name}/{verb}", timeout=600)


def large_model(store, arguments, folder):
    n = arguments.bytes
    store.request("PUT", "/large")
    upload(store, "/large/m/1/weights", n)
    store.put("large", "m/config.pbtxt", CONFIG.encode())
    transfers = f"--repository-transfers={arguments.connections}"
    curl = min(fetch_with_curl(store, "/large/m/1/weights", n, arguments.connections, folder)
               for _ in range(2))
    best, growth, cpu = None, 0, 0
    for _ in range(2):
        server = serve(store, "large", "--model-control-mode=explicit", transfers)
        pid = server.process.pid
        before, cpu_before = status(pid, "VmRSS"), cpu_seconds(pid)
        begin = time.monotonic()
        assert post(server, "load", "m").status_code == 200, server.text()
        seconds = time.monotonic() - begin
        if best is None or seconds < best:
            best, growth = seconds, status(pid, "VmHWM") - before
            cpu = cpu_seconds(pid) - cpu_before
        server.stop()
    print(f"large model: {n >> 20} MiB, {arguments.connections} connections: curl {curl:.2f} s, load "
          f"{best:.2f} s: {curl / best:.2f} of curl's rate; CPU of the server {cpu:.2f} s; memory "
          f"+{growth / 2**20:.1f} MiB", flush=True)


def killed(store, arguments, folder):
    n = arguments.bytes
    options = ("--model-control-mode=explicit", f"--repository-cache-directory={folder / 'cache'}")
    server = serve(store, "large", *options)
    threading.Thread(target=lambda: try_post(server), daemon=True).start()
    parts = []
    while sum(parts) < n // 2:
        time.sleep(0.02)
        parts = [path.stat().st_blocks * 512 for path in (folder / "cache").glob("*.part")]
    server.process.kill()
    server.process.wait()
    done = sum(path.read_bytes()[96:].count(1) for path in (folder / "cache").glob("*.pieces"))
    log = store.folder / "proxy.log"
    before = received(store)
    server = serve(store, "large", *options)
    assert post(server, "load", "m").status_code == 200, server.text()
    server.stop()
    fetched = received(store) - before
    print(f"killed at {done * 8} of {n >> 20} MiB: the next server fetched {fetched >> 20} MiB "
          f"({log.name})", flush=True)


def received(store):
    """Bytes that the object server sent, by its log of requests."""
    total = 0
    for line in (store.folder / "object.log").read_text().splitlines():
        match = re.search(r'"GET [^"]+" 20[06] (\d+)', line)
        total += int(match[1]) if match else 0
    return total


def try_post(server):
    try:
        post(server, "load", "m")
    except OSError:
        pass


def many_models(arguments):
    with ObjectServer() as store:
        for i in range(arguments.models):
            store.put_model("models", f"model{i:05}", {"config.pbtxt": CONFIG, "1/weights": "x"})
        begin = time.monotonic()
        server = serve(store, "models", "--model-control-mode=poll", "--repository-poll-secs=3600")
        start = time.monotonic() - begin
        pid, n_start = server.process.pid, len(store.requests)
        server.stop()
        store.requests.clear()
        server = serve(store, "models", "--model-control-mode=poll", "--repository-poll-secs=1")
        pid = server.process.pid
        n, cpu, begin = store.listings(), cpu_seconds(pid), time.monotonic()
        while store.listings() < n + 10 * pages(arguments.models):
            time.sleep(0.05)
        polls = (store.listings() - n) / pages(arguments.models)
        used = cpu_seconds(pid) - cpu
        print(f"{arguments.models} models: start {start:.1f} s with {n_start} requests; a poll: "
              f"{pages(arguments.models)} requests, {1000 * used / polls:.1f} ms of CPU "
              f"({polls:.0f} polls in {time.monotonic() - begin:.1f} s)", flush=True)
        server.stop()


def pages(n):
    return (2 * n + 999) // 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=8)
    arguments = parser.parse_args()
    os.environ.update(AWS_ACCESS_KEY_ID=Swift.key_id, AWS_SECRET_ACCESS_KEY=Swift.secret,
                      AWS_DEFAULT_REGION=REGION, AWS_EC2_METADATA_DISABLED="true")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "swift").mkdir()
        many_models(arguments)
        with Swift(folder / "swift") as store:
            large_model(store, arguments, folder)
            killed(store, arguments, folder)


if __name__ == "__main__":
    main()
