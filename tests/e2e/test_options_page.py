# SPDX-License-Identifier: BSD-3-Clause
"""docs/options.md is what `neso options` prints."""
import re
import subprocess

import pytest

from conftest import BUILD, ROOT, require_build


@pytest.fixture(scope="module")
def printed():
    require_build(())
    ended = subprocess.run([BUILD / "neso", "options"], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=20, check=True)
    assert ended.stderr == b""
    return ended.stdout.decode()


def test_page_is_as_printed(printed):
    page = (ROOT / "docs" / "options.md").read_text()
    assert page == printed, "update it: build/neso options > docs/options.md"


def test_help_lists_the_same_options(printed):
    ended = subprocess.run([BUILD / "neso", "serve", "--help"], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=20, check=False)
    listed = re.findall(r"^  --([a-z0-9-]+)", ended.stderr.decode(), re.M)
    assert listed == re.findall(r"^\| `--([a-z0-9-]+)", printed, re.M)
    assert {"model-repository", "http-port", "grpc-port", "log-format"} < set(listed)
