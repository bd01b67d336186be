# SPDX-License-Identifier: BSD-3-Clause
"""The metrics page after known requests: names, order, labels, texts, values."""
import concurrent.futures
import json
import re
import socket

import pytest
import requests

from conftest import Server, write_repository
from gate import Gate, gated
from scrape import metric, metrics, page, parse, wait_for_metric, wait_for_pending
from wire import Wire, request

BACKENDS = ("identity", "testing")
OPTIONS = ("--metrics-config=histogram_latencies=true", "--metrics-interval-ms=1")


def tensors(data_type="TYPE_FP32"):
    return (f'input {{ name: "INPUT0" data_type: {data_type} dims: [-1] }}\n'
            f'output {{ name: "OUTPUT0" data_type: {data_type} dims: [-1] }}\n')


QUEUE = ('dynamic_batching { default_queue_policy { default_timeout_microseconds: 2000 '
         'max_queue_size: 4 } }\n')

MODELS = {
    "batched": 'backend: "identity"\nmax_batch_size: 8\n' + tensors(),
    "tagged": ('backend: "identity"\n' + tensors()
               + 'metric_tags { key: "team" value: "vision \\"A\\"\\\\B" }\n'
               'metric_tags { key: "cost-centre" value: "7\\n8" }\n'),
    "counting": ('backend: "identity"\n' + tensors()
                 + 'parameters { key: "byte_size_metric" value { string_value: "true" } }\n'),
    "testing": 'backend: "testing"\n' + tensors(),
    "broken": ('backend: "testing"\n' + tensors()
               + 'parameters { key: "fail_execute" value { string_value: "out of order" } }\n'),
    "queued": gated('backend: "testing"\n' + QUEUE + tensors()),
    "left": gated('backend: "testing"\n' + tensors()),
    "many": ('backend: "testing"\nmodel_transaction_policy { decoupled: true }\n' + tensors()),
}

HELP = {
    "nv_inference_request_success": "Number of successful inference requests, all batch sizes",
    "nv_inference_request_failure": "Number of failed inference requests, all batch sizes",
    "nv_inference_count": "Number of inferences performed (does not include cached requests)",
    "nv_inference_exec_count":
        "Number of model executions performed (does not include cached requests)",
    "nv_inference_request_duration_us":
        "Cumulative inference request duration in microseconds (includes cached requests)",
    "nv_inference_queue_duration_us":
        "Cumulative inference queuing duration in microseconds (includes cached requests)",
    "nv_inference_compute_input_duration_us":
        "Cumulative compute input duration in microseconds (does not include cached requests)",
    "nv_inference_compute_infer_duration_us":
        "Cumulative compute inference duration in microseconds (does not include cached requests)",
    "nv_inference_compute_output_duration_us":
        "Cumulative inference compute output duration in microseconds "
        "(does not include cached requests)",
    "nv_inference_pending_request_count":
        "Instantaneous number of pending requests awaiting execution per-model.",
    "nv_model_load_duration_secs": "Model load time in seconds",
    "nv_inference_first_response_histogram_ms":
        "Duration from request to first response in milliseconds",
    "nv_pinned_memory_pool_total_bytes": "Pinned memory pool total memory size, in bytes",
    "nv_pinned_memory_pool_used_bytes": "Pinned memory pool used memory size, in bytes",
    "nv_cpu_utilization": "CPU utilization rate [0.0 - 1.0]",
    "nv_cpu_memory_total_bytes": "CPU total memory (RAM), in bytes",
    "nv_cpu_memory_used_bytes": "CPU used memory (RAM), in bytes",
}
COUNTERS = [name for name in HELP if name.startswith("nv_inference_") and "pending" not in name
            and "histogram" not in name]
LATENCIES = [f"neso_{phase}_duration_seconds"
             for phase in ("request", "queue", "compute_input", "compute_infer", "compute_output")]
MACHINE = list(HELP)[-5:]
# Families of our own, in their order: of models without sequences and batching, of the server before and
# behind those of the machine.
OF_MODELS = [*LATENCIES, "neso_batch_size", "neso_executions_total", "neso_load_ratio",
             "neso_oldest_request_age_seconds"]
OF_SERVER = ["neso_log_lines_lost_total"]
BUDGET = ["neso_memory_budget_used_bytes", "neso_memory_budget_limit_bytes"]
REASONS = ["OTHER", "BACKEND", "CANCELED", "REJECTED"]


def body(values, parameters=None, shape=None):
    return json.dumps({"parameters": parameters or {}, "inputs": [
        {"name": "INPUT0", "shape": shape or [len(values)], "datatype": "FP32", "data": values}]})


def infer(server, model, values=(1.0,), parameters=None, shape=None):
    return requests.post(f"{server.url}/v2/models/{model}/infer", timeout=20,
                         data=body(list(values), parameters, shape))


def assert_error(reply, status, text):
    assert (reply.status_code, reply.json()) == (status, {"error": text})


def failures(server, model):
    return {reason: metric(server, "nv_inference_request_failure", model, reason=reason)
            for reason in REASONS}


# ---- the page -----------------------------------------------------------------------------------


def test_page_of_one_model(tmp_path):
    """All of it, in its order."""
    write_repository(tmp_path, {"only": MODELS["batched"]})
    running = Server(tmp_path)
    assert infer(running, "only", [1, 2, 3], shape=[3, 1]).status_code == 200
    assert infer(running, "only", [4], shape=[1, 1]).status_code == 200
    assert infer(running, "only", [4], shape=[9, 1]).status_code == 400  # refused: not counted
    families = parse(page(running).text)
    assert running.stop() == 0

    of_model = [name for name in list(HELP)[:-5] if "histogram" not in name]
    assert [name for name in families if not name.startswith("neso_")] == of_model + MACHINE
    assert [name for name in families if name.startswith("neso_")] == [
        *OF_MODELS, "neso_model_ready", *OF_SERVER, *BUDGET]
    for name, help_text in HELP.items():
        if name in families:
            assert families[name].help == help_text
    for name, family in families.items():
        expected = "histogram" if name in (*LATENCIES, "neso_batch_size") else (
            "counter" if name in COUNTERS or name.endswith("_total") else "gauge")
        assert family.kind == expected, name

    labels = '{model="only",version="1"}'
    values = {"nv_inference_request_success": 2, "nv_inference_count": 4,
              "nv_inference_exec_count": 2, "nv_inference_pending_request_count": 0}
    for name, value in values.items():
        assert families[name].samples == {name + labels: value}
    assert families["nv_inference_request_failure"].samples == {
        f'nv_inference_request_failure{{model="only",reason="{reason}",version="1"}}': 0
        for reason in REASONS}
    assert list(families["nv_inference_request_failure"].samples) == [
        f'nv_inference_request_failure{{model="only",reason="{reason}",version="1"}}'
        for reason in REASONS]
    for name in COUNTERS:
        if name.endswith("_us"):
            [(sample, value)] = families[name].samples.items()
            assert sample == name + labels and 0 <= value < 10e6 and value == int(value)
    assert 0 < families["nv_model_load_duration_secs"].samples[
        "nv_model_load_duration_secs" + labels] < 20
    paths = families["neso_executions_total"].samples
    assert list(paths) == [f'neso_executions_total{{model="only",path="{path}",version="1"}}'
                           for path in ("inline", "queued")]
    assert sum(paths.values()) == 2


def test_page_without_models(tmp_path):
    """Families without a metric are not there."""
    running = Server(tmp_path, ("--pinned-memory-pool-byte-size=4096",))
    families = parse(page(running).text)
    assert running.stop() == 0
    assert list(families) == OF_SERVER + MACHINE + BUDGET
    assert families["nv_pinned_memory_pool_total_bytes"].samples == {
        "nv_pinned_memory_pool_total_bytes": 4096}
    assert families["nv_pinned_memory_pool_used_bytes"].samples == {
        "nv_pinned_memory_pool_used_bytes": 0}


def test_page_without_cpu(tmp_path):
    running = Server(tmp_path, ("--allow-cpu-metrics=false",))
    assert list(parse(page(running).text)) == OF_SERVER + MACHINE[:2] + BUDGET
    assert running.stop() == 0


def test_no_metrics(tmp_path):
    running = Server(tmp_path, ("--allow-metrics=false",))
    assert running.stop() == 0
    assert "Started Metrics Service" not in running.text()


def is_at_other_address(tmp_path):
    """Whether somebody listens at the same port of the address that was not asked for."""
    running = Server(tmp_path, ("--metrics-address=127.0.0.2",))
    port = running.port("metrics")
    assert requests.get(f"http://127.0.0.2:{port}/metrics", timeout=20).status_code == 200
    with socket.socket() as other:
        is_there = other.connect_ex(("127.0.0.1", port)) == 0
    assert running.stop() == 0
    return is_there


def test_address_of_metrics(tmp_path):
    """Another port of this machine may have the same number now and then, but not each time."""
    assert not all(is_at_other_address(tmp_path) for _ in range(5))


def test_without_counters(tmp_path):
    """counter_latencies=false removes the latencies and stops the other counters."""
    write_repository(tmp_path, {"only": MODELS["batched"]})
    running = Server(tmp_path, ("--metrics-config=counter_latencies=false",))
    assert infer(running, "only", [1], shape=[1, 1]).status_code == 200
    families = parse(page(running).text)
    assert not [name for name in families if name.startswith("nv_") and name.endswith("_us")]
    assert set(families["nv_inference_request_success"].samples.values()) == {0}
    assert set(families["nv_inference_count"].samples.values()) == {0}
    assert families["neso_request_duration_seconds"].samples[
        'neso_request_duration_seconds_count{model="only",version="1"}'] == 1
    assert running.stop() == 0


def test_content_type(server):
    reply = page(server)
    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("path", ["/", "/v2", "/metrics/", "/v2/health/ready", "/metricsx"])
def test_other_paths_are_empty(server, path):
    reply = page(server, path)
    assert (reply.status_code, reply.content) == (200, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/metrics", "/other"])
def test_only_get(server, method, path):
    reply = page(server, path, method)
    assert (reply.status_code, reply.reason) == (405, "Not Allowed")
    assert reply.headers["Allow"] == "GET"
    assert reply.json() == {"error": "Method Not Allowed"}


def test_query_is_ignored(server):
    assert page(server, "/metrics?name[]=x").text.startswith("# HELP nv_inference_request_success")


# ---- labels -------------------------------------------------------------------------------------


def test_labels_of_models(server):
    families = parse(page(server).text)
    names = sorted(MODELS)
    labels = {name: f'model="{name}",version="1"' for name in MODELS}
    labels["tagged"] = ('_cost_centre="7\\n8",_team="vision \\"A\\"\\\\B",'
                        'model="tagged",version="1"')
    assert sorted(families["nv_inference_count"].samples) == sorted(
        f"nv_inference_count{{{labels[name]}}}" for name in names)


def test_tags_are_on_every_line_of_the_model(server):
    tags = '_cost_centre="7\\n8",_team="vision \\"A\\"\\\\B",model="tagged"'
    lines = [line for line in page(server).text.split("\n") if 'model="tagged"' in line]
    assert lines and all("{" + tags in line for line in lines)
    assert (f'nv_inference_request_failure{{{tags},reason="BACKEND",version="1"}} 0') in lines


def test_metric_of_a_backend(server):
    """A family that the backend made by the C API; it counts 4 bytes for each value."""
    sample = 'input_byte_size_counter{model="counting",version="1"}'
    before = metrics(server)[sample]
    assert infer(server, "counting", [1, 2, 3]).status_code == 200
    families = parse(page(server).text)
    assert families["input_byte_size_counter"].samples == {sample: before + 12}
    assert families["input_byte_size_counter"].kind == "counter"
    assert families["input_byte_size_counter"].help == (
        "Cumulative input byte size of all requests received by the model")


# ---- values -------------------------------------------------------------------------------------


def test_durations(server):
    """A request that computes for 30 ms and no less shows it in its phases."""
    before = metrics(server)
    assert infer(server, "testing", parameters={"delay_ms": 30}).status_code == 200
    after = metrics(server)

    def grown(name, **labels):
        labels = sorted({"model": "testing", "version": "1", **labels}.items())
        # "le" comes last, as in every histogram.
        labels.sort(key=lambda label: label[0] == "le")
        text = ",".join(f'{key}="{value}"' for key, value in labels)
        return after[f"{name}{{{text}}}"] - before[f"{name}{{{text}}}"]

    assert grown("nv_inference_count") == grown("nv_inference_exec_count") == 1
    phases = ["queue", "compute_input", "compute_infer", "compute_output"]
    took = {phase: grown(f"nv_inference_{phase}_duration_us") for phase in phases}
    request_us = grown("nv_inference_request_duration_us")
    assert 30_000 <= sum(took[phase] for phase in phases[1:]) <= request_us < 10e6
    # Each is cut to whole microseconds by itself.
    assert sum(took.values()) <= request_us + len(phases)
    assert grown("neso_request_duration_seconds_sum") == pytest.approx(request_us / 1e6, abs=2e-6)
    assert grown("neso_request_duration_seconds_count") == 1
    assert grown("neso_request_duration_seconds_bucket", le="0.02048") == 0
    assert grown("neso_request_duration_seconds_bucket", le="10.48576") == 1
    assert grown("neso_batch_size_bucket", le="1") == grown("neso_batch_size_sum") == 1


@pytest.mark.parametrize("name, n_bounds", [*((name, 22) for name in LATENCIES),
                                            ("neso_batch_size", 12)])
def test_histograms_add_up(server, name, n_bounds):
    family = parse(page(server).text)[name]
    for model in MODELS:
        mine = {sample: value for sample, value in family.samples.items()
                if f'model="{model}"' in sample}
        buckets = [value for sample, value in mine.items() if "_bucket{" in sample]
        bounds = [float(sample.split('le="')[1].split('"')[0]) for sample in mine
                  if "_bucket{" in sample]
        assert len(bounds) == n_bounds and bounds == sorted(bounds)
        assert bounds[-1] == float("inf")
        assert buckets == sorted(buckets)
        [count] = [value for sample, value in mine.items() if "_count{" in sample]
        assert count == buckets[-1]


def test_batch_sizes(server):
    before = metrics(server)
    for n in (1, 2, 3, 8, 8):
        assert infer(server, "batched", [0.5] * n, shape=[n, 1]).status_code == 200
    after = metrics(server)
    labels = 'model="batched",version="1"'

    def grown(sample):
        return after[sample] - before[sample]

    assert [grown(f'neso_batch_size_bucket{{{labels},le="{le}"}}')
            for le in (1, 2, 4, 8, 16)] == [1, 2, 3, 5, 5]
    assert grown(f"neso_batch_size_sum{{{labels}}}") == 22
    assert grown(f"nv_inference_count{{{labels}}}") == 22
    assert grown(f"nv_inference_exec_count{{{labels}}}") == 5
    assert grown(f"nv_inference_request_success{{{labels}}}") == 5


def test_first_responses_of_decoupled_models_only(server):
    family = parse(page(server).text)["nv_inference_first_response_histogram_ms"]
    assert family.kind == "histogram"
    assert family.samples == {
        **{f'nv_inference_first_response_histogram_ms_bucket{{model="many",version="1",'
           f'le="{le}"}}': 0 for le in (100, 500, 2000, 5000, "+Inf")},
        'nv_inference_first_response_histogram_ms_sum{model="many",version="1"}': 0,
        'nv_inference_first_response_histogram_ms_count{model="many",version="1"}': 0}


def test_machine(server):
    values = metrics(server)
    assert 0 <= values["nv_cpu_utilization"] <= 1
    assert 0 < values["nv_cpu_memory_used_bytes"] < values["nv_cpu_memory_total_bytes"]
    with open("/proc/meminfo", encoding="ascii") as lines:
        kib = int(next(line for line in lines if line.startswith("MemTotal:")).split()[1])
    assert values["nv_cpu_memory_total_bytes"] == kib * 1024


# ---- failures -----------------------------------------------------------------------------------


def test_failures_of_backends(server):
    assert_error(infer(server, "testing", parameters={"fail": "as asked"}), 500, "as asked")
    assert_error(infer(server, "broken"), 500, "out of order")
    expected = {"OTHER": 0, "BACKEND": 1, "CANCELED": 0, "REJECTED": 0}
    assert failures(server, "testing") == expected
    assert failures(server, "broken") == expected
    assert metric(server, "nv_inference_request_success", "broken") == 0


def test_refused_requests_are_not_counted(server):
    """They never came as far as the model."""
    before = failures(server, "counting")
    assert infer(server, "counting", [1], shape=[2]).status_code == 400
    assert infer(server, "counting", [], shape=[-1]).status_code == 400
    assert failures(server, "counting") == before == dict.fromkeys(REASONS, 0)


def begin_at_gate(server, pool, gate):
    """A request that is being executed. A busy machine may need several: they may wait for 2 ms."""
    while True:
        first = pool.submit(infer, server, "queued")
        while not first.done():
            if gate.is_reached(0.02):
                gate.wait()
                return first
        assert_error(first.result(), 503, "Request timeout expired")


def test_rejected_and_pending(server):
    """The first is being executed; the others wait until their time is up."""
    with Gate(server, "queued") as gate, concurrent.futures.ThreadPoolExecutor(5) as pool:
        first = begin_at_gate(server, pool, gate)
        n_rejected = failures(server, "queued")["REJECTED"] + 3
        waiting = [pool.submit(infer, server, "queued") for _ in range(3)]
        for reply in waiting:
            assert_error(reply.result(), 503, "Request timeout expired")
        assert failures(server, "queued") == {
            "OTHER": 0, "BACKEND": 0, "CANCELED": 0, "REJECTED": n_rejected}
        wait_for_pending(server, "queued", 0)
        assert not gate.is_reached()
        gate.open()
        assert first.result().status_code == 200
    assert metric(server, "nv_inference_request_success", "queued") == 1
    statistics = requests.get(f"{server.url}/v2/models/queued/stats", timeout=20).json()
    assert statistics["model_stats"][0]["inference_stats"]["fail"]["count"] == n_rejected
    assert statistics["model_stats"][0]["inference_stats"]["fail"]["ns"] >= 3 * 2_000_000


def test_cancelled(server):
    """A client that leaves while its request waits."""
    with Gate(server, "left") as gate, concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(infer, server, "left")
        gate.wait()
        with Wire(server.http_port) as leaving:
            leaving.send(request("POST", "/v2/models/left/infer", body([1]).encode()))
            wait_for_pending(server, "left", 1)
        wait_for_pending(server, "left", 0)
        wait_for_metric(server, 1, "nv_inference_request_failure", "left", reason="CANCELED")
        gate.open()
        assert first.result().status_code == 200
    assert failures(server, "left") == {"OTHER": 0, "BACKEND": 0, "CANCELED": 1, "REJECTED": 0}


def test_limits_are_counted(server):
    """neso_rejected_total has a line for each limit that somebody ran into."""
    with Wire(server.http_port) as wire:
        wire.send(request("GET", "/v2", b"", "X: " + "x" * 40000))
        assert wire.read_answer().status == 431
    families = parse(page(server).text)
    family = families["neso_rejected_total"]
    assert family.kind == "counter"
    assert family.help == "Requests and connections refused because of a limit"
    assert family.samples['neso_rejected_total{limit="header_bytes"}'] == 1


# ---- load and age -------------------------------------------------------------------------------


def test_load_of_running_and_waiting(server):
    with Gate(server, "left") as gate, concurrent.futures.ThreadPoolExecutor() as pool:
        assert metric(server, "neso_oldest_request_age_seconds", "left") == 0
        first = pool.submit(infer, server, "left")
        gate.wait()
        second = pool.submit(infer, server, "left")
        wait_for_pending(server, "left", 1)
        one = metrics(server)
        labels = '{model="left",version="1"}'
        age = one["neso_oldest_request_age_seconds" + labels]
        later = metrics(server)
        assert 0 < age < later["neso_oldest_request_age_seconds" + labels] < 60
        assert 0 < one["neso_load_ratio" + labels] < later["neso_load_ratio" + labels] <= 1
        gate.open(2)
        assert first.result().status_code == second.result().status_code == 200
    assert metric(server, "neso_oldest_request_age_seconds", "left") == 0


def test_models_that_are_not_ready(tmp_path):
    """A model of the start that cannot be read or loaded is there with 0, one that was unloaded is not."""
    write_repository(tmp_path, {"good": MODELS["batched"], "gone": MODELS["batched"],
                                "unread": "nonsense {", "unloaded": MODELS["testing"].replace(
                                    'backend: "testing"', 'backend: "missing"')})
    running = Server(tmp_path, ("--model-control-mode=explicit", "--load-model=*",
                                "--exit-on-error=false", "--strict-readiness=false"))
    url = f"{running.url}/v2/repository/models"
    assert requests.post(f"{url}/gone/unload", timeout=20).status_code == 200
    samples = parse(page(running).text)["neso_model_ready"].samples
    assert running.stop() == 0
    assert samples == {'neso_model_ready{model="good",version="1"}': 1,
                       'neso_model_ready{model="unloaded",version="1"}': 0,
                       'neso_model_ready{model="unread"}': 0}


# ---- OpenMetrics --------------------------------------------------------------------------------

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_ASKS = ("application/openmetrics-text;version=1.0.0,"
                   "application/openmetrics-text;version=0.0.1;q=0.75,"
                   "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")


def openmetrics(server):
    reply = requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=20,
                         headers={"Accept": PROMETHEUS_ASKS})
    assert (reply.status_code, reply.headers["Content-Type"]) == (200, OPENMETRICS)
    return reply.text


def names(text):
    """Of its samples, with their labels."""
    return {line.split(" # ")[0].rsplit(" ", 1)[0] for line in text.splitlines()
            if not line.startswith("#")}


def test_openmetrics(server):
    infer(server, "batched", [1], shape=[1, 1])
    page_of_text = page(server).text
    text = openmetrics(server)
    assert text.endswith("\n# EOF\n") and text.count("# EOF") == 1
    kinds = dict(line.split(" ")[2:] for line in text.splitlines() if line.startswith("# TYPE "))
    assert kinds["neso_executions"] == kinds["neso_log_lines_lost"] == "counter"
    assert kinds["nv_inference_count"] == "unknown"
    assert kinds["neso_load_ratio"] == "gauge"
    for family in (family for family, kind in kinds.items() if kind == "counter"):
        assert any(re.split("[{ ]", name)[0] == family + "_total" for name in names(text)), family
    # The same samples as in the other format, but for the form of integers in `le`.
    assert {re.sub(r'le="(\d+)"', r'le="\1.0"', name) for name in names(page_of_text)} == names(text)
    assert 'neso_batch_size_bucket{model="batched",version="1",le="1.0"} ' in text


def test_openmetrics_only_when_asked(server):
    for accept in (None, "*/*", "text/plain", "application/openmetrics-text;q=0.1, text/plain"):
        reply = requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=20,
                             headers={"Accept": accept})
        assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert "# EOF" not in reply.text and " # {" not in reply.text
