# SPDX-License-Identifier: BSD-3-Clause
"""The mode poll: a server that follows its repository. Polls come each second; what one of them
will bring about is awaited in the index, and what it must not is shown by a change made later that
has come about: polls look at everything."""
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import shutil
import time

import pytest

from conftest import FIFO, require_build, write_repository
from gate import Gate, gated
from grpc_stubs import stubs  # noqa: F401
from models import (control, index, infer, is_server_ready, load, model_config, model_text,
                    opens_server, wait_for_index, wait_until, write)
from scrape import metric

ONE_GPU = True
TAKES_SECONDS = 60

BACKENDS = ("identity", "testing")
POLL_SECONDS = 1
PROBES = itertools.count()
POLL = ("--model-control-mode=poll", f"--repository-poll-secs={POLL_SECONDS}")


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(BACKENDS)


@pytest.fixture(scope="module")
def polled(tmp_path_factory):
    models = {name: model_text() for name in ("config", "label", "files", "broken", "quiet", "gone",
                                              "count", "version", "slow", "torn")}
    models["label"] = {"config.pbtxt": model_text("identity", labels="labels.txt"),
                       "labels.txt": "cat\n"}
    models["slow"] = gated(model_text())
    models["torn"] = {"config.pbtxt": model_text("identity", labels="labels.txt"),
                      "labels.txt": "old\n"}
    with opens_server(tmp_path_factory.mktemp("polled"), models, *POLL) as running:
        yield running


def begin_polls(server):
    """A new model, which is loaded by the second poll from now: one of them sees it first."""
    name = f"probe{next(PROBES)}"
    write(server, f"{name}/config.pbtxt", model_text())
    (server.repository / name / "1").mkdir()
    return name


def wait_for_polls(server):
    wait_for_index(server, begin_polls(server), [("1", "READY", None)])


def test_all_models_are_loaded_at_the_start(polled):
    assert {line[2] for line in index(polled)} == {"READY"}


def thread_names(server):
    names = set()
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        with contextlib.suppress(OSError):  # one that has ended meanwhile
            names.add((task / "comm").read_text().strip())
    return names


def test_no_polls_after_the_start(polled, tmp_path):
    """With 0 for the seconds between two: nobody is there who could."""
    wait_until(lambda: "neso-poll" in thread_names(polled))
    with opens_server(tmp_path / "once", {"m": model_text()}, POLL[0],
                      "--repository-poll-secs=0") as once:
        assert index(once) == [("m", "1", "READY", None)]
        assert "neso-poll" not in thread_names(once)


def test_orders_are_refused(polled, stubs):
    for way in ("http", "grpc"):
        for verb in ("load", "unload"):
            assert control(polled, way, verb, "quiet", stubs) == (
                "UNAVAILABLE",
                "explicit model load / unload is not allowed if polling is enabled")


def test_a_changed_configuration_reloads(polled):
    first = infer(polled, "config")
    write(polled, "config/config.pbtxt", model_text(parameters={"fail_execute": "changed"}))
    wait_until(lambda: infer(polled, "config").error == "changed")
    write(polled, "config/config.pbtxt", model_text())
    wait_until(lambda: infer(polled, "config").status == 200)
    assert infer(polled, "config").serial > first.serial


def test_a_changed_label_file_reloads(polled):
    assert infer(polled, "label", classes=1).classes == ["1.000000:0:cat"]
    write(polled, "label/labels.txt", "dog\n")
    wait_until(lambda: infer(polled, "label", classes=1).classes == ["1.000000:0:dog"])


def test_a_changed_file_of_a_version_reloads(polled):
    first = infer(polled, "files")
    write(polled, "files/1/model", "changed")
    wait_until(lambda: infer(polled, "files").serial > first.serial)


def test_only_instances_change(polled):
    first = infer(polled, "count")
    write(polled, "count/config.pbtxt", model_text(count=2))
    wait_until(lambda: model_config(polled, "count")["instance_group"][0]["count"] == 2)
    assert infer(polled, "count").executions > first.executions


def test_what_does_not_load_is_reported_and_the_old_model_serves(polled):
    first = infer(polled, "broken")
    n_before = polled.text().count("failed to poll model 'broken'")
    for broken in ("nonsense", model_text(parameters={"fail_load": "no luck"}),
                   model_text(parameters={"fail_instance": "no luck"})):
        write(polled, "broken/config.pbtxt", broken)
        wait_until(lambda: polled.text().count("failed to poll model 'broken'") > n_before)
        n_before += 1
        assert infer(polled, "broken").serial == first.serial
    wait_for_polls(polled)  # it is not tried again and again
    assert polled.text().count("failed to poll model 'broken'") == n_before
    write(polled, "broken/config.pbtxt", model_text(parameters={"responses": "1"}))
    wait_until(lambda: infer(polled, "broken").serial > first.serial)


def test_swap_files_are_ignored(polled):
    first = infer(polled, "quiet")
    for name in (".config.pbtxt.swp", "config.pbtxt~", "4913", "#config.pbtxt#"):
        (polled.repository / "quiet" / name).write_text("half of it")
    (polled.repository / "quiet" / "1" / "__pycache__").mkdir()
    wait_for_polls(polled)
    assert infer(polled, "quiet").executions == first.executions + 1


def test_new_models_load_while_others_serve(polled):
    write(polled, "slow-load/load_gate", "")
    os.remove(polled.repository / "slow-load" / "load_gate")
    os.mkfifo(polled.repository / "slow-load" / "load_gate")
    (polled.repository / "slow-load" / "1").mkdir()
    write(polled, "slow-load/config.pbtxt", model_text(parameters={"load_gate_fifo": "load_gate"}))
    wait_for_index(polled, "slow-load", [("1", "LOADING", None)])
    assert infer(polled, "quiet").status == 200
    with open(polled.repository / "slow-load" / "load_gate", "wb", buffering=0) as gate:
        gate.write(b"g")
        wait_for_index(polled, "slow-load", [("1", "READY", None)])
    assert infer(polled, "slow-load").status == 200


def test_a_load_that_hangs(tmp_path):
    """Other models come, change and go meanwhile, and nobody waits for it."""
    hanging = {"config.pbtxt": model_text(parameters={"load_gate_fifo": "load_gate"}),
               "load_gate": FIFO}
    models = {name: model_text() for name in ("changes", "goes", "stays")}
    with opens_server(tmp_path, models, *POLL) as server:
        write_repository(tmp_path / ".new", {"hangs": hanging})
        os.rename(tmp_path / ".new" / "hangs", tmp_path / "hangs")
        wait_for_index(server, "hangs", [("1", "LOADING", None)])
        first = infer(server, "changes")
        write(server, "changes/1/model", "second")
        os.rename(tmp_path / "goes", tmp_path / ".goes")
        write(server, "comes/config.pbtxt", model_text())
        (tmp_path / "comes" / "1").mkdir()
        wait_for_index(server, "comes", [("1", "READY", None)])
        wait_for_index(server, "goes", [("1", "UNAVAILABLE", "unloaded")])
        wait_until(lambda: infer(server, "changes").serial > first.serial)
        # Its own change is seen when the load is over; nothing asks twice meanwhile.
        write(server, "hangs/config.pbtxt", model_text())
        for _ in range(2):
            wait_for_polls(server)
        assert index(server)[-1] == ("stays", "1", "READY", None)
        assert ("hangs", "1", "LOADING", None) in index(server)
        assert not is_server_ready(server)
        assert metric(server, "nv_inference_request_success", "changes") >= 1
        assert server.text().count("loading: hangs:1") == 1
        with open(tmp_path / "hangs" / "load_gate", "wb", buffering=0) as gate:
            gate.write(b"g")
        wait_until(lambda: server.text().count("successfully loaded 'hangs'") == 2)
        assert infer(server, "hangs").status == 200


def test_a_model_that_does_not_load_is_removed(tmp_path):
    """A server is not ready without it, until its directory is gone."""
    models = {"bad": model_text("testing", parameters={"fail_load": "no luck"}), "good": model_text()}
    with opens_server(tmp_path, models, *POLL, "--exit-on-error=false") as server:
        assert ("bad", "1", "UNAVAILABLE", "Internal: no luck") in index(server)
        assert not is_server_ready(server)
        os.rename(tmp_path / "bad", tmp_path / ".bad")
        wait_for_index(server, "bad", [("1", "UNAVAILABLE", "unloaded")])
        assert is_server_ready(server)


def test_a_removed_model_finishes_what_it_has_begun(polled):
    with Gate(polled, "slow") as gate, concurrent.futures.ThreadPoolExecutor() as pool:
        in_flight = pool.submit(infer, polled, "slow")
        gate.wait()
        os.rename(polled.repository / "slow", polled.repository / ".slow")
        wait_for_index(polled, "slow", [("1", "UNLOADING", None)])
        assert infer(polled, "slow").error == (
            "Request for unknown model: 'slow' has no available versions")
        gate.open()
        assert in_flight.result(20).status == 200
        wait_for_index(polled, "slow", [("1", "UNAVAILABLE", "unloaded")])
    os.rename(polled.repository / ".slow", polled.repository / "slow")
    wait_for_index(polled, "slow", [("1", "READY", None)])


def test_versions_follow_their_directories(polled):
    write(polled, "version/2/model", "two")
    wait_for_index(polled, "version", [("1", "UNAVAILABLE", "unloaded"), ("2", "READY", None)])
    assert infer(polled, "version").version == "2"
    shutil.rmtree(polled.repository / "version" / "2")
    wait_for_index(polled, "version", [("1", "READY", None), ("2", "UNAVAILABLE", "unloaded")])
    assert infer(polled, "version").version == "1"


def test_a_copy_in_progress_is_not_taken_for_the_model(polled):
    """In place and bit by bit, while polls look at it: each answer has the old label or the new
    one. A part of it is taken only if it stood there for all the time between two polls, which
    happens when this test is held up."""
    label = "new"
    written_at = time.monotonic()
    seen = set()
    stood_still = set()

    def look():
        seen.add(infer(polled, "torn", classes=1).classes[0].split(":", 2)[2])

    with open(polled.repository / "torn" / "labels.txt", "r+", encoding="ascii") as labels:
        labels.write(label)
        labels.flush()
        probe = begin_polls(polled)
        while (probe, "1", "READY", None) not in index(polled):
            look()
            labels.write("-")
            labels.flush()
            now = time.monotonic()
            if now - written_at >= POLL_SECONDS:
                stood_still.add(label)
            written_at = now
            label += "-"
        look()
        assert "old" in seen or stood_still
        assert seen <= {"old", label} | stood_still
    wait_until(lambda: look() or label in seen)
    assert seen <= {"old", label} | stood_still


def test_what_cannot_be_loaded_at_the_start_is_tried_when_it_changes(tmp_path):
    models = {"m": model_text(parameters={"fail_load": "no luck"})}
    with opens_server(tmp_path, models, *POLL, "--exit-on-error=false") as server:
        assert index(server) == [("m", "1", "UNAVAILABLE", "Internal: no luck")]
        write(server, "m/config.pbtxt", model_text())
        wait_for_index(server, "m", [("1", "READY", None)])


def test_one_of_two_repositories_goes_away(tmp_path):
    """The other's models are polled all the same; what serves from the one that went, stays."""
    write_repository(tmp_path / "other", {"there": model_text()})
    options = (*POLL, f"--model-repository={tmp_path / 'other'}")
    with opens_server(tmp_path / "models", {"here": model_text()}, *options) as server:
        os.rename(tmp_path / "other", tmp_path / "away")
        for _ in range(2):
            wait_for_polls(server)
        assert infer(server, "there").status == 200
        assert ("there", "1", "READY", None) in index(server)
        reported = f"failed to read model repository '{tmp_path / 'other'}'"
        assert server.text().count(reported) == 1
        os.rename(tmp_path / "away", tmp_path / "other")
        wait_until(lambda: "can be read again" in server.text())
        assert infer(server, "there").executions == 2
        write_repository(tmp_path / "other", {"later": model_text()})
        wait_for_index(server, "later", [("1", "READY", None)])


def test_an_unreadable_repository_at_the_start(tmp_path):
    options = (*POLL, f"--model-repository={tmp_path / 'none'}", "--exit-on-error=false")
    with opens_server(tmp_path / "models", {"m": model_text()}, *options) as server:
        assert index(server) == [("m", "1", "READY", None)]
        assert server.text().count("failed to read model repository") == 1
        write_repository(tmp_path / "none", {"late": model_text()})
        wait_for_index(server, "late", [("1", "READY", None)])
