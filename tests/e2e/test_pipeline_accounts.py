# SPDX-License-Identifier: BSD-3-Clause
"""What a server keeps of the requests to ensembles and chains, over HTTP, gRPC, a gRPC stream and the C API:
counts of the pipeline and of each model in it, hits of response caches, traces with a child for each step, labels.
The answers themselves: test_pipeline_ways.py.

A story is a few requests, one after the other, to models that no other story uses. Each way sends all
stories to a server of its own, asks for statistics until they are complete, and reads the traces when
the server has ended.

What a way cannot say: a stream of inferences has no statistics, so they are asked of the same service by
a unary call. The C API does not classify; it gives the labels of the classes, from which a program makes
what a front-end answers.
"""
import collections
import contextlib
import dataclasses
import json

import pytest
import requests

from chain_models import adding as stage
from conftest import BUILD, ON_GPU, Server, require_build, write_repository
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from infer_ways import Answer, Case, GrpcRaw, GrpcStream, HttpBinary, InProcess, Tensor, content_of, values_of
from models import SECONDS, wait_until
from test_ensembles import adding, line, step

CACHED = "response_cache { enable: true }\n"
# LEFT is X + 11, by two steps; RIGHT is X + 1101, by three, of which the first is the same.
BRANCHES = ('platform: "ensemble" max_batch_size: 8\n'
            'input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }\n'
            'output { name: "LEFT" data_type: TYPE_INT32 dims: [ 1 ] }\n'
            'output { name: "RIGHT" data_type: TYPE_INT32 dims: [ 1 ] }\n'
            "ensemble_scheduling {\n" +
            step("root", {"IN": "X"}, {"OUT": "T"}) + step("left", {"IN": "T"}, {"OUT": "LEFT"}) +
            step("middle", {"IN": "T"}, {"OUT": "U"}) + step("right", {"IN": "U"}, {"OUT": "RIGHT"}) + "}\n")
SCORES = ('backend: "identity" max_batch_size: 0\n'
          'input { name: "IN" data_type: TYPE_FP32 dims: [ 3 ] }\n'
          'output { name: "IN" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" }\n')
CLASSES = ('platform: "ensemble"\n'
           'input { name: "X" data_type: TYPE_FP32 dims: [ 3 ] }\n'
           'output { name: "Y" data_type: TYPE_FP32 dims: [ 3 ] }\n'
           "ensemble_scheduling {\n" + step("scores", {"IN": "X"}, {"IN": "Y"}) + "}\n")
SCORED = {"config.pbtxt": SCORES, "labels.txt": "low\nmiddle\nhigh\n"}


def classes(scores, more=""):
    return CLASSES.replace('"scores"', f'"{scores}"') + more


def ask(model, *values, **more):
    tensor = more.pop("tensor", "X")
    return Case(model, (Tensor(tensor, "INT32", (len(values), 1), content_of("INT32", values)),), **more)


def classify(model, *scores, output="Y", tensor="X"):
    content = content_of("FP32", scores)
    return Case(model, (Tensor(tensor, "FP32", (len(scores),), content),), outputs=(output,), classes=2)


Counts = collections.namedtuple("Counts", "success fail inferences executions hits misses",
                                defaults=(0, 0, 0, 0, 0, 0))


def ran(n, inferences=None, **more):
    return Counts(n, 0, inferences or n, n, **more)


@dataclasses.dataclass(frozen=True)
class Story:
    models: dict
    asked: list
    answers: list  # {output: values} of each, None where it fails
    counts: dict  # of each model
    # The models of each request's trace, as a text: "line(ten one)" is a child for each step, in the
    # order of the names.
    traces: list


STORIES = {
    "each step counts": Story(
        {"line": line("one", "ten"), "one": adding(1), "ten": adding(10)},
        [ask("line", 5), ask("line", 1, 2, 3)], [{"Y": [16]}, {"Y": [12, 13, 14]}],
        {"line": ran(2, 4), "one": ran(2, 4), "ten": ran(2, 4)}, ["line(one ten)"] * 2),
    "an ensemble within an ensemble": Story(
        {"outer": line("inner", "last"), "inner": line("leaf", "leaf").replace('"X" data', '"IN" data')
         .replace('"Y" data', '"OUT" data').replace('value: "X"', 'value: "IN"')
         .replace('value: "Y"', 'value: "OUT"'), "leaf": adding(1), "last": adding(10)},
        [ask("outer", 5)], [{"Y": [17]}],
        {"outer": ran(1), "inner": ran(1), "leaf": ran(2), "last": ran(1)},
        ["outer(inner(leaf leaf) last)"]),
    "steps for outputs that nobody asked for": Story(
        {"branches": BRANCHES, "root": adding(1), "left": adding(10), "middle": adding(100),
         "right": adding(1000)},
        [ask("branches", 5, outputs=("LEFT",)), ask("branches", 5, outputs=("RIGHT",)),
         ask("branches", 6, outputs=("LEFT",)), ask("branches", 5)],
        [{"LEFT": [16]}, {"RIGHT": [1106]}, {"LEFT": [17]}, {"LEFT": [16], "RIGHT": [1106]}],
        {"branches": ran(4), "root": ran(4), "left": ran(3), "middle": ran(2), "right": ran(2)},
        ["branches(left root)", "branches(middle right root)", "branches(left root)",
         "branches(left middle right root)"]),
    "a step that fails": Story(
        {"failing": line("before", "fails", "after"), "before": adding(1),
         "fails": adding(0, fail_execute="boom"), "after": adding(1)},
        [ask("failing", 5)], [None],
        {"failing": Counts(fail=1), "before": ran(1), "fails": Counts(fail=1), "after": Counts()},
        ["failing(before fails)"]),
    "a cache of the ensemble": Story(
        {"kept": line("kept_one", "kept_ten", more=CACHED), "kept_one": adding(1), "kept_ten": adding(10)},
        [ask("kept", 5), ask("kept", 5), ask("kept", 6), ask("kept", 5)],
        [{"Y": [16]}, {"Y": [16]}, {"Y": [17]}, {"Y": [16]}],
        {"kept": Counts(4, 0, 2, 2, hits=2, misses=2), "kept_one": ran(2), "kept_ten": ran(2)},
        ["kept(kept_one kept_ten)", "kept", "kept(kept_one kept_ten)", "kept"]),
    "a cache of a step": Story(
        {"over_cache": line("cheap", "cached"), "cheap": adding(1), "cached": adding(10, more=CACHED)},
        [ask("over_cache", 5), ask("over_cache", 5), ask("over_cache", 6)],
        [{"Y": [16]}, {"Y": [16]}, {"Y": [17]}],
        {"over_cache": ran(3), "cheap": ran(3), "cached": Counts(3, 0, 2, 2, hits=1, misses=2)},
        ["over_cache(cached cheap)"] * 3),
    "labels of the step": Story(
        {"classes": classes("scores"), "scores": SCORED},
        [classify("classes", 0.125, 0.75, 0.5)], [{"Y": ["0.750000:1:middle", "0.500000:2:high"]}],
        {"classes": ran(1), "scores": ran(1)}, ["classes(scores)"]),
    "labels of an answer that was kept": Story(
        {"kept_classes": classes("kept_scores", CACHED), "kept_scores": SCORED},
        [classify("kept_classes", 0.125, 0.25, 0.5)] * 2, [{"Y": ["0.500000:2:high", "0.250000:1:middle"]}] * 2,
        {"kept_classes": Counts(2, 0, 1, 1, hits=1, misses=1), "kept_scores": ran(1)},
        ["kept_classes(kept_scores)", "kept_classes"]),
    "labels of an answer that was kept, of an ensemble within an ensemble": Story(
        {"kept_outer": classes("inner_classes", CACHED).replace('key: "IN"', 'key: "X"', 1)
         .replace('key: "IN"', 'key: "Y"'), "inner_classes": classes("inner_scores"), "inner_scores": SCORED},
        [classify("kept_outer", 0.125, 0.25, 0.5)] * 2, [{"Y": ["0.500000:2:high", "0.250000:1:middle"]}] * 2,
        {"kept_outer": Counts(2, 0, 1, 1, hits=1, misses=1), "inner_classes": ran(1), "inner_scores": ran(1)},
        ["kept_outer(inner_classes(inner_scores))", "kept_outer"]),
    "each stage counts": Story(
        {"A": stage(1, "B", out="A_OUT"), "B": stage(10, "C", out="B_OUT"), "C": stage(100, out="C_OUT")},
        [ask("A", 5, tensor="IN"), ask("A", 1, 2, 3, tensor="IN"), ask("B", 5, tensor="IN"),
         ask("A", 5, tensor="IN", parameters=(("chain", False),))],
        [{"C_OUT": [116]}, {"C_OUT": [112, 113, 114]}, {"C_OUT": [115]}, {"A_OUT": [6]}],
        {"A": ran(3, 5), "B": ran(3, 5), "C": ran(3, 5)}, ["A(A B C)", "A(A B C)", "B(B C)", "A"]),
    "a stage that fails": Story(
        {"D": stage(1, "E", out="D_OUT"), "E": stage(1, "F", fail_execute="boom"), "F": stage(1)},
        [ask("D", 5, tensor="IN")], [None],
        {"D": ran(1), "E": Counts(fail=1), "F": Counts()}, ["D(D E)"]),
    "caches of stages": Story(
        {"G": stage(1, "H", out="G_OUT", more=CACHED), "H": stage(10, "I", out="H_OUT"),
         "I": stage(100, out="I_OUT", more=CACHED)},
        [ask("G", 5, tensor="IN")] * 3, [{"I_OUT": [116]}] * 3,
        {"G": Counts(3, 0, 1, 1, hits=2, misses=1), "H": ran(3),
         "I": Counts(3, 0, 1, 1, hits=2, misses=1)}, ["G(G H I)"] * 3),
    "labels of the last stage": Story(
        {"J": SCORES.replace(' label_filename: "labels.txt"', "") +
         'parameters { key: "next" value { string_value: "K" } }\n', "K": SCORED},
        [classify("J", 0.125, 0.75, 0.5, output="IN", tensor="IN")],
        [{"IN": ["0.750000:1:middle", "0.500000:2:high"]}], {"J": ran(1), "K": ran(1)}, ["J(J K)"]),
}
CASES = [case for story in STORIES.values() for case in story.asked]
WAYS = ["HTTP", "gRPC", "gRPC stream", "C API"]
CORE = ["REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START",
        "COMPUTE_END", "REQUEST_END"]

# ---- the ways -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Told:
    """By one way. `traces` are (id, id of the parent, model, [activities])."""
    answers: list
    counts: dict
    traces: list


def counts_of(stats):
    """From a dict of ModelStatistics, over HTTP, gRPC or from the C API."""
    phases = stats["inference_stats"]
    n = [int(phases[phase]["count"]) for phase in ("success", "fail", "cache_hit", "cache_miss")]
    return Counts(n[0], n[1], int(stats["inference_count"]), int(stats["execution_count"]), *n[2:])


def wait_for_counts(get):
    """Those of steps are complete some time after the answer: until nothing is missing, or for a while."""
    expected = {model: counts for story in STORIES.values() for model, counts in story.counts.items()}
    reported = {}

    def are_complete():
        reported.update({model: get(model) for model in expected})
        return reported == expected

    with contextlib.suppress(AssertionError):
        wait_until(are_complete)
    return reported


def read_traces(path):
    found = collections.OrderedDict()
    for entry in json.loads(path.read_text()):
        if "model_name" in entry:
            found[entry["id"]] = (entry["id"], entry.get("parent_id", 0), entry["model_name"], [])
        else:
            found[entry["id"]][3].extend(stamp["name"] for stamp in entry["timestamps"])
    return list(found.values())


def told_by_server(way, folder, stubs):
    traces = folder / "traces"
    server = Server(folder / "models", ("--cache-config=local,size=1048576", "--trace-config=level=TIMESTAMPS",
                                        "--trace-config=rate=1", f"--trace-config=triton,file={traces}"))
    try:
        with open_channel(server) as channel:
            client = Client(channel, stubs)
            sender = {"HTTP": HttpBinary(server), "gRPC": GrpcRaw(client), "gRPC stream": GrpcStream(client)}[way]
            answers = [sender.send([case])[0] for case in CASES]
            counts = wait_for_counts(lambda model: statistics(server, client, way, model))
    finally:
        assert server.stop() == 0, server.text()
    return Told(answers, counts, read_traces(traces))


def statistics(server, client, way, model):
    if way == "HTTP":
        reply = requests.get(f"{server.url}/v2/models/{model}/stats", timeout=SECONDS)
        return counts_of(reply.json()["model_stats"][0])
    only, = client.call("ModelStatistics", {"name": model}).model_stats
    phases = {name: {"count": getattr(only.inference_stats, name).count}
              for name in ("success", "fail", "cache_hit", "cache_miss")}
    return counts_of({"inference_stats": phases, "inference_count": only.inference_count,
                      "execution_count": only.execution_count})


def told_in_process(folder):
    place = InProcess(collections.namedtuple("Place", "repository")(folder / "models"), folder)

    def get(model):
        process.stdin.write(f"{model}\n")
        process.stdin.flush()
        return counts_of(json.loads(process.stdout.readline())["model_stats"][0])

    with place.opens(CASES, "one_by_one", f"cache={BUILD / 'caches'}", f"traces={folder / 'traces'}") as process:
        counts = wait_for_counts(get)
    found = collections.OrderedDict()
    for entry in (folder / "traces").read_text().splitlines():
        number, parent, model, activity = entry.split()
        found.setdefault(int(number), (int(number), int(parent), model, []))[3].append(activity)
    return Told(place.answers(len(CASES)), counts, list(found.values()))


@pytest.fixture(scope="module", params=WAYS)
def reported(request, stubs, tmp_path_factory):
    require_build(("testing", "identity"))
    folder = tmp_path_factory.mktemp("accounts")
    write_repository(folder / "models", {name: files for story in STORIES.values()
                                         for name, files in story.models.items()})
    return told_in_process(folder) if request.param == "C API" else told_by_server(request.param, folder, stubs)


# ---- what each story says -----------------------------------------------------------------------


def part_of(name, told_of_cases):
    """What is told of this story's requests."""
    at = 0
    for other, story in STORIES.items():
        if other == name:
            return told_of_cases[at:at + len(story.asked)]
        at += len(story.asked)
    raise KeyError(name)


def classes_of(tensor, n):
    """What a front-end would answer: "<value>:<index>:<label>" of the n highest."""
    highest = sorted(enumerate(values_of(tensor)), key=lambda indexed: -indexed[1])[:n]
    return [f"{value:f}:{index}:{tensor.labels[index]}" for index, value in highest]


def outputs_of(asked, answer):
    if not isinstance(answer, Answer):
        return None
    if not asked.classes:
        return {tensor.name: values_of(tensor) for tensor in answer.outputs}
    return {tensor.name: [text.decode() for text in values_of(tensor)] if tensor.datatype == "BYTES"
            else classes_of(tensor, asked.classes) for tensor in answer.outputs}


def tree(traces, one):
    children = sorted(tree(traces, other) for other in traces if other[1] == one[0])
    return one[2] + (f"({' '.join(children)})" if children else "")


@pytest.mark.parametrize("name", STORIES)
def test_answers(reported, name):
    story = STORIES[name]
    assert [outputs_of(asked, answer) for asked, answer
            in zip(story.asked, part_of(name, reported.answers))] == story.answers


def require_look_ups(name):
    if ON_GPU and "cache" in name:
        pytest.skip("a step whose inputs are on a GPU is not looked up in the cache")


@pytest.mark.parametrize("name", STORIES)
def test_counts(reported, name):
    require_look_ups(name)
    assert {model: reported.counts[model] for model in STORIES[name].counts} == STORIES[name].counts


@pytest.mark.parametrize("name", STORIES)
def test_traces(reported, name):
    roots = sorted(trace for trace in reported.traces if trace[1] == 0)
    assert len(roots) == len(CASES)
    assert [tree(reported.traces, root) for root in part_of(name, roots)] == STORIES[name].traces


@pytest.mark.parametrize("name", STORIES)
def test_activities(reported, name):
    """Each trace of a model that executed has all points, any other one those of the request alone. Which ones
    the front-ends add: test_trace_kinds.py."""
    require_look_ups(name)
    story = STORIES[name]
    for model, counts in story.counts.items():
        seen = [[point for point in trace[3] if point in CORE] for trace in reported.traces if trace[2] == model]
        is_ensemble = "ensemble_scheduling" in story.models[model]
        assert seen.count(CORE) == (0 if is_ensemble else counts.executions), model
        assert all(points in (CORE, ["REQUEST_START", "QUEUE_START", "REQUEST_END"]) for points in seen), model
