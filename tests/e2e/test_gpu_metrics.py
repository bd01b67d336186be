# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of GPUs, and what `neso ctl gpus` prints of them, on stand-ins of the driver and of NVML."""
import re
import subprocess

import requests

from conftest import BUILD
from gpus import GpuServer, fake_gpus, model_text, opens_gpu_server, require_gpus
from scrape import page

FAMILIES = ("nv_gpu_utilization", "nv_gpu_memory_total_bytes", "nv_gpu_memory_used_bytes", "nv_gpu_power_usage",
            "nv_gpu_power_limit", "nv_energy_consumption")


def scrape(server):
    return page(server).text


def metric(text, name, uuid):
    return float(re.search(rf'^{name}{{gpu_uuid="{uuid}"}} (\S+)$', text, re.MULTILINE)[1])


def ctl(server, *arguments):
    return subprocess.run([BUILD / "neso", "ctl", "gpus", f"--url={server.url}", *arguments], stdout=subprocess.PIPE,
                          text=True, check=True, timeout=20).stdout


def values_server(folder, text, options=()):
    """A server that reads NVML's values from a file; both."""
    require_gpus()
    (folder / "repository").mkdir()
    values = folder / "values"
    values.write_text(text)
    with fake_gpus(folder) as environment:
        return values, GpuServer(folder / "repository", {**environment, "NESO_FAKE_NVML_FILE": str(values)},
                                 ("--metrics-interval-ms=1", *options))


def test_values_change_while_the_server_runs(tmp_path):
    values, server = values_server(tmp_path, "0.utilization=50\n0.memory_used=1000\n0.energy=1000\n")
    try:
        values.write_text("0.utilization=50\n0.memory_used=1000\n0.energy=3500\n")
        listed = requests.get(f"{server.url}/v2/gpus", timeout=20).json()["gpus"]
        assert [gpu["device"] for gpu in listed] == [0, 1]
        assert listed[0]["utilization"] == 0.5 and listed[1]["utilization"] == 0.25
        assert listed[0]["memory_used_bytes"] == 1000 and listed[0]["energy_joules"] == 2.5
        uuids = [gpu["uuid"] for gpu in listed]
        text = scrape(server)
        assert metric(text, "nv_gpu_utilization", uuids[0]) == 0.5
        assert metric(text, "nv_energy_consumption", uuids[0]) == 2.5
        for name in FAMILIES:
            assert text.count(f"{name}{{gpu_uuid=") == 2, name
        values.write_text("0.utilization=75\n1.power=fail\n")
        assert metric(scrape(server), "nv_gpu_utilization", uuids[0]) == 0.75
        text = [scrape(server) for _ in range(5)][-1]
        assert text.count("nv_gpu_power_usage{") == 1
        assert server.text().count("the power usage of GPU 1 could not be read") == 1
        lines = ctl(server).splitlines()
        assert len(lines) == 3 and "75 %" in lines[1] and lines[1].split()[-1] == uuids[0]
        assert "75 / 300" in lines[1] and "/ 300" not in lines[2]
    finally:
        assert server.stop() == 0


def test_without_nvml_there_are_no_readings(tmp_path):
    _, server = values_server(tmp_path, "nvml.init=fail\n")
    try:
        text = scrape(server)
        assert not any(f"{name}{{" in text for name in FAMILIES)
        assert text.count("neso_gpu_info{") == 2
        listed = requests.get(f"{server.url}/v2/gpus", timeout=20).json()["gpus"]
        assert "utilization" not in listed[0] and listed[0]["memory_total_bytes"] == 1 << 30
    finally:
        assert server.stop() == 0


def test_readings_can_be_turned_off(tmp_path):
    _, server = values_server(tmp_path, "", ("--allow-gpu-metrics=false",))
    try:
        assert not any(f"{name}{{" in scrape(server) for name in FAMILIES)
    finally:
        assert server.stop() == 0


def test_cpu_only_has_no_gpus(tmp_path):
    require_gpus()
    (tmp_path / "repository").mkdir()
    with fake_gpus(tmp_path) as environment:
        server = GpuServer(tmp_path / "repository", {**environment, "TRITON_SERVER_CPU_ONLY": "1"})
        try:
            assert ctl(server) == "the server has no GPUs\n"
            assert ctl(server, "--json") == '{"gpus":[]}\n'
            text = scrape(server)
            assert "nv_gpu_" not in text and "neso_gpu_info" not in text
        finally:
            assert server.stop() == 0


def test_the_pool_of_a_model_is_listed(tmp_path):
    with opens_gpu_server(tmp_path, {"add": model_text("add", gpus=[1], scratch="server")}) as server:
        inputs = [{"name": name, "shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]} for name in ("INPUT0", "INPUT1")]
        reply = requests.post(f"{server.url}/v2/models/add/infer", json={"inputs": inputs}, timeout=20)
        assert reply.status_code == 200, reply.text
        listed = requests.get(f"{server.url}/v2/gpus", timeout=20).json()["gpus"]
        assert listed[1]["pool_total_bytes"] == 64 << 20 and listed[0]["pool_total_bytes"] == 0
