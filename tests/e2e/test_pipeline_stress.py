# SPDX-License-Identifier: BSD-3-Clause
"""The short form of tests/stress/pipelines.py: steps come, change and go under constant load."""
import subprocess
import sys

from conftest import BUILD, ROOT, require_build


def test_steps_change_under_load():
    require_build(("testing",))
    ended = subprocess.run([sys.executable, str(ROOT / "tests" / "stress" / "pipelines.py"),
                            f"--build={BUILD}", "--seconds=10", "--any-memory"],
                           capture_output=True, text=True, timeout=300, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
