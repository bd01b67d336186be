#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Models in Python whose initialize() loads another model.

Four such models load at once, as many as the server has threads for loads, and each waits for the load of
another model. All have to load. A model that loads itself, and two that load each other, have to be
refused, and the server has to stop with the status 0.
"""
import concurrent.futures
import http.client
import signal
import subprocess
import time

import attack

MODEL = '''
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        pb_utils.load_model("%s")

    def execute(self, requests):
        return []
'''
CONFIG = ('backend: "python"\ninstance_group { kind: KIND_CPU count: 1 }\n'
          'input { name: "X" data_type: TYPE_FP32 dims: 1 }\noutput { name: "Y" data_type: TYPE_FP32 dims: 1 }\n')
LOADS = {**{f"outer{i}": f"inner{i}" for i in range(4)}, "self": "self", "one": "two", "two": "one"}
MODELS = {**{name: {"config.pbtxt": CONFIG, "1/model.py": MODEL % other} for name, other in LOADS.items()},
          **{f"inner{i}": attack.IDENTITY for i in range(4)}, "plain": attack.IDENTITY}
PATIENCE = 10


def load(port, name, patience=PATIENCE):
    """The status, 0 when none came within the client's patience, and the text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    try:
        connection.request("POST", f"/v2/repository/models/{name}/load")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError as e:
        return 0, repr(e)
    finally:
        connection.close()


def measure():
    with attack.server(MODELS, "--backend-config=python,python-path=/usr/bin/python3", "--model-load-thread-count=4",
                       "--model-control-mode=explicit", "--exit-timeout-secs=5") as server:
        port = server.port("http")
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            statuses = [status for status, _ in pool.map(lambda i: load(port, f"outer{i}"), range(4))]
        yield attack.Figure("time of four loads that load", time.monotonic() - begun, "s", at_most=8)
        yield attack.Figure("of them succeed", statuses.count(200), "", at_least=4)
        yield attack.holds("another model can be loaded", load(port, "plain", 3)[0] == 200)
        status, text = load(port, "self", 3)
        yield attack.holds("a model that loads itself is refused by name", status == 400 and "self -> self" in text)
        status, text = load(port, "one", 3)
        yield attack.holds("two that load each other are, too", status == 400 and "-> one" in text)
        server.process.send_signal(signal.SIGTERM)
        try:
            status = server.process.wait(12)
        except subprocess.TimeoutExpired:
            status = -1
        yield attack.Figure("exit status of the server", status, "", at_most=0, at_least=0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
