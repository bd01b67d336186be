#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes that are killed or stopped: the server, the processes of Python models, clients.

  make faults-processes       or       tests/faults/processes.py [--build=build] [--only=SCENE;...] [--kills=500]

An answer stays true when the server is killed a moment later; each request gets a result or an error;
what is killed comes back; nothing stays behind. A process that is stopped for five seconds delays its own requests
and no others.
"""
import collections
import http.client
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import scenes
from scenes import IDENTITY, PYTHON, PYTHON_MODEL, Client, ask_metric, check, children_of, wait_until

EXPLICIT = "--model-control-mode=explicit"
STOPPED_SECONDS = 5
N_CLIENTS = 6
SLOW_PYTHON = PYTHON_MODEL.replace("import triton", "import time\n\nimport triton").replace(
    "        return [", "        time.sleep(0.003)\n        return [").replace("    def execute", """\
    def initialize(self, args):
        time.sleep(0.03)

    def finalize(self):
        time.sleep(0.03)

    def execute""")
MODELS = {"plain": IDENTITY, "python": {"config.pbtxt": PYTHON, "1/model.py": PYTHON_MODEL}}
RESET = (OSError, http.client.HTTPException)


class Load:
    """Clients that infer until the block ends. With `retries` they repeat a request whose connection ends."""

    def __init__(self, port, models, n_clients=N_CLIENTS, retries=False, allowed=None):
        self.port, self.models, self.retries, self.allowed = port, models, retries, allowed
        self.has_ended = threading.Event()
        self.lock = threading.Lock()
        self.n_right = self.n_again = 0
        self.longest = 0.0
        self.errors = collections.Counter()
        self.wrong = []
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(n_clients)]

    def work(self, number):
        client, i = Client(self.port), 0
        while not self.has_ended.is_set():
            model, values = self.models[(number + i) % len(self.models)], [float(number), float(i)]
            begin = time.monotonic()
            try:
                answer = client.infer(model, values)
                if self.retries and answer[0] == 503:  # it starts, or ends
                    self.has_ended.wait(0.005)
                    continue
                self.note(answer, values, time.monotonic() - begin)
            except RESET as error:
                if not self.retries:
                    with self.lock:
                        self.wrong.append(repr(error))
                    return
                with self.lock:
                    self.n_again += 1
                self.has_ended.wait(0.005)
                continue  # the same request again
            i += 1
            if answer[0] != 200:
                self.has_ended.wait(0.005)
        client.close()

    def note(self, answer, values, seconds):
        status, got = answer
        with self.lock:
            self.longest = max(self.longest, seconds)
            if status == 200 and got == values:
                self.n_right += 1
            elif status != 200 and self.allowed is not None and self.allowed.search(got):
                self.errors[re.sub(r"'\w+'|\d+", "_", got)[:60]] += 1
            else:
                self.wrong.append(f"{status} {got}, not {values}")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.has_ended.set()
        for thread in self.threads:
            thread.join()
        if error[0] is None:
            check(not self.wrong, f"{len(self.wrong)} wrong answers: {self.wrong[:3]}")
            check(self.n_right > 0, "no request was answered")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def has_ended(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def shared_names():
    return {name for name in os.listdir("/dev/shm") if "neso" in name or "triton" in name}


# ---- the server is killed ----


def killed_server(stage):
    """Clients that retry get right answers from one server after the other, on the same port."""
    repository, port, before = stage.write({**MODELS, "ordered": MODELS["python"]}), free_port(), shared_names()
    temporary = stage.path("tmp", "x").parent
    stage.environment["TMPDIR"] = str(temporary)
    options = (EXPLICIT, "--load-model=plain", "--load-model=python", f"--http-port={port}")
    n_kills, n_told = max(3, stage.options.kills // 50), 0
    with Load(port, ["plain", "python"], retries=True) as load:
        for _ in range(n_kills):
            with stage.serve(repository, *options) as server:
                n_before = load.n_right
                wait_until(lambda n=n_before: load.n_right > n + 20, "clients are served again")
                n_told += tell_and_look(port)
                children = children_of(server.process.pid)
                time.sleep(random.uniform(0, 0.05))
                server.process.kill()
                server.process.wait()
                wait_until(lambda pids=children: all(map(has_ended, pids)), "the processes of the killed server end")
        with stage.serve(repository, *options):
            n_before = load.n_right
            wait_until(lambda: load.n_right > n_before + 20, "clients are served at the end")
    left = [str(path) for path in temporary.rglob("*")]
    check(shared_names() == before, f"regions are left: {shared_names() - before}")
    check(not left, f"left in the temporary folder: {left}")
    return {"kills": n_kills, "answers": load.n_right, "retries": load.n_again, "orders": n_told}


def tell_and_look(port):
    """What an order's answer says is so at once; the number of orders."""
    client = Client(port)
    for verb, wanted in (("unload", False), ("load", True)):
        check(client.order(verb, "ordered")[0] == 200, f"{verb} is refused")
        is_ready = client.ask("GET", "/v2/models/ordered/ready")[0] == 200
        check(is_ready == wanted, f"after the {verb} ready is {is_ready}")
    client.close()
    return 2


# ---- processes of Python models are killed ----

TOLD = re.compile(r"is not healthy|not ready|unavailable|unloading|no ready version|no available versions|is at UNAVAILABLE|"
                  r"Stub process|no version|unknown model|is not loaded")


def stubs_of(server):
    """Without a process for the question: the kernel's list."""
    found = []
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        try:
            found += [int(pid) for pid in (task / "children").read_text().split()]
        except OSError:
            pass
    return found


class Killer:
    """Kills processes of the server at random times, in whatever phase of their lives they are. Each second kill
    comes after an answer, so that on a slow machine not all of them hit a start."""

    def __init__(self, server, load, n_kills):
        self.server, self.load, self.n_kills, self.n = server, load, n_kills, 0
        self.killed = set()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        dice = random.Random(1)
        while self.n < self.n_kills and scenes.is_alive(self.server):
            if self.n % 2:
                n_right, deadline = self.load.n_right, time.monotonic() + 5
                while self.load.n_right == n_right and time.monotonic() < deadline:
                    time.sleep(0.002)
            time.sleep(dice.uniform(0, 0.2))
            alive = [pid for pid in stubs_of(self.server) if pid not in self.killed and not has_ended(pid)]
            if alive:
                pid = dice.choice(alive)
                self.killed.add(pid)
                os.kill(pid, signal.SIGKILL)
                self.n += 1


def killed_python(stage):
    """Models are loaded, asked, changed and unloaded while their processes are killed at random times."""
    names = ["one", "two", "three"]
    repository = stage.write({"plain": IDENTITY, **{name: {"config.pbtxt": PYTHON, "1/model.py": SLOW_PYTHON}
                                                    for name in names}})
    counts = collections.Counter()
    with stage.serve(repository, EXPLICIT, "--load-model=plain") as server:
        load = Load(server.http_port, names, allowed=TOLD)
        killer = Killer(server, load, stage.options.kills)

        def change(name):
            """Fresh processes all the time, since one that crashes often is started again later and later."""
            client, dice = Client(server.http_port), random.Random(name)
            while killer.thread.is_alive():
                for verb in ("load", "unload"):
                    status, text = client.order(verb, name)
                    counts[verb if status == 200 else verb + " refused"] += 1
                    if status != 200 and name not in text:
                        counts["bad texts"] += 1
                    time.sleep(dice.uniform(0, 0.2))

        changers = [threading.Thread(target=change, args=(name,)) for name in names]
        with load, Load(server.http_port, ["plain"], 1) as plain:
            killer.thread.start()
            for thread in changers:
                thread.start()
            killer.thread.join()
            for thread in changers:
                thread.join()
        check(scenes.is_alive(server), f"the server has ended: {server.log[-3:]}")
        check(counts["bad texts"] == 0, "a refused load does not name its model")
        client = Client(server.http_port)
        for name in names:
            status, text = client.order("load", name)
            check(status == 200, f"{name} does not come back: {status} {text}")
            check(client.infer(name, [1.0]) == (200, [1.0]), f"{name} does not answer")
            check(client.order("unload", name)[0] == 200, f"{name} is not unloaded")
        wait_until(lambda: not children_of(server.process.pid), "all processes end")
        wait_until(lambda: "memfd:neso_python" not in pathlib.Path(f"/proc/{server.process.pid}/maps").read_text(),
                   "all regions are given back")
    for text, n in load.errors.most_common():
        print(f"  {n} times: {text}")
    return {"kills": killer.n, "answers": load.n_right, "errors": sum(load.errors.values()), **counts,
            "answers of another model": plain.n_right}


# ---- stopped ----


def stopped_python(stage):
    """Requests of the model wait for it; other models, metrics and health do not."""
    repository = stage.write(MODELS)
    with stage.serve(repository) as server:
        [pid] = children_of(server.process.pid)
        client, slow = Client(server.http_port), Client(server.http_port)
        check(client.infer("python", [1.0]) == (200, [1.0]), "no answer before")
        answers = []
        os.kill(pid, signal.SIGSTOP)
        begin = time.monotonic()
        thread = threading.Thread(target=lambda: answers.append(slow.infer("python", [2.0])))
        thread.start()
        with Load(server.http_port, ["plain"], 2) as load:
            time.sleep(STOPPED_SECONDS)
            ask_metric(server, "nv_inference_count")
        check(not answers, "an answer of a stopped process")
        os.kill(pid, signal.SIGCONT)
        thread.join(scenes.SECONDS)
        check(answers == [(200, [2.0])], f"after the stop: {answers}")
        check(time.monotonic() - begin >= STOPPED_SECONDS, "the clock is wrong")
        check(load.longest < STOPPED_SECONDS - 1, f"another model took {load.longest:.1f} s")
        check(ask_metric(server, "neso_python_restarts_total") == 0, "the process was started again")
    return {"answers meanwhile": load.n_right, "longest, ms": round(1000 * load.longest)}


CLIENT = """import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
values = [float(i) for i in range(50000)]
body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [50000], "datatype": "FP32", "data": values}]})
print("begins", flush=True)
while True:
    connection.request("POST", "/v2/models/plain/infer", body)
    answer = connection.getresponse()
    text = answer.read()
    print(answer.status == 200 and json.loads(text)["outputs"][0]["data"] == values, flush=True)
"""


def stopped_client(stage):
    """Its answers wait for it, whole; other clients do not."""
    repository = stage.write(MODELS)
    with stage.serve(repository) as server, subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(server.http_port)], stdout=subprocess.PIPE, text=True) as client:
        for _ in range(3):
            client.stdout.readline()
        client.send_signal(signal.SIGSTOP)
        with Load(server.http_port, ["plain", "python"]) as load:
            time.sleep(STOPPED_SECONDS)
        client.send_signal(signal.SIGCONT)
        lines = [client.stdout.readline().strip() for _ in range(10)]
        client.kill()
        check(lines == ["True"] * 10, f"its answers: {lines}")
        check(load.longest < STOPPED_SECONDS - 1, f"another client waited {load.longest:.1f} s")
    return {"answers meanwhile": load.n_right, "longest, ms": round(1000 * load.longest)}


def stopped_server(stage, seconds=STOPPED_SECONDS):
    """All requests are answered once, late; no process of a model is taken for dead."""
    repository = stage.write(MODELS)
    with stage.serve(repository) as server, Load(server.http_port, ["plain", "python"]) as load:
        wait_until(lambda: load.n_right > 20, "the first answers")
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        n_before = load.n_right
        server.process.send_signal(signal.SIGCONT)
        wait_until(lambda: load.n_right > n_before + 100, "answers afterwards")
        check(load.longest >= seconds - 1, "no request was under way")
        check(ask_metric(server, "neso_python_restarts_total") == 0, "a process was started again")
    return {"answers": load.n_right, "longest, s": round(load.longest, 1)}


SCENES = {
    "killed server": killed_server,
    "killed Python processes": killed_python,
    "stopped Python process": stopped_python,
    "stopped client": stopped_client,
    "stopped server": stopped_server,
}

if __name__ == "__main__":
    sys.exit(scenes.main(__doc__, SCENES))
