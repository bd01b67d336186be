# SPDX-License-Identifier: BSD-3-Clause
"""Ensembles in the repository: how they are loaded, when they are ready, how they go. The texts are those
that a running Triton 2.64 gave."""
import base64
import concurrent.futures
import json
import threading

import pytest
import requests

from chain_models import (adding, ask, ensemble, error, executions, is_ready, load, states,
                          statistics, unload, value)
from conftest import FIFO, require_build
from gate import Gate, gated
from models import EXPLICIT, SECONDS, opens_server, wait_for_index, wait_until, write

POLL = ("--model-control-mode=poll", "--repository-poll-secs=1")
GONE = ("UNAVAILABLE", "unloaded")
READY = ("READY", None)
LINE = (("A", "A_OUT"), ("B", "B_OUT"), ("C", "C_OUT"))


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(("testing",))


def models(**more):
    return {"A": adding(1, out="A_OUT"), "B": adding(10, out="B_OUT"), "C": adding(100, out="C_OUT"),
            "line": ensemble(*LINE), **more}


def not_there(name):
    return 404, f"Request for unknown model: '{name}' has no available versions"


def expect_gone(server, *names):
    """A model that is unloaded is UNLOADING until its instances have ended."""
    wait_until(lambda: all(states(server)[name] == GONE for name in names))


def test_load_brings_the_steps(tmp_path):
    with opens_server(tmp_path, models(), *EXPLICIT) as server:
        assert load(server, "line") == (200, "")
        assert states(server) == {name: READY for name in ("A", "B", "C", "line")}
        assert value(server, "line", 5) == 116


@pytest.mark.parametrize("options", [(), POLL, (*EXPLICIT, "--load-model=a_outer")],
                         ids=["none", "poll", "load-model"])
def test_any_order_of_directories(tmp_path, options):
    """The ensemble's name comes before those of its steps, and its own is a step."""
    repository = models(a_outer=ensemble(("line", "OUT"), ("C", "C_OUT")))
    with opens_server(tmp_path, repository, *options) as server:
        wait_until(lambda: is_ready(server, "a_outer"), lambda: states(server))
        assert value(server, "a_outer", 5) == 216
        assert set(states(server).values()) == {READY}


@pytest.mark.parametrize("options", [EXPLICIT, POLL, ()], ids=["explicit", "poll", "none"])
def test_an_unknown_step(tmp_path, options):
    repository = models(bad=ensemble(("A", "A_OUT"), ("nosuch", "OUT")))
    text = "ensemble bad contains models that are not available or ambiguous: nosuch"
    with opens_server(tmp_path, repository, "--exit-on-error=false", *options) as server:
        if options == EXPLICIT:
            assert load(server, "bad") == (400, f"load failed for model 'bad': {text}\n")
            assert states(server)["A"] == (None, None)
            assert load(server, "line") == (200, "")
        wait_until(lambda: is_ready(server, "line"), lambda: states(server))
        assert states(server)["bad"] == (None, None)
        assert text in server.text()
        assert value(server, "line", 5) == 116
        if options != POLL:
            return
        write(server, "nosuch/1/.keep", "")
        write(server, "nosuch/config.pbtxt", adding(1000))
        wait_until(lambda: is_ready(server, "bad"), lambda: states(server))
        assert value(server, "bad", 5) == 1006


def test_a_step_that_fails_to_load(tmp_path):
    repository = models(B=adding(10, out="B_OUT", fail_load="no luck"))
    with opens_server(tmp_path, repository, *EXPLICIT) as server:
        status, text = load(server, "line")
        assert status == 400
        assert text == ("load failed for model 'line': ensemble 'line' depends on 'B' which has no "
                        "loaded version. Model 'B' loading failed with error: Internal: no luck\n")
        assert states(server)["A"] == READY and states(server)["line"] == (None, None)


def test_a_step_that_does_not_fit(tmp_path):
    repository = models(B=adding(10, out="B_OUT").replace("TYPE_INT32", "TYPE_FP32"))
    with opens_server(tmp_path, repository, *EXPLICIT) as server:
        status, text = load(server, "line")
        assert status == 400 and "in ensemble line" in text and "between_1" in text


def test_cycles(tmp_path):
    repository = {"x": ensemble(("y", "OUT")), "y": ensemble(("x", "OUT")), **models()}
    with opens_server(tmp_path, repository, "--exit-on-error=false") as server:
        assert value(server, "line", 5) == 116
        assert "circular dependency between ensembles: x -> ... -> y -> x" in server.text()
        assert states(server)["x"] == states(server)["y"] == (None, None)


def test_cycles_of_a_request(tmp_path):
    """In the repository, and by a reload of a step that serves."""
    repository = {"x": ensemble(("y", "OUT")), "y": ensemble(("z", "OUT")),
                  "z": ensemble(("x", "OUT")), "self": ensemble(("self", "OUT")), **models()}
    text = "load failed for model '{0}': circular dependency between ensembles: {1}\n"
    with opens_server(tmp_path, repository, *EXPLICIT) as server:
        assert load(server, "x") == (400, text.format("x", "x -> ... -> z -> x"))
        assert load(server, "self") == (400, text.format("self", "self -> ... -> self -> self"))
        write(server, "z/config.pbtxt", ensemble(("line", "OUT")))
        assert load(server, "x") == (200, "")
        assert value(server, "x", 5) == 116
        write(server, "z/config.pbtxt", ensemble(("x", "OUT")))
        assert load(server, "z") == (400, text.format("z", "z -> ... -> y -> z"))
        assert value(server, "x", 5) == 116


def test_a_step_with_files_of_a_request_stays(tmp_path):
    """It was requested, so it was not loaded for the ensemble alone."""
    config = {"backend": "testing", "max_batch_size": 8, "parameters": {"add": {"string_value": "3"}},
              "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [1]}],
              "output": [{"name": "A_OUT", "data_type": "TYPE_INT32", "dims": [1]}]}
    with opens_server(tmp_path, models(), *EXPLICIT) as server:
        assert load(server, "A", config=json.dumps(config),
                    **{"file:1/x": base64.b64encode(b"x").decode()}) == (200, "")
        assert load(server, "line") == (200, "")
        assert value(server, "line", 5) == 118
        assert unload(server, "line", unload_dependents=True) == (200, "")
        expect_gone(server, "line", "B", "C")
        assert states(server)["A"] == READY


DECOUPLED = "model_transaction_policy { decoupled: true }\n"
NOT_DECOUPLED = ("UNAVAILABLE", "the steps of ensemble 'line' are decoupled now, load it again")


def is_decoupled(server, model):
    config = requests.get(f"{server.url}/v2/models/{model}/config", timeout=SECONDS).json()
    return config.get("model_transaction_policy", {}).get("decoupled", False)


def test_a_step_that_becomes_decoupled(tmp_path):
    with opens_server(tmp_path, models(), *EXPLICIT, "--load-model=line") as server:
        write(server, "A/config.pbtxt", adding(1, out="A_OUT", more=DECOUPLED))
        assert load(server, "A") == (200, "")
        assert states(server)["line"] == NOT_DECOUPLED
        assert load(server, "line") == (200, "")
        assert states(server)["line"] == READY and is_decoupled(server, "line")
        write(server, "A/config.pbtxt", adding(1, out="A_OUT"))
        assert load(server, "A") == (200, "")
        assert load(server, "line") == (200, "")
        assert value(server, "line", 5) == 116


def test_a_step_that_becomes_decoupled_in_a_poll(tmp_path):
    with opens_server(tmp_path, models(), *POLL) as server:
        write(server, "A/config.pbtxt", adding(1, out="A_OUT", more=DECOUPLED))
        wait_until(lambda: is_ready(server, "line") and is_decoupled(server, "line"), lambda: states(server))
        assert set(states(server).values()) == {READY}


def test_a_step_that_does_not_fit_any_more(tmp_path):
    """A load that cannot make it serve says so."""
    with opens_server(tmp_path, models(), *EXPLICIT, "--load-model=line") as server:
        write(server, "B/config.pbtxt", adding(10, out="B_OUT").replace("TYPE_INT32", "TYPE_FP32"))
        assert load(server, "B") == (200, "")
        state, reason = states(server)["line"]
        assert state == "UNAVAILABLE" and "between_1" in reason
        assert load(server, "line") == (400, "load failed for model 'line': version 1 is at UNAVAILABLE state: Invalid "
                                             f"argument: {reason};\n")
        write(server, "B/config.pbtxt", adding(10, out="B_OUT"))
        assert load(server, "B") == (200, "")
        assert states(server)["line"] == READY and value(server, "line", 5) == 116


def test_more_steps_than_the_limit(tmp_path):
    """Refused before a model is looked for, whichever way the configuration comes."""
    steps = [{"model_name": f"step_{i}", "model_version": -1, "input_map": {"IN": f"t{i}"}, "output_map": {"OUT": f"t{i + 1}"}}
             for i in range(8193)]
    tensor = {"data_type": "TYPE_INT32", "dims": [1]}
    config = json.dumps({"platform": "ensemble", "input": [{"name": "t0", **tensor}],
                         "output": [{"name": "t8193", **tensor}], "ensemble_scheduling": {"step": steps}})
    file = base64.b64encode(b"x").decode()
    text = ("load failed for model 'line': 'line' executes 8193 models for a request, counting those of its steps, at "
            "most 8192 are supported\n")
    with opens_server(tmp_path, models(), *EXPLICIT) as server:
        assert load(server, "line", config=config) == (400, text)
        assert load(server, "line", config=config, **{"file:1/x": file}) == (400, text)
        assert load(server, "line") == (200, "")


def test_unload_and_load_of_a_step(tmp_path):
    repository = models(outer=ensemble(("line", "OUT"), ("C", "C_OUT")))
    with opens_server(tmp_path, repository, *EXPLICIT) as server:
        assert load(server, "outer") == (200, "")
        assert value(server, "outer", 5) == 216
        before = server.text().count("loading: line")
        assert unload(server, "B") == (200, "")
        assert states(server)["line"] == states(server)["outer"] == GONE
        assert error(server, "line", 5) == not_there("line")
        assert error(server, "outer", 5) == not_there("outer")
        assert not is_ready(server, "line")
        assert requests.get(f"{server.url}/v2/models/line", timeout=SECONDS).status_code == 404
        assert requests.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 200
        assert load(server, "B") == (200, "")
        assert is_ready(server, "line") and is_ready(server, "outer")
        assert value(server, "outer", 5) == 216
        assert server.text().count("loading: line") == before
        assert statistics(server, "outer")["inference_count"] == 2


def test_a_load_of_the_ensemble_brings_a_step_back(tmp_path):
    with opens_server(tmp_path, models(), *EXPLICIT) as server:
        assert load(server, "line") == (200, "")
        assert unload(server, "B") == (200, "")
        assert load(server, "line") == (200, "")
        assert states(server)["B"] == READY
        assert value(server, "line", 5) == 116


def test_unload_with_steps(tmp_path):
    repository = models(other=ensemble(("C", "C_OUT")))
    with opens_server(tmp_path, repository, *EXPLICIT) as server:
        assert load(server, "B") == load(server, "line") == load(server, "other") == (200, "")
        assert unload(server, "line", unload_dependents=True) == (200, "")
        wait_for_index(server, "A", [("1", "UNAVAILABLE", "unloaded")])
        # Asked for; needed by another.
        assert states(server)["B"] == states(server)["C"] == READY
        assert value(server, "other", 5) == 105


def test_unload_alone_leaves_the_steps(tmp_path):
    with opens_server(tmp_path, models(), *EXPLICIT) as server:
        assert load(server, "line") == (200, "")
        assert unload(server, "line") == (200, "")
        wait_for_index(server, "line", [("1", "UNAVAILABLE", "unloaded")])
        assert {states(server)[name] for name in "ABC"} == {READY}


def test_requests_finish_with_the_step_that_goes(tmp_path):
    """A waits at its gate; C, which comes later, is unloaded meanwhile."""
    repository = models(A=gated(adding(1, out="A_OUT")))
    with opens_server(tmp_path, repository, *EXPLICIT) as server:
        assert load(server, "line") == (200, "")
        with Gate(server, "A") as gate, concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(value, server, "line", 5)
            gate.wait()
            assert unload(server, "C") == (200, "")
            assert error(server, "line", 5) == not_there("line")
            assert states(server)["C"] == ("UNLOADING", None)
            gate.open()
            assert answer.result() == 116
        wait_for_index(server, "C", [("1", "UNAVAILABLE", "unloaded")])


def test_a_reload_that_does_not_fit(tmp_path):
    with opens_server(tmp_path, models(), *EXPLICIT) as server:
        assert load(server, "line") == (200, "")
        write(server, "B/config.pbtxt", adding(10, out="B_OUT").replace("TYPE_INT32", "TYPE_FP32"))
        assert load(server, "B") == (200, "")
        state, reason = states(server)["line"]
        assert state == "UNAVAILABLE" and "in ensemble line" in reason
        assert error(server, "line", 5) == not_there("line")
        # This nobody has asked for: the server is not ready.
        assert requests.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 400
        write(server, "B/config.pbtxt", adding(20, out="B_OUT"))
        assert load(server, "B") == (200, "")
        assert value(server, "line", 5) == 126
        assert requests.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 200


def test_a_chain_as_a_step_runs_alone(tmp_path):
    repository = models(A=adding(1, "C", out="A_OUT"), short=ensemble(("A", "A_OUT")))
    with opens_server(tmp_path, repository) as server:
        assert value(server, "A", 5) == 106
        assert value(server, "short", 5) == 6
        assert value(server, "line", 5) == 116


def test_an_ensemble_as_a_stage(tmp_path):
    repository = models(pipe='platform: "chain"\nparameters { key: "stages" '
                             'value { string_value: "line,C" } }\n')
    with opens_server(tmp_path, repository, *EXPLICIT) as server:
        # Names do not match, places do.
        assert load(server, "pipe") == (200, "")
        assert value(server, "pipe", 5) == 216
        assert unload(server, "B") == (200, "")
        assert states(server)["pipe"] == ("UNAVAILABLE", "stage 'line' is not ready")
        assert load(server, "B") == (200, "")
        assert value(server, "pipe", 5) == 216


# ---- unloads that come while an ensemble loads -----------------------------------------------------

VERBOSE = (*EXPLICIT, "--log-verbose=1")


class SlowLoad:
    """Loads a model on another thread; its step C stands at a gate meanwhile."""

    def __init__(self, server, pool, name):
        self._gate = open(server.repository / "C" / "load_gate", "r+b", buffering=0)
        self.answer = pool.submit(load, server, name)
        server.wait_for_line(r"loading: C:1", SECONDS)

    def open(self):
        """A FIFO that nobody has open any more forgets: C may come to its gate later."""
        self._gate.write(b"g")
        self.answer.add_done_callback(lambda _: self._gate.close())


def slow(**more):
    """C waits at a gate while it is loaded."""
    config = adding(100, out="C_OUT", load_gate_fifo="load_gate")
    return models(C={"config.pbtxt": config, "load_gate": FIFO}, **more)


def unload_that_waits(server, pool, name, **parameters):
    answer = pool.submit(unload, server, name, **parameters)
    server.wait_for_line(f"unload of '{name}' waits for the end of a load that needs it", SECONDS)
    return answer


def test_an_unload_of_a_step_waits_for_the_load_of_its_ensemble(tmp_path):
    with opens_server(tmp_path, slow(other=adding(1)), *VERBOSE) as server, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert load(server, "A") == (200, "")
        slow_load = SlowLoad(server, pool, "line")
        unloading = unload_that_waits(server, pool, "A")
        # Others come and go.
        assert load(server, "other") == unload(server, "other") == (200, "")
        assert states(server)["A"] == READY
        assert value(server, "A", 5) == 6
        slow_load.open()
        assert slow_load.answer.result() == unloading.result() == (200, "")
        expect_gone(server, "A", "line")
        assert states(server)["B"] == states(server)["C"] == READY
        assert load(server, "A") == (200, "")
        assert value(server, "line", 5) == 116


def test_an_unload_of_a_step_of_a_step_waits(tmp_path):
    """inner serves already; outer, which loads, needs it and so A."""
    repository = slow(inner=ensemble(("A", "A_OUT"), ("B", "B_OUT")),
                      outer=ensemble(("inner", "OUT"), ("C", "C_OUT")))
    with opens_server(tmp_path, repository, *VERBOSE) as server, \
            concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert load(server, "inner") == (200, "")
        slow_load = SlowLoad(server, pool, "outer")
        unloading = [unload_that_waits(server, pool, name) for name in ("A", "inner")]
        slow_load.open()
        assert slow_load.answer.result() == (200, "")
        assert [answer.result() for answer in unloading] == [(200, "")] * 2
        expect_gone(server, "outer", "inner")


def test_a_load_that_comes_after_the_unload_waits_for_it(tmp_path):
    """It finds the step unloaded, and loads it again."""
    repository = slow(two=ensemble(("A", "A_OUT"), ("B", "B_OUT")))
    with opens_server(tmp_path, repository, *VERBOSE) as server, \
            concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert load(server, "A") == (200, "")
        slow_load = SlowLoad(server, pool, "line")
        unloading = unload_that_waits(server, pool, "A")
        later = pool.submit(load, server, "two")
        slow_load.open()
        assert slow_load.answer.result() == unloading.result() == later.result() == (200, "")
        assert states(server)["A"] == states(server)["two"] == states(server)["line"] == READY
        assert value(server, "two", 5) == 16
        assert server.text().count('"loading: A:1') == 2


def test_an_unload_with_steps_leaves_those_of_a_load(tmp_path):
    """A and B were loaded for two alone, and line needs them."""
    repository = slow(two=ensemble(("A", "A_OUT"), ("B", "B_OUT")))
    with opens_server(tmp_path, repository, *VERBOSE) as server, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert load(server, "two") == (200, "")
        slow_load = SlowLoad(server, pool, "line")
        unloading = pool.submit(unload, server, "two", unload_dependents=True)
        server.wait_for_line("unload of 'B' waits for the end of a load", SECONDS)
        slow_load.open()
        assert slow_load.answer.result() == unloading.result() == (200, "")
        expect_gone(server, "two")
        assert states(server)["A"] == states(server)["B"] == states(server)["line"] == READY


def test_an_unload_waits_for_a_load_that_fails(tmp_path):
    repository = slow(bad=ensemble(("A", "A_OUT"), ("C", "NOT_THERE")))
    with opens_server(tmp_path, repository, *VERBOSE) as server, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert load(server, "A") == (200, "")
        slow_load = SlowLoad(server, pool, "bad")
        unloading = unload_that_waits(server, pool, "A")
        slow_load.open()
        status, text = slow_load.answer.result()
        assert status == 400 and "NOT_THERE" in text
        assert unloading.result() == (200, "")
        expect_gone(server, "A")


def test_an_unload_that_waits_ends_with_the_server(tmp_path):
    with opens_server(tmp_path, slow(), *VERBOSE) as server, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert load(server, "A") == (200, "")
        slow_load = SlowLoad(server, pool, "line")
        unloading = unload_that_waits(server, pool, "A")
        server.begin_stop()
        assert unloading.result() == (503, "Server exiting")
        slow_load.open()
        slow_load.answer.result()


def test_stop_while_a_request_is_inside(tmp_path):
    repository = models(A=gated(adding(1, out="A_OUT")))
    with opens_server(tmp_path, repository) as server:
        with Gate(server, "A") as gate, concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(value, server, "line", 5)
            gate.wait()
            server.begin_stop()
            server.wait_for_line("Waiting for in-flight requests", SECONDS)
            gate.open()
            assert answer.result() == 116


def test_concurrent_loads_of_what_overlaps(tmp_path):
    """Many load the same, and things that need each other, at the same time."""
    repository = models(two=ensemble(("B", "B_OUT"), ("C", "C_OUT")),
                        outer=ensemble(("line", "OUT"), ("two", "OUT")))
    with opens_server(tmp_path, repository, *EXPLICIT) as server:
        start = threading.Barrier(8)

        def load_one(name):
            start.wait(SECONDS)
            return load(server, name)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            names = ["outer", "line", "two", "A"] * 2
            assert list(pool.map(load_one, names)) == [(200, "")] * 8
        assert value(server, "outer", 5) == 226
        assert executions(server, "A") == 1
