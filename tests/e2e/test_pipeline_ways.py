# SPDX-License-Identifier: BSD-3-Clause
"""What docs/pipelines.md and docs/chains.md promise of a request, over HTTP, gRPC, a gRPC stream and the C
API.

Each row is a promise. Loading and unloading: test_ensemble_life.py, test_chains.py; caches, counts, traces and
labels: test_pipeline_accounts.py.
"""
import concurrent.futures
import re

import grpc
import pytest

import chain_models
from chain_models import executions, line_of_three, load, pipe, states, value
from gate import Gate, gated
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from infer_ways import (Answer, Case, Failure, GrpcRaw, GrpcStream, HttpBinary, InProcess, Tensor, content_of,
                        values_of)
from models import EXPLICIT, SECONDS, opens_server, wait_until
from scrape import metrics
from test_chains import is_connected
from test_ensembles import DIAMOND, SEQUENCE, STREAM, STREAMING, SUMMING, adding, line, step

BACKENDS = ("testing",)
INT = "data_type: TYPE_INT32 dims: [ 1 ]"
# OUT repeats IN, SECOND repeats MORE, which may be missing.
OPTIONAL = (f'backend: "testing" max_batch_size: 8\ninput {{ name: "IN" {INT} }}\n'
            f'input {{ name: "MORE" {INT} optional: true }}\noutput {{ name: "OUT" {INT} }}\n'
            f'output {{ name: "SECOND" {INT} }}\ninstance_group {{ count: 1 kind: KIND_CPU }}\n')
LEAVES_OUT = (f'platform: "ensemble" max_batch_size: 8\ninput {{ name: "X" {INT} }}\n'
              f'input {{ name: "Z" {INT} optional: true }}\noutput {{ name: "Y" {INT} }}\n'
              f'output {{ name: "W" {INT} }}\nensemble_scheduling {{\n'
              + step("optional", {"IN": "X", "MORE": "Z"}, {"OUT": "Y", "SECOND": "W"}) + "}\n")
MODELS = {
    "one": adding(1), "ten": adding(10), "hundred": adding(100), "plain_hundred": adding(100, batch=0),
    "fails": adding(0, fail_execute="boom"),
    "line": line("one", "ten", "hundred"), "diamond": DIAMOND, "failing": line("ten", "fails"),
    "inner": line("one", "fails").replace('"X" data', '"IN" data').replace('"Y" data', '"OUT" data')
    .replace('value: "X"', 'value: "IN"').replace('value: "Y"', 'value: "OUT"'),
    "outer": line("one", "inner"), "bridges": line("one", "plain_hundred", "ten", batch=0),
    "optional": OPTIONAL, "leaves_out": LEAVES_OUT, "sum": SEQUENCE, "summing": SUMMING,
    "stream": STREAM, "streaming": STREAMING,
    **line_of_three(), "pipe": pipe("A,C"), "short": chain_models.ensemble(("A", "A_OUT")),
    "narrow": chain_models.adding(1, "narrow_2", out="N_OUT"),
    "narrow_2": chain_models.adding(10, out="N2_OUT", batch=4),
    "wary": chain_models.adding(1, "wary_2", out="W_OUT"),
    "wary_2": chain_models.adding(10, "C", out="W2_OUT", fail_value=8),
    "early": chain_models.adding(1, "C", out="E_OUT", end_value=7, chain_allow_end="true"),
}


def case(model, values, inputs=("X",), **more):
    values = values if isinstance(values, list) else [values]
    shape = more.pop("shape", (len(values), 1))
    content = content_of("INT32", values)
    return Case(model, tuple(Tensor(name, "INT32", shape, content) for name in inputs), **more)


def ask(model, values, **more):
    """Of a model of chain_models."""
    return case(model, values, ("IN",), **more)


def refused(code, text):
    return Failure(code, text)


SEQUENCE_42 = (("sequence_id", 42), ("sequence_start", True), ("sequence_end", True))
PROMISES = [
    # ---- ensembles
    ("outputs have the ensemble's names", case("line", 5), {"Y": [116]}),
    ("a batch goes through as one", case("line", [1, 2, 3]), {"Y": [112, 113, 114]}),
    ("branches", case("diamond", 5), {"LEFT": [16], "RIGHT": [106]}),
    ("outputs that nobody asked for are not there", case("diamond", 5, outputs=("RIGHT",)), {"RIGHT": [106]}),
    ("with batches and without", case("bridges", 5, shape=(1,)), {"Y": [116]}),
    ("an optional input", case("leaves_out", 5, ("X", "Z")), {"Y": [5], "W": [5]}),
    ("an optional input that is left out", case("leaves_out", 5), {"Y": [5]}),
    ("the first step that fails decides", case("failing", 5),
     refused("INTERNAL", "in ensemble 'failing', boom")),
    ("an ensemble within an ensemble adds a prefix", case("outer", 5),
     refused("INTERNAL", "in ensemble 'outer', in ensemble 'inner', boom")),
    ("parameters reach the steps", case("line", 5, parameters=(("fail", "as told"),)),
     refused("INTERNAL", "in ensemble 'line', as told")),
    ("codes are those of the step", case("line", 5, parameters=(
        ("fail", "not here"), ("fail_code", "Not found"))),
     refused("NOT_FOUND", "in ensemble 'line', not here")),
    ("one deadline", case("line", 5, parameters=(("timeout", 1000), ("delay_ms", 5))),
     refused("UNAVAILABLE", "in ensemble 'line', Request timeout expired")),
    ("a deadline that is far away", case("line", 5, parameters=(("timeout", 3600000000),)), {"Y": [116]}),
    ("the sequence reaches the steps", case("summing", 4, parameters=SEQUENCE_42), {"Y": [5], "FLAGS": [3]}),
    ("a step that needs a sequence", case("summing", 4),
     refused("INVALID_ARGUMENT", "in ensemble 'summing', inference request to model 'sum' must specify a "
             "non-zero or non-empty correlation ID")),
    ("an input that is missing", ask("line", 5),
     refused("INVALID_ARGUMENT", "unexpected inference input 'IN' for model 'line'")),
    # ---- chains
    ("outputs are those of the last stage", ask("A", 5), {"C_OUT": [116]}),
    ("in the middle", ask("B", 5), {"C_OUT": [115]}),
    ("at the end", ask("C", 5), {"C_OUT": [105]}),
    ("batches through a chain", ask("A", [1, 2, 3]), {"C_OUT": [112, 113, 114]}),
    ("requested outputs are the last stage's", ask("A", 5, outputs=("C_OUT",)), {"C_OUT": [116]}),
    ("and no other", ask("A", 5, outputs=("A_OUT",)),
     refused("INVALID_ARGUMENT", "unexpected inference output 'A_OUT' for model 'A', whose chain ends with "
             "model 'C'")),
    ("a model alone", ask("A", 5, parameters=(("chain", False),)), {"A_OUT": [6]}),
    ("a model alone has its own outputs", ask("A", 5, parameters=(("chain", False),), outputs=("A_OUT",)),
     {"A_OUT": [6]}),
    ("a step runs alone", ask("short", 5), {"OUT": [6]}),
    ("a chain that is a model", ask("pipe", 5), {"C_OUT": [106]}),
    ("the smallest batch limit", ask("narrow", [1, 2, 3, 4]), {"N2_OUT": [12, 13, 14, 15]}),
    ("and beyond it", ask("narrow", [1, 2, 3, 4, 5]),
     refused("INVALID_ARGUMENT", "inference request batch-size must be <= 4 for stage 'narrow_2' of chain "
             "'narrow'")),
    ("a stage that fails", ask("wary", 7),
     refused("INTERNAL", "in chain 'wary' stage 'wary_2' (2/3): value 8")),
    ("parameters reach the stages", ask("A", 5, parameters=(("fail", "as told"),)),
     refused("INTERNAL", "in chain 'A' stage 'A' (1/3): as told")),
    ("one deadline for all stages", ask("A", 5, parameters=(("timeout", 1000), ("delay_ms", 5))),
     refused("UNAVAILABLE", "in chain 'A' stage any: Request timeout expired")),
    ("an early end", ask("early", 7), {"E_OUT": [8]}),
    ("no early end", ask("early", 8), {"C_OUT": [109]}),
]
WAYS = ["HTTP", "gRPC", "gRPC stream", "C API"]
STATUSES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 500: "INTERNAL", 501: "UNIMPLEMENTED",
            503: "UNAVAILABLE"}
NO_ID = "[request id: <id_unknown>] "


def send(server, stubs, folder, way, cases):
    if way == "C API":
        return InProcess(server, folder).send(cases)
    if way == "HTTP":
        answers = HttpBinary(server).send(cases)
        return [a if isinstance(a, Answer) else Failure(STATUSES[a[0]], a[1]) for a in answers]
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        return (GrpcRaw if way == "gRPC" else GrpcStream)(client).send(cases)


@pytest.fixture(scope="module", params=WAYS)
def answers(request, server, stubs, tmp_path_factory):
    """To each case, in one way: all are sent at once in a process of its own, or one after the other."""
    cases = [row[1] for row in PROMISES]
    got = send(server, stubs, tmp_path_factory.mktemp("cases"), request.param, cases)
    return request.param, dict(zip((row[0] for row in PROMISES), got))


@pytest.mark.parametrize("promise, asked, expected", PROMISES, ids=[row[0] for row in PROMISES])
def test_promise(answers, promise, asked, expected):
    way, all_answers = answers
    got = all_answers[promise]
    if isinstance(expected, Failure):
        assert isinstance(got, Failure), got
        # A deadline of a microsecond passes before the first stage begins, or the next one.
        text = re.sub(r"stage '\w' \(\d/3\): Request timeout", "stage any: Request timeout", got.text)
        assert text.removeprefix(NO_ID) == expected.text
        assert got.code == ("" if way == "gRPC stream" else expected.code)
        return
    assert isinstance(got, Answer), got
    assert (got.model, got.version, got.id) == (asked.model, "1", asked.id)
    assert {t.name: values_of(t) for t in got.outputs} == expected
    if asked.model == "summing":
        assert got.parameters.items() >= dict(SEQUENCE_42).items()


@pytest.mark.parametrize("way", WAYS)
def test_ids(server, stubs, tmp_path, way):
    for got in send(server, stubs, tmp_path, way, [case("line", 5, id="seven"), ask("A", 5, id="seven")]):
        assert got.id == "seven"


# ---- streams of responses -----------------------------------------------------------------------


def test_a_decoupled_step_needs_a_stream(server, stubs):
    """The stream itself is in test_ensembles.py, one of a chain in test_chains.py, both in the C API in
    tests/abi/test_chains.c."""
    asked = case("streaming", 7, shape=(1,))
    texts = {send(server, stubs, None, way, [asked])[0].text for way in ("HTTP", "gRPC")}
    assert texts == {"ModelInfer RPC doesn't support models with decoupled transaction policy",
                     "HTTP end point doesn't support models with decoupled transaction policy"}


# ---- clients that leave -------------------------------------------------------------------------


def begin(client, way, asked):
    """A call that can be cancelled."""
    request = GrpcRaw(client).request(asked)
    if way == "gRPC":
        return client.ModelInfer.future(request, timeout=SECONDS)
    return client.ModelStreamInfer(iter([request]), timeout=SECONDS)


def failures(server, model):
    return sum(n for sample, n in metrics(server).items()
               if sample.startswith(f'nv_inference_request_failure{{model="{model}"'))


@pytest.mark.parametrize("way", ["gRPC", "gRPC stream"])
def test_a_client_leaves_the_line_of_max_inflight_requests(tmp_path, stubs, way):
    """It is answered while another one has the only place, which is never given back."""
    models = {"slow": gated(adding(1)), "narrow": line("slow", scheduling="max_inflight_requests: 1\n")}
    with opens_server(tmp_path, models) as server, Gate(server, "slow") as gate:
        with open_channel(server) as channel, concurrent.futures.ThreadPoolExecutor(1) as pool:
            client = Client(channel, stubs)
            first = pool.submit(send, server, stubs, tmp_path, "gRPC", [case("narrow", 1)])
            gate.wait()
            client.call("ServerLive")  # connected
            waiting = begin(client, way, case("narrow", 2))
            client.call("ServerLive")  # read after that request
            waiting.cancel()
            wait_until(lambda: failures(server, "narrow") == 1)
            gate.open()
            assert values_of(first.result()[0].outputs[0]) == [2]
        assert executions(server, "slow") == 1


@pytest.mark.parametrize("way", ["gRPC", "gRPC stream"])
def test_a_client_leaves_the_first_stage_of_a_chain(tmp_path, stubs, way):
    """Check 21 of the chains."""
    models = line_of_three(A=gated(chain_models.adding(1, "B", out="A_OUT")))
    with opens_server(tmp_path, models, "--grpc-infer-thread-count=1") as server, \
            Gate(server, "A") as gate:
        with open_channel(server) as channel:
            leaving = begin(Client(channel, stubs), way, ask("A", 5))
            gate.wait()
            leaving.cancel()
        wait_until(lambda: not is_connected(server.port("grpc")))
        # The one loop has seen the end of that connection before it answers these.
        for _ in range(3):
            with open_channel(server) as channel:
                assert Client(channel, stubs).call("ServerLive").live
        gate.open()
        wait_until(lambda: metrics(server)['neso_chain_inflight{chain="A"}'] == 0)
        assert [executions(server, m) for m in "ABC"] == [1, 0, 0]


# ---- loads over gRPC ----------------------------------------------------------------------------


def control(client, verb, model, **parameters):
    request = getattr(client.pb, f"RepositoryModel{verb}Request")(model_name=model)
    for key, given in parameters.items():
        kind = "bool_param" if isinstance(given, bool) else "string_param"
        setattr(request.parameters[key], kind, given)
    try:
        getattr(client, f"RepositoryModel{verb}")(request, timeout=SECONDS)
    except grpc.RpcError as refusal:
        return refusal.code(), refusal.details()
    return grpc.StatusCode.OK, ""


UNAVAILABLE = "version 1 is at UNAVAILABLE state: Invalid argument: "


@pytest.mark.parametrize("model, parameters, text", [
    ("A", {"next": "nosuch"}, "next model 'nosuch' of model 'A' is neither loaded nor in a model repository"),
    ("A", {"next": "A"}, "chain of model 'A' is circular: A -> A"),
    ("C", {"next": "A"}, "chain of model 'C' is circular: C -> A -> B -> C"),
    ("A", {"next": "B,C"}, "parameter 'next' of model 'A' is 'B,C': chains are linear; use ensemble_scheduling"),
    ("A", {"next_map": "NOSUCH:IN"}, UNAVAILABLE + "'next_map' names output 'NOSUCH', which model 'A' does not have;"),
    ("other", {"next": "B"}, UNAVAILABLE + "output 'OUT' of model 'other' does not fit input 'IN' of its next model "
     "'B': data types FP32 and INT32;"),
    ("short", {"next": "B"}, "parameter 'next' is not supported for ensemble 'short': make a model of platform "
     "'chain' with it as a stage"),
    ("bad", {}, "ensemble bad contains models that are not available or ambiguous: nosuch"),
], ids=["unknown", "itself", "cycle", "branch", "map", "type", "ensemble", "step"])
def test_loads_that_are_refused_over_grpc(tmp_path, stubs, model, parameters, text):
    """As over HTTP (checks 8 to 11 of the chains), with nothing changed by it."""
    models = line_of_three(other=chain_models.adding(1).replace("TYPE_INT32", "TYPE_FP32"),
                           bad=chain_models.ensemble(("A", "A_OUT"), ("nosuch", "OUT")),
                           short=chain_models.ensemble(("A", "A_OUT")))
    with opens_server(tmp_path, models, *EXPLICIT) as server, open_channel(server) as channel:
        client = Client(channel, stubs)
        assert control(client, "Load", "A") == (grpc.StatusCode.OK, "")
        code, reported = control(client, "Load", model, **parameters)
        assert (code, reported) == (grpc.StatusCode.INVALID_ARGUMENT, f"load failed for model '{model}': {text}\n")
        status, over_http = load(server, model, **parameters)
        assert (status, over_http) == (400, reported)
        assert value(server, "A", 5) == 116


def test_lines_that_are_too_deep(tmp_path):
    """The limit is named, also when the model lies ready in the repository."""
    n = 67
    models = {f"m{i}": chain_models.adding(1, f"m{i + 1}" if i < n - 1 else None) for i in range(n)}
    with opens_server(tmp_path, models, *EXPLICIT) as server:
        assert load(server, "m0") == (400, "load failed for model 'm0': next model 'm65' of model 'm64' is more than "
                                      "64 models deep\n")
        assert load(server, "m2") == (200, "")
        assert load(server, "m0") == (200, "")


def test_life_over_grpc(tmp_path, stubs):
    models = line_of_three(line=chain_models.ensemble(("A", "A_OUT"), ("C", "C_OUT")))
    with opens_server(tmp_path, models, *EXPLICIT) as server, open_channel(server) as channel:
        client = Client(channel, stubs)
        code, reported = control(client, "Load", "A", chain_autoload=False)
        assert code == grpc.StatusCode.INVALID_ARGUMENT and "chain_autoload" in reported
        assert control(client, "Load", "A") == control(client, "Load", "line") == (grpc.StatusCode.OK, "")
        # A step that goes takes the ensemble along, and the chain's readiness; both come back with it.
        assert control(client, "Unload", "C") == (grpc.StatusCode.OK, "")
        assert client.infer_refusal("line", [("IN", "INT32", (1, 1))], [content_of("INT32", [5])]) == (
            "NOT_FOUND", "Request for unknown model: 'line' has no available versions")
        assert client.infer_refusal("A", [("IN", "INT32", (1, 1))], [content_of("INT32", [5])]) == (
            "UNAVAILABLE", "next model 'C' is not ready")
        assert not client.call("ModelReady", {"name": "A"}).ready
        reasons = {m.name: m.reason for m in client.call("RepositoryIndex").models}
        assert reasons["A"] == "next model 'C' is not ready"
        assert control(client, "Load", "C") == (grpc.StatusCode.OK, "")
        assert all(client.call("ModelReady", {"name": name}).ready for name in ("A", "line"))
        assert value(server, "line", 5) == 106
        assert control(client, "Unload", "A", unload_dependents=True) == (grpc.StatusCode.OK, "")
        wait_until(lambda: states(server)["B"] == ("UNAVAILABLE", "unloaded"), lambda: states(server))


def test_strict_unload_over_grpc(tmp_path, stubs):
    with opens_server(tmp_path, line_of_three(), *EXPLICIT, "--chain-strict-unload") as server, \
            open_channel(server) as channel:
        client = Client(channel, stubs)
        assert control(client, "Load", "A") == (grpc.StatusCode.OK, "")
        assert control(client, "Unload", "C") == (
            grpc.StatusCode.INVALID_ARGUMENT, "model 'C' is the next of 'B'")
        assert value(server, "A", 5) == 116


def test_metadata_over_grpc(server, stubs):
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        chain, ensemble = (client.call("ModelMetadata", {"name": name}) for name in ("A", "line"))
        assert [t.name for t in chain.inputs] + [t.name for t in chain.outputs] == ["IN", "C_OUT"]
        assert [t.name for t in ensemble.inputs] + [t.name for t in ensemble.outputs] == ["X", "Y"]
        assert ensemble.platform == "ensemble"
        config = client.call("ModelConfig", {"name": "A"}).config
        assert [t.name for t in config.output] == ["A_OUT"]
        assert config.parameters["next"].string_value == "B"
