# SPDX-License-Identifier: BSD-3-Clause
"""What `neso check --migrate` says about the repositories of the other tests and of the examples is what
loading their models does."""
import importlib
import pathlib

import pytest

from conftest import FIFO, ROOT, require_build, write_repository
from migration import assert_is_what_loading_does, interpreter_of_the_tests

TAKES_SECONDS = 40
# Its models wait in their load for what its tests do.
LEFT_OUT = {"test_loads_in_initialize"}


@pytest.fixture(scope="module", autouse=True)
def machine():
    with interpreter_of_the_tests():
        yield


# Of the modules about models in Python, whose loads are slow, these have one of each kind.
PYTHON = {"test_python_bls", "test_python_execute"}


def modules_with_models():
    folder = pathlib.Path(__file__).parent
    names = sorted(path.stem for path in folder.glob("test_*.py")
                   if "\nMODELS = " in path.read_text())
    return [name for name in names if name not in LEFT_OUT
            and (name in PYTHON or not name.startswith("test_python_"))]


def models_of(module):
    """Without those whose files a load would wait for, and names that the client would change."""
    if not isinstance(module.MODELS, dict):
        pytest.skip("it has no models of its own")
    return {model: files for model, files in module.MODELS.items()
            if "%" not in model and (not isinstance(files, dict) or FIFO not in files.values())}


@pytest.mark.parametrize("name", modules_with_models())
def test_repositories_of_tests(name, tmp_path):
    module = importlib.import_module(name)
    require_build(getattr(module, "BACKENDS", ()))
    models = models_of(module)
    write_repository(tmp_path, models)
    assert assert_is_what_loading_does(tmp_path).keys() == models.keys()


@pytest.mark.parametrize("folder", ["models", "python_models"])
def test_examples(folder):
    require_build(("onnxruntime", "python", "square", "repeat"))
    reported = assert_is_what_loading_does(ROOT / "examples" / folder)
    assert set(reported.values()) <= {"works", "differs"} and len(reported) > 2
