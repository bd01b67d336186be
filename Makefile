# The short names; the build itself is Meson's (meson.build). Each kind of build has its folder:
# build/ (what users run), build-clang/, build-asan/, build-tsan/, build-fuzz/ and build-cov/ (with clang),
# build-arm64/.

BUILD ?= build
PREFIX ?= /usr/local
# Below PREFIX. Meson alone would take the distribution's, such as lib/x86_64-linux-gnu.
LIBDIR ?= lib
# For tests and tools, whose packages tools/setup.sh installs for the system's interpreter.
PYTHON ?= /usr/bin/python3
# Warnings of a compiler that we have not met must not stop a user's build; CI says true.
WERROR ?= false
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 300
# Of the campaign of length: parts (all), and a share of the full size.
ONLY ?=
SCALE ?= 1
BALANCER_SECONDS ?= 30
E2E ?= tests/e2e

RELEASE = -Ddebug=false -Doptimization=2 -Db_ndebug=true -Dlto=true
CHECKED = -Ddebug=true -Doptimization=1 -Db_ndebug=false -Dlock_check=true
# clang links no sanitizer into shared objects, whose symbols then come from the program; and with
# -fsanitize gcc warns of what cannot happen.
SANITIZED = $(CHECKED) -Db_lundef=false -Dwerror=false

# What the sanitizers watch; the rules and tests/e2e are of the ordinary build.
GATED = --suite=unit --suite=abi --suite=fuzz

# Meson looks for these when it configures: one that is new means to configure again.
PARTS = $(wildcard src/*/meson.build backends/*/meson.build caches/*/meson.build \
        repoagents/*/meson.build schedulers/*/meson.build tests/*/meson.build tests/unit/*/meson.build \
        tests/fuzz/fuzz_*.c .deps/onnxruntime/version .deps/aarch64/onnxruntime/version .deps/uplot/version)

# $(call configure,FOLDER,OPTIONS)
configure = @command -v meson >/dev/null || { echo "meson is missing: tools/setup.sh" \
        "installs what the build needs"; exit 1; }; \
        if [ -f $(1)/build.ninja ]; then meson setup --reconfigure $(1) >/dev/null && touch $(1)/build.ninja; \
        else meson setup $(1) -Dlibdir=$(LIBDIR) $(2); fi

.PHONY: all everything demo check clang asan tsan sanitize-everything arm64 fuzz fuzz-coverage install clean setup format reference
.PHONY: bench soak soak-reloads soak-streams soak-sequences soak-pipelines soak-python hostile faults length
.PHONY: boards browser stores balancers slurm kubernetes llama check-gpu check-gpu-fake deb tarball image image-check
.PHONY: faults-disk faults-processes faults-clock gpu

# What users get, and nothing else.
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) installed

# With the tests' programs and the benchmarks'; make check builds the same.
everything: $(BUILD)/build.ninja
	@ninja -C $(BUILD) all meson-test-prereq

setup:
	@tools/setup.sh

# Installs what is missing, builds, serves the bundled models and asks them things.
demo:
	@tools/setup.sh
	@$(MAKE) --no-print-directory all
	@$(PYTHON) examples/demo.py $(BUILD)

check:
	@tools/setup.sh || { echo "0 passed, 1 failed"; exit 1; }
	@WERROR=$(WERROR) $(PYTHON) tools/run_checks.py $(BUILD)

# E2E: the end-to-end tests to run too, all of them unless said otherwise. CHECK_OPTIONS: more options
# of tools/run_checks.py.
asan:
	@$(PYTHON) tools/run_checks.py $(GATED) $(CHECK_OPTIONS) --end-to-end="$(E2E)" build-asan

tsan:
	@$(PYTHON) tools/run_checks.py $(GATED) $(CHECK_OPTIONS) --end-to-end="$(E2E)" build-tsan

# All tests of the programs and the whole end-to-end suite under both sanitizers: some hours.
sanitize-everything:
	@status=0; for build in asan tsan; do $(MAKE) --no-print-directory $$build E2E=tests/e2e \
		CHECK_OPTIONS="--test-seconds=14400 --time-factor=4" || status=1; done; exit $$status

# The other compiler, whose warnings are errors, and its sanitizers. Interpreters cannot load what it builds with them:
# Python models and the C API from Python are of `make asan`.
clang: E2E =
clang:
	@$(PYTHON) tools/run_checks.py $(GATED) $(CHECK_OPTIONS) --end-to-end="$(E2E)" build-clang

fuzz: build-fuzz/build.ninja
	@ninja -C build-fuzz fuzz_programs
	@tools/run_fuzzers.sh build-fuzz $(FUZZ_SECONDS)

# How much of its decoder each target reaches, with the inputs that `make fuzz` has found.
fuzz-coverage: build-cov/build.ninja
	@ninja -C build-cov installed tests/fuzz/hostile_stub tests/fuzz/hostile/libtritoncache_hostile.so \
		backends/testing/libtriton_testing.so $(patsubst tests/fuzz/fuzz_%.c,tests/fuzz/replay_%,$(wildcard tests/fuzz/fuzz_*.c))
	@tools/fuzz_coverage.py build-cov build-fuzz/corpus

bench: all
	@ninja -C $(BUILD) bench_programs
ifdef AGAINST
	@$(PYTHON) bench/against.py --build=$(BUILD) --against=$(AGAINST)
else
	@$(PYTHON) bench/run.py --build=$(BUILD)
endif

soak: all
	@$(PYTHON) tests/stress/soak.py --build=$(BUILD)

soak-reloads: all
	@$(PYTHON) tests/stress/reloads.py --build=$(BUILD) --seconds=$(SOAK_SECONDS)
	@$(PYTHON) tests/stress/reloads.py --build=$(BUILD) --seconds=$(SOAK_SECONDS) --mode=poll
	@$(PYTHON) tests/stress/reloads.py --build=$(BUILD) --seconds=$(SOAK_SECONDS) --file=onnx
	@$(PYTHON) tests/stress/reloads.py --build=$(BUILD) --seconds=$(SOAK_SECONDS) --file=onnx --mode=poll

soak-python: all
	@$(PYTHON) tests/stress/python_models.py --build=$(BUILD)

soak-streams: all
	@ninja -C $(BUILD) tests/stress/grpc_load
	@$(PYTHON) tests/stress/grpc_streams.py --build=$(BUILD)

soak-sequences: all
	@$(PYTHON) tests/stress/sequences.py --build=$(BUILD) --seconds=$(SOAK_SECONDS)
	@$(PYTHON) tests/stress/sequences.py --build=$(BUILD) --seconds=$(SOAK_SECONDS) --oldest

soak-pipelines: all
	@$(PYTHON) tests/stress/pipelines.py --build=$(BUILD) --seconds=$(SOAK_SECONDS)
	@$(PYTHON) tests/stress/pipelines_in_flight.py --build=$(BUILD)

# The dashboard in Chromium, and the rules for its JavaScript. Debian keeps the modules of eslint where
# a Node from elsewhere does not look.
browser:
	@tools/setup.sh chromium chromium-driver python3-selenium eslint
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) tests/gpu/libcuda.so.1 tests/gpu/libnvidia-ml.so.1
	NODE_PATH=/usr/share/nodejs eslint --no-eslintrc --format unix --config tools/eslint.json src/web/page
	@$(PYTHON) -m pytest -q -p no:cacheprovider tests/browser

# Each operation while the n-th call of a function fails; the report is in build/faults.json.
faults: all
	@ninja -C $(BUILD) tests/faults/fail_call.so
	@$(PYTHON) tests/faults/run.py --build=$(BUILD) --report=$(BUILD)/faults.json

# Models on stand-ins of GPUs (tests/gpu), and modules whose models of the identity and the testing backend run there a
# second time. Left out are their tests of a server without GPUs.
GPU_MODULES = http_infer grpc_infer grpc_stream inference_matrix inference_random large_tensors ensembles cache \
        dynamic_batching shared_memory cuda_shared_memory sequences states sequence_life sequence_chains \
        sequence_closing sequence_list sequence_load in_flight deadlines model_control model_poll grpc_control \
        promises model_stress slow_unload loads_in_initialize forgotten_models parallel_instances warmup_ends drain \
        stop_under_load decoupled decoupled_order long_requests chains composite composite_check rate_limiter \
        ensemble_life pipeline_ways pipeline_stress pipeline_accounts
gpu: everything
	@$(PYTHON) -m pytest -q -p no:cacheprovider tests/e2e/test_gpu.py tests/e2e/test_gpu_python.py
	@NESO_TESTS_ON_GPU=1 $(PYTHON) -m pytest -q -p no:cacheprovider $(GPU_MODULES:%=tests/e2e/test_%.py) \
		--deselect tests/e2e/test_dynamic_batching.py::test_gpus_are_refused \
		--deselect tests/e2e/test_cuda_shared_memory.py::test_bench_without_a_gpu \
		--deselect tests/e2e/test_shared_memory.py::test_cuda \
		--deselect tests/e2e/test_states.py::test_refused_configurations

# Nothing grows over many requests, loads, sequences, connections, hours; the report is in build/length.
length: all
	@ninja -C $(BUILD) tests/length/heap_reader.so tests/length/connections
	@$(PYTHON) tests/length/run.py --build=$(BUILD) --only=$(ONLY) --scale=$(SCALE)

# Full, read-only, broken and vanishing disks, and files that change while a model loads: build/disk.json.
# What kills and stops processes: build/processes.json. Clocks that jump: build/clock.json.
faults-disk faults-processes faults-clock: all
	@ninja -C $(BUILD) tests/faults/fail_path.so tests/faults/move_clock.so tests/e2e/libtriton_twin_first.so
	@$(PYTHON) tests/faults/$(@:faults-%=%).py --build=$(BUILD) --report=$(BUILD)/$(@:faults-%=%).json

hostile: all
	@ninja -C $(BUILD) backends/testing/libtriton_testing.so tests/e2e/fail_threads.so
	@$(PYTHON) tests/stress/hostile.py --build=$(BUILD)
	@$(PYTHON) tests/stress/attacks/run.py --build=$(BUILD)

# The boards and alerts of deploy/ against a real Prometheus, which is installed when it is missing.
boards: all
	@tools/setup.sh prometheus
	@ninja -C $(BUILD) backends/testing/libtriton_testing.so
	@$(PYTHON) tests/boards/run.py --build=$(BUILD)

# Remote repositories in real stores: with S3's interface OpenStack Swift, with Azure's Azurite, which are
# installed when they are missing. Swift's daemons of Debian are not used: the tests start their own on free
# ports.
stores: all
	@tools/setup.sh swift-proxy swift-account swift-container swift-object
	@tests/stores/azurite/install.sh
	@ninja -C $(BUILD) backends/testing/libtriton_testing.so backends/identity/libtriton_identity.so tests/e2e/store_probe
	@$(PYTHON) -m pytest -q -p no:cacheprovider tests/stores

# HAProxy and nginx with the configurations of deploy/ in front of three servers, which are restarted under load.
balancers: all
	@tools/setup.sh --envoy haproxy nginx
	@ninja -C $(BUILD) backends/testing/libtriton_testing.so
	@$(PYTHON) tests/balancers/run.py --build=$(BUILD) --seconds=$(BALANCER_SECONDS)
	@$(PYTHON) tests/balancers/run.py --build=$(BUILD) --seconds=$(BALANCER_SECONDS) --servers=2

# The batch script of deploy/slurm in a real Slurm on this machine; as root.
slurm: all
	@tools/setup.sh munge slurmctld slurmd slurm-client haproxy
	@ninja -C $(BUILD) backends/testing/libtriton_testing.so
	@$(PYTHON) tests/slurm/run.py --build=$(BUILD)

# The llamacpp and chat_template backends, with the library of llama.cpp and models that the tests write.
llama: all
	@tools/setup.sh --llama python3-jinja2
	@$(PYTHON) -m pytest -q -p no:cacheprovider tests/llama

# What GPUs do, on those of this machine; and the same on the stand-ins of tests/gpu.
check-gpu:
	@PYTHON="$(PYTHON)" NESO_BUILD="$(abspath $(BUILD))" tools/check_gpu.sh

check-gpu-fake:
	@PYTHON="$(PYTHON)" NESO_BUILD="$(abspath $(BUILD))" tools/check_gpu.sh --fake

# The manifests of deploy/kubernetes: kubectl renders them, and the schemas of the APIs check every object.
kubernetes:
	@tools/setup.sh --kubernetes
	@$(PYTHON) tests/kubernetes/run.py

# The cross-build for arm64, tested under qemu-user; installs the compiler and the emulator.
arm64:
	@E2E="$(E2E)" PYTHON="$(PYTHON)" tools/check_arm64.sh

# Debian packages in build/deb.
deb:
	@tools/make_deb.sh $(BUILD)/deb

# An archive of the installation that runs from any folder, in build.
tarball:
	@tools/setup.sh --build-only zstd git
	@$(MAKE) --no-print-directory all
	@tools/make_tarball.sh $(BUILD)

# Container images in build/image, for podman load and docker load; needs root.
image:
	@tools/setup.sh --build-only buildah netavark git
	@$(MAKE) --no-print-directory all
	@tools/make_image.sh $(BUILD)

# Makes them twice, compares, and runs them.
image-check:
	@tools/setup.sh buildah netavark
	@$(MAKE) --no-print-directory image
	@tools/make_image.sh $(BUILD) $(BUILD)/image-again
	@$(PYTHON) -m pytest -q -s -p no:cacheprovider tests/image

# The reference pages of the public headers, in build/reference; installs Doxygen when it is missing.
reference:
	@tools/make_reference.sh $(BUILD)/reference

format:
	@$(PYTHON) tools/check_format.py --fix
	@$(PYTHON) tools/wrap_docs.py --fix

install: all
	meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX)) -Dlibdir=$(LIBDIR)
	@ninja -C $(BUILD) installed
	meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf $(BUILD) build-clang build-asan build-tsan build-fuzz build-cov build-arm64

$(BUILD)/build.ninja: $(PARTS)
	$(call configure,$(BUILD),$(RELEASE) -Dwerror=$(WERROR))

build-clang/build.ninja: export CC = clang
build-clang/build.ninja: $(PARTS)
	$(call configure,build-clang,$(SANITIZED) -Dwerror=true -Db_sanitize=address$(COMMA)undefined)

build-asan/build.ninja: $(PARTS)
	$(call configure,build-asan,$(SANITIZED) -Db_sanitize=address$(COMMA)undefined)

build-tsan/build.ninja: $(PARTS)
	$(call configure,build-tsan,$(SANITIZED) -Db_sanitize=thread)

build-fuzz/build.ninja: export CC = clang
build-fuzz/build.ninja: $(PARTS)
	$(call configure,build-fuzz,$(SANITIZED) -Db_sanitize=address$(COMMA)undefined -Dfuzz=true -Dtests=false)

build-cov/build.ninja: export CC = clang
build-cov/build.ninja: $(PARTS)
	$(call configure,build-cov,-Ddebug=true -Doptimization=1 -Dwerror=false -Dlto=false "-Dc_args=-fprofile-instr-generate -fcoverage-mapping" "-Dc_link_args=-fprofile-instr-generate")

build-arm64/build.ninja: $(PARTS)
	$(call configure,build-arm64,--cross-file .deps/aarch64/cross.ini $(RELEASE) -Dlto=false -Dwerror=true)

COMMA := ,
