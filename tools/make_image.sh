#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Container images: tools/make_image.sh [BUILD [FOLDER]]; BUILD, `build` by default, is what `make` built with the prefix of
# one folder, and FOLDER, BUILD/image by default, gets
#
#   neso.tar          neso:latest, the server with the backends onnxruntime, identity and python
#   neso-python.tar   neso:latest-python, the same with Debian's Python and NumPy as another layer
#   *.spdx.json       what each is made of
#
# for podman load and docker load. The images start from nothing: tools/image_root.py picks the files. Needs root, since
# owners are set. Buildah keeps its own files below FOLDER while it works; nothing else on the machine changes.
#
# Two images of the same build and the same Debian packages are equal byte for byte; their time is SOURCE_DATE_EPOCH or
# that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
out=$(realpath -m "${2:-$build/image}")
source tools/release.sh
readonly out user=65532

if [ "$(id -u)" -ne 0 ]; then
        echo "make_image: needs root" >&2
        exit 1
fi

# Its own storage, of a kind that works on every file system.
image_tool() {
        buildah --root "$out/making/storage" --runroot "$out/making/run" --storage-driver vfs "$@"
}

# What the container tells who runs it; images above this one inherit it.
configure() {
        image_tool config \
                --user "$user:$user" \
                --env PATH=/usr/local/bin:/usr/bin \
                --entrypoint '["neso"]' \
                --cmd "serve --model-repository=/models" \
                --workingdir / \
                --port 8000/tcp --port 8001/tcp --port 8002/tcp \
                --stop-signal SIGTERM \
                --healthcheck "CMD neso ctl ready" \
                --healthcheck-interval 10s --healthcheck-timeout 5s --healthcheck-start-period 60s \
                --label org.opencontainers.image.title=neso \
                --label "org.opencontainers.image.version=$version" \
                --label org.opencontainers.image.licenses=BSD-3-Clause \
                "$1"
}

# The folder $2 as a layer above the image $1; the result is the image $3, and the archive $4.
write_image() {
        local container
        container=$(image_tool from --pull-never --format docker "$1")
        image_tool copy --quiet "$container" "$2" / >/dev/null
        image_tool config --created-by tools/make_image.sh "$container"
        [ "$1" != scratch ] || configure "$container"
        image_tool commit --quiet --rm --format docker --timestamp "$epoch" "$container" "$3" >/dev/null
        rm -f "$4"
        image_tool push --quiet "$3" "docker-archive:$4:$3"
        tools/image_archive.py --tag="$3" "$4"
}

version=$(release_version)
epoch=$(release_epoch)
rm -rf "$out/making"
mkdir -p "$out/making"
trap 'rm -rf "$out/making"' EXIT
stage_install "$build" "$out/making/stage"
/usr/bin/python3 tools/image_root.py --stage="$out/making/stage" --debs="$build/debs" --out="$out/making/roots" \
        --version="$version" --epoch="$epoch"
write_image scratch "$out/making/roots/base" neso:latest "$out/neso.tar"
write_image neso:latest "$out/making/roots/python" neso:latest-python "$out/neso-python.tar"
cp "$out"/making/roots/*.spdx.json "$out/"
ls -l "$out"/*.tar "$out"/*.spdx.json
