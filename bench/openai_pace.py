#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a client that reads nothing costs the other streams of the OpenAI API.

  bench/openai_pace.py [--build=build] [--streams=32] [--turns=40] [--every-us=20000]

Two servers with a model that computes nothing stream to `neso bench` at the same time, which measures the gaps between
the pieces of each stream. One of the two, in turns, has a stream less, and instead a connection that has asked for far
more tokens than it takes and reads nothing. Other processes of the machine disturb both alike and at the same moment,
so the median of the turns' ratios says what the stopped reader costs, where single figures do not: each line has the
medians, and the quartiles of the ratios. Paced streams have a token each so many microseconds, and the p99 of the gaps
counts; fast ones are as fast as the server can, and the mean counts, since most gaps are within one read. The aim: a
p99 of at most 1.2 of that without.
"""
import argparse
import contextlib
import json
import pathlib
import socket
import statistics
import subprocess
import tempfile

from openai_front import serve


def start_reading(options, port, streams, prompts):
    return subprocess.Popen([options.build / "neso", "bench", "-u", f"127.0.0.1:{port}", "-m", "text", "--endpoint",
                             "completions", "--prompts", prompts, "--concurrency-range", str(streams),
                             "--request-count", str(streams), "--json"], stdout=subprocess.PIPE)


def gap_of(reader, figure, expected):
    """Microseconds between two pieces."""
    [load] = json.loads(reader.communicate()[0])["loads"]
    assert load["responses"] == expected, load
    return load["language"]["between_chunks_us"][figure]


def stop_reading(port):
    body = json.dumps({"model": "text", "prompt": "100000000", "stream": True})
    link = socket.create_connection(("127.0.0.1", port))
    link.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    assert link.recv(12) == b"HTTP/1.1 200"
    return link


def turn(options, ports, prompts, figure, tokens):
    """(gap without, gap with a stopped reader, which the second port has)."""
    link = stop_reading(ports[1])
    readers = [start_reading(options, port, options.streams - k, prompts) for k, port in enumerate(ports)]
    found = [gap_of(reader, figure, (options.streams - k) * tokens) for k, reader in enumerate(readers)]
    link.close()
    return found


def measure(options, ports, prompt, figure, folder):
    prompts = folder / "prompts"
    prompts.write_text(f"{prompt}\n")
    rows = [turn(options, ports if k % 2 else ports[::-1], prompts, figure, int(prompt.split()[0]))
            for k in range(options.turns)]
    low, middle, high = statistics.quantiles([b / a for a, b in rows], n=4)
    without, with_one = [statistics.median(column) for column in zip(*rows)]
    print(f"{prompt:12} {figure:4} {without:10.1f} {with_one:12.1f} {middle:8.2f} ({low:.2f} to {high:.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--streams", default=32, type=int)
    parser.add_argument("--turns", default=40, type=int)
    parser.add_argument("--every-us", default=20000, type=int)
    options = parser.parse_args()
    options.build = options.build.resolve()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder, ports = pathlib.Path(name), []
        for which in ("one", "other"):
            (folder / which).mkdir()
            server, port = serve(options.build, folder / which)
            stack.callback(server.wait)
            stack.callback(server.terminate)
            ports.append(port)
        print(f"{'':17} {'gaps':>10} {'with one that':>13} {'ratio':>7} (quartiles)")
        print(f"{'prompt':17} {'us':>10} {'reads nothing':>13}")
        measure(options, ports, f"100 {options.every_us}", "p99", folder)
        measure(options, ports, "3000", "mean", folder)


if __name__ == "__main__":
    main()
