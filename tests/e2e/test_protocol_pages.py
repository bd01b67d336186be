# SPDX-License-Identifier: BSD-3-Clause
"""docs/http.md and docs/grpc.md: the examples run as they stand there and print what the pages show, and the tables
have every endpoint and method."""
import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, Server, patience, require_build, write_repository
from pages import blocks, read, steps

SECONDS = patience(60)
MARK = "end of the command"


@pytest.fixture(autouse=True)
def is_built():
    require_build(("identity", "onnxruntime", "repeat", "square"))


def matches(shown, printed):
    """`...` on the page stands for any text."""
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("..."))
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


def endpoints(protocol):
    text = subprocess.run([BUILD / "neso", "endpoints", "--json"], check=True, text=True, capture_output=True,
                          timeout=SECONDS).stdout
    return [(row["method"], row["path"]) for row in json.loads(text) if row["protocol"] == protocol]


def rows(page, heading):
    """The cells of the table of a section."""
    section = read(page).split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()
            if line.startswith("| ")][1:]


@pytest.fixture
def server(tmp_path):
    """As the command of docs/http.md starts it; docs/grpc.md has fewer models."""
    models = {"pair": next(text for text in blocks("http.md") if text.startswith("backend:"))}
    write_repository(tmp_path / "models", models)
    [command] = [command for text in blocks("http.md") for command, _ in steps(text) if "neso serve" in command]
    options = shlex.split(command.replace("\\\n", "").replace(" --model-repository models", "")
                          .replace("examples/", f"{ROOT}/examples/"))[2:]
    started = Server(tmp_path / "models", options)
    try:
        yield started
    finally:
        assert started.stop() == 0, started.text()


def test_commands_of_http(tmp_path, server):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    n = 0
    for text in blocks("http.md"):
        commands = [step for step in steps(text) if "neso serve" not in step[0]]
        script = "".join(f"{command}\nprintf '\\n%s\\n' '{MARK}'\n" for command, _ in commands)
        script = script.replace("curl ", "curl -s ").replace("localhost:8000", server.url).replace(
            "page_example", f"page_example_{os.getpid()}")
        printed = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
                                 timeout=SECONDS).stdout.split(f"\n{MARK}\n")
        for (command, shown), one in zip(commands, printed):
            assert matches(shown, one), f"{command}\n{one}"
            n += 1
    assert n > 20


def test_program_of_http(server):
    [program] = [text for text in blocks("http.md") if text.startswith("import requests")]
    printed = subprocess.run([sys.executable, "-c", program.replace("http://localhost:8000", server.url)], check=True,
                             capture_output=True, text=True, timeout=SECONDS).stdout
    assert printed == "".join(line[2:] + "\n" for line in program.splitlines() if line.startswith("# "))


def listed_endpoints():
    """Each method and path of the table, with and without a version."""
    for methods, paths, version, _ in rows("http.md", "Endpoints"):
        for method in methods.split(", "):
            for path in re.findall("`(.*?)`", paths):
                yield method, path
                if version and path.startswith("/v2/models/{m}"):
                    yield method, path.replace("{m}", "{m}/versions/{v}")


def is_described(path):
    """Left out of the table: what the text below it says, and registrations without a name, which are refused."""
    return not path.startswith(("/openai/", "/v2/repository/{*}")) and not re.search("memory/register$", path)


def test_endpoints_of_http():
    known = {(method, path.replace("{*}", "{file}")) for method, path in endpoints("http") if is_described(path)}
    assert set(listed_endpoints()) == known | {("GET", "/metrics")}


def test_session_of_grpc(tmp_path, server):
    """The Python of docs/grpc.md, typed into one interpreter."""
    pytest.importorskip("grpc_tools.protoc")
    [generate] = [command for text in blocks("grpc.md") for command, _ in steps(text) if "protoc" in command]
    (tmp_path / "proto").symlink_to(ROOT / "proto")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    subprocess.run(["bash", "-c", generate.replace("python3", sys.executable)], cwd=tmp_path, check=True,
                   timeout=SECONDS)
    session = "\n".join(text for text in blocks("grpc.md") if text.startswith(">>> "))
    (tmp_path / "session").write_text(session.replace("localhost:8001", f"127.0.0.1:{server.port('grpc')}"))
    # Messages are printed with an empty line behind them.
    run = "import doctest; print(doctest.testfile('session', False, optionflags=doctest.NORMALIZE_WHITESPACE))"
    ended = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False,
                           timeout=SECONDS)
    assert re.fullmatch(r"TestResults\(failed=0, attempted=[2-9]\d\)\n", ended.stdout), ended.stdout + ended.stderr


def test_methods_of_grpc():
    service = "/inference.GRPCInferenceService/"
    listed = {name for names, _, _ in rows("grpc.md", "Methods") for name in re.findall(r"`([A-Z]\w+)`", names)}
    known = {path.removeprefix(service) for _, path in endpoints("grpc") if path.startswith(service)}
    assert listed == known | {"Watch"}
