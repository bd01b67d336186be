# SPDX-License-Identifier: BSD-3-Clause
"""Servers on stand-ins of GPUs (tests/gpu/README.md), and the backend of the tests that uses these.

    with opens_gpu_server(tmp_path, {"add": model_text("add")}, MEMORY=64 << 20) as server:
        ...

A server that misuses the driver is ended by a report, and leaks are reported at its end: either fails the test.

With NESO_TESTS_REAL_GPU=1 in the environment the machine's own driver is used instead. Tests that set something of
the stand-ins are skipped then, and models on devices that the machine lacks are left out.
"""
import contextlib
import ctypes
import functools
import os
import pathlib
import re

import pytest

from conftest import BUILD, Server, write_repository

FOLDER = BUILD / "tests" / "gpu"
BACKEND = BUILD / "tests" / "e2e" / "libtriton_gpu.so"
REAL = os.environ.get("NESO_TESTS_REAL_GPU") == "1"


def require_gpus():
    for path in (FOLDER / "libcuda.so.1", FOLDER / "libnvidia-ml.so.1", BACKEND):
        if not path.exists():
            pytest.skip(f"{path} is not built")


def backend_directory():
    """The backends of the build and "gpu", as one folder."""
    folder = FOLDER / "backends"
    links = {folder / path.name: path for path in (BUILD / "backends").iterdir() if path.is_dir()}
    links[folder / "gpu" / BACKEND.name] = BACKEND
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # modules run side by side
            link.symlink_to(target)
    return folder


def environment(report, **settings):
    """Of a process that finds stand-ins of GPUs, with NESO_FAKE_GPU_<setting> for each."""
    if REAL and settings:
        pytest.skip("a real GPU has no such settings: " + ", ".join(settings))
    if REAL:
        return {}
    path = os.environ.get("LD_LIBRARY_PATH", "")
    return {"LD_LIBRARY_PATH": f"{FOLDER}:{path}".rstrip(":"), "NESO_FAKE_GPU_REPORT": str(report),
            **{f"NESO_FAKE_GPU_{name}": str(value) for name, value in settings.items()}}


@functools.cache
def device_count():
    """Of the machine's own driver."""
    cuda, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(n)) == 0
    return n.value


NAMED = re.compile(r'(?:model_name: |key: "next" value \{ string_value: )"(\w+)"')


def on_real_devices(models):
    """Without those on a device that the machine lacks, and without those that name such a model."""
    n = device_count()
    gone = {name for name, text in models.items()
            if any(int(device) >= n for device in re.findall(r"\d+", " ".join(re.findall(r"gpus: \[(.*?)\]", str(text)))))}
    while True:
        more = {name for name, text in models.items() if gone.intersection(NAMED.findall(str(text)))} - gone
        if not more:
            return {name: text for name, text in models.items() if name not in gone}
        gone |= more


def command(variables):
    """What a command begins with that has the environment."""
    return ("env", *(f"{name}={value}" for name, value in variables.items()))


@contextlib.contextmanager
def fake_gpus(folder, **settings):
    """The environment. When the block ends, the process has ended, and a misuse that it reported fails the test."""
    report = pathlib.Path(folder) / "gpu_report"
    yield environment(report, **settings)
    assert not report.exists(), report.read_text()


class GpuServer(Server):
    """`variables`: of fake_gpus()."""

    def __init__(self, repository, variables, options=(), **more):
        super().__init__(repository, (f"--backend-directory={backend_directory()}", *options),
                         under=command(variables), **more)


@contextlib.contextmanager
def opens_gpu_server(folder, models, *options, **settings):
    require_gpus()
    folder = pathlib.Path(folder)
    repository = folder / "repository"
    repository.mkdir(parents=True, exist_ok=True)
    write_repository(repository, on_real_devices(models) if REAL else models)
    with fake_gpus(folder, **settings) as variables:
        server = GpuServer(repository, variables, options)
        try:
            yield server
        finally:
            code = server.stop()
        assert code == 0, f"exit code {code}:\n{server.text()}"


def model_text(op="identity", kind="KIND_GPU", gpus=(), count=1, data_type="TYPE_FP32", dims="[ -1 ]",
               max_batch_size=0, more="", **parameters):
    """A model of the backend "gpu": add has INPUT0 and INPUT1, the others INPUT0; each has OUTPUT0 and WHERE."""
    inputs = ["INPUT0", "INPUT1"] if op == "add" else ["INPUT0"]
    place = f" gpus: [ {', '.join(map(str, gpus))} ]" if gpus else ""
    lines = [f'backend: "gpu" max_batch_size: {max_batch_size}']
    lines += [f'input {{ name: "{name}" data_type: {data_type} dims: {dims} }}' for name in inputs]
    lines += [f'output {{ name: "OUTPUT0" data_type: {data_type} dims: {dims} }}',
              'output { name: "WHERE" data_type: TYPE_INT32 dims: [ -1, 2 ] }',
              f'instance_group {{ count: {count} kind: {kind}{place} }}', more]
    for key, value in {"op": op, **parameters}.items():
        lines.append(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}')
    return "\n".join(lines) + "\n"
