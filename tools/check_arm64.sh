#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The cross-build for arm64 in build-arm64, and its tests under qemu-user: the unit, ABI and corpus tests,
# and end-to-end tests whose server runs under qemu-user and whose clients run natively.
# `make arm64 E2E=...` names the end-to-end tests; empty: none.
#
# qemu-user is no arm64 machine: it shows that the code is right for the instruction set, for plain char
# without a sign and for this C library. It does not show times, nor races of the weaker memory order
# (each emulated access has the order of this machine).
set -euo pipefail
cd "$(dirname "$0")/.."

readonly build=build-arm64
# The build folder as the end-to-end tests see it: `neso` runs the emulator, and the rest are links.
readonly view=$build/emulated

# One or more files for each way in, and for each kind of model. Not the backend python: its process is
# started by exec(), which under qemu-user needs the kernel's binfmt_misc.
readonly default_tests="test_http_infer test_http_endpoints test_grpc_infer test_grpc_stream test_shared_memory
        test_onnx test_sequences test_ensembles test_dynamic_batching test_decoupled test_cache test_metrics
        test_tls test_model_control test_trace test_startup_and_stop"

# A program of the C API is started by the test itself, without the emulator; and the shell that runs the emulator
# needs more descriptors than one test leaves.
readonly skipped="--deselect=tests/e2e/test_ensembles.py::test_through_the_c_api
        --deselect=tests/e2e/test_startup_and_stop.py::test_start_with_few_descriptors"

write_view() {
        local name
        mkdir -p "$view"
        for name in backends caches repoagents schedulers tests bench libtritonserver.so; do
                ln -sfn "../$name" "$view/$name"
        done
        cat >"$view/neso" <<EOF
#!/bin/sh
exec qemu-aarch64 -0 "\$0" -L '$PWD/.deps/aarch64/sysroot' '$PWD/$build/neso' "\$@"
EOF
        chmod +x "$view/neso"
}

tests=
# shellcheck disable=SC2086
[ "${E2E-tests/e2e}" != tests/e2e ] || tests=$(printf 'tests/e2e/%s.py ' $default_tests)

tools/setup.sh --arm64
write_view
NESO_START_SECONDS=240 PYTEST_ADDOPTS="$skipped" "${PYTHON:-/usr/bin/python3}" tools/run_checks.py \
        --suite=unit --suite=abi --suite=fuzz --time-factor=8 \
        --end-to-end="${tests:-$E2E}" --end-to-end-build="$view" "$build"
