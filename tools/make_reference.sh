#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
#   make_reference.sh FOLDER
#
# Writes the reference pages of the public headers into FOLDER, with Doxygen, which is installed when
# it is missing (root, or sudo without a question). A warning of Doxygen is an error.
set -euo pipefail
folder=$(realpath -m "${1:?the folder for the pages}")
cd "$(dirname "$0")/.."

if ! command -v doxygen >/dev/null; then
        as_root=()
        [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update </dev/null
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
                install doxygen </dev/null
fi

NESO_VERSION=$(sed -n "s/^        version: '\(.*\)',$/\1/p" meson.build)
rm -rf "$folder"
mkdir -p "$folder"
export NESO_VERSION NESO_REFERENCE=$folder
doxygen docs/Doxyfile
echo "$folder/index.html"
