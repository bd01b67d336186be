# SPDX-License-Identifier: BSD-3-Clause
"""Implicit states of sequences as clients see them, over HTTP, gRPC and one gRPC stream.

The testing backend does with states what a sequence backend does: it reads them as inputs, makes the
next values with the state calls and updates them. ECHO_<x> is the value that a request found.
"""
import concurrent.futures
import json
import struct

import pytest
import requests

from conftest import ON_GPU, Server, write_repository
from gate import Gate, gated
from grpc_stubs import SECONDS, client, stubs  # noqa: F401
from models import load
from scrape import wait_for_pending

BACKENDS = ("testing",)
# Sequences are left open here: the server ends them a second after it was asked to stop.
OPTIONS = ("--http-thread-count=2", "--model-control-mode=explicit", "--load-model=*",
           "--exit-timeout-secs=2")


def tensor(kind, name, data_type="TYPE_INT32", dims=1):
    return f'{kind} {{ name: "{name}" data_type: {data_type} dims: {dims} }}\n'


def state(name, data_type="TYPE_INT32", dims=1, more=""):
    return (f'state {{ input_name: "{name}" output_name: "NEXT_{name}" data_type: {data_type} '
            f'dims: {dims} {more} }}\n')


def initial(data_type, dims, data):
    return f'initial_state {{ name: "first" data_type: {data_type} dims: {dims} {data} }}'


def model(states, batch=0, more="", strategy=""):
    echoes = "".join(tensor("output", f"ECHO_{name}", data_type, dims) for name, data_type, dims in
                     (("SUM", "TYPE_INT32", 2), ("LIST", "TYPE_INT32", -1),
                      ("TEXT", "TYPE_STRING", 1)))
    return (f'backend: "testing"\nmax_batch_size: {batch}\n' + tensor("input", "INPUT0") + echoes
            + tensor("output", "REQUESTS") + tensor("output", "READ_AT", "TYPE_INT64")
            + tensor("output", "WRITTEN_AT", "TYPE_INT64")
            + "sequence_batching {\nmax_sequence_idle_microseconds: 3600000000\n" + strategy
            + states + "}\n" + more)


SUM = state("SUM", dims=2)
LIST = state("LIST", dims=-1, more=initial("TYPE_INT32", 0, "zero_data: true"))
TEXT = state("TEXT", "TYPE_STRING")
ALL = SUM + LIST + TEXT
OLDEST = "oldest { max_candidate_sequences: 4 }\n"
FOUR = struct.pack("<2i", 40, 50)
SAME = "use_same_buffer_for_input_output: true "

MODELS = {
    "all": model(ALL, more="instance_group { count: 2 }\n"),
    "batch": model(ALL, 4),
    "oldest": model(ALL, 4, strategy=OLDEST),
    "held": gated(model(SUM, 4)),
    "two_turns": model(SUM),
    "one_buffer": model(state("SUM", dims=2, more=SAME)),
    "from_files": {
        "config.pbtxt": model(
            state("SUM", dims=2, more=initial("TYPE_INT32", 2, 'data_file: "sum"'))
            + state("LIST", dims=-1, more=initial("TYPE_INT32", 2, 'data_file: "deeper/list"'))
            + state("TEXT", "TYPE_STRING", more=initial("TYPE_STRING", 1, 'data_file: "text"'))),
        "initial_state/sum": FOUR,
        "initial_state/deeper/list": struct.pack("<2i", 7, 8),
        "initial_state/text": b"\4\0\0\0one;",
    },
    "changed": {
        "config.pbtxt": model(state("SUM", dims=2, more=initial("TYPE_INT32", 2, 'data_file: "sum"'))),
        "initial_state/sum": FOUR,
    },
    "zeros": model(state("LIST", dims=-1)),
    "warm": model(ALL, 4, """
model_warmup { name: "w" batch_size: 3 count: 2 inputs { key: "INPUT0"
  value { data_type: TYPE_INT32 dims: 1 zero_data: true } } }
"""),
    "again": model(SUM, more="""
parameters { key: "iterations" value { string_value: "3" } }
""", strategy="iterative_sequence: true\n"),
}
NAMES = ("ECHO_SUM", "ECHO_LIST", "ECHO_TEXT")
BATCHED = {"batch", "oldest", "held", "warm"}


def post(server, name, value, sequence, start=False, end=False, outputs=NAMES, session=requests,
         **parameters):
    message = {"parameters": {"sequence_id": sequence, "sequence_start": start,
                              "sequence_end": end, **parameters},
               "inputs": [{"name": "INPUT0", "datatype": "INT32", "data": [value],
                           "shape": [1, 1] if name in BATCHED else [1]}],
               "outputs": [{"name": output} for output in outputs]}
    return session.post(f"{server.url}/v2/models/{name}/infer", data=json.dumps(message),
                        timeout=SECONDS)


def infer(server, name, *arguments, **keywords):
    """What the request found: the data of the outputs."""
    reply = post(server, name, *arguments, **keywords)
    assert reply.status_code == 200, reply.text
    return [output["data"] for output in reply.json()["outputs"]]


def found_after(values):
    """By the request that follows these of its sequence."""
    return [[sum(values)] * 2, list(values), ["".join(f"{value};" for value in values)]]


@pytest.mark.parametrize("name", ["all", "batch", "oldest"])
def test_states_are_carried_over(server, name):
    assert infer(server, name, 3, 1, start=True) == found_after([])
    assert infer(server, name, 4, 1) == found_after([3])
    assert infer(server, name, 5, 2, start=True) == found_after([])
    assert infer(server, name, -1, 1) == found_after([3, 4])
    assert infer(server, name, 6, 2, end=True) == found_after([5])
    assert infer(server, name, 0, 1, end=True) == found_after([3, 4, -1])
    # The same id, a new sequence.
    assert infer(server, name, 9, 1, start=True) == found_after([])
    assert infer(server, name, 1, 1, start=True) == found_after([])  # START of a live one
    assert infer(server, name, 2, 1, end=True) == found_after([1])


def test_states_are_neither_inputs_nor_outputs(server):
    metadata = requests.get(f"{server.url}/v2/models/all", timeout=SECONDS).json()
    assert [one["name"] for one in metadata["inputs"]] == ["INPUT0"]
    assert "NEXT_SUM" not in [one["name"] for one in metadata["outputs"]]
    reply = requests.post(f"{server.url}/v2/models/all/infer", timeout=SECONDS, json={
        "parameters": {"sequence_id": 5, "sequence_start": True},
        "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [1]},
                   {"name": "SUM", "datatype": "INT32", "shape": [2], "data": [1, 1]}]})
    assert (reply.status_code, reply.json()["error"]) == (
        400, "[request id: <id_unknown>] expected 1 inputs but got 2 inputs for model 'all'. Got "
        "input(s) ['INPUT0','SUM'], but missing required input(s) ]. Please provide all required "
        "input(s).")
    assert post(server, "all", 1, 5, True, outputs=["NEXT_SUM"]).status_code == 400


def test_configuration(server):
    config = requests.get(f"{server.url}/v2/models/from_files/config", timeout=SECONDS).json()
    assert config["sequence_batching"]["state"][0] == {
        "input_name": "SUM", "output_name": "NEXT_SUM", "data_type": "TYPE_INT32", "dims": [2],
        "use_same_buffer_for_input_output": False, "use_growable_memory": False,
        "initial_state": [{"data_type": "TYPE_INT32", "dims": ["2"], "data_file": "sum",
                           "name": "first"}]}


@pytest.mark.parametrize("name", ["all", "batch", "oldest"])
def test_what_is_not_updated_is_forgotten(server, name):
    infer(server, name, 3, 10, start=True)
    assert infer(server, name, 4, 10, keep_state=True) == found_after([3])
    assert infer(server, name, 5, 10) == found_after([3])
    assert post(server, name, 6, 10, fail="no").status_code == 500
    assert infer(server, name, 7, 10, end=True) == found_after([3, 5])


def test_initial_states_from_files(server):
    for sequence in (1, 2):
        assert infer(server, "from_files", 3, sequence, start=True) == [[40, 50], [7, 8], ["one;"]]
        assert infer(server, "from_files", 0, sequence, end=True) == [[43, 53], [7, 8, 3], ["one;3;"]]


def test_initial_state_sent_with_a_load(server):
    config = json.dumps({
        "backend": "testing", "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [1]}],
        "output": [{"name": "ECHO_SUM", "data_type": "TYPE_INT32", "dims": [2]}],
        "sequence_batching": {"state": [{
            "input_name": "SUM", "output_name": "NEXT_SUM", "data_type": "TYPE_INT32", "dims": [2],
            "initial_state": [{"name": "sent", "data_type": "TYPE_INT32", "dims": [2],
                               "data_file": "sum"}]}]}})
    load(server, "sent", config=config, **{
        "file:1/nothing": b"-", "file:initial_state/sum": struct.pack("<2i", 8, 9)})
    assert infer(server, "sent", 1, 1, start=True, outputs=["ECHO_SUM"]) == [[8, 9]]
    assert infer(server, "sent", 1, 1, end=True, outputs=["ECHO_SUM"]) == [[9, 10]]


def test_a_reload_reads_the_file_again(server):
    folder = server.repository / "changed" / "initial_state"
    assert infer(server, "changed", 1, 1, start=True, outputs=["ECHO_SUM"]) == [[40, 50]]
    (folder / "sum").write_bytes(struct.pack("<2i", 1, 2))
    load(server, "changed")
    assert infer(server, "changed", 1, 2, start=True, outputs=["ECHO_SUM"]) == [[1, 2]]
    assert infer(server, "changed", 1, 1, end=True, outputs=["ECHO_SUM"]) == [[41, 51]]


def test_open_dimensions_begin_as_one(server):
    assert infer(server, "zeros", 3, 1, start=True, outputs=["ECHO_LIST"]) == [[0]]
    assert infer(server, "zeros", 4, 1, end=True, outputs=["ECHO_LIST"]) == [[0, 3]]


def addresses(server, name, sequence, steps):
    got = [infer(server, name, 1, sequence, start=i == 0, end=i == steps - 1,
                 outputs=["READ_AT", "WRITTEN_AT"]) for i in range(steps)]
    return [(read[0], written[0]) for read, written in got]


def test_a_value_is_read_where_it_was_written(server):
    """No copy: two buffers take turns."""
    got = addresses(server, "two_turns", 1, 6)
    assert all(read != written for read, written in got)
    assert [read for read, _ in got[1:]] == [written for _, written in got[:-1]]
    # The first value is in main memory; the buffers of an instance on a GPU are there.
    assert len({read for read, _ in got}) == (3 if ON_GPU else 2)


def test_one_buffer(server):
    got = addresses(server, "one_buffer", 1, 6)
    assert len({address for both in got for address in both}) == 1
    assert infer(server, "one_buffer", 3, 2, start=True, outputs=["ECHO_SUM"]) == [[3, 3]]


def test_null_requests_have_their_own(server):
    """Slots with nothing to run neither read nor write what sequences have."""
    with Gate(server, "held") as gate, concurrent.futures.ThreadPoolExecutor() as pool:
        def start(value, sequence, **flags):
            return pool.submit(infer, server, "held", value, sequence,
                               outputs=["ECHO_SUM", "REQUESTS"], **flags)

        first = start(1, 1, start=True)
        gate.wait()
        others = []
        for i in (2, 3):
            others.append(start(i * 10, i, start=True))
            wait_for_pending(server, "held", i - 1)
        gate.open(2)
        assert first.result() == [[0, 0], [1]]
        assert [one.result() for one in others] == [[[0, 0], [3]]] * 2
        gate.open(3)
        assert start(5, 3).result() == [[30, 30], [3]]
        assert start(5, 1, end=True).result()[0] == [1, 1]
        assert start(5, 2, end=True).result()[0] == [20, 20]


def test_warm_up(server):
    """It leaves nothing behind."""
    assert infer(server, "warm", 3, 1, start=True) == found_after([])
    assert infer(server, "warm", 3, 1, end=True) == found_after([3])


def test_iterations(server):
    """Each of three executions reads what the one before left; the last one answers."""
    message = {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [4]}],
               "outputs": [{"name": "ECHO_SUM"}]}
    for _ in range(3):
        reply = requests.post(f"{server.url}/v2/models/again/infer", json=message, timeout=SECONDS)
        assert reply.json()["outputs"][0]["data"] == [8, 8], reply.text


@pytest.mark.parametrize("name", ["all", "batch", "oldest"])
def test_many_sequences(server, name):
    """More than there are slots, over many connections, with lists of different lengths in a batch."""
    def sequence(number):
        values = []
        with requests.Session() as session:
            for i in range(8):
                got = infer(server, name, number + i, number, start=i == 0, end=i == 7,
                            session=session)
                assert got == found_after(values)
                values.append(number + i)

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        list(pool.map(sequence, range(100, 130)))


def grpc_request(client, name, value, sequence, start, end, **fields):  # noqa: F811
    return client.request(name, [("INPUT0", "INT32", [1, 1] if name in BATCHED else [1])],
                          [struct.pack("<i", value)], outputs=("ECHO_SUM", "ECHO_LIST", "ECHO_TEXT"),
                          parameters={"sequence_id": sequence, "sequence_start": start,
                                      "sequence_end": end}, **fields)


def grpc_found(reply):
    total, values, text = reply.raw_output_contents
    return [list(struct.unpack("<2i", total)), list(struct.unpack(f"<{len(values) // 4}i", values)),
            [text[4:].decode()]]


@pytest.mark.parametrize("name", ["all", "batch", "oldest"])
def test_over_grpc(client, name):  # noqa: F811
    values = []
    for i in range(4):
        reply = client.ModelInfer(grpc_request(client, name, i, "text", i == 0, i == 3),
                                  timeout=SECONDS)
        assert grpc_found(reply) == found_after(values)
        values.append(i)


@pytest.mark.parametrize("name", ["all", "batch", "oldest"])
def test_over_one_stream(client, name):  # noqa: F811
    """Requests of many sequences mixed, sent without waiting."""
    messages, expected = [], {}
    for i in range(5):
        for number in range(20):
            messages.append(grpc_request(client, name, number + i, 500 + number, i == 0, i == 4,
                                         id=f"{number}.{i}"))
            expected[f"{number}.{i}"] = found_after([number + k for k in range(i)])
    got = {}
    for reply in client.stream(messages):
        assert not reply.error_message
        got[reply.infer_response.id] = grpc_found(reply.infer_response)
    assert got == expected


REFUSED = {
    "growable": (state("SUM", dims=2, more="use_growable_memory: true"),
                 "In order to 'use_growable_memory', you must also enable 'use_single_buffer' for "
                 "state input name 'SUM'."),
    "growable_cpu": (state("SUM", dims=2, more=SAME + "use_growable_memory: true"),
                     "'use_growable_memory' can only work with KIND_GPU model instances right now. "
                     "Please either change the instance type to KIND_GPU or set "
                     "'use_growable_memory' to false for state input 'SUM'."),
    "short": (state("SUM", dims=3, more=initial("TYPE_INT32", 3, 'data_file: "sum"')),
              "initial_state setting expects 12 bytes, but the data provided from sumonly has 8 "
              "bytes."),
    "twice": (SUM + SUM, "State input name 'SUM' specified more than once."),
    "input": (state("INPUT0"), "model 'input': 'INPUT0' is an input and a state input of "
                               "sequence_batching"),
}


def test_refused_configurations(tmp_path):
    write_repository(tmp_path, {name: {"config.pbtxt": model(states), "initial_state/sum": FOUR}
                                for name, (states, _) in REFUSED.items()})
    server = Server(tmp_path, ("--exit-on-error=false",))
    index = requests.post(f"{server.url}/v2/repository/index", timeout=SECONDS).json()
    assert server.stop() == 0
    assert {one["name"]: one["reason"] for one in index} == {
        name: f"Invalid argument: {reason}" for name, (_, reason) in REFUSED.items()}
