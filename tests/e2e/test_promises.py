# SPDX-License-Identifier: BSD-3-Clause
"""What users are promised about models that come, change and go (docs/model_management.md): a
sentence each, shown over HTTP, over gRPC and in a program that has the server in it.

MODES says what the three modes do. CHANGES says what may be done to a repository under a running
server; each is shown in the modes explicit, where a load or an unload tells the server, and poll,
where nothing does. It is a generator: up to its yield it makes the change, and behind it, when the
server was told or is on its way to see it, says what must come of it; the yield gives what the load
was refused with. All changes of a server that polls are made before the first is looked at, so
that they share their polls.
"""
import os
import shutil

import pytest

from conftest import FIFO, require_build
from gate import Gate, gated
from grpc_stubs import stubs  # noqa: F401
from models import model_text, write
from places import WAYS, open_place

ONE_GPU = True
TAKES_SECONDS = 17

NOT_ALLOWED = ("UNAVAILABLE",
               "explicit model load / unload is not allowed if polling is enabled")
BAD = model_text(parameters={"fail_load": "no luck"})


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(("identity", "testing"))


# ---- modes --------------------------------------------------------------------------------------


def loads_all_at_the_start(place):
    assert place.index() == [("a", "1", "READY", None), ("b", "1", "READY", None),
                             ("bad", "1", "UNAVAILABLE", "Internal: no luck")]
    assert place.infer("a").refusal is None
    assert not place.is_ready()


def ignores_changes(place):
    write(place, "a/config.pbtxt", model_text(count=3))
    write(place, "a/2/model", "two")
    write(place, "new/config.pbtxt", model_text())
    shutil.rmtree(place.repository / "b")
    assert [line[:3] for line in place.index()] == [
        ("a", "1", "READY"), ("b", "1", "READY"), ("bad", "1", "UNAVAILABLE")]
    assert place.infer("a").version == "1" and place.infer("b").refusal is None


def refuses_orders(place):
    assert place.load("a") == place.unload("a") == NOT_ALLOWED
    assert place.infer("a").refusal is None


def loads_what_is_named(place):
    assert place.index() == [("a", "1", "READY", None), ("b", None, None, None),
                             ("bad", None, None, None)]
    assert place.index(ready=True) == [("a", "1", "READY", None)]
    assert place.is_ready()


def answers_success(place):
    assert place.load("b") is None
    assert place.of("b") == [("1", "READY", None)]
    assert place.unload("b") is None
    place.until(lambda: place.of("b") == [("1", "UNAVAILABLE", "unloaded")])
    assert place.infer("b").refusal == (
        "NOT_FOUND", "Request for unknown model: 'b' has no available versions")
    assert place.is_ready()


def answers_failure(place):
    assert place.load("bad") == (
        "INVALID_ARGUMENT", "load failed for model 'bad': version 1 is at UNAVAILABLE state: "
                            "Internal: no luck;\n")
    assert place.of("bad") == [("1", "UNAVAILABLE", "Internal: no luck")]
    assert place.load("nobody") == (
        "INTERNAL", "failed to load 'nobody', failed to poll from model repository")


def follows_the_repository(place):
    write(place, "new/config.pbtxt", model_text())
    (place.repository / "new" / "1").mkdir()
    shutil.rmtree(place.repository / "b")
    write(place, "bad/config.pbtxt", model_text())
    place.until(lambda: place.index() == [
        ("a", "1", "READY", None), ("b", "1", "UNAVAILABLE", "unloaded"),
        ("bad", "1", "READY", None), ("new", "1", "READY", None)])
    assert place.infer("new").refusal is None and place.infer("bad").refusal is None


MODES = {
    "none: all models are loaded at start, failures are UNAVAILABLE":
        ("none", loads_all_at_the_start),
    "none: later changes of the repository are ignored": ("none", ignores_changes),
    "none: load and unload answer an error": ("none", refuses_orders),
    "explicit: only models that are named are loaded at start": ("explicit", loads_what_is_named),
    "explicit: loads and unloads come through the protocol and answer success":
        ("explicit", answers_success),
    "explicit: or failure": ("explicit", answers_failure),
    "poll: as none at start": ("poll", loads_all_at_the_start),
    "poll: load and unload answer an error": ("poll", refuses_orders),
    "poll: models are loaded, reloaded and unloaded as necessary": ("poll", follows_the_repository),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sentence", MODES)
def test_modes(sentence, way, tmp_path, stubs):
    mode, shows = MODES[sentence]
    models = {"a": model_text(), "b": model_text(), "bad": BAD}
    place = open_place(way, tmp_path / "models", stubs, mode, models,
                       ["a"] if mode == "explicit" else [])
    try:
        shows(place)
    finally:
        place.close()


# ---- changes ------------------------------------------------------------------------------------

LOAD_GATE = {"load_gate_fifo": "load_gate"}
ALL_VERSIONS = "version_policy { all { } }\n"


def failed(place, name):
    return f"failed to load '{name}' version 1" in place.server.text()


def broken_configuration(place, name):
    first = place.infer(name)
    write(place, f"{name}/config.pbtxt", BAD)
    reported = yield
    refusal = reported()
    if place.mode == "explicit":
        assert refusal == ("INVALID_ARGUMENT", f"load failed for model '{name}': version 1 is at "
                                               "UNAVAILABLE state: Internal: no luck;\n")
    place.until(lambda: failed(place, name))
    assert place.of(name) == [("1", "READY", None)]
    again = place.infer(name)
    assert (again.serial, again.executions) == (first.serial, first.executions + 1)


def broken_warmup(place, name):
    first = place.infer(name)
    write(place, f"{name}/config.pbtxt", model_text(parameters={"fail_execute": "cold"}) +
          'model_warmup { name: "w" batch_size: 1 count: 1 inputs { key: "INPUT0" value { '
          'data_type: TYPE_FP32 dims: [1] zero_data: true } } }\n')
    reported = yield
    refusal = reported()
    if place.mode == "explicit":
        assert refusal[0] == "INVALID_ARGUMENT"
        assert "failed to run warmup sample 'w': cold; " in refusal[1]
    place.until(lambda: failed(place, name))
    assert place.of(name) == [("1", "READY", None)]
    again = place.infer(name)
    assert (again.serial, again.executions) == (first.serial, first.executions + 1)


def replaced(place, name):
    """Two requests: one is answered while the new model loads, one when it has taken over."""
    with Gate(place, name) as gate:
        begun = [place.begin(place.infer, name)]
        gate.wait()
        os.mkfifo(place.repository / name / "load_gate")
        write(place, f"{name}/config.pbtxt", model_text(parameters=LOAD_GATE))
        reported = yield
        place.until(lambda: place.server.text().count(f"loading: {name}:1") == 2)
        assert place.of(name) == [("1", "READY", None)]
        begun.append(place.begin(place.infer, name))
        gate.open()
        gate.wait()
        assert begun[0].result(20).executions == 1
        open_load_gate(place, name)
        assert reported() is None
        place.until(lambda: place.server.text().count(f"successfully loaded '{name}'") == 2)
        new = place.infer(name)
        assert new.executions == 1
        assert not begun[1].done()
        gate.open()
        old = begun[1].result(20)
        assert old.executions == 2 and old.serial == begun[0].result().serial < new.serial


def open_load_gate(place, name):
    with open(place.repository / name / "load_gate", "wb", buffering=0) as gate:
        gate.write(b"g")


def added_version(place, name):
    assert place.infer(name).version == "1"
    write(place, f"{name}/3/model", "three")
    reported = yield
    assert reported() is None
    place.until(lambda: place.of(name) == [("1", "UNAVAILABLE", "unloaded"), ("3", "READY", None)])
    assert place.infer(name).version == "3"


def removed_version(place, name):
    with Gate(place, name) as gate:
        begun = place.begin(place.infer, name, 2)
        gate.wait()
        shutil.rmtree(place.repository / name / "2")
        reported = yield
        assert reported() is None
        place.until(lambda: place.of(name) == [("1", "READY", None), ("2", "UNLOADING", None)])
        assert place.infer(name, 2).refusal == (
            "UNAVAILABLE",
            f"Request for unknown model: '{name}' version 2 is not at ready state")
        gate.open()
        assert begun.result(20).version == "2"
        place.until(lambda: place.of(name) == [("1", "READY", None),
                                               ("2", "UNAVAILABLE", "unloaded")])


def changed_policy(place, name):
    first = place.infer(name)
    assert first.version == "1"
    write(place, f"{name}/config.pbtxt", model_text() + ALL_VERSIONS)
    reported = yield
    assert reported() is None
    place.until(lambda: place.infer(name).version == "2")
    one = place.infer(name, 1)  # was not loaded again
    assert (one.serial, one.version) == (first.serial, "1") and one.executions > 1


def removed_model(place, name):
    with Gate(place, name) as gate:
        begun = place.begin(place.infer, name)
        gate.wait()
        if place.mode == "poll":
            os.rename(place.repository / name, place.repository / f".{name}")
        reported = yield
        assert reported() is None
        place.until(lambda: place.of(name) == [("1", "UNLOADING", None)])
        assert place.infer(name).refusal == (
            "NOT_FOUND", f"Request for unknown model: '{name}' has no available versions")
        gate.open()
        assert begun.result(20).refusal is None
        place.until(lambda: place.of(name) == [("1", "UNAVAILABLE", "unloaded")])


def changed_configuration(place, name):
    assert place.infer(name).refusal is None
    write(place, f"{name}/config.pbtxt", model_text(parameters={"fail_execute": "changed"}))
    reported = yield
    assert reported() is None
    place.until(lambda: place.infer(name).refusal == ("INTERNAL", "changed"))


def changed_labels(place, name):
    assert place.infer(name).label == "cat"
    write(place, f"{name}/labels.txt", "cow\nhen\n")
    reported = yield
    assert reported() is None
    place.until(lambda: place.infer(name).label == "cow")


def changed_files(place, name):
    first = place.infer(name)
    for i in range(10):
        (place.repository / name / "1" / "model").write_text("x" * i)
        (place.repository / name / "1" / f"part{i}").write_text("new")
        assert place.infer(name).serial == first.serial
    reported = yield
    assert reported() is None
    place.until(lambda: place.infer(name).serial > first.serial)


def changed_instances(place, name):
    first = place.infer(name)
    write(place, f"{name}/config.pbtxt", model_text(count=3))
    reported = yield
    assert reported() is None
    place.until(lambda: place.config(name)["instance_group"][0]["count"] == 3)
    assert place.infer(name).executions == first.executions + 1  # the model goes on


def new_model(place, name):
    write(place, ".new/config.pbtxt", model_text(parameters=LOAD_GATE))
    os.mkfifo(place.repository / ".new" / "load_gate")
    (place.repository / ".new" / "1").mkdir()
    os.rename(place.repository / ".new", place.repository / "new")
    reported = yield "new"
    place.until(lambda: place.of("new") == [("1", "LOADING", None)])
    assert place.infer(name).refusal is None
    assert place.of("new") == [("1", "LOADING", None)]
    open_load_gate(place, "new")
    assert reported() is None
    place.until(lambda: place.of("new") == [("1", "READY", None)])
    assert place.infer("new").refusal is None


TWO = {"2/model": "two"}
LABELLED = {"config.pbtxt": model_text("identity", labels="labels.txt"), "labels.txt": "cat\ndog\n"}
SPECIFIC = {"config.pbtxt": model_text() + "version_policy { specific { versions: 1 } }\n", **TWO}

# What is shown, with which model, by which order; "alone": with a server of its own, since a load
# that waits keeps a poll waiting.
CHANGES = {
    "a failed reload leaves the loaded model unchanged and serving":
        (broken_configuration, model_text(), "load"),
    "also one that fails in its warm-up": (broken_warmup, model_text(), "load"),
    "a successful one replaces it without loss of availability":
        (replaced, gated(model_text()), "load", "alone"),
    "versions may be added by their directories": (added_version, model_text(), "load"),
    "and removed: requests in flight on a removed version complete, new ones fail":
        (removed_version, {**gated(model_text() + ALL_VERSIONS), **TWO}, "load"),
    "the default version follows the version policy": (changed_policy, SPECIFIC, "load"),
    "a removed model lets its requests in flight complete; new ones fail":
        (removed_model, gated(model_text()), "unload"),
    "a changed config.pbtxt makes the model reload": (changed_configuration, model_text(), "load"),
    "a changed label file makes the model reload": (changed_labels, LABELLED, "load"),
    "a loaded model's files may be changed at any time": (changed_files, model_text(), "load"),
    "if only the instance group changes, the model is updated rather than reloaded":
        (changed_instances, model_text(), "load"),
    "new models load in the background while existing ones serve":
        (new_model, model_text(), "load", "alone"),
}
SHARED = [sentence for sentence, change in CHANGES.items() if change[-1] != "alone"]


def begin_change(place, sentence, name):
    shows, order = CHANGES[sentence][0], CHANGES[sentence][2]
    change = shows(place, name)
    return change, next(change) or name, order


def end_change(place, change, name, order):
    reported = place.begin(place.order, order, name).result if place.mode == "explicit" \
        else lambda: None
    with pytest.raises(StopIteration):
        change.send(reported)


@pytest.fixture(scope="module", params=[(mode, way) for mode in ("explicit", "poll")
                                        for way in WAYS], ids="-".join)
def changing(request, tmp_path_factory, stubs):
    """A server with a model for each sentence; with all changes begun, if it polls."""
    mode, way = request.param
    names = {sentence: f"m{i}" for i, sentence in enumerate(SHARED)}
    place = open_place(way, tmp_path_factory.mktemp("changing") / "models", stubs, mode,
                       {name: CHANGES[sentence][1] for sentence, name in names.items()},
                       names.values() if mode == "explicit" else ())
    begun = {}
    if mode == "poll":
        begun = {sentence: begin_change(place, sentence, name) for sentence, name in names.items()}
    yield place, names, begun
    place.close()


@pytest.mark.parametrize("sentence", SHARED)
def test_changes(sentence, changing):
    place, names, begun = changing
    end_change(place, *(begun.get(sentence) or begin_change(place, sentence, names[sentence])))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["explicit", "poll"])
@pytest.mark.parametrize("sentence", [sentence for sentence in CHANGES if sentence not in SHARED])
def test_changes_alone(sentence, mode, way, tmp_path, stubs):
    place = open_place(way, tmp_path / "models", stubs, mode, {"m": CHANGES[sentence][1]},
                       ["m"] if mode == "explicit" else ())
    try:
        end_change(place, *begin_change(place, sentence, "m"))
    finally:
        place.close()


# ---- and through the load API -------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_instances_of_a_sent_configuration(way, tmp_path, stubs):
    """The model is updated rather than reloaded, also when the configuration comes with the load."""
    place = open_place(way, tmp_path / "models", stubs, "explicit", {"m": model_text()}, ["m"])
    try:
        for n, count in enumerate((3, 1, 2)):
            assert place.load("m", config=model_text(count=count, form="json", name="m")) is None
            assert place.config("m")["instance_group"][0]["count"] == count
            assert place.infer("m").executions == n + 1
        assert place.load("m") is None  # and is kept until the file is a newer one
        assert place.config("m")["instance_group"][0]["count"] == 2
        write(place, "m/config.pbtxt", model_text())
        assert place.load("m") is None
        assert place.config("m")["instance_group"][0]["count"] == 1
        assert place.infer("m").executions == 4
    finally:
        place.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [None, 2])
def test_threads_that_load(threads, way, tmp_path, stubs):
    """On a configurable number of threads, 4 by default."""
    n = threads or 4
    models = {f"m{i}": {"config.pbtxt": model_text(parameters=LOAD_GATE), "load_gate": FIFO}
              for i in range(n + 2)}
    place = open_place(way, tmp_path / "models", stubs, "explicit", models, (), threads)
    try:
        loads = {name: place.begin(place.load, name) for name in models}
        begun = [place.server.wait_for_line(r"loading: (m\d):1").group(1) for _ in range(n)]
        place.until(lambda: {state for _, _, state, _ in place.index()} == {"LOADING"})
        assert sum("loading: m" in line for line in place.server.log) == n
        for name in begun + [m for m in models if m not in begun]:
            fifo = os.open(place.repository / name / "load_gate", os.O_RDWR)
            os.write(fifo, b"g")
            assert loads[name].result(20) is None
            os.close(fifo)
    finally:
        place.close()
