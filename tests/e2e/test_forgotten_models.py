# SPDX-License-Identifier: BSD-3-Clause
"""Models that came with load requests and do not serve: the index remembers the last ones only, or clients could make
it grow without end."""
import base64
import contextlib
import json

import pytest
import requests

from models import EXPLICIT, index, model_text, opens_server, wait_until

REMEMBERED = 100
EMPTY = base64.b64encode(b"x").decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with opens_server(tmp_path_factory.mktemp("forgotten") / "models", {"kept": model_text("identity")}, *EXPLICIT,
                      "--load-model=kept") as running:
        yield running


def sent(**changes):
    config = {"backend": "identity", "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
              "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}], **changes}
    return {"parameters": {"config": json.dumps(config), "file:1/data": EMPTY}}


def post(server, model, what, status=200, **arguments):
    answer = requests.post(f"{server.url}/v2/repository/models/{model}/{what}", timeout=20, **arguments)
    assert answer.status_code == status, answer.text


def rows(server, prefix):
    return {row[0]: row[2:] for row in index(server) if row[0].startswith(prefix)}


def test_unloaded(server):
    names = [f"brought_{i:03}" for i in range(REMEMBERED + 30)]
    for name in names:
        post(server, name, "load", json=sent())
        post(server, name, "unload")
        # They are remembered in the order of their ends, which may come after the answer.
        wait_until(lambda name=name: rows(server, name) == {name: ("UNAVAILABLE", "unloaded")})
    expected = dict.fromkeys(names[-REMEMBERED:], ("UNAVAILABLE", "unloaded"))
    wait_until(lambda: rows(server, "brought_") == expected, lambda: f"{rows(server, 'brought_')}")
    assert rows(server, "kept") == {"kept": ("READY", None)}


def test_failed(server):
    """Those that failed and those that were unloaded are one list."""
    names = [f"failed_{i:03}" for i in range(REMEMBERED + 30)]
    for name in names:
        post(server, name, "load", 400, json=sent(backend="nonexistent"))
    found = rows(server, "failed_")
    assert list(found) == names[-REMEMBERED:]
    assert {state for state, _ in found.values()} == {"UNAVAILABLE"}
    assert not rows(server, "brought_")


def test_without_a_version(server):
    """They are not in the index, but known."""
    def refusal(name):
        return requests.post(f"{server.url}/v2/models/{name}/infer", timeout=20, json={"inputs": []}).json()["error"]

    names = [f"bare_{i:03}" for i in range(REMEMBERED + 30)]
    for name in names:
        request = sent()
        request["parameters"]["file:data"] = request["parameters"].pop("file:1/data")
        post(server, name, "load", 400, json=request)
    assert refusal(names[30]) == f"Request for unknown model: '{names[30]}' has no available versions"
    assert refusal(names[29]) == f"Request for unknown model: '{names[29]}' is not found"


def versions_of(server, name):
    return [int(row[1]) for row in index(server) if row[0] == name]


@pytest.mark.parametrize("backend", ["identity", "nonexistent"])
def test_versions(server, backend):
    """Those that the last load did not bring, of one model."""
    for version in range(1, REMEMBERED + 30):
        request = sent(backend=backend)
        request["parameters"][f"file:{version}/data"] = request["parameters"].pop("file:1/data")
        post(server, f"many_{backend}", "load", 200 if backend == "identity" else 400, json=request)
        wait_until(lambda: "UNLOADING" not in {row[2] for row in index(server)})
    first = 28 if backend == "identity" else 29  # the last but one ended after the last load
    assert versions_of(server, f"many_{backend}") == list(range(first, REMEMBERED + 30))


def test_loaded_again(server):
    """A model that serves again is not forgotten with those that it was unloaded before."""
    post(server, "again", "load", json=sent())
    post(server, "again", "unload")
    post(server, "again", "load", json=sent())
    for i in range(REMEMBERED + 30):
        post(server, f"other_{i}", "load", 400, json=sent(backend="nonexistent"))
    assert rows(server, "again") == {"again": ("READY", None)}
    with contextlib.closing(requests.get(f"{server.url}/v2/models/again/ready", timeout=20)) as answer:
        assert answer.status_code == 200
    post(server, "again", "unload")
    wait_until(lambda: rows(server, "again") == {"again": ("UNAVAILABLE", "unloaded")})
