#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a model in Python costs, compared with compiled backends.

  bench/python.py [--build=build] [--only=small,one-core,latency,large,strings,streams,calls,instances]
                  [--rounds=5] [--seconds=1] [--python=/usr/bin/python3]

As bench/run.py: the server is pinned to core 0, and its Python processes with it; the load generator to
core 1, or to core 0 as well (one-core, calls). The models of a comparison are in one server and take
turns of --seconds each, so that they see the same machine; a round is a turn of each. A ratio is the
median of the rounds' ratios, a rate the median of the rounds' rates. The compiled identity backend has a
thread of its own (inline_execution: never), as a model in Python has.
"""
import argparse
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile

from run import (LOAD_CORE, ROOT, SERVER_CORE, Neso, binary_request, h2load, json, lua_text, pinned, post,
                 prefixed, varint)

FP32_IO = """input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
"""
STRING_IO = FP32_IO.replace("TYPE_FP32", "TYPE_STRING")
REPEAT_IO = """input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
input { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }
input { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] }
model_transaction_policy { decoupled: true }
"""
NEVER_INLINE = 'parameters { key: "inline_execution" value { string_value: "never" } }'

IDENTITY = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", r.inputs()[0].as_numpy())])
                for r in requests]
"""
SLOW = """
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.01)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", r.inputs()[0].as_numpy())])
                for r in requests]
"""
CALLER = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            answer = pb_utils.InferenceRequest(
                model_name="%s", requested_output_names=["OUTPUT0"],
                inputs=[pb_utils.Tensor("INPUT0", request.inputs()[0].as_numpy())]).exec()
            if answer.has_error():
                raise pb_utils.TritonModelException(answer.error().message())
            responses.append(pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUTPUT0", answer.output_tensors()[0].as_numpy())]))
        return responses
"""
REPEAT = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            values = request.inputs()[0].as_numpy()
            for i in range(len(values)):
                sender.send(pb_utils.InferenceResponse([
                    pb_utils.Tensor("OUT", values[i:i + 1]),
                    pb_utils.Tensor("IDX", np.array([i], np.uint32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
# name: backend, what it takes and gives, further configuration, program
MODELS = {
    "compiled": ("identity", FP32_IO, NEVER_INLINE, None),
    "python": ("python", FP32_IO, "", IDENTITY),
    "python_one_by_one": ("python", FP32_IO,
                          'parameters { key: "PIPELINE_DEPTH" value { string_value: "1" } }', IDENTITY),
    "python_batched": ("python", FP32_IO, "max_batch_size: 64 dynamic_batching { }", IDENTITY),
    "python_10ms": ("python", FP32_IO, "instance_group { count: 4 kind: KIND_CPU }", SLOW),
    "compiled_strings": ("identity", STRING_IO, NEVER_INLINE, None),
    "python_strings": ("python", STRING_IO, "", IDENTITY),
    "compiled_stream": ("repeat", REPEAT_IO, "", None),
    "python_stream": ("python", REPEAT_IO, "", REPEAT),
    "called": ("identity", FP32_IO, "", None),
    "calls_compiled": ("python", FP32_IO, "", CALLER % "called"),
    "calls_python": ("python", FP32_IO, "", CALLER % "python"),
}
N_STRINGS, N_RESPONSES = 1000, 100


def write_repository(folder):
    for name, (backend, tensors, config, program) in MODELS.items():
        os.makedirs(os.path.join(folder, name, "1"))
        with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="ascii") as file:
            file.write(f'backend: "{backend}"\n{tensors}{config}\n')
        if program:
            with open(os.path.join(folder, name, "1", "model.py"), "w", encoding="ascii") as file:
                file.write(program)


def floats(name, n):
    # With a batcher the first dimension is the batch.
    return binary_request("INPUT0", ([1] if "batched" in name else []) + [n], bytes(4 * n))


def strings(_):
    values = b"".join(struct.pack("<I", 8) + b"%08d" % i for i in range(N_STRINGS))
    head = json.dumps({"inputs": [{"name": "INPUT0", "shape": [N_STRINGS], "datatype": "BYTES",
                                   "parameters": {"binary_data_size": len(values)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return head + values, {"Inference-Header-Content-Length": str(len(head)),
                           "Content-Type": "application/octet-stream"}


class Load:
    """Requests to a model over some connections for a while. A turn is (requests/s, median in us)."""

    def __init__(self, options, request, connections, core=LOAD_CORE):
        self.seconds, self.request = options.seconds, request
        self.connections, self.core = connections, core

    def turn(self, server, name):
        body, headers = self.request(name)
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            script.write(f'wrk.method = "POST"\nwrk.body = {lua_text(body)}\n')
            for key, value in headers.items():
                script.write(f'wrk.headers["{key}"] = "{value}"\n')
            script.flush()
            text = subprocess.run(
                pinned(self.core, ["wrk", "-t1", f"-c{self.connections}", f"-d{self.seconds}s", "--latency",
                                   "-s", script.name,
                                   f"http://127.0.0.1:{server.port}/v2/models/{name}/infer"]),
                check=True, capture_output=True, text=True).stdout
        if "Non-2xx" in text or "Socket errors" in text:
            raise SystemExit("the load saw errors:\n" + text)
        number, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", text).groups()
        return (float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
                float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit])


class StreamLoad:
    """gRPC streams of one request, each answered with N_RESPONSES. A turn is (responses/s, 0)."""

    def __init__(self, options, connections):
        self.seconds, self.connections = options.seconds, connections

    @staticmethod
    def message(name):
        def part(number, payload):
            return bytes([number << 3 | 2]) + varint(len(payload)) + payload

        inputs = [("IN", "INT32", N_RESPONSES), ("DELAY", "UINT32", N_RESPONSES), ("WAIT", "UINT32", 1)]
        return part(1, name.encode()) + b"".join(
            part(5, part(1, tensor.encode()) + part(2, datatype.encode()) + part(3, varint(n)))
            for tensor, datatype, n in inputs) + b"".join(part(7, bytes(4 * n)) for _, _, n in inputs)

    def count(self, server, name):
        """Responses to one request, counted by a real client."""
        import grpc  # pylint: disable=import-outside-toplevel

        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
            return sum(b"IDX" in response for response in call(iter([self.message(name)]), timeout=20))

    def turn(self, server, name):
        if self.count(server, name) != N_RESPONSES:
            raise SystemExit(f"'{name}' did not give {N_RESPONSES} responses")
        with tempfile.NamedTemporaryFile() as body:
            body.write(prefixed(self.message(name)))
            body.flush()
            return N_RESPONSES * h2load(server.grpc_port, "/inference.GRPCInferenceService/ModelStreamInfer",
                                        body.name, (self.connections, 1), self.seconds), 0


def start(options, folder, names):
    return Neso(options.build, folder, "--backend-directory", os.path.join(options.build, "backends"),
                f"--backend-config=python,python-path={options.python}", "--model-control-mode=explicit",
                *(f"--load-model={name}" for name in names))


def take_turns(options, folder, load, names, further=()):
    """{name: [turn of each round]}; the first round warms up and does not count."""
    turns = {name: [] for name in names}
    with start(options, folder, [*names, *further]) as server:
        for _ in range(options.rounds + 1):
            for name in names:
                turns[name].append(load.turn(server, name))
    return {name: values[1:] for name, values in turns.items()}


def show(title, turns, unit="/s", column=0):
    """Against the first one."""
    print(title)
    base = None
    for name, values in turns.items():
        values = [value[column] for value in values]
        base = base or values
        ratio = statistics.median(mine / other for mine, other in zip(values, base))
        print(f"  {name:18} {statistics.median(values):9.0f} {unit}"
              + (f"  {ratio:.2f}" if values is not base else ""))
    sys.stdout.flush()


SMALL = ["compiled", "python", "python_one_by_one", "python_batched"]


def bench_small(options, folder):
    load = Load(options, lambda name: floats(name, 1), 16)
    show("one FP32 value, 16 connections", take_turns(options, folder, load, SMALL))


def bench_one_core(options, folder):
    load = Load(options, lambda name: floats(name, 1), 16, SERVER_CORE)
    show("the same, load generator on the same core", take_turns(options, folder, load, SMALL))


def bench_latency(options, folder):
    load = Load(options, lambda name: floats(name, 1), 1, SERVER_CORE)
    turns = take_turns(options, folder, load, SMALL[:2])
    show("one FP32 value, 1 connection, load generator on the same core: requests", turns)
    show("  median latency", turns, "us", 1)


def bench_large(options, folder):
    load = Load(options, lambda name: floats(name, 1 << 18), 4)
    show("1 MiB in and out, 4 connections", take_turns(options, folder, load, SMALL[:2]))


def bench_strings(options, folder):
    names = ["compiled_strings", "python_strings"]
    show(f"BYTES of {N_STRINGS} strings of 8 bytes, 4 connections",
         take_turns(options, folder, Load(options, strings, 4), names))


def bench_streams(options, folder):
    names = ["compiled_stream", "python_stream"]
    show(f"decoupled, {N_RESPONSES} responses a request, 4 gRPC streams at a time: responses",
         take_turns(options, folder, StreamLoad(options, 4), names))


def bench_calls(options, folder):
    for connections in 1, 16:
        load = Load(options, lambda name: floats(name, 1), connections, SERVER_CORE)
        show(f"a call within execute(), {connections} connection{'s' * (connections > 1)}, load generator "
             "on the same core",
             take_turns(options, folder, load, ["python", "calls_compiled", "calls_python"], ["called"]))


def bench_instances(options, folder):
    load = Load(options, lambda name: floats(name, 1), 4)
    show("10 ms of sleep, 4 instances, 4 connections (400/s at most)",
         take_turns(options, folder, load, ["python_10ms"]))


BENCHES = {"small": bench_small, "one-core": bench_one_core, "latency": bench_latency, "large": bench_large,
           "strings": bench_strings, "streams": bench_streams, "calls": bench_calls,
           "instances": bench_instances}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--only", default=",".join(BENCHES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--python", default="/usr/bin/python3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_repository(folder)
        for name in options.only.split(","):
            BENCHES[name](options, folder)


if __name__ == "__main__":
    main()
