#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What calls within a model in Python cost: strings that are serialised, lines of the log.

  bench/python_inside.py [--build=build] [--python=/usr/bin/python3]

The model measures itself, in one execution; medians of 20 rounds. Beside strings there is what a loop
over the elements in Python takes.
"""
import argparse
import json
import os
import tempfile
import threading
import urllib.request

from run import ROOT, Neso

CONFIG = """backend: "python"
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "SECONDS" data_type: TYPE_FP64 dims: [ 3 ] }
"""
PROGRAM = """
import statistics
import struct
import time
import numpy as np
import triton_python_backend_utils as pb_utils

STRINGS = np.array([b"string %d" % i for i in range(10 ** 4)], dtype=np.object_)


def one_by_one():
    parts = []
    for element in np.nditer(STRINGS, flags=["refs_ok"], order="C"):
        parts.append(struct.pack("<I", len(element.item())))
        parts.append(element.item())
    return b"".join(parts)


def log():
    for i in range(1000):
        pb_utils.Logger.log_info("a line")


def seconds(function):
    rounds = []
    for _ in range(20):
        begin = time.perf_counter()
        function()
        rounds.append(time.perf_counter() - begin)
    return statistics.median(rounds)


class TritonPythonModel:
    def execute(self, requests):
        figures = [seconds(one_by_one), seconds(lambda: pb_utils.serialize_byte_tensor(STRINGS)),
                   seconds(log)]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SECONDS", np.array(figures))])
                for _ in requests]
"""


def read_all(stream):
    """The log, of which no line must wait."""
    try:
        for _ in stream:
            pass
    except ValueError:
        pass  # closed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--python", default="/usr/bin/python3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/m/1")
        for path, text in (("m/1/model.py", PROGRAM), ("m/config.pbtxt", CONFIG)):
            with open(os.path.join(folder, path), "w", encoding="ascii") as file:
                file.write(text)
        body = json.dumps({"inputs": [{"name": "X", "datatype": "INT32", "shape": [1],
                                       "data": [0]}]}).encode()
        with Neso(options.build, folder, "--backend-directory",
                  os.path.join(options.build, "backends"),
                  f"--backend-config=python,python-path={options.python}") as server:
            threading.Thread(target=read_all, args=(server.process.stderr,), daemon=True).start()
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v2/models/m/infer", body,
                                        timeout=60) as reply:
                loop, ours, log = json.load(reply)["outputs"][0]["data"]
    print(f"10000 strings: {1e3 * ours:.2f} ms, {loop / ours:.1f} times as fast as a loop in Python")
    print(f"1000 lines of the log: {1e3 * log:.2f} ms")


if __name__ == "__main__":
    main()
