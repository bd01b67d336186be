# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong while `neso tune` searches: it says so, and gives back the model's configuration."""
import contextlib
import json
import os
import signal
import subprocess
import time

import pytest
import requests

from conftest import BUILD, Server, write_repository
from test_bench_servers import ANSWER, CONFIG, Model, served_by
from tune_runs import (  # noqa: F401 - server: a fixture
    DONE, EXPLICIT, FAILED, MODELS, QUICK, SECONDS, UNREACHABLE, USAGE, command, config_of, server, tune)

TAKES_SECONDS = 40


def start(server, *arguments):
    """Started, and its second configuration is measured."""
    tuner = subprocess.Popen(command(server, *arguments), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in tuner.stderr:
        if b"[2 of at most" in line:
            return tuner
    raise AssertionError(tuner.communicate(timeout=SECONDS))


LONG = ("slow", "--latency-budget=500", "--concurrency-range=8", "--exhaustive", "-p", 100)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_restore(server, number):
    before = config_of(server, "slow")
    tuner = start(server, *LONG)
    tuner.send_signal(number)
    out, err = tuner.communicate(timeout=SECONDS)
    assert tuner.returncode == FAILED, err
    assert b"Interrupted: the search is not complete." in out
    assert b"not restored" not in err
    assert config_of(server, "slow") == before


def test_load_that_fails_in_the_middle(server):
    """The model is unloaded meanwhile: its requests fail, and the next configuration is loaded."""
    before = config_of(server, "slow")
    tuner = start(server, *QUICK, "slow")
    assert requests.post(f"{server.url}/v2/repository/models/slow/unload", timeout=SECONDS).status_code == 200
    _, err = tuner.communicate(timeout=SECONDS)
    assert tuner.returncode == DONE, err
    assert config_of(server, "slow") == before


class FailsLater(Model):
    """Another configuration serves well when it is loaded for the first time. After that it answers half of its
    requests, at once."""

    def do_GET(self):
        if self.path.endswith("/config"):
            self.answer(json.loads(self.server.config))
        else:
            super().do_GET()

    def do_POST(self):
        if not self.path.endswith("/load"):
            super().do_POST()
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.config = body["parameters"]["config"]
        self.server.loads.append(self.server.config)
        self.answer({})


ORIGINAL = {**CONFIG, "instance_group": [{"count": 1, "kind": "KIND_CPU"}]}


@contextlib.contextmanager
def tuned_place(handler):
    with served_by(handler) as place:
        place.config, place.loads = json.dumps(ORIGINAL), []
        yield place


def search(place, *options):
    """A search that ends well; what it prints."""
    ended = subprocess.run([BUILD / "neso", "tune", *place.at, "--max-instances=2", *options], capture_output=True,
                           timeout=SECONDS, check=False)
    assert ended.returncode == DONE, ended
    return ended


@pytest.mark.parametrize("last_good", [1, 4])
def test_requests_that_fail_in_the_final_turns(last_good):
    """Also when they fail only while the configuration is compared with the present one."""
    with tuned_place(FailsLater) as place:

        def infer(handler, number):
            is_present = json.loads(place.config) == ORIGINAL
            if is_present or place.loads.count(place.config) <= last_good:
                time.sleep(0.02 if is_present else 0.005)
                handler.answer(ANSWER)
            elif number % 2 == 0:
                handler.answer(ANSWER)
            else:
                handler.answer({"error": "broken"}, 503)
        place.infer = infer
        ended = search(place, "--latency-budget=500", "-p", "100", "--concurrency-range=2", "--json")
        [tuned] = json.loads(ended.stdout)["models"]
        assert len(tuned["tried"]) > 1 and tuned["best"]["is_present"], ended


def test_requests_that_are_lost():
    """The other configuration answers sooner, but each time one of its requests gets no answer at all."""
    with tuned_place(FailsLater) as place:
        lost = set()

        def infer(handler, _):
            is_present = json.loads(place.config) == ORIGINAL
            with place.lock:
                is_lost = not is_present and len(place.loads) not in lost
                lost.add(len(place.loads))
            if is_lost:
                handler.wait_forever()
                return
            time.sleep(0.1 if is_present else 0.005)
            handler.answer(ANSWER)
        place.infer = infer
        ended = search(place, "--latency-budget=5000", "-p", "400", "--concurrency-range=4", "--json")
        [tuned] = json.loads(ended.stdout)["models"]
        assert len(tuned["tried"]) > 1 and tuned["best"]["is_present"], ended


class Refuses(FailsLater):
    """Another configuration, with a text that would clear a terminal, as a proxy may send it."""

    def answer(self, value, status=200):
        if value or json.loads(self.server.config)["instance_group"][0]["count"] == 1:
            super().answer(value, status)
            return
        text = "no \x1b[2J\x9bmore".encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def test_control_characters_of_a_server():
    """They are not in the lines about the search."""
    with tuned_place(Refuses) as place:
        place.infer = lambda handler, _: handler.answer(ANSWER)
        ended = search(place, "--latency-budget=5000", "-p", "100", "--concurrency-range=2")
        assert b" answered 400: no ?[2J??more\n" in ended.stderr and b"\x1b" not in ended.stderr, ended.stderr


class FallsSilent(FailsLater):
    def do_POST(self):
        if self.server.is_silent.is_set():
            self.wait_forever()
        else:
            super().do_POST()


def test_an_interruption_while_the_server_is_silent():
    """The search ends at once, and the wait for the configuration to be given back at a second interruption."""
    with tuned_place(FallsSilent) as place:
        place.infer = lambda handler, _: handler.answer(ANSWER)
        try:
            tuner = subprocess.Popen([BUILD / "neso", "tune", *place.at,
                                      "--latency-budget=500", "-p", "100", "--concurrency-range=2", "--max-instances=8", "--exhaustive"],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for line in tuner.stderr:
                if b"[2 of at most" in line:
                    break
            begin = time.monotonic()
            place.is_silent.set()
            tuner.send_signal(signal.SIGINT)
            line = tuner.stderr.readline()
            assert line.startswith(b"Interrupted: the models get their configurations back."), (line, tuner.communicate())
            tuner.send_signal(signal.SIGINT)
            out, err = tuner.communicate(timeout=SECONDS)
            assert time.monotonic() - begin < SECONDS / 2
            assert tuner.returncode == FAILED, err
            assert b"Interrupted: the search is not complete." in out
            assert b"the model's own configuration is not restored" in err
        finally:
            tuner.kill()


def test_requests_that_cannot_be_made(server):
    before = config_of(server, "wide")
    _, err = tune(server, "wide", "--latency-budget=10", "--concurrency-range=1", "-p", 50, code=FAILED)
    assert "--shape I:d,d,..." in err
    assert config_of(server, "wide") == before


def test_server_that_goes_away(tmp_path):
    write_repository(tmp_path, {"slow": MODELS["slow"]})
    server = Server(tmp_path, (*EXPLICIT, "--load-model=slow"))
    tuner = start(server, *LONG)
    server.stop()
    out, err = tuner.communicate(timeout=SECONDS)
    assert tuner.returncode in (FAILED, UNREACHABLE), err
    assert b"the model's own configuration is not restored" in err
    assert b"1 instance, no batching" in out  # what was measured before


@pytest.mark.parametrize("options", [(), ("--model-control-mode=poll",)])
def test_other_control_modes(tmp_path, options):
    write_repository(tmp_path, {"slow": MODELS["slow"]})
    server = Server(tmp_path, options)
    try:
        out, err = tune(server, "slow", *QUICK, code=FAILED)
        assert out == ""
        assert "tuning needs a server with --model-control-mode=explicit" in err
    finally:
        server.stop()


@pytest.mark.parametrize("arguments, reported", [
    ((), "which model? neso tune MODEL"),
    (("slow",), "--latency-budget: "),
    (("slow", "--latency-budget=5", "--objective=cheap"), "--objective: unknown value 'cheap', not one of rate, latency, rate-per-cpu"),
    (("slow", "--latency-budget=5", "--concurrency-range=1:4"), "one load, not a range"),
    (("slow", "--latency-budget=5", "--request-rate-range=10"), "cannot be the --objective"),
    (("slow", "other", "--latency-budget=5"), "'other' is no option"),
    (("slow", "-m", "other", "--latency-budget=5"), "two models: 'slow' and 'other'"),
])
def test_usage(arguments, reported):
    ended = subprocess.run([BUILD / "neso", "tune", *arguments], capture_output=True, timeout=SECONDS,
                           check=False, env={**os.environ, "NESO_API_KEY": ""})
    assert ended.returncode == USAGE
    assert reported in ended.stderr.decode()


def test_unknown_model(server):
    _, err = tune(server, "nothing", *QUICK, code=FAILED)
    assert "nothing" in err
