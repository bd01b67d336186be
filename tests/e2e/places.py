# SPDX-License-Identifier: BSD-3-Clause
"""A server with models that come and go, asked over HTTP, over gRPC or in the program that has it:
the three ways of WAYS, which understand the same questions and give the same answers."""
import base64
import concurrent.futures
import dataclasses
import itertools
import json
import pathlib
import re
import subprocess
import threading

import grpc
import requests

from conftest import BUILD, ON_GPU, Server, patience, write_repository
from grpc_stubs import SECONDS, Client, open_channel
from infer_ways import CODES, texts_of
from log_reader import LogReader
from models import NAMES, wait_until
from on_gpus import on_gpus

WAYS = ("http", "grpc", "c")
MODES = {"none": 0, "poll": 1, "explicit": 2}


def sent(config):
    """The configuration that a load brings along."""
    return on_gpus(config) if ON_GPU else config


@dataclasses.dataclass
class Inference:
    """Its answer, or the code and the text of the refusal."""
    refusal: tuple = None
    version: str = None
    serial: int = None  # of the instance that ran it
    executions: int = None  # of the model
    label: str = None  # of the first class of OUTPUT0


class Place:
    """What is the same for all ways. A subclass has order(), index(), config(), is_ready() and
    infer(); `server` has the repository and the log."""

    def __init__(self, server, mode):
        self.server, self.mode = server, mode
        self.repository = server.repository
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=32)

    def load(self, name, config=None, **files):
        return self.order("load", name, config, **files)

    def unload(self, name):
        return self.order("unload", name)

    def begin(self, what, *arguments, **named):
        """Any of the questions; a future."""
        return self._pool.submit(what, *arguments, **named)

    def of(self, name):
        return [line[1:] for line in self.index() if line[0] == name]

    def look(self):
        """Polls now, where that is somebody's to decide."""

    def until(self, condition):
        """What is true at once in mode explicit, and some polls later in mode poll."""
        def is_so():
            self.look()
            return condition()
        wait_until(is_so, lambda: f"{self.index()}\n{self.server.text()}")

    def close(self):
        self._pool.shutdown()
        assert self.server.stop() == 0, self.server.text()


def options_of(mode, startup, threads):
    yield f"--model-control-mode={mode}"
    yield "--exit-on-error=false"
    if mode == "poll":
        yield "--repository-poll-secs=1"
    for name in startup:
        yield f"--load-model={name}"
    if threads:
        yield f"--model-load-thread-count={threads}"


class OverHttp(Place):
    def __init__(self, folder, mode, startup, threads, _stubs):
        super().__init__(Server(folder, options_of(mode, startup, threads)), mode)
        self._url = f"{self.server.url}/v2"

    def order(self, verb, name, config=None, **files):
        parameters = {key: base64.b64encode(value).decode() for key, value in files.items()}
        if config is not None:
            parameters["config"] = sent(config)
        reply = requests.post(f"{self._url}/repository/models/{name}/{verb}",
                              json={"parameters": parameters}, timeout=SECONDS)
        return None if reply.status_code == 200 else (NAMES[reply.status_code],
                                                      reply.json()["error"])

    def index(self, ready=False):
        reply = requests.post(f"{self._url}/repository/index", json={"ready": ready},
                              timeout=SECONDS)
        return lines_of(reply.json())

    def config(self, name):
        return requests.get(f"{self._url}/models/{name}/config", timeout=SECONDS).json()

    def is_ready(self):
        return requests.get(f"{self._url}/health/ready", timeout=SECONDS).status_code == 200

    def infer(self, name, version=None):
        path = f"{name}/versions/{version}" if version else name

        def ask(**more):
            return requests.post(f"{self._url}/models/{path}/infer", timeout=SECONDS, json={
                "inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}],
                **more})

        reply = ask()
        if reply.status_code != 200:
            return Inference((NAMES[reply.status_code], reply.json()["error"]))
        outputs = {o["name"]: o["data"][0] for o in reply.json()["outputs"]}
        answer = Inference(None, reply.json()["model_version"], outputs.get("SERIAL"),
                           outputs.get("EXECUTIONS"))
        if "SERIAL" not in outputs:
            reply = ask(outputs=[{"name": "OUTPUT0", "parameters": {"classification": 1}}])
            answer.label = label_of(reply.json()["outputs"][0]["data"][0])
        return answer


class OverGrpc(Place):
    def __init__(self, folder, mode, startup, threads, stubs):
        super().__init__(Server(folder, options_of(mode, startup, threads)), mode)
        self._channel = open_channel(self.server)
        self._client = Client(self._channel.__enter__(), stubs)

    def close(self):
        self._channel.__exit__(None, None, None)
        super().close()

    def order(self, verb, name, config=None, **files):
        method = f"RepositoryModel{verb.capitalize()}"
        request = getattr(self._client.pb, f"{method}Request")(model_name=name)
        if config is not None:
            request.parameters["config"].string_param = sent(config)
        for key, value in files.items():
            request.parameters[key].bytes_param = value
        try:
            getattr(self._client, method)(request, timeout=SECONDS)
        except grpc.RpcError as refusal:
            return refusal.code().name, refusal.details()
        return None

    def index(self, ready=False):
        answer = self._client.call("RepositoryIndex", {"ready": ready})
        return [(m.name, m.version or None, m.state or None, m.reason or None)
                for m in answer.models]

    def config(self, name):
        config = self._client.call("ModelConfig", {"name": name}).config
        return {"instance_group": [{"count": group.count} for group in config.instance_group]}

    def is_ready(self):
        return self._client.call("ServerReady").ready

    def infer(self, name, version=None):
        def ask(outputs=()):
            return self._client.infer(name, [("INPUT0", "FP32", [1], {"fp32_contents": [1]})],
                                      outputs=outputs, model_version=str(version or ""))

        try:
            answer = ask()
        except grpc.RpcError as refusal:
            return Inference((refusal.code().name, refusal.details()))
        values = {o.name: int.from_bytes(raw, "little")
                  for o, raw in zip(answer.outputs, answer.raw_output_contents)}
        found = Inference(None, answer.model_version, values.get("SERIAL"),
                          values.get("EXECUTIONS"))
        if "SERIAL" not in values:
            answer = ask([("OUTPUT0", {"classification": 1})])
            found.label = label_of(texts_of(answer.raw_output_contents[0])[0].decode())
        return found


def label_of(entry):
    """"1.000000:0:cat"; the label is missing where there is none."""
    return (entry.split(":") + [None])[2]


def lines_of(listed):
    return [(m["name"], m.get("version"), m.get("state"), m.get("reason")) for m in listed]


class Embedded:
    """An embedded_server process: its answers by their numbers, its log as Server has it."""

    def __init__(self, folder, mode, startup, threads):
        self.repository = pathlib.Path(folder)
        self._answers = {"0": concurrent.futures.Future()}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        command = [BUILD / "tests" / "e2e" / "embedded_server", f"repository={folder}",
                   f"backends={BUILD / 'backends'}", f"mode={MODES[mode]}", "exit_on_error=0",
                   *(f"startup={name}" for name in startup)]
        if threads:
            command.append(f"threads={threads}")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self._log = LogReader(self.process.stderr)
        self._answer_reader = threading.Thread(target=self._read_answers, daemon=True)
        self._answer_reader.start()
        self._answers["0"].result(SECONDS)

    def _read_answers(self):
        for line in self.process.stdout:
            number, code, text = line.rstrip("\n").split(" ")
            self._answers[number].set_result((int(code), bytes.fromhex(text).decode()))

    def ask(self, verb, name="-", *arguments):
        """The code and the text."""
        with self._lock:
            number = str(next(self._numbers))
            answer = self._answers[number] = concurrent.futures.Future()
            self.process.stdin.write(" ".join((number, verb, name, *arguments)) + "\n")
            self.process.stdin.flush()
        return answer.result(SECONDS)

    def wait_for_line(self, pattern, seconds=10):
        while not (match := re.search(pattern, self._log.take(patience(seconds)))):
            pass
        return match

    @property
    def log(self):
        return self._log.read()

    def text(self):
        return "\n".join(self.log)

    def stop(self):
        self.process.stdin.close()
        try:
            code = self.process.wait(patience(40))
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the program did not end:\n" + self.text()) from None
        for reader in (self._answer_reader, self._log):
            reader.join(patience(10))
        assert "Sanitizer" not in self.text(), self.text()
        return code


class OverC(Place):
    def __init__(self, folder, mode, startup, threads, _stubs):
        super().__init__(Embedded(folder, mode, startup, threads), mode)
        self._poll = None

    def look(self):
        """One poll at a time; who waits goes on looking while it waits for a load."""
        if self.mode != "poll" or (self._poll and not self._poll.done()):
            return
        assert self._poll is None or self._poll.result() is None
        self._poll = self.begin(self.order, "poll", "-")

    def order(self, verb, name, config=None, **files):
        if config is not None:
            files["config"] = sent(config).encode()
        code, text = self.server.ask(verb, name, *(f"{key}={value.hex()}"
                                                   for key, value in files.items()))
        return None if code < 0 else (CODES[code], text)

    def _json(self, *words):
        code, text = self.server.ask(*words)
        assert code < 0, text
        return json.loads(text)

    def index(self, ready=False):
        return lines_of(self._json("index", "-", *(["ready"] if ready else [])))

    def config(self, name):
        return self._json("config", name)

    def is_ready(self):
        return self._json("ready")

    def infer(self, name, version=None):
        code, text = self.server.ask("infer", name, str(version or -1))
        if code >= 0:
            return Inference((CODES[code], text))
        found = json.loads(text)
        return Inference(None, found["version"], found.get("SERIAL"), found.get("EXECUTIONS"),
                         found.get("label"))


def open_place(way, folder, stubs, mode, models, startup=(), threads=None):
    folder.mkdir(exist_ok=True)
    write_repository(folder, models)
    kind = {"http": OverHttp, "grpc": OverGrpc, "c": OverC}[way]
    return kind(folder, mode, startup, threads, stubs)
