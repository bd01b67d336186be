#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Tries GPUs on this machine, in less than ten minutes, and prints a table: what, figure, mark, ok or not.
#
#   tools/check_gpu.sh [--require] [--quick]   with the GPUs of the machine; --require: without one exit code 1, not 0
#   tools/check_gpu.sh --fake [--quick]        on the stand-ins of tests/gpu, with one device; ratios have no mark
#
# --quick: a part of the tests, and short measurements. Builds what is missing; a build folder that was made
# elsewhere is used as it is where there is no meson. NESO_BUILD names it (build), NESO_ONNXRUNTIME a library of ONNX
# Runtime with CUDA. Exit code: 0 all is well, or there is no GPU; 1 not.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly python=${PYTHON:-/usr/bin/python3}
export NESO_BUILD=${NESO_BUILD:-$PWD/build}

fake=false
require=false
options=()
for option in "$@"; do
        case $option in
        --fake)
                fake=true
                options+=(--fake)
                ;;
        --require) require=true ;;
        --quick) options+=(--quick) ;;
        *)
                sed -n '3,12s/^# \{0,1\}//p' "$0" >&2
                exit 2
                ;;
        esac
done

count_gpus() {
        "$python" - <<'PROGRAM'
import ctypes
n = ctypes.c_int()
try:
    cuda = ctypes.CDLL("libcuda.so.1")
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(n)) != 0:
        n.value = 0
except OSError:
    pass
print(n.value)
PROGRAM
}

if ! $fake && [ "$(count_gpus)" = 0 ]; then
        echo "no GPU: CUDA's driver has no device here, or is not installed"
        $require && exit 1
        exit 0
fi

build() {
        if command -v meson >/dev/null && command -v ninja >/dev/null; then
                make --no-print-directory BUILD="$(realpath -m --relative-to=. "$NESO_BUILD")" everything >/dev/null
        elif [ ! -x "$NESO_BUILD/neso" ] || [ ! -e "$NESO_BUILD/tests/e2e/libtriton_gpu.so" ]; then
                tools/setup.sh
                make --no-print-directory everything >/dev/null
        fi
}

[ "${NESO_CHECK_GPU_BUILT:-}" = 1 ] || build

if $fake; then
        export LD_LIBRARY_PATH="$NESO_BUILD/tests/gpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" NESO_FAKE_GPU_DEVICES=1
fi
export NESO_TESTS_REAL_GPU=1
exec "$python" tools/gpu_checks.py "${options[@]}"
