# SPDX-License-Identifier: BSD-3-Clause
"""`neso tune` against a real server: what it finds, what it prints, and that it leaves everything as it was."""
import json
import re
import subprocess

import pytest

from conftest import BUILD, write_repository
from tune_runs import MODELS, QUICK, SECONDS, config_of, files_of, server, tune  # noqa: F401 - a fixture

ALONE = True
TAKES_SECONDS = 40


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
