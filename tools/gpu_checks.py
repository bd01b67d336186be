#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What tools/check_gpu.sh measures and compares, once there is a GPU and a build.

  gpu_checks.py [--fake] [--quick]

Needs the standard library alone; the tests need pytest and what they import, and are left out without it. Each part
starts a server of its own. A part that cannot be run has a line that says why, and is no failure; one that fails is.
"""
import argparse
import contextlib
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("NESO_BUILD", ROOT / "build"))
BACKEND = BUILD / "tests" / "e2e" / "libtriton_gpu.so"
FAKE_ONNXRUNTIME = BUILD / "tests" / "e2e" / "libfake_cuda_onnxruntime.so"
MIB = 1 << 20
TEST_SECONDS = 240
START_SECONDS = 60
ELEMENTS = MIB // 4  # FP32: 1 MiB
TICK = os.sysconf("SC_CLK_TCK")

# Tests that need one device, and nothing of the stand-ins; add_1 is a model on the second one.
QUICK_TESTS = ["test_gpu_page.py", "test_gpu_pipelines.py::test_three_steps_on_one_device",
               "test_gpu_pipelines.py::test_state_that_grows",
               "test_cuda_shared_memory_models.py::test_in_place"]
TESTS = ["test_gpu.py::test_add", "test_gpu.py::test_requests_of_a_batch", "test_gpu.py::test_identity",
         "test_gpu.py::test_identity_of_strings", "test_gpu.py::test_identity_of_two_bytes",
         "test_gpu.py::test_where_inputs_lie", "test_gpu.py::test_state_of_a_sequence",
         *(f"test_gpu_pipelines.py::{name}" for name in (
             "test_three_steps_on_one_device", "test_step_on_cpu", "test_output_in_between", "test_nested",
             "test_errors_in_the_middle", "test_state_on_device", "test_state_that_grows",
             "test_state_that_grows_too_far", "test_growable_without_gpu", "test_regions_of_a_client")),
         *(f"test_cuda_shared_memory_models.py::{name}" for name in (
             "test_in_place", "test_cpu_model_sees_the_host", "test_round_trip", "test_strings", "test_large",
             "test_unregistered_while_used")),
         *(f"test_cuda_shared_memory.py::{name}" for name in (
             "test_kinds", "test_bad_bodies", "test_strings", "test_large", "test_empty", "test_batches",
             "test_bad_ranges", "test_sizes", "test_compressed", "test_unregister_in_flight",
             "test_stream_of_responses")),
         *(f"test_gpu_python.py::{name}" for name in (
             "test_input_where_it_lies", "test_input_part_of_a_region", "test_input_that_is_kept",
             "test_input_as_output", "test_ensemble", "test_call", "test_preferred_memory",
             "test_process_that_ends")),
         "test_gpu_page.py"]
ONE_DEVICE = "not add_1 and not 1-directions1"


class Failure(Exception):
    pass


class NotRun(Exception):
    pass


class Table:
    """Lines of what, figure, mark, verdict."""

    def __init__(self, is_fake):
        self.is_fake = is_fake
        self.n_failed = 0
        self.n_good = 0
        self._line("WHAT", "FIGURE", "MARK", "")

    def _line(self, what, figure, mark, verdict):
        print(f"{what:<58} {figure:>26}  {mark:<24} {verdict}".rstrip(), flush=True)

    def add(self, what, figure, mark, is_good):
        self.n_good += is_good
        self.n_failed += not is_good
        self._line(what, figure, mark, "ok" if is_good else "NOT OK")

    def ratio(self, what, value, least=None, most=None):
        """On the stand-ins, whose times mean nothing, a figure without a mark."""
        if self.is_fake:
            self._line(what, f"{value:.2f}", "", "")
        elif least is not None:
            self.add(what, f"{value:.2f}", f">= {least}", value >= least)
        else:
            self.add(what, f"{value:.2f}", f"<= {most}", value <= most)

    def figure(self, what, text):
        self._line(what, text, "", "")

    def not_run(self, what, why):
        self._line(what, "not run", "", why)


# ---- servers and clients ------------------------------------------------------------------------


def backend_directory(folder):
    links = {path.name: path for path in (BUILD / "backends").iterdir() if path.is_dir()}
    for name, path in links.items():
        (folder / name).symlink_to(path.resolve())
    (folder / "gpu").mkdir()
    (folder / "gpu" / BACKEND.name).symlink_to(BACKEND.resolve())
    return folder


class Server:
    def __init__(self, folder, models, *options):
        self.folder = pathlib.Path(folder)
        repository, backends = self.folder / "models", self.folder / "backends"
        repository.mkdir()
        for name, text in models.items():
            (repository / name / "1").mkdir(parents=True)
            (repository / name / "config.pbtxt").write_text(text)
        backends.mkdir()
        ports = self.folder / "ports"
        self.log = self.folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [BUILD / "neso", "serve", f"--model-repository={repository}",
                 f"--backend-directory={backend_directory(backends)}", f"--port-file={ports}",
                 "--http-address=127.0.0.1", "--http-port=0", "--allow-grpc=false", "--metrics-port=0",
                 "--allow-client-shm=true", *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.ports = self._wait_for(ports)
        except Failure:
            self._end(signal.SIGKILL)
            raise

    def _wait_for(self, ports):
        deadline = time.monotonic() + START_SECONDS
        while not ports.exists() or "http=" not in ports.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failure("the server did not start: " + self._last_lines())
            time.sleep(0.05)
        return dict(line.split("=") for line in ports.read_text().split())

    def _last_lines(self):
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-3:])

    def get(self, path, port="http"):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=60) as reply:
            return reply.read().decode()

    def post(self, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports['http']}{path}",
                                         json.dumps(body or {}).encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.read().decode()
        except urllib.error.HTTPError as error:
            raise Failure(f"{path}: {error.code} {error.read().decode(errors='replace')}") from None

    def metric(self, name):
        """The sum of all samples whose name and labels begin like this."""
        found = re.findall(rf"^{re.escape(name)}.* (\S+)$", self.get("/metrics", "metrics"), re.M)
        if not found:
            raise Failure(f"there is no metric {name}")
        return sum(map(float, found))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def answered(self, model):
        stats = json.loads(self.get(f"/v2/models/{model}/stats"))["model_stats"]
        return sum(one["inference_stats"]["success"]["count"] for one in stats)

    def bench(self, model, seconds, concurrency=8, memory="cuda", output_bytes=MIB, requests=None):
        """(requests a second, CPU seconds of the server for each request)"""
        size = ["--request-count", str(requests)] if requests else [
            "--measurement-interval", str(int(seconds * 1000)), "--max-trials", "3", "-s", "50"]
        before, answered = self.cpu_seconds(), self.answered(model)
        done = subprocess.run(
            [BUILD / "neso", "bench", "-m", model, "-u", f"127.0.0.1:{self.ports['http']}",
             "--concurrency-range", str(concurrency), "--shared-memory", memory, "--distinct", "1",
             "--output-shared-memory-size", str(output_bytes), "--json", *size],
            capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise Failure(f"neso bench -m {model}: {done.stderr.strip()[-200:]}")
        load = json.loads(done.stdout)["loads"][0]
        if load["failed"] > 0 or load["requests"] == 0:
            raise Failure(f"{model}: {load['failed']} of {load['requests']} requests failed")
        return load["rate"], (self.cpu_seconds() - before) / (self.answered(model) - answered)

    def _end(self, number):
        self.process.send_signal(number)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def stop(self):
        code = self._end(signal.SIGTERM)
        if code != 0:
            raise Failure(f"the server ended with {code}: " + self._last_lines())


@contextlib.contextmanager
def serving(models, *options):
    with tempfile.TemporaryDirectory(prefix="neso-gpu-") as folder:
        server = Server(folder, models, *options)
        try:
            yield server
        except BaseException:
            with contextlib.suppress(Failure):
                server.stop()
            raise
        server.stop()


def model(op, n, more=""):
    names = ["INPUT0", "INPUT1"] if op == "add" else ["INPUT0"]
    inputs = "".join(f'input {{ name: "{name}" data_type: TYPE_FP32 dims: [ {n} ] }}\n' for name in names)
    return (f'backend: "gpu"\n{inputs}output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {n} ] }}\n'
            f'instance_group {{ kind: KIND_GPU gpus: [ 0 ] }}\n'
            f'parameters {{ key: "op" value {{ string_value: "{op}" }} }}\n{more}')


def ensemble(n, *models):
    names = ["INPUT0", *(f"between_{i}" for i in range(1, len(models))), "OUTPUT0"]
    steps = "".join(f'step {{ model_name: "{name}" model_version: -1\n'
                    f'  input_map {{ key: "INPUT0" value: "{names[i]}" }}\n'
                    f'  output_map {{ key: "OUTPUT0" value: "{names[i + 1]}" }} }}\n' for i, name in enumerate(models))
    return (f'platform: "ensemble"\ninput {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ {n} ] }}\n'
            f'output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {n} ] }}\nensemble_scheduling {{\n{steps}}}\n')


# ---- the parts ----------------------------------------------------------------------------------


def run_tests(table, o):
    """The tests of behaviour that need one device, against this driver."""
    what = "tests against the driver"
    if subprocess.run([sys.executable, "-c", "import pytest, requests, numpy, grpc"], capture_output=True,
                      check=False).returncode != 0:
        raise NotRun("pytest, requests, numpy or grpc is missing")
    files = {}
    for name in QUICK_TESTS if o.quick else TESTS:
        files.setdefault(name.partition("::")[0], []).append(f"tests/e2e/{name}")
    counts, lines = {}, []
    deadline = time.monotonic() + TEST_SECONDS
    for names in files.values():
        printed = run_file(names, deadline)
        for n, word in re.findall(r"(\d+) (passed|failed|error|skipped)", printed[-1]):
            counts[word] = counts.get(word, 0) + int(n)
        lines += [line for line in printed if re.match(r"(FAILED|ERROR) ", line)]
    n_bad = counts.get("failed", 0) + counts.get("error", 0)
    table.add(what, f"{counts.get('passed', 0)} passed, {n_bad} failed", "none fails",
              n_bad == 0 and counts.get("passed", 0) > 0)
    for line in lines:
        print(f"    {line[:150]}")


def run_file(names, deadline):
    """The lines that pytest prints."""
    try:
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "-k",
                               ONE_DEVICE, *names], cwd=ROOT, capture_output=True, text=True,
                              timeout=max(1, deadline - time.monotonic()), check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"not done after {TEST_SECONDS} s, at {names[0]}") from None
    printed = done.stdout.strip().splitlines()
    summary = [line for line in printed if re.search(r"\d+ (passed|failed|error|skipped|deselected)", line)]
    if done.returncode not in (0, 1) or not summary:
        raise Failure(f"pytest ended with {done.returncode} at {names[0]}: {done.stderr[-200:]}")
    return [*printed, summary[-1]]


def measure_regions(table, o):
    """A client's memory on the GPU, opened by CUDA's IPC in the server, against system shared memory."""
    seconds = 0.5 if o.quick else 5
    with serving({"large": model("add", ELEMENTS), "small": model("add", 1)}) as server:
        rates, cpu = {}, {}
        for memory in ("system", "cuda"):
            rates[memory], cpu[memory] = server.bench("large", seconds, memory=memory)
        one_rate, one_cpu = server.bench("small", seconds, output_bytes=64)
        table.figure("add of 1 MiB, CUDA regions, requests a second", f"{rates['cuda']:.0f}")
        table.figure("add of 1 MiB, system regions, requests a second", f"{rates['system']:.0f}")
        table.figure("add of FP32 [1], CUDA regions, requests a second", f"{one_rate:.0f}")
        table.ratio("add of 1 MiB: rate with CUDA regions / system regions", rates["cuda"] / rates["system"], least=3)
        table.figure("add of 1 MiB, CUDA regions, CPU of the server", f"{cpu['cuda'] * 1e6:.0f} us a request")
        table.ratio("CPU of the server: 1 MiB / FP32 [1]", cpu["cuda"] / max(one_cpu, 1e-9), most=2)


def measure_ensemble(table, o):
    """Three steps on one GPU against one of them; the client's tensors are on the GPU, too."""
    seconds = 0.5 if o.quick else 5
    steps = {name: model("identity", ELEMENTS) for name in ("a", "b", "c")}
    with serving({**steps, "three": ensemble(ELEMENTS, "a", "b", "c")}) as server:
        one, _ = server.bench("a", seconds)
        before = server.metric('neso_gpu_copied_bytes_total{direction="to_host"}')
        three, _ = server.bench("three", seconds)
        copied = server.metric('neso_gpu_copied_bytes_total{direction="to_host"}') - before
        table.ratio("ensemble of 3 steps: rate / rate of one step", three / one, least=0.8)
        table.add("bytes from the GPU to the host between steps", f"{copied:.0f}", "0", copied == 0)


def memory_used(server):
    gpu = json.loads(server.get("/v2/gpus"))["gpus"][0]
    return gpu.get("memory_used_bytes")


def measure_reloads(table, o):
    """Requests, loads and unloads leave the memory of the GPU as it was after the first of them."""
    cycles, n = (3, 50) if o.quick else (40, 1000)
    with serving({"add": model("add", ELEMENTS)}, "--model-control-mode=explicit") as server:
        used = []
        for _ in range(cycles):
            server.post("/v2/repository/models/add/load")
            server.bench("add", 0, requests=n)
            server.post("/v2/repository/models/add/unload")
            deadline = time.monotonic() + 30
            while '"state":"READY"' in server.post("/v2/repository/index") and time.monotonic() < deadline:
                time.sleep(0.02)
            used.append(memory_used(server))
        what = f"GPU memory after {cycles} loads and {cycles * n} requests"
        if table.is_fake:  # its NVML has constant values; memory that is left ends the server with a report
            table.figure(what, "no leak")
        elif None in used:
            table.not_run(what, "NVML reads no memory here")
        else:
            grown = (used[-1] - used[0]) / MIB
            table.add(what, f"{grown:+.1f} MiB", "<= 16 MiB more", grown <= 16)


def compare_metrics(table, o):
    """nvidia-smi is another program with the same readings."""
    del o
    query = "uuid,memory.total,memory.used,power.limit"
    with serving({"add": model("add", 1)}) as server:
        gpu = json.loads(server.get("/v2/gpus"))["gpus"][0]
        if f'nv_gpu_memory_total_bytes{{gpu_uuid="{gpu["uuid"]}"' not in server.get("/metrics", "metrics"):
            raise Failure("NVML reads no memory of the first GPU")
        total = server.metric(f'nv_gpu_memory_total_bytes{{gpu_uuid="{gpu["uuid"]}"')
        table.add("metrics of the first GPU", f"{total / MIB:.0f} MiB", "are there", total > 0)
        try:
            said = subprocess.run(["nvidia-smi", f"--id={gpu['uuid']}", f"--query-gpu={query}",
                                   "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=30,
                                  check=True).stdout.strip().split(", ")
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotRun(f"nvidia-smi: {str(error)[:60]}") from None
        table.add("UUID, as nvidia-smi", gpu["uuid"][:20] + "...", "equal", said[0] == gpu["uuid"])
        table.add("total memory, as nvidia-smi", f"{total / MIB:.0f} MiB", f"{said[1]} MiB +- 1",
                  abs(total / MIB - float(said[1])) <= 1)
        used = server.metric(f'nv_gpu_memory_used_bytes{{gpu_uuid="{gpu["uuid"]}"') / MIB
        # NVML's older call, which the server uses, counts memory that the driver keeps for itself.
        table.add("used memory, as nvidia-smi", f"{used:.0f} MiB", f"{said[2]} MiB +- 1024",
                  abs(used - float(said[2])) <= 1024)
        limit = server.metric(f'nv_gpu_power_limit{{gpu_uuid="{gpu["uuid"]}"')
        if said[3].replace(".", "").isdigit():
            table.add("power limit, as nvidia-smi", f"{limit:.0f} W", f"{said[3]} W +- 1", abs(limit - float(said[3])) <= 1)


def place_fake_onnxruntime(folder):
    """The tests' library that seems to have the CUDA provider, and the file beside it that says so."""
    if not FAKE_ONNXRUNTIME.exists():
        return None
    local = ROOT / ".deps" / "onnxruntime" / "lib" / "libonnxruntime.so.1"
    os.environ["NESO_REAL_ONNXRUNTIME"] = str(local) if local.exists() else "libonnxruntime.so"
    os.environ["NESO_FAKE_PROVIDERS"] = str(folder / "providers")
    (folder / "libonnxruntime_providers_cuda.so").write_bytes(b"")
    (folder / FAKE_ONNXRUNTIME.name).symlink_to(FAKE_ONNXRUNTIME.resolve())
    return folder / FAKE_ONNXRUNTIME.name


def find_onnxruntime():
    """A library of ONNX Runtime with the CUDA provider beside it; None."""
    if os.environ.get("NESO_ONNXRUNTIME"):
        return os.environ["NESO_ONNXRUNTIME"]
    places = [*sys.path, "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/local/lib", "/opt/onnxruntime/lib",
              "/opt/tritonserver/backends/onnxruntime"]
    for place in places:
        for provider in glob.glob(f"{place}/**/libonnxruntime_providers_cuda.so", recursive=place.startswith("/opt")) \
                + glob.glob(f"{place}/onnxruntime/capi/libonnxruntime_providers_cuda.so"):
            for library in sorted(glob.glob(os.path.dirname(provider) + "/libonnxruntime.so*")):
                return library
    return None


def digits(kind):
    text = (ROOT / "examples/models/digits/config.pbtxt").read_text()
    text = text.replace("instance_group { count: 1 kind: KIND_CPU }", "")
    return text + f"\ninstance_group {{ kind: KIND_{kind} }}\n"


def answer_of_digits(kind, library):
    """The outputs of the bundled ONNX model for one image."""
    with tempfile.TemporaryDirectory(prefix="neso-gpu-") as folder:
        with serving_digits(folder, kind, library) as server:
            described = json.loads(server.get("/v2/models/digits"))
            inputs = []
            for one in described["inputs"]:
                shape = [1 if size < 0 else size for size in one["shape"]]
                n = 1
                for size in shape:
                    n *= size
                inputs.append({"name": one["name"], "datatype": one["datatype"], "shape": shape,
                               "data": [(7 * i) % 16 for i in range(n)]})
            outputs = json.loads(server.post("/v2/models/digits/infer", {"inputs": inputs}))["outputs"]
            return {one["name"]: one["data"] for one in outputs if one["datatype"] != "BYTES"}


@contextlib.contextmanager
def serving_digits(folder, kind, library):
    repository = pathlib.Path(folder) / "digits"
    repository.mkdir()
    with serving({}, f"--backend-config=onnxruntime,library={library}", "--model-control-mode=explicit",
                 f"--model-repository={repository}") as server:
        target = repository / "digits"
        shutil.copytree(ROOT / "examples" / "models" / "digits", target)
        (target / "config.pbtxt").write_text(digits(kind))
        server.post("/v2/repository/models/digits/load")
        yield server


def protobuf(*fields):
    """Pairs of a field's number and its value: a number, a text, or the bytes of a message."""
    def varint(number):
        return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)

    encoded = b""
    for number, value in fields:
        if isinstance(value, int):
            encoded += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            encoded += varint(number << 3 | 2) + varint(len(value)) + value
    return encoded


def doubling_file(n):
    """An ONNX file: OUTPUT0 = INPUT0 + INPUT0, FP32 [n]. The numbers are those of onnx.proto."""
    type_ = protobuf((1, protobuf((1, 1), (2, protobuf((1, protobuf((1, n))))))))
    node = protobuf((1, "INPUT0"), (1, "INPUT0"), (2, "OUTPUT0"), (4, "Add"))
    graph = protobuf((1, node), (2, "graph"), (11, protobuf((1, "INPUT0"), (2, type_))),
                     (12, protobuf((1, "OUTPUT0"), (2, type_))))
    return protobuf((1, 7), (7, graph), (8, protobuf((2, 13))))


def measure_onnx_ensemble(table, o, library):
    """Two steps on one GPU, with the client's tensors there, too: no byte passes through main memory."""
    step = "".join(f'{kind} {{ name: "{name}0" data_type: TYPE_FP32 dims: [ {ELEMENTS} ] }}\n'
                   for kind, name in (("input", "INPUT"), ("output", "OUTPUT")))
    step = f'backend: "onnxruntime"\n{step}instance_group {{ kind: KIND_GPU gpus: [ 0 ] }}\n'
    models = {"a": step, "b": step, "two": ensemble(ELEMENTS, "a", "b")}
    with tempfile.TemporaryDirectory(prefix="neso-gpu-") as folder:
        repository = pathlib.Path(folder)
        for name, text in models.items():
            (repository / name / "1").mkdir(parents=True)
            (repository / name / "config.pbtxt").write_text(text)
            if name != "two":
                (repository / name / "1" / "model.onnx").write_bytes(doubling_file(ELEMENTS))
        with serving({}, f"--backend-config=onnxruntime,library={library}", f"--model-repository={repository}") as server:
            server.bench("two", 0.5 if o.quick else 5)
            copied = sum(server.metric(f'neso_gpu_copied_bytes_total{{direction="{direction}"}}')
                         for direction in ("to_host", "to_device"))
            table.add("bytes through main memory, ensemble of 2 ONNX models", f"{copied:.0f}", "0", copied == 0)


def compare_onnx(table, o):
    """The same file on GPU and CPU, by a library that the machine has, and an ensemble."""
    with tempfile.TemporaryDirectory(prefix="neso-gpu-") as folder:
        library = place_fake_onnxruntime(pathlib.Path(folder)) if table.is_fake else find_onnxruntime()
        if library is None:
            raise NotRun("no library of ONNX Runtime with CUDA; NESO_ONNXRUNTIME may name one")
        answers = [answer_of_digits(kind, library) for kind in ("CPU", "GPU")]
        measure_onnx_ensemble(table, o, library)
    largest = max(abs(a - b) for name in answers[0] for a, b in zip(answers[0][name], answers[1][name]))
    table.add("ONNX model: largest difference between GPU and CPU", f"{largest:.2g}", "<= 1e-4", largest <= 1e-4)


PARTS = (("tests against the driver", run_tests), ("CUDA regions", measure_regions), ("ensemble", measure_ensemble),
         ("loads and unloads", measure_reloads), ("metrics", compare_metrics), ("ONNX Runtime", compare_onnx))


def run_part(table, o, name, part):
    try:
        part(table, o)
    except NotRun as why:
        table.not_run(name, str(why))
    except (Failure, OSError, KeyError, IndexError, ValueError, ZeroDivisionError,
            subprocess.TimeoutExpired) as why:
        table.add(name, "failed", "", False)
        print(f"    {type(why).__name__}: {str(why)[:400]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--quick", action="store_true")
    o = parser.parse_args()
    begin = time.monotonic()
    report = pathlib.Path(tempfile.gettempdir()) / f"neso_gpu_report_{os.getpid()}"
    if o.fake:
        os.environ["NESO_FAKE_GPU_REPORT"] = str(report)
        print("On stand-ins of the driver: this shows that the script works, and nothing about GPUs.")
    table = Table(o.fake)
    for name, part in PARTS:
        run_part(table, o, name, part)
    if report.exists():
        table.add("use of the driver", "misused", "", False)
        print("    " + report.read_text())
        report.unlink()
    print(f"{table.n_good} ok, {table.n_failed} not ok, {time.monotonic() - begin:.0f} s")
    return table.n_failed > 0


if __name__ == "__main__":
    sys.exit(main())
