#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Debian packages of the committed HEAD, for this machine's release: tools/make_deb.sh [FOLDER], build/deb by default.
#
# The source is a clone with packaging/debian as its debian folder, and a changelog whose version is that of meson.build
# and the number of commits. tools/setup.sh installs what building needs. Where Debian has no ONNX Runtime (12), the library
# that it has fetched goes into neso-backend-onnxruntime; Debian 13 has a package of it.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly project=$PWD out=$(realpath -m "${1:-build/deb}")

as_root() {
        if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_tools() {
        local missing=() package
        for package in git debhelper lintian dpkg-dev fakeroot; do
                dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
        done
        [ ${#missing[@]} -eq 0 ] ||
                as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${missing[@]}" \
                        </dev/null
}

install_tools
tools/setup.sh --build-only

version=$(sed -n "s/^ *version: *'\([^']*\)'.*/\1/p" meson.build | head -n 1)
commits=$(git rev-list --count HEAD)
when=$(git log -1 --format=%cD)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/neso-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
git clone -q --no-hardlinks "$project" "$work/neso"
cp -r "$work/neso/packaging/debian" "$work/neso/debian"
mkdir "$work/neso/.deps"
cp -r .deps/uplot "$work/neso/.deps/"
[ ! -d .deps/onnxruntime ] || cp -r .deps/onnxruntime "$work/neso/.deps/"
cat >"$work/neso/debian/changelog" <<EOF
neso ($version+$commits) unstable; urgency=medium

  * Built from the source; CHANGELOG.md says what is new.

 -- The Neso authors <maintainers@neso-server.example.org>  $when
EOF

(cd "$work/neso" && SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) dpkg-buildpackage -us -uc -b)
mkdir -p "$out"
rm -f "$out"/*.deb
cp "$work"/*.deb "$out/"
ls -l "$out"
lintian --fail-on error,warning "$work"/neso_*.changes
