# SPDX-License-Identifier: BSD-3-Clause
"""Models in Python with tensors in the memory of GPUs. The server and the models' processes run on stand-ins of the
driver (tests/gpu), which end a process that uses memory wrongly: that frees what another one has open, or reads what
is not written yet."""
import json
import os
import pathlib
import time

import numpy
import pytest
import requests

import cuda_client
from cuda_client import Memory
from conftest import ON_GPU, require_build, write_repository
from gate import Gate, gated
from gpus import REAL, model_text, opens_gpu_server, require_gpus
from python_programs import OPTIONS as PYTHON
from python_programs import PROGRAM, SECONDS, stub_of
from python_programs import PYTHON as PYTHON_PATH
from test_cuda_shared_memory import OPTIONS as CUDA
from test_cuda_shared_memory import Http, Region, is_open
from test_gpu_pipelines import Copies, used_bytes
from test_gpu_tensors import PLACES, Client, tensor
from test_shared_memory import SLOW, Later, place

pytestmark = pytest.mark.skipif(ON_GPU, reason="the models are on GPUs anyway")

ARRAYS = (pathlib.Path(__file__).parent / "python_gpu_arrays.py").read_text()
N = 1000
VALUES = [float(i) for i in range(N)]
BYTES = 4 * N
PAGE = 4096

# The program of a request is run with `x`, its input; it sets `result`, and `y`, the output.
LAB = PROGRAM + '''
import gpu_arrays


class TritonPythonModel(TritonPythonModel):
    def execute(self, requests):
        return [self.run(request, requests) for request in requests]

    def run(self, request, requests):
        scope = self.scope(request, requests)
        scope.update(gpu_arrays=gpu_arrays, Array=gpu_arrays.Array, values=gpu_arrays.values,
                     x=pb_utils.get_input_tensor_by_name(request, "INPUT0"), result=None, y=None)
        try:
            exec(compile(code_of(request), "<program>", "exec"), scope)
            result, y = scope["result"], scope["y"]
        except Exception as error:
            result, y = {"raised": [type(error).__name__, str(error)]}, None
        sends = scope.get("sends")
        scope.clear()  # functions of the program refer to it
        tensors = [pb_utils.Tensor("RESULT", np.array([json.dumps(result).encode()], dtype=np.object_))]
        if y is not None and not isinstance(y, pb_utils.Tensor):
            y = pb_utils.Tensor.from_dlpack("OUTPUT0", y)
        response = pb_utils.InferenceResponse(tensors + ([y] if y is not None else []))
        if not sends:
            return response
        sender = request.get_response_sender()
        threading.Timer(0, lambda: sender.send(response, 1)).start()
        return None

    def finalize(self):
        self.kept.clear()
        gpu_arrays.end()
'''
# A step: doubles its input, with another allocation, whose work may still run when execute() returns.
DOUBLE = '''
import gpu_arrays
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "INPUT0")
            assert not x.is_cpu()
            y = gpu_arrays.Array([2 * value for value in gpu_arrays.values(x)], x.__dlpack_device__()[1])
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUTPUT0", y)]))
        return responses

    def finalize(self):
        gpu_arrays.end()
'''
IO = '''input { name: "CODE" data_type: TYPE_STRING dims: [ 1 ] }
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] optional: true }
output { name: "RESULT" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
'''
STAYS = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }\n'
IN_PLACE = 'parameters { key: "GPU_INPUTS_IN_PLACE" value { string_value: "yes" } }\n'
ON = "instance_group { kind: KIND_GPU gpus: [ %d ] }\n"
STEP_IO = '''input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
'''


def model(program, config, io=IO):
    return {"config.pbtxt": f'backend: "python"\n{io}{config}', "1/model.py": program, "1/gpu_arrays.py": ARRAYS}


def ensemble(*models):
    names = ["INPUT0", *(f"T{i}" for i in range(len(models) - 1)), "OUTPUT0"]
    steps = [f'step {{ model_name: "{name}" model_version: -1 '
             f'input_map {{ key: "INPUT0" value: "{names[i]}" }} '
             f'output_map {{ key: "OUTPUT0" value: "{names[i + 1]}" }} }}' for i, name in enumerate(models)]
    return "\n".join(['platform: "ensemble"', STEP_IO, "ensemble_scheduling {", *steps, "}"])


MODELS = {
    "lab": model(LAB, STAYS + ON % 0),
    "lab_1": model(LAB, STAYS + ON % 1),
    "leaves": model(LAB, STAYS + ON % 0),
    "worn": model(LAB, STAYS + ON % 0),
    "dies": model(LAB, STAYS + ON % 0),
    "lab_cpu": model(LAB, STAYS + "instance_group { kind: KIND_CPU }\n"),
    "in_place": model(LAB, STAYS + IN_PLACE + ON % 0),
    "on_host": model(LAB, ON % 0),
    "double": model(DOUBLE, STAYS + ON % 0, STEP_IO),
    "in_place_dies": model(LAB, STAYS + IN_PLACE + ON % 0),
    "slow": gated(SLOW),
    "g0": model_text(gpus=[0]),
    "add": model_text("add", gpus=[0]),
    "around": ensemble("g0", "double", "g0"),
    "twice": ensemble("double", "double"),
}
OPTIONS = (*PYTHON, *CUDA, "--model-control-mode=explicit", "--load-model=*",
           "--cuda-memory-pool-byte-size=0:1048576", "--cuda-memory-pool-byte-size=1:1048576")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    require_build(("testing",))
    with opens_gpu_server(tmp_path_factory.mktemp("gpu_python"), MODELS, *OPTIONS) as running:
        yield running


def tensor_at(region, offset=0, n=N, name="INPUT0"):
    return {"name": name, "datatype": "FP32", "shape": [n], "parameters": place((region, offset, 4 * n))}


session = requests.Session()


def post(server, name, inputs, outputs):
    reply = session.post(f"{server.url}/v2/models/{name}/infer", json={"inputs": inputs, "outputs": outputs},
                          timeout=SECONDS)
    return reply.status_code, reply.json()


def ask(server, code, source=None, target=None, name="lab"):
    """(what the program's `result` is, the data of OUTPUT0 or None). `source`: the input. `target`: where the
    output goes, (region, offset, bytes)."""
    inputs = [{"name": "CODE", "datatype": "BYTES", "shape": [1], "data": [code]}]
    outputs = [{"name": "RESULT"}, {"name": "OUTPUT0", **({"parameters": place(target)} if target else {})}]
    status, answer = post(server, name, inputs + ([source] if source else []), outputs)
    assert status == 200, answer
    found = {output["name"]: output.get("data") for output in answer["outputs"]}
    return json.loads(found["RESULT"][0]), found.get("OUTPUT0")


def raw(values):
    return numpy.array(values, dtype=numpy.float32).tobytes()


def plain(values, name="INPUT0"):
    return {"name": name, "datatype": "FP32", "shape": [len(values)], "data": values}


def mapped(server, name):
    """The files of devices' memory that the model's process has mapped: what it has open, and its own."""
    return [] if REAL else cuda_client.mapped_files(stub_of(server, f"{name}_0_0"))


def has_open(server, name="lab"):
    """Whether the model's process has memory of this process or of the server open."""
    theirs = cuda_client.files_of(os.getpid()) | cuda_client.files_of(server.process.pid)
    return bool(theirs.intersection(mapped(server, name)))


class Given(Region):
    """A region that is freed when the server has closed it, and the process of a model with inputs in place."""

    def __init__(self, server, content, **more):
        super().__init__(Http(server), content, **more)
        self.server = server

    def __exit__(self, *what):
        self.api.unregister_cuda(self.name)
        until(lambda: not is_open(self.server))
        until(lambda: not has_open(self.server, "in_place"))
        Memory.__exit__(self, *what)


@pytest.fixture
def region(server):
    """VALUES on GPU 0, and room behind them."""
    with Given(server, raw(VALUES) + bytes(BYTES)) as region:
        yield region
    until(lambda: used_bytes(server) == 0)


def until(holds):
    """Processes tell the server what they have let go of; each look is a request to it."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline


# ---- inputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, copied", [("lab", {"within_device": BYTES}), ("in_place", {})])
def test_input_where_it_lies(server, region, name, copied):
    """With a copy on its GPU, which the model may keep or change, or without."""
    with Copies(server) as copies:
        assert ask(server, "result = [x.is_cpu(), x.shape(), x.triton_dtype(), x.__dlpack_device__(), values(x)]",
                   tensor_at("r"), name=name) == ([False, [N], 11, [2, 0], VALUES], None)
    assert copies.bytes == copied


def test_input_part_of_a_region(server, region):
    assert ask(server, "result = values(x.to_dlpack())", tensor_at("r", 16, 5))[0] == VALUES[4:9]
    assert ask(server, "result = values(x.__dlpack__(stream=7))", tensor_at("r", 4, 2))[0] == VALUES[1:3]


def test_as_numpy(server, region):
    assert ask(server, "x.as_numpy()", tensor_at("r"))[0] == {
        "raised": ["TritonModelException", "Tensor is stored in GPU and cannot be converted to NumPy."]}


def test_input_in_main_memory(server):
    """As it lies: it came with the request."""
    assert ask(server, "result = [x.is_cpu(), x.as_numpy().tolist(), x.__dlpack_device__()]", plain([1.0, 2.0]))[0] \
        == [True, [1.0, 2.0], [1, 0]]


def test_input_on_the_host_unless_it_may_stay(server, region):
    with Copies(server) as copies:
        assert ask(server, "result = [x.is_cpu(), x.as_numpy().tolist()]", tensor_at("r"), name="on_host")[0] \
            == [True, VALUES]
    assert copies.bytes == {"to_host": BYTES}


def test_other_devices(server):
    """An input of a GPU that is not the instance's, and an instance on the CPU."""
    with Given(server, raw(VALUES), device=1):
        for name, args in (("lab", ["GPU", "0"]), ("lab_1", ["GPU", "1"]), ("lab_cpu", ["CPU", "0"])):
            assert ask(server, "result = [x.__dlpack_device__(), values(x), self.args['model_instance_kind'], "
                       "self.args['model_instance_device_id']]", tensor_at("r"), name=name)[0] \
                == [[2, 1], VALUES, *args]


@pytest.mark.skipif(REAL, reason="looks for the files of the stand-in")
def test_opened_when_it_is_touched(server, region):
    """A process whose model does not look at the bytes opens nothing."""
    assert ask(server, "result = [x.is_cpu(), x.shape()]", tensor_at("r"), name="lab_1")[0] == [False, [N]]
    assert not has_open(server, "lab_1")
    code = "before = len([line for line in open('/proc/self/maps') if 'fake gpu' in line]); values(x); " \
           "result = len([line for line in open('/proc/self/maps') if 'fake gpu' in line]) - before"
    assert ask(server, code, tensor_at("r"))[0] > 0
    until(lambda: not has_open(server))


def test_input_that_is_kept(server):
    """The client gets its answer and its memory back; the model's tensor stays what it was."""
    with Given(server, raw(VALUES)) as region:
        ask(server, "self.kept['x'] = gpu_arrays.view(x)", tensor_at("r"))
        region.write(bytes(BYTES))
    assert used_bytes(server) >= BYTES
    with Given(server, raw([5.0] * N)):
        ask(server, "values(x)", tensor_at("r"))
    assert ask(server, "result = self.kept['x'].read()")[0] == VALUES
    ask(server, "self.kept.clear()")
    until(lambda: used_bytes(server) == 0)


def test_unload_with_a_kept_input(server):
    """A kept tensor holds up nothing."""
    with Given(server, raw(VALUES)):
        ask(server, "self.kept['x'] = x; values(x)", tensor_at("r"), name="leaves")
    assert used_bytes(server) >= BYTES
    assert session.post(f"{server.url}/v2/repository/models/leaves/unload", timeout=SECONDS).status_code == 200
    until(lambda: used_bytes(server) == 0)
    assert session.post(f"{server.url}/v2/repository/models/leaves/load", timeout=SECONDS).status_code == 200


# ---- outputs ------------------------------------------------------------------------------------


def test_output(server):
    with Copies(server) as copies:
        assert ask(server, "y = Array([1.0, 2.5])") == (None, [1.0, 2.5])
    assert copies.bytes == {"to_host": 8}
    assert ask(server, "y = Array([1.0, 2.0, 3.0]).__dlpack__(first=1)")[1] == [2.0, 3.0]
    assert ask(server, "y = Array([1.0], device=1)", name="lab_1")[1] == [1.0]
    assert ask(server, "y = Array([1.0], device=1)")[1] == [1.0]
    until(lambda: ask(server, "result = gpu_arrays.n_alive")[0] == 0)


def test_output_in_a_region(server, region):
    with Copies(server) as copies:
        ask(server, f"y = Array([2.0] * {N})", target=("r", BYTES, BYTES))
    assert copies.bytes == {"within_device": BYTES}
    assert region.read(BYTES, BYTES) == raw([2.0] * N)
    with Copies(server) as copies:
        ask(server, f"y = Array([3.0] * {N}, device=1)", target=("r", BYTES, BYTES))
    assert copies.bytes == {"between_devices": BYTES}
    assert region.read(BYTES, BYTES) == raw([3.0] * N)
    ask(server, f"y = pb_utils.Tensor('OUTPUT0', np.full({N}, 4, np.float32))", target=("r", BYTES, BYTES))
    assert region.read(BYTES, BYTES) == raw([4.0] * N)


def test_output_in_a_region_of_a_model_on_the_host(server, region):
    ask(server, f"y = Array([2.0] * {N})", target=("r", BYTES, BYTES), name="on_host")
    assert region.read(BYTES, BYTES) == raw([2.0] * N)


def test_input_as_output(server, region):
    """The tensor itself, a view of it, and a part."""
    for code, expected in (("y = pb_utils.Tensor.from_dlpack('OUTPUT0', x)", VALUES),
                           ("y = gpu_arrays.view(x)", VALUES),
                           ("y = gpu_arrays.view(x).__dlpack__(first=10, n=5)", VALUES[10:15])):
        with Copies(server) as copies:
            assert ask(server, code, tensor_at("r"), name="in_place")[1] == expected, code
        assert copies.bytes == {"to_host": 4 * len(expected)}
        assert ask(server, code, tensor_at("r"))[1] == expected, code
    with Copies(server) as copies:
        ask(server, "y = gpu_arrays.view(x)", tensor_at("r"), target=("r", BYTES, BYTES), name="in_place")
    assert copies.bytes == {"within_device": BYTES}
    assert region.read(BYTES, BYTES) == raw(VALUES)


def test_empty_tensors(server, region):
    assert ask(server, "result = [x.shape(), x.is_cpu()]", tensor_at("r", 0, 0))[0] == [[0], True]
    assert ask(server, "y = Array([1.0]).__dlpack__(n=0)")[1] == []


def test_tensor_without_an_address(server):
    """A framework gives none to a tensor without elements."""
    code = "shape = (gpu_arrays.ctypes.c_int64 * 1)(0); t = pb_utils.Tensor.from_dlpack('OUTPUT0', gpu_arrays.export(" \
        "gpu_arrays.Tensor(None, 2, 0, 1, 2, 32, 1, shape, None, 0), shape)); v = gpu_arrays.view(t); " \
        "result = [t.is_cpu(), t.shape(), v.managed.tensor.data, v.managed.tensor.device]; y = t"
    assert ask(server, code) == ([False, [0], None, 2], [])


@pytest.mark.parametrize("code, text", [
    ("y = Array([1.0, 2.0], strides=2)", "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are "
     "stored in C-Order are supported."),
    ("y = Array([1.0]).__dlpack__(kind=8)", "DLDevice type 8 is not support by Python backend."),
])
def test_refused_outputs(server, code, text):
    code += "; y = pb_utils.Tensor.from_dlpack('OUTPUT0', y)"
    assert ask(server, code)[0] == {"raised": ["TritonModelException", text]}


def test_tensor_of_an_output(server):
    code = "t = pb_utils.Tensor.from_dlpack('OUTPUT0', Array([1.0, 2.0])); " \
           "result = [t.is_cpu(), t.__dlpack_device__(), values(t), values(t.to_dlpack())]; y = t"
    assert ask(server, code) == ([False, [2, 0], [1.0, 2.0], [1.0, 2.0]], [1.0, 2.0])


# ---- ensembles ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name, factor", [("around", 2), ("twice", 4)])
def test_ensemble(server, name, factor):
    expected = [factor * value for value in VALUES]
    with Given(server, raw(VALUES) + bytes(BYTES)) as region:
        with Copies(server) as copies:
            status, answer = post(server, name, [tensor_at("r")],
                                  [{"name": "OUTPUT0", "parameters": place(("r", BYTES, BYTES))}])
        assert status == 200, answer
        assert set(copies.bytes) == {"within_device"}
        assert region.read(BYTES, BYTES) == raw(expected)
    until(lambda: used_bytes(server) == 0)


# ---- calls of other models ----------------------------------------------------------------------

# Calls the model that adds, with tensors a and b, and gives what came back.
CALL = '''
def call(a, b, model="add", **more):
    made = pb_utils.InferenceRequest(model_name=model, requested_output_names=["OUTPUT0", "WHERE"], inputs=[
        pb_utils.Tensor.from_dlpack("INPUT0", a), pb_utils.Tensor.from_dlpack("INPUT1", b)], **more)
    answer = made.exec()
    if answer.has_error():
        raise Exception(answer.error().message())
    return [pb_utils.get_output_tensor_by_name(answer, name) for name in ("OUTPUT0", "WHERE")]
'''


def test_call(server, region):
    """Its own memory and an input, which the called model reads where they lie."""
    code = CALL + f"out, where = call(Array([2.0] * {N}), gpu_arrays.view(x)); " \
        "result = [out.is_cpu(), out.as_numpy().tolist(), where.as_numpy().tolist()]"
    expected = [True, [2 + value for value in VALUES], [[2, 0], [2, 0]]]
    for name, copied in (("lab", 2), ("in_place", 1)):
        with Copies(server) as copies:
            assert ask(server, code, tensor_at("r"), name=name)[0] == expected
        assert copies.bytes.get("within_device", 0) == (copied - 1) * BYTES
    until(lambda: ask(server, "result = gpu_arrays.n_alive")[0] == 0)


ON_GPU_0 = "preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0)"


def test_preferred_memory(server, region):
    code = CALL + f"out, where = call(Array([2.0] * {N}), Array([3.0] * {N}), {ON_GPU_0}); " \
        "result = [out.is_cpu(), out.__dlpack_device__(), values(out)[-1]]; y = gpu_arrays.view(out)"
    with Copies(server) as copies:
        assert ask(server, code, target=("r", BYTES, BYTES))[0] == [False, [2, 0], 5.0]
    assert copies.bytes == {"within_device": BYTES}  # the answer; the model that adds wrote where it was wanted
    assert region.read(BYTES, BYTES) == raw([5.0] * N)


@pytest.mark.parametrize("memory", ["TRITONSERVER_MEMORY_CPU, 0", "TRITONSERVER_MEMORY_GPU, 5"])
def test_preferred_memory_of_the_host(server, memory):
    """Also when there is no such GPU."""
    code = CALL + f"out, where = call(Array([2.0]), Array([3.0]), " \
        f"preferred_memory=pb_utils.PreferredMemory(pb_utils.{memory})); result = [out.is_cpu(), out.as_numpy().tolist()]"
    assert ask(server, code)[0] == [True, [5.0]]


STRINGS = """
made = pb_utils.InferenceRequest(model_name="on_host", requested_output_names=["OUTPUT0", "RESULT"], inputs=[
    pb_utils.Tensor("CODE", np.array([b"y = pb_utils.Tensor('OUTPUT0', np.ones(3, np.float32)); result = 7"],
                                     dtype=np.object_))], %s)
answer = made.exec()
out, text = [pb_utils.get_output_tensor_by_name(answer, name) for name in ("OUTPUT0", "RESULT")]
result = [out.is_cpu(), values(out), text.is_cpu(), text.as_numpy()[0].decode()]
""" % ON_GPU_0


def test_preferred_memory_of_a_model_on_the_host(server):
    """Its output is copied to the GPU, unless it is a tensor of strings."""
    assert ask(server, STRINGS)[0] == [False, [1.0, 1.0, 1.0], True, "7"]
    until(lambda: used_bytes(server) == 0)


def test_output_of_a_call_that_is_kept(server, region):
    ask(server, CALL + f"self.kept['out'] = call(Array([2.0]), Array([3.0]), {ON_GPU_0})[0]")
    assert used_bytes(server) > 0
    assert ask(server, "result = values(self.kept.pop('out'))")[0] == [5.0]


# ---- many requests, and processes that end -------------------------------------------------------


def growth(server, name):
    pid = stub_of(server, f"{name}_0_0")
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    resident = int(next(row.split()[1] for row in status.splitlines() if row.startswith("VmRSS")))
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())), len(mapped(server, name)), resident


def test_thousand_requests(server, region):
    """Both ways at once; nothing grows on the device, in the server or in the process."""
    code = "y = Array([2 * value for value in values(x)[:10]])"

    def run(n):
        for _ in range(n):
            assert ask(server, code, tensor_at("r"), name="worn")[1] == [2 * value for value in VALUES[:10]]
        until(lambda: used_bytes(server) == 0)

    run(100)
    files, opened, resident = growth(server, "worn")
    run(1000)
    after = growth(server, "worn")
    assert after[:2] == (files, opened)
    assert after[2] < resident + 2048, (resident, after[2])  # KiB


@pytest.mark.parametrize("code", [
    "values(x); os.kill(os.getpid(), 9)",                        # while it has the input open
    "self.kept['y'] = Array([1.0]); os.kill(os.getpid(), 9)",    # and memory of its own
    "os._exit(1)",
])
def test_process_that_ends(server, region, code):
    status, answer = post(server, "dies", [{"name": "CODE", "datatype": "BYTES", "shape": [1], "data": [code]},
                                           tensor_at("r")], [{"name": "RESULT"}])
    assert (status, answer["error"]) == (500, "Stub process 'dies_0_0' is not healthy.")
    until(lambda: used_bytes(server) == 0)
    assert ask(server, "result = values(x)", tensor_at("r"), name="dies")[0] == VALUES


def test_process_that_ends_with_a_kept_input(server, region):
    ask(server, "self.kept['x'] = gpu_arrays.view(x)", tensor_at("r"), name="dies")
    assert used_bytes(server) >= BYTES
    post(server, "dies", [{"name": "CODE", "datatype": "BYTES", "shape": [1], "data": ["os._exit(1)"]}],
         [{"name": "RESULT"}])
    until(lambda: used_bytes(server) == 0)


# ---- answers that come later ----------------------------------------------------------------------


def test_sender(server, region):
    """Of a response that is sent after execute() has returned."""
    code = "sends = True; y = Array([2 * value for value in values(x)])"
    for name in ("lab", "in_place"):
        assert ask(server, code, tensor_at("r"), name=name)[1] == [2 * value for value in VALUES]
    until(lambda: ask(server, "result = [gpu_arrays.n_alive, len(gpu_arrays.exported)]")[0] == [0, 0])


# ---- the C API ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A program with the server in it, which has memory on GPUs of its own."""
    require_gpus()
    folder = tmp_path_factory.mktemp("models")
    write_repository(folder, {"double": MODELS["double"], "in_place": model(DOUBLE, STAYS + IN_PLACE, STEP_IO)})
    client = Client(folder)
    client.environment["PATH"] = f"{pathlib.Path(PYTHON_PATH).parent}:{client.environment['PATH']}"
    return client


@pytest.mark.parametrize("name", ["double", "in_place"])
def test_inputs_in_pieces(client, name):
    """The pieces become one tensor, on the GPU of the first of them that lies on one."""
    given = [1.0, -2.0, 3.0, 4.0, -5.0, 6.0]
    cases = [(place, wanted) for place in ("0", "1", "0/cpu/1", "cpu/1", "1/1") for wanted in PLACES]
    answers = client.run(*(f"{name} {wanted} {tensor(place, raw(given), type_of='FP32', shape=(6,))}"
                           for place, wanted in cases))
    for (place, wanted), answer in zip(cases, answers):
        assert answer == {"OUTPUT0": (PLACES[wanted], raw([2 * value for value in given]))}, (place, wanted)


def test_many_at_once(client):
    [answer, statistics] = client.run(f"double*32 1 {tensor('0/1', raw([1.0, 2.0]), type_of='FP32', shape=(2,))}",
                                      "statistics double")
    assert answer == {"OUTPUT0": (PLACES["1"], raw([2.0, 4.0]))}
    assert statistics["inference_stats"]["success"]["count"] == 32


def test_process_that_ends_while_a_call_reads_its_input(server):
    """The called model goes on; the input in place stays until it has ended."""
    code = "made = pb_utils.InferenceRequest(model_name='slow', requested_output_names=['OUTPUT0'], inputs=[" \
        "pb_utils.Tensor.from_dlpack('INPUT0', gpu_arrays.view(x))]); made.exec()"
    inputs = [{"name": "CODE", "datatype": "BYTES", "shape": [1], "data": [code]}, tensor_at("r")]
    with Given(server, raw(VALUES)) as region, Gate(server, "slow") as gate:
        answer = Later(requests.post, f"{server.url}/v2/models/in_place_dies/infer",
                       json.dumps({"inputs": inputs, "outputs": [{"name": "RESULT"}]}))
        gate.wait()
        stub = stub_of(server, "in_place_dies_0_0")
        os.kill(stub, 9)
        until(lambda: stub_of(server, "in_place_dies_0_0") not in (stub, None))
        region.api.unregister_cuda("r")
        assert REAL or is_open(server)
        gate.open()
        reply = answer.result()
        assert (reply.status_code, reply.json()["error"]) == (
            500, "Stub process 'in_place_dies_0_0' is not healthy.")
    until(lambda: used_bytes(server) == 0)


def test_process_that_ends_while_a_request_is_written(tmp_path):
    """The copy of a large input takes a while; the next process gets the request."""
    n, pool = 50 << 20, f"--cuda-memory-pool-byte-size=0:{256 << 20}"
    with opens_gpu_server(tmp_path, {"lab": MODELS["lab"]}, *PYTHON, *CUDA, "--model-control-mode=explicit",
                          "--load-model=*", pool) as server:
        with Region(Http(server), bytes(4 * n)):
            stub = stub_of(server, "lab_0_0")
            inputs = [{"name": "CODE", "datatype": "BYTES", "shape": [1], "data": ["result = x.shape()"]}]
            answer = Later(requests.post, f"{server.url}/v2/models/lab/infer", json.dumps(
                {"inputs": inputs + [tensor_at("r", 0, n)], "outputs": [{"name": "RESULT"}]}))
            until(lambda: used_bytes(server) > 0)
            os.kill(stub, 9)
            reply = answer.result()
            # The kill may come when the process has just begun with the request.
            assert reply.status_code == 200 or reply.json()["error"] == "Stub process 'lab_0_0' is not healthy."
            assert ask(server, "result = x.shape()", tensor_at("r", 0, n))[0] == [n]
            assert stub_of(server, "lab_0_0") != stub
        until(lambda: used_bytes(server) == 0)


def test_process_that_ends_while_a_call_makes_an_output(server):
    """Memory that the process wanted for it on a GPU is freed when the called model answers."""
    code = "made = pb_utils.InferenceRequest(model_name='slow', requested_output_names=['OUTPUT0'], inputs=[" \
        f"pb_utils.Tensor('INPUT0', np.ones({N}, np.float32))], {ON_GPU_0}); made.exec()"
    with Gate(server, "slow") as gate:
        answer = Later(requests.post, f"{server.url}/v2/models/dies/infer", json.dumps(
            {"inputs": [{"name": "CODE", "datatype": "BYTES", "shape": [1], "data": [code]}],
             "outputs": [{"name": "RESULT"}]}))
        gate.wait()
        stub = stub_of(server, "dies_0_0")
        os.kill(stub, 9)
        until(lambda: stub_of(server, "dies_0_0") not in (stub, None))
        gate.open()
        assert answer.result().status_code == 500
    until(lambda: used_bytes(server) == 0)


# ---- what the driver refuses --------------------------------------------------------------------

FEW = {name: MODELS[name] for name in ("double", "g0", "around", "lab")}


def refused(folder, failure, ask_for):
    """The answer of a server on a driver of which a function fails."""
    with opens_gpu_server(folder, FEW, *PYTHON, FAIL=failure) as server:
        return ask_for(server)


def run_around(server):
    return post(server, "around", [plain([1.0, 2.0])], [{"name": "OUTPUT0"}])


def test_input_without_a_handle(tmp_path):
    status, answer = refused(tmp_path, "cuIpcGetMemHandle:1+:801", run_around)
    assert status == 503
    assert "input 'INPUT0' cannot be shared with the Python process: GPU 0: unable to share memory: " \
        "CUDA_ERROR_NOT_SUPPORTED" in answer["error"]


def test_input_that_cannot_be_opened(tmp_path):
    status, answer = refused(tmp_path, "cuIpcOpenMemHandle_v2:1+:801", run_around)
    assert status == 500
    assert "TritonModelException: GPU 0: unable to open memory of the server: CUDA_ERROR_NOT_SUPPORTED" \
        in answer["error"]


def test_output_without_a_handle(tmp_path):
    """It goes through main memory: the allocator of a framework may map memory piece by piece."""
    assert refused(tmp_path, "cuIpcGetMemHandle:1+:1",
                   lambda server: ask(server, "y = Array([1.0, 2.0])")) == (None, [1.0, 2.0])


def test_output_that_cannot_be_opened(tmp_path):
    def run(server):
        inputs = [{"name": "CODE", "datatype": "BYTES", "shape": [1], "data": ["y = Array([1.0, 2.0])"]}]
        return post(server, "lab", inputs, [{"name": "OUTPUT0"}])

    status, answer = refused(tmp_path, "cuIpcOpenMemHandle_v2:1+:801", run)
    assert "tensor 'OUTPUT0' on GPU 0 cannot be read from the Python process: CUDA_ERROR_NOT_SUPPORTED" \
        in answer["error"]
    assert status == 500  # the model's memory, not the client's


@pytest.mark.parametrize("key, value, text", [
    ("FORCE_CPU_ONLY_INPUT_TENSORS", "maybe", "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: maybe'"),
    ("GPU_INPUTS_IN_PLACE", "maybe", "model 'wrong': GPU_INPUTS_IN_PLACE is 'maybe', it must be yes or no"),
])
def test_wrong_parameters(tmp_path, key, value, text):
    wrong = model(DOUBLE, f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n', STEP_IO)
    with opens_gpu_server(tmp_path, {"wrong": wrong}, *PYTHON, "--exit-on-error=false") as server:
        reply = session.post(f"{server.url}/v2/repository/index", timeout=SECONDS)
        assert text in reply.json()[0]["reason"]
