# SPDX-License-Identifier: BSD-3-Clause
"""What the measurements of batching share: a server, load in short turns, figures that are kept.

The machine may be busy: those that are compared take turns in short slices, and medians over the slices
count. Figures are kept in bench/figures, from which bench/batching_plot.py draws the plots of the
documentation and prints its tables.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIGURES = os.path.join(ROOT, "bench", "figures")
BUILD = os.path.join(ROOT, "build")
KEYS = ("mean_ms", "p50_ms", "p99_ms", "rate", "batch", "cpu_us")


class Server:
    """One loop; server and clients share the machine's cores as they like."""

    def __init__(self, build, repository, *options):
        self.build = build
        self.command = [os.path.join(build, "neso"), "serve", "--model-repository", repository,
                        "--backend-directory", os.path.join(build, "backends"),
                        "--http-address", "127.0.0.1", "--http-port", "0", "--allow-grpc=false",
                        "--allow-metrics=false", "--http-thread-count", "1", *options]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        log = []
        for line in self.process.stdout:
            log.append(line)
            match = re.search(r"HTTPService at [^:]*:(\d+)", line)
            if match:
                self.port = match[1]
                return self
        sys.exit("the server did not start:\n" + "".join(log))

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def executions(self, model):
        """(rows, executions) so far."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/models/{model}/stats") as reply:
            stats = json.load(reply)["model_stats"][0]
        return stats["inference_count"], stats["execution_count"]

    def cpu_us(self):
        """CPU time of all its threads so far."""
        folder, total_ns = f"/proc/{self.process.pid}/task", 0
        for thread in os.listdir(folder):
            with open(os.path.join(folder, thread, "schedstat")) as file:
                total_ns += int(file.read().split()[0])
        return total_ns / 1e3

    def _load(self, program, model, body, *arguments):
        rows, executions = self.executions(model)
        cpu_us = self.cpu_us()
        command = [os.path.join(self.build, "bench", program), self.port,
                   f"/v2/models/{model}/infer", body, *map(str, arguments)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        cpu_us = self.cpu_us() - cpu_us
        seen = json.loads(ended.stdout)
        now_rows, now_executions = self.executions(model)
        seen["batch"] = (now_rows - rows) / max(now_executions - executions, 1)
        seen["cpu_us"] = cpu_us / max(now_rows - rows, 1)
        return seen

    def closed_loop(self, model, body, clients, seconds):
        """Clients that send again at once."""
        return self._load("closed_loop", model, body, clients, seconds)

    def open_loop(self, model, body, rate, seconds, seed):
        """Requests that arrive by themselves, at random."""
        return self._load("open_loop", model, body, rate, seconds, seed)


def write(folder, path, content):
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def take_turns(rows, columns, rounds, measure):
    """{row: {column: medians over the rounds}} of measure(row, column, round)."""
    seen = {row: {column: [] for column in columns} for row in rows}
    for number in range(rounds):
        for column in columns:
            for row in rows:
                seen[row][column].append(measure(row, column, number))
    return {str(row): {str(column): {key: statistics.median(one[key] for one in slices)
                                     for key in KEYS}
                       for column, slices in cells.items()} for row, cells in seen.items()}


def keep(name, title, columns, cells, arguments):
    """Prints the figures; writes them, when asked to."""
    figures = {"title": title, "rounds": arguments.rounds, "seconds": arguments.seconds,
               "columns": [str(column) for column in columns], "cells": cells}
    print_tables(figures)
    if arguments.keep:
        os.makedirs(FIGURES, exist_ok=True)
        with open(os.path.join(FIGURES, name + ".json"), "w", encoding="ascii") as file:
            json.dump(figures, file, indent=1)
            file.write("\n")
    return figures


TABLES = (("mean_ms", "mean latency, ms", "{:.2f}"), ("p50_ms", "p50, ms", "{:.2f}"),
          ("p99_ms", "p99, ms", "{:.2f}"), ("rate", "requests/s", "{:.0f}"),
          ("batch", "mean batch", "{:.2f}"), ("cpu_us", "CPU time of the server, us", "{:.1f}"))


def print_table(figures, key, title, form):
    columns = figures["columns"]
    print(f"\n| {title} | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row, cells in figures["cells"].items():
        print(f"| `{row}` | " + " | ".join(form.format(cells[column][key]) for column in columns) + " |")


def print_tables(figures):
    print("## " + figures["title"])
    for table in TABLES:
        print_table(figures, *table)
    sys.stdout.flush()


def print_ratio(figures, key, title, row, against):
    """row / against in each column."""
    cells, columns = figures["cells"], figures["columns"]
    print(f"\n| {title} | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    print(f"| `{row}` / `{against}` | " +
          " | ".join(f"{cells[row][c][key] / cells[against][c][key]:.2f}" for c in columns) + " |")


def add_arguments(parser, rounds, seconds):
    parser.add_argument("--build", default=BUILD)
    parser.add_argument("--rounds", type=int, default=rounds, help="turns of each, default %(default)s")
    parser.add_argument("--seconds", type=float, default=seconds, help="of a turn, default %(default)s")
    parser.add_argument("--keep", action="store_true", help="write the figures to bench/figures")
