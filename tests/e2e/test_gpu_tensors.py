# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of the C API in the memory of GPUs, which are stand-ins (tests/gpu): inputs of a program that has the
server in it, and outputs where its allocator says. Backends of models on the CPU do not look at the type of memory.
device_client.c has the orders and the answers."""
import json
import os
import struct
import subprocess

import pytest

from conftest import BUILD, write_repository
from gpus import FOLDER, backend_directory, require_gpus

CPU, PINNED, DEVICE_0, DEVICE_1 = "cpu", "pinned", "0", "1"
PLACES = {CPU: "CPU:0", PINNED: "CPU_PINNED:0", DEVICE_0: "GPU:0", DEVICE_1: "GPU:1"}
INVALID, UNAVAILABLE, UNSUPPORTED = 3, 4, 5


def identity(type_of="INT32", more="", backend="identity", max_batch_size=8):
    return (f'backend: "{backend}"\nmax_batch_size: {max_batch_size}\n'
            f'input {{ name: "INPUT0" data_type: TYPE_{type_of} dims: -1 }}\n'
            f'output {{ name: "OUTPUT0" data_type: TYPE_{type_of} dims: -1 }}\n'
            + more)


def two_steps(model):
    return ('platform: "ensemble"\nmax_batch_size: 8\n'
            'input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 }\n'
            'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }\n'
            "ensemble_scheduling { " + "".join(
                f'step {{ model_name: "{model}" model_version: -1 '
                f'input_map {{ key: "INPUT0" value: "{a}" }} '
                f'output_map {{ key: "OUTPUT0" value: "{b}" }} }} '
                for a, b in (("INPUT0", "between"), ("between", "OUTPUT0"))) + "}\n")


def side_by_side(model):
    """Two steps read the input, and each writes an output: only one of them into the client's memory."""
    return ('platform: "ensemble"\nmax_batch_size: 8\n'
            'input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 }\n' + "".join(
                f'output {{ name: "{output}" data_type: TYPE_INT32 dims: -1 }}\n' for output in ("OUTPUT0", "OUTPUT1"))
            + "ensemble_scheduling { " + "".join(
                f'step {{ model_name: "{model}" model_version: -1 '
                'input_map { key: "INPUT0" value: "INPUT0" } '
                f'output_map {{ key: "OUTPUT0" value: "{output}" }} }} ' for output in ("OUTPUT0", "OUTPUT1")) + "}\n")


MODELS = {
    "plain": identity(),
    "texts": identity("STRING"),
    "batched": identity(more="dynamic_batching { max_queue_delay_microseconds: 2000 }\n"),
    "cached": identity(more="response_cache { enable: true }\n"),
    "cached_texts": identity("STRING", more="response_cache { enable: true }\n"),
    "sequence": identity(more="sequence_batching { }\n"),
    # Its backend looks at the type of memory, and WHERE is what it sees: the type and the id.
    "seen_on_cpu": identity(more='output { name: "WHERE" data_type: TYPE_INT32 dims: [ 1, 2 ] }\n'
                                 "instance_group { kind: KIND_CPU }\n",
                            backend="gpu", max_batch_size=0),
    "seen_on_gpu": identity(more='output { name: "WHERE" data_type: TYPE_INT32 dims: [ 1, 2 ] }\n'
                                 "instance_group { kind: KIND_GPU gpus: [ 1 ] }\n",
                            backend="gpu", max_batch_size=0),
    "ensemble": two_steps("plain"),
    "eager": identity(more='parameters { key: "inline_execution" value { string_value: "always" } }\n'),
    "eager_steps": two_steps("eager"),
    "cached_steps": two_steps("cached"),
    "cached_side_by_side": side_by_side("cached"),
    "eager_side_by_side": side_by_side("eager"),
}


def numbers(*values):
    return struct.pack(f"<{len(values)}i", *values)


def strings(*values):
    return b"".join(struct.pack("<I", len(v)) + v for v in values)


def tensor(places, content, name="INPUT0", type_of="INT32", shape=None):
    shape = shape or (1, len(content) // 4)
    return f"{name}={type_of}:{','.join(map(str, shape))}:{places}:{content.hex()}"


class Client:
    """Runs all orders in one program. Each answer is (code, text) of an error, or {output: (place, bytes)}, or the
    JSON of the statistics."""

    def __init__(self, folder, has_gpus=True):
        self.folder = folder
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith("NESO_FAKE_GPU")}
        if has_gpus:
            self.environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (
                str(FOLDER), os.environ.get("LD_LIBRARY_PATH"))))

    def run(self, *orders, **settings):
        environment = dict(self.environment, **{f"NESO_FAKE_GPU_{name}": value
                                                for name, value in settings.items()})
        done = subprocess.run([BUILD / "tests" / "e2e" / "device_client", self.folder,
                               backend_directory(), BUILD / "caches"],
                              input="".join(f"{order}\n" for order in orders), text=True,
                              capture_output=True, env=environment, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert "fake gpu:" not in done.stderr and "Sanitizer" not in done.stderr, done.stderr
        answers = [self._read(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(orders), done.stderr
        return answers

    @staticmethod
    def _read(line):
        words = line.split(" ")
        if words[0] != "-1":
            return int(words[0]), bytes.fromhex(words[1]).decode()
        if "=" not in line:
            return json.loads(bytes.fromhex(words[1]))["model_stats"][0]
        outputs = {}
        for word in words[1:]:
            name, value = word.split("=")
            place, _, content = value.rpartition(":")
            outputs[name] = (place, bytes.fromhex(content))
        return outputs


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    require_gpus()
    folder = tmp_path_factory.mktemp("models")
    write_repository(folder, MODELS)
    return Client(folder)


VALUES = numbers(1, -2, 3, 4, -5, 6)
WHERE = (CPU, PINNED, DEVICE_0, DEVICE_1, f"{DEVICE_0}/{CPU}/{DEVICE_1}", f"{DEVICE_1}/{DEVICE_1}")


@pytest.mark.parametrize("model", ["plain", "batched", "sequence", "ensemble"])
def test_each_place(client, model):
    """The client gets its bytes where it wants them, from wherever they come."""
    cases = [(given, wanted) for given in WHERE for wanted in PLACES]
    answers = client.run(*(f"{model} {wanted} {tensor(given, VALUES)}" for given, wanted in cases))
    for (given, wanted), answer in zip(cases, answers):
        assert answer == {"OUTPUT0": (PLACES[wanted], VALUES)}, (given, wanted)


@pytest.mark.parametrize("model", ["batched", "sequence", "ensemble"])
def test_many_at_once(client, model):
    [answer, statistics] = client.run(f"{model}*32 {DEVICE_1} {tensor('0/1', VALUES)}",
                                      f"statistics {model}")
    assert answer == {"OUTPUT0": (PLACES[DEVICE_1], VALUES)}
    assert statistics["inference_stats"]["success"]["count"] == 32
    assert statistics["inference_stats"]["fail"]["count"] == 0


@pytest.mark.parametrize("given, seen", [(CPU, (0, 0)), (DEVICE_0, (1, 0)), (DEVICE_1, (1, 0))])
def test_what_a_backend_on_the_cpu_sees(client, given, seen):
    """Pinned memory in place of the GPU's, also for a backend that would look at the type."""
    [answer] = client.run(f"seen_on_cpu {DEVICE_0} {tensor(given, VALUES, shape=(6,))}")
    assert answer == {"OUTPUT0": (PLACES[DEVICE_0], VALUES), "WHERE": (PLACES[DEVICE_0], numbers(*seen))}


@pytest.mark.parametrize("given, seen", [(CPU, (0, 0)), (DEVICE_1, (2, 1))])
def test_what_a_backend_on_gpus_sees(client, given, seen):
    """What the client gave, and its memory for the outputs."""
    for wanted in (CPU, DEVICE_1):
        [answer] = client.run(f"seen_on_gpu {wanted} {tensor(given, VALUES, shape=(6,))}")
        assert answer == {"OUTPUT0": (PLACES[wanted], VALUES), "WHERE": (PLACES[wanted], numbers(*seen))}


def test_empty_tensors(client):
    answers = client.run(*(f"plain {place} INPUT0=INT32:1,0:{place}:-" for place in PLACES))
    assert answers == [{"OUTPUT0": (there, b"")} for there in PLACES.values()]


def test_texts_are_checked(client):
    """The server reads the elements of BYTES, wherever they lie."""
    good, short = strings(b"one", b"", b"three"), strings(b"one", b"three")
    cut = strings(b"one", b"", b"three")[:-1]
    orders = [f"texts {DEVICE_0} {tensor(place, content, type_of='BYTES', shape=(1, 3))}"
              for place in (CPU, DEVICE_1) for content in (good, short, cut)]
    answers = client.run(*orders)
    assert answers[:3] == answers[3:]
    assert answers[0] == {"OUTPUT0": (PLACES[DEVICE_0], good)}
    assert answers[1] == (INVALID, "[request id: <id_unknown>] expected 3 string elements for inference input "
                                   "'INPUT0' for model 'texts', got 2")
    assert answers[2] == (INVALID, "[request id: <id_unknown>] incomplete last string element for inference input "
                                   "'INPUT0' for model 'texts', 1 bytes are missing")


def test_unknown_devices(client):
    """The third device is too old with --min-supported-compute-capability at 6.0; there is no fourth one."""
    known = client.run(f"plain no9 {tensor(CPU, VALUES)}", f"plain {CPU} {tensor('no9', VALUES)}",
                       f"plain {CPU} {tensor(CPU, VALUES)}")
    assert known[0][0] == INVALID and "output 'OUTPUT0' is wanted in the memory of GPU 9" in known[0][1]
    assert known[1][0] == INVALID and "input 'INPUT0' is in the memory of GPU 9" in known[1][1]
    assert known[2] == {"OUTPUT0": (PLACES[CPU], VALUES)}


def test_without_gpus(client):
    """Neither a driver, nor a device: as a build of the reference without GPUs."""
    bare = Client(client.folder, has_gpus=False)
    for who, settings in ((bare, {}), (client, {"DEVICES": "0"})):
        refused, plain = who.run(f"plain {CPU} {tensor('no0', VALUES)}",
                                 f"plain {CPU} {tensor(CPU, VALUES)}", **settings)
        assert refused == (UNSUPPORTED, "input 'INPUT0' is in GPU memory: GPUs not supported")
        assert plain == {"OUTPUT0": (PLACES[CPU], VALUES)}


def test_cache(client):
    """Outputs on a device are kept on the host, and given where the next client wants them. A request whose
    input is on a device is neither a hit nor a miss."""
    on_host, on_device = tensor(CPU, VALUES), tensor(f"{CPU}/{DEVICE_1}", VALUES)
    orders = [f"cached {place} {given}" for given in (on_host, on_device)
              for place in (DEVICE_0, DEVICE_1, CPU)]
    *answers, statistics = client.run(*orders, "statistics cached")
    places = [PLACES[place] for place in (DEVICE_0, DEVICE_1, CPU)] * 2
    assert answers == [{"OUTPUT0": (place, VALUES)} for place in places]
    counts = {name: row["count"] for name, row in statistics["inference_stats"].items()}
    assert counts["cache_miss"] == 1
    assert counts["cache_hit"] == 2
    assert counts["success"] == 6
    assert statistics["execution_count"] == 4


def test_a_thread_that_must_not_wait(client):
    """Outputs are copied to devices by other threads: those of instances, also for the steps of an ensemble, and of the
    cache. The program fails when an answer comes from the thread that submits. It is not known before which outputs
    will be on a device, so this holds for all outputs of the request."""
    host = tensor(CPU, VALUES)
    orders = [f"{model} {place}~ {host}" for model in ("eager", "eager_steps", "cached", "cached_steps")
              for place in (DEVICE_0, DEVICE_1, CPU, DEVICE_0)]
    answers = client.run(f"cached {CPU} {host}", *orders, "statistics cached")
    assert answers[0] == {"OUTPUT0": (PLACES[CPU], VALUES)}
    assert answers[1:-1] == [{"OUTPUT0": (PLACES[place], VALUES)}
                             for place in (DEVICE_0, DEVICE_1, CPU, DEVICE_0) * 4]
    assert answers[-1]["execution_count"] == 1


@pytest.mark.parametrize("model", ["cached_steps", "cached_side_by_side", "eager_side_by_side"])
def test_an_ensemble_for_a_thread_that_must_not_wait(client, model):
    """The same when the ensemble itself copies an output, and when the cache answers all steps on the thread that
    submits: another thread ends the ensemble."""
    host = tensor(CPU, VALUES)
    outputs = ("OUTPUT0", "OUTPUT1") if "side" in model else ("OUTPUT0",)
    answers = client.run(f"{model} {CPU} {host}",
                         *(f"{model} {place}~ {host}" for place in (DEVICE_0, DEVICE_1) * 20))
    assert answers == [{output: (PLACES[place], VALUES) for output in outputs}
                       for place in (CPU, *(DEVICE_0, DEVICE_1) * 20)]


def test_cache_of_texts(client):
    """The check of a text on a device has a copy on the host, which changes nothing."""
    orders = [f"cached_texts {CPU} {tensor(place, strings(b'one'), type_of='BYTES', shape=(1, 1))}"
              for place in (DEVICE_0, DEVICE_0, CPU, DEVICE_0, CPU)]
    *answers, statistics = client.run(*orders, "statistics cached_texts")
    assert answers == [{"OUTPUT0": (PLACES[CPU], strings(b"one"))}] * len(orders)
    counts = {name: row["count"] for name, row in statistics["inference_stats"].items()}
    assert (counts["cache_miss"], counts["cache_hit"], counts["success"]) == (1, 1, 5)


def test_failing_copies(client):
    """The n-th copy of each direction fails: one request has the error, the next ones go on."""
    for name, wanted, given, text in (
            ("cuMemcpyDtoHAsync:1:700", CPU, DEVICE_0,
             "[request id: <id_unknown>] an input cannot be copied from a device: GPU 0: "),
            ("cuMemcpyHtoDAsync:1:700", DEVICE_0, CPU,
             "an output of model 'plain' cannot be copied to a device: GPU 0: ")):
        order = f"plain {wanted} {tensor(given, VALUES)}"
        failed, good, statistics = client.run(order, order, "statistics plain", FAIL=name)
        assert failed[0] == UNAVAILABLE and failed[1].startswith(text), failed
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in failed[1]
        assert good == {"OUTPUT0": (PLACES[wanted], VALUES)}
        assert statistics["inference_stats"]["success"]["count"] in (1, 2)


def test_pinned_memory_runs_short(client):
    """What has no room in pinned memory goes through ordinary memory."""
    order = f"batched*16 {DEVICE_1} {tensor('0/1', VALUES)}"
    [answer] = client.run(order, PINNED_LIMIT="0")
    assert answer == {"OUTPUT0": (PLACES[DEVICE_1], VALUES)}
