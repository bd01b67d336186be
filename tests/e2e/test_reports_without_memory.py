# SPDX-License-Identifier: BSD-3-Clause
"""Allocations that fail while the server says something: an answer is the one that it gives with enough
memory, or it says that memory was short; it is never cut, and never a success instead of an error."""
import re

import pytest
import requests

from conftest import Server, is_sanitized, preload, require_build, write_repository
from test_no_memory import FAIL_ALLOC, IDENTITY, OURS, TEXT, Memory, check_alive

TAKES_SECONDS = 25

STEPS = ('ensemble_scheduling { step [%s] }' % ", ".join(
    '{ model_name: "%s" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } '
    'output_map { key: "OUTPUT0" value: "OUTPUT0" } }' % name for name in ("gone", "m", "lost")))
MODELS = {
    "m": IDENTITY,
    "text": TEXT,
    "e": IDENTITY.replace('backend: "identity"', 'platform: "ensemble"') + STEPS,
}

INPUT = '{"name":"%s","shape":[1],"datatype":"FP32","data":[1]}'
GENERATE = "/v2/models/text/generate"

# The method, the path and the body of what is asked.
QUESTIONS = (
    ("GET", "/v2", None),
    ("GET", "/v2/models/m", None),
    ("GET", "/v2/models/m/config", None),
    ("GET", "/v2/logging", None),
    ("GET", "/v2/trace/setting", None),
    ("GET", "/v2/models/m/trace/setting", None),
    ("GET", "/v2/systemsharedmemory/status", None),
    ("POST", "/v2/repository/index", None),
    ("POST", "/v2/repository/models/e/load", None),
    ("POST", "/v2/repository/models/unknown/load", None),
    ("POST", "/v2/repository/models/m/load", '{"parameters":{"config":"{\\"inputs\\":3}"}}'),
    ("POST", "/v2/models/m/infer", '{"inputs":[%s,%s]}' % (INPUT % "INPUT0", INPUT % "MORE")),
    ("POST", "/v2/models/m/infer", '{"inputs":[%s]}' % INPUT.replace("[1]", "[-1]", 1) % "INPUT0"),
    ("POST", "/v2/models/m/infer", '{"inputs":[%s]}' % INPUT.replace("[1]", "[1,1]", 1) % "INPUT0"),
    ("POST", "/v2/models/m/infer", '{"inputs":[%s],"outputs":[{"name":"X"}]}' % INPUT % "INPUT0"),
    ("POST", "/v2/models/m/infer", '{"inputs":[%s],"outputs":[{"name":"OUTPUT0","parameters":'
     '{"classification":1}}]}' % INPUT % "INPUT0"),
    ("POST", "/v2/models/m/infer", '{"inputs":[%s]}' % INPUT.replace("FP32", "INT32") % "INPUT0"),
    ("POST", "/v2/models/m/infer", '{"inputs":[{"name":"INPUT0","shape":[2],"datatype":"FP32",'
     '"data":[1,"a"]}]}'),
    ("POST", "/v2/models/m/infer", '{"inputs":[{"name":"INPUT0","shape":[1],"datatype":"FP32",'
     '"parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}}]}'),
    ("POST", "/v2/models/m/infer", '{"inputs":[1,'),
    ("POST", "/v2/models/m/versions/7/infer", "{}"),
    ("POST", "/v2/models/m%C3%BC/infer", "{}"),
    ("POST", "/v2/trace/setting", '{"trace_rate":"x"}'),
    ("POST", "/v2/models/unknown/trace/setting", '{"trace_rate":"1"}'),
    ("POST", "/v2/logging", '{"log_verbose_level":"x"}'),
    ("POST", "/v2/systemsharedmemory/region/r/register", '{"key":"/none","byte_size":4}'),
    ("POST", "/v2/systemsharedmemory/region/r/register", '{"byte_size":4}'),
    ("GET", "/v2/systemsharedmemory/region/r/status", None),
    ("POST", "/v2/repository/models/m/unload", '{"parameters":{"unload_dependents":3}}'),
    ("GET", "/v2/models/m/versions/7/stats", None),
    ("GET", "/v2/models/e/config", None),
    ("GET", "/v2/nothing", None),
    ("POST", GENERATE, '{"text":"%s"}' % ("hello" * 100)),
    ("POST", GENERATE, '{"none":"%s"}' % ("hello" * 100)),
    ("POST", GENERATE + "_stream", '{"text":"%s"}' % ("hello" * 100)),
)


@pytest.fixture(name="short")
def short_server(tmp_path):
    require_build(("identity",))
    write_repository(tmp_path / "models", MODELS)
    memory = Memory(tmp_path / "control")
    environment = {"FAIL_ALLOC": str(tmp_path / "control"),
                   "FAIL_ALLOC_IN": OURS}
    running = Server(tmp_path / "models", (
        "--model-control-mode=explicit", "--load-model=m", "--load-model=text",
        "--http-thread-count=1", "--trace-config=opentelemetry,resource=service.name=mine",
        "--trace-config=opentelemetry,resource=service.version=2", "--trace-config=mode=opentelemetry",
        "--trace-config=rate=0"),
        waits_for=("http", "metrics"),
        under=("env", preload(FAIL_ALLOC), *(f"{name}={value}" for name, value in environment.items())))
    yield running, memory
    memory.fail_each(0)
    check_alive(running)
    assert running.stop() == 0, running.text()


def ask(server, question):
    """The status and the text of an answer; None when there was none."""
    method, path, body = question
    try:
        reply = requests.request(method, server.url + path, data=body, timeout=20)
    except requests.RequestException:
        return None
    return reply.status_code, reply.text


def says_shortage(answer):
    return answer[0] >= 400 and "memory" in answer[1] or "failed to poll" in answer[1]


@pytest.mark.skipif(is_sanitized(), reason="the sanitizer has its own allocator")
def test_answers(short):
    server, memory = short
    expected = [ask(server, question) for question in QUESTIONS]
    n_same = n_short = 0

    for n in (*range(2, 40), *range(40, 120, 7)):
        memory.fail_each(n)
        answers = [ask(server, question) for question in QUESTIONS]
        memory.fail_each(0)
        for question, answer, whole in zip(QUESTIONS, answers, expected):
            if answer == whole:
                n_same += 1
            elif answer is not None:
                assert says_shortage(answer), (question, n, answer, whole)
                n_short += 1
    print(f"{n_same} answers are whole, {n_short} say that memory is short")
    assert n_same > 0 and n_short > 0


def shape_of(page):
    """A page of metrics without its numbers, which change, and without the counts of refusals, which
    begin with the first shortage."""
    lines = (line for line in page.splitlines(True) if "neso_rejected_total" not in line)
    return re.sub(r"^([^#].*) \S+$", r"\1", "".join(lines), flags=re.M)


@pytest.mark.skipif(is_sanitized(), reason="the sanitizer has its own allocator")
def test_metrics(short):
    server, memory = short
    url = f"http://127.0.0.1:{server.ports['metrics']}/metrics"
    expected = shape_of(requests.get(url, timeout=20).text)
    n_same = n_short = 0

    for n in (*range(2, 60), *range(60, 1500, 50)):
        memory.fail_each(n, 100)
        try:
            reply = requests.get(url, timeout=20)
        except requests.RequestException:
            continue
        finally:
            memory.fail_each(0)
        if reply.status_code == 200:
            assert shape_of(reply.text) == expected, n
            n_same += 1
        else:
            assert "memory" in reply.text, (n, reply.text)
            n_short += 1
    assert n_same > 0 and n_short > 0


# ---- loads ---------------------------------------------------------------------------------------

RICH = """backend: "identity" max_batch_size: 4 version_policy { all { } }
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [2] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [2] label_filename: "labels.txt" } ]
dynamic_batching { preferred_batch_size: [2, 4] max_queue_delay_microseconds: 100 }
instance_group { count: 2 }
parameters { key: "a" value { string_value: "b" } }
metric_tags { key: "team" value: "x" }
model_warmup { name: "w" batch_size: 2 inputs { key: "INPUT0" value {
  data_type: TYPE_FP32 dims: [2] input_data_file: "data" } } }
"""
WHOLE = {
    "rich": {"config.pbtxt": RICH, "labels.txt": "cat\ndog\n", "2/nothing": "",
             "warmup/data": bytes(8)},
    "line": IDENTITY + 'parameters { key: "next" value { string_value: "m" } }',
    "whole": IDENTITY.replace('backend: "identity"', 'platform: "ensemble"')
    + 'ensemble_scheduling { step [%s] }' % ", ".join(
        '{ model_name: "%s" model_version: -1 input_map { key: "INPUT0" value: "%s" } '
        'output_map { key: "OUTPUT0" value: "%s" } }' % step
        for step in (("m", "INPUT0", "BETWEEN"), ("line", "BETWEEN", "OUTPUT0"))),
}
LOADED = tuple((method, f"/v2/models/{name}{path}", body) for name in WHOLE for method, path, body in (
    ("GET", "", None), ("GET", "/config", None), ("GET", "/ready", None),
    ("POST", "/infer", '{"inputs":[%s],"outputs":[{"name":"OUTPUT0","parameters":'
     '{"classification":1}}]}' % INPUT % "INPUT0"),
    ("POST", "/infer", '{"inputs":[{"name":"INPUT0","shape":[1,2],"datatype":"FP32","data":[1,2]}],'
     '"outputs":[{"name":"OUTPUT0","parameters":{"classification":1}}]}')))


def load_all(server):
    return [ask(server, ("POST", f"/v2/repository/models/{name}/load", None)) for name in WHOLE]


def unload_all(server):
    for name in (*reversed(WHOLE), "m"):
        assert ask(server, ("POST", f"/v2/repository/models/{name}/unload", None))[0] == 200


def states(server):
    """What is ready, and why what is not is not."""
    index = requests.post(server.url + "/v2/repository/index", timeout=20).json()
    return {(row["name"], row.get("version")): (row.get("state"), row.get("reason", ""))
            for row in index}


@pytest.mark.skipif(is_sanitized(), reason="the sanitizer has its own allocator")
def test_loads(short):
    server, memory = short
    write_repository(server.repository, WHOLE)
    answers = load_all(server)
    assert [status for status, _ in answers] == [200] * len(WHOLE), answers
    expected = [ask(server, question) for question in LOADED]
    ready = states(server)
    unload_all(server)
    n_whole = n_short = 0

    for n in (*range(2, 80, 3), *range(80, 700, 13)):
        memory.fail_each(n)
        answers = load_all(server)
        memory.fail_each(0)
        found = states(server)
        for name, answer in zip(WHOLE, answers):
            rows = {key: row for key, row in found.items() if key[0] == name}
            if answer is not None and answer[0] == 200:
                n_whole += 1
                assert rows == {key: row for key, row in ready.items() if key[0] == name}, (n, found)
                for question, whole in zip(LOADED, expected):
                    if question[1].split("/")[3] == name:
                        assert ask(server, question) == whole, (n, question)
            elif answer is not None:
                n_short += 1
                # Or the files of a model that it needs could not be read, for the same reason.
                assert says_shortage(answer) or "no loaded version" in answer[1], (n, answer)
                for state, reason in rows.values():
                    assert state != "UNAVAILABLE" or reason == "unloaded" or "memory" in reason, (
                        n, rows)
        unload_all(server)
    print(f"{n_whole} loads are whole, {n_short} say that memory is short")
    assert n_whole > 0 and n_short > 0
