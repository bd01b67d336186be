# SPDX-License-Identifier: BSD-3-Clause
"""`neso tune` against a real server: what it finds, what it prints, and that it leaves everything as it was."""
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest
import requests

from conftest import BUILD, Server, patience, write_repository
from test_bench_servers import ANSWER, CONFIG, Model, Place

ALONE = True
TAKES_SECONDS = 60
DONE, FAILED, USAGE, UNREACHABLE = range(4)
SECONDS = patience(120)
EXPLICIT = ("--model-control-mode=explicit",)


def tensor(role, name, dims=1):
    return f'{role} {{ name: "{name}" data_type: TYPE_INT32 dims: [ {dims} ] }}\n'


def slow(milliseconds, more=""):
    """An execution takes its time whatever its rows, without the use of a core."""
    return ('backend: "testing"\nmax_batch_size: 8\n' + tensor("input", "IN") + tensor("output", "OUT")
            + f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{milliseconds}" }} }}\n' + more)


def step(model, source, target):
    return (f'step {{ model_name: "{model}" model_version: -1 input_map {{ key: "IN" value: "{source}" }} '
            f'output_map {{ key: "OUT" value: "{target}" }} }}\n')


MODELS = {
    "slow": slow(5),
    "first": slow(10),
    "second": slow(1),
    "line": 'platform: "ensemble"\nmax_batch_size: 8\n' + tensor("input", "X") + tensor("output", "Y")
            + "ensemble_scheduling {\n" + step("first", "X", "T") + step("second", "T", "Y") + "}\n",
    "wide": 'backend: "identity"\n' + tensor("input", "I", -1) + tensor("output", "I", -1),
}
LOADS = tuple(f"--load-model={name}" for name in ("slow", "line", "wide"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_repository(folder, MODELS)
    running = Server(folder, EXPLICIT + LOADS, waits_for=("http", "grpc"))
    yield running
    running.stop()


def files_of(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in sorted(folder.rglob("*"))}


def config_of(server, model):
    return requests.get(f"{server.url}/v2/models/{model}/config", timeout=SECONDS).text


def command(server, *arguments, protocol="http"):
    return [BUILD / "neso", "tune", "-i", protocol, "-u", f"127.0.0.1:{server.port(protocol)}",
            *map(str, arguments)]


def tune(server, *arguments, code=DONE, **more):
    ended = subprocess.run(command(server, *arguments, **more), stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=SECONDS, check=False)
    assert ended.returncode == code, ended
    return ended.stdout.decode(), ended.stderr.decode()


# Short windows: the models are so different with other settings that few requests show it.
QUICK = ("--latency-budget=500", "-p", 60, "--concurrency-range=8", "--max-instances=2")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_finds_and_restores(server, protocol):
    """One instance without batching serves 200 a second at most; with batches of 8 rows eight times as many."""
    files, before = files_of(server.repository), config_of(server, "slow")
    out, err = tune(server, "slow", *QUICK, "--json", protocol=protocol)
    assert config_of(server, "slow") == before
    assert files_of(server.repository) == files
    found = json.loads(out)
    [model] = found["models"]
    present, best = model["tried"][0], model["best"]
    assert present["configuration"] == "1 instance, no batching"
    assert not best["is_present"] and "no batching" not in best["configuration"]
    assert found["gain"]["median"] > 1.5 and not found["gain"]["is_noise"]
    assert found["present_load"] == found["best_load"] == 8
    assert all(trial["p99_us"] >= trial["p50_us"] > 0 for trial in model["tried"] if trial["is_whole"])
    assert re.search(r"^slow: at most \d+ of \d+ configurations$", err, re.M)
    assert re.search(r"^This takes at most \d+ min \d+ s", err, re.M)
    # The lines are those of the configuration that was measured.
    assert "dynamic_batching {" in best["lines"]
    assert best["config"]["instance_group"][0]["count"] == int(
        re.search(r"count: (\d+)", best["lines"]).group(1))


def test_lines_to_paste(server, tmp_path):
    """What it prints is accepted in the place of the settings, and is what was measured."""
    out, _ = tune(server, "slow", *QUICK)
    assert re.search(r"^CONFIGURATION +LOAD +INFER/S +P50 +P99 +CPU +RSS +REMARK$", out, re.M)
    assert re.search(r"^1 instance, no batching .* present$", out, re.M)
    assert re.search(r"^Gain against the present configuration: \+\d+\.\d % of its rate \([+-]", out, re.M)
    lines = out.split("in the place of the present settings:\n\n")[1].split("\n\n")[0]
    write_repository(tmp_path, {"slow": MODELS["slow"] + lines})
    checked = subprocess.run([BUILD / "neso", "check", tmp_path, f"--backend-directory={BUILD / 'backends'}"],
                             capture_output=True, timeout=SECONDS, check=False)
    assert checked.returncode == 0, checked


def test_latency_objective(server):
    """With one request under way a delay and instances gain nothing."""
    out, _ = tune(server, "slow", "--latency-budget=500", "-p", 60, "--max-instances=2",
                  "--objective=latency", "--json")
    [model] = json.loads(out)["models"]
    assert all(trial["load"] == 1 for trial in model["tried"])
    whole = [trial["latency_us"] for trial in model["tried"] if trial["is_whole"]]
    assert min(whole) >= 5000


def test_rate_per_cpu_objective(server):
    """Batches need much less CPU time a row."""
    out, _ = tune(server, "slow", "--latency-budget=500", "-p", 300, "--max-instances=1", "--concurrency-range=8",
                  "--objective=rate-per-cpu", "--json")
    [model] = json.loads(out)["models"]
    values = {trial["configuration"]: trial["rate"] / trial["cpu"] for trial in model["tried"] if trial["is_whole"]}
    chosen = values[model["best"]["configuration"]]
    assert chosen > 1.5 * values["1 instance, no batching"]


def test_steps_of_an_ensemble(server):
    before = {name: config_of(server, name) for name in ("line", "first", "second")}
    out, err = tune(server, "line", *QUICK, "--json")
    assert {name: config_of(server, name) for name in before} == before
    found = json.loads(out)
    assert [model["model"] for model in found["models"]] == ["first", "second"]
    first = found["models"][0]["best"]
    assert not first["is_present"] and "no batching" not in first["configuration"]
    assert found["gain"]["median"] > 0.5
    assert "first [1 of" in err and "second [1 of" in err


# ---- what goes wrong ------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("last_good", [1, 4])
def test_requests_that_fail_in_the_final_turns(last_good):
    """Also when they fail only while the configuration is compared with the present one."""
    place = Place(("127.0.0.1", 0), FailsLater)
    original = json.dumps({**CONFIG, "instance_group": [{"count": 1, "kind": "KIND_CPU"}]})
    place.config, place.loads = original, []
    place.lock, place.n_requests = threading.Lock(), 0
    place.is_silent, place.has_ended = threading.Event(), threading.Event()

    def infer(handler, number):
        is_present = json.loads(place.config) == json.loads(original)
        if is_present or place.loads.count(place.config) <= last_good:
            time.sleep(0.02 if is_present else 0.005)
            handler.answer(ANSWER)
        elif number % 2 == 0:
            handler.answer(ANSWER)
        else:
            handler.answer({"error": "broken"}, 503)
    place.infer = infer
    threading.Thread(target=place.serve_forever, daemon=True).start()
    try:
        ended = subprocess.run([BUILD / "neso", "tune", "-u", f"127.0.0.1:{place.server_address[1]}", "m",
                                "--latency-budget=500", "-p", "100", "--concurrency-range=2", "--max-instances=2",
                                "--json"], capture_output=True, timeout=SECONDS, check=False)
        assert ended.returncode == DONE, ended
        [tuned] = json.loads(ended.stdout)["models"]
        assert len(tuned["tried"]) > 1 and tuned["best"]["is_present"], ended
    finally:
        place.has_ended.set()
        place.shutdown()
        place.server_close()


def test_requests_that_are_lost():
    """The other configuration answers sooner, but each time one of its requests gets no answer at all."""
    place = Place(("127.0.0.1", 0), FailsLater)
    original = json.dumps({**CONFIG, "instance_group": [{"count": 1, "kind": "KIND_CPU"}]})
    place.config, place.loads = original, []
    place.lock, place.n_requests = threading.Lock(), 0
    place.is_silent, place.has_ended = threading.Event(), threading.Event()
    lost = set()

    def infer(handler, _):
        is_present = json.loads(place.config) == json.loads(original)
        with place.lock:
            is_lost = not is_present and len(place.loads) not in lost
            lost.add(len(place.loads))
        if is_lost:
            handler.wait_forever()
            return
        time.sleep(0.1 if is_present else 0.005)
        handler.answer(ANSWER)
    place.infer = infer
    threading.Thread(target=place.serve_forever, daemon=True).start()
    try:
        ended = subprocess.run([BUILD / "neso", "tune", "-u", f"127.0.0.1:{place.server_address[1]}", "m",
                                "--latency-budget=5000", "-p", "400", "--concurrency-range=4", "--max-instances=2",
                                "--json"], capture_output=True, timeout=SECONDS, check=False)
        assert ended.returncode == DONE, ended
        [tuned] = json.loads(ended.stdout)["models"]
        assert len(tuned["tried"]) > 1 and tuned["best"]["is_present"], ended
    finally:
        place.has_ended.set()
        place.shutdown()
        place.server_close()


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
    place = Place(("127.0.0.1", 0), Refuses)
    place.config, place.loads = json.dumps({**CONFIG, "instance_group": [{"count": 1, "kind": "KIND_CPU"}]}), []
    place.lock, place.n_requests = threading.Lock(), 0
    place.is_silent, place.has_ended = threading.Event(), threading.Event()
    place.infer = lambda handler, _: handler.answer(ANSWER)
    threading.Thread(target=place.serve_forever, daemon=True).start()
    try:
        ended = subprocess.run([BUILD / "neso", "tune", "-u", f"127.0.0.1:{place.server_address[1]}", "m",
                                "--latency-budget=5000", "-p", "100", "--concurrency-range=2", "--max-instances=2"],
                               capture_output=True, timeout=SECONDS, check=False)
        assert ended.returncode == DONE, ended
        assert b" answered 400: no ?[2J??more\n" in ended.stderr and b"\x1b" not in ended.stderr, ended.stderr
    finally:
        place.has_ended.set()
        place.shutdown()
        place.server_close()


class FallsSilent(FailsLater):
    def do_POST(self):
        if self.server.is_silent.is_set():
            self.wait_forever()
        else:
            super().do_POST()


def test_an_interruption_while_the_server_is_silent():
    """The search ends at once, and the wait for the configuration to be given back at a second interruption."""
    place = Place(("127.0.0.1", 0), FallsSilent)
    place.config, place.loads = json.dumps({**CONFIG, "instance_group": [{"count": 1, "kind": "KIND_CPU"}]}), []
    place.lock, place.n_requests = threading.Lock(), 0
    place.is_silent, place.has_ended = threading.Event(), threading.Event()
    place.infer = lambda handler, _: handler.answer(ANSWER)
    threading.Thread(target=place.serve_forever, daemon=True).start()
    try:
        tuner = subprocess.Popen([BUILD / "neso", "tune", "-u", f"127.0.0.1:{place.server_address[1]}", "m",
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
        place.has_ended.set()
        place.shutdown()
        place.server_close()


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
