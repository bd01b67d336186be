# SPDX-License-Identifier: BSD-3-Clause
"""Models on GPUs, over both protocols: the server runs on stand-ins of the driver, which end it when it uses a
device wrongly or leaves memory behind."""
import numpy
import pytest
import requests

from gpus import model_text, opens_gpu_server
from grpc_stubs import client, stubs  # noqa: F401

SECONDS = 20
GPU, PINNED, CPU = 2, 1, 0

MODELS = {
    "add": model_text("add"),
    "add_1": model_text("add", gpus=[1]),
    "add_cpu": model_text("add", kind="KIND_CPU"),
    "add_cpu_outputs": model_text("add", cpu_outputs="true"),
    "add_scratch": model_text("add", scratch="server"),
    "unsynchronised": model_text("add", unsynchronised="true"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with opens_gpu_server(tmp_path_factory.mktemp("gpu"), MODELS) as running:
        yield running


def ask_add(server, model, a, b, outputs=("OUTPUT0",)):
    inputs = [{"name": name, "shape": [len(values)], "datatype": "FP32", "data": list(values)}
              for name, values in (("INPUT0", a), ("INPUT1", b))]
    reply = requests.post(f"{server.url}/v2/models/{model}/infer", timeout=SECONDS,
                          json={"inputs": inputs, "outputs": [{"name": name} for name in outputs]})
    assert reply.status_code == 200, reply.text
    return {output["name"]: output for output in reply.json()["outputs"]}


@pytest.mark.parametrize("model", ["add", "add_1", "add_cpu", "add_cpu_outputs", "add_scratch"])
def test_add(server, model):
    for n in (1, 256, 257, 10000):
        a, b = [float(i) for i in range(n)], [0.5 * i for i in range(n)]
        answer = ask_add(server, model, a, b)
        assert answer["OUTPUT0"]["data"] == [1.5 * i for i in range(n)]
