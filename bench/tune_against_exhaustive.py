#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`neso tune` against a search through the whole grid: how good is what it finds, and how long does it take?

  bench/tune_against_exhaustive.py [--models=digits,convolution] [--window=150] [--pairs=15] [--objective=rate]

For each model a server, `neso tune`, and `neso tune --exhaustive` with the same grid, load, budget and windows.
The best --finalists of the exhaustive search are measured again, in turns, since the best of hundreds of short
measurements is partly luck; the best of these is what the tuner's choice is compared with, also in turns. Prints
for each model the times, and the median of the pairs' ratios with quartiles. The aim is a ratio of 0.95 in a
tenth of the time, and the choice within the budget. Needs Python's onnx.

Rates mean nothing on a machine with other work. There, --objective=rate-per-cpu --budget=5000 says whether the search
finds what is cheapest, which depends less on the others.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import batching_lab
import composite

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONVOLUTION = """\
backend: "onnxruntime" max_batch_size: 32
input { name: "X" data_type: TYPE_FP32 dims: [ 1, 16, 16 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 16, 1, 1 ] }
instance_group { count: 1 kind: KIND_CPU }
"""
# Milliseconds; the budgets leave each of the grid's delays a chance.
BUDGETS = {"digits": 20, "convolution": 40}
CLIENTS = 16
AIM, AIM_TIME = 0.95, 0.1


def write_models(folder):
    shutil.copytree(os.path.join(ROOT, "examples", "models", "digits"), os.path.join(folder, "digits"))
    os.makedirs(os.path.join(folder, "convolution", "1"))
    with open(os.path.join(folder, "convolution", "config.pbtxt"), "w", encoding="utf-8") as file:
        file.write(CONVOLUTION)
    with open(os.path.join(folder, "convolution", "1", "model.onnx"), "wb") as file:
        file.write(composite.onnx_file("convolution", None))


class Lab:
    """A server with one model, and programs that load it."""

    def __init__(self, arguments, model, server):
        self.neso, self.model, self.window = os.path.join(arguments.build, "neso"), model, arguments.window
        self.objective, self.budget = arguments.objective, arguments.budget or BUDGETS[model]
        self.place = f"127.0.0.1:{server.port}"

    def program(self, *arguments):
        ended = subprocess.run([self.neso, *arguments, "-u", self.place, "--json"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, check=True)
        return json.loads(ended.stdout)

    def tune(self, *more):
        begin = time.monotonic()
        found = self.program("tune", self.model, f"--latency-budget={self.budget}",
                             f"--objective={self.objective}", f"--concurrency-range={CLIENTS}", f"--measurement-interval={self.window}", *more)
        return found["models"][0], time.monotonic() - begin

    def load(self, config):
        body = json.dumps({"parameters": {"config": json.dumps(config)}}).encode()
        urllib.request.urlopen(f"http://{self.place}/v2/repository/models/{self.model}/load", data=body,
                               timeout=60).close()

    def value(self, rate, cpu):
        return rate if self.objective == "rate" else rate / cpu if cpu > 0 else 0

    def measure(self, trial):
        """The value of the objective, and the p99 in milliseconds."""
        self.load(trial["config"])
        [load] = self.program("bench", "-m", self.model, f"--concurrency-range={CLIENTS}",
                              f"--measurement-interval={3 * self.window}", "--max-trials=1")["loads"]
        return self.value(load["rate"], load["server_cpu"]), load["latency_us"]["p99"] / 1e3

    def take_turns(self, trials, turns):
        """A list of measurements for each trial."""
        all_measured = [[] for _ in trials]
        for _ in range(turns):
            for trial, measured in zip(trials, all_measured):
                measured.append(self.measure(trial))
        return all_measured


def best_of_grid(lab, exhaustive, n_finalists):
    within = sorted((trial for trial in exhaustive["tried"] if trial["is_within"]),
                    key=lambda trial: -lab.value(trial["rate"], trial["cpu"]))
    finalists = within[:n_finalists]
    if not finalists:
        sys.exit(f"{lab.model}: nothing of the grid is within the budget")
    values = [statistics.median(value for value, _ in measured) for measured in lab.take_turns(finalists, 3)]
    return finalists[values.index(max(values))]


def compare(lab, arguments):
    tuned, tuned_seconds = lab.tune()
    exhaustive, seconds = lab.tune("--exhaustive")
    best = best_of_grid(lab, exhaustive, arguments.finalists)
    found, reference = lab.take_turns([tuned["best"], best], arguments.pairs)
    ratios = sorted(a[0] / b[0] for a, b in zip(found, reference) if b[0] > 0)
    low, ratio, high = statistics.quantiles(ratios, n=4)
    p99 = statistics.median(latency for _, latency in found)
    share = tuned_seconds / seconds
    print(f"{lab.model}: grid of {len(exhaustive['tried'])} configurations in {seconds:.0f} s: "
          f"{best['configuration']}, {statistics.median(value for value, _ in reference):.0f}")
    print(f"  tune: {len(tuned['tried'])} in {tuned_seconds:.1f} s ({share:.3f} of the time): "
          f"{tuned['best']['configuration']}, {statistics.median(value for value, _ in found):.0f}, "
          f"p99 {p99:.1f} ms of {lab.budget}")
    print(f"  ratio of the {lab.objective} {ratio:.3f} (quartiles {low:.3f} and {high:.3f}, {len(ratios)} pairs)",
          flush=True)
    return ratio >= AIM and share <= AIM_TIME and p99 <= lab.budget


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--models", default="digits,convolution")
    parser.add_argument("--window", type=int, default=150, help="milliseconds")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--objective", choices=("rate", "rate-per-cpu"), default="rate")
    parser.add_argument("--budget", type=float, help="milliseconds, instead of 20 (digits) and 40 (convolution)")
    parser.add_argument("--finalists", type=int, default=5)
    arguments = parser.parse_args()
    is_good = True
    with tempfile.TemporaryDirectory() as folder:
        write_models(folder)
        for model in arguments.models.split(","):
            with batching_lab.Server(arguments.build, folder, "--model-control-mode=explicit",
                                     f"--load-model={model}") as server:
                is_good = compare(Lab(arguments, model, server), arguments) and is_good
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
