# SPDX-License-Identifier: BSD-3-Clause
"""The names of test_model_paths.py again, with strace(1) looking on: of all paths that the process
hands to the kernel while it is asked for them, none leads out of the repository. That says more
than inotify, which sees one folder, and of it what is opened, not what is asked about."""
import os
import re
import shutil
import subprocess

import grpc
import pytest
import requests

from conftest import BUILD, Server, is_sanitized, require_build, write_repository
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from models import EXPLICIT, SECONDS, load, model_text, unload
from test_model_paths import FILES, NAMES, load_file, quoted
from wire import Wire, request

STRACE = ("strace", "-f", "-qq", "-s", "16384", "-e", "trace=%file")
MARK = "/mark-of-path-cases"
PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What is asked of them says nothing about a model: the C library's and the process's own. The C library reads
# overcommit_memory when it first returns the end of a thread's heap.
HARMLESS = re.compile(r"/proc/self/[a-z/]*|/proc/sys/vm/overcommit_memory|/sys/devices/system/[a-z0-9/]*|"
                      r"/etc/localtime|/dev/null")


def can_trace():
    if shutil.which("strace") is None or is_sanitized():
        return False
    return subprocess.run([*STRACE, "-o", "/dev/null", "true"], check=False,
                          capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not can_trace(), reason="strace is not there, or may not trace")


def paths_of(line):
    """The paths of a line of strace; "" is the descriptor beside it."""
    return [path.encode().decode("unicode_escape") for path in PATH.findall(line) if path]


def strangers(lines, *folders):
    """Paths that are not plainly in one of these folders."""
    found = []
    for line in lines:
        for path in paths_of(line):
            inside = any(path == str(f) or path.startswith(f"{f}/") for f in folders)
            if (".." in path.split("/") or not inside) and not HARMLESS.fullmatch(path):
                found.append(line)
    return found


def read(trace, begin=0):
    return trace.read_text(encoding="latin-1").splitlines()[begin:]


@pytest.fixture
def place(tmp_path, monkeypatch):
    require_build(("testing",))
    write_repository(tmp_path / "models", {"m": model_text()})
    (tmp_path / "decoy" / "1").mkdir(parents=True)
    (tmp_path / "decoy" / "config.pbtxt").write_text(model_text())
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


def names(place):
    return [name.format(decoy=place / "decoy") for name in NAMES]


def files(place):
    return [file.format(decoy=place / "decoy") for file in FILES]


def ask_over_http(server, place):
    for name in names(place):
        for verb in ("load", "unload"):
            for path in (quoted(name), requests.utils.quote(name, safe="/")):
                with Wire(server.http_port) as wire:
                    wire.send(request("POST", f"/v2/repository/models/{path}/{verb}"))
                    wire.read_answer()
    for file in files(place):
        assert load_file(server, "m", file).status_code == 400


def ask_over_grpc(server, place, stubs):
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        for name in names(place):
            client.refusal("RepositoryModelLoad", {"model_name": name})
            try:
                client.call("RepositoryModelUnload", {"model_name": name})
            except grpc.RpcError:
                pass
        for file in files(place):
            order = client.pb.RepositoryModelLoadRequest(model_name="m")
            order.parameters["config"].string_param = model_text(form="json")
            order.parameters[f"file:{file}"].bytes_param = b"x"
            with pytest.raises(grpc.RpcError):
                client.RepositoryModelLoad(order, timeout=SECONDS)


@pytest.mark.parametrize("way", ("http", "grpc"))
def test_over_the_network(place, way, stubs):
    trace = place / "trace"
    server = Server(place / "models", EXPLICIT, under=(*STRACE, "-D", "-o", str(trace)))
    begin = len(read(trace))
    if way == "http":
        ask_over_http(server, place)
    else:
        ask_over_grpc(server, place, stubs)
    lines = read(trace, begin)
    # It does see what the process asks for: the repository was looked into for the plain ones.
    assert sum(f'"{place / "models"}"' in line for line in lines) >= 10
    assert strangers(lines, place / "models") == []
    # And what a model of the repository brings with it.
    begin = len(read(trace))
    load(server, "m")
    unload(server, "m")
    assert any(f'"{place / "models"}/m/config.pbtxt"' in line for line in read(trace, begin))
    assert server.stop() == 0, server.text()
    assert os.listdir(place / "tmp") == []


def test_in_a_program(place):
    program = BUILD / "tests" / "e2e" / "path_cases"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    asked = [(name, None) for name in names(place)] + [("m", file) for file in files(place)]
    cases = "".join(f"{name.encode().hex()} {'-' if file is None else file.encode().hex()}\n"
                    for name, file in asked)
    ended = subprocess.run([*STRACE, "-o", place / "trace", program, place / "models",
                            BUILD / "backends"], input=cases, text=True, timeout=120, check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert ended.returncode == 0, ended.stderr
    # Refused: the texts of some names have newlines, so lines are found by their codes.
    assert len(re.findall(r"^[13] ", ended.stdout, re.MULTILINE)) >= len(asked)
    assert "-1 " not in ended.stdout
    lines = read(place / "trace")
    marks = [i for i, line in enumerate(lines) if f'"{MARK}"' in line]
    assert len(marks) == 2
    lines = lines[marks[0] + 1:marks[1]]
    assert sum(f'"{place / "models"}"' in line for line in lines) >= 10
    assert strangers(lines, place / "models") == []
    assert os.listdir(place / "tmp") == []


@pytest.mark.parametrize("line,is_strange", [
    ('7 openat(AT_FDCWD, "/r/models/m/config.pbtxt", O_RDONLY) = 3', False),
    ('7 openat(AT_FDCWD, "/r/models", O_RDONLY) = 3', False),
    ('7 newfstatat(3, "", {st_mode=S_IFREG}, AT_EMPTY_PATH) = 0', False),
    ('7 openat(AT_FDCWD, "/proc/self/maps", O_RDONLY) = 3', False),
    ('7 openat(AT_FDCWD, "/proc/sys/vm/overcommit_memory", O_RDONLY) = 3', False),
    ('7 openat(AT_FDCWD, "/proc/sys/vm/../overcommit_memory", O_RDONLY) = 3', True),
    ('7 openat(AT_FDCWD, "/r/models/../decoy", O_RDONLY) = 3', True),
    ('7 newfstatat(AT_FDCWD, "/r/models/m/../../decoy", {}, 0) = 0', True),
    ('7 openat(AT_FDCWD, "/r/models2", O_RDONLY) = 3', True),
    ('7 openat(AT_FDCWD, "decoy", O_RDONLY) = 3', True),
    ('7 openat(3, "..", O_RDONLY) = 4', True),
    ('7 access("/etc/passwd", R_OK) = 0', True),
    ('7 rename("/r/models/a", "/etc/a") = 0', True),
    ('7 openat2(3, "1/\\t", {flags=O_RDONLY}, 24) = 4', True),
])
def test_the_look_itself(line, is_strange):
    assert bool(strangers([line], "/r/models")) == is_strange


def test_there_are_enough():
    assert len(set(NAMES)) >= 40 and len(set(FILES)) >= 40
