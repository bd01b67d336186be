# SPDX-License-Identifier: BSD-3-Clause
"""tools/check_gpu.sh on the stand-ins of GPUs: that it works is known before there is a GPU."""
import os
import re
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, is_sanitized
from gpus import FOLDER, require_gpus

sys.path.insert(0, str(ROOT / "tools"))
import gpu_checks  # noqa: E402  (its folder is not a package)


def check(*options, **more):
    require_gpus()
    if is_sanitized():
        pytest.skip("the command runs a server of the ordinary build")
    environment = {**os.environ, "NESO_BUILD": str(BUILD), "NESO_CHECK_GPU_BUILT": "1", "PYTHON": sys.executable,
                   **more}
    done = subprocess.run([ROOT / "tools" / "check_gpu.sh", *options], env=environment, capture_output=True,
                          text=True, timeout=240, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("options, code", [((), 0), (("--require",), 1)])
def test_without_a_gpu(options, code):
    assert check(*options, LD_LIBRARY_PATH=str(FOLDER), NESO_FAKE_GPU_DEVICES="0") == (
        code, "no GPU: CUDA's driver has no device here, or is not installed\n")


def test_on_the_stand_ins():
    """Each part gives its line, and no ratio of times has a mark."""
    code, text = check("--fake", "--quick")
    assert code == 0 and " 0 not ok" in text, text
    for what in ("tests against the driver", "rate with CUDA regions / system regions", "CPU of the server: 1 MiB",
                 "ensemble of 3 steps: rate", "to the host between steps", "GPU memory after 3 loads and 150 requests",
                 "metrics of the first GPU", "bytes through main memory, ensemble of 2 ONNX models",
                 "ONNX model: largest difference"):
        assert what in text, text
    assert ">=" not in text
    [cpu] = re.findall(r"CPU of the server +(\d+) us a request", text)
    assert 0 < int(cpu) < 1000000


def test_a_part_that_fails():
    """No memory can be taken on the device: the lines say so, and the exit code."""
    code, text = check("--fake", "--quick", NESO_FAKE_GPU_FAIL="cuMemAlloc:1+")
    assert code == 1 and "NOT OK" in text, text


@pytest.mark.parametrize("value, bounds, n_failed", [(2.99, {"least": 3}, 1), (3, {"least": 3}, 0),
                                                     (2.01, {"most": 2}, 1), (2, {"most": 2}, 0)])
def test_marks(capsys, value, bounds, n_failed):
    table = gpu_checks.Table(is_fake=False)
    table.ratio("a ratio", value, **bounds)
    assert (table.n_failed, table.n_good) == (n_failed, 1 - n_failed)
    assert ("NOT OK" in capsys.readouterr().out) == bool(n_failed)
