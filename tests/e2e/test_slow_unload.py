# SPDX-License-Identifier: BSD-3-Clause
"""Models whose backend takes long to end: they delay no other model, and are named at the exit."""
import os
import threading

import pytest
import requests

from conftest import Server, patience, require_build, write_repository
from python_programs import OPTIONS as PYTHON

BACKENDS = ("python",)
SECONDS = patience(30)

# Its finalize waits for a line in the pipe.
SLOW = """
import os
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.pipe = os.path.join(pb_utils.get_model_dir(), "pipe")

    def execute(self, requests):
        return []

    def finalize(self):
        pb_utils.Logger.log_info("finalize of slow begins")
        with open(self.pipe) as file:
            file.read()
"""
GOOD = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return []

    def finalize(self):
        pb_utils.Logger.log_info("finalize of good")
"""
CONFIG = ('backend: "python"\ninput { name: "X" data_type: TYPE_FP32 dims: 1 }\n'
          'output { name: "Y" data_type: TYPE_FP32 dims: 1 }\n')
# "a-slow" is unloaded before "good" at the exit too.
MODELS = {"a-slow": {"config.pbtxt": CONFIG, "1/model.py": SLOW},
          "good": {"config.pbtxt": CONFIG, "1/model.py": GOOD}}


@pytest.fixture
def server(tmp_path):
    require_build(BACKENDS)
    write_repository(tmp_path, MODELS)
    os.mkfifo(tmp_path / "a-slow" / "1" / "pipe")
    one = Server(tmp_path, (*PYTHON,
                            "--model-control-mode=explicit", "--load-model=*",
                            "--exit-timeout-secs=3"))
    yield one
    if one.process.poll() is None:
        one.process.kill()
        one.process.wait()


def unload(server, model):
    assert requests.post(f"{server.url}/v2/repository/models/{model}/unload",
                         timeout=SECONDS).status_code == 200


def release(server):
    with open(server.repository / "a-slow" / "1" / "pipe", "w", encoding="ascii"):
        pass


def test_a_slow_unload_delays_no_other(server):
    unload(server, "a-slow")
    server.wait_for_line("finalize of slow begins")
    unload(server, "good")
    server.wait_for_line("successfully unloaded 'good' version 1")
    assert "successfully unloaded 'a-slow'" not in server.text()
    release(server)
    server.wait_for_line("successfully unloaded 'a-slow' version 1")
    assert server.stop() == 0


def test_the_exit_names_what_has_not_ended(server):
    stopping = threading.Thread(target=server.process.terminate)
    stopping.start()
    stopping.join()
    assert server.process.wait(SECONDS) == 1
    text = server.text()
    assert "finalize of good" in text
    assert "successfully unloaded 'good' version 1" in text
    assert "model 'a-slow' (version 1) has not ended" in text
    assert "model 'good' (version 1) has not ended" not in text
