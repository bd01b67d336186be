# SPDX-License-Identifier: BSD-3-Clause
"""The short form of `make soak-sequences`: a thousand sequences at a time through reloads."""
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, require_build

ONE_GPU = True
TAKES_SECONDS = 12


@pytest.mark.parametrize("strategy", ["direct", "oldest"])
def test_sequences_under_load(strategy):
    require_build(("testing",))
    command = [sys.executable, str(ROOT / "tests" / "stress" / "sequences.py"), f"--build={BUILD}",
               "--seconds=4", *(["--oldest"] if strategy == "oldest" else [])]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
