#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a model in Python costs, compared with the compiled identity backend.

  bench/python.py [--build=build] [--rounds=3] [--seconds=3] [--python=/usr/bin/python3]

As bench/run.py: the server is pinned to core 0, and its Python processes with it; the load generator to
core 1. Rounds are interleaved, medians are reported (checks 54 to 56 of docs/python_models.md). The compiled backend has a thread of its own
(inline_execution: never), as a model in Python has.
"""
import argparse
import os
import tempfile

from run import ROOT, Neso, binary_request, compare

IO = """input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
"""
PROGRAM = """
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(%s) if %s else None
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", r.inputs()[0].as_numpy())])
                for r in requests]
"""
MODELS = {
    "compiled": ("identity", 'parameters { key: "inline_execution" value { string_value: "never" } }', 0),
    "python": ("python", "", 0),
    "python_one_by_one": ("python",
                          'parameters { key: "PIPELINE_DEPTH" value { string_value: "1" } }', 0),
    "python_batched": ("python", "max_batch_size: 64 dynamic_batching { }", 0),
    "python_10ms": ("python", "instance_group { count: 4 kind: KIND_CPU }", 0.01),
}


def write_repository(folder):
    for name, (backend, config, seconds) in MODELS.items():
        os.makedirs(os.path.join(folder, name, "1"))
        with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="ascii") as file:
            file.write(f'backend: "{backend}"\n{IO}{config}\n')
        if backend == "python":
            with open(os.path.join(folder, name, "1", "model.py"), "w", encoding="ascii") as file:
                file.write(PROGRAM % (seconds, seconds))


def measure(options, folder, names, shape, connections):
    n = 4
    for size in shape:
        n *= size
    rates = {}
    for name in names:
        # With a batcher the first dimension is the batch.
        body, headers = binary_request("INPUT0", ([1] if "batched" in name else []) + shape, bytes(n))
        server = Neso(options.build, folder, "--backend-directory",
                      os.path.join(options.build, "backends"),
                      f"--backend-config=python,python-path={options.python}",
                      "--model-control-mode=explicit", f"--load-model={name}")
        rates[name] = compare(options, body, headers,
                              {name: (server, f"/v2/models/{name}/infer")}, connections)[name]
    return rates


def show(title, rates):
    base = rates.get("compiled")
    print(title)
    for name, rate in rates.items():
        ratio = f"  {rate / base:.2f} of the compiled one" if base else ""
        print(f"  {name:18} {rate:8.0f}/s{ratio}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--python", default="/usr/bin/python3")
    options = parser.parse_args()
    small = ["compiled", "python", "python_one_by_one", "python_batched"]
    with tempfile.TemporaryDirectory() as folder:
        write_repository(folder)
        show("one FP32 value, 16 connections", measure(options, folder, small, [1], 16))
        show("one FP32 value, 1 connection", measure(options, folder, small, [1], 1))
        show("1 MiB in and out, 4 connections", measure(options, folder, small[:2], [1 << 18], 4))
        show("10 ms of sleep, 4 instances, 4 connections (400/s at most)",
             measure(options, folder, ["python_10ms"], [1], 4))


if __name__ == "__main__":
    main()
