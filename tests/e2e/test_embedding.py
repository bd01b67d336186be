# SPDX-License-Identifier: BSD-3-Clause
"""Programs with a server in them, in C, C++ and Python, built against an installation with
pkg-config alone; and what that installation has."""
import array
import os
import subprocess
import sys

import pytest

from conftest import BUILD, is_sanitized
from installation import EXAMPLES, build_example, install, run

MODELS = EXAMPLES / "models"
PIXELS = 64


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def embed(prefix, tmp_path_factory):
    return build_example("embed", prefix, tmp_path_factory.mktemp("embed"))


def pkg_config(prefix, *words):
    environment = dict(os.environ, PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig"))
    return run("pkg-config", f"--define-variable=prefix={prefix}", *words,
               env=environment).decode().split()


def program(language, embed, prefix):
    if language == "c":
        return [embed / "infer"]
    if language == "c++":
        return [embed / "infer_cpp"]
    if is_sanitized():
        pytest.skip("Python has no sanitizer in it")
    return [sys.executable, embed / "infer.py", prefix / "lib" / "libtritonserver.so"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The bundled models whose backends are there."""
    folder = tmp_path_factory.mktemp("models")
    for name, backend in (("identity", "identity"), ("digits", "onnxruntime")):
        if (BUILD / "backends" / backend / f"libtriton_{backend}.so").exists():
            (folder / name).symlink_to(MODELS / name)
    return folder


def infer(command, repository, prefix, *words, values):
    backends = prefix / "lib" / "neso" / "backends"
    bytes_in = array.array("f", values).tobytes()
    answer = array.array("f")
    answer.frombytes(run(*command, repository, backends, *words, input=bytes_in))
    return answer


@pytest.mark.parametrize("language", ["c", "c++", "python"])
def test_identity(language, embed, prefix, repository):
    values = [0.5, -1.0, 1048576.5]
    answer = infer(program(language, embed, prefix), repository, prefix, "identity", "INPUT0",
                   "OUTPUT0", "3", values=values)
    assert answer.tolist() == values


@pytest.mark.parametrize("language", ["c", "c++", "python"])
def test_digits(language, embed, prefix, repository):
    if not (repository / "digits").exists():
        pytest.skip("backend onnxruntime is not built")
    images = array.array("f")
    images.frombytes((EXAMPLES / "data" / "heldout_images.f32").read_bytes())
    labels = (EXAMPLES / "data" / "heldout_labels.u8").read_bytes()
    answer = infer(program(language, embed, prefix), repository, prefix, "digits", "image",
                   "probabilities", f"4x{PIXELS}", values=images[:4 * PIXELS])
    assert len(answer) == 40
    for row in range(4):
        probabilities = answer[10 * row:10 * row + 10].tolist()
        assert probabilities.index(max(probabilities)) == labels[row]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("language", ["c", "c++", "python"])
def test_failures_are_told(language, embed, prefix, repository):
    command = program(language, embed, prefix)
    backends = prefix / "lib" / "neso" / "backends"
    for words, text in (
            ((repository, backends, "nobody", "INPUT0", "OUTPUT0", "1"), b"unknown model: 'nobody'"),
            ((repository, backends, "identity", "WRONG", "OUTPUT0", "1"), b"WRONG"),
            (("/no/such/folder", backends, "identity", "INPUT0", "OUTPUT0", "1"),
             b"/no/such/folder")):
        ended = subprocess.run([str(w) for w in [*command, *words]], input=b"\0\0\0\0",
                               capture_output=True, check=False, timeout=60)
        assert ended.returncode == 1 and text in ended.stderr, (words, ended)
        assert ended.stdout == b""


def test_pkg_config(prefix):
    assert pkg_config(prefix, "--cflags", "neso") == [f"-I{prefix}/include"]
    assert pkg_config(prefix, "--libs", "neso") == [f"-L{prefix}/lib", "-ltritonserver"]
    assert pkg_config(prefix, "--variable=backenddir", "neso") == [f"{prefix}/lib/neso/backends"]
    assert set(pkg_config(prefix, "--cflags", "neso-backend")) == {f"-I{prefix}/include",
                                                                   f"-I{prefix}/include/neso"}
    assert pkg_config(prefix, "--libs", "neso-backend")[-1] == "-ltritonserver"
    assert "-lkit" in pkg_config(prefix, "--libs", "neso-backend")


def test_what_is_installed(prefix):
    for header in ("triton/core/tritonserver.h", "triton/core/tritonbackend.h", "neso/kit/batch.h",
                   "triton/core/tritoncache.h", "triton/core/tritonrepoagent.h"):
        assert (prefix / "include" / header).is_file()
    assert not list((prefix / "lib").glob("**/*testing*"))
    assert run(prefix / "bin" / "neso", "version").startswith(b"neso ")
    assert os.readlink(prefix / "bin" / "tritonserver") == "neso"
