# SPDX-License-Identifier: BSD-3-Clause
"""Models in Python for the tests of the python backend.

The model RUNNER executes the program that a request contains, so a test has in one place what the model does
and what must result:

    run_program(server, "result = request.request_id()", id="7") == "7"

The program sees pb_utils, np, the request, the model (`self`) and all requests of the execution, and
sets `result` (anything that JSON can say). What it raises comes back as {"raised": [type, text]}. In the
model "raw" it sets `returned` instead: what execute() returns.
"""
import json
import os
import pathlib
import re

import pytest
import requests

from conftest import Server, patience, write_repository

# NESO_TEST_PYTHON: another interpreter with NumPy, of any version that models may have.
PYTHON = os.environ.get("NESO_TEST_PYTHON", "/usr/bin/python3")
OPTIONS = (f"--backend-config=python,python-path={PYTHON}",)
SECONDS = patience(30)

IO = """input { name: "CODE" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "RESULT" data_type: TYPE_STRING dims: [ 1 ] }
"""

PROGRAM = '''
import asyncio, json, os, sys, threading, time, gc
import numpy as np
import triton_python_backend_utils as pb_utils
import c_python_backend_utils as c_utils


def answer(result):
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor("RESULT", np.array([json.dumps(result).encode()], dtype=np.object_))])


def code_of(request):
    return pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy().reshape(-1)[0].decode()


class TritonPythonModel:
    def initialize(self, args):
        self.args = args
        self.kept = {}

    def scope(self, request, requests):
        return {**globals(), "self": self, "request": request, "requests": requests}
'''

RUNNER = PROGRAM + '''
    def execute(self, requests):
        return [self.run(request, requests) for request in requests]

    def run(self, request, requests):
        scope = self.scope(request, requests)
        try:
            exec(compile(code_of(request), "<program>", "exec"), scope)
        except Exception as error:
            return answer({"raised": [type(error).__name__, str(error)]})
        return answer(scope.get("result"))
'''

RAW = PROGRAM + '''
    def execute(self, requests):
        scope = self.scope(requests[0], requests)
        exec(compile(code_of(requests[0]), "<program>", "exec"), scope)
        return scope.get("returned")
'''

ASYNC_RUNNER = PROGRAM + '''
    async def execute(self, requests):
        return [await self.run(request, requests) for request in requests]

    async def run(self, request, requests):
        scope = self.scope(request, requests)
        code = "async def main():\\n" + "".join(
            "    " + line + "\\n" for line in code_of(request).splitlines())
        try:
            exec(compile(code, "<program>", "exec"), scope)
            return answer(await scope["main"]())
        except Exception as error:
            return answer({"raised": [type(error).__name__, str(error)]})
'''


def model(program, config="", io=IO, backend="python"):
    return {"config.pbtxt": f'backend: "{backend}"\n{io}{config}', "1/model.py": program}


def infer(server, name, inputs, parameters=None, outputs=None, **more):
    """The status and the JSON of an inference; `inputs` as of the protocol."""
    body = {"inputs": inputs, **more}
    if parameters is not None:
        body["parameters"] = parameters
    if outputs is not None:
        body["outputs"] = [{"name": output} for output in outputs]
    answer = requests.post(f"{server.url}/v2/models/{name}/infer", json=body, timeout=SECONDS)
    return answer.status_code, answer.json()


def code_input(code):
    return [{"name": "CODE", "datatype": "BYTES", "shape": [1], "data": [code]}]


def post(server, name, code, **more):
    return infer(server, name, code_input(code), **more)


def run_program(server, code, name="lab", **more):
    """What the program's `result` is."""
    status, answer = post(server, name, code, **more)
    assert status == 200, answer
    return json.loads(answer["outputs"][0]["data"][0])


def error(server, code, name="raw", **more):
    """The text of the failure that the program makes of the request."""
    status, answer = post(server, name, code, **more)
    assert status == 500, answer
    return answer["error"]


def raised(server, code, **more):
    """[type, text] of what the program raises."""
    result = run_program(server, code, **more)
    assert isinstance(result, dict) and "raised" in result, result
    return result["raised"]


def stub_of(server, name):
    """The process of a model's instance."""
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int(re.search(r"\nPPid:\t(\d+)", (folder / "status").read_text()).group(1))
        except OSError:
            continue
        if words[-2:-1] == [name.encode()] and parent == server.process.pid:
            assert words[1].endswith(b"/triton_python_backend_stub.py")
            return int(folder.name)
    return None


@pytest.fixture
def start(tmp_path):
    """begin(models, *options, **more) starts a server of these models."""
    running = []

    def begin(models, *options, **more):
        write_repository(tmp_path / "models", models)
        running.append(Server(tmp_path / "models", (*OPTIONS, *options), **more))
        return running[-1]

    yield begin
    for server in running:
        if server.process.poll() is None:
            server.stop()
