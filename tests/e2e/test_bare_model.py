# SPDX-License-Identifier: BSD-3-Clause
"""A repository that is one model: the folder that the storage initialiser of KServe fills."""
import os
import shutil
import subprocess

import pytest
import requests

from conftest import BUILD, ROOT, Server, patience, require_build, write_repository
from models import EXPLICIT, index, infer, load, model_text, unload, wait_until

BACKENDS = ("testing", "identity")
SECONDS = patience(20)
IDENTITY = ('backend: "identity"\n'
            'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }\n')
ONNX = ROOT / "examples" / "models" / "digits" / "1" / "model.onnx"

FORMS = {
    "version": {"config.pbtxt": model_text(), "1/empty": ""},
    "several versions": {"config.pbtxt": model_text() + "version_policy { all {} }\n",
                         "1/empty": "", "3/empty": "", "notes/readme": ""},
    "files": {"config.pbtxt": model_text(), "weights": "", "notes/readme": ""},
    "configuration alone": {"config.pbtxt": model_text()},
    "another name": {"config.pbtxt": model_text(name="other"), "1/empty": ""},
}


def fill(folder, files):
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    return folder


@pytest.fixture
def opened(tmp_path):
    """Starts servers on the folder, with the model's name as an option or another way."""
    servers = []

    def start(*options, variables=(), name="mine"):
        given = (f"--model-name={name}",) if name else ()
        servers.append(Server(tmp_path / "models", (*given, *options), under=("env", *variables)))
        return servers[-1]
    yield start
    for server in servers:
        assert server.stop() == 0, server.text()


@pytest.mark.parametrize("form", FORMS)
def test_forms(tmp_path, opened, form):
    fill(tmp_path / "models", FORMS[form])
    server = opened()
    assert requests.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 200
    versions = ["1", "3"] if form == "several versions" else ["1"]
    assert [(line[0], line[1], line[2]) for line in index(server)] == [
        ("mine", version, "READY") for version in versions]
    answer = infer(server, "mine")
    assert (answer.status, answer.version) == (200, versions[-1])


def test_the_variable(tmp_path, opened):
    fill(tmp_path / "models", FORMS["version"])
    assert infer(opened(variables=["MODEL_NAME=kserve"], name=None), "kserve").status == 200


def test_the_option_goes_first(tmp_path, opened):
    fill(tmp_path / "models", FORMS["version"])
    assert infer(opened(variables=["MODEL_NAME=kserve"]), "mine").status == 200


def ended(folder, *options, **variables):
    done = subprocess.run([str(BUILD / "neso"), "serve", f"--model-repository={folder}", "--http-port=0",
                           "--grpc-port=0", "--metrics-port=0", *options], capture_output=True, text=True,
                          timeout=SECONDS, check=False, env={**os.environ, **variables})
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("form", ["version", "files"])
def test_without_a_name(tmp_path, form):
    fill(tmp_path, FORMS[form])
    assert (f"'{tmp_path}' is one model and not a folder of models: name the model with --model-name (or the "
            "variable MODEL_NAME), or give the folder above it as the repository") in ended(tmp_path)


@pytest.mark.parametrize("name", [".hidden", "a/b", ".."])
def test_wrong_names(tmp_path, name):
    fill(tmp_path, FORMS["version"])
    assert (f"--model-name: '{name}' is not the name of a model: it begins with a dot or contains a slash"
            in ended(tmp_path, f"--model-name={name}"))


def test_a_name_without_a_bare_model(tmp_path, opened):
    """Of folders of models it says nothing: a platform may always give it."""
    write_repository(tmp_path / "models", {"a": IDENTITY})
    assert [line[0] for line in index(opened())] == ["a"]


@pytest.mark.parametrize("extra", [
    {"config.pbtxt": "not a configuration"}, {"model.onnx": "x"}, {"1/config.pbtxt": IDENTITY, "1/1/x": ""}])
def test_folders_of_models_stay_what_they_are(tmp_path, opened, extra):
    """With a stray file beside the models, and with a model that has a number for a name."""
    write_repository(tmp_path / "models", {"a": IDENTITY})
    fill(tmp_path / "models", extra)
    names = [line[0] for line in index(opened(name=None))]
    assert names == (["1", "a"] if "1/1/x" in extra else ["a"])


def test_beside_a_folder_of_models(tmp_path, opened):
    fill(tmp_path / "models", FORMS["version"])
    write_repository(tmp_path / "more", {"a": IDENTITY, "mine": IDENTITY})
    server = opened(f"--model-repository={tmp_path / 'more'}")
    assert [line[0] for line in index(server)] == ["a", "mine"]
    assert infer(server, "mine").executions == 1  # of the testing backend: the name is the bare model's


def test_two_bare_models(tmp_path):
    for name in ("one", "two"):
        fill(tmp_path / name, FORMS["version"])
    text = ended(tmp_path / "one", f"--model-repository={tmp_path / 'two'}", "--model-name=m")
    assert "there is a conflicting mapping for 'm'" in text


@pytest.mark.parametrize("form", ["version", "files"])
def test_explicit(tmp_path, opened, form):
    fill(tmp_path / "models", FORMS[form])
    server = opened(*EXPLICIT)
    assert infer(server, "mine").status == 400 or infer(server, "mine").status == 404
    for _ in range(2):
        load(server, "mine")
        assert infer(server, "mine").status == 200
        unload(server, "mine")
        assert infer(server, "mine").status != 200
    assert load(server, "models", None).status_code != 200


@pytest.mark.parametrize("form", ["version", "files"])
def test_explicit_at_the_start(tmp_path, opened, form):
    fill(tmp_path / "models", FORMS[form])
    assert infer(opened(*EXPLICIT, "--load-model=mine"), "mine").status == 200


@pytest.mark.parametrize("form", ["version", "files"])
def test_poll(tmp_path, opened, form):
    """A change of a file loads the model again, through the links, too."""
    fill(tmp_path / "models", FORMS[form])
    server = opened("--model-control-mode=poll", "--repository-poll-secs=1")
    first = infer(server, "mine").serial
    name = "weights" if form == "files" else "1/weights"
    (tmp_path / "models" / name).write_text("new")
    wait_until(lambda: infer(server, "mine").serial != first, server.text)


def test_poll_sees_a_new_configuration(tmp_path, opened):
    fill(tmp_path / "models", FORMS["files"])
    server = opened("--model-control-mode=poll", "--repository-poll-secs=1")
    assert infer(server, "mine").executions == 1
    (tmp_path / "models" / "config.pbtxt").write_text(IDENTITY)
    wait_until(lambda: infer(server, "mine").executions is None, server.text)


def test_namespaces(tmp_path, opened):
    fill(tmp_path / "models", FORMS["version"])
    assert infer(opened("--model-namespacing=true"), "mine").status == 200


def test_the_links_are_removed(tmp_path):
    """And the files are not."""
    fill(tmp_path / "models", FORMS["files"])
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    server = Server(tmp_path / "models", ("--model-name=mine",), under=("env", f"TMPDIR={temporary}"))
    [view] = [path for path in temporary.glob("neso-*/*/*") if path.is_dir()]
    assert (view / "1").resolve() == (tmp_path / "models").resolve()
    assert server.stop() == 0
    assert list(temporary.iterdir()) == []
    assert (tmp_path / "models" / "weights").exists()


def test_a_read_only_folder(tmp_path, opened):
    """As KServe mounts it."""
    fill(tmp_path / "models", FORMS["files"])
    (tmp_path / "models").chmod(0o555)
    assert infer(opened(), "mine").status == 200
    (tmp_path / "models").chmod(0o755)


@pytest.mark.parametrize("is_flat", [True, False])
def test_an_onnx_file(tmp_path, opened, is_flat):
    """What `storageUri` usually has: the file alone, without a configuration."""
    require_build(["onnxruntime"])
    folder = tmp_path / "models" if is_flat else tmp_path / "models" / "1"
    folder.mkdir(parents=True)
    shutil.copy(ONNX, folder / "model.onnx")
    server = opened(name="digits")
    config = requests.get(f"{server.url}/v2/models/digits/config", timeout=SECONDS).json()
    assert (config["name"], config["backend"]) == ("digits", "onnxruntime")
    assert requests.get(f"{server.url}/v2/models/digits/ready", timeout=SECONDS).status_code == 200
