# SPDX-License-Identifier: BSD-3-Clause
"""Remote repositories in a real store: `make stores`."""
import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))


def load_e2e():
    """The module of the end-to-end tests that starts servers; its name is that of this one."""
    spec = importlib.util.spec_from_file_location("e2e_conftest",
                                                  ROOT / "tests" / "e2e" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


e2e = load_e2e()
# Modules of the end-to-end tests import these from their "conftest", which is this file here.
BUILD, TLS, Server, write_repository = e2e.BUILD, e2e.TLS, e2e.Server, e2e.write_repository


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where local copies go; no key of the user is found."""
    folder = tmp_path / "mount"
    folder.mkdir()
    monkeypatch.setenv("TRITON_AWS_MOUNT_DIRECTORY", str(folder))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return folder
