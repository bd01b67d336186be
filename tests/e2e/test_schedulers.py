# SPDX-License-Identifier: BSD-3-Clause
"""Replaceable schedulers: where their libraries are looked for, what is wrong with them, and that one
that does wrong harms its own model alone. scheduler_probe.c says what each mode does. The numbers in
the names of tests are those of the acceptance checks."""
import base64
import concurrent.futures
import json
import shutil
import subprocess
import threading

import pytest
import requests

from conftest import BUILD, Server, is_sanitized, require_build, write_repository
from gate import Gate, gated
from models import wait_until
from scrape import metric, metrics, wait_for_metric, wait_for_pending
from test_composite import composite
from test_rate_limiter import both_run, limited, opens_gates

LIBRARIES = BUILD / "tests" / "e2e"
BACKENDS = ("testing", "identity")

TENSORS = ('input { name: "INPUT0" data_type: TYPE_FP32 dims: [4] }\n'
           'output { name: "BATCH_ROWS" data_type: TYPE_INT32 dims: [1] }\n'
           'instance_group { count: 1 kind: KIND_CPU }\n')
ONE = 'backend: "testing"\nmax_batch_size: 1\n' + TENSORS
EIGHT = 'backend: "testing"\nmax_batch_size: 8\ndynamic_batching { }\n' + TENSORS
EXPLICIT = "--model-control-mode=explicit"


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def probe(mode):
    return parameter("scheduler", "probe") + parameter("mode", mode)


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(BACKENDS)
    if not (LIBRARIES / "libscheduler_probe.so").exists():
        pytest.skip("the schedulers of the tests are not built")


@pytest.fixture(scope="module")
def schedulers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schedulers")
    for library in LIBRARIES.glob("libscheduler_*.so"):
        shutil.copy(library, folder)
    (folder / "libscheduler_garbage.so").write_bytes(b"no library")
    return folder


class Opened:
    """A server on these models; it must end well, and no probe may have complained."""

    def __init__(self, folder, models, schedulers, *options):
        write_repository(folder, models)
        self.server = Server(folder, [f"--scheduler-directory={schedulers}", "--exit-on-error=false",
                                      *options])

    def __enter__(self):
        return self.server

    def __exit__(self, kind, *_):
        code = self.server.stop()
        if kind is not None:
            print(self.server.text())
        else:
            assert code == 0, self.server.text()
            assert "PROBE" not in self.server.text(), self.server.text()


def infer(server, name, rows=1, seconds=60, **more):
    return requests.post(f"{server.url}/v2/models/{name}/infer", timeout=seconds, json={
        "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [rows, 4],
                    "data": [0.0] * (4 * rows)}], **more})


def asked(server, name, rows=1, **more):
    """The rows of the execution that answered it."""
    reply = infer(server, name, rows, **more)
    assert reply.status_code == 200, reply.text
    return reply.json()["outputs"][0]["data"][0]


def load(server, name, **parameters):
    return requests.post(f"{server.url}/v2/repository/models/{name}/load", timeout=60,
                         json={"parameters": parameters})


def unload(server, name):
    reply = requests.post(f"{server.url}/v2/repository/models/{name}/unload", timeout=60)
    assert reply.status_code == 200, reply.text


def index(server):
    reply = requests.post(f"{server.url}/v2/repository/index", timeout=20)
    return {entry["name"]: entry for entry in reply.json()}


def wait_until_gone(server, name):
    while any(entry.get("state") == "UNLOADING" for entry in requests.post(
            f"{server.url}/v2/repository/index", timeout=20).json() if entry["name"] == name):
        pass


def queue(pool, server, name, gate, rows):
    """Requests of so many rows, queued in this order while another one holds the instance."""
    first = pool.submit(asked, server, name)
    gate.wait()
    waiting = []
    for i, n in enumerate(rows):
        waiting.append(pool.submit(asked, server, name, n))
        wait_for_pending(server, name, i + 1)
    return first, waiting


def test_52_last_in_first_out(tmp_path, schedulers):
    models = {"lifo": gated(ONE + probe("lifo")), "plain": gated(ONE)}
    expected = {"lifo": [4, 3, 2, 1, 0], "plain": [0, 1, 2, 3, 4]}
    with Opened(tmp_path, models, schedulers) as server:
        for name, order in expected.items():
            with concurrent.futures.ThreadPoolExecutor(6) as pool, Gate(server, name) as gate:
                first, waiting = queue(pool, server, name, gate, [1] * 5)
                gate.open()
                assert first.result(60) == 1
                done = []
                for _ in waiting:
                    gate.wait()
                    gate.open()
                    left = [w for w in waiting if waiting.index(w) not in done]
                    ended, _ = concurrent.futures.wait(
                        left, 60, concurrent.futures.FIRST_COMPLETED)
                    assert len(ended) == 1
                    done.append(waiting.index(ended.pop()))
                assert done == order
        assert metric(server, "neso_scheduler_probe_items", "lifo") == 6
        assert metric(server, "neso_scheduler_error", "lifo") == 0
        assert metric(server, "neso_scheduler_stall", "lifo") == 0
        assert not any("neso_scheduler" in sample and "plain" in sample
                       for sample in metrics(server))


def test_batches(tmp_path, schedulers):
    """Of first come first served: as many as the member takes."""
    with Opened(tmp_path, {"m": gated(EIGHT + probe("fifo"))}, schedulers) as server:
        with concurrent.futures.ThreadPoolExecutor(8) as pool, Gate(server, "m") as gate:
            first, waiting = queue(pool, server, "m", gate, [1, 4, 3, 2, 7])
            gate.open(4)
            assert first.result(60) == 1
            assert [w.result(60) for w in waiting] == [8, 8, 8, 2, 7]


BROKEN = {
    "missing": ("missing", "", "unable to find scheduler library 'libscheduler_missing.so' for model "
                "'missing', searched: "),
    "garbage": ("garbage", "", "unable to load shared library '"),
    "wrong_version": ("wrong_version", "", "does not support version 1.0 of the scheduler interface"),
    "incomplete": ("incomplete", "", "lacks one of the functions of sched_vtbl"),
    "crash_get": ("crash_get", "", "crashed in sched_get(): Aborted"),
    "crash_init": ("probe", "crash_init", "crashed in init(): Segmentation fault"),
    "exit_init": ("probe", "exit_init", "ended the process in init(), exit code 0"),
    "refuses": ("probe", "refuses", "refused the model: init() returned 22 (Invalid argument)"),
    "no_name": ("../probe", "", "or the name of a scheduler library, got '../probe'"),
}


def test_53_what_does_not_load(tmp_path, schedulers):
    models = {name: ONE + parameter("scheduler", library) + parameter("mode", mode)
              for name, (library, mode, _) in BROKEN.items()}
    models["fine"] = ONE + probe("fifo")
    with Opened(tmp_path, models, schedulers) as server:
        entries = index(server)
        for name, (_, _, reason) in BROKEN.items():
            assert entries[name]["state"] == "UNAVAILABLE", entries[name]
            assert reason in entries[name]["reason"], entries[name]
            assert infer(server, name).status_code in (400, 404, 503)
        assert entries["fine"]["state"] == "READY"
        assert asked(server, "fine") == 1
        assert requests.get(f"{server.url}/v2/health/live", timeout=20).status_code == 200
        if not is_sanitized():
            assert "neso: SIG" not in server.text()


@pytest.mark.parametrize("mode, n_errors", [("member", 5), ("unknown", 5), ("twice", 10),
                                            ("fifo", 0)])
def test_54_wrong_calls(mode, n_errors, tmp_path, schedulers):
    models = {"m": ONE + probe(mode), "other": ONE}
    with Opened(tmp_path, models, schedulers) as server:
        assert [asked(server, "m") for _ in range(5)] == [1] * 5
        assert asked(server, "other") == 1
        wait_for_metric(server, n_errors, "neso_scheduler_error", "m")
        stats = requests.get(f"{server.url}/v2/models/m/stats", timeout=20).json()["model_stats"][0]
        assert (stats["execution_count"], stats["inference_count"]) == (5, 5)


@pytest.mark.parametrize("mode, n_errors", [("busy", 9), ("range", 1), ("split", 2)])
def test_54_wrong_calls_about_batches(mode, n_errors, tmp_path, schedulers):
    model = EIGHT + probe(mode) + parameter("split_requests", "false")
    with Opened(tmp_path, {"m": gated(model)}, schedulers) as server:
        with concurrent.futures.ThreadPoolExecutor(10) as pool, Gate(server, "m") as gate:
            rows = [2, 8] if mode == "split" else [1] * 9
            first, waiting = queue(pool, server, "m", gate, rows)
            gate.open(3)
            assert first.result(60) == 1
            assert [w.result(60) for w in waiting] == (rows if mode == "split" else [8] * 8 + [1])
        assert metric(server, "neso_scheduler_error", "m") == n_errors


@pytest.mark.parametrize("mode", ["forgets", "forgets_one"])
def test_55_stall(mode, tmp_path, schedulers):
    models = {"m": ONE + probe(mode), "other": ONE + probe("fifo")}
    with Opened(tmp_path, models, schedulers, EXPLICIT, "--load-model=*") as server:
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            assert [a.result(60) for a in [pool.submit(asked, server, "m") for _ in range(5)]
                    ] == [1] * 5
        assert metric(server, "neso_scheduler_stall", "m") == 1
        server.wait_for_line("has stalled: requests wait, an instance is free", 60)
        assert asked(server, "m") == asked(server, "other") == 1
        assert metric(server, "neso_scheduler_stall", "m") == 1
        assert metric(server, "neso_scheduler_stall", "other") == 0
        unload(server, "m")
        wait_until_gone(server, "m")


def test_leftovers_are_refused(tmp_path, schedulers):
    """A timer that is armed for ever keeps the watchdog quiet; an unload ends it."""
    with Opened(tmp_path, {"m": ONE + probe("hoards")}, schedulers, EXPLICIT,
                "--load-model=m") as server:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(infer, server, "m") for _ in range(3)]
            wait_for_pending(server, "m", 3)
            unload(server, "m")
            for reply in (w.result(60) for w in waiting):
                assert reply.status_code == 503
                assert "its scheduler has left the request waiting" in reply.text
        wait_until_gone(server, "m")


def test_drained(tmp_path, schedulers):
    """A scheduler may refuse what waits when its model is unloaded."""
    with Opened(tmp_path, {"m": gated(ONE + probe("drops"))}, schedulers, EXPLICIT,
                "--load-model=m") as server:
        with concurrent.futures.ThreadPoolExecutor(4) as pool, Gate(server, "m") as gate:
            first = pool.submit(asked, server, "m")
            gate.wait()
            waiting = [pool.submit(infer, server, "m") for _ in range(3)]
            wait_for_pending(server, "m", 3)
            unload(server, "m")
            for reply in (w.result(60) for w in waiting):
                assert reply.status_code == 503 and "the probe drains" in reply.text
            gate.open()
            assert first.result(60) == 1
        wait_until_gone(server, "m")


def test_rejects(tmp_path, schedulers):
    with Opened(tmp_path, {"m": ONE + probe("rejects")}, schedulers) as server:
        for i in range(6):
            reply = infer(server, "m", id=f"r{i}")
            if i % 2 == 0:
                assert reply.status_code == 200
            else:
                assert reply.status_code == 503
                assert reply.json() == {
                    "error": f"[request id: r{i}] the probe does not want it"}
        assert metric(server, "nv_inference_request_failure", "m", reason="REJECTED") == 3


def test_timeouts_are_the_servers(tmp_path, schedulers):
    config = ONE + probe("hoards") + (
        "dynamic_batching { default_queue_policy { default_timeout_microseconds: 50000 } }\n")
    with Opened(tmp_path, {"m": config}, schedulers) as server:
        for _ in range(2):
            reply = infer(server, "m")
            assert reply.status_code == 503 and "Request timeout expired" in reply.text
        assert metric(server, "neso_scheduler_error", "m") == 0


def test_57_one_decides_about_batches(tmp_path, schedulers):
    models = {"both": EIGHT + probe("fifo") + parameter("TRITON_BATCH_STRATEGY_PATH", "x.so"),
              "built_in": EIGHT + parameter("scheduler", "triton") +
              parameter("TRITON_BATCH_STRATEGY_PATH", "x.so"),
              "beside": {"config.pbtxt": EIGHT + probe("fifo") + parameter("max_bytes", 48),
                         "batchstrategy.so": (LIBRARIES / "batch_volume.so").read_bytes()}}
    with Opened(tmp_path, models, schedulers) as server:
        entries = index(server)
        for name in models:
            assert entries[name]["state"] == "UNAVAILABLE"
            assert "only one of them can decide about batches" in entries[name]["reason"]


def test_58_swapped_under_load(tmp_path, schedulers):
    """Each of many clients gets each of its answers, whichever scheduler serves meanwhile."""
    config = ('backend: "testing"\nmax_batch_size: 8\n' + TENSORS)
    body = {"backend": "testing", "max_batch_size": 8,
            "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [4]}],
            "output": [{"name": "BATCH_ROWS", "data_type": "TYPE_INT32", "dims": [1]}],
            "instance_group": [{"count": 1, "kind": "KIND_CPU"}]}
    with Opened(tmp_path, {"m": config}, schedulers, EXPLICIT, "--load-model=m") as server:
        is_over = threading.Event()

        def client():
            n = 0
            with requests.Session() as session:
                while not is_over.is_set():
                    reply = session.post(f"{server.url}/v2/models/m/infer", timeout=60, json={
                        "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 4],
                                    "data": [0.0] * 4}]})
                    assert reply.status_code == 200, reply.text
                    n += 1
            return n

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            clients = [pool.submit(client) for _ in range(8)]
            try:
                for i in range(12):
                    chosen = {0: {"scheduler": {"string_value": "probe"},
                                  "mode": {"string_value": "fifo"}},
                              1: {"scheduler": {"string_value": "default"}},
                              2: {"scheduler": {"string_value": "probe"},
                                  "mode": {"string_value": "lifo"}}}[i % 3]
                    reply = load(server, "m", config=json.dumps({**body, "parameters": chosen}))
                    assert reply.status_code == 200, reply.text
            finally:
                is_over.set()
            assert all(c.result(60) > 0 for c in clients)


def test_instances_change(tmp_path, schedulers):
    """The scheduler begins anew with the members that there are then; what waits is announced again."""
    body = {"backend": "testing", "max_batch_size": 1,
            "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [4]}],
            "output": [{"name": "BATCH_ROWS", "data_type": "TYPE_INT32", "dims": [1]}],
            "parameters": {key: {"string_value": value} for key, value in (
                ("scheduler", "probe"), ("mode", "fifo"), ("gate_fifo", "gate"),
                ("reached_fifo", "reached"))}}
    with Opened(tmp_path, {"m": gated(ONE + probe("fifo"))}, schedulers, EXPLICIT,
                "--load-model=m") as server:
        with concurrent.futures.ThreadPoolExecutor(8) as pool, Gate(server, "m") as gate:
            first, waiting = queue(pool, server, "m", gate, [1] * 5)
            reply = load(server, "m", config=json.dumps(
                {**body, "instance_group": [{"count": 3, "kind": "KIND_CPU"}]}))
            assert reply.status_code == 200, reply.text
            gate.wait(2)  # the new ones have begun
            gate.open(6)
            assert [first.result(60)] + [w.result(60) for w in waiting] == [1] * 6
            gate.wait(3)
            last = pool.submit(load, server, "m", config=json.dumps(
                {**body, "instance_group": [{"count": 1, "kind": "KIND_CPU"}]}))
            assert last.result(60).status_code == 200, last.result().text
            again = pool.submit(asked, server, "m")
            gate.wait()
            gate.open()
            assert again.result(60) == 1
        assert metric(server, "neso_scheduler_stall", "m") == 0


def test_server_wide(tmp_path, schedulers):
    sequence = (ONE + "sequence_batching { }\n")
    models = {"said": ONE + parameter("scheduler", "default"), "unsaid": ONE + parameter("mode", "fifo"),
              "sequence": sequence,
              "own": {"config.pbtxt": EIGHT + parameter("max_bytes", 48),
                      "batchstrategy.so": (LIBRARIES / "batch_volume.so").read_bytes()},
              "both": sequence + parameter("scheduler", "probe")}
    with Opened(tmp_path, models, schedulers, "--scheduler=probe") as server:
        states = {name: entry["state"] for name, entry in index(server).items()}
        assert states == {"said": "READY", "unsaid": "READY", "sequence": "READY", "own": "READY",
                          "both": "UNAVAILABLE"}
        assert "cannot be 'probe' for a model with sequence_batching" in index(server)["both"]["reason"]
        assert asked(server, "said") == asked(server, "unsaid") == 1
        assert metric(server, "neso_scheduler_probe_items", "unsaid") == 1
        assert sum("neso_scheduler_error" in sample for sample in metrics(server)) == 1


@pytest.mark.parametrize("place", ["1", "."])
def test_in_the_models_directory(place, tmp_path, schedulers):
    """It goes before that of the server, which has none that loads."""
    (tmp_path / "empty").mkdir()
    shutil.copy(LIBRARIES / "libscheduler_wrong_version.so",
                tmp_path / "empty" / "libscheduler_probe.so")
    models = {"m": {"config.pbtxt": ONE + probe("fifo"), f"{place}/libscheduler_probe.so":
                    (LIBRARIES / "libscheduler_probe.so").read_bytes()}}
    with Opened(tmp_path / "models", models, tmp_path / "empty") as server:
        assert asked(server, "m") == 1
        assert metric(server, "neso_scheduler_probe_items", "m") == 1


def test_uploaded_code(tmp_path, schedulers):
    """A library that comes with a load is refused, under any name, and so is the model's own in such
    a load; that of the server is not."""
    library = (LIBRARIES / "libscheduler_probe.so").read_bytes()
    models = {"m": ONE}
    config = json.dumps({
        "backend": "testing", "max_batch_size": 1,
        "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [{"name": "BATCH_ROWS", "data_type": "TYPE_INT32", "dims": [1]}],
        "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
        "parameters": {"scheduler": {"string_value": "probe"}}})
    with Opened(tmp_path, models, schedulers, EXPLICIT) as server:
        reply = load(server, "m", config=config, **{
            "file:1/libscheduler_probe.so": base64.b64encode(library).decode()})
        assert reply.status_code >= 400 and "Uploaded code is disabled" in reply.text
        reply = load(server, "m", config=config, **{
            "file:1/weights": base64.b64encode(b"w").decode()})
        assert reply.status_code == 200, reply.text
        assert asked(server, "m") == 1


def test_neso_check(tmp_path, schedulers):
    write_repository(tmp_path, {"found": ONE + probe("fifo"),
                                "missing": ONE + parameter("scheduler", "missing")})
    for name, code in ("found", 0), ("missing", 1):
        ended = subprocess.run([str(BUILD / "neso"), "check", str(tmp_path / name), "--quiet",
                                f"--scheduler-directory={schedulers}",
                                f"--backend-directory={BUILD / 'backends'}"],
                               capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode == code, ended.stderr
        assert ("unable to find scheduler library 'libscheduler_missing.so'" in ended.stderr) == (
            code != 0)


def test_wide_name_is_checked(tmp_path):
    with pytest.raises(AssertionError, match="the scheduler must be 'default', 'baseline', 'triton' or"):
        Server(tmp_path, ["--scheduler=a/b"])


MEMBERS = ('backend: "testing"\nmax_batch_size: 16\n'
           'input { name: "INPUT0" data_type: TYPE_FP32 dims: [4] }\n'
           'output { name: "BATCH_ROWS" data_type: TYPE_INT32 dims: [1] }\n' +
           "".join(f'instance_group {{ name: "{name}" count: 2 kind: KIND_CPU }}\n'
                   for name in ("b1", "b4", "b9")) +
           parameter("batch_ranges", "b1:1-1,b4:4-6,b9:9-16"))


@pytest.mark.parametrize("name, sizes", [("default", [4] * 8), ("baseline", [1, 1] + [6] * 6)])
def test_32_greedy_or_planned(name, sizes, tmp_path):
    write_repository(tmp_path, {"m": MEMBERS + parameter("scheduler", name)})
    server = Server(tmp_path, under=("env", "TRITONSERVER_DELAY_SCHEDULER=8"))
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(asked, server, "m") for _ in range(8)]
            assert sorted(w.result(60) for w in waiting) == sizes
    finally:
        assert server.stop() == 0


def wanted(values):
    return {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [len(values), 1],
                        "data": values}]}


def ask_members(server, values, outputs=("OUTPUT0", "BATCH_ROWS", "INSTANCE"), **more):
    """By output."""
    reply = requests.post(f"{server.url}/v2/models/m/infer", timeout=60, json={
        **wanted(values), "outputs": [{"name": name} for name in outputs], **more})
    assert reply.status_code == 200, reply.text
    return {output["name"]: output["data"] for output in reply.json()["outputs"]}


def assert_rows_of_members(answer, values, sizes):
    """Each row was answered, by a member that takes as many rows as ran with it."""
    assert answer["OUTPUT0"] == values
    for instance, rows in zip(answer["INSTANCE"], answer["BATCH_ROWS"]):
        low, high = sizes[instance.split("_")[0]]
        assert low <= rows <= high


SIZES = {"b1": (1, 1), "b4": (4, 4), "b8": (8, 8)}


def sum_of(server, name):
    """Of all members of m."""
    return sum(metric(server, name, "m", member=member) for member in SIZES)


def test_members_with_ranges(tmp_path, schedulers):
    """A library that dispatches rows serves a model of members; --scheduler leaves such a model alone."""
    models = {"m": composite(probe("rows")), "unsaid": composite()}
    with Opened(tmp_path, models, schedulers, "--scheduler=probe") as server:
        for n in (1, 3, 4, 5, 8, 8):
            values = list(range(n))
            assert_rows_of_members(ask_members(server, values), values, SIZES)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            sent = {pool.submit(ask_members, server, [n] * (1 + n % 8)): [n] * (1 + n % 8)
                    for n in range(200)}
            for one, values in sent.items():
                assert_rows_of_members(one.result(60), values, SIZES)
        n_rows = sum(1 + n % 8 for n in range(200)) + 1 + 3 + 4 + 5 + 8 + 8
        assert metric(server, "nv_inference_count", "m") == n_rows
        wait_until(lambda: sum_of(server, "neso_member_rows") == n_rows)
        assert metric(server, "neso_request_split", "m") > 0
        assert metric(server, "neso_scheduler_error", "m") == 0
        assert metric(server, "neso_scheduler_stall", "m") == 0
        assert not any("neso_scheduler" in sample and "unsaid" in sample
                       for sample in metrics(server))


def test_members_whose_library_stalls(tmp_path, schedulers):
    """The built-in rules go on with members and ranges."""
    with Opened(tmp_path, {"m": composite(probe("forgets"))}, schedulers) as server:
        assert_rows_of_members(ask_members(server, [1, 2, 3]), [1, 2, 3], SIZES)
        assert metric(server, "neso_scheduler_stall", "m") == 1
        assert_rows_of_members(ask_members(server, [4] * 8), [4] * 8, SIZES)


def test_members_that_do_not_cover_all(tmp_path, schedulers):
    """What keeps a model of members from loading does so with a library as well, and a size that is no
    member's is refused when requests may not run in parts."""
    models = {"m": composite(probe("rows") + parameter("split_requests", "false")),
              "wrong": composite(probe("rows"), (("b2", 1), ("b8", 1)), "b2:2-2,b8:4-8")}
    with Opened(tmp_path, models, schedulers) as server:
        assert "cannot serve batch size 1 (smallest member minimum is 2)" in (
            index(server)["wrong"]["reason"])
        reply = requests.post(f"{server.url}/v2/models/m/infer", timeout=60, json=wanted([1, 2, 3]))
        assert reply.status_code == 400
        assert "batch size 3 not supported; allowed: 1,4,8" in reply.text
        assert ask_members(server, [1, 2, 3, 4], ("BATCH_ROWS",)) == {"BATCH_ROWS": [4] * 4}


def test_exclusive_members(tmp_path, schedulers):
    """One member of the virtual instance runs at a time, whatever the library asks for."""
    config = composite(probe("rows") + parameter("member_concurrency", "exclusive"))
    with Opened(tmp_path, {"m": gated(config)}, schedulers) as server:
        with concurrent.futures.ThreadPoolExecutor(6) as pool, Gate(server, "m") as gate:
            sent = [pool.submit(ask_members, server, [n]) for n in range(6)]
            n_executions = n_rows = 0
            while n_rows < 6:
                gate.wait()
                assert not gate.is_reached()
                assert metric(server, "neso_virtual_instance_busy", "m", index="0") == 1
                gate.open()
                n_executions += 1
                wait_until(lambda n=n_executions: sum_of(server, "neso_member_exec_count") == n)
                n_rows = sum_of(server, "neso_member_rows")
            for n, one in enumerate(sent):
                assert_rows_of_members(one.result(60), [n], SIZES)


@pytest.mark.parametrize("mode", ["fifo", "rows"])
def test_rate_limiter(mode, tmp_path, schedulers):
    """A batch that the library has dispatched waits at its member for the member's turn."""
    models = {"a": gated(limited(1) + probe(mode)), "b": gated(limited(1) + probe(mode))}
    with Opened(tmp_path, models, schedulers, "--rate-limit=execution_count") as server:
        with opens_gates(server) as gates:
            assert both_run(server, gates) is False
            assert both_run(server, gates) is False
        for name in "ab":
            assert metric(server, "neso_scheduler_error", name) == 0
            assert metric(server, "neso_scheduler_stall", name) == 0


def test_56_a_group_is_announced_as_one(tmp_path, schedulers):
    """Eight requests that ran together in the first stage of a chain come to the second as one."""
    stage = ('backend: "testing"\nmax_batch_size: 8\ndynamic_batching { }\n'
             'input { name: "INPUT0" data_type: TYPE_INT32 dims: [1] }\n'
             'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }\n'
             'instance_group { count: 1 kind: KIND_CPU }\n')
    models = {"a": gated(stage + parameter("next", "b")), "b": stage + probe("fifo")}
    with Opened(tmp_path, models, schedulers) as server:
        def ask(value):
            reply = requests.post(f"{server.url}/v2/models/a/infer", timeout=60,
                                  json=wanted([value]))
            assert reply.status_code == 200, reply.text
            return reply.json()["outputs"][0]["data"]

        with concurrent.futures.ThreadPoolExecutor(9) as pool, Gate(server, "a") as gate:
            first = pool.submit(ask, 0)
            gate.wait()
            waiting = [pool.submit(ask, n) for n in range(1, 9)]
            wait_for_pending(server, "a", 8)
            gate.open(2)
            assert [one.result(60) for one in [first, *waiting]] == [[n] for n in range(9)]
        assert metric(server, "neso_scheduler_probe_groups", "b") == 1
        assert metric(server, "neso_scheduler_probe_grouped", "b") == 8
        assert metric(server, "neso_scheduler_probe_items", "b") == 9


@pytest.mark.parametrize("name", ["default", "baseline", "triton"])
def test_built_in(name, tmp_path, schedulers):
    with Opened(tmp_path, {"m": gated(EIGHT + parameter("scheduler", name))}, schedulers) as server:
        with concurrent.futures.ThreadPoolExecutor(8) as pool, Gate(server, "m") as gate:
            first, waiting = queue(pool, server, "m", gate, [1, 4, 3, 2, 7])
            gate.open(4)
            assert first.result(60) == 1
            assert [w.result(60) for w in waiting] == [8, 8, 8, 2, 7]
