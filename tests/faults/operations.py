# SPDX-License-Identifier: BSD-3-Clause
"""The operations of the fault matrix, which run while a call of the server fails.

An operation is a function with a Lab as its argument. It returns after it has checked the answer of a request
that succeeded; it raises Refused with the server's error text when the server refused the request, and Lost when
the connection ended without an answer. `prepare` brings the server into the state in which the operation begins.
"""
import contextlib
import http.client
import json
import os
import struct

TENSORS = """input {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ {dims} ] }}
output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {dims} ] }}
"""


def identity(more="", dims="-1", backend="identity"):
    return f'backend: "{backend}"\n' + TENSORS.format(dims=dims) + more


THREAD = 'parameters { key: "inline_execution" value { string_value: "never" } }\n'
BATCHED = "max_batch_size: 8\n"
STEP = ('step {{ model_name: "{0}" model_version: -1 input_map {{ key: "INPUT0" value: "{1}" }} '
        'output_map {{ key: "OUTPUT0" value: "{2}" }} }}\n')
REPEAT = """backend: "repeat"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: -1 }
input { name: "DELAY" data_type: TYPE_UINT32 dims: -1 }
input { name: "WAIT" data_type: TYPE_UINT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
output { name: "IDX" data_type: TYPE_UINT32 dims: 1 }
"""
PYTHON_MODEL = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "OUTPUT0", pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy())]) for r in requests]
"""
MODELS = {
    "plain": identity(),
    "thread": identity(THREAD),
    "batched": identity(BATCHED + "dynamic_batching { max_queue_delay_microseconds: 100 }\n" + THREAD, "1"),
    "sequence": identity(BATCHED + "sequence_batching { direct { } }\n", "1"),
    "oldest": identity(BATCHED + "sequence_batching { oldest { max_candidate_sequences: 4 } }\n", "1"),
    "cached": identity("response_cache { enable: true }\n"),
    "ensemble": 'platform: "ensemble"\n' + TENSORS.format(dims="-1") + "ensemble_scheduling {\n"
                + STEP.format("plain", "INPUT0", "T") + STEP.format("thread", "T", "OUTPUT0") + "}\n",
    "chained": identity('parameters { key: "next" value { string_value: "thread" } }\n'),
    "repeat": REPEAT,
    "python": {"config.pbtxt": identity(backend="python"), "1/model.py": PYTHON_MODEL},
    "composite": identity(BATCHED + 'parameters { key: "batch_ranges" value { string_value: "a:1-1,b:2-8" } }\n'
                          'instance_group { name: "a" count: 1 kind: KIND_CPU }\n'
                          'instance_group { name: "b" count: 1 kind: KIND_CPU }\n' + THREAD, "1"),
    # The operations load and unload these.
    "coming": identity("instance_group { count: 2 kind: KIND_CPU }\n" + THREAD),
    "coming_python": {"config.pbtxt": identity(backend="python"), "1/model.py": PYTHON_MODEL},
}
STAY = [name for name in MODELS if not name.startswith("coming")] + ["digits"]


class Refused(Exception):
    """The server said that it could not, and why."""


class Lost(Exception):
    """No answer."""


class Wrong(Exception):
    """The answer is not what it must be."""


SECONDS = 20


def ask(lab, method, path, body=b"", headers=None):
    """The body of a 200; each call on a connection of its own, so that each opens and ends one."""
    connection = http.client.HTTPConnection("127.0.0.1", lab.server.port("http"), timeout=SECONDS)
    with contextlib.closing(connection):
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            text = answer.read()
        except TimeoutError as error:
            raise Wrong(f"{method} {path}: no answer within {SECONDS} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise Lost(f"{method} {path}: {error!r}") from error
    if answer.status == 200:
        return text
    if path.startswith("/v2/health") or path == "/metrics":
        raise Refused(f"{answer.status}")
    try:
        reason = json.loads(text.removeprefix(b"data: ").partition(b"\n")[0])["error"]
    except (ValueError, KeyError, TypeError) as error:
        raise Wrong(f"{method} {path}: {answer.status} without an error's text: {text[:200]!r}") from error
    if not reason:
        raise Wrong(f"{method} {path}: an empty error")
    raise Refused(f"{answer.status} {reason}")


def ask_json(lab, method, path, value=None):
    text = ask(lab, method, path, b"" if value is None else json.dumps(value).encode())
    return json.loads(text) if text else None


def equal(got, wanted):
    if got != wanted:
        raise Wrong(f"got {got!r:.200}, not {wanted!r:.200}")


# ---- inferences ----

VALUES = [float(i) for i in range(40)]


def infer(lab, model, shape=(len(VALUES),), parameters=None):
    n = shape[0] * (shape[1] if len(shape) > 1 else 1)
    answer = ask_json(lab, "POST", f"/v2/models/{model}/infer", {
        "parameters": parameters or {},
        "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": list(shape), "data": VALUES[:n]}]})
    equal(answer["outputs"][0]["data"], VALUES[:n])


def infer_plain(lab):
    infer(lab, "plain")


def infer_thread(lab):
    infer(lab, "thread")


def infer_binary(lab):
    raw = struct.pack("<20000f", *([1.5] * 20000))
    head = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [20000],
                                   "parameters": {"binary_data_size": len(raw)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    answer = ask(lab, "POST", "/v2/models/plain/infer", head + raw,
                 {"Inference-Header-Content-Length": str(len(head))})
    if not answer.endswith(raw):
        raise Wrong("other bytes")


def infer_batched(lab):
    infer(lab, "batched", (2, 1))


def infer_sequence(lab, model="sequence"):
    lab.n_sequences += 1
    for start, end in ((True, False), (False, False), (False, True)):
        infer(lab, model, (1, 1), {"sequence_id": lab.n_sequences, "sequence_start": start, "sequence_end": end})


def infer_oldest(lab):
    infer_sequence(lab, "oldest")


def infer_cached(lab):
    infer(lab, "cached")


def infer_ensemble(lab):
    infer(lab, "ensemble")


def infer_chain(lab):
    infer(lab, "chained")


def infer_composite(lab):
    infer(lab, "composite", (1, 1))
    infer(lab, "composite", (3, 1))


def infer_python(lab):
    infer(lab, "python")


def infer_decoupled(lab):
    text = ask(lab, "POST", "/v2/models/repeat/generate_stream", json.dumps(
        {"IN": [7, 8, 9], "DELAY": [0, 0, 0], "WAIT": 0}).encode()).decode()
    events = [json.loads(line[len("data: "):]) for line in text.splitlines() if line.startswith("data: ")]
    refused = [event["error"] for event in events if "error" in event]
    if refused:
        raise Refused(refused[0])
    equal([event["OUT"] for event in events], [7, 8, 9])


def infer_onnx(lab):
    answer = ask_json(lab, "POST", "/v2/models/digits/infer", {
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 64], "data": [0] * 64}]})
    equal(len(answer["outputs"]) > 0, True)


def grpc_call(lab, call):
    import grpc  # pylint: disable=import-outside-toplevel

    options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{lab.server.port('grpc')}", options) as channel:
        try:
            return call(lab.stub(channel))
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise Wrong(f"no answer within {SECONDS} s") from error
            if not error.details():
                raise Wrong(f"{error.code()} without a text") from error
            raise Refused(f"{error.code()} {error.details()}") from error


def infer_grpc(lab):
    raw = struct.pack("<3f", 1, 2, 3)

    def call(client):
        message = client.request("plain", [("INPUT0", "FP32", [3])], [raw])
        equal(client.ModelInfer(message, timeout=SECONDS).raw_output_contents[0], raw)

    grpc_call(lab, call)


def infer_grpc_stream(lab):
    raw = struct.pack("<3f", 1, 2, 3)

    def call(client):
        message = client.request("thread", [("INPUT0", "FP32", [3])], [raw])
        answers = list(client.ModelStreamInfer(iter([message] * 3), timeout=SECONDS))
        for answer in answers:
            if answer.error_message:
                raise Refused(answer.error_message)
        equal([a.infer_response.raw_output_contents[0] for a in answers], [raw] * 3)

    grpc_call(lab, call)


def shared_memory(lab):
    """Registers a region, infers from it, and unregisters it."""
    name, size = f"/neso_faults_{os.getpid()}", 4096
    with open("/dev/shm" + name, "wb") as file:
        file.write(struct.pack("<4f", 1, 2, 3, 4).ljust(size, b"\0"))
    try:
        ask_json(lab, "POST", "/v2/systemsharedmemory/region/r/register",
                 {"key": name, "offset": 0, "byte_size": size})
        answer = ask_json(lab, "POST", "/v2/models/plain/infer", {"inputs": [{
            "name": "INPUT0", "datatype": "FP32", "shape": [4], "parameters": {
                "shared_memory_region": "r", "shared_memory_byte_size": 16}}]})
        equal(answer["outputs"][0]["data"], [1, 2, 3, 4])
        ask_json(lab, "POST", "/v2/systemsharedmemory/region/r/unregister", {})
    finally:
        os.unlink("/dev/shm" + name)


def forget_regions(lab):
    ask(lab, "POST", "/v2/systemsharedmemory/unregister")


# ---- models ----


def load_of(model):
    def load(lab):
        ask(lab, "POST", f"/v2/repository/models/{model}/load")
    return load


def unload_of(model):
    def unload(lab):
        ask(lab, "POST", f"/v2/repository/models/{model}/unload")
    return unload


def reload(lab):
    """The configuration's file is another one each time, and the model serves all the while."""
    lab.n_reloads += 1
    path = lab.repository / "coming" / "config.pbtxt"
    path.write_text(MODELS["coming"] + f"# {lab.n_reloads}\nversion_policy {{ latest {{ num_versions: "
                    f"{lab.n_reloads % 7 + 1} }} }}\n", encoding="ascii")
    try:
        load_of("coming")(lab)
    finally:
        with lab.disarmed():
            infer(lab, "coming")


def load_with_files(lab):
    """A load that brings its configuration and a file along."""
    config = {"backend": "identity", "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
              "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]}
    ask_json(lab, "POST", "/v2/repository/models/brought/load", {"parameters": {
        "config": json.dumps(config), "file:1/data": "AAAA"}})


def index(lab):
    names = {model["name"] for model in ask_json(lab, "POST", "/v2/repository/index")}
    equal(names >= {"plain", "digits"}, True)


# ---- the rest ----


def statistics(lab):
    equal(len(ask_json(lab, "GET", "/v2/models/stats")["model_stats"]) >= len(STAY), True)


def dashboard(lab):
    equal("models" in ask_json(lab, "GET", "/v2/dashboard?since=0&log=0"), True)


def ready(lab):
    ask(lab, "GET", "/v2/health/ready")


def metrics(lab):
    connection = http.client.HTTPConnection("127.0.0.1", lab.server.port("metrics"), timeout=SECONDS)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = answer.read()
        except TimeoutError as error:
            raise Wrong("no metrics in time") from error
        except (OSError, http.client.HTTPException) as error:
            raise Lost(repr(error)) from error
    if answer.status != 200:
        raise Refused(f"{answer.status} {text!r}")
    equal(b"nv_inference_count" in text, True)


def trace(lab):
    """Traces one request into a file."""
    settings = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1",
                "trace_count": "-1", "log_frequency": "1"}
    ask_json(lab, "POST", "/v2/trace/setting", settings)
    infer(lab, "plain")
    ask_json(lab, "POST", "/v2/trace/setting", {"trace_level": ["OFF"]})


def end_traces(lab):
    ask_json(lab, "POST", "/v2/trace/setting", {"trace_level": ["OFF"]})


def log_settings(lab):
    ask_json(lab, "POST", "/v2/logging", {"log_verbose_level": 1})
    infer(lab, "thread")
    ask_json(lab, "POST", "/v2/logging", {"log_verbose_level": 0})


def end_verbose(lab):
    ask_json(lab, "POST", "/v2/logging", {"log_verbose_level": 0})


def nothing(lab):
    del lab


# name -> (prepare, operation)
OPERATIONS = {
    "infer": (nothing, infer_plain),
    "infer, binary": (nothing, infer_binary),
    "infer, own thread": (nothing, infer_thread),
    "infer, gRPC": (nothing, infer_grpc),
    "infer, gRPC stream": (nothing, infer_grpc_stream),
    "infer, dynamic": (nothing, infer_batched),
    "infer, sequence": (nothing, infer_sequence),
    "infer, oldest": (nothing, infer_oldest),
    "infer, ensemble": (nothing, infer_ensemble),
    "infer, chain": (nothing, infer_chain),
    "infer, composite": (nothing, infer_composite),
    "infer, decoupled": (nothing, infer_decoupled),
    "infer, cached": (nothing, infer_cached),
    "infer, Python": (nothing, infer_python),
    "infer, ONNX": (nothing, infer_onnx),
    "shared memory": (forget_regions, shared_memory),
    "load": (unload_of("coming"), load_of("coming")),
    "load, Python": (unload_of("coming_python"), load_of("coming_python")),
    "load, ONNX": (unload_of("digits"), load_of("digits")),
    "load, with files": (unload_of("brought"), load_with_files),
    "reload": (load_of("coming"), reload),
    "unload": (load_of("coming"), unload_of("coming")),
    "unload, Python": (load_of("coming_python"), unload_of("coming_python")),
    "index": (nothing, index),
    "statistics": (nothing, statistics),
    "dashboard": (nothing, dashboard),
    "metrics": (nothing, metrics),
    "ready": (nothing, ready),
    "trace": (end_traces, trace),
    "log settings": (end_verbose, log_settings),
}
