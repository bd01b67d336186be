#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Everything at once: all schedulers, Python models that crash and call others, reloads, shared memory.

Clients ask without order, leave in the middle of an answer, load models anew and register memory. Every
request that is awaited is answered, innocent ones with 200, the server stops in time with status 0, and
a build with a sanitizer reports nothing.

  tests/stress/attacks/chaos.py [--seconds=10] [--seed=1]         make build-tsan/build.ninja, and
  NESO_BUILD=build-tsan tests/stress/attacks/chaos.py --seconds=200, look for races
"""
import argparse
import http.client
import json
import os
import random
import sys
import threading
import time

import attack
from python_programs import RUNNER, OPTIONS as PYTHON, PROGRAM, model

CLIENTS = 8
SECONDS = 60  # an answer that takes longer never comes
X = 'input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }\n'
Y = 'output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }\n'
IO = X + Y
HEAD = '''
import os
import threading
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
'''
ECHO = HEAD + '''
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy())])
                for r in requests]
'''
TALKS = HEAD + '''
    def initialize(self, args):
        family = pb_utils.MetricFamily("chaos_" + args["model_name"], "chaos",
                                       pb_utils.MetricFamily.COUNTER)
        self.kept = (family.Metric(), family)

    def execute(self, requests):
        for request in requests:
            pb_utils.Logger.log_verbose("chaos")
            self.kept[0].increment(1)
            request.is_cancelled()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy())])
                for r in requests]
'''
STREAMS = HEAD + '''
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.answer, args=(request.get_response_sender(),
                                                       request.inputs()[0].as_numpy())).start()

    def answer(self, sender, values):
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", values)]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
CALLS = HEAD + '''
    async def execute(self, requests):
        out = []
        for r in requests:
            values = r.inputs()[0].as_numpy()
            one = pb_utils.InferenceRequest(model_name="dynamic", requested_output_names=["Y"],
                                            inputs=[pb_utils.Tensor("X", values.reshape(1, -1))])
            two = pb_utils.InferenceRequest(model_name="echo", requested_output_names=["Y"],
                                            inputs=[pb_utils.Tensor("X", values)])
            one.exec()
            found = await two.async_exec()
            if found.has_error():
                out.append(pb_utils.InferenceResponse(error=found.error()))
            else:
                out.append(pb_utils.InferenceResponse(found.output_tensors()))
        return out
'''
CRASHES = ECHO.replace("        return [", "        if np.random.random() < 0.2:\n"
                       "            os._exit(3)\n        return [")
SEQUENCES = """sequence_batching { %s
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }
}
max_batch_size: 4
"""
STEP = ('step { model_name: "%s" model_version: -1 input_map { key: "X" value: "%s" } '
        'output_map { key: "Y" value: "%s" } }\n')
CONCURRENT = 'parameters { key: "ASYNC_CONCURRENCY" value { string_value: "4" } }\n'
TWO = "instance_group { count: 2 kind: KIND_CPU }\n"
IDENTITY = 'backend: "identity"\n' + IO
ACTIVE = IDENTITY.replace("identity", "testing")
MODELS = {
    "plain": IDENTITY,
    "dynamic": IDENTITY + "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 200 }\n",
    "direct": ACTIVE + SEQUENCES % "direct { }" + TWO,
    "oldest": ACTIVE + SEQUENCES % "oldest { max_candidate_sequences: 4 }" + TWO,
    "steps": ('platform: "ensemble"\n' + IO + "ensemble_scheduling {\n" + STEP % ("plain", "X", "m")
              + STEP % ("echo", "m", "Y") + "}\n"),
    "echo": model(ECHO, TWO, IO), "talks": model(TALKS, "", IO),
    "batch": model(ECHO, "max_batch_size: 8\ndynamic_batching { }\n", IO),
    "streams": model(STREAMS, "model_transaction_policy { decoupled: true }\n", IO),
    "calls": model(CALLS, CONCURRENT, IO),
    "crashes": model(CRASHES, "", IO),
    "again": model(TALKS, "", IO), "anew": IDENTITY,
}
BATCHED = {"dynamic", "direct", "oldest", "batch"}
RELOADED = ("again", "anew")  # no request of these has to succeed, nor of "crashes"
INNOCENT = tuple(name for name in MODELS if name not in (*RELOADED, "crashes"))


class Client(threading.Thread):
    """Asks for one thing after the other until the time is over."""

    def __init__(self, server, seed, deadline):
        super().__init__(daemon=True)
        self.server = server
        self.random = random.Random(seed)
        self.deadline = deadline
        self.number = seed
        self.n = self.n_failed = 0
        self.faults = []
        self.connection = None

    def ask(self, method, path, body=None, waits=True):
        """The status; 0: no answer. Without `waits` the client leaves."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, SECONDS)
        self.n += 1
        try:
            self.connection.request(method, path, json.dumps(body) if body is not None else None)
            if not waits:
                self.connection.close()
                self.connection = None
                return None
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as e:
            self.connection = None
            self.faults.append(f"{path}: {e!r}")
            return 0
        if answer.status != 200:
            self.n_failed += 1
            if any(f"/models/{name}/" in path for name in INNOCENT):
                self.faults.append(f"{path}: {answer.status} {text[:200]}")
        return answer.status

    def infer(self, name, waits=True, parameters=None, tensor=None):
        n = self.random.choice((1, 10, 1000))
        shape = [1, n] if name in BATCHED else [n]
        if name == "streams":
            self.ask("POST", f"/v2/models/{name}/generate_stream", {"X": [0.5] * n}, waits)
            return
        tensor = tensor or {"name": "X", "datatype": "FP32", "shape": shape, "data": [0.5] * n}
        self.ask("POST", f"/v2/models/{name}/infer",
                 {"inputs": [tensor], "parameters": parameters or {}}, waits)

    def sequence(self):
        name = self.random.choice(("direct", "oldest"))
        self.number += CLIENTS + 1
        for i in range(3):
            self.infer(name, parameters={"sequence_id": self.number, "sequence_start": i == 0,
                                         "sequence_end": i == 2})

    def memory(self):
        key = f"/neso_chaos_{os.getpid()}_{self.number}"
        with open("/dev/shm" + key, "wb") as file:
            file.write(b"\0" * 4096)
        region = f"region{self.number}"
        self.ask("POST", f"/v2/systemsharedmemory/region/{region}/register",
                 {"key": key, "offset": 0, "byte_size": 4096})
        where = {"shared_memory_region": region, "shared_memory_byte_size": 4096}
        for name in ("plain", "echo"):
            self.infer(name, tensor={"name": "X", "datatype": "FP32", "shape": [1024],
                                     "parameters": where})
        self.ask("POST", f"/v2/systemsharedmemory/region/{region}/unregister", {})
        os.unlink("/dev/shm" + key)
        self.number += CLIENTS + 1

    def reload(self):
        name = self.random.choice(RELOADED)
        what = self.random.choice(("load", "load", "unload"))
        self.ask("POST", f"/v2/repository/models/{name}/{what}", {})

    def look(self):
        self.ask("GET", self.random.choice(("/v2/models/stats", "/v2/health/ready", "/metrics",
                                            "/v2/models/echo/ready", "/v2/models/echo/stacks")))

    def run(self):
        askable = tuple(name for name in MODELS if name not in ("direct", "oldest", "crashes"))
        try:
            while time.monotonic() < self.deadline:
                what = self.random.random()
                if what < 0.06:
                    self.sequence()
                elif what < 0.12:
                    self.memory()
                elif what < 0.16:
                    self.reload()
                elif what < 0.2:
                    self.look()
                elif what < 0.203:  # rarely: its requests wait until its process is started again
                    self.infer("crashes")
                else:
                    self.infer(self.random.choice(askable), waits=self.random.random() > 0.05)
        except Exception as e:  # a client that ends early would look like success
            self.faults.append(repr(e))


def watch_races():
    words = os.environ.get("TSAN_OPTIONS", "")
    if "suppressions" not in words:
        path = attack.ROOT / "tools" / "tsan_suppressions.txt"
        os.environ["TSAN_OPTIONS"] = f"{words}:suppressions={path}".lstrip(":")
    see_close = attack.conftest.BUILD / "tests" / "sanitizers" / "see_close.so"
    if see_close.exists():
        os.environ.setdefault("LD_PRELOAD", str(see_close.resolve()))


def measure(options):
    watch_races()
    with attack.server(MODELS, *PYTHON, "--model-control-mode=explicit", "--load-model=*",
                       "--allow-client-shm=true", "--disable-auto-complete-config",
                       "--exit-timeout-secs=20") as server:
        deadline = time.monotonic() + options.seconds
        clients = [Client(server, options.seed * 1000 + i, deadline) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(options.seconds + 2 * SECONDS)
        yield attack.holds("the clients end", not any(client.is_alive() for client in clients))
        faults = [fault for client in clients for fault in client.faults]
        for fault in faults[:5]:
            print(fault)
        yield attack.Figure("requests", sum(client.n for client in clients), at_least=10)
        yield attack.Figure("answers that are errors, of models that may fail",
                            sum(client.n_failed for client in clients))
        yield attack.Figure("innocent requests without a right answer", len(faults), at_most=0)
        begun = time.monotonic()
        server.process.terminate()
        yield attack.Figure("exit status", server.process.wait(60), at_most=0)
        yield attack.Figure("the stop", time.monotonic() - begun, "s", at_most=20)
        server._reader.join(10)
        reports = [i for i, line in enumerate(server.log)
                   if "WARNING: ThreadSanitizer" in line or "ERROR: AddressSanitizer" in line]
        if options.log:
            with open(options.log, "w", encoding="utf-8") as file:
                file.write(server.text())
        for i in reports[:3]:
            print("\n".join(server.log[i:i + 40]))
        yield attack.Figure("reports of a sanitizer", len(reports), at_most=0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", help="a file for the server's log")
    given = parser.parse_args()
    sys.dont_write_bytecode = True
    attack.main(lambda: measure(given), __doc__)
