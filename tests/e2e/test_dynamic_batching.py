# SPDX-License-Identifier: BSD-3-Clause
"""Queues and batches as clients see them; the testing backend stops where a test says so.

The rules themselves are tested on a fake clock in the unit tests of the schedulers; here is what
must hold from socket to backend and back.
"""
import concurrent.futures
import json
import threading
import time

import pytest
import requests

from conftest import Server, write_repository
from gate import Gate, gated
from scrape import metric, wait_for_metric, wait_for_pending
from wire import Wire, request

BACKENDS = ("identity", "testing")
OPTIONS = ("--http-thread-count=2",)


def tensor(kind, name, data_type="TYPE_INT32", dims=(1,)):
    return f'{kind} {{ name: "{name}" data_type: {data_type} dims: {list(dims)} }}\n'


def batching(more="", max_batch_size=8, dims=(1,)):
    """Repeats INPUT0; the other outputs tell how it was executed."""
    return (f'backend: "testing"\nmax_batch_size: {max_batch_size}\n'
            + tensor("input", "INPUT0", dims=dims) + tensor("output", "OUTPUT0", dims=dims)
            + tensor("output", "REQUESTS") + tensor("output", "BATCH_ROWS")
            + tensor("output", "EXECUTIONS") + tensor("output", "INSTANCE", "TYPE_STRING") + more)


def dynamic(text=""):
    return f"dynamic_batching {{ {text} }}\n"


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


MODELS = {
    "crowd": {"config.pbtxt": batching(dynamic() + parameter("execute_delay_ms", "2")
                                      + parameter("batch_log", "batches"))},
    "full": gated(batching(dynamic())),
    "preferred": gated(batching(dynamic("preferred_batch_size: [ 2, 4 ]"))),
    "delayed": batching(dynamic("max_queue_delay_microseconds: 30000000"), max_batch_size=3),
    "impatient": batching(dynamic("max_queue_delay_microseconds: 20000")),
    "timeout": gated(batching(dynamic(
        "default_queue_policy { default_timeout_microseconds: 20000 allow_timeout_override: true } "
        "priority_levels: 2 default_priority_level: 2 priority_queue_policy { key: 1 value { } }"
    ))),
    "override": gated(batching(dynamic(
        "default_queue_policy { default_timeout_microseconds: 30000000 "
        "allow_timeout_override: true }"))),
    "no_override": gated(batching(dynamic(
        "default_queue_policy { default_timeout_microseconds: 30000000 }"))),
    "later": gated(batching(dynamic(
        "default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1000 }"),
        max_batch_size=1)),
    "limited": gated(batching(dynamic("default_queue_policy { max_queue_size: 3 }"))),
    "priorities": gated(batching(dynamic(
        "priority_levels: 3 default_priority_level: 2 "
        "priority_queue_policy { key: 3 value { max_queue_size: 1 } }"), max_batch_size=1)),
    "ordered": gated(batching(dynamic("preserve_ordering: true") + "instance_group { count: 2 }\n",
                             max_batch_size=1)),
    "unordered": gated(batching(dynamic() + "instance_group { count: 2 }\n", max_batch_size=1)),
    "pair": gated(batching("instance_group { count: 2 kind: KIND_CPU }\n", max_batch_size=0)),
    "named": gated(batching('instance_group { name: "left" count: 1 }\n'
                           'instance_group { count: 1 }\n', max_batch_size=0)),
    "single": gated(batching()),
    "shapes": gated(batching(dynamic(), dims=(-1,))),
    "fixed": "backend: \"identity\"\n" + tensor("input", "INPUT0") + tensor("output", "OUTPUT0"),
}


def body(values, outputs=("OUTPUT0", "REQUESTS", "BATCH_ROWS", "EXECUTIONS"), shape=None,
         parameters=None, name=None):
    made = {"parameters": parameters or {},
            "inputs": [{"name": "INPUT0", "shape": shape or [len(values), 1], "datatype": "INT32",
                        "data": list(values)}],
            "outputs": [{"name": one} for one in outputs]}
    if name is not None:
        made["id"] = name
    return json.dumps(made)


def infer(server, model, values, *arguments, **named):
    return requests.post(f"{server.url}/v2/models/{model}/infer", timeout=30,
                         data=body(values, *arguments, **named))


def outputs(reply):
    """{name: data} of an answer."""
    assert reply.status_code == 200, reply.text
    return {output["name"]: output["data"] for output in reply.json()["outputs"]}


def assert_error(reply, status, text):
    assert (reply.status_code, reply.json()) == (status, {"error": text})


def statistics(server, model):
    reply = requests.get(f"{server.url}/v2/models/{model}/stats", timeout=20)
    return reply.json()["model_stats"][0]


def batches(server, model):
    """{batch size: executions}"""
    return {one["batch_size"]: one["compute_infer"]["count"]
            for one in statistics(server, model)["batch_stats"]}


class Crowd:
    """Requests that wait in a model's queue, in the order in which they were sent."""

    def __init__(self, server, model):
        self.server = server
        self.model = model
        self.n_waiting = 0
        self._pool = concurrent.futures.ThreadPoolExecutor(16)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._pool.shutdown()

    def send(self, values, *arguments, **named):
        return self._pool.submit(infer, self.server, self.model, values, *arguments, **named)

    def queue(self, values, *arguments, **named):
        """Comes back when the request waits; nothing of the model may be taken meanwhile."""
        sent = self.send(values, *arguments, **named)
        self.n_waiting += 1
        wait_for_pending(self.server, self.model, self.n_waiting)
        return sent


# ---- batches ------------------------------------------------------------------------------------


def test_many_clients(server):
    """32 at a time: they are batched, and everybody gets the answer to what was asked."""
    n_clients, n_requests = 32, 12
    wrong = []
    start = threading.Barrier(n_clients)

    def client(number):
        try:
            with requests.Session() as session:
                start.wait()
                for n in range(n_requests):
                    rows = 1 + (number + n) % 3
                    values = [number * 1000 + n * 10 + row for row in range(rows)]
                    reply = session.post(f"{server.url}/v2/models/crowd/infer", timeout=30,
                                         data=body(values))
                    answer = outputs(reply)
                    if answer["OUTPUT0"] != values or len(set(answer["BATCH_ROWS"])) != 1:
                        wrong.append((values, answer))
        except Exception as failure:  # pylint: disable=broad-except
            wrong.append(failure)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

    log = (server.repository / "crowd" / "batches").read_text().splitlines()
    executions = [tuple(map(int, line.split())) for line in log]
    sizes = [rows for _, rows in executions]
    assert sum(n for n, _ in executions) == n_clients * n_requests
    assert max(sizes) <= 8 and max(n for n, _ in executions) > 1
    reported = batches(server, "crowd")
    assert reported == {size: sizes.count(size) for size in set(sizes)}
    stats = statistics(server, "crowd")
    assert stats["execution_count"] == len(executions)
    assert stats["inference_count"] == sum(sizes)
    assert stats["inference_stats"]["success"]["count"] == n_clients * n_requests


def test_what_waits_is_one_batch(server):
    """While the first is executed, others come; the next execution takes all that fit."""
    with Gate(server, "full") as gate, Crowd(server, "full") as crowd:
        first = crowd.send([1])
        gate.wait()
        waiting = [crowd.queue([10 * n, 10 * n + 1]) for n in range(3)]
        waiting.append(crowd.queue([70, 71, 72]))  # 6 + 3 > 8
        gate.open()
        gate.wait()
        gate.open()
        gate.wait()
        gate.open()
        assert outputs(first.result())["REQUESTS"] == [1]
        for n in range(3):
            assert outputs(waiting[n].result()) == {
                "OUTPUT0": [10 * n, 10 * n + 1], "REQUESTS": [3, 3], "BATCH_ROWS": [6, 6],
                "EXECUTIONS": [2, 2]}
        assert outputs(waiting[3].result()) == {
            "OUTPUT0": [70, 71, 72], "REQUESTS": [1] * 3, "BATCH_ROWS": [3] * 3,
            "EXECUTIONS": [3] * 3}
    assert batches(server, "full") == {1: 1, 3: 1, 6: 1}


def test_preferred_sizes(server):
    """7 wait: 4, then 2, then 1."""
    with Gate(server, "preferred") as gate, Crowd(server, "preferred") as crowd:
        first = crowd.send([1])
        gate.wait()
        waiting = [crowd.queue([n]) for n in range(7)]
        gate.open(4)
        assert outputs(first.result())["BATCH_ROWS"] == [1]
        assert [outputs(one.result())["BATCH_ROWS"] for one in waiting] == (
            [[4]] * 4 + [[2]] * 2 + [[1]])


def test_other_shapes_are_other_batches(server):
    with Gate(server, "shapes") as gate, Crowd(server, "shapes") as crowd:
        first = crowd.send([1], shape=[1, 1])
        gate.wait()
        waiting = [crowd.queue([1, 2], shape=[1, 2]), crowd.queue([3, 4], shape=[1, 2]),
                   crowd.queue([5, 6], shape=[2, 1]), crowd.queue([7, 8], shape=[1, 2])]
        gate.open(4)
        outputs(first.result())
        assert [outputs(one.result())["EXECUTIONS"][0] for one in waiting] == [2, 2, 3, 4]
        assert [outputs(one.result())["OUTPUT0"] for one in waiting] == [
            [1, 2], [3, 4], [5, 6], [7, 8]]


def test_full_batch_does_not_wait(server):
    """The delay is half a minute; three rows are a full batch."""
    with Crowd(server, "delayed") as crowd:
        sent = [crowd.send([n]) for n in range(3)]
        for n, one in enumerate(sent):
            assert outputs(one.result(timeout=20)) == {
                "OUTPUT0": [n], "REQUESTS": [3], "BATCH_ROWS": [3], "EXECUTIONS": [1]}


def test_delay_ends(server):
    """Nobody else comes: it goes alone, not before its time."""
    answer = outputs(infer(server, "impatient", [5]))
    assert (answer["OUTPUT0"], answer["BATCH_ROWS"]) == ([5], [1])
    queue = statistics(server, "impatient")["inference_stats"]["queue"]
    assert queue["count"] == 1 and 20_000_000 <= queue["ns"] < 10_000_000_000


@pytest.mark.parametrize("end", ["unload", "stop"])
def test_nothing_waits_for_others_at_the_end(tmp_path, end):
    """Neither when the model is unloaded nor when the server stops."""
    config = batching(dynamic("max_queue_delay_microseconds: 3600000000"))
    write_repository(tmp_path, {"m": config})
    server = Server(tmp_path, ("--model-control-mode=explicit", "--load-model=m", *OPTIONS))
    try:
        with Crowd(server, "m") as crowd:
            sent = [crowd.queue([n]) for n in range(3)]
            if end == "unload":
                requests.post(f"{server.url}/v2/repository/models/m/unload", timeout=20)
            else:
                server.begin_stop()
            for n, one in enumerate(sent):
                answer = outputs(one.result())
                assert (answer["OUTPUT0"], answer["BATCH_ROWS"]) == ([n], [3])
        if end == "stop":
            server.process.wait(40)
    finally:
        assert server.stop() == 0


def test_error_of_one_in_a_batch(server):
    """The others get their answers."""
    with Gate(server, "full") as gate, Crowd(server, "full") as crowd:
        first = crowd.send([1])
        gate.wait()
        good = crowd.queue([2])
        bad = crowd.queue([3], parameters={"fail": "only me", "fail_code": "Invalid argument"})
        late = crowd.queue([4])
        gate.open(2)
        outputs(first.result())
        assert outputs(good.result())["OUTPUT0"] == [2]
        assert_error(bad.result(), 400, "only me")
        assert outputs(late.result())["OUTPUT0"] == [4]
        assert outputs(late.result())["REQUESTS"] == [3]
        gate.wait()


def test_client_that_leaves_its_batch(server):
    """Its request is taken out of the queue; the rest are a batch without it."""
    with Gate(server, "full") as gate, Crowd(server, "full") as crowd:
        first = crowd.send([1])
        gate.wait()
        stays = [crowd.queue([2])]
        with Wire(server.http_port) as leaving:
            leaving.send(request("POST", "/v2/models/full/infer", body([3]).encode()))
            wait_for_pending(server, "full", 2)
            crowd.n_waiting += 1
            stays.append(crowd.queue([4]))
        wait_for_pending(server, "full", 2)
        gate.open(2)
        outputs(first.result())
        assert [outputs(one.result())["REQUESTS"] for one in stays] == [[2], [2]]
        gate.wait()


# ---- queues -------------------------------------------------------------------------------------


def test_timeout_while_a_batch_executes(server):
    """The model stands still, and the answer comes nevertheless."""
    with Gate(server, "timeout") as gate, Crowd(server, "timeout") as crowd:
        first = crowd.send([1], parameters={"priority": 1})  # has all the time it needs to begin
        gate.wait()
        late = [crowd.send([2], name="late one"), crowd.send([3])]
        for one in late:
            assert_error(one.result(timeout=20), 503, "Request timeout expired")
        assert not first.done()
        assert metric(server, "nv_inference_request_failure", "timeout", reason="REJECTED") == 2
        gate.open()
        assert outputs(first.result())["OUTPUT0"] == [1]
        assert not gate.is_reached()


def test_request_shortens_the_timeout(server):
    with Gate(server, "override") as gate, Crowd(server, "override") as crowd:
        first = crowd.send([1])
        gate.wait()
        waits = crowd.queue([2], parameters={"timeout": 60_000_000})
        assert_error(crowd.send([3], parameters={"timeout": 1000}).result(timeout=20), 503,
                     "Request timeout expired")
        assert not waits.done()
        gate.open(2)
        assert outputs(first.result())["OUTPUT0"] == [1]
        assert outputs(waits.result())["OUTPUT0"] == [2]


def test_request_may_not_change_the_timeout(server):
    with Gate(server, "no_override") as gate, Crowd(server, "no_override") as crowd:
        first = crowd.send([1])
        gate.wait()
        second = crowd.queue([2], parameters={"timeout": 1})
        third = crowd.queue([3])
        assert not second.done()
        gate.open(2)
        assert [outputs(one.result())["OUTPUT0"] for one in (first, second, third)] == [
            [1], [2], [3]]


def test_delayed_instead_of_rejected(server):
    """Who waited too long comes after those who have not, but is answered."""
    with Gate(server, "later") as gate, Crowd(server, "later") as crowd:
        crowd.send([0])
        gate.wait()
        waiting = [crowd.queue([n]) for n in range(3)]
        gate.open(4)
        assert sorted(outputs(one.result())["EXECUTIONS"][0] for one in waiting) == [2, 3, 4]
    assert metric(server, "nv_inference_request_failure", "later", reason="REJECTED") == 0


def test_queue_is_full(server):
    """Exactly three wait; the fourth is told so, by its name."""
    with Gate(server, "limited") as gate, Crowd(server, "limited") as crowd:
        first = crowd.send([1])
        gate.wait()
        waiting = [crowd.queue([n]) for n in range(3)]
        assert_error(crowd.send([7]).result(), 503,
                     "[request id: <id_unknown>] Exceeds maximum queue size")
        assert_error(crowd.send([7], name="number 8").result(), 503,
                     "[request id: number 8] Exceeds maximum queue size")
        wait_for_pending(server, "limited", 3)
        gate.open(2)
        for one in (first, *waiting):
            assert one.result().status_code == 200
        gate.wait()
        gate.open()
        assert outputs(infer(server, "limited", [9]))["OUTPUT0"] == [9]
    # Refused requests never were in the queue.
    assert set(metric(server, "nv_inference_request_failure", "limited", reason=reason)
               for reason in ("REJECTED", "OTHER", "BACKEND", "CANCELED")) == {0}


def test_priorities(server):
    """1 before 2 before 3; without a priority, or with one beyond the last, the default counts."""
    with Gate(server, "priorities") as gate, Crowd(server, "priorities") as crowd:
        first = crowd.send([0])
        gate.wait()
        sent = [crowd.queue([n], parameters={"priority": priority} if priority else None)
                for n, priority in enumerate([3, 2, 0, 1, 9, 1])]
        assert_error(crowd.send([0], parameters={"priority": 3}).result(), 503,
                     "[request id: <id_unknown>] Exceeds maximum queue size")
        gate.open(7)
        outputs(first.result())
        assert [outputs(one.result())["EXECUTIONS"][0] for one in sent] == [7, 4, 5, 2, 6, 3]


# ---- order --------------------------------------------------------------------------------------


SLOW_MS = 150


def two_at_the_gate(server, model):
    """The first of two requests computes longer than the second; after how many milliseconds are
    both answered?"""
    with Gate(server, model) as gate, Crowd(server, model) as crowd:
        slow = crowd.send([1], parameters={"delay_ms": SLOW_MS})
        gate.wait()
        quick = crowd.send([2])
        gate.wait()
        started = time.monotonic()
        took = {}
        for name, one in (("slow", slow), ("quick", quick)):
            one.add_done_callback(
                lambda _, name=name: took.update({name: (time.monotonic() - started) * 1000}))
        gate.open(2)
        assert outputs(slow.result())["OUTPUT0"] == [1]
        assert outputs(quick.result())["OUTPUT0"] == [2]
    return took


def test_order_is_preserved(server):
    """The second is computed long before, and waits for the first."""
    took = two_at_the_gate(server, "ordered")
    assert took["slow"] >= SLOW_MS and took["quick"] >= SLOW_MS


def test_order_is_not_preserved(server):
    """Of a busy machine an answer may be late; one that had to wait for the first is always."""
    for _ in range(10):
        took = two_at_the_gate(server, "unordered")
        assert took["slow"] >= SLOW_MS
        if took["quick"] < SLOW_MS:
            return
    raise AssertionError(took)


# ---- instances ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model, names", [("pair", ["pair_0_0", "pair_0_1"]),
                                          ("named", ["left_0", "named_1_0"])])
def test_instances_execute_at_the_same_time(server, model, names):
    """Both stand at the gate; a third request waits."""
    with Gate(server, model) as gate, Crowd(server, model) as crowd:
        sent = [crowd.send([n], ["OUTPUT0", "INSTANCE"], [1]) for n in range(2)]
        gate.wait(2)
        third = crowd.queue([2], ["OUTPUT0", "INSTANCE"], [1])
        assert not gate.is_reached()
        gate.open(3)
        answers = [outputs(one.result()) for one in (*sent, third)]
        gate.wait()
    assert [answer["OUTPUT0"] for answer in answers] == [[0], [1], [2]]
    assert sorted(answer["INSTANCE"][0] for answer in answers[:2]) == names
    assert answers[2]["INSTANCE"][0] in names


def test_one_instance_executes_alone(server):
    with Gate(server, "single") as gate, Crowd(server, "single") as crowd:
        first = crowd.send([1])
        gate.wait()
        second = crowd.queue([2])
        assert not gate.is_reached()
        gate.open(2)
        assert outputs(first.result())["EXECUTIONS"] == [1]
        assert outputs(second.result())["EXECUTIONS"] == [2]
        gate.wait()


def test_no_batching_without_dynamic_batching(server):
    """max_batch_size says what a request may have, not that requests are put together."""
    with Gate(server, "single") as gate, Crowd(server, "single") as crowd:
        first = crowd.send([1])
        gate.wait()
        waiting = [crowd.queue([n, n + 1]) for n in range(5)]
        gate.open(6)
        for n, one in enumerate(waiting):
            answer = outputs(one.result())
            assert (answer["OUTPUT0"], answer["REQUESTS"], answer["BATCH_ROWS"]) == (
                [n, n + 1], [1, 1], [2, 2])
        outputs(first.result())
        gate.wait(5)
    assert set(batches(server, "single")) == {1, 2}


def test_gpus_are_refused(tmp_path):
    write_repository(tmp_path, {"gpu": MODELS["fixed"] + "instance_group { kind: KIND_GPU }\n"})
    running = Server(tmp_path, ("--exit-on-error=false",))
    index = requests.post(f"{running.url}/v2/repository/index", timeout=20).json()
    assert running.stop() == 0
    assert index == [{"name": "gpu", "version": "1", "state": "UNAVAILABLE", "reason": (
        "Invalid argument: instance group gpu_0 of model gpu has kind KIND_GPU but no GPUs "
        "are available")}]


def test_batch_that_is_too_large(server):
    assert_error(infer(server, "full", range(9), name="big"), 400,
                 "[request id: big] inference request batch-size must be <= 8 for 'full'")
    wait_for_metric(server, 0, "nv_inference_pending_request_count", "full")
