#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs the two commands of the README, make demo and make check, in a bare Debian:
#
#   tools/check_fresh.sh [--only=TARGET] [--lines=N] [--keep] bookworm|trixie
#
#   --only=TARGET another target of make alone, as image-check. With deb, a second system, without what
#                 building needs, then installs, upgrades and purges the packages
#   --lines=N     that many of the last lines of each command are shown (30)
#   --keep        the system, some 3 GB, and the whole logs are not removed; the last line says where
#                 they are
#
# debootstrap puts the release into a temporary folder of $TMPDIR (/var/tmp), from the mirror that
# this machine's own apt uses; in it a clone of the committed HEAD is built and tested, as root in a
# chroot. What this machine needs to reach a mirror or npm's registry is copied: apt's settings for
# fetching, proxies, npm's registry, certificates of own authorities. Needs root, on a Debian or a
# relative of it; debootstrap is installed if it is missing.
#
# The mounts are made in a mount namespace of their own, which ends with the last process in it, and
# all processes are in a process namespace, which ends when its first process does. So nothing of
# either is left behind in whichever way this ends, and the folder is removed unless it was a SIGKILL.
# The exit status is 0 when all commands passed, and the number of the signal + 128 after one.
set -euo pipefail

readonly NEEDED="make,ca-certificates" # beside debootstrap's smallest variant; tools/setup.sh does the rest
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly project

say() {
        echo "check_fresh: $*"
}

die() {
        echo "check_fresh: $*" >&2
        exit 1
}

usage() {
        sed -n 's/^#   \(tools.*\)/usage: \1/p' "$0" >&2
        exit 2
}

# ---- within the namespaces -----------------------------------------------------------------------

# $1 the system's folder, $2 a target of make, "try", or "debootstrap" and that one's arguments.
inside() {
        local root=$1 name=$2 variables
        shift 2
        if [ "$name" = debootstrap ]; then
                exec debootstrap --variant=minbase --include="$NEEDED" "$@"
        fi

        mount --bind "$root" "$root" # buildah asks for a root folder that is a mount point
        mount -t proc proc "$root/proc"
        mount --bind /sys "$root/sys"
        mount --bind /dev "$root/dev"
        mount --bind /dev/pts "$root/dev/pts"
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
        mapfile -t variables < <(env | grep -iE '^(https?|ftp|no)_proxy=' || true)
        # shellcheck disable=SC2016
        exec chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
                PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                "${variables[@]}" sh -c 'cd /root/neso; if [ "$1" = try ]; then tools/try_deb.sh; else make "$1"; fi' - "$name"
}

if [ "${1:-}" = --inside ]; then
        shift
        inside "$@"
fi

# ---- options -------------------------------------------------------------------------------------

suite="" keep=false lines=30 commands=(demo check)
for argument; do
        case $argument in
        --keep) keep=true ;;
        --only=deb) commands=(deb try) ;;
        --only=[a-z]*) commands=("${argument#*=}") ;;
        --lines=[0-9]*) lines=${argument#*=} ;;
        bookworm | trixie) suite=$argument ;;
        *) usage ;;
        esac
done
[ -n "$suite" ] || usage
[ "$(id -u)" -eq 0 ] || die "needs root, for debootstrap and chroot"
for tool in git unshare findmnt setpriv mount chroot apt-get dpkg; do
        command -v "$tool" >/dev/null || die "needs $tool"
done
unshare --mount --pid --fork true ||
        die "this machine does not let root have mounts of its own (a container without CAP_SYS_ADMIN?)"
if ! command -v debootstrap >/dev/null; then
        say "installing debootstrap"
        { apt-get -q update && DEBIAN_FRONTEND=noninteractive \
                apt-get -q -y --no-install-recommends install debootstrap; } </dev/null >/dev/null ||
                die "debootstrap is missing and could not be installed"
fi

# ---- the folder, and its end ---------------------------------------------------------------------

folder=$(mktemp -d "${TMPDIR:-/var/tmp}/neso-fresh-$suite.XXXXXX")
folder=$(realpath "$folder") # as findmnt names it
root=$folder/root
bare=$folder/bare            # for the packages alone
worker=""                    # the process that has the namespaces

# The child of process $1; nothing when it has none.
child_of() {
        local stat line ppid
        for stat in /proc/[0-9]*/stat; do
                { read -r line <"$stat"; } 2>/dev/null || continue
                read -r _ ppid _ <<<"${line##*) }"
                if [ "$ppid" = "$1" ]; then
                        echo "${line%% *}"
                        return 0
                fi
        done
}

# With the first process of the namespace all others end; then the worker, which waits for it, does.
# If the first one is not there yet, the worker's own end is its end, too.
end_worker() {
        local first
        [ -n "$worker" ] || return 0
        first=$(child_of "$worker")
        kill -KILL "${first:-$worker}" 2>/dev/null || true
        wait "$worker" 2>/dev/null || true
        worker=""
}

clean_up() {
        local status=$?
        set +e
        trap '' INT TERM HUP
        trap - EXIT
        end_worker
        if findmnt -rno TARGET | grep -qF "$folder/"; then
                say "not removed, for something is mounted in it: $folder" >&2
                findmnt -rno TARGET | grep -F "$folder/" >&2
                exit 1
        fi
        if $keep; then
                say "kept: $folder"
        else
                rm -rf --one-file-system "$folder"
        fi
        exit "$status"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs a command in the system of folder $2; its output goes to the log $1. In the background, so that
# a signal finds this shell waiting and not behind an hour of tests.
in_namespaces() {
        local log=$1 system=$2 status=0
        shift 2
        setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork \
                --kill-child=KILL bash "$project/tools/check_fresh.sh" --inside "$system" "$@" \
                >"$log" 2>&1 </dev/null &
        worker=$!
        wait "$worker" || status=$?
        worker=""
        return "$status"
}

# ---- the system ----------------------------------------------------------------------------------

# The mirror of this machine's own release.
find_mirror() {
        local file mirror=""
        for file in /etc/apt/sources.list.d/*.sources; do
                if [ ! -f "$file" ] || [ -n "$mirror" ]; then
                        continue
                fi
                mirror=$(awk -v RS= '
                        /(^|\n)Types:[^\n]*[ \t]deb([ \t\n]|$)/ &&
                        /(^|\n)Components:[^\n]*[ \t]main([ \t\n]|$)/ &&
                        /(^|\n)Suites:[^\n]*[ \t](bookworm|trixie|stable|testing|sid)([ \t\n]|$)/ &&
                        match($0, /(^|\n)URIs:[ \t]*[^ \t\n]+/) {
                                uri = substr($0, RSTART, RLENGTH)
                                sub(/^\n?URIs:[ \t]*/, "", uri); print uri; exit }' "$file")
        done
        for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
                if [ ! -f "$file" ] || [ -n "$mirror" ]; then
                        continue
                fi
                mirror=$(sed -nE 's/^deb[ \t]+(\[[^]]*\][ \t]*)?([^ \t]+)[ \t]+(bookworm|trixie|stable|testing|sid)[ \t]+([^#]*[ \t])?main([ \t].*)?$/\2/p' \
                        "$file" | head -n 1)
        done
        if [ -z "$mirror" ]; then
                say "found no Debian mirror among this machine's apt sources" >&2
                return 1
        fi
        echo "$mirror"
}

# How this machine fetches things, where that is not as usual.
copy_settings() {
        local file own=("$HOME/.npmrc" /etc/npmrc /usr/etc/npmrc)
        apt-config dump | grep -E '^Acquire::(http|https|ftp|Check-|Retries|ForceIPv|Queue-Mode)' |
                grep -vE ' "";$|Proxy-Auto-Detect' >"$root/etc/apt/apt.conf.d/99fresh" || true
        for file in /etc/apt/auth.conf /etc/apt/auth.conf.d/*.conf; do
                [ ! -f "$file" ] || cp -p "$file" "$root$file"
        done
        cp /etc/hosts "$root/etc/hosts"
        cp -L /etc/resolv.conf "$root/etc/resolv.conf"
        # npm's registry, how it is reached, and what it asks for.
        for file in "${NPM_CONFIG_USERCONFIG:-${own[0]}}" "${own[@]:1}"; do
                [ ! -f "$file" ] || grep -E '^ *((@[^:=]+:)?registry|//|(https?-)?proxy|noproxy|ca|cafile|strict-ssl)' \
                        "$file" >>"$root/root/.npmrc" || true
        done
        for file in /usr/local/share/ca-certificates/*.crt; do
                [ ! -f "$file" ] || cp "$file" "$root/usr/local/share/ca-certificates/"
        done
        chroot "$root" update-ca-certificates >/dev/null 2>&1
}

mirror=$(find_mirror)
say "$suite from $mirror into $folder"
if ! in_namespaces "$folder/debootstrap.log" "$root" debootstrap "$suite" "$root" "$mirror"; then
        tail -n "$lines" "$folder/debootstrap.log"
        die "debootstrap failed"
fi
copy_settings
[ "${commands[*]}" != "deb try" ] || cp -a "$root" "$bare"
# The tree may be that of somebody else than root.
git -c safe.directory='*' clone -q --no-hardlinks "$project" "$root/root/neso"
# shellcheck disable=SC2016
say "$(chroot "$root" sh -c '. /etc/os-release; echo "$PRETTY_NAME"')," \
        "commit $(git -c safe.directory='*' -C "$project" rev-parse --short HEAD)"
[ -z "$(git -c safe.directory='*' -C "$project" status --porcelain)" ] ||
        say "what is not committed is not tried"

# ---- the commands --------------------------------------------------------------------------------

# The packages and what tries them, into the second system.
copy_packages() {
        mkdir -p "$bare/root/neso/build" "$bare/root/neso/examples/models"
        cp -r "$root/root/neso/tools" "$bare/root/neso/"
        cp -r "$root/root/neso/build/deb" "$bare/root/neso/build/"
        cp -r "$root/root/neso/examples/models/digits" "$bare/root/neso/examples/models/"
}

failed=()
for command in "${commands[@]}"; do
        begin=$SECONDS status=0 system=$root name="make $command"
        if [ "$command" = try ]; then
                system=$bare name=tools/try_deb.sh
                copy_packages
        fi
        in_namespaces "$folder/$command.log" "$system" "$command" || status=$?
        echo "==== $name on $suite: the last $lines lines of $(wc -l <"$folder/$command.log")"
        # Tests that failed are named further up, in the order of their programs.
        [ "$status" -eq 0 ] || grep -E '^(==== |FAILED|ERROR|\[  FAILED  \] test)' \
                "$folder/$command.log" | head -n 200 || true
        tail -n "$lines" "$folder/$command.log"
        echo "==== $name on $suite: exit status $status after $((SECONDS - begin)) s"
        if [ "$status" -ne 0 ]; then
                failed+=("$name")
                # Packages that lintian complains about are tried, too.
                [ "$command" != deb ] || [ -d "$root/root/neso/build/deb" ] || break
        fi
done
[ ${#failed[@]} -eq 0 ] || die "$suite: failed: ${failed[*]}"
say "$suite: passed"
