# SPDX-License-Identifier: BSD-3-Clause
"""Adaptive batching as clients see it: batches that run before their queue delay is over.

When exactly they do is tested on a fake clock (tests/unit/sched/test_adaptive.c). The numbers in the names of
tests are those of the acceptance checks.
"""
import concurrent.futures
import subprocess
import time

from conftest import BUILD, Server, write_repository
from gate import Gate
from models import opens_server
from scrape import metric, wait_for_pending
from test_dynamic_batching import (BACKENDS, Crowd, batching, dynamic, gated, infer, outputs,
                                   parameter)

__all__ = ["BACKENDS"]
LONG = "max_queue_delay_microseconds: 30000000"
FLOW = parameter("adaptive_batching", "flow")
LONGER_THAN_ANY_EXECUTION = 20

MODELS = {
    "flow": batching(dynamic(LONG) + FLOW, max_batch_size=4),
    "idle": batching(dynamic(LONG) + parameter("adaptive_batching", "idle"), max_batch_size=4),
    "gated": gated(batching(dynamic(LONG) + FLOW, max_batch_size=8)),
}


def seconds_of(server, model):
    start = time.monotonic()
    assert outputs(infer(server, model, [7]))["OUTPUT0"] == [7]
    return time.monotonic() - start


def test_46_a_lone_request_does_not_wait(server):
    for model in ("flow", "idle"):
        for _ in range(3):
            assert seconds_of(server, model) < LONGER_THAN_ANY_EXECUTION


def test_those_that_came_meanwhile_run_together(server):
    with Gate(server, "gated") as gate, Crowd(server, "gated") as crowd:
        first = crowd.send([1])
        gate.wait()
        waiting = [crowd.queue([n]) for n in (2, 3, 4)]
        gate.open(2)
        assert outputs(first.result())["BATCH_ROWS"] == [1]
        for n, sent in zip((2, 3, 4), waiting):
            answer = outputs(sent.result())
            assert (answer["OUTPUT0"], answer["BATCH_ROWS"]) == ([n], [3])


def test_49_batches_of_one_do_not_wait(tmp_path):
    """Whatever the delay; of a model of members of one row as well."""
    one_row = (batching(dynamic(LONG), max_batch_size=1)
               + 'instance_group { name: "b1" kind: KIND_CPU }\n' + parameter("batch_ranges", "b1:1-1"))
    models = {"plain": batching(dynamic(LONG), max_batch_size=1), "members": one_row,
              "off": one_row + parameter("adaptive_batching", "off")}
    with opens_server(tmp_path / "models", models) as server:
        for model in models:
            for _ in range(3):
                assert seconds_of(server, model) < LONGER_THAN_ANY_EXECUTION


def test_47_batches_of_a_crowd_are_full(tmp_path):
    """Eighty requests wait while one executes; how clients in closed loops fill batches is tested on the
    fake clock."""
    config = batching(dynamic(LONG) + FLOW, max_batch_size=4)
    with opens_server(tmp_path / "models", {"m": gated(config)}) as server:
        with Gate(server, "m") as gate, concurrent.futures.ThreadPoolExecutor(81) as pool:
            first = pool.submit(infer, server, "m", [7])
            gate.wait()
            rest = [pool.submit(infer, server, "m", [7]) for _ in range(80)]
            wait_for_pending(server, "m", 80)
            gate.open(21)
            assert [outputs(one.result())["BATCH_ROWS"] for one in [first, *rest]] == [[1]] + [[4]] * 80
        ran = {reason: metric(server, "neso_batch_dispatch_reason", "m", reason=reason)
               for reason in ("full", "flow", "idle", "due", "drain")}
        assert ran == {"full": 20, "flow": 1, "idle": 0, "due": 0, "drain": 0}


def test_the_server_says_it_for_all_and_a_model_for_itself(tmp_path):
    models = {"plain": batching(dynamic(LONG), max_batch_size=4),
              "off": batching(dynamic("max_queue_delay_microseconds: 1500000")
                              + parameter("adaptive_batching", "off"), max_batch_size=4)}
    with opens_server(tmp_path / "models", models, "--adaptive-batching=flow") as server:
        assert seconds_of(server, "plain") < LONGER_THAN_ANY_EXECUTION
        assert seconds_of(server, "off") >= 1.5


def test_48_plain_models_keep_their_delay(tmp_path):
    models = {"plain": batching(dynamic("max_queue_delay_microseconds: 1500000"), max_batch_size=4)}
    with opens_server(tmp_path / "models", models) as server:
        assert seconds_of(server, "plain") >= 1.5


def test_an_unknown_mode(tmp_path):
    write_repository(tmp_path, {})
    ended = subprocess.run([BUILD / "neso", "serve", f"--model-repository={tmp_path}",
                            "--adaptive-batching=on"], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert b"adaptive batching must be 'off', 'idle' or 'flow', got 'on'" in ended.stderr


def test_a_model_with_an_unknown_mode_is_not_loaded(tmp_path):
    write_repository(tmp_path, {"wrong": batching(dynamic(LONG)
                                                  + parameter("adaptive_batching", "fast"))})
    server = Server(tmp_path, ("--exit-on-error=false",))
    try:
        assert ("parameter 'adaptive_batching' of model 'wrong' must be 'off', 'idle' or 'flow', "
                "got 'fast'") in server.text()
    finally:
        assert server.stop() == 0
