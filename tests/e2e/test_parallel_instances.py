# SPDX-License-Identifier: BSD-3-Clause
"""Instances of a model that are made side by side: each stands at a gate until the test has seen both."""
import concurrent.futures
import os
import select

from conftest import FIFO, require_build
from models import EXPLICIT, infer, load, model_text, opens_server

PARAMETERS = {"instance_gate_fifo": "gate", "instance_reached_fifo": "reached"}


def wait_for_byte(reached):
    ready, _, _ = select.select([reached], [], [], 20)
    assert ready, "no further instance is being made"
    assert os.read(reached, 1) == b"r"


def test_two_at_once(tmp_path):
    require_build(("testing",))
    files = {"config.pbtxt": model_text(count=2, parameters=PARAMETERS), "gate": FIFO,
             "reached": FIFO}
    with opens_server(tmp_path, {"m": files}, *EXPLICIT) as server, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        gate, reached = (os.open(tmp_path / "m" / name, os.O_RDWR) for name in ("gate", "reached"))
        loading = pool.submit(load, server, "m")
        for _ in range(2):
            wait_for_byte(reached)
        assert not loading.done()
        os.write(gate, b"gg")
        loading.result(20)
        assert infer(server, "m").status == 200
        os.close(gate)
        os.close(reached)
