# SPDX-License-Identifier: BSD-3-Clause
"""Chains: models that run one after the other. The numbers are those of the acceptance checks of
docs/pipelines.md. Stage A adds 1, B adds 10, C adds 100; A.next is B, B.next is C.

No test sleeps: executions stop at gates (gate.py), loads answer when they are done.
"""
import concurrent.futures
import json
import re
import subprocess
import threading
import time

import numpy
import pytest
import requests

import chain_models
from chain_models import (adding, ask, body, error, executions, is_ready, line_of_three, load, pipe,
                          stages, states, statistics, unload, value)
from conftest import BUILD, require_build, write_repository
from gate import Gate, gated
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from infer_ways import (Case, GrpcRaw, GrpcTyped, HttpBinary, HttpJson, InProcess, Tensor,
                        content_of, values_of)
from models import EXPLICIT, SECONDS, opens_server, wait_for_index, wait_until, write
from scrape import metrics

TAKES_SECONDS = 10

DYNAMIC = "dynamic_batching { }\n"
NEXT_C = "next model 'C' is not ready"


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(("testing",))


@pytest.fixture
def chain(tmp_path):
    """A, loaded with what it needs."""
    with opens_server(tmp_path, line_of_three(), *EXPLICIT) as server:
        assert load(server, "A") == (200, "")
        yield server


def loads_of(server):
    return re.findall(r"\bloading: (\w+):1", server.text())


# ---- 1 to 10: loading, asking -------------------------------------------------------------------


def test_1_load_brings_the_stages(chain):
    assert states(chain) == {name: ("READY", None) for name in "ABC"}
    assert loads_of(chain) == ["C", "B", "A"]


def test_2_answers_over_each_way(chain, stubs, tmp_path):
    case = Case("A", (Tensor("IN", "INT32", (1, 1), content_of("INT32", [5])),), id="seven")
    with open_channel(chain) as channel:
        client = Client(channel, stubs)
        answers = [way.send([case])[0] for way in (
            HttpJson(chain), HttpBinary(chain), GrpcRaw(client), GrpcTyped(client))]
    for answer in answers:
        assert (answer.model, answer.version, answer.id) == ("A", "1", "seven")
        assert [(o.name, values_of(o)) for o in answer.outputs] == [("C_OUT", [116])]


def test_2_answers_in_process(tmp_path):
    case = Case("A", (Tensor("IN", "INT32", (1, 1), content_of("INT32", [5])),), id="seven")
    with opens_server(tmp_path / "models", line_of_three()) as server:
        answer = InProcess(server, tmp_path).send([case])[0]
    assert (answer.model, answer.id) == ("A", "seven")
    assert [(o.name, values_of(o)) for o in answer.outputs] == [("C_OUT", [116])]


def test_3_the_middle_and_the_end(chain):
    assert value(chain, "B", 5) == 115
    assert value(chain, "C", 5) == 105


def test_4_a_model_alone(chain):
    reply = ask(chain, "A", 5, parameters={"chain": False}).json()
    assert [(o["name"], o["data"]) for o in reply["outputs"]] == [("A_OUT", [6])]
    assert value(chain, "A", 5, parameters={"chain": True}) == 116


def test_5_metadata(chain):
    get = lambda path: requests.get(f"{chain.url}/v2/models/A{path}", timeout=SECONDS).json()
    assert [t["name"] for t in get("")["inputs"]] == ["IN"]
    assert [t["name"] for t in get("")["outputs"]] == ["C_OUT"]
    assert [t["name"] for t in get("/config")["output"]] == ["A_OUT"]
    assert get("/config")["parameters"]["next"] == {"string_value": "B"}
    assert get("/chain") == {
        "name": "A", "max_batch_size": 8,
        "stages": [{"name": name, "version": "1", "ready": True} for name in "ABC"]}
    assert requests.get(f"{chain.url}/v2/models/C/chain", timeout=SECONDS).status_code == 404


def test_6_outputs_are_those_of_the_last_stage(chain):
    status, text = error(chain, "A", 5, outputs=[{"name": "A_OUT"}])
    assert status == 400 and "A_OUT" in text
    assert executions(chain, "A") == 0
    assert value(chain, "A", 5, outputs=[{"name": "C_OUT"}]) == 116


@pytest.mark.parametrize("way", ["http", "grpc", "override"])
def test_7_load_parameters_win(chain, stubs, way):
    def load_with(following):
        if way == "http":
            return load(chain, "A", next=following)
        if way == "override":
            config = requests.get(f"{chain.url}/v2/models/A/config", timeout=SECONDS).json()
            config["parameters"]["next"] = {"string_value": following}
            return load(chain, "A", config=json.dumps(config))
        with open_channel(chain) as channel:
            client = Client(channel, stubs)
            request = client.pb.RepositoryModelLoadRequest(model_name="A")
            request.parameters["next"].string_param = following
            client.RepositoryModelLoad(request, timeout=SECONDS)
        return 200, ""

    assert load_with("C") == (200, "")
    assert value(chain, "A", 5) == 106
    assert load_with("") == (200, "")
    assert value(chain, "A", 5) == 6
    assert load_with("B") == (200, "")
    assert value(chain, "A", 5) == 116


def test_7_a_parameter_wins_over_an_override(chain):
    config = requests.get(f"{chain.url}/v2/models/A/config", timeout=SECONDS).json()
    assert load(chain, "A", config=json.dumps(config), next="C") == (200, "")
    assert value(chain, "A", 5) == 106


def test_8_unknown_next(chain):
    status, text = load(chain, "A", next="nosuch")
    assert status == 400 and "nosuch" in text
    assert value(chain, "A", 5) == 116
    assert states(chain)["A"] == ("READY", None)


def test_8_nothing_is_loaded_in_vain(tmp_path):
    with opens_server(tmp_path, {"A": adding(1, "B"), "B": adding(10, "gone")}, *EXPLICIT) as server:
        status, text = load(server, "A")
        assert status == 400 and "'gone' of model 'B'" in text
        assert states(server) == {"A": (None, None), "B": (None, None)}
        assert loads_of(server) == []


@pytest.mark.parametrize("no", [False, "false"])
def test_8_without_autoload(tmp_path, no):
    with opens_server(tmp_path, line_of_three(), *EXPLICIT) as server:
        status, text = load(server, "A", chain_autoload=no)
        assert status == 400 and "'B'" in text and "chain_autoload" in text
        assert states(server)["B"] == (None, None)
        assert load(server, "B") == (200, "")
        assert load(server, "A", chain_autoload=no) == (200, "")
        assert value(server, "A", 5) == 116


def test_9_cycles_and_branches(tmp_path):
    models = {"A": adding(1, "B"), "B": adding(10, "C"), "C": adding(100, "A"),
              "self": adding(1, "self"), "wide": adding(1, "B,C")}
    with opens_server(tmp_path, models, *EXPLICIT) as server:
        status, text = load(server, "A")
        assert status == 400 and "A -> B -> C -> A" in text
        status, text = load(server, "self")
        assert status == 400 and "self -> self" in text
        assert load(server, "C", next="") == (200, "")
        status, text = load(server, "wide")
        assert status == 400 and "chains are linear; use ensemble_scheduling" in text
        assert load(server, "wide", next="C") == (200, "")


def two_outputs(next_model=None, **parameters):
    return ('backend: "testing" max_batch_size: 8\n'
            'input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] },'
            ' { name: "INPUT1" data_type: TYPE_INT32 dims: [1] }]\n'
            'output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] },'
            ' { name: "OUTPUT1" data_type: TYPE_INT32 dims: [1] }]\n'
            'instance_group { count: 1 kind: KIND_CPU }\n'
            + (chain_models.parameter("next", next_model) if next_model else "")
            + "".join(chain_models.parameter(k, v) for k, v in parameters.items()))


def takes(*names):
    """The outputs repeat the inputs of their place."""
    tensors = [f'{{ name: "{name}" data_type: TYPE_INT32 dims: [1] }}' for name in names]
    outs = [f'{{ name: "GOT_{name}" data_type: TYPE_INT32 dims: [1] }}' for name in names]
    return (f'backend: "testing" max_batch_size: 8\ninput [{",".join(tensors)}]\n'
            f'output [{",".join(outs)}]\ninstance_group {{ count: 1 kind: KIND_CPU }}\n')


@pytest.mark.parametrize("names, how, expected", [
    (("OUTPUT1", "OUTPUT0"), {}, {"GOT_OUTPUT0": [1], "GOT_OUTPUT1": [2]}),
    (("X", "Y"), {}, {"GOT_X": [1], "GOT_Y": [2]}),
    (("OUTPUT1", "OUTPUT0"), {"next_map": "OUTPUT0:OUTPUT1,OUTPUT1:OUTPUT0"},
     {"GOT_OUTPUT0": [2], "GOT_OUTPUT1": [1]}),
], ids=["name", "position", "map"])
def test_10_matching(tmp_path, names, how, expected):
    models = {"A": two_outputs("B", **how), "B": takes(*names)}
    sent = {"inputs": [{"name": f"INPUT{i}", "datatype": "INT32", "shape": [1, 1], "data": [i + 1]}
                       for i in range(2)]}
    with opens_server(tmp_path, models) as server:
        reply = requests.post(f"{server.url}/v2/models/A/infer", json=sent, timeout=SECONDS).json()
        assert {o["name"]: o["data"] for o in reply["outputs"]} == expected


def test_10_what_does_not_fit(tmp_path):
    models = {"A": adding(1, "B", out="A_OUT"),
              "B": adding(1).replace("TYPE_INT32", "TYPE_INT64"),
              "D": adding(1, "E", out="D_OUT"), "E": takes("X", "Y")}
    with opens_server(tmp_path, models, *EXPLICIT) as server:
        status, text = load(server, "A")
        assert status == 400
        assert "'A_OUT'" in text and "'IN'" in text and "INT32 and INT64" in text
        status, text = load(server, "D")
        assert status == 400
        assert "['D_OUT']" in text and "['X','Y']" in text
        # What came along with a load that failed goes again.
        wait_until(lambda: all(state != "READY" for state, _ in states(server).values()),
                   lambda: states(server))


# ---- 11 to 16: stages come and go ---------------------------------------------------------------


def test_11_unload_and_load_of_the_last(chain):
    assert value(chain, "A", 5) == 116
    assert unload(chain, "C") == (200, "")
    assert not is_ready(chain, "A") and not is_ready(chain, "B")
    assert states(chain)["A"] == states(chain)["B"] == ("UNAVAILABLE", NEXT_C)
    assert error(chain, "A", 5) == (503, NEXT_C)
    assert executions(chain, "A") == 1
    assert value(chain, "A", 5, parameters={"chain": False}) == 6
    assert stages(chain, "A") == [("A", True), ("B", True), ("C", False)]
    # A model that was unloaded on request, and has ended, does not make the server unready.
    wait_for_index(chain, "C", [("1", "UNAVAILABLE", "unloaded")])
    assert requests.get(f"{chain.url}/v2/health/ready", timeout=SECONDS).status_code == 200
    assert load(chain, "C") == (200, "")
    assert is_ready(chain, "A") and is_ready(chain, "B")
    assert value(chain, "A", 5) == 116
    wait_until(lambda: loads_of(chain) == ["C", "B", "A", "C"], lambda: str(loads_of(chain)))
    assert executions(chain, "A") == 3


def test_12_unload_while_requests_are_inside(tmp_path):
    models = line_of_three(A=gated(adding(1, "B", out="A_OUT") + DYNAMIC))
    with opens_server(tmp_path, models, *EXPLICIT) as server:
        assert load(server, "A") == (200, "")
        with Gate(server, "A") as gate, concurrent.futures.ThreadPoolExecutor(50) as pool:
            answers = [pool.submit(value, server, "A", i) for i in range(50)]
            gate.wait()
            # All have been admitted: the first batch runs, the others wait.
            wait_until(lambda: metrics(server)['neso_chain_inflight{chain="A"}'] == 50)
            assert unload(server, "C") == (200, "")
            assert error(server, "A", 5) == (503, NEXT_C)
            gate.open(50)
            assert [a.result() for a in answers] == [i + 111 for i in range(50)]
        wait_for_index(server, "C", [("1", "UNAVAILABLE", "unloaded")])


def test_13_strict_unload(tmp_path):
    with opens_server(tmp_path, line_of_three(pipe=pipe("A,C")), *EXPLICIT,
                      "--chain-strict-unload") as server:
        assert load(server, "A") == (200, "")
        assert unload(server, "C") == (400, "model 'C' is the next of 'B'")
        assert value(server, "A", 5) == 116
        assert load(server, "pipe") == (200, "")
        assert unload(server, "A") == (400, "model 'A' is the next of 'pipe'")
        assert unload(server, "pipe") == (200, "")
        assert unload(server, "A") == (200, "")
        assert unload(server, "B") == (200, "")
        assert unload(server, "C") == (200, "")


def test_14_unload_with_what_was_loaded_for_it(tmp_path):
    models = line_of_three(D=adding(1000, "C", out="D_OUT"))
    with opens_server(tmp_path, models, *EXPLICIT) as server:
        assert load(server, "A") == load(server, "D") == (200, "")
        assert unload(server, "A", unload_dependents=True) == (200, "")
        wait_for_index(server, "B", [("1", "UNAVAILABLE", "unloaded")])
        assert states(server)["C"] == ("READY", None)
        assert value(server, "D", 5) == 1105
        # Asked for by somebody, it stays.
        assert load(server, "C") == (200, "")
        assert unload(server, "D", unload_dependents=True) == (200, "")
        assert states(server)["C"] == ("READY", None)


def ask_on(server, done, seen, stop):
    """What was answered, and how many reloads had returned before it was asked."""
    session = requests.Session()
    while not stop.is_set():
        before = len(done)
        seen.append((before, value(server, "A", 5, session=session)))


def test_15_reload_under_load(chain):
    numbers = [10, *range(20, 120, 10)]
    done, seen, stop = [], [], threading.Event()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(ask_on, chain, done, seen, stop) for _ in range(4)]
        try:
            for number in numbers[1:]:
                write(chain, "B/config.pbtxt", adding(number, "C", out="B_OUT"))
                assert load(chain, "B") == (200, "")
                done.append(number)
                n = len(seen)
                wait_until(lambda n=n: len(seen) > n + 8)
        finally:
            stop.set()
        for client in clients:
            client.result()
    # After a reload has returned, nothing of before it; the next one may be under way.
    for before, answer in seen:
        assert answer - 106 in numbers[before:], (before, answer)
    assert {before for before, _ in seen} >= set(range(1, len(numbers)))


def test_16_reload_that_does_not_fit(chain):
    write(chain, "B/config.pbtxt", adding(10, "C", out="B_OUT").replace("TYPE_INT32", "TYPE_FP32"))
    status, text = load(chain, "B")
    # As a chain of its own B does not fit C: it is refused, and the old one serves.
    assert status == 400 and "FP32 and INT32" in text
    assert value(chain, "A", 5) == 116
    write(chain, "B/config.pbtxt", adding(10).replace("TYPE_INT32", "TYPE_FP32"))
    assert load(chain, "B") == (200, "")
    assert is_ready(chain, "B") and not is_ready(chain, "A")
    state, reason = states(chain)["A"]
    assert state == "UNAVAILABLE" and "INT32 and FP32" in reason
    assert error(chain, "A", 5)[0] == 503
    write(chain, "B/config.pbtxt", adding(10, "C", out="B_OUT"))
    assert load(chain, "B") == (200, "")
    assert is_ready(chain, "A")
    assert value(chain, "A", 5) == 116


# ---- 17 to 22: batches, failures, time ----------------------------------------------------------


def counting(number, next_model=None, more=DYNAMIC, **parameters):
    """As adding(), and BATCH_ROWS: the rows of the execution."""
    return adding(number, next_model, more=more + 'output { name: "BATCH_ROWS" data_type: '
                                                  'TYPE_INT32 dims: [1] }\n', **parameters)


def batch_of(server, n, numbers=None):
    """n requests of one row that are one batch at A, whose gate is closed; their replies."""
    numbers = numbers or range(n)
    with Gate(server, "A") as gate, concurrent.futures.ThreadPoolExecutor(n + 1) as pool:
        first = pool.submit(ask, server, "A", 1000)
        gate.wait()
        rest = [pool.submit(ask, server, "A", i) for i in numbers]
        wait_until(lambda: metrics(server)['neso_chain_inflight{chain="A"}'] == n + 1)
        wait_until(lambda: metrics(server)[
            'nv_inference_pending_request_count{model="A",version="1"}'] == n)
        gate.open()
        assert first.result().status_code == 200
        gate.wait()
        gate.open()
        return [r.result() for r in rest]


@pytest.mark.parametrize("batching", ["rebatch", "keep"])
def test_17_a_batch_is_handed_on_as_one(tmp_path, batching):
    models = {"A": gated(adding(1, "B", out="A_OUT", more=DYNAMIC, chain_batching=batching, batch_log="batches")),
              "B": adding(10, "C", out="B_OUT", more=DYNAMIC, batch_log="batches"),
              "C": counting(100, out="C_OUT", batch_log="batches")}
    with opens_server(tmp_path, models) as server:
        for reply in batch_of(server, 8):
            outputs = {o["name"]: o["data"] for o in reply.json()["outputs"]}
            assert outputs["BATCH_ROWS"] == [8]


@pytest.mark.parametrize("batching", ["keep", "rebatch"])
def test_17_kept_batches_are_not_mixed(tmp_path, batching):
    """Two wait at B before a batch of seven comes: it is one again, or it is filled up with them."""
    models = {"A": adding(1, "B", out="A_OUT", batch_log="batches", more=DYNAMIC,
                          chain_batching=batching),
              "B": gated(adding(10, out="B_OUT", more=DYNAMIC, batch_log="batches"))}
    models["A"] = gated(models["A"])
    with opens_server(tmp_path, models) as server:
        pending = lambda model: metrics(server)[
            f'nv_inference_pending_request_count{{model="{model}",version="1"}}']
        with Gate(server, "A") as a, Gate(server, "B") as b, \
                concurrent.futures.ThreadPoolExecutor(10) as pool:
            first = pool.submit(ask, server, "B", 0)
            b.wait()
            second = pool.submit(ask, server, "B", 0)
            wait_until(lambda: pending("B") == 1)
            third = pool.submit(ask, server, "A", 0)
            a.wait()
            rest = [pool.submit(ask, server, "A", i) for i in range(7)]
            wait_until(lambda: pending("A") == 7)
            a.open()
            wait_until(lambda: pending("B") == 2)
            a.wait()
            a.open()
            wait_until(lambda: pending("B") == 9)
            b.open(8)
            for reply in (first, second, third, *rest):
                assert reply.result().status_code == 200
        sizes = [int(line.split()[1]) for line in
                 (server.repository / "B" / "batches").read_text().splitlines()]
        assert sizes == ([1, 2, 7] if batching == "keep" else [1, 8, 1])


def test_18_the_smallest_batch_limit(tmp_path):
    models = {"A": gated(adding(1, "B", out="A_OUT", more=DYNAMIC)),
              "B": adding(10, out="B_OUT", batch=4, more=DYNAMIC, batch_log="batches")}
    with opens_server(tmp_path, models) as server:
        status, text = error(server, "A", [1, 2, 3, 4, 5, 6])
        assert status == 400 and "'B'" in text and "<= 4" in text
        with Gate(server, "A") as gate, concurrent.futures.ThreadPoolExecutor(3) as pool:
            first = pool.submit(ask, server, "A", 1000)
            gate.wait()
            rest = [pool.submit(ask, server, "A", [1, 2, 3, 4]) for _ in range(2)]
            wait_until(lambda: metrics(server)['neso_chain_inflight{chain="A"}'] == 3)
            wait_until(lambda: metrics(server)[
                'nv_inference_pending_request_count{model="A",version="1"}'] == 2)
            gate.open()
            assert first.result().status_code == 200
            gate.wait()
            gate.open()
            for reply in rest:
                assert reply.result().json()["outputs"][0]["data"] == [12, 13, 14, 15]
        assert statistics(server, "A")["batch_stats"][-1]["batch_size"] == 8
        assert (server.repository / "B" / "batches").read_text().splitlines()[1:] == ["1 4", "1 4"]


def test_19_one_of_a_batch_fails(tmp_path):
    models = {"A": gated(adding(1, "B", out="A_OUT", more=DYNAMIC)),
              "B": adding(10, "C", out="B_OUT", more=DYNAMIC, fail_value=4),
              "C": adding(100, out="C_OUT", more=DYNAMIC)}
    with opens_server(tmp_path, models) as server:
        replies = batch_of(server, 8)
        assert replies[3].json() == {"error": "in chain 'A' stage 'B' (2/3): value 4"}
        assert [r.json()["outputs"][0]["data"][0] for i, r in enumerate(replies) if i != 3] == [
            i + 111 for i in range(8) if i != 3]
        assert [statistics(server, m)["inference_count"] for m in "ABC"] == [9, 8, 8]
        now = metrics(server)
        failures = [sum(n for sample, n in now.items() if sample.startswith(
            f'nv_inference_request_failure{{model="{m}"')) for m in "ABC"]
        assert failures == [0, 1, 0]
        assert now['neso_chain_request_failure{chain="A",stage="B"}'] == 1
        assert now['neso_chain_request_success{chain="A",version="1"}'] == 8


def test_20_one_deadline_for_all_stages(tmp_path):
    models = {"A": adding(1, "B", out="A_OUT"), "B": gated(adding(10, "C", out="B_OUT")),
              "C": adding(100, out="C_OUT")}
    with opens_server(tmp_path, models) as server:
        with Gate(server, "B") as gate, concurrent.futures.ThreadPoolExecutor(1) as pool:
            late = pool.submit(error, server, "A", 5, parameters={"timeout": 3000000})
            gate.wait()
            # Not a bound on the machine: the gate opens once the deadline is over.
            threading.Event().wait(3.1)
            gate.open()
            assert late.result() == (503, "in chain 'A' stage 'C' (3/3): Request timeout expired")
        assert executions(server, "C") == 0


def test_21_a_client_that_leaves(tmp_path):
    models = line_of_three(A=gated(adding(1, "B", out="A_OUT")))
    with opens_server(tmp_path, models, "--http-thread-count=1") as server:
        with Gate(server, "A") as gate:
            with pytest.raises(requests.exceptions.Timeout):
                requests.post(f"{server.url}/v2/models/A/infer", json=body(5), timeout=2)
            gate.wait()
            wait_until(lambda: not is_connected(server.http_port))
            # The one loop has seen the end of that connection before it answers these.
            for _ in range(3):
                assert is_ready(server, "A")
            gate.open()
            wait_until(lambda: metrics(server)['neso_chain_inflight{chain="A"}'] == 0)
        assert [executions(server, m) for m in "ABC"] == [1, 0, 0]


def is_connected(port):
    """Has the server a connection to this port that its client has not closed?"""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return any(int(row[1].split(":")[1], 16) == port and row[3] == "01" for row in rows)


def test_22_parameters_reach_every_stage(chain):
    # The testing backend answers with what the parameter `fail` says, at the first stage that sees it;
    # so for each stage alone, and for the first of the chain.
    for first in "ABC":
        place = {"A": "in chain 'A' stage 'A' (1/3): ", "B": "in chain 'B' stage 'B' (1/2): ",
                 "C": ""}[first]
        assert error(chain, first, 5, parameters={"fail": "as told"}) == (500, f"{place}as told")


def test_22_parameters_and_traces_pass_the_first_stage(tmp_path):
    """B is of the testing backend, which reports activities that a parameter names."""
    trace = tmp_path / "trace.json"
    with opens_server(tmp_path / "models", line_of_three(),
                      f"--trace-config=triton,file={trace}", "--trace-config=rate=1",
                      "--trace-config=level=TIMESTAMPS") as server:
        assert value(server, "A", 5, id="mine", parameters={"activity": "MARK"}) == 116
    events = json.loads(trace.read_text())
    heads = {e["id"]: e for e in events if "model_name" in e}
    marks = {heads[e["id"]]["model_name"] for e in events
             for t in e.get("timestamps", ()) if t.get("activity") == "MARK_START"}
    assert marks == {"A", "B", "C"}
    root = min(heads)
    assert {(h["model_name"], h.get("parent_id")) for h in heads.values()} == {
        ("A", None), ("A", root), ("B", root), ("C", root)}
    assert {h["request_id"] for h in heads.values()} == {"mine"}


# ---- 23 to 29; 28 is in tests/abi/test_chains.c --------------------------------------------------


def test_23_a_chain_that_is_a_model(chain):
    write(chain, "pipe/config.pbtxt", pipe("A,C"))
    write(chain, "pipe/1/.keep", "")
    assert load(chain, "pipe") == (200, "")
    assert value(chain, "pipe", 5) == 106
    assert value(chain, "A", 5) == 116
    assert stages(chain, "pipe") == [("A", True), ("C", True)]
    meta = requests.get(f"{chain.url}/v2/models/pipe", timeout=SECONDS).json()
    assert meta["platform"] == "chain"
    assert [t["name"] for t in meta["inputs"] + meta["outputs"]] == ["IN", "C_OUT"]
    counts = statistics(chain, "pipe")
    assert counts["inference_count"] == 1
    assert counts["inference_stats"]["queue"] == {"count": 1, "ns": 0}
    assert unload(chain, "pipe") == (200, "")
    assert is_ready(chain, "A") and is_ready(chain, "C")


def test_23_tensors_of_a_chain_are_checked(tmp_path):
    fits = pipe("B,C") + ('input { name: "IN" data_type: TYPE_INT32 dims: [1] }\n'
                          'output { name: "C_OUT" data_type: TYPE_INT32 dims: [1] }\n'
                          'max_batch_size: 4\n')
    models = line_of_three(fits=fits, wrong=fits.replace("C_OUT", "OTHER"),
                           bare='platform: "chain"\n')
    with opens_server(tmp_path, models, *EXPLICIT) as server:
        assert load(server, "fits") == (200, "")
        assert value(server, "fits", 5) == 115
        status, text = load(server, "wrong")
        assert status == 400 and "output 'OTHER' of chain 'wrong'" in text
        status, text = load(server, "bare")
        assert status == 400 and "must specify parameter 'stages' for chain 'bare'" in text


def test_23_labels_are_those_of_the_last_stage(tmp_path):
    last = adding(100, out="C_OUT").replace(
        '"C_OUT" data_type: TYPE_INT32 dims: [1]',
        '"C_OUT" data_type: TYPE_INT32 dims: [1] label_filename: "labels.txt"')
    models = line_of_three(C={"config.pbtxt": last, "labels.txt": "only\n"}, pipe=pipe("A,C"))
    with opens_server(tmp_path, models) as server:
        for model in ("pipe", "A"):
            reply = ask(server, model, 5, outputs=[{"name": "C_OUT",
                                                    "parameters": {"classification": 1}}])
            assert reply.json()["outputs"][0]["data"][0].endswith(":0:only")


@pytest.mark.parametrize("options", [(), ("--model-control-mode=poll", "--repository-poll-secs=1")],
                         ids=["none", "poll"])
def test_24_any_order_of_directories(tmp_path, options):
    models = {"a_last": adding(100, out="LAST"), "m_mid": adding(10, "a_last", out="MID"),
              "z_first": adding(1, "m_mid", out="FIRST"), "b_first": adding(2, "m_mid", out="X"),
              "broken": adding(1, "missing")}
    with opens_server(tmp_path, models, "--exit-on-error=false", *options) as server:
        for name in ("a_last", "m_mid", "z_first", "b_first"):
            wait_until(lambda name=name: is_ready(server, name), lambda: states(server))
        assert value(server, "z_first", 5) == 116
        assert value(server, "b_first", 5) == 117
        assert not is_ready(server, "broken")
        if not options:
            return
        # What was missing comes later.
        write(server, "missing/1/.keep", "")
        write(server, "missing/config.pbtxt", adding(7))
        wait_until(lambda: is_ready(server, "broken"), lambda: states(server))
        assert value(server, "broken", 5) == 13


def ask_for(server, model, offset, client, seconds):
    """How many numbers were asked about; no two clients have the same ones."""
    session, began, n = requests.Session(), time.monotonic(), 0
    while n == 0 or time.monotonic() < began + seconds:
        number = client * 1000000 + n
        assert value(server, model, number, session=session) == number + offset
        n += 1
    return n


def test_25_two_chains_share_a_stage(tmp_path):
    """64 clients for ten seconds: each answer is of its own chain and question, and none is missing."""
    models = line_of_three(D=adding(1000, "C", out="D_OUT", more=DYNAMIC))
    with opens_server(tmp_path, models) as server:
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            clients = [pool.submit(ask_for, server, *(("A", 111) if i % 2 else ("D", 1100)), i, 10)
                       for i in range(64)]
            counts = [client.result() for client in clients]
        of_a, of_d = sum(counts[1::2]), sum(counts[::2])
        assert [statistics(server, m)["inference_count"] for m in "ABCD"] == [
            of_a, of_a, of_a + of_d, of_d]


def test_26_metrics(chain):
    for i in range(100):
        assert value(chain, "A", i) == i + 111
    counts = lambda: [metrics(chain)[f'nv_inference_count{{model="{m}",version="1"}}']
                      for m in "ABC"]
    assert counts() == [100, 100, 100]
    now = metrics(chain)
    assert now['neso_chain_request_success{chain="A",version="1"}'] == 100
    assert now['neso_chain_inflight{chain="A"}'] == 0
    assert now['neso_chain_duration_us{chain="A"}'] > 0
    assert now['neso_chain_handoff_us{from="A",to="B"}'] >= 0
    assert now['neso_chain_handoff_us{from="B",to="C"}'] >= 0
    assert value(chain, "B", 5) == 115
    assert counts() == [100, 101, 101]
    of_chain = statistics(chain, "A")["chain"]
    assert of_chain["success"]["count"] == 100 and of_chain["success"]["ns"] > 0
    assert of_chain["fail"]["count"] == 0


def test_26_statistics_over_grpc(chain, stubs):
    assert value(chain, "A", 5) == 116
    with open_channel(chain) as channel:
        answer = Client(channel, stubs).call("ModelStatistics", {"name": "A"})
    assert answer.model_stats[0].inference_count == 1


DECOUPLED = "model_transaction_policy { decoupled: true }\n"


def test_27_decoupled_only_last(tmp_path, stubs):
    models = {"A": adding(1, "B", out="A_OUT"),
              "B": adding(10, out="B_OUT", more=DECOUPLED, responses=3),
              "D": adding(1, "E", more=DECOUPLED), "E": adding(1)}
    with opens_server(tmp_path, models, *EXPLICIT) as server:
        status, text = load(server, "D")
        assert status == 400 and "stage 'D' of chain 'D' is decoupled" in text
        assert load(server, "A") == (200, "")
        with open_channel(server) as channel:
            client = Client(channel, stubs)
            request = client.request("A", [("IN", "INT32", (1, 1))], [content_of("INT32", [5])])
            answers = list(client.stream([request]))
        assert [a.error_message for a in answers] == [""] * 3
        assert [a.infer_response.model_name for a in answers] == ["A"] * 3
        assert [a.infer_response.raw_output_contents[0] for a in answers] == [
            content_of("INT32", [16])] * 3


def test_29_outputs_are_inputs_where_they_lie(tmp_path):
    models = {"A": adding(1, "B", out="A_OUT", address_log="log"),
              "B": adding(10, "C", out="B_OUT", address_log="log"),
              "C": adding(100, out="C_OUT", address_log="log")}
    with opens_server(tmp_path, models) as server:
        assert value(server, "A", 5) == 116
        (_, a_out), (b_in, b_out), (c_in, _) = [
            (server.repository / m / "log").read_text().split() for m in "ABC"]
        assert a_out == b_in and b_out == c_in


def test_29_a_large_tensor(tmp_path):
    """64 MiB over HTTP; from the client's memory to it in tests/abi/test_chains.c, as is check 28."""
    def large(number, next_model=None, **parameters):
        return adding(number, next_model, batch=0, address_log="log", **parameters).replace(
            "dims: [1]", "dims: [-1]")

    models = {"A": large(1, "B", out="A_OUT"), "B": large(10, "C", out="B_OUT"),
              "C": large(100, out="C_OUT")}
    numbers = numpy.arange(16 << 20, dtype=numpy.int32)
    case = Case("A", (Tensor("IN", "INT32", numbers.shape, numbers.tobytes()),))
    with opens_server(tmp_path, models, "--http-max-input-size=100000000") as server:
        answer, = HttpBinary(server).send([case])
        assert (numpy.frombuffer(answer.outputs[0].content, numpy.int32) == numbers + 111).all()
        (_, a_out), (b_in, b_out), (c_in, _) = [
            (server.repository / m / "log").read_text().split() for m in "ABC"]
        assert a_out == b_in and b_out == c_in


# ---- beside the numbered ones -------------------------------------------------------------------


def test_a_chain_may_end_early(tmp_path):
    models = {"A": adding(1, "B", out="A_OUT", end_value=7, chain_allow_end="true"),
              "B": adding(10, out="B_OUT"),
              "D": adding(1, "B", out="D_OUT", end_value=7)}
    with opens_server(tmp_path, models) as server:
        assert [(o["name"], o["data"]) for o in ask(server, "A", 7).json()["outputs"]] == [
            ("A_OUT", [8])]
        assert executions(server, "B") == 0
        assert value(server, "A", 8) == 19
        # Off unless the model says so.
        assert value(server, "D", 7) == 18


def test_a_pinned_version(tmp_path):
    models = {"A": adding(1, "B:1", out="A_OUT"),
              "B": {"config.pbtxt": adding(10) + "version_policy { all { } }\n", "2/.keep": ""}}
    with opens_server(tmp_path, models, *EXPLICIT) as server:
        assert load(server, "A") == (200, "")
        reply = requests.get(f"{server.url}/v2/models/A/chain", timeout=SECONDS).json()
        assert [s["version"] for s in reply["stages"]] == ["1", "1"]
        status, text = load(server, "A", next="B:7")
        assert status == 400 and "7" in text


def test_stop_while_a_request_is_inside(tmp_path):
    """A step goes on while the server stops."""
    models = line_of_three(A=gated(adding(1, "B", out="A_OUT")))
    with opens_server(tmp_path, models) as server:
        with Gate(server, "A") as gate, concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(value, server, "A", 5)
            gate.wait()
            server.begin_stop()
            server.wait_for_line("Waiting for in-flight requests", SECONDS)
            gate.open()
            assert answer.result() == 116


def test_neso_check_says_where(tmp_path):
    write_repository(tmp_path, {"wide": adding(1, "B,C"), "x": adding(1, "y"), "y": adding(1, "x"),
                                "bare": 'platform: "chain"\n', "good": pipe("x,y")})
    ended = subprocess.run([BUILD / "neso", "check", f"--backend-directory={BUILD / 'backends'}",
                            tmp_path], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert sorted(ended.stderr.splitlines()) == [
        f"{tmp_path}/bare/config.pbtxt:1:1: must specify parameter 'stages' for chain 'bare'",
        f"{tmp_path}/wide/config.pbtxt:6:1: parameter 'next' of model 'wide' is 'B,C': chains are "
        "linear; use ensemble_scheduling",
        f"{tmp_path}/y/config.pbtxt:6:1: chain of model 'y' is circular: y -> x -> y"]
    assert "good: ok" in ended.stdout


def test_without_completion_of_configurations(tmp_path):
    with opens_server(tmp_path, line_of_three(pipe=pipe("A,C")),
                      "--disable-auto-complete-config") as server:
        assert value(server, "pipe", 5) == 106
