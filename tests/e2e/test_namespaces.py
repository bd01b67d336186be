# SPDX-License-Identifier: BSD-3-Clause
"""--model-namespacing: the same model name in several repositories."""
import os

import pytest
import requests

from conftest import Server, require_build, write_repository
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from models import (EXPLICIT, SECONDS, control, index, infer, load, model_text, unload,
                    wait_for_index, wait_until)
from scrape import metric

AMBIGUOUS = ("There are 2 identifiers of model 'm' in global map, model namespace must be provided "
             "to resolve ambiguity.")
UNKNOWN = "Request for unknown model: '{}' is not found"
NAMESPACES = "--model-namespacing=true"


@pytest.fixture(autouse=True)
def built():
    require_build(("testing",))


def text(answer):
    """The model that answered says so by failing with its name."""
    return model_text(parameters={"fail_execute": answer})


def opens(folder, *options):
    for name, own in (("a", "left"), ("b", "right")):
        write_repository(folder / name, {"m": text(f"m of {name}"), own: model_text()})
    return Server(folder / "a", (f"--model-repository={folder / 'b'}", NAMESPACES, *options))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    require_build(("testing",))
    running = opens(tmp_path_factory.mktemp("namespaces"))
    yield running
    assert running.stop() == 0, running.text()


def test_all_are_loaded(server):
    assert index(server) == [("left", "1", "READY", None), ("m", "1", "READY", None),
                             ("m", "1", "READY", None), ("right", "1", "READY", None)]
    for name in ("a", "b"):
        assert f"successfully loaded '{server.repository.parent / name}::m'" in server.text()
    assert requests.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 200


def test_a_name_that_one_repository_has(server, stubs):
    for name in ("left", "right"):
        assert infer(server, name).status == 200
        assert requests.get(f"{server.url}/v2/models/{name}", timeout=SECONDS).json()["versions"] \
            == ["1"]
        with open_channel(server) as channel:
            assert Client(channel, stubs).call("ModelReady", {"name": name}).ready


PATHS = ("", "/config", "/stats", "/versions/1", "/versions/1/stats")


def test_a_name_that_two_have(server, stubs):
    for path in PATHS:
        answer = requests.get(f"{server.url}/v2/models/m{path}", timeout=SECONDS)
        assert (answer.status_code, answer.json()["error"]) == (400, AMBIGUOUS), path
    answer = infer(server, "m")
    assert (answer.status, answer.error) == (400, AMBIGUOUS)
    assert requests.get(f"{server.url}/v2/models/m/ready", timeout=SECONDS).status_code == 400
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        for method in ("ModelMetadata", "ModelConfig", "ModelStatistics"):
            assert client.refusal(method, {"name": "m"}) == ("INVALID_ARGUMENT", AMBIGUOUS)
        assert client.refusal("ModelInfer", {"model_name": "m"}) == ("INVALID_ARGUMENT", AMBIGUOUS)
        assert not client.call("ModelReady", {"name": "m"}).ready


def test_a_name_that_nobody_has(server, stubs):
    answer = infer(server, "nobody")
    assert (answer.status, answer.error) == (400, UNKNOWN.format("nobody"))
    with open_channel(server) as channel:
        assert Client(channel, stubs).refusal("ModelConfig", {"name": "nobody"}) == (
            "INVALID_ARGUMENT", UNKNOWN.format("nobody"))


def test_statistics_and_metrics_tell_them_apart(server):
    stats = requests.get(f"{server.url}/v2/models/stats", timeout=SECONDS).json()["model_stats"]
    assert [s["name"] for s in stats] == ["left", "m", "m", "right"]
    count = metric(server, "nv_inference_request_success", "left",
                   namespace=str(server.repository))
    assert infer(server, "left").status == 200
    assert metric(server, "nv_inference_request_success", "left",
                  namespace=str(server.repository)) == count + 1
    for name in ("a", "b"):
        assert metric(server, "nv_inference_request_success", "m",
                      namespace=str(server.repository.parent / name)) == 0


def test_requests_name_all_of_them(tmp_path, stubs):
    running = opens(tmp_path, *EXPLICIT, "--load-model=m")
    assert infer(running, "m").error == AMBIGUOUS
    assert index(running, ready=True) == [("m", "1", "READY", None)] * 2
    unload(running, "m")
    wait_for_index(running, "m", [("1", "UNAVAILABLE", "unloaded")] * 2)
    assert infer(running, "m").error == UNKNOWN.format("m")
    load(running, "m")
    assert infer(running, "m").error == AMBIGUOUS
    # One that fails is told with its repository; the other is changed.
    (tmp_path / "a" / "m" / "config.pbtxt").write_text(
        model_text(parameters={"fail_load": "no luck"}))
    (tmp_path / "b" / "m" / "config.pbtxt").write_text(text("other"))
    for way in ("http", "grpc"):
        assert control(running, way, "load", "m", stubs) == (
            "INVALID_ARGUMENT", f"load failed for model '{tmp_path / 'a'}::m': version 1 is at "
            "UNAVAILABLE state: Internal: no luck;\n")
    # Files can only be for one.
    assert control(running, "http", "load", "m", stubs, config=model_text(form="json"),
                   **{"file:1/x": b"x"}) == ("INVALID_ARGUMENT", AMBIGUOUS)
    assert control(running, "http", "load", "left", stubs, config=model_text(form="json"),
                   **{"file:1/x": b"x"}) is None
    assert infer(running, "left").status == 200
    assert running.stop() == 0


def ensemble(step):
    return ('platform: "ensemble"\n'
            'input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }\n'
            f'ensemble_scheduling {{ step {{ model_name: "{step}" model_version: -1\n'
            '  input_map { key: "INPUT0" value: "INPUT0" }\n'
            '  output_map { key: "OUTPUT0" value: "OUTPUT0" } } }\n')


def opens_ensembles(folder, *options):
    """Each repository has an ensemble of a name of its own, and a step of the same name."""
    for name in ("a", "b"):
        write_repository(folder / name, {"step": text(f"step of {name}"),
                                         f"ensemble_{name}": ensemble("step")})
    return Server(folder / "a", (f"--model-repository={folder / 'b'}", NAMESPACES, *options))


def step_of(server, name):
    """Which step the ensemble has used: its text is the end of the ensemble's error."""
    error = infer(server, name).error or ""
    return error[error.rfind("step of "):] if "step of " in error else error


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_each_ensemble_loads_its_own_step(tmp_path, order):
    running = opens_ensembles(tmp_path, *EXPLICIT)
    for name in order:
        load(running, f"ensemble_{name}")
    for name in "ab":
        assert step_of(running, f"ensemble_{name}") == f"step of {name}"
    assert running.stop() == 0


def test_an_ensemble_without_its_step_uses_the_only_other(tmp_path):
    running = opens_ensembles(tmp_path, "--model-control-mode=poll", "--repository-poll-secs=1")
    for name in "ab":
        assert step_of(running, f"ensemble_{name}") == f"step of {name}"
    os.rename(tmp_path / "b" / "step", tmp_path / "away")
    wait_until(lambda: step_of(running, "ensemble_b") == "step of a")
    assert step_of(running, "ensemble_a") == "step of a"
    os.rename(tmp_path / "away", tmp_path / "b" / "step")
    wait_until(lambda: step_of(running, "ensemble_b") == "step of b")
    os.rename(tmp_path / "a" / "step", tmp_path / "away")
    wait_until(lambda: step_of(running, "ensemble_a") == "step of b")
    assert running.stop() == 0


def test_an_ambiguous_step_is_named(tmp_path):
    for name in ("a", "b"):
        write_repository(tmp_path / name, {"step": text(f"step of {name}")})
    write_repository(tmp_path / "c", {"ensemble_c": ensemble("step")})
    running = Server(tmp_path / "a", (f"--model-repository={tmp_path / 'b'}",
                                      f"--model-repository={tmp_path / 'c'}", NAMESPACES,
                                      *EXPLICIT, "--load-model=step"))
    assert control(running, "http", "load", "ensemble_c", None) == (
        "INVALID_ARGUMENT", "load failed for model 'ensemble_c': ensemble ensemble_c contains "
        "models that are not available or ambiguous: step\n")
    assert running.stop() == 0


def test_a_name_becomes_free(tmp_path):
    running = opens(tmp_path, "--model-control-mode=poll", "--repository-poll-secs=1")
    assert infer(running, "m").error == AMBIGUOUS
    os.rename(tmp_path / "a" / "m", tmp_path / "away")
    wait_until(lambda: infer(running, "m").error == "m of b")
    os.rename(tmp_path / "away", tmp_path / "a" / "m")
    wait_until(lambda: infer(running, "m").error == AMBIGUOUS)
    os.rename(tmp_path / "b" / "m", tmp_path / "away")
    wait_until(lambda: infer(running, "m").error == "m of a")
    assert running.stop() == 0


def test_without_the_option_all_is_as_ever(tmp_path):
    for name in ("a", "b"):
        write_repository(tmp_path / name, {"m": model_text()})
    running = Server(tmp_path / "a", (f"--model-repository={tmp_path / 'b'}",
                                      "--model-namespacing=false", "--exit-on-error=false"))
    assert index(running) == [
        ("m", None, "UNAVAILABLE", "model appears in two or more repositories")]
    answer = infer(running, "m")
    assert (answer.status, answer.error) == (404, UNKNOWN.format("m"))
    assert running.stop() == 0
