#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reloads without end under constant load: nothing fails, nothing is mixed, nothing is left behind.

  make soak-reloads   or   tests/stress/reloads.py --build=build [--seconds=300] [--mode=explicit]
                           [--file=labels]

Sixteen clients ask a model over connections that they keep: for the labels of two classes, or, with
--file=onnx, for two numbers that are constants of its ONNX file. Both values of an answer must be of
one generation, and of one that was in force between the question and its answer. Meanwhile the
model is changed; "a file" is the one that the values come from:

  explicit   every 200 ms, in rotation: the same again, a changed configuration, a changed file,
             another number of instances, a broken file, a broken configuration, files that are
             sent with the request
  poll       a second between polls; a file and the configuration, each once replaced by a rename
             and once written in place bit by bit; another number of instances, a broken file, a
             broken configuration

Fails when an answer is wrong or missing, when a change has another outcome than it must have, when
the server's resident memory is more than 5 % (and more than 1 MiB, in which the allocator's pages come
and go) above what it was after a round to warm up, or when descriptors or files in $TMPDIR are left.
"""
import argparse
import base64
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENTS = 16
INTERVAL_SECONDS = 0.2
GROWTH_ALLOWED = 0.05
GROWTH_IGNORED_KIB = 1024
SETTLE_SECONDS = 2  # until the last models that were replaced have ended
SLOW_SECONDS = 3    # of writing a file in place: three polls find it unfinished
POLL_SECONDS = 20   # at most, until a change is seen


class Generations:
    """Which ones may be seen: those in force since a question was sent."""

    def __init__(self):
        self._lock = threading.Lock()
        self._history = [(0, {1})]  # (number of the change, generations in force)

    def now(self):
        with self._lock:
            return len(self._history) - 1

    def allow(self, *generations):
        with self._lock:
            self._history.append((len(self._history), set(generations)))

    def since(self, at):
        with self._lock:
            return set().union(*(allowed for _, allowed in self._history[at:]))


class Model:
    """The files of a model whose answers are its labels."""

    def __init__(self, folder):
        self.folder = folder
        self.generation = 1
        self.count = 1
        self.variant = 0
        self.n_broken = 0
        os.makedirs(os.path.join(folder, "1"))
        self.write_file()
        self.write_config()

    # ---- what the kinds of models differ in ----

    body = json.dumps({
        "inputs": [{"name": "INPUT0", "shape": [2], "datatype": "FP32", "data": [2, 1]}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"classification": 2}}]})
    sent_name = "sent.txt"
    sent_beside = {"file:1/model": ""}

    @staticmethod
    def read(values):
        """The generations that an answer's two values are of."""
        return [int(value.rsplit("-", 1)[1]) for value in values]

    def file_name(self):
        return f"labels-{self.variant}.txt"

    def file_bytes(self):
        return f"first-{self.generation}\nsecond-{self.generation}\n".encode()

    def config(self):
        return (f'backend: "identity" input {{ name: "INPUT0" data_type: TYPE_FP32 dims: [2] }}\n'
                f'output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [2] '
                f'label_filename: "{self.file_name()}" }}\n'
                f'instance_group {{ count: {self.count} kind: KIND_CPU }}\n')

    def config_of_sent(self):
        return {"backend": "identity",
                "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [2]}],
                "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [2],
                            "label_filename": self.sent_name}]}

    # ---- ----

    def replace(self, name, content):
        new = os.path.join(self.folder, ".new")
        with open(new, "wb") as file:
            file.write(content)
        os.rename(new, os.path.join(self.folder, name))

    def write_file(self):
        self.replace(self.file_name(), self.file_bytes())

    def write_config(self):
        self.replace("config.pbtxt", self.config().encode())

    def break_file(self):
        """In turn: it is gone, or a link that leads out of the model."""
        path = os.path.join(self.folder, self.file_name())
        self.n_broken += 1
        os.remove(path)
        if self.n_broken % 2 == 0:
            os.symlink("/etc/hostname", path)

    def write_slowly(self, name, content):
        """In place, in pieces, so that polls find it unfinished."""
        step = -(-len(content) // 100)
        with open(os.path.join(self.folder, name), "wb") as file:
            for at in range(0, len(content), step):
                file.write(content[at:at + step])
                file.flush()
                time.sleep(SLOW_SECONDS * step / len(content))

    def sent(self):
        """Parameters of a load that brings the model along."""
        content = base64.b64encode(self.file_bytes()).decode()
        return {"config": json.dumps(self.config_of_sent()), f"file:{self.sent_name}": content,
                **self.sent_beside}


class OnnxModel(Model):
    """A model whose answers are constants of its ONNX file."""

    body = json.dumps({
        "inputs": [{"name": "INPUT0", "shape": [2], "datatype": "FP32", "data": [2, 1]}]})
    sent_name = "1/sent.onnx"
    sent_beside = {}

    @staticmethod
    def read(values):
        return [int(value) for value in values]

    def file_name(self):
        return f"1/model-{self.variant}.onnx"

    def file_bytes(self):
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import helper, TensorProto  # pylint: disable=import-outside-toplevel

        def floats(name, *values):
            return helper.make_tensor(name, TensorProto.FLOAT, [2], values)

        def port(name):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])

        nodes = [helper.make_node("Mul", ["INPUT0", "zero"], ["none"]),
                 helper.make_node("Add", ["none", "generation"], ["OUTPUT0"])]
        graph = helper.make_graph(nodes, "generation", [port("INPUT0")], [port("OUTPUT0")],
                                  [floats("zero", 0, 0),
                                   floats("generation", self.generation, self.generation)])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        made.ir_version = min(made.ir_version, 8)
        onnx.checker.check_model(made)
        return made.SerializeToString()

    def config_of_sent(self):
        return {"backend": "onnxruntime", "default_model_filename": "sent.onnx",
                "parameters": {"intra_op_thread_count": {"string_value": "1"}},
                "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [2]}],
                "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [2]}]}

    def config(self):
        return (f'backend: "onnxruntime" default_model_filename: "model-{self.variant}.onnx"\n'
                'input { name: "INPUT0" data_type: TYPE_FP32 dims: [2] }\n'
                'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [2] }\n'
                'parameters { key: "intra_op_thread_count" value { string_value: "1" } }\n'
                f'instance_group {{ count: {self.count} kind: KIND_CPU }}\n')


class Client(threading.Thread):
    def __init__(self, port, model, generations, is_over):
        super().__init__(daemon=True)
        self.n_answers = 0
        self.seen = set()
        self.failures = []
        self._port = port
        self._model = model
        self._generations = generations
        self._is_over = is_over

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while not self._is_over.is_set() and not self.failures:
            try:
                self._ask(connection)
            except Exception as error:  # pylint: disable=broad-except
                self.failures.append(repr(error))
        connection.close()

    def _ask(self, connection):
        at = self._generations.now()
        connection.request("POST", "/v2/models/m/infer", self._model.body)
        reply = connection.getresponse()
        text = reply.read()
        if reply.status != 200:
            self.failures.append(f"{reply.status} {text!r}")
            return
        found = self._model.read(json.loads(text)["outputs"][0]["data"])
        allowed = self._generations.since(at)
        if len(found) != 2 or found[0] != found[1] or found[0] not in allowed:
            self.failures.append(f"{text!r}: allowed are {allowed}")
        self.seen.add(found[0])
        self.n_answers += 1


class Server:
    def __init__(self, build, repository, options):
        self.process = subprocess.Popen(
            [os.path.join(build, "neso"), "serve", "--model-repository", repository,
             "--backend-directory", os.path.join(build, "backends"), "--http-address", "127.0.0.1",
             "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *options],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for line in self.process.stderr:
            found = re.search(r"Started HTTPService at 127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        else:
            raise SystemExit("the server did not start")
        # Read on, so that the log never stops the server; only the end of it is kept.
        self.log = []
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self):
        for line in self.process.stderr:
            self.log = self.log[-200:] + [line]

    def load(self, parameters=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = json.dumps({"parameters": parameters}) if parameters else ""
        connection.request("POST", "/v2/repository/models/m/load", body)
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        return reply.status, text

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))


class Explicit:
    """One change by request after the other."""

    options = ("--model-control-mode=explicit", "--load-model=m")

    def __init__(self, server, model, generations, clients):
        self.server, self.model, self.generations, self.clients = (server, model, generations,
                                                                   clients)
        self.steps = [self.same, self.config, self.file, self.instances, self.broken_file,
                      self.broken_config, self.sent_files]
        self.in_force = 1
        self.due = time.monotonic()

    def load(self, generation=None, parameters=None, fails=False):
        generation = generation or self.in_force
        if not fails:
            self.generations.allow(self.in_force, generation)
        status, text = self.server.load(parameters)
        if (status == 200) == fails:
            raise SystemExit(f"a load was answered {status} {text!r}")
        if not fails:
            self.in_force = generation
            self.generations.allow(generation)

    def same(self):
        self.load(self.model.generation)

    def config(self):
        self.model.generation += 1
        self.model.variant = 1 - self.model.variant
        self.model.write_file()
        self.model.write_config()
        self.load(self.model.generation)

    def file(self):
        self.model.generation += 1
        self.model.write_file()
        self.load(self.model.generation)

    def instances(self):
        self.model.count = self.model.count % 3 + 1
        self.model.write_config()
        self.load(self.model.generation)

    def broken_file(self):
        self.model.break_file()
        self.load(fails=True)
        self.model.write_file()

    def broken_config(self):
        self.model.replace("config.pbtxt", b"nonsense")
        self.load(fails=True)
        self.model.write_config()

    def sent_files(self):
        self.model.generation += 1
        self.load(self.model.generation, self.model.sent())
        self.model.write_file()
        self.model.write_config()  # newer than the one that was sent, which is dropped

    def pause(self):
        self.due = max(self.due + INTERVAL_SECONDS, time.monotonic())
        time.sleep(max(0, self.due - time.monotonic()))


class Poll:
    """One change of the files after the other; each is awaited in the answers."""

    options = ("--model-control-mode=poll", "--repository-poll-secs=1")

    def __init__(self, server, model, generations, clients):
        self.server, self.model, self.generations, self.clients = (server, model, generations,
                                                                   clients)
        self.steps = [self.by_rename, self.in_place, self.instances, self.config_by_rename,
                      self.broken_file, self.config_in_place, self.broken_config]

    def await_generation(self):
        deadline = time.monotonic() + POLL_SECONDS
        while not any(self.model.generation in client.seen for client in self.clients):
            if any(client.failures for client in self.clients):
                return
            if time.monotonic() > deadline:
                raise SystemExit("a change was not seen:\n" + "".join(self.server.log))
            time.sleep(0.02)
        self.generations.allow(self.model.generation - 1, self.model.generation)

    def next_generation(self):
        self.model.generation += 1
        self.generations.allow(self.model.generation - 1, self.model.generation)

    def by_rename(self):
        self.next_generation()
        self.model.write_file()
        self.await_generation()

    def in_place(self):
        self.next_generation()
        self.model.write_slowly(self.model.file_name(), self.model.file_bytes())
        self.await_generation()

    def other_file(self):
        """Of the next generation; no configuration names them yet."""
        self.next_generation()
        self.model.variant = 1 - self.model.variant
        self.model.write_file()

    def config_by_rename(self):
        self.other_file()
        self.model.write_config()
        self.await_generation()

    def config_in_place(self):
        self.other_file()
        self.model.write_slowly("config.pbtxt", self.model.config().encode())
        self.await_generation()

    def instances(self):
        self.model.count = self.model.count % 3 + 1
        self.model.write_config()

    def broken_file(self):
        self.model.break_file()
        time.sleep(2.5)  # two polls: it is tried
        self.model.write_file()

    def broken_config(self):
        self.model.replace("config.pbtxt", b"nonsense")
        time.sleep(2.5)  # two polls: it is tried
        self.model.write_config()

    def pause(self):
        pass


def rounds(mode, clients, until):
    """How often each step was taken."""
    counts = {step.__name__: 0 for step in mode.steps}
    n = 0
    while time.monotonic() < until or n < len(mode.steps):
        step = mode.steps[n % len(mode.steps)]
        step()
        counts[step.__name__] += 1
        n += 1
        if any(client.failures for client in clients):
            break
        mode.pause()
    return counts


def settle(server):
    """The least that it comes down to."""
    deadline = time.monotonic() + SETTLE_SECONDS
    least = server.resident_kib()
    while time.monotonic() < deadline:
        time.sleep(0.1)
        least = min(least, server.resident_kib())
    return least


def left_in(folder):
    return [name for name in os.listdir(folder) if name.startswith("neso-")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--mode", choices=("explicit", "poll"), default="explicit")
    parser.add_argument("--file", choices=("labels", "onnx"), default="labels")
    parser.add_argument("--any-memory", action="store_true", help="do not compare it")
    arguments = parser.parse_args()
    kind = {"explicit": Explicit, "poll": Poll}[arguments.mode]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        repository = os.path.join(folder, "models")
        made = {"labels": Model, "onnx": OnnxModel}[arguments.file]
        model = made(os.path.join(repository, "m"))
        generations, is_over = Generations(), threading.Event()
        server = Server(arguments.build, repository, kind.options)
        clients = [Client(server.port, model, generations, is_over) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        mode = kind(server, model, generations, clients)
        try:
            time.sleep(1)
            print(f"start: resident {server.resident_kib()} KiB", flush=True)
            rounds(mode, clients, time.monotonic() + arguments.seconds / 5)
            before = settle(server), server.descriptors()
            print(f"warm: resident {before[0]} KiB, {before[1]} descriptors, "
                  f"{server.threads()} threads", flush=True)
            begun = time.monotonic()
            counts = rounds(mode, clients, begun + arguments.seconds * 4 / 5)
            interval_ms = (time.monotonic() - begun) / sum(counts.values()) * 1000
            after = settle(server), server.descriptors()
            if arguments.mode == "explicit":
                mode.same()  # sent files are not in use any more
        finally:
            is_over.set()
            for client in clients:
                client.join(60)
        failures = [failure for client in clients for failure in client.failures]
        growth = after[0] / before[0] - 1
        settle(server)
        left = sum(len(names) for _, _, names in os.walk(os.path.join(
            folder, f"neso-{os.geteuid()}")) if names != ["lock"])
        server.process.terminate()
        code = server.process.wait(60)
        print(", ".join(f"{name} {n}" for name, n in counts.items()))
        print(f"{sum(counts.values())} changes, one each {interval_ms:.0f} ms, under "
              f"{sum(c.n_answers for c in clients)} requests of {CLIENTS} clients; "
              f"{len(failures)} failures; resident {after[0]} KiB "
              f"({growth:+.2%}), descriptors {after[1] - before[1]:+d}, {left} files left; "
              f"exit code {code}")
        for failure in failures[:5]:
            print(failure)
        fits = (growth <= GROWTH_ALLOWED or after[0] - before[0] <= GROWTH_IGNORED_KIB
                or arguments.any_memory)
        is_good = (fits and not failures and after[1] <= before[1] and left == 0 and code == 0
                   and left_in(folder) == [])
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
