# SPDX-License-Identifier: BSD-3-Clause
"""What is done to a server for long: the parts of the campaign.

A part has `full`, its size at scale 1, and the `unit` of that. Its load comes in ten tenths; tenth(place, n, number)
does n units. `facts` is what else was measured, for the report.
"""
import concurrent.futures
import contextlib
import itertools
import json
import pathlib
import shutil
import tempfile
import time

import gauge
import operations
from place import Failed, Holder, Ticker

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE_BYTES = 65536     # of "cached": the first tenth fills it also at small scales
STREAM = ("--streaming",)
SHAPE = ("--shape=INPUT0:8",)
# Requests under way in a burst. Each thread keeps up to 64 blocks of requests (REQUEST_MEMORY_MAX_KEPT), and as requests
# may end on another thread than they came to, each fills up in time, however few are under way. With so many at once
# the two loops of a protocol are full at the beginning.
AT_ONCE = 256
# Small tenths of a burst. The C library keeps up to seven free blocks of each size below 1 KiB for each thread, and
# calloc() does not take them: where a batch allocates arrays of its own length, each series of lengths adds one.
FILL_ROUNDS = 7


class Part:
    name = title = unit = ""
    full = 0
    at_least = 10       # units, at any scale
    options = ()

    def __init__(self):
        self.facts = {}

    def models(self):
        return {"plain": operations.MODELS["plain"]}

    def prepare(self, place):
        """Before the first reading."""

    def burst(self, place):
        """Before the first tenth: more at a time than in any of them, since what is kept for reuse is as much as was
        ever needed at once."""

    def tenth(self, place, n, number):
        raise NotImplementedError

    def read(self, place, first=None):
        return gauge.read_at_rest(place.pid, place.heap, first)

    def finish(self, place):
        """After the last reading."""

    def size(self, scale):
        return max(self.at_least, round(self.full * scale))


# ---- 1 ----


class Requests(Part):
    """All schedulers in turn, over HTTP and gRPC."""

    name, title, unit, full, at_least = "requests", "requests of all schedulers", "requests", 100_000_000, 5000
    options = ("--model-control-mode=explicit", *(f"--load-model={name}" for name in operations.STAY),
               f"--cache-config=local,size={CACHE_BYTES}", "--backend-config=python,python-path=/usr/bin/python3")

    # Model, share of the requests in thousandths, protocol, requests under way, options of the load generator.
    LOADS = (
        ("plain", 120, "http", 8, SHAPE), ("plain", 110, "grpc", 8, SHAPE),
        ("thread", 40, "http", 8, SHAPE), ("thread", 40, "grpc", 8, SHAPE),
        ("batched", 80, "http", 32, ()), ("batched", 80, "grpc", 32, STREAM),
        ("sequence", 50, "http", 8, ("--sequence-length=10",)),
        ("sequence", 50, "grpc", 8, ("--sequence-length=10", *STREAM)),
        ("oldest", 50, "http", 8, ("--sequence-length=10",)),
        ("oldest", 50, "grpc", 8, ("--sequence-length=10", *STREAM)),
        ("cached", 60, "http", 8, ("--distinct=500", *SHAPE)), ("cached", 60, "grpc", 8, ("--distinct=500", *SHAPE)),
        ("ensemble", 50, "http", 8, SHAPE), ("ensemble", 50, "grpc", 8, SHAPE),
        ("chained", 25, "http", 8, SHAPE), ("chained", 25, "grpc", 8, SHAPE),
        ("composite", 20, "http", 8, ("-b", "1")), ("composite", 20, "grpc", 8, ("-b", "3")),
        ("repeat", 5, "http", 8, ("--language",)), ("repeat", 5, "grpc", 8, STREAM),
        ("python", 5, "http", 8, SHAPE), ("python", 5, "grpc", 8, SHAPE))

    def __init__(self, only=None):
        super().__init__()
        self.loads = [load for load in self.LOADS if only is None or load[0] == only]

    def models(self):
        models = dict(operations.MODELS)
        del models["coming"], models["coming_python"]
        for name in ("sequence", "oldest"):  # on a busy machine their clients may be slow
            models[name] = models[name].replace("sequence_batching {", "sequence_batching { "
                                                "max_sequence_idle_microseconds: 600000000")
        models["digits"] = {path.relative_to(DIGITS).as_posix(): path.read_bytes()
                            for path in DIGITS.rglob("*") if path.is_file()}
        return models

    def prepare(self, place):
        data = place.folder / "repeat.json"
        data.write_text(json.dumps({"data": [{"IN": [7, 8, 9], "DELAY": [0, 0, 0], "WAIT": [0]}]}))
        self.repeat = (f"--input-data={data}", "--shape=IN:3", "--shape=DELAY:3")

    def burst(self, place):
        for model, _, protocol, _, options in self.loads:
            place.bench(protocol, model, 4 * AT_ONCE, *options, *(self.repeat if model == "repeat" else ()),
                        at_a_time=AT_ONCE)
        for number in range(FILL_ROUNDS):
            self.tenth(place, self.at_least, number)

    def tenth(self, place, n, number):
        total = sum(load[1] for load in self.loads)
        for model, share, protocol, at_a_time, options in self.loads:
            more = self.repeat if model == "repeat" else ()
            place.bench(protocol, model, n * share // total, *options, *more, f"--seed={number}", at_a_time=at_a_time)
        for path in ("/v2/models/stats", "/v2/dashboard?since=0&log=0", "/v2/models/plain/config"):
            place.ask("GET", path)
        place.metrics()
        place.disconnect()


DIGITS = ROOT / "examples" / "models" / "digits"


# ---- 2 ----


class Loads(Part):
    """Models that come and go."""

    name, title, unit, full, at_least = "loads", "loads and unloads", "cycles", 100_000, 100
    options = ("--model-control-mode=explicit", "--load-model=plain",
               "--backend-config=python,python-path=/usr/bin/python3")
    CONFIG = {"backend": "identity", "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
              "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]}
    CLIENTS = 8
    REMEMBERED = 100                    # REPO_MAX_GONE
    ONNX_FIRST = 40
    ONNX_OF, PYTHON_OF = 100, 400       # one of so many cycles
    KINDS = ("plain", "plain", "reload", "plain", "named", "plain", "broken", "plain", "unknown", "refused")

    def __init__(self):
        super().__init__()
        self._numbers = itertools.count(1)

    def models(self):
        return {**Requests().models(), **{f"coming_{i}": operations.MODELS["coming"] for i in range(self.CLIENTS)},
                "coming_python": operations.MODELS["coming_python"],
                "broken": 'backend: "identity"\nmax_batch_size: -7\n'}

    @staticmethod
    def path(model, what):
        return f"/v2/repository/models/{model}/{what}"

    def cycle(self, place, model, value=None):
        place.ask("POST", self.path(model, "load"), value)
        place.ask("POST", self.path(model, "unload"))

    def plain(self, place, number):
        self.cycle(place, f"coming_{number % self.CLIENTS}")
        if number % 16 == 0:
            place.ask("POST", "/v2/repository/index")

    def reload(self, place, number):
        """The model serves while it is loaded with another configuration."""
        model = f"coming_{number % self.CLIENTS}"
        config = {**self.CONFIG, "parameters": {"n": {"string_value": str(number)}}}
        place.ask("POST", self.path(model, "load"))
        self.cycle(place, model, {"parameters": {"config": json.dumps(config)}})

    def named(self, place, number):
        """A name that was never there before, with files of the request."""
        self.cycle(place, f"brought_{number}", {"parameters": {"config": json.dumps(self.CONFIG), "file:1/data": "AAAA"}})

    def refused(self, place, number):
        """Files of a request whose load fails: of its configuration, or of its backend."""
        wrong, status = ({"max_batch_size": -7}, 500) if number % 20 < 10 else ({"backend": "nonexistent"}, 400)
        place.ask("POST", self.path(f"refused_{number}", "load"), {"parameters": {
            "config": json.dumps({**self.CONFIG, **wrong}), "file:1/data": "AAAA"}}, status=status)

    def broken(self, place, number):
        del number
        place.ask("POST", self.path("broken", "load"), status=500)

    def unknown(self, place, number):
        place.ask("POST", self.path(f"unknown_{number}", "load"), status=500)

    def client(self, place, first, n):
        """Every CLIENTS-th number, whose models no other client changes."""
        for number in range(first, first + n * self.CLIENTS, self.CLIENTS):
            getattr(self, self.KINDS[number // self.CLIENTS % len(self.KINDS)])(place, number)

    def clients(self, place, n):
        first = next(self._numbers) * 1_000_000
        with concurrent.futures.ThreadPoolExecutor(self.CLIENTS) as pool:
            for done in [pool.submit(self.client, place, first + i, -(-n // self.CLIENTS)) for i in range(self.CLIENTS)]:
                done.result()

    def burst(self, place):
        """More names than the server remembers, and ONNX models on the heaps of all threads."""
        for number in range(self.REMEMBERED):
            self.named(place, number)
        for _ in range(self.ONNX_FIRST):
            self.cycle(place, "digits")
        self.tenth(place, 4 * len(self.KINDS) * self.CLIENTS, 0)

    def tenth(self, place, n, number):
        self.clients(place, n)
        for _ in range(max(1, n // self.ONNX_OF)):
            self.cycle(place, "digits")
        for _ in range(max(1, n // self.PYTHON_OF)):
            self.cycle(place, "coming_python")
        place.disconnect()


# ---- 3 ----


class Sequences(Part):
    """Sequences, of which one in a hundred is never ended by its client."""

    name, title, unit, full, at_least = "sequences", "sequences", "sequences", 1_000_000, 2000
    LENGTH = 4
    LEFT_OF = 100

    def __init__(self):
        super().__init__()
        self._numbers = itertools.count()

    def models(self):
        def of(strategy, n=8, idle_ms=600_000):
            return operations.identity(f"max_batch_size: {n}\nsequence_batching {{ max_sequence_idle_microseconds: "
                                       f"{idle_ms * 1000} {strategy} }}\n", "1")
        return {"direct": of("direct { }"), "oldest": of("oldest { max_candidate_sequences: 16 }"),
                "left": of("direct { }", 256, 300)}

    def leave(self, place, n):
        for _ in range(n):
            place.ask("POST", "/v2/models/left/infer", {
                "parameters": {"sequence_id": f"left {next(self._numbers)}", "sequence_start": True},
                "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [1]}]})

    def burst(self, place):
        for model in ("direct", "oldest"):
            for protocol, options in (("http", ()), ("grpc", STREAM)):
                place.bench(protocol, model, 4 * AT_ONCE, f"--sequence-length={self.LENGTH}", *options, at_a_time=AT_ONCE)
        for number in range(FILL_ROUNDS):
            self.tenth(place, AT_ONCE * self.LEFT_OF // 4, number)

    def tenth(self, place, n, number):
        length = (f"--sequence-length={self.LENGTH}", "--sequence-length-variation=0")
        for model in ("direct", "oldest"):
            for protocol, options in (("http", ()), ("grpc", STREAM)):
                place.bench(protocol, model, n // 4 * self.LENGTH, *length, *options, f"--seed={number}")
        self.leave(place, max(1, n // self.LEFT_OF))
        place.disconnect()


# ---- 4 ----


class Connections(Part):
    """Connections for one request each."""

    name, title, unit, full, at_least = "connections", "connections for one request", "connections", 2_000_000, 1000
    AT_A_TIME = 64

    def burst(self, place):
        for protocol in ("http", "grpc"):
            place.connections(protocol, "plain", 16 * self.AT_A_TIME, 4 * self.AT_A_TIME)

    def tenth(self, place, n, number):
        for protocol in ("http", "grpc"):
            place.connections(protocol, "plain", n // 2, self.AT_A_TIME)


# ---- 5 ----


class Idle(Part):
    """Connections that do nothing, beside some that do."""

    name, title, unit, full, at_least = "idle", "10 000 idle connections beside 1 000 requests/s", "seconds", 3600, 10
    N_IDLE = 5000           # of each protocol
    RATE = 500              # of each protocol, a second
    options = ("--http-idle-timeout-ms=86400000",)

    def __init__(self):
        super().__init__()
        self._holders = []

    def prepare(self, place):
        before = gauge.read_at_rest(place.pid, place.heap)
        self._holders = [Holder(place, protocol, "plain", self.N_IDLE) for protocol in ("http", "grpc")]
        after = gauge.read_at_rest(place.pid, place.heap)
        self.facts["KiB of an idle connection"] = round((after["rss_kib"] - before["rss_kib"]) / 2 / self.N_IDLE, 2)

    def burst(self, place):
        """As many connections as the load generator opens when the machine is slow."""
        for protocol in ("http", "grpc"):
            place.bench(protocol, "plain", 4096, *SHAPE, at_a_time=1024)

    def tenth(self, place, n, number):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            loads = [pool.submit(place.bench, protocol, "plain", n * self.RATE, f"--request-rate-range={self.RATE}",
                                 *SHAPE) for protocol in ("http", "grpc")]
            for load in loads:
                load.result()

    def read(self, place, first=None):
        """The first readings, which others are compared with, hold nothing that is returned a moment later."""
        return gauge.read_at_rest(place.pid, place.heap, first,
                                  gauge.TRIMMED_SECONDS if first is None else gauge.LEAST_SECONDS)

    def finish(self, place):
        closed = sum(holder.end() for holder in self._holders)
        if closed:
            raise Failed(f"the server has closed {closed} of the connections that stay")
        after = gauge.read_at_rest(place.pid, place.heap)
        self.facts["RSS after they have ended, KiB"] = after["rss_kib"]


# ---- 6 ----


class Models(Part):
    """Many models: what each costs, and that looking at them costs nothing that stays."""

    name, title, unit, full, at_least = "models", "models that stay loaded", "models", 10_000, 50
    POLL_SECONDS = 5
    options = ("--model-control-mode=poll", f"--repository-poll-secs={POLL_SECONDS}")
    ROUNDS, CHANGED = 5, 10      # of a tenth
    FILL_TENTHS = 5

    def __init__(self):
        super().__init__()
        self._size, self._changes = 0, 0

    def size(self, scale):
        self._size = super().size(scale)
        return self._size

    @staticmethod
    def model_name(number):
        return f"model_{number:05}"

    def models(self):
        return {self.model_name(i): operations.MODELS["plain"] for i in range(self._size)}

    def prepare(self, place):
        self.facts["start, s"] = round(place.start_seconds, 2)
        reading = gauge.read_at_rest(place.pid, place.heap)
        with tempfile.TemporaryDirectory() as folder:
            empty = type(place)(place.build, folder, {"model_00000": operations.MODELS["plain"]})
            with contextlib.closing(empty):
                base = gauge.read_at_rest(empty.pid, empty.heap)
        for what, title in (("rss_kib", "RSS of a model, KiB"), ("heap_kib", "heap of a model, KiB"),
                            ("threads", "threads of a model")):
            self.facts[title] = round((reading[what] - base[what]) / max(1, self._size - 1), 2)
        self.time(place, "index, ms", lambda: place.ask("POST", "/v2/repository/index"))
        self.time(place, "metrics page, ms", place.metrics)
        place.disconnect()
        self.measure_polls(place)

    def time(self, place, title, work):
        begin = time.monotonic()
        for _ in range(3):
            work()
        self.facts[title] = round((time.monotonic() - begin) / 3 * 1000, 1)

    def measure_polls(self, place):
        """CPU time of a poll of which nothing comes."""
        before, n = place.cpu_seconds(), 3
        time.sleep(n * self.POLL_SECONDS)
        self.facts["poll, ms of CPU"] = round((place.cpu_seconds() - before) / n * 1000, 1)

    def change(self, place):
        """Each of them waits until it is loaded again."""
        self._changes += 1
        names = [self.model_name(i) for i in range(self.CHANGED)]
        for name in names:
            text = operations.MODELS["plain"] + f'parameters {{ key: "n" value {{ string_value: "{self._changes:06}" }} }}\n'
            new = place.repository / name / ".new"
            new.write_text(text, encoding="ascii")
            new.rename(place.repository / name / "config.pbtxt")
        for name in names:
            self.wait_for_change(place, name)

    def wait_for_change(self, place, name):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            config = json.loads(place.ask("GET", f"/v2/models/{name}/config"))
            if config["parameters"].get("n", {}).get("string_value") == f"{self._changes:06}":
                return
            time.sleep(0.2)
        raise Failed(f"a change of {name} is not polled")

    def burst(self, place):
        """Threads that make an index or statistics get one heap of the C library after the other. It takes some tenths
        until most heaps, up to 8 for each CPU, have had one."""
        for _ in range(self.FILL_TENTHS):
            self.tenth(place, 0, 0)

    def tenth(self, place, n, number):
        for _ in range(self.ROUNDS):
            index = json.loads(place.ask("POST", "/v2/repository/index"))
            if len(index) != self._size:
                raise Failed(f"the index has {len(index)} models")
            place.ask("GET", "/v2/models/stats")
            place.metrics()
        self.change(place)
        place.disconnect()


# ---- 7 ----


class Observed(Part):
    """Traces, a verbose log and readings of the metrics, all at once."""

    name, title, unit, full, at_least = "observed", "requests with traces, logs and metrics", "requests", 1_000_000, 2000
    EVERY = 100         # traces of a file

    def __init__(self):
        super().__init__()
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="neso-length-"))
        self.facts = {"trace files": 0, "log, MB": 0.0, "scrapes": 0}

    @property
    def options(self):
        return ("--log-verbose=1", "--log-format=json", f"--log-file={self._folder / 'log'}",
                "--metrics-config=histogram_latencies=true",
                *(f"--trace-config={setting}" for setting in (
                    f"triton,file={self._folder / 'trace'}", f"triton,log-frequency={self.EVERY}", "rate=1",
                    "level=TIMESTAMPS", "level=TENSORS")))

    def models(self):
        return {name: operations.MODELS[name] for name in ("plain", "thread", "batched", "ensemble")}

    LOADS = (("plain", "http", SHAPE), ("plain", "grpc", SHAPE), ("batched", "http", ()), ("ensemble", "http", SHAPE),
             ("thread", "grpc", (*SHAPE, *STREAM)))

    def burst(self, place):
        for model, protocol, options in self.LOADS:
            place.bench(protocol, model, 20 * self.EVERY, *options, at_a_time=64)
        self.rotate()

    def tenth(self, place, n, number):
        share = max(self.EVERY, n // 5 // self.EVERY * self.EVERY)  # no trace waits for its file to be full
        with Ticker(lambda: (place.metrics(), place.ask("GET", "/v2/dashboard?since=0&log=0")), 0.5) as scrapes:
            for model, protocol, options in self.LOADS:
                place.bench(protocol, model, share, *options, f"--seed={number}")
        self.facts["scrapes"] += scrapes.n_done
        place.disconnect()
        self.rotate()

    def rotate(self):
        """As logrotate does with copytruncate, and a program that collects traces."""
        log = self._folder / "log"
        self.facts["log, MB"] = round(self.facts["log, MB"] + log.stat().st_size / 1e6, 1)
        with open(log, "r+b") as file:
            file.truncate(0)
        for path in sorted(self._folder.glob("trace.*"), key=lambda path: int(path.suffix[1:])):
            json.loads(path.read_text())
            path.unlink()
            self.facts["trace files"] += 1

    def finish(self, place):
        if self.facts["trace files"] == 0 or self.facts["scrapes"] == 0:
            raise Failed(f"something was never done: {self.facts}")
        shutil.rmtree(self._folder, ignore_errors=True)


PARTS = (Requests, Loads, Sequences, Connections, Idle, Models, Observed)
