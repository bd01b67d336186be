# SPDX-License-Identifier: BSD-3-Clause
"""Model names that are not ASCII: percent-encoded UTF-8 in each path of HTTP that takes one."""
import hashlib
import json
import subprocess
from urllib.parse import quote

import pytest
import requests

from conftest import BUILD, Server, require_build, write_repository
from grpc_stubs import client, stubs  # noqa: F401
from wire import exchange, request

BACKENDS = ("identity",)
CONFIG = ('backend: "identity"\n'
          'input { name: "INPUT0" data_type: TYPE_INT32 dims: [-1] }\n'
          'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [-1] }\n')
NAMES = ["größe 2", "模型", "50%ü", "e\N{COMBINING ACUTE ACCENT}+x", "\N{GRINNING FACE}"]
MODELS = {name: CONFIG for name in [*NAMES, "plain", "per%20cent"]}
OPTIONS = ("--model-control-mode=explicit", "--load-model=*")

INPUT = {"inputs": [{"name": "INPUT0", "shape": [2], "datatype": "INT32", "data": [1, 2]}]}


def url(server, name, tail="", base="/v2/models/"):
    return f"{server.url}{base}{quote(name, safe='')}{tail}"


def get(*arguments, **keywords):
    reply = requests.get(url(*arguments, **keywords), timeout=20)
    assert reply.status_code == 200, reply.text
    return reply


def post(*arguments, body=None, **keywords):
    reply = requests.post(url(*arguments, **keywords), json=body, timeout=20)
    assert reply.status_code == 200, reply.text
    return reply


@pytest.mark.parametrize("version", ["", "/versions/1"])
@pytest.mark.parametrize("name", NAMES)
def test_each_path(server, name, version):
    assert get(server, name, version + "/ready").content == b""
    assert get(server, name, version).json()["name"] == name
    assert get(server, name, version + "/config").json()["name"] == name
    (stats,) = get(server, name, version + "/stats").json()["model_stats"]
    assert stats["name"] == name
    reply = post(server, name, version + "/infer", body=INPUT).json()
    assert (reply["model_name"], reply["outputs"][0]["data"]) == (name, [1, 2])
    reply = post(server, name, version + "/generate", body={"INPUT0": [3, 4]}).json()
    assert (reply["model_name"], reply["OUTPUT0"]) == (name, [3, 4])
    event = post(server, name, version + "/generate_stream", body={"INPUT0": [5, 6]}).text
    assert event.startswith("data: ") and json.loads(event[len("data: "):])["model_name"] == name


@pytest.mark.parametrize("name", NAMES)
def test_trace_settings(server, name):
    assert post(server, name, "/trace/setting", body={"trace_rate": "7"}).json()["trace_rate"] == "7"
    assert get(server, name, "/trace/setting").json()["trace_rate"] == "7"
    assert get(server, "plain", "/trace/setting").json()["trace_rate"] == "1000"


def states(server, name):
    index = requests.post(f"{server.url}/v2/repository/index", timeout=20).json()
    return [row["state"] for row in index if row["name"] == name]


@pytest.mark.parametrize("name", NAMES)
def test_control(server, name):
    assert states(server, name) == ["READY"]
    post(server, name, "/unload", base="/v2/repository/models/")
    assert requests.get(url(server, name, "/ready"), timeout=20).status_code == 400
    post(server, name, "/load", base="/v2/repository/models/")
    assert states(server, name) == ["READY"]
    get(server, name, "/ready")


@pytest.mark.parametrize("name", NAMES)
def test_both_protocols_mean_the_same(server, client, name):  # noqa: F811
    assert client.call("ModelMetadata", {"name": name}).name == name
    (stats,) = client.call("ModelStatistics", {"name": name}).model_stats
    assert stats.name == name


@pytest.mark.parametrize("name", NAMES)
def test_command_line(server, name):
    def ctl(*arguments):
        return subprocess.run([BUILD / "neso", "ctl", *arguments, f"--url={server.url}"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=20, check=False)

    assert ctl("ready", name).stdout == f"{name}: ready\n"
    assert ctl("unload", name).stdout == f"{name}: unloaded\n"
    assert ctl("load", name).stdout == f"{name}: loaded\n"


# ---- other names --------------------------------------------------------------------------------


def refusal(server, path):
    """Whatever comes behind the name, and whether there is a body on its way."""
    answers = [exchange(server.http_port, request("GET", f"/v2/models/{path}{tail}"))
               for tail in ("", "/config", "/stats", "/versions/1")]
    answers.append(exchange(server.http_port, request("POST", f"/v2/models/{path}/generate", b"{}")))
    head = f"POST /v2/models/{path}/infer HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n"
    answers.append(exchange(server.http_port, head.encode()))
    (one,) = {(a.status, json.loads(a.body)["error"]) for a in answers}
    return one


@pytest.mark.parametrize("path, text", [
    ("%C3%BC%zz", "has a percent escape that is not two hexadecimal digits"),
    ("%C3%BC%", "has a percent escape that is not two hexadecimal digits"),
    ("gr%F6%DFe", "is not percent-encoded UTF-8"),
    ("%C3", "is not percent-encoded UTF-8"),
    ("%C0%AE", "is not percent-encoded UTF-8"),
    ("%C3%BC%2F..%2Fplain", "contains a slash or a NUL character"),
    ("plain%00%C3%BC", "contains a slash or a NUL character"),
])
def test_names_that_cannot_be_read(server, path, text):
    assert refusal(server, path) == (400, f"the model name '{path}' {text}")


@pytest.mark.parametrize("path", ["pl%61in", "plain%20", "%zz", "100%"])
def test_escapes_of_ascii_stand_for_themselves(server, path):
    answer = exchange(server.http_port, request("GET", f"/v2/models/{path}"))
    assert (answer.status, json.loads(answer.body)) == (
        404, {"error": f"Request for unknown model: '{path}' is not found"})


def test_a_name_with_a_percent_sign(server):
    answer = exchange(server.http_port, request("GET", "/v2/models/per%20cent"))
    assert (answer.status, json.loads(answer.body)["name"]) == (200, "per%20cent")


# ---- who may ------------------------------------------------------------------------------------


def test_keys_for_models(tmp_path):
    """It is the decoded name that a key is for."""
    require_build(BACKENDS)
    write_repository(tmp_path / "models", MODELS)
    keys = tmp_path / "keys"
    keys.write_text(f"one {hashlib.sha256(b'open sesame').hexdigest()} * größe*\n")
    keys.chmod(0o600)
    running = Server(tmp_path / "models", (f"--api-key-file={keys}",))
    for name, status in (("größe 2", 200), ("模型", 403), ("plain", 403)):
        reply = requests.get(url(running, name), timeout=20,
                             headers={"Authorization": "Bearer open sesame"})
        assert reply.status_code == status, reply.text
    assert exchange(running.http_port, request("GET", "/v2/models/%C3%BC%zz")).status == 401
    assert running.stop() == 0
