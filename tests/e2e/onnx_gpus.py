# SPDX-License-Identifier: BSD-3-Clause
"""The library that seems to be ONNX Runtime with CUDA (fake_cuda_onnxruntime.c, fake_cuda_binding.h), for servers on
stand-ins of GPUs."""
import pathlib

import pytest

from conftest import BUILD, ROOT

LIBRARY = BUILD / "tests" / "e2e" / "libfake_cuda_onnxruntime.so"


def real_library():
    local = ROOT / ".deps" / "onnxruntime" / "lib" / "libonnxruntime.so.1"
    return str(local) if local.exists() else "libonnxruntime.so"  # the link of the package for building


def place_library(folder):
    """The option of a server that uses the library from the folder, with a file beside it that says that the
    provider is installed."""
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not built")
    library = pathlib.Path(folder) / LIBRARY.name
    library.symlink_to(LIBRARY)
    (library.parent / "libonnxruntime_providers_cuda.so").write_bytes(b"")
    return f"--backend-config=onnxruntime,library={library}"


class Bindings:
    """The runs of the library: where each input and output was bound, as "gpu host, made"."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def clear(self):
        self.path.write_text("")

    @property
    def runs(self):
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [line.removeprefix("in").replace(", out", ",").strip() for line in lines]
