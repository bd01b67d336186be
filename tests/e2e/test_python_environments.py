# SPDX-License-Identifier: BSD-3-Clause
"""Where a Python model's interpreter and program come from: environments of its own, unpacked archives,
and backends that are Python programs themselves.

Numbers in brackets are those of the list of acceptance checks in docs/python_models.md.
"""
import io
import json
import os
import subprocess
import tarfile
import time

import pytest
import requests

from conftest import BUILD, Server, write_repository
from python_programs import RUNNER, OPTIONS as PYTHON, PROGRAM, infer, run_program, model, code_input

BACKENDS = ("python",)
WHERE = "result = [sys.executable, os.environ.get('VIRTUAL_ENV'), os.environ['PATH'].split(':')[0]]"


def environment(name):
    return (f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{name}" }} }}\n')


def make_folder(folder):
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "activate").write_text("exit 1\n")  # nobody runs it
    (folder / "bin" / "python3").symlink_to("/usr/bin/python3")
    return folder


def add(archive, name, content=b"", **fields):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for key, value in fields.items():
        setattr(member, key, value)
    archive.addfile(member, io.BytesIO(content))


def make_archive(path, *members):
    with tarfile.open(path, "w:gz") as archive:
        add(archive, "./bin/activate")
        add(archive, "bin/python3", type=tarfile.SYMTYPE, linkname="/usr/bin/python3")
        for member in members:
            add(archive, **member)
    return path


@pytest.fixture(scope="module")
def environments(tmp_path_factory):
    """A server with models in three kinds of environments, and its folder."""
    folder = tmp_path_factory.mktemp("environments")
    make_folder(folder / "plain")
    make_archive(folder / "packed.tar.gz")
    models = {"plain": model(RUNNER, environment(folder / "plain")),
              "packed": model(RUNNER, environment(folder / "packed.tar.gz")),
              "packed_too": model(RUNNER, environment(folder / "packed.tar.gz")),
              "inside": {**model(RUNNER, environment("$$TRITON_MODEL_DIRECTORY/env")),
                         "env/bin/activate": ""}}
    write_repository(folder / "models", models)
    (folder / "models" / "inside" / "env" / "bin" / "python3").symlink_to("/usr/bin/python3")
    os.environ["LC_ALL"] = "xx_YY.nothing"
    try:
        server = Server(folder / "models", (
            *PYTHON, "--log-verbose=1", "--model-control-mode=explicit",
            *(f"--load-model={name}" for name in models)))
    finally:
        del os.environ["LC_ALL"]
    yield server, folder
    assert server.stop() == 0
    assert not [line for line in server.log if "python_env_" in line and "Error" in line]


def test_a_folder(environments):
    """(50)"""
    server, folder = environments
    assert run_program(server, WHERE, name="plain") == [
        str(folder / "plain/bin/python3"), str(folder / "plain"), str(folder / "plain/bin")]
    inside = folder / "models/inside/env"
    assert run_program(server, WHERE, name="inside") == [
        str(inside / "bin/python3"), str(inside), str(inside / "bin")]
    assert f"Using Python execution env {folder / 'plain'}" in server.text()  # before it was ready
    assert run_program(server, "result = os.environ['LC_ALL']", name="plain") == "xx_YY.nothing"


def test_an_archive_is_unpacked_once(environments):
    """(50)"""
    server, folder = environments
    one, two = (run_program(server, WHERE, name=name) for name in ("packed", "packed_too"))
    assert one == two and "python_env_" in one[1]
    line = f"Extracting Python execution env {os.path.realpath(folder / 'packed.tar.gz')}"
    assert server.text().count(line) == 1  # written before the server was ready
    os.utime(folder / "packed.tar.gz", (time.time(), time.time() + 100))
    assert requests.post(f"{server.url}/v2/repository/models/packed/load", json={},
                         timeout=60).status_code == 200
    os.utime(folder / "models/packed/1/model.py", (time.time(), time.time() + 100))
    assert requests.post(f"{server.url}/v2/repository/models/packed/load", json={},
                         timeout=60).status_code == 200
    assert run_program(server, WHERE, name="packed") != one
    server.wait_for_line(line)


BAD = {
    "Path contains '..'": [{"name": "a/../../b"}],
    "Path is absolute": [{"name": "/tmp/absolute"}],
    "Path leads through a link": [{"name": "out", "type": tarfile.SYMTYPE, "linkname": "/tmp"},
                                  {"name": "out/written", "content": b"x"}],
}


def test_archives_refused(tmp_path, monkeypatch):
    """(50) What was unpacked before the mistake is removed at once."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    models = {f"m{i}": model(RUNNER, environment(make_archive(tmp_path / f"{i}.tar.gz", *members)))
              for i, members in enumerate(BAD.values())}
    (tmp_path / "no.tar.gz").write_bytes(b"not an archive")
    models["no"] = model(RUNNER, environment(tmp_path / "no.tar.gz"))
    write_repository(tmp_path / "models", models)
    server = Server(tmp_path / "models", (*PYTHON, "--exit-on-error=false"))
    text = server.text()
    left = list(temporary.glob("python_env_*/*"))
    assert server.stop() == 0
    assert left == []
    for reason in (*BAD, "file could not be opened successfully"):
        assert f"no.tar.gz': {reason}" in text or f".tar.gz': {reason}" in text, reason
    assert not os.path.exists("/tmp/written") and not os.path.exists("/tmp/absolute")


def test_a_backend_that_is_a_python_program(tmp_path):
    """(10) Two models without programs of their own, run by <backends>/<name>/model.py."""
    backends = tmp_path / "backends"
    (backends / "shout").mkdir(parents=True)
    (backends / "python").symlink_to(BUILD / "backends" / "python")
    (backends / "shout" / "helper_of_shout.py").write_text("def loud(text):\n    return text.upper()\n")
    (backends / "shout" / "model.py").write_text(PROGRAM.replace(
        "import numpy as np", "import numpy as np\nfrom helper_of_shout import loud") + '''
    def execute(self, requests):
        return [answer([loud(code_of(r)), self.args["model_name"], pb_utils.get_model_dir()])
                for r in requests]
''')
    io_text = model("")["config.pbtxt"].split("\n", 1)[1]
    write_repository(tmp_path / "models", {n: f'backend: "shout"\n{io_text}' for n in ("one", "two")})
    server = Server(tmp_path / "models", (*PYTHON, f"--backend-directory={backends}"))
    try:
        for name in ("one", "two"):
            status, answer = infer(server, name, code_input("hey"))
            assert (status, answer["outputs"][0]["data"]) == (
                200, [f'["HEY", "{name}", "{tmp_path}/models/{name}/1"]'])
    finally:
        assert server.stop() == 0


def test_settings_of_a_backend_that_is_a_python_program(tmp_path):
    """Each program gets those with its name, also when the library was opened for another one."""
    backends = tmp_path / "backends"
    (backends / "python").parent.mkdir()
    (backends / "python").symlink_to(BUILD / "backends" / "python")
    for name in ("first", "second"):
        (backends / name).mkdir()
        (backends / name / "model.py").write_text(PROGRAM + '''
    def execute(self, requests):
        return [answer(pb_utils.get_backend_config()) for r in requests]
''')
    io_text = model("")["config.pbtxt"].split("\n", 1)[1]
    write_repository(tmp_path / "models", {n: f'backend: "{n}"\n{io_text}' for n in ("first", "second")})
    server = Server(tmp_path / "models", (
        *PYTHON, f"--backend-directory={backends}", "--backend-config=first,key=one",
        "--backend-config=second,key=two", '--backend-config=first,other="quoted"',
        "--backend-config=first,key=three"))
    try:
        for name, settings in (("first", {"key": "three", "other": '"quoted"'}), ("second", {"key": "two"})):
            status, found = infer(server, name, code_input("x"))
            assert (status, json.loads(found["outputs"][0]["data"][0])) == (200, settings)
    finally:
        assert server.stop() == 0


FAULTS = {
    "import os\nimport nothing_of_that_name\n": (
        "ModuleNotFoundError: No module named 'nothing_of_that_name'", 2),
    "from json import nothing\n": ("ImportError: cannot import name 'nothing' from 'json'", 1),
    "\n\nclass TritonPythonModel\n": ("SyntaxError: ", 3),
    "def f():\n    raise ValueError('why')\nf()\n": ("ValueError: why", 3),
}


@pytest.mark.parametrize("program", FAULTS)
def test_check_says_why_a_program_does_not_load(tmp_path, program):
    """File and line, and which interpreter could not import it."""
    text, line = FAULTS[program]
    write_repository(tmp_path, {"m": model(program)})
    make_folder(tmp_path / "env")
    (tmp_path / "m/config.pbtxt").write_text(model("", environment(tmp_path / "env"))["config.pbtxt"])
    run = subprocess.run([BUILD / "neso", "check", "--load", f"--backend-directory={BUILD}/backends",
                          tmp_path / "m"], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    out = run.stdout + run.stderr
    assert text in out and f"  {tmp_path}/m/1/model.py({line}): <module>\n" in out, out
    version = subprocess.run([tmp_path / "env/bin/python3", "-V"], capture_output=True, text=True,
                             check=True).stdout.strip()
    assert (f"The interpreter is {tmp_path}/env/bin/python3, {version}.\n" in out) == (
        "ValueError" not in text), out


def test_without_numpys_table(tmp_path):
    """(26)"""
    write_repository(tmp_path, {"lab": model(RUNNER)})
    os.environ["NESO_PYTHON_NUMPY_TABLE"] = "0"
    try:
        server = Server(tmp_path, PYTHON)
    finally:
        del os.environ["NESO_PYTHON_NUMPY_TABLE"]
    try:
        assert run_program(server, """
def same(a):
    t = pb_utils.Tensor("x", a)
    return [t.shape() == list(a.shape), t.as_numpy().tolist() == a.tolist(), t.triton_dtype()]
x = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
over = pb_utils.Tensor.from_dlpack("y", pb_utils.Tensor("x", x).to_dlpack()).as_numpy()
over[0, 0, 0] = 99
result = [c_utils._has_numpy_table(), same(x), same(x.T), same(np.zeros((2, 0), np.float64)),
          same(np.array([b"a", b""], dtype=object)), same(np.zeros((), np.float32)),
          int(x[0, 0, 0]), over.shape]
""") == [False, [True, True, 7], [True, True, 7], [True, True, 12], [True, True, 13],
         [True, True, 11], 99, [2, 3, 4]]
    finally:
        assert server.stop() == 0


def test_with_numpys_table(environments):
    """(26)"""
    assert run_program(environments[0], "result = c_utils._has_numpy_table()", name="plain") is True
