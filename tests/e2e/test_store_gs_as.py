# SPDX-License-Identifier: BSD-3-Clause
"""Model repositories with the interfaces of Google Cloud Storage and Azure Blob Storage, in the stores of
token_server.py, which check each request."""
import contextlib
import gzip

import pytest

import token_server
from conftest import Server, require_build
from models import index, infer, load, model_text

BACKENDS = ("testing",)
TAKES_SECONDS = 10


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(BACKENDS)


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    for variable in ("TRITON_GCS_MOUNT_DIRECTORY", "TRITON_AZURE_MOUNT_DIRECTORY"):
        monkeypatch.setenv(variable, str(tmp_path))
    for variable in ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_SAS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    server = token_server.TokenServer()
    for name in "mn":
        put(server, name)
    yield server
    server.close()


def put(tokens, name, seed=1):
    tokens.objects[f"models/{name}/config.pbtxt"] = model_text().encode()
    tokens.objects[f"models/{name}/1/ä weights"] = bytes((i * seed) % 251 for i in range(10000))


@contextlib.contextmanager
def opens(address, *options):
    server = Server(address, options)
    try:
        yield server
    finally:
        assert server.stop() == 0, server.text()


def expect_copies(tmp_path, tokens, n):
    found = [path.read_bytes() for path in tmp_path.glob("folder*/[0-9]*/1/ä weights")]
    assert found == [tokens.objects["models/m/1/ä weights"]] * n


def test_google(tokens, tmp_path, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", tokens.host)
    with opens("gs://b/models") as server:
        assert [line[:3] for line in index(server)] == [("m", "1", "READY"), ("n", "1", "READY")]
        assert infer(server, "m").status == 200
        expect_copies(tmp_path, tokens, 2)
        assert server.text().count("gs://b/models: no credentials were found; requests are anonymous") == 1
    assert tokens.refusals == []


def test_google_compressed(tokens, tmp_path, monkeypatch):
    """The file is what was uploaded, as is its size and its checksum, and the log says what it is."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", tokens.host)
    name = "models/m/1/ä weights"
    tokens.objects[name] = gzip.compress(tokens.objects[name])
    tokens.gzipped.add(name)
    with opens("gs://b/models", "--model-control-mode=explicit", "--load-model=m") as server:
        assert infer(server, "m").status == 200
        expect_copies(tmp_path, tokens, 1)
        assert server.text().count(f"gs://b/{name}: the object has Content-Encoding: gzip; the model gets the bytes "
                                   "that are stored") == 1
    assert tokens.refusals == []


def workload(tokens, tmp_path, monkeypatch):
    tokens.bearer = "first token"
    (tmp_path / "token").write_text(tokens.subject, encoding="ascii")
    for name, value in (("FEDERATED_TOKEN_FILE", tmp_path / "token"), ("CLIENT_ID", "client"),
                        ("TENANT_ID", "tenant"), ("AUTHORITY_HOST", tokens.url)):
        monkeypatch.setenv(f"AZURE_{name}", str(value))
    return f"as://http://{tokens.host}/devstoreaccount1/b/models"


def test_azure(tokens, tmp_path, monkeypatch):
    """A token that the store does not accept any more is renewed once, and the load goes on."""
    with opens(workload(tokens, tmp_path, monkeypatch), "--model-control-mode=explicit") as server:
        load(server, "m")
        assert infer(server, "m").status == 200
        assert tokens.refusals == [] and tokens.count("POST /tenant") == 1
        tokens.bearer = "second token"
        tokens.bearers.clear()
        load(server, "n")
        expect_copies(tmp_path, tokens, 2)
        assert tokens.count("POST /tenant") == 2
        assert {why.partition(": ")[2] for why in tokens.refusals} == {"another token"}
        assert "requests are anonymous" not in server.text()
        assert "first token" not in server.text() and "second token" not in server.text()


def test_a_server_of_tokens_that_refuses(tokens, tmp_path, monkeypatch):
    """The start fails, and names what refused and why, but not what it was sent."""
    address = workload(tokens, tmp_path, monkeypatch)
    tokens.subject = "another subject"
    with pytest.raises(AssertionError) as failure:
        Server(address)
    assert f"failed to read model repository '{address}': {tokens.url}/tenant/oauth2/v2.0/token: " \
        "answered 403 (access_denied)" in str(failure.value)
    assert "subject.to.ken" not in str(failure.value)
