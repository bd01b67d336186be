# SPDX-License-Identifier: BSD-3-Clause
"""Models that come, change and go while the server serves: the modes none and explicit, over HTTP
and gRPC. Each sentence of docs/model_management.md that can be seen from outside has its test.

No test sleeps: a load answers when the model is ready, and what comes later, the end of a version
that somebody still uses, is awaited in the index.
"""
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
import requests

from conftest import BUILD, FIFO, Server, require_build, write_repository
from gate import Gate, gated
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from scrape import wait_for_pending
from models import (EXPLICIT, control, index, infer, is_server_ready, load, model_config,
                    opens_server, model_text, unload, wait_for_index, wait_until, write)

ONE_GPU = True
BACKENDS = ("identity", "testing")

POLL_ERROR = "failed to load '{0}', failed to poll from model repository"
NOT_ALLOWED = "explicit model load / unload is not allowed if polling is enabled"


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(BACKENDS)


@pytest.fixture(params=["http", "grpc"])
def way(request):
    return request.param


# ---- mode none ----------------------------------------------------------------------------------


def test_none_loads_all_and_ignores_changes(tmp_path):
    models = {"a": model_text(), "b": model_text(),
              "bad": model_text(parameters={"fail_load": "no luck"})}
    with opens_server(tmp_path, models, "--exit-on-error=false") as server:
        before = index(server)
        assert before == [("a", "1", "READY", None), ("b", "1", "READY", None),
                          ("bad", "1", "UNAVAILABLE", "Internal: no luck")]
        write(server, "a/config.pbtxt", model_text(count=3))
        write(server, "a/2/model", "two")
        write(server, "new/config.pbtxt", model_text())
        write(server, "new/1/model", "one")
        shutil.rmtree(server.repository / "b")
        assert index(server) == before
        assert infer(server, "a").version == "1"
        assert infer(server, "b").status == 200


def test_none_refuses_orders(tmp_path, stubs):
    with opens_server(tmp_path, {"a": model_text()}) as server:
        for way in ("http", "grpc"):
            for verb in ("load", "unload"):
                assert control(server, way, verb, "a", stubs) == ("UNAVAILABLE", NOT_ALLOWED)
        assert infer(server, "a").status == 200


def test_none_fails_to_start_unless_told_otherwise(tmp_path):
    write_repository(tmp_path, {"bad": model_text(parameters={"fail_load": "no luck"})})
    ended = subprocess.run([str(BUILD / "neso"), "serve", f"--model-repository={tmp_path}",
                            f"--backend-directory={BUILD / 'backends'}", "--http-port=0",
                            "--grpc-port=0", "--metrics-port=0"],
                           capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "error: creating server: Internal - failed to load all models" in ended.stderr


# ---- mode explicit ------------------------------------------------------------------------------


def test_explicit_loads_only_what_is_named(tmp_path):
    models = {name: model_text() for name in "abc"}
    with opens_server(tmp_path, models, *EXPLICIT, "--load-model=a", "--load-model=c") as server:
        assert index(server) == [("a", "1", "READY", None), ("b", None, None, None),
                                 ("c", "1", "READY", None)]
        assert is_server_ready(server)
        assert infer(server, "b").error == "Request for unknown model: 'b' is not found"


def test_explicit_loads_all_for_an_asterisk(tmp_path):
    models = {name: model_text() for name in "abc"}
    with opens_server(tmp_path, models, *EXPLICIT, "--load-model=*") as server:
        assert [state for _, _, state, _ in index(server)] == ["READY"] * 3


def test_explicit_loads_nothing_by_itself(tmp_path):
    with opens_server(tmp_path, {"a": model_text()}, *EXPLICIT) as server:
        assert index(server) == [("a", None, None, None)]
        assert index(server, ready=True) == []
        assert is_server_ready(server)


def test_an_asterisk_must_be_alone(tmp_path):
    write_repository(tmp_path, {"a": model_text()})
    ended = subprocess.run([str(BUILD / "neso"), "serve", f"--model-repository={tmp_path}",
                            f"--backend-directory={BUILD / 'backends'}", "--http-port=0",
                            "--grpc-port=0", "--metrics-port=0", *EXPLICIT, "--load-model=*",
                            "--load-model=a"],
                           capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "Wildcard model name '*' must be the ONLY startup model" in ended.stderr


@pytest.fixture(scope="module")
def explicit(tmp_path_factory):
    """Shared; each test has a model of its own."""
    with opens_server(tmp_path_factory.mktemp("explicit"), {}, *EXPLICIT) as running:
        yield running


@pytest.fixture
def name(request, explicit):
    """A model of the testing backend that nobody has loaded yet."""
    own = request.node.name.replace("[", "-").replace("]", "")
    write(explicit, f"{own}/config.pbtxt", model_text())
    write(explicit, f"{own}/1/model", "one")
    yield own
    unload(explicit, own)
    shutil.rmtree(explicit.repository / own, ignore_errors=True)


def of(server, name):
    return [line[1:] for line in index(server) if line[0] == name]


def make_gated(server, name, more=""):
    for path, content in gated(model_text() + more).items():
        if content is FIFO:
            os.mkfifo(server.repository / name / path)
        else:
            write(server, f"{name}/{path}", content)


def test_load_and_unload(explicit, name, way, stubs):
    assert infer(explicit, name).error == f"Request for unknown model: '{name}' is not found"
    assert control(explicit, way, "load", name, stubs) is None
    assert of(explicit, name) == [("1", "READY", None)]
    assert infer(explicit, name).executions == 1
    assert control(explicit, way, "load", name, stubs) is None  # nothing to do
    assert infer(explicit, name).executions == 2
    assert control(explicit, way, "unload", name, stubs) is None
    wait_for_index(explicit, name, [("1", "UNAVAILABLE", "unloaded")])
    assert infer(explicit, name).error == (
        f"Request for unknown model: '{name}' has no available versions")
    assert control(explicit, way, "unload", name, stubs) is None
    assert is_server_ready(explicit)


def test_unknown_models(explicit, way, stubs):
    assert control(explicit, way, "load", "nobody", stubs) == (
        "INTERNAL", POLL_ERROR.format("nobody"))
    assert control(explicit, way, "unload", "nobody", stubs) is None
    assert of(explicit, "nobody") == []


def test_failed_load(explicit, name, way, stubs):
    write(explicit, f"{name}/config.pbtxt", model_text(parameters={"fail_load": "no luck"}))
    text = (f"load failed for model '{name}': version 1 is at UNAVAILABLE state: Internal: "
            "no luck;\n")
    assert control(explicit, way, "load", name, stubs) == ("INVALID_ARGUMENT", text)
    assert of(explicit, name) == [("1", "UNAVAILABLE", "Internal: no luck")]


def test_failed_reload_leaves_the_model_serving(explicit, name, way, stubs):
    load(explicit, name)
    first = infer(explicit, name)
    for broken in ("nonsense", model_text(parameters={"fail_load": "no luck"}),
                   model_text(parameters={"fail_instance": "no luck"}),
                   model_text(count=4097)):
        write(explicit, f"{name}/config.pbtxt", broken)
        assert control(explicit, way, "load", name, stubs)[0] in ("INTERNAL", "INVALID_ARGUMENT")
        assert of(explicit, name) == [("1", "READY", None)]
        again = infer(explicit, name)
        assert again.serial == first.serial and again.executions == first.executions + 1
        first = again


def test_count_of_instances_is_bounded(explicit, name):
    write(explicit, f"{name}/config.pbtxt", model_text(count=2_000_000_000))
    reply = load(explicit, name, expected=None)
    assert reply.status_code == 400
    assert "may have at most 4096 instances in all" in reply.json()["error"]


def test_the_delay_of_a_load_is_bounded(explicit, name):
    """Four loads that never end would keep all others from beginning."""
    write(explicit, f"{name}/config.pbtxt", model_text(
        backend="identity", parameters={"creation_delay_sec": "61"}))
    reply = load(explicit, name, expected=None)
    assert reply.status_code == 400
    assert (f"parameter 'creation_delay_sec' of model '{name}' is 61, at most 60 is supported"
            in reply.json()["error"])


def test_reload_replaces_without_loss(explicit, name, way, stubs):
    """The old model serves until the new one is ready, and finishes what it has begun."""
    make_gated(explicit, name)
    load(explicit, name)
    with Gate(explicit, name) as old_gate, concurrent.futures.ThreadPoolExecutor() as pool:
        in_flight = pool.submit(infer, explicit, name)
        old_gate.wait()
        write(explicit, f"{name}/config.pbtxt",
              model_text(parameters={"load_gate_fifo": "load_gate"}))
        os.mkfifo(explicit.repository / name / "load_gate")
        loading = pool.submit(control, explicit, way, "load", name, stubs)
        explicit.wait_for_line(f"loading: {name}:1")
        # The new one loads; the old one is READY and takes requests.
        assert of(explicit, name) == [("1", "READY", None)]
        also_old = pool.submit(infer, explicit, name)
        wait_for_pending(explicit, name, 1)
        with open(explicit.repository / name / "load_gate", "wb", buffering=0) as load_gate:
            load_gate.write(b"g")
            assert loading.result(20) is None
        new = infer(explicit, name)  # has no gate
        assert new.executions == 1
        assert not in_flight.done() and not also_old.done()
        old_gate.open(2)
        assert in_flight.result(20).executions == 1
        assert also_old.result(20).executions == 2
        assert also_old.result().serial == in_flight.result().serial < new.serial


def test_versions_follow_their_directories(explicit, name):
    load(explicit, name)
    first = infer(explicit, name)
    write(explicit, f"{name}/3/model", "three")
    load(explicit, name)
    wait_for_index(explicit, name, [("1", "UNAVAILABLE", "unloaded"), ("3", "READY", None)])
    assert infer(explicit, name).version == "3"
    assert infer(explicit, name, version=1).error == (
        f"Request for unknown model: '{name}' version 1 is not at ready state")
    assert infer(explicit, name, version=2).error == (
        f"Request for unknown model: '{name}' version 2 is not found")
    write(explicit, f"{name}/config.pbtxt", model_text() + "version_policy { all { } }\n")
    load(explicit, name)
    assert infer(explicit, name, version=1).version == "1"
    third = infer(explicit, name)
    assert third.version == "3" and third.executions == 2  # the policy alone reloads nothing
    shutil.rmtree(explicit.repository / name / "3")
    load(explicit, name)
    assert infer(explicit, name).version == "1"
    assert first.version == "1"


def test_requests_in_flight_on_a_removed_version_complete(explicit, name):
    make_gated(explicit, name, "version_policy { all { } }\n")
    write(explicit, f"{name}/2/model", "two")
    load(explicit, name)
    with Gate(explicit, name) as gate, concurrent.futures.ThreadPoolExecutor() as pool:
        in_flight = pool.submit(infer, explicit, name, version=2)
        gate.wait()
        shutil.rmtree(explicit.repository / name / "2")
        load(explicit, name)
        assert of(explicit, name) == [("1", "READY", None), ("2", "UNLOADING", None)]
        assert infer(explicit, name, version=2).error == (
            f"Request for unknown model: '{name}' version 2 is not at ready state")
        gate.open()
        assert in_flight.result(20).version == "2"
        wait_for_index(explicit, name, [("1", "READY", None), ("2", "UNAVAILABLE", "unloaded")])


def test_unload_after_a_failed_load(tmp_path, way, stubs):
    """Nobody waits for the model any more: the server is ready."""
    with opens_server(tmp_path, {"m": model_text(parameters={"fail_load": "no luck"})}, *EXPLICIT) as server:
        assert control(server, way, "load", "m", stubs)[0] == "INVALID_ARGUMENT"
        assert of(server, "m") == [("1", "UNAVAILABLE", "Internal: no luck")]
        assert not is_server_ready(server)
        assert control(server, way, "unload", "m", stubs) is None
        assert of(server, "m") == [("1", "UNAVAILABLE", "unloaded")]
        assert is_server_ready(server)


def test_unload_lets_requests_in_flight_complete(explicit, name, way, stubs):
    make_gated(explicit, name)
    load(explicit, name)
    with Gate(explicit, name) as gate, concurrent.futures.ThreadPoolExecutor() as pool:
        in_flight = [pool.submit(infer, explicit, name) for _ in range(3)]
        gate.wait()
        wait_for_pending(explicit, name, 2)  # one executes, two wait for it
        assert control(explicit, way, "unload", name, stubs) is None
        assert of(explicit, name) == [("1", "UNLOADING", None)]
        assert infer(explicit, name).status == 404
        gate.open(3)
        assert [r.result(20).status for r in in_flight] == [200] * 3
        wait_for_index(explicit, name, [("1", "UNAVAILABLE", "unloaded")])


def test_a_changed_label_file_reloads(explicit, name):
    config = model_text(backend="identity", labels="labels.txt")
    write(explicit, f"{name}/config.pbtxt", config)
    write(explicit, f"{name}/labels.txt", "cat\ndog\n")
    load(explicit, name)
    assert infer(explicit, name, classes=1).classes == ["1.000000:0:cat"]
    write(explicit, f"{name}/labels.txt", "cow\nhen\n")
    assert infer(explicit, name, classes=1).classes == ["1.000000:0:cat"]
    load(explicit, name)
    assert infer(explicit, name, classes=1).classes == ["1.000000:0:cow"]


def test_a_directory_with_too_many_entries(explicit, name):
    """Four ways from each of fifteen folders to the next: all but the first are not looked at, and the log says so."""
    ways = explicit.repository / name / "ways"
    for i in range(16):
        (ways / str(i)).mkdir(parents=True)
        for k in range(4 if i < 15 else 0):
            (ways / str(i) / str(k)).symlink_to(f"../{i + 1}")
    load(explicit, name)
    assert explicit.text().count(f"model '{name}': its directory has 131072 files and folders or more; changes of "
                                 "those beyond the first 131072 are not noticed") == 1
    assert infer(explicit, name).status == 200


def test_files_of_a_loaded_model_may_change_or_go(explicit, name):
    load(explicit, name)
    shutil.rmtree(explicit.repository / name)
    assert infer(explicit, name).status == 200
    assert load(explicit, name, expected=None).json()["error"] == POLL_ERROR.format(name)
    assert infer(explicit, name).executions == 2


# ---- instances ----------------------------------------------------------------------------------


def serials(server, name, n):
    """Of the n instances that serve: each of n requests at a time holds one."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=n) as pool:
        found = set()
        for _ in range(50):
            found |= {a.serial for a in pool.map(lambda _: infer(server, name, delay_ms=20),
                                                 range(n))}
            if len(found) >= n:
                break
    return found


def test_only_instances_change(explicit, name, way, stubs):
    load(explicit, name)
    first = infer(explicit, name)
    write(explicit, f"{name}/config.pbtxt", model_text(count=3))
    assert control(explicit, way, "load", name, stubs) is None
    assert model_config(explicit, name)["instance_group"][0]["count"] == 3
    three = serials(explicit, name, 3)
    assert len(three) == 3 and first.serial in three
    write(explicit, f"{name}/config.pbtxt", model_text(count=1))
    assert control(explicit, way, "load", name, stubs) is None
    one = serials(explicit, name, 1)
    assert len(one) == 1 and one <= three
    # The model itself was never loaded again: it has counted on.
    assert infer(explicit, name).executions > first.executions + 3


def test_only_instances_change_in_the_configuration_that_is_sent(explicit, name, way, stubs):
    load(explicit, name)
    first = infer(explicit, name)
    config = model_config(explicit, name)
    config["instance_group"][0]["count"] = 2
    assert control(explicit, way, "load", name, stubs, config=json.dumps(config)) is None
    two = serials(explicit, name, 2)
    assert len(two) == 2 and first.serial in two
    assert control(explicit, way, "load", name, stubs) is None  # what was sent is kept
    assert model_config(explicit, name)["instance_group"][0]["count"] == 2
    write(explicit, f"{name}/config.pbtxt", model_text())
    assert control(explicit, way, "load", name, stubs) is None  # back to the file
    assert model_config(explicit, name)["instance_group"][0]["count"] == 1
    assert infer(explicit, name).executions > first.executions
    assert infer(explicit, name).serial in two


def test_the_model_serves_while_instances_are_made(explicit, name):
    """A new instance that cannot be made changes nothing."""
    write(explicit, f"{name}/config.pbtxt", model_text(count=2))
    load(explicit, name)
    two = serials(explicit, name, 2)
    broken = model_text(count=3).replace("KIND_CPU", "KIND_GPU gpus: [ 99 ]")
    write(explicit, f"{name}/config.pbtxt", broken)
    assert load(explicit, name, expected=None).status_code == 400
    assert serials(explicit, name, 2) == two


# ---- what a request brings along ----------------------------------------------------------------


def test_sent_configuration_stays_until_the_file_is_newer(explicit, name, way, stubs):
    load(explicit, name)
    sent = model_config(explicit, name)
    sent["parameters"] = {"fail_execute": {"string_value": "as sent"}}
    assert control(explicit, way, "load", name, stubs, config=json.dumps(sent)) is None
    assert infer(explicit, name).error == "as sent"
    assert model_config(explicit, name)["parameters"] == sent["parameters"]
    assert control(explicit, way, "load", name, stubs) is None
    assert model_config(explicit, name)["parameters"] == sent["parameters"]
    write(explicit, f"{name}/1/model", "changed")  # loaded anew, as it was sent
    assert control(explicit, way, "load", name, stubs) is None
    assert infer(explicit, name).error == "as sent"
    (explicit.repository / name / "config.pbtxt").touch()
    assert control(explicit, way, "load", name, stubs) is None
    assert infer(explicit, name).status == 200
    assert model_config(explicit, name)["parameters"] == {}


def test_sent_configuration_stays_until_an_unload(explicit, name, way, stubs):
    sent = model_text(parameters={"fail_execute": "as sent"}, form="json", name=name)
    for _ in range(2):
        assert control(explicit, way, "load", name, stubs, config=sent) is None
        assert infer(explicit, name).error == "as sent"
        assert control(explicit, way, "unload", name, stubs) is None
        assert control(explicit, way, "load", name, stubs) is None
        assert infer(explicit, name).status == 200


def test_sent_configuration_that_is_broken(explicit, name, way, stubs):
    load(explicit, name)
    for broken in ("{", "[]", '{"max_batch_size": "many"}', '{"nonsense": 1}', '{"name": "other"}'):
        assert control(explicit, way, "load", name, stubs, config=broken) == (
            "INTERNAL", POLL_ERROR.format(name))
    assert infer(explicit, name).executions == 1
    # Why is in the log, and that it was not the file.
    assert (f"Poll failed for model directory '{name}': Invalid config override: message "
            "'ModelConfig' has no field named 'nonsense'") in explicit.text()


# What protobuf's JSON reader takes beyond proto3 JSON, as clients of the reference server send it.
LENIENT = """{
    "backend": "testing", "maxBatchSize": "0", "name": null,
    "input": {"name": "INPUT0", "dataType": "type_fp32", "dims": "-1"},
    "output": [{"name": "OUTPUT0", "data_type": 11, "dims": [[-1]]},
               {"name": "EXECUTIONS", "data_type": "9", "dims": [1]},
               {"name": "SERIAL", "data_type": "TYPE_INT64", "dims": 1.0}],
    "instance_group": {"count": "+02", "kind": "2"},
    "modelTransactionPolicy": {"decoupled": "no"},
    "parameters": {"unused": null},
    "dynamic_batching": null
}"""


def test_sent_configuration_is_read_as_protobuf_reads_it(explicit, name, way, stubs):
    assert control(explicit, way, "load", name, stubs, config=LENIENT) is None
    assert infer(explicit, name).status == 200
    config = model_config(explicit, name)
    assert config["input"][0]["dims"] == [-1] and len(config["input"]) == 1
    assert [t["data_type"] for t in config["output"]] == ["TYPE_FP32", "TYPE_INT64", "TYPE_INT64"]
    assert [t["dims"] for t in config["output"]] == [[-1], [1], [1]]
    [group] = config["instance_group"]
    assert (group["count"], group["kind"]) == (2, "KIND_CPU")
    assert config["model_transaction_policy"] == {"decoupled": False}
    assert config["parameters"] == {"unused": {"string_value": ""}}


REFUSED = (
    ("{backend: \"testing\"}", "JSON at offset 1: Missing a name for object member."),
    ("{'backend': 'testing'}", "JSON at offset 1: Missing a name for object member."),
    ("{\"backend\": \"testing\",}", "JSON at offset 22: Missing a name for object member."),
    ("{\"backend\": \"a\", \"backend\": \"b\"}",
     'non-repeated field "backend" is specified multiple times'),
    ("{\"instance_group\": 7}", "instance_group: expected an object, got a number"),
    ("{\"input\": {\"data_type\": 99}}", "input.data_type: enum 'DataType' has no value '99'"),
)


def test_sent_configuration_that_is_no_json(explicit, name):
    load(explicit, name)
    for broken, reason in REFUSED:
        assert control(explicit, "http", "load", name, None, config=broken) == (
            "INTERNAL", POLL_ERROR.format(name))
        reason = f"Poll failed for model directory '{name}': Invalid config override: {reason}"
        explicit.wait_for_line(re.escape(json.dumps(reason)[1:-1]))
    assert infer(explicit, name).executions == 1


def test_sent_files_replace_the_directory(explicit, name, way, stubs):
    config = model_text(backend="identity", labels="labels.txt", form="json", name=name)
    load(explicit, name)
    files = {"file:5/model": b"five", "file:labels.txt": b"sent\nfiles\n"}
    assert control(explicit, way, "load", name, stubs, config=config, **files) is None
    wait_for_index(explicit, name, [("1", "UNAVAILABLE", "unloaded"), ("5", "READY", None)])
    assert infer(explicit, name, classes=1).classes == ["1.000000:0:sent"]
    # Not in the repository:
    assert sorted(os.listdir(explicit.repository / name)) == ["1", "config.pbtxt"]
    # Files are not kept, the configuration is: it names labels.
    write(explicit, f"{name}/labels.txt", "in the\nrepository\n")
    assert control(explicit, way, "load", name, stubs) is None
    wait_for_index(explicit, name, [("1", "READY", None), ("5", "UNAVAILABLE", "unloaded")])
    assert infer(explicit, name, classes=1).classes == ["1.000000:0:in the"]
    write(explicit, f"{name}/config.pbtxt", model_text())
    assert control(explicit, way, "load", name, stubs) is None
    assert model_config(explicit, name)["output"][0]["label_filename"] == ""


def test_sent_files_make_a_model_that_no_repository_has(explicit, way, stubs):
    own = f"sent-{way}"
    config = model_text(form="json", name=own)
    assert control(explicit, way, "load", own, stubs, config=config,
                   **{"file:1/model": b""}) is None
    assert infer(explicit, own).status == 200
    assert control(explicit, way, "unload", own, stubs) is None
    wait_for_index(explicit, own, [("1", "UNAVAILABLE", "unloaded")])


def test_sent_files_need_a_configuration(explicit, name, way, stubs):
    load(explicit, name)
    assert control(explicit, way, "load", name, stubs, **{"file:1/model": b""}) == (
        "INTERNAL", POLL_ERROR.format(name))
    explicit.wait_for_line("Load parameter 'config' must be specified for model file override")
    assert infer(explicit, name).executions == 1


def test_sent_files_go_with_the_model(explicit, name, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with opens_server(tmp_path / "models", {}, *EXPLICIT) as server:
        config = model_text(form="json", name="m")
        for i in range(3):
            load(server, "m", config=config, **{"file:1/model": b"x" * (i + 1)})
        root = tmp_path / f"neso-{os.geteuid()}"
        wait_for_files(root, [3])
        unload(server, "m")
        wait_for_files(root, [])
    assert not root.exists()


def sizes(root):
    found = []
    for folder, _, names in os.walk(root):
        for own in names:
            with contextlib.suppress(FileNotFoundError):
                found += [os.path.getsize(os.path.join(folder, own))] if own != "lock" else []
    return sorted(found)


def wait_for_files(root, expected):
    wait_until(lambda: sizes(root) == expected, lambda: f"{sizes(root)}, not {expected}")


@pytest.mark.parametrize("moment", ["while it loads", "while it serves"])
def test_killed_with_sent_files(tmp_path, monkeypatch, moment):
    """What a dead server left is removed by the next one, which starts as if nothing had been."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    root = tmp_path / f"neso-{os.geteuid()}"
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    parameters = {"load_gate_fifo": str(gate)} if moment == "while it loads" else {}
    config = model_text(form="json", name="m", parameters=parameters)
    models = tmp_path / "models"
    models.mkdir()
    server = Server(models, EXPLICIT)
    failure = []

    def send():
        try:
            load(server, "m", config=config, **{"file:1/model": b"sent"})
        except requests.RequestException as error:
            failure.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    if moment == "while it loads":
        server.wait_for_line("loading: m:1")
    else:
        sender.join(20)
        assert infer(server, "m").status == 200
    assert sizes(root) == [4]
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(20)
    sender.join(20)
    assert bool(failure) == (moment == "while it loads")
    assert sizes(root) == [4]
    other = Server(models, EXPLICIT)
    try:
        assert not root.exists()
        assert index(other) == []
        load(other, "m", config=model_text(form="json", name="m"), **{"file:1/model": b""})
        assert infer(other, "m").status == 200
    finally:
        assert other.stop() == 0
    assert not root.exists()


def test_retries(tmp_path):
    models = {"m": model_text(parameters={"fail_load": "no luck"})}
    with opens_server(tmp_path, models, *EXPLICIT, "--model-load-retry-count=2") as server:
        assert load(server, "m", expected=None).status_code == 400
        # What the log says is read on a thread of the test, a little later.
        wait_until(lambda: "failed to load 'm' version 1: Internal: no luck" in server.text())
    assert server.text().count("failed to load 'm' version 1: Internal: no luck") == 3


def test_index_of_ready_models(explicit, name, way, stubs):
    assert (name, "1", "READY", None) not in index(explicit, ready=True, way=way, stubs=stubs)
    load(explicit, name)
    assert (name, "1", "READY", None) in index(explicit, ready=True, way=way, stubs=stubs)
    assert index(explicit, way=way, stubs=stubs) == sorted(
        index(explicit), key=lambda line: (line[0], int(line[1] or -1)))


def test_several_repositories(tmp_path):
    for folder, models in (("one", {"a": model_text(), "twin": model_text()}),
                           ("two", {"b": model_text(), "twin": model_text()})):
        (tmp_path / folder).mkdir()
        write_repository(tmp_path / folder, models)
    with opens_server(tmp_path / "three", {}, *EXPLICIT, f"--model-repository={tmp_path / 'one'}",
                      f"--model-repository={tmp_path / 'two'}") as server:
        load(server, "a")
        load(server, "b")
        twin = "model appears in two or more repositories"
        assert index(server) == [("a", "1", "READY", None), ("b", "1", "READY", None),
                                 ("twin", None, "UNAVAILABLE", twin)]
        assert load(server, "twin", expected=None).json()["error"] == POLL_ERROR.format("twin")
        shutil.rmtree(tmp_path / "two" / "twin")
        load(server, "twin")
        assert ("twin", "1", "READY", None) in index(server)


def wait_for_states(server, wanted, seconds=20):
    deadline = time.monotonic() + seconds
    while (states := {line[0]: line[2] for line in index(server) if line[0] in wanted}) != wanted:
        assert time.monotonic() < deadline, f"{states} is not {wanted}"


def test_loads_run_beside_each_other_and_beside_requests(explicit):
    """Four at a time unless told otherwise; the fifth waits for its turn."""
    names = [f"slow{i}" for i in range(6)]
    for own in names:
        write(explicit, f"{own}/config.pbtxt",
              model_text(parameters={"load_gate_fifo": "load_gate"}))
        write(explicit, f"{own}/1/model", "")
        os.mkfifo(explicit.repository / own / "load_gate")
    write(explicit, "quick/config.pbtxt", model_text())
    write(explicit, "quick/1/model", "")
    load(explicit, "quick")
    n_before = len(explicit.log)
    with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
        loads = [pool.submit(load, explicit, own) for own in names]
        begun = [explicit.wait_for_line(r"loading: (slow\d):1").group(1) for _ in range(4)]
        assert infer(explicit, "quick").status == 200
        wait_for_states(explicit, dict.fromkeys(names, "LOADING"))  # the last two were asked later
        assert sum("loading: slow" in line for line in explicit.log[n_before:]) == 4
        for own in begun + [n for n in names if n not in begun]:
            fifo = os.open(explicit.repository / own / "load_gate", os.O_RDWR)
            os.write(fifo, b"g")
            loads[names.index(own)].result(20)
            os.close(fifo)
    for own in [*names, "quick"]:
        unload(explicit, own)
        shutil.rmtree(explicit.repository / own)
