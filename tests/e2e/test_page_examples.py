# SPDX-License-Identifier: BSD-3-Clause
"""The examples of the pages for users, run as they stand there: configurations, programs, command lines and what
they print. Only addresses and paths are replaced. docs/gpu.md has its own test, test_gpu_page.py."""
import contextlib
import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading

import pytest
import requests

from conftest import BUILD, Server, patience, require_build, write_repository
from models import wait_until
from pages import blocks, read, steps
from python_programs import OPTIONS as PYTHON

SECONDS = patience(30)
COLUMN = 35  # where the program begins beside its configuration, in docs/python_models.md


@pytest.fixture(autouse=True)
def is_built():
    require_build(("identity", "python", "onnxruntime"))


def block(page, begin):
    """The one that begins so."""
    [found] = [one for one in blocks(page) if one.startswith(begin)]
    return found


def shell(script, code=0, **variables):
    """`neso` is that of the build. What it printed, without standard error."""
    path = f"{BUILD}:{os.environ['PATH']}"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=SECONDS, check=False,
                           env={**os.environ, "PATH": path, **variables})
    assert ended.returncode == code, ended.stderr
    return ended.stdout


@contextlib.contextmanager
def opens(tmp_path, models, *options):
    write_repository(tmp_path / "models", models)
    server = Server(tmp_path / "models", (*PYTHON, *options))
    try:
        yield server
    finally:
        assert server.stop() == 0, server.text()


def infer(server, model, **inputs):
    """Each input is a list of rows of FP32; the values of the first output."""
    body = {"inputs": [{"name": name, "shape": [len(rows), len(rows[0])], "datatype": "FP32", "data": rows}
                       for name, rows in inputs.items()]}
    answer = requests.post(f"{server.url}/v2/models/{model}/infer", json=body, timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"][0]["data"]


def identity(name_in, name_out, dims, more=""):
    return (f'backend: "identity"\n{more}\ninput {{ name: "{name_in}" data_type: TYPE_FP32 dims: {dims} }}\n'
            f'output {{ name: "{name_out}" data_type: TYPE_FP32 dims: {dims} }}\n')


def test_generate(tmp_path):
    """The model, the requests and the answers of docs/generate.md."""
    requests_shown = [step for step in steps(block("generate.md", "$ build/neso serve")) if "curl" in step[0]]
    assert len(requests_shown) == 2
    with opens(tmp_path, {"echo": block("generate.md", "backend:")}) as server:
        for command, shown in requests_shown:
            printed = shell(command.replace("curl", "curl -s").replace("localhost:8000", server.url))
            assert printed.strip() == shown.strip()


def test_model_in_python(tmp_path):
    """The two columns of docs/python_models.md."""
    text = block("python_models.md", "models/add/").split("\n", 2)[2]
    config = "\n".join(line[:COLUMN].rstrip() for line in text.splitlines())
    program = "\n".join(line[COLUMN:] for line in text.splitlines())
    with opens(tmp_path, {"add": {"config.pbtxt": config, "1/model.py": program}}) as server:
        assert infer(server, "add", X=[[1, 2.5]]) == [2, 3.5]


SUM = """import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", sum(
            pb_utils.get_input_tensor_by_name(r, name).as_numpy() for name in "AB"))]) for r in requests]
"""


def test_ensemble(tmp_path):
    """The diamond of docs/pipelines.md."""
    batches = "max_batch_size: 8"
    join = "".join(f'{kind} {{ name: "{name}" data_type: TYPE_FP32 dims: [ 4 ] }}\n'
                   for kind, name in (("input", "A"), ("input", "B"), ("output", "OUT")))
    models = {"diamond": block("pipelines.md", 'name: "diamond"'),
              "left": identity("IN", "OUT", "[ 4 ]", batches), "right": identity("IN", "OUT", "[ 4 ]", batches),
              "join": {"config.pbtxt": f'backend: "python"\n{batches}\n{join}', "1/model.py": SUM}}
    with opens(tmp_path, models) as server:
        assert infer(server, "diamond", X=[[1, 2, 3, 4]]) == [2, 4, 6, 8]
        shell(f"neso check --quiet {server.repository}")


def test_chains(tmp_path):
    """Both configurations of docs/chains.md, and the body of its load."""
    names = {"A": ("IN", "OUT0"), "B": ("IN0", "OUT"), "decode": ("IN", "OUT"), "encode": ("IN", "OUT")}
    models = {name: identity(*tensors, "[ -1, 2 ]") for name, tensors in names.items()}
    models["A"] += block("chains.md", "parameters { key: \"next\"").replace("OUT0:IN0,OUT1:IN1", "OUT0:IN0")
    models["classify"] = {"config.pbtxt": identity("IN", "OUT", "[ -1, 2 ]"), "2/.keep": ""}
    models["pipe"] = block("chains.md", 'name: "pipe"')
    path, body = re.match(r"POST (\S+) +(.*)", block("chains.md", "POST /v2/repository")).groups()
    with opens(tmp_path, models, "--model-control-mode=explicit", "--load-model=*") as server:
        assert infer(server, "A", IN=[[1, 2]]) == infer(server, "pipe", IN=[[1, 2]]) == [1, 2]
        assert requests.post(server.url + path, data=body, timeout=SECONDS).status_code == 200
        assert [one["name"] for one in requests.get(f"{server.url}/v2/models/A/chain", timeout=SECONDS).json()["stages"]
                ] == ["A", "B"]


MODEL_OF_TEXTS = """import numpy as np, triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("text_output", pb_utils.get_input_tensor_by_name(
            r, "text_input").as_numpy())]) for r in requests]
"""


def test_chat_template(tmp_path):
    """The model of docs/language_models.md that renders messages, and the request for a chat."""
    text = 'name: "{}" data_type: TYPE_STRING dims: [ 1 ]'
    chat = ('backend: "python"\n'
            f'input {{ {text.format("text_input")} }}\n'
            f'input {{ {text.format("sampling_parameters")} optional: true }}\n'
            f'output {{ {text.format("text_output")} }}\n'
            'parameters { key: "openai_template" value { string_value: "render" } }\n')
    render = (f'backend: "python"\ninput {{ {text.format("openai_request")} }}\noutput {{ {text.format("text")} }}\n'
              'parameters { key: "openai" value { string_value: "off" } }\n')
    models = {"chat": {"config.pbtxt": chat, "1/model.py": MODEL_OF_TEXTS},
              "render": {"config.pbtxt": render, "1/model.py": block("language_models.md", "import json, numpy")}}
    [listed, chats] = list(steps(block("language_models.md", "$ curl localhost:8000/v1/models")))[:2]
    with opens(tmp_path, models) as server:
        ask = [command.replace("curl", "curl -s").replace("localhost:8000", server.url) for command, _ in (listed, chats)]
        assert [one["id"] for one in json.loads(shell(ask[0]))["data"]] == ["chat"]
        answer = json.loads(shell(ask[1]))
        assert answer["choices"][0]["message"]["content"] == "<|user|>\nHi\n<|assistant|>\n"


def test_response_cache(tmp_path):
    """Both settings of docs/caching.md."""
    options = shell(block("caching.md", "neso serve").replace("neso serve", "printf '%s\\n'")).split()[1:]
    config = identity("IN", "OUT", "[ -1, 1 ]", block("caching.md", "response_cache"))
    with opens(tmp_path, {"m": config}, *options) as server:
        assert infer(server, "m", IN=[[1]]) == infer(server, "m", IN=[[1]]) == [1]
        page = requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=SECONDS).text
        assert 'nv_cache_num_hits_per_model{model="m",version="1"} 1\n' in page


def test_keys(tmp_path):
    """The file of docs/security.md, and the lines that add a key to it."""
    keys = tmp_path / "keys"
    keys.write_text(block("security.md", "# name "))
    make, add, ask = (command for command, _ in steps(block("security.md", "$ KEY=")))
    key = shell(f"cd {tmp_path}; {make}\n{add.replace('team-a', 'team-b')}\necho $KEY").strip()
    assert hashlib.sha256(key.encode()).hexdigest() in keys.read_text()
    with opens(tmp_path, {"m": identity("IN", "OUT", "[ 1, 1 ]")}, f"--api-key-file={keys}") as server:
        ask = ask.replace("localhost:8000", server.url).replace("curl", "curl -s -o /dev/null -w '%{http_code}'")
        assert shell(ask, KEY=key) == "200" and shell(ask, KEY="another") == "401"


def test_index_of_a_web_server(tmp_path):
    """The program of docs/object_stores.md that writes index.json."""
    write_repository(tmp_path / "models", {"m": {"config.pbtxt": identity("IN", "OUT", "[ 1, 1 ]"), "1/.keep": ""}})
    subprocess.run([sys.executable, "-c", block("object_stores.md", "import hashlib")], cwd=tmp_path, check=True,
                   timeout=SECONDS)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        server = Server(f"http://127.0.0.1:{web.server_port}/models",
                        (f"--repository-cache-directory={tmp_path / 'cache'}",))
        try:
            assert infer(server, "m", IN=[[7]]) == [7]
        finally:
            assert server.stop() == 0, server.text()
            web.shutdown()


def test_rotation(tmp_path):
    """The file of docs/operations.md for logrotate. The service is the server of this test."""
    logrotate = shutil.which("logrotate") or shutil.which("/usr/sbin/logrotate")
    if logrotate is None:
        pytest.skip("logrotate is not there")
    log, config = tmp_path / "server.log", tmp_path / "neso"
    text = block("operations.md", "# /etc/logrotate.d/neso").replace("/var/log/neso/server.log", str(log))
    assert "systemctl reload neso.service" in text
    write_repository(tmp_path / "models", {"m": identity("IN", "OUT", "[ 1, 1 ]")})
    ports = tmp_path / "ports"
    server = subprocess.Popen([BUILD / "neso", "serve", f"--backend-directory={BUILD / 'backends'}",
                               f"--model-repository={tmp_path / 'models'}", "--http-address=127.0.0.1",
                               "--grpc-address=127.0.0.1", "--http-port=0", "--grpc-port=0", "--metrics-port=0",
                               f"--log-file={log}", f"--port-file={ports}"])
    try:
        wait_until(lambda: ports.exists())
        config.write_text(text.replace("systemctl reload neso.service", f"kill -HUP {server.pid}"))
        tmp_path.chmod(0o755)
        subprocess.run([logrotate, "--force", "--state", tmp_path / "state", config], check=True, timeout=SECONDS)
        wait_until(lambda: log.exists() and "opened the log file again" in log.read_text())
        assert "Started HTTPService" in (tmp_path / "server.log.1").read_text()
    finally:
        server.terminate()
        assert server.wait(SECONDS) == 0


def test_check_of_a_command_line(tmp_path):
    """The command of docs/migrate.md and the command line that it prints."""
    page = read("migrate.md")
    command = re.search(r"^    (neso check --migrate .*?)\n\n", page, re.S | re.M)[1].replace(" models ", f" {tmp_path} ")
    shown = re.search(r"^(neso serve \\\n.*?\n)\n", page, re.S | re.M)[1]
    assert shown in shell(command, code=1)
