#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What make_tarball.sh and make_image.sh have in common; they read this file with `source`, in the project's folder.

# 0.1.0+1234: the version of meson.build and the number of commits, as in the Debian packages.
release_version() {
        local version
        version=$(sed -n "/^ *version: *'/{s/^ *version: *'\([^']*\)'.*/\1/p;q}" meson.build)
        echo "$version+$(git rev-list --count HEAD)"
}

# The moment that all files have: SOURCE_DATE_EPOCH, or that of the last commit.
release_epoch() {
        echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
}

# debian12-amd64: the libraries that the programs need are those of this release.
release_platform() {
        # shellcheck disable=SC1091
        (. /etc/os-release && echo "$ID${VERSION_ID:-}-$(dpkg --print-architecture)")
}

# Prints the shared libraries that the programs below folder $1 need and that are not there themselves, one a line.
# The programs open libcurl, libexpat and ONNX Runtime by name.
needed_libraries() {
        local own
        own=$(find "$1" -name '*.so*' -printf '%f\n' | sort -u)
        { find "$1" -type f \( -perm -u+x -o -name '*.so*' \) -exec readelf -dW {} + 2>/dev/null |
                sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' || true # no ELF file: the scripts
                echo libcurl.so.4
                echo libexpat.so.1
                [ -e "$1/lib/neso/backends/onnxruntime/libonnxruntime.so.1" ] ||
                        ldconfig -p | sed -n 's/^\t\(libonnxruntime\.so\.[^ ]*\) .*/\1/p'; } |
                LC_ALL=C sort -u | grep -vxF "$own"
}

# Installs build folder $1 into the new folder $2, which then has bin, lib, include and share, and runs wherever it is
# moved to.
stage_install() {
        local build=$1 to=$2 work prefix
        work=$(mktemp -d)
        meson install -C "$build" --no-rebuild --quiet --destdir "$work"
        prefix=$(dirname "$(dirname "$(dirname "$(find "$work" -path '*/lib/pkgconfig/neso.pc')")")")
        # shellcheck disable=SC2016
        if ! readelf -dW "$prefix/bin/neso" 2>/dev/null | grep 'RUNPATH.*\$ORIGIN/\.\./lib\]' >/dev/null; then
                echo "$build is not a build for one folder with bin and lib (make; not the prefix /usr)" >&2
                rm -rf "$work"
                return 1
        fi
        mkdir -p "$(dirname "$to")"
        mv "$prefix" "$to"
        rm -rf "$work"
        # shellcheck disable=SC2016
        sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$to"/lib/pkgconfig/*.pc
        mkdir -p "$to/share/doc/neso"
        cp LICENSE CHANGELOG.md packaging/debian/copyright "$to/share/doc/neso/"
        [ ! -f "$to/lib/neso/backends/onnxruntime/libonnxruntime.so.1" ] || [ ! -f .deps/onnxruntime/copyright ] ||
                cp .deps/onnxruntime/copyright "$to/share/doc/neso/copyright.onnxruntime"
        chmod -R u=rwX,go=rX "$to"
}
