# SPDX-License-Identifier: BSD-3-Clause
"""A directory with a configuration and no version: the model is known, and there is nothing of it to
serve. Over HTTP, over gRPC and in a program that has the server in it."""
import pytest

from conftest import require_build
from grpc_stubs import stubs  # noqa: F401
from models import model_text, wait_until, write
from places import WAYS, open_place

PICKY = model_text() + "version_policy { specific { versions: 9 } }\n"


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(("testing",))


@pytest.fixture(params=WAYS)
def opens(request, tmp_path, stubs):
    """Opens a place with a model that is fine and one of each kind without a version."""
    places = []

    def open_it(mode, startup=()):
        folder = tmp_path / "models"
        (folder / "empty").mkdir(parents=True)
        (folder / "empty" / "config.pbtxt").write_text(model_text())
        places.append(open_place(request.param, folder, stubs, mode,
                                 {"fine": model_text(), "picky": PICKY}, startup=startup))
        return places[0]
    yield open_it
    places[0].close()


def assert_has_no_version(place, name):
    unknown = "Request for unknown model: "
    assert place.infer(name).refusal == (
        "NOT_FOUND", f"{unknown}'{name}' has no available versions")
    assert place.infer(name, 1).refusal == (
        "NOT_FOUND", f"{unknown}'{name}' version 1 is not found")
    assert place.of(name) == []


def text_of(name):
    return ("at least one version must be available under the version policy of model "
            f"'{name}'")


@pytest.mark.parametrize("mode, startup", [("none", ()), ("explicit", ("fine", "empty", "picky")),
                                           ("poll", ())])
def test_at_the_start(opens, mode, startup):
    place = opens(mode, startup)
    for name in ("empty", "picky"):
        assert_has_no_version(place, name)
        reported = f"failed to load '{name}': {text_of(name)}"
        wait_until(lambda: reported in place.server.text())  # the log is read on a thread of its own
    assert place.index() == [("fine", "1", "READY", None)]
    assert not place.is_ready()


@pytest.mark.parametrize("name", ["empty", "picky"])
def test_by_request(opens, name):
    """The load names the reason; with a version it serves, and without it again it goes on."""
    place = opens("explicit")
    refusal = ("INVALID_ARGUMENT", f"load failed for model '{name}': {text_of(name)}\n")
    assert place.of(name) == [(None, None, None)] and place.is_ready()
    assert place.load(name) == refusal
    assert_has_no_version(place, name)
    assert not place.is_ready()
    assert place.unload(name) is None
    assert place.of(name) == [(None, None, None)] and place.is_ready()
    assert place.load(name) == refusal
    write(place, f"{name}/9/model", "nine")
    assert place.load(name) is None
    assert place.of(name) == [("9", "READY", None)] and place.is_ready()
    (place.repository / name / "9" / "model").unlink()
    (place.repository / name / "9").rmdir()
    assert place.load(name) == refusal
    assert place.infer(name).version == "9"


def test_comes_with_a_poll(opens):
    place = opens("poll")
    write(place, "empty/1/model", "one")
    place.until(lambda: place.of("empty") == [("1", "READY", None)])
    assert place.infer("empty").version == "1"
