# SPDX-License-Identifier: BSD-3-Clause
"""SIGTERM while clients send one request behind the other: each that was sent is answered, or
refused, and the last answer of a connection says that it is the last."""
import concurrent.futures
import json
import signal
import threading

import pytest

from conftest import Server, require_build, write_repository
from models import model_text
from wire import Wire, request

BACKENDS = ("identity",)
N_CLIENTS = 16

BODY = json.dumps({"inputs": [
    {"name": "INPUT0", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}).encode()


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(BACKENDS)


def ask_until_told(port, started):
    """How many requests were answered, and how many were not."""
    text = request("POST", "/v2/models/m/infer", BODY)
    n_answered = 0
    with Wire(port) as wire:
        while True:
            answer = wire.read_answer() if wire.send(text) else None
            if answer is None:
                return n_answered, 1
            assert answer.status in (200, 503), answer
            n_answered += 1
            if n_answered == 20:
                started.release()
            if answer.headers.get("connection") == "close":
                assert wire.is_closed()
                return n_answered, 0


@pytest.mark.parametrize("attempt", range(3))
def test_no_request_is_lost(tmp_path, attempt):
    write_repository(tmp_path, {"m": model_text(backend="identity")})
    running = Server(tmp_path)
    started = threading.Semaphore(0)
    with concurrent.futures.ThreadPoolExecutor(N_CLIENTS) as pool:
        clients = [pool.submit(ask_until_told, running.http_port, started)
                   for _ in range(N_CLIENTS)]
        for _ in clients:
            started.acquire()
        running.process.send_signal(signal.SIGTERM)
        results = [one.result() for one in clients]
    assert running.process.wait(20) == 0
    running.stop()
    assert sum(lost for _, lost in results) == 0
    assert all(answered >= 20 for answered, _ in results)
