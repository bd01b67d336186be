#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a peer makes the server hold and compute for each byte that it sends.

  make hostile        or        tests/stress/hostile.py --build=build [--decoder=TEXT] [--markdown]

Sends each case of hostile_cases.py once to a server with one thread for each protocol, and reads the
server's resident memory and processor time. After each case the server must answer. Fails when a
case is beyond one of these:

  held   the peak of its resident memory above what it had at its start, 16 bytes for each byte of
         the request once it is decompressed (28 for a configuration while it loads), beside a
         constant; of requests that never end, for each byte that was sent
  CPU    half a microsecond for each of these bytes and 25 for each request, beside a constant
  others 50 ms: what a client beside it waits for its answer at worst, on the same loop (bystander.py); the best of
         three tries counts
  budget --memory-budget, while many peers at a time send what is large

A line for each case as it ends says what it took; the table at the end has the worst ones.
"""
import argparse
import concurrent.futures
import gzip
import itertools
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "stress")]
import frames  # noqa: E402
import hostile_cases  # noqa: E402
import hostile_fronts  # noqa: E402

HELD_FLOOR = 4 << 20
CPU_PER_BYTE = 0.5e-6  # seconds
CPU_FLOOR = 0.05
CPU_PER_REQUEST = 25e-6
ANSWER_SECONDS = 30
HOLD_SECONDS = 0.3  # how long requests without an end are left open
ANSWER_HELD_SECONDS = 3  # time to compute answers that are not read
WATCH_SECONDS = 3  # the deadline of Watch, which does not end by itself
COST_SECONDS = 1  # for measuring what the bystander's own questions cost
OTHERS_MS = 50
OTHERS_TRIES = 3
BUDGET = 64 << 20
BUDGET_ALLOWED = 1.25 * BUDGET + (32 << 20)  # pools, and what a loop itself has

MODELS = {
    "fp32": 'backend: "identity"\ninput { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }\n',
    "bytes": 'backend: "identity"\ninput { name: "INPUT0" data_type: TYPE_STRING dims: -1 }\n'
             'output { name: "OUTPUT0" data_type: TYPE_STRING dims: -1 }\n',
    "other": 'backend: "identity"\ninput { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }\n'
             'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }\n',
    **hostile_fronts.MODELS,
}
PREDICT, HEALTH = "/v1/endpoints/7/deployedModels/8:predict", "/v1/endpoints/7/deployedModels/8"
CLOUD = {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "fp32", "AIP_PREDICT_ROUTE": PREDICT, "AIP_HEALTH_ROUTE": HEALTH}
SERVICES = {"HTTP": r"HTTPService", "GRPCInference": "GRPCInferenceService", "SageMaker": "Sagemaker HTTPService",
            "VertexAI": "Vertex AI HTTPService"}
STARTED = re.compile(r"Started (" + "|".join(SERVICES.values()) + r") at 127\.0\.0\.1:(\d+)")
# Whom a bystander asks beside the cases of decoders whose names begin so: thread, service, arguments.
BYSTANDERS = {"HTTP/2": ("neso-grpc", "GRPCInference", "grpc"), "gRPC": ("neso-grpc", "GRPCInference", "grpc"),
              "SageMaker": ("neso-sm", "SageMaker", "http", "/ping"),
              "Vertex AI": ("neso-vertex", "VertexAI", "http", HEALTH),
              "": ("neso-http", "HTTP", "http", "/v2/health/live")}
GOOD = json.dumps({"inputs": [{"name": "INPUT0", "shape": [2], "datatype": "FP32",
                               "data": [1, 2]}]}).encode()


class Server:
    """One server process; started again when it holds memory that it does not need."""

    def __init__(self, build, repository, options=()):
        self.command = [str(build / "neso"), "serve", f"--model-repository={repository}",
                        f"--backend-directory={build / 'backends'}",
                        "--model-control-mode=explicit",
                        *(f"--load-model={name}" for name in MODELS if name != "other"),
                        "--http-address=127.0.0.1", "--http-port=0",
                        "--grpc-address=127.0.0.1", "--grpc-port=0", "--metrics-port=0",
                        "--http-thread-count=1", "--grpc-infer-thread-count=1",
                        "--allow-sagemaker=true", "--sagemaker-port=0", "--sagemaker-thread-count=1",
                        "--allow-vertex-ai=true", "--vertex-ai-port=0", "--vertex-ai-thread-count=1",
                        "--vertex-ai-default-model=fp32", *options]
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True, errors="replace", env={**os.environ, **CLOUD})
        self.ports = {}
        names = {text: name for name, text in SERVICES.items()}
        for line in self.process.stderr:
            found = STARTED.search(line)
            if found:
                self.ports[names[found.group(1)]] = int(found.group(2))
            if len(self.ports) == len(SERVICES):
                break
        else:
            raise SystemExit("the server did not start: " + " ".join(self.command))
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{self.ports['GRPCInference']}",
            options=[("grpc.max_send_message_length", -1),
                     ("grpc.max_receive_message_length", -1)])
        self.check()
        self.base = self.memory("VmRSS")

    def stop(self):
        self.channel.close()
        self.process.terminate()
        try:
            return self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def restart(self):
        self.channel.close()
        self.process.kill()
        self.process.wait()
        self.start()

    def port(self, _):
        return self.ports["GRPCInference"]

    # What it holds and has computed.

    def memory(self, key):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(rf"{key}:\s+(\d+) kB", status).group(1)) << 10

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def cpu_seconds(self):
        """With threads that have ended, as those of loads do; in steps of 10 ms."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        fields = stat.rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # How cases send.

    def connect(self, name="HTTP"):
        return socket.create_connection(("127.0.0.1", self.ports[name]), ANSWER_SECONDS)

    def http(self, text, name="HTTP"):
        """The status of the last answer; the connection is read to its end."""
        last = b""
        with self.connect(name) as s:
            sender = threading.Thread(target=send, args=(s, text), daemon=True)
            sender.start()
            try:
                while more := s.recv(1 << 20):
                    last = last or more[:16]
            except OSError:
                pass
            sender.join(ANSWER_SECONDS)
        found = re.match(rb"HTTP/1\.1 (\d+)", last)
        return found.group(1).decode() if found else "closed"

    def http_held(self, texts, seconds=HOLD_SECONDS, name="HTTP"):
        """Leaves all connections open for a while, and reads nothing."""
        sockets = [self.connect(name) for _ in texts]
        for s, text in zip(sockets, texts):
            send(s, text)
        time.sleep(seconds)
        for s in sockets:
            s.close()
        return "open"

    def h2_held(self, text):
        with frames.Raw(self) as raw:
            reader = threading.Thread(target=self.drain, args=(raw.socket,), daemon=True)
            reader.start()
            raw.send(text)
            time.sleep(HOLD_SECONDS)
            raw.socket.shutdown(socket.SHUT_RDWR)
            reader.join(ANSWER_SECONDS)
        return "open"

    @staticmethod
    def drain(s):
        try:
            while s.recv(1 << 20):
                pass
        except OSError:
            pass

    def grpc(self, method, messages, is_stream, is_compressed):
        arguments = {"timeout": WATCH_SECONDS if method.endswith("/Watch") else ANSWER_SECONDS}
        if is_compressed:
            arguments["compression"] = grpc.Compression.Gzip
        try:
            if is_stream:
                call = self.channel.stream_stream(method)
                for _ in call(iter(messages), **arguments):
                    pass
            else:
                self.channel.unary_unary(method)(messages[0], **arguments)
            return "OK"
        except grpc.RpcError as e:
            return e.code().name

    def check(self):
        """Raises when it does not serve."""
        if self.http(hostile_cases.http_request("/v2/models/fp32/infer", GOOD)) != "200":
            raise RuntimeError("a good HTTP request is not answered")
        self.channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(
            b"", timeout=ANSWER_SECONDS, wait_for_ready=True)


def send(s, text):
    try:
        s.sendall(text)
    except OSError:
        pass  # the server has closed it


class Bystander:
    """bystander.py, which asks while a case is sent."""

    def __init__(self):
        self.costs = {}
        self.start()

    def start(self):
        self.process = subprocess.Popen([sys.executable, str(ROOT / "tests/stress/bystander.py")], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def tell(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def hear(self):
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError("the bystander: " + answer["error"])
        return answer

    @staticmethod
    def who(decoder):
        return next(who for start, who in BYSTANDERS.items() if decoder.startswith(start))

    def cost(self, server, decoder):
        """CPU time of the server for one of its answers, in seconds."""
        who = self.who(decoder)
        if who not in self.costs:
            self.begin(server, decoder)
            cpu = server.cpu_seconds()
            time.sleep(COST_SECONDS)
            n_answers = self.end()["n"]
            self.costs[who] = (server.cpu_seconds() - cpu) / n_answers
        return self.costs[who]

    def begin(self, server, decoder):
        thread, service, kind, *more = self.who(decoder)
        self.tell(" ".join(["begin", str(server.process.pid), thread, kind, str(server.ports[service]), *more]))
        self.hear()

    def end(self):
        self.tell("end")
        return self.hear()

    def stop(self):
        self.process.stdin.close()
        self.process.wait()

    def restart(self):
        self.process.kill()
        self.process.wait()
        self.start()


class Result:
    def __init__(self, case, answer, held, cpu, others_ms=0, error=None):
        self.case = case._replace(send=None)  # its bytes are not needed any more
        self.answer = answer
        self.held = held
        self.cpu = cpu
        self.others_ms = others_ms
        self.basis = case.decoded_bytes or case.wire_bytes
        self.failures = [error] if error else []
        if held > self.most_held:
            self.failures.append("held")
        if self.cpu > CPU_PER_BYTE * self.basis + self.cpu_floor:
            self.failures.append("CPU")
        if others_ms > OTHERS_MS:
            self.failures.append("others")

    @property
    def most_held(self):
        return self.case.held_per_byte * self.basis + HELD_FLOOR

    @property
    def cpu_floor(self):
        return CPU_FLOOR + CPU_PER_REQUEST * self.case.n_requests

    @property
    def held_per_byte(self):
        return max(0, self.held - HELD_FLOOR) / self.basis

    @property
    def cpu_per_byte(self):
        return max(0, self.cpu - self.cpu_floor) / self.basis

    @property
    def worst(self):
        """As a part of what is allowed."""
        return max(self.held / self.most_held,
                   self.cpu / (CPU_PER_BYTE * self.basis + self.cpu_floor),
                   10 if self.failures else 0)


def run_case(server, bystander, case):
    """What it holds and computes is that of the worst try, what others wait that of the best one."""
    results = [try_case(server, bystander, case)]
    while results[-1].failures == ["others"] and len(results) < OTHERS_TRIES:
        results.append(try_case(server, bystander, case))
    return results[-1]


def run_cases(server, bystander, cases):
    """Says of each when it has ended: seconds since the first one began, its number, its row."""
    begun = time.monotonic()
    results = []
    for number, case in enumerate(cases, 1):
        results.append(run_case(server, bystander, case))
        print(f"{time.monotonic() - begun:6.0f} s {number:5}", end=" ")
        print_row(results[-1])
    return results


def try_case(server, bystander, case):
    if server.memory("VmRSS") > server.base + (2 << 20):
        server.restart()
    server.forget_peak()
    try:
        cost = bystander.cost(server, case.decoder)
        bystander.begin(server, case.decoder)
        cpu = server.cpu_seconds()
        answer = case.send(server)
        held = server.memory("VmHWM") - server.base
        others = bystander.end()
        cpu = max(0, server.cpu_seconds() - cpu - cost * others["n"])
        server.check()
        return Result(case, answer, held, cpu, others["worst_ms"])
    except (OSError, RuntimeError, grpc.RpcError) as e:
        code = server.process.poll()
        what = f"the server ended: {code}" if code is not None else f"no answer: {e}"
        server.restart()
        bystander.restart()
        return Result(case, "none", 0, 0, error=what)


# ---- the byte budget -----------------------------------------------------------------------------

def budget_cases(server):
    """Many peers at a time; each request by itself is allowed."""
    large = gzip.compress(bytes(48 << 20))
    request = (b"POST /v2/models/fp32/infer HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\n"
               b"Content-Length: %d\r\n\r\n" % len(large)) + large
    yield "32 gzip bodies of 48 MiB over HTTP", lambda: at_once(
        [lambda: server.http_held([request])] * 32)
    values = struct.pack("<f", -1.1754944e-38) * (1 << 20)
    head = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1 << 20], "datatype": "FP32",
                                   "parameters": {"binary_data_size": len(values)}}]}).encode()
    tensor = gzip.compress(head + values)
    print_long = (b"POST /v2/models/fp32/infer HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\n"
                  b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n"
                  % (len(head), len(tensor))) + tensor
    yield "32 answers of 15 MiB that are not read", lambda: server.http_held(
        [print_long] * 32, ANSWER_HELD_SECONDS)
    plain = (b"POST /v2/models/fp32/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
             % (20 << 20)) + b" " * (19 << 20)
    yield "16 bodies of 20 MiB without their end", lambda: at_once(
        [lambda: server.http_held([plain])] * 16)
    message = hostile_cases.part(1, b"fp32") + hostile_cases.part(7, bytes(40 << 20))
    method = "/inference.GRPCInferenceService/ModelInfer"
    yield "32 gzip messages of 40 MiB over gRPC", lambda: at_once(
        [lambda: server.grpc(method, [message], False, True)] * 32)
    packed = gzip.compress(bytes(60 << 20))
    bomb = b"\1" + len(packed).to_bytes(4, "big") + packed
    head = frames.head(frames.INFER, **{"grpc-encoding": "gzip"})
    text = b"".join(frames.frame(frames.HEADERS, frames.END_HEADERS, i, head) +
                    hostile_cases.frames_of(frames, i, bomb) for i in range(1, 17, 2))
    yield "8 gzip messages of 60 MiB of streams that stay open", lambda: server.h2_held(text)


def at_once(sends):
    with concurrent.futures.ThreadPoolExecutor(len(sends)) as pool:
        for future in [pool.submit(s) for s in sends]:
            future.result()


def run_budget(build, repository):
    """(name, bytes held, what is wrong) of each."""
    options = subprocess.run([str(build / "neso"), "options"], capture_output=True, text=True,
                             check=True).stdout
    has_budget = "--memory-budget" in options
    server = Server(build, repository, [f"--memory-budget={BUDGET}"] if has_budget else [])
    results = []
    for name, send_all in budget_cases(server):
        server.restart()
        server.forget_peak()
        failure = None
        try:
            send_all()
            held = server.memory("VmHWM") - server.base
            server.check()
        except (OSError, RuntimeError, grpc.RpcError) as e:
            held, failure = 0, f"no answer: {e}"
        if held > BUDGET_ALLOWED:
            failure = "budget"
        results.append((name, held, failure))
        print_budget(*results[-1])
    server.stop()
    if not has_budget:
        results.append(("the server has no --memory-budget", 0, "budget"))
    return results


# ---- the whole -----------------------------------------------------------------------------------

def size_text(n):
    return f"{n / 1024:.0f} KiB" if n < 10 << 20 else f"{n / (1 << 20):.0f} MiB"


def print_row(r):
    print(f"{r.held_per_byte:8.1f} {r.cpu_per_byte * 1e9:9.0f} {size_text(r.held):>9} "
          f"{r.cpu * 1e3:8.1f} {r.others_ms:9.1f} {size_text(r.case.wire_bytes):>9} "
          f"{size_text(r.case.decoded_bytes):>9} {r.answer:7} {r.case.decoder}: {r.case.name}"
          + "".join(f"  ! {f}" for f in r.failures), flush=True)


def print_budget(name, held, failure):
    print(f"{size_text(held):>9}  {name}" + (f"  ! {failure}" if failure else ""), flush=True)


def print_table(results, rows):
    print(f"{'held/B':>8} {'CPU ns/B':>9} {'held':>9} {'CPU ms':>8} {'others ms':>9} {'sent':>9} {'of':>9} "
          "answer  case")
    for r in sorted(results, key=lambda r: -r.worst)[:rows]:
        print_row(r)


def print_markdown(results, budget):
    """The worst cases of each decoder, for docs/security.md."""
    print("| decoder | cases | most held for a byte | by | most CPU for a byte | by | others wait at worst | by |\n"
          "|---|--:|--:|---|--:|---|--:|---|")
    decoders = {}
    for r in results:
        decoders.setdefault(r.case.decoder, []).append(r)
    for decoder, of in decoders.items():
        held = max(of, key=lambda r: r.held_per_byte)
        cpu = max(of, key=lambda r: r.cpu_per_byte)
        others = max(of, key=lambda r: r.others_ms)
        print(f"| {decoder} | {len(of)} | {held.held_per_byte:.1f} | "
              f"{held.case.name if held.held_per_byte else ''} | {cpu.cpu_per_byte * 1e9:.0f} ns | "
              f"{cpu.case.name if cpu.cpu_per_byte else ''} | {others.others_ms:.1f} ms | {others.case.name} |")
    print(f"\n| peers at a time, with a budget of {BUDGET >> 20} MiB | held |\n|---|--:|")
    for name, held, _ in budget:
        print(f"| {name} | {size_text(held)} |")


def load_services(folder):
    from grpc_stubs import generate
    modules = generate(folder)
    return [module.DESCRIPTOR.services_by_name[name] for module, name in (
        (modules["grpc_service"], "GRPCInferenceService"), (modules["health"], "Health"))]


def write_models(folder):
    for name, config in MODELS.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(config, encoding="ascii")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--size", type=int, default=1 << 20, help="decompressed bytes of a case")
    parser.add_argument("--decoder", default="", help="those alone whose name has this text, as 'HTTP OpenAI'")
    parser.add_argument("--rows", type=int, default=40, help="of the table; 0: all that failed")
    parser.add_argument("--markdown", action="store_true", help="also the table of the docs")
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "py").mkdir()
        write_models(folder / "models")
        server = Server(options.build, folder / "models")
        bystander = Bystander()
        results = run_cases(server, bystander, itertools.chain(
            hostile_fronts.all_cases(options.size, options.decoder),
            hostile_cases.all_cases(load_services(folder / "py"), frames, options.size, options.decoder)))
        code = server.stop()
        bystander.stop()
        budget = run_budget(options.build, folder / "models") if not options.decoder else []
    print_table(results, options.rows or len(results))
    for row in budget:
        print_budget(*row)
    if options.markdown:
        print()
        print_markdown(results, budget)
    failed = [r for r in results if r.failures]
    n_failed = len(failed) + sum(failure is not None for _, _, failure in budget) + (code != 0)
    print(f"{len(results)} cases, {n_failed} failed, {time.monotonic() - begun:.0f} s; "
          f"the server ended with {code}")
    return 1 if n_failed else 0


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.exit(main())
