#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Libraries of another architecture for a cross-build: tools/make_sysroot.sh DEBIAN_NAME MACHINE PACKAGE...
# such as `arm64 aarch64 zlib1g-dev`. Called by tools/setup.sh, whose list of packages it is.
#
# apt resolves what the packages need as if it ran on a machine of that architecture where nothing is
# installed, with the package sources of this one. The packages are unpacked into .deps/MACHINE/sysroot,
# and no script of theirs runs; the packages of this machine stay as they are. Beside the sysroot comes
# cross.ini, Meson's description of the machine, whose programs run under qemu-user.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly debian=$1 machine=$2
shift 2
readonly folder=$PWD/.deps/$machine
readonly sysroot=$folder/sysroot
# Unpacked again when the list changes, or the release of Debian.
# shellcheck disable=SC1091
wanted="$(. /etc/os-release && echo "${VERSION_CODENAME:-}") $*"
readonly wanted

# Downloads the packages named and all that they need into $1.
download() {
        local work=$1 options
        shift
        mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
        : >"$work/status"
        options=(-q -y -o "APT::Architecture=$debian" -o "APT::Architectures::=$debian"
                -o "Dir::State=$work" -o "Dir::State::Lists=$work/lists" -o "Dir::State::status=$work/status"
                -o "Dir::Cache=$work/cache" -o APT::Sandbox::User="$(id -un)" )
        apt-get "${options[@]}" update </dev/null
        apt-get "${options[@]}" --no-install-recommends --download-only install "$@" </dev/null
}

# Only /usr and /lib stay: /etc, /var and the like would hide this machine's from programs under
# qemu-user.
unpack() {
        local archives=$1 target=$2 package
        # As on a machine: the packages of Debian 13 rely on this link.
        mkdir -p "$target/usr/lib"
        ln -s usr/lib "$target/lib"
        for package in "$archives"/*.deb; do
                dpkg-deb --fsys-tarfile "$package" |
                        tar -x -C "$target" --keep-directory-symlink --no-same-owner \
                                --exclude=./usr/share/doc --exclude=./usr/share/man
        done
        find "$target" -mindepth 1 -maxdepth 1 ! -name usr ! -name lib -exec rm -rf {} +
}

write_cross_file() {
        local tools=$machine-linux-gnu compiler python emulator
        emulator="'qemu-$machine', '-L', '$sysroot'"
        compiler="'$tools-gcc'"
        ! command -v ccache >/dev/null || compiler="'ccache', $compiler"
        python=$(readlink -f "$sysroot/usr/bin/python3")
        cat >"$folder/cross.ini" <<EOF
[binaries]
c = [$compiler]
ar = '$tools-gcc-ar'
strip = '$tools-strip'
pkgconfig = 'pkg-config'
exe_wrapper = [$emulator]
# For the tests that load the library from Python.
host_python = [$emulator, '$python']

[properties]
sys_root = '$sysroot'
pkg_config_libdir = ['$sysroot/usr/lib/$tools/pkgconfig', '$sysroot/usr/share/pkgconfig']

[built-in options]
c_args = ['--sysroot=$sysroot']
c_link_args = ['--sysroot=$sysroot']

[host_machine]
system = 'linux'
cpu_family = '$machine'
cpu = '$machine'
endian = 'little'
EOF
}

# Idempotent by the marker that is written last.
if [ ! -f "$folder/packages" ] || [ "$(cat "$folder/packages")" != "$wanted" ]; then
        echo "make_sysroot: fetching the libraries of $debian"
        rm -rf "$folder/packages" "$sysroot"
        mkdir -p "$folder"
        work=$(mktemp -d "$folder/fetch.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        download "$work" "$@"
        mkdir "$work/sysroot"
        unpack "$work/cache/archives" "$work/sysroot"
        mv "$work/sysroot" "$sysroot"
        echo "$wanted" >"$folder/packages"
fi
write_cross_file
