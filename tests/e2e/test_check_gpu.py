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
import gpu_probe  # noqa: E402


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
    found, text = check(*options, LD_LIBRARY_PATH=str(FOLDER), NESO_FAKE_GPU_DEVICES="0")
    assert found == code
    assert text.startswith("no GPU: CUDA's driver has no device here\n    look at `nvidia-smi -L`"), text


@pytest.mark.parametrize("settings, expected", [
    ({"FAIL": "cuInit:1+:803"}, "the GPU cannot be used: CUDA's driver cannot be started: "
                                "CUDA error 803\n    the kernel's module"),
    ({"FAIL": "cuInit:1+:802"}, "the GPU cannot be used: CUDA's driver cannot be started: "
                                "CUDA error 802\n    the GPUs are not ready"),
    ({"CAPABILITIES": "5.2"}, "GPU 0 cannot be used: its compute capability is 5.2, the least is 6.0"),
    ({"COMPUTE_MODE": "2"}, "GPU 0 cannot be used: its compute mode is PROHIBITED"),
    ({"COMPUTE_MODE": "3"}, "GPU 0 cannot be used: its compute mode is EXCLUSIVE_PROCESS"),
    ({"FAIL": "cuDevicePrimaryCtxRetain:1+:46"}, "GPU 0 cannot be used: no context can be made: "
                                                 "CUDA error 46\n    another process"),
    ({"FAIL": "cuMemAlloc:1+"}, "GPU 0 cannot be used: it has not 2097152 bytes of memory: "),
])
def test_a_gpu_that_cannot_be_used(settings, expected):
    """What is missing is said at once; nothing is built or measured, and it is no success."""
    code, text = check(LD_LIBRARY_PATH=str(FOLDER),
                       **{f"NESO_FAKE_GPU_{name}": value for name, value in settings.items()})
    assert (code, text[:len(expected)]) == (1, expected)


def test_without_python():
    code, text = check(PYTHON="/no/python3")
    assert (code, text) == (1, "/no/python3 is missing; PYTHON may name another Python 3\n")


class Driver:
    """A driver whose functions all succeed; each may be replaced, or missing."""

    def __init__(self, without=(), name=b"NVIDIA H100 80GB HBM3", **results):
        self._without, self._name, self._results = without, name, results

    def __getattr__(self, function):
        if function in self._without or not function.startswith("cu"):
            raise AttributeError(function)

        def result(*arguments):
            if function == "cuDeviceGetCount":
                arguments[0]._obj.value = 8
            elif function == "cuDeviceGetName":
                arguments[0].value = self._name
            elif function == "cuDriverGetVersion":
                arguments[0]._obj.value = 11020
            elif function == "cuDeviceGetAttribute":
                arguments[0]._obj.value = {gpu_probe.MAJOR: 9}.get(arguments[1], 0)
            return self._results.get(function, 0)

        return result


def test_what_a_driver_has():
    assert gpu_probe.probe(Driver()) == [
        "GPU 0 of 8: NVIDIA H100 80GB HBM3, compute capability 9.0, driver of CUDA 11.2"]
    [_, part] = gpu_probe.probe(Driver(name=b"NVIDIA H100 80GB HBM3 MIG 1g.10gb"))
    assert part.startswith("GPU 0 is a part of a GPU (MIG)")
    [_, ipc] = gpu_probe.probe(Driver(cuIpcGetMemHandle=801))
    assert ipc.startswith("CUDA gives no handle of memory for other processes (CUDA error 801)")
    with pytest.raises(gpu_probe.Missing, match="the driver is too old: it is of CUDA 11.2, and cuDeviceGetUuid_v2 "
                                                "came with 11.4"):
        gpu_probe.probe(Driver(without=("cuDeviceGetUuid_v2",)))


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
