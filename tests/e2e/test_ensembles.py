# SPDX-License-Identifier: BSD-3-Clause
"""Requests to ensembles over each protocol. How ensembles are loaded and go: test_ensemble_life.py; what is
in docs/pipelines.md is shown here, but caches, labels and traces (test_pipeline_accounts.py).

No test sleeps: executions stop at gates (gate.py), and what is counted after the answer is waited for.
"""
import concurrent.futures

import grpc
import pytest
import requests

from gate import Gate, gated
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from infer_ways import (Case, Failure, GrpcRaw, GrpcTyped, HttpBinary, HttpJson, InProcess, Tensor,
                        content_of, strings, values_of)
from models import EXPLICIT, SECONDS, opens_server, wait_until, write
from scrape import metric


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def adding(number, batch=8, more="", **parameters):
    """OUT is IN and a number, INT32; EXECUTIONS says how often it ran."""
    return (f'backend: "testing" max_batch_size: {batch}\n'
            'input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }\n'
            'output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }\n'
            'instance_group { count: 1 kind: KIND_CPU }\n' + parameter("add", number) + more +
            "".join(parameter(key, value) for key, value in parameters.items()))


def step(model, inputs, outputs, version=-1):
    maps = "".join(f' {field} {{ key: "{key}" value: "{value}" }}'
                   for field, mapped in (("input_map", inputs), ("output_map", outputs))
                   for key, value in mapped.items())
    return f'  step {{ model_name: "{model}" model_version: {version}{maps} }}\n'


def line(*models, batch=8, more="", scheduling="", datatype="TYPE_INT32"):
    """X through all of them to Y."""
    tensors = ["X", *(f"T{i}" for i in range(1, len(models))), "Y"]
    return (f'platform: "ensemble" max_batch_size: {batch}\n'
            f'input {{ name: "X" data_type: {datatype} dims: [ 1 ] }}\n'
            f'output {{ name: "Y" data_type: {datatype} dims: [ 1 ] }}\n' + more +
            "ensemble_scheduling {\n" + scheduling +
            "".join(step(model, {"IN": tensors[i]}, {"OUT": tensors[i + 1]})
                    for i, model in enumerate(models)) + "}\n")


DIAMOND = ('platform: "ensemble" max_batch_size: 8\n'
           'input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }\n'
           'output { name: "LEFT" data_type: TYPE_INT32 dims: [ 1 ] }\n'
           'output { name: "RIGHT" data_type: TYPE_INT32 dims: [ 1 ] }\n'
           "ensemble_scheduling {\n" +
           step("one", {"IN": "X"}, {"OUT": "T"}) + step("ten", {"IN": "T"}, {"OUT": "LEFT"}) +
           step("hundred", {"IN": "T"}, {"OUT": "RIGHT"}) + "}\n")
STREAM = ('backend: "testing" max_batch_size: 0\n'
          'input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }\n'
          'output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }\n'
          'output { name: "RESPONSE" data_type: TYPE_INT32 dims: [ 1 ] }\n'
          'model_transaction_policy { decoupled: true }\n' + parameter("add", 0) +
          parameter("responses", 3))
STREAMING = ('platform: "ensemble"\n'
             'input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }\n'
             'output { name: "NUMBER" data_type: TYPE_INT32 dims: [ 1 ] }\n'
             'output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }\n'
             "ensemble_scheduling {\n" +
             step("stream", {"IN": "X"}, {"OUT": "T", "RESPONSE": "NUMBER"}) +
             step("plain_hundred", {"IN": "T"}, {"OUT": "Y"}) + "}\n")
SEQUENCE = ('backend: "testing" max_batch_size: 1\n'
            'input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] }\n'
            'output { name: "SUM" data_type: TYPE_INT32 dims: [ 1 ] }\n'
            'output { name: "FLAGS" data_type: TYPE_INT32 dims: [ 1 ] }\n'
            'sequence_batching { max_sequence_idle_microseconds: 60000000 }\n')
SUMMING = ('platform: "ensemble" max_batch_size: 1\n'
           'input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }\n'
           'output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }\n'
           'output { name: "FLAGS" data_type: TYPE_INT32 dims: [ 1 ] }\n'
           "ensemble_scheduling {\n" + step("one", {"IN": "X"}, {"OUT": "T"}) +
           step("sum", {"INPUT0": "T"}, {"SUM": "Y", "FLAGS": "FLAGS"}) + "}\n")
STRINGS = ('backend: "identity" max_batch_size: 0\n'
           'input { name: "IN" data_type: TYPE_STRING dims: [ -1 ] }\n'
           'output { name: "IN" data_type: TYPE_STRING dims: [ -1 ] }\n')
STRING_LINE = ('platform: "ensemble"\n'
               'input { name: "X" data_type: TYPE_STRING dims: [ -1 ] }\n'
               'output { name: "Y" data_type: TYPE_STRING dims: [ -1 ] }\n'
               "ensemble_scheduling {\n" + step("strings", {"IN": "X"}, {"IN": "T"}) +
               step("strings", {"IN": "T"}, {"IN": "Y"}) + "}\n")

BACKENDS = ("testing", "identity")
OPTIONS = ("--cache-config=local,size=1048576",)
MODELS = {
    "one": adding(1), "ten": adding(10), "hundred": adding(100),
    "plain_hundred": adding(100, batch=0), "stream": STREAM,
    "fails": adding(0, fail_execute="boom"),
    # What a file says of this is not asked for.
    "line": line("one", "ten", "hundred", more="model_transaction_policy { decoupled: true }\n"),
    "diamond": DIAMOND, "outer": line("one", "failing"),
    "failing": line("ten", "fails").replace('"X" data', '"IN" data').replace('"Y" data', '"OUT" data')
    .replace('value: "X"', 'value: "IN"').replace('value: "Y"', 'value: "OUT"'),
    "streaming": STREAMING,
    "sum": SEQUENCE, "summing": SUMMING,
    "strings": STRINGS, "string_line": STRING_LINE,
}


def int_case(model, value, shape=(1, 1), **more):
    return Case(model, (Tensor("X", "INT32", shape, content_of("INT32", [value])),), **more)


def infer(server, model, value, shape=(1, 1), session=requests, **more):
    body = {"inputs": [{"name": "X", "datatype": "INT32", "shape": list(shape), "data": [value]}],
            **more}
    return session.post(f"{server.url}/v2/models/{model}/infer", json=body, timeout=SECONDS)


def outputs_of(reply):
    assert reply.status_code == 200, reply.text
    return {output["name"]: output["data"][0] for output in reply.json()["outputs"]}


def stats_of(server, model):
    reply = requests.get(f"{server.url}/v2/models/{model}/stats", timeout=SECONDS)
    return reply.json()["model_stats"][0]


# ---- the ways in --------------------------------------------------------------------------------


def test_each_protocol_gives_the_same(server, stubs, tmp_path):
    cases = [int_case("line", 5, id="seven"), int_case("diamond", 5), int_case("diamond", 5, outputs=("RIGHT",)),
             Case("string_line", (Tensor("X", "BYTES", (3,), strings([b"a", b"", b"ccc"])),))]
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        ways = [HttpJson(server), HttpBinary(server), GrpcRaw(client), GrpcTyped(client)]
        answers = [way.send(cases) for way in ways]
    for line_answer, diamond, right, texts in answers:
        assert line_answer.id == "seven" and line_answer.model == "line"
        assert [(t.name, t.shape) for t in line_answer.outputs] == [("Y", (1, 1))]
        assert values_of(line_answer.outputs[0]) == [116]
        assert {t.name: values_of(t) for t in diamond.outputs} == {
            "LEFT": [16], "RIGHT": [106]}
        assert {t.name: values_of(t) for t in right.outputs} == {"RIGHT": [106]}
        assert texts.outputs[0].content == strings([b"a", b"", b"ccc"])


def test_through_the_c_api(server, tmp_path):
    case = int_case("line", 5)
    answer, = InProcess(server, tmp_path).send([case])
    assert values_of(answer.outputs[0]) == [116]


def test_sequence_parameters_of_each_answer(server):
    """As a running Triton gave them, in this order, before the outputs."""
    reply = infer(server, "line", 1)
    assert reply.text.startswith(
        '{"model_name":"line","model_version":"1","parameters":{"sequence_id":0,'
        '"sequence_start":false,"sequence_end":false},"outputs":'), reply.text


def test_metadata(server):
    reply = requests.get(f"{server.url}/v2/models/line", timeout=SECONDS).json()
    assert reply == {"name": "line", "versions": ["1"], "platform": "ensemble",
                     "inputs": [{"name": "X", "datatype": "INT32", "shape": [-1, 1]}],
                     "outputs": [{"name": "Y", "datatype": "INT32", "shape": [-1, 1]}]}


def test_batches(server):
    body = {"inputs": [{"name": "X", "datatype": "INT32", "shape": [3, 1], "data": [1, 2, 3]}]}
    reply = requests.post(f"{server.url}/v2/models/line/infer", json=body, timeout=SECONDS).json()
    assert reply["outputs"][0]["shape"] == [3, 1]
    assert reply["outputs"][0]["data"] == [112, 113, 114]


# ---- what runs ----------------------------------------------------------------------------------


def test_statistics_and_metrics(server):
    before, steps = stats_of(server, "line"), [stats_of(server, name)["execution_count"]
                                               for name in ("one", "ten", "hundred")]
    for value in range(4):
        assert outputs_of(infer(server, "line", value)) == {"Y": value + 111}
    after = stats_of(server, "line")
    for counted in ("inference_count", "execution_count"):
        assert after[counted] == before[counted] + 4
    for phase in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert after["inference_stats"][phase]["count"] == before["inference_stats"][phase]["count"] + 4
    assert 1 in [batch["batch_size"] for batch in after["batch_stats"]]
    for name, count in zip(("one", "ten", "hundred"), steps):
        wait_until(lambda: stats_of(server, name)["execution_count"] >= count + 4)
    assert metric(server, "nv_inference_request_success", "line") == after["inference_stats"][
        "success"]["count"]
    assert metric(server, "nv_inference_pending_request_count", "line") == 0


def test_outputs_are_inputs_where_they_lie(tmp_path):
    """Each model logs where it read and wrote: the second one reads where the first one wrote."""
    models = {"a": adding(1, address_log="addresses"), "b": adding(10, address_log="addresses"),
              "ab": line("a", "b")}
    with opens_server(tmp_path, models) as server:
        for value in range(3):
            assert outputs_of(infer(server, "ab", value)) == {"Y": value + 11}
        first, second = ([entry.split() for entry in
                          (server.repository / name / "addresses").read_text().splitlines()]
                         for name in "ab")
        assert [written for _, written in first] == [read for read, _ in second]


# ---- errors -------------------------------------------------------------------------------------


def test_a_failing_step(server, stubs):
    reply = infer(server, "failing", 5)
    assert reply.status_code == 400  # no input IN
    body = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1, 1], "data": [5]}]}
    reply = requests.post(f"{server.url}/v2/models/failing/infer", json=body, timeout=SECONDS)
    assert (reply.status_code, reply.json()) == (500, {"error": "in ensemble 'failing', boom"})
    text = "in ensemble 'outer', in ensemble 'failing', boom"
    assert HttpJson(server).send([int_case("outer", 5)]) == [(500, text)]
    with open_channel(server) as channel, pytest.raises(grpc.RpcError) as refused:
        request = stubs.service.ModelInferRequest(model_name="outer")
        request.inputs.add(name="X", datatype="INT32", shape=[1, 1]).contents.int_contents[:] = [5]
        Client(channel, stubs).ModelInfer(request, timeout=SECONDS)
    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.INTERNAL, text)


def test_failures_are_counted(server):
    before = stats_of(server, "outer")["inference_stats"]["fail"]["count"]
    assert infer(server, "outer", 5).status_code == 500
    assert stats_of(server, "outer")["inference_stats"]["fail"]["count"] == before + 1


def test_a_deadline_that_has_passed(server):
    reply = infer(server, "line", 5, parameters={"timeout": 1})
    assert (reply.status_code, reply.json()["error"]) == (
        503, "in ensemble 'line', Request timeout expired")
    assert outputs_of(infer(server, "line", 5, parameters={"timeout": 60000000})) == {"Y": 116}


# ---- decoupled steps ----------------------------------------------------------------------------


def test_a_decoupled_ensemble_over_a_stream(server, stubs):
    """Each response of the decoupled step goes through the next one; they leave in order."""
    config = requests.get(f"{server.url}/v2/models/streaming/config", timeout=SECONDS).json()
    assert config["model_transaction_policy"] == {"decoupled": True}
    config = requests.get(f"{server.url}/v2/models/line/config", timeout=SECONDS).json()
    assert config["model_transaction_policy"] == {"decoupled": False}
    request = stubs.service.ModelInferRequest(model_name="streaming", id="s")
    tensor = request.inputs.add(name="X", datatype="INT32", shape=[1])
    tensor.contents.int_contents[:] = [7]
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        answers = [(answer.error_message, answer.infer_response)
                   for answer in client.ModelStreamInfer(iter([request]), timeout=SECONDS)]
    assert all(error == "" for error, _ in answers)
    full = [response for _, response in answers if response.outputs]
    values = [[int.from_bytes(raw, "little") for raw in response.raw_output_contents]
              for response in full]
    assert [[output.name for output in response.outputs] for response in full] == [
        ["NUMBER", "Y"]] * 3
    assert values == [[0, 107], [1, 107], [2, 107]]
    finals = [response.parameters["triton_final_response"].bool_param for _, response in answers]
    assert finals == [False] * (len(finals) - 1) + [True]


def test_a_decoupled_ensemble_without_a_stream(server):
    """As of any decoupled model."""
    body = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1], "data": [7]}]}
    plain = requests.post(f"{server.url}/v2/models/stream/infer", json=body, timeout=SECONDS)
    reply = infer(server, "streaming", 7, shape=(1,))
    assert (reply.status_code, reply.json()) == (plain.status_code, plain.json())
    assert "decoupled" in reply.json()["error"]


# ---- sequences, caches --------------------------------------------------------------------------


def test_a_step_with_sequences(server):
    sums = []
    for number in range(1, 4):
        reply = infer(server, "summing", number, parameters={
            "sequence_id": 42, "sequence_start": number == 1, "sequence_end": number == 3})
        outputs = outputs_of(reply)
        sums.append(outputs["Y"])
        assert outputs["FLAGS"] == {1: 1, 2: 0, 3: 2}[number]
        assert reply.json()["parameters"] == {"sequence_id": 42, "sequence_start": number == 1,
                                              "sequence_end": number == 3}
    assert sums == [2, 5, 9]
    reply = infer(server, "summing", 1)
    assert (reply.status_code, reply.json()["error"]) == (
        400, "in ensemble 'summing', inference request to model 'sum' must specify a non-zero or "
        "non-empty correlation ID")


def test_kept_answers_of_other_models_are_not_given(tmp_path):
    """A step is loaded anew and says something else: so does the ensemble, and one around it."""
    models = {"one": adding(1), "kept": line("one", more="response_cache { enable: true }\n")
              .replace('"X"', '"IN"').replace('"Y"', '"OUT"'),
              "outer": line("kept", more="response_cache { enable: true }\n")}
    with opens_server(tmp_path, models, *OPTIONS, *EXPLICIT) as server:
        def load(model):
            reply = requests.post(f"{server.url}/v2/repository/models/{model}/load", timeout=SECONDS)
            assert reply.status_code == 200, reply.text

        load("outer")
        for _ in range(2):
            assert outputs_of(infer(server, "outer", 5)) == {"Y": 6}
        write(server, "one/config.pbtxt", adding(1000))
        load("one")
        for _ in range(2):
            assert outputs_of(infer(server, "outer", 5)) == {"Y": 1005}
        hits = stats_of(server, "outer")["inference_stats"]["cache_hit"]["count"]
        assert hits == 2


# ---- under load ---------------------------------------------------------------------------------


def test_many_clients(server):
    def ask(number):
        with requests.Session() as session:
            for i in range(20):
                value = 1000 * number + i
                assert outputs_of(infer(server, "line", value, session=session)) == {"Y": value + 111}
                assert outputs_of(infer(server, "diamond", value, session=session)) == {
                    "LEFT": value + 11, "RIGHT": value + 101}

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))


def test_max_inflight_requests_and_a_client_that_leaves(tmp_path):
    """One request is at the gate, one waits for room; the client of the second one goes, and the third is
    served in its place."""
    models = {"slow": gated(adding(1)),
              "narrow": line("slow", scheduling="max_inflight_requests: 1\n")}
    with opens_server(tmp_path, models) as server, Gate(server, "slow") as gate:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            first = pool.submit(infer, server, "narrow", 1)
            gate.wait()
            with pytest.raises(requests.exceptions.ReadTimeout):
                requests.post(f"{server.url}/v2/models/narrow/infer", timeout=0.5, json={
                    "inputs": [{"name": "X", "datatype": "INT32", "shape": [1, 1], "data": [2]}]})
            wait_until(lambda: stats_of(server, "narrow")["inference_stats"]["fail"]["count"] == 1)
            third = pool.submit(infer, server, "narrow", 3)
            gate.open()
            assert outputs_of(first.result()) == {"Y": 2}
            gate.wait()
            gate.open()
            assert outputs_of(third.result()) == {"Y": 4}
        wait_until(lambda: stats_of(server, "slow")["execution_count"] == 2)


def test_a_deadline_in_the_line_of_max_inflight_requests(tmp_path, stubs):
    """The only place is taken as long as the gate is closed: whose deadline passes is refused meanwhile."""
    models = {"slow": gated(adding(1)),
              "narrow": line("slow", scheduling="max_inflight_requests: 1\n")}
    text = "in ensemble 'narrow', Request timeout expired"
    with opens_server(tmp_path, models) as server, Gate(server, "slow") as gate:
        with concurrent.futures.ThreadPoolExecutor(1) as pool, open_channel(server) as channel:
            first = pool.submit(infer, server, "narrow", 1)
            gate.wait()
            reply = infer(server, "narrow", 2, parameters={"timeout": 50000})
            assert (reply.status_code, reply.json()["error"]) == (503, text)
            client = Client(channel, stubs)
            assert GrpcTyped(client).send([int_case("narrow", 3, parameters=(("timeout", 50000),))]) == [
                Failure("UNAVAILABLE", text)]
            gate.open()
            assert outputs_of(first.result()) == {"Y": 2}
        assert stats_of(server, "slow")["execution_count"] == 1
