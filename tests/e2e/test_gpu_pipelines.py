# SPDX-License-Identifier: BSD-3-Clause
"""Models made of models, and states of sequences, in the memory of GPUs: the server runs on stand-ins of the
driver, which end it when memory is left on a device at its end."""
import contextlib
import itertools
import threading
import time

import numpy
import pytest
import requests

from conftest import patience
from gpus import model_text, opens_gpu_server
from python_programs import OPTIONS as PYTHON
from scrape import metrics
from test_cuda_shared_memory import OPTIONS as CUDA, Http, Region
from test_shared_memory import place

SECONDS = patience(20)
GPU, PINNED, CPU = 2, 1, 0
N = 1000  # elements of FP32
BYTES = 4 * N
WHERE_BYTES = 8  # of the place of one input, which a step on a GPU writes there


def step(model, tensors_in, tensors_out):
    maps = [f'input_map {{ key: "{key}" value: "{value}" }}' for key, value in tensors_in.items()]
    maps += [f'output_map {{ key: "{key}" value: "{value}" }}' for key, value in tensors_out.items()]
    return f'step {{ model_name: "{model}" model_version: -1 {" ".join(maps)} }}'


def line(*models, outputs=(), more=""):
    """An ensemble of the models, each of which reads OUTPUT0 of the one before. WHERE<i> are the places of the
    inputs of step i. `outputs`: tensors T<i>, written by step i, that are outputs, too."""
    names = ["INPUT0", *(f"T{i}" for i in range(len(models) - 1)), "OUTPUT0"]
    steps = [step(model, {"INPUT0": names[i]}, {"OUTPUT0": names[i + 1], "WHERE": f"WHERE{i}"})
             for i, model in enumerate(models)]
    tensors = [f'output {{ name: "{name}" data_type: TYPE_FP32 dims: [ -1 ] }}'
               for name in ("OUTPUT0", *outputs)]
    tensors += [f'output {{ name: "WHERE{i}" data_type: TYPE_INT32 dims: [ -1, 2 ] }}'
                for i in range(len(models))]
    return "\n".join(['platform: "ensemble"', 'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }',
                      *tensors, more, "ensemble_scheduling {", *steps, "}"])


SEQUENCE = """sequence_batching {
  max_sequence_idle_microseconds: 600000000
  %s
  state { input_name: "INPUT_STATE" output_name: "OUTPUT_STATE" data_type: TYPE_FP32 dims: [ %d ] %s }
}"""
ADD_UP = SEQUENCE % ("", 4, "")
ADD_UP_OLDEST = SEQUENCE % ("oldest { max_candidate_sequences: 4 }", 4, "")
EMPTY = 'initial_state { name: "none" data_type: TYPE_FP32 dims: [ 0 ] zero_data: true } '
IN_PLACE = "use_same_buffer_for_input_output: true "
GROWS = SEQUENCE % ("", -1, EMPTY + IN_PLACE + "use_growable_memory: true")

CHAIN = ('parameters { key: "next" value { string_value: "%s" } } '
         'parameters { key: "next_map" value { string_value: "OUTPUT0:INPUT0" } }')

MODELS = {
    "g0": model_text(gpus=[0]),
    "g1": model_text(gpus=[1]),
    "both": model_text(gpus=[0, 1]),
    "cpu": model_text(kind="KIND_CPU"),
    "one_device": line("g0", "g0", "g0"),
    "two_devices": line("g0", "g1", "g1"),
    "cpu_between": line("g0", "cpu", "g0"),
    "several": line("g0", "both", "g0"),
    "in_between": line("g0", "g0", "g0", outputs=["T0"]),
    "nested": line("inside", "g0"),
    "first": model_text(gpus=[0], more=CHAIN % "second"),
    "second": model_text(gpus=[0], more=CHAIN % "third"),
    "third": model_text(gpus=[1]),
    "batches": model_text(gpus=[0], max_batch_size=8, more="dynamic_batching { }"),
    "sum": model_text("state", gpus=[0], dims="[ 4 ]", more=ADD_UP),
    "sum_1": model_text("state", gpus=[0, 1], dims="[ 4 ]", more=ADD_UP_OLDEST),
    "list": model_text("append", gpus=[0], more=GROWS),
}
MODELS["inside"] = "\n".join([
    'platform: "ensemble"', 'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }',
    'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }',
    'output { name: "WHERE" data_type: TYPE_INT32 dims: [ -1, 2 ] }', "ensemble_scheduling {",
    step("g0", {"INPUT0": "INPUT0"}, {"OUTPUT0": "T"}),
    step("g0", {"INPUT0": "T"}, {"OUTPUT0": "OUTPUT0", "WHERE": "WHERE"}), "}"])

PLAIN = ("--cuda-memory-pool-byte-size=0:1048576", "--cuda-memory-pool-byte-size=1:1048576",
         "--cuda-virtual-address-size=0:8388608")
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with opens_gpu_server(tmp_path_factory.mktemp("gpu_pipelines"), MODELS, *PLAIN) as running:
        yield running


def ask(server, model, values, outputs=("OUTPUT0",), batched=False, **parameters):
    """{output: its data} of an answer without an error."""
    shape = [1, len(values)] if batched else [len(values)]
    body = {"inputs": [{"name": "INPUT0", "shape": shape, "datatype": "FP32",
                        "data": [float(value) for value in values]}],
            "outputs": [{"name": name} for name in outputs]}
    if parameters:
        body["parameters"] = parameters
    reply = requests.post(f"{server.url}/v2/models/{model}/infer", json=body, timeout=SECONDS)
    assert reply.status_code == 200, reply.text
    return {output["name"]: output["data"] for output in reply.json()["outputs"]}


DIRECTIONS = ("to_device", "to_host", "within_device", "between_devices")


def copied(server):
    found = metrics(server)
    return {direction: found[f'neso_gpu_copied_bytes_total{{direction="{direction}"}}']
            for direction in DIRECTIONS}


class Copies:
    """The bytes that the server has copied within the block."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.before = copied(self.server)
        return self

    def __exit__(self, *_):
        after = copied(self.server)
        self.bytes = {direction: after[direction] - self.before[direction] for direction in DIRECTIONS
                      if after[direction] != self.before[direction]}


def used_bytes(server):
    return sum(number for sample, number in metrics(server).items()
               if sample.startswith("neso_gpu_memory_pool_used_bytes"))


def until_nothing_is_used(server):
    """For requests that their clients have left: they end after the steps that run."""
    deadline = time.monotonic() + SECONDS
    while used_bytes(server) > 0:
        assert time.monotonic() < deadline, used_bytes(server)


VALUES = [float(i) for i in range(N)]


def run_line(server, model, places, outputs=("OUTPUT0",)):
    """`places`: memory type and id of the input of each step."""
    wheres = [f"WHERE{i}" for i in range(len(places))]
    answer = ask(server, model, VALUES, [*outputs, *wheres])
    for name in outputs:
        assert answer[name] == VALUES
    for where, place in zip(wheres, places):
        assert answer[where] == list(place), where
    assert used_bytes(server) == 0


def test_three_steps_on_one_device(server):
    """0 bytes from the device to the host between steps, for a first and for a later request."""
    for _ in range(3):
        with Copies(server) as copies:
            answer = ask(server, "one_device", VALUES)
        assert answer["OUTPUT0"] == VALUES
        assert copies.bytes == {}
    run_line(server, "one_device", [(CPU, 0), (GPU, 0), (GPU, 0)])


def test_two_devices(server):
    with Copies(server) as copies:
        ask(server, "two_devices", VALUES)
    assert copies.bytes == {"between_devices": BYTES}
    run_line(server, "two_devices", [(CPU, 0), (GPU, 1), (GPU, 1)])


@pytest.mark.parametrize("options, settings", [(["--enable-peer-access=false"], {}), ([], {"PEERS": 0})])
def test_without_peer_access(tmp_path, options, settings):
    """One copy through the host."""
    models = {name: MODELS[name] for name in ("g0", "g1", "two_devices")}
    with opens_gpu_server(tmp_path, models, *PLAIN, *options, **settings) as server:
        with Copies(server) as copies:
            ask(server, "two_devices", VALUES)
        assert copies.bytes == {"to_host": BYTES, "to_device": BYTES}
        run_line(server, "two_devices", [(CPU, 0), (GPU, 1), (GPU, 1)])


def test_step_on_cpu(server):
    """The step before it writes pinned memory, which it reads."""
    with Copies(server) as copies:
        ask(server, "cpu_between", VALUES)
    assert copies.bytes == {}
    run_line(server, "cpu_between", [(CPU, 0), (PINNED, 0), (CPU, 0)])


def test_instances_on_several_devices(server):
    for _ in range(4):  # whichever of them runs it
        with Copies(server) as copies:
            answer = ask(server, "several", VALUES, ("OUTPUT0", "WHERE1"))
        assert answer["OUTPUT0"] == VALUES
        assert answer["WHERE1"] == [GPU, 0]
        moved = {"between_devices": BYTES}  # for the third, when the second was on GPU 1
        assert copies.bytes in ({"to_host": WHERE_BYTES}, {"to_host": WHERE_BYTES, **moved})


def test_output_in_between(server):
    """The client's copy of a tensor that stays on the device for the next step."""
    with Copies(server) as copies:
        answer = ask(server, "in_between", VALUES, ("T0", "OUTPUT0"))
    assert answer == {"T0": VALUES, "OUTPUT0": VALUES}
    assert copies.bytes == {"to_host": BYTES}
    run_line(server, "in_between", [(CPU, 0), (GPU, 0), (GPU, 0)], ("T0", "OUTPUT0"))


def test_nested(server):
    """An ensemble as a step: its output is on the device for the step after it."""
    with Copies(server) as copies:
        answer = ask(server, "nested", VALUES, ("OUTPUT0", "WHERE1"))
    assert answer == {"OUTPUT0": VALUES, "WHERE1": [GPU, 0]}
    assert copies.bytes == {}  # the last step writes both
    assert used_bytes(server) == 0


def test_chain(server):
    with Copies(server) as copies:
        answer = ask(server, "first", VALUES, ("OUTPUT0", "WHERE"))
    assert answer == {"OUTPUT0": VALUES, "WHERE": [GPU, 1]}
    assert copies.bytes == {"between_devices": BYTES}
    assert used_bytes(server) == 0


def test_many_at_a_time(server):
    """Tensors of different requests are not mixed up, and nothing is left."""
    failures = []

    def send(seed):
        try:
            for i in range(20):
                values = [float(seed * 100 + i)] * (i + 1)
                for model in ("one_device", "two_devices", "cpu_between", "first", "several"):
                    assert ask(server, model, values)["OUTPUT0"] == values
        except AssertionError as failure:
            failures.append(failure)

    threads = [threading.Thread(target=send, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert used_bytes(server) == 0


def test_device_memory_is_exhausted(tmp_path):
    """A tensor that the device has no room for is in pinned memory."""
    models = {name: MODELS[name] for name in ("g0", "one_device")}
    with opens_gpu_server(tmp_path, models, "--cuda-memory-pool-byte-size=0:4096") as server:
        with Copies(server) as copies:
            answer = ask(server, "one_device", VALUES[:100], ("OUTPUT0", "WHERE1"))
        assert answer == {"OUTPUT0": VALUES[:100], "WHERE1": [GPU, 0]}
        assert copies.bytes == {"to_host": WHERE_BYTES}
    with opens_gpu_server(tmp_path / "full", models, "--cuda-memory-pool-byte-size=0:0",
                          ALLOC_LIMIT=1000) as server:
        answer = ask(server, "one_device", VALUES, ("OUTPUT0", "WHERE1"))
        assert answer == {"OUTPUT0": VALUES, "WHERE1": [PINNED, 0]}


def test_errors_in_the_middle(tmp_path):
    """The second step fails: its model adds two inputs of different lengths."""
    models = {"g0": MODELS["g0"], "add": model_text("add", gpus=[0]),
              "fails": "\n".join([
                  'platform: "ensemble"', 'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }',
                  'input { name: "OTHER" data_type: TYPE_FP32 dims: [ -1 ] }',
                  'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }', "ensemble_scheduling {",
                  step("g0", {"INPUT0": "INPUT0"}, {"OUTPUT0": "T"}),
                  step("add", {"INPUT0": "T", "INPUT1": "OTHER"}, {"OUTPUT0": "OUTPUT0"}), "}"])}
    with opens_gpu_server(tmp_path, models, *PLAIN) as server:
        for n_other, status in ((3, 400), (4, 200), (3, 400)):
            tensors = (("INPUT0", [1.0] * 4), ("OTHER", [2.0] * n_other))
            reply = requests.post(f"{server.url}/v2/models/fails/infer", timeout=SECONDS, json={
                "inputs": [{"name": name, "shape": [len(data)], "datatype": "FP32", "data": data}
                           for name, data in tensors]})
            assert reply.status_code == status, reply.text
            if status == 400:
                assert "in ensemble 'fails', " in reply.json()["error"]
            else:
                assert reply.json()["outputs"][0]["data"] == [3.0] * 4
            assert used_bytes(server) == 0


# ---- states of sequences ----

def sequence(server, model, values, number, start=False, end=False):
    return ask(server, model, values, sequence_id=number, sequence_start=start,
               sequence_end=end)["OUTPUT0"]


def test_state_on_device(server):
    """The state stays on the device between requests, and is freed with the sequence."""
    number = next(numbers)
    assert sequence(server, "sum", [1, 2, 3, 4], number, start=True) == [1, 2, 3, 4]
    with Copies(server) as copies:
        assert sequence(server, "sum", [1, 1, 1, 1], number) == [2, 3, 4, 5]
        assert sequence(server, "sum", [1, 1, 1, 1], number) == [3, 4, 5, 6]
        assert used_bytes(server) > 0
    assert copies.bytes == {}
    assert sequence(server, "sum", [0, 0, 0, 0], number, start=True) == [0, 0, 0, 0]  # begins anew
    assert sequence(server, "sum", [1, 1, 1, 1], number, end=True) == [1, 1, 1, 1]
    assert used_bytes(server) == 0


def test_state_follows_to_another_device(server):
    """Several sequences on the instances of two GPUs."""
    sums = {next(numbers): numpy.zeros(4) for _ in range(4)}
    for turn in range(8):
        for number, total in sums.items():
            more = numpy.array([number, turn, 1, 2], dtype=float)
            total += more
            assert sequence(server, "sum_1", more.tolist(), number, start=turn == 0,
                            end=turn == 7) == total.tolist()
    assert used_bytes(server) == 0


def test_state_that_grows(server):
    """use_growable_memory: 1 MiB in the end, which each request reads as a whole."""
    number, expected = next(numbers), []
    for turn in range(9):
        more = [float(turn * 1000 + i) for i in range(10 ** min(turn, 4) + turn)]
        expected += more
        assert sequence(server, "list", more, number, start=turn == 0, end=turn == 8) == expected
    assert used_bytes(server) == 0


def test_state_that_grows_too_far(tmp_path):
    """Beyond --cuda-virtual-address-size the request fails, and the state is as before."""
    with opens_gpu_server(tmp_path, {"list": MODELS["list"]},
                          "--cuda-virtual-address-size=0:2097152") as server:
        assert sequence(server, "list", VALUES, 1, start=True) == VALUES
        reply = requests.post(f"{server.url}/v2/models/list/infer", timeout=SECONDS, json={
            "inputs": [{"name": "INPUT0", "shape": [1 << 20], "datatype": "FP32", "data": [1.0] * (1 << 20)}],
            "parameters": {"sequence_id": 1}})
        assert reply.status_code != 200
        assert "state 'OUTPUT_STATE': " in reply.json()["error"]
        assert sequence(server, "list", [1.0], 1, end=True) == VALUES + [1.0]


def test_growable_without_gpu(tmp_path):
    """On CPU instances it is refused, also where there are GPUs."""
    models = {"g0": MODELS["g0"], "list": model_text("append", kind="KIND_CPU", more=GROWS)}
    with opens_gpu_server(tmp_path, models, "--exit-on-error=false", "--strict-readiness=false") as server:
        assert "'use_growable_memory' can only work with KIND_GPU model instances right now." in server.text()


# ---- requests that the server makes ----

CALLER = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            call = pb_utils.InferenceRequest(
                model_name="two_devices", requested_output_names=["OUTPUT0"],
                inputs=[pb_utils.Tensor("INPUT0", pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy())])
            answer = call.exec()
            if answer.has_error():
                raise pb_utils.TritonModelException(answer.error().message())
            tensor = pb_utils.get_output_tensor_by_name(answer, "OUTPUT0")
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", tensor.as_numpy() + 1)]))
        return responses
"""
CALLER_CONFIG = """backend: "python"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
instance_group { kind: KIND_CPU }"""


def test_call_of_a_python_model(tmp_path):
    """A model in Python gives and gets memory of the host, and calls models on GPUs."""
    models = {name: MODELS[name] for name in ("g0", "g1", "two_devices")}
    models["caller"] = {"config.pbtxt": CALLER_CONFIG, "1/model.py": CALLER}
    with opens_gpu_server(tmp_path, models, *PLAIN, *PYTHON) as server:
        for _ in range(3):
            assert ask(server, "caller", VALUES)["OUTPUT0"] == [value + 1 for value in VALUES]
        assert used_bytes(server) == 0


def warmup(kind):
    return (f'model_warmup {{ name: "sample" batch_size: 1 count: 3 inputs {{ key: "INPUT0" '
            f'value {{ data_type: TYPE_FP32 dims: [ 4 ] {kind}: true }} }} }} ')


def test_warmup(tmp_path):
    """Samples are memory of the host; states of a sample are where a sequence's would be."""
    models = {"g0": model_text(gpus=[0], more=warmup("zero_data")),
              "sum": model_text("state", gpus=[1], dims="[ 4 ]", more=ADD_UP + warmup("random_data")),
              "list": model_text("append", gpus=[0], more=GROWS + warmup("random_data"))}
    with opens_gpu_server(tmp_path, models, *PLAIN) as server:
        assert used_bytes(server) == 0
        assert ask(server, "g0", VALUES)["OUTPUT0"] == VALUES
        assert sequence(server, "sum", [1, 2, 3, 4], 1, start=True, end=True) == [1, 2, 3, 4]
        assert sequence(server, "list", [5.0], 2, start=True, end=True) == [5.0]


def test_cancelled_in_the_middle(tmp_path):
    """The client leaves while requests are in the second step: nothing is left on the devices."""
    models = {name: MODELS[name] for name in ("g0", "g1", "two_devices")}
    with opens_gpu_server(tmp_path, models, *PLAIN) as server:
        body = {"inputs": [{"name": "INPUT0", "shape": [N], "datatype": "FP32", "data": VALUES}]}
        for i in range(40):
            with contextlib.suppress(requests.exceptions.RequestException):
                requests.post(f"{server.url}/v2/models/two_devices/infer", json=body,
                              timeout=0.0005 * (1 + i % 8))
        assert ask(server, "two_devices", VALUES)["OUTPUT0"] == VALUES
        until_nothing_is_used(server)


# ---- memory of clients ----

def send_regions(server, model, source, targets):
    """`source` and the values of `targets`: offsets in the region "r"."""
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [N],
                        "parameters": place(("r", source, BYTES))}],
            "outputs": [{"name": name, "parameters": place(("r", offset, BYTES))}
                        for name, offset in targets.items()]}
    reply = requests.post(f"{server.url}/v2/models/{model}/infer", json=body, timeout=SECONDS)
    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize("device, directions", [(0, {"within_device": BYTES}),
                                                (1, {"between_devices": 2 * BYTES})])
def test_regions_of_a_client(tmp_path, device, directions):
    """A tensor in between is copied to the region, and no byte goes through the host. The input of another device
    is copied to that of the first step."""
    models = {name: MODELS[name] for name in ("g0", "in_between")}
    content = numpy.array(VALUES, dtype=numpy.float32).tobytes()
    with opens_gpu_server(tmp_path, models, *PLAIN, *CUDA) as server:
        with Region(Http(server), content + bytes(2 * BYTES), device=device) as region:
            with Copies(server) as copies:
                send_regions(server, "in_between", 0, {"T0": BYTES, "OUTPUT0": 2 * BYTES})
            assert copies.bytes == directions
            assert region.read(0, 3 * BYTES) == 3 * content
        assert used_bytes(server) == 0
