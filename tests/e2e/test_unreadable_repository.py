# SPDX-License-Identifier: BSD-3-Clause
"""A server that can read none of its repositories and was told not to end for that: it says who it is,
and that it is neither live nor ready."""
import pytest
import requests

from conftest import Server, require_build, write_repository
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from models import model_text

NOT_READY = "Server not ready"


@pytest.fixture(scope="module", params=["none", "explicit", "poll"])
def unreadable(request, tmp_path_factory):
    require_build(("testing",))
    folder = tmp_path_factory.mktemp("nowhere")
    server = Server(folder / "first", ("--exit-on-error=false", "--repository-poll-secs=1",
                                       f"--model-repository={folder / 'second'}",
                                       f"--model-control-mode={request.param}"))
    yield server
    assert server.stop() == 0, server.text()


def test_over_http(unreadable):
    def ask(method, path, **more):
        reply = requests.request(method, f"{unreadable.url}/v2{path}", timeout=20, **more)
        return reply.status_code, reply.json().get("error") if reply.content else None

    assert ask("GET", "/health/live") == ask("GET", "/health/ready") == (400, None)
    assert ask("GET", "") == (200, None)
    for method, path in (("POST", "/repository/index"), ("GET", "/models/stats"),
                         ("GET", "/models/m"), ("GET", "/models/m/config"),
                         ("POST", "/repository/models/m/load"),
                         ("POST", "/repository/models/m/unload")):
        assert ask(method, path) == (503, NOT_READY), path
    assert ask("POST", "/models/m/infer", json={"inputs": []}) == (503, NOT_READY)
    assert ask("GET", "/models/m/ready") == (400, "Model version not ready")


def test_over_grpc(unreadable, stubs):
    with open_channel(unreadable) as channel:
        client = Client(channel, stubs)
        assert not client.call("ServerLive").live
        assert not client.call("ServerReady").ready
        assert client.call("ServerMetadata").name == "triton"
        for method, request in (("RepositoryIndex", {}), ("ModelStatistics", {}),
                                ("ModelMetadata", {"name": "m"}),
                                ("RepositoryModelLoad", {"model_name": "m"}),
                                ("ModelInfer", {"model_name": "m"})):
            assert client.refusal(method, request) == ("UNAVAILABLE", NOT_READY), method


def test_one_that_can_be_read_is_enough(tmp_path):
    require_build(("testing",))
    write_repository(tmp_path / "models", {"m": model_text()})
    server = Server(tmp_path / "nowhere", ("--exit-on-error=false",
                                           f"--model-repository={tmp_path / 'models'}"))
    assert requests.get(f"{server.url}/v2/health/live", timeout=20).status_code == 200
    assert requests.get(f"{server.url}/v2/health/ready", timeout=20).status_code == 200
    assert server.stop() == 0
