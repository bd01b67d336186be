# SPDX-License-Identifier: BSD-3-Clause
"""A plug-in that crashes ends the server; a line of its own says which one, in which function and
for which model. Other threads may still log after it."""
import re
import shutil
import signal

import pytest
import requests

from conftest import BUILD, Server, is_sanitized, require_build, write_repository

HOW = {"SIGSEGV": (signal.SIGSEGV, r"SIGSEGV at address 0x0"),
       "SIGBUS": (signal.SIGBUS, r"SIGBUS at address 0x[0-9a-f]+"),
       "SIGABRT": (signal.SIGABRT, r"SIGABRT"),
       "SIGFPE": (signal.SIGFPE, r"SIGFPE"),
       "SIGILL": ((signal.SIGILL, signal.SIGTRAP), r"(SIGILL at address 0x[0-9a-f]+|SIGTRAP)"),
       "overflow": (signal.SIGSEGV, r"SIGSEGV at address 0x[0-9a-f]+")}


def assert_one_report(server, pattern):
    reports = [line for line in server.log if line.startswith("neso: SIG")]
    assert len(reports) == 1 and re.fullmatch(pattern, reports[0]), server.text()


@pytest.mark.parametrize("how", HOW)
def test_crash_of_an_instance(how, tmp_path):
    require_build(["testing"])
    if is_sanitized():
        pytest.skip("a sanitizer has the signals")
    write_repository(tmp_path, {"victim": 'backend: "testing"\n'
                                'input { name: "INPUT0" data_type: TYPE_FP32 dims: [1] }\n'
                                'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [1] }\n'
                                'instance_group { count: 1 kind: KIND_CPU }\n'
                                'parameters { key: "crash" '
                                f'value {{ string_value: "{how}" }} }}\n'})
    server = Server(tmp_path)
    server.port("metrics")  # the last line of the start is there
    body = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]}
    with pytest.raises(requests.ConnectionError):
        requests.post(f"{server.url}/v2/models/victim/infer", json=body, timeout=30)
    code = server.process.wait(30)
    server.wait_for_end_of_log()
    numbers, what = HOW[how]
    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
    assert -code in numbers, server.text()
    library = BUILD / "backends" / "testing" / "libtriton_testing.so"
    assert_one_report(server, rf"neso: {what} in {re.escape(str(library))}, "
                      r"TRITONBACKEND_ModelInstanceExecute, model 'victim' version 1 "
                      r"\(thread \d+\)")


# ---- each call into a plug-in -------------------------------------------------------------------

PLUGIN = BUILD / "tests" / "e2e" / "crash_plugin.so"

TENSORS = ('input { name: "INPUT0" data_type: TYPE_FP32 dims: [1] }\n'
           'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [1] }\n'
           'instance_group { count: 1 kind: KIND_CPU }\n')
BATCHED = TENSORS + "max_batch_size: 2\ndynamic_batching { }\n"
OURS, IDENTITY = 'backend: "crash"\n', 'backend: "identity"\n'

# What it is -> where a server looks for it, and a model that uses it.
KINDS = {
    "backend": ("crash/libtriton_crash.so", OURS + TENSORS),
    "batching of a backend": ("crash/libtriton_crash.so", OURS + BATCHED),
    "batching library": ("victim/batchstrategy.so", IDENTITY + BATCHED),
    "agent": ("crash/libtritonrepoagent_crash.so", IDENTITY + TENSORS +
              'model_repository_agents { agents { name: "crash" } }\n'),
    "cache": ("crash/libtritoncache_crash.so", IDENTITY + TENSORS + "response_cache { enable: true }"),
}

VERSION = ", model 'victim' version 1"
MODEL = ", model 'victim'"

BATCHING = [("TRITONBACKEND_Model" + name, VERSION) for name in (
    "BatcherInitialize", "BatcherFinalize", "BatchInitialize", "BatchIncludeRequest",
    "BatchFinalize")]

# What it is -> its functions, and what the report says of the model.
CALLS = {
    "backend": [("TRITONBACKEND_Initialize", ""), ("TRITONBACKEND_Finalize", ""),
                ("TRITONBACKEND_GetBackendAttribute", "")] + [
                    ("TRITONBACKEND_Model" + name, VERSION) for name in (
                        "Initialize", "Finalize", "InstanceInitialize", "InstanceFinalize",
                        "InstanceReady", "InstanceExecute")],
    "batching of a backend": BATCHING,
    "batching library": BATCHING,
    "agent": [("TRITONREPOAGENT_Initialize", ""), ("TRITONREPOAGENT_Finalize", "")] + [
        ("TRITONREPOAGENT_Model" + name, MODEL) for name in ("Initialize", "Finalize", "Action")],
    "cache": [("TRITONCACHE_Cache" + name, "") for name in (
        "Initialize", "Finalize", "Lookup", "Insert")],
}


def live(repository, options):
    """A server that starts, answers a request and stops, if it gets so far."""
    server = Server(repository, options, waits_for=())
    try:
        server.port("metrics")
        assert requests.get(f"{server.url}/v2/models/victim/ready", timeout=30).status_code == 200
        requests.post(f"{server.url}/v2/models/victim/infer", timeout=30, json={"inputs": [
            {"name": "INPUT0", "shape": [1, 1] if "max_batch_size" in
             (repository / "victim" / "config.pbtxt").read_text() else [1], "datatype": "FP32",
             "data": [1]}]})
    except (AssertionError, requests.ConnectionError):
        pass
    return server, server.stop()


@pytest.mark.parametrize("kind, function, model", [
    (kind, function, model) for kind, calls in CALLS.items() for function, model in calls])
def test_each_call(kind, function, model, tmp_path, monkeypatch):
    require_build(["identity"])
    if is_sanitized():
        pytest.skip("a sanitizer has the signals")
    place, config = KINDS[kind]
    write_repository(tmp_path / "models", {"victim": config})
    library = (tmp_path / ("models" if kind == "batching library" else "plugins") / place)
    library.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(PLUGIN, library)
    backends = tmp_path / "plugins"
    (backends / "identity").parent.mkdir(exist_ok=True)
    (backends / "identity").symlink_to(BUILD / "backends" / "identity")
    monkeypatch.setenv("CRASH_AT", function)
    options = [f"--{what}-directory={backends}" for what in ("backend", "repoagent", "cache")]
    if kind == "cache":
        options.append("--cache-config=crash,size=1")
    server, code = live(tmp_path / "models", options)
    assert code == -signal.SIGABRT, server.text()
    assert_one_report(server, rf"neso: SIGABRT in {re.escape(str(library))}, {function}{model} "
                      r"\(thread \d+\)")
