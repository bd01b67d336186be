# SPDX-License-Identifier: BSD-3-Clause
"""Names of models and of files that would lead out of where they belong: all are refused, and
nothing outside is looked at or touched."""
import base64
import ctypes
import json
import os
import struct

import grpc
import pytest
import requests

from conftest import require_build
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from models import EXPLICIT, SECONDS, index, infer, load, model_text, opens_server
from wire import Wire, request

NAMES = [
    "..", ".", "../decoy", "../../decoy", "../decoy/1", "decoy/..", "./m", "m/", "m/.", "m/../m",
    "m/1", "/", "//", "/etc", "/etc/passwd", "{decoy}", "{decoy}/m", "..\\decoy", "\\", "m\\1",
    "...", "....", "..m", "m/..\\..", "~", "~root", "%2e%2e", "..%2fdecoy", "%2e%2e%2fdecoy",
    "m\n", "m\r\n", "\t", "m\x01", "m\x7f", "M", "m ", " m", "ｍ", "m․pbtxt", "．．", "．．／decoy",
    "m" * 300, "m" * 5000, "../" * 100 + "etc", "é", "e\u0301", "linked/../m", "file:///etc", "$HOME",
    "`id`", "$(id)", "*", "?", "m;ls",
]

FILES = [
    "", "/", "..", ".", "../decoy/x", "../../x", "1/../../x", "1/../../../x", "/etc/x", "{decoy}/x",
    "//x", "1//x", "1/", "./1/x", "1/./x", "1/..", "..\\x", "1\\..\\x", "1/a\\b", "1/\n", "1/\x01x",
    "1/\x7f", "a" * 256, "1/" + "a" * 256, "a/" * 600 + "x", "a/" * 17 + "x", "../" * 50 + "tmp/x",
    "1/x/../../../x", "1/\t", "\r", "C:\\x", "\\\\host\\x", "1/..\\..\\x", "../models/m/config.pbtxt",
    "../lock", "../../lock", "../0/x", "1/../lock", "....//../x", "1/x/", "/proc/self/fd/1/x",
]


class Watcher:
    """What is opened, read or changed in a folder, as inotify tells it."""

    def __init__(self, folder):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._fd >= 0
        assert self._libc.inotify_add_watch(self._fd, os.fsencode(folder), 0xFFF) >= 0

    def events(self):
        found = []
        try:
            pieces = os.read(self._fd, 65536)
        except BlockingIOError:
            return found
        while pieces:
            _, mask, _, length = struct.unpack_from("iIII", pieces)
            found.append((mask, pieces[16:16 + length].rstrip(b"\0")))
            pieces = pieces[16 + length:]
        return found

    def close(self):
        os.close(self._fd)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    require_build(("testing",))
    folder = tmp_path_factory.mktemp("place")
    decoy = folder / "decoy"
    (decoy / "1").mkdir(parents=True)
    (decoy / "config.pbtxt").write_text(model_text())
    (folder / "tmp").mkdir()
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder / "tmp")
    try:
        with opens_server(folder / "models", {"m": model_text()}, *EXPLICIT) as server:
            yield server, decoy
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


@pytest.fixture(autouse=True)
def untouched(place):
    """The watcher sees what it is there to see, and the decoy is as it was."""
    server, decoy = place
    watcher = Watcher(decoy)
    os.listdir(decoy)
    assert watcher.events()
    yield
    assert watcher.events() == []
    watcher.close()
    assert sorted(os.listdir(decoy.parent)) == ["decoy", "models", "tmp"]
    assert sorted(os.listdir(decoy.parent / "models")) == ["m"]
    assert [line[:1] for line in index(server)] == [("m",)]
    assert server.process.poll() is None


def quoted(name):
    """Escapes stay as they are: the paths of this protocol are not decoded."""
    return "".join(f"%{byte:02x}" for byte in name.encode())


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_names_of_models(place, stubs, number):
    server, decoy = place
    name = NAMES[number].format(decoy=decoy)
    for path in (quoted(name), requests.utils.quote(name, safe="/")):
        with Wire(server.http_port) as wire:
            wire.send(request("POST", f"/v2/repository/models/{path}/load"))
            answer = wire.read_answer()
            assert 400 <= answer.status <= 500, (name, answer)
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        code, _ = client.refusal("RepositoryModelLoad", {"model_name": name})
        assert code in ("INVALID_ARGUMENT", "INTERNAL"), name
        # With files of its own a model may have any plain name; one that is none is refused.
        if any(c in name for c in "/\\\n\r\t\x01") or name.strip() in (".", ".."):
            order = client.pb.RepositoryModelLoadRequest(model_name=name)
            order.parameters["config"].string_param = model_text(form="json")
            order.parameters["file:1/x"].bytes_param = b"x"
            with pytest.raises(grpc.RpcError) as caught:
                client.RepositoryModelLoad(order, timeout=SECONDS)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, name


def load_file(server, name, path):
    body = {"parameters": {"config": model_text(form="json"),
                           f"file:{path}": base64.b64encode(b"x").decode()}}
    return requests.post(f"{server.url}/v2/repository/models/{name}/load", json=body,
                         timeout=SECONDS)


@pytest.mark.parametrize("number", range(len(FILES)))
def test_names_of_files(place, stubs, number):
    server, decoy = place
    path = FILES[number].format(decoy=decoy)
    reply = load_file(server, "m", path)
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"].startswith("Invalid file parameter 'file:")
    assert reply.json()["error"].endswith("the path must stay within model directory.")
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        order = client.pb.RepositoryModelLoadRequest(model_name="m")
        order.parameters["config"].string_param = model_text(form="json")
        order.parameters[f"file:{path}"].bytes_param = b"x"
        with pytest.raises(grpc.RpcError) as caught:
            client.RepositoryModelLoad(order, timeout=SECONDS)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert infer(server, "m").status == 404  # never loaded


@pytest.mark.parametrize("name", ["m\0", "\0", "m\0/../../decoy", "..\0"])
def test_nul_in_names_of_models(place, stubs, name):
    server, _ = place
    reply = load(server, quoted(name), None)
    assert reply.status_code in (400, 500) and "%00" in reply.json()["error"]  # not decoded
    with open_channel(server) as channel:
        for method in ("RepositoryModelLoad", "RepositoryModelUnload"):
            assert Client(channel, stubs).refusal(method, {"model_name": name}) == (
                "INVALID_ARGUMENT", f"failed to parse the {method}Request message: a string "
                "contains a NUL character")
    assert infer(server, "m").status == 404


@pytest.mark.parametrize("key", ["file:1/x\0", "file:1/x\0/../../decoy", "file:\0", "config\0",
                                 "config\0x", "\0config"])
def test_nul_in_names_of_parameters(place, stubs, key):
    """It must not cut the name: "file:1/x\\0y" is not "file:1/x"."""
    server, _ = place
    value = base64.b64encode(b"x").decode() if key.startswith("file") else model_text(form="json")
    body = json.dumps({"parameters": {"config": model_text(form="json"), key: value}})
    assert "\\u0000" in body
    reply = requests.post(f"{server.url}/v2/repository/models/m/load", data=body, timeout=SECONDS)
    assert (reply.status_code, reply.json()["error"]) == (
        400, "the name of a load parameter contains a NUL character")
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        order = client.pb.RepositoryModelLoadRequest(model_name="m")
        order.parameters["config"].string_param = model_text(form="json")
        if key.startswith("file"):
            order.parameters[key].bytes_param = b"x"
        else:
            order.parameters[key].string_param = value
        with pytest.raises(grpc.RpcError) as caught:
            client.RepositoryModelLoad(order, timeout=SECONDS)
        assert "NUL" in caught.value.details()
    assert infer(server, "m").status == 404


def test_nul_in_a_configuration(place):
    server, _ = place
    reply = load(server, "m", None, config=model_text(form="json") + "\0 nonsense")
    assert (reply.status_code, reply.json()["error"]) == (
        400, "load parameter 'config' contains a NUL character")


def test_links_inside_a_model_lead_nowhere(place):
    """A label file that is a link out of the model's directory."""
    server, decoy = place
    model = server.repository / "m"
    (decoy.parent / "secret").write_text("secret\n")
    os.symlink(decoy.parent / "secret", model / "labels.txt")
    (model / "config.pbtxt").write_text(model_text(labels="labels.txt"))
    try:
        reply = load(server, "m", None)
        assert reply.status_code == 400
        assert "labels.txt" in reply.json()["error"]
        assert "secret\n" not in reply.json()["error"]
        for path in ("../../secret", "../secret", str(decoy.parent / "secret")):
            (model / "config.pbtxt").write_text(model_text(labels=path))
            assert load(server, "m", None).status_code == 400
    finally:
        os.remove(model / "labels.txt")
        os.remove(decoy.parent / "secret")
        (model / "config.pbtxt").write_text(model_text())


def test_there_are_enough():
    assert len(NAMES) >= 40 and len(FILES) >= 40
