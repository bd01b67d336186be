# SPDX-License-Identifier: BSD-3-Clause
"""The front of Vertex AI: its two routes, the redirection to other endpoints, and its variables."""
import hashlib
import json
import os
import struct
import subprocess

import pytest
import requests

from conftest import BUILD, Server, patience, write_repository
from scrape import parse

BACKENDS = ("identity",)
SECONDS = patience(20)
BINARY = "application/vnd.vertex-ai-triton.binary+json"
REDIRECT = "X-Vertex-Ai-Triton-Redirect"
PREDICT, HEALTH = "/v1/endpoints/7/deployedModels/8:predict", "/v1/endpoints/7/deployedModels/8"
ROUTES = [f"AIP_PREDICT_ROUTE={PREDICT}", f"AIP_HEALTH_ROUTE={HEALTH}"]
ECHO = ('backend: "identity"\n'
        'input { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }\n'
        'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] }\n')


def start(folder, options=(), variables=(), names=("echo",), waits_for=("vertex-ai",)):
    folder.mkdir(exist_ok=True)
    write_repository(folder, {name: ECHO for name in names})
    return Server(folder, ("--allow-vertex-ai=true", "--vertex-ai-port=0", *options), waits_for,
                  ("env", *ROUTES, *variables))


def ask(server, method, path, **more):
    return requests.request(method, f"http://127.0.0.1:{server.port('vertex-ai')}{path}", timeout=SECONDS,
                            **more)


def redirect(server, to, method="POST", **more):
    return ask(server, method, PREDICT, headers={REDIRECT: to}, **more)


def body(values=(1, 2), binary=False):
    data = {"name": "INPUT0", "shape": [len(values)], "datatype": "INT32"}
    if not binary:
        return json.dumps({"inputs": [{**data, "data": list(values)}]}).encode()
    data["parameters"] = {"binary_data_size": 4 * len(values)}
    return json.dumps({"inputs": [data], "parameters": {"binary_data_output": True}}).encode()


@pytest.fixture(scope="module")
def vertex(tmp_path_factory):
    running = start(tmp_path_factory.mktemp("vertex"), ["--vertex-ai-default-model=echo"],
                    names=("echo", "other"))
    running.wait_for_line("Started Metrics Service")
    yield running
    assert running.stop() == 0


def test_health(vertex):
    reply = ask(vertex, "GET", HEALTH)
    assert (reply.status_code, reply.content) == (200, b"")
    refused = ask(vertex, "POST", HEALTH)
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize("path", ["/", "/v2", "/v2/health/ready", "/v2/models/echo/infer", "/metrics",
                                  "/dashboard", PREDICT + "/", HEALTH + "x"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_other_paths(vertex, method, path):
    reply = ask(vertex, method, path, data=b"x", headers={REDIRECT: "v2"})
    assert (reply.status_code, reply.content) == (400, b"")


def test_predict(vertex):
    reply = ask(vertex, "POST", PREDICT, data=body())
    assert reply.status_code == 200, reply.text
    assert reply.json()["model_name"] == "echo"
    assert reply.json()["outputs"][0]["data"] == [1, 2]
    refused = ask(vertex, "GET", PREDICT)
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")


def test_predict_with_binary_tensors(vertex):
    head, values = body([7], binary=True), struct.pack("<i", 7)
    for headers, model in (({}, "echo"), ({REDIRECT: "v2/models/other/infer"}, "other")):
        reply = ask(vertex, "POST", PREDICT, data=head + values, headers={
            "Content-Type": f"{BINARY}; json-header-size={len(head)}", **headers})
        assert reply.status_code == 200, reply.text
        kind, _, size = reply.headers["Content-Type"].partition(";json-header-size=")
        assert kind == BINARY
        assert json.loads(reply.content[:int(size)])["model_name"] == model
        assert reply.content[int(size):] == values


@pytest.mark.parametrize("size", ["-1", "abc", "100000", "18446744073709551616"])
def test_hostile_json_header_sizes(vertex, size):
    text = body()
    reply = ask(vertex, "POST", PREDICT, data=text, headers={"Content-Type": f"{BINARY};json-header-size={size}"})
    assert reply.status_code == 400
    assert reply.json()["error"] == (
        f"inference header size should be in range (0, {len(text)}), got: {size}")


@pytest.mark.parametrize("to", [
    "v2/models/other", "v2/models/other/versions/1", "v2/models/other/config", "v2/models/other/stats",
    "v2/models/other/versions/1/stats", "v2/models/stats", "v2/models/other/ready", "v2",
    "v2/health/live", "v2/health/ready", "v2/models/missing/config"])
def test_redirection_to_what_is_read(vertex, to):
    """The answer of the usual front, although the request is a POST."""
    usual = requests.get(f"{vertex.url}/{to}", timeout=SECONDS)
    reply = redirect(vertex, to)
    assert (reply.status_code, reply.content) == (usual.status_code, usual.content)


def test_redirection_to_inference(vertex):
    for to in ("v2/models/other/infer", "v2/models/other/versions/1/infer"):
        reply = redirect(vertex, to, data=body([3]))
        assert reply.status_code == 200, reply.text
        assert (reply.json()["model_name"], reply.json()["outputs"][0]["data"]) == ("other", [3])
    reply = redirect(vertex, "v2/models/other/generate", json={"INPUT0": [4]})
    assert reply.json() == {"model_name": "other", "model_version": "1", "OUTPUT0": 4}


def test_redirection_to_the_index(vertex):
    reply = redirect(vertex, "v2/repository/index", json={})
    assert [m["name"] for m in reply.json()] == ["echo", "other"]


def test_redirection_to_metrics(vertex):
    reply = redirect(vertex, "metrics")
    assert reply.status_code == 200
    names = set(parse(reply.text))
    assert "nv_inference_request_success" in names
    assert any(name.startswith("neso_memory") for name in names), sorted(names)


@pytest.mark.parametrize("to", [
    "", "/v2", "v3", "v2/", "dashboard", "v2/dashboard", "v2/repository/models/echo/load",
    "v2/repository/models/echo/unload", "v2/repository/r/models/echo/load", "v2/drain", "v2/logging",
    "v2/trace/setting", "v2/models/echo/trace/setting", "v2/systemsharedmemory/status",
    "v2/systemsharedmemory/region/a/register", "v2/cudasharedmemory/status", "metrics/", "../v2", "ping"])
def test_redirection_to_nothing(vertex, to):
    """Unknown endpoints, and those that would change the server."""
    reply = redirect(vertex, to, data=b"{}")
    assert (reply.status_code, reply.content) == (400, b"")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_redirection_needs_post(vertex, method):
    reply = redirect(vertex, "v2", method)
    assert (reply.status_code, reply.headers["Allow"]) == (405, "POST")


def test_the_only_model_is_the_default(tmp_path):
    running = start(tmp_path / "models")
    reply = ask(running, "POST", PREDICT, data=body())
    assert reply.json()["model_name"] == "echo"
    assert running.stop() == 0


def test_keys_hold_for_the_endpoint_of_a_redirection(tmp_path):
    """The right to infer is not the right to read metrics, nor to infer with another model."""
    keys = tmp_path / "keys"
    keys.write_text(f"one {hashlib.sha256(b'one').hexdigest()} inference echo\n")
    keys.chmod(0o600)
    running = start(tmp_path / "models", [f"--api-key-file={keys}", "--vertex-ai-default-model=echo"],
                    names=("echo", "other"))

    def status(to=None):
        headers = {"X-Api-Key": "one", **({REDIRECT: to} if to else {})}
        return ask(running, "POST", PREDICT, data=body(), headers=headers).status_code

    assert status() == 200
    assert status("v2/models/echo/infer") == 200
    assert status("v2/models/other/infer") == 403
    assert status("metrics") == 403
    assert status("v2/repository/index") == 403
    assert ask(running, "POST", PREDICT, data=body()).status_code == 401
    assert running.stop() == 0


# ---- variables ----------------------------------------------------------------------------------


def run(tmp_path, *options, names=(), **variables):
    """What a server prints that cannot start."""
    repository = tmp_path / "models"
    repository.mkdir(exist_ok=True)
    write_repository(repository, {name: ECHO for name in names})
    ended = subprocess.run(
        [str(BUILD / "neso"), "serve", f"--backend-directory={BUILD / 'backends'}",
         "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--metrics-port=0", "--http-port=0",
         "--grpc-port=0", *options], capture_output=True, text=True, timeout=SECONDS, check=False,
        env={**os.environ, **variables})
    assert ended.returncode == 1, ended.stdout
    return ended.stderr


BOTH = {"AIP_PREDICT_ROUTE": "/p", "AIP_HEALTH_ROUTE": "/h"}


@pytest.mark.parametrize("missing", ["AIP_PREDICT_ROUTE", "AIP_HEALTH_ROUTE"])
def test_a_missing_route(tmp_path, missing):
    variables = {name: value for name, value in BOTH.items() if name != missing}
    text = run(tmp_path, f"--model-repository={tmp_path / 'models'}", "--allow-vertex-ai=true", **variables)
    assert f"error: {missing} is not defined for Vertex AI endpoint\n" in text


def test_a_wrong_route(tmp_path):
    text = run(tmp_path, f"--model-repository={tmp_path / 'models'}", "--allow-vertex-ai=true",
               AIP_PREDICT_ROUTE="p", AIP_HEALTH_ROUTE="/h")
    assert "AIP_PREDICT_ROUTE must begin with a slash, got: 'p'" in text


@pytest.mark.parametrize("names, options, text", [
    (("a", "b"), (), "Expect the model repository contains only a single model if default model is not "
     "specified; 2 are loaded: give --vertex-ai-default-model"),
    ((), (), "0 are loaded: give --vertex-ai-default-model"),
    (("a",), ("--vertex-ai-default-model=b",), "Expect the default model 'b' is loaded"),
])
def test_no_default_model(tmp_path, names, options, text):
    assert text in run(tmp_path, f"--model-repository={tmp_path / 'models'}", "--allow-vertex-ai=true",
                       "--vertex-ai-port=0", *options, names=names, **BOTH)


def test_a_wrong_port(tmp_path):
    assert 'AIP_HTTP_PORT: Bad option: "--vertex-ai-port".' in run(tmp_path, AIP_HTTP_PORT="x")


def test_a_port_in_use_by_another_front(tmp_path):
    text = run(tmp_path, "--model-repository=x", "--allow-vertex-ai=true", "--allow-sagemaker=true", **BOTH)
    assert ("The server cannot listen to SageMaker requests and Vertex AI requests at the same address and "
            "port 127.0.0.1:8080") in text


def test_the_environment_of_the_platform(tmp_path):
    """AIP_MODE turns it on and the usual fronts off; AIP_STORAGE_URI is the repository."""
    models = tmp_path / "models"
    models.mkdir()
    write_repository(models, {"echo": ECHO})
    running = Server(models, ("--http-address=127.0.0.1", "--metrics-port=0"), ("vertex-ai", "metrics"),
                     ("env", *ROUTES, "AIP_MODE=PREDICTION", "AIP_HTTP_PORT=0", f"AIP_STORAGE_URI={models}"),
                     [str(BUILD / "neso"), "serve", f"--backend-directory={BUILD / 'backends'}"])
    assert ask(running, "GET", HEALTH).status_code == 200
    assert ask(running, "POST", PREDICT, data=body()).json()["outputs"][0]["data"] == [1, 2]
    assert running.stop() == 0
    assert set(running.ports) == {"vertex-ai", "metrics"}


def test_the_command_line_goes_first(tmp_path):
    """Over AIP_MODE, and over AIP_STORAGE_URI."""
    models = tmp_path / "models"
    models.mkdir()
    write_repository(models, {"echo": ECHO})
    running = Server(models, ("--allow-vertex-ai=true", "--vertex-ai-port=0", "--allow-http=true"),
                     ("vertex-ai", "http"),
                     ("env", *ROUTES, "AIP_MODE=PREDICTION", "AIP_STORAGE_URI=/nonexistent"))
    assert requests.get(f"{running.url}/v2/models/echo", timeout=SECONDS).status_code == 200
    assert running.stop() == 0
