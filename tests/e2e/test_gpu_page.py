# SPDX-License-Identifier: BSD-3-Clause
"""What docs/gpu.md says: its client with memory on a GPU, as it stands there; models in Python on a GPU."""
import os
import re
import subprocess
import sys

import numpy
import pytest
import requests

from conftest import ROOT, require_build
from gpus import fake_gpus, model_text, opens_gpu_server
from python_programs import OPTIONS as PYTHON
from test_cuda_shared_memory import Http, Region
from test_shared_memory import place

PAGE = ROOT / "docs" / "gpu.md"


def test_client_of_the_page(tmp_path):
    [program] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.S | re.M)
    promised = re.search(r"It prints `(.*)`", PAGE.read_text())[1]
    (tmp_path / "client").mkdir()
    with opens_gpu_server(tmp_path, {"add": model_text("add")}, "--allow-client-shm=true") as server, \
            fake_gpus(tmp_path / "client") as environment:
        ended = subprocess.run([sys.executable, "-c", program, server.url], capture_output=True, text=True, timeout=60,
                               env={**os.environ, **environment}, check=False)
        assert (ended.returncode, ended.stdout) == (0, promised + "\n"), ended.stderr


PROGRAM = """import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.place = [args["model_instance_kind"], args["model_instance_device_id"]]

    def execute(self, requests):
        responses = []
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, "INPUT0")
            total = str(tensor.as_numpy().sum()) if tensor.is_cpu() else "-"
            told = [*self.place, str(tensor.is_cpu()), total]
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", numpy.array(told, dtype=object))]))
        return responses
"""
CONFIG = """backend: "python"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_STRING dims: [ 4 ] }
instance_group { kind: KIND_GPU gpus: [ 0 ] }
parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "%s" } }
"""


@pytest.mark.parametrize("forced, told", [("yes", ["GPU", "0", "True", "6.0"]), ("no", ["GPU", "0", "False", "-"])])
def test_model_in_python(tmp_path, forced, told):
    """It knows its GPU, and a tensor of a CUDA region is where its parameter says."""
    require_build(("python",))
    models = {"m": {"config.pbtxt": CONFIG % forced, "1/model.py": PROGRAM}}
    with opens_gpu_server(tmp_path, models, "--allow-client-shm=true", *PYTHON) as server, \
            Region(Http(server), numpy.arange(4, dtype=numpy.float32).tobytes()):
        reply = requests.post(f"{server.url}/v2/models/m/infer", timeout=20, json={
            "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [4], "parameters": place(("r", 0, 16))}]})
        assert reply.status_code == 200, reply.text
        assert reply.json()["outputs"][0]["data"] == told
