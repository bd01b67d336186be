#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The boards and alerts of deploy/ against a real Prometheus.

  make boards      or      tests/boards/run.py --build=build

The first checks need no server: the boards equal the output of tools/make_boards.py, promtool accepts the rules and
their unit tests, and each alert has a section in docs/operations.md.

Then Prometheus scrapes a server every two seconds, both on free ports of 127.0.0.1, while clients use each kind of
model over HTTP and gRPC. At the end every query of every board has a value, every rule can be evaluated, every
recording rule has a series, and Prometheus has an exemplar of a traced request. `promtool check metrics` complains only
about names of the reference server, and about names that are older than this check.
"""
import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests")]

import programs  # noqa: E402
from programs import fail, free_port, get  # noqa: E402

DEPLOY = ROOT / "deploy"
LOAD_SECONDS = 40
PATIENCE_SECONDS = 20
WINDOW = "20s"  # in place of $__rate_interval: four scrapes at least, as Grafana chooses it

# Not named as promtool wants it, and kept since rules of users name them.
OLDER_NAMES = re.compile(
    r"nv_|neso_chain_|neso_member_|neso_request_split|neso_batch_dispatch_reason|neso_scheduler_")

PYTHON_MODEL = '''
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())])
            for request in requests]
'''


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def model(backend, more="", batch=8, name_in="IN", name_out="OUT"):
    return (f'backend: "{backend}" max_batch_size: {batch}\n'
            f'input {{ name: "{name_in}" data_type: TYPE_INT32 dims: [1] }}\n'
            f'output {{ name: "{name_out}" data_type: TYPE_INT32 dims: [1] }}\n' + more)


def step(name, before, after):
    return (f'step {{ model_name: "{name}" model_version: -1 '
            f'input_map {{ key: "IN" value: "{before}" }} output_map {{ key: "OUT" value: "{after}" }} }}\n')


MODELS = {
    "plain": model("identity", name_in="IN", name_out="OUT"),
    "batched": model("testing", "dynamic_batching { max_queue_delay_microseconds: 1000 }\n"),
    "cached": model("testing", "response_cache { enable: true }\n"),
    "slow": model("testing", parameter("execute_delay_ms", 30), batch=0),
    "first": model("testing", parameter("add", 1) + parameter("next", "last")),
    "last": model("testing", parameter("add", 10)),
    "ends": model("testing", parameter("next", "broken")),
    "broken": model("testing", parameter("fail_execute", "out of order")),
    "ensemble": ('platform: "ensemble" max_batch_size: 8\n'
                 'input { name: "IN" data_type: TYPE_INT32 dims: [1] }\n'
                 'output { name: "OUT" data_type: TYPE_INT32 dims: [1] }\n'
                 "ensemble_scheduling {\n" + step("plain", "IN", "MIDDLE")
                 + step("batched", "MIDDLE", "OUT") + "}\n"),
    "composite": model("testing", "".join(
        f'instance_group {{ name: "b{n}" count: 1 kind: KIND_CPU }}\n' for n in (1, 4))
        + parameter("batch_ranges", "b1:1-1,b4:2-4"), batch=4, name_in="INPUT0", name_out="OUTPUT0"),
    "stream": model("testing", "model_transaction_policy { decoupled: true }\n", batch=0),
    "sums": model("testing", "sequence_batching { max_sequence_idle_microseconds: 1000000 }\n",
                  batch=2, name_in="INPUT0", name_out="SUM"),
    "python": model("python"),
}


def run(*command, status=0, **more):
    ended = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if ended.returncode != status:
        fail(f"{' '.join(map(str, command))}: status {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


# ---- the files ----------------------------------------------------------------------------------


def check_files():
    rules = DEPLOY / "prometheus"
    run(sys.executable, ROOT / "tools/make_boards.py", "--check")
    run("promtool", "check", "rules", rules / "recording.yaml", rules / "alerts.yaml")
    run("promtool", "test", "rules", rules / "tests.yaml")
    page = (ROOT / "docs/operations.md").read_text()
    alerts = re.findall(r"- alert: (\w+)", (rules / "alerts.yaml").read_text())
    tested = (rules / "tests.yaml").read_text()
    for alert in alerts:
        if f"\n### {alert}\n" not in page:
            fail(f"docs/operations.md has no section '{alert}'")
        if f"alertname: {alert}\n" not in tested:
            fail(f"tests.yaml has no test of {alert}")
    text = (rules / "alerts.yaml").read_text()
    for what in ("summary", "description", "runbook_url"):
        if text.count(f"          {what}: ") != len(alerts):
            fail(f"an alert has no {what}")
    return len(alerts)


# ---- server, Prometheus, clients ----------------------------------------------------------------


def write_models(folder):
    for name, text in MODELS.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(text)
    (folder / "python" / "1" / "model.py").write_text(PYTHON_MODEL)


@contextlib.contextmanager
def process(command, log):
    with open(log, "w", encoding="utf-8") as out:
        one = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield one
    finally:
        one.send_signal(signal.SIGTERM)
        try:
            one.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def wait_until(check, what, running, log):
    def is_true():
        if running.poll() is not None:
            fail(f"{what}:\n{pathlib.Path(log).read_text()[-4000:]}")
        return check()

    return programs.wait_until(is_true, lambda: f"{what}:\n{pathlib.Path(log).read_text()[-4000:]}",
                               3 * PATIENCE_SECONDS)


class Neso:
    def __init__(self, build, folder):
        self.build = build
        self.ports = {name: free_port() for name in ("http", "grpc", "metrics")}
        self.url = f"http://127.0.0.1:{self.ports['http']}"
        keys = folder / "keys"
        groups = "health,metadata,inference,statistics,metrics,model-config"
        keys.write_text(f"some {hashlib.sha256(b'key').hexdigest()} {groups}\nnobody - {groups}\n")
        keys.chmod(0o600)
        self.command = [
            build / "neso", "serve", f"--model-repository={folder / 'models'}",
            f"--backend-directory={build / 'backends'}", f"--cache-directory={build / 'caches'}",
            "--http-address=127.0.0.1", "--grpc-address=127.0.0.1",
            *(f"--{name}-port={port}" for name, port in self.ports.items()),
            "--cache-config=local,size=4096", "--metrics-config=histogram_latencies=true",
            "--in-flight-limit=slow,requests=2", f"--api-key-file={keys}",
            "--trace-config=mode=opentelemetry", "--trace-config=level=TIMESTAMPS",
            "--trace-config=rate=100", "--trace-config=opentelemetry,url=http://127.0.0.1:9/v1/traces",
            f"--backend-config=python,python-path={sys.executable}"]

    def metrics(self, **headers):
        return get(f"http://127.0.0.1:{self.ports['metrics']}/metrics", **headers)

    def infer(self, name, value=1, tensor="IN", shape=(1, 1), **headers):
        body = {"inputs": [{"name": tensor, "datatype": "INT32", "shape": list(shape),
                            "data": [value] * math.prod(shape)}]}
        request = urllib.request.Request(f"{self.url}/v2/models/{name}/infer",
                                         json.dumps(body).encode(),
                                         {"Content-Type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return reply.status
        except urllib.error.HTTPError as refusal:
            return refusal.code

    def bench(self, *options):
        """A load generator for the whole time."""
        return subprocess.Popen(
            [self.build / "neso", "bench", *options, f"--measurement-interval={LOAD_SECONDS * 1000}",
             "--max-trials=1", "--warmup-request-count=1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ask_round(neso, number, pool):
    """One request to each model, some to be refused; returns how many had another status than expected."""
    slow = [pool.submit(neso.infer, "slow", shape=(1,)) for _ in range(4)]
    wrong = 0
    for name in ("plain", "batched", "first", "ensemble", "python"):
        wrong += neso.infer(name, number) != 200
    wrong += neso.infer("composite", number, "INPUT0", (1 + number % 4, 1)) != 200
    wrong += neso.infer("cached", number % 40 * (number % 2)) != 200
    wrong += neso.infer("ends", number) == 200
    wrong += neso.infer("plain", number, **{"X-Api-Key": "unknown"}) != 401
    wrong += not {one.result() for one in slow} <= {200, 429, 503}
    return wrong


def make_load(neso):
    grpc = ("-i", "grpc", "-u", f"127.0.0.1:{neso.ports['grpc']}")
    benches = [neso.bench("-m", "plain", *grpc, "--request-rate-range=20"),
               neso.bench("-m", "stream", *grpc, "--streaming", "--request-rate-range=10"),
               neso.bench("-m", "sums", *grpc, "--streaming", "--request-rate-range=20",
                          "--num-of-sequences=3", "--sequence-length=6")]
    deadline, number, wrong = time.monotonic() + LOAD_SECONDS, 0, 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        while time.monotonic() < deadline:
            wrong += ask_round(neso, number, pool)
            number += 1
            time.sleep(0.1)
    for one in benches:
        text, _ = one.communicate(timeout=3 * PATIENCE_SECONDS)
        if one.returncode != 0:
            fail(f"neso bench: status {one.returncode}\n{text}")
    if wrong > 0:
        fail(f"{wrong} requests of {number} rounds had an unexpected status")


class Prometheus:
    def __init__(self, folder, target):
        self.url = f"http://127.0.0.1:{free_port()}"
        rules = [str(DEPLOY / "prometheus" / name) for name in ("recording.yaml", "alerts.yaml")]
        config = {"global": {"scrape_interval": "2s", "scrape_timeout": "2s",
                             "evaluation_interval": "2s"},
                  "rule_files": rules,
                  "scrape_configs": [{"job_name": "neso",
                                      "static_configs": [{"targets": [target]}]}]}
        (folder / "prometheus.json").write_text(json.dumps(config))
        self.command = ["prometheus", f"--config.file={folder / 'prometheus.json'}",
                        f"--storage.tsdb.path={folder / 'data'}",
                        f"--web.listen-address={self.url.removeprefix('http://')}",
                        "--enable-feature=exemplar-storage", "--log.level=warn"]

    def ask(self, path, **arguments):
        try:
            answer = get(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}")
        except urllib.error.HTTPError as refusal:
            return None, refusal.read().decode()
        return json.loads(answer)["data"], ""

    def values(self, query):
        """Numbers of all series; with an error, None and its text."""
        data, error = self.ask("query", query=query)
        if data is None:
            return None, error
        return [float(series["value"][1]) for series in data["result"]], ""


# ---- the questions ------------------------------------------------------------------------------


def queries_of(path):
    board = json.loads(path.read_text())
    variables = {one["name"]: one.get("allValue") for one in board["templating"]["list"]}
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$__rate_interval", WINDOW)
            for name, value in variables.items():
                query = query.replace(f"${name}", value or "")
            yield panel["title"], query


def empty_panels(prometheus):
    found, n = [], 0
    for path in sorted((DEPLOY / "grafana").glob("*.json")):
        for title, query in queries_of(path):
            values, error = prometheus.values(query)
            n += 1
            if "$" in query:
                found.append(f"{path.name}: {title}: a variable is left in {query}")
            elif values is None:
                found.append(f"{path.name}: {title}: {error}")
            elif not any(math.isfinite(value) for value in values):
                found.append(f"{path.name}: {title}: no value: {query}")
    return found, n


def bad_rules(prometheus):
    found, n = [], 0
    groups, error = prometheus.ask("rules")
    if groups is None:
        return [error], 0
    for rule in (rule for group in groups["groups"] for rule in group["rules"]):
        n += 1
        if rule["health"] != "ok":
            found.append(f"{rule['name']}: {rule['health']} {rule.get('lastError', '')}")
        if rule["type"] == "recording" and not prometheus.values(rule["name"])[0]:
            found.append(f"{rule['name']}: no series")
    return found, n


def check_answers(prometheus, neso):
    problems, n_queries = empty_panels(prometheus)
    more, n_rules = bad_rules(prometheus)
    problems += more
    targets, _ = prometheus.ask("targets")
    problems += [f"scrape: {one['lastError']}" for one in targets["activeTargets"]
                 if one["health"] != "up"]
    now = time.time()
    exemplars, error = prometheus.ask("query_exemplars", query="neso_request_duration_seconds_bucket",
                                      start=now - 600, end=now)
    ids = {one["labels"].get("trace_id", "") for series in exemplars or ()
           for one in series["exemplars"]}
    if not ids or not all(re.fullmatch("[0-9a-f]{32}", one) for one in ids):
        problems.append(f"exemplars: {error or sorted(ids)}")
    problems += lint(neso.metrics())
    if problems:
        fail("\n".join([f"{len(problems)} problems", *problems]))
    return n_queries, n_rules, len(ids)


def lint(page):
    ended = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True,
                           text=True, check=False)
    lines = (ended.stdout + ended.stderr).splitlines()
    if ended.returncode not in (0, 3):  # 3: it has suggestions
        return lines
    return [f"promtool: {line}" for line in lines if not OLDER_NAMES.match(line)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.environ.get("NESO_BUILD", ROOT / "build"),
                        type=pathlib.Path)
    build = parser.parse_args().build.resolve()
    began = time.monotonic()
    n_alerts = check_files()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_models(folder / "models")
        neso = Neso(build, folder)
        prometheus = Prometheus(folder, f"127.0.0.1:{neso.ports['metrics']}")
        with process(neso.command, folder / "neso.log") as one:
            wait_until(neso.metrics, "the server does not start", one, folder / "neso.log")
            with process(prometheus.command, folder / "prometheus.log") as two:
                wait_until(lambda: prometheus.values("up")[0], "Prometheus does not start", two,
                           folder / "prometheus.log")
                make_load(neso)
                n_queries, n_rules, n_ids = check_answers(prometheus, neso)
    print(f"boards: {n_queries} queries have values, {n_rules} rules evaluate, {n_alerts} alerts are "
          f"tested, {n_ids} traces are exemplars; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
