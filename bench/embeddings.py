#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What dynamic batching does for embeddings: texts a second over /v1/embeddings, of the example "embedder".

  bench/embeddings.py [--build=build] [--clients=64] [--turns=5]

The same chain (a step in Python, an ONNX network) with dynamic batching, and with its lines taken out. The servers take
turns, and each line has the medians: one text in a request, and eight.
"""
import argparse
import contextlib
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))
import make_models  # noqa: E402  pylint: disable=wrong-import-position


def make_repository(folder, batches):
    make_models.make_embedder(folder)
    source = ROOT / "examples" / "python_models" / "text_bytes"
    (folder / "text_bytes" / "1").mkdir(parents=True)
    for name in ("config.pbtxt", "1/model.py"):
        (folder / "text_bytes" / name).write_text((source / name).read_text())
    for name in () if batches else ("text_bytes", "text_network"):
        config = folder / name / "config.pbtxt"
        config.write_text(config.read_text().replace("dynamic_batching { }\n", ""))


def serve(build, folder):
    ports = folder / "ports"
    server = subprocess.Popen([build / "neso", "serve", f"--model-repository={folder}", "--http-port=0",
                               f"--backend-directory={build / 'backends'}",
                               f"--backend-config=python,python-path={sys.executable}", "--allow-grpc=false",
                               "--allow-metrics=false", f"--port-file={ports}", "--log-info=false"])
    while not ports.exists() or "http=" not in ports.read_text():
        if server.poll() is not None:
            sys.exit("the server did not start")
        time.sleep(0.02)
    return server, int(re.search(r"http=(\d+)", ports.read_text()).group(1))


def measure(build, port, clients, texts):
    """(texts a second, p50 of a request in ms, texts of an execution)."""
    ended = subprocess.run([build / "neso", "bench", "-u", f"127.0.0.1:{port}", "-m", "embedder", "--endpoint",
                            "embeddings", "-b", str(texts), "--prompt-tokens", "12,4", "--distinct", "256",
                            "--concurrency-range", str(clients), "-p", "2000", "-r", "3", "-s", "1000", "--json"],
                           capture_output=True, check=True)
    [load] = json.loads(ended.stdout)["loads"]
    assert load["failed"] == 0, load
    return load["rate"], load["latency_us"]["p50"] / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--clients", default=64, type=int)
    parser.add_argument("--turns", default=5, type=int)
    options = parser.parse_args()
    build = options.build.resolve()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        ports = []
        for batches in (True, False):
            folder = pathlib.Path(name) / str(batches)
            folder.mkdir()
            make_repository(folder, batches)
            server, port = serve(build, folder)
            stack.callback(server.wait)
            stack.callback(server.terminate)
            ports.append(port)
        print(f"{options.clients} clients {'texts/s':>22} {'p50 ms':>8} {'without batching':>18} {'p50 ms':>8} {'ratio':>7}")
        for texts in (1, 8):
            rows = [[measure(build, port, options.clients, texts) for port in ports] for _ in range(options.turns)]
            (rate, p50), (other, other_p50) = ([statistics.median(column) for column in zip(*side)]
                                               for side in zip(*rows))
            ratio = statistics.median(a[0] / b[0] for a, b in rows)
            print(f"{texts} texts a request {rate:17.0f} {p50:8.2f} {other:18.0f} {other_p50:8.2f} {ratio:7.2f}", flush=True)


if __name__ == "__main__":
    main()
