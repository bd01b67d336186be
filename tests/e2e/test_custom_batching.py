# SPDX-License-Identifier: BSD-3-Clause
"""Custom batching libraries: where they are looked for, what is wrong with them, and what they
decide. batch_volume.c allows so many bytes of inputs in a batch."""
import concurrent.futures
import shutil

import pytest
import requests

from conftest import BUILD, Server, require_build, write_repository
from gate import Gate, gated
from scrape import wait_for_pending

VOLUME = BUILD / "tests" / "e2e" / "batch_volume.so"
PARTIAL = BUILD / "tests" / "e2e" / "batch_partial.so"

BATCHED = ('backend: "testing"\nmax_batch_size: 16\n'
           'input { name: "INPUT0" data_type: TYPE_FP32 dims: [4] }\n'
           'output { name: "BATCH_ROWS" data_type: TYPE_INT32 dims: [1] }\n'
           'instance_group { count: 1 kind: KIND_CPU }\n'
           'dynamic_batching { }\n')


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def path(value):
    return parameter("TRITON_BATCH_STRATEGY_PATH", value)


LIMIT = parameter("max_bytes", 48)  # three requests of one row


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(["testing"])
    if not VOLUME.exists():
        pytest.skip(f"{VOLUME} is not built")


def batches(server, name, rows):
    """Rows of the execution that each of these requests was part of, in their order. Another
    request holds the instance meanwhile, so that all of them are queued."""
    gate = Gate(server, name)

    def ask(n):
        reply = requests.post(f"{server.url}/v2/models/{name}/infer", timeout=60, json={
            "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [n, 4],
                        "data": [0.0] * (4 * n)}]})
        assert reply.status_code == 200, reply.text
        return reply.json()["outputs"][0]["data"][0]

    with concurrent.futures.ThreadPoolExecutor(len(rows) + 1) as pool:
        first = pool.submit(ask, 1)
        gate.wait()
        asked = []
        for i, n in enumerate(rows):
            asked.append(pool.submit(ask, n))
            wait_for_pending(server, name, i + 1)
        gate.open(len(rows) + 1)
        assert first.result(60) == 1
        answers = [a.result(60) for a in asked]
    return answers


@pytest.mark.parametrize("place", ["1/batchstrategy.so", "batchstrategy.so", "parameter",
                                   "relative"])
def test_ends_batches(place, tmp_path):
    config = gated(BATCHED + LIMIT)
    library = VOLUME.read_bytes()
    if place == "parameter":
        config["config.pbtxt"] += path(tmp_path / "m" / "lib" / "volume.so")
        config["lib/volume.so"] = library
    elif place == "relative":
        config["config.pbtxt"] += path("lib/volume.so")
        config["lib/volume.so"] = library
    else:
        config[place] = library
    write_repository(tmp_path, {"m": config})
    server = Server(tmp_path)
    try:
        # 48 bytes are three rows of four values.
        assert batches(server, "m", [1, 1, 1, 1, 2, 1, 4, 1]) == [3, 3, 3, 3, 3, 1, 4, 1]
    finally:
        assert server.stop() == 0


def test_relative_repository(tmp_path, monkeypatch):
    config = gated(BATCHED + LIMIT + path(tmp_path.resolve() / "models" / "m" / "volume.so"))
    config["volume.so"] = VOLUME.read_bytes()
    write_repository(tmp_path / "models", {"m": config})
    monkeypatch.chdir(tmp_path)
    server = Server("models")
    try:
        assert batches(server, "m", [2, 2]) == [2, 2]
    finally:
        assert server.stop() == 0


def test_beside_the_backend(tmp_path):
    backends = tmp_path / "backends" / "testing"
    backends.mkdir(parents=True)
    shutil.copy(BUILD / "backends" / "testing" / "libtriton_testing.so", backends)
    shutil.copy(VOLUME, backends / "batchstrategy.so")
    write_repository(tmp_path / "models", {"m": gated(BATCHED + LIMIT)})
    server = Server(tmp_path / "models", [f"--backend-directory={backends.parent}"])
    try:
        assert batches(server, "m", [2, 2, 1]) == [2, 3, 3]
    finally:
        assert server.stop() == 0


def test_without_a_library(tmp_path):
    write_repository(tmp_path, {"m": gated(BATCHED + LIMIT)})
    server = Server(tmp_path)
    try:
        assert batches(server, "m", [1, 1, 1, 1, 2]) == [6] * 5
    finally:
        assert server.stop() == 0


def test_what_is_wrong(tmp_path):
    library = VOLUME.read_bytes()
    default = BATCHED.replace("dynamic_batching { }\n", "")
    models = {
        "outside": BATCHED + LIMIT + path("/elsewhere/volume.so"),
        "above": BATCHED + LIMIT + path("../volume.so"),
        "round": BATCHED + LIMIT + path("1/../../above/volume.so"),
        "absent": BATCHED + LIMIT + path("volume.so"),
        "partial": {"config.pbtxt": BATCHED + LIMIT + path("volume.so"),
                    "volume.so": PARTIAL.read_bytes()},
        "garbage": {"config.pbtxt": BATCHED + LIMIT, "batchstrategy.so": b"no library"},
        "refused": {"config.pbtxt": BATCHED, "batchstrategy.so": library},
        "unbatched": {"config.pbtxt": default + path("/elsewhere/volume.so")},
    }
    write_repository(tmp_path, models)
    server = Server(tmp_path, ["--exit-on-error=false"])
    try:
        index = requests.post(f"{server.url}/v2/repository/index", timeout=20).json()
        reasons = {entry["name"]: entry.get("reason", "").partition(": ")[2] for entry in index}
        escapes = "Batching library path escapes model repository."
        assert reasons["outside"] == reasons["above"] == reasons["round"] == escapes
        assert reasons["absent"] == f"Batching library path not found: {tmp_path}/absent/volume.so"
        assert reasons["partial"] == ("unable to find symbol 'TRITONBACKEND_ModelBatcherInitialize' "
                                      f"in shared library '{tmp_path}/partial/volume.so'")
        assert reasons["garbage"].startswith("unable to load shared library "
                                             f"'{tmp_path}/garbage/batchstrategy.so': ")
        assert reasons["refused"] == "the parameter max_bytes is missing"
        assert reasons["unbatched"] == ""
        assert "model 'unbatched': TRITON_BATCH_STRATEGY_PATH has no effect without" in server.text()
    finally:
        assert server.stop() == 0
