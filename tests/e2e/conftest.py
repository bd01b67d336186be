# SPDX-License-Identifier: BSD-3-Clause
"""What every end-to-end test needs: a repository of its own and a server on it, once per module.

A module says what it wants with three names, all optional:

    MODELS   {model name: text of config.pbtxt, or {relative path: text, bytes or FIFO}}
    OPTIONS  further arguments of `neso serve`
    BACKENDS names of backends that must have been built; the module is skipped without them

and its tests take the fixture `server`. Ports are free ones that the server chose and logged.
"""
import os
import pathlib
import queue
import re
import signal
import subprocess
import tempfile
import time

import pytest

from log_reader import LogReader
from on_gpus import on_gpus

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("NESO_BUILD", ROOT / "build"))
# How much longer than usual everything may take, as in a sanitizer's build or on a busy machine (--time-factor of
# tools/run_checks.py).
TIME_FACTOR = float(os.environ.get("NESO_TIME_FACTOR", "1"))

# The folder of a server's certificate, server.pem, server.key and ca.pem: HTTP and GRPC of every
# server speak TLS then, and the clients of conftest, wire and grpc_stubs with it
# (test_tls_whole.py).
TLS = os.environ.get("NESO_TEST_TLS")
TLS_OPTIONS = [f"--{name}-{what}" for name in ("http", "grpc") for what in (
    "use-ssl=true", f"server-cert={TLS}/server.pem", f"server-key={TLS}/server.key")] if TLS else []

# "1": every process finds stand-ins of GPUs (tests/gpu), and models of our backends run there (on_gpus.py). "make gpu"
# runs some modules a second time so.
ON_GPU = os.environ.get("NESO_TESTS_ON_GPU") == "1"
BACKENDS_FOLDER = BUILD / "backends"
if ON_GPU:
    GPU_REPORT = pathlib.Path(tempfile.mkdtemp(prefix="neso_gpu.")) / "report"
    GPU_BACKEND = BUILD / "tests" / "e2e" / "libtriton_gpu.so"
    os.environ["LD_LIBRARY_PATH"] = f"{BUILD / 'tests' / 'gpu'}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    os.environ["NESO_FAKE_GPU_REPORT"] = str(GPU_REPORT)
    BACKENDS_FOLDER = GPU_REPORT.parent / "backends"
    for _name in ("gpu", "testing"):
        (BACKENDS_FOLDER / _name).mkdir(parents=True)
    (BACKENDS_FOLDER / "gpu" / GPU_BACKEND.name).symlink_to(GPU_BACKEND)
    (BACKENDS_FOLDER / "testing" / "libtriton_testing.so").symlink_to(BUILD / "tests/e2e/on_gpu/libtriton_testing.so")
    for _path in (BUILD / "backends").iterdir():
        if _path.name != "testing":
            (BACKENDS_FOLDER / _path.name).symlink_to(_path)

SERVICES = {
    "http": re.compile(r"Started HTTPService at ([^\s\"]+):(\d+)"),
    "openai": re.compile(r"Started OpenAI service at ([^\s\"]+):(\d+)"),
    "metrics": re.compile(r"Started Metrics Service at ([^\s\"]+):(\d+)"),
    "grpc": re.compile(r"Started GRPCInferenceService at ([^\s\"]+):(\d+)"),
    "sagemaker": re.compile(r"Started Sagemaker HTTPService at ([^\s\"]+):(\d+)"),
    "vertex-ai": re.compile(r"Started Vertex AI HTTPService at ([^\s\"]+):(\d+)"),
}



def patience(seconds):
    """A limit that only ends a test that hangs: no test is about it."""
    return seconds * TIME_FACTOR


START_SECONDS = float(os.environ.get("NESO_START_SECONDS", patience(60)))
# Of a server that is not given one. Requests and models have 30 s to end otherwise.
EXIT_TIMEOUT = [f"--exit-timeout-secs={patience(30):.0f}"] if TIME_FACTOR != 1 else []


def preload(library):
    """The setting that loads it before those that all programs of a run have (tools/run_checks.py)."""
    return "LD_PRELOAD=" + ":".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")]))


def is_sanitized():
    program = (BUILD / "neso").read_bytes() if (BUILD / "neso").exists() else b""
    return b"__asan_init" in program or b"__tsan_init" in program


if is_sanitized():
    # The sanitizer calls dlopen() in the backend's place, so the backend's own search path for
    # ONNX Runtime is not looked at.
    os.environ.setdefault("LD_LIBRARY_PATH", str(ROOT / ".deps" / "onnxruntime" / "lib"))


FIFO = object()  # as the content of a file: a named pipe


def write_repository(folder, models):
    """Each model gets version 1, empty unless a file says otherwise."""
    for name, files in models.items():
        model = pathlib.Path(folder) / name
        (model / "1").mkdir(parents=True)
        if not isinstance(files, dict):
            files = {"config.pbtxt": files}
        for path, content in files.items():
            target = model / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is FIFO:
                os.mkfifo(target)
                continue
            if ON_GPU and path == "config.pbtxt":
                content = on_gpu(model, content)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())


def on_gpu(folder, config):
    """As on_gpus(); with the backend "gpu" in the model's folder, where every program of ours finds it."""
    changed = on_gpus(config)
    if changed != config and 'backend: "gpu"' in changed and not (folder / GPU_BACKEND.name).exists():
        (folder / GPU_BACKEND.name).symlink_to(GPU_BACKEND)
    return changed


class Server:
    """A `neso serve` process. Everything it writes is kept."""

    def __init__(self, repository, options=(), waits_for=("http",), under=(), command=None):
        """`under`: a command that runs it, as the process that it was started as. `command`: instead of the
        usual one, without its options."""
        usual = [*self.program(), f"--model-repository={repository}",
                 "--http-address=127.0.0.1", "--http-port=0", "--grpc-address=127.0.0.1",
                 "--grpc-port=0", "--metrics-port=0", *TLS_OPTIONS, *EXIT_TIMEOUT]
        command = [*under, *(command or usual), *options]
        self.repository = pathlib.Path(repository)
        self.ports = {}
        self._is_stopping = False
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self._reader = LogReader(self.process.stdout)
        self._wait_for(waits_for)

    def program(self):
        """The beginning of its command; a subclass may start another installation."""
        return [str(BUILD / "neso"), "serve", f"--backend-directory={BACKENDS_FOLDER}"]

    @property
    def log(self):
        """The lines so far; those that came before a reply are there with it."""
        return self._reader.read()

    def _take_line(self, deadline, waits_for):
        """The next line of the log; what it says about ports is noted."""
        try:
            line = self._reader.take(deadline - time.monotonic())
        except queue.Empty:
            raise AssertionError(f"no line says {waits_for}:\n" + self.text()) from None
        if line is None:
            raise AssertionError("the server ended:\n" + self.text())
        for name, pattern in SERVICES.items():
            match = pattern.search(line)
            if match:
                self.ports[name] = int(match.group(2))
        return line

    def _wait_for(self, names):
        deadline = time.monotonic() + START_SECONDS
        try:
            while not all(name in self.ports for name in names):
                self._take_line(deadline, names)
        except AssertionError:
            self.process.kill()
            raise

    def text(self):
        return "\n".join(self.log)

    def wait_for_end_of_log(self):
        """Until no process has its end of the pipe, at most 10 s."""
        self._reader.join(patience(10))

    def wait_for_line(self, pattern, seconds=10):
        """The first line from now on that matches; for what only the log tells."""
        deadline = time.monotonic() + patience(seconds)
        while True:
            match = re.search(pattern, self._take_line(deadline, pattern))
            if match:
                return match

    def port(self, name):
        """Of one of SERVICES, such as "http"; waits until the server has opened it."""
        self._wait_for((name,))
        return self.ports[name]

    @property
    def http_port(self):
        return self.ports["http"]

    @property
    def url(self):
        return f"{'https' if TLS else 'http'}://127.0.0.1:{self.http_port}"

    def begin_stop(self):
        """Asks it to end. Only once: at a second signal the server exits at once."""
        if self.process.poll() is None and not self._is_stopping:
            self._is_stopping = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self, seconds=40):
        """Asks it to end, unless begin_stop() has; its exit code."""
        self.begin_stop()
        try:
            code = self.process.wait(patience(seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server did not stop:\n" + self.text()) from None
        self.wait_for_end_of_log()
        assert "Sanitizer" not in self.text(), self.text()
        assert not ON_GPU or not GPU_REPORT.exists(), GPU_REPORT.read_text()
        return code


def require_build(backends):
    if not (BUILD / "neso").exists():
        pytest.skip(f"{BUILD / 'neso'} is not built")
    for name in backends:
        if not (BUILD / "backends" / name / f"libtriton_{name}.so").exists():
            pytest.skip(f"backend {name} is not built")


@pytest.fixture(scope="module", autouse=True)
def _one_gpu(request):
    """ONE_GPU of the module, for on_gpus.py, also in programs that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        if getattr(request.module, "ONE_GPU", False):
            patch.setenv("NESO_TESTS_ONE_GPU", "1")
        yield


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    module = request.module
    require_build(getattr(module, "BACKENDS", ()))
    repository = tmp_path_factory.mktemp("repository")
    write_repository(repository, getattr(module, "MODELS", {}))
    running = Server(repository, getattr(module, "OPTIONS", ()))
    yield running
    code = running.stop()
    assert code == 0, f"exit code {code}:\n{running.text()}"
