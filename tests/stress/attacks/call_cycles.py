#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A model in Python and an ensemble that call each other.

The model P has one instance and calls the ensemble E, whose only step is P: the call waits for the
instance that makes it. Every client that reaches P starts this. The call has to be refused at once, P
has to serve the next request, and the server has to stop with the status 0. The same with a coroutine that
awaits the call, and with a reader of its responses.
"""
import http.client
import json
import signal
import subprocess
import time

import attack

IO = ('input { name: "X" data_type: TYPE_INT32 dims: 1 }\n'
      'output { name: "Y" data_type: TYPE_INT32 dims: 1 }\n')
P = '''
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "X")
            y = pb_utils.Tensor("Y", x.as_numpy())
            error = None
            if x.as_numpy()[0] > 0:
                call = pb_utils.InferenceRequest(model_name="%s", inputs=[x], requested_output_names=["Y"])
                error = (%s).error()
            answers.append(pb_utils.InferenceResponse([y], error))
        return answers
'''
WAYS = {"P": "call.exec()", "A": "await call.async_exec()", "S": "list(call.exec(decoupled=True))[0]"}


def ensemble_of(step):
    return ('platform: "ensemble"\n' + IO + 'ensemble_scheduling { step { model_name: "%s" model_version: -1 '
            'input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } } }\n' % step)


def program(name):
    text = P % ("E" + name, WAYS[name])
    return text.replace("def execute", "async def execute") if name == "A" else text


MODELS = {"E" + name: ensemble_of(name) for name in WAYS}
MODELS.update({name: {
    "config.pbtxt": 'backend: "python"\n' + IO + "instance_group { kind: KIND_CPU count: 1 }\n",
    "1/model.py": program(name)} for name in WAYS})
PATIENCE = 3


def ask(port, model, x):
    """The status, 0 when none came within the client's patience, and the text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    body = {"inputs": [{"name": "X", "shape": [1], "datatype": "INT32", "data": [x]}]}
    try:
        connection.request("POST", f"/v2/models/{model}/infer", json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError as e:
        return 0, repr(e)
    finally:
        connection.close()


def measure():
    with attack.server(MODELS, "--backend-config=python,python-path=/usr/bin/python3",
                       "--exit-timeout-secs=5") as server:
        port = server.port("http")
        for name, way in WAYS.items():
            begun = time.monotonic()
            status, text = ask(port, name, 1)
            yield attack.Figure(f"{way}: time of the call that can never be served", time.monotonic() - begun, "s",
                                at_most=1)
            yield attack.holds("it is refused and names the cycle",
                               status == 500 and f"{name} -> E{name} -> {name}" in text)
            yield attack.holds("the next request is served", ask(port, name, 0)[0] == 200)
        server.process.send_signal(signal.SIGTERM)
        try:
            status = server.process.wait(15)
        except subprocess.TimeoutExpired:
            status = -1
        yield attack.Figure("exit status of the server", status, "", at_most=0, at_least=0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
