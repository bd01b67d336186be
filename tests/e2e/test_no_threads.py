# SPDX-License-Identifier: BSD-3-Clause
"""No thread can be made while the server serves (pids.max of a container, RLIMIT_NPROC): each
endpoint answers, those that need a thread with 503 or UNAVAILABLE; the server goes on, and when there
are threads again everything is answered as before."""
import json
import mmap
import re
import struct
import subprocess

import grpc
import pytest
import requests

from conftest import BUILD, Server, is_sanitized, preload, require_build, write_repository
from grpc_stubs import Client, open_channel, stubs  # noqa: F401

BACKENDS = ("identity", "repeat")
FAIL_THREADS = BUILD / "tests" / "e2e" / "fail_threads.so"
TENSORS = """input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }
"""
SLOW = ('backend: "identity"\nparameters { key: "execute_delay_ms" value { string_value: "1" } }\n'
        + TENSORS)
MODELS = {"m": 'backend: "identity"\n' + TENSORS, "slow": SLOW,
          "coming": 'backend: "identity"\ninstance_group { count: 2 }\n' + TENSORS}
NO_THREAD = "no thread for this request: "
# Answered on the loop while no backend has to be asked.
READY = ("/v2/health/ready", "/v2/models/m/ready", "/v2/models/m/versions/1/ready")
# Those that run on a thread of their own.
NEED_A_THREAD = ("/v2/dashboard", "/v2/gpus", "/v2/models/stats", "/v2/models/m/stacks",
                 "/v2/models/m/versions/1/stacks",
                 "/v2/models/m/config/source", "/v2/models/m/versions/1/config/source",
                 "/v2/repository/index", "/v2/repository/r/index",
                 "/v2/repository/models/m/load", "/v2/repository/models/m/unload")
BODY = json.dumps({"inputs": [{"name": "INPUT0", "shape": [2], "datatype": "FP32",
                               "data": [1, 2]}]})

pytestmark = pytest.mark.skipif(is_sanitized(), reason="the sanitizer makes a thread of its own")


class Threads:
    """The other side of fail_threads.c."""

    def __init__(self, path):
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as f:
            self._map = mmap.mmap(f.fileno(), mmap.PAGESIZE)

    def fail(self, fails):
        self._map[0:4] = struct.pack("=I", int(fails))

    def n_failed(self):
        return struct.unpack("=I", self._map[4:8])[0]


@pytest.fixture(name="short", scope="module")
def short_server(tmp_path_factory):
    require_build(BACKENDS)
    folder = tmp_path_factory.mktemp("threads")
    write_repository(folder / "models", MODELS)
    threads = Threads(folder / "control")
    running = Server(folder / "models", (
        "--model-control-mode=explicit", "--load-model=m", "--load-model=slow",
        "--http-thread-count=2", "--grpc-infer-thread-count=2"),
        waits_for=("http", "grpc", "metrics"),
        under=("env", preload(FAIL_THREADS), f"FAIL_THREADS={folder / 'control'}"))
    yield running, threads
    threads.fail(False)
    assert running.process.poll() is None, running.text()
    assert running.stop() == 0, running.text()


@pytest.fixture(autouse=True)
def none_can_be_made(short):
    short[1].fail(True)
    yield
    short[1].fail(False)


def endpoints(protocol):
    rows = subprocess.run([BUILD / "neso", "endpoints"], capture_output=True, text=True,
                          check=False).stdout.splitlines()
    return [tuple(row.split()[1:3]) for row in rows if row.startswith(protocol + " ")]


def path_of(pattern):
    for name, value in (("{m}", "m"), ("{v}", "1"), ("{r}", "r"), ("{*}", "r")):
        pattern = pattern.replace(name, value)
    return pattern


HTTP = [(method, path_of(path)) for method, path in endpoints("http")] if BUILD.exists() else []

OPENAI_THREAD = re.compile("/v1/models$|/v1/models/m/(load|unload)$")


@pytest.mark.parametrize("method, path", HTTP, ids=lambda x: x)
def test_http(short, method, path):
    server, threads = short
    before = threads.n_failed()
    body = BODY if path.endswith("infer") else json.dumps({"INPUT0": 1}) if "generate" in path else ""
    reply = requests.request(method, server.url + path, data=body, timeout=20)
    if path in NEED_A_THREAD or path.startswith("/v2/repository/models") or OPENAI_THREAD.search(path):
        error = reply.json()["error"]
        text = error["message"] if "/v1/" in path else error
        assert reply.status_code == 503 and NO_THREAD in text, reply.text
        assert threads.n_failed() > before
    elif path in READY:
        assert reply.status_code == 200, reply.text
    else:
        assert reply.status_code in (200, 400, 404, 501), reply.text
        assert NO_THREAD not in reply.text
    assert requests.get(server.url + "/v2/health/live", timeout=20).status_code == 200


def test_inferences_and_metrics(short):
    """What the threads of the start serve, is served."""
    server, _ = short
    for model in ("m", "slow"):
        reply = requests.post(f"{server.url}/v2/models/{model}/infer", data=BODY, timeout=20)
        assert reply.json()["outputs"][0]["data"] == [1, 2]
    metrics = requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=20)
    assert metrics.status_code == 200 and "nv_inference_count" in metrics.text


def test_long_request(short):
    """Its reading has a thread elsewhere; the loop's own thread does it when there is none."""
    server, _ = short
    values = [0.5] * 200000
    reply = requests.post(f"{server.url}/v2/models/m/infer", timeout=20, data=json.dumps({
        "inputs": [{"name": "INPUT0", "shape": [len(values)], "datatype": "FP32",
                    "data": values}]}))
    assert reply.json()["outputs"][0]["data"] == values


GRPC_READY = {"ServerReady": {}, "ModelReady": {"name": "m"}}
GRPC_NEED_A_THREAD = {"RepositoryIndex": {}, "ModelStatistics": {},
                      "RepositoryModelLoad": {"model_name": "coming"},
                      "RepositoryModelUnload": {"model_name": "coming"}}


@pytest.mark.parametrize("method", [path.rsplit("/", 1)[1] for _, path in endpoints("grpc")
                                    if "GRPCInferenceService/" in path]
                         if BUILD.exists() else [])
def test_grpc(short, stubs, method):  # noqa: F811
    server, _ = short
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        if method in GRPC_NEED_A_THREAD:
            code, text = client.refusal(method, GRPC_NEED_A_THREAD[method])
            assert code == "UNAVAILABLE" and NO_THREAD in text
        elif method in GRPC_READY:
            request = getattr(client.pb, f"{method}Request")(**GRPC_READY[method])
            assert getattr(client, method)(request, timeout=20).ready
        elif method == "ModelStreamInfer":
            request = client.request("m", [("INPUT0", "FP32", [1], {"fp32_contents": [4.0]})])
            answers = list(client.ModelStreamInfer(iter([request]), timeout=20))
            assert len(answers) == 1 and not answers[0].error_message
        else:
            message = (client.request("m", [("INPUT0", "FP32", [1], {"fp32_contents": [4.0]})])
                       if method == "ModelInfer" else getattr(client.pb, f"{method}Request")())
            try:
                getattr(client, method)(message, timeout=20)
            except grpc.RpcError as e:
                assert e.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN,
                                        grpc.StatusCode.DEADLINE_EXCEEDED), e
        assert client.call("ServerLive").live


def test_as_before(short):
    """A load needs threads of its own, beside that of the request; then there are some again."""
    server, threads = short
    url = f"{server.url}/v2/repository/models/coming"
    assert requests.post(url + "/load", timeout=20).status_code == 503
    threads.fail(False)
    assert requests.post(url + "/load", timeout=20).status_code == 200
    assert requests.get(f"{server.url}/v2/models/coming/ready", timeout=20).status_code == 200
    assert requests.post(url + "/unload", timeout=20).status_code == 200
