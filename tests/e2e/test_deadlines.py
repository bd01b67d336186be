# SPDX-License-Identifier: BSD-3-Clause
"""Time that is up and clients that go: a request that has not begun is never executed.

The model counts its executions and stops in each until the test lets it go on, so what was
executed shows in the numbers of those that come later.
"""
import json
import statistics
import struct
import time

import grpc
import pytest

from frames import (DATA, END_HEADERS, HEADERS, INFER, STREAM_INFER, Raw, call, frame, head, reset,
                    says_status)
from gate import Gate, gated
from grpc_stubs import SECONDS, client, stubs  # noqa: F401
from scrape import wait_for_metric, wait_for_pending
from wire import Wire, request

BACKENDS = ("testing",)
CONFIG = """backend: "testing"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [1] }
output { name: "EXECUTIONS" data_type: TYPE_INT32 dims: [1] }
"""
MODELS = {name: gated(CONFIG) for name in ("late", "http", "reset", "closed", "stream", "watch")}

DEADLINE_EXCEEDED = 4
TIMEOUT_MS = 50
BEGIN_MS = 1000  # even a busy machine has begun with a request by then


def message(client, model):
    return client.request(model, [("INPUT0", "FP32", [1])], [struct.pack("<f", 1)])


def executions(answer):
    return struct.unpack("<i", answer.raw_output_contents[0])[0]


class Busy:
    """A model with one request at the gate. At the end it is let go, and another one tells how many
    were executed: no more than these two and what the test has asked for."""

    def __init__(self, server, client, model):
        self.server, self.client, self.model = server, client, model

    def __enter__(self):
        self.gate = Gate(self.server, self.model)
        self.first = self.send()
        self.gate.wait()
        return self

    def send(self, **arguments):
        return self.client.ModelInfer.future(message(self.client, self.model),
                                             **{"timeout": SECONDS, **arguments})

    def queued(self, n):
        wait_for_pending(self.server, self.model, n)

    def next_number(self):
        self.gate.open()
        number = executions(self.first.result())
        following = self.send()
        self.gate.wait()
        self.gate.open()
        assert executions(following.result()) == number + 1, "a request that had ended was executed"
        return number

    def __exit__(self, *_):
        self.gate.__exit__()


# ---- deadlines ----------------------------------------------------------------------------------


def milliseconds_late(server, body, timeout_ms):
    """From the deadline of a request to the answer that its time is up."""
    with Raw(server) as raw:
        began = time.monotonic()
        raw.send(call(1, body, path=INFER, **{"grpc-timeout": f"{timeout_ms}m"}))
        assert says_status(raw.trailers(1), DEADLINE_EXCEEDED)
        return (time.monotonic() - began) * 1000 - timeout_ms


def test_deadline_is_told_on_time(server, client):
    """The model would take longer, whether it has begun with the request or not. Clients that do
    not look at the clock themselves are told within a few milliseconds."""
    body = message(client, "late").SerializeToString()
    with Gate(server, "late") as gate:
        late = [milliseconds_late(server, body, BEGIN_MS)]
        gate.wait()  # the first one is executing, and its answer will go nowhere
        # Of a busy machine some are late; a clock that ticks would make nearly all of them late.
        for _ in range(3):
            late += [milliseconds_late(server, body, TIMEOUT_MS) for _ in range(10)]
            if statistics.quantiles(late[-10:], n=4)[0] <= 10:
                break
        else:
            raise AssertionError(late)
        wait_for_pending(server, "late", 0)
        assert min(late) >= 0
        gate.open()
        last = client.ModelInfer.future(message(client, "late"), timeout=SECONDS)
        gate.wait()
        gate.open()
        assert executions(last.result()) == 2  # none of those that waited


def test_deadline_of_a_client_that_looks_at_the_clock(server, client):
    with Busy(server, client, "watch") as busy:
        late = busy.send(timeout=0.05)
        with pytest.raises(grpc.RpcError) as caught:
            late.result()
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        busy.queued(0)
        assert busy.next_number() == 1


def test_deadline_of_a_stream(server, client):
    """All its requests that wait are given up."""
    with Busy(server, client, "stream") as busy:
        with Raw(server) as raw:
            one = message(client, "stream").SerializeToString()
            began = time.monotonic()
            raw.send(frame(HEADERS, END_HEADERS, 1, head(STREAM_INFER, **{"grpc-timeout": "300m"})) +
                     frame(DATA, 0, 1, (b"\0" + struct.pack(">I", len(one)) + one) * 5))
            assert says_status(raw.trailers(1), DEADLINE_EXCEEDED)
            assert time.monotonic() - began >= 0.3
            wait_for_metric(server, 5, "nv_inference_request_failure", "stream", reason="CANCELED")
            busy.queued(0)
        assert busy.next_number() == 1


# ---- clients that go ----------------------------------------------------------------------------


def test_http_connection_closed(server, client):
    body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32",
                                   "data": [1]}]}).encode()
    with Busy(server, client, "http") as busy:
        leaving = [Wire(server.http_port) for _ in range(5)]
        for wire in leaving:
            wire.send(request("POST", "/v2/models/http/infer", body))
        busy.queued(5)
        for wire in leaving:
            wire.close()
        busy.queued(0)
        assert busy.next_number() == 1


def test_stream_reset(server, client):
    """One call of a connection goes, another stays."""
    body = message(client, "reset").SerializeToString()
    with Busy(server, client, "reset") as busy, Raw(server) as raw:
        raw.send(b"".join(call(i, body, path=INFER) for i in (1, 3, 5, 7)))
        busy.queued(4)
        raw.send(reset(1) + reset(5) + reset(7))
        busy.queued(1)
        busy.gate.open()
        assert executions(busy.first.result()) == 1
        busy.gate.wait()
        busy.gate.open()
        assert says_status(raw.trailers(3), 0)
        following = busy.send()
        busy.gate.wait()
        busy.gate.open()
        assert executions(following.result()) == 3


def test_grpc_connection_closed(server, client):
    body = message(client, "closed").SerializeToString()
    with Busy(server, client, "closed") as busy:
        with Raw(server) as raw:
            raw.send(b"".join(call(i, body, path=INFER) for i in (1, 3, 5, 7)))
            busy.queued(4)
        busy.queued(0)
        assert busy.next_number() == 1
