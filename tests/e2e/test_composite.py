# SPDX-License-Identifier: BSD-3-Clause
"""Models whose instance groups take certain batch sizes only, as clients see them.

Which batches are formed and when is tested on a fake clock (tests/unit/sched/test_policy_composite.c). The
numbers in the names of tests are those of the acceptance checks.
"""
import concurrent.futures
import json
import os
import random
import threading
import time

import requests

from conftest import Server, write_repository
from gate import Gate, gated
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from models import opens_server, wait_until
from scrape import metric, wait_for_metric
from test_ctl import DONE, REFUSED, ctl_of
from test_dynamic_batching import (Crowd, batches, batching, body, infer, outputs, statistics,
                                   tensor)

BACKENDS = ("identity", "testing")
ONE_GPU = True
OUTPUTS = ("OUTPUT0", "BATCH_ROWS", "INSTANCE")
RANDOM_SECONDS = float(os.environ.get("NESO_RANDOM_SECONDS", "2"))


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def composite(more="", groups=(("b1", 1), ("b4", 1), ("b8", 1)),
              ranges="b1:1-1,b4:4-4,b8:8-8", data_type="TYPE_INT32", dims=(1,)):
    return ('backend: "testing"\nmax_batch_size: 8\n'
            + tensor("input", "INPUT0", data_type, dims) + tensor("output", "OUTPUT0", data_type, dims)
            + tensor("output", "BATCH_ROWS") + tensor("output", "REQUESTS")
            + tensor("output", "EXECUTIONS") + tensor("output", "INSTANCE", "TYPE_STRING")
            + "".join(f'instance_group {{ name: "{name}" count: {count} kind: KIND_CPU }}\n'
                      for name, count in groups)
            + parameter("batch_ranges", ranges) + more)


MODELS = {
    "plain": composite(),
    "whole": composite(parameter("split_requests", "false")),
    "texts": composite(data_type="TYPE_STRING", dims=(2,)),
    "crowd": composite(parameter("batch_log", "batches") + parameter("execute_delay_ms", "1")),
    "waiting": composite(
        parameter("partial", "wait") + "dynamic_batching { default_queue_policy { "
        "default_timeout_microseconds: 100000 } }\n",
        groups=(("b4", 1), ("b8", 1)), ranges="b4:4-4,b8:8-8"),
    "updated": composite(),
    "short": ('backend: "testing"\nmax_batch_size: 8\n' + tensor("input", "INPUT0")
              + tensor("output", "OUTPUT0") + tensor("output", "BATCH_ROWS")
              + tensor("output", "INSTANCE", "TYPE_STRING") + parameter("batch_min", "1&4&8")
              + parameter("batch_max", "1&4&8") + parameter("instance_num", "2")),
}


def ask(server, model, values, **named):
    return outputs(infer(server, model, values, OUTPUTS, **named))


def ask_until(server, model, values, batch_rows):
    """An instance that has just answered is not free yet, and another member may run its rows."""
    answers = []

    def is_as_planned():
        answers.append(ask(server, model, values))
        assert answers[-1]["OUTPUT0"] == values
        return sorted(answers[-1]["BATCH_ROWS"]) == batch_rows

    wait_until(is_as_planned, lambda: str(answers[-1]))
    return answers[-1]


def server_that_queues(folder, model, n):
    """No batch is formed before n requests are queued, once."""
    write_repository(folder, {"m": model})
    return Server(folder, ("--http-thread-count=2",),
                  under=("env", f"TRITONSERVER_DELAY_SCHEDULER={n}"))


# ---- which members run what ---------------------------------------------------------------------


def test_30_thirteen_are_eight_four_and_one(tmp_path):
    server = server_that_queues(tmp_path, composite(), 13)
    try:
        with Crowd(server, "m") as crowd:
            sent = [crowd.queue([n], OUTPUTS) for n in range(12)]
            sent.append(crowd.send([12], OUTPUTS))
            answers = [outputs(one.result()) for one in sent]
        for n, answer in enumerate(answers):
            rows, member = (8, "b8_0") if n < 8 else (4, "b4_0") if n < 12 else (1, "b1_0")
            assert answer == {"OUTPUT0": [n], "BATCH_ROWS": [rows], "INSTANCE": [member]}
        assert batches(server, "m") == {8: 1, 4: 1, 1: 1}
        stats = statistics(server, "m")
        assert (stats["inference_count"], stats["execution_count"]) == (13, 3)
        assert metric(server, "nv_inference_count", "m") == 13
        assert metric(server, "nv_inference_exec_count", "m") == 3
    finally:
        assert server.stop() == 0


def test_38_requests_of_several_rows_fill_a_member(tmp_path):
    server = server_that_queues(tmp_path, composite(), 3)
    try:
        with Crowd(server, "m") as crowd:
            sent = [crowd.queue([1, 2, 3, 4], OUTPUTS), crowd.queue([5, 6, 7], OUTPUTS),
                    crowd.send([8], OUTPUTS)]
            answers = [outputs(one.result()) for one in sent]
        assert [a["OUTPUT0"] for a in answers] == [[1, 2, 3, 4], [5, 6, 7], [8]]
        assert all(set(a["BATCH_ROWS"]) == {8} for a in answers)
        assert batches(server, "m") == {8: 1}
    finally:
        assert server.stop() == 0


def test_36_virtual_instances(tmp_path):
    """Torchpipe's spelling makes six instances, which are two virtual ones; each begins, executes and ends
    on one thread, and those of a group share what the first of them has made."""
    config = ('backend: "testing"\nmax_batch_size: 8\n' + tensor("input", "INPUT0")
              + tensor("output", "OUTPUT0") + tensor("output", "BATCH_ROWS")
              + tensor("output", "INSTANCE", "TYPE_STRING") + parameter("batch_min", "1&4&8")
              + parameter("batch_max", "1&4&8") + parameter("instance_num", "2")
              + parameter("life_log", "life") + parameter("execute_delay_ms", "20"))
    log = tmp_path / "models" / "m" / "life"
    with opens_server(tmp_path / "models", {"m": config}, "--model-control-mode=explicit",
                      "--load-model=m") as server:
        begun = [line.split() for line in log.read_text().splitlines()]
        assert sorted((name, group, index) for _, name, _, group, index, _ in begun) == [
            (f"{group}_{i}", group, str(i)) for group in ("m0", "m1", "m2") for i in range(2)]
        for group in ("m0", "m1", "m2"):
            assert [line[5] for line in begun if line[3] == group] == ["made", "found"]
        assert {line[0] for line in begun} == {"begin"}
        thread = {line[1]: line[2] for line in begun}
        assert len(set(thread.values())) == 6
        executed = set()

        def ask_all():
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                for answer in pool.map(lambda n: ask(server, "m", [n] * (1, 4, 8)[n % 3]), range(48)):
                    executed.update(answer["INSTANCE"])
            return len(executed) == 6

        wait_until(ask_all, lambda: str(executed))
        requests.post(f"{server.url}/v2/repository/models/m/unload", timeout=20)
        wait_until(lambda: log.read_text().count("destroy") == 3)
    lines = [line.split() for line in log.read_text().splitlines()[6:]]
    for line in lines:
        assert line[0] in ("execute", "end", "destroy")
        assert line[0] == "destroy" or thread[line[1]] == line[2]
    for group in ("m0", "m1", "m2"):
        ends = [line for line in lines if line[0] == "end" and line[1].startswith(group)]
        assert len(ends) == 2
        assert lines.index(["destroy", group]) > max(lines.index(line) for line in ends)
        assert len([line for line in lines if line == ["destroy", group]]) == 1


def test_36_torchpipe_spelling(server):
    """Six instances, and the two of one place in their groups are called alike."""
    config = requests.get(f"{server.url}/v2/models/short/config", timeout=20).json()
    assert [(g["name"], g["count"]) for g in config["instance_group"]] == [("m0", 2), ("m1", 2),
                                                                           ("m2", 2)]
    answer = ask_until(server, "short", [1, 2, 3, 4], [4] * 4)
    assert set(answer["INSTANCE"]) <= {"m1_0", "m1_1"}


def test_37_metrics_of_members(tmp_path):
    server = server_that_queues(tmp_path, composite(), 13)
    try:
        with Crowd(server, "m") as crowd:
            sent = [crowd.queue([n], OUTPUTS) for n in range(12)]
            sent.append(crowd.send([12], OUTPUTS))
            assert all(one.result().status_code == 200 for one in sent)
        assert ask(server, "m", [1, 2, 3])["OUTPUT0"] == [1, 2, 3]
        wait_for_metric(server, 0, "neso_virtual_instance_busy", "m", index="0")
        for member, executions, rows in (("b1", 4, 4), ("b4", 1, 4), ("b8", 1, 8)):
            wait_for_metric(server, executions, "neso_member_exec_count", "m", member=member)
            assert metric(server, "neso_member_rows", "m", member=member) == rows
            assert metric(server, "neso_member_busy_us", "m", member=member) >= 0
        assert metric(server, "neso_request_split", "m") == 1
        assert metric(server, "neso_batch_dispatch_reason", "m", reason="full") == 1
        assert metric(server, "neso_batch_dispatch_reason", "m", reason="due") == 5
    finally:
        assert server.stop() == 0


def members(server, model):
    """Of the statistics over HTTP, without times."""
    return [{key: value for key, value in member.items() if key != "busy_ns"}
            for member in statistics(server, model)["members"]]


def member(name, low, high, instances=1, busy=0, executions=0, rows=0):
    return {"name": name, "min_rows": low, "max_rows": high, "instances": instances, "busy": busy,
            "execution_count": executions, "row_count": rows}


def members_line(line):
    cells = line.split()
    return cells[:7]


def test_members_are_seen(tmp_path, stubs):  # noqa: F811
    config = composite(groups=(("b1", 2), ("b4", 1), ("any", 1)), ranges="b1:1-1,b4:4-4")
    with opens_server(tmp_path / "models", {"m": gated(config), "plain": batching()},
                      "--model-control-mode=explicit", "--load-model=*") as server:
        with Gate(server, "m") as gate, concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask, server, "m", [1, 2, 3, 4])
            gate.wait()
            assert members(server, "m") == [member("b1", 1, 1, 2), member("b4", 4, 4, busy=1),
                                            member("any", 1, 8)]
            code, out, error = ctl_of(server.url, "members", "m")
            assert (code, error) == (DONE, "")
            assert [members_line(line) for line in out.splitlines()] == [
                ["VERSION", "MEMBER", "BATCHES", "INSTANCES", "BUSY", "EXECUTIONS", "ROWS"],
                ["1", "b1", "1", "2", "0", "0", "0"], ["1", "b4", "4", "1", "1", "0", "0"],
                ["1", "any", "1-8", "1", "0", "0", "0"]]
            gate.open()
            assert asked.result()["OUTPUT0"] == [1, 2, 3, 4]
        after = [member("b1", 1, 1, 2), member("b4", 4, 4, executions=1, rows=4),
                 member("any", 1, 8)]
        wait_until(lambda: members(server, "m") == after)
        with open_channel(server) as channel:
            call = Client(channel, stubs).call
            [reported] = call("ModelStatistics", {"name": "m"}).model_stats
            assert [member(m.name, m.min_rows, m.max_rows, m.instances, m.busy, m.execution_count,
                           m.row_count) for m in reported.members] == after
            assert [m.busy_ns > 0 for m in reported.members] == [False, True, False]
            [plain] = call("ModelStatistics", {"name": "plain"}).model_stats
            assert len(plain.members) == 0
        assert "members" not in statistics(server, "plain")
        assert ctl_of(server.url, "members", "plain")[:2] == (
            DONE, "model 'plain' has no members: its instances take all batch sizes\n")
        code, out, error = ctl_of(server.url, "members", "nobody")
        assert (code, out) == (REFUSED, "") and "nobody" in error
        code, out, _ = ctl_of(server.url, "members", "m", "--json")
        assert json.loads(out)["model_stats"][0]["members"][1]["row_count"] == 4

        config = requests.get(f"{server.url}/v2/models/m/config", timeout=20).json()
        config["instance_group"][0]["count"] = 1
        reply = requests.post(f"{server.url}/v2/repository/models/m/load", timeout=60,
                              json={"parameters": {"config": json.dumps(config)}})
        assert reply.status_code == 200, reply.text
        wait_until(lambda: [m["instances"] for m in members(server, "m")] == [1, 1, 1])


# ---- requests that are run in parts -------------------------------------------------------------


def test_37_a_request_is_run_in_parts(server):
    before = statistics(server, "plain")
    answer = ask(server, "plain", [7, 8, 9], name="in parts")
    assert answer["OUTPUT0"] == [7, 8, 9]
    assert answer["BATCH_ROWS"] == [1, 1, 1]
    assert answer["INSTANCE"] == ["b1_0"] * 3
    after = statistics(server, "plain")
    assert after["inference_count"] - before["inference_count"] == 3
    assert after["execution_count"] - before["execution_count"] == 3
    count = "inference_stats"
    assert after[count]["success"]["count"] - before[count]["success"]["count"] == 1


def test_the_id_and_the_outputs_of_a_request_in_parts(server):
    reply = infer(server, "plain", [4, 5, 6, 7, 8], ("INSTANCE", "OUTPUT0"), name="five")
    reported = reply.json()
    assert reported["id"] == "five"
    answer = outputs(reply)
    assert set(answer) == {"INSTANCE", "OUTPUT0"}
    assert answer["OUTPUT0"] == [4, 5, 6, 7, 8]
    answer = ask_until(server, "plain", [4, 5, 6, 7, 8], [1, 4, 4, 4, 4])
    assert sorted(answer["INSTANCE"]) == ["b1_0"] + ["b4_0"] * 4


def test_texts_are_cut_between_elements(server):
    values = ["", "a", "bc" * 40, "d", "é", "", "ghi" * 1000, "j", "k", "l"]
    asked = {"inputs": [{"name": "INPUT0", "shape": [5, 2], "datatype": "BYTES", "data": values}],
             "outputs": [{"name": "OUTPUT0"}, {"name": "BATCH_ROWS"}]}
    reply = requests.post(f"{server.url}/v2/models/texts/infer", json=asked, timeout=30)
    answer = outputs(reply)
    assert answer["OUTPUT0"] == values
    assert set(answer["BATCH_ROWS"]) <= {1, 4}


def test_a_request_in_parts_is_traced_and_cached_as_one(tmp_path):
    trace = tmp_path / "trace.json"
    with opens_server(tmp_path / "models", {"m": composite("response_cache { enable: true }\n")},
                      "--cache-config=local,size=10000000", "--trace-config=mode=triton",
                      f"--trace-config=triton,file={trace}", "--trace-config=level=TIMESTAMPS",
                      "--trace-config=rate=1") as server:
        first = ask(server, "m", [1, 2, 3, 4, 5])
        assert first["OUTPUT0"] == [1, 2, 3, 4, 5]
        assert ask(server, "m", [1, 2, 3, 4, 5]) == first
        stats = statistics(server, "m")
        assert stats["inference_stats"]["cache_hit"]["count"] == 1
        assert stats["inference_count"] == 5
        assert stats["execution_count"] == round(sum(1 / n for n in first["BATCH_ROWS"]))
    reported = [stamp["name"] for entry in json.loads(trace.read_text())
            for stamp in entry.get("timestamps", ())]
    for name in ("COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END"):
        assert reported.count(name) == 1


def test_an_error_of_a_part_is_the_requests(server):
    reply = infer(server, "plain", [1, 2, 3], OUTPUTS, parameters={"fail": "no such thing"})
    assert reply.status_code == 500
    assert reply.json() == {"error": "no such thing"}
    assert ask(server, "plain", [5])["OUTPUT0"] == [5]


def test_37_without_splitting(server):
    reply = infer(server, "whole", [1, 2, 3], OUTPUTS)
    assert reply.status_code == 400
    assert reply.json()["error"].endswith("batch size 3 not supported; allowed: 1,4,8")
    assert ask(server, "whole", [1, 2, 3, 4])["BATCH_ROWS"] == [4] * 4


# ---- many at once -------------------------------------------------------------------------------


def test_33_random_clients(server):
    """32 clients with 1 to 8 rows each: no execution has a size that its member does not take, the rows
    are those that were sent, and each client gets its own answer. NESO_RANDOM_SECONDS=60 is the whole
    check."""
    n_clients = 32
    sizes = {"b1": "1", "b4": "4", "b8": "8"}
    start = threading.Barrier(n_clients)

    def client(number):
        draw, wrong, n_rows, n_requests = random.Random(number), [], 0, 0
        with requests.Session() as session:
            start.wait()
            end = time.monotonic() + RANDOM_SECONDS
            while n_requests < 10 or time.monotonic() < end:
                rows = draw.randint(1, 8)
                values = [number * 1000000 + n_requests * 10 + row for row in range(rows)]
                reply = session.post(f"{server.url}/v2/models/crowd/infer", timeout=60,
                                     data=body(values, OUTPUTS))
                answer = outputs(reply)
                n_rows += rows
                n_requests += 1
                if answer["OUTPUT0"] != values or [
                        sizes[name.split("_")[0]] for name in answer["INSTANCE"]] != [
                        str(n) for n in answer["BATCH_ROWS"]]:
                    wrong.append((values, answer))
        return wrong, n_rows, n_requests

    with concurrent.futures.ThreadPoolExecutor(n_clients) as pool:
        ended = list(pool.map(client, range(n_clients)))
    assert not [wrong for wrong, _, _ in ended if wrong]
    log = (server.repository / "crowd" / "batches").read_text().splitlines()
    rows_run = [int(line.split()[1]) for line in log]
    assert set(rows_run) <= {1, 4, 8}
    assert sum(rows_run) == sum(n for _, n, _ in ended)
    stats = statistics(server, "crowd")
    assert stats["inference_count"] == sum(rows_run)
    assert stats["inference_stats"]["success"]["count"] == sum(n for _, _, n in ended)
    assert batches(server, "crowd") == {size: rows_run.count(size) for size in set(rows_run)}


# ---- waiting, updating, ending ------------------------------------------------------------------


def test_34_what_no_member_takes_waits_and_times_out(server):
    reply = infer(server, "waiting", [1], OUTPUTS)
    assert (reply.status_code, reply.json()["error"]) == (503, "Request timeout expired")
    assert ask(server, "waiting", [1, 2, 3, 4])["BATCH_ROWS"] == [4] * 4


def test_members_are_updated_without_a_reload(tmp_path):
    with opens_server(tmp_path / "models", {"m": composite()},
                      "--model-control-mode=explicit", "--load-model=m") as server:
        config = requests.get(f"{server.url}/v2/models/m/config", timeout=20).json()
        config["instance_group"][0]["count"] = 3
        config["instance_group"][2]["count"] = 2
        reply = requests.post(f"{server.url}/v2/repository/models/m/load", timeout=60,
                              json={"parameters": {"config": json.dumps(config)}})
        assert reply.status_code == 200, reply.text
        ask_until(server, "m", [1, 2, 3, 4, 5, 6, 7, 8], [8] * 8)
        assert ask(server, "m", [1, 2, 3])["OUTPUT0"] == [1, 2, 3]
        del config["instance_group"][0]
        reply = requests.post(f"{server.url}/v2/repository/models/m/load", timeout=60,
                              json={"parameters": {"config": json.dumps(config)}})
        assert reply.status_code == 400
        assert ask(server, "m", [1])["INSTANCE"][0].startswith("b1_")


def test_an_update_keeps_the_instances_of_each_group(tmp_path):
    """Groups that are alike but for their names take other batches: fewer of one do not become more of
    another."""
    with opens_server(tmp_path / "models", {"m": composite(groups=(("b1", 3), ("b4", 1), ("b8", 1)))},
                      "--model-control-mode=explicit", "--load-model=m") as server:
        config = requests.get(f"{server.url}/v2/models/m/config", timeout=20).json()
        for counts in ((1, 1, 1), (1, 3, 2), (2, 1, 1)):
            for group, count in zip(config["instance_group"], counts):
                group["count"] = count
            reply = requests.post(f"{server.url}/v2/repository/models/m/load", timeout=60,
                                  json={"parameters": {"config": json.dumps(config)}})
            assert reply.status_code == 200, reply.text
            wait_until(lambda c=counts: [m["instances"] for m in members(server, "m")] == [*c])
            ask_until(server, "m", [1, 2, 3, 4, 5, 6, 7, 8], [8] * 8)


def test_44_what_is_queued_runs_before_an_unload(tmp_path):
    """Twenty wait while all three members execute: each is answered, and the instances end after the last
    execution."""
    config = composite(parameter("life_log", "life") + "dynamic_batching { }\n")
    with opens_server(tmp_path / "models", {"m": gated(config)}, "--http-thread-count=2",
                      "--model-control-mode=explicit", "--load-model=m") as server:
        log = server.repository / "m" / "life"
        with Gate(server, "m") as gate, concurrent.futures.ThreadPoolExecutor(23) as pool:
            held = []
            for rows in (8, 4, 1):
                held.append(pool.submit(infer, server, "m", [0] * rows, OUTPUTS))
                gate.wait()
            sent = [pool.submit(infer, server, "m", [n], OUTPUTS) for n in range(20)]
            wait_for_metric(server, 20, "nv_inference_pending_request_count", "m")
            reply = requests.post(f"{server.url}/v2/repository/models/m/unload", timeout=20)
            assert reply.status_code == 200
            gate.open(100)
            assert all(one.result().status_code == 200 for one in held)
            assert [outputs(one.result())["OUTPUT0"] for one in sent] == [[n] for n in range(20)]
        wait_until(lambda: log.read_text().count("destroy") == 3)
    reported = [line.split()[0] for line in log.read_text().splitlines() if line.split()[0] != "destroy"]
    assert reported[-3:] == ["end"] * 3
    assert reported.count("end") == 3 and set(reported[3:-3]) == {"execute"}


def test_35_a_wrong_load_names_the_group(tmp_path):
    write_repository(tmp_path, {"m": composite(ranges="b1:1-1,b4:5-4")})
    server = Server(tmp_path, ("--exit-on-error=false",))
    try:
        assert "batch range 5-4 of instance group 'b4' of model m" in server.text()
    finally:
        assert server.stop() == 0


def test_warmup_runs_on_the_members_that_take_it(tmp_path):
    def sample(size):
        return (f'model_warmup {{ name: "w{size}" batch_size: {size} count: 1 inputs {{ key: "INPUT0" '
                'value { data_type: TYPE_INT32 dims: 1 zero_data: true } } }\n')

    good = composite(parameter("batch_log", "batches") + sample(4) + sample(8))
    with opens_server(tmp_path / "good", {"m": good}) as server:
        log = (server.repository / "m" / "batches").read_text().splitlines()
        assert sorted(log) == ["4 4", "8 8"]
    folder = tmp_path / "bad"
    folder.mkdir()
    write_repository(folder, {"m": composite(sample(5))})
    server = Server(folder, ("--exit-on-error=false",))
    try:
        assert ("warmup sample 'w5' of model 'm' has batch_size 5, which no instance group takes"
                in server.text())
    finally:
        assert server.stop() == 0
