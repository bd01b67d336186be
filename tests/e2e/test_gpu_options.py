# SPDX-License-Identifier: BSD-3-Clause
"""The GPUs of a server: what it says of them, the options for them, their metrics."""
import json
import re

import pytest
import requests

from conftest import BUILD, Server, write_repository
from gpus import model_text, opens_gpu_server
from models import load, unload
from test_startup_and_stop import IDENTITY, messages

DEVICES = [f"GPU {i}: Neso Fake GPU 9.0, compute capability 9.0, 1073741824 bytes, GPU-" for i in (0, 1)]
OLD = ("GPU 2 is not used: Neso Fake GPU 5.2 has compute capability 5.2, the least that is used is "
       "6.0")
FAMILIES = ["neso_pinned_memory_pool_full_total", "neso_gpu_memory_pool_total_bytes",
            "neso_gpu_memory_pool_used_bytes", "neso_gpu_memory_pool_full_total",
            "neso_gpu_copied_bytes_total"]


@pytest.fixture
def on_gpus(tmp_path, monkeypatch):
    """Servers find the stand-in of the driver; whatever is left on its devices is a failure."""
    reports = tmp_path / "reports"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(BUILD / "tests" / "gpu"))
    monkeypatch.setenv("NESO_FAKE_GPU_REPORT", str(reports))
    yield
    assert not reports.exists() or reports.read_text() == ""


def said(server):
    return messages(server.text())


def families(server):
    page = requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=20).text
    return page, re.findall(r"^# TYPE (\S+) ", page, re.M)


def start(tmp_path, *options, models=None):
    folder = tmp_path / "models"
    folder.mkdir()
    write_repository(folder, models or {})
    return Server(folder, options, waits_for=("http", "metrics"))


@pytest.mark.usefixtures("on_gpus")
def test_devices(tmp_path):
    server = start(tmp_path, models={"model": IDENTITY})
    page, names = families(server)
    assert server.stop() == 0
    lines = said(server)
    for text in DEVICES:
        assert sum(line.startswith(text) for line in lines) == 1, server.text()
    assert lines.count(OLD) == 1
    [row] = [line for line in lines if "min_supported_compute_capability" in line]
    assert "| 6.0 " in row
    [row] = [line for line in lines if line.startswith("| identity ")]
    config = json.loads(row.strip("|").split("|")[2])
    assert config["cmdline"]["min-compute-capability"] == "6.000000"
    assert [name for name in names if name in FAMILIES] == FAMILIES
    assert len(re.findall(r'^neso_gpu_memory_pool_total_bytes\{gpu_uuid="GPU-[0-9a-f-]{36}"\} 0$', page,
                          re.M)) == 2
    # A server without models on GPUs has no pool, and no context.
    assert "\nnv_pinned_memory_pool_used_bytes 0\n" in page


@pytest.mark.usefixtures("on_gpus")
def test_least_compute_capability(tmp_path):
    server = start(tmp_path, "--min-supported-compute-capability=5.2")
    assert server.stop() == 0
    assert any(line.startswith("GPU 2: Neso Fake GPU 5.2, compute capability 5.2") for line in
               said(server))
    assert not any("is not used" in line for line in said(server))


@pytest.mark.usefixtures("on_gpus")
def test_options_for_unknown_devices(tmp_path):
    server = start(tmp_path, "--cuda-memory-pool-byte-size=0:1048576",
                   "--cuda-memory-pool-byte-size=7:1", "--cuda-virtual-address-size=2:1",
                   "--model-load-gpu-limit=8:0.5", "--model-load-gpu-limit=1:0.5")
    assert server.stop() == 0
    warnings = [line for line in said(server) if "has no effect" in line]
    assert warnings == [f"--{option} has no effect for GPU {device}: the GPUs are 0,1"
                        for option, device in (("cuda-memory-pool-byte-size", 7),
                                               ("cuda-virtual-address-size", 2),
                                               ("model-load-gpu-limit", 8))]


@pytest.mark.usefixtures("on_gpus")
def test_no_device(tmp_path, monkeypatch):
    monkeypatch.setenv("NESO_FAKE_GPU_DEVICES", "0")
    server = start(tmp_path)
    assert server.stop() == 0
    assert "no GPU is used: CUDA's driver has no device" in said(server)


@pytest.mark.usefixtures("on_gpus")
def test_driver_fails(tmp_path, monkeypatch):
    """A server with a broken driver serves without GPUs."""
    monkeypatch.setenv("NESO_FAKE_GPU_FAIL", "cuInit:1+:999")
    server = start(tmp_path, models={"model": IDENTITY})
    _, names = families(server)
    assert requests.get(f"{server.url}/v2/models/model/ready", timeout=20).status_code == 200
    assert server.stop() == 0
    assert "no GPU is used: CUDA's driver cannot be started: CUDA error 999" in said(server)
    assert not set(names) & set(FAMILIES)


def assert_no_gpus(server):
    page, names = families(server)
    assert server.stop() == 0
    lines = said(server)
    for option in ("cuda-memory-pool-byte-size", "cuda-virtual-address-size", "model-load-gpu-limit"):
        assert lines.count(f"--{option} has no effect: this server has no GPUs") == 1
    assert not set(names) & set(FAMILIES)
    assert "\nnv_pinned_memory_pool_total_bytes 268435456\n" in page
    assert not any(line.startswith("GPU ") for line in lines)
    [row] = [line for line in lines if "min_supported_compute_capability" in line]
    assert "| 0.0 " in row


GPU_OPTIONS = ("--cuda-memory-pool-byte-size=0:1048576", "--cuda-virtual-address-size=0:1",
               "--model-load-gpu-limit=0:0.5")


@pytest.mark.usefixtures("on_gpus")
def test_cpu_only(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_SERVER_CPU_ONLY", "1")
    server = start(tmp_path, *GPU_OPTIONS)
    assert_no_gpus(server)
    assert "no GPU is used: TRITON_SERVER_CPU_ONLY is set" in said(server)


def test_no_driver(tmp_path, monkeypatch):
    """The name of a library that is none: that of a machine with a driver is not found."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    (folder / "libcuda.so.1").write_text("no library\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    server = start(tmp_path, *GPU_OPTIONS)
    assert_no_gpus(server)
    [line] = [line for line in said(server) if "no GPU is used" in line]
    assert line.startswith("no GPU is used: unable to load shared library 'libcuda.so.1': ")


def test_library_without_the_functions(tmp_path, monkeypatch):
    """One warning names the function."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    (folder / "libcuda.so.1").symlink_to((BUILD / "tests" / "gpu" / "libnvidia-ml.so.1").resolve())
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    server = start(tmp_path, *GPU_OPTIONS)
    assert_no_gpus(server)
    assert said(server).count("no GPU is used: libcuda.so.1 has no function cuInit") == 1


def test_loads_look_at_the_limit(tmp_path):
    """A device with a limit whose memory cannot be read takes no models; the others are not asked."""
    models = {name: IDENTITY + f"instance_group {{ {group} }}\n" for name, group in (
        ("on_0", "kind: KIND_GPU gpus: [ 0 ]"), ("on_1", "kind: KIND_GPU gpus: [ 1 ]"),
        ("on_both", "kind: KIND_GPU"), ("on_cpu", "kind: KIND_CPU"))}
    with opens_gpu_server(tmp_path, models, "--model-control-mode=explicit",
                          "--model-load-gpu-limit=0:0.5", FAIL="cuMemGetInfo:2+:700") as server:
        load(server, "on_0")
        unload(server, "on_0")
        for name in ("on_0", "on_both"):
            refused = load(server, name, expected=400).json()["error"]
            assert refused == (f"load failed for model '{name}': version 1 is at UNAVAILABLE state: "
                               f"Unavailable: can not load model '{name}': GPU 0: unable to read its "
                               "free memory: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was "
                               "encountered;\n")
        load(server, "on_1")
        load(server, "on_cpu")


ADD = {"inputs": [{"name": name, "shape": [2], "datatype": "FP32", "data": [1, 2]}
                  for name in ("INPUT0", "INPUT1")]}


def test_limit_of_loads(tmp_path):
    """The pool of device 0, of which the first model takes its memory, is an eighth of the device."""
    models = {"first": model_text("add", gpus=[0], scratch="server"),
              "second": model_text("add", gpus=[0]), "on_1": model_text("add", gpus=[1]),
              "on_both": model_text("add"), "on_cpu": model_text("add", kind="KIND_CPU")}
    with opens_gpu_server(tmp_path, models, "--model-control-mode=explicit",
                          "--model-load-gpu-limit=0:0.1", MEMORY=512 << 20) as server:
        load(server, "first")
        load(server, "second")
        unload(server, "second")
        reply = requests.post(f"{server.url}/v2/models/first/infer", json=ADD, timeout=20)
        assert reply.status_code == 200, reply.text
        for name in ("second", "on_both"):
            refused = load(server, name, expected=None)
            assert refused.status_code == 400
            assert re.search(f"can not load model '{name}': memory limit of GPU 0 has been exceeded: "
                             r"0\.12\d of its memory is in use, --model-load-gpu-limit is 0\.100",
                             server.text()), server.text()
        load(server, "on_1")
        load(server, "on_cpu")
        page, _ = families(server)
        assert '"} 67108864\n' in page.partition("# TYPE neso_gpu_memory_pool_total_bytes")[2]
        assert requests.post(f"{server.url}/v2/models/first/infer", json=ADD,
                             timeout=20).status_code == 200
