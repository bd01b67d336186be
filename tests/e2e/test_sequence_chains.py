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
    write(server, f"{name}/config.pbtxt", config + parameter("changed", "x"))
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
