# SPDX-License-Identifier: BSD-3-Clause
"""The live sequences of a model, over HTTP and through `neso ctl sequences`."""
import concurrent.futures

import requests

from gate import Gate, gated
from grpc_stubs import SECONDS, client, stubs  # noqa: F401
from models import load, unload, wait_for_index, write
from scrape import wait_for_metric, wait_for_pending
from test_ctl import DONE, REFUSED, USAGE, ctl_of
from test_sequence_life import changed, model
from test_sequences import grpc_request, infer

BACKENDS = ("testing",)
OPTIONS = ("--model-control-mode=explicit", "--load-model=*", "--exit-timeout-secs=8")
IDLE = "max_sequence_idle_microseconds: 600000000"
MODELS = {
    "m": gated(model()),
    "plain": model(sequences=""),
    "two": model(count=2),
    "old": model(),
    "crowd": model(IDLE + " oldest { max_candidate_sequences: 3000 }"),
}


def ask(server, path):
    return requests.get(f"{server.url}/v2/models/{path}/sequences", timeout=SECONDS)


def listed(server, path):
    reply = ask(server, path)
    assert reply.status_code == 200, reply.text
    return reply.json()["model_sequences"]


def without_times(row):
    return {key: value for key, value in row.items() if key not in ("age_us", "idle_us")}


def test_a_slot_and_the_backlog(server):
    with Gate(server, "m") as gate, concurrent.futures.ThreadPoolExecutor() as pool:
        [before] = listed(server, "m")
        assert before == {"name": "m", "version": "1", "retired": False, "active": 0, "backlog": 0,
                          "sequences": [], "left_out": 0}
        first = pool.submit(infer, server, "m", 1, 7, start=True)
        gate.wait()
        waiting = pool.submit(infer, server, "m", 1, "7", start=True, end=True)
        wait_for_metric(server, 1, "neso_sequences_backlog", "m")
        second = pool.submit(infer, server, "m", 1, 7)
        wait_for_pending(server, "m", 2)
        [load_of_m] = listed(server, "m")
        assert (load_of_m["active"], load_of_m["backlog"]) == (1, 1)
        assert [without_times(row) for row in load_of_m["sequences"]] == [
            {"id": 7, "instance": "m_0_0", "slot": 0, "requests": 2, "ending": False},
            {"id": "7", "requests": 1, "ending": True}]
        assert all(row["idle_us"] == 0 < row["age_us"] for row in load_of_m["sequences"])

        code, out, error = ctl_of(server.url, "sequences", "m")
        assert code == DONE, error
        lines = [line.split() for line in out.splitlines()]
        assert lines[0] == ["VERSION", "ID", "INSTANCE", "SLOT", "REQUESTS", "AGE", "IDLE", "STATE"]
        assert lines[1][:5] == ["1", "7", "m_0_0", "0", "2"]
        assert lines[2][:3] == ["1", '"7"', "1"] and lines[2][-1] == "ending"
        assert out.splitlines()[-1] == "1 with a slot, 1 in the backlog"

        gate.open(4)
        assert (first.result()["SUM"], second.result()["SUM"]) == (1, 2)
        [after] = listed(server, "m/versions/1")
        assert [(row["id"], row["requests"]) for row in after["sequences"]][:1] == [(7, 0)]
        assert after["sequences"][0]["age_us"] >= after["sequences"][0]["idle_us"]
        infer(server, "m", 1, 7, end=True)
        waiting.result()
    assert ctl_of(server.url, "sequences", "m") == (DONE, "0 with a slot, 0 in the backlog\n", "")


def test_slots_of_instances(server):
    for i in (1, 2):
        infer(server, "two", i, i, start=True)
    [row] = listed(server, "two")
    assert sorted((s["instance"], s["slot"]) for s in row["sequences"]) == [("two_0_0", 0),
                                                                            ("two_0_1", 0)]


def test_old_loads(server):
    infer(server, "old", 1, 7, start=True)
    write(server, "old/config.pbtxt", changed(model()))
    load(server, "old")
    infer(server, "old", 1, 8, start=True)
    assert [(load["retired"], [s["id"] for s in load["sequences"]])
            for load in listed(server, "old")] == [(True, [7]), (False, [8])]
    assert "on an old load" in ctl_of(server.url, "sequences", "old")[1]
    infer(server, "old", 1, 7, end=True)
    unload(server, "old")
    assert [(load["retired"], [s["id"] for s in load["sequences"]])
            for load in listed(server, "old")] == [(True, [8])]
    infer(server, "old", 1, 8, end=True)
    wait_for_index(server, "old", [("1", "UNAVAILABLE", "unloaded")])
    assert ask(server, "old").status_code == 400


def test_a_crowd_is_cut_short(server, client):  # noqa: F811
    messages = [grpc_request(client, "crowd", 1, i, True) for i in range(1, 1301)]
    for reply in client.stream(messages):
        assert not reply.error_message
    [row] = listed(server, "crowd")
    assert (row["active"], len(row["sequences"]), row["left_out"]) == (1300, 1000, 300)
    assert len({s["id"] for s in row["sequences"]}) == 1000
    code, out, error = ctl_of(server.url, "sequences", "crowd")
    assert code == DONE, error
    assert out.splitlines()[-1] == "1300 with a slot, 0 in the backlog; 300 are not listed"


def test_refusals(server):
    for path, error in (("plain", "model 'plain' has no sequence_batching"),
                        ("nobody", "requested model 'nobody' is not available"),
                        ("two/versions/9",
                         "requested model version is not available for model 'two'")):
        reply = ask(server, path)
        assert (reply.status_code, reply.json()) == (400, {"error": error})
    assert ctl_of(server.url, "sequences", "plain") == (
        REFUSED, "", "neso ctl: model 'plain' has no sequence_batching\n")
    assert ctl_of(server.url, "sequences")[0] == USAGE
