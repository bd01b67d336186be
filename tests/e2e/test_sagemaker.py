# SPDX-License-Identifier: BSD-3-Clause
"""The front of SageMaker: every path, status and text of its contract, one model and many."""
import concurrent.futures
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess

import pytest
import requests

from conftest import BUILD, ROOT, Server, patience, write_repository
from gate import Gate, gated
from models import index, is_server_ready, model_text, wait_until
from wire import exchange, request

BACKENDS = ("testing", "identity")
SECONDS = patience(20)
SERVE = ROOT / "deploy" / "sagemaker" / "serve"
BINARY = "application/vnd.sagemaker-triton.binary+json"
METHOD = {"error": "Method Not Allowed"}
MANY = ("--model-control-mode=explicit", "--model-namespacing=true")

ECHO = ('backend: "identity"\n'
        'input { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }\n'
        'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] }\n')
ENSEMBLE = ('platform: "ensemble"\n'
            'input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }\n'
            'output { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] }\n'
            'ensemble_scheduling { step { model_name: "inner" model_version: -1\n'
            '  input_map { key: "INPUT0" value: "IN" } output_map { key: "OUTPUT0" value: "OUT" } } }\n')


def start(folder, variables=(), options=(), models=None, waits_for=("sagemaker",)):
    """A server with the front of SageMaker, whose repository is `folder`."""
    folder.mkdir(exist_ok=True)
    write_repository(folder, models or {})
    return Server(folder, ("--allow-sagemaker=true", "--sagemaker-port=0", *options), waits_for,
                  ("env", *variables))


def url(server, path=""):
    return f"http://127.0.0.1:{server.port('sagemaker')}{path}"


def ask(server, method, path, **more):
    return requests.request(method, url(server, path), timeout=SECONDS, **more)


def reported(reply):
    """Status and JSON, or text."""
    is_json = reply.headers["Content-Type"] == "application/json"
    return reply.status_code, reply.json() if is_json and reply.text else reply.text


def body(values=(1, 2), name="INPUT0", binary=False):
    data = {"name": name, "shape": [len(values)], "datatype": "INT32"}
    if not binary:
        data["data"] = list(values)
        return json.dumps({"inputs": [data]}).encode()
    data["parameters"] = {"binary_data_size": 4 * len(values)}
    return json.dumps({"inputs": [data], "parameters": {"binary_data_output": True}}).encode()


def raw(values):
    return struct.pack(f"<{len(values)}i", *values)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    running = start(tmp_path_factory.mktemp("single"), ["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=echo"],
                    models={"echo": ECHO, "other": ECHO})
    yield running
    assert running.stop() == 0


# ---- one model ----------------------------------------------------------------------------------


def test_ping(single):
    assert reported(ask(single, "GET", "/ping")) == (200, "")
    assert reported(ask(single, "GET", "/ping?x=1")) == (200, "")
    refused = ask(single, "POST", "/ping")
    assert (refused.status_code, refused.json(), refused.headers["Allow"]) == (405, METHOD, "GET")


@pytest.mark.parametrize("path", [
    "/", "/pings", "/ping/", "/invocations/x", "/models/", "/models/a/b", "/models/a/invoke/x", "/v2",
    "/v2/health/live", "/v2/models/echo/infer", "/v2/repository/index", "/metrics", "/dashboard"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
def test_other_paths(single, method, path):
    reply = ask(single, method, path, data=b"x" * 100)
    assert (reply.status_code, reply.content) == (400, b"")


def test_invocations_with_json(single):
    reply = ask(single, "POST", "/invocations", data=body())
    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == "application/json"
    answer = reply.json()
    assert (answer["model_name"], answer["model_version"]) == ("echo", "1")
    assert answer["outputs"][0]["data"] == [1, 2]
    refused = ask(single, "GET", "/invocations")
    assert (refused.status_code, refused.json(), refused.headers["Allow"]) == (405, METHOD, "POST")


@pytest.mark.parametrize("form", [
    "{0};json-header-size={1}", "{0}; json-header-size={1}", "{0} ;JSON-Header-Size={1}",
    "Application/VND.sagemaker-triton.binary+JSON;json-header-size={1}",
    '{0};charset=utf-8;json-header-size="{1}"', "{0};json-header-size=000{1}"])
def test_invocations_with_binary_tensors(single, form):
    head = body([7, -8], binary=True)
    reply = ask(single, "POST", "/invocations", data=head + raw([7, -8]),
                headers={"Content-Type": form.format(BINARY, len(head))})
    assert reply.status_code == 200, reply.text
    kind, _, size = reply.headers["Content-Type"].partition(";json-header-size=")
    assert kind == BINARY
    assert "Inference-Header-Content-Length" not in reply.headers
    answer = json.loads(reply.content[:int(size)])
    assert answer["outputs"][0]["parameters"] == {"binary_data_size": 8}
    assert reply.content[int(size):] == raw([7, -8])


def test_invocations_with_compression(single):
    head = body([5], binary=True)
    reply = ask(single, "POST", "/invocations", data=gzip.compress(head + raw([5])),
                headers={"Content-Type": f"{BINARY};json-header-size={len(head)}",
                         "Content-Encoding": "gzip"})
    assert reply.status_code == 200, reply.text
    assert reply.content.endswith(raw([5]))


def test_a_raw_request(single):
    reply = ask(single, "POST", "/invocations", data=raw([3, 4]),
                headers={"Content-Type": f"{BINARY};json-header-size=0"})
    assert reply.status_code == 200, reply.text
    assert reply.content.endswith(raw([3, 4]))


def test_large_binary_tensors(single):
    """More than the limit of JSON, which is checked before the body is read."""
    values = raw(range(1 << 20))
    head = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1 << 20], "datatype": "INT32",
                                   "parameters": {"binary_data_size": len(values)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    reply = ask(single, "POST", "/invocations", data=head + values,
                headers={"Content-Type": f"{BINARY};json-header-size={len(head)}"})
    assert reply.status_code == 200, reply.text[:500]
    assert reply.content.endswith(values)


@pytest.mark.parametrize("size", [
    "-1", "+1", "1.5", "0x10", "", " ", "1e3", "abc", "99999", "18446744073709551616", "9" * 400,
    "10 10", "1\t2", "²", '"10', "--"])
def test_hostile_json_header_sizes(single, size):
    text = body()
    answer = exchange(single.port("sagemaker"), request(
        "POST", "/invocations", text, f"Content-Type: {BINARY};json-header-size={size}"))
    assert answer.status == 400, answer
    assert answer.body.decode("latin-1").startswith(
        f'{{"error":"inference header size should be in range (0, {len(text)}), got: ')
    assert reported(ask(single, "GET", "/ping")) == (200, "")


@pytest.mark.parametrize("fields", [
    [f"{BINARY};json-header-size=5;json-header-size=6"],
    [f"{BINARY};json-header-size=5", f"{BINARY};json-header-size=6"],
    [f"{BINARY};json-header-size=5", "application/json"]])
def test_two_lengths(single, fields):
    """Two readers might take different ones."""
    answer = exchange(single.port("sagemaker"), request(
        "POST", "/invocations", body(), *(f"Content-Type: {value}" for value in fields)))
    assert answer.status == 400, answer


@pytest.mark.parametrize("kind", [
    "application/json", BINARY, f"{BINARY};other=5", "application/octet-stream;json-header-size=5",
    f"x{BINARY};json-header-size=5", "application/vnd.vertex-ai-triton.binary+json;json-header-size=5"])
def test_other_content_types_are_json(single, kind):
    reply = ask(single, "POST", "/invocations", data=body([9]), headers={"Content-Type": kind})
    assert reply.status_code == 200, reply.text
    assert reply.json()["outputs"][0]["data"] == [9]


def test_the_header_of_the_usual_front_says_nothing_here(single):
    reply = ask(single, "POST", "/invocations", data=body([9]),
                headers={"Inference-Header-Content-Length": "5"})
    assert reply.status_code == 200, reply.text


def test_the_usual_front_ignores_the_content_type(single):
    reply = requests.post(f"{single.url}/v2/models/echo/infer", data=body([9]), timeout=SECONDS,
                          headers={"Content-Type": f"{BINARY};json-header-size=5"})
    assert reply.status_code == 200, reply.text


def test_modes_of_ping(tmp_path):
    """`live` does not depend on models, `ready` does."""
    broken = {"broken": ECHO.replace("identity", "missing")}
    for mode, status in (("", 400), ("ready", 400), ("live", 200)):
        running = start(tmp_path / f"models{mode}", [f"SAGEMAKER_TRITON_PING_MODE={mode}"],
                        ["--exit-on-error=false"], broken)
        assert reported(ask(running, "GET", "/ping")) == (status, "")
        assert running.stop() == 0


@pytest.mark.parametrize("kind", ["generate", "generate_stream"])
def test_inference_types(tmp_path, kind):
    running = start(tmp_path / "models", ["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=echo",
                                          f"SAGEMAKER_TRITON_INFERENCE_TYPE={kind}"],
                    models={"echo": ECHO})
    reply = ask(running, "POST", "/invocations", json={"INPUT0": [4]})
    assert reply.status_code == 200
    text = reply.text if kind == "generate" else reply.text.removeprefix("data: ").rstrip()
    assert reply.headers["Content-Type"] == ("application/json" if kind == "generate"
                                             else "text/event-stream; charset=utf-8")
    assert json.loads(text) == {"model_name": "echo", "model_version": "1", "OUTPUT0": 4}
    assert running.stop() == 0


def test_without_a_default_model(tmp_path):
    running = start(tmp_path / "models")
    assert reported(ask(running, "POST", "/invocations", data=body())) == (400, {
        "error": "no default model: the variable SAGEMAKER_TRITON_DEFAULT_MODEL_NAME is not set"})
    assert running.stop() == 0


def ends(variables, *options):
    """What a server that cannot start prints."""
    ended = subprocess.run([str(BUILD / "neso"), "serve", "--model-repository=/nonexistent",
                            "--allow-sagemaker=true", *options], capture_output=True, text=True,
                           env={**os.environ, **variables}, timeout=SECONDS, check=False)
    assert ended.returncode == 1
    return ended.stderr


@pytest.mark.parametrize("variables, options, text", [
    ({}, ["--sagemaker-port=8090", "--sagemaker-safe-port-range=8000-8010"],
     "The server cannot listen to SageMaker requests at port 8090, allowed port range is [8000, 8010]"),
    ({}, ["--sagemaker-safe-port-range=8010"],
     'Bad option: "--sagemaker-safe-port-range".\nexpects <integer>-<integer>, got: 8010'),
    ({}, ["--sagemaker-safe-port-range=9-8"],
     'Bad option: "--sagemaker-safe-port-range".\nexpects <integer>-<integer>, got: 9-8'),
    ({}, ["--http-port=8080"],
     "The server cannot listen to HTTP requests and SageMaker requests at the same address and port "
     "0.0.0.0:8080"),
    ({"SAGEMAKER_TRITON_PING_MODE": "dead"}, [],
     "SAGEMAKER_TRITON_PING_MODE must be one of: ready, live; got: 'dead'"),
    ({"SAGEMAKER_TRITON_INFERENCE_TYPE": "stream"}, [],
     "SAGEMAKER_TRITON_INFERENCE_TYPE must be one of: infer, generate, generate_stream; got: 'stream'"),
])
def test_wrong_settings_end_the_start(variables, options, text):
    assert text in ends(variables, *options)


def test_the_range_permits_its_ends(tmp_path):
    running = start(tmp_path / "models", options=["--sagemaker-safe-port-range=0-8080"])
    assert running.stop() == 0


# ---- many models --------------------------------------------------------------------------------


class Platform:
    """What SageMaker does: it unpacks a model to a folder of its own and says to load it."""

    def __init__(self, server, folder):
        self.server = server
        self.folder = pathlib.Path(folder)

    def unpack(self, name, files):
        """Files below <folder>/<name>/model; its path, which is the url of a load."""
        place = self.folder / name / "model"
        for path, content in files.items():
            target = place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(place)

    def load(self, name, place, **headers):
        return ask(self.server, "POST", "/models", json={"model_name": name, "url": place},
                   headers=headers)

    def unload(self, name):
        return ask(self.server, "DELETE", f"/models/{name}")

    def list(self):
        reply = ask(self.server, "GET", "/models")
        assert reply.status_code == 200
        return {m["modelName"]: m["modelUrl"] for m in reply.json()["models"]}

    def invoke(self, name, text=None, **headers):
        return ask(self.server, "POST", f"/models/{name}/invoke", data=text or body(), headers=headers)


def bare(config=ECHO):
    return {"config.pbtxt": config, "1/empty": ""}


def nested(**configs):
    return {path: content for name, config in configs.items()
            for path, content in ((f"{name}/config.pbtxt", config), (f"{name}/1/empty", ""))}


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    running = start(folder / "none", ["SAGEMAKER_TRITON_PING_MODE=live"], MANY)
    yield Platform(running, folder)
    assert running.stop() == 0


def test_the_life_of_a_model(platform):
    """Loaded, listed, invoked, unloaded, and loaded again under the same name from the same folder."""
    place = platform.unpack("life", bare())
    for _ in range(2):
        assert reported(platform.invoke("life")) == (404, "")
        assert reported(ask(platform.server, "GET", "/models/life")) == (404, "")
        assert reported(platform.load("life", place)) == (200, "")
        assert platform.list() == {"life": place}
        assert reported(ask(platform.server, "GET", "/models/life")) == (
            200, {"modelName": "life", "modelUrl": place})
        answer = platform.invoke("life")
        assert answer.status_code == 200
        assert answer.json()["model_name"] == "life"
        assert reported(platform.unload("life")) == (200, "")
        assert platform.list() == {}
        assert reported(platform.unload("life")) == (404, "")
        assert index(platform.server) == []


def test_binary_tensors_of_one_of_many(platform):
    assert reported(platform.load("binary", platform.unpack("binary", bare()))) == (200, "")
    head = body([6], binary=True)
    reply = platform.invoke("binary", head + raw([6]),
                            **{"Content-Type": f"{BINARY};json-header-size={len(head)}"})
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"].startswith(f"{BINARY};json-header-size=")
    assert reply.content.endswith(raw([6]))
    assert reported(platform.unload("binary")) == (200, "")


@pytest.mark.parametrize("files, outputs", [
    (nested(any_name=ECHO), ["OUTPUT0"]),
    (nested(inner=ECHO, whole=ENSEMBLE), ["OUT"]),
    (nested(inner=ECHO, a_whole=ENSEMBLE.replace('platform: "ensemble"', 'platform : \'ensemble\'')),
     ["OUT"]),
    (nested(inner=ECHO + '# platform: "ensemble"\n', whole=ENSEMBLE), ["OUT"]),
])
def test_folders(platform, files, outputs):
    """A model in a sub-folder; the ensemble among several."""
    assert reported(platform.load("folders", platform.unpack("folders", files))) == (200, "")
    reply = platform.invoke("folders", body(name="IN" if outputs == ["OUT"] else "INPUT0"))
    assert reply.status_code == 200, reply.text
    assert [o["name"] for o in reply.json()["outputs"]] == outputs
    assert reported(platform.unload("folders")) == (200, "")
    shutil.rmtree(platform.folder / "folders")


def test_two_ensembles_with_inner_models_of_one_name(platform):
    """Each is a namespace of its own."""
    for name, add in (("first", "0"), ("second", "5")):
        inner = ECHO.replace("identity", "testing") + (
            f'parameters {{ key: "add" value {{ string_value: "{add}" }} }}\n')
        place = platform.unpack(name, nested(inner=inner, whole=ENSEMBLE))
        assert reported(platform.load(name, place)) == (200, "")
    for name, values in (("first", [1, 2]), ("second", [6, 7])):
        reply = platform.invoke(name, body(name="IN"))
        assert reply.status_code == 200, reply.text
        assert reply.json()["outputs"][0]["data"] == values
        assert reported(platform.unload(name)) == (200, "")


def test_names_in_use(platform):
    place = platform.unpack("used", bare())
    assert reported(platform.load("used", place)) == (200, "")
    other = platform.unpack("used-too", bare())
    assert reported(platform.load("used", other)) == (409, {"error": "the model 'used' is loaded already"})
    assert reported(platform.load("again", place)) == (
        409, {"error": f"model repository '{place}' has already been registered"})
    assert platform.list() == {"used": place}
    assert reported(platform.unload("used")) == (200, "")


@pytest.mark.parametrize("options", [(), ("--model-namespacing=true",)])
def test_a_model_of_the_operator_keeps_its_name(tmp_path, options):
    """Neither a load of that name nor one that fails replaces or unloads it."""
    server = start(tmp_path / "models", ["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=echo"],
                   ("--model-control-mode=explicit", "--load-model=echo", *options), {"echo": ECHO})
    platform = Platform(server, tmp_path)
    for place in (platform.unpack("good", bare()), platform.unpack("bad", bare("nonsense"))):
        assert reported(platform.load("echo", place)) == (
            409, {"error": "the model 'echo' is loaded already"})
        assert ask(server, "POST", "/invocations", data=body()).status_code == 200
        assert platform.list() == {}
    assert server.stop() == 0


def test_loads_that_fail(platform):
    bad = platform.unpack("bad", bare(ECHO.replace("identity", "missing")))
    for _ in range(2):  # nothing is left behind
        status, answer = reported(platform.load("bad", bad))
        assert status == 400
        assert answer["error"].startswith(
            f"load failed for model '{bad}::bad': version 1 is at UNAVAILABLE state: Invalid argument: ")
        assert platform.list() == {}
    assert reported(ask(platform.server, "GET", "/models/bad")) == (404, "")
    assert index(platform.server) == []
    assert is_server_ready(platform.server)


@pytest.mark.parametrize("text", [
    "CUDA out of memory. Tried to allocate 2.00 GiB", "Out of memory", "std::bad_alloc",
    "onnx runtime error 6: Failed to allocate memory for requested buffer of size 8"])
def test_loads_without_memory(platform, text):
    """507 makes the platform unload another model."""
    config = model_text(parameters={"fail_load": text})
    status, answer = reported(platform.load("large", platform.unpack("large", bare(config))))
    assert status == 507
    assert text in answer["error"]
    assert platform.list() == {}


def test_inference_without_memory(platform):
    assert reported(platform.load("tight", platform.unpack("tight", bare(model_text())))) == (200, "")

    def fail(text, code="Internal"):
        return reported(platform.invoke("tight", json.dumps({
            "parameters": {"fail": text, "fail_code": code},
            "inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]})))

    assert fail("CUDA out of memory") == (507, {"error": "CUDA out of memory"})
    assert fail("out of paper") == (500, {"error": "out of paper"})
    assert fail("out of order", "Invalid argument") == (400, {"error": "out of order"})
    quoted = platform.invoke("tight", body(name="out of memory"))
    assert quoted.status_code == 400 and "'out of memory'" in quoted.json()["error"]
    assert reported(platform.unload("tight")) == (200, "")


@pytest.mark.parametrize("text, error", [
    ("", None), ("{", None), ("[]", "attempt to get members for non-object"),
    ("{}", "the request has no model_name"),
    ('{"model_name":"a"}', "the request has no url"),
    ('{"url":"/tmp"}', "the request has no model_name"),
    ('{"model_name":1,"url":"/tmp"}', "attempt to access JSON non-string as string"),
    ('{"model_name":"a","url":[]}', "attempt to access JSON non-string as string"),
    ('{"model_name":"","url":"/tmp"}', "the model_name '' is empty, begins with a dot, or contains a slash "
     "or a NUL character"),
    ('{"model_name":"../a","url":"/tmp"}', "the model_name '../a' is empty, begins with a dot, or contains "
     "a slash or a NUL character"),
    ('{"model_name":"a\\u0000b","url":"/tmp"}', None),
    ('{"model_name":"' + 1025 * "m" + '","url":"/tmp"}',
     "the model_name has 1025 bytes, at most 1024 are allowed"),
    ('{"model_name":"a","url":"/' + 4096 * "u" + '"}', "the url has 4097 bytes, at most 4096 are allowed"),
    ('{"model_name":"a","url":""}', "the url is empty or contains a NUL character"),
    ('{"model_name":"a","url":"/a\\u0000b"}', "the url is empty or contains a NUL character"),
    ('{"model_name":"a","url":"tmp"}', "the url 'tmp' is not an absolute path"),
    ('{"model_name":"a","url":"/nonexistent"}', "the url '/nonexistent' is not the path of a folder"),
    ('{"model_name":"a","url":"/etc/passwd"}', "the url '/etc/passwd' is not the path of a folder"),
    ('{"model_name":"a","url":"/proc/self"}',
     "the url '/proc/self' must not lead below /dev, /proc or /sys"),
    ('{"model_name":"a","url":"/dev"}', "the url '/dev' must not lead below /dev, /proc or /sys"),
    ('{"model_name":"a","url":"/tmp/../proc"}',
     "the url '/tmp/../proc' must not lead below /dev, /proc or /sys"),
])
def test_wrong_loads(platform, text, error):
    status, answer = reported(ask(platform.server, "POST", "/models", data=text.encode()))
    assert status == 400
    if error is not None:
        assert answer["error"] == error
    assert platform.list() == {}


def test_folders_without_a_choice(platform):
    several = platform.unpack("several", nested(a=ECHO, b=ECHO))
    assert reported(platform.load("several", several)) == (400, {
        "error": f"the folder '{several}' holds 2 models, of which 0 are ensembles: exactly one must be, "
                 "which is served"})
    two = platform.unpack("two", nested(inner=ECHO, a=ENSEMBLE, b=ENSEMBLE))
    assert reported(platform.load("two", two))[0] == 400
    empty = platform.folder / "empty"
    empty.mkdir()
    assert reported(platform.load("empty", str(empty)))[0] == 400
    assert platform.list() == {}


def test_other_methods_of_models(platform):
    for method, path, allow in (("PUT", "/models", "GET, POST"), ("DELETE", "/models", "GET, POST"),
                                ("POST", "/models/x", "GET, DELETE"),
                                ("GET", "/models/x/invoke", "POST")):
        reply = ask(platform.server, method, path)
        assert (reply.status_code, reply.json(), reply.headers["Allow"]) == (405, METHOD, allow)


def test_the_target_model_is_logged(platform):
    place = platform.unpack("logged", bare())
    header = {"X-Amzn-SageMaker-Target-Model": "my-model.tar.gz"}
    assert reported(platform.load("logged", place, **header)) == (200, "")
    platform.server.wait_for_line("Loading SageMaker TargetModel: my-model.tar.gz, model 'logged'")
    assert platform.invoke("logged", **header).status_code == 200
    platform.server.wait_for_line("Invoking SageMaker TargetModel: my-model.tar.gz, model 'logged'")
    assert reported(platform.unload("logged")) == (200, "")


def test_loads_and_unloads_at_once(platform):
    """Each name has one state at a time; in the end nothing is left."""
    places = {f"m{i}": platform.unpack(f"m{i}", bare()) for i in range(4)}

    def work(number):
        name = f"m{number % 4}"
        seen = [platform.load(name, places[name]).status_code, platform.invoke(name).status_code,
                platform.unload(name).status_code]
        return seen

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(40)))
    for load, invoke, unload in results:
        assert load in (200, 409), results
        assert invoke in (200, 404), results
        assert unload in (200, 404), results
    assert sum(r[0] == 200 for r in results) == sum(r[2] == 200 for r in results)
    assert platform.list() == {}


def load_gated(platform):
    """Loads the model "slow", which waits at its gate."""
    place = platform.unpack("slow", bare())
    for name, content in gated(ECHO.replace("identity", "testing")).items():
        target = pathlib.Path(place) / name
        if isinstance(content, str):
            target.write_text(content)
        else:
            os.mkfifo(target)
    assert reported(platform.load("slow", place)) == (200, "")
    platform.server.repository = pathlib.Path(place).parent
    return place


def test_an_unload_waits_for_the_last_request(platform):
    """The platform counts on the memory of the model."""
    place = load_gated(platform)
    with Gate(platform.server, "model") as gate, concurrent.futures.ThreadPoolExecutor(2) as pool:
        inference = pool.submit(platform.invoke, "slow")
        gate.wait()
        unload = pool.submit(platform.unload, "slow")
        wait_until(lambda: reported(ask(platform.server, "GET", "/models/slow")) == (404, ""))
        assert reported(platform.invoke("slow")) == (404, "")
        assert reported(platform.load("slow", place)) == (409, {"error": "the model 'slow' is loaded already"})
        assert not unload.done()
        gate.open()
        assert inference.result(SECONDS).status_code == 200
        assert reported(unload.result(SECONDS)) == (200, "")


def test_a_stop_during_an_unload(tmp_path):
    """Both requests are answered."""
    platform = Platform(start(tmp_path / "none", (), MANY), tmp_path)
    load_gated(platform)
    with Gate(platform.server, "model") as gate, concurrent.futures.ThreadPoolExecutor(3) as pool:
        inference = pool.submit(platform.invoke, "slow")
        gate.wait()
        unload = pool.submit(platform.unload, "slow")
        wait_until(lambda: reported(ask(platform.server, "GET", "/models/slow")) == (404, ""))
        stopped = pool.submit(platform.server.stop)
        platform.server.wait_for_line("Waiting for in-flight requests to complete")
        gate.open()
        assert inference.result(SECONDS).status_code == 200
        assert reported(unload.result(SECONDS)) == (200, "")
        assert stopped.result(SECONDS) == 0


def test_models_need_explicit_mode(single, tmp_path):
    place = Platform(single, tmp_path).unpack("a", bare())
    status, answer = reported(Platform(single, tmp_path).load("a", place))
    assert status == 400
    assert "explicit" in answer["error"].lower()


# ---- access, drain, log -------------------------------------------------------------------------


def test_keys_hold_here_too(tmp_path):
    def line(key, groups, models=""):
        return f"{key} {hashlib.sha256(key.encode()).hexdigest()} {groups} {models}\n"

    keys = tmp_path / "keys"
    keys.write_text(line("infer-echo", "inference", "echo") + line("infer-other", "inference", "other")
                    + line("repository", "model-repository") + "anonymous - health\n")
    keys.chmod(0o600)
    running = start(tmp_path / "models", ["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=echo"],
                    [f"--api-key-file={keys}"], {"echo": ECHO, "other": ECHO})

    def status(method, path, key=None):
        return ask(running, method, path, data=body(),
                   headers={"X-Api-Key": key} if key else {}).status_code

    assert status("GET", "/ping") == 200
    assert status("POST", "/invocations") == 401
    assert status("POST", "/invocations", "infer-echo") == 200
    assert status("POST", "/invocations", "infer-other") == 403
    assert status("GET", "/models", "infer-echo") == 403
    assert status("GET", "/models", "repository") == 200
    assert status("GET", "/unknown") == 400
    assert running.stop() == 0


def test_restricted_groups_hold_here_too(tmp_path):
    running = start(tmp_path / "models", ["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=echo"],
                    ["--http-restricted-api=inference:x-key=secret"], {"echo": ECHO})
    assert ask(running, "POST", "/invocations", data=body()).status_code == 403
    assert ask(running, "POST", "/invocations", data=body(),
               headers={"x-key": "secret"}).status_code == 200
    assert running.stop() == 0


def test_requests_are_in_the_log(tmp_path):
    running = start(tmp_path / "models", ["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=echo"],
                    ["--log-format=json"], {"echo": ECHO})
    assert ask(running, "POST", "/invocations", data=body()).status_code == 200
    line = running.wait_for_line(r'\{.*"path":"/invocations".*\}')
    assert '"model":"echo"' in line.group(0) and '"status":200' in line.group(0)
    assert running.stop() == 0


def test_the_port_file_names_the_port(tmp_path):
    running = start(tmp_path / "models", options=[f"--port-file={tmp_path / 'ports'}"])
    wait_until((tmp_path / "ports").exists)
    assert f"sagemaker={running.port('sagemaker')}\n" in (tmp_path / "ports").read_text()
    assert running.stop() == 0


# ---- the start script ---------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path):
    """Runs deploy/sagemaker/serve with a program that prints its arguments and the variables."""
    fake = tmp_path / "fake"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n'
                    'echo "ping=$SAGEMAKER_TRITON_PING_MODE"\n'
                    'echo "model=${SAGEMAKER_TRITON_DEFAULT_MODEL_NAME:-}"\n')
    fake.chmod(0o755)
    (tmp_path / "model").mkdir()

    def run(**variables):
        return subprocess.run([str(SERVE)], capture_output=True, text=True, timeout=SECONDS, check=False,
                              env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "NESO": str(fake),
                                   "NESO_SAGEMAKER_MODEL": str(tmp_path / "model"), **variables})
    run.folder = tmp_path / "model"
    run.temporary = tmp_path
    return run


ALWAYS = ["--allow-sagemaker=true", "--allow-http=false", "--model-control-mode=explicit"]


def test_script_with_one_model(script):
    (script.folder / "resnet").mkdir()
    ended = script()
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "serve", f"--model-repository={script.folder}", "--load-model=resnet", *ALWAYS,
        "--model-namespacing=true", "--allow-grpc=false", "--allow-metrics=false", "ping=ready",
        "model=resnet"]


def test_script_with_many_models(script):
    ended = script(SAGEMAKER_MULTI_MODEL="true")
    assert ended.returncode == 0, ended.stderr
    repository = script.temporary / "neso-sagemaker"
    assert ended.stdout.splitlines() == [
        "serve", f"--model-repository={repository}", *ALWAYS, "--model-namespacing=true",
        "--allow-grpc=false", "--allow-metrics=false", "ping=live", "model="]
    assert list(repository.iterdir()) == []


def test_script_with_every_variable(script):
    for name in ("a", "b"):
        (script.folder / name).mkdir()
    ended = script(
        SAGEMAKER_MULTI_MODEL="false", SAGEMAKER_TRITON_DEFAULT_MODEL_NAME="b",
        SAGEMAKER_BIND_TO_PORT="8081", SAGEMAKER_SAFE_PORT_RANGE="8000-9000",
        SAGEMAKER_TRITON_OVERRIDE_PING_MODE="live", SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING="true",
        SAGEMAKER_TRITON_ALLOW_GRPC="true", SAGEMAKER_TRITON_GRPC_PORT="1",
        SAGEMAKER_TRITON_ALLOW_METRICS="true", SAGEMAKER_TRITON_METRICS_PORT="2",
        SAGEMAKER_TRITON_THREAD_COUNT="3", SAGEMAKER_TRITON_LOG_VERBOSE="4", SAGEMAKER_TRITON_LOG_INFO="false",
        SAGEMAKER_TRITON_LOG_WARNING="false", SAGEMAKER_TRITON_LOG_ERROR="true",
        SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE="5", SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE="6",
        SAGEMAKER_TRITON_ADDITIONAL_ARGS="--exit-on-error=false --load-model=*")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "serve", f"--model-repository={script.folder}", "--load-model=b", *ALWAYS,
        "--model-namespacing=false", "--allow-grpc=true", "--allow-metrics=true", "--sagemaker-port=8081",
        "--sagemaker-safe-port-range=8000-9000", "--sagemaker-thread-count=3", "--grpc-port=1",
        "--metrics-port=2", "--log-verbose=4", "--log-info=false", "--log-warning=false", "--log-error=true",
        "--backend-config=python,shm-default-byte-size=5",
        "--backend-config=python,shm-growth-byte-size=6", "--exit-on-error=false", "--load-model=*",
        "ping=live", "model=b"]


@pytest.mark.parametrize("folders, files, variables, text", [
    ([], [], {}, "there is no folder in"),
    (["a", "b"], [], {}, "name the model to serve in SAGEMAKER_TRITON_DEFAULT_MODEL_NAME; there are: a b"),
    (["a"], [], {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "c"}, "has no folder 'c'"),
    (["1"], ["config.pbtxt"], {}, "config.pbtxt is directly in"),
])
def test_script_refuses(script, folders, files, variables, text):
    for name in folders:
        (script.folder / name).mkdir()
    for name in files:
        (script.folder / name).write_text("")
    ended = script(**variables)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert text in ended.stderr


def test_the_server_takes_the_arguments_of_the_script(script):
    """An unknown option would be another error than that of the missing backend."""
    (script.folder / "m").mkdir()
    options = script().stdout.splitlines()[1:-2]
    ended = subprocess.run([str(BUILD / "neso"), "serve", *options, "--model-repository=/nonexistent"],
                           capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 1 and "/nonexistent" in ended.stdout + ended.stderr


def test_the_script_serves(tmp_path):
    """The real program, as a container runs it."""
    model = tmp_path / "model"
    write_repository(model, {"echo": ECHO})
    arguments = f"--backend-directory={BUILD / 'backends'} --http-address=127.0.0.1"
    running = Server(model, waits_for=("sagemaker",), command=[str(SERVE)], under=(
        "env", f"NESO={BUILD / 'neso'}", f"NESO_SAGEMAKER_MODEL={model}", "SAGEMAKER_BIND_TO_PORT=0",
        f"SAGEMAKER_TRITON_ADDITIONAL_ARGS={arguments}"))
    assert reported(ask(running, "GET", "/ping")) == (200, "")
    assert ask(running, "POST", "/invocations", data=body()).json()["outputs"][0]["data"] == [1, 2]
    assert running.stop() == 0
    assert set(running.ports) == {"sagemaker"}
