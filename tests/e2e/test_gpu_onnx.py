# SPDX-License-Identifier: BSD-3-Clause
"""ONNX models on GPUs: a library that seems to have the providers, which writes down what it was asked for, and
computes on the CPU (fake_cuda_onnxruntime.c), on stand-ins of GPUs."""
import json
import os
import subprocess
import sys

import numpy
import pytest
import requests

from conftest import BUILD, ROOT, require_build
from gpus import GpuServer, fake_gpus, require_gpus
from onnx_gpus import LIBRARY, place_library, real_library

IMAGES = numpy.arange(64, dtype=numpy.float32).reshape(1, 64) / 4
CONFIG = """platform: "onnxruntime_onnx"
max_batch_size: 8
%s
"""
GROUP = "instance_group { kind: KIND_GPU gpus: [ %s ] }"
ACCELERATOR = "optimization { execution_accelerators { gpu_execution_accelerator { name: \"%s\" %s } } }"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    require_build(("onnxruntime",))
    require_gpus()
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not built")
    folder = tmp_path_factory.mktemp("onnx")
    subprocess.run([sys.executable, str(ROOT / "tests" / "models" / "make_test_models.py"), str(folder)], check=True,
                   timeout=120)
    return folder / "good"


class Place:
    """Servers of one model "m" on the stand-ins; `providers` are the lines of those that were appended."""

    def __init__(self, folder, source, more, tensorrt=False, library=LIBRARY, files=False):
        self.providers_file = folder / "providers"
        self.model = folder / "repository" / "m"
        (self.model / "1").mkdir(parents=True)
        (self.model / "1" / "model.onnx").write_bytes((source / "1" / "model.onnx").read_bytes())
        text = (source / "config.pbtxt").read_text().replace(f'name: "{source.name}"', "")
        (self.model / "config.pbtxt").write_text(text + more)
        self.environment = {"NESO_REAL_ONNXRUNTIME": real_library(), "NESO_FAKE_TENSORRT": str(int(tensorrt)),
                            "NESO_FAKE_PROVIDERS": str(self.providers_file)}
        self.options = ["--exit-on-error=false", "--model-control-mode=explicit", "--load-model=m"]
        if files:
            self.options.append("--backend-config=onnxruntime,allow-file-options=true")
        if library:
            self.options.append(place_library(folder))

    def start(self, environment):
        return GpuServer(self.model.parent, {**environment, **self.environment}, self.options)

    @property
    def providers(self):
        return self.providers_file.read_text().splitlines() if self.providers_file.exists() else []


def run(folder, source, more, **named):
    """(index entry, providers, answer of one request or None)"""
    place = Place(folder, source, more, **named)
    with fake_gpus(folder) as environment:
        server = place.start(environment)
        try:
            index = requests.post(f"{server.url}/v2/repository/index", timeout=20).json()[0]
            answer = None
            if index["state"] == "READY":
                answer = ask(server)
        finally:
            assert server.stop() == 0, server.text()
    return index, place.providers, answer


def ask(server):
    config = requests.get(f"{server.url}/v2/models/m", timeout=20).json()
    inputs = [{"name": one["name"], "datatype": one["datatype"], "shape": [1, 16],
               "data": list(range(16))} for one in config["inputs"]]
    reply = requests.post(f"{server.url}/v2/models/m/infer", json={"inputs": inputs}, timeout=20)
    assert reply.status_code == 200, reply.text
    return {one["name"]: one["data"] for one in reply.json()["outputs"]}


@pytest.fixture(scope="module")
def on_cpu(file, tmp_path_factory):
    return run(tmp_path_factory.mktemp("cpu"), file / "simple", "", library=None)[2]


def test_a_session_on_each_device(file, on_cpu, tmp_path):
    index, providers, answer = run(tmp_path, file / "simple", GROUP % "0, 1")
    assert index["state"] == "READY", index
    assert providers == ["cuda device_id=0", "cuda device_id=1"]
    assert answer == on_cpu and answer


def test_instances_on_cpu_and_gpu(file, on_cpu, tmp_path):
    _, providers, answer = run(tmp_path, file / "simple", GROUP % "1" + " instance_group { kind: KIND_CPU }")
    assert providers == ["cuda device_id=1"] and answer == on_cpu


def test_instances_on_cpu_and_several_gpus(file, on_cpu, tmp_path):
    """Each session stays where it is when further devices get theirs: instances of all of them answer."""
    place = Place(tmp_path, file / "simple", GROUP % "0, 1" + " instance_group { kind: KIND_CPU }")
    with fake_gpus(tmp_path) as environment:
        server = place.start(environment)
        try:
            answers = [ask(server) for _ in range(12)]
        finally:
            assert server.stop() == 0, server.text()
    assert place.providers == ["cuda device_id=0", "cuda device_id=1"]
    assert answers == [on_cpu] * 12


@pytest.mark.parametrize("before, after, devices", [
    (GROUP % "0, 1", GROUP % "2, 1, 0", [2, 1, 0]),
    (GROUP % "0", GROUP % "0" + " instance_group { kind: KIND_MODEL }", [0]),
])
def test_an_update_adds_a_place(file, on_cpu, tmp_path, before, after, devices):
    """The model is loaded anew: it has no session there before. Instances of all places answer."""
    place = Place(tmp_path, file / "simple", before)
    place.options.append("--min-supported-compute-capability=5.0")
    config = place.model / "config.pbtxt"
    with fake_gpus(tmp_path) as environment:
        server = place.start(environment)
        try:
            place.providers_file.unlink()
            config.write_text(config.read_text().replace(before, after))
            reply = requests.post(f"{server.url}/v2/repository/models/m/load", timeout=20)
            answers = [ask(server) for _ in range(6)]
        finally:
            assert server.stop() == 0, server.text()
    assert reply.status_code == 200, reply.text
    assert place.providers == [f"cuda device_id={device}" for device in devices]
    assert answers == [on_cpu] * 6


def test_no_kind_is_the_gpus(file, on_cpu, tmp_path):
    """As the reference server does where the library can use them."""
    _, providers, answer = run(tmp_path, file / "simple", "")
    assert providers == ["cuda device_id=0", "cuda device_id=1"] and answer == on_cpu


def test_parameters_of_cuda(file, tmp_path):
    more = "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in {
        "cudnn_conv_algo_search": 1, "gpu_mem_limit": 1000000, "arena_extend_strategy": 1,
        "do_copy_in_default_stream": 0, "cudnn_conv_use_max_workspace": 0, "enable_cuda_graph": 0}.items())
    index, providers, _ = run(tmp_path, file / "simple", GROUP % "0" + more)
    assert index["state"] == "READY", index
    assert providers == ["cuda device_id=0 cudnn_conv_algo_search=HEURISTIC gpu_mem_limit=1000000 "
                         "arena_extend_strategy=kSameAsRequested do_copy_in_default_stream=0 "
                         "cudnn_conv_use_max_workspace=0 enable_cuda_graph=0"]


def test_tensorrt(file, on_cpu, tmp_path):
    given = {"precision_mode": "FP16", "max_workspace_size_bytes": "1073741824", "trt_engine_cache_enable": "true",
             "trt_engine_cache_path": "/cache", "int8_calibration_table_name": "table"}
    parameters = "".join(f'parameters {{ key: "{key}" value: "{value}" }} ' for key, value in given.items())
    _, providers, answer = run(tmp_path, file / "simple", GROUP % "1" + ACCELERATOR % ("tensorrt", parameters),
                               tensorrt=True, files=True)
    assert len(providers) == 2 and providers[1] == "cuda device_id=1"
    name, device, *others = providers[0].split()
    assert (name, device) == ("tensorrt", "device_id=1")
    assert sorted(others) == ["trt_engine_cache_enable=true", "trt_engine_cache_path=/cache", "trt_fp16_enable=1",
                              "trt_int8_calibration_table_name=table", "trt_max_workspace_size=1073741824"]
    assert answer == on_cpu


@pytest.mark.parametrize("more, reason", [
    (ACCELERATOR % ("tensorrt", ""), "has no TensorrtExecutionProvider"),
    (ACCELERATOR % ("openvino", ""), "unknown Execution Accelerator 'openvino' is requested"),
    (ACCELERATOR % ("cuda", 'parameters { key: "speed" value: "1" }'),
     "unknown parameter 'speed' is provided for CUDA Execution Accelerator"),
    (ACCELERATOR % ("cuda", 'parameters { key: "cudnn_conv_algo_search" value: "7" }'),
     "parameter 'cudnn_conv_algo_search' is '7', expected 0 to 2"),
    ('parameters { key: "enable_cuda_graph" value { string_value: "1" } }',
     "parameter 'enable_cuda_graph' is not supported: a CUDA graph needs inputs and outputs that have the same "
     "addresses in each run"),
    (ACCELERATOR % ("cuda", 'parameters { key: "enable_cuda_graph" value: "1" }'),
     "parameter 'enable_cuda_graph' is not supported"),
])
def test_what_is_refused(file, tmp_path, more, reason):
    index, _, _ = run(tmp_path, file / "simple", GROUP % "0" + more)
    assert index["state"] == "UNAVAILABLE" and reason in index["reason"], index


@pytest.mark.parametrize("parameter, reason", [
    ('parameters { key: "precision_mode" value: "FP8" }', "unsupported precision mode 'FP8' is requested"),
    ('parameters { key: "speed" value: "1" }',
     "unknown parameter 'speed' is provided for TensorRT Execution Accelerator"),
    ('parameters { key: "trt_cuda_graph_enable" value: "True" }',
     "parameter 'trt_cuda_graph_enable' is not supported"),
    ('parameters { key: "trt_refuse" value: "1" }', "trt_refuse is no option"),
])
def test_what_tensorrt_refuses(file, tmp_path, parameter, reason):
    index, _, _ = run(tmp_path, file / "simple", GROUP % "0" + ACCELERATOR % ("tensorrt", parameter), tensorrt=True,
                      files=True)
    assert index["state"] == "UNAVAILABLE" and reason in index["reason"], index


@pytest.mark.parametrize("name", ["trt_engine_cache_path", "trt_engine_cache_enable", "int8_calibration_table_name",
                                  "trt_extra_plugin_lib_paths", "trt_unknown"])
def test_files_need_an_option(file, tmp_path, name):
    parameter = f'parameters {{ key: "{name}" value: "1" }}'
    reason = f"parameter '{name}' of the TensorRT Execution Accelerator is about files"
    index, _, _ = run(tmp_path, file / "simple", GROUP % "0" + ACCELERATOR % ("tensorrt", parameter), tensorrt=True)
    assert index["state"] == "UNAVAILABLE" and reason in index["reason"], index


def test_a_library_without_cuda(file, tmp_path):
    index, _, _ = run(tmp_path, file / "simple", GROUP % "0", library=None)
    assert index["state"] == "UNAVAILABLE"
    assert "CUDAExecutionProvider" in index["reason"] and "libonnxruntime" in index["reason"]


def test_without_kind_and_without_cuda_it_is_the_cpu(file, on_cpu, tmp_path):
    index, providers, answer = run(tmp_path, file / "simple", "", library=None)
    assert index["state"] == "READY" and providers == [] and answer == on_cpu


def test_loads_leave_nothing(file, tmp_path):
    place = Place(tmp_path, file / "simple", GROUP % "0, 1")
    with fake_gpus(tmp_path) as environment:
        server = place.start(environment)
        try:
            for _ in range(20):
                for what in ("unload", "load"):
                    reply = requests.post(f"{server.url}/v2/repository/models/m/{what}", timeout=60)
                    assert reply.status_code == 200, reply.text
        finally:
            assert server.stop() == 0, server.text()
    assert len(place.providers) == 42


@pytest.mark.parametrize("more, verdict, field, text", [
    (ACCELERATOR % ("tensorrt", ""), "works", "gpu_execution_accelerator[0]", "with a library of ONNX Runtime that has it"),
    (ACCELERATOR % ("openvino", ""), "missing", "gpu_execution_accelerator[0]", "refuses to load"),
    ('parameters { key: "enable_cuda_graph" value { string_value: "1" } }', "missing", "parameters[0]",
     "CUDA graphs are not supported"),
    ("optimization { cuda { graphs: true } }", "works", "optimization.cuda", "no effect on ONNX models, as in Triton"),
])
def test_check_before_a_migration(file, tmp_path, more, verdict, field, text):
    """The remark agrees with the load."""
    place = Place(tmp_path, file / "simple", GROUP % "0" + more, tensorrt=True)
    with fake_gpus(tmp_path) as environment:
        done = subprocess.run([BUILD / "neso", "check", "--migrate", place.model.parent, "--json",
                               f"--backend-directory={BUILD / 'backends'}"], env={**os.environ, **environment},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        server = place.start(environment)
        try:
            index = requests.post(f"{server.url}/v2/repository/index", timeout=20).json()[0]
        finally:
            assert server.stop() == 0, server.text()
    model, = json.loads(done.stdout)["models"]
    assert [row["why"] for row in model["rows"]
            if row["verdict"] == verdict and row["field"].endswith(field) and text in row["why"]], model
    assert model["verdict"] == verdict
    assert (index["state"] == "READY") == (verdict == "works"), index
