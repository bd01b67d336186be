# SPDX-License-Identifier: BSD-3-Clause
"""Live sequences while their model is loaded again, unloaded or changed, and while the server stops.

An answer is right only when it comes from the load of the model where the sequence began: the sum is
kept in the memory of its instance, and SERIAL tells the instances of all loads apart.
"""
import concurrent.futures
import threading

import pytest
import requests

from conftest import Server, write_repository
from gate import Gate, gated
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from models import (EXPLICIT, SECONDS, index, load, model_config, opens_server, unload, wait_for_index,
                    wait_until, write)
from scrape import metric, wait_for_metric, wait_for_pending
from test_sequences import grpc_request, grpc_sum, infer, needs_start, post, refusal

ONE_GPU = True
TAKES_SECONDS = 20

BACKENDS = ("testing",)
UNKNOWN = "Request for unknown model: 'm' has no available versions"


def tensor(kind, name, data_type="TYPE_INT32"):
    return f'{kind} {{ name: "{name}" data_type: {data_type} dims: 1 }}\n'


def model(sequences="max_sequence_idle_microseconds: 600000000", count=1, more="", batch=0):
    scheduling = f"sequence_batching {{ {sequences} }}\n" if sequences else ""
    return (f'backend: "testing"\nmax_batch_size: {batch}\n' + tensor("input", "INPUT0")
            + tensor("output", "SUM") + tensor("output", "SERIAL", "TYPE_INT64") + scheduling
            + f"instance_group {{ count: {count} }}\n" + more)


OLDEST = "max_sequence_idle_microseconds: 600000000 oldest { max_candidate_sequences: 4 }"
SHORT = "max_sequence_idle_microseconds: 100000"


def changed(text):
    """Another configuration of the same model, so that a load replaces it."""
    return text + f'parameters {{ key: "changed {len(text)}" value {{ string_value: "" }} }}\n'


def opens(tmp_path, text=None, *options):
    """A server whose exit does not wait long for sequences that tests leave."""
    return opens_server(tmp_path / "models", {"m": text or model()}, *EXPLICIT, "--load-model=*",
                        "--exit-timeout-secs=8", *options)


def reload(server, text=None):
    text = text or changed((server.repository / "m" / "config.pbtxt").read_text())
    write(server, "m/config.pbtxt", text)
    load(server, "m")


def wait_for_unloaded(server):
    wait_for_index(server, "m", [("1", "UNAVAILABLE", "unloaded")])


def count_of_ended_loads(server):
    return server.text().count("successfully unloaded 'm'")


@pytest.mark.parametrize("sequences", [None, OLDEST], ids=("direct", "oldest"))
@pytest.mark.parametrize("options", [(), ("--rate-limit=execution_count",)], ids=("", "limited"))
def test_a_reload_lets_sequences_end(tmp_path, sequences, options):
    with opens(tmp_path, model(sequences or OLDEST.split(" oldest")[0]), *options) as server:
        old = infer(server, "m", 1, 7, start=True)["SERIAL"]
        reload(server)
        begun = infer(server, "m", 100, 8, start=True)
        assert begun["SUM"] == 100 and begun["SERIAL"] != old
        assert infer(server, "m", 2, 7) == {"SUM": 3, "SERIAL": old}
        assert infer(server, "m", 3, 7) == {"SUM": 6, "SERIAL": old}
        assert infer(server, "m", 1, 8, end=True) == {"SUM": 101, "SERIAL": begun["SERIAL"]}
        assert count_of_ended_loads(server) == 0
        assert infer(server, "m", 4, 7, end=True) == {"SUM": 10, "SERIAL": old}
        wait_until(lambda: count_of_ended_loads(server) == 1, server.text)
        assert refusal(server, "m", 1, 7) == needs_start("m", 7)


def test_several_reloads(tmp_path):
    """Each load keeps its own; each ends with its last sequence."""
    with opens(tmp_path) as server:
        serials = {}
        for i in range(1, 5):
            serials[i] = infer(server, "m", i, i, start=True)["SERIAL"]
            reload(server)
        assert len(set(serials.values())) == 4
        for i in (3, 1, 4, 2):
            assert infer(server, "m", 10, i) == {"SUM": i + 10, "SERIAL": serials[i]}
        for n, i in enumerate((2, 4, 1, 3), 1):
            assert infer(server, "m", 10, i, end=True) == {"SUM": i + 20, "SERIAL": serials[i]}
            wait_until(lambda n=n: count_of_ended_loads(server) == n, server.text)


def test_an_id_begins_again_after_a_reload(tmp_path):
    """The new sequence is on the new load; the one of the same id on the old load ends."""
    with opens(tmp_path) as server:
        old = infer(server, "m", 1, "x", start=True)["SERIAL"]
        reload(server)
        again = infer(server, "m", 5, "x", start=True)
        assert again["SUM"] == 5 and again["SERIAL"] != old
        server.wait_for_line(r"sequence x for model 'm' has a conflict\.")
        wait_until(lambda: count_of_ended_loads(server) == 1, server.text)
        assert infer(server, "m", 6, "x", end=True) == {"SUM": 11, "SERIAL": again["SERIAL"]}


def test_the_backlog_of_a_load_that_was_replaced(tmp_path):
    """What waits for a slot there waits on, and gets it."""
    with opens(tmp_path) as server, concurrent.futures.ThreadPoolExecutor() as pool:
        old = infer(server, "m", 1, 1, start=True)["SERIAL"]
        waiting = pool.submit(infer, server, "m", 20, 2, start=True)
        wait_for_metric(server, 1, "neso_sequences_backlog", "m")
        reload(server)
        assert infer(server, "m", 30, 3, start=True, end=True)["SERIAL"] != old
        second = pool.submit(infer, server, "m", 21, 2, end=True)
        assert infer(server, "m", 1, 1, end=True) == {"SUM": 2, "SERIAL": old}
        assert waiting.result() == {"SUM": 20, "SERIAL": old}
        assert second.result() == {"SUM": 41, "SERIAL": old}
        wait_until(lambda: count_of_ended_loads(server) == 1, server.text)


def test_idle_sequences_end_with_their_load(tmp_path):
    with opens(tmp_path, model(SHORT)) as server:
        infer(server, "m", 1, 7, start=True)
        reload(server)
        wait_until(lambda: count_of_ended_loads(server) == 1, server.text)
        assert refusal(server, "m", 1, 7) == needs_start("m", 7)


def test_a_reload_without_sequences(tmp_path):
    """The new load has no sequences at all: it serves what the old one does not know."""
    with opens(tmp_path) as server:
        old = infer(server, "m", 1, 7, start=True)["SERIAL"]
        reload(server, model(sequences=""))
        assert infer(server, "m", 2, 7) == {"SUM": 3, "SERIAL": old}
        assert infer(server, "m", 2, 8)["SERIAL"] != old
        assert infer(server, "m", 3, 7, end=True) == {"SUM": 6, "SERIAL": old}
        wait_until(lambda: count_of_ended_loads(server) == 1, server.text)


def reply_of(server, path, *arguments, **keywords):
    reply = post(server, path, *arguments, **keywords)
    assert reply.status_code == 200, reply.text
    message = reply.json()
    return message["model_version"], message["outputs"][0]["data"][0]


def test_a_new_version(tmp_path):
    """A name without a version means the version where the sequence began."""
    with opens(tmp_path) as server:
        assert reply_of(server, "m", 1, 7, start=True) == ("1", 1)
        (server.repository / "m" / "2").mkdir()
        load(server, "m")
        assert reply_of(server, "m", 1, 8, start=True) == ("2", 1)
        assert reply_of(server, "m", 2, 7) == ("1", 3)
        assert reply_of(server, "m/versions/1", 3, 7) == ("1", 6)
        assert refusal(server, "m/versions/2", 1, 7) == needs_start("m", 7)
        assert refusal(server, "m/versions/1", 1, 9, start=True) == (
            503, "Request for unknown model: 'm' version 1 is not at ready state")
        assert reply_of(server, "m", 4, 7, end=True) == ("1", 10)
        wait_for_index(server, "m", [("1", "UNAVAILABLE", "unloaded"), ("2", "READY", None)])


def test_versions_side_by_side(tmp_path):
    more = "version_policy { all { } }\n"
    with opens(tmp_path, model(more=more)) as server:
        assert reply_of(server, "m", 1, 7, start=True) == ("1", 1)
        (server.repository / "m" / "2").mkdir()
        load(server, "m")
        assert reply_of(server, "m", 2, 7) == ("1", 3)
        # The same id on the other version: both serve, so each has its own.
        assert reply_of(server, "m", 50, 7, start=True) == ("2", 50)
        assert reply_of(server, "m", 1, 7) == ("2", 51)
        assert reply_of(server, "m/versions/1", 3, 7, end=True) == ("1", 6)
        assert reply_of(server, "m/versions/2", 1, 7, end=True) == ("2", 52)


def test_an_unload_lets_sequences_end(tmp_path):
    with opens(tmp_path) as server:
        infer(server, "m", 1, 7, start=True)
        unload(server, "m")
        assert [line[1:3] for line in index(server)] == [("1", "UNLOADING")]
        assert refusal(server, "m", 1, 8, start=True) == (404, UNKNOWN)
        assert refusal(server, "m", 1, 8) == (404, UNKNOWN)
        assert requests.get(f"{server.url}/v2/models/m/ready", timeout=SECONDS).status_code != 200
        assert infer(server, "m", 2, 7)["SUM"] == 3
        assert reply_of(server, "m/versions/1", 3, 7, end=True) == ("1", 6)
        wait_for_unloaded(server)
        assert refusal(server, "m", 1, 7) == (404, UNKNOWN)


def test_a_second_unload_ends_sequences(tmp_path):
    """Those of old loads as well; what is under way is answered."""
    with opens(tmp_path) as server:
        infer(server, "m", 1, 7, start=True)
        reload(server)
        infer(server, "m", 1, 8, start=True)
        unload(server, "m")
        assert infer(server, "m", 2, 7)["SUM"] == 3
        assert infer(server, "m", 2, 8)["SUM"] == 3
        unload(server, "m")
        wait_for_unloaded(server)
        wait_until(lambda: count_of_ended_loads(server) == 2, server.text)
        assert refusal(server, "m", 1, 7) == (404, UNKNOWN)


def test_an_unload_and_idle_sequences(tmp_path):
    with opens(tmp_path, model(SHORT)) as server:
        infer(server, "m", 1, 7, start=True)
        unload(server, "m")
        wait_for_unloaded(server)


def test_a_load_after_an_unload(tmp_path):
    with opens(tmp_path) as server:
        old = infer(server, "m", 1, 7, start=True)["SERIAL"]
        unload(server, "m")
        load(server, "m")
        assert infer(server, "m", 5, 8, start=True, end=True)["SERIAL"] != old
        assert infer(server, "m", 2, 7, end=True) == {"SUM": 3, "SERIAL": old}
        wait_until(lambda: count_of_ended_loads(server) == 1, server.text)
        assert [line[1:3] for line in index(server)] == [("1", "READY")]


def test_polls(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    write_repository(folder, {"m": model(OLDEST)})
    server = Server(folder, ("--model-control-mode=poll", "--repository-poll-secs=1",
                             "--exit-timeout-secs=8"))
    try:
        old = infer(server, "m", 1, 7, start=True)["SERIAL"]
        write(server, "m/config.pbtxt", changed(model(OLDEST)))
        wait_until(lambda: infer(server, "m", 1, 8, start=True, end=True)["SERIAL"] != old)
        assert infer(server, "m", 2, 7) == {"SUM": 3, "SERIAL": old}
        (server.repository / "m").rename(tmp_path / "gone")
        wait_until(lambda: post(server, "m", 1, 8, start=True, end=True).status_code == 404)
        assert infer(server, "m", 3, 7, end=True) == {"SUM": 6, "SERIAL": old}
        wait_for_unloaded(server)
    finally:
        assert server.stop() == 0, server.text()


def wait_for_groups(server, count):
    """Until an update has come so far that superfluous instances have to go."""
    wait_until(lambda: model_config(server, "m")["instance_group"][0]["count"] == count)


def test_instances_that_go(tmp_path):
    """The load waits for their sequences; meanwhile others begin elsewhere."""
    with opens(tmp_path, model(count=2)) as server, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        serials = [infer(server, "m", i, i, start=True)["SERIAL"] for i in (1, 2)]
        assert len(set(serials)) == 2
        write(server, "m/config.pbtxt", model(count=1))
        update = pool.submit(load, server, "m")
        wait_for_groups(server, 1)
        # The slots of one instance take nothing new: what waits gets the other's.
        waiting = pool.submit(infer, server, "m", 5, 3, start=True)
        wait_for_metric(server, 1, "neso_sequences_backlog", "m")
        assert not update.done()
        for i in (1, 2):
            assert infer(server, "m", 10, i, end=True) == {"SUM": i + 10, "SERIAL": serials[i - 1]}
        assert waiting.result()["SERIAL"] in serials
        assert update.result().status_code == 200
        wait_for_metric(server, 1, "neso_sequence_slots", "m", state="used")
        wait_for_metric(server, 0, "neso_sequence_slots", "m", state="free")


def by_instance(server):
    """The ids of the sequences, in the order of their instances."""
    reply = requests.get(f"{server.url}/v2/models/m/sequences", timeout=SECONDS)
    rows = reply.json()["model_sequences"][0]["sequences"]
    return [row["id"] for row in sorted(rows, key=lambda row: row["instance"])]


def test_all_instances_that_go_take_nothing_new(tmp_path):
    """They end one after the other. One that waits for its turn takes no new sequences either, which the load
    would have to wait for as well."""
    with opens(tmp_path, model(count=3)) as server, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        serials = {i: infer(server, "m", i, i, start=True)["SERIAL"] for i in (1, 2, 3)}
        stays, *go = by_instance(server)  # the first stays, the others go in this order
        write(server, "m/config.pbtxt", model(count=1))
        update = pool.submit(load, server, "m")
        wait_for_groups(server, 1)
        waiting = pool.submit(infer, server, "m", 5, 4, start=True, end=True)
        wait_for_metric(server, 1, "neso_sequences_backlog", "m")
        for i in reversed(go):
            assert infer(server, "m", 10, i, end=True) == {"SUM": i + 10, "SERIAL": serials[i]}
        assert update.result(SECONDS).status_code == 200
        assert not waiting.done()
        assert infer(server, "m", 10, stays, end=True)["SUM"] == stays + 10
        assert waiting.result(SECONDS) == {"SUM": 5, "SERIAL": serials[stays]}


def test_one_stream_through_reloads(tmp_path, stubs):  # noqa: F811
    """A stream whose requests are sent one by one, each after a reload."""
    arrived = threading.Semaphore(0)
    with opens(tmp_path, model(OLDEST)) as server, open_channel(server) as channel:
        caller = Client(channel, stubs)

        def messages():
            for step in range(6):
                yield grpc_request(caller, "m", step + 1, "s", step == 0, step == 5)
                yield grpc_request(caller, "m", step, f"one {step}", True, True)
                arrived.acquire(timeout=SECONDS)
                reload(server)

        sums, n = [], 0
        for reply in caller.stream(messages()):
            assert not reply.error_message
            sums.append(grpc_sum(reply.infer_response))
            n += 1
            if n % 2 == 0:
                arrived.release()
        assert sorted(sums) == sorted([1, 3, 6, 10, 15, 21] + list(range(6)))


def ask_to_stop(server):
    server.begin_stop()
    server.wait_for_line(r"All models are stopped, unloading models")


def test_a_stop_lets_sequences_end(tmp_path):
    with opens(tmp_path, model(count=2), "--exit-timeout-secs=60") as server, \
            requests.Session() as session:
        infer(server, "m", 1, 7, start=True, session=session)
        old = infer(server, "m", 1, 8, start=True)["SERIAL"]
        ask_to_stop(server)
        server_not_ready = (503, "Server not ready")
        assert refusal(server, "m", 1, 9, start=True) == server_not_ready
        assert refusal(server, "m", 1, 9) == server_not_ready
        assert infer(server, "m", 2, 7, session=session)["SUM"] == 3
        assert infer(server, "m", 2, 8) == {"SUM": 3, "SERIAL": old}
        assert infer(server, "m", 3, 8, end=True) == {"SUM": 6, "SERIAL": old}
        assert infer(server, "m", 3, 7, end=True, session=session)["SUM"] == 6
        assert server.stop() == 0
        assert "Model 'm' (version 1) has 2 in-flight inferences" in server.text()
        assert "nearly over" not in server.text()


def test_a_stop_ends_sequences_that_are_idle_for_too_long(tmp_path):
    """Not in time for their idle time, but in time for the exit timeout: the exit is a clean one."""
    with opens(tmp_path, None, "--exit-timeout-secs=8") as server:
        infer(server, "m", 1, 7, start=True)
        reload(server)
        infer(server, "m", 1, 8, start=True)
        assert server.stop() == 0
        assert "The exit timeout is nearly over: sequences without requests end" in server.text()
        assert count_of_ended_loads(server) == 2


def test_a_stop_while_instances_wait_to_go(tmp_path):
    with opens(tmp_path, model(count=2), "--exit-timeout-secs=8") as server, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        for i in (1, 2):
            infer(server, "m", i, i, start=True)
        write(server, "m/config.pbtxt", model(count=1))
        update = pool.submit(load, server, "m")
        wait_for_groups(server, 1)
        assert server.stop() == 0
        assert update.result().status_code == 200


def test_a_request_that_runs_while_its_model_is_replaced(tmp_path):
    """Its answer and the next request's are the old load's."""
    with opens_server(tmp_path / "models", {"m": gated(model())}, *EXPLICIT, "--load-model=*",
                      "--exit-timeout-secs=8") as server, \
            Gate(server, "m") as gate, concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(infer, server, "m", 1, 7, start=True)
        gate.wait()
        second = pool.submit(infer, server, "m", 2, 7)
        wait_for_pending(server, "m", 1)
        reload(server)
        gate.open(3)
        assert (first.result()["SUM"], second.result()["SUM"]) == (1, 3)
        assert infer(server, "m", 3, 7, end=True)["SUM"] == 6
        assert metric(server, "neso_sequences_started_total", "m") == 0  # of the new load
