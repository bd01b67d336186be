# SPDX-License-Identifier: BSD-3-Clause
"""Models of the testing backend that stop in each execution until a test lets them go on.

`gated()` is what makes a model one; `Gate` is the test's side of its two pipes.
"""
import select

from conftest import FIFO, patience

PARAMETERS = ('parameters { key: "gate_fifo" value { string_value: "gate" } }\n'
              'parameters { key: "reached_fifo" value { string_value: "reached" } }\n')


def gated(config):
    """The files of a model with this configuration."""
    return {"config.pbtxt": config + PARAMETERS, "gate": FIFO, "reached": FIFO}


class Gate:
    def __init__(self, server, model):
        folder = server.repository / model
        # The backend holds both ends, so neither open() waits.
        self._gate = open(folder / "gate", "wb", buffering=0)
        self._reached = open(folder / "reached", "rb", buffering=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._gate.close()
        self._reached.close()

    def wait(self, n=1, seconds=20):
        """Until n more executions stand at the gate."""
        for _ in range(n):
            ready, _, _ = select.select([self._reached], [], [], patience(seconds))
            assert ready, "no execution came to the gate"
            assert self._reached.read(1) == b"r"

    def is_reached(self, seconds=0):
        """Whether another execution stands there, now or within that time."""
        return bool(select.select([self._reached], [], [], seconds)[0])

    def open(self, n=1):
        self._gate.write(b"g" * n)


def first_at(gates, seconds=20):
    """The key of the gate at which an execution stands; taken note of, as by wait()."""
    pipes = {gate._reached: key for key, gate in gates.items()}
    ready, _, _ = select.select(list(pipes), [], [], patience(seconds))
    assert ready, "no execution came to a gate"
    assert ready[0].read(1) == b"r"
    return pipes[ready[0]]
