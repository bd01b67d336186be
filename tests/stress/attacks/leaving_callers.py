#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clients that leave while a Python model waits for another model on their behalf.

The model P has one instance and calls the model Q, which sleeps for half a minute and never looks whether
its client is still there. Each attacker sends one request to P and leaves; many do it one after the other and
at once. P has to serve an innocent client all the time, although each of its executions would wait for Q.
"""
import http.client
import json
import time

import attack

IO = ('input { name: "X" data_type: TYPE_INT32 dims: 1 }\n'
      'output { name: "Y" data_type: TYPE_INT32 dims: 1 }\n')
CONFIG = 'backend: "python"\n' + IO + "instance_group { kind: KIND_CPU count: 1 }\n"
P = '''
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            x = r.inputs()[0]
            error = None
            if x.as_numpy()[0] > 0:
                error = pb_utils.InferenceRequest(model_name="Q", inputs=[x],
                                                  requested_output_names=["Y"]).exec().error()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x.as_numpy())], error))
        return answers
'''
Q = '''
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(30)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy())]) for r in requests]
'''
MODELS = {"P": {"config.pbtxt": CONFIG, "1/model.py": P}, "Q": {"config.pbtxt": CONFIG, "1/model.py": Q}}
ROUNDS, CROWD = 20, 30


def send(port, x):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/v2/models/P/infer", json.dumps(
        {"inputs": [{"name": "X", "shape": [1], "datatype": "INT32", "data": [x]}]}))
    return connection


def ask(port):
    """How long an innocent request takes; infinite when there is no answer."""
    begun = time.monotonic()
    connection = send(port, 0)
    try:
        status = connection.getresponse().status
    except OSError:
        status = 0
    connection.close()
    return time.monotonic() - begun if status == 200 else float("inf")


def measure():
    with attack.server(MODELS, "--backend-config=python,python-path=/usr/bin/python3",
                       "--exit-timeout-secs=5") as server:
        port = server.port("http")
        worst = 0
        for _ in range(ROUNDS):
            send(port, 1).close()
            worst = max(worst, ask(port))
        yield attack.Figure("an innocent request after an attacker has left, at most", worst, "s", at_most=1)
        crowd = [send(port, 1) for _ in range(CROWD)]
        for attacker in crowd:
            attacker.close()
        yield attack.Figure("the same after a crowd has left", ask(port), "s", at_most=2)


if __name__ == "__main__":
    attack.main(measure, __doc__)
