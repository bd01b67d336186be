# SPDX-License-Identifier: BSD-3-Clause
"""The short form of `make soak-reloads`: reloads under constant load, in both modes."""
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, is_sanitized, require_build

TAKES_SECONDS = 75


@pytest.mark.parametrize("mode,file,seconds", [("explicit", "labels", 8), ("explicit", "onnx", 8),
                                               ("poll", "labels", 6)])
def test_reloads_under_load(mode, file, seconds):
    require_build(("identity" if file == "labels" else "onnxruntime",))
    command = [sys.executable, str(ROOT / "tests" / "stress" / "reloads.py"), f"--build={BUILD}",
               f"--mode={mode}", f"--file={file}", f"--seconds={seconds}"]
    if is_sanitized():
        command.append("--any-memory")  # what a sanitizer keeps is not the server's
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
