#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Steps of an ensemble and stages of a chain come, change and go under constant load.

  tests/stress/pipelines.py --build=build [--seconds=120] [--any-memory]

Sixteen clients ask an ensemble and a chain by `next` of the same three models, over connections that
they keep. Each step adds ten of its generation's number to each of two values, so an answer says which
generation of each step it is from: the two values must agree, and the generations must be ones that
were in force between the question and its answer. Every 200 ms one of the steps is reloaded, unloaded
and loaded again, replaced by one that does not fit, or broken.

Fails when an answer is missing, of no generation that was in force, or an error that this does not ask
for; when a change has another outcome than it must have; or when the server's resident memory ends more
than 5 % (and more than 2 MiB) above what it was after a round to warm up.
"""
import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

CLIENTS = 16
INTERVAL_SECONDS = 0.2
GROWTH_ALLOWED = 0.05
GROWTH_IGNORED_KIB = 2048
STEPS = ("s0", "s1", "s2")
UNIT = (1, 1000, 1000000)  # of each step's part in an answer: up to 999 generations of each

# Of a request that comes while a step is not there, or does not fit.
ALLOWED = [re.compile(text) for text in (
    r"Request for unknown model: 'ensemble' (has no available versions|version 1 is not at ready "
    r"state)$",
    r"next model 's[12]' is not ready$",
    r"output 'OUT' of model 's\d' does not fit input 'IN' of its next model 's\d': data types ",
    # The first stage is the chain's own model: without it there is no chain.
    r"Request for unknown model: 's0' (has no available versions|version 1 is not at ready state)$",
)]


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def step_text(at, generation, data_type="TYPE_INT32", extra=""):
    following = parameter("next", STEPS[at + 1]) if at + 1 < len(STEPS) else ""
    return ('backend: "testing" max_batch_size: 8\n'
            f'input {{ name: "IN" data_type: {data_type} dims: [2] }}\n'
            f'output {{ name: "OUT" data_type: {data_type} dims: [2] }}\n'
            "dynamic_batching { }\ninstance_group { count: 1 kind: KIND_CPU }\n"
            + parameter("add", UNIT[at] * generation) + following + extra)


def ensemble_text():
    text = ('platform: "ensemble"\nmax_batch_size: 8\n'
            'input { name: "IN" data_type: TYPE_INT32 dims: [2] }\n'
            'output { name: "OUT" data_type: TYPE_INT32 dims: [2] }\nensemble_scheduling {\n')
    for i, model in enumerate(STEPS):
        before = "IN" if i == 0 else f"t{i}"
        after = "OUT" if i + 1 == len(STEPS) else f"t{i + 1}"
        text += (f'step {{ model_name: "{model}" model_version: -1 input_map {{ key: "IN" value: '
                 f'"{before}" }} output_map {{ key: "OUT" value: "{after}" }} }}\n')
    return text + "}\n"


class Generations:
    """Which ones of each step may be seen: those in force since a question was sent."""

    def __init__(self):
        self._lock = threading.Lock()
        self._history = [[{1}] for _ in STEPS]

    def now(self):
        with self._lock:
            return [len(h) - 1 for h in self._history]

    def allow(self, at, *generations):
        with self._lock:
            self._history[at].append(set(generations))

    def since(self, when):
        with self._lock:
            return [set().union(*h[w:]) for h, w in zip(self._history, when)]


class Failed(Exception):
    pass


class Client(threading.Thread):
    def __init__(self, run, number):
        super().__init__(daemon=True)
        self.owner = run
        self.model = ("ensemble", "s0")[number % 2]
        self.answers = self.refusals = 0
        self.wrong = None

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.owner.port, timeout=60)
        body = json.dumps({"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1, 2],
                                       "data": [0, 0]}]})
        try:
            while not self.owner.stop.is_set():
                self.ask(connection, body)
        except Exception as failure:  # pylint: disable=broad-except
            self.wrong = f"{self.model}: {failure!r}"

    def ask(self, connection, body):
        when = self.owner.generations.now()
        connection.request("POST", f"/v2/models/{self.model}/infer", body)
        reply = connection.getresponse()
        answer = json.loads(reply.read())
        allowed = self.owner.generations.since(when)
        if reply.status != 200:
            if not any(p.match(answer["error"]) for p in ALLOWED):
                raise Failed(f"{reply.status} {answer['error']}")
            self.refusals += 1
            return
        first, second = answer["outputs"][0]["data"]
        seen = [first % 1000, first // 1000 % 1000, first // 1000000]
        if first != second or any(s not in a for s, a in zip(seen, allowed)):
            raise Failed(f"{first}, {second} is of {seen}, not of {allowed}")
        self.answers += 1


class Run:
    def __init__(self, build, folder):
        self.repository = os.path.join(folder, "models")
        self.generations = Generations()
        self.generation = [1] * len(STEPS)
        self.stop = threading.Event()
        for at, name in enumerate(STEPS):
            os.makedirs(os.path.join(self.repository, name, "1"))
            self.write(name, step_text(at, 1))
        os.makedirs(os.path.join(self.repository, "ensemble", "1"))
        self.write("ensemble", ensemble_text())
        self.log = open(os.path.join(folder, "log"), "w+", encoding="utf-8")
        self.server = subprocess.Popen(
            [os.path.join(build, "neso"), "serve", f"--model-repository={self.repository}",
             f"--backend-directory={os.path.join(build, 'backends')}", "--http-address=127.0.0.1",
             "--http-port=0", "--allow-grpc=false", "--metrics-port=0",
             "--model-control-mode=explicit", "--load-model=ensemble", "--load-model=s0"],
            stdout=self.log, stderr=subprocess.STDOUT)
        self.port = self.wait_for_port()
        self.control = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def wait_for_port(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.server.poll() is None:
            match = re.search(r"Started HTTPService at [^\s\"]+:(\d+)", self.text())
            if match:
                return int(match.group(1))
            time.sleep(0.05)
        raise Failed("the server did not start:\n" + self.text())

    def text(self):
        with open(self.log.name, encoding="utf-8") as log:
            return log.read()

    def write(self, model, text):
        path = os.path.join(self.repository, model, "config.pbtxt")
        with open(path + ".new", "w", encoding="utf-8") as config:
            config.write(text)
        os.rename(path + ".new", path)

    def order(self, verb, model, expected=200):
        self.control.request("POST", f"/v2/repository/models/{model}/{verb}")
        reply = self.control.getresponse()
        text = reply.read().decode()
        if reply.status != expected:
            raise Failed(f"{verb} {model}: {reply.status} {text}")

    def rss_kib(self):
        with open(f"/proc/{self.server.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))

    # ---- changes ----

    def next_generation(self, at):
        return self.generation[at] % 997 + 1

    def reload(self, at):
        new = self.next_generation(at)
        self.write(STEPS[at], step_text(at, new))
        self.generations.allow(at, self.generation[at], new)
        self.order("load", STEPS[at])
        self.generations.allow(at, new)
        self.generation[at] = new

    def unload_and_load(self, at):
        self.order("unload", STEPS[at])
        time.sleep(INTERVAL_SECONDS / 4)
        self.reload(at)

    def unfit(self, at):
        """The last one has no next one, so it serves by itself; an earlier one is refused."""
        is_last = at + 1 == len(STEPS)
        self.write(STEPS[at], step_text(at, self.generation[at], "TYPE_FP32"))
        self.order("load", STEPS[at], 200 if is_last else 400)
        time.sleep(INTERVAL_SECONDS / 4)
        self.reload(at)

    def broken(self, at):
        self.write(STEPS[at], step_text(at, self.generation[at],
                                        extra=parameter("fail_load", "broken")))
        self.order("load", STEPS[at], 400)
        self.reload(at)

    def change(self, n):
        (self.reload, self.unload_and_load, self.unfit, self.broken)[n // len(STEPS) % 4](
            n % len(STEPS))

    def check_end(self):
        """Both serve the last generation of each."""
        wanted = sum(u * g for u, g in zip(UNIT, self.generation))
        for model in ("ensemble", "s0"):
            self.control.request("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": [
                {"name": "IN", "datatype": "INT32", "shape": [1, 2], "data": [0, 0]}]}))
            reply = self.control.getresponse()
            answer = json.loads(reply.read())
            if reply.status != 200 or answer["outputs"][0]["data"] != [wanted, wanted]:
                raise Failed(f"{model} ends with {answer}, not {wanted}")


def run_all(run, seconds):
    clients = [Client(run, i) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    began, n, warm = time.monotonic(), 0, 0
    n_warm = 4 * len(STEPS)
    while (time.monotonic() < began + seconds or n < 2 * n_warm) and not any(
            c.wrong for c in clients):
        run.change(n)
        n += 1
        time.sleep(INTERVAL_SECONDS)
        if n == n_warm:
            warm = run.rss_kib()
    run.stop.set()
    for client in clients:
        client.join(60)
    wrong = [c.wrong or "does not end" for c in clients if c.wrong or c.is_alive()]
    if wrong:
        raise Failed("; ".join(wrong))
    run.check_end()
    return n, sum(c.answers for c in clients), sum(c.refusals for c in clients), warm


def end(run):
    run.server.terminate()
    try:
        code = run.server.wait(60)
    except subprocess.TimeoutExpired:
        run.server.kill()
        raise Failed("the server does not end:\n" + run.text()) from None
    if code != 0 or "Sanitizer" in run.text():
        raise Failed(f"exit code {code}:\n" + run.text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--any-memory", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(os.path.abspath(arguments.build), folder)
        try:
            n, answers, refusals, warm = run_all(run, arguments.seconds)
            grown = run.rss_kib() - warm
            end(run)
        except (Failed, OSError) as failure:
            run.server.kill()
            print(f"FAILED: {failure}")
            return 1
        print(f"{n} changes, {answers} answers, {refusals} refusals while a step was away; memory "
              f"{warm} KiB, {grown:+} KiB")
        if not answers or not refusals:
            print("FAILED: nothing was seen")
            return 1
        if not arguments.any_memory and grown > max(GROWTH_IGNORED_KIB, warm * GROWTH_ALLOWED):
            print("FAILED: the memory grows")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
