#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The llamacpp backend beside llama.cpp's own server: rates, CPU time for a token, time to the first token.

  bench/llama_server.py --server=COMMAND --library=FILE [--python=FILE] [--folder=DIR] [--build=build]
                        [--turns=5] [--seconds=2] [--small]

COMMAND starts llama-server without its options, and may be several words, such as a loader and its library path;
DIR is the folder to start it in, from which it loads its compute libraries. FILE is the libllama.so of the same
version. Both serve the same random model of tests/llama/tiny_gguf.py (nano: 27 000 parameters; --small: 115 000)
with 8 slots, one thread and no prompt cache. wrk sends prompts of 23 characters with 16 new tokens, greedy, over
connections that stay open; the servers take turns. Then a client sends prompts of about 4 000 tokens one after
another, and another one measures how long a short prompt waits for its first token.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "llama"))
import tiny_gguf  # noqa: E402

CONFIG = """backend: "llamacpp"
parameters { key: "slots" value { string_value: "8" } }
parameters { key: "threads" value { string_value: "1" } }
parameters { key: "prompt_cache" value { string_value: "off" } }
"""
SCRIPT = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = os.getenv("BODY")
"""
N_NEW, N_SHORT = 16, 150
PORT, THEIR_PORT = 18123, 18130


def wait_for(url):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=1)
            return
        time.sleep(0.1)
    sys.exit(f"{url} does not answer")


def family(pid):
    """The process and those that its threads have started."""
    children = [child for listing in pathlib.Path(f"/proc/{pid}/task").glob("*/children")
                for child in listing.read_text().split()]
    return [pid] + [one for child in children for one in family(int(child))]


def cpu_seconds(pids):
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def both(options, shape, context):
    """Yields {name: (port, process)} of the two servers."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "models" / "tiny" / "1").mkdir(parents=True)
        model = folder / "models" / "tiny" / "1" / "model.gguf"
        tiny_gguf.write(str(model), shape, context=context)
        (folder / "models" / "tiny" / "config.pbtxt").write_text(CONFIG)
        (folder / "post.lua").write_text(SCRIPT)
        ours = [options.build / "neso", "serve", f"--model-repository={folder / 'models'}", f"--http-port={PORT}",
                "--allow-grpc=false", "--metrics-port=0", f"--backend-config=python,python-path={options.python}",
                "--backend-config=python,stub-timeout-seconds=120",
                f"--backend-config=llamacpp,library={options.library}"]
        theirs = shlex.split(options.server) + ["-m", str(model), "--port", str(THEIR_PORT), "-t", "1", "-np", "8",
                                                "-c", str(8 * context), "--no-ui", "--no-cache-prompt"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        servers = [subprocess.Popen(ours, **quiet), subprocess.Popen(theirs, cwd=options.folder, **quiet)]
        try:
            wait_for(f"http://127.0.0.1:{PORT}/v2/health/ready")
            wait_for(f"http://127.0.0.1:{THEIR_PORT}/health")
            yield folder, {"ours": (PORT, servers[0].pid), "theirs": (THEIR_PORT, servers[1].pid)}
        finally:
            for server in servers:
                server.terminate()
            for server in servers:
                server.wait()


def rate(folder, port, pid, n_clients, stream, seconds):
    """(requests a second, microseconds of CPU for a token)"""
    body = json.dumps({"model": "tiny", "prompt": "Once upon a time there ", "max_tokens": N_NEW, "temperature": 0,
                       "stream": stream})
    pids = family(pid)
    before = cpu_seconds(pids)
    out = subprocess.run(["wrk", "-t1", f"-c{n_clients}", f"-d{seconds}s", "-s", folder / "post.lua",
                          f"http://localhost:{port}/v1/completions"], stdout=subprocess.PIPE, text=True, check=True,
                         env=dict(os.environ, BODY=body)).stdout
    if "Non-2xx" in out:
        sys.exit(out)
    n = int(re.search(r"(\d+) requests in", out)[1])
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]), (cpu_seconds(pids) - before) / n / N_NEW * 1e6


def measure_rates(options):
    with both(options, tiny_gguf.SMALL if options.small else tiny_gguf.NANO, 512) as (folder, servers):
        seen = {}
        for _ in range(options.turns):
            for stream in (False, True):
                for n_clients in (1, 8, 32):
                    for name, (port, pid) in servers.items():
                        seen.setdefault((stream, n_clients, name), []).append(
                            rate(folder, port, pid, n_clients, stream, options.seconds))
    for stream in (False, True):
        for n_clients in (1, 8, 32):
            ours, theirs = seen[stream, n_clients, "ours"], seen[stream, n_clients, "theirs"]
            ratios = [a[0] / b[0] for a, b in zip(ours, theirs)]
            print(f"{'streams' if stream else 'answers'} {n_clients:2} clients: ratio {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f} to {max(ratios):.2f}); ours {statistics.median(r for r, _ in ours):.0f}/s "
                  f"{statistics.median(c for _, c in ours):.0f} us of CPU for a token; theirs "
                  f"{statistics.median(r for r, _ in theirs):.0f}/s {statistics.median(c for _, c in theirs):.0f} us")


def first_token(port, prompt):
    """Seconds until the first line of a stream."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    began = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(
        {"model": "tiny", "prompt": prompt, "max_tokens": 2, "temperature": 0, "stream": True}),
        {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        sys.exit(response.read())
    response.readline()
    seconds = time.perf_counter() - began
    response.read()
    connection.close()
    return seconds


def short_beside_long(port):
    """Milliseconds to the first token of a short prompt, while long ones are read: median and 99th percentile."""
    has_ended = threading.Event()

    def send_long_ones():
        i = 0
        while not has_ended.is_set():
            i += 1
            first_token(port, f"{i:05}" + "abcdefghij " * 363)

    thread = threading.Thread(target=send_long_ones)
    thread.start()
    seen = sorted(first_token(port, f"Hi {i}") for i in range(N_SHORT))
    has_ended.set()
    thread.join()
    return seen[N_SHORT // 2] * 1e3, seen[N_SHORT - N_SHORT // 100 - 1] * 1e3


def measure_first_tokens(options):
    with both(options, tiny_gguf.SMALL, 8192) as (_, servers):
        for _ in range(options.turns):
            seen = {name: short_beside_long(port) for name, (port, _) in servers.items()}
            print("first token of a short prompt beside long ones: "
                  f"p99 ratio {seen['ours'][1] / seen['theirs'][1]:.2f}; "
                  + "; ".join(f"{name} p50 {p50:.0f} ms, p99 {p99:.0f} ms" for name, (p50, p99) in seen.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), default=ROOT / "build")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    measure_rates(options)
    measure_first_tokens(options)


if __name__ == "__main__":
    main()
