# SPDX-License-Identifier: BSD-3-Clause
"""Ensembles in the repository: how they are loaded, when they are ready, how they go. The texts are those
that a running Triton 2.64 gave."""
import concurrent.futures
import threading

import pytest
import requests

from chain_models import (adding, ask, ensemble, error, executions, is_ready, load, states,
                          statistics, unload, value)
from conftest import require_build
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
        assert "circular dependency between ensembles: x -> y -> x" in server.text()
        assert states(server)["x"] == states(server)["y"] == (None, None)


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


def test_stop_while_a_request_is_inside(tmp_path):
    repository = models(A=gated(adding(1, out="A_OUT")))
    with opens_server(tmp_path, repository) as server:
        with Gate(server, "A") as gate, concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(value, server, "line", 5)
            gate.wait()
            server.process.terminate()
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
