# SPDX-License-Identifier: BSD-3-Clause
"""OpenStack Swift with the interface of S3."""
import contextlib
import os
import shutil

import pytest
import requests

from conftest import e2e
from swift_server import REGION, Swift, wait_until

pytestmark = pytest.mark.skipif(shutil.which("swift-proxy-server") is None,
                                reason="swift is not installed")
BUCKET = "models"
MIB = 1 << 20
CONFIG = """backend: "testing" max_batch_size: 0
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "EXECUTIONS" data_type: TYPE_INT64 dims: 1 }
output { name: "SERIAL" data_type: TYPE_INT64 dims: 1 }
instance_group { kind: KIND_CPU }
"""


@pytest.fixture(scope="module")
def swift(tmp_path_factory):
    with Swift(tmp_path_factory.mktemp("swift")) as store:
        assert store.request("PUT", f"/{BUCKET}").status == 200
        yield store


@pytest.fixture
def keys(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", Swift.key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", Swift.secret)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)


@contextlib.contextmanager
def opens(store, path, *options):
    server = e2e.Server(f"s3://{store.origin}/{BUCKET}/{path}", options)
    try:
        yield server
    finally:
        assert server.stop() == 0, server.text()


def put_model(store, path, weights):
    store.put(BUCKET, f"{path}/config.pbtxt", CONFIG.encode())
    store.put(BUCKET, f"{path}/1/weights", weights)


def order(server, verb, name):
    return requests.post(f"{server.url}/v2/repository/models/{name}/{verb}", timeout=60)


def serves(server, name):
    return requests.get(f"{server.url}/v2/models/{name}/ready", timeout=60).status_code == 200


def test_models_are_served(swift, keys, place):
    weights = os.urandom(20 * MIB + 3)
    put_model(swift, "plain/m", weights)
    put_model(swift, "plain/n", b"small")
    swift.put(BUCKET, "plain/m/1/name with + and &", b"text")
    with opens(swift, "plain") as server:
        assert serves(server, "m") and serves(server, "n")
        found = {path.read_bytes() for path in place.glob("folder*/[0-9]*/1/weights")}
        assert found == {weights, b"small"}
        assert len(list(place.glob("folder*/[0-9]*/1/name with + and &"))) == 1
    assert list(place.iterdir()) == []


def test_a_change_is_loaded(swift, keys, place):
    put_model(swift, "changes/m", b"one")
    with opens(swift, "changes", "--model-control-mode=explicit") as server:
        assert order(server, "load", "m").status_code == 200
        swift.put(BUCKET, "changes/m/1/weights", b"two")
        assert order(server, "load", "m").status_code == 200
        wait_until(lambda: [path.read_bytes() for path in place.glob(
            "folder*/[0-9]*/1/weights")] == [b"two"])  # the old copy goes with its model
        swift.delete(BUCKET, "changes/m/1/weights")
        swift.delete(BUCKET, "changes/m/config.pbtxt")
        assert order(server, "load", "m").status_code == 500
        assert serves(server, "m")


def test_pages(swift, keys, place):
    for i in range(1005):
        swift.put(BUCKET, f"pages/m/1/part{i:04}", b"x")
    swift.put(BUCKET, "pages/m/config.pbtxt", CONFIG.encode())
    with opens(swift, "pages") as server:
        assert serves(server, "m")
        assert len(list(place.glob("folder*/[0-9]*/1/part*"))) == 1005


def test_wrong_keys(swift, keys, place, monkeypatch):
    put_model(swift, "plain/m", b"x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(AssertionError) as failure:
        with opens(swift, "plain"):
            pass
    assert "HTTP status 403, SignatureDoesNotMatch" in str(failure.value)
