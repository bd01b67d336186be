# SPDX-License-Identifier: BSD-3-Clause
"""The response cache: what is answered from it, what is not, and how that is counted.

EXECUTIONS of the testing backend tells whether an answer was computed: one from the cache has the
number of the execution that it was kept of.
"""
import concurrent.futures
import struct

import pytest
import requests

from conftest import BUILD, Server, write_repository
from gate import Gate, gated
from grpc_stubs import Client, client, open_channel, stubs  # noqa: F401
from infer_ways import Case, GrpcRaw, GrpcTyped, HttpBinary, HttpJson, Tensor, strings
from scrape import metric, metrics, page, parse, wait_for_metric
from test_shared_memory import Http as ShmHttp
from test_shared_memory import Object

BACKENDS = ("identity", "testing")
SIZE = 1 << 20
OPTIONS = (f"--cache-config=local,size={SIZE}", "--allow-client-shm=true")
CACHED = "response_cache { enable: true }\n"


def tensors(kind, *rows):
    return "".join(f'{kind} {{ name: "{name}" data_type: TYPE_{type_of} dims: {dims} }}\n'
                   for name, type_of, dims in rows)


def echo(type_of="INT32", more=CACHED, backend="testing", max_batch_size=0):
    """Repeats its input; the testing backend also counts."""
    counts = [("EXECUTIONS", "INT64", [1])] if backend == "testing" else []
    return (f'backend: "{backend}"\nmax_batch_size: {max_batch_size}\n'
            + tensors("input", ("INPUT0", type_of, [-1]))
            + tensors("output", ("OUTPUT0", type_of, [-1]), *counts) + more)


def two(more=CACHED):
    return ('backend: "testing"\n'
            + tensors("input", ("INPUT0", "INT32", [-1]), ("INPUT1", "INT32", [-1]))
            + tensors("output", ("OUTPUT0", "INT32", [-1]), ("OUTPUT1", "INT32", [-1]),
                      ("EXECUTIONS", "INT64", [1])) + more)


MODELS = {name: echo() for name in (
    "plain", "inputs", "parameters", "ids", "errors", "statistics", "shared", "evicted", "twice",
    "generated", "large", "ways_http_json", "ways_http_binary",
    "ways_grpc_raw", "ways_grpc_typed")}
MODELS.update({
    "off": echo(more=""),
    "said_off": echo(more="response_cache { enable: false }\n"),
    "shapes": ('backend: "testing"\n' + tensors("input", ("INPUT0", "INT32", [-1, -1]))
               + tensors("output", ("OUTPUT0", "INT32", [-1, -1]), ("EXECUTIONS", "INT64", [1]))
               + CACHED),
    "texts": echo("STRING"),
    "batched": echo(more=CACHED + "dynamic_batching { }\n", max_batch_size=8),
    "two": two(),
    "subset": two(),
    "optional": ('backend: "testing"\ninput { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }\n'
                 'input { name: "INPUT1" data_type: TYPE_INT32 dims: [ -1 ] optional: true }\n'
                 + tensors("output", ("OUTPUT0", "INT32", [-1]), ("EXECUTIONS", "INT64", [1]))
                 + CACHED),
    "reshaped": ('backend: "identity"\nmax_batch_size: 4\n'
                 'input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 4 ] reshape { shape: [ 2, 2 ] '
                 '} }\noutput { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 4 ] '
                 'reshape { shape: [ 2, 2 ] } }\n' + CACHED),
    "told": echo(backend="identity", more=CACHED + (
        'parameters { key: "response_parameters" value { string_value: "true" } }')),
    "ordered": gated(echo(max_batch_size=4, more=CACHED + (
        "dynamic_batching { preserve_ordering: true max_queue_delay_microseconds: 0 }\n"
        "instance_group { count: 2 }\n"))),
})


def int32(*values, shape=None, name="INPUT0"):
    return Tensor(name, "INT32", tuple(shape or [len(values)]), struct.pack(f"<{len(values)}i",
                                                                            *values))


class Asking:
    """One way to ask, with what the answers say."""

    def __init__(self, way):
        self.way = way

    def __call__(self, model, *inputs, outputs=(), **more):
        answer, = self.way.send([Case(model, inputs, tuple(outputs), **more)])
        return answer


def outputs_of(answer):
    return {o.name: o.content for o in answer.outputs}


def number(answer):
    """Which execution made it."""
    return struct.unpack_from("<q", outputs_of(answer)["EXECUTIONS"])[0]


@pytest.fixture(scope="module")
def ask(server):
    return Asking(HttpBinary(server))


@pytest.fixture(scope="module", params=["http_json", "http_binary", "grpc_raw", "grpc_typed"])
def way(request, server, client):  # noqa: F811
    made = {"http_json": lambda: HttpJson(server), "http_binary": lambda: HttpBinary(server),
            "grpc_raw": lambda: GrpcRaw(client), "grpc_typed": lambda: GrpcTyped(client)}
    return request.param, Asking(made[request.param]())


def stats(server, model):
    reply = requests.get(f"{server.url}/v2/models/{model}/stats", timeout=20).json()
    return reply["model_stats"][0]


def counts(server, model):
    """(success, cache_hit, cache_miss, inference_count, execution_count)"""
    s = stats(server, model)
    i = s["inference_stats"]
    return (i["success"]["count"], i["cache_hit"]["count"], i["cache_miss"]["count"],
            s["inference_count"], s["execution_count"])


# ---- hits and misses ----------------------------------------------------------------------------


def test_every_protocol(way, server):
    name, ask = way
    model = f"ways_{name}"
    first = ask(model, int32(1, 2, 3), id="a")
    again = ask(model, int32(1, 2, 3), id="b")
    assert (first.id, again.id) == ("a", "b")
    assert outputs_of(again) == outputs_of(first)
    assert outputs_of(again)["OUTPUT0"] == struct.pack("<3i", 1, 2, 3)
    assert again.outputs == first.outputs and again.version == "1"
    assert number(ask(model, int32(1, 2, 4))) == 2
    assert number(ask(model, int32(1, 2, 3))) == 1
    assert counts(server, model) == (4, 2, 2, 2, 2)


def test_protocols_share_it(server, client, ask):  # noqa: F811
    assert number(ask("plain", int32(7))) == 1
    for way in (HttpJson(server), GrpcRaw(client), GrpcTyped(client)):
        assert number(Asking(way)("plain", int32(7))) == 1
    assert counts(server, "plain") == (4, 3, 1, 1, 1)


def test_one_bit_makes_another_request(ask):
    first = number(ask("inputs", int32(*range(100))))
    for at in range(0, 100, 7):
        other = [value ^ (value == at) for value in range(100)]
        assert number(ask("inputs", int32(*other))) > first
    assert number(ask("inputs", int32(*range(100)))) == first


def test_shapes_make_other_requests(ask):
    square = ask("shapes", int32(1, 2, 3, 4, shape=[2, 2]))
    row = ask("shapes", int32(1, 2, 3, 4, shape=[1, 4]))
    assert (number(square), number(row)) == (1, 2)
    assert [o.shape for o in row.outputs if o.name == "OUTPUT0"] == [(1, 4)]
    assert ask("shapes", int32(1, 2, 3, 4, shape=[2, 2])) == square
    assert ask("shapes", int32(1, 2, 3, 4, shape=[1, 4])) == row


def test_lengths_do_not_run_into_each_other(ask):
    rows = [(int32(1, 2), int32(3)), (int32(1), int32(2, 3)), (int32(), int32(1, 2, 3)),
            (int32(1, 2, 3), int32())]
    for n, (a, b) in enumerate(rows):
        answer = ask("two", a, Tensor("INPUT1", *dataclass_tail(b)))
        assert number(answer) == n + 1
        assert outputs_of(answer)["OUTPUT0"] == a.content
        assert outputs_of(answer)["OUTPUT1"] == b.content


def dataclass_tail(tensor):
    return tensor.datatype, tensor.shape, tensor.content


def test_order_of_inputs_is_none(server, ask):
    a, b = int32(10), int32(20, name="INPUT1")
    first = number(ask("two", a, b))
    assert number(ask("two", b, a)) == first
    swapped = ask("two", int32(20), int32(10, name="INPUT1"))
    assert number(swapped) == first + 1
    assert outputs_of(swapped)["OUTPUT0"] == b.content


def test_optional_inputs(ask):
    alone = number(ask("optional", int32(1)))
    both = number(ask("optional", int32(1), int32(name="INPUT1")))
    assert both == alone + 1
    assert number(ask("optional", int32(1))) == alone
    assert number(ask("optional", int32(1), int32(name="INPUT1"))) == both


def test_texts(ask):
    def asked(*texts):
        return ask("texts", Tensor("INPUT0", "BYTES", (len(texts),), strings(texts)))

    first = asked(b"ab", b"c")
    assert number(asked(b"a", b"bc")) == number(first) + 1
    assert number(asked(b"abc")) == number(first) + 2
    assert asked(b"ab", b"c") == first
    assert number(asked(b"\xff\x00", b"")) == number(first) + 3
    assert outputs_of(asked(b"\xff\x00", b""))["OUTPUT0"] == strings([b"\xff\x00", b""])


def test_batches(server, ask):
    one = ask("batched", int32(1, 2, shape=[1, 2]))
    two_rows = ask("batched", int32(1, 2, 3, 4, shape=[2, 2]))
    assert number(two_rows) == number(one) + 1
    assert ask("batched", int32(1, 2, 3, 4, shape=[2, 2])) == two_rows
    assert counts(server, "batched") == (3, 1, 2, 3, 2)


def test_reshape_is_not_undone_twice(ask):
    first = ask("reshaped", int32(*range(8), shape=[2, 4]))
    assert first.outputs[0].shape == (2, 4)
    assert ask("reshaped", int32(*range(8), shape=[2, 4])) == first


def test_large_tensors(server, ask):
    values = list(range(50000))
    first = ask("large", int32(*values))
    assert ask("large", int32(*values)) == first
    assert outputs_of(first)["OUTPUT0"] == int32(*values).content


# ---- outputs ------------------------------------------------------------------------------------


def test_some_outputs_of_all(server, ask):
    inputs = int32(1), int32(2, name="INPUT1")
    everything = ask("subset", *inputs)
    some = ask("subset", *inputs, outputs=["EXECUTIONS", "OUTPUT1"])
    assert outputs_of(some) == {name: content for name, content in outputs_of(everything).items()
                                if name != "OUTPUT0"}
    named = ask("subset", *inputs, outputs=["EXECUTIONS", "OUTPUT1", "OUTPUT0"])
    assert outputs_of(named) == outputs_of(everything)
    assert counts(server, "subset") == (3, 2, 1, 1, 1)


def test_all_outputs_of_some(ask):
    inputs = int32(3), int32(4, name="INPUT1")
    some = ask("subset", *inputs, outputs=["EXECUTIONS"])
    assert set(outputs_of(some)) == {"EXECUTIONS"}
    assert ask("subset", *inputs, outputs=["EXECUTIONS"]) == some
    other = ask("subset", *inputs, outputs=["EXECUTIONS", "OUTPUT0"])
    assert number(other) == number(some) + 1
    assert outputs_of(other)["OUTPUT0"] == inputs[0].content
    everything = ask("subset", *inputs)
    assert number(everything) == number(some) + 2
    assert set(outputs_of(everything)) == {"EXECUTIONS", "OUTPUT0", "OUTPUT1"}
    # Now that all are there, they serve whoever asks for some that nobody has asked for.
    assert number(ask("subset", *inputs, outputs=["OUTPUT1", "EXECUTIONS"])) == number(everything)


def test_parameters_of_responses(ask):
    first = ask("told", int32(1))
    assert first.parameters
    assert ask("told", int32(1)) == first


def test_generate(server):
    def generate(value):
        reply = requests.post(f"{server.url}/v2/models/generated/generate", timeout=20,
                              json={"INPUT0": value})
        assert reply.status_code == 200, reply.text
        return reply.json()

    assert generate(5)["EXECUTIONS"] == generate(5)["EXECUTIONS"] == 1
    assert generate(6)["EXECUTIONS"] == 2


# ---- what does not count ------------------------------------------------------------------------


def test_parameters_are_not_looked_at(server, ask):
    first = number(ask("parameters", int32(1), parameters=(("a", "b"),)))
    assert number(ask("parameters", int32(1), parameters=(("a", "c"), ("n", 3)))) == first
    assert number(ask("parameters", int32(1), parameters=(("priority", 2),))) == first
    assert number(ask("parameters", int32(1))) == first


def test_ids_are_not_looked_at(ask):
    assert number(ask("ids", int32(1), id="one")) == number(ask("ids", int32(1), id="two"))


@pytest.mark.parametrize("model", ["off", "said_off"])
def test_models_that_do_not_want_it(server, ask, model):
    assert [number(ask(model, int32(1))) for _ in range(3)] == [1, 2, 3]
    assert counts(server, model) == (3, 0, 0, 3, 3)
    hits = metrics(server)
    assert f'nv_cache_num_hits_per_model{{model="{model}",version="1"}}' not in hits


def test_failures_are_not_kept(server, ask):
    for _ in range(2):
        failed = ask("errors", int32(1), parameters=(("fail", "of the test"),))
        assert failed[0] == 500 and "of the test" in failed[1]
    assert counts(server, "errors")[:3] == (0, 0, 0)
    assert number(ask("errors", int32(1))) == 3
    assert number(ask("errors", int32(1), parameters=(("fail", "of the test"),))) == 3
    # What is wrong with a request is said before anything is looked up.
    assert ask("errors", Tensor("INPUT0", "FP32", (1,), b"\0" * 4))[0] == 400
    assert counts(server, "errors")[1:3] == (1, 1)


def test_shared_memory_is_not_kept(server, ask):
    """The client could change the bytes between the look and the execution."""
    http = ShmHttp(server)
    with Object(struct.pack("<2i", 1, 2) + bytes(64)) as shared:
        http.register("region", shared.key, 72)
        body = {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [2], "parameters": {
            "shared_memory_region": "region", "shared_memory_byte_size": 8}}]}

        def executed():
            reply = requests.post(f"{server.url}/v2/models/shared/infer", json=body, timeout=20)
            assert reply.status_code == 200, reply.text
            outputs = {o["name"]: o.get("data") for o in reply.json()["outputs"]}
            return outputs["EXECUTIONS"][0]

        assert [executed(), executed()] == [1, 2]
        assert number(ask("shared", int32(1, 2))) == 3
        # What others had kept is given, into shared memory as well.
        body["outputs"] = [{"name": "EXECUTIONS"}, {"name": "OUTPUT0", "parameters": {
            "shared_memory_region": "region", "shared_memory_byte_size": 8,
            "shared_memory_offset": 16}}]
        assert executed() == 3
        assert shared.read(16, 8) == struct.pack("<2i", 1, 2)
        # Where it does not fit, the request fails as it does without a cache.
        body["outputs"][1]["parameters"]["shared_memory_byte_size"] = 4
        reply = requests.post(f"{server.url}/v2/models/shared/infer", json=body, timeout=20)
        assert reply.status_code >= 400
        http.unregister("region")


# ---- order and load -----------------------------------------------------------------------------


def test_order_is_preserved(server, stubs):  # noqa: F811
    """An answer that is there already waits for those that were asked for before."""
    with Gate(server, "ordered") as gate, open_channel(server) as channel:
        c = Client(channel, stubs)

        def send(value):
            return c.ModelInfer.future(
                c.request("ordered", [("INPUT0", "INT32", [1, 1])], [struct.pack("<i", value)]),
                timeout=20)

        gate.open()
        assert send(1).result().outputs
        gate.wait()
        slow = send(2)
        gate.wait()
        kept = send(1)
        wait_for_metric(server, 1, "nv_cache_num_hits_per_model", "ordered")
        # On the same connection: what had been answered before would have come before.
        assert c.call("ServerLive").live
        assert not kept.done() and not slow.done()
        gate.open()
        assert kept.result().outputs and slow.result().outputs


def test_many_at_once(server, ask):
    def one(n):
        way = Asking(HttpBinary(server))
        return [outputs_of(way("twice", int32(k % 20)))["OUTPUT0"] == struct.pack("<i", k % 20)
                for k in range(n, n + 100)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for results in pool.map(one, range(0, 160, 20)):
            assert all(results)
    success, hits, misses, inferences, _ = counts(server, "twice")
    assert success == 800 and hits + inferences == 800
    # Two that miss at the same time are both computed, and one of them is kept.
    assert misses == 20 and inferences >= 20


# ---- eviction, metrics, statistics --------------------------------------------------------------


def test_statistics_and_metrics(server, ask):
    for value in (1, 2, 1, 1, 2):
        ask("statistics", int32(value))
    s = stats(server, "statistics")["inference_stats"]
    assert [s[name]["count"] for name in
            ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output",
             "cache_hit", "cache_miss")] == [5, 0, 5, 2, 2, 2, 3, 2]
    assert 0 < s["cache_hit"]["ns"] < s["success"]["ns"]
    assert s["cache_miss"]["ns"] > 0
    assert metric(server, "nv_inference_request_success", "statistics") == 5
    assert metric(server, "nv_inference_count", "statistics") == 2
    assert metric(server, "nv_inference_exec_count", "statistics") == 2
    assert metric(server, "nv_cache_num_hits_per_model", "statistics") == 3
    assert metric(server, "nv_cache_num_misses_per_model", "statistics") == 2
    hit_us = metric(server, "nv_cache_hit_duration_per_model", "statistics")
    assert hit_us == s["cache_hit"]["ns"] // 1000
    miss_us = metric(server, "nv_cache_miss_duration_per_model", "statistics")
    assert miss_us == s["cache_miss"]["ns"] // 1000
    assert metric(server, "nv_inference_pending_request_count", "statistics") == 0
    families = parse(page(server).text)
    assert families["nv_cache_num_hits_per_model"].help == "Number of cache hits per model"
    assert families["nv_cache_num_misses_per_model"].help == "Number of cache misses per model"


def test_grpc_statistics(server, client, ask):  # noqa: F811
    ask("plain", int32(99))
    ask("plain", int32(99))
    found = client.call("ModelStatistics", {"name": "plain"}).model_stats[0].inference_stats
    success, hits, misses, *_ = counts(server, "plain")
    assert (found.success.count, found.cache_hit.count, found.cache_miss.count) == (
        success, hits, misses)


def test_the_table_of_options_says_so(server):
    assert any("| cache_enabled " in line and line.split("|")[2].strip() == "1"
               for line in server.log)


# ---- servers of their own -----------------------------------------------------------------------


@pytest.fixture
def start(tmp_path):
    """start(options, models): a server, stopped at the end."""
    running = []

    def begin(*options, models=None):
        repository = tmp_path / f"repository{len(running)}"
        write_repository(repository, models or {"m": echo()})
        running.append(Server(repository, options))
        return running[-1]

    yield begin
    for one in running:
        assert one.stop() == 0, one.text()


def test_eviction(start):
    """Of 8 KiB at most 7 answers of 1 KiB are kept: those used last."""
    server = start("--cache-config=local,size=8192")
    ask = Asking(HttpBinary(server))
    made = {value: number(ask("m", int32(*[value] * 256))) for value in range(6)}
    assert number(ask("m", int32(*[0] * 256))) == made[0]
    for value in range(6, 10):
        ask("m", int32(*[value] * 256))
    assert number(ask("m", int32(*[0] * 256))) == made[0]  # it was used
    assert number(ask("m", int32(*[1] * 256))) > 10  # it was not
    values = metrics(server)
    assert values["neso_cache_size_bytes"] == 8192
    entries = values["neso_cache_entries"]
    assert 5 <= entries <= 7
    assert entries * 1024 < values["neso_cache_used_bytes"] <= 8192
    assert values["neso_cache_evictions_total"] == 11 - entries  # eleven answers were computed


def test_too_large_for_it(start):
    server = start("--cache-config=local,size=2048")
    ask = Asking(HttpBinary(server))
    assert [number(ask("m", int32(*range(1000)))) for _ in range(2)] == [1, 2]
    assert counts(server, "m") == (2, 0, 2, 2, 2)
    server.wait_for_line(r"Failed to insert key \[.*\] into response cache: the entry takes")


def test_older_option(start):
    server = start("--response-cache-byte-size=65536")
    ask = Asking(HttpBinary(server))
    assert [number(ask("m", int32(1))) for _ in range(2)] == [1, 1]


def test_model_that_wants_one_and_server_without(start):
    server = start()
    ask = Asking(HttpBinary(server))
    assert [number(ask("m", int32(1))) for _ in range(2)] == [1, 2]
    assert any("model 'm' has response_cache enabled, but the server has no cache" in line
               for line in server.log)
    assert not any(name.startswith("nv_cache") for name in metrics(server))


def refused(tmp_path, *options, model=None):
    write_repository(tmp_path, {"m": model or echo()})
    with pytest.raises(AssertionError) as caught:
        Server(tmp_path, options).stop()
    return str(caught.value)


MANY = "found multiple cache configurations, but only a single cache is currently supported"
BOTH = ("error: Incompatible flags --response-cache-byte-size and --cache-config both provided. "
        "Please provide one or the other.")


@pytest.mark.parametrize("options, text", [
    (["--cache-config=local,size=1", "--cache-config=redis,host=x"], MANY),
    (["--cache-config=nowhere,a=b", "--cache-directory=/nonexistent"],
     "unable to find 'libtritoncache_nowhere.so' for cache. Searched: /nonexistent/nowhere"),
    (["--cache-config=../x,a=b"], "'../x' is no name of a cache"),
    (["--cache-config=local,size=0"],
     "'size' of the local cache must be a number of bytes greater than 0, got '0'"),
    (["--cache-config=local,size=1MB"],
     "'size' of the local cache must be a number of bytes greater than 0, got '1MB'"),
    (["--cache-config=local,sizes=1"], "unknown setting 'sizes' of the local cache"),
    (["--cache-config=local"], "No cache name specified. --cache-config option format is"),
    (["--cache-config=local,size"], "--cache-config option format is"),
    (["--cache-config=,size=1"], "No cache name specified"),
    (["--cache-config=local,size=1", "--response-cache-byte-size=1"], BOTH),
    (["--response-cache-byte-size=-1"], "value is out of range"),
])
def test_bad_options(tmp_path, options, text):
    assert text in refused(tmp_path, *options)


def test_broken_libraries(tmp_path):
    folder = tmp_path / "caches" / "broken"
    folder.mkdir(parents=True)
    library = folder / "libtritoncache_broken.so"
    options = [f"--cache-directory={tmp_path / 'caches'}", "--cache-config=broken,a=b"]
    library.write_bytes(b"no library")
    assert f"unable to load shared library '{library}'" in refused(tmp_path / "a", *options)
    library.write_bytes(
        (BUILD / "backends" / "identity" / "libtriton_identity.so").read_bytes())
    assert (f"unable to find symbol 'TRITONCACHE_CacheInitialize' in shared library '{library}'"
            in refused(tmp_path / "b", *options))


@pytest.mark.parametrize("more, text", [
    ("model_transaction_policy { decoupled: true }\n",
     "Response Cache does not currently support model m with 'decoupled' transaction policy. "
     "Please disable the response cache."),
    ("sequence_batching { }\n",
     "Response Cache does not currently support model m with sequence batching scheduler. "
     "Please disable the response cache."),
])
def test_models_that_cannot(tmp_path, more, text):
    assert text in refused(tmp_path, "--cache-config=local,size=4096", model=echo(
        more=CACHED + more))
