# SPDX-License-Identifier: BSD-3-Clause
"""Names of models that are no names, that no repository has, and that have nothing to load."""
import subprocess

import pytest

from conftest import BUILD, require_build
from grpc_stubs import stubs  # noqa: F401
from models import EXPLICIT, control, model_text, opens_server

EMPTY = "Model name cannot be empty. Please enter a valid name to deploy."
OUTSIDE = "invalid model name '{0}', model name must not contain path traversal characters"
CONTROL = "invalid model name: byte {0} is a control character (0x{1})"
UNKNOWN = "failed to load '{0}', failed to poll from model repository"


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(("testing",))


@pytest.fixture(scope="module")
def explicit(tmp_path_factory):
    with opens_server(tmp_path_factory.mktemp("names"), {"m": model_text()}, *EXPLICIT) as running:
        yield running


@pytest.mark.parametrize("name, code, text", [
    ("", "INVALID_ARGUMENT", EMPTY), ("  ", "INVALID_ARGUMENT", EMPTY),
    ("\n", "INVALID_ARGUMENT", EMPTY), (" \t\r\n\v\f", "INVALID_ARGUMENT", EMPTY),
    ("a\nb", "INVALID_ARGUMENT", CONTROL.format(2, "0a")),
    ("\x1b[2J", "INVALID_ARGUMENT", CONTROL.format(1, "1b")),
    ("../a\nb", "INVALID_ARGUMENT", CONTROL.format(5, "0a")),
    ("../etc", "INVALID_ARGUMENT", OUTSIDE), (" ..", "INVALID_ARGUMENT", OUTSIDE),
    ("..", "INVALID_ARGUMENT", OUTSIDE), ("...", "INTERNAL", UNKNOWN),
    ("nobody", "INTERNAL", UNKNOWN)])
def test_name_over_grpc(explicit, stubs, name, code, text):
    assert control(explicit, "grpc", "load", name, stubs) == (code, text.format(name))
    # Nothing of that name is loaded, which is what was asked for.
    assert control(explicit, "grpc", "unload", name, stubs) is None


def test_a_name_forges_no_line_of_the_log(tmp_path, stubs):
    """A name reaches the log escaped, whatever way it comes."""
    forged = "x\nE0101 00:00:00.000000 1 forged.c:1] \"forged\""
    options = (*EXPLICIT, "--log-verbose=1", f"--load-model={forged}", "--exit-on-error=false")
    with opens_server(tmp_path, {"m": model_text()}, *options) as server:
        assert control(server, "grpc", "load", forged, stubs) == (
            "INVALID_ARGUMENT", CONTROL.format(2, "0a"))
        assert control(server, "grpc", "unload", forged, stubs) is None
        text = server.text()
    assert "failed to poll model 'x\\nE0101" in text
    assert not [line for line in text.splitlines() if line.startswith("E0101")]


def test_name_over_http(explicit, stubs):
    assert control(explicit, "http", "load", "...", stubs) == ("INTERNAL", UNKNOWN.format("..."))
    for name in ("...", "..m", "nobody"):
        assert control(explicit, "http", "unload", name, stubs) is None


def test_unknown_model_at_the_start(tmp_path):
    ended = subprocess.run([str(BUILD / "neso"), "serve", f"--model-repository={tmp_path}",
                            f"--backend-directory={BUILD / 'backends'}", "--http-port=0",
                            "--grpc-port=0", "--metrics-port=0", *EXPLICIT, "--load-model=nobody"],
                           capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ("failed to poll model 'nobody': model not found in any model repository."
            in ended.stderr)
    assert "error: creating server: Internal - failed to load all models" in ended.stderr


def test_unknown_model_of_a_load(explicit, stubs):
    assert control(explicit, "http", "load", "missing", stubs)[0] == "INTERNAL"
    explicit.wait_for_line("failed to poll model 'missing': model not found in any model repository.")
