# SPDX-License-Identifier: BSD-3-Clause
"""What the attacks of this folder share: a server, an innocent client beside it, the report.

An attack is a script of its own. It says in its first lines what the attacker may do and what must
hold, measures that on a server that it starts, and ends with

    if __name__ == "__main__":
        attack.main(measure, __doc__)

where measure() yields a Figure for everything that was measured. NESO_BUILD names the folder of the
build, so that one script measures two builds.
"""
import contextlib
import http.client
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from typing import NamedTuple, Optional

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "stress")]
import conftest  # noqa: E402

IDENTITY = ('backend: "identity"\ninput { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }\n')


class Figure(NamedTuple):
    name: str
    value: float
    unit: str = ""
    at_most: Optional[float] = None  # None: it is for information
    at_least: Optional[float] = None

    @property
    def is_beyond(self):
        return ((self.at_most is not None and self.value > self.at_most)
                or (self.at_least is not None and self.value < self.at_least))

    def __str__(self):
        bound = ""
        if self.at_most is not None:
            bound = f" (at most {self.at_most:g})"
        elif self.at_least is not None:
            bound = f" (at least {self.at_least:g})"
        return (f"{self.value:12.6g} {self.unit:8} {self.name}{bound}"
                + ("  ! beyond" if self.is_beyond else ""))


def holds(name, is_true):
    """The figure of a statement: 1 when it is true, which it has to be."""
    return Figure(name, float(bool(is_true)), "", at_least=1)


@contextlib.contextmanager
def server(models, *options, waits_for=("http",), under=()):
    """A conftest.Server on a repository of these models; killed at the end when it is still there."""
    with tempfile.TemporaryDirectory() as folder:
        repository = pathlib.Path(folder) / "models"
        repository.mkdir()
        conftest.write_repository(repository, models)
        one = conftest.Server(repository, options, waits_for, under)
        try:
            yield one
        finally:
            if one.process.poll() is None:
                one.process.kill()
            one.process.wait()


def resident_bytes(process, key="VmRSS"):
    """VmHWM: the peak, since forget_peak()."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text("ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) << 10
    return 0


def forget_peak(process):
    pathlib.Path(f"/proc/{process.pid}/clear_refs").write_text("5", "ascii")


class Probe:
    """An innocent client: asks for one path again and again, on one connection or on new ones.

    After the `with` block, `seconds` has the time of each answer, `statuses` each status; a request
    without an answer has the status 0 and the text of the reason in `errors`.
    """

    def __init__(self, port, path="/v2/health/live", is_new_each_time=False, pause=0.002,
                 timeout=30):
        self.port = port
        self.path = path
        self.is_new_each_time = is_new_each_time
        self.pause = pause
        self.timeout = timeout
        self.seconds = []
        self.statuses = []
        self.errors = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ends.set()
        self._thread.join(self.timeout + 5)

    def _run(self):
        connection = None
        while not self._ends.is_set():
            begun = time.monotonic()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, self.timeout)
                connection.request("GET", self.path)
                answer = connection.getresponse()
                answer.read()
                self.statuses.append(answer.status)
            except (OSError, http.client.HTTPException) as e:
                self.statuses.append(0)
                self.errors.append(repr(e))
                if connection:
                    connection.close()
                connection = None
            self.seconds.append(time.monotonic() - begun)
            if self.is_new_each_time and connection:
                connection.close()
                connection = None
            self._ends.wait(self.pause)

    @property
    def worst_ms(self):
        return 1e3 * max(self.seconds, default=float("nan"))

    @property
    def median_ms(self):
        return 1e3 * statistics.median(self.seconds) if self.seconds else float("nan")

    @property
    def n_failed(self):
        return sum(status != 200 for status in self.statuses)


def main(measure, text):
    """Prints each figure; the exit status is 1 when one is beyond its bound."""
    print(text.strip().split("\n", maxsplit=1)[0], f"({os.environ.get('NESO_BUILD', 'build')})")
    n_beyond = 0
    for figure in measure():
        print(figure, flush=True)
        n_beyond += figure.is_beyond
    sys.exit(1 if n_beyond else 0)
