# SPDX-License-Identifier: BSD-3-Clause
"""Executions that wait for resources: --rate-limit=execution_count.

Who gets a turn in which order is tested by scripts in the unit tests of the limiter; here is what
holds from the command line and the configurations to the backend.
"""
import concurrent.futures
import contextlib

import pytest

from gate import Gate, first_at, gated
from models import EXPLICIT, infer, load, model_text, opens_server, unload, wait_for_index
from scrape import wait_for_pending
from test_startup_and_stop import serve

BACKENDS = ("testing",)
LIMITED = "--rate-limit=execution_count"
BOTH_KINDS = ('Resource "R" is present as both global and device-specific resource in the model '
              'configuration.')


def too_few(available, needed):
    return (f'Resource count for "R" is limited to {available} which will prevent scheduling of '
            f'one or more model instances, the minimum required count is {needed}')


def limited(count, name="R", priority=0, more=""):
    """A model of one instance that needs so much in each execution."""
    return model_text().replace(
        "kind: KIND_CPU",
        f'kind: KIND_CPU rate_limiter {{ resources {{ name: "{name}" count: {count} {more} }} '
        f'priority: {priority} }}')


@contextlib.contextmanager
def asking():
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        yield lambda server, model: pool.submit(infer, server, model)


def both_run(server, gates):
    """Whether a and b execute at the same time; a is asked first."""
    with asking() as ask:
        answers = [ask(server, "a")]
        gates["a"].wait()
        answers.append(ask(server, "b"))
        if together := gates["b"].is_reached(1):
            gates["b"].wait()
            gates["b"].open()
        else:
            wait_for_pending(server, "b", 1)
        gates["a"].open()
        if not together:
            gates["b"].wait()
            gates["b"].open()
        assert [answer.result().status for answer in answers] == [200, 200]
    return together


@contextlib.contextmanager
def opens_gates(server, names="ab"):
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(Gate(server, name)) for name in names}


@pytest.mark.parametrize("options, models, together", [
    ((LIMITED,), {"a": limited(1), "b": limited(1)}, False),
    ((LIMITED,), {"a": limited(1), "b": limited(2)}, False),
    ((LIMITED,), {"a": limited(1), "b": limited(1, "S")}, True),
    ((LIMITED,), {"a": limited(1), "b": model_text()}, True),
    ((LIMITED, "--rate-limit-resource=R:2"), {"a": limited(1), "b": limited(1)}, True),
    ((LIMITED, "--rate-limit-resource=R:1:3", "--rate-limit-resource=R:2:0"),
     {"a": limited(1), "b": limited(1)}, True),
    ((LIMITED, "--rate-limit-resource=R:3"), {"a": limited(2), "b": limited(2)}, False),
    ((LIMITED, "--rate-limit-resource", "R:2:1"),
     {"a": limited(1, more="global: true"), "b": limited(1, more="global: true")}, True),
    ((), {"a": limited(1), "b": limited(1)}, True),
    (("--rate-limit=off", "--rate-limit-resource=R:0"),
     {"a": limited(1), "b": limited(1, more="global: true")}, True),
], ids=("one unit", "the largest need", "two resources", "no needs", "two units", "on the device",
        "too few for both", "global", "off", "off with resources"))
def test_who_executes_at_the_same_time(tmp_path, options, models, together):
    files = {name: gated(text) for name, text in models.items()}
    with opens_server(tmp_path / "models", files, *options) as server:
        with opens_gates(server) as gates:
            assert both_run(server, gates) is together


def test_priorities_share_two_to_one(tmp_path):
    """Both always have requests that wait."""
    models = {"a": gated(limited(1, priority=1)), "b": gated(limited(1, priority=2))}
    with opens_server(tmp_path / "models", models, LIMITED) as server:
        with opens_gates(server) as gates, asking() as ask:
            answers = [ask(server, "a")]
            gates["a"].wait()
            answers += [ask(server, "a") for _ in range(19)] + [ask(server, "b") for _ in range(10)]
            wait_for_pending(server, "a", 19)
            wait_for_pending(server, "b", 10)
            gates["a"].open()
            turns = "a"
            for _ in range(29):
                turn = first_at(gates)
                assert not any(gate.is_reached() for gate in gates.values())
                turns += turn
                gates[turn].open()
            assert [answer.result().status for answer in answers] == [200] * 30
    for i in range(0, 27, 3):
        assert sorted(turns[i:i + 3]) == ["a", "a", "b"], turns


def unload_wholly(server, name):
    """The answer comes when no request gets to the model; its resources go with its end."""
    unload(server, name)
    wait_for_index(server, name, [("1", "UNAVAILABLE", "unloaded")])


# The load only changes instances: it answers when those that go have given their resources back.
@pytest.mark.parametrize("goes", [
    lambda server: unload_wholly(server, "large"),
    lambda server: load(server, "large", config=model_text(form="json")),
], ids=("unload", "update"))
def test_resources_follow_the_models(tmp_path, goes):
    """As much as the largest need: two at a time while `large` is there, and one afterwards."""
    models = {"a": gated(limited(1)), "b": gated(limited(1)), "large": limited(2)}
    with opens_server(tmp_path / "models", models, *EXPLICIT, LIMITED, "--load-model=a",
                      "--load-model=b") as server:
        with opens_gates(server) as gates:
            assert not both_run(server, gates)
            load(server, "large")
            assert both_run(server, gates)
            goes(server)
            assert not both_run(server, gates)


def test_a_waiting_model_is_unloaded(tmp_path):
    """What waits still runs, in its turn; then the model ends."""
    models = {"a": gated(limited(1)), "b": limited(1)}
    with opens_server(tmp_path / "models", models, *EXPLICIT, LIMITED, "--load-model=a",
                      "--load-model=b") as server:
        with Gate(server, "a") as gate, asking() as ask:
            first = ask(server, "a")
            gate.wait()
            waiting = ask(server, "b")
            wait_for_pending(server, "b", 1)
            unload(server, "b")
            gate.open()
            assert (first.result().status, waiting.result().status) == (200, 200)


@pytest.mark.parametrize("options, text, error", [
    (("--rate-limit-resource=R:3",), limited(4), too_few(3, 4)),
    (("--rate-limit-resource=R:10:7",), limited(4), too_few(0, 4)),
    ((), limited(1, more="global: true"), BOTH_KINDS),
], ids=("all devices", "another device", "kinds"))
def test_models_that_do_not_fit(tmp_path, options, text, error):
    models = {"a": limited(0), "other": text}
    with opens_server(tmp_path / "models", models, *EXPLICIT, LIMITED, *options,
                      "--load-model=a") as server:
        assert error in load(server, "other", 400).text.replace('\\"', '"')
        assert infer(server, "a").status == 200
    ended = serve(f"--model-repository={tmp_path / 'models'}", LIMITED, *options)
    assert ended.returncode == 1
    assert "failed to load all models" in ended.stderr
    assert error in ended.stderr.replace('\\"', '"')


@pytest.mark.parametrize("arguments, text", [
    (["--rate-limit=sometimes"],
     "invalid argument for --rate-limit, expects execution_count or off, got: sometimes"),
    (["--rate-limit-resource=R:1", "--rate-limit-resource=R:2"],
     "rate limit resource 'R' is given twice for device -1"),
    *[([f"--rate-limit-resource={value}"],
       "--rate-limit-resource option format is '<resource_name>:<count>:<device>' or "
       f"'<resource_name>:<count>'. Got {value}")
      for value in ("R", "R:", ":1", "R:x", "R:-1", "R:1:", "R:1:gpu", "R:1:-1", "R:1:2:3",
                    "R:1:2147483648", "R:18446744073709551616")],
])
def test_bad_options(tmp_path, arguments, text):
    ended = serve(f"--model-repository={tmp_path}", *arguments)
    assert (ended.returncode, ended.stderr) == (1, f"error: {text}\n")
