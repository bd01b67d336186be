# SPDX-License-Identifier: BSD-3-Clause
"""Every path of the HTTP API but infer: answers, errors, content types, who may."""
import json
import time

import pytest
import requests

from conftest import Server, require_build, write_repository
from wire import Wire, exchange, request

BACKENDS = ("identity", "testing")

JSON = "application/json"
TEXT = "text/plain"


def tensor(kind, name, data_type, dims):
    return f'{kind} {{ name: "{name}" data_type: {data_type} dims: {dims} }}\n'


def identity(max_batch_size=0, more=""):
    return (f'backend: "identity"\nmax_batch_size: {max_batch_size}\n'
            + tensor("input", "INPUT0", "TYPE_FP32", [-1])
            + tensor("output", "OUTPUT0", "TYPE_FP32", [-1]) + more)


MODELS = {
    "simple": identity(),
    "batched": {
        "config.pbtxt": (
            'backend: "identity"\nmax_batch_size: 8\nversion_policy { all { } }\n'
            + tensor("input", "B", "TYPE_INT64", [2, -1])
            + tensor("input", "A", "TYPE_STRING", [1])
            + tensor("output", "Y", "TYPE_INT64", [2, -1])
            + tensor("output", "X", "TYPE_STRING", [1])
            + 'dynamic_batching { max_queue_delay_microseconds: 70 }\n'
            + 'parameters { key: "note" value { string_value: "a \\"quoted\\" note" } }\n'),
        "3/.keep": "", "10/.keep": "",
    },
    # A name may have any of these; none is decoded.
    "odd.name-1_%41": identity(),
    "reshaped": ('backend: "identity"\nmax_batch_size: 4\n'
                 'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }\n'
                 'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] '
                 'reshape { shape: [ ] } }\n'),
}

# What may be asked, what it says about itself: method, path, category, type of refusals.
ROUTES = [
    ("GET", "/v2/health/live", "health", TEXT),
    ("GET", "/v2/health/ready", "health", TEXT),
    ("GET", "/v2/models/simple/ready", "health", TEXT),
    ("GET", "/v2/models/simple/versions/1/ready", "health", TEXT),
    ("GET", "/v2", "metadata", JSON),
    ("GET", "/v2/models/simple", "metadata", JSON),
    ("GET", "/v2/models/simple/versions/1", "metadata", JSON),
    ("GET", "/v2/models/simple/config", "model-config", JSON),
    ("GET", "/v2/models/simple/versions/1/config", "model-config", JSON),
    ("GET", "/v2/models/stats", "statistics", JSON),
    ("GET", "/v2/models/simple/stats", "statistics", JSON),
    ("GET", "/v2/models/simple/versions/1/stats", "statistics", JSON),
    ("POST", "/v2/models/simple/infer", "inference", TEXT),
    ("POST", "/v2/models/simple/versions/1/infer", "inference", TEXT),
    ("POST", "/v2/models/simple/generate", "inference", JSON),
    ("POST", "/v2/models/simple/versions/1/generate", "inference", JSON),
    ("POST", "/v2/models/simple/generate_stream", "inference", JSON),
    ("POST", "/v2/models/simple/versions/1/generate_stream", "inference", JSON),
    ("POST", "/v2/repository/index", "model-repository", JSON),
    ("POST", "/v2/repository/models/simple/load", "model-repository", JSON),
    ("POST", "/v2/repository/models/simple/unload", "model-repository", JSON),
    ("POST", "/v2/repository/some/index", "model-repository", JSON),
    ("POST", "/v2/repository/some/models/simple/load", "model-repository", JSON),
    ("POST", "/v2/repository/some/models/simple/unload", "model-repository", JSON),
    ("GET", "/v2/systemsharedmemory/status", "shared-memory", JSON),
    ("GET", "/v2/systemsharedmemory/region/r/status", "shared-memory", JSON),
    ("POST", "/v2/systemsharedmemory/region/r/register", "shared-memory", JSON),
    ("POST", "/v2/systemsharedmemory/unregister", "shared-memory", JSON),
    ("POST", "/v2/systemsharedmemory/region/r/unregister", "shared-memory", JSON),
    ("GET", "/v2/cudasharedmemory/status", "shared-memory", JSON),
    ("GET", "/v2/cudasharedmemory/region/r/status", "shared-memory", JSON),
    ("POST", "/v2/cudasharedmemory/region/r/register", "shared-memory", JSON),
    ("POST", "/v2/cudasharedmemory/unregister", "shared-memory", JSON),
    ("POST", "/v2/cudasharedmemory/region/r/unregister", "shared-memory", JSON),
    ("GET", "/v2/trace/setting", "trace", JSON),
    ("POST", "/v2/trace/setting", "trace", JSON),
    ("GET", "/v2/models/simple/trace/setting", "trace", JSON),
    ("POST", "/v2/models/simple/trace/setting", "trace", JSON),
    ("GET", "/v2/logging", "logging", JSON),
    ("POST", "/v2/logging", "logging", JSON),
]
IDS = [f"{method} {path}" for method, path, _, _ in ROUTES]


def ask(server, method, path, body=None, **arguments):
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    return requests.request(method, server.url + path, data=body, timeout=20, **arguments)


def get(server, path, **arguments):
    return ask(server, "GET", path, **arguments)


def post(server, path, body=None, **arguments):
    return ask(server, "POST", path, body, **arguments)


def assert_json(reply, expected):
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == JSON
    # Compact, and the members in this order.
    assert reply.text == json.dumps(expected, separators=(",", ":"), ensure_ascii=False)


def assert_error(reply, status, text, content_type=JSON):
    assert (reply.status_code, reply.json()) == (status, {"error": text})
    assert reply.headers["Content-Type"] == content_type


def assert_empty(reply, status=200):
    assert reply.status_code == status
    assert reply.content == b""
    assert reply.headers["Content-Length"] == "0"


def infer_one(server, model="simple", value=1.0):
    reply = post(server, f"/v2/models/{model}/infer", {"inputs": [
        {"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [value]}]})
    assert reply.status_code == 200, reply.text


@pytest.fixture(scope="module")
def partial(tmp_path_factory):
    """A server that goes on although some of its models could not be loaded."""
    require_build(BACKENDS)
    repository = tmp_path_factory.mktemp("partial")
    write_repository(repository, {
        "good": identity(),
        "mistyped": 'backend: "identity"\nmax_batch_siz: 8\n',
        "refused": ('backend: "testing"\nversion_policy { all { } }\n'
                    + tensor("input", "INPUT0", "TYPE_FP32", [-1])
                    + tensor("output", "OUTPUT0", "TYPE_FP32", [-1])
                    + 'parameters { key: "fail_load" value { string_value: "no \\"luck\\"" } }\n'
                    'parameters { key: "fail_load_code" '
                    'value { string_value: "Invalid argument" } }\n'),
    })
    (repository / "refused" / "4").mkdir()
    (repository / "empty").mkdir()
    (repository / ".hidden").mkdir()
    (repository / "a file").write_text("not a model")
    running = Server(repository, ("--exit-on-error=false",))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def restricted(tmp_path_factory):
    """One header for each category, two of them with a common one."""
    require_build(BACKENDS)
    repository = tmp_path_factory.mktemp("restricted")
    write_repository(repository, {"simple": MODELS["simple"]})
    categories = sorted({category for _, _, category, _ in ROUTES} - {"health", "metadata"})
    running = Server(repository, [
        "--http-restricted-api=health,metadata:X-Common=first secret",
        *(f"--http-restricted-api={category}:x-{category}=secret of {category}"
          for category in categories)])
    yield running
    assert running.stop() == 0, running.text()


# ---- health -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/v2/models/simple/ready",
                                  "/v2/models/batched/versions/3/ready"])
def test_health(server, path):
    assert_empty(get(server, path))


@pytest.mark.parametrize("path", ["/v2/models/nobody/ready", "/v2/models/simple/versions/7/ready",
                                  "/v2/models/nobody/versions/1/ready"])
def test_unknown_model_is_not_ready(server, path):
    assert_error(get(server, path), 400, "Model version not ready", TEXT)


def test_failed_models_make_the_server_not_ready(partial):
    assert_empty(get(partial, "/v2/health/live"))
    assert_empty(get(partial, "/v2/health/ready"), 400)
    assert_empty(get(partial, "/v2/models/good/ready"))
    assert_error(get(partial, "/v2/models/refused/ready"), 400, "Model version not ready", TEXT)
    assert_error(get(partial, "/v2/models/mistyped/ready"), 400, "Model version not ready", TEXT)


def test_readiness_that_is_not_strict(tmp_path):
    write_repository(tmp_path, {"good": identity(), "bad": "nonsense"})
    running = Server(tmp_path, ("--exit-on-error=false", "--strict-readiness=false"))
    assert_empty(get(running, "/v2/health/ready"))
    assert running.stop() == 0


# ---- metadata -----------------------------------------------------------------------------------


def test_server_metadata(server):
    reply = get(server, "/v2")
    version = reply.json()["version"]
    assert [part.isdigit() for part in version.split(".")] == [True] * 3
    assert_json(reply, {"name": "triton", "version": version, "extensions": [
        "classification", "sequence", "model_repository", "model_repository(unload_dependents)",
        "schedule_policy", "model_configuration", "system_shared_memory", "cuda_shared_memory",
        "binary_tensor_data", "parameters", "statistics", "trace", "logging"]})


def test_server_id(tmp_path):
    running = Server(tmp_path, ("--id", 'name "with" quotes'))
    assert get(running, "/v2").json()["name"] == 'name "with" quotes'
    assert running.stop() == 0


def test_model_metadata(server):
    assert_json(get(server, "/v2/models/simple"), {
        "name": "simple", "versions": ["1"], "platform": "identity",
        "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [-1]}],
        "outputs": [{"name": "OUTPUT0", "datatype": "FP32", "shape": [-1]}]})


BATCHED = {
    "name": "batched", "versions": ["1", "3", "10"], "platform": "identity",
    "inputs": [{"name": "B", "datatype": "INT64", "shape": [-1, 2, -1]},
               {"name": "A", "datatype": "BYTES", "shape": [-1, 1]}],
    "outputs": [{"name": "Y", "datatype": "INT64", "shape": [-1, 2, -1]},
                {"name": "X", "datatype": "BYTES", "shape": [-1, 1]}]}


def test_metadata_of_a_batching_model(server):
    """The batch dimension first; versions by their number; tensors as in the configuration."""
    assert_json(get(server, "/v2/models/batched"), BATCHED)


@pytest.mark.parametrize("version", ["1", "3", "10", "0003"])
def test_metadata_of_one_version(server, version):
    assert_json(get(server, f"/v2/models/batched/versions/{version}"),
                {**BATCHED, "versions": [str(int(version))]})


def test_metadata_knows_no_reshape(server):
    assert get(server, "/v2/models/reshaped").json()["inputs"] == [
        {"name": "INPUT0", "datatype": "FP32", "shape": [-1, 1]}]


def test_config(server):
    config = {
        "name": "batched", "platform": "", "backend": "identity", "runtime": "",
        "version_policy": {"all": {}}, "max_batch_size": 8,
        "input": [
            {"name": "B", "data_type": "TYPE_INT64", "format": "FORMAT_NONE", "dims": [2, -1],
             "is_shape_tensor": False, "allow_ragged_batch": False, "optional": False,
             "is_non_linear_format_io": False},
            {"name": "A", "data_type": "TYPE_STRING", "format": "FORMAT_NONE", "dims": [1],
             "is_shape_tensor": False, "allow_ragged_batch": False, "optional": False,
             "is_non_linear_format_io": False}],
        "output": [
            {"name": "Y", "data_type": "TYPE_INT64", "dims": [2, -1], "label_filename": "",
             "is_shape_tensor": False, "is_non_linear_format_io": False},
            {"name": "X", "data_type": "TYPE_STRING", "dims": [1], "label_filename": "",
             "is_shape_tensor": False, "is_non_linear_format_io": False}],
        "batch_input": [], "batch_output": [],
        "optimization": {
            "priority": "PRIORITY_DEFAULT", "input_pinned_memory": {"enable": True},
            "output_pinned_memory": {"enable": True}, "gather_kernel_buffer_threshold": 0,
            "eager_batching": False},
        "dynamic_batching": {
            "preferred_batch_size": [8], "max_queue_delay_microseconds": 70,
            "preserve_ordering": False, "priority_levels": 0, "default_priority_level": 0,
            "priority_queue_policy": {}},
        "instance_group": [
            {"name": "batched", "kind": "KIND_CPU", "count": 1, "gpus": [],
             "secondary_devices": [], "profile": [], "passive": False, "host_policy": ""}],
        "default_model_filename": "", "cc_model_filenames": {}, "metric_tags": {},
        "parameters": {"note": {"string_value": 'a "quoted" note'}}, "model_warmup": [],
    }
    assert_json(get(server, "/v2/models/batched/config"), config)
    assert_json(get(server, "/v2/models/batched/versions/10/config"), config)


# ---- models that are not there -------------------------------------------------------------------

OVERFLOW = "99999999999999999999"
OVERFLOW_TEXT = (f"failed to get model version from specified version string '{OVERFLOW}' "
                 "(details: stol), version should be an integral value > 0")


@pytest.mark.parametrize("tail", ["", "/config"])
def test_unknown_model(server, tail):
    assert_error(get(server, f"/v2/models/nobody{tail}"), 404,
                 "Request for unknown model: 'nobody' is not found")
    assert_error(get(server, f"/v2/models/nobody/versions/1{tail}"), 404,
                 "Request for unknown model: 'nobody' is not found")
    assert_error(get(server, f"/v2/models/batched/versions/2{tail}"), 404,
                 "Request for unknown model: 'batched' version 2 is not found")


@pytest.mark.parametrize("tail", ["", "/config"])
def test_model_that_did_not_load(partial, tail):
    assert_error(get(partial, f"/v2/models/refused{tail}"), 404,
                 "Request for unknown model: 'refused' has no available versions")
    assert_error(get(partial, f"/v2/models/refused/versions/4{tail}"), 503,
                 "Request for unknown model: 'refused' version 4 is not at ready state")
    assert_error(get(partial, f"/v2/models/refused/versions/5{tail}"), 404,
                 "Request for unknown model: 'refused' version 5 is not found")
    assert_error(get(partial, f"/v2/models/mistyped{tail}"), 404,
                 "Request for unknown model: 'mistyped' is not found")


def test_infer_of_a_model_that_did_not_load(partial):
    assert_error(post(partial, "/v2/models/refused/infer", {}), 404,
                 "Request for unknown model: 'refused' has no available versions", TEXT)
    assert_error(post(partial, "/v2/models/refused/versions/1/infer", {}), 503,
                 "Request for unknown model: 'refused' version 1 is not at ready state", TEXT)
    assert_error(post(partial, "/v2/models/nobody/infer", {}), 404,
                 "Request for unknown model: 'nobody' is not found", TEXT)


@pytest.mark.parametrize("tail, content_type", [("", JSON), ("/config", JSON), ("/stats", JSON),
                                                ("/ready", TEXT)])
def test_version_that_is_too_large(server, tail, content_type):
    assert_error(get(server, f"/v2/models/simple/versions/{OVERFLOW}{tail}"), 400, OVERFLOW_TEXT,
                 content_type)


# ---- statistics ---------------------------------------------------------------------------------


def no_durations(stats):
    """Without the nanoseconds and the time of the last request, which no test knows."""
    if isinstance(stats, list):
        return [no_durations(one) for one in stats]
    if isinstance(stats, dict):
        return {key: no_durations(value) for key, value in stats.items()
                if key not in ("ns", "last_inference")}
    return stats


def count(n):
    return {"count": n}


def expected_statistics(name, version, n, batches=()):
    zero = ["fail", "cache_hit", "cache_miss"]
    order = ["success", "fail", "queue", "compute_input", "compute_infer", "compute_output",
             "cache_hit", "cache_miss"]
    return {"name": name, "version": version, "inference_count": n, "execution_count": n,
            "inference_stats": {key: count(0 if key in zero else n) for key in order},
            "response_stats": {},
            "batch_stats": [{"batch_size": size, "compute_input": count(times),
                             "compute_infer": count(times), "compute_output": count(times)}
                            for size, times in batches],
            "memory_usage": []}


def test_statistics_of_one_model(server):
    before = get(server, "/v2/models/simple/stats").json()["model_stats"][0]
    started = time.time()
    for value in range(3):
        infer_one(server, value=value)
    reply = get(server, "/v2/models/simple/stats")
    n = before["inference_count"] + 3
    [stats] = reply.json()["model_stats"]
    assert json.dumps(no_durations(stats)) == json.dumps(
        expected_statistics("simple", "1", n, [(1, n)]))
    assert started * 1000 - 1 <= stats["last_inference"] <= time.time() * 1000
    assert 0 < stats["inference_stats"]["success"]["ns"] < 20e9
    assert get(server, "/v2/models/simple/versions/1/stats").text == reply.text


def test_statistics_of_many_rows(server):
    """One request with three rows is one execution of three inferences."""
    raw = {"inputs": [
        {"name": "A", "shape": [3, 1], "datatype": "BYTES", "data": ["a", "b", "c"]},
        {"name": "B", "shape": [3, 2, 1], "datatype": "INT64", "data": [1, 2, 3, 4, 5, 6]}]}
    reply = post(server, "/v2/models/batched/versions/3/infer", raw)
    assert reply.status_code == 200, reply.text
    stats = get(server, "/v2/models/batched/stats").json()["model_stats"]
    assert [one["version"] for one in stats] == ["1", "3", "10"]
    assert no_durations(stats[0]) == expected_statistics("batched", "1", 0)
    assert (stats[1]["inference_count"], stats[1]["execution_count"]) == (3, 1)
    assert stats[1]["inference_stats"]["success"]["count"] == 1
    assert [one["batch_size"] for one in stats[1]["batch_stats"]] == [3]
    assert get(server, "/v2/models/batched/versions/3/stats").json()["model_stats"] == [stats[1]]


def test_statistics_of_all_models(server):
    reply = get(server, "/v2/models/stats")
    assert reply.headers["Content-Type"] == JSON
    assert [(one["name"], one["version"]) for one in reply.json()["model_stats"]] == [
        ("batched", "1"), ("batched", "3"), ("batched", "10"), ("odd.name-1_%41", "1"),
        ("reshaped", "1"), ("simple", "1")]


def test_statistics_only_of_ready_models(partial):
    assert [one["name"] for one in get(partial, "/v2/models/stats").json()["model_stats"]] == [
        "good"]
    assert_error(get(partial, "/v2/models/refused/stats"), 400,
                 "requested model 'refused' is not available")


def test_statistics_of_unknown_models(server):
    assert_error(get(server, "/v2/models/nobody/stats"), 400,
                 "requested model 'nobody' is not available")
    assert_error(get(server, "/v2/models/simple/versions/2/stats"), 400,
                 "requested model version is not available for model 'simple'")


# ---- repository ---------------------------------------------------------------------------------


def ready(name, version="1"):
    return {"name": name, "version": version, "state": "READY"}


ALL_READY = [ready("batched"), ready("batched", "3"), ready("batched", "10"),
             ready("odd.name-1_%41"), ready("reshaped"), ready("simple")]


@pytest.mark.parametrize("body", [None, {}, {"ready": True}, {"ready": False}, {"other": [1]}])
def test_index(server, body):
    assert_json(post(server, "/v2/repository/index", body), ALL_READY)
    assert_json(post(server, "/v2/repository/whatever/index", body), ALL_READY)


@pytest.mark.parametrize("value", [1, "true", None, [], {}])
def test_index_of_no_boolean(server, value):
    assert_error(post(server, "/v2/repository/index", {"ready": value}), 400,
                 "Invalid value for 'ready': expected a boolean")


@pytest.mark.parametrize("body, text", [
    ("{", "failed to parse the request JSON buffer: Missing a name for object member. at 1"),
    ('{"ready":tru}', "failed to parse the request JSON buffer: Invalid value. at 12"),
    ('{"ready":1} x', "failed to parse the request JSON buffer: The document root must not be "
     "followed by other values. at 12"),
    ('{"a":' + "[" * 100 + "]" * 100 + "}",
     "JSON nesting depth exceeds maximum allowed limit (100)"),
])
def test_index_of_bad_json(server, body, text):
    assert_error(post(server, "/v2/repository/index", body), 400, text)


def test_index_of_models_that_failed(partial):
    refused = {"name": "refused", "version": "1", "state": "UNAVAILABLE",
               "reason": 'Invalid argument: no "luck"'}
    assert_json(post(partial, "/v2/repository/index"), [
        {"name": "empty"}, ready("good"), {"name": "mistyped"}, refused,
        {**refused, "version": "4"}])
    assert_json(post(partial, "/v2/repository/index", {"ready": True}), [ready("good")])


@pytest.mark.parametrize("what", ["load", "unload"])
def test_repository_is_not_controlled(server, what):
    assert_error(post(server, f"/v2/repository/models/simple/{what}"), 503,
                 "explicit model load / unload is not allowed if polling is enabled")
    assert_error(post(server, f"/v2/repository/models/nobody/{what}"), 503,
                 "explicit model load / unload is not allowed if polling is enabled")
    assert_error(post(server, f"/v2/repository/some/models/simple/{what}"), 501,
                 "'repository_name' specification is not supported")


@pytest.mark.parametrize("body, text", [
    ({"parameters": {"config": 3}}, "attempt to access JSON non-string as string"),
    ({"parameters": {"other": "x"}}, "unexpected error on creating Triton parameter"),
    ({"parameters": 3}, "attempt to get members for non-object"),
    ("3", "attempt to get members for non-object"),
])
def test_load_parameters(server, body, text):
    assert_error(post(server, "/v2/repository/models/simple/load", body), 400, text)


def test_unload_parameters(server):
    assert_error(post(server, "/v2/repository/models/simple/unload",
                      {"parameters": {"unload_dependents": 3}}), 400,
                 "Unable to parse 'unload_dependents': attempt to access JSON non-boolean as "
                 "boolean")


# ---- logging ------------------------------------------------------------------------------------

LOGGING = {"log_file": "", "log_info": True, "log_warning": True, "log_error": True,
           "log_verbose_level": 0, "log_format": "default"}


def test_logging(server):
    assert_json(get(server, "/v2/logging"), LOGGING)
    changed = {"log_info": False, "log_verbose_level": 2, "log_format": "ISO8601"}
    assert_json(post(server, "/v2/logging", changed), {**LOGGING, **changed})
    assert_json(get(server, "/v2/logging"), {**LOGGING, **changed})
    same = {key: None for key in LOGGING}
    assert_json(post(server, "/v2/logging", {**same, "unknown": 1}), {**LOGGING, **changed})
    assert_json(post(server, "/v2/logging", {k: v for k, v in LOGGING.items() if k != "log_file"}),
                LOGGING)


@pytest.mark.parametrize("body, status, text", [
    ({"log_file": "/tmp/x"}, 501, "log file location can not be updated through network protocol"),
    ({"log_format": "x"}, 503, "invalid argument for --log_format, got: x"),
    ({"log_format": 1}, 400, "attempt to access JSON non-string as string"),
    ({"log_info": 1}, 400, "attempt to access JSON non-boolean as boolean"),
    ({"log_verbose_level": -1}, 400,
     "attempt to access JSON non-unsigned-integer as unsigned-integer"),
    ({"log_verbose_level": "1"}, 400,
     "attempt to access JSON non-unsigned-integer as unsigned-integer"),
    ("", 400, "failed to parse the request JSON buffer: The document is empty. at 0"),
])
def test_logging_refused(server, body, status, text):
    """And nothing of it is applied, whatever stands before the mistake."""
    if isinstance(body, dict):
        body = {"log_error": False, **body}
    assert_error(post(server, "/v2/logging", body), status, text)
    assert_json(get(server, "/v2/logging"), LOGGING)


# ---- what does not exist, or not yet -------------------------------------------------------------


@pytest.mark.parametrize("path", [
    "/", "/v2/", "/v0", "/v3", "/v2/health", "/v2/health/", "/v2/health/alive", "/v2/health/live/",
    "/v2/models", "/v2/models/", "/v2/models//", "/v2/models/simple/", "/v2/models/simple/infer/",
    "/v2/models/simple/versions", "/v2/models/simple/versions/", "/v2/models/simple/versions/abc",
    "/v2/models/simple/versions/-1", "/v2/models/simple/versions/1.0",
    "/v2/models/simple/versions/1/trace/setting", "/v2/models/simple/nonsense", "/v2/repository",
    "/v2/repository/models/simple", "/v2/logging/", "/v2/trace", "/metrics", "/favicon.ico",
    "//v2", "/V2", "/v2/models/simple/CONFIG", "/v2/models/a/b/config", "/%76%32",
    "/v2/systemsharedmemory", "/v2/cudasharedmemory/region/status/x",
])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_unknown_path(server, method, path):
    answer = exchange(server.http_port, request(method, path))
    assert (answer.status, answer.reason) == (404, "Not Found")
    assert answer.body == b'{"error":"Not Found"}'
    assert answer.headers["content-type"] == TEXT


def test_model_named_by_an_escape(server):
    """The path is not decoded, so this names no model."""
    answer = exchange(server.http_port, request("GET", "/v2/models/simpl%65"))
    assert answer.status == 404
    assert json.loads(answer.body) == {
        "error": "Request for unknown model: 'simpl%65' is not found"}
    answer = exchange(server.http_port, request("GET", "/v2/models/odd.name-1_%41"))
    assert answer.status == 200
    assert json.loads(answer.body)["name"] == "odd.name-1_%41"


@pytest.mark.parametrize("path", ["/v2?a=b", "/v2?", "/v2?/health/live", "/v2/models/simple?x=/y"])
def test_query_is_ignored(server, path):
    assert get(server, path).status_code == 200


def test_absolute_target(server):
    answer = exchange(server.http_port, request("GET", f"http://test:{server.http_port}/v2"))
    assert answer.status == 200
    assert json.loads(answer.body)["name"] == "triton"


@pytest.mark.parametrize("method, path, _, content_type", ROUTES, ids=IDS)
@pytest.mark.parametrize("wrong", ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_wrong_method(server, method, path, _, content_type, wrong):
    right = sorted(one for one, other, *_ in ROUTES if other == path)
    if wrong in right:
        return
    answer = exchange(server.http_port, request(wrong, path), is_head=wrong == "HEAD")
    assert (answer.status, answer.reason) == (405, "Not Allowed")
    assert answer.headers["content-type"] == content_type
    assert answer.headers["allow"] == ", ".join(right)
    if wrong != "HEAD":
        assert answer.body == b'{"error":"Method Not Allowed"}'


@pytest.mark.parametrize("method, path, text", [
    *(("POST", f"/v2/{kind}sharedmemory/region/r/{what}",
       "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to "
       "enable.") for kind in ("system", "cuda") for what in ("register", "unregister")),
    ("POST", "/v2/systemsharedmemory/unregister",
     "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to "
     "enable."),
])
def test_not_supported(server, method, path, text):
    assert_error(ask(server, method, path, "{}"), 501, text)


@pytest.mark.parametrize("kind", ["system", "cuda"])
def test_status_of_shared_memory(server, kind):
    assert_json(get(server, f"/v2/{kind}sharedmemory/status"), [])
    assert_error(get(server, f"/v2/{kind}sharedmemory/region/zz/status"), 404,
                 f"Unable to find {kind} shared memory region: 'zz'")


# ---- connections --------------------------------------------------------------------------------


def test_connection_stays(server):
    answer = exchange(server.http_port, request("GET", "/v2") * 3)
    assert answer.status == 200 and "connection" not in answer.headers
    answer = exchange(server.http_port, request("GET", "/v2", b"", "Connection: close"))
    assert answer.headers["connection"] == "close"


def test_http_1_0(server):
    answer = exchange(server.http_port, b"GET /v2/health/live HTTP/1.0\r\n\r\n")
    assert answer.status == 200 and answer.headers["connection"] == "close"
    answer = exchange(server.http_port,
                      b"GET /v2/health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert answer.status == 200 and answer.headers["connection"] == "keep-alive"


@pytest.mark.parametrize("version, sent, reported", [
    ("1.1", "", None), ("1.1", "Connection: close\r\n", "close"),
    ("1.1", "Connection: keep-alive\r\n", None), ("1.0", "", "close"),
    ("1.0", "Connection: keep-alive\r\n", "keep-alive"),
    ("1.0", "Connection: close\r\n", "close"), ("1.1", "Connection: x, Close\r\n", "close"),
])
def test_connection_after_an_answer(server, version, sent, reported):
    """What the answer says of the connection is true; faults and answers alike."""
    for path, body, status in (("infer", '{"inputs":[]}', 400), ("generate", "{", 400),
                               ("ready", "", 405)):
        with Wire(server.http_port) as wire:
            bytes_of_it = (f"POST /v2/models/simple/{path} HTTP/{version}\r\nHost: x\r\n{sent}"
                           f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
            wire.send(bytes_of_it)
            answer = wire.read_answer()
            assert answer.status == status, answer
            assert answer.headers.get("connection") == reported
            if reported == "close":
                assert wire.is_closed()
            else:
                wire.send(bytes_of_it)
                assert wire.read_answer().status == status


@pytest.mark.parametrize("method, path", [
    ("GET", "/v2"), ("GET", "/v2/models/simple"), ("GET", "/v2/models/simple/config"),
    ("GET", "/v2/models/stats"), ("POST", "/v2/repository/index"), ("GET", "/v2/logging"),
    ("POST", "/v2/models/simple/infer"), ("GET", "/v2/models/nobody"),
])
def test_only_inferences_are_compressed(server, method, path):
    """And of these the answers, not the faults."""
    for accept in ("gzip", "deflate;q=1, identity;q=0"):
        reply = requests.request(method, server.url + path, timeout=20,
                                 data="{}" if method == "POST" else None,
                                 headers={"Accept-Encoding": accept})
        assert "Content-Encoding" not in reply.headers
        assert reply.json() is not None


def test_body_of_a_get_is_ignored(server):
    assert_empty(ask(server, "GET", "/v2/health/live", "{nonsense"))


# ---- restricted APIs ----------------------------------------------------------------------------


def key_of(category):
    if category in ("health", "metadata"):
        return "X-Common", "first secret"
    return f"x-{category}", f"secret of {category}"


@pytest.mark.parametrize("method, path, category, content_type", ROUTES, ids=IDS)
def test_restricted(restricted, server, method, path, category, content_type):
    name, value = key_of(category)
    refusal = f"This API is restricted, expecting header '{name}'"
    other = key_of("logging" if category != "logging" else "trace")
    for headers in ({}, {name: value + "x"}, {name: value[:-1]}, {name: ""},
                    {name: value.upper()}, {other[0]: value}, {other[0]: other[1]}):
        assert_error(ask(restricted, method, path, headers=headers), 403, refusal, content_type)
    # Whoever may not, learns nothing about methods either.
    assert_error(ask(restricted, "DELETE", path), 403, refusal, content_type)

    # With it, everything is as if nothing were restricted. Names have no case.
    for right in (name, name.upper()):
        allowed = ask(restricted, method, path, headers={right: value})
        free = ask(server, method, path)
        assert allowed.status_code == free.status_code
        if category not in ("statistics", "model-repository"):
            assert allowed.content == free.content
    assert ask(restricted, "DELETE", path, headers={name: value}).status_code == 405


def test_restricted_api_that_does_not_exist(restricted):
    assert get(restricted, "/v2/nonsense").status_code == 404
