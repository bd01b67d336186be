#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Puts Azurite, as package-lock.json pins it, into .deps/azurite; no scripts of packages are run. Idempotent by
# the lock file, which is there only beside all that it names. Without npm's registry the tests that need it
# are skipped.
set -euo pipefail
cd "$(dirname "$0")/../../.."

readonly WANTED=tests/stores/azurite FOLDER=.deps/azurite
cmp -s "$WANTED/package-lock.json" "$FOLDER/package-lock.json" && exit 0

echo "fetching Azurite"
mkdir -p .deps
work=$(mktemp -d "$PWD/.deps/azurite.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$WANTED/package.json" "$WANTED/package-lock.json" "$work/"
if (cd "$work" && npm ci --silent --ignore-scripts --no-audit --no-fund --fetch-retries=1 >/dev/null </dev/null); then
        rm -rf "$FOLDER"
        chmod 755 "$work"
        mv "$work" "$FOLDER"
else
        echo "npm could not fetch Azurite; without it tests/stores/test_azurite.py is skipped" >&2
fi
