# SPDX-License-Identifier: BSD-3-Clause
"""/config/source: where in its file each part of a model's configuration stands."""
import json

import pytest
import requests

from conftest import patience

TAKES_SECONDS = 2
SECONDS = patience(20)

PLAIN = """# a comment
backend: "identity"
max_batch_size: 4
input [ { name: "INPUT0"
          data_type: TYPE_FP32 dims: [ 2, 3 ] } ]
output { name: "OUTPUT0" data_type: TYPE_FP32
         dims: 2 dims: 3 }
parameters {
  key: "colour" value { string_value: "green" }
}
"""
MODELS = {"plain": {"config.pbtxt": PLAIN, "configs/other.pbtxt": PLAIN.replace("4", "7")},
          "sent": PLAIN, "edited": PLAIN}
BACKENDS = ("identity",)
OPTIONS = ("--model-control-mode=explicit", "--load-model=*", "--model-config-name=other")


def source(server, model, version=""):
    answer = requests.get(f"{server.url}/v2/models/{model}{version}/config/source", timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("version", ["", "/versions/1"])
def test_the_lines_of_each_field(server, version):
    found = source(server, "sent", version)
    assert (found["name"], found["version"], found["file"], found["changed"]) == ("sent", "1", "config.pbtxt", False)
    assert found["lines"] == {
        "backend": 2, "max_batch_size": 3, "input": 4, "input[0]": 4, "input[0].name": 4, "input[0].data_type": 5,
        "input[0].dims": 5, "input[0].dims[0]": 5, "input[0].dims[1]": 5, "output": 6, "output[0]": 6,
        "output[0].name": 6, "output[0].data_type": 6, "output[0].dims": 7, "output[0].dims[0]": 7,
        "output[0].dims[1]": 7, "parameters": 8, "parameters[0]": 8, "parameters[0].key": 9,
        "parameters[0].value": 9, "parameters[0].value.string_value": 9}


def test_the_file_that_the_server_was_told_to_take(server):
    assert source(server, "plain")["file"] == "configs/other.pbtxt"


def test_a_file_that_was_changed_after_the_load(server):
    path = server.repository / "edited" / "config.pbtxt"
    assert not source(server, "edited")["changed"]
    path.write_text("\n\n" + PLAIN + "mistake: 1\n", encoding="ascii")
    found = source(server, "edited")
    assert found["changed"] and found["lines"]["backend"] == 4
    path.unlink()
    assert source(server, "edited") == {"name": "edited", "version": "1", "file": None}


def test_a_configuration_that_came_with_a_load(server):
    url = f"{server.url}/v2/repository/models/sent/load"
    config = requests.get(f"{server.url}/v2/models/sent/config", timeout=SECONDS).json()
    config["max_batch_size"] = 2
    body = {"parameters": {"config": json.dumps(config)}}
    assert requests.post(url, json=body, timeout=SECONDS).status_code == 200
    assert source(server, "sent") == {"name": "sent", "version": "1", "file": None}


def test_unknown_models(server):
    for model in ("none", "plain/versions/7"):
        answer = requests.get(f"{server.url}/v2/models/{model}/config/source", timeout=SECONDS)
        assert answer.status_code == 404
        assert "Request for unknown model" in answer.json()["error"]
