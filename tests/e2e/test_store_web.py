# SPDX-License-Identifier: BSD-3-Clause
"""Model repositories behind a web server, which have an index file."""
import contextlib
import http.server
import json
import threading

import pytest

from conftest import Server, require_build
from models import index, infer, load, model_text, wait_until
from s3_server import Fault, ObjectServer

TAKES_SECONDS = 15
BACKENDS = ("testing",)
MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(BACKENDS)


@pytest.fixture
def store():
    with ObjectServer() as opened:
        yield opened


@pytest.fixture
def cache(tmp_path):
    """For the web, local copies lie in the directory of the cache."""
    return tmp_path / "cache"


@contextlib.contextmanager
def opens(address, cache, *options):
    server = Server(address, (f"--repository-cache-directory={cache}", *options))
    try:
        yield server
    finally:
        assert server.stop() == 0, server.text()


def put(store, name="m", n=1000):
    store.put_model("models", name, {"config.pbtxt": model_text(), "1/weights": b"x" * n})
    store.put_index("models")


def copies(cache):
    return list(cache.glob("folder*/[0-9]*/1/weights"))


def test_models_are_served(store, cache):
    put(store, n=17 * MIB)
    with opens(f"{store.origin}/models/", cache) as server:
        assert [line[:3] for line in index(server)] == [("m", "1", "READY")]
        assert infer(server, "m").status == 200
        assert copies(cache)[0].read_bytes() == b"x" * 17 * MIB
        assert store.gets("index.json") == 1 and store.gets("weights") == 3
    store.requests.clear()
    with opens(f"{store.origin}/models", cache):
        assert [request.path for request in store.requests] == ["/models/index.json"]


def test_a_wrong_checksum(store, cache):
    put(store)
    files = json.loads(store.buckets["models"]["index.json"].data)
    for entry in files["files"]:
        if "weights" in entry["path"]:
            entry["sha256"] = "0" * 64
    store.put("models", "index.json", json.dumps(files))
    with opens(f"{store.origin}/models", cache, "--exit-on-error=false") as server:
        wait_until(lambda: f"failed to load 'm': {store.origin}/models/m/1/weights: what was "
                   "fetched has another checksum than the object" in server.text(), server.text)
        assert copies(cache) == []


@pytest.mark.parametrize("text, why", [
    ("{}", "index.json has no 'files'"),
    ('{"files": [{"path": "m/config.pbtxt"}]}',
     "index.json: file 'm/config.pbtxt': it has no 'size'"),
    ('{"files": [', "index.json: "),
])
def test_a_wrong_index(store, cache, text, why):
    store.put("models", "index.json", text)
    with opens(f"{store.origin}/models", cache, "--exit-on-error=false") as server:
        assert f"failed to read model repository '{store.origin}/models': " in server.text()
        assert why in server.text()


def test_a_missing_index(store, cache):
    store.put("models", "m/config.pbtxt", model_text())
    with opens(f"{store.origin}/models", cache, "--exit-on-error=false") as server:
        assert f"{store.origin}/models/index.json: HTTP status 404" in server.text()


def test_the_index_is_read_again_when_a_file_has_changed(store, cache):
    put(store)
    store.faults.append(Fault("weights", call=lambda: put(store, n=2000)))
    with opens(f"{store.origin}/models", cache, "--model-control-mode=explicit") as server:
        load(server, "m")
        assert copies(cache)[0].read_bytes() == b"x" * 2000


def test_weak_etags(store, cache):
    """They are compared with the ETag of the answer: as a condition they never hold."""
    def put_weak(n, tag):
        put(store, n=n)
        for path, found in store.buckets["models"].items():
            if path != "index.json":
                found.etag = f'W/"{tag}"'
        store.put_index("models", with_sha256=False)

    put_weak(9 * MIB, 1)
    with opens(f"{store.origin}/models", cache, "--model-control-mode=explicit") as server:
        load(server, "m")
        assert copies(cache)[0].read_bytes() == b"x" * 9 * MIB
        assert not any("If-Match" in request.headers for request in store.requests)
        put_weak(1000, 2)
        store.faults.append(Fault("weights", call=lambda: put_weak(1000, 3)))
        load(server, "m")
        assert "the object was changed or removed after it was listed" in server.text()


def test_a_server_that_knows_no_ranges(tmp_path, cache):
    """Python's own, which has no ETags either: sizes and checksums of the index count."""
    import hashlib
    files = {"m/config.pbtxt": model_text().encode(), "m/1/weights": bytes(range(256)) * 100000}
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    (tmp_path / "index.json").write_text(json.dumps({"files": [
        {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for path, data in files.items()]}))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path))

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, args=(0.05,), daemon=True).start()
        with opens(f"http://127.0.0.1:{web.server_address[1]}", cache) as server:
            assert infer(server, "m").status == 200
            assert copies(cache)[0].read_bytes() == files["m/1/weights"]
        web.shutdown()
