# SPDX-License-Identifier: BSD-3-Clause
"""Traces in mode triton: settings over both protocols, and the files."""
import glob
import json
import os
import subprocess

import numpy
import pytest
import requests

from conftest import BUILD, Server, require_build, write_repository
from grpc_stubs import SECONDS, Client, client, open_channel, stubs  # noqa: F401
from test_http_infer import identity

BACKENDS = ("identity",)
MODELS = {"one": identity("TYPE_INT32", [-1]), "two": identity("TYPE_FP32", [2], 4),
          "words": identity("TYPE_STRING", [-1])}

CORE = ["REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END",
        "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END"]


class Traced:
    """A server that writes to a file of its own. It is asked on one connection: a trace ends behind
    its answer, and on another connection the next one could overtake it."""

    def __init__(self, folder, *options, file="trace.json"):
        require_build(BACKENDS)
        self.file = str(folder / file)
        repository = folder / "models"
        write_repository(repository, MODELS)
        self.server = Server(repository, (f"--trace-config=triton,file={self.file}", *options),
                             ("http", "grpc", "metrics"))
        self.base = self.server.url
        self.session = requests.Session()

    def settings(self, model=None, change=None):
        path = f"/v2/models/{model}/trace/setting" if model else "/v2/trace/setting"
        if change is None:
            return self.session.get(self.base + path, timeout=SECONDS)
        body = change if isinstance(change, (bytes, str)) else json.dumps(change)
        return self.session.post(self.base + path, data=body, timeout=SECONDS)

    def infer(self, model="one", values=(1, 2), datatype="INT32", shape=None, headers=None, **more):
        body = {"inputs": [{"name": "INPUT0", "datatype": datatype,
                            "shape": shape or [len(values)], "data": list(values)}], **more}
        reply = self.session.post(f"{self.base}/v2/models/{model}/infer", json=body,
                                  timeout=SECONDS, headers=headers)
        assert reply.status_code == 200, reply.text
        return reply

    def stop(self):
        assert self.server.stop() == 0, self.server.text()

    def files(self):
        """Names without the folder, and what is in them, after the end."""
        self.stop()
        return {os.path.basename(path): json.load(open(path, encoding="utf-8"))
                for path in sorted(glob.glob(self.file + "*"))}


@pytest.fixture
def traced(tmp_path):
    started = []

    def start(*options, **more):
        started.append(Traced(tmp_path, *options, **more))
        return started[-1]

    yield start
    for one in started:
        one.server.stop()


def by_id(elements):
    """{id: (its first element, [(name, ns)], [tensor elements])}"""
    found = {}
    for element in elements:
        model, times, tensors = found.setdefault(element["id"], ({}, [], []))
        if "timestamps" in element:
            times += [(t["name"], t["ns"]) for t in element["timestamps"]]
        elif "activity" in element:
            tensors.append(element)
        else:
            assert not model
            model.update(element)
    return found


def requests_of(elements):
    return [model.get("request_id") for model, _, _ in by_id(elements).values()]


# ---- settings -----------------------------------------------------------------------------------

DEFAULTS = {"trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1",
            "log_frequency": "0", "trace_file": None, "trace_mode": "triton"}


@pytest.fixture(scope="module")
def one_server(tmp_path_factory):
    one = Traced(tmp_path_factory.mktemp("settings"))
    yield one
    one.stop()


def as_told(one, **changed):
    return {**DEFAULTS, "trace_file": one.file, **changed}


def test_inheritance(one_server):
    t = one_server
    assert t.settings().text == json.dumps(as_told(t), separators=(",", ":"))
    # A model's own, over the command line's.
    own = as_told(t, trace_rate="7", log_frequency="2")
    assert t.settings("one", {"trace_rate": "7", "log_frequency": "2"}).json() == own
    assert t.settings("one").json() == own
    assert t.settings().json() == as_told(t)
    assert t.settings("two").json() == as_told(t)
    # The global ones, under it.
    assert t.settings(None, {"trace_rate": "11", "trace_count": "5"}).json() == as_told(
        t, trace_rate="11", trace_count="5")
    assert t.settings("one").json() == {**own, "trace_count": "5"}
    assert t.settings("two").json() == as_told(t, trace_rate="11", trace_count="5")
    # Cleared, one by one.
    assert t.settings("one", {"trace_rate": None}).json()["trace_rate"] == "11"
    assert t.settings(None, {"trace_rate": None}).json()["trace_rate"] == "1000"
    assert t.settings("one").json()["trace_rate"] == "1000"
    assert t.settings("one", {"log_frequency": None, "whatever": [1]}).json() == as_told(
        t, trace_count="5")
    assert t.settings(None, {"trace_count": None, "trace_level": None}).json() == as_told(t)


@pytest.mark.parametrize("change, reported", [
    ({"trace_level": ["TIMESTAMPS"]}, ["TIMESTAMPS"]),
    ({"trace_level": ["TENSORS", "TIMESTAMPS"]}, ["TIMESTAMPS", "TENSORS"]),
    ({"trace_level": ["OFF"]}, ["OFF"]),
    ({"trace_level": ["NONSENSE"]}, ["OFF"]),
    ({"trace_level": ["NONSENSE", "TENSORS"]}, ["TENSORS"]),
    ({"trace_level": []}, ["OFF"]),
])
def test_levels(one_server, change, reported):
    assert one_server.settings("two", change).json()["trace_level"] == reported
    assert one_server.settings("two", {"trace_level": None}).json()["trace_level"] == ["OFF"]


RANGE = "value is out of range [ 0, 4294967295 ], got: "


@pytest.mark.parametrize("change, status, text", [
    ({"trace_file": "x"}, 501,
     "trace file location can not be updated through network protocol"),
    ({"trace_level": ["OFF", "TENSORS"]}, 400, "Expect only one trace level 'OFF' is specified"),
    ({"trace_rate": "many"}, 400, "Unable to parse 'trace_rate', got: many"),
    ({"trace_rate": ""}, 400, "Unable to parse 'trace_rate', got: "),
    ({"trace_rate": "-1"}, 400, f"Unable to parse 'trace_rate', {RANGE}-1"),
    ({"trace_rate": "4294967296"}, 400, f"Unable to parse 'trace_rate', {RANGE}4294967296"),
    ({"log_frequency": "1.5"}, 400, "Unable to parse 'log_frequency', got: 1.5"),
    ({"log_frequency": "99999999999999999999"}, 400,
     f"Unable to parse 'log_frequency', {RANGE}99999999999999999999"),
    ({"trace_count": "x"}, 400, "Unable to parse 'trace_count', got: x"),
    ({"trace_count": "2147483648"}, 400, "Unable to parse 'trace_count', value is out of range "
     "[ -1, 2147483647 ], got: 2147483648"),
    ({"trace_count": "-2"}, 400, "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"),
    ({"trace_level": ["TIMESTAMPS"], "trace_rate": "0"}, 400,
     "Attempting to set invalid trace setting :sample rate must be non-zero"),
    ({"trace_rate": 3}, 400, "attempt to access JSON non-string as string"),
    ({"trace_level": "OFF"}, 400, "attempt to access JSON non-array as array"),
    ({"trace_level": [1]}, 400, "attempt to access JSON non-string as string"),
    ("[]", 400, "attempt to get members for non-object"),
    ("", 400, "failed to parse the request JSON buffer: The document is empty. at 0"),
])
def test_refused_changes(one_server, change, status, text):
    reply = one_server.settings(None, change)
    assert (reply.status_code, reply.json()) == (status, {"error": text})
    assert one_server.settings().json() == as_told(one_server)


def test_models_that_are_not_there(one_server):
    for change in (None, {"trace_rate": "5"}):
        reply = one_server.settings("nobody", change)
        assert reply.status_code == 400
        assert reply.json() == {"error": "Request for unknown model : nobody"}


@pytest.fixture
def rpc(one_server, stubs):  # noqa: F811
    with open_channel(one_server.server) as channel:
        yield Client(channel, stubs)


def rpc_settings(rpc, model="", **settings):
    request = rpc.pb.TraceSettingRequest(model_name=model)
    for key, values in settings.items():
        request.settings[key].value.extend(values)
    reply = rpc.TraceSetting(request, timeout=SECONDS)
    return {key: list(value.value) for key, value in reply.settings.items()}


def rpc_told(one, **changed):
    return {key: value if isinstance(value, list) else [value]
            for key, value in as_told(one, **changed).items()}


def test_settings_over_grpc(one_server, rpc):
    t = one_server
    assert rpc_settings(rpc) == rpc_told(t)
    assert rpc_settings(rpc, "one", trace_rate=["9"], trace_level=["TENSORS", "TIMESTAMPS"]) == (
        rpc_told(t, trace_rate="9", trace_level=["TIMESTAMPS", "TENSORS"]))
    assert t.settings("one").json()["trace_rate"] == "9"
    assert rpc_settings(rpc, "one", trace_rate=[], trace_level=[], unknown=["1"]) == rpc_told(t)


@pytest.mark.parametrize("settings", [{}, {"trace_rate": ["5"]}, {"trace_rate": ["x"]}])
def test_models_that_are_not_there_over_grpc(one_server, rpc, settings):
    with pytest.raises(Exception) as caught:
        rpc_settings(rpc, "nobody", **settings)
    assert (caught.value.code().name, caught.value.details()) == (
        "INVALID_ARGUMENT", "Request for unknown model : nobody")
    assert one_server.settings().json() == as_told(one_server)


@pytest.mark.parametrize("settings, code, text", [
    ({"trace_file": ["x"]}, "UNIMPLEMENTED",
     "trace file location can not be updated through network protocol"),
    ({"trace_rate": ["1", "2"]}, "INVALID_ARGUMENT", "expect only 1 value for 'trace_rate'"),
    ({"trace_count": ["1", "2"]}, "INVALID_ARGUMENT", "expect only 1 value for 'trace_count'"),
    ({"log_frequency": ["", ""]}, "INVALID_ARGUMENT", "expect only 1 value for 'log_frequency'"),
    ({"trace_count": ["-2"]}, "INVALID_ARGUMENT",
     "Unable to parse 'trace_count'. Expecting value >= -1, got: -2"),
    ({"trace_rate": ["no"]}, "INVALID_ARGUMENT", "Unable to parse 'trace_rate', got: no"),
    ({"trace_level": ["OFF", "TIMESTAMPS"]}, "INVALID_ARGUMENT",
     "Expect only one trace level 'OFF' is specified"),
    ({"trace_rate": ["0"], "trace_level": ["TENSORS"]}, "INVALID_ARGUMENT",
     "Attempting to set invalid trace setting :sample rate must be non-zero"),
])
def test_refused_changes_over_grpc(one_server, rpc, settings, code, text):
    with pytest.raises(Exception) as caught:
        rpc_settings(rpc, **settings)
    assert (caught.value.code().name, caught.value.details()) == (code, text)
    assert one_server.settings().json() == as_told(one_server)


# ---- files --------------------------------------------------------------------------------------


def test_times_over_http(traced):
    t = traced("--trace-config=level=TIMESTAMPS", "--trace-config=rate=1")
    t.infer(id="a")
    t.infer("two", [1, 2], "FP32", [1, 2])
    files = t.files()
    assert list(files) == ["trace.json"]
    found = list(by_id(files["trace.json"]).values())
    assert [model["model_name"] for model, _, _ in found] == ["one", "two"]
    first, second = (model for model, _, _ in found)
    assert first == {"id": first["id"], "model_name": "one", "model_version": 1, "request_id": "a"}
    assert second == {"id": second["id"], "model_name": "two", "model_version": 1}
    assert 0 < first["id"] < second["id"]
    for _, times, tensors in found:
        stamps = dict(times)
        assert len(stamps) == len(times) and not tensors
        assert set(stamps) == set(CORE) | {"HTTP_RECV_START", "HTTP_RECV_END", "HTTP_SEND_START",
                                           "HTTP_SEND_END", "INFER_RESPONSE_COMPLETE"}
        for line in (["HTTP_RECV_START", "HTTP_RECV_END", *CORE],
                     ["COMPUTE_OUTPUT_START", "INFER_RESPONSE_COMPLETE", "HTTP_SEND_START",
                      "HTTP_SEND_END"]):
            assert [stamps[name] for name in line] == sorted(stamps[name] for name in line)


def test_times_over_grpc(traced, stubs):  # noqa: F811
    t = traced("--trace-config=level=TIMESTAMPS", "--trace-config=rate=1")
    with open_channel(t.server) as channel:
        rpc = Client(channel, stubs)
        rpc.infer(model="one", inputs=[("INPUT0", "INT32", [1])],
                  raw=[numpy.int32(5).tobytes()], id="unary")
        request = rpc.request(model="one", inputs=[("INPUT0", "INT32", [1])],
                              raw=[numpy.int32(5).tobytes()], id="streamed")
        assert len(list(rpc.ModelStreamInfer(iter([request, request]), timeout=SECONDS))) == 2
    found = list(by_id(t.files()["trace.json"]).values())
    assert [model["request_id"] for model, _, _ in found] == ["unary", "streamed", "streamed"]
    names = ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END", *CORE[:-1]]
    for _, times, _ in found:
        stamps = dict(times)
        assert set(stamps) == {*names, "REQUEST_END", "GRPC_SEND_START", "GRPC_SEND_END",
                               "INFER_RESPONSE_COMPLETE"}
        assert [stamps[name] for name in names] == sorted(stamps[name] for name in names)
        assert stamps["GRPC_SEND_START"] <= stamps["GRPC_SEND_END"]


def test_tensors(traced):
    t = traced("--trace-config=level=TENSORS", "--trace-config=rate=1")
    t.infer(values=[1, -2])
    t.infer("two", [0.5, 2], "FP32", [1, 2])
    t.infer("words", ["a", 'b"', "é"], "BYTES")
    found = list(by_id(t.files()["trace.json"]).values())
    reported = [[(e["activity"], *e["tensor"].values()) for e in tensors] for _, _, tensors in found]
    assert all(not times for _, times, _ in found)

    def three(data, shape, dtype):
        return [(activity, name, data, shape, dtype) for activity, name in (
            ("TENSOR_QUEUE_INPUT", "INPUT0"), ("TENSOR_BACKEND_INPUT", "INPUT0"),
            ("TENSOR_BACKEND_OUTPUT", "OUTPUT0"))]

    assert reported == [three("1,-2", "2", "INT32"), three("0.5,2.0", "1,2", "FP32"),
                    three('"a","b"","é"', "3", "BYTES")]


def test_every_third(traced):
    t = traced("--trace-config=level=TIMESTAMPS", "--trace-config=rate=3")
    for number in range(1, 10):
        t.infer(id=str(number))
    assert requests_of(t.files()["trace.json"]) == ["3", "6", "9"]


def test_count(traced):
    t = traced("--trace-config=level=TIMESTAMPS", "--trace-config=rate=1",
               "--trace-config=count=2")
    for number in range(1, 5):
        t.infer(id=str(number))
    assert t.settings().json()["trace_count"] == "0"
    # Set again, it counts again; what comes after that goes where the end puts it.
    t.settings(None, {"trace_count": "5"})
    t.infer(id="5")
    files = t.files()
    assert {name: requests_of(e) for name, e in files.items()} == {
        "trace.json.0": ["1", "2"], "trace.json": ["5"]}


def test_log_frequency(traced):
    t = traced("--trace-config=level=TIMESTAMPS", "--trace-config=rate=1",
               "--trace-config=triton,log-frequency=2")
    for number in range(1, 6):
        t.infer(id=str(number))
    assert {name: requests_of(e) for name, e in t.files().items()} == {
        "trace.json.0": ["1", "2"], "trace.json.1": ["3", "4"], "trace.json.2": ["5"]}


def test_one_model(traced):
    """Only that model; a change writes what came before it."""
    t = traced()
    t.settings("two", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
    t.infer(id="no")
    t.infer("two", [1, 2], "FP32", [1, 2], id="yes")
    t.settings("two", {"trace_level": ["OFF"]})
    t.infer("two", [1, 2], "FP32", [1, 2], id="no more")
    t.settings("two", {"trace_level": ["TIMESTAMPS"]})
    t.infer("two", [1, 2], "FP32", [1, 2], id="again")
    assert requests_of(t.files()["trace.json"]) == ["yes", "again"]


def test_refused_requests(traced):
    """What the core refuses is traced up to its end."""
    t = traced("--trace-config=level=TIMESTAMPS", "--trace-config=rate=1")
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}
    reply = requests.post(f"{t.base}/v2/models/one/infer", json=body, timeout=SECONDS)
    assert reply.status_code == 400
    ((_, times, _),) = by_id(t.files()["trace.json"]).values()
    assert [name for name, _ in times] == [
        "HTTP_RECV_START", "HTTP_RECV_END", "REQUEST_START", "REQUEST_END", "HTTP_SEND_START",
        "HTTP_SEND_END"]


# ---- the command line ---------------------------------------------------------------------------


def test_older_options(traced):
    t = traced("--trace-level=TIMESTAMPS", "--trace-level=TENSORS", "--trace-rate=3",
               "--trace-count=9", "--trace-log-frequency=2")
    assert t.settings().json() == as_told(
        t, trace_level=["TIMESTAMPS", "TENSORS"], trace_rate="3", trace_count="9",
        log_frequency="2")


@pytest.mark.parametrize("arguments, text", [
    (["--trace-config=level=TIMESTAMPS"],
     "Attempting to set invalid trace setting :trace file name is not given "
     "(--trace-config=triton,file=<path>)"),
    (["--trace-config=level=ALL"],
     "--trace-config: expects OFF, TIMESTAMPS or TENSORS as trace level, got: level=ALL"),
    (["--trace-config=rate"],
     "--trace-config: expects [<mode>,]<setting>=<value>, got: rate"),
    (["--trace-config=rate=x"], "--trace-config: expects an integer, got: rate=x"),
    (["--trace-config=count=-2"],
     "--trace-config: value is out of range [ -1, 2147483647 ], got: count=-2"),
    (["--trace-config=file=x"], "--trace-config: unknown trace setting, got: file=x"),
    (["--trace-config=triton,url=x"],
     "--trace-config: unknown trace setting, got: triton,url=x"),
    (["--trace-config=mode=zipkin"],
     "--trace-config: expects triton or opentelemetry as trace mode, got: mode=zipkin"),
    (["--trace-config=opentelemetry,resource=x"],
     "--trace-config: expects resource=<key>=<value>, got: opentelemetry,resource=x"),
    (["--trace-level=ALL"], "--trace-level: expects OFF, TIMESTAMPS or TENSORS as trace level, "
                            "got: ALL"),
    (["--trace-config=triton,file=/nowhere/at/all"],
     "trace file '/nowhere/at/all' can not be written: No such file or directory"),
])
def test_bad_options(arguments, text, tmp_path):
    ended = subprocess.run(
        [BUILD / "neso", "serve", f"--model-repository={tmp_path}", "--http-port=0",
         "--grpc-port=0", "--metrics-port=0", *arguments], capture_output=True, text=True,
        timeout=60, check=False)
    assert ended.returncode == 1
    assert f"error: {text}\n" in ended.stderr
