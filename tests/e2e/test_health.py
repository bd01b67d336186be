# SPDX-License-Identifier: BSD-3-Clause
"""Health while a backend takes its time to tell whether its model is ready: whoever asks for that waits,
and nothing else does."""
import concurrent.futures
import os

import pytest
import requests

from conftest import patience
from grpc_stubs import Client, Stub, open_channel, stubs  # noqa: F401
from python_programs import OPTIONS as PYTHON, PROGRAM, model

BACKENDS = ("python",)
# The answer of is_ready() is in a file. While there is a file "hold", it first reports through one FIFO
# that it was called, and waits for a line in another.
SLOW = PROGRAM + '''
    def execute(self, requests):
        return [answer(0) for r in requests]

    def read(self, name):
        with open(os.path.join(pb_utils.get_model_dir(), name)) as file:
            return file.read()

    def is_ready(self):
        if os.path.exists(os.path.join(pb_utils.get_model_dir(), "hold")):
            with open(os.path.join(pb_utils.get_model_dir(), "called"), "w") as file:
                file.write("?")
            self.read("go")
        return self.read("ready") == "yes"
'''
MODELS = {"slow": {**model(SLOW), "1/ready": "yes"}}
OPTIONS = (*PYTHON, "--disable-auto-complete-config", "--http-thread-count=1",
           "--grpc-infer-thread-count=1")
SECONDS = patience(20)


def ask_all(server, client, health, request, pool):
    """Each way to ask whether the server or the model is ready."""
    def status_of(path):
        return requests.get(f"{server.url}/v2/{path}", timeout=SECONDS).status_code

    return [pool.submit(lambda: status_of("health/ready") == 200),
            pool.submit(lambda: status_of("models/slow/ready") == 200),
            pool.submit(lambda: client.call("ServerReady").ready),
            pool.submit(lambda: client.call("ModelReady", {"name": "slow"}).ready),
            pool.submit(lambda: health.Check(request, timeout=SECONDS).status == 1),
            pool.submit(lambda: next(health.Watch(request, timeout=SECONDS)).status == 1)]


@pytest.mark.parametrize("text", ["yes", "no"])
def test_others_do_not_wait(server, stubs, text):  # noqa: F811
    """All questions wait for one is_ready(); meanwhile the only loop of each protocol goes on."""
    folder = server.repository / "slow" / "1"
    for name in ("called", "go"):
        os.mkfifo(folder / name)
    (folder / "hold").touch()
    with open_channel(server) as channel, concurrent.futures.ThreadPoolExecutor(8) as pool:
        client = Client(channel, stubs)
        health = Stub(channel, stubs.health, "Health")
        assert client.call("ServerLive").live
        asked = ask_all(server, client, health, stubs.health.HealthCheckRequest(), pool)
        assert (folder / "called").read_text("ascii") == "?"
        (folder / "hold").unlink()
        (folder / "ready").write_text(text, "ascii")
        assert client.call("ServerLive").live
        assert client.call("ServerMetadata").name == "triton"
        assert requests.get(f"{server.url}/v2/health/live", timeout=SECONDS).status_code == 200
        assert not any(one.done() for one in asked)
        (folder / "go").write_text("!", "ascii")
        assert [one.result() for one in asked] == [text == "yes"] * len(asked)
    for name in ("called", "go"):
        (folder / name).unlink()
