#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The fault matrix: each operation of a server while the n-th call of a function fails, n = 1, 2, ...

  tests/faults/run.py [--build=build] [--operations=load,...] [--functions=malloc,...] [--report=faults.json]

A function's n-th call since the beginning of the operation fails once, with an error that the function may
return; n grows until the operation makes fewer calls. (Beyond 40 it grows by a seventh, so that an operation
with a thousand calls takes some dozens of cases.) After each case:

  * the operation has succeeded, or was refused with a text, or its connection ended;
  * the server lives;
  * the operation, without a fault, succeeds.

After each cell of the matrix the server has no more descriptors, threads, child processes and mapped files
than before it. "start" and "stop" are operations, too: a start that fails ends with exit code 1 and a line that
says why, never by a signal.

Prints a table with the number of cases of each cell, and each failure. The exit status is 1 after a failure.
"""
import argparse
import collections
import contextlib
import errno
import http.client
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e")]
os.environ["PATH"] = "/usr/bin:/bin:" + os.environ["PATH"]

# The order of the enum in fail_call.c, and the error.
FUNCTIONS = {
    "malloc": errno.ENOMEM, "mmap": errno.ENOMEM, "open": errno.EMFILE, "read": errno.EIO, "write": errno.ENOSPC,
    "rename": errno.EIO, "stat": errno.EACCES, "opendir": errno.EMFILE, "mkdir": errno.ENOSPC,
    "ftruncate": errno.ENOSPC, "memfd_create": errno.EMFILE, "pipe": errno.EMFILE, "socket": errno.EMFILE,
    "bind": errno.EADDRINUSE, "listen": errno.EADDRINUSE, "accept": errno.EMFILE, "epoll_ctl": errno.ENOMEM,
    "eventfd": errno.EMFILE, "send": errno.ECONNRESET, "recv": errno.ECONNRESET, "pthread_create": errno.EAGAIN,
    "posix_spawn": errno.EAGAIN, "dlopen": errno.ENOENT}
N_STACKS = 8192  # as in fail_call.c
CONTROL_BYTES = 24 + 8 * N_STACKS
# Of a start: the expensive ones come last, for the calls that only they add.
START_MODELS = [["plain", "thread", "ensemble"], ["plain", "digits"], ["plain", "python"]]
END_SECONDS = 60  # within which a server starts, or ends
CALM_SECONDS = 10  # within which what an operation used must be given back


class Control:
    """The other side of fail_call.c."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(CONTROL_BYTES))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), CONTROL_BYTES)

    def arm(self, function, nth):
        """`nth` 0: the first call with a stack that has not failed yet."""
        number = list(FUNCTIONS).index(function) + 1
        self._map[0:4] = struct.pack("=I", 0)
        self._map[4:20] = struct.pack("=IiII", nth, FUNCTIONS[function], 0, 0)
        self._map[0:4] = struct.pack("=I", number)

    def disarm(self):
        """Whether a call has failed since arm()."""
        self._map[0:4] = struct.pack("=I", 0)
        return struct.unpack("=I", self._map[16:20])[0] > 0

    @contextlib.contextmanager
    def paused(self):
        function = self._map[0:4]
        self._map[0:4] = struct.pack("=I", 0)
        try:
            yield
        finally:
            self._map[0:4] = function


def children_of(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += (task / "children").read_text().split()
    return found


def kinds_of_descriptors(pid):
    """How many descriptors of each kind: "socket", "anon_inode", "pipe", the path of a file."""
    kinds = collections.Counter()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            kinds[os.readlink(fd).split(":[")[0]] += 1
    return kinds


def holdings(pid):
    """What a server has: descriptors, threads, child processes, mapped files."""
    proc = pathlib.Path(f"/proc/{pid}")
    maps = [line.split(maxsplit=5)[5] for line in (proc / "maps").read_text().splitlines() if "/" in line]
    fds = kinds_of_descriptors(pid)
    del fds["/dev/null"]  # spares of the listeners, opened when one is needed
    return {"descriptors": sum(fds.values()), "threads": len(os.listdir(proc / "task")),
            "children": len(children_of(pid)),
            "mapped files": len([path for path in maps if ".so" not in path])}


class Lab:
    """A server with all models, and what operations keep between their calls."""

    def __init__(self, build, folder):
        import conftest  # pylint: disable=import-outside-toplevel
        import grpc_stubs  # pylint: disable=import-outside-toplevel
        import operations  # pylint: disable=import-outside-toplevel

        self.build, self.folder = build, folder
        self.n_sequences = self.n_reloads = 0
        self.repository = folder / "models"
        shutil.rmtree(self.repository, ignore_errors=True)
        conftest.write_repository(self.repository, operations.MODELS)
        shutil.copytree(ROOT / "examples" / "models" / "digits", self.repository / "digits")
        self.control = Control(folder / "control")
        self._stubs = lambda channel: grpc_stubs.Client(channel, STUBS)
        self.server = conftest.Server(
            self.repository, [*self.options(operations.STAY), f"--trace-config=triton,file={folder / 'trace.json'}"],
            waits_for=("http", "grpc", "metrics"),
            under=self.under())

    @staticmethod
    def options(models):
        return ["--model-control-mode=explicit", *(f"--load-model={name}" for name in models),
                "--http-thread-count=2", "--grpc-infer-thread-count=2", "--cache-config=local,size=1048576",
                "--backend-config=python,python-path=/usr/bin/python3", "--allow-client-shm=true"]

    def under(self):
        return ("env", f"LD_PRELOAD={self.build / 'tests' / 'faults' / 'fail_call.so'}",
                f"FAIL_CALL={self.control.path}")

    def stub(self, channel):
        return self._stubs(channel)

    def disarmed(self):
        return self.control.paused()

    def is_alive(self):
        return self.server.process.poll() is None

    def end(self):
        if self.is_alive():
            self.server.process.kill()
        self.server.process.wait()


def numbers():
    n = 1
    while True:
        yield n
        n += max(1, n // 7 if n >= 40 else 1)


class Matrix:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.cells = collections.defaultdict(dict)  # operation -> function -> cases
        self.failures = []
        self.lab = None

    def fail(self, operation, function, nth, what):
        line = f"{operation} / {function} {nth}: {what}"
        self.failures.append(line)
        print("FAILED " + line, flush=True)

    def new_lab(self):
        if self.lab is not None:
            self.lab.end()
        self.lab = Lab(self.options.build, self.folder)

    # ---- one case ----

    def attempt(self, operation):
        """The text of a refusal, or None; raises Wrong."""
        from operations import Lost, Refused  # pylint: disable=import-outside-toplevel

        try:
            operation(self.lab)
        except Refused as refusal:
            return str(refusal)
        except Lost as loss:
            return f"lost: {loss}"
        return None

    def run_case(self, name, function, nth):
        """False when the operation makes fewer calls."""
        from operations import OPERATIONS, Wrong  # pylint: disable=import-outside-toplevel

        prepare, operation = OPERATIONS[name]
        prepare(self.lab)
        self.lab.control.arm(function, nth)
        try:
            refusal = self.attempt(operation)
        except Wrong as wrong:
            refusal = None
            self.fail(name, function, nth, str(wrong))
        finally:
            has_failed = self.lab.control.disarm()
        if self.options.verbose and refusal:
            print(f"  {name} / {function} {nth}: {refusal}", flush=True)
        if refusal and not has_failed:
            self.fail(name, function, nth, "refused without a fault: " + refusal)
        if not self.lab.is_alive():
            raise ChildProcessError("the server has ended")
        prepare(self.lab)
        try:
            again = self.attempt(operation)
        except Wrong as wrong:
            again = str(wrong)
        if again is not None:
            self.fail(name, function, nth, f"afterwards, without a fault: {again}; the fault: {refusal}")
        return has_failed

    # ---- a cell ----

    def check_calm(self, before, name, function):
        """What was used is given back, within a time."""
        before, kinds = before
        deadline = time.monotonic() + CALM_SECONDS
        while True:
            now = holdings(self.lab.server.process.pid)
            more = {what: (before[what], n) for what, n in now.items() if n > before[what]}
            if not more:
                return
            if time.monotonic() > deadline:
                now = kinds_of_descriptors(self.lab.server.process.pid)
                self.fail(name, function, "all", "left behind: " + ", ".join(
                    f"{a} -> {b} {what}" for what, (a, b) in more.items()) + f"; descriptors {now - kinds}")
                return
            time.sleep(0.02)

    def settle(self, name):
        from operations import OPERATIONS  # pylint: disable=import-outside-toplevel

        prepare, operation = OPERATIONS[name]
        for _ in range(3):
            prepare(self.lab)
            operation(self.lab)
        prepare(self.lab)
        time.sleep(0.1)
        return holdings(self.lab.server.process.pid), kinds_of_descriptors(self.lab.server.process.pid)

    def run_cell(self, name, function):
        if self.lab is None:
            self.new_lab()
        n_cases = 0
        try:
            before = self.settle(name)
            for nth in numbers():
                if not self.run_case(name, function, nth):
                    break
                n_cases += 1
            from operations import OPERATIONS  # pylint: disable=import-outside-toplevel
            OPERATIONS[name][0](self.lab)
            self.check_calm(before, name, function)
        except Exception as error:  # pylint: disable=broad-except
            log = self.lab.server.text().splitlines()[-3:]
            self.fail(name, function, n_cases + 1, f"{error!r}; exit code {self.lab.server.process.poll()}; {log}")
            self.new_lab()
        self.cells[name][function] = n_cases

    # ---- the beginning and the end ----

    def repository(self):
        import conftest  # pylint: disable=import-outside-toplevel
        from operations import MODELS  # pylint: disable=import-outside-toplevel

        repository = self.folder / "start"
        if not repository.exists():
            conftest.write_repository(repository, {name: MODELS[name] for name in sum(START_MODELS, [])
                                                   if name in MODELS})
            shutil.copytree(ROOT / "examples" / "models" / "digits", repository / "digits")
        return repository

    def command(self, models):
        return [str(self.options.build / "neso"), "serve", f"--model-repository={self.repository()}",
                f"--backend-directory={self.options.build / 'backends'}", "--http-address=127.0.0.1",
                "--http-port=0", "--grpc-address=127.0.0.1", "--grpc-port=0", "--metrics-port=0",
                f"--port-file={self.folder / 'ports'}", *Lab.options(models)]

    @contextlib.contextmanager
    def started(self, control, models):
        """A process whose log is in a file: a line that a fault takes away is missed by no one."""
        environment = dict(os.environ, FAIL_CALL=str(control.path),
                           LD_PRELOAD=str(self.options.build / "tests" / "faults" / "fail_call.so"))
        with open(self.folder / "start.log", "wb") as log, subprocess.Popen(
                self.command(models), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
            try:
                yield process
            finally:
                process.kill()
                (self.folder / "ports").unlink(missing_ok=True)

    def log_lines(self):
        return (self.folder / "start.log").read_text(errors="replace").splitlines()

    def wait_for_start(self, process):
        """The ports; None when the server ended. A server that does neither in time is killed."""
        deadline, ports = time.monotonic() + END_SECONDS, self.folder / "ports"
        while process.poll() is None:
            if ports.exists():
                return dict(line.split("=") for line in ports.read_text().splitlines())
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.005)
        return None

    def wait_for_end(self, process, operation, function, number):
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.fail(operation, function, number, f"it does not end: {self.log_lines()[-3:]}")

    def run_start(self, operation, function):
        """`operation`: "start" or "stop"."""
        control, n_cases = Control(self.folder / "control_start"), 0
        run_case = self.run_start_case if operation == "start" else self.run_stop_case
        for models in START_MODELS:
            while run_case(control, function, models, n_cases + 1):
                n_cases += 1
        self.cells[operation][function] = n_cases

    def run_start_case(self, control, function, models, number):
        """False when there was no call from a new place."""
        control.arm(function, 0)
        with self.started(control, models) as process:
            ports = self.wait_for_start(process)
            has_failed = control.disarm()
            if ports is not None:
                self.check_models(ports, models, function, number)
                process.send_signal(signal.SIGTERM)
            self.wait_for_end(process, "start", function, number)
            self.judge_start(function, number, process.returncode, ports is not None)
        if self.options.verbose and has_failed:
            print(f"  start / {function} {number}: {process.returncode} {self.log_lines()[-1:]}", flush=True)
        return has_failed

    def check_models(self, ports, models, function, number):
        """A server that has started serves all of its models, or reports that it can read no repository."""
        if any("no model repository can be read" in line for line in self.log_lines()):
            return
        for model in models:
            connection = http.client.HTTPConnection("127.0.0.1", int(ports["http"]), timeout=END_SECONDS)
            with contextlib.closing(connection):
                connection.request("GET", f"/v2/models/{model}/ready")
                if connection.getresponse().status != 200:
                    self.fail("start", function, number, f"started without model {model}: {self.log_lines()[-8:]}")

    def judge_start(self, function, number, code, has_started):
        log = self.log_lines()
        if code < 0:
            self.fail("start", function, number, f"ended by signal {-code}: {log[-3:]}")
        elif code != (0 if has_started else 1):
            self.fail("start", function, number, f"exit code {code}: {log[-3:]}")
        elif code == 1 and not any(re.match(r"E\d|neso: |error: |out of memory: ", line) for line in log):
            self.fail("start", function, number, f"exit code 1 without a line that says why: {log[-3:]}")

    def run_stop_case(self, control, function, models, number):
        with self.started(control, models) as process:
            self.wait_for_start(process)
            control.arm(function, 0)
            process.send_signal(signal.SIGTERM)
            self.wait_for_end(process, "stop", function, number)
            has_failed = control.disarm()
            if process.returncode not in (0, 1):
                self.fail("stop", function, number, f"exit code {process.returncode}: {self.log_lines()[-3:]}")
        if self.options.verbose and has_failed:
            print(f"  stop / {function} {number}: {process.returncode} {self.log_lines()[-1:]}", flush=True)
        return has_failed

    # ---- all ----

    def run(self, operations, functions):
        for name in operations:
            for function in functions:
                if name in ("start", "stop"):
                    self.run_start(name, function)
                else:
                    self.run_cell(name, function)
            print(f"{name:22} " + " ".join(f"{f} {n}" for f, n in self.cells[name].items() if n > 0), flush=True)
        if self.lab is not None:
            self.lab.end()


STUBS = None


def make_stubs(folder):
    import types  # pylint: disable=import-outside-toplevel

    import grpc_stubs  # pylint: disable=import-outside-toplevel

    modules = grpc_stubs.generate(folder)
    return types.SimpleNamespace(service=modules["grpc_service"], **modules)


def main():
    global STUBS  # pylint: disable=global-statement
    from operations import OPERATIONS  # pylint: disable=import-outside-toplevel

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--operations", help="separated by semicolons")
    parser.add_argument("--functions", help="separated by commas")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true", help="prints each refusal")
    options = parser.parse_args()
    options.build = options.build.resolve()
    os.environ["NESO_BUILD"] = str(options.build)
    operations = options.operations.split(";") if options.operations else [*OPERATIONS, "start", "stop"]
    functions = options.functions.split(",") if options.functions else list(FUNCTIONS)
    with tempfile.TemporaryDirectory(prefix="neso-faults-") as folder:
        folder = pathlib.Path(folder)
        (folder / "stubs").mkdir()
        STUBS = make_stubs(folder / "stubs")
        matrix = Matrix(options, folder)
        begin = time.monotonic()
        matrix.run(operations, functions)
    n_cases = sum(sum(row.values()) for row in matrix.cells.values())
    if options.report:
        options.report.write_text(json.dumps({"cells": matrix.cells, "failures": matrix.failures}, indent=1))
    print(f"{n_cases} cases in {sum(len(row) for row in matrix.cells.values())} cells, "
          f"{len(matrix.failures)} failed, {time.monotonic() - begin:.0f} s")
    return 1 if matrix.failures else 0


if __name__ == "__main__":
    sys.exit(main())
