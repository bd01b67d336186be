#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Adaptive batching, in turns: off, idle and flow.

  bench/adaptive.py [--keep]            1 to 10 clients that send again at once; 2 minutes
  bench/adaptive.py --poisson [--keep]  requests that arrive by themselves, 0.1 to 0.9 of what the
                                        instance can execute; 3 minutes

One instance, max_batch_size 4, a queue delay of 10 ms; an execution takes 0.25 ms (1 ms with --poisson)
whatever its size: the testing backend waits for the clock.
"""
import argparse
import os
import tempfile

from batching_lab import Server, add_arguments, keep, print_ratio, take_turns, write

MODES = ("off", "idle", "flow")
CLIENTS = (1, 2, 3, 4, 5, 10)
LOADS = tuple(f"0.{i}" for i in range(1, 10))
MAX_BATCH = 4
POISSON_EXECUTION_US = 1000
CONFIG = """\
backend: "testing" max_batch_size: %d
input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { max_queue_delay_microseconds: 10000 }
parameters { key: "execute_us" value { string_value: "%d" } }
parameters { key: "adaptive_batching" value { string_value: "%s" } }
"""
BODY = '{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"INT32","data":[1]}]}'


def opens_server(arguments, folder, execute_us):
    for mode in MODES:
        write(folder, f"models/{mode}/config.pbtxt", CONFIG % (MAX_BATCH, execute_us, mode))
        os.makedirs(os.path.join(folder, "models", mode, "1"))
    write(folder, "body", BODY)
    return Server(arguments.build, os.path.join(folder, "models"))


def closed_loops(arguments, folder):
    body = os.path.join(folder, "body")
    with opens_server(arguments, folder, 250) as server:
        cells = take_turns(MODES, CLIENTS, arguments.rounds, lambda mode, clients, _:
                           server.closed_loop(mode, body, clients, arguments.seconds))
    figures = keep("adaptive", "Adaptive batching: [1,4], delay 10 ms, execution 0.25 ms; clients",
                   CLIENTS, cells, arguments)
    print_ratio(figures, "p50_ms", "p50", "flow", "off")
    print_ratio(figures, "rate", "requests/s", "flow", "off")


def open_loops(arguments, folder):
    """All modes of a round get the same arrivals."""
    body = os.path.join(folder, "body")
    capacity = MAX_BATCH * 1e6 / POISSON_EXECUTION_US
    with opens_server(arguments, folder, POISSON_EXECUTION_US) as server:
        cells = take_turns(MODES, LOADS, arguments.rounds, lambda mode, load, number: server.open_loop(
            mode, body, float(load) * capacity, arguments.seconds, number + 1))
    figures = keep("poisson", "Poisson arrivals: [1,4], delay 10 ms, execution 1 ms; load as a part of "
                   f"{capacity:.0f} rows/s", LOADS, cells, arguments)
    for other in ("off", "idle"):
        print_ratio(figures, "p99_ms", "p99", "flow", other)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poisson", action="store_true")
    add_arguments(parser, None, None)
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (5 if arguments.poisson else 12)
    arguments.seconds = arguments.seconds or (1 if arguments.poisson else 0.3)
    with tempfile.TemporaryDirectory() as folder:
        (open_loops if arguments.poisson else closed_loops)(arguments, folder)


if __name__ == "__main__":
    main()
