# SPDX-License-Identifier: BSD-3-Clause
"""Lines of --log-verbose=1 that people search the log for; the texts are the reference server's where it has
them. Without the option there is none of them."""
import concurrent.futures
import json
import re

import pytest
import requests

from chain_models import adding, ensemble, load, unload, value
from gate import Gate, gated
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from models import EXPLICIT, SECONDS, opens_server
from test_rate_limiter import LIMITED, limited

BACKENDS = ("testing",)
VERBOSE = "--log-verbose=1"

WARM = adding(1, more='model_warmup { name: "cold" batch_size: 1 count: 2 inputs { key: "IN" value { '
                      'data_type: TYPE_INT32 dims: 1 zero_data: true } } }\n')
FAILS = WARM.replace('"cold"', '"frozen"').replace("zero_data: true", 'input_data_file: "none"')

# Repeats its inputs, of which the second one may be missing: then so is its output.
ECHO = '''backend: "testing"
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: 1 },
        { name: "INPUT1" data_type: TYPE_INT32 dims: 1 optional: true } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: 1 } ]
'''
BOTH = '''platform: "ensemble"
input [ { name: "A" data_type: TYPE_INT32 dims: 1 },
        { name: "B" data_type: TYPE_INT32 dims: 1 optional: true } ]
output [ { name: "C" data_type: TYPE_INT32 dims: 1 }, { name: "D" data_type: TYPE_INT32 dims: 1 } ]
ensemble_scheduling { step { model_name: "echo" model_version: -1
    input_map { key: "INPUT0" value: "A" } input_map { key: "INPUT1" value: "B" }
    output_map { key: "OUTPUT0" value: "C" } output_map { key: "OUTPUT1" value: "D" } } }
'''
NARROW = ensemble(("slow", "OUT")).replace("ensemble_scheduling {",
                                           "ensemble_scheduling {\nmax_inflight_requests: 1")


def lines(server, text):
    """The lines with this text, which is in the log as JSON text."""
    return [line for line in server.text().splitlines() if json.dumps(text)[1:-1] in line]


def ask_both(server, *names, **more):
    return requests.post(f"{server.url}/v2/models/both/infer", timeout=SECONDS, json={"inputs": [
        {"name": name, "datatype": "INT32", "shape": [1], "data": [7]} for name in names], **more})


def test_arrivals(tmp_path, stubs):
    with opens_server(tmp_path, {"m": adding(1)}, VERBOSE) as server:
        assert value(server, "m", 5, id="mine") == 6
        requests.get(f"{server.url}/v2/models/m?x=y", timeout=SECONDS)
        requests.delete(f"{server.url}/v2/nothing", timeout=SECONDS)
        requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=SECONDS)
        with open_channel(server) as channel:
            Client(channel, stubs).call("ModelMetadata", {"name": "m"})
            with pytest.raises(Exception):
                Client(channel, stubs).call("ModelInfer", {"model_name": "m"})
        for text in ("HTTP request: 2 /v2/models/m/infer", 'HTTP request: 0 /v2/models/m"',
                     "HTTP request: 4 /v2/nothing", 'HTTP request: 0 /metrics"',
                     "[request id: mine] Setting state from INITIALIZED to PENDING"):
            assert text in server.text()
        for name in ("ModelMetadata", "ModelInferHandler"):
            assert re.search(fr"Process for {name}, rpc_ok=1, \d+ step START", server.text())


def test_warm_up(tmp_path):
    with opens_server(tmp_path, {"warm": WARM, "fails": FAILS}, VERBOSE,
                      "--exit-on-error=false") as server:
        for n in (1, 2):
            assert lines(server, f"model 'warm' instance warm_0_0 is running warmup sample 'cold' for iteration {n}")
        assert lines(server, "model 'warm' instance warm_0_0 has run warmup sample 'cold'")
        assert lines(server, "model 'fails' instance fails_0_0 failed to run warmup sample 'frozen'")


def test_an_output_that_no_step_gives(tmp_path):
    with opens_server(tmp_path, {"echo": ECHO, "both": BOTH}, VERBOSE) as server:
        assert [o["name"] for o in ask_both(server, "A", "B").json()["outputs"]] == ["C", "D"]
        assert not lines(server, "Composing models did not output tensor")
        # An output that was not asked for is not missed.
        assert ask_both(server, "A", outputs=[{"name": "C"}]).status_code == 200
        assert not lines(server, "Composing models did not output tensor")
        assert [o["name"] for o in ask_both(server, "A").json()["outputs"]] == ["C"]
        assert len(lines(server, "Composing models did not output tensor D")) == 1


def test_a_step_that_waits(tmp_path):
    text = "in ensemble 'narrow', step 0 of model 'slow' waits: it has 1 requests in flight (max_inflight_requests)"
    with opens_server(tmp_path, {"slow": gated(adding(1)), "narrow": NARROW}, VERBOSE) as server, \
            Gate(server, "slow") as gate, concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert lines(server, "Ensemble model 'narrow' configured with max_inflight_requests: 1")
        first = pool.submit(value, server, "narrow", 1)
        gate.wait()
        assert not lines(server, text)
        second = pool.submit(value, server, "narrow", 2)
        server.wait_for_line(re.escape(text), SECONDS)
        gate.open(2)
        assert (first.result(), second.result()) == (2, 3)


def test_resources_of_the_rate_limiter(tmp_path):
    models = {"a": limited(2), "b": limited(3, more="global: false"),
              "c": limited(4, "G", more="global: true")}
    table = "\nMax Resource Map===>\n{0}\tDevice: 0\n\t\tResource: R\t Count: {1}\n"
    shared = "\tDevice: GLOBAL\n\t\tResource: G\t Count: 4\n"
    with opens_server(tmp_path, models, VERBOSE, LIMITED, *EXPLICIT) as server:
        assert load(server, "a") == (200, "")
        assert lines(server, table.format("", 2))
        assert load(server, "c") == load(server, "b") == (200, "")
        assert len(lines(server, table.format(shared, 3))) == 1
        assert unload(server, "b") == (200, "")
        server.wait_for_line(re.escape(json.dumps(table.format(shared, 2))[1:-1]), SECONDS)


def test_silence(tmp_path, stubs):
    models = {"warm": WARM, "echo": ECHO, "both": BOTH, "a": limited(2)}
    with opens_server(tmp_path, models, LIMITED) as server:
        assert value(server, "warm", 5) == 6
        assert ask_both(server, "A").status_code == 200
        with open_channel(server) as channel:
            Client(channel, stubs).call("ModelMetadata", {"name": "a"})
        for text in ("HTTP request", "Process for", "Setting state", "warmup sample",
                     "Composing models", "Max Resource Map"):
            assert not lines(server, text)
