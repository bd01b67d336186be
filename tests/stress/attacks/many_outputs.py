#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A Python model answers with more outputs than a response can have, at the client's wish.

The request gets an error that names the number; the model's next request is answered by the same
process, the model stays ready, and the server stops at once with status 0. A process that breaks the
rules of the shared memory is ended, and the next one serves.
"""
import contextlib
import json
import sys
import time

import attack
import requests
from python_programs import OPTIONS as PYTHON

SECONDS = 10  # an answer that takes longer never comes
PROGRAM = '''
import os
import c_python_backend_utils
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(int(request.inputs()[0].as_numpy()[0])) for request in requests]

    def answer(self, n):
        if n < 0:
            c_python_backend_utils._ask(99, 0, b"")  # a message of a kind that there is not
        pid = np.array([os.getpid()], np.int32)
        return pb_utils.InferenceResponse([pb_utils.Tensor(f"O{i}", pid) for i in range(n)])
'''
CONFIG = ('backend: "python"\ninput { name: "N" data_type: TYPE_INT32 dims: 1 }\n'
          'output { name: "O0" data_type: TYPE_INT32 dims: 1 }\n')


def ask(server, n):
    """(status, error or None, pid or None); the status 0 is no answer in time."""
    body = {"inputs": [{"name": "N", "datatype": "INT32", "shape": [1], "data": [n]}]}
    try:
        answer = requests.post(f"{server.url}/v2/models/many/infer", data=json.dumps(body),
                               timeout=SECONDS)
    except requests.exceptions.RequestException as e:
        return 0, repr(e), None
    found = answer.json()
    return answer.status_code, found.get("error"), (found["outputs"][0]["data"][0]
                                                    if answer.status_code == 200 else None)


def is_ready(server):
    with contextlib.suppress(requests.exceptions.RequestException):
        return requests.get(f"{server.url}/v2/models/many/ready", timeout=SECONDS).status_code == 200
    return False


def measure():
    with attack.server({"many": {"config.pbtxt": CONFIG, "1/model.py": PROGRAM}},
                       *PYTHON, "--backend-config=python,stub-timeout-seconds=5") as server:
        first = ask(server, 4096)
        yield attack.holds("4096 outputs are answered", first[0] == 200)
        for n in (4097, 20000, 50000):
            status, error, _ = ask(server, n)
            yield attack.holds(f"{n} outputs get an error that names the number",
                               status == 500 and str(n) in error)
            yield attack.holds("the next request is answered by the same process",
                               ask(server, 1) == (200, None, first[2]))
        yield attack.holds("the model is ready", is_ready(server))
        begun = time.monotonic()
        status, _, _ = ask(server, -1)
        yield attack.holds("a process that broke the rules fails its request", status == 500)
        status, _, pid = ask(server, 1)
        yield attack.holds("and another process answers the next", status == 200 and pid != first[2])
        yield attack.Figure("both", time.monotonic() - begun, "s", at_most=SECONDS)
        begun = time.monotonic()
        server.process.terminate()
        yield attack.Figure("exit status", server.process.wait(60), at_most=0)
        yield attack.Figure("the stop", time.monotonic() - begun, "s", at_most=5)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    attack.main(measure, __doc__)
