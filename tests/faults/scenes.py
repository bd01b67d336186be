# SPDX-License-Identifier: BSD-3-Clause
"""What the modules of scenes share: disk.py, processes.py, clock.py.

A scene is a function of a Stage. It starts servers, does something to them, and checks what must hold; it returns
figures for the report, or raises Failed. A module ends with `sys.exit(scenes.main(__doc__, SCENES))`, which prints
a table and writes the same as JSON.
"""
import argparse
import contextlib
import http.client
import json
import mmap
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e")]
import conftest  # noqa: E402 pylint: disable=wrong-import-position

os.environ["PATH"] = "/usr/bin:/bin:" + os.environ["PATH"]
SECONDS = 60  # an answer that takes longer hangs

TENSORS = """input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
"""
IDENTITY = 'backend: "identity"\n' + TENSORS
PYTHON = 'backend: "python"\n' + TENSORS
PYTHON_MODEL = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "OUTPUT0", pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy())]) for r in requests]
"""


class Failed(Exception):
    """What must hold does not hold."""


def check(condition, text):
    if not condition:
        raise Failed(text)


def wait_until(condition, text, seconds=SECONDS):
    """Asks until it is so; the server is another process, which reports by no event."""
    deadline = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < deadline, "not within " + str(seconds) + " s: " + text)
        time.sleep(0.02)


def delay(name, seconds):
    return f'parameters {{ key: "{name}" value {{ string_value: "{seconds}" }} }}\n'


class Client:
    """One connection, opened when it is needed."""

    def __init__(self, port, seconds=SECONDS):
        self.port, self.seconds, self.connection = port, seconds, None

    def ask(self, method, path, body=b"", headers=None):
        """Status and body; OSError or HTTPException when the connection ends."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.seconds)
        try:
            self.connection.request(method, path, body, headers or {})
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def infer(self, model, values, parameters=None, more=None):
        """The status, and the values or the error's text."""
        body = {"inputs": [{"name": "INPUT0", "shape": [len(values)], "datatype": "FP32", "data": values}],
                "parameters": parameters or {}, **(more or {})}
        status, text = self.ask("POST", f"/v2/models/{model}/infer", json.dumps(body).encode())
        return (status, json.loads(text)["outputs"][0]["data"]) if status == 200 else (status, error_of(text))

    def order(self, verb, model, body=None):
        """Loads or unloads; the status and the error's text."""
        status, text = self.ask("POST", f"/v2/repository/models/{model}/{verb}",
                                json.dumps(body or {}).encode())
        return status, "" if status == 200 else error_of(text)


def error_of(text):
    try:
        reason = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"a refusal without a text: {text[:200]!r}") from error
    check(reason, "an empty error")
    return reason


class Shared:
    """Memory of an interposer: fields of 8 bytes, which the tests write."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def set(self, index, value):
        self._map[8 * index:8 * index + 8] = struct.pack("=q", value)

    def set_text(self, index, text):
        self._map[8 * index:8 * index + len(text) + 1] = text.encode() + b"\0"


class Stage:
    """A folder, and the servers that a scene starts on it."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.servers = []
        self.environment = {}

    def path(self, *names):
        path = self.folder.joinpath(*names)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, models, name="models"):
        conftest.write_repository(self.folder / name, models)
        return self.folder / name

    def digits(self, name="models"):
        import shutil  # pylint: disable=import-outside-toplevel

        shutil.copytree(ROOT / "examples" / "models" / "digits", self.folder / name / "digits")

    @contextlib.contextmanager
    def serve(self, repository, *options, preload=None, code=0):
        """A server; its clean end is a part of the scene unless the scene has ended it."""
        environment = {**self.environment, **({"LD_PRELOAD": self.library(preload)} if preload else {})}
        server = conftest.Server(
            repository, ["--backend-config=python,python-path=/usr/bin/python3",
                         "--backend-config=python,stub-timeout-seconds=300", "--http-thread-count=2",
                         "--grpc-infer-thread-count=2", *options], waits_for=("http", "grpc", "metrics"),
            under=("env", *(f"{key}={value}" for key, value in environment.items())))
        self.servers.append(server)
        try:
            yield server
            if server.process.poll() is None:
                ended = server.stop()
                check(ended == code, f"the server ended with {ended}: {server.log[-3:]}")
        except AssertionError as error:
            raise Failed(str(error)[-600:]) from error
        finally:
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)
                server.process.kill()
            server.process.wait()

    def library(self, name):
        return str(self.options.build / "tests" / "faults" / f"{name}.so")


def ask_metric(server, name):
    """The sum over all labels."""
    client = Client(server.port("metrics"))
    _, page = client.ask("GET", "/metrics")
    client.close()
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.decode().splitlines()
               if line.startswith((name + " ", name + "{")))


def is_alive(server):
    return server.process.poll() is None


def children_of(pid):
    """The child processes that have not ended."""
    text = subprocess.run(["ps", "-o", "pid=,stat=", "--ppid", str(pid)], capture_output=True, text=True,
                          check=False).stdout
    return [int(line.split()[0]) for line in text.splitlines() if not line.split()[1].startswith("Z")]


def run_scene(scene, options):
    with tempfile.TemporaryDirectory(prefix="neso-scene-") as folder:
        begin = time.monotonic()
        try:
            figures, failure = scene(Stage(options, pathlib.Path(folder))) or {}, None
        except Failed as failed:
            figures, failure = {}, str(failed)
        except Exception:  # pylint: disable=broad-except
            figures, failure = {}, traceback.format_exc()
        return {"figures": figures, "failure": failure, "seconds": round(time.monotonic() - begin, 1)}


def main(doc, scenes):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", help="scenes, separated by semicolons: " + "; ".join(scenes))
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=10, help="of the scenes that repeat something")
    parser.add_argument("--kills", type=int, default=500, help="of the scenes that kill processes")
    options = parser.parse_args()
    options.build = options.build.resolve()
    conftest.BUILD = options.build
    results = {}
    for name in options.only.split(";") if options.only else scenes:
        results[name] = run_scene(scenes[name], options)
        one = results[name]
        figures = ", ".join(f"{n} {what}" for what, n in one["figures"].items())
        print(f"{name:28} {'FAILED' if one['failure'] else 'ok':7} {one['seconds']:6.1f} s  "
              f"{one['failure'] or figures}", flush=True)
    if options.report:
        options.report.write_text(json.dumps(results, indent=1))
    n_failed = sum(one["failure"] is not None for one in results.values())
    print(f"{len(results)} scenes, {n_failed} failed")
    return 1 if n_failed else 0
