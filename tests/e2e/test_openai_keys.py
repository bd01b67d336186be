# SPDX-License-Identifier: BSD-3-Clause
"""The OpenAI API: models, keys, and the form of errors that the connection reports. The numbers of checks are those of openai_models.py."""
import hashlib
import pathlib
import tempfile
import time

import pytest

import openai_models
from conftest import Server, write_repository
from openai_models import call, complete
from python_programs import OPTIONS as PYTHON_OPTIONS
from wire import Wire

BACKENDS = openai_models.BACKENDS
FOLDER = tempfile.TemporaryDirectory(prefix="openai_keys_")
MODELS = openai_models.models(pathlib.Path(FOLDER.name) / "log")
OPTIONS = (*PYTHON_OPTIONS, "--http-max-input-size=100000")
TAKES_SECONDS = 20
LISTED = {"vllm", "plain", "vllm_embedding", "trtllm", "llmapi", "seeds_of_32_bits", "speaks", "embed", "embed_one"}


def listed(server, **headers):
    answer = call(server, "/v1/models", headers=headers)
    assert answer.status == 200, answer.body
    assert answer.json["object"] == "list"
    return [m["id"] for m in answer.json["data"]]


def test_1_models_are_listed(server):
    assert listed(server) == sorted(LISTED)
    first = call(server, "/v1/models").json["data"][0]
    assert set(first) == {"id", "object", "created", "owned_by"}
    assert (first["object"], first["owned_by"]) == ("model", "neso")
    assert abs(first["created"] - time.time()) < 600


def test_1_a_model_is_retrieved(server):
    found = call(server, "/v1/models/%76llm").json
    assert found["id"] == "vllm"
    assert found == next(m for m in call(server, "/v1/models").json["data"] if m["id"] == "vllm")
    assert call(server, "/openai/v1/models/vllm").json == found


@pytest.mark.parametrize("name", ["nobody", "a%2Fb", "hidden", "other"])
def test_1_a_model_that_is_not_there(server, name):
    answer = call(server, f"/v1/models/{name}")
    assert answer.status == 404
    assert answer.error == {"message": f"the model '{name.replace('%2F', '/')}' does not exist",
                            "type": "invalid_request_error", "param": "model",
                            "code": "model_not_found"}


def assert_form(answer, status, kind, code):
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/json"
    assert set(answer.error) == {"message", "type", "param", "code"}
    assert (answer.error["type"], answer.error["code"]) == (kind, code)


def test_2_unknown_paths_and_methods(server):
    assert_form(call(server, "/v1/nothing"), 404, "invalid_request_error", None)
    assert_form(call(server, "/openai/v1/nothing"), 404, "invalid_request_error", None)
    answer = call(server, "/v1/completions")
    assert_form(answer, 405, "invalid_request_error", None)
    assert answer.headers["Allow"] == "POST"
    assert call(server, "/v2/nothing").json == {"error": "Not Found"}
    assert call(server, "/v10/nothing").json == {"error": "Not Found"}


@pytest.mark.parametrize("size", [100001, 2000000])
def test_2_a_body_that_is_too_large(server, size):
    body = b'{"model":"vllm","prompt":"' + b"x" * size + b'"}'
    assert_form(call(server, "/v1/completions", body), 413, "invalid_request_error",
                "content_too_large")


@pytest.mark.parametrize("head, status", [
    (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 40000 + b"\r\n\r\n", 431),
], ids=["length", "too_long"])
def test_2_errors_before_routing(server, head, status):
    with Wire(server.port("http")) as wire:
        wire.send(head)
        answer = wire.read_answer()
    assert answer.status == status
    assert b'"type":"invalid_request_error"' in answer.body


def test_2_load_and_unload_need_the_explicit_mode(server):
    for verb in ("load", "unload"):
        answer = call(server, f"/v1/models/vllm/{verb}", b"", method="POST")
        assert_form(answer, 400, "invalid_request_error", None)
        assert answer.error["message"] == "Model load/unload requires --model-control-mode=explicit"


# ---- keys ---------------------------------------------------------------------------------------


def line(name, groups, models=""):
    digest = hashlib.sha256(f"key of {name}".encode()).hexdigest()
    return f"{name} {digest} {groups} {models}\n"


def bearer(name):
    return {"Authorization": f"Bearer key of {name}"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    write_repository(folder / "models", {k: MODELS[k] for k in ("vllm", "render", "llmapi", "speaks")})
    (folder / "keys").write_text(line("some", "inference,metadata", "vllm,sp*")
                                 + line("all", "*") + line("reader", "metadata"))
    (folder / "keys").chmod(0o600)
    started = Server(folder / "models", (*PYTHON_OPTIONS, f"--api-key-file={folder / 'keys'}",
                                         "--openai-list-all=true",
                                         "--model-control-mode=explicit", "--load-model=*"))
    yield started
    started.stop()


def test_7_a_key_lists_its_models(guarded):
    assert listed(guarded, **bearer("some")) == ["speaks", "vllm"]
    assert listed(guarded, **bearer("all")) == ["llmapi", "speaks", "vllm"]
    assert call(guarded, "/v1/models/vllm", headers=bearer("some")).status == 200
    assert_form(call(guarded, "/v1/models/llmapi", headers=bearer("some")), 403, "permission_error",
                "invalid_api_key")


def test_7_a_key_is_refused_by_the_model_of_the_body(guarded):
    def ask(model, key, **more):
        return call(guarded, "/v1/completions", {"model": model, "prompt": "a", **more},
                    headers=bearer(key))

    assert ask("vllm", "some").status == 200
    answer = ask("llmapi", "some")
    assert_form(answer, 403, "permission_error", "invalid_api_key")
    assert answer.error["message"] == "the API key does not grant model 'llmapi'"
    # Nothing is said about the rest of the body, nor whether the model exists.
    assert_form(ask("llmapi", "some", temperature=9), 403, "permission_error", "invalid_api_key")
    assert_form(ask("nobody", "some"), 403, "permission_error", "invalid_api_key")
    assert_form(ask("nobody", "all"), 404, "invalid_request_error", "model_not_found")
    assert_form(ask("vllm", "reader"), 403, "permission_error", "invalid_api_key")
    assert_form(ask("vllm", "nobody"), 401, "authentication_error", "invalid_api_key")
    answer = complete(guarded, "vllm", "a")
    assert_form(answer, 401, "authentication_error", "invalid_api_key")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_load_and_unload(guarded):
    def order(verb, key="all"):
        return call(guarded, f"/v1/models/llmapi/{verb}", b"", method="POST", headers=bearer(key))

    assert_form(order("unload", "some"), 403, "permission_error", "invalid_api_key")
    answer = order("unload")
    assert (answer.status, answer.json) == (200, {"status": "success", "model": "llmapi"})
    deadline = time.monotonic() + 20
    while "llmapi" in listed(guarded, **bearer("all")):
        assert time.monotonic() < deadline
    assert order("load").json == {"status": "success", "model": "llmapi"}
    assert "llmapi" in listed(guarded, **bearer("all"))


def test_switched_off(tmp_path):
    write_repository(tmp_path, {"other": MODELS["other"]})
    off = Server(tmp_path, ("--allow-openai=false",))
    answer = call(off, "/v1/models")
    off.stop()
    assert answer.status == 404 and answer.json == {"error": "Not Found"}


def test_all_models_are_listed(tmp_path):
    write_repository(tmp_path, {"other": MODELS["other"]})
    on = Server(tmp_path, ("--openai-list-all=true",))
    found = listed(on)
    on.stop()
    assert found == ["other"]
