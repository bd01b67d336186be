# SPDX-License-Identifier: BSD-3-Clause
"""A scheduler built outside of the tree against an installation: examples/scheduler, earliest deadline
first. What is more urgent runs first, whenever it came."""
import concurrent.futures

import pytest
import requests

from conftest import BUILD, Server, write_repository
from gate import Gate, gated
from installation import EXAMPLES, build_example, install
from scrape import metric, wait_for_pending

CONFIG = """\
backend: "testing"
max_batch_size: 2
input { name: "INPUT0" data_type: TYPE_FP32 dims: [4] }
output { name: "BATCH_ROWS" data_type: TYPE_INT32 dims: [1] }
instance_group { count: 1 kind: KIND_CPU }
parameters { key: "scheduler" value { string_value: "edf" } }
dynamic_batching {
  default_queue_policy { default_timeout_microseconds: 900000000 allow_timeout_override: true }
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    prefix = install(tmp_path_factory.mktemp("installed"))
    return build_example("scheduler", prefix, tmp_path_factory.mktemp("scheduler"))


def ask(server, name, rows, seconds=None):
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [rows, 4],
                        "data": [0.0] * (4 * rows)}]}
    if seconds is not None:
        body["parameters"] = {"timeout": round(seconds * 1e6)}
    reply = requests.post(f"{server.url}/v2/models/{name}/infer", timeout=60, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()["outputs"][0]["data"][0]


def test_most_urgent_first(built, tmp_path):
    write_repository(tmp_path, {"m": gated(CONFIG)})
    server = Server(tmp_path, [f"--scheduler-directory={built}"])
    # (rows, seconds that it may wait): those of two rows fill a batch alone.
    asked = [(2, None), (2, 800), (2, 600), (1, 500), (2, 700), (1, 850)]
    order = [{3, 5}, {2}, {4}, {1}, {0}]
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool, Gate(server, "m") as gate:
            first = pool.submit(ask, server, "m", 1)
            gate.wait()
            waiting = {}
            for i, (rows, seconds) in enumerate(asked):
                waiting[pool.submit(ask, server, "m", rows, seconds)] = i
                wait_for_pending(server, "m", i + 1)
            gate.open()
            assert first.result(60) == 1
            for expected in order:
                gate.wait()
                gate.open()
                ended = {future for future in waiting if waiting[future] in expected}
                assert not concurrent.futures.wait(ended, 60).not_done
                assert {waiting[future] for future in waiting if future.done()} == expected
                for future in ended:
                    assert future.result() == 2
                    del waiting[future]
            assert not waiting
        assert metric(server, "neso_scheduler_error", "m") == 0
        assert metric(server, "neso_scheduler_stall", "m") == 0
    finally:
        code = server.stop()
    assert code == 0, server.text()


def test_its_model(built):
    server = Server(EXAMPLES / "scheduler" / "models", [f"--scheduler-directory={built}"])
    try:
        reply = requests.post(f"{server.url}/v2/models/urgent/infer", timeout=60, json={
            "parameters": {"timeout": 30000000},
            "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 4],
                        "data": [1, 2, 3, 4]}]})
        assert reply.status_code == 200, reply.text
        assert reply.json()["outputs"][0]["data"] == [1, 2, 3, 4]
        assert metric(server, "neso_scheduler_error", "urgent") == 0
    finally:
        assert server.stop() == 0, server.text()


def test_program_of_the_trial(built, tmp_path):
    """It is installed beside the library of the server: the server of this build finds its own."""
    found = list(built.parents[1].glob("**/lib/neso/neso_scheduler_trial"))
    found += list(built.parents[1].glob("installed*/**/neso_scheduler_trial"))
    assert found and (BUILD / "schedulers" / "trial" / "neso_scheduler_trial").exists()
