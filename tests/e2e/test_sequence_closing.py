# SPDX-License-Identifier: BSD-3-Clause
"""Iterative sequences that clients leave: the backend executes each of them once more, cancelled and
with END, and so can drop what it keeps.

The testing backend logs each execution of a request: its correlation id, its flags (1 START, 2 END), and
whether it is cancelled.
"""
import json

import grpc
import pytest
import requests

from gate import Gate, gated
from grpc_stubs import client, stubs  # noqa: F401
from models import EXPLICIT, SECONDS, unload, wait_for_index, wait_until
from scrape import metric, wait_for_metric
from test_sequences import (INT32, OLDEST, control, grpc_request, infer, model, needs_start, parameter,
                            refusal)
from wire import Wire

BACKENDS = ("testing",)
OPTIONS = (*EXPLICIT, "--load-model=*", "--exit-timeout-secs=8")
LOG = parameter("sequence_log", "log")
LONG = "max_sequence_idle_microseconds: 600000000\n"
ITERATIVE = "iterative_sequence: true\n" + control("END", "END", INT32)
DECOUPLED = "model_transaction_policy { decoupled: true }\n"


def iterative(strategy="", idle=LONG, iterations=1000, batch=0, more=""):
    return model(idle + ITERATIVE + strategy, LOG + parameter("iterations", iterations) + more, batch)


GATED = {
    "direct": gated(iterative()),
    "direct_decoupled": gated(iterative(more=DECOUPLED)),
    "oldest": gated(iterative(OLDEST % 4)),
}
MODELS = {
    **GATED,
    "idle": iterative(idle="max_sequence_idle_microseconds: 1000\n", iterations=1),
    "idle_text": model("max_sequence_idle_microseconds: 1000\n" + ITERATIVE + OLDEST % 2,
                       LOG + parameter("iterations", 1), 4),
    "unloaded": iterative(iterations=1),
    "running": gated(iterative(iterations=3)),
    "stopped": iterative(iterations=1),
}


def log(server, name):
    return (server.repository / name / "log").read_text().splitlines()


def run_until_closed(server, name, gate):
    """Lets executions pass, one after the other, until one is the last of its sequence. The first one
    stands at the gate. The client has gone; how soon the server knows that is not the test's matter."""
    while True:
        n = len(log(server, name))
        gate.open()
        wait_until(lambda n=n: len(log(server, name)) > n)
        lines = log(server, name)
        if lines[-1].split()[1:] == ["2", "1"]:
            return lines
        gate.wait()


def check_closed(server, name, lines, ended):
    """One START, then steps without flags, then one END. The step before may be cancelled already."""
    steps = [line.split() for line in lines]
    assert {sequence for sequence, _, _ in steps} == {steps[0][0]}
    assert [flags for _, flags, _ in steps] == ["1"] + ["0"] * (len(steps) - 2) + ["2"]
    assert [cancelled for _, _, cancelled in steps[:-2]] == ["0"] * (len(steps) - 2)
    assert steps[-1][2] == "1"
    wait_for_metric(server, ended, "neso_sequences_ended_total", name, reason="cancelled")
    assert metric(server, "neso_sequences_active", name) == 0
    assert metric(server, "nv_inference_pending_request_count", name) == 0
    (server.repository / name / "log").write_text("")


BODY = {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [4]}]}


def request(path, body):
    body = json.dumps(body).encode()
    return (b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d"
            b"\r\n\r\n%s" % (path.encode(), len(body), body))


@pytest.mark.parametrize("name", GATED)
def test_the_connection_goes_away(server, name):
    ended = metric(server, "neso_sequences_ended_total", name, reason="cancelled")
    path = "generate_stream" if name.endswith("decoupled") else "infer"
    body = {"INPUT0": 4} if path == "generate_stream" else BODY
    with Gate(server, name) as gate:
        with Wire(server.http_port) as wire:
            wire.send(request(f"/v2/models/{name}/{path}", body))
            gate.wait()
            gate.open(1)
            gate.wait()  # the second step
        check_closed(server, name, run_until_closed(server, name, gate), ended + 1)


@pytest.mark.parametrize("name", GATED)
def test_a_call_over_grpc_is_cancelled(server, client, name):  # noqa: F811
    ended = metric(server, "neso_sequences_ended_total", name, reason="cancelled")
    with Gate(server, name) as gate:
        stream = client.ModelStreamInfer(iter([grpc_request(client, name, 4, 77, start=True)]),
                                         timeout=SECONDS)
        gate.wait()
        stream.cancel()
        check_closed(server, name, run_until_closed(server, name, gate), ended + 1)
    if not name.endswith("decoupled"):
        assert refusal(server, name, 1, 77) == needs_start(name, 77)


@pytest.mark.parametrize("name", ["direct", "oldest"])
def test_a_deadline_passes(server, client, name):  # noqa: F811
    ended = metric(server, "neso_sequences_ended_total", name, reason="cancelled")
    with Gate(server, name) as gate:
        call = client.ModelInfer.future(grpc_request(client, name, 4, 77, start=True), timeout=0.3)
        gate.wait()
        with pytest.raises(grpc.RpcError) as raised:
            call.result()
        assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        check_closed(server, name, run_until_closed(server, name, gate), ended + 1)


@pytest.mark.parametrize("name, sequence, logged", [("idle", 7, "7"), ("idle_text", "anna", "'anna'")])
def test_the_idle_time_passes(server, name, sequence, logged):
    if name == "idle":
        infer(server, name, 5, sequence, start=True)
    else:
        reply = requests.post(f"{server.url}/v2/models/{name}/infer", timeout=SECONDS, json={
            "parameters": {"sequence_id": sequence, "sequence_start": True},
            "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 1], "data": [5]}]})
        assert reply.status_code == 200, reply.text
    wait_for_metric(server, 1, "neso_sequences_ended_total", name, reason="idle")
    assert log(server, name) == [f"{logged} 1 0", f"{logged} 2 1"]
    entry = requests.get(f"{server.url}/v2/models/{name}/stats", timeout=SECONDS).json()["model_stats"][0]
    assert (entry["inference_count"], entry["execution_count"]) == (1, 2)
    assert entry["inference_stats"]["fail"]["count"] == 0


def test_sequences_that_have_their_end_are_not_closed(server):
    infer(server, "unloaded", 5, 6, start=True)
    infer(server, "unloaded", 5, 6, end=True)
    wait_for_metric(server, 0, "neso_sequences_active", "unloaded")
    assert log(server, "unloaded") == ["6 1 0", "6 2 0"]
    (server.repository / "unloaded" / "log").write_text("")


def test_a_second_unload(server):
    infer(server, "unloaded", 5, 7, start=True)
    unload(server, "unloaded")
    infer(server, "unloaded", 5, 7)
    assert log(server, "unloaded") == ["7 1 0", "7 0 0"]
    unload(server, "unloaded")
    wait_for_index(server, "unloaded", [("1", "UNAVAILABLE", "unloaded")])
    assert log(server, "unloaded") == ["7 1 0", "7 0 0", "7 2 1"]


def test_an_unload_between_two_steps(server):
    """The request goes on to its last step, on the load where it began."""
    with Gate(server, "running") as gate, Wire(server.http_port) as wire:
        wire.send(request("/v2/models/running/infer", BODY))
        gate.wait()
        unload(server, "running")
        unload(server, "running")
        gate.open(3)
        assert wire.read_answer().status == 200
    wait_for_index(server, "running", [("1", "UNAVAILABLE", "unloaded")])
    assert log(server, "running") == ["1 1 0", "1 0 0", "1 0 0"]


def test_a_stop(server):
    """Last: the server ends sequences that have no request when its exit timeout is nearly over."""
    infer(server, "stopped", 5, 7, start=True)
    assert server.stop() == 0, server.text()
    assert log(server, "stopped") == ["7 1 0", "7 2 1"]
