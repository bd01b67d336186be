# SPDX-License-Identifier: BSD-3-Clause
"""Sequences as clients see them, over HTTP, gRPC and one gRPC stream.

The testing backend adds up the values of a sequence in the memory of an instance, so that an answer
is right only when all requests of the sequence went to the same instance, in order.
"""
import concurrent.futures
import json
import struct
import time

import grpc
import pytest
import requests

from gate import Gate, gated
from grpc_stubs import SECONDS, Client, client, stubs  # noqa: F401
from models import write
from scrape import metric, wait_for_metric, wait_for_pending

BACKENDS = ("testing",)
ONE_GPU = True
# Tests leave sequences whose idle time is long: the exit timeout ends them.
OPTIONS = ("--model-control-mode=explicit", "--load-model=*", "--http-thread-count=2",
           "--exit-timeout-secs=8")


def tensor(kind, name, data_type="TYPE_INT32"):
    return f'{kind} {{ name: "{name}" data_type: {data_type} dims: 1 }}\n'


def control(name, kind, values):
    return f'control_input {{ name: "{name}" control {{ kind: CONTROL_SEQUENCE_{kind} {values} }} }}\n'


INT32 = "int32_false_true: [ 0, 1 ]"
CONTROLS = (control("START", "START", INT32) + control("END", "END", INT32)
            + control("READY", "READY", "int32_false_true: [ 10, 11 ]"))
ECHOES = "".join(tensor("output", f"ECHO_{name}") for name in ("START", "END", "READY"))


def model(sequences="", more="", batch=0, outputs=""):
    return (f'backend: "testing"\nmax_batch_size: {batch}\n' + tensor("input", "INPUT0")
            + tensor("output", "SUM") + tensor("output", "FLAGS") + tensor("output", "REQUESTS")
            + tensor("output", "INSTANCE", "TYPE_STRING") + outputs
            + "sequence_batching {\n" + sequences + "}\n" + more)


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


IDLE = "max_sequence_idle_microseconds: 60000000\n"
LAYOUTS = {
    "four_by_none": IDLE, "one_by_four": IDLE, "two_by_two": IDLE, "four_by_one": IDLE,
}
SHAPE = {"four_by_none": (4, 0), "one_by_four": (1, 4), "two_by_two": (2, 2), "four_by_one": (4, 1)}
OLDEST = "oldest { max_candidate_sequences: %d }\n"

MODELS = {
    "controls": model(IDLE + CONTROLS, outputs=ECHOES),
    "numbers": model(IDLE + control("CORRID", "CORRID", "data_type: TYPE_UINT64"),
                     outputs=tensor("output", "ECHO_CORRID", "TYPE_UINT64")),
    "texts": model(IDLE + control("CORRID", "CORRID", "data_type: TYPE_STRING"),
                   outputs=tensor("output", "ECHO_CORRID", "TYPE_STRING")),
    "held": gated(model(IDLE + CONTROLS, batch=4, outputs=ECHOES)),
    "counted": model(IDLE, "instance_group { count: 2 }\n", 2),
    "changing": model(IDLE, "instance_group { count: 2 }\n", 2),
    "many": model(IDLE, "instance_group { count: 4 }\n", 64),
    "oldest_many": model(IDLE + OLDEST % 64, "instance_group { count: 4 }\n", 64),
    "crowded": gated(model(IDLE + OLDEST % 2)),
    "short": model("max_sequence_idle_microseconds: 1000\n"),
    "again": model(IDLE + "iterative_sequence: true\n", parameter("iterations", 3)),
    "again_decoupled": model(IDLE + "iterative_sequence: true\n", parameter("iterations", 3)
                             + "model_transaction_policy { decoupled: true }\n",
                             outputs=tensor("output", "RESPONSE")),
    "no_again": model(IDLE, parameter("iterations", 2)),
}
for _name, (_instances, _batch) in SHAPE.items():
    _group = f"instance_group {{ count: {_instances} }}\n"
    MODELS[_name] = model(IDLE, _group, _batch)
    MODELS["oldest_" + _name] = model(IDLE + OLDEST % max(_batch, 1), _group, _batch)

SUMMING = [prefix + name for prefix in ("", "oldest_") for name in SHAPE]


def shape_of(name):
    return [1, 1] if SHAPE.get(name.removeprefix("oldest_"), (1, 0))[1] or name in ("held", "counted", "changing", "many", "oldest_many") else [1]


def body(name, value, sequence, start=False, end=False, outputs=None, **more):
    message = {"parameters": {"sequence_id": sequence, "sequence_start": start,
                              "sequence_end": end, **more},
               "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": shape_of(name),
                           "data": [value]}]}
    if outputs:
        message["outputs"] = [{"name": output} for output in outputs]
    return json.dumps(message)


def post(server, name, *arguments, session=requests, **keywords):
    return session.post(f"{server.url}/v2/models/{name}/infer",
                        data=body(name, *arguments, **keywords), timeout=SECONDS)


def infer(server, name, *arguments, **keywords):
    reply = post(server, name, *arguments, **keywords)
    assert reply.status_code == 200, reply.text
    return {output["name"]: output["data"][0] for output in reply.json()["outputs"]}


def refusal(server, name, *arguments, **keywords):
    reply = post(server, name, *arguments, **keywords)
    return reply.status_code, reply.json()["error"]


def needs_start(name, sequence):
    return (400, f"inference request for sequence {sequence} to model '{name}' must specify the "
                 "START flag on the first request of the sequence")


def test_controls(server):
    outputs = ["ECHO_START", "ECHO_END", "ECHO_READY", "FLAGS", "SUM"]
    assert infer(server, "controls", 5, 9, start=True, outputs=outputs) == {
        "ECHO_START": 1, "ECHO_END": 0, "ECHO_READY": 11, "FLAGS": 1, "SUM": 5}
    assert infer(server, "controls", 6, 9, outputs=outputs) == {
        "ECHO_START": 0, "ECHO_END": 0, "ECHO_READY": 11, "FLAGS": 0, "SUM": 11}
    assert infer(server, "controls", 7, 9, end=True, outputs=outputs) == {
        "ECHO_START": 0, "ECHO_END": 1, "ECHO_READY": 11, "FLAGS": 2, "SUM": 18}
    assert refusal(server, "controls", 1, 9) == needs_start("controls", 9)


def test_controls_are_not_inputs(server):
    metadata = requests.get(f"{server.url}/v2/models/controls", timeout=SECONDS).json()
    assert [tensor["name"] for tensor in metadata["inputs"]] == ["INPUT0"]
    message = json.loads(body("controls", 1, 3, start=True))
    message["inputs"].append({**message["inputs"][0], "name": "START"})
    reply = requests.post(f"{server.url}/v2/models/controls/infer", json=message, timeout=SECONDS)
    assert (reply.status_code, reply.json()["error"]) == (
        400, "[request id: <id_unknown>] expected 1 inputs but got 2 inputs for model 'controls'. "
        "Got input(s) ['INPUT0','START'], but missing required input(s) ]. Please provide all "
        "required input(s).")


def test_ids(server):
    assert infer(server, "numbers", 1, 2**64 - 1, start=True, end=True)["ECHO_CORRID"] == 2**64 - 1
    assert infer(server, "texts", 1, "a name", start=True)["ECHO_CORRID"] == "a name"
    assert infer(server, "texts", 2, "a name", end=True)["SUM"] == 3
    assert refusal(server, "texts", 1, "other") == needs_start("texts", "other")
    assert refusal(server, "texts", 1, 7, start=True) == (
        400, "[request id: <id_unknown>] sequence batching control 'CORRID' data-type is 'UINT64', "
        "but model 'texts' expects 'BYTES'")
    assert refusal(server, "numbers", 1, "x", start=True) == (
        400, "[request id: <id_unknown>] sequence batching control 'CORRID' data-type is 'BYTES', "
        "but model 'numbers' expects 'UINT64'")
    for nothing in (0, ""):
        assert refusal(server, "numbers", 1, nothing, start=True) == (
            400, "inference request to model 'numbers' must specify a non-zero or non-empty "
            "correlation ID")
    # A number and the text of its digits are two sequences; without a CORRID control, texts do.
    assert infer(server, "one_by_four", 5, 7, start=True)["SUM"] == 5
    assert infer(server, "one_by_four", 6, "7", start=True)["SUM"] == 6
    assert infer(server, "one_by_four", 1, 7, end=True)["SUM"] == 6
    assert infer(server, "one_by_four", 1, "7", end=True)["SUM"] == 7


def test_batch_size_is_one(server):
    message = json.loads(body("one_by_four", 1, 3, start=True))
    message["inputs"][0].update(shape=[2, 1], data=[1, 2])
    reply = requests.post(f"{server.url}/v2/models/one_by_four/infer", json=message, timeout=SECONDS)
    assert (reply.status_code, reply.json()["error"]) == (
        400, "inference request to model 'one_by_four' must specify batch-size 1 due to "
        "requirements of sequence batcher")


def test_second_start(server):
    infer(server, "controls", 5, 11, start=True)
    infer(server, "controls", 5, 11)
    assert infer(server, "controls", 7, 11, start=True)["SUM"] == 7
    assert infer(server, "controls", 1, 11, end=True)["SUM"] == 8
    server.wait_for_line(
        r"sequence 11 for model 'controls' has a conflict\. The previous sequence did not end "
        r"before this sequence start\. Previous sequence will be terminated early\.")


def test_idle_time(server):
    assert infer(server, "short", 5, 1, start=True)["SUM"] == 5
    # Its end frees the only slot for the one that waits.
    assert infer(server, "short", 6, 2, start=True, end=True)["SUM"] == 6
    assert refusal(server, "short", 5, 1) == needs_start("short", 1)


def test_null_requests(server):
    """Slots with nothing to run are in the batch, and in no statistics of requests."""
    statistics = f"{server.url}/v2/models/held/stats"
    with Gate(server, "held") as gate, concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(infer, server, "held", 1, 1, start=True)
        gate.wait()
        others = []
        for i in (2, 3):
            others.append(pool.submit(infer, server, "held", 1, i, start=True))
            wait_for_pending(server, "held", i - 1)
        gate.open(2)
        assert first.result()["REQUESTS"] == 1
        # Slot 0 has nothing to run while 1 and 2 have.
        assert [one.result()["REQUESTS"] for one in others] == [3, 3]
        entry = requests.get(statistics, timeout=SECONDS).json()["model_stats"][0]
    assert entry["inference_count"] == 3
    assert entry["execution_count"] == 2
    assert entry["inference_stats"]["success"]["count"] == 3
    assert entry["inference_stats"]["fail"]["count"] == 0
    assert [row["batch_size"] for row in entry["batch_stats"]] == [1, 3]


def test_backlog_and_timeout(server):
    with Gate(server, "crowded") as gate, concurrent.futures.ThreadPoolExecutor() as pool:
        full = [pool.submit(post, server, "crowded", 1, i, start=True) for i in range(10, 12)]
        gate.wait()
        wait_for_pending(server, "crowded", 1)
        assert refusal(server, "crowded", 1, 20, start=True, timeout=1000) == (
            503, "timeout of the corresponding sequence has been expired")
        gate.open(2)
        assert [reply.result().status_code for reply in full] == [200] * 2
        assert refusal(server, "crowded", 1, 20) == needs_start("crowded", 20)


def grpc_request(client, name, value, sequence, start=False, end=False, **fields):  # noqa: F811
    return client.request(name, [("INPUT0", "INT32", shape_of(name))], [struct.pack("<i", value)],
                          parameters={"sequence_id": sequence, "sequence_start": start,
                                      "sequence_end": end}, outputs=("SUM",), **fields)


def grpc_sum(reply):
    return struct.unpack("<i", reply.raw_output_contents[0])[0]


@pytest.mark.parametrize("name", SUMMING)
def test_sums_over_http(server, name):
    """Many sequences at once from many connections: more than there are slots."""
    def sequence(number):
        with requests.Session() as session:
            total = 0
            for i in range(12):
                total += number + i
                got = infer(server, name, number + i, number, start=i == 0, end=i == 11,
                            session=session)
                assert got["SUM"] == total
        return got["INSTANCE"]

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        instances = set(pool.map(sequence, range(1, 25)))
    assert len(instances) == SHAPE[name.removeprefix("oldest_")][0]


@pytest.mark.parametrize("name", SUMMING)
def test_sums_over_one_stream(client, name):  # noqa: F811
    """One stream, many sequences, their requests mixed and sent without waiting."""
    numbers = [f"s{i}" for i in range(30)] + list(range(100, 130))
    messages, expected = [], {}
    for step in range(5):
        for place, sequence in enumerate(numbers):
            messages.append(grpc_request(client, name, place + step, sequence, step == 0, step == 4,
                                         id=f"{place}.{step}"))
            expected[f"{place}.{step}"] = sum(place + i for i in range(step + 1))
    got = {}
    for reply in client.stream(messages):
        assert not reply.error_message
        got[reply.infer_response.id] = grpc_sum(reply.infer_response)
    assert got == expected


@pytest.mark.parametrize("name", ["many", "oldest_many"])
def test_a_thousand_sequences(stubs, server, name):  # noqa: F811
    """Over 16 connections, 63 on each, all begun before the first one ends: most wait at first."""
    def connection(number):
        channel = grpc.insecure_channel(f"127.0.0.1:{server.port('grpc')}",
                                        options=[("grpc.use_local_subchannel_pool", 1)])
        got, expected, messages = {}, {}, []
        with channel:
            caller = Client(channel, stubs)
            for step in range(6):
                for i in range(63):
                    sequence = number * 63 + i + 1
                    messages.append(grpc_request(caller, name, sequence + step, sequence, step == 0,
                                                 step == 5, id=f"{i}.{step}"))
                    expected[f"{i}.{step}"] = sum(sequence + k for k in range(step + 1))
            for reply in caller.stream(messages):
                assert not reply.error_message
                got[reply.infer_response.id] = grpc_sum(reply.infer_response)
        assert got == expected

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(connection, range(16)))
    wait_for_metric(server, 1008, "neso_sequences_ended_total", name, reason="end")
    assert metric(server, "neso_sequences_started_total", name) == 1008


def test_sums_while_instances_come_and_go(server):
    """Only the instance groups change: the sequences go on, on the instances where they are."""
    def sequence(number):
        with requests.Session() as session:
            total, instances = 0, set()
            for i in range(40):
                total += number + i
                got = infer(server, "changing", number + i, number, start=i == 0, end=i == 39,
                            session=session)
                assert got["SUM"] == total
                instances.add(got["INSTANCE"])
        assert len(instances) == 1

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        running = [pool.submit(sequence, number) for number in range(1, 41)]
        for count in (1, 4, 2, 3):
            write(server, "changing/config.pbtxt", MODELS["changing"].replace("count: 2", f"count: {count}"))
            reply = requests.post(f"{server.url}/v2/repository/models/changing/load", timeout=SECONDS)
            assert reply.status_code == 200, reply.text
        for one in running:
            one.result()
    wait_for_metric(server, 6, "neso_sequence_slots", "changing", state="free")


def test_one_sequence_over_http_and_grpc(server, client):  # noqa: F811
    assert infer(server, "two_by_two", 1, "both", start=True)["SUM"] == 1
    assert grpc_sum(client.ModelInfer(grpc_request(client, "two_by_two", 2, "both"),
                                      timeout=SECONDS)) == 3
    assert infer(server, "two_by_two", 3, "both", end=True)["SUM"] == 6


def test_refusals_over_grpc(client):  # noqa: F811
    inputs = [("INPUT0", "INT32", [1])]
    assert client.infer_refusal("controls", inputs, [b"\0\0\0\0"], parameters={"sequence_id": 99}) == (
        "INVALID_ARGUMENT", needs_start("controls", 99)[1])
    assert client.infer_refusal("controls", inputs, [b"\0\0\0\0"]) == (
        "INVALID_ARGUMENT", "inference request to model 'controls' must specify a non-zero or "
        "non-empty correlation ID")


def test_iterative(server):
    message = {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [4]}]}
    for _ in range(3):
        reply = requests.post(f"{server.url}/v2/models/again/infer", json=message, timeout=SECONDS)
        assert reply.status_code == 200, reply.text
        outputs = {output["name"]: output["data"][0] for output in reply.json()["outputs"]}
        assert outputs["FLAGS"] == 0  # START only the first time
    entry = requests.get(f"{server.url}/v2/models/again/stats", timeout=SECONDS).json()["model_stats"][0]
    assert entry["inference_count"] == 3
    assert entry["execution_count"] == 9


def test_iterative_over_generate_stream(server):
    reply = requests.post(f"{server.url}/v2/models/again_decoupled/generate_stream",
                          json={"INPUT0": 4}, timeout=SECONDS)
    assert reply.status_code == 200, reply.text
    events = [json.loads(line.removeprefix("data: ")) for line in reply.text.splitlines() if line]
    assert [(event["RESPONSE"], event["FLAGS"]) for event in events] == [(0, 1), (1, 0), (2, 0)]


def test_rescheduling_needs_iterative_sequences(server):
    """The backend's release is refused; it answers with the text that it got."""
    assert refusal(server, "no_again", 1, 1, start=True) == (
        400, "[request id: <id_unknown>] Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is "
        "not configured to handle such a flag.")


def counts(server, name):
    ended = {reason: metric(server, "neso_sequences_ended_total", name, reason=reason)
             for reason in ("end", "idle", "cancelled", "timeout")}
    return (metric(server, "neso_sequences_active", name),
            metric(server, "neso_sequences_backlog", name),
            metric(server, "neso_sequences_started_total", name), ended,
            [metric(server, "neso_sequence_slots", name, state=state) for state in ("used", "free")])


def test_metrics(server):
    assert counts(server, "counted") == (
        0, 0, 0, {"end": 0, "idle": 0, "cancelled": 0, "timeout": 0}, [0, 4])
    for i in range(1, 5):
        infer(server, "counted", 1, i, start=True)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(infer, server, "counted", 1, 5, start=True)
        wait_for_metric(server, 1, "neso_sequences_backlog", "counted")
        infer(server, "counted", 1, 1, end=True)
        waiting.result()
    wait_for_metric(server, 1, "neso_sequences_ended_total", "counted", reason="end")
    assert refusal(server, "counted", 1, 6, start=True, timeout=1000)[0] == 503
    assert counts(server, "counted") == (
        4, 0, 6, {"end": 1, "idle": 0, "cancelled": 0, "timeout": 1}, [4, 0])


def test_metrics_of_pending_requests(server):
    for name in SUMMING:
        assert metric(server, "nv_inference_pending_request_count", name) == 0
