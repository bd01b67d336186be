# SPDX-License-Identifier: BSD-3-Clause
"""Limits of what is in flight: what is beyond is refused at once and told when to come again, and
there is room again when what was in flight has ended, however it ended.

The model stops in each execution until the test lets it go on.
"""
import contextlib
import json
import struct
import subprocess

import grpc
import pytest

from conftest import BUILD
from frames import INFER, Raw, call, reset
from gate import Gate, gated
from grpc_stubs import SECONDS, Client, client, stubs  # noqa: F401
from models import wait_until
from scrape import metric, metrics, wait_for_pending
from wire import Wire, exchange, request

BACKENDS = ("testing",)
CONFIG = """backend: "testing"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }
"""
MODELS = {
    "one": gated(CONFIG),
    "few": gated(CONFIG),
    "free": CONFIG,
}
OPTIONS = ("--in-flight-limit=one,requests=1", "--in-flight-limit=requests=4",
           "--in-flight-limit=few,bytes=5000")

ONE = "too many requests in flight for model 'one', the limit is 1"
ALL = "too many requests in flight, the limit is 4"
BYTES = "too many bytes in flight for model 'few', the limit is 5000"


def body(n=1):
    return json.dumps({"inputs": [{"name": "INPUT0", "shape": [n], "datatype": "FP32",
                                   "data": [1] * n}]}).encode()


def infer(server, model, n=1, kind="infer"):
    text = body(n) if kind == "infer" else json.dumps({"INPUT0": [1] * n}).encode()
    return exchange(server.http_port, request("POST", f"/v2/models/{model}/{kind}", text))


def message(client, model, n=1):
    return client.request(model, [("INPUT0", "FP32", [n])], [struct.pack(f"<{n}f", *[1] * n)])


def send(client, model):
    return client.ModelInfer.future(message(client, model), timeout=SECONDS)


def send_when_there_is_room(server, client, model, n):
    """The n-th that waits. Who leaves the queue gives back its room a moment later."""
    sent = [send(client, model)]

    def is_queued():
        if sent[-1].done():
            assert sent[-1].exception().details() == ALL
            sent.append(send(client, model))
        return metric(server, "nv_inference_pending_request_count", model) == n

    wait_until(is_queued)
    return sent[-1]


def n_rejected(server, what):
    return metrics(server).get(f'neso_rejected_total{{limit="{what}_in_flight"}}', 0)


def assert_refused(answer, text):
    assert (answer.status, json.loads(answer.body)["error"]) == (503, text)
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["content-type"] in ("application/json", "text/plain")


def assert_refused_over_grpc(client, model, text, n=1):
    with pytest.raises(grpc.RpcError) as caught:
        client.ModelInfer(message(client, model, n), timeout=SECONDS)
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNAVAILABLE, text)
    assert ("retry-after", "1") in [(m.key, m.value) for m in caught.value.trailing_metadata()]


@contextlib.contextmanager
def held(server, client, model):
    """One request that the model executes."""
    with Gate(server, model) as gate:
        first = send(client, model)
        gate.wait()
        yield gate
        gate.open()
        first.result()


def test_requests_of_a_model(server, client):
    """The same count for both protocols and all ways to ask; others are not affected."""
    with held(server, client, "one"):
        for kind in ("infer", "generate", "generate_stream"):
            assert_refused(infer(server, "one", kind=kind), ONE)
        assert_refused_over_grpc(client, "one", ONE)
        [reply] = client.stream([message(client, "one")])
        assert reply.error_message == ONE
        assert infer(server, "free").status == 200
    with held(server, client, "one"):
        pass  # there is room again
    assert n_rejected(server, "requests") >= 5


def test_requests_of_the_server(server, client):
    with Gate(server, "few") as gate:
        waiting = [send(client, "few") for _ in range(4)]
        gate.wait()
        wait_for_pending(server, "few", 3)
        assert_refused(infer(server, "free"), ALL)
        assert_refused_over_grpc(client, "one", ALL)
        gate.open(4)
        for each in waiting:
            each.result()
        gate.wait(3)
    assert infer(server, "free").status == 200


def test_bytes(server, client):
    """Those of messages: a larger one is refused always, several when they come together."""
    before = n_rejected(server, "bytes")
    assert_refused(infer(server, "few", 3000), BYTES)
    assert_refused_over_grpc(client, "few", BYTES, 1300)
    with Gate(server, "few") as gate:
        waiting = client.ModelInfer.future(message(client, "few", 1000), timeout=SECONDS)
        gate.wait()
        assert_refused_over_grpc(client, "few", BYTES, 1000)
        gate.open(2)
        waiting.result()
        client.ModelInfer(message(client, "few", 1000), timeout=SECONDS)
        gate.wait()
    assert n_rejected(server, "bytes") == before + 3


def test_room_after_faults(server):
    """Requests that are refused after they were admitted leave nothing behind."""
    bad = b'{"inputs":[{"name":"INPUT0","shape":[2],"datatype":"FP32","data":[1]}]}'
    for _ in range(10):
        assert exchange(server.http_port, request("POST", "/v2/models/one/infer", bad)).status == 400
        assert exchange(server.http_port, request("POST", "/v2/models/one/generate",
                                                  b'{"INPUT0":"x"}')).status == 400


def test_room_after_clients_that_leave(server, client):
    one = message(client, "few").SerializeToString()
    with Gate(server, "few") as gate:
        first = send(client, "few")
        gate.wait()
        with Raw(server) as raw, Wire(server.http_port) as wire:
            raw.send(call(1, one, path=INFER) + call(3, one, path=INFER))
            wire.send(request("POST", "/v2/models/few/infer", body()))
            wait_for_pending(server, "few", 3)
            assert_refused(infer(server, "free"), ALL)
            raw.send(reset(1) + reset(3))
            wait_for_pending(server, "few", 1)
        wait_for_pending(server, "few", 0)
        later = [send_when_there_is_room(server, client, "few", n) for n in (1, 2, 3)]
        gate.open(4)
        for each in (first, *later):
            each.result()
        gate.wait(3)


@pytest.mark.parametrize("option, text", [
    ("requests=0", "limits of what is in flight must be given as [<model>,]requests=<n> or "
                   "[<model>,]bytes=<n>, got 'requests=0'"),
    ("m,bytes=1M", "limits of what is in flight must be given as [<model>,]requests=<n> or "
                   "[<model>,]bytes=<n>, got 'm,bytes=1M'"),
])
def test_bad_options(tmp_path, option, text):
    ended = subprocess.run([BUILD / "neso", "serve", f"--model-repository={tmp_path}",
                            f"--in-flight-limit={option}"], capture_output=True, text=True,
                           timeout=SECONDS, check=False)
    assert (ended.returncode, ended.stderr) == (1, f"error: {text}\n")
