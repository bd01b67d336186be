# SPDX-License-Identifier: BSD-3-Clause
"""Long warm-ups end when another change makes the load needless."""
import concurrent.futures
import contextlib
import json
import os
import shutil

import pytest
import requests

from conftest import Server, require_build, write_repository
from python_programs import OPTIONS as PYTHON

TAKES_SECONDS = 15
BACKENDS = ("testing", "python")
SECONDS = 20  # a warm-up that goes on takes longer

IO = ('input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] }\n'
      'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] }\n')
WARMUP = ('model_warmup { name: "sample" batch_size: 1 count: %d inputs { key: "INPUT0" '
          'value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }\n')
DELAY = 'parameters { key: "execute_delay_ms" value { string_value: "%d" } }\n'
LONG = 'backend: "testing"\n' + IO + WARMUP % 10000 + DELAY % 10  # 100 s
SHORT = 'backend: "testing"\n' + IO + WARMUP % 3
SUPERSEDED = ("load failed for model 'm': version 1 is at UNAVAILABLE state: Unavailable: failed to run warmup "
              "sample 'sample': another change of the model was requested; ;\n")
# The warm-up is long as long as there is a file "slow".
SLOW = """
import os
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        pb_utils.Logger.log_info("instance " + args["model_instance_name"])

    def execute(self, requests):
        if os.path.exists(os.path.join(pb_utils.get_model_dir(), "../../../slow")):
            time.sleep(0.01)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", r.inputs()[0].as_numpy())])
                for r in requests]
"""
SLOW_CONFIG = 'backend: "python"\n' + IO + WARMUP % 5000 + "instance_group { count: %d kind: KIND_CPU }\n"


@pytest.fixture
def start(tmp_path):
    require_build(BACKENDS)
    running = []

    def begin(models, *options):
        write_repository(tmp_path / "models", models)
        running.append(Server(tmp_path / "models", (*PYTHON, "--disable-auto-complete-config", *options)))
        return running[-1]

    yield begin
    for server in running:
        if server.process.poll() is None:
            server.stop()


EXPLICIT = "--model-control-mode=explicit"


def change(server, what="load", config=None):
    body = {} if config is None else {"parameters": {"config": json.dumps(config)}}
    answer = requests.post(f"{server.url}/v2/repository/models/m/{what}", json=body, timeout=SECONDS)
    return answer.status_code, answer.json()["error"] if answer.text else None


def state(server):
    return [(model["name"], model.get("state"), model.get("reason", "")) for model in requests.post(
        f"{server.url}/v2/repository/index", json={}, timeout=SECONDS).json()]


def serves(server):
    return requests.post(f"{server.url}/v2/models/m/infer", timeout=SECONDS, json={"inputs": [
        {"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]}).status_code == 200


@contextlib.contextmanager
def loading(server, line, **more):
    """A load that warms up for long; its answer is asked for with ()."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        task = pool.submit(change, server, **more)
        server.wait_for_line(line)
        yield lambda: task.result(SECONDS)


def test_an_unload(start):
    server = start({"m": LONG}, EXPLICIT)
    with loading(server, "loading: m:1") as answer:
        assert change(server, "unload") == (200, None)
        assert answer() == (400, SUPERSEDED)
    assert not serves(server)
    (server.repository / "m/config.pbtxt").write_text(SHORT)
    assert change(server) == (200, None)
    assert serves(server)


def test_an_unload_while_another_load_serves(start):
    server = start({"m": SHORT}, EXPLICIT)
    assert change(server) == (200, None)
    server.wait_for_line("successfully loaded 'm'")
    (server.repository / "m/config.pbtxt").write_text(LONG)
    with loading(server, "loading: m:1") as answer:
        assert serves(server)
        assert change(server, "unload") == (200, None)
        assert answer() == (400, SUPERSEDED)
    assert not serves(server)
    server.wait_for_line("successfully unloaded 'm' version 1")


def test_other_files(start):
    """What is loaded next is what the files say then."""
    server = start({"m": LONG}, EXPLICIT)
    with loading(server, "loading: m:1") as answer:
        (server.repository / "m/config.pbtxt").write_text(SHORT)
        assert change(server) == (200, None)
        assert answer() == (400, SUPERSEDED)
    assert serves(server)
    assert state(server) == [("m", "READY", "")]


def test_another_configuration(start):
    server = start({"m": LONG}, EXPLICIT)
    short = {"backend": "testing", "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [1]}],
             "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [1]}]}
    with loading(server, "loading: m:1") as answer:
        assert change(server, config=short) == (200, None)
        assert answer() == (400, SUPERSEDED)
    assert serves(server)


def test_the_same_again_waits(start):
    """Both loads succeed, and the second one has nothing to do."""
    server = start({"m": LONG.replace("10000", "100")}, EXPLICIT)  # a second
    with loading(server, "loading: m:1") as answer:
        assert change(server) == (200, None)
        assert answer() == (200, None)
    assert server.text().count("loading: m:1") == 1
    assert serves(server)


def test_a_retry_does_not_begin_again(start):
    server = start({"m": LONG}, EXPLICIT, "--model-load-retry-count=5")
    with loading(server, "loading: m:1") as answer:
        assert change(server, "unload") == (200, None)
        assert answer() == (400, SUPERSEDED)
    server.wait_for_line("failed to load 'm' version 1")
    assert server.text().count("failed to load 'm' version 1") == 1


def test_instances_that_are_added(start):
    """The model goes on serving with those that it has, until it is unloaded."""
    server = start({"m": {"config.pbtxt": SLOW_CONFIG % 1, "1/model.py": SLOW}}, EXPLICIT)
    slow = server.repository.parent / "slow"
    assert change(server) == (200, None)
    slow.touch()
    (server.repository / "m/config.pbtxt").write_text(SLOW_CONFIG % 2)
    with loading(server, "instance m_0_1") as answer:
        assert serves(server)
        assert change(server, "unload") == (200, None)
        status, text = answer()
        assert (status, "another change of the model was requested" in text) == (400, True)
    assert not serves(server)
    slow.unlink()
    assert change(server) == (200, None)
    assert serves(server)


@pytest.mark.parametrize("then", ["changed", "removed"])
def test_a_poll(start, then):
    server = start({"other": SHORT}, "--model-control-mode=poll", "--repository-poll-secs=1")
    write_repository(server.repository, {"m": LONG})
    server.wait_for_line("loading: m:1")
    if then == "changed":
        (server.repository / "m/config.pbtxt").write_text(SHORT)
        server.wait_for_line("successfully loaded 'm'", seconds=SECONDS)
        assert serves(server)
        assert state(server) == [("m", "READY", ""), ("other", "READY", "")]
    else:
        shutil.rmtree(server.repository / "m")
        server.wait_for_line("failed to load 'm' version 1: Unavailable: failed to run warmup sample 'sample': "
                             "another change of the model was requested", seconds=SECONDS)
        assert not serves(server)
    assert os.path.isdir(server.repository / "other")
