# SPDX-License-Identifier: BSD-3-Clause
"""The client with memory on a GPU that docs/gpu.md shows, as it stands there."""
import os
import re
import subprocess
import sys

from conftest import ROOT
from gpus import fake_gpus, model_text, opens_gpu_server

PAGE = ROOT / "docs" / "gpu.md"


def test_client_of_the_page(tmp_path):
    [program] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.S | re.M)
    promised = re.search(r"It prints `(.*)`", PAGE.read_text())[1]
    (tmp_path / "client").mkdir()
    with opens_gpu_server(tmp_path, {"add": model_text("add")}, "--allow-client-shm=true") as server, \
            fake_gpus(tmp_path / "client") as environment:
        ended = subprocess.run([sys.executable, "-c", program, server.url], capture_output=True, text=True, timeout=60,
                               env={**os.environ, **environment}, check=False)
        assert (ended.returncode, ended.stdout) == (0, promised + "\n"), ended.stderr
