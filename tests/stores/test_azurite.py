# SPDX-License-Identifier: BSD-3-Clause
"""Azurite, Microsoft's own store with the interface of Azure Blob Storage: signatures of requests, listings in
pages, names and ETags, as it sees them; then models that are served from it.

It is the npm package that azurite/package-lock.json pins, in .deps/azurite, or where NESO_AZURITE says; without
it the module is skipped.
"""
import base64
import email.utils
import hashlib
import hmac
import json
import os
import pathlib
import re
import subprocess
import threading
import urllib.parse

import pytest
import requests

import token_server
from conftest import ROOT, e2e
from models import index, infer, load, model_text

AZURITE = pathlib.Path(os.environ.get("NESO_AZURITE", ROOT / ".deps" / "azurite")) / "node_modules" / ".bin" / \
    "azurite-blob"

pytestmark = pytest.mark.skipif(not AZURITE.exists(), reason=f"no {AZURITE}")

# The published account of the emulator.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
OBJECTS = {"models/a/config.pbtxt": b"max_batch_size: 8", "models/a/1/model.onnx": bytes(range(256)) * 1000,
           "models/odd ä+&=%41;x'(~)!/1/w*?.bin": b"odd", "models/empty": b"", "other/x": b"no"}
SECONDS = 60


class Azurite:
    def __init__(self, folder):
        self.process = subprocess.Popen(
            [AZURITE, "--blobPort", "0", "--blobHost", "127.0.0.1", "--location", folder, "--disableTelemetry"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.timer = threading.Timer(SECONDS, self.process.kill)  # a start that hangs ends the wait below
        self.timer.start()
        text = ""
        for line in self.process.stdout:
            text += line
            found = re.search(r"successfully listens? (?:at|on) http://127\.0\.0\.1:(\d+)", line)
            if found:
                break
        assert found, text
        self.timer.cancel()
        self.host = f"127.0.0.1:{found.group(1)}"

    def put(self, path, query, body, **more):
        """A signed PUT, by code that is not ours."""
        headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2020-10-02",
                   "content-length": str(len(body)), **{n.replace("_", "-"): v for n, v in more.items()}}
        question = token_server.Question("PUT", f"/{ACCOUNT}/{urllib.parse.quote(path)}", query, headers, body)
        headers["authorization"] = token_server.azure_authorization(question, ACCOUNT, KEY)
        answer = requests.put(f"http://{self.host}{question.path}?{query}", data=body, headers=headers,
                              timeout=SECONDS)
        assert answer.status_code == 201, answer.text

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def azurite(tmp_path_factory):
    store = Azurite(tmp_path_factory.mktemp("azurite"))
    try:
        store.put("container", "restype=container", b"")
        for name, body in OBJECTS.items():
            store.put(f"container/{name}", "", body, x_ms_blob_type="BlockBlob")
        yield store
    finally:
        store.stop()


def probe(azurite, *commands, **variables):
    result = subprocess.run(
        [e2e.BUILD / "tests/e2e/store_probe", f"as://http://{azurite.host}/{ACCOUNT}/container/models", *commands],
        env={"HOME": "/nonexistent", **variables}, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def expect_objects(azurite, **variables):
    """Lists in pages, then gets each object with the ETag of the list."""
    names = sorted(name for name in OBJECTS if name.startswith("models/"))
    whole, _, small = probe(azurite, "list", "page-size", "1", "list", **variables)
    assert [f"models/{entry['name']}" for entry in whole["entries"]] == names
    assert small["entries"] == whole["entries"] and small["pages"] >= len(names)
    commands = []
    for entry in whole["entries"]:
        body = OBJECTS[f"models/{entry['name']}"]
        assert entry["size"] == len(body)
        assert entry["md5"] == hashlib.md5(body).hexdigest()
        commands += ["if-match", entry["etag"], "get", f"{ACCOUNT}/container/{urllib.parse.quote('models/' + entry['name'])}"]
    answers = [found for found in probe(azurite, *commands, **variables) if found]
    assert [found["status"] for found in answers] == [200] * len(names), answers
    assert [len(found["body"]) > 0 for found in answers] == [len(OBJECTS[name]) > 0 for name in names]
    assert answers[names.index("models/a/config.pbtxt")]["body"] == "max_batch_size: 8"
    _, changed = probe(azurite, "if-match", '"0x0"', "get", f"{ACCOUNT}/container/models/a/config.pbtxt", **variables)
    assert changed["status"] == 412


def test_shared_key(azurite):
    expect_objects(azurite, AZURE_STORAGE_KEY=KEY)


def test_shared_access_signature(azurite):
    fields = {"sp": "rl", "ss": "b", "srt": "sco", "st": "", "se": "2100-01-01T00:00:00Z", "sip": "", "spr": "",
              "sv": "2019-12-12"}
    text = "\n".join([ACCOUNT, *fields.values(), ""])
    mac = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    token = urllib.parse.urlencode({**{n: v for n, v in fields.items() if v}, "sig": base64.b64encode(mac).decode()})
    expect_objects(azurite, AZURE_STORAGE_SAS_TOKEN=f"?{token}")


def test_refusals(azurite):
    other = base64.b64encode(b"another key").decode()
    listed, got = probe(azurite, "list", "get", f"{ACCOUNT}/container/models/a/config.pbtxt", AZURE_STORAGE_KEY=other)
    assert listed["error"] == "status 403"
    assert (got["status"], got["is_renewed"]) == (403, False)
    assert "AuthorizationFailure" in got["body"] or "AuthenticationFailed" in got["body"]
    missing, = probe(azurite, "get", f"{ACCOUNT}/container/models/none", AZURE_STORAGE_KEY=KEY)
    assert missing["status"] == 404


def test_models_are_served(azurite, tmp_path, monkeypatch):
    """A model whose contents change is fetched anew by a load; one that is unchanged is not."""
    e2e.require_build(("testing",))
    for name, value in (("TRITON_AZURE_MOUNT_DIRECTORY", tmp_path), ("AZURE_STORAGE_KEY", KEY)):
        monkeypatch.setenv(name, str(value))
    for name in ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_SAS_TOKEN", "TRITON_CLOUD_CREDENTIAL_PATH"):
        monkeypatch.delenv(name, raising=False)

    def put(weights):
        for name, body in (("m/config.pbtxt", model_text().encode()), ("m/1/weights", weights)):
            azurite.put(f"container/served/{name}", "", body, x_ms_blob_type="BlockBlob")

    def copies():
        return [path.read_bytes() for path in tmp_path.glob("folder*/[0-9]*/1/weights")]

    put(b"first" * 1000)
    server = e2e.Server(f"as://http://{azurite.host}/{ACCOUNT}/container/served", ["--model-control-mode=explicit"])
    try:
        load(server, "m")
        assert infer(server, "m").status == 200 and copies() == [b"first" * 1000]
        put(b"other" * 1000)
        load(server, "m")
        assert infer(server, "m").status == 200 and copies()[-1:] == [b"other" * 1000]
        assert index(server)[0][:3] == ("m", "1", "READY")
    finally:
        assert server.stop() == 0, server.text()
    assert KEY not in server.text()
