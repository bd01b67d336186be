# SPDX-License-Identifier: BSD-3-Clause
"""Repository agents: checksums that are right and wrong, a model that an agent moves, libraries
that are no agents."""
import hashlib
import os
import re
import shutil

import pytest
import requests

from conftest import BUILD, FIFO, Server, require_build, write_repository
from test_startup_and_stop import messages, serve

BACKENDS = ("identity",)
WEIGHTS = b"weights " * 50000  # more than one read of the agent
MD5 = hashlib.md5(WEIGHTS).hexdigest()
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()
ZEROS = {"MD5": "0" * 32, "SHA256": "0" * 64}


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(BACKENDS)


def config(*agents, tensor="INPUT0", more=""):
    """An identity model with agents: pairs of a name and a dict of parameters."""
    text = (f'backend: "identity"\n'
            f'input {{ name: "{tensor}" data_type: TYPE_FP32 dims: [-1] }}\n'
            f'output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }}\n{more}')
    for name, parameters in agents:
        pairs = "".join(f'parameters {{ key: "{key}" value: "{value}" }} '
                        for key, value in parameters.items())
        text += f'model_repository_agents {{ agents {{ name: "{name}" {pairs}}} }}\n'
    return text


def checked(parameters, **files):
    return {"config.pbtxt": config(("checksum", parameters)), "1/weights": WEIGHTS, **files}


def call(server, model, what):
    return requests.post(f"{server.url}/v2/repository/models/{model}/{what}", timeout=30)


def is_ready(server, model):
    return requests.get(f"{server.url}/v2/models/{model}/ready", timeout=20).status_code == 200


def assert_not_loaded(server, model, reason):
    """The client learns that it failed, the log why."""
    answer = call(server, model, "load")
    assert answer.status_code >= 400
    assert answer.json() == {
        "error": f"failed to load '{model}', failed to poll from model repository"}
    assert not is_ready(server, model)
    server.wait_for_line(re.escape(f"\"Poll failed for model directory '{model}': {reason}\""))


# ---- checksum -----------------------------------------------------------------------------------

RIGHT = {
    "md5": checked({"MD5:1/weights": MD5}),
    "sha256": checked({"SHA256:1/weights": SHA256}),
    "any_case": checked({"md5:1/weights": MD5.upper()}),
    "both": checked({"MD5:1/weights": MD5, "SHA256:1/weights": SHA256}),
    "empty_file": checked({"SHA256:empty": hashlib.sha256(b"").hexdigest()}, empty=b""),
    "none": checked({}),
}

# The parameter, its value, and the text of the refusal.
WRONG = {
    "md5_differs": ("MD5:1/weights", ZEROS["MD5"],
                    f"MD5 mismatch of file '1/weights': expected {ZEROS['MD5']}, found {MD5}"),
    "sha256_differs": ("SHA256:1/weights", ZEROS["SHA256"],
                       f"SHA256 mismatch of file '1/weights': expected {ZEROS['SHA256']}, found "
                       f"{SHA256}"),
    "no_form": ("1/weights", MD5,
                "parameter '1/weights' is not of the form <algorithm>:<file>"),
    "no_algorithm": ("CRC32:1/weights", "00",
                     "parameter 'CRC32:1/weights': the algorithm must be MD5 or SHA256"),
    "too_short": ("MD5:1/weights", "12",
                  "parameter 'MD5:1/weights': the value '12' is no MD5 digest of 32 hexadecimal "
                  "digits"),
    "no_digits": ("MD5:1/weights", "x" * 32,
                  f"parameter 'MD5:1/weights': the value '{'x' * 32}' is no MD5 digest of 32 "
                  "hexadecimal digits"),
    "no_file": ("MD5:1/nothing", MD5, "unable to open '1/nothing': No such file or directory"),
    "a_directory": ("MD5:1", MD5, "'1' is no regular file"),
    "a_pipe": ("MD5:pipe", MD5, "'pipe' is no regular file"),
    "upwards": ("MD5:../md5/1/weights", MD5,
                "'../md5/1/weights': the path must stay within the model directory"),
    "upwards_inside": ("MD5:1/../1/weights", MD5,
                       "'1/../1/weights': the path must stay within the model directory"),
    "absolute": ("MD5:/etc/hostname", MD5,
                 "'/etc/hostname': the path must stay within the model directory"),
    "empty": ("MD5:", MD5, "'': the path must stay within the model directory"),
    "by_link": ("MD5:out", MD5, "'out': the path must stay within the model directory"),
}


@pytest.fixture(scope="module")
def checking(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checksums")
    write_repository(folder, {**RIGHT, **{
        name: checked({key: value}, pipe=FIFO) for name, (key, value, _) in WRONG.items()}})
    (folder / "by_link" / "out").symlink_to(folder / "md5" / "1" / "weights")
    (folder / "md5" / "inside").symlink_to("1/weights")
    running = Server(folder, ("--model-control-mode=explicit", "--load-model=md5"))
    yield running
    assert running.stop() == 0


def test_agents_are_in_the_table_of_the_start(checking):
    rows = [[cell.strip() for cell in text.strip("|").split("|")]
            for text in messages(checking.text()) if text.startswith("|")]
    at = rows.index(["Repository Agent", "Path"])
    assert rows[at + 1] == ["checksum", str(
        BUILD / "repoagents" / "checksum" / "libtritonrepoagent_checksum.so")]


@pytest.mark.parametrize("model", RIGHT)
def test_right_checksum(checking, model):
    assert call(checking, model, "load").status_code == 200
    assert is_ready(checking, model)
    assert call(checking, model, "unload").status_code == 200


@pytest.mark.parametrize("model", WRONG)
def test_wrong_checksum(checking, model):
    assert_not_loaded(checking, model, "repository agent 'checksum' does not let model "
                                       f"'{model}' be loaded: {WRONG[model][2]}")


def test_link_within_the_model(checking):
    text = config(("checksum", {"MD5:inside": MD5}))
    (checking.repository / "md5" / "config.pbtxt").write_text(text)
    assert call(checking, "md5", "load").status_code == 200
    assert is_ready(checking, "md5")


def test_changed_file_leaves_the_old_model(checking):
    weights = checking.repository / "sha256" / "1" / "weights"
    assert call(checking, "sha256", "load").status_code == 200
    weights.write_bytes(WEIGHTS + b"more")
    assert call(checking, "sha256", "load").status_code >= 400
    assert is_ready(checking, "sha256")
    weights.write_bytes(WEIGHTS)
    assert call(checking, "sha256", "load").status_code == 200


def test_wrong_checksum_at_the_start(tmp_path):
    write_repository(tmp_path, {"good": RIGHT["md5"],
                                "bad": checked({"MD5:1/weights": ZEROS["MD5"]})})
    ended = serve(f"--model-repository={tmp_path}")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "error: creating server: Internal - failed to load all models")
    running = Server(tmp_path, ("--exit-on-error=false", "--strict-readiness=false"))
    assert is_ready(running, "good") and not is_ready(running, "bad")
    assert running.stop() == 0


# ---- other agents -------------------------------------------------------------------------------

def put_agent(folder, name, built_as=None):
    library = BUILD / "tests" / "e2e" / f"libtritonrepoagent_{built_as or name}.so"
    if not library.exists():
        pytest.skip(f"{library} is not built")
    (folder / name).mkdir(parents=True)
    shutil.copy(library, folder / name / f"libtritonrepoagent_{name}.so")


@pytest.fixture()
def moving(tmp_path, monkeypatch):
    """A server with the agents of this test; what it writes besides is in the folder "tmp"."""
    put_agent(tmp_path / "agents", "relocate")
    put_agent(tmp_path / "agents", "actionless")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    sealed = {"config.pbtxt": config(("relocate", {})),
              "sealed/config.pbtxt": config(tensor="SEALED")}
    write_repository(tmp_path / "models", {
        "moved": sealed,
        "unsealed": config(("relocate", {})),
        "spoilt": {**sealed, "sealed/config.pbtxt": config(more='name: "another"\n')},
        "missing": config(("nobody", {})),
        "actionless": config(("actionless", {})),
        "outside": config(("../agents/relocate", {})),
    })
    running = Server(tmp_path / "models", ("--model-control-mode=explicit",
                                           f"--repoagent-directory={tmp_path / 'agents'}"))
    running.tmp = tmp_path / "tmp"
    running.agents = tmp_path / "agents"
    yield running
    assert running.stop() == 0
    assert os.listdir(running.tmp) == []


def reported(server):
    """What the agent said since the start: directories, and actions."""
    lines = [text.removeprefix("relocate: ") for text in messages(server.text())
             if text.startswith("relocate: ")]
    return ([line.removeprefix("uses ") for line in lines if line.startswith("uses ")],
            [line.removeprefix("is told ") for line in lines if line.startswith("is told ")])


def wait_until_gone(server, directory):
    """It goes before the model's end is logged."""
    server.wait_for_line(r"successfully unloaded 'moved' version 1")
    assert not os.path.exists(directory)


def load_moved(server):
    """Returns once the log has what the agents said."""
    assert call(server, "moved", "load").status_code == 200
    server.wait_for_line("successfully loaded 'moved'")


def inputs(server, model):
    answer = requests.get(f"{server.url}/v2/models/{model}", timeout=20).json()
    return [one["name"] for one in answer["inputs"]]


def test_moved_model(moving):
    load_moved(moving)
    assert inputs(moving, "moved") == ["SEALED"]
    (first,), actions = reported(moving)
    assert actions == ["LOAD", "LOAD_COMPLETE"]
    assert first.startswith(str(moving.tmp)) and sorted(os.listdir(first)) == ["1", "config.pbtxt"]

    # Nothing has changed in the repository.
    assert call(moving, "moved", "load").status_code == 200
    assert reported(moving) == ([first], actions)

    (moving.repository / "moved" / "sealed" / "config.pbtxt").write_text(config(tensor="AGAIN"))
    assert call(moving, "moved", "load").status_code == 200
    assert inputs(moving, "moved") == ["AGAIN"]
    wait_until_gone(moving, first)
    (_, second), actions = reported(moving)
    assert actions == ["LOAD", "LOAD_COMPLETE", "LOAD", "LOAD_COMPLETE", "UNLOAD",
                       "UNLOAD_COMPLETE"]
    assert os.path.isdir(second)

    assert call(moving, "moved", "unload").status_code == 200
    wait_until_gone(moving, second)
    assert reported(moving)[1] == actions + ["UNLOAD", "UNLOAD_COMPLETE"]


def test_moved_model_at_the_stop(moving):
    assert call(moving, "moved", "load").status_code == 200
    assert moving.stop() == 0
    (directory,), actions = reported(moving)
    assert not os.path.exists(directory)
    assert actions == ["LOAD", "LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE"]


@pytest.mark.parametrize("model, reason", [
    ("unsealed", "repository agent 'relocate' does not let model 'unsealed' be loaded: nothing is "
                 "sealed"),
    ("spoilt", "unexpected directory name 'spoilt' for model 'another', directory name must equal "
               "model name"),
])
def test_failures_of_a_moved_model(moving, model, reason):
    assert_not_loaded(moving, model, reason)
    (directory,), actions = reported(moving)
    assert actions == ["LOAD", "LOAD_FAIL"]
    assert not os.path.exists(directory)


@pytest.mark.parametrize("model, reason", [
    ("missing", "unable to find the library of repository agent 'nobody' for model 'missing', "
                "searched: 'AGENTS/nobody/libtritonrepoagent_nobody.so'"),
    ("actionless", "unable to open repository agent 'actionless' for model 'actionless': unable to "
                   "find symbol 'TRITONREPOAGENT_ModelAction' in shared library "
                   "'AGENTS/actionless/libtritonrepoagent_actionless.so'"),
    ("outside", "repository agent name '../agents/relocate' of model 'outside' leads out of the "
                "repository agent directory 'AGENTS'"),
])
def test_libraries_that_cannot_be_used(moving, model, reason):
    assert_not_loaded(moving, model, re.sub("AGENTS", str(moving.agents), reason))
    assert reported(moving) == ([], [])
