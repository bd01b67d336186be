# SPDX-License-Identifier: BSD-3-Clause
"""What a model in Python sees of the server: triton_python_backend_utils and its texts.

Numbers in brackets are those of the list of acceptance checks in docs/python_models.md.
"""
import json
import struct

import numpy as np
import pytest
import requests

from conftest import Server, write_repository  # noqa: F401
from grpc_stubs import Client, client, stubs  # noqa: F401
from python_programs import ASYNC_RUNNER, IO, RUNNER, OPTIONS, RAW, infer, run_program, model, post, raised

BACKENDS = ("python",)

IDENTITY = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([
            pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(r, "X").as_numpy())])
            for r in requests]
"""
TYPES = {"BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q", "INT8": "b",
         "INT16": "h", "INT32": "i", "INT64": "q", "FP16": "e", "FP32": "f", "FP64": "d"}
DLPACK = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        out = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "X")
            out.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("Y", x.to_dlpack())]))
        return out
"""


DEEP = 40  # dimensions: more than an array of NumPy 1.x may have


def identity(kind, program=IDENTITY, rank=3):
    kind = {"BYTES": "STRING"}.get(kind, kind)
    dims = ", ".join(["-1"] * rank)
    return model(program, io=f'input {{ name: "X" data_type: TYPE_{kind} dims: [ {dims} ] }}\n'
                             f'output {{ name: "Y" data_type: TYPE_{kind} dims: [ {dims} ] }}\n')


CHOOSES = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array(
            [",".join(t.name() for t in r.inputs()).encode()], dtype=object))]) for r in requests]
"""
MODELS = {
    "chooses": model(CHOOSES, io="".join(
        f'input {{ name: "{name}" data_type: TYPE_FP32 dims: 1 {more} }}\n'
        for name, more in (("A", ""), ("B", "optional: true"), ("C", ""))
        ) + 'output { name: "Y" data_type: TYPE_STRING dims: 1 }\n'),
    "lab": model(RUNNER, 'parameters { key: "color" value { string_value: "red" } }\n'),
    "raw": model(RAW), "async_lab": model(ASYNC_RUNNER),
    **{f"id_{kind}": identity(kind) for kind in [*TYPES, "BYTES"]},
    "dl_BF16": identity("BF16", DLPACK),
    "deep": identity("FP32", rank=DEEP), "dl_deep": identity("FP32", DLPACK, rank=DEEP),
}


def test_inputs_are_counted(server):
    """A program decides which inputs it needs; their number is that of the configuration."""
    def ask(*names):
        return infer(server, "chooses", [{"name": name, "datatype": "FP32", "shape": [1], "data": [1]}
                                         for name in names])

    for names in (("A", "C"), ("A", "B"), ("B", "C"), ("A", "B", "C")):
        assert ask(*names)[1]["outputs"][0]["data"] == [",".join(names)]
    assert ask("A")[1]["error"].endswith(
        "expected number of inputs between 2 and 3 but got 1 inputs for model 'chooses'. Got "
        "input(s) ['A'], but missing required input(s) ['C']. Please provide all required input(s).")


# ---- names and arguments --------------------------------------------------------------------------

PUBLIC = {
    "Tensor": "as_numpy from_dlpack is_cpu name shape to_dlpack triton_dtype",
    "InferenceRequest": "async_exec correlation_id exec flags get_response_sender inputs is_cancelled "
                        "parameters preferred_memory request_id requested_output_names set_flags "
                        "set_release_flags timeout trace",
    "InferenceResponse": "error has_error output_tensors parameters",
    "TritonError": "ALREADY_EXISTS CANCELLED INTERNAL INVALID_ARG NOT_FOUND UNAVAILABLE UNKNOWN "
                   "UNSUPPORTED code message",
    "Logger": "ERROR INFO LogLevel VERBOSE WARNING log log_error log_info log_verbose log_warn",
    "MetricFamily": "COUNTER GAUGE HISTOGRAM Metric MetricKind",
    "ModelConfig": "add_input add_output as_dict set_dynamic_batching set_max_batch_size "
                   "set_model_transaction_policy",
    "PreferredMemory": "",
    "c:InferenceResponseSender": "is_cancelled send",
    "c:ResponseIterator": "cancel",
    "c:Metric": "increment observe set value",
    "c:InferenceTrace": "get_context",
}
FUNCTIONS = """TritonModelException load_model unload_model is_model_ready get_input_tensor_by_name
    get_output_tensor_by_name get_input_config_by_name get_output_config_by_name
    using_decoupled_model_transaction_policy triton_string_to_numpy triton_to_numpy_type
    numpy_to_triton_type serialize_byte_tensor deserialize_bytes_tensor get_model_dir
    TRITON_STRING_TO_NUMPY TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
    TRITONSERVER_REQUEST_FLAG_SEQUENCE_END TRITONSERVER_RESPONSE_COMPLETE_FINAL
    TRITONSERVER_REQUEST_RELEASE_ALL TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
    TRITONSERVER_MEMORY_CPU TRITONSERVER_MEMORY_GPU""".split()


@pytest.mark.parametrize("name", PUBLIC)
def test_names_of_a_class(server, name):
    """(11)"""
    module, _, plain = name.rpartition(":")
    where = "c_utils" if module else "pb_utils"
    names = run_program(server, f"result = [n for n in dir({where}.{plain}) if not n.startswith('_')]")
    assert names == PUBLIC[name].split()


def test_functions_and_constants(server):
    """(11)"""
    assert run_program(server, f"result = [n for n in {FUNCTIONS} if not hasattr(pb_utils, n)]") == []
    assert run_program(server, "result = [pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START,"
                               " pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END,"
                               " pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL,"
                               " pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL,"
                               " pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE]") == [1, 2, 1, 1, 2]


REQUEST = "pb_utils.InferenceRequest(inputs=%s, requested_output_names=%s, model_name='m'%s)"
REFUSED = {
    "pb_utils.Tensor('', np.zeros(1))": "Tensor name cannot be an empty string.",
    "pb_utils.Tensor('x\\0y', np.zeros(1))": "Tensor name 'x\\x00y' cannot contain a NUL character.",
    "pb_utils.Tensor.from_dlpack(b'x\\0', np.zeros(1))":
        "Tensor name 'x\\x00' cannot contain a NUL character.",
    "pb_utils.Tensor('x', np.zeros(1, 'U3'))": "NumPy dtype is not supported.",
    "pb_utils.Tensor('x', np.zeros(1, 'c8'))": "NumPy dtype is not supported.",
    "pb_utils.Tensor('x', np.zeros(1, 'M8[s]'))": "NumPy dtype is not supported.",
    "pb_utils.Tensor('x', np.zeros(1, '>f4'))": "NumPy dtype is not supported.",
    "pb_utils.Tensor.from_dlpack('', 1)": "Tensor name cannot be an empty string.",
    "pb_utils.Tensor.from_dlpack('x', 1)":
        "Provided tensor is not supported. Tensor must be a DLPack capsule         or have "
        "`__dlpack__` and `__dlpack_device__` attributes",
    "pb_utils.Tensor.from_dlpack('x', np.zeros((2, 3)).T)":
        "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order "
        "are supported.",
    "pb_utils.Tensor('x', np.array([b'a'], dtype=object)).to_dlpack()":
        "DLPack does not have support for string tensors.",
    REQUEST % ("[None]", "[]", ""):
        "Input tensor for request with id '' and model name 'm' should not be empty.",
    REQUEST % ("[]", "['']", ", request_id='7'"):
        "Requested output name for request with id '7' and model name 'm' should not be empty.",
    REQUEST % ("[]", "[]", ", correlation_id=-1"): "Correlation ID must be integer or string",
    REQUEST % ("[]", "[]", ", correlation_id=1.5"): "Correlation ID must be integer or string",
    REQUEST % ("[]", "[]", ", parameters=[]"): "Expect <anything>, got <class 'list'>",
    REQUEST % ("[]", "[]", ", parameters={1: 2}"):
        "Expect parameters keys to have type str, found type <class 'int'>",
    REQUEST % ("[]", "[]", ", parameters={'a': 1.5}"):
        "Expect parameters values to have type bool/int/str, found type <class 'float'>",
    "pb_utils.InferenceResponse([None])":
        "Output tensor for inference response should not be empty.",
    "pb_utils.InferenceResponse([], parameters=[])": "Expect <anything>, got <class 'list'>",
    "pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name='m')"
    ".get_response_sender().send(flags=1)":
        "Unable to send response. Response sender has no reference to the decoupled state of the "
        "model.",
    "request.get_response_sender().send(flags=2)":
        "Unable to send response. Unsupported flag provided.",
    "request.get_response_sender().send()":
        "Inference Response object must be provided when the response flags is set to zero.",
    "request.get_response_sender().send(flags=1)":
        "Unable to send response. Non-decoupled model cannot send complete final before sending a "
        "response.",
    "pb_utils.load_model('m', files=[])":
        "failed to load model 'm', files should be a dictionary of file paths and file contents",
    "pb_utils.is_model_ready('m', 'one')":
        "Failed to check model readiness: failed to get model version from specified version string "
        "'one', version should be an integral value > 0",
    "pb_utils.load_model('lab')":
        "Failed to load model: explicit model load / unload is not allowed if polling is enabled",
    "pb_utils.unload_model('lab')":
        "Failed to unload model: explicit model load / unload is not allowed if polling is enabled",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_refusals(server, expression):
    """(12, 13, 25) What is wrong of itself raises TritonModelException with these words."""
    assert raised(server, expression) == ["TritonModelException", REFUSED[expression]]


@pytest.mark.parametrize("expression", [
    "pb_utils.Tensor('x', [1, 2])", "pb_utils.Tensor('x', np.float32(1))", "pb_utils.Tensor('x')",
    "pb_utils.Tensor(None, np.zeros(1))", "pb_utils.Tensor(7, np.zeros(1))",
    "pb_utils.InferenceRequest(inputs=[], requested_output_names=[])",
    "pb_utils.InferenceRequest(inputs=None, requested_output_names=[], model_name='m')",
    "pb_utils.InferenceRequest(inputs=[1], requested_output_names=[], model_name='m')",
    "pb_utils.InferenceRequest(inputs=[], requested_output_names=[3], model_name='m')",
    "pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name=None)",
    "pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name='m', trace=3)",
    "pb_utils.InferenceResponse(None)", "pb_utils.InferenceResponse([1])",
    "pb_utils.InferenceResponse(error='text')", "pb_utils.TritonError(7)",
    "pb_utils.TritonError('x', 3)", "pb_utils.PreferredMemory(0)", "pb_utils.Logger.log('x', 1)",
    "pb_utils.Logger.log_info(None)", "pb_utils.MetricFamily('a', 'b', 0)",
    "request.get_response_sender().send(3)", "request.set_flags('x')",
    REQUEST % ("[]", "[]", ", correlation_id=None"), "c_utils.Metric()", "pb_utils.InferenceResponse(error=None, nonsense=1)",
])
def test_wrong_types(server, expression):
    """(12)"""
    assert raised(server, expression)[0] == "TypeError"


def test_texts_may_be_bytes(server):
    assert run_program(server, "result = [pb_utils.Tensor(b'x', np.zeros(1)).name(),"
                               " pb_utils.TritonError(b'text').message()]") == ["x", "text"]


# ---- tensors ---------------------------------------------------------------------------------------


def test_properties_of_a_tensor(server):
    assert run_program(server, "t = pb_utils.Tensor('x', np.zeros((2, 0, 3), np.int16))\n"
                               "result = [t.name(), t.shape(), t.triton_dtype(), t.is_cpu(),"
                               " t.__dlpack_device__()]") == ["x", [2, 0, 3], 7, True, [1, 0]]


@pytest.mark.parametrize("shape", [[0, 1, 1], [1, 1, 1], [2, 3, 4], [2, 0, 1]])
@pytest.mark.parametrize("kind", TYPES)
def test_each_type_comes_back(client, kind, shape):  # noqa: F811
    """(14)"""
    n = int(np.prod(shape))
    raw = struct.pack(f"<{n}{TYPES[kind]}", *[i % 2 for i in range(n)])
    answer = client.infer(f"id_{kind}", [("X", kind, shape)], [raw])
    assert (list(answer.outputs[0].shape), answer.outputs[0].datatype) == (shape, kind)
    assert answer.raw_output_contents[0] == raw


def test_bf16_by_dlpack_only(server, client):  # noqa: F811
    """(14)"""
    raw = bytes(range(12))
    answer = client.infer("dl_BF16", [("X", "BF16", [1, 2, 3])], [raw])
    assert answer.raw_output_contents[0] == raw


@pytest.mark.parametrize("elements", [[b""], ["😀".encode(), b"a\0b\0", b""], [b"x" * 70000] * 3])
def test_bytes_come_back(client, elements):  # noqa: F811
    """(16)"""
    raw = b"".join(struct.pack("<I", len(e)) + e for e in elements)
    answer = client.infer("id_BYTES", [("X", "BYTES", [1, 1, len(elements)])], [raw])
    assert answer.raw_output_contents[0] == raw


def test_a_million_strings(client):  # noqa: F811
    """(16)"""
    raw = b"".join(struct.pack("<I", 2) + b"%02d" % (i % 100) for i in range(10 ** 6))
    answer = client.infer("id_BYTES", [("X", "BYTES", [1, 1, 10 ** 6])], [raw])
    assert answer.raw_output_contents[0] == raw


def test_serialising_strings(server):
    """(16)"""
    assert run_program(server, """
def both(array):
    return [list(map(lambda b: b.decode("latin-1"),
                     pb_utils.deserialize_bytes_tensor(pb_utils.serialize_byte_tensor(array))))]
result = [both(np.array([b"a", "\\u00e9", 7, None, 1.5], dtype=object)),
          both(np.array([b"ab", b"c\\0"])),
          list(pb_utils.serialize_byte_tensor(np.zeros(0, object))),
          pb_utils.serialize_byte_tensor(np.zeros(2, "i4"))]
""") == [[["a", "Ã©", "7", "None", "1.5"]], [["ab", "c"]], [], None]


def test_an_element_that_its_own_text_takes_away(server):
    """Code in C that makes a text, here that of an exception, holds no reference to its object."""
    assert run_program(server, """
import weakref

class Text:
    def __str__(self):
        array[0] = None
        return "gone" if element() is None else "there"

class Element(Exception):
    pass

array = np.array([None], dtype=object)
array[0] = Element(Text())
element = weakref.ref(array[0])
result = pb_utils.deserialize_bytes_tensor(pb_utils.serialize_byte_tensor(array))[0].decode()
""") == "there"


@pytest.mark.parametrize("raw, text", [
    ("b'\\x01'", "Invalid bytes tensor data: incomplete length field"),
    ("b'\\x09\\0\\0\\0ab'", "Invalid bytes tensor data: string extends beyond buffer")])
def test_malformed_strings(server, raw, text):
    assert raised(server, f"pb_utils.deserialize_bytes_tensor({raw})") == [
        "TritonModelException", text]


def test_what_is_not_row_major_arrives_right(server):
    """(15)"""
    assert run_program(server, """
x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
result = [pb_utils.Tensor("x", a).as_numpy().tolist() == a.tolist() and
          bool(pb_utils.Tensor("x", a).as_numpy().flags.c_contiguous)
          for a in (x.T, x[:, ::2], x[::-1], x[0, :, 1:3], np.zeros((3, 0))[::2], x[0, 0, 0:0])]
""") == [True] * 6


def test_one_array_per_tensor_and_it_can_be_written_to(server):
    """(17)"""
    assert run_program(server, """
t = request.inputs()[0]
a = t.as_numpy()
result = [a is t.as_numpy(), request.inputs()[0] is t, request.inputs() is request.inputs()]
""") == [True, True, False]
    status, answer = infer(server, "id_FP32", [{"name": "X", "datatype": "FP32", "shape": [1, 1, 2],
                                                "data": [1, 2]}])
    assert (status, answer["outputs"][0]["data"]) == (200, [1.0, 2.0])


def test_an_array_outlives_its_request(server):
    """(18)"""
    run_program(server, "self.kept['array'] = request.inputs()[0].as_numpy()\n# keep me\nresult = 0")
    for i in range(300):
        infer(server, "id_INT8", [{"name": "X", "datatype": "INT8", "shape": [1, 1, 1], "data": [1]}])
        if i % 10 == 0:
            run_program(server, "result = 'x' * 100")
    assert run_program(server, "result = b'# keep me' in self.kept.pop('array').reshape(-1)[0]") is True


def test_a_child_process_gives_nothing_back(server):
    """A program may fork; what its child drops stays the parent's."""
    assert run_program(server, """
array = request.inputs()[0].as_numpy()
pid = os.fork()
if pid == 0:
    try:
        del array
        scope = None
        requests.clear()
        del request
        gc.collect()
        pb_utils.Logger.log_info("from the child")
    finally:
        os._exit(0)
result = os.waitpid(pid, 0)[1]
""") == 0
    assert run_program(server, "result = 5") == 5
    assert "ended unexpectedly" not in server.text()


def test_the_models_arguments(server):
    """argparse and unittest read them."""
    assert run_program(server, "import argparse\nargparse.ArgumentParser().parse_args()\n"
                               "result = sys.argv") == [""]


@pytest.mark.parametrize("name, code", [
    ("lab", "result = os.fork()"),
    ("lab", "import ctypes\nresult = ctypes.PyDLL(None).fork()"),
    ("async_lab", "return os.fork()"),
])
def test_a_child_that_returns_from_execute_ends_alone(server, name, code):
    pid = run_program(server, code, name=name)
    assert pid > 0
    for n in (1, 10 ** 6):
        wait = "return" if name == "async_lab" else "result ="
        assert len(run_program(server, f"{wait} 'x' * {n}", name=name)) == n
    assert run_program(server, f"{wait} os.waitpid({pid}, 0)[1]", name=name) == 0
    assert "ended unexpectedly" not in server.text()


def test_dlpack_gives_its_references_back(server):
    """(18)"""
    assert run_program(server, """
a = np.arange(6.0)
before = sys.getrefcount(a)
t = pb_utils.Tensor("x", a)
one = pb_utils.Tensor.from_dlpack("y", t.to_dlpack())
two = pb_utils.Tensor.from_dlpack("z", one)
values = np.from_dlpack(two).tolist()
unused = t.to_dlpack()
del t, one, two, unused
gc.collect()
result = [values, sys.getrefcount(a) - before]
""") == [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 0]


def test_dlpack_of_numpy(server):
    """(18) Arrays that are given over directly, and capsules that are used up."""
    assert run_program(server, """
a = np.arange(6, dtype=np.float32).reshape(2, 3)
before = sys.getrefcount(a)
t = pb_utils.Tensor.from_dlpack("y", a)
capsule = a.__dlpack__()
u = pb_utils.Tensor.from_dlpack("z", capsule)
values = [t.as_numpy().tolist(), u.as_numpy().tolist(), "used_dltensor" in repr(capsule)]
try:
    pb_utils.Tensor.from_dlpack("z", capsule)
except Exception as error:
    values.append(type(error).__name__)
del t, u, capsule
gc.collect()
result = values + [pb_utils.Tensor.from_dlpack("y", a * 2).as_numpy().tolist(),
                   sys.getrefcount(a) - before]
""") == [[[0, 1, 2], [3, 4, 5]], [[0, 1, 2], [3, 4, 5]], True, "ValueError",
         [[0, 2, 4], [6, 8, 10]], 0]


# A capsule of NumPy, whose fields a program may change: the struct is DLPack's.
CAPSULE = """
import ctypes
class Fields(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int64), ("n_dims", ctypes.c_int32),
                ("type", ctypes.c_int32), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64))]
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
def capsule_of(array, strides):
    made = array.__dlpack__()
    fields = Fields.from_address(pointer_of(made, b"dltensor"))
    fields.strides = self.kept["strides"] = (ctypes.c_int64 * len(strides))(*strides)
    return made, fields
"""


@pytest.mark.parametrize("shape, strides", [((3, 0), (1, 1)), ((2, 3, 0), (3, 1, 1)), ((0, 4), (9, 2)),
                                            ((1, 3), (7, 1))])
def test_strides_of_dlpack_that_no_element_has(server, shape, strides):
    """PyTorch and NumPy 2 give strides of an empty tensor, and they are at least 1."""
    assert run_program(server, CAPSULE + f"""
t = pb_utils.Tensor.from_dlpack("y", capsule_of(np.zeros({shape}, np.float32), {strides})[0])
result = [t.shape(), t.as_numpy().tolist()]
""") == [list(shape), np.zeros(shape).tolist()]


@pytest.mark.parametrize("n_dims", [-1, 65, 2 ** 31 - 1])
def test_dlpack_of_too_many_dimensions(server, n_dims):
    assert run_program(server, CAPSULE + f"""
made, fields = capsule_of(np.zeros(1, np.float32), [1])
fields.n_dims = {n_dims}
try:
    pb_utils.Tensor.from_dlpack("y", made)
except pb_utils.TritonModelException as error:
    result = str(error)
""") == f"DLPack tensor has {n_dims} dimensions, at most 64 are supported."


def test_more_dimensions_than_an_array_has(server):
    """The process goes on, and tensors that no array is made of pass."""
    tensor = {"name": "X", "datatype": "FP32", "shape": [1] * (DEEP - 1) + [2], "data": [1.0, 2.0]}
    status, answer = infer(server, "deep", [tensor])
    if status == 200:  # NumPy 2
        assert answer["outputs"][0]["data"] == [1.0, 2.0]
    else:
        assert "ValueError: number of dimensions must be within [0, 32]" in answer["error"]
    status, answer = infer(server, "dl_deep", [tensor])
    assert status == 200, answer
    assert (answer["outputs"][0]["shape"], answer["outputs"][0]["data"]) == (tensor["shape"], [1.0, 2.0])


def test_a_later_change_of_the_array_is_seen(server):
    assert run_program(server, """
a = np.zeros(2, np.int32)
t = pb_utils.Tensor("x", a)
a[0] = 7
b = np.array([b"before"], dtype=object)
s = pb_utils.Tensor("x", b)
result = t.as_numpy().tolist()
""") == [7, 0]


# ---- requests and responses ------------------------------------------------------------------------


def test_seven_arguments(server):
    """(19)"""
    args = run_program(server, "result = self.args")
    assert {k: v for k, v in args.items() if k != "model_config"} == {
        "model_instance_kind": "CPU", "model_instance_name": "lab_0",
        "model_instance_device_id": "0", "model_repository": str(server.repository / "lab"),
        "model_version": "1", "model_name": "lab"}
    config = json.loads(args["model_config"])
    assert (config["name"], config["parameters"]["color"]) == ("lab", {"string_value": "red"})
    assert run_program(server, "result = pb_utils.get_model_dir()") == str(server.repository / "lab" / "1")


def test_what_a_request_says_of_itself(server, client):  # noqa: F811
    """(20)"""
    code = ("result = [request.request_id(), request.correlation_id(), request.flags(),"
            " request.timeout(), json.loads(request.parameters()),"
            " sorted(request.requested_output_names()), request.trace().get_context()]")
    assert run_program(server, code) == ["", 0, 0, 0, {}, ["RESULT"], None]
    assert run_program(server, code, id="i", parameters={
        "sequence_id": 7, "sequence_start": True, "timeout": 900000000, "a": 1, "b": "two",
        "c": True, "d": 1.5}) == ["i", 7, 1, 900000000, {"a": 1, "b": "two", "c": True, "d": 1.5},
                                  ["RESULT"], None]
    assert run_program(server, code, parameters={"sequence_id": "s", "sequence_end": True})[1:3] == ["s", 2]
    # A number with a point stays a float.
    numbers = "result = {k: repr(v) for k, v in json.loads(request.parameters()).items()}"
    assert run_program(server, numbers, parameters={"a": 2, "b": 2.0, "c": -0.0, "d": 1e300, "e": 0.1}) == {
        "a": "2", "b": "2.0", "c": "-0.0", "d": "1e+300", "e": "0.1"}


def test_flags_can_be_set(server):
    assert run_program(server, "request.set_flags(3)\nresult = request.flags()") == 3


def test_parameters_of_a_response(server):
    """(21)"""
    status, answer = post(server, "raw", """
t = pb_utils.Tensor("RESULT", np.array([b"x"], dtype=object))
returned = [pb_utils.InferenceResponse([t], parameters={"a": 1, "b": "two", "c": False})]
""")
    assert (status, answer["parameters"]) == (200, {"a": 1, "b": "two", "c": False})
    assert run_program(server, "r = pb_utils.InferenceResponse([], parameters={'a': 1})\n"
                               "result = [r.parameters(), pb_utils.InferenceResponse().parameters(),"
                               " r.has_error(), r.error(), r.output_tensors()]") == [
        '{"a": 1}', "{}", False, None, []]


CODES = {"UNKNOWN": 400, "INTERNAL": 500, "NOT_FOUND": 404, "INVALID_ARG": 400, "UNAVAILABLE": 503,
         "UNSUPPORTED": 501, "ALREADY_EXISTS": 400, "CANCELLED": 400}


@pytest.mark.parametrize("code", CODES)
def test_error_codes(server, code):
    """(22)"""
    status, answer = post(server, "raw", "returned = [pb_utils.InferenceResponse(error="
                          f"pb_utils.TritonError('why', pb_utils.TritonError.{code}))]")
    assert (status, answer["error"]) == (CODES[code], "why")


def test_types_of_tensors(server):
    assert run_program(server, """
result = [pb_utils.triton_string_to_numpy("TYPE_FP32") is np.float32,
          pb_utils.TRITON_STRING_TO_NUMPY["TYPE_BOOL"] is bool,
          pb_utils.triton_to_numpy_type(9) is np.int64, pb_utils.triton_to_numpy_type(14),
          pb_utils.numpy_to_triton_type(np.float16), pb_utils.numpy_to_triton_type(np.dtype("O")),
          pb_utils.numpy_to_triton_type(np.complex64)]
""") == [True, True, True, None, 10, 13, None]
    assert raised(server, "pb_utils.triton_string_to_numpy('TYPE_BF16')")[0] == "KeyError"


def test_configuration_by_name(server):
    assert run_program(server, """
config = json.loads(self.args["model_config"])
result = [pb_utils.get_input_config_by_name(config, "CODE")["data_type"],
          pb_utils.get_output_config_by_name(config, "NONE"),
          pb_utils.using_decoupled_model_transaction_policy(config)]
""") == ["TYPE_STRING", None, False]


# ---- log and metrics ---------------------------------------------------------------------------------


def test_log(server):
    """(23)"""
    run_program(server, "pb_utils.Logger.log_info('said %s' % request.request_id())\nresult = 0", id="info")
    line = server.wait_for_line(r'^(.).*<program>:1\] \\?"said info')
    assert line.group(1) == "I"
    run_program(server, "pb_utils.Logger.log_warn('w1')\npb_utils.Logger.log_error('e1')\n"
                        "pb_utils.Logger.log('l1', pb_utils.Logger.WARNING)\n"
                        "pb_utils.Logger.log_verbose('v1')\nresult = 0")
    assert server.wait_for_line(r'^(.).*<program>:3\] "l1').group(1) == "W"
    assert '"w1' in server.text() and '"e1' in server.text()
    answer = requests.post(f"{server.url}/v2/logging", json={"log_verbose_level": 1}, timeout=20)
    assert answer.status_code == 200
    run_program(server, "pb_utils.Logger.log_verbose('v2')\nresult = 0")
    server.wait_for_line('"v2')
    requests.post(f"{server.url}/v2/logging", json={"log_verbose_level": 0}, timeout=20)
    assert '"v1' not in server.text()


def test_metrics(server):
    """(8, 24)"""
    page = f"http://127.0.0.1:{server.port('metrics')}/metrics"
    value = run_program(server, """
family = pb_utils.MetricFamily("lab_requests", "of the lab", pb_utils.MetricFamily.COUNTER)
one = family.Metric({"a": "1"})
two = family.Metric({"a": "1"})
one.increment(2)
two.increment(3)
gauge_family = pb_utils.MetricFamily("lab_gauge", "of the lab", pb_utils.MetricFamily.GAUGE)
gauge = gauge_family.Metric()
gauge.set(7)
gauge.increment(-1)
bars_family = pb_utils.MetricFamily("lab_bars", "of the lab", pb_utils.MetricFamily.HISTOGRAM)
bars = bars_family.Metric(buckets=[1.0, 2.0])
bars.observe(1.5)
self.kept["metrics"] = [one, family, two, gauge, gauge_family, bars, bars_family]
result = [one.value(), gauge.value()]
""")
    assert value == [5.0, 6.0]
    text = requests.get(page, timeout=20).text
    assert 'lab_requests{a="1"} 5' in text and "lab_gauge 6" in text
    assert 'lab_bars_bucket{le="2"} 1' in text or 'lab_bars_bucket{le="2.0"} 1' in text
    run_program(server, "self.kept.pop('metrics').clear()\nresult = gc.collect() * 0")
    assert "lab_" not in requests.get(page, timeout=20).text


def test_a_change_of_a_metric_is_visible_when_its_call_returns(server):
    page = f"http://127.0.0.1:{server.port('metrics')}/metrics"
    assert run_program(server, f"""
import urllib.request
def seen(line):
    return line in urllib.request.urlopen("{page}").read().decode().splitlines()
kinds = pb_utils.MetricFamily
counters, gauges, bars = [kinds("lab_seen_" + kind.name.lower(), "x", kind)
                          for kind in (kinds.COUNTER, kinds.GAUGE, kinds.HISTOGRAM)]
counter, gauge, bar = counters.Metric(), gauges.Metric(), bars.Metric(buckets=[1.0])
result = 0
for i in range(1, 21):
    counter.increment(1)
    result += seen(f"lab_seen_counter {{i}}")
    gauge.set(i)
    result += seen(f"lab_seen_gauge {{i}}")
    bar.observe(2)
    bar.observe(0)
    result += seen(f"lab_seen_histogram_count {{2 * i}}")
""") == 60


def test_a_second_family_keeps_the_first_ones_description(server):
    page = f"http://127.0.0.1:{server.port('metrics')}/metrics"
    assert "# HELP lab_twice first" in run_program(server, f"""
import urllib.request
one = pb_utils.MetricFamily("lab_twice", "first", pb_utils.MetricFamily.COUNTER)
two = pb_utils.MetricFamily("lab_twice", "second", pb_utils.MetricFamily.COUNTER)
metrics = [one.Metric({{"of": "one"}}), two.Metric({{"of": "two"}})]
metrics[1].increment(2)
result = urllib.request.urlopen("{page}").read().decode().splitlines()
""")


FAMILY = "pb_utils.MetricFamily('lab_refused', 'x', pb_utils.MetricFamily.%s)"


@pytest.mark.parametrize("expression, text", [
    (FAMILY % "COUNTER" + ".Metric(labels=[])",
     "Failed to create metric. Labels must be a dictionary."),
    (FAMILY % "HISTOGRAM" + ".Metric(buckets=3)", "Failed to create metric. Buckets must be a list."),
    (FAMILY % "COUNTER" + ".Metric(buckets=[1.0])",
     "Failed to create metric. Unexpected buckets found."),
    (FAMILY % "HISTOGRAM" + ".Metric()", "Failed to create metric. Missing required buckets."),
    ("f = " + FAMILY % "COUNTER" + "\nm = f.Metric()\ndel f\nm.increment(1)",
     "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The "
     "'MetricFamily' object should be deleted AFTER its corresponding 'Metric' objects have been "
     "deleted."),
])
def test_metrics_refused(server, expression, text):
    """(24)"""
    assert raised(server, expression) == ["TritonModelException", text]


@pytest.mark.parametrize("expression, start", [
    ("f = " + FAMILY % "COUNTER" + "\nm = f.Metric()\nm.increment(-1)",
     "Failed to increment metric value: "),
    ("f = " + FAMILY % "COUNTER" + "\nm = f.Metric()\nm.set(1)", "Failed to set metric value: "),
    ("f = " + FAMILY % "COUNTER" + "\nm = f.Metric()\nm.observe(1)",
     "Failed to observe metric value: "),
    ("f = " + FAMILY % "HISTOGRAM" + "\nm = f.Metric(buckets=[1.0])\nm.value()",
     "Failed to get metric value: "),
    (FAMILY % "HISTOGRAM" + ".Metric(buckets=[2.0, 1.0])", "Error when creating Metric: "),
    ("f = " + FAMILY % "COUNTER" + "\n" + FAMILY % "GAUGE", "Error when creating MetricFamily: "),
])
def test_metrics_the_server_refuses(server, expression, start):
    """(24)"""
    kind, text = raised(server, expression)
    assert kind == "TritonModelException"
    assert text.startswith(start) and len(text) > len(start)


# ---- configurations ----------------------------------------------------------------------------------

CONFIG = ("c = pb_utils.ModelConfig(json.dumps({'name': 'm', 'max_batch_size': 8, 'input': ["
          "{'name': 'X', 'data_type': 'TYPE_FP32', 'dims': [4]}]}))\n")
FN = "auto-complete-config function for model 'm'"


@pytest.mark.parametrize("code, text", [
    ("c.set_max_batch_size(4)",
     f"configuration specified max_batch_size 8, but in {FN} specified max_batch_size 4"),
    ("c.as_dict()['sequence_batching'] = {}\nc.set_dynamic_batching()",
     f"Configuration specified scheduling_choice as 'sequence_batching', but {FN} tries to set "
     "scheduling_choice as 'dynamic_batching'"),
    ("c.add_input({'name': 'A', 'label': 1})",
     f"input 'A' in {FN} contains property other than 'name', 'data_type', 'dims' and 'optional'."),
    ("c.add_output({'name': 'A', 'optional': 1})",
     f"output 'A' in {FN} contains property other than 'name', 'data_type' and 'dims'."),
    ("c.add_input({'dims': [1]})", f"input in {FN} is missing 'name' property."),
    ("c.add_input({'name': 'A'})", f"input 'A' in {FN} is missing 'data_type' property."),
    ("c.add_output({'name': 'A', 'data_type': 'TYPE_FP32'})",
     f"output 'A' in {FN} is missing 'dims' property."),
    ("c.add_input({'name': 'X', 'data_type': 'TYPE_INT8', 'dims': [4]})",
     "unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'X', model "
     "provides TYPE_INT8"),
    ("c.add_input({'name': 'X', 'data_type': 'TYPE_FP32', 'dims': [5]})",
     "model 'm', tensor 'X': the model expects dims [5] but the model configuration specifies dims "
     "[4]"),
    ("c.set_model_transaction_policy({'other': 1})",
     f"model transaction property in {FN} contains property other than 'decoupled'."),
    ("c.set_model_transaction_policy({'decoupled': True})\n"
     "c.set_model_transaction_policy({'decoupled': False})",
     "trying to change decoupled property in auto-complete-config for model 'm', which is already set "
     "to 'True'."),
])
def test_configurations_refused(server, code, text):
    """(13)"""
    assert raised(server, CONFIG + code) == ["ValueError", text]


def test_configuration_is_completed(server):
    assert run_program(server, CONFIG + "c.add_input({'name': 'X', 'data_type': 'TYPE_FP32', 'dims': [4]})\n"
                       "c.add_output({'name': 'Y', 'data_type': 'TYPE_FP32', 'dims': [1]})\n"
                       "c.set_max_batch_size(9)\nc.set_dynamic_batching()\nresult = c.as_dict()") == {
        "name": "m", "max_batch_size": 9, "dynamic_batching": {},
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [1]}]}


assert IO  # the input and output that labs have
