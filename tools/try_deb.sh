#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Tries the packages of tools/make_deb.sh: tools/try_deb.sh [FOLDER], build/deb by default. For a system that may be thrown
# away (tools/check_fresh.sh --only=deb): it installs the packages, starts the server as its unit does, asks the digits
# model, installs the packages again while a client asks all the time, stops the server, and purges everything.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly packages=$(realpath "${1:-build/deb}")
readonly names=(neso libtritonserver-neso libtritonserver-neso-dev neso-backend-onnxruntime neso-backend-python)
export DEBIAN_FRONTEND=noninteractive

say() {
        echo "try_deb: $*"
}

die() {
        echo "try_deb: $*" >&2
        exit 1
}

install_packages() {
        apt-get -q -y --no-install-recommends --reinstall --allow-downgrades install "$packages"/*.deb </dev/null >/tmp/apt.log 2>&1 ||
                { tail -n 20 /tmp/apt.log; die "the packages cannot be installed"; }
}

# One inference of an image of zeros; prints the status.
ask() {
        curl -s -o /tmp/answer -w '%{http_code}' -d "{\"inputs\":[{\"name\":\"image\",\"shape\":[1,64],\"datatype\":\"FP32\",\"data\":[$(
                printf '0,%.0s' {1..63})0]}]}" http://127.0.0.1:8000/v2/models/digits/infer
}

install_packages
say "installed: $(dpkg-query -W -f='${Package} ${Version}\n' "${names[@]}" | tr '\n' ' ')"
systemd-analyze verify /lib/systemd/system/neso.service 2>&1 | grep -v "ExecStart\|is not executable\|systemd-remount" |
        grep -i "neso.service" && die "systemd does not take the unit"
neso --help >/dev/null || die "neso --help"
man -w neso-serve >/dev/null 2>&1 || [ -f /usr/share/man/man1/neso-serve.1.gz ] || die "no manual page"

# As the unit does, without systemd: the options of /etc/default/neso, in another user's name.
mkdir -p /var/lib/neso/models
cp -r examples/models/digits /var/lib/neso/models/
chown -R nobody: /var/lib/neso
# shellcheck disable=SC1091
. /etc/default/neso
# shellcheck disable=SC2086
setpriv --reuid=nobody --regid=nogroup --clear-groups --no-new-privs --bounding-set=-all \
        neso serve $NESO_OPTIONS --port-file=/var/lib/neso/ports >/tmp/neso.log 2>&1 &
server=$!
neso ctl ready --wait 30 || { tail -n 20 /tmp/neso.log; die "the server is not ready"; }
[ "$(ask)" = 200 ] || die "no answer: $(cat /tmp/answer)"
say "asked: $(cut -c1-100 /tmp/answer)"

# Another installation of the same files, under a client that asks all the time.
touch /tmp/goes_on
(while [ -e /tmp/goes_on ]; do ask; echo; done >/tmp/statuses) &
client=$!
install_packages
rm /tmp/goes_on
wait "$client"
lost=$(grep -cv '^200$' /tmp/statuses || true)
say "upgraded under load: $(wc -l </tmp/statuses) requests, $lost lost"
[ "$lost" -eq 0 ] || die "requests were lost"

kill -TERM "$server"
wait "$server" || die "the server ended with $?"
[ ! -e /var/lib/neso/ports ] || die "the port file is left"

# A program and a backend build against the development package.
printf '#include <triton/core/tritonserver.h>\n#include <stdio.h>\nint main(void) { uint32_t a, b; TRITONSERVER_ApiVersion(&a, &b); printf("API %%u.%%u\\n", a, b); return 0; }\n' >/tmp/program.c
# shellcheck disable=SC2046
cc /tmp/program.c -o /tmp/program $(pkg-config --cflags --libs neso) && /tmp/program

apt-get -q -y purge "${names[@]}" </dev/null >/tmp/apt.log 2>&1 || die "the packages cannot be purged"
left=$(find /usr /etc /lib -name '*neso*' -o -name '*tritonserver*' | grep -v "^/usr/share/doc" || true)
[ -z "$left" ] || die "left behind: $left"
say "purged; passed"
