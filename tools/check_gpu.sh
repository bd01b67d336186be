#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Tries GPUs on this machine, in less than ten minutes, and prints a table: what, figure, mark, ok or not.
#
#   tools/check_gpu.sh [--require] [--quick]   with the GPUs of the machine; --require: without one exit code 1, not 0
#   tools/check_gpu.sh --fake [--quick]        on the stand-ins of tests/gpu, with one device; ratios have no mark
#
# Says at once what is missing on the machine (tools/gpu_probe.py).
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

stop() {
        printf '%s\n' "$@" >&2
        exit 1
}

# What is missing is said before minutes are spent on a build.
find_gpu() {
        local code=0

        "$python" tools/gpu_probe.py || code=$?
        case $code in
        0) return ;;
        3) if $require; then exit 1; else exit 0; fi ;;
        *) exit 1 ;;
        esac
}

has_build() {
        [ -x "$NESO_BUILD/neso" ] && [ -e "$NESO_BUILD/tests/e2e/libtriton_gpu.so" ]
}

has_tools() {
        command -v meson >/dev/null && command -v ninja >/dev/null && command -v cc >/dev/null
}

# The compiler's messages are in the output of ninja, which is shown when it fails.
build_all() {
        local log

        log=$(mktemp)
        if ! make --no-print-directory "$@" everything >"$log" 2>&1; then
                tail -n 30 "$log" >&2
                rm -f "$log"
                stop "the build failed, see above"
        fi
        rm -f "$log"
}

build() {
        if has_tools; then
                build_all BUILD="$(realpath -m --relative-to=. "$NESO_BUILD")"
        elif ! has_build; then
                tools/setup.sh || stop "what the build needs could not be installed: meson, ninja and a C compiler;" \
                        "tools/setup.sh installs them on Debian 12 and 13. Or build elsewhere, copy the whole tree," \
                        "and name the build folder by NESO_BUILD"
                build_all
        fi
}

command -v "$python" >/dev/null || stop "$python is missing; PYTHON may name another Python 3"
$fake || find_gpu
[ "${NESO_CHECK_GPU_BUILT:-}" = 1 ] || build

if $fake; then
        export LD_LIBRARY_PATH="$NESO_BUILD/tests/gpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" NESO_FAKE_GPU_DEVICES=1
fi
export NESO_TESTS_REAL_GPU=1
exec "$python" tools/gpu_checks.py "${options[@]}"
