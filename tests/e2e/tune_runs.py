# SPDX-License-Identifier: BSD-3-Clause
"""Runs of `neso tune`, for its tests: models that gain by other settings, and a server with them."""
import subprocess

import pytest
import requests

from conftest import BUILD, Server, patience, write_repository

DONE, FAILED, USAGE, UNREACHABLE = range(4)
SECONDS = patience(120)
EXPLICIT = ("--model-control-mode=explicit",)


def tensor(role, name, dims=1):
    return f'{role} {{ name: "{name}" data_type: TYPE_INT32 dims: [ {dims} ] }}\n'


def slow(milliseconds, more=""):
    """An execution takes its time whatever its rows, without the use of a core."""
    return ('backend: "testing"\nmax_batch_size: 8\n' + tensor("input", "IN") + tensor("output", "OUT")
            + f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{milliseconds}" }} }}\n' + more)


def step(model, source, target):
    return (f'step {{ model_name: "{model}" model_version: -1 input_map {{ key: "IN" value: "{source}" }} '
            f'output_map {{ key: "OUT" value: "{target}" }} }}\n')


MODELS = {
    "slow": slow(5),
    "first": slow(10),
    "second": slow(1),
    "line": 'platform: "ensemble"\nmax_batch_size: 8\n' + tensor("input", "X") + tensor("output", "Y")
            + "ensemble_scheduling {\n" + step("first", "X", "T") + step("second", "T", "Y") + "}\n",
    "wide": 'backend: "identity"\n' + tensor("input", "I", -1) + tensor("output", "I", -1),
}
LOADS = tuple(f"--load-model={name}" for name in ("slow", "line", "wide"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_repository(folder, MODELS)
    running = Server(folder, EXPLICIT + LOADS, waits_for=("http", "grpc"))
    yield running
    running.stop()


def files_of(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in sorted(folder.rglob("*"))}


def config_of(server, model):
    return requests.get(f"{server.url}/v2/models/{model}/config", timeout=SECONDS).text


def command(server, *arguments, protocol="http"):
    return [BUILD / "neso", "tune", "-i", protocol, "-u", f"127.0.0.1:{server.port(protocol)}",
            *map(str, arguments)]


def tune(server, *arguments, code=DONE, **more):
    ended = subprocess.run(command(server, *arguments, **more), stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=SECONDS, check=False)
    assert ended.returncode == code, ended
    return ended.stdout.decode(), ended.stderr.decode()


# Short windows: the models are so different with other settings that few requests show it.
QUICK = ("--latency-budget=500", "-p", 60, "--concurrency-range=8", "--max-instances=2")
