#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Steps of an ensemble and stages of a chain come, change and go under constant load.

  make soak-pipelines      or      tests/stress/pipelines.py --build=build [--seconds=300] [--any-memory]

Sixteen clients ask an ensemble and a chain by `next` of the same three models, over connections that
they keep. Each step adds ten of its generation's number to each of two values, so an answer says which
generation of each step it is from: the two values must agree, and the generations must have been in
force together at one time between the question and its answer. Every 200 ms one of the steps is
reloaded, unloaded and loaded again, replaced by one that does not fit, or broken.

Fails when an answer is lost, of a set of generations that was never in force, or an error that the
change does not explain; when a change has another outcome than it must have; or when the server's
resident memory ends more than 5 % (and more than 2 MiB) above what it was after a round to warm up.
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
    """Which sets of generations, one of each step, may be seen: those in force since a question was sent.

    While a step is being replaced, its old and its new one are in force; only one changes at a time.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._history = [tuple({1} for _ in STEPS)]

    def now(self):
        with self._lock:
            return len(self._history) - 1

    def allow(self, at, *generations):
        with self._lock:
            last = self._history[-1]
            self._history.append((*last[:at], set(generations), *last[at + 1:]))

    def since(self, when):
        with self._lock:
            return self._history[when:]


class Failed(Exception):
    pass


class Client(threading.Thread):
    def __init__(self, run, number):
        super().__init__(daemon=True)
        self.owner = run
        self.model = ("ensemble", "s0")[number % 2]
        self.questions = self.answers = self.refusals = 0
        self.errors = []  # that no change explains
        self.mixtures = []  # answers of no set that was in force
        self.lost = []  # questions without an answer, or with half of one
        self.connection = self.connect()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.owner.port, timeout=60)

    def run(self):
        body = json.dumps({"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1, 2],
                                       "data": [0, 0]}]})
        while not self.owner.stop.is_set():
            self.questions += 1
            try:
                self.ask(body)
            except (OSError, http.client.HTTPException, ValueError, LookupError) as failure:
                self.lost.append(f"{self.model}: {failure!r}")
                self.connection.close()
                self.connection = self.connect()

    def ask(self, body):
        when = self.owner.generations.now()
        self.connection.request("POST", f"/v2/models/{self.model}/infer", body)
        reply = self.connection.getresponse()
        answer = json.loads(reply.read())
        allowed = self.owner.generations.since(when)
        if reply.status != 200:
            if any(p.match(answer["error"]) for p in ALLOWED):
                self.refusals += 1
            else:
                self.errors.append(f"{self.model}: {reply.status} {answer['error']}")
            return
        first, second = answer["outputs"][0]["data"]
        seen = (first % 1000, first // 1000 % 1000, first // 1000000)
        if first == second and any(all(s in a for s, a in zip(seen, sets)) for sets in allowed):
            self.answers += 1
        else:
            self.mixtures.append(f"{self.model}: {first}, {second} is of {seen}, not of {allowed}")


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
    """The clients, how many changes there were, and the memory after each round of them but the first,
    which warms up."""
    clients = [Client(run, i) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    began, n, memory = time.monotonic(), 0, []
    n_round = 4 * len(STEPS)
    while time.monotonic() < began + seconds or n < 2 * n_round:
        run.change(n)
        n += 1
        time.sleep(INTERVAL_SECONDS)
        if n % n_round == 0:
            memory.append(run.rss_kib())
    run.stop.set()
    for client in clients:
        client.join(90)
        if client.is_alive():
            client.lost.append(f"{client.model}: the last question has no answer")
    run.check_end()
    return clients, n, memory


def report(clients, n, memory):
    """Prints the figures; false when one must be 0 and is not."""
    count = lambda model, field: sum(getattr(c, field) for c in clients if c.model == model)
    for model, form in (("ensemble", "ensemble"), ("s0", "chain")):
        print(f"{form}: {count(model, 'questions')} questions, {count(model, 'answers')} answers, "
              f"{count(model, 'refusals')} refusals while a step was away")
    print(f"{n} changes; memory {memory[0]} KiB at the start, {memory[len(memory) // 2]} KiB half-way, "
          f"{memory[-1]} KiB at the end ({memory[-1] - memory[0]:+})")
    is_right = True
    for title, field in (("lost answers", "lost"), ("errors that are not specified", "errors"),
                         ("inconsistent sets of versions", "mixtures")):
        found = [text for c in clients for text in getattr(c, field)]
        print(f"{title}: {len(found)}")
        for text in found[:5]:
            print(f"  {text}")
        is_right = is_right and not found
    return is_right


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
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--any-memory", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(os.path.abspath(arguments.build), folder)
        try:
            clients, n, memory = run_all(run, arguments.seconds)
            is_right = report(clients, n, memory)
            end(run)
        except (Failed, OSError) as failure:
            run.server.kill()
            print(f"FAILED: {failure}")
            return 1
        if not is_right:
            print("FAILED")
            return 1
        if not all(sum(getattr(c, field) for c in clients if c.model == model)
                   for field in ("answers", "refusals") for model in ("ensemble", "s0")):
            print("FAILED: nothing was seen")
            return 1
        grown = memory[-1] - memory[0]
        if not arguments.any_memory and grown > max(GROWTH_IGNORED_KIB, memory[0] * GROWTH_ALLOWED):
            print("FAILED: the memory grows")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
