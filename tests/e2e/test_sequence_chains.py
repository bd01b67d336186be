# SPDX-License-Identifier: BSD-3-Clause
"""Chains and ensembles with a model that has sequences: a live sequence goes on where it began, whatever
is loaded again.

S adds up the values of a sequence in the memory of an instance, so an answer is right only when all
requests of the sequence went to the same load of S. B adds 1000.
"""
import concurrent.futures

import pytest
import requests

from chain_models import adding, parameter, pipe
from gate import Gate, gated
from models import EXPLICIT, SECONDS, index, load, opens_server, unload, wait_for_index, wait_until, write
from test_sequence_life import ask_to_stop

TAKES_SECONDS = 20
BACKENDS = ("testing",)
IDLE = "max_sequence_idle_microseconds: 600000000 "


def summing(next_model=None, more=""):
    return ('backend: "testing" max_batch_size: 8\n'
            'input { name: "INPUT0" data_type: TYPE_INT32 dims: [1] }\n'
            'output { name: "SUM" data_type: TYPE_INT32 dims: [1] }\n'
            'instance_group { count: 1 kind: KIND_CPU }\n'
            f"sequence_batching {{ {IDLE} {more} }}\n"
            + (parameter("next", next_model) if next_model else ""))


ENSEMBLE = ('platform: "ensemble" max_batch_size: 8\n'
            'input { name: "IN" data_type: TYPE_INT32 dims: [1] }\n'
            'output { name: "OUT" data_type: TYPE_INT32 dims: [1] }\nensemble_scheduling {\n'
            'step { model_name: "S" model_version: -1 input_map { key: "INPUT0" value: "IN" } '
            'output_map { key: "SUM" value: "T" } }\n'
            'step { model_name: "B" model_version: -1 input_map { key: "IN" value: "T" } '
            'output_map { key: "OUT" value: "OUT" } } }\n')
# (models, the one that clients ask, its input)
KINDS = {
    "first": ({"S": summing("B"), "B": adding(1000)}, "S", "INPUT0"),
    "second": ({"A": adding(0, "S", out="A_OUT"), "S": summing()}, "A", "IN"),
    "middle": ({"A": adding(0, "S", out="A_OUT"), "S": summing("B"), "B": adding(1000)}, "A", "IN"),
    "pipe": ({"P": pipe("S,B"), "S": summing(), "B": adding(1000)}, "P", "INPUT0"),
    "ensemble": ({"P": ENSEMBLE, "S": summing(), "B": adding(1000)}, "P", "IN"),
    "ensemble_of_first": ({"P": ENSEMBLE, "S": summing("B"), "B": adding(1000)}, "P", "IN"),
}
RELOADS = [(kind, model) for kind, (models, _, _) in KINDS.items() for model in models]


def post(server, name, tensor, value, sequence, start=False, end=False):
    return requests.post(f"{server.url}/v2/models/{name}/infer", timeout=SECONDS, json={
        "parameters": {"sequence_id": sequence, "sequence_start": start, "sequence_end": end},
        "inputs": [{"name": tensor, "datatype": "INT32", "shape": [1, 1], "data": [value]}]})


def ask(server, name, tensor, *arguments, **keywords):
    reply = post(server, name, tensor, *arguments, **keywords)
    assert reply.status_code == 200, reply.text
    return reply.json()["outputs"][0]["data"][0]


def opens(tmp_path, models, *options):
    return opens_server(tmp_path / "models", models, *EXPLICIT, "--load-model=*",
                        "--exit-timeout-secs=8", *options)


def reload(server, name, config):
    """Always with another configuration, so that the model is replaced."""
    n = server.text().count("successfully loaded")
    write(server, f"{name}/config.pbtxt", config + parameter("changed", n))
    load(server, name)


@pytest.mark.parametrize("kind, reloaded", RELOADS, ids=["-".join(row) for row in RELOADS])
def test_a_reload(tmp_path, kind, reloaded):
    models, name, tensor = KINDS[kind]
    added = 1000 if "B" in models else 0
    with opens(tmp_path, models) as server:
        assert ask(server, name, tensor, 5, 7, start=True) == 5 + added
        reload(server, reloaded, models[reloaded])
        assert ask(server, name, tensor, 100, 8, start=True) == 100 + added
        assert ask(server, name, tensor, 6, 7) == 11 + added
        assert ask(server, name, tensor, 1, 8, end=True) == 101 + added
        assert ask(server, name, tensor, 7, 7, end=True) == 18 + added
        reply = post(server, name, tensor, 7, 7)
        assert reply.status_code == 400
        assert "must specify the START flag" in reply.json()["error"]


# S answers with other tensors than before, and B reads it in another way.
OTHER_S = summing("B").replace('"SUM"', '"REQUESTS"')
OTHER_PIPE = {"S": OTHER_S, "B": adding(5000, tensor="OTHER_IN")}


@pytest.mark.parametrize("kind", ["first", "middle", "pipe"])
def test_a_reload_with_other_tensors(tmp_path, kind):
    """A live sequence has all the stages that it began with, until its end; then they end as well."""
    models, name, tensor = KINDS[kind]
    with opens(tmp_path, models) as server:
        assert ask(server, name, tensor, 5, 7, start=True) == 1005
        for changed, config in OTHER_PIPE.items():
            reload(server, changed, config)
        assert ask(server, name, tensor, 100, 8, start=True) == 5001
        assert ask(server, name, tensor, 6, 7) == 1011
        assert server.text().count("successfully unloaded") == 0
        assert ask(server, name, tensor, 7, 7, end=True) == 1018
        wait_until(lambda: server.text().count("successfully unloaded") == 2, server.text)
        assert ask(server, name, tensor, 100, 8) == 5001


@pytest.mark.parametrize("kind", ["second", "middle", "pipe", "ensemble"])
def test_an_unload_of_a_stage(tmp_path, kind):
    """Nothing begins any more, but what has begun goes on to its end."""
    models, name, tensor = KINDS[kind]
    added = 1000 if "B" in models else 0
    with opens(tmp_path, models) as server:
        ask(server, name, tensor, 5, 7, start=True)
        unload(server, "S")
        assert post(server, name, tensor, 5, 8, start=True).status_code in (404, 503)
        assert post(server, name, tensor, 5, 8).status_code in (404, 503)
        assert [line[1:3] for line in index(server) if line[0] == "S"] == [("1", "UNLOADING")]
        assert ask(server, name, tensor, 6, 7) == 11 + added
        if "B" in models:
            reload(server, "B", adding(3000))
        assert ask(server, name, tensor, 7, 7, end=True) == 18 + added
        wait_for_index(server, "S", [("1", "UNAVAILABLE", "unloaded")])
        assert post(server, name, tensor, 5, 7).status_code in (404, 503)


def test_a_new_stage_that_does_not_fit(tmp_path):
    models, name, tensor = KINDS["middle"]
    with opens(tmp_path, models) as server:
        ask(server, name, tensor, 5, 7, start=True)
        reload(server, "S", summing())
        other = summing().replace("TYPE_INT32 dims: [1] }\noutput", "TYPE_INT32 dims: [2] }\noutput")
        assert other != summing()
        reload(server, "S", other)  # the output of A does not fit
        refused = post(server, name, tensor, 5, 8, start=True)
        assert refused.status_code == 503, refused.text
        assert ask(server, name, tensor, 6, 7) == 1011
        reload(server, "S", models["S"])
        assert ask(server, name, tensor, 7, 8, start=True) == 1007
        assert ask(server, name, tensor, 7, 7, end=True) == 1018


def test_several_reloads(tmp_path):
    """Each sequence keeps its own load; each load ends with its sequences."""
    models, name, tensor = KINDS["middle"]
    with opens(tmp_path, models) as server:
        for i in range(4):
            ask(server, name, tensor, i, 10 + i, start=True)
            reload(server, "B", adding(2000 + i))
            reload(server, "S", models["S"])
        for n, i in enumerate((2, 0, 3, 1), 1):
            assert ask(server, name, tensor, 10, 10 + i, end=True) == 10 + i + 2000 + i
            wait_until(lambda n=n: server.text().count("successfully unloaded 'S'") == n, server.text)
        wait_until(lambda: server.text().count("successfully unloaded 'B'") == 4, server.text)


def test_idle_sequences_end(tmp_path):
    """Nothing is kept for sequences that are forgotten, also without a further request."""
    short = IDLE.replace("600000000", "100000")
    models, name, tensor = KINDS["middle"]
    models = {**models, "S": models["S"].replace(IDLE, short)}
    with opens(tmp_path, models) as server:
        ask(server, name, tensor, 5, 7, start=True)
        reload(server, "S", models["S"])
        reload(server, "B", adding(2000))
        wait_until(lambda: server.text().count("successfully unloaded") == 2, server.text)


@pytest.mark.parametrize("kind", ["first", "middle", "ensemble_of_first"])
def test_the_old_load_ends_with_its_sequences(tmp_path, kind):
    models, name, tensor = KINDS[kind]
    with opens(tmp_path, models) as server:
        ask(server, name, tensor, 5, 7, start=True)
        reload(server, "S", models["S"])
        ask(server, name, tensor, 5, 8, start=True)
        assert "successfully unloaded 'S'" not in server.text()
        sequences = requests.get(f"{server.url}/v2/models/S/sequences", timeout=SECONDS).json()
        assert [(load["retired"], [one["id"] for one in load["sequences"]])
                for load in sequences["model_sequences"]] == [(True, [7]), (False, [8])]
        ask(server, name, tensor, 6, 7, end=True)
        wait_until(lambda: "successfully unloaded 'S'" in server.text(), server.text)
        assert ask(server, name, tensor, 6, 8) == 11 + 1000


def test_an_unload_of_the_first_model(tmp_path):
    """It goes on with the stages that it had, also when one of them is loaded again or unloaded."""
    models, name, tensor = KINDS["first"]
    with opens(tmp_path, models) as server:
        ask(server, name, tensor, 5, 7, start=True)
        unload(server, "S")
        assert ask(server, name, tensor, 6, 7) == 1011
        assert post(server, name, tensor, 1, 8, start=True).status_code == 404
        reload(server, "B", adding(2000))
        assert ask(server, name, tensor, 7, 7) == 1018
        unload(server, "B")
        assert ask(server, name, tensor, 8, 7, end=True) == 1026
        wait_for_index(server, "S", [("1", "UNAVAILABLE", "unloaded")])
        wait_for_index(server, "B", [("1", "UNAVAILABLE", "unloaded")])


def test_a_second_unload_of_the_first_model(tmp_path):
    models, name, tensor = KINDS["first"]
    with opens(tmp_path, models) as server:
        ask(server, name, tensor, 5, 7, start=True)
        unload(server, "S")
        assert [line[1:3] for line in index(server) if line[0] == "S"] == [("1", "UNLOADING")]
        unload(server, "S")
        wait_for_index(server, "S", [("1", "UNAVAILABLE", "unloaded")])
        assert post(server, name, tensor, 5, 7).status_code == 404


def test_an_id_begins_again(tmp_path):
    models, name, tensor = KINDS["first"]
    with opens(tmp_path, models) as server:
        ask(server, name, tensor, 5, 7, start=True)
        reload(server, "S", models["S"])
        assert ask(server, name, tensor, 3, 7, start=True) == 1003
        wait_until(lambda: "successfully unloaded 'S'" in server.text(), server.text)
        assert ask(server, name, tensor, 4, 7, end=True) == 1007


@pytest.mark.parametrize("names", ["SB", "ZC"])
def test_a_stop(tmp_path, names):
    """The sequences of the first model go on, whatever the order of the names."""
    first, second = names
    models = {first: summing(second), second: adding(1000)}
    with opens(tmp_path, models, "--exit-timeout-secs=60") as server:
        ask(server, first, "INPUT0", 5, 7, start=True)
        ask_to_stop(server)
        refused = post(server, first, "INPUT0", 5, 8, start=True)
        assert (refused.status_code, refused.json()["error"]) == (503, "Server not ready")
        assert ask(server, first, "INPUT0", 6, 7) == 1011
        assert ask(server, first, "INPUT0", 7, 7, end=True) == 1018
        assert server.stop() == 0, server.text()


def test_a_request_in_the_second_stage_during_a_stop(tmp_path):
    """Its sequence has ended in the first one."""
    models = {"S": summing("B"), "B": gated(adding(1000))}
    with opens(tmp_path, models) as server, concurrent.futures.ThreadPoolExecutor() as pool:
        with Gate(server, "B") as gate:
            reply = pool.submit(ask, server, "S", "INPUT0", 5, 7, start=True, end=True)
            gate.wait()
            ask_to_stop(server)
            assert "Model 'S' (version 1) has" in server.text()
            gate.open()
            assert reply.result() == 1005
        assert server.stop() == 0, server.text()
