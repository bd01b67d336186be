#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The comparisons that docs/performance.md quotes.

  make bench            or            bench/run.py --build=build [--only=tiny,large,...] [--rounds=3]

The server (or what it is compared with) is pinned to core 0, the load generator (wrk, h2load) to core 1;
rounds are interleaved and medians reported, as ratios: absolute figures belong to the machine.
All traffic is on the loopback interface, each load lasts a few seconds.

The digits are compared in shorter turns. Model and comparison are nothing but arithmetic, so the ratio
is only as steady as the speed of the core, and on a shared host that changes by a third within seconds.
One server and one ort_loop stay up, on the same core: ONNX Runtime alone for 0.4 s, the server under
load for 1 s, ONNX Runtime alone again with the batch sizes that the server just had, and so on. Each
second of the server is divided by the mean of its two neighbours. A slice counts when the host left both
cores to us: what it takes from the load generator's would be counted as the server's, which waits for its
requests. Measuring goes on until enough slices count, or three times as many were measured; the median is
over those that do. In the steady ones the neighbours differ by less than 5 %, too: there the machine was
the same all the while.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SERVER_CORE, LOAD_CORE = "0", "1"
DIGITS = os.path.join(ROOT, "examples", "models", "digits")
DIGITS_SLICES = 8  # of the server in a round, a second each
MAX_STOLEN = 0.01  # of the two cores' time in a slice that counts


def pinned(core, command):
    return ["taskset", "-c", core] + command


class Neso:
    """A server on a repository; stopped when the block ends."""

    scheme = "http"

    def __init__(self, build, repository, *options):
        self.command = pinned(SERVER_CORE, [
            os.path.join(build, "neso"), "serve", "--model-repository", repository,
            "--http-address", "127.0.0.1", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0",
            "--http-thread-count", "1", "--grpc-address", "127.0.0.1",
            "--grpc-infer-thread-count", "1", *options])

    def __enter__(self):
        self.port = self.grpc_port = None
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True,
                                        stdout=subprocess.DEVNULL)
        log = []
        for line in self.process.stderr:
            log.append(line)
            found = re.search(r"Started GRPCInferenceService at 127\.0\.0\.1:(\d+)", line)
            if found:
                self.grpc_port = int(found.group(1))
            found = re.search(r"Started HTTPService at 127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
            if self.port and self.grpc_port:
                return self
        raise SystemExit("the server did not start:\n" + "".join(log))

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stderr.close()
        self.process.wait()

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            return json.load(answer)


class NesoTls(Neso):
    """The same over TLS; wrk uses the newest version, and does not check the certificate."""

    scheme = "https"

    def __init__(self, build, repository, folder):
        cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
        if not os.path.exists(cert):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert,
                            "-subj", "/CN=localhost", "-days", "1"], check=True,
                           capture_output=True)
        super().__init__(build, repository, "--http-use-ssl=true", f"--http-server-cert={cert}",
                         f"--http-server-key={key}")


class Floor:
    scheme = "http"

    def __init__(self, build, response, program="floor"):
        """The response is a number of bytes, for floor_h2 the file that has them."""
        self.command = pinned(SERVER_CORE, [os.path.join(build, "bench", program), "0",
                                            str(response)])

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        self.port = self.grpc_port = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class OrtLoop:
    """ONNX Runtime alone with the digits model: computes on request, and is idle otherwise."""

    def __init__(self, build):
        self.command = pinned(SERVER_CORE, [os.path.join(build, "bench", "ort_loop"),
                                            os.path.join(DIGITS, "1", "model.onnx"), "64"])

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def rate(self, sizes):
        """Images per second in batches of these sizes, as often as each is counted."""
        counts = " ".join(f"{size}:{count}" for size, count in sizes.items())
        print(f"0.4 {counts}", file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("ort_loop has ended")
        return float(answer)


def lua_text(data):
    return '"' + "".join(f"\\{byte:03d}" for byte in data) + '"'


def wrk(server, path, body, headers, connections, seconds, lua="", core=LOAD_CORE):
    """Requests per second of POSTs of one body, or of those that `lua` makes; every answer must be
    200."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write('wrk.method = "POST"\n')
        script.write(f"wrk.body = {lua_text(body)}\n")
        for name, value in headers.items():
            script.write(f'wrk.headers["{name}"] = "{value}"\n')
        script.write(lua)
        script.flush()
        text = subprocess.run(
            pinned(core, ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script.name,
                               f"{server.scheme}://127.0.0.1:{server.port}{path}"]),
            check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit("the load saw errors:\n" + text)
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
    if rate == 0:
        raise SystemExit(f"no request was answered within {seconds} s:\n" + text)
    return rate


def h2load(port, path, body_file, load, seconds):
    """Requests per second of gRPC calls; `load` is (connections, streams of each). Every answer must
    be 200; what trailers say h2load does not look at, so the caller has asked once before."""
    text = subprocess.run(
        pinned(LOAD_CORE, ["h2load", f"-D{seconds}", f"-c{load[0]}", f"-m{load[1]}", "-d", body_file,
                           "-H", "content-type: application/grpc", "-H", "te: trailers",
                           f"http://127.0.0.1:{port}{path}"]),
        check=True, capture_output=True, text=True).stdout
    counts = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", text)
    if not counts or int(counts[1]) == 0 or int(counts[2]) + int(counts[3]) > 0:
        raise SystemExit("the load saw errors:\n" + text)
    return float(re.search(r"finished in .*?, ([\d.]+) req/s", text)[1])


def varint(number):
    out = b""
    while number >= 128:
        out += bytes([number % 128 + 128])
        number //= 128
    return out + bytes([number])


def infer_message(model, values):
    """A ModelInferRequest with one FP32 tensor, INPUT0, as raw contents."""
    def part(number, payload):
        return bytes([number << 3 | 2]) + varint(len(payload)) + payload

    tensor = part(1, b"INPUT0") + part(2, b"FP32") + part(3, varint(len(values) // 4))
    return part(1, model.encode()) + part(5, tensor) + part(7, values)


def grpc_answer(port, path, message):
    """The message that a real client gets; its status must be OK."""
    import grpc  # pylint: disable=import-outside-toplevel

    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", unlimited) as channel:
        return channel.unary_unary(path)(message, timeout=20)


def prefixed(message):
    return b"\0" + struct.pack(">I", len(message)) + message


def binary_request(name, shape, values):
    head = json.dumps({
        "inputs": [{"name": name, "shape": shape, "datatype": "FP32",
                    "parameters": {"binary_data_size": len(values)}}],
        "parameters": {"binary_data_output": True}}, separators=(",", ":")).encode()
    return head + values, {"Inference-Header-Content-Length": str(len(head)),
                           "Content-Type": "application/octet-stream"}


def post(port, path, body, headers):
    """The body of the answer to one request."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def write_identity(folder, name, parameters=""):
    os.makedirs(os.path.join(folder, name, "1"))
    with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="ascii") as config:
        config.write(f'''backend: "identity"
max_batch_size: 0
input [ {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }} ]
{parameters}
''')


def identity_repository(folder):
    write_identity(folder, "identity")
    write_identity(folder, "identity_hop",
                   'parameters { key: "inline_execution" value { string_value: "never" } }')
    write_identity(folder, "identity_kept", "response_cache { enable: true }")


def compare(options, body, headers, contenders, connections):
    """Medians of interleaved rounds; contenders: name -> (server, path)."""
    return {name: rate for name, (rate, _) in compare_cpu(options, body, headers, contenders,
                                                          connections).items()}


def cpu_seconds(pid):
    """CPU time of the process, user and system."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare_cpu(options, body, headers, contenders, connections, lua="", load_core=LOAD_CORE):
    """As compare(), with the server's microseconds of CPU per request: what a load generator that
    is itself the limit does not change. name -> (requests/s, us)."""
    seen = {name: [] for name in contenders}
    for _ in range(options.rounds):
        for name, (server, path) in contenders.items():
            with server as running:
                before = cpu_seconds(running.process.pid)
                rate = wrk(running, path, body, headers, connections, options.seconds, lua,
                           load_core)
                spent = cpu_seconds(running.process.pid) - before
                seen[name].append((rate, spent / (rate * options.seconds) * 1e6))
    return {name: tuple(statistics.median(column) for column in zip(*values))
            for name, values in seen.items()}


def bench_tiny(options, repository):
    body, headers = binary_request("INPUT0", [1], struct.pack("<f", 1.5))
    path = "/v2/models/identity/infer"
    with Neso(options.build, repository) as server:
        size = len(post(server.port, path, body, headers))
    medians = compare(options, body, headers, {
        "floor": (Floor(options.build, size), path),
        "inline": (Neso(options.build, repository), path),
        "hop": (Neso(options.build, repository), "/v2/models/identity_hop/infer"),
    }, 64)
    print(f"tiny: identity FP32 [1], binary, 64 connections; floor {medians['floor']:.0f}/s")
    print(f"  run to completion  {medians['inline'] / medians['floor']:.2f} of the floor")
    print(f"  thread of its own  {medians['hop'] / medians['floor']:.2f} of the floor")


# More sequences than connections: then no two requests of one sequence are under way at a time.
N_SEQUENCES, SEQUENCE_LENGTH = 40, 16
SEQUENCES_LUA = f'''
local n = -1 -- wrk asks for one that it does not send
request = function()
   local sequence, step = n % {N_SEQUENCES} + 1, math.floor(n / {N_SEQUENCES}) % {SEQUENCE_LENGTH}
   n = n + 1
   return wrk.format(nil, nil, nil, string.format(
      '{{"parameters":{{"sequence_id":%d,"sequence_start":%s,"sequence_end":%s}},' ..
      '"inputs":[{{"name":"INPUT0","datatype":"FP32","shape":[1,1],"data":[1.5]}}]}}',
      sequence, tostring(step == 0), tostring(step == {SEQUENCE_LENGTH - 1})))
end
'''


def write_sequences(folder):
    """The same model with each of three schedulers; their names."""
    ways = {"dynamic": "dynamic_batching { }", "direct": "sequence_batching { direct { } }",
            "oldest": f"sequence_batching {{ oldest {{ max_candidate_sequences: {N_SEQUENCES} }} }}"}
    for name, how in ways.items():
        os.makedirs(os.path.join(folder, name, "1"))
        with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="ascii") as config:
            config.write(f'''backend: "identity"
max_batch_size: {N_SEQUENCES}
input [ {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] }} ]
{how}
''')
    return list(ways)


def bench_sequences(options, _):
    """What sequences cost: the same model and clients with dynamic_batching in their place."""
    with tempfile.TemporaryDirectory() as repository:
        ways = write_sequences(repository)
        medians = compare_cpu(options, b"", {"Content-Type": "application/json"}, {
            name: (Neso(options.build, repository), f"/v2/models/{name}/infer") for name in ways
        }, 32, SEQUENCES_LUA)
    rate, us = medians["dynamic"]
    print(f"sequences of {SEQUENCE_LENGTH} requests, {N_SEQUENCES} at a time: identity FP32 [1], JSON, 32 "
          f"connections; dynamic_batching {rate:.0f}/s, {us:.1f} us of CPU each")
    for name in ("direct", "oldest"):
        print(f"  {name:18} {medians[name][0] / rate:.2f} of its rate; {medians[name][1]:.1f} us, "
              f"{us / medians[name][1]:.2f} by CPU")


def write_pipelines(folder):
    """One stage, a chain and an ensemble of three that are the same model as it."""
    for at in range(3):
        following = f'parameters {{ key: "next" value {{ string_value: "stage{at + 1}" }} }}'
        write_identity(folder, f"stage{at}", following if at < 2 else "")
    write_identity(folder, "one")
    os.makedirs(os.path.join(folder, "ensemble", "1"))
    names = ["INPUT0", "a", "b", "OUTPUT0"]
    steps = "".join(f'''step {{ model_name: "one" model_version: -1
  input_map {{ key: "INPUT0" value: "{names[i]}" }} output_map {{ key: "OUTPUT0" value: "{names[i + 1]}" }} }}
''' for i in range(3))
    with open(os.path.join(folder, "ensemble", "config.pbtxt"), "w", encoding="ascii") as config:
        config.write(f'''platform: "ensemble"
input [ {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }} ]
ensemble_scheduling {{ {steps} }}
''')


def bench_chains(options, _):
    """What two more stages cost, and what they cost in an ensemble."""
    with tempfile.TemporaryDirectory() as repository:
        write_pipelines(repository)
        for n, what, connections in ((1, "4 B", 16), (16384, "64 KiB", 16)):
            body, headers = binary_request("INPUT0", [n], bytes(4 * n))
            medians = compare_cpu(options, body, headers, {
                name: (Neso(options.build, repository), f"/v2/models/{model}/infer")
                for name, model in (("one", "one"), ("chain", "stage0"), ("ensemble", "ensemble"))
            }, connections)
            rate, us = medians["one"]
            print(f"chains: identity, {what}, binary, {connections} connections; one stage {rate:.0f}/s, "
                  f"{us:.1f} us of CPU each")
            for name in ("chain", "ensemble"):
                print(f"  {name} of three    {medians[name][0] / rate:.2f} of its rate; "
                      f"{medians[name][1]:.1f} us, {us / medians[name][1]:.2f} by CPU")


def bench_tls(options, repository):
    """What TLS 1.3 costs on connections that are open: small requests, and large bodies."""
    path = "/v2/models/identity/infer"
    with tempfile.TemporaryDirectory() as folder:
        for name, n, connections in (("small", 1, 64), ("1 MiB", 1 << 18, 4)):
            body, headers = binary_request("INPUT0", [n], bytes(4 * n))
            medians = compare_cpu(options, body, headers, {
                "plain": (Neso(options.build, repository), path),
                "tls": (NesoTls(options.build, repository, folder), path),
            }, connections)
            (rate, us), (tls_rate, tls_us) = medians["plain"], medians["tls"]
            print(f"tls: identity, {name} bodies, {connections} connections; "
                  f"plain {rate:.0f}/s, {us:.1f} us of the server's CPU each")
            print(f"  TLS 1.3            {tls_rate / rate:.2f} of plain in requests/s "
                  "(the load generator's TLS included)")
            print(f"                     {us / tls_us:.2f} of plain by the server's CPU time, "
                  f"{tls_us:.1f} us each")


def bench_large(options, repository):
    body, headers = binary_request("INPUT0", [1 << 18], bytes(1 << 20))
    path = "/v2/models/identity/infer"
    with Neso(options.build, repository) as server:
        size = len(post(server.port, path, body, headers))
    medians = compare(options, body, headers, {
        "floor": (Floor(options.build, size), path),
        "neso": (Neso(options.build, repository), path),
    }, 4)
    print(f"large: 1 MiB FP32 in and out, 4 connections; floor {medians['floor']:.0f}/s")
    print(f"  identity           {medians['neso'] / medians['floor']:.2f} of the floor")


def write_ensemble(folder, name, steps, batch="", scheduling=""):
    """A line of models like identity; with batches, of one value each."""
    tensors = ["INPUT0", *(f"T{i}" for i in range(1, len(steps))), "OUTPUT0"]
    lines = "".join(
        f'  step {{ model_name: "{step}" model_version: -1 input_map {{ key: "INPUT0" value: '
        f'"{tensors[i]}" }} output_map {{ key: "OUTPUT0" value: "{tensors[i + 1]}" }} }}\n'
        for i, step in enumerate(steps))
    os.makedirs(os.path.join(folder, name, "1"))
    with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="ascii") as config:
        config.write(f'''platform: "ensemble" {batch}
input [ {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ {1 if batch else -1} ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {1 if batch else -1} ] }} ]
ensemble_scheduling {{ {scheduling}
{lines}}}
''')


def bench_ensembles(options, _):
    """Three steps of identity against one, with the binary protocol: run to completion, with a thread
    for each model, and with 1 MiB. In each pair the same network work is done once. Each pair is
    measured twice: with clients on a core of their own, and with clients and server on
    one core. A client that waits sleeps, and the server's send() has to wake it: on a core of their
    own, the clients of the slower contender sleep more."""
    never = 'parameters { key: "inline_execution" value { string_value: "never" } }'
    shapes = (("FP32 [1], run to completion", "inline", 1, 16, LOAD_CORE),
              ("FP32 [1], run to completion, all on one core", "inline", 1, 16, SERVER_CORE),
              ("FP32 [1], threads", "hop", 1, 16, LOAD_CORE),
              ("FP32 [1], threads, all on one core", "hop", 1, 16, SERVER_CORE),
              ("1 MiB", "inline", 1 << 18, 4, LOAD_CORE),
              ("1 MiB, all on one core", "inline", 1 << 18, 4, SERVER_CORE))
    with tempfile.TemporaryDirectory() as repository:
        for kind, parameters in (("inline", ""), ("hop", never)):
            steps = [f"{kind}_{i}" for i in range(3)]
            for step in steps:
                write_identity(repository, step, parameters)
            write_ensemble(repository, f"{kind}_three", steps)
        for title, kind, n_floats, connections, load_core in shapes:
            medians = compare_cpu(options, *binary_request("INPUT0", [n_floats], bytes(4 * n_floats)), {
                model: (Neso(options.build, repository), f"/v2/models/{kind}_{model}/infer")
                for model in ("0", "three")}, connections, load_core=load_core)
            one, three = medians["0"], medians["three"]
            print(f"ensembles: {title}, {connections} connections; one model {one[0]:.0f}/s, "
                  f"{one[1]:.1f} us of CPU")
            print(f"  three steps        {three[0] / one[0]:.2f} of its rate, {three[1]:.1f} us: "
                  f"{three[1] / one[1]:.2f} of its CPU")


N_IN_FLIGHT = 2000


def bench_in_flight(options, _):
    """Bytes of a request that waits: for a model alone, at the first and at the last step of an ensemble of
    ten, and in the line of max_inflight_requests."""
    def identity(folder, name, more):
        os.makedirs(os.path.join(folder, name, "1"))
        with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="ascii") as config:
            config.write(f'''backend: "identity"
input [ {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] }} ]
{more}
''')

    rows = {"waits": "a model alone", "first": "ten steps, at the first", "last": "ten steps, at the last",
            "line": "ten steps, in the line of max_inflight_requests"}
    batch = f"max_batch_size: {2 * N_IN_FLIGHT}"
    with tempfile.TemporaryDirectory() as repository:
        identity(repository, "goes", f'{batch} parameters {{ key: "inline_execution" '
                 'value { string_value: "always" } }')
        identity(repository, "waits", f"{batch} dynamic_batching {{ "
                 "max_queue_delay_microseconds: 3600000000 }")
        write_ensemble(repository, "first", ["waits"] + 9 * ["goes"], batch)
        write_ensemble(repository, "last", 9 * ["goes"] + ["waits"], batch)
        write_ensemble(repository, "line", ["waits"] + 9 * ["goes"], batch, "max_inflight_requests: 1")
        printed = subprocess.run(
            [os.path.join(options.build, "bench", "ensemble_loop"), repository,
             os.path.join(options.build, "backends"), str(N_IN_FLIGHT), *rows],
            check=True, capture_output=True, text=True).stdout
    print(f"in-flight: {N_IN_FLIGHT} requests of FP32 [1] at a time, in process")
    for entry in printed.splitlines():
        model, made, in_flight = entry.split()
        print(f"  {rows[model]:48} {in_flight} bytes each, and {made} of the request itself")


def cache_loop(options, repository, model, n_floats, n_requests, how):
    """Microseconds of a request without any network: its time, CPU time of the process, and the
    time between its submission and its release."""
    core = SERVER_CORE if how == "inline" else f"{SERVER_CORE},{LOAD_CORE}"
    folders = [os.path.join(options.build, folder) for folder in ("backends", "caches")]
    command = [os.path.join(options.build, "bench", "cache_loop"), repository, *folders, model,
               str(n_floats), str(n_requests), how]
    printed = subprocess.run(pinned(core, command), check=True, capture_output=True, text=True)
    return [float(us) for us in printed.stdout.split()]


def bench_cache(options, repository):
    """A hit against an execution of identity, which does nothing but copy: by default executions
    are the instance's thread's, a program may allow them on its own."""
    print("cache: an answer from the local cache against an execution of identity, in process, us")
    rows = ("time", "CPU time", "from submission to release")
    for how, text in (("thread", "on the instance's thread (the default of a program)"),
                      ("inline", "on the submitting thread")):
        print(f"  executed {text}")
        for n_floats, n_requests in ((1, 100000), (16, 100000), (256, 100000), (16384, 10000),
                                     (262144, 500)):
            seen = {model: [] for model in ("identity", "identity_kept")}
            for _ in range(options.rounds):
                for model, values in seen.items():
                    values.append(cache_loop(options, repository, model, n_floats, n_requests, how))
            executed, hit = ([statistics.median(column) for column in zip(*values)]
                             for values in seen.values())
            for row, e, h in zip(rows, executed, hit):
                print(f"    FP32 [{n_floats}]  {row:27} hit {h:8.2f}  execution {e:8.2f}  "
                      f"{h / e:.2f}")


def json_request():
    """An inference of 1 000 floats as JSON: body and headers."""
    numbers = random.Random(1)
    values = [float(f"{numbers.gauss(0, 1):.8g}") for _ in range(1000)]  # what FP32 needs
    body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1000], "datatype": "FP32",
                                   "data": values}]}, separators=(",", ":")).encode()
    return body, {"Content-Type": "application/json"}


def bench_json_infer(options, repository):
    body, headers = json_request()
    path = "/v2/models/identity/infer"
    with Neso(options.build, repository) as server:
        size = len(post(server.port, path, body, headers))
    medians = compare(options, body, headers, {"neso": (Neso(options.build, repository), path)}, 16)
    rate = medians["neso"] * (len(body) + size) / 1e6
    print(f"json: infer of 1 000 floats in and out, 16 connections: {rate:.0f} MB/s of bodies")


def grpc_bench(options, repository, values, loads):
    """Medians of interleaved rounds for each load: [(load, floor, neso)]."""
    path = "/inference.GRPCInferenceService/ModelInfer"
    message = infer_message("identity", values)
    with tempfile.TemporaryDirectory() as folder:
        sent, answered = os.path.join(folder, "sent"), os.path.join(folder, "answered")
        with open(sent, "wb") as file:
            file.write(prefixed(message))
        with Neso(options.build, repository) as server:
            answer = grpc_answer(server.grpc_port, path, message)
        if values not in answer:
            raise SystemExit("the answer has not the tensor that was sent")
        with open(answered, "wb") as file:
            file.write(prefixed(answer))
        contenders = [Floor(options.build, answered, "floor_h2"), Neso(options.build, repository)]
        found = []
        for load in loads:
            rates = [[], []]
            for _ in range(options.rounds):
                for contender, seen in zip(contenders, rates):
                    with contender as running:
                        seen.append(h2load(running.grpc_port, path, sent, load, options.seconds))
            found.append((load, *map(statistics.median, rates)))
        return found


def bench_grpc(options, repository):
    print("grpc: ModelInfer, identity FP32 [1], against a fixed answer of nghttp2")
    for load, floor, neso in grpc_bench(options, repository, struct.pack("<f", 1.5),
                                        [(16, 1), (1, 64)]):
        print(f"  {load[0]:2} connections x {load[1]:2} streams   {neso / floor:.2f} of the floor "
              f"({floor:.0f}/s)")


def bench_grpc_large(options, repository):
    print("grpc-large: ModelInfer, 1 MiB FP32 as raw contents in and out, 4 connections")
    [(_, floor, neso)] = grpc_bench(options, repository, bytes(1 << 20), [(4, 1)])
    print(f"  identity           {neso / floor:.2f} of the floor ({floor:.0f}/s)")


def bench_codec(options, _):
    print("codec:")
    sys.stdout.flush()
    subprocess.run(pinned(SERVER_CORE, [os.path.join(options.build, "bench", "bench_json")]),
                   check=True)


def batch_sizes(server):
    """How many batches of which size the model ran since it was loaded."""
    stats = server.get("/v2/models/digits/stats")["model_stats"][0]
    return collections.Counter({batch["batch_size"]: batch["compute_infer"]["count"]
                                for batch in stats["batch_stats"]})


def digits_slice(server, body, headers):
    """Images per second under load, and the batches they came in."""
    path = "/v2/models/digits/infer"
    before = batch_sizes(server)
    rate = wrk(server, path, body, headers, 64, 1)
    sizes = batch_sizes(server) - before
    post(server.port, path, body, headers)  # answered after all that the load has left behind
    return rate, sizes


def while_idle(other, work, *arguments):
    """What the work returns. The other process has the same core and must not have used it: 20 ms
    are two ticks of the clock that counts."""
    before = cpu_seconds(other.process.pid)
    result = work(*arguments)
    if cpu_seconds(other.process.pid) - before > 0.025:
        raise SystemExit(f"{' '.join(other.command)} was not idle while the other was measured")
    return result


def stolen_seconds():
    """What the host has taken from the two cores, to run somebody else."""
    with open("/proc/stat") as file:
        steal = {line.split()[0]: int(line.split()[8]) for line in file if line.startswith("cpu")}
    return sum(steal["cpu" + core] for core in (SERVER_CORE, LOAD_CORE)) / os.sysconf("SC_CLK_TCK")


class Slice:
    """A second of the server between two turns of ONNX Runtime alone."""

    def __init__(self, rate, before, after, stolen):
        self.ratio = rate / ((before + after) / 2)
        self.after = after
        self.is_steady = abs(before - after) < 0.05 * min(before, after)
        self.counts = stolen <= MAX_STOLEN


def digits_slices(server, alone, n_wanted):
    """[Slice], of which so many count if the host lets us, and the batches of all."""
    body, headers = binary_request("image", [1, 64], struct.pack("<64f", *range(64)))
    slices, batches = [], collections.Counter()
    _, sizes = digits_slice(server, body, headers)  # warms up
    mark = time.monotonic(), stolen_seconds()  # before each turn of ONNX Runtime alone
    before = while_idle(server, alone.rate, sizes)
    while sum(a_slice.counts for a_slice in slices) < n_wanted and len(slices) < 3 * n_wanted:
        rate, sizes = while_idle(alone, digits_slice, server, body, headers)
        (began, stolen), mark = mark, (time.monotonic(), stolen_seconds())
        after = while_idle(server, alone.rate, sizes)
        stolen, took = stolen_seconds() - stolen, time.monotonic() - began
        slices.append(Slice(rate, before, after, stolen / (2 * took)))
        batches += sizes
        before = after
    return slices, batches


def bench_digits(options, _):
    """Each slice of the server lies between two of ONNX Runtime alone, so that the three see the same
    machine even where its speed changes from one second to the next."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(DIGITS, os.path.join(folder, "digits"))
        with Neso(options.build, folder) as server, OrtLoop(options.build) as alone:
            slices, batches = digits_slices(server, alone, DIGITS_SLICES * options.rounds)
    batch = sum(size * n for size, n in batches.items()) / batches.total()
    print(f"digits: 64 clients, dynamic batching, mean batch {batch:.1f}")
    ratios = [a_slice.ratio for a_slice in slices if a_slice.counts]
    if len(ratios) < 4:
        print(f"  nothing to say: the host left us the two cores in {len(ratios)} of {len(slices)} slices")
        return
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    steady = [a_slice.ratio for a_slice in slices if a_slice.counts and a_slice.is_steady]
    us = sorted(1e6 / a_slice.after for a_slice in slices if a_slice.counts)
    print(f"  {median:.3f} of what ONNX Runtime alone reaches with the same batch sizes "
          f"(quartiles {low:.3f} and {high:.3f}, {len(ratios)} slices)")
    print("  steady slices      " + (f"{statistics.median(steady):.3f}" if steady else "none")
          + f" ({len(steady)} of {len(ratios)})")
    print(f"  all slices         {statistics.median(a_slice.ratio for a_slice in slices):.3f} "
          f"({len(slices) - len(ratios)} of {len(slices)} with the host on our cores)")
    print(f"  ONNX Runtime alone {statistics.median(us):.1f} us per image "
          f"(fastest slice {us[0]:.1f}, slowest {us[-1]:.1f})")


def check_digit_names(options, repository, pixels):
    """Each of the first pictures by its name, as an ensemble and as a chain."""
    with open(os.path.join(DIGITS, "labels.txt"), encoding="ascii") as file:
        names = file.read().split()
    with open(os.path.join(ROOT, "examples", "data", "heldout_labels.u8"), "rb") as file:
        wanted = [names[digit] for digit in file.read(len(pixels))]
    with Neso(options.build, repository) as server:
        for model in ("ensemble", "chain"):
            for image, name in zip(pixels, wanted):
                body, headers = binary_request("image", [1, 64], image)
                answer = post(server.port, f"/v2/models/{model}/infer", body, headers)
                if not answer.endswith(struct.pack("<I", len(name)) + name.encode()):
                    raise SystemExit(f"{model}: not {name}: {answer}")


def bench_digit_names(options, _):
    """The digits model alone, and as the middle of three: what a pipeline costs beside its models."""
    import digit_steps  # pylint: disable=import-outside-toplevel

    with open(os.path.join(ROOT, "examples", "data", "heldout_images.f32"), "rb") as file:
        values = struct.unpack("<640f", file.read(2560))
    pixels = [struct.pack("<64f", *(v * 255 / 16 for v in values[64 * i:64 * i + 64])) for i in range(10)]
    with tempfile.TemporaryDirectory() as repository:
        digit_steps.write_repository(repository)
        check_digit_names(options, repository, pixels)
        medians = compare_cpu(options, *binary_request("image", [1, 64], pixels[0]), {
            model: (Neso(options.build, repository), f"/v2/models/{model}/infer")
            for model in ("digits", "ensemble", "chain")}, 64)
    rate, us = medians["digits"]
    print(f"digit-names: scale, digits, name; 64 connections, dynamic batching; digits alone {rate:.0f}/s, "
          f"{us:.1f} us of CPU each")
    for name in ("ensemble", "chain"):
        print(f"  {name:18} {medians[name][0] / rate:.2f} of its rate; {medians[name][1]:.1f} us, "
              f"{us / medians[name][1]:.2f} by CPU")


BENCHES = {"tiny": bench_tiny, "sequences": bench_sequences, "tls": bench_tls, "large": bench_large,
           "grpc": bench_grpc, "grpc-large": bench_grpc_large, "json": bench_json_infer, "cache": bench_cache,
           "chains": bench_chains, "ensembles": bench_ensembles, "in-flight": bench_in_flight,
           "codec": bench_codec, "digits": bench_digits, "digit-names": bench_digit_names}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--only", default=",".join(BENCHES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as repository:
        identity_repository(repository)
        for name in options.only.split(","):
            BENCHES[name](options, repository)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
