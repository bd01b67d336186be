# SPDX-License-Identifier: BSD-3-Clause
"""The protocols' own tests once more, with TLS beneath them: a part of each file, in a pytest of its
own whose servers and clients all speak TLS (`TLS` of conftest)."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from certificates import Authority
from conftest import BUILD, require_build

TAKES_SECONDS = 15

HERE = pathlib.Path(__file__).parent

# File, which of its tests, and how many there are at least.
PARTS = [
    ("test_http_infer.py", "round_trip or compressed or many", 20),
    ("test_generate.py", "numbers or stream_of or within_a_stream or connection or events", 10),
    ("test_grpc_infer.py", "raw or large or metadata or deadline or many", 15),
    ("test_grpc_stream.py", "not take_no_memory", 15),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    ca = Authority(tmp_path_factory.mktemp("whole"))
    ca.issue("server")
    return ca.folder


@pytest.mark.parametrize("file,some,n", PARTS, ids=[row[0] for row in PARTS])
def test_over_tls(folder, file, some, n):
    require_build(("identity", "testing"))
    environment = {**os.environ, "NESO_BUILD": str(BUILD), "NESO_TEST_TLS": str(folder),
                   "REQUESTS_CA_BUNDLE": f"{folder}/ca.pem"}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / file, "-k", some],
        env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout
    assert int(re.search(r"(\d+) passed", ended.stdout).group(1)) >= n
