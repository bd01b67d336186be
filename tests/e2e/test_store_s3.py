# SPDX-License-Identifier: BSD-3-Clause
"""Model repositories in a store with S3's interface: what is fetched, and what a fault costs. A model is
never loaded from a part of its files, or from files of two listings."""
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import threading
import time

import pytest
import requests

from certificates import Authority
from conftest import BUILD, Server, is_sanitized, require_build
from models import index, infer, load, model_text, unload, wait_for_index, wait_until
from s3_server import Fault, ObjectServer

TAKES_SECONDS = 80
BACKENDS = ("testing",)
MIB = 1 << 20
EXPLICIT = ("--model-control-mode=explicit",)
POLL = ("--model-control-mode=poll", "--repository-poll-secs=1")


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(BACKENDS)


@pytest.fixture
def store():
    with ObjectServer() as opened:
        yield opened


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the local copies go."""
    folder = tmp_path / "mount"
    folder.mkdir()
    monkeypatch.setenv("TRITON_AWS_MOUNT_DIRECTORY", str(folder))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    return folder


def address(store, path="models"):
    return f"s3://{store.origin}/{path}"


@contextlib.contextmanager
def opens(store, *options, path="models", code=0):
    server = Server(address(store, path), options)
    try:
        yield server
    finally:
        assert server.stop() == code, server.text()


def content(n, seed=1):
    return bytes((i * seed * 2654435761 >> 7) & 255 for i in range(4096)) * (n // 4096 + 1)


def put(store, name="m", n=100, seed=1, **parameters):
    store.put_model("models", name, {"config.pbtxt": model_text(parameters=parameters),
                                     "1/weights": content(n, seed)[:n]})


def copies(place, name="weights"):
    """The local copies of a file, without those in the cache."""
    return [path for path in place.glob(f"folder*/[0-9]*/1/{name}")]


def listed(server, name="m"):
    return [line[1:] for line in index(server) if line[0] == name]


# ---- what is fetched ----------------------------------------------------------------------------

def test_models_are_served_and_nothing_is_left(store, place):
    put(store)
    store.put_model("models", "n", {"config.pbtxt": model_text(), "1/": ""})  # an empty version
    with opens(store) as server:
        assert [line[:3] for line in index(server)] == [("m", "1", "READY"), ("n", "1", "READY")]
        assert infer(server, "m").status == 200 and infer(server, "n").status == 200
        assert [path.read_bytes() for path in copies(place)] == [content(100)[:100]]
        assert store.listings() == 1
        assert store.gets("weights") == 1 and store.gets("m/config.pbtxt") == 1
    assert list(place.iterdir()) == []


def test_a_prefix_and_pages_of_the_listing(store, place):
    store.page_size = 2
    for name in "abcde":
        store.put_model("models", name, {"config.pbtxt": model_text(), "1/weights": name},
                        prefix="some/where/")
    store.put_model("models", "x", {"config.pbtxt": model_text(), "1/weights": "x"}, "some/whereto/")
    with opens(store, path="models//some//where/") as server:
        assert [line[0] for line in index(server)] == list("abcde")
        assert store.listings() == 5


def test_names_are_escaped(store, place):
    name = "1/a name+with&all <of> it é%41?#"
    store.put_model("models", "m", {"config.pbtxt": model_text(), name: "text"})
    with opens(store):
        assert len(copies(place, name[2:])) == 1


def test_a_load_and_an_unload(store, place):
    put(store)
    with opens(store, *EXPLICIT) as server:
        assert listed(server) == [(None, None, None)]
        load(server, "m")
        assert listed(server) == [("1", "READY", None)]
        assert len(copies(place)) == 1
        n = store.gets("")
        load(server, "m")
        assert store.gets("") == n, "nothing changed"
        unload(server, "m")
        wait_until(lambda: copies(place) == [])
        wait_until(lambda: list(place.glob("folder*/cache/[0-9a-f]*")) == [])


def test_many_pieces(store, place):
    put(store, n=33 * MIB + 5)
    with opens(store) as server:
        assert copies(place)[0].read_bytes() == content(33 * MIB + 5)[:33 * MIB + 5]
        assert store.gets("weights") == 5
        assert "fetching" not in server.text()


def test_a_server_without_ranges(store, place):
    store.has_ranges = False
    put(store, n=20 * MIB)
    with opens(store):
        assert copies(place)[0].read_bytes() == content(20 * MIB)[:20 * MIB]
        assert store.gets("weights") == 1


def test_a_server_that_answers_a_part_of_the_range(store, place):
    """The rest is asked for: a transfer that is refused would fail again with the same server."""
    store.max_range = 3 * MIB
    put(store, n=20 * MIB)
    with opens(store):
        assert copies(place)[0].read_bytes() == content(20 * MIB)[:20 * MIB]
        assert store.gets("weights") == 3 + 3 + 2


def test_a_server_that_answers_next_to_nothing_of_the_range(store, place):
    store.max_range = 1000
    put(store, n=20 * MIB)
    with opens(store, *EXPLICIT) as server:
        load(server, "m", expected=500)
        assert "256 answers had parts of the range, up to " in server.text()
        assert store.gets("weights") <= 3 * 256


def test_a_local_repository_loads_no_library(tmp_path):
    with opens_local(tmp_path) as server:
        maps = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text()
        assert "libcurl" not in maps and "libexpat" not in maps


@contextlib.contextmanager
def opens_local(folder):
    model = folder / "m"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(model_text())
    server = Server(folder)
    try:
        yield server
    finally:
        assert server.stop() == 0


PROGRAM = """
import ctypes, json, sys
library, backends, empty, address = sys.argv[1:]
core = ctypes.CDLL(library)
core.TRITONSERVER_ErrorMessage.restype = ctypes.c_char_p

def call(name, *arguments):
    function = getattr(core, name)
    function.restype = ctypes.c_void_p
    error = function(*arguments)
    return ctypes.c_char_p(core.TRITONSERVER_ErrorMessage(ctypes.c_void_p(error))).value if error \\
        else None

options, server, index = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
text, size = ctypes.c_char_p(), ctypes.c_size_t()
call("TRITONSERVER_ServerOptionsNew", ctypes.byref(options))
call("TRITONSERVER_ServerOptionsSetModelRepositoryPath", options, empty.encode())
call("TRITONSERVER_ServerOptionsSetBackendDirectory", options, backends.encode())
call("TRITONSERVER_ServerOptionsSetModelControlMode", options, 2)
print(call("NESO_ServerOptionsSetByName", options, b"repository-transfers", b"2"))
print(call("TRITONSERVER_ServerNew", ctypes.byref(server), options))
register, unregister = ("TRITONSERVER_ServerRegisterModelRepository",
                        "TRITONSERVER_ServerUnregisterModelRepository")
for where in (address.replace("models", "nowhere"), address, address + "/"):
    print(call(register, server, where.encode(), None, 0))
print(call("TRITONSERVER_ServerLoadModel", server, b"m"))
print(call(unregister, server, (address + "/").encode()))
call("TRITONSERVER_ServerModelIndex", server, 0, ctypes.byref(index))
call("TRITONSERVER_MessageSerializeToJson", index, ctypes.byref(text), ctypes.byref(size))
print(ctypes.string_at(text, size.value).decode())
call("TRITONSERVER_ServerStop", server)
call("TRITONSERVER_ServerDelete", server)
"""


def test_a_program_registers_a_store(store, place, tmp_path):
    if is_sanitized():
        pytest.skip("Python has no sanitizer in it")
    put(store)
    (tmp_path / "empty").mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, BUILD / "libtritonserver.so", BUILD / "backends",
         tmp_path / "empty", address(store)], stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=60, check=True)
    lines = ended.stdout.splitlines()
    assert lines[:3] == ["None", "None",
                         f"b'{address(store, 'nowhere')}: HTTP status 404, NoSuchBucket'"], lines
    assert lines[3] == "None"
    assert lines[4] == (f"b\"model repository '{address(store)}' has already been registered\"")
    assert lines[5:7] == ["None", "None"]
    assert json.loads(lines[7]) == [{"name": "m", "version": "1", "state": "READY"}]
    assert list(place.iterdir()) == []


# ---- faults -------------------------------------------------------------------------------------

@pytest.mark.parametrize("match", ["config.pbtxt", "weights"])
def test_a_busy_store_is_asked_again(store, place, match):
    put(store)
    store.faults.append(Fault(match, times=2, status=503, headers={"Retry-After": "1"}))
    begin = time.monotonic()
    with opens(store) as server:
        assert infer(server, "m").status == 200
        assert time.monotonic() - begin >= 2, "the pause that the store asked for"
        assert store.gets(match) == 3
        assert "HTTP status 503, SlowDown; trying again" in server.text()


def test_a_broken_listing_is_asked_again(store, place):
    put(store)
    store.faults.append(Fault("models", times=1, cut_after=0, listing=True))
    store.faults.append(Fault("models", times=1, status=500, listing=True))
    with opens(store):
        assert store.listings() == 3


def test_a_broken_connection_costs_the_rest(store, place):
    n = 16 * MIB
    put(store, n=n)
    store.faults.append(Fault("weights", times=3, cut_after=3 * MIB))
    with opens(store):
        assert copies(place)[0].read_bytes() == content(n)[:n]
        assert store.sent("weights") < n + 3 * 512 * 1024


def test_the_time_for_retries_ends(store, place):
    put(store)
    put(store, "good")
    store.faults.append(Fault("m/1/weights", times=1000, status=503))
    with opens(store, "--repository-retry-seconds=2", "--exit-on-error=false") as server:
        assert [line for line in index(server) if line[0] == "good"] == [
            ("good", "1", "READY", None)]
        assert (f"failed to load 'm': {address(store)}/m/1/weights: HTTP status 503, SlowDown"
                in server.text())


def test_the_time_for_retries_ends_when_nothing_new_comes(store, place):
    """An object that is transferred as a whole begins anew: its first bytes are no progress."""
    put(store)
    store.faults.append(Fault("m/1/weights", times=1000, cut_after=50))
    with opens(store, "--repository-retry-seconds=2", *EXPLICIT) as server:
        load(server, "m", expected=500)
        # The text is that of libcurl in Debian 12 or 13.
        assert any(f"m/1/weights: {why}" in server.text() for why in (
            "transfer closed with 50 bytes remaining", "end of response with 50 bytes missing"))
        assert store.gets("m/1/weights") < 30


def test_an_answer_that_breaks_behind_its_last_byte(store, place):
    """All bytes of the range are there: the next request is not one for an empty range."""
    n = 9 * MIB
    put(store, n=n)
    store.faults.append(Fault("weights", times=2, longer_by=1))
    with opens(store, *EXPLICIT) as server:
        load(server, "m")
        assert copies(place)[0].read_bytes() == content(n)[:n]
        assert store.listings() == 2, "the object did not change"


def test_objects_that_fail_do_not_hold_up_others(store, place):
    """A transfer that waits for its next try gives its place to one of another model."""
    put(store)
    store.put("models", "m/1/more", b"more")
    put(store, "good")
    store.faults.append(Fault("m/1/", times=100000, status=503))
    with opens(store, "--repository-transfers=2", *EXPLICIT) as server:
        thread = begin_load(server)
        wait_until(lambda: store.gets("m/1/weights") >= 3 and store.gets("m/1/more") >= 3)
        begin = time.monotonic()
        load(server, "good")
        assert time.monotonic() - begin < 10
        unload(server, "m")
        thread.join(20)


def test_wrong_bytes_are_fetched_again(store, place):
    put(store, n=9 * MIB)
    store.faults.append(Fault("weights", corrupt=True))
    with opens(store) as server:
        assert copies(place)[0].read_bytes() == content(9 * MIB)[:9 * MIB]
        assert "has another checksum than the object; fetching it again" in server.text()


def test_wrong_bytes_are_never_loaded(store, place):
    put(store)
    with opens(store, *EXPLICIT) as server:
        load(server, "m")
        before = infer(server, "m")
        put(store, seed=3)
        store.faults.append(Fault("weights", times=100, corrupt=True))
        load(server, "m", expected=500)
        assert (f"failed to load 'm': {address(store)}/m/1/weights: what was fetched has another "
                "checksum than the object" in server.text())
        assert infer(server, "m").serial == before.serial
        store.faults.clear()
        load(server, "m")
        assert infer(server, "m").serial > before.serial


@pytest.mark.parametrize("change", ["changed", "removed", "shorter"])
def test_an_object_that_changes_after_the_listing(store, place, change):
    """The configuration is that of the first listing when the weights change: both come anew."""
    put(store, n=20 * MIB)

    def replace():
        if change == "removed":
            store.delete("models", "m/1/weights")
            store.put("models", "m/1/other", content(50, 7)[:50])
        else:
            put(store, n=10 if change == "shorter" else 20 * MIB, seed=7, extra="1")

    store.faults.append(Fault("weights", call=replace))
    with opens(store, *EXPLICIT) as server:
        load(server, "m")
        assert infer(server, "m").status == 200
        name = "other" if change == "removed" else "weights"
        assert len(copies(place, name)) == 1
        assert copies(place, name)[0].read_bytes() == store.buckets["models"][f"m/1/{name}"].data
        n = store.gets("")
        load(server, "m")  # the fingerprint is that of what was fetched
        assert store.gets("") == n


def test_an_object_that_never_stays_the_same(store, place):
    put(store)
    count = iter(range(100))
    store.faults.append(Fault("weights", times=100, call=lambda: put(store, seed=next(count) + 5)))
    with opens(store, *EXPLICIT) as server:
        load(server, "m", expected=500)
        assert (f"failed to load 'm': {address(store)}/m/1/weights: the object was changed or "
                "removed after it was listed" in server.text())
        assert copies(place) == []


@pytest.mark.parametrize("is_listing", [True, False])
def test_a_refusal_without_an_end(store, place, is_listing):
    """The beginning of its body has the reason; the rest is not read."""
    put(store)
    store.faults.append(Fault("models" if is_listing else "weights", times=100, status=403,
                              code="AccessDenied", listing=is_listing, is_endless=True))
    with opens(store, "--exit-on-error=false") as server:
        wait_until(lambda: "HTTP status 403, AccessDenied" in server.text(), server.text)
        assert all(request.sent < 32 << 20 for request in store.requests)


def test_a_redirect_to_another_host_is_not_followed(store, place):
    put(store)
    with ObjectServer() as other:
        put(other)
        store.faults.append(Fault("weights", times=100, status=307, code="Moved", headers={
            "Location": f"http://localhost:{other.port}/models/m/1/weights?secret=1"}))
        with opens(store, "--exit-on-error=false") as server:
            wait_until(lambda: "a redirect to another host" in server.text())
            assert other.requests == [] and "secret" not in server.text()


def test_a_redirect_within_the_host_is_followed(store, place):
    put(store)
    store.put("models", "elsewhere", store.buckets["models"]["m/1/weights"].data)
    store.faults.append(Fault("weights", status=307, headers={"Location": "/models/elsewhere"}))
    with opens(store):
        assert len(copies(place)) == 1


@pytest.mark.parametrize("key, text", [("m/../../x", "'m/../../x' has a component '.' or '..'"),
                                       ("m//x", "'m//x' has an empty component"),
                                       ("m/1/a\nb", "'m/1/a?b' has a control character")])
def test_names_that_leave_the_model_are_refused(store, place, key, text):
    put(store)
    store.put("models", key, "x")
    with opens(store) as server:
        assert (f"{address(store)}: 1 objects are ignored: the name of the object {text}"
                in server.text())
        assert sorted(path.name for path in copies(place)[0].parents[1].rglob("*")) == [
            "1", "config.pbtxt", "weights"]
    assert list(place.iterdir()) == []


def test_an_unknown_bucket(store, place):
    with pytest.raises(AssertionError) as failure:
        Server(address(store, "nobody"))
    assert (f"failed to read model repository '{address(store, 'nobody')}'" in str(failure.value) and
            "HTTP status 404, NoSuchBucket" in str(failure.value))
    assert list(place.iterdir()) == []


# ---- life ---------------------------------------------------------------------------------------

def begin_load(server, name="m"):
    def run():
        with contextlib.suppress(requests.ConnectionError):  # of a server that is killed
            requests.post(f"{server.url}/v2/repository/models/{name}/load", timeout=60)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def held(store):
    """A store that holds the second half of the weights back."""
    put(store, n=8 * MIB)
    hold = threading.Event()
    store.faults.append(Fault("weights", hold=hold, hold_after=4 * MIB))
    yield hold
    hold.set()


def test_the_index_shows_the_progress(store, place, held):
    with opens(store, *EXPLICIT) as server:
        thread = begin_load(server)
        total = 8 * MIB + len(model_text())
        pattern = rf"fetching '{re.escape(address(store))}/m': (\d+) of {total} bytes"

        def progress():
            lines = listed(server)
            match = lines and lines[0][1] == "LOADING" and re.fullmatch(pattern, lines[0][2] or "")
            return match and int(match[1]) >= 3 * MIB
        wait_until(progress, lambda: f"{index(server)}")
        server.wait_for_line(pattern, seconds=20)
        held.set()
        thread.join(20)
        assert listed(server) == [("1", "READY", None)]


def test_an_unload_ends_the_transfer(store, place, held):
    with opens(store, *EXPLICIT) as server:
        thread = begin_load(server)
        wait_until(lambda: store.sent("weights") >= 4 * MIB)
        begin = time.monotonic()
        unload(server, "m")
        thread.join(20)
        assert time.monotonic() - begin < 5
        assert "another change of the model was requested" in server.text()
        assert copies(place) == []


def test_a_stop_ends_the_transfer(store, place, held):
    with opens(store, *EXPLICIT) as server:
        begin_load(server)
        wait_until(lambda: store.sent("weights") >= 4 * MIB)
        begin = time.monotonic()
        server.stop()
        assert time.monotonic() - begin < 5
    assert list(place.iterdir()) == []


def test_polls(store, place):
    put(store)
    with opens(store, *POLL) as server:
        first = infer(server, "m")
        n = store.gets("")
        wait_until(lambda: store.listings() >= 4)
        assert store.gets("") == n, "a poll is a listing"
        put(store, seed=3)
        wait_until(lambda: infer(server, "m").serial > first.serial)
        put(store, "later")
        wait_for_index(server, "later", [("1", "READY", None)])
        store.faults.append(Fault("models", times=10**6, status=403, code="AccessDenied",
                                  listing=True))
        wait_until(lambda: "HTTP status 403, AccessDenied" in server.text())
        n_listings = store.listings()
        wait_until(lambda: store.listings() >= n_listings + 3)
        assert infer(server, "m").status == 200 and infer(server, "later").status == 200
        store.faults.clear()
        for key in ("config.pbtxt", "1/weights"):
            store.delete("models", f"m/{key}")
        wait_until(lambda: infer(server, "m").status != 200)
        assert infer(server, "later").status == 200


def test_a_poll_tries_again_what_could_not_be_fetched(store, place):
    """The files are the same as at the failure; a wrong checksum is another matter."""
    put(store)
    put(store, "wrong")
    fault = Fault("m/1/weights", times=10**6, status=503)
    store.faults.append(fault)
    store.faults.append(Fault("wrong/1/weights", times=10**6, corrupt=True))
    with opens(store, *POLL, "--repository-retry-seconds=0", "--exit-on-error=false") as server:
        wait_until(lambda: server.text().count("failed to load 'm': ") >= 3)
        assert listed(server) == [(None, None, None)]
        fault.times = 0
        wait_for_index(server, "m", [("1", "READY", None)])
        assert server.text().count("failed to load 'wrong': ") == 2, "at the start, and by a poll"


# ---- the cache ----------------------------------------------------------------------------------

def cached(folder):
    return sorted(path.name for path in folder.iterdir() if re.fullmatch("[0-9a-f]{64}", path.name))


def test_the_cache_is_used_after_a_restart(store, place, tmp_path):
    put(store, n=9 * MIB)
    option = f"--repository-cache-directory={tmp_path / 'cache'}"
    for _ in range(2):
        with opens(store, option) as server:
            assert infer(server, "m").status == 200
    assert store.gets("weights") == 2 and store.gets("config.pbtxt") == 1
    assert len(cached(tmp_path / "cache")) == 2


def test_the_cache_keeps_two_stores_apart(place, tmp_path, monkeypatch):
    """The same address, ETag and size, but another server behind AWS_ENDPOINT_URL."""
    option = f"--repository-cache-directory={tmp_path / 'cache'}"
    for letter in "ab":
        with ObjectServer() as store:
            put(store)
            store.put("models", "m/1/weights", letter * 50, etag='"1"')
            monkeypatch.setenv("AWS_ENDPOINT_URL", store.origin)
            server = Server("s3://models", (option,))
            try:
                assert [path.read_text() for path in copies(place)] == [letter * 50]
            finally:
                assert server.stop() == 0, server.text()


def test_a_killed_server_fetches_the_rest(store, place, tmp_path):
    n = 64 * MIB
    put(store, n=n)
    hold = threading.Event()
    options = (f"--repository-cache-directory={tmp_path / 'cache'}", "--repository-transfers=1")
    server = Server(address(store), (*EXPLICIT, *options))
    store.faults.append(Fault("weights", times=4, call=lambda: None))
    store.faults.append(Fault("weights", times=1, hold=hold))
    begin_load(server)
    wait_until(lambda: store.gets("weights") == 5)
    server.process.kill()
    server.process.wait()
    hold.set()
    store.faults.clear()
    assert len(list(place.iterdir())) == 1, "the folder that it left"
    store.requests.clear()
    with opens(store, *options) as server:
        assert copies(place)[0].read_bytes() == content(n)[:n]
        assert store.gets("weights") == 4, "half of it"
        assert len(list(place.iterdir())) == 1
    assert list(place.iterdir()) == []


def test_two_servers_share_the_cache(store, place, tmp_path):
    put(store, n=9 * MIB)
    hold = threading.Event()
    store.faults.append(Fault("weights", hold=hold))
    option = f"--repository-cache-directory={tmp_path / 'cache'}"
    with opens(store, *EXPLICIT, option) as one, opens(store, *EXPLICIT, option) as two:
        threads = [begin_load(one)]
        wait_until(lambda: store.gets("weights") >= 1)
        threads.append(begin_load(two))
        wait_until(lambda: any(line[1] == "LOADING" for line in listed(two)))
        hold.set()
        for thread in threads:
            thread.join(30)
        assert listed(one) == listed(two) == [("1", "READY", None)]
        assert store.gets("weights") == 2, "two pieces, each once"
        assert len(copies(place)) == 2


def test_the_cache_has_a_limit(store, place, tmp_path):
    for name in "abc":
        put(store, name, n=MIB, seed=ord(name))
    cache = tmp_path / "cache"
    options = (*EXPLICIT, f"--repository-cache-directory={cache}",
               f"--repository-cache-bytes={2 * MIB + 65536}")
    with opens(store, *options) as server:
        for name in "abc":
            load(server, name)
            unload(server, name)
            wait_until(lambda: copies(place) == [])
        wait_until(lambda: sum(path.stat().st_size for path in cache.iterdir()) <= 2 * MIB + 65536)
        n = store.gets("weights")
        load(server, "c")
        assert store.gets("weights") == n
        load(server, "a")
        assert store.gets("weights") == n + 1, "the one that was not used for the longest time"


# ---- signatures ---------------------------------------------------------------------------------

KEYS = {"AKIDEXAMPLE": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}


@pytest.fixture
def signed(monkeypatch, place):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["AKIDEXAMPLE"])
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-9")
    with ObjectServer(keys=KEYS, page_size=2) as opened:
        yield opened


def test_every_request_is_signed(signed, place):
    """Pages, objects in pieces, and names with characters that a signature escapes."""
    put(signed, n=17 * MIB)
    signed.put("models", "m/1/a b+c&é=~(1)*'!$@,;:[x]", "text")
    with opens(signed) as server:
        assert infer(server, "m").status == 200
        assert {request.status for request in signed.requests} == {200, 206}
        assert KEYS["AKIDEXAMPLE"] not in server.text()


def test_wrong_keys(signed, monkeypatch, place):
    put(signed)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(AssertionError) as failure:
        Server(address(signed))
    assert "HTTP status 403, SignatureDoesNotMatch" in str(failure.value)
    assert "wrong" not in str(failure.value) and "X-Amz" not in str(failure.value)
    assert signed.listings() == 1, "the keys of the environment are not read again"


def test_keys_of_a_file_are_read_again(signed, monkeypatch, place, tmp_path):
    """A key was replaced while the server ran."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    credentials = tmp_path / "credentials"

    def write_key(secret):
        credentials.write_text(f"[default]\naws_access_key_id = AKIDEXAMPLE\n"
                               f"aws_secret_access_key = {secret}\n")

    write_key(KEYS["AKIDEXAMPLE"])
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    put(signed)
    with opens(signed, *EXPLICIT) as server:
        signed.keys = {"AKIDEXAMPLE": "another"}
        write_key("another")
        load(server, "m")
        assert sum(request.status == 403 for request in signed.requests) == 1


# ---- TLS ----------------------------------------------------------------------------------------

def test_the_certificate_of_a_store_is_checked(place, tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    authority.issue("store")
    with ObjectServer(certificate=(authority.cert("store"), authority.key("store"))) as store:
        put(store, n=17 * MIB)
        with pytest.raises(AssertionError) as failure:
            Server(address(store))
        assert "trying again" not in str(failure.value)
        assert f"{store.origin}/models: SSL certificate problem" in str(failure.value)
        assert store.requests == []
        for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE"):
            monkeypatch.setenv(name, authority.root)
            with opens(store) as server:
                assert infer(server, "m").status == 200
            monkeypatch.delenv(name)
