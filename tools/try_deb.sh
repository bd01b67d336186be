#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Tries the packages of tools/make_deb.sh: tools/try_deb.sh [FOLDER], build/deb by default. For a system that may be thrown
# away (tools/check_fresh.sh --only=deb). It
#
#   1. installs the packages and nothing else, starts the server as its unit does, and asks the digits model
#   2. installs what it needs itself: a client, a compiler, systemd's tools
#   3. installs a newer version of the packages while a client asks all the time
#   4. stops the server, builds a program against the development package, and purges everything
set -euo pipefail
cd "$(dirname "$0")/.."
packages=$(realpath "${1:-build/deb}")
readonly packages names=(neso libtritonserver-neso libtritonserver-neso-dev neso-backend-onnxruntime neso-backend-python)
readonly FEWEST=100 # requests that an upgrade must see to mean something
export DEBIAN_FRONTEND=noninteractive
work=$(mktemp -d)
readonly work

say() {
        echo "try_deb: $*"
}

die() {
        echo "try_deb: $*" >&2
        exit 1
}

# Arguments of apt-get; its output is shown only if it fails.
apt() {
        apt-get -q -y --no-install-recommends "$@" </dev/null >"$work/apt.log" 2>&1 ||
                { tail -n 20 "$work/apt.log"; die "apt-get $* failed"; }
}

versions() {
        dpkg-query -W -f='${Package} ${Version}\n' "${names[@]}" | tr '\n' ' '
}

# The same files as packages of a newer version, in the folder $1.
write_newer() {
        local file version newer
        mkdir "$1"
        for file in "$packages"/*.deb; do
                version=$(dpkg-deb -f "$file" Version) newer=$(dpkg-deb -f "$file" Version)+1
                dpkg-deb -R "$file" "$work/tree"
                sed -i -e "s/^Version: .*/Version: $newer/" -e "s/(= $version)/(= $newer)/g" "$work/tree/DEBIAN/control"
                dpkg-deb -b --root-owner-group -Zgzip -z1 "$work/tree" "$1/" >/dev/null
                rm -r "$work/tree"
        done
}

# One inference of an image of zeros; prints the status, 000 when there is no answer.
ask() {
        curl -s -o "$work/answer" -w '%{http_code}\n' -d "{\"inputs\":[{\"name\":\"image\",\"shape\":[1,64],\"datatype\":\"FP32\",\"data\":[$(
                printf '0,%.0s' {1..63})0]}]}" http://127.0.0.1:8000/v2/models/digits/infer || true
}

apt update
apt install "$packages"/*.deb
say "installed: $(versions)"
neso --help >/dev/null || die "neso --help"
[ -f /usr/share/man/man1/neso-serve.1.gz ] || die "no manual page"

# As the unit does, without systemd: the options of /etc/default/neso, in another user's name.
mkdir -p /var/lib/neso/models
cp -r examples/models/digits /var/lib/neso/models/
chown -R nobody: /var/lib/neso
# shellcheck disable=SC1091
. /etc/default/neso
begin=$(date +%s%N)
# shellcheck disable=SC2086
setpriv --reuid=nobody --regid=nogroup --clear-groups --no-new-privs --bounding-set=-all \
        neso serve $NESO_OPTIONS --port-file=/var/lib/neso/ports >"$work/neso.log" 2>&1 &
server=$!
neso ctl ready --wait 30 || { tail -n 20 "$work/neso.log"; die "the server is not ready"; }
say "ready after $((($(date +%s%N) - begin) / 1000000)) ms"
neso ctl infer digits --zeros || die "no answer"

apt install curl gcc libc6-dev pkg-config systemd
systemd-analyze verify --man=no /lib/systemd/system/neso.service >"$work/verify" 2>&1 || true
! grep "neso.service" "$work/verify" | grep -v "ExecStart\|is not executable\|systemd-remount" ||
        die "systemd does not take the unit"
[ "$(ask)" = 200 ] || die "no answer: $(cat "$work/answer")"
say "asked: $(cut -c1-100 "$work/answer")"

write_newer "$work/newer"
touch "$work/goes_on"
while [ -e "$work/goes_on" ]; do ask; done >"$work/statuses" &
client=$!
apt install "$work"/newer/*.deb
rm "$work/goes_on"
wait "$client"
lost=$(grep -cv '^200$' "$work/statuses" || true)
n_asked=$(wc -l <"$work/statuses")
say "upgraded under load: $(versions)"
say "upgraded under load: $n_asked requests, $lost lost"
[ "$lost" -eq 0 ] || die "requests were lost: $(sort "$work/statuses" | uniq -c | tr '\n' ' ')"
[ "$n_asked" -ge "$FEWEST" ] || die "fewer than $FEWEST requests"

kill -TERM "$server"
wait "$server" || die "the server ended with $?"
[ ! -e /var/lib/neso/ports ] || die "the port file is left"

# A program builds against the development package.
cat >"$work/program.c" <<'EOF'
#include <stdio.h>
#include <triton/core/tritonserver.h>

int main(void) {
        uint32_t major, minor;

        TRITONSERVER_ApiVersion(&major, &minor);
        printf("API %u.%u\n", major, minor);
        return 0;
}
EOF
# shellcheck disable=SC2046
if ! cc "$work/program.c" -o "$work/program" $(pkg-config --cflags --libs neso) || ! "$work/program"; then
        die "no program"
fi

apt purge "${names[@]}"
left=$(find /usr /etc /lib -name '*neso*' -o -name '*tritonserver*' | grep -v "^/usr/share/doc" || true)
[ -z "$left" ] || die "left behind: $left"
rm -r "$work"
say "purged; passed"
