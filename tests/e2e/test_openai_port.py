# SPDX-License-Identifier: BSD-3-Clause
"""--openai-port: the OpenAI API and the server's health alone, on a port of its own."""
import pathlib
import tempfile
import types

import pytest

import openai_models as lab
from conftest import Server, write_repository
from openai_models import call, complete
from python_programs import OPTIONS as PYTHON_OPTIONS

BACKENDS = lab.BACKENDS
FOLDER = tempfile.TemporaryDirectory(prefix="openai_port_")
LOG = pathlib.Path(FOLDER.name) / "log"
PORTS = pathlib.Path(FOLDER.name) / "ports"
MODELS = {name: files for name, files in lab.models(LOG).items() if name == "plain"}
OPTIONS = (*PYTHON_OPTIONS, "--openai-port=0", "--allow-openai=false", f"--port-file={PORTS}")
TAKES_SECONDS = 5


@pytest.fixture
def front(server):
    """Its URL, for the functions of openai_models."""
    return types.SimpleNamespace(url=f"http://127.0.0.1:{server.port('openai')}")


def test_the_api(front):
    assert [m["id"] for m in call(front, "/v1/models").json["data"]] == ["plain"]
    assert complete(front, "plain", "a|b").json["choices"][0]["text"] == "ab"
    assert call(front, "/openai/v1/models/plain").status == 200
    assert complete(front, "plain", "a", temperature=9).error["param"] == "temperature"


def test_health(front):
    for path in ("/health/ready", "/v2/health/ready", "/v2/health/live"):
        answer = call(front, path)
        assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("path", ["/v2", "/v2/models/plain", "/v2/models/plain/generate", "/metrics", "/dashboard",
                                  "/v2/repository/index"])
def test_nothing_else(front, path):
    for body in (None, {}):
        answer = call(front, path, body)
        assert (answer.status, answer.json) == (404, {"error": "Not Found"})


def test_unknown_paths_of_the_api(front):
    answer = call(front, "/v1/responses", {})
    assert answer.status == 404 and answer.error["type"] == "invalid_request_error"


def test_the_http_port_lacks_it(server):
    assert call(server, "/v1/models").json == {"error": "Not Found"}
    assert call(server, "/v2/models/plain").status == 200


def test_the_port_file_has_it(server):
    ports = dict(line.split("=") for line in PORTS.read_text(encoding="ascii").split())
    assert ports["openai"] == str(server.port("openai"))


def test_without_http(tmp_path):
    write_repository(tmp_path, MODELS)
    server = Server(tmp_path, (*PYTHON_OPTIONS, "--allow-http=false", "--allow-grpc=false", "--openai-port=0"),
                    ("openai",))
    front = types.SimpleNamespace(url=f"http://127.0.0.1:{server.port('openai')}")
    assert complete(front, "plain", "a").status == 200
    assert server.stop() == 0
