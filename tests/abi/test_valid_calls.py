#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every exported function is called with right arguments and succeeds. The calls are those of C
programs that see the headers only: one with servers in it, and a backend, a repository agent and a
cache that its servers load (calls/). Each call is written down where it is made, once it has
succeeded; what they have written is compared with the headers.

  test_valid_calls.py [--list] <valid_calls> <libtriton_calls.so> <libtritonrepoagent_calls.so>
                      <libtritoncache_calls.so> <directory of backends>

With --list it prints each function and who called it how often.
"""
import collections
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

import abi_names

SECONDS = 120

# An error is what it makes.
NOT_AN_OUTCOME = {"TRITONSERVER_ErrorNew"}

# They need a GPU; without one they are refused. Tests on stand-ins of GPUs see them succeed.
NEED_GPUS = {"NESO_DeviceMemoryShare", "NESO_DeviceMemoryOpen", "NESO_DeviceMemoryClose"}

# Those that no other test calls with each pointer missing: their programs do.
ALSO_REFUSED = ("TRITONREPOAGENT_", "TRITONCACHE_")

TENSORS = ('input {{ name: "INPUT0" data_type: TYPE_FP32 dims: -1 }}\n'
           'output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 {more} }}\n')

# Profiles are for models of TensorRT only: the backend goes by that name.
CALLS = ('backend: "tensorrt"\nplatform: "tensorrt_plan"\n'
         'model_transaction_policy { decoupled: true }\n'
         + TENSORS.format(more='label_filename: "labels.txt"')
         + 'sequence_batching { state { input_name: "STATE_IN" output_name: "STATE_OUT" '
           'data_type: TYPE_FP32 dims: 2 } }\n'
           'instance_group { count: 1 kind: KIND_CPU profile: "profile"\n'
           '  secondary_devices { kind: KIND_NVDLA device_id: 3 } }\n'
           'model_repository_agents { agents { name: "calls" '
           'parameters { key: "key" value: "value" } } }\n')

CACHED = 'backend: "identity"\nresponse_cache { enable: true }\n' + TENSORS.format(more="")
CHAINED = ('backend: "identity"\nparameters { key: "next" value { string_value: "cached" } }\n'
           + TENSORS.format(more=""))
SEQUENCES = 'backend: "identity"\nsequence_batching { }\n' + TENSORS.format(more="")


def make_places(folder, plugins, backends):
    """The program's arguments."""
    for model, config in (("calls", CALLS), ("cached", CACHED), ("chained", CHAINED),
                          ("sequences", SEQUENCES)):
        os.makedirs(os.path.join(folder, "models", model, "1"))
        with open(os.path.join(folder, "models", model, "config.pbtxt"), "w",
                  encoding="ascii") as file:
            file.write(config)
    with open(os.path.join(folder, "models", "calls", "labels.txt"), "w",
              encoding="ascii") as file:
        file.write("one\ntwo\n")
    os.makedirs(os.path.join(folder, "more"))
    backend, agent, cache = plugins
    for plugin, path in ((backend, "tensorrt/libtriton_tensorrt.so"),
                         (agent, "calls/libtritonrepoagent_calls.so"),
                         (cache, "calls/libtritoncache_calls.so")):
        os.makedirs(os.path.join(folder, "plugins", os.path.dirname(path)), exist_ok=True)
        os.symlink(plugin, os.path.join(folder, "plugins", path))
    os.symlink(os.path.join(backends, "identity"), os.path.join(folder, "plugins", "identity"))
    return [os.path.join(folder, name) for name in ("models", "more", "plugins", "log")]


def run(program, plugins, backends):
    """(its exit status, the lines that were written)"""
    folder = tempfile.mkdtemp(prefix="neso_valid_calls_")
    record = os.path.join(folder, "calls")
    try:
        # Meson names the emulator of a cross-build.
        command = [*shlex.split(os.environ.get("MESON_EXE_WRAPPER", "")), program,
                   *make_places(folder, plugins, backends)]
        ended = subprocess.run(command, env={**os.environ, "ABI_CALLS": record}, check=False,
                               timeout=SECONDS)
        with open(record, encoding="ascii") as file:
            return ended.returncode, [line.split() for line in file]
    finally:
        shutil.rmtree(folder)


def faults(function, calls):
    """What is wrong with the calls of one function: {how: {caller: times}}."""
    is_outcome = function.returns_error() and function.name not in NOT_AN_OUTCOME
    right = "refused" if function.name in NEED_GPUS else "ok" if is_outcome else "value"
    if right not in calls:
        yield "is never called with right arguments"
    if function.name.startswith(ALSO_REFUSED) and "refused" not in calls:
        yield "is never called with wrong arguments"


def main():
    arguments = sys.argv[1:]
    is_listing = arguments[0] == "--list"
    program, *plugins, backends = map(os.path.abspath, arguments[is_listing:])
    functions = abi_names.exported_functions()
    exports = [function.name for function in functions]
    status, lines = run(program, plugins, backends)
    n_failed = int(status != 0)
    if status != 0:
        print(f"FAILED: {program} ended with {status}")

    called = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    for how, caller, name in lines:
        called[name][how][caller] += 1
    for name in sorted(set(called) - set(exports)):
        n_failed += 1
        print(f"FAILED: {name} is not exported")
    for function in functions:
        for fault in faults(function, called[function.name]):
            n_failed += 1
            print(f"FAILED: {function.name} {fault}")
        if is_listing:
            print(function.name, *(f"{how}:{caller}={times}"
                                   for how, callers in sorted(called[function.name].items())
                                   for caller, times in sorted(callers.items())))

    succeeded = [name for name in exports if called[name].keys() & {"ok", "value"}]
    for caller in ("program", "backend", "agent", "cache"):
        n = sum(any(caller in called[name][how] for how in ("ok", "value")) for name in exports)
        print(f"{caller}: {n} functions called with right arguments")
    print(f"{len(succeeded)} of {len(exports)} functions succeed; {len(lines)} calls, "
          f"{n_failed} failed")
    sys.exit(1 if n_failed or not functions else 0)


if __name__ == "__main__":
    main()
