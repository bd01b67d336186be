# SPDX-License-Identifier: BSD-3-Clause
"""OpenAI's own client for Node, unmodified (node/openai_client.js). The numbers of checks are those of openai_models.py."""
import hashlib
import json
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

import openai_models
from conftest import ROOT, TLS, Server, write_repository
from python_programs import OPTIONS as PYTHON_OPTIONS

BACKENDS = openai_models.BACKENDS
FOLDER = tempfile.TemporaryDirectory(prefix="openai_client_")
LOG = pathlib.Path(FOLDER.name) / "log"
MODELS = openai_models.models(LOG)
OPTIONS = (*PYTHON_OPTIONS, "--http-max-input-size=100000", "--in-flight-limit=llmapi,requests=1")
MODULES = ROOT / ".deps" / "node" / "node_modules"
TAKES_SECONDS = 20

SCENARIOS = ("models", "retrieve", "slash", "chat", "completion", "stream", "helper", "helper_tools", "tools",
             "parse", "logprobs", "embeddings", "errors", "midstream")


@pytest.fixture(scope="module", autouse=True)
def has_client():
    if shutil.which("node") is None or not (MODULES / "openai").is_dir():
        pytest.skip("OpenAI's client for Node is not there: tools/setup.sh fetches it")
    if TLS:
        pytest.skip("the client does not trust the certificate of the tests")


def run(server, *scenarios):
    done = subprocess.run(["node", ROOT / "tests" / "e2e" / "node" / "openai_client.js", MODULES, server.url,
                           *scenarios], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found(server, has_client):
    return run(server, *SCENARIOS)


def test_1_models(found):
    assert "speaks" in found["models"] and "hidden" not in found["models"]
    assert found["retrieve"]["id"] == "speaks" and found["retrieve"]["owned_by"] == "neso"
    assert found["slash"]["name"] == "NotFoundError"
    assert found["slash"]["code"] == "model_not_found"
    assert "'a/b'" in found["slash"]["message"]


def test_1_whole_answers(found):
    assert found["chat"]["choices"][0]["message"]["content"] == "user: Hi"
    assert found["chat"]["usage"]["total_tokens"] == 3
    assert [c["text"] for c in found["completion"]["choices"]] == ["Hi", "Hi1"]


def test_1_streams(found):
    assert "".join(c["choices"][0]["delta"].get("content", "")
                   for c in found["stream"] if c["choices"]) == "ab"
    assert found["stream"][-1]["usage"]["completion_tokens"] == 2
    assert found["helper"] == {"seen": ["a", "b"], "last": "ab"}


def test_1_tools(found):
    call = ["call_1", "weather", '{"city":"Bonn"}']
    assert found["helper_tools"] == [call]
    assert [[c["id"], c["function"]["name"], c["function"]["arguments"]] for c in found["tools"]] == [call]


def test_1_parse_and_logprobs(found):
    assert found["parse"] == {"a": 7}
    assert found["logprobs"] == [["a", -0.5], ["b", -0.5]]


def test_1_embeddings(found):
    rows = [[1, 1, 2, 2], [2, 1, 2, 2]]
    assert found["embeddings"]["undefined"] == rows == found["embeddings"]["float"]
    assert all(isinstance(row, str) for row in found["embeddings"]["base64"])


def test_1_each_status_has_its_class(found):
    errors = found["errors"]
    assert (errors["wrong"]["name"], errors["wrong"]["param"]) == ("BadRequestError", "temperature")
    assert errors["wrong"]["type"] == "invalid_request_error"
    assert (errors["unknown"]["name"], errors["unknown"]["code"]) == ("NotFoundError",
                                                                      "model_not_found")
    assert (errors["failed"]["name"], errors["failed"]["message"]) == (
        "InternalServerError", "500 the model has failed")
    assert errors["failed"]["id"].startswith("cmpl-")
    assert (errors["large"]["status"], errors["large"]["code"]) == (413, "content_too_large")


def test_1_a_failure_in_a_stream(found):
    assert found["midstream"]["name"] == "APIError"
    assert found["midstream"]["message"] == "the model has failed"
    assert found["midstream"]["type"] == "server_error"


def cancelled():
    return [float(line.split()[1]) for line in LOG.read_text().splitlines()
            if line.startswith("cancelled")] if LOG.exists() else []


def test_1_the_model_sees_that_the_client_aborts(server):
    before = len(cancelled())
    text, aborted_at = run(server, "abort")["abort"]
    deadline = time.monotonic() + 20
    while len(cancelled()) == before:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert text == "a"
    assert cancelled()[-1] - aborted_at < 5  # not a measurement: the machine may be busy


def test_7_keys(tmp_path):
    write_repository(tmp_path / "models", {k: MODELS[k] for k in ("vllm", "plain", "render")})
    digest = hashlib.sha256(b"key of some").hexdigest()
    (tmp_path / "keys").write_text(f"some {digest} inference,metadata vllm\n")
    (tmp_path / "keys").chmod(0o600)
    server = Server(tmp_path / "models", (*PYTHON_OPTIONS, f"--api-key-file={tmp_path / 'keys'}"))
    keys = run(server, "keys")["keys"]
    server.stop()
    assert keys["some"] == ["vllm"]
    assert (keys["none"]["name"], keys["none"]["code"]) == ("AuthenticationError", "invalid_api_key")
    assert (keys["refused"]["name"], keys["refused"]["type"]) == ("PermissionDeniedError",
                                                                  "permission_error")


def test_1_a_full_server_is_asked_again(server):
    """One request of the only place waits; the client tries twice, a second apart, as Retry-After asks."""
    waits = LOG.read_text().count("waits") if LOG.exists() else 0
    connection = openai_models.begin(server, "/v1/completions", {"model": "llmapi", "prompt": "@wait"})
    deadline = time.monotonic() + 20
    while not LOG.exists() or LOG.read_text().count("waits") == waits:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    seen = run(server, "retries")["retries"]
    connection.close()
    assert (seen["name"], seen["status"], seen["code"]) == ("InternalServerError", 503, "overloaded")
    assert seen["type"] == "server_error"
    assert seen["waited"] >= 900
