#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Builds Triton's own identity backend with its code for GPUs, on the runtime library of this folder:
#
#   tests/gpu/runtime/build_identity.sh SOURCES FOLDER
#
# SOURCES has the repositories of triton-inference-server as the folders identity (identity_backend), backend and
# common; rapidjson-dev must be installed. FOLDER gets libtriton_identity.so. Then
#
#   NESO_TRITON_IDENTITY=FOLDER pytest tests/e2e/test_triton_identity.py
set -euo pipefail
[ $# -eq 2 ] || { sed -n '4,11p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
sources=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)

more=()
[ ! -f "$sources/common/src/error.cc" ] || more=("$sources/common/src/error.cc")
cc -std=c17 -D_GNU_SOURCE -O2 -g -fPIC -Wall -Wextra -Werror -c -I "$here" -I "$here/.." -I "$root/src" \
        -o "$folder/runtime.o" "$here/runtime.c"
c++ -std=c++17 -O2 -g -fPIC -shared -w -DTRITON_ENABLE_GPU -DTRITON_ENABLE_STATS \
        -I "$here" -I "$sources/backend/include" -I "$sources/common/include" -I "$root/include" \
        -o "$folder/libtriton_identity.so" "$sources/identity/src/identity.cc" "$sources/backend/src/backend_common.cc" \
        "${more[@]}" "$folder/runtime.o" -Wl,-Bsymbolic -ldl -lpthread
rm "$folder/runtime.o"
echo "$folder/libtriton_identity.so"
