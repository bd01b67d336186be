#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The installation as one archive that runs from any folder: tools/make_tarball.sh [BUILD [FOLDER]]; BUILD, `build` by
# default, is what `make` built, and FOLDER, BUILD by default, gets neso-VERSION-PLATFORM.tar.zst. Prints its path.
#
# Two archives of the same build are equal byte for byte: sorted, of owner 0, with the time SOURCE_DATE_EPOCH or that of
# the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
out=$(realpath -m "${2:-$build}")
source tools/release.sh

# Shared libraries and the Debian packages of this machine that have them.
write_needs() {
        local library path package
        echo "Shared libraries of the system that the files here need, and Debian's packages of them:"
        echo
        while read -r library; do
                path=$(ldconfig -p | awk -v name="$library" '$1 == name && !n++ { print $NF }')
                package=$(dpkg-query -S "$path" "/usr$path" 2>/dev/null | sed -n '1s/:.*//p' || true)
                printf '%-26s %s\n' "$library" "${package:--}"
        done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=neso-$(release_version)
stage_install "$build" "$work/$name"
needed_libraries "$work/$name" | write_needs >"$work/$name/share/doc/neso/NEEDS"
mkdir -p "$out"
archive=$out/$name-$(release_platform).tar.zst
rm -f "$out"/neso-*.tar.zst
tar -C "$work" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$(release_epoch)" -cf - "$name" |
        zstd -q -9 -T1 -o "$archive"
echo "$archive"
