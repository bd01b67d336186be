#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The kinds of batching of docs/batching.md under the same load, in turns: 2 minutes.

  bench/batching.py [--keep]

One instance (the composite model: one of two members at a time), max_batch_size 4, an execution of 0.25 ms
whatever its size (the testing backend waits for the clock); 1 to 16 clients that send again at once. The
plug-in is the one of examples/scheduler, compiled here with `cc`.
"""
import argparse
import os
import subprocess
import tempfile

from batching_lab import ROOT, Server, add_arguments, keep, take_turns, write

CLIENTS = (1, 2, 3, 4, 5, 8, 16)
MODEL = """\
backend: "testing" max_batch_size: 4
input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }
parameters { key: "execute_us" value { string_value: "250" } }
"""
ONE = "instance_group { count: 1 kind: KIND_CPU }\n"
DELAY = "dynamic_batching { max_queue_delay_microseconds: 10000 }\n"
KINDS = {
    "default": ONE,
    "dynamic": ONE + "dynamic_batching { }\n",
    "dynamic, 10 ms delay": ONE + DELAY,
    "adaptive": ONE + DELAY +
                'parameters { key: "adaptive_batching" value { string_value: "flow" } }\n',
    "composite 1, 4": DELAY + """\
instance_group [ { name: "b1" count: 1 kind: KIND_CPU }, { name: "b4" count: 1 kind: KIND_CPU } ]
parameters { key: "batch_ranges" value { string_value: "b1:1-1,b4:4-4" } }
parameters { key: "member_concurrency" value { string_value: "exclusive" } }
""",
    "plug-in": ONE + "dynamic_batching { }\n" +
               'parameters { key: "scheduler" value { string_value: "edf" } }\n',
}
BODY = '{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"INT32","data":[1]}]}'


def compile_plugin(folder):
    subprocess.run(["cc", "-std=c17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden",
                    "-I", os.path.join(ROOT, "include"),
                    "-o", os.path.join(folder, "libscheduler_edf.so"),
                    os.path.join(ROOT, "examples", "scheduler", "edf.c")], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, 5, 0.3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = {kind: f"m{i}" for i, kind in enumerate(KINDS)}
        for kind, model in models.items():
            write(folder, f"models/{model}/config.pbtxt", MODEL + KINDS[kind])
            os.makedirs(os.path.join(folder, "models", model, "1"))
        write(folder, "body", BODY)
        compile_plugin(folder)
        with Server(arguments.build, os.path.join(folder, "models"),
                    "--scheduler-directory", folder) as server:
            cells = take_turns(KINDS, CLIENTS, arguments.rounds, lambda kind, clients, _:
                               server.closed_loop(models[kind], os.path.join(folder, "body"),
                                                  clients, arguments.seconds))
    keep("kinds", "Kinds of batching: up to 4 rows, execution 0.25 ms; clients", CLIENTS, cells,
         arguments)


if __name__ == "__main__":
    main()
