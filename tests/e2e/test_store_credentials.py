# SPDX-License-Identifier: BSD-3-Clause
"""Credentials of object stores against servers that check each signature, assertion and token
(token_server.py): where keys come from, how they are exchanged, and what becomes of refusals."""
import contextlib
import json
import os
import socket
import subprocess
import threading
import time

import pytest

import s3_server
import token_server
from conftest import BUILD, Server, patience, require_build
from models import load, model_text

TAKES_SECONDS = 25

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG+bPx", "to/ken+of=session"
ODD = "models/a b/1/ä+&=%41;x'(~).onnx"
ODD_IN_URL = token_server.urllib.parse.quote(ODD)


@pytest.fixture
def tokens():
    server = token_server.TokenServer()
    server.objects = {"models/a": b"first", ODD: b"second", "models/z/config.pbtxt": b"", "other/x": b"no"}
    yield server
    server.close()


class Lab:
    """Runs the probe with no variables but these, in a home of its own."""

    def __init__(self, tokens, home):
        self.tokens, self.home = tokens, home
        self.variables = {"HOME": str(home), "PATH": os.environ["PATH"], "no_proxy": "*"}
        for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.variables[name] = os.environ[name]
        self.secrets = [SECRET, TOKEN, KEY, tokens.subject, "container secret", "identity secret"]

    def set(self, **variables):
        self.variables.update(variables)

    def write(self, name, text):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run(self, address, *commands):
        """Returns the answers; no error has a secret in it."""
        result = subprocess.run([BUILD / "tests/e2e/store_probe", address, *commands], env=self.variables,
                                capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stderr
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        texts = [found["error"] for found in answers if "error" in found] + [result.stderr]
        for secret in self.secrets:
            assert not any(secret in text for text in texts), texts
        return answers

    def expect_objects(self, address):
        found = self.run(address, "get", "b/models/a", "get", f"b/{ODD_IN_URL}", "get", "b/models/none")
        assert [(a.get("status"), a.get("body")) for a in found] == [(200, "first"), (200, "second"), (404, "")], \
            (found, self.tokens.refusals)
        assert self.tokens.refusals == []


@pytest.fixture
def lab(tokens, tmp_path):
    return Lab(tokens, tmp_path)


# ---- AWS -----------------------------------------------------------------------------------------------------

@pytest.fixture
def s3(tokens, lab):
    """The address of a store; its keys are given out by the servers of tokens."""
    tokens.given = "ASIAGIVEN"
    tokens.aws_keys = {"ASIAGIVEN": (SECRET, TOKEN)}
    lab.set(AWS_REGION="eu-west-1", AWS_ENDPOINT_URL_STS=tokens.url, AWS_EC2_METADATA_DISABLED="true")
    return f"s3://http://{tokens.host}/b/models"


def test_keys_in_variables(tokens, lab, s3):
    lab.set(AWS_ACCESS_KEY_ID="ASIAGIVEN", AWS_SECRET_ACCESS_KEY=SECRET, AWS_SESSION_TOKEN=TOKEN)
    lab.expect_objects(s3)
    lab.set(AWS_SECRET_ACCESS_KEY="another")
    found, = lab.run(s3, "get", "b/models/a")
    assert (found["status"], found["is_renewed"]) == (403, False)
    assert tokens.refusals == ["GET /b/models/a: the signature is wrong"]


def test_hmac_keys_of_google_by_the_s3_form(tokens, lab, s3):
    tokens.aws_keys = {"GOOGEXAMPLE": (SECRET, None)}
    tokens.region = "auto"
    path = lab.write("cloud.json", json.dumps({"s3": {f"s3://http://{tokens.host}": {
        "key_id": "GOOGEXAMPLE", "secret_key": SECRET, "region": "auto"}}}))
    lab.set(TRITON_CLOUD_CREDENTIAL_PATH=path)
    lab.expect_objects(s3)


def test_web_identity(tokens, lab, s3):
    lab.set(AWS_WEB_IDENTITY_TOKEN_FILE=lab.write("token", tokens.subject + "\n"), AWS_ROLE_ARN="arn:aws:iam::1:role/r")
    lab.expect_objects(s3)
    assert tokens.count("POST /") == 1  # for all requests


def test_role_of_a_profile(tokens, lab, s3):
    tokens.aws_keys["BASE"] = ("base secret", None)
    lab.secrets.append("base secret")
    lab.write(".aws/credentials", "[base]\naws_access_key_id = BASE\naws_secret_access_key = base secret\n")
    lab.write(".aws/config", "[profile p]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n"
                             "external_id = ex/ternal\n")
    lab.set(AWS_PROFILE="p")
    lab.expect_objects(s3)


@pytest.mark.parametrize("way", ["variable", "file"])
def test_container(tokens, lab, s3, way):
    lab.set(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{tokens.url}/container")
    if way == "variable":
        lab.set(AWS_CONTAINER_AUTHORIZATION_TOKEN="container secret")
    else:
        lab.set(AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=lab.write("authorization", "container secret\n"))
    lab.expect_objects(s3)


def test_instance(tokens, lab, s3):
    lab.set(AWS_EC2_METADATA_DISABLED="false", AWS_EC2_METADATA_SERVICE_ENDPOINT=tokens.url + "/")
    lab.expect_objects(s3)
    assert tokens.count("PUT /latest/api/token") == 1


def test_no_proxy_for_a_metadata_service(tokens, lab, s3):
    """Link-local addresses are those of this machine: nothing is sent to a proxy."""
    del lab.variables["no_proxy"]
    lab.set(AWS_EC2_METADATA_DISABLED="false", AWS_EC2_METADATA_SERVICE_ENDPOINT="http://169.254.7.7:1",
            http_proxy=tokens.url)
    found, = lab.run(s3, "sign", "b/models/a")
    assert tokens.questions == []
    assert found["error"].startswith("http://169.254.7.7:1/latest/api/token: ")


def test_keys_that_are_refused_are_renewed_once(tokens, lab, s3):
    lab.set(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{tokens.url}/container",
            AWS_CONTAINER_AUTHORIZATION_TOKEN="container secret")
    requests = []

    def rotate():
        requests.append(1)
        if len(requests) == 2:
            tokens.given = "ASIANEW"
            tokens.aws_keys = {"ASIANEW": (SECRET + "2", TOKEN + "2")}

    tokens.on_object = rotate
    first, second, third = lab.run(s3, "get", "b/models/a", "get", "b/models/a", "get", "b/models/a")
    assert (first["status"], first["is_renewed"]) == (200, False)
    assert (second["status"], second["is_renewed"], second["body"]) == (200, True, "first")
    assert (third["status"], third["is_renewed"]) == (200, False)
    assert tokens.refusals == ["GET /b/models/a: an unknown key ASIAGIVEN"]
    assert tokens.count("GET /container") == 2

    tokens.aws_keys["ASIANEW"] = ("another", TOKEN)  # what is given out is not accepted
    tokens.on_object = lambda: tokens.aws_keys.clear()
    tokens.refusals.clear()
    found = lab.run(s3, "get", "b/models/a", "get", "b/models/a")
    assert [(a["status"], a["is_renewed"]) for a in found] == [(403, False)] * 2


def test_server_of_tokens_that_fails(tokens, lab, s3):
    lab.set(AWS_WEB_IDENTITY_TOKEN_FILE=lab.write("token", tokens.subject), AWS_ROLE_ARN="arn:aws:iam::1:role/r")
    tokens.fails_with = [500, 429, 400]
    found = lab.run(s3, *["get", "b/models/a"] * 4)
    place = f"the role 'arn:aws:iam::1:role/r': {tokens.url}/: answered"
    assert [(a.get("error"), a.get("code"), a.get("status")) for a in found] == [
        (f"{place} 500 (a_reason)", "Unavailable", None), (f"{place} 429 (a_reason)", "Unavailable", None),
        (f"{place} 400 (a_reason)", "Invalid argument", None), (None, None, 200)]
    tokens.subject = "another"
    found, = lab.run(s3, "get", "b/models/a")
    assert found["error"] == f"{place} 403 (access_denied)"
    tokens.close()
    found, = lab.run(s3, "get", "b/models/a")
    assert found["code"] == "Unavailable"
    assert found["error"].startswith(f"the role 'arn:aws:iam::1:role/r': {tokens.url}/: ") or \
        found["error"].startswith(f"{tokens.url}/: "), found


def test_an_answer_with_keys_that_never_ends(lab, s3):
    """A byte now and then is no progress: all requests to the store wait for the keys."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
                while not ended.wait(0.2):
                    connection.sendall(b" ")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/keys"
        lab.set(AWS_CONTAINER_CREDENTIALS_FULL_URI=url)
        begin = time.monotonic()
        found, = lab.run(s3, "get", "b/models/a")
        assert time.monotonic() - begin < 30
        ended.set()
        thread.join(10)
    assert found["code"] == "Unavailable" and found["error"].startswith(f"{url}: "), found


def test_a_stop_ends_a_request_for_keys(tmp_path, monkeypatch):
    """STS gives keys that expire at once, and then no answer; its time is 10 s."""
    require_build(("testing",))
    (tmp_path / "token").write_text("subject.to.ken", encoding="utf-8")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    tokens, asked, may_end = token_server.TokenServer(), threading.Event(), threading.Event()
    tokens.given, tokens.aws_keys, tokens.life_s = "ASIAGIVEN", {"ASIAGIVEN": (SECRET, TOKEN)}, 0
    for name, value in (("AWS_WEB_IDENTITY_TOKEN_FILE", tmp_path / "token"), ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
                        ("AWS_ENDPOINT_URL_STS", tokens.url), ("AWS_REGION", "eu-west-1"), ("HOME", tmp_path),
                        ("TRITON_AWS_MOUNT_DIRECTORY", tmp_path)):
        monkeypatch.setenv(name, str(value))
    with s3_server.ObjectServer() as store:
        store.put_model("models", "m", {"config.pbtxt": model_text()})
        server = Server(f"s3://{store.origin}/models", ["--model-control-mode=explicit"])
        serve = tokens.serve

        def hold(question):
            asked.set()
            may_end.wait(patience(60))
            return serve(question)

        tokens.serve = hold
        loading = threading.Thread(target=load_until_stop, args=(server,), daemon=True)
        try:
            loading.start()
            assert asked.wait(patience(20)), server.text()
            begin = time.monotonic()
        finally:
            code = server.stop()
            end = time.monotonic()
            may_end.set()
        assert code == 0 and end - begin < 8, server.text()
        loading.join(20)
    tokens.close()


def load_until_stop(server):
    with contextlib.suppress(OSError):
        load(server, "m", None)


def test_a_token_of_a_session_that_has_expired(tmp_path, monkeypatch):
    """S3 answers 400 to it: a load goes on with the keys that the file has by then."""
    require_build(("testing",))
    path = tmp_path / "cloud.json"

    def write(token):
        path.write_text(json.dumps({"s3": {"": {"key_id": "A", "secret_key": SECRET, "session_token": token}}}),
                        encoding="utf-8")

    write("first token")
    monkeypatch.setenv("TRITON_CLOUD_CREDENTIAL_PATH", str(path))
    monkeypatch.setenv("TRITON_AWS_MOUNT_DIRECTORY", str(tmp_path))
    with s3_server.ObjectServer() as store:
        store.put_model("models", "m", {"config.pbtxt": model_text(), "1/weights": b"text"})
        server = Server(f"s3://{store.origin}/models", ["--model-control-mode=explicit"])
        try:
            store.faults.append(s3_server.Fault("weights", status=400, code="ExpiredToken",
                                                call=lambda: write("second token")))
            load(server, "m")
        finally:
            assert server.stop() == 0, server.text()
        tokens_sent = [request.headers.get("x-amz-security-token") for request in store.requests
                       if request.path.endswith("weights")]
    assert tokens_sent == ["first token", "second token"]
    assert "first token" not in server.text() and "second token" not in server.text()


# ---- Google --------------------------------------------------------------------------------------------------

def expect_bearer(lab, token):
    found, = lab.run("gs://b/models", "sign", "storage/v1/b/b/o")
    assert found.get("headers") == {"authorization": f"Bearer {token}"}, (found, lab.tokens.refusals)
    assert found["url"] == "https://storage.googleapis.com/storage/v1/b/b/o"
    assert lab.tokens.refusals == []


@pytest.mark.parametrize("form", ["PKCS #8", "PKCS #1"])
def test_service_account(tokens, lab, form):
    key, public = lab.home / "key.pem", lab.home / "public.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key],
                   check=True, capture_output=True)
    if form == "PKCS #1":
        subprocess.run(["openssl", "pkey", "-in", key, "-traditional", "-out", lab.home / "old.pem"], check=True)
        key = lab.home / "old.pem"
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
    tokens.public_key, tokens.bearer = public, "ya29.token"
    path = lab.write("account.json", json.dumps({
        "type": "service_account", "project_id": "p", "private_key_id": "key-1", "private_key": key.read_text(),
        "client_email": "a@p.iam.gserviceaccount.com", "token_uri": f"{tokens.url}/google/token"}))
    lab.set(GOOGLE_APPLICATION_CREDENTIALS=path)
    expect_bearer(lab, "ya29.token")

    other = lab.home / "other.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-out", key], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", other], check=True)
    tokens.public_key = other
    found, = lab.run("gs://b/models", "sign", "x")
    assert found["error"] == f"the account of '{path}': {tokens.url}/google/token: answered 403 (access_denied)"
    assert tokens.refusals == ["POST /google/token: the signature is wrong"]


def test_user(tokens, lab):
    tokens.bearer = "user token"
    lab.write(".config/gcloud/application_default_credentials.json", json.dumps({
        "type": "authorized_user", "client_id": "i", "client_secret": "s&t", "refresh_token": "1//r",
        "token_uri": f"{tokens.url}/google/token"}))
    expect_bearer(lab, "user token")


@pytest.mark.parametrize("impersonates", [False, True])
def test_external_account(tokens, lab, impersonates):
    tokens.bearer = "federated"
    account = {"type": "external_account", "audience": "//iam/pool", "token_url": f"{tokens.url}/google/token",
               "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
               "credential_source": {"file": lab.write("subject", tokens.subject)}}
    if impersonates:
        account["service_account_impersonation_url"] = f"{tokens.url}/google/impersonate"
    path = lab.write("account.json", json.dumps(account))
    lab.set(TRITON_CLOUD_CREDENTIAL_PATH=lab.write("cloud.json", json.dumps({"gs": {"": path}})))
    expect_bearer(lab, "impersonated" if impersonates else "federated")


def test_machine_of_google(tokens, lab):
    tokens.bearer = "machine token"
    lab.set(GCE_METADATA_HOST=tokens.host)
    expect_bearer(lab, "machine token")


def test_emulator(tokens, lab):
    lab.set(STORAGE_EMULATOR_HOST=tokens.host)
    whole, _, small, got = lab.run("gs://b/models", "list", "page-size", "1", "list", "get",
                                   f"storage/v1/b/b/o/{token_server.quote(ODD)}?alt=media")
    names = sorted(name.removeprefix("models/") for name in tokens.objects if name.startswith("models/"))
    assert tokens.refusals == []
    assert [e["name"] for e in whole["entries"]] == names and whole["pages"] == 1
    assert [e["name"] for e in small["entries"]] == names and small["pages"] == 3
    assert {e["name"]: (e["size"], e["md5"]) for e in whole["entries"]}["a"] == \
        (5, token_server.hashlib.md5(b"first").hexdigest())
    assert (got["status"], got["body"]) == (200, "second")


def test_answers_that_are_none(tokens, lab):
    """Bounded, and an error that names the server; the next request asks again."""
    lab.set(GCE_METADATA_HOST=tokens.host)
    tokens.bearer = "machine token"
    place = f"{tokens.url}/computeMetadata/v1/instance/service-accounts/default/token"
    tokens.fails_with = [b"x" * (1 << 20), b'{"access_token":"' + b"x" * (1 << 20) + b'"}', b"[" * 50000]
    found = lab.run("gs://b/models", *["sign", "x"] * 4)
    assert [a.get("error") for a in found[:2]] == [f"{place}: the answer is longer than 65536 bytes"] * 2
    assert found[2]["error"] == f"{place}: the answer is not of Google's metadata service"
    assert found[3]["headers"] == {"authorization": "Bearer machine token"}


# ---- Azure ---------------------------------------------------------------------------------------------------

def expect_blobs(lab):
    address = f"as://http://{lab.tokens.host}/devstoreaccount1/b/models"
    whole, _, small, got = lab.run(address, "list", "page-size", "2", "list", "get",
                                   f"devstoreaccount1/b/{ODD_IN_URL}")
    assert lab.tokens.refusals == []
    names = sorted(name.removeprefix("models/") for name in lab.tokens.objects if name.startswith("models/"))
    assert [e["name"] for e in whole["entries"]] == names and whole["pages"] == 1
    assert [e["name"] for e in small["entries"]] == names and small["pages"] == 2
    assert whole["entries"][0]["etag"] == f'"{lab.tokens.etag("models/a")}"'
    assert (got["status"], got["body"]) == (200, "second")


def test_shared_key(tokens, lab):
    tokens.azure_key = KEY
    lab.set(AZURE_STORAGE_KEY=KEY)
    expect_blobs(lab)


def test_workload_identity(tokens, lab):
    tokens.bearer = "workload token"
    lab.set(AZURE_FEDERATED_TOKEN_FILE=lab.write("token", tokens.subject), AZURE_CLIENT_ID="client",
            AZURE_TENANT_ID="tenant", AZURE_AUTHORITY_HOST=tokens.url)
    expect_blobs(lab)
    assert tokens.count("POST /tenant") == 1


def test_managed_identity_of_a_machine(tokens, lab):
    tokens.bearer = "machine token"
    lab.set(AZURE_POD_IDENTITY_AUTHORITY_HOST=tokens.url, AZURE_CLIENT_ID="client")
    expect_blobs(lab)


def test_managed_identity_of_a_service(tokens, lab):
    tokens.bearer = "service token"
    lab.set(IDENTITY_ENDPOINT=f"{tokens.url}/msi/token", IDENTITY_HEADER="identity secret", AZURE_CLIENT_ID="client")
    expect_blobs(lab)
