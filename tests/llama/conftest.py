# SPDX-License-Identifier: BSD-3-Clause
"""The llamacpp and chat_template backends: `make llama`. Tests that need llama.cpp's library are skipped where
tools/setup.sh --llama could not fetch it; NESO_LLAMA_LIBRARY names another one."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))


def load_e2e():
    """The module of the end-to-end tests that starts servers; its name is that of this one."""
    spec = importlib.util.spec_from_file_location("e2e_conftest", ROOT / "tests" / "e2e" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


e2e = load_e2e()
# Modules of the end-to-end tests import these from their "conftest", which is this file here.
BUILD, TLS, Server, write_repository = e2e.BUILD, e2e.TLS, e2e.Server, e2e.write_repository
patience = e2e.patience
require_build, server = e2e.require_build, e2e.server

import tiny_gguf  # noqa: E402
from python_programs import OPTIONS as PYTHON_OPTIONS  # noqa: E402

LIBRARY = pathlib.Path(os.environ.get("NESO_LLAMA_LIBRARY", ROOT / ".deps" / "llama" / "libllama.so"))
needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is missing: tools/setup.sh --llama")


def options(library=LIBRARY):
    return (*PYTHON_OPTIONS, "--backend-config=python,stub-timeout-seconds=120",
            f"--backend-config=llamacpp,library={library}")


def gguf(*arguments, **keywords):
    """The bytes of a file of tiny_gguf.write()."""
    with tempfile.NamedTemporaryFile() as file:
        tiny_gguf.write(file.name, *arguments, **keywords)
        return pathlib.Path(file.name).read_bytes()


def llama(file, **parameters):
    """A model of the backend; `parameters` are those of its configuration."""
    parameters = {"threads": 1, **parameters}
    text = 'backend: "llamacpp"\n' + "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
        for key, value in parameters.items())
    return {"config.pbtxt": text, "1/model.gguf": file}


def build_shim(folder, *defines):
    """The library with some functions replaced (shim.c), linked to the real one."""
    path = pathlib.Path(folder) / "libshim.so"
    real = LIBRARY.resolve()
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", path, ROOT / "tests" / "llama" / "shim.c", *defines,
                    "-Wl,--no-as-needed", real, f"-Wl,-rpath,{real.parent}"], check=True)
    return path


@pytest.fixture
def start(tmp_path):
    """begin(models, library=..., options=...) starts a server of these models."""
    running = []

    def begin(models, library=LIBRARY, more=(), **keywords):
        folder = tmp_path / f"models{len(running)}"
        write_repository(folder, models)
        running.append(Server(folder, (*options(library), *more), **keywords))
        return running[-1]

    yield begin
    for one in running:
        if one.process.poll() is None:
            assert one.stop() == 0
