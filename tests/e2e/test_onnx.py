# SPDX-License-Identifier: BSD-3-Clause
"""ONNX models: every type, open dimensions, files without a configuration, files that do not fit.

The models are those of tests/models/make_test_models.py.
"""
import concurrent.futures
import json
import platform
import re
import struct
import subprocess
import sys

import numpy
import pytest
import requests

from conftest import ROOT, Server, require_build

pytest.importorskip("onnx")

# KServe name: numpy's type, struct's letter where numpy has none.
TYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1",
    "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}
EDGES = {
    "BOOL": [True, False, True, True], "UINT8": [0, 1, 254, 255], "UINT16": [0, 1, 65534, 65535],
    "UINT32": [0, 1, 2**32 - 2, 2**32 - 1], "UINT64": [0, 1, 2**64 - 2, 2**64 - 1],
    "INT8": [-128, -1, 0, 127], "INT16": [-2**15, -1, 0, 2**15 - 1],
    "INT32": [-2**31, -1, 0, 2**31 - 1], "INT64": [-2**63, -1, 0, 2**63 - 1],
    "FP16": [0.5, -65504, 6e-8, -0.0], "FP32": [0.1, -3.4028235e38, 1e-45, -0.0],
    "FP64": [0.1, -1.7976931348623157e308, 5e-324, -0.0],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    require_build(("onnxruntime", "identity", "testing"))
    folder = tmp_path_factory.mktemp("onnx")
    subprocess.run([sys.executable, str(ROOT / "tests" / "models" / "make_test_models.py"), str(folder)],
                   check=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    running = Server(folder / "good")
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def broken(folder):
    """What the index says of the models that must not load."""
    running = Server(folder / "broken", ("--exit-on-error=false",))
    index = requests.post(f"{running.url}/v2/repository/index", timeout=20).json()
    assert running.stop() == 0, running.text()
    return {one["name"]: one for one in index}


def tensor(name, datatype, array):
    """As JSON."""
    return {"name": name, "datatype": datatype, "shape": list(array.shape),
            "data": array.ravel().tolist()}


def post(server, model, request, raw=b""):
    head = json.dumps(request).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))} if raw else {}
    return requests.post(f"{server.url}/v2/models/{model}/infer", data=head + raw, timeout=30,
                         headers=headers)


def infer(server, model, *inputs, outputs=()):
    """{name: (shape, data)} of the answer to a request in JSON."""
    request = {"inputs": list(inputs)}
    if outputs:
        request["outputs"] = [{"name": name} for name in outputs]
    reply = post(server, model, request)
    assert reply.status_code == 200, reply.text
    return {one["name"]: (one["shape"], one["data"]) for one in reply.json()["outputs"]}


def infer_binary(server, model, name, datatype, shape, raw):
    """Output's header and bytes."""
    reply = post(server, model, {
        "inputs": [{"name": name, "datatype": datatype, "shape": shape,
                    "parameters": {"binary_data_size": len(raw)}}],
        "parameters": {"binary_data_output": True}}, raw)
    assert reply.status_code == 200, reply.text
    end = int(reply.headers["Inference-Header-Content-Length"])
    [output] = json.loads(reply.content[:end])["outputs"]
    return output, reply.content[end:]


def metadata(server, model):
    return requests.get(f"{server.url}/v2/models/{model}", timeout=20).json()


def config(server, model):
    return requests.get(f"{server.url}/v2/models/{model}/config", timeout=20).json()


def random(*shape):
    return numpy.random.default_rng(3).normal(size=shape).astype("<f4")


# ---- types --------------------------------------------------------------------------------------


@pytest.mark.parametrize("datatype", TYPES)
def test_binary(server, datatype):
    """Bit for bit, one request of several rows."""
    model = f"onnx_identity_{datatype.lower()}"
    raw = numpy.array(EDGES[datatype], TYPES[datatype]).tobytes()
    output, answer = infer_binary(server, model, "INPUT0", datatype, [2, 2], raw)
    assert output == {"name": "OUTPUT0", "datatype": datatype, "shape": [2, 2],
                      "parameters": {"binary_data_size": len(raw)}}
    assert answer == raw


@pytest.mark.parametrize("datatype", [name for name in TYPES if name != "FP16"])
def test_json(server, datatype):
    model = f"onnx_identity_{datatype.lower()}"
    values = numpy.array(EDGES[datatype], TYPES[datatype]).reshape(1, 4)
    shape, data = infer(server, model, tensor("INPUT0", datatype, values))["OUTPUT0"]
    assert shape == [1, 4]
    assert numpy.array(data, TYPES[datatype]).tobytes() == values.tobytes()


def test_bf16(server):
    """The upper half of FP32."""
    raw = b"".join(struct.pack("<f", value)[2:] for value in (1.5, -2.0, 3.25, 1e30))
    output, answer = infer_binary(server, "onnx_identity_bf16", "INPUT0", "BF16", [1, 4], raw)
    assert (output["datatype"], output["shape"], answer) == ("BF16", [1, 4], raw)


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_halves_have_no_json(server, datatype):
    model = f"onnx_identity_{datatype.lower()}"
    reply = post(server, model, {"inputs": [
        {"name": "INPUT0", "datatype": datatype, "shape": [1, 1], "data": [1.0]}]})
    assert (reply.status_code, reply.json()) == (400, {
        "error": f"receiving {datatype} data via JSON is not supported. Please use the binary data "
                 "format for input INPUT0"})
    reply = post(server, model, {"inputs": [
        {"name": "INPUT0", "datatype": datatype, "shape": [1, 1],
         "parameters": {"binary_data_size": 2}}]}, b"\0\0")
    assert (reply.status_code, reply.json()) == (400, {
        "error": f"sending {datatype} data via JSON is not supported. Please use the binary data "
                 "format for output"})


def strings(*texts):
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def test_strings(server):
    texts = ["", "a", "\u00e9\U0001f600", "x" * 3000]
    shape, data = infer(server, "onnx_identity_bytes", {
        "name": "INPUT0", "datatype": "BYTES", "shape": [2, 2], "data": texts})["OUTPUT0"]
    assert (shape, data) == ([2, 2], texts)
    raw = strings(b"", b"\xff\xfe", b"three", b"y" * 2000)
    output, answer = infer_binary(server, "onnx_identity_bytes", "INPUT0", "BYTES", [4, 1], raw)
    assert (output["shape"], answer) == ([4, 1], raw)


def test_strings_of_several_inputs(server):
    answer = infer(server, "join_strings",
                   {"name": "RIGHT", "datatype": "BYTES", "shape": [2, 2],
                    "data": ["b", "c", "e", ""]},
                   {"name": "LEFT", "datatype": "BYTES", "shape": [2, 1], "data": ["a", "d"]})
    assert answer == {"OUTPUT": ([2, 3], ["a", "b", "c", "d", "e", ""])}


# ---- what models compute ------------------------------------------------------------------------


@pytest.mark.parametrize("model, datatype, dims", [
    ("simple", "INT32", [3, 16]), ("simple_batched", "INT32", [8, 16]),
    ("add_sub_fp32", "FP32", [1, 16]), ("add_sub_nobatch", "FP32", [4, 4]),
    ("auto_batch", "FP32", [4, 16]), ("auto_fixed", "FP32", [2, 3])])
def test_sums_and_differences(server, model, datatype, dims):
    left = numpy.arange(numpy.prod(dims)).astype(TYPES[datatype]).reshape(dims)
    right = (left * 3 + 1).astype(TYPES[datatype])
    answer = infer(server, model, tensor("INPUT1", datatype, right),
                   tensor("INPUT0", datatype, left))
    assert answer == {"OUTPUT0": (dims, (left + right).ravel().tolist()),
                      "OUTPUT1": (dims, (left - right).ravel().tolist())}
    answer = infer(server, model, tensor("INPUT0", datatype, left),
                   tensor("INPUT1", datatype, right), outputs=["OUTPUT1"])
    assert answer == {"OUTPUT1": (dims, (left - right).ravel().tolist())}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions(server, version):
    reply = requests.post(f"{server.url}/v2/models/versions/versions/{version}/infer", timeout=20,
                          json={"inputs": [tensor("INPUT", "FP32", numpy.float32([[10]]))]})
    assert reply.json()["model_version"] == str(version)
    assert reply.json()["outputs"][0]["data"] == [10.0 + version]


def test_external_weights(server):
    values = random(2, 1024)
    shape, data = infer(server, "external", tensor("INPUT", "FP32", values))["OUTPUT"]
    expected = values + numpy.arange(1024, dtype="<f4")
    assert shape == [2, 1024]
    assert numpy.array(data, "<f4").tobytes() == expected.tobytes()


def test_mlp(server):
    """Row by row the same as all rows at once."""
    values = random(64, 16)
    shape, together = infer(server, "mlp", tensor("INPUT", "FP32", values))["OUTPUT"]
    assert shape == [64, 4]
    alone = [infer(server, "mlp", tensor("INPUT", "FP32", row[None]))["OUTPUT"][1]
             for row in values]
    assert numpy.allclose(numpy.ravel(alone), together, rtol=1e-5, atol=1e-5)


# ---- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [[1, 2, 3], [4, 5, 1], [8, 1, 1], [2, 100, 70]])
def test_open_dimensions(server, dims):
    values = numpy.arange(numpy.prod(dims)).reshape(dims)
    shape, data = infer(server, "dynamic_axes", tensor("INPUT", "INT64", values))["OUTPUT"]
    assert shape == [dims[0], dims[2], dims[1]]
    assert data == values.transpose(0, 2, 1).ravel().tolist()


def test_open_dimensions_of_many_clients(server):
    """Whatever is batched: shapes are not mixed."""
    def ask(number):
        dims = [1 + number % 2, 1 + number % 3, 1 + number % 5]
        values = numpy.arange(numpy.prod(dims)).reshape(dims) + number
        shape, data = infer(server, "dynamic_axes", tensor("INPUT", "INT64", values))["OUTPUT"]
        return shape == [dims[0], dims[2], dims[1]] and data == values.transpose(
            0, 2, 1).ravel().tolist()

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert all(pool.map(ask, range(300)))


def test_reductions(server):
    values = random(3, 7)
    shape, data = infer(server, "row_mean", tensor("INPUT", "FP32", values))["OUTPUT"]
    assert shape == [3, 1]
    assert data == pytest.approx(values.mean(axis=1).tolist(), rel=1e-5)
    values = random(4, 3)
    shape, data = infer(server, "row_max", tensor("INPUT", "FP32", values))["OUTPUT"]
    assert shape == [4, 1]
    assert numpy.array(data, "<f4").tobytes() == values.max(axis=1).tobytes()


def test_scalars(server):
    """The file has no dimensions, the configuration says [1]."""
    for model in ("scalar_output", "auto_scalar"):
        assert infer(server, model, tensor("INPUT", "FP32", numpy.float32([1, 2, 3, 6])))[
            "OUTPUT"] == ([1], [3.0])


@pytest.mark.parametrize("values", [[0, 0, 0], [1, 0, 2], [5], [0]])
def test_shape_that_depends_on_values(server, values):
    shape, data = infer(server, "nonzero", tensor("INPUT", "FP32", numpy.float32(values)))["OUTPUT"]
    expected = [at for at, value in enumerate(values) if value]
    assert (shape, data) == ([1, len(expected)], expected)


# ---- errors of one request ----------------------------------------------------------------------


def test_failed_run(server):
    """Only the batch with the bad index fails, with the runtime's reason; then all goes on."""
    assert infer(server, "lookup", tensor("INDEX", "INT64", numpy.int64([[2]])))["OUTPUT"] == (
        [1, 1, 2], [4.0, 5.0])
    reply = post(server, "lookup", {"inputs": [tensor("INDEX", "INT64", numpy.int64([[99]]))]})
    assert reply.status_code in (400, 500)
    assert "onnx runtime error" in reply.json()["error"] and "99" in reply.json()["error"]
    assert infer(server, "lookup", tensor("INDEX", "INT64", numpy.int64([[0], [3]])))["OUTPUT"] == (
        [2, 1, 2], [0.0, 1.0, 6.0, 7.0])


def test_integers_divided_by_zero(server):
    """The client's divisor may be one for which the processor raises a fault. What the division gives means
    nothing; the others have their results, and the server goes on."""
    for number, divisor in ((7, 0), (0, 0), (-2**31, -1)):
        found = infer(server, "divide", tensor("INPUT0", "INT32", numpy.int32([number, 9])),
                      tensor("INPUT1", "INT32", numpy.int32([divisor, 2])))
        assert found["QUOTIENT"][1][1] == 4 and found["REMAINDER"][1][1] == 1
    if platform.machine() == "x86_64":
        server.wait_for_line("model 'divide', or one that ran .* divided an integer by zero")


def assert_error(reply, text):
    assert (reply.status_code, reply.json()) == (400, {"error": text})


def test_bad_requests(server):
    values = numpy.zeros([1, 16], "<i4")
    good = [tensor("INPUT0", "INT32", values), tensor("INPUT1", "INT32", values)]
    assert_error(post(server, "simple", {"inputs": good[:1]}),
                 "[request id: <id_unknown>] expected 2 inputs but got 1 inputs for model 'simple'. "
                 "Got input(s) ['INPUT0'], but missing required input(s) ['INPUT1']. Please provide "
                 "all required input(s).")
    assert_error(post(server, "simple", {"inputs": [
        good[0], {**good[1], "shape": [1, 15], "data": [0] * 15}], "id": "me"}),
                 "[request id: me] unexpected shape for input 'INPUT1' for model 'simple'. Expected "
                 "[-1,16], got [1,15]. NOTE: Setting a non-zero max_batch_size in the model config "
                 "requires a batch dimension to be prepended to each input shape. If you want to "
                 "specify the full shape including the batch dim in your input dims config, try "
                 "setting max_batch_size to zero. See the model configuration docs for more info on "
                 "max_batch_size.")
    assert_error(post(server, "simple", {"inputs": [
        good[0], {**good[1], "datatype": "INT64"}]}),
                 "[request id: <id_unknown>] inference input 'INPUT1' data-type is 'INT64', but "
                 "model 'simple' expects 'INT32'")
    assert_error(post(server, "simple", {"inputs": good, "outputs": [{"name": "OUTPUT2"}]}),
                 "unexpected inference output 'OUTPUT2' for model 'simple'")
    nine = numpy.zeros([9, 16], "<i4")
    assert_error(post(server, "simple", {"inputs": [
        tensor("INPUT0", "INT32", nine), tensor("INPUT1", "INT32", nine)]}),
                 "[request id: <id_unknown>] inference request batch-size must be <= 8 for 'simple'")
    none = numpy.zeros([0, 16], "<i4")
    assert_error(post(server, "simple", {"inputs": [
        tensor("INPUT0", "INT32", none), tensor("INPUT1", "INT32", none)]}),
                 "input 'INPUT0' has a batch of 0, the model needs at least 1")


# ---- files without a configuration --------------------------------------------------------------


def named(name, datatype, shape):
    return {"name": name, "datatype": datatype, "shape": shape}


def test_completed_with_a_batch_dimension(server):
    """An open first dimension of all tensors is a batch."""
    shape = [-1, 16]
    assert metadata(server, "auto_batch") == {
        "name": "auto_batch", "versions": ["1"], "platform": "onnxruntime_onnx",
        "inputs": [named("INPUT0", "FP32", shape), named("INPUT1", "FP32", shape)],
        "outputs": [named("OUTPUT0", "FP32", shape), named("OUTPUT1", "FP32", shape)]}
    made = config(server, "auto_batch")
    assert (made["platform"], made["backend"], made["default_model_filename"]) == (
        "onnxruntime_onnx", "onnxruntime", "model.onnx")
    assert made["max_batch_size"] == 4
    assert made["dynamic_batching"]["preferred_batch_size"] == [4]
    assert [(one["name"], one["kind"], one["count"]) for one in made["instance_group"]] == [
        ("auto_batch", "KIND_CPU", 2)]
    assert [one["dims"] for one in made["input"]] == [[16], [16]]


def test_completed_without_a_batch_dimension(server):
    assert metadata(server, "auto_fixed")["inputs"] == [
        named("INPUT0", "FP32", [2, 3]), named("INPUT1", "FP32", [2, 3])]
    assert config(server, "auto_fixed")["max_batch_size"] == 0
    assert "dynamic_batching" not in config(server, "auto_fixed")
    assert metadata(server, "auto_scalar")["outputs"] == [named("OUTPUT", "FP32", [1])]


def test_completed_only_where_nothing_is_said(server):
    made = config(server, "auto_partial")
    assert [(one["name"], one["data_type"], one["dims"]) for one in made["input"]] == [
        ("INPUT0", "TYPE_FP32", [16]), ("INPUT1", "TYPE_FP32", [16])]
    assert [(one["name"], one["data_type"], one["dims"], one["label_filename"])
            for one in made["output"]] == [("OUTPUT1", "TYPE_FP32", [16], "labels.txt")]
    assert [(one["name"], one["count"]) for one in made["instance_group"]] == [
        ("auto_partial_0", 1)]
    left, right = numpy.arange(16, dtype="<f4")[None], numpy.zeros([1, 16], "<f4")
    reply = post(server, "auto_partial", {
        "inputs": [tensor("INPUT0", "FP32", left), tensor("INPUT1", "FP32", right)],
        "outputs": [{"name": "OUTPUT1", "parameters": {"classification": 2}}]})
    assert reply.json()["outputs"] == [
        {"name": "OUTPUT1", "datatype": "BYTES", "shape": [1, 2],
         "data": ["15.000000:15:label15", "14.000000:14:label14"]}]


# ---- files that do not fit ----------------------------------------------------------------------

BROKEN = {
    "missing_file": "Unavailable: unable to find '1/model.onnx' for model 'missing_file'",
    "empty_directory":
        "Unavailable: unable to find '1/model.onnx/model.onnx' for model 'empty_directory'",
    "corrupt_file": re.compile(
        r"Internal: failed to load model 'corrupt_file' from '1/model\.onnx': onnx runtime error 7: "
        r".*Protobuf parsing failed\..*"),
    "outside_file": "Invalid argument: default_model_filename '../1/model.onnx' of model "
                    "'outside_file' must stay within the model directory",
    "unknown_input": "Invalid argument: unexpected inference input 'INPUT2', allowed inputs are: "
                     "INPUT0, INPUT1",
    "too_many_inputs": "Invalid argument: unable to load model 'too_many_inputs', configuration "
                       "expects 3 inputs, model provides 2",
    "unknown_output": "Invalid argument: unexpected inference output 'OUTPUT2', allowed outputs "
                      "are: OUTPUT0, OUTPUT1",
    "wrong_type": "Invalid argument: unable to load model 'wrong_type', unexpected datatype "
                  "TYPE_FP32 for input 'INPUT0', the model expects TYPE_INT32",
    "wrong_dims":
        "Invalid argument: model 'wrong_dims', tensor 'INPUT0': the model expects 2 dimensions "
        "(shape [-1,16]) but the model configuration specifies 2 dimensions (an initial batch "
        "dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
        "complete shape [-1,8])",
    "wrong_rank":
        "Invalid argument: model 'wrong_rank', tensor 'INPUT0': the model expects 2 dimensions "
        "(shape [-1,16]) but the model configuration specifies 3 dimensions (an initial batch "
        "dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
        "complete shape [-1,4,4])",
    "no_batch_dimension":
        "Invalid argument: autofill failed for model 'no_batch_dimension': model does not support "
        "batching while non-zero max_batch_size is specified",
    "state_without_output":
        "Invalid argument: unexpected inference output 'NEXT', allowed outputs are: OUTPUT, SUM_OUT",
    "state_of_another_type":
        "Invalid argument: unable to load model 'state_of_another_type', unexpected datatype "
        "TYPE_FP64 for input 'SUM_IN', the model expects TYPE_FP32",
    "state_of_another_shape":
        "Invalid argument: model 'state_of_another_shape', tensor 'SUM_IN': the model expects 2 "
        "dimensions (shape [-1,2]) but the model configuration specifies 2 dimensions (an initial "
        "batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
        "complete shape [-1,3])",
    "state_file_outside": re.compile(
        r"Invalid argument: failed to open the initial state '\.\./config\.pbtxt' of state 'SUM_IN': "
        r".*"),
    "bad_parameter": "Invalid argument: model 'bad_parameter': parameter 'intra_op_thread_count' "
                     "must be an integer, got 'many'",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken(broken, name):
    """The reason says what the file lacks, or which part of the configuration it contradicts."""
    expected = BROKEN[name]
    found = broken[name]
    assert (found["version"], found["state"]) == ("1", "UNAVAILABLE")
    if isinstance(expected, str):
        assert found["reason"] == expected
    else:
        assert expected.fullmatch(found["reason"]), found["reason"]


def test_no_batch_dimension_without_completion(folder):
    server = Server(folder / "broken", ("--exit-on-error=false", "--disable-auto-complete-config",
                                        "--model-control-mode=explicit"))
    reply = requests.post(f"{server.url}/v2/repository/models/no_batch_dimension/load", timeout=20)
    assert reply.json() == {
        "error": "load failed for model 'no_batch_dimension': version 1 is at UNAVAILABLE state: "
                 "Invalid argument: model 'no_batch_dimension', tensor 'INPUT0': for the model to "
                 "support batching the shape should have at least 1 dimension and the first "
                 "dimension must be -1; but shape expected by the model is [1,16];\n"}
    assert server.stop() == 0


def test_all_that_is_broken_is_here(broken):
    assert set(broken) == {*BROKEN, "fails_to_load"}


# ---- sequences with implicit states -------------------------------------------------------------


def step(server, model, value, sequence, start=False, end=False, outputs=("OUTPUT",), session=requests):
    """The first output's data, or all."""
    reply = session.post(f"{server.url}/v2/models/{model}/infer", timeout=30, json={
        "parameters": {"sequence_id": sequence, "sequence_start": start, "sequence_end": end},
        "inputs": [value], "outputs": [{"name": name} for name in outputs]})
    assert reply.status_code == 200, reply.text
    found = {one["name"]: one["data"] for one in reply.json()["outputs"]}
    return found[outputs[0]] if len(outputs) == 1 else found


def numbers(datatype, *values, batched=True):
    return {"name": "INPUT", "datatype": datatype, "data": list(values),
            "shape": [1, len(values)] if batched else [len(values)]}


def test_metadata_of_states(server):
    found = metadata(server, "sequence_mean")
    assert [one["name"] for one in found["inputs"]] == ["INPUT"]
    assert [one["name"] for one in found["outputs"]] == ["OUTPUT"]


@pytest.mark.parametrize("model", ["sequence_sum", "sequence_mean", "sequence_list"])
def test_states_of_many_sequences(server, model):
    """More than there are slots, from many connections: whatever batch a request is in, it reads
    what its own sequence left."""
    def sequence(number):
        values = []
        with requests.Session() as session:
            for i in range(6):
                start, end = i == 0, i == 5
                values.append(number * 10 + i)
                if model == "sequence_sum":
                    got = step(server, model, numbers("INT32", values[-1]), number, start, end,
                               session=session)
                    assert got == [sum(values)]
                elif model == "sequence_mean":
                    got = step(server, model, numbers("FP32", values[-1], -i), number, start, end,
                               session=session)
                    assert got == pytest.approx([sum(values) / (i + 1), -i / 2])
                else:
                    got = step(server, model, numbers("INT32", values[-1]), number, start, end,
                               session=session)
                    assert got == values

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(sequence, range(1, 25)))


def test_start_begins_anew(server):
    assert step(server, "sequence_list", numbers("INT32", 1), 900, True) == [1]
    assert step(server, "sequence_list", numbers("INT32", 2), 900) == [1, 2]
    assert step(server, "sequence_list", numbers("INT32", 3), 900, True) == [3]
    assert step(server, "sequence_list", numbers("INT32", 4), 900, False, True) == [3, 4]


def test_text_as_state(server):
    def text(value):
        return {"name": "INPUT", "datatype": "BYTES", "shape": [1], "data": [value]}

    for number in ("first", "second"):
        assert step(server, "sequence_before", text("a"), number, True) == ["nothing"]
        assert step(server, "sequence_before", text("a longer text " * 50), number) == ["a"]
        assert step(server, "sequence_before", text(""), number) == ["a longer text " * 50]
        assert step(server, "sequence_before", text("z"), number, False, True) == [""]


def test_state_from_file_in_one_buffer(server):
    both = ("OUTPUT", "SUM_OUT")
    for number in (1, 2):
        assert step(server, "sequence_from_file", numbers("INT64", 1, 2, 3, batched=False), number,
                    True, outputs=both) == {"OUTPUT": [300], "SUM_OUT": [101, 202, 303]}
        assert step(server, "sequence_from_file", numbers("INT64", 0, 500, 0, batched=False),
                    number) == [303]
        assert step(server, "sequence_from_file", numbers("INT64", 0, 0, 0, batched=False), number,
                    False, True, outputs=both) == {"OUTPUT": [702], "SUM_OUT": [101, 702, 303]}


# ---- tensors of the file -----------------------------------------------------------------------


def outputs_of(reply):
    assert reply.status_code == 200, reply.text
    return [(one["shape"], one["data"]) for one in reply.json()["outputs"]]


def test_initializer_that_is_an_input(server):
    """A request may replace it; the next one that does not send it gets the file's values."""
    numbers = tensor("INPUT", "FP32", numpy.array([5, 7], "<f4"))
    scale = tensor("SCALE", "FP32", numpy.array([-1, 10], "<f4"))
    assert outputs_of(post(server, "override", {"inputs": [numbers]})) == [([2], [10, 21])]
    assert outputs_of(post(server, "override", {"inputs": [numbers, scale]})) == [([2], [-5, 70])]
    assert outputs_of(post(server, "override", {"inputs": [numbers]})) == [([2], [10, 21])]


def test_output_without_a_shape_in_the_file(server):
    inputs = [tensor("INPUT", "FP32", numpy.array([5, 7], "<f4")),
              tensor("SHAPE", "INT64", numpy.array([2]))]
    assert outputs_of(post(server, "unknown_output", {"inputs": inputs})) == [([2], [5, 7])]


def test_tensors_made_of_the_batch(server):
    """Two requests, with 3 elements and with twice 2, in one batch, whatever their order."""
    arrays = [numpy.array([[1, 2, 3]], "<f4"), numpy.array([[4, 5], [6, 7]], "<f4")]

    def send(array):
        rows = numpy.zeros((array.shape[0], 1), "<f4")
        return post(server, "ragged", {"inputs": [tensor("X", "FP32", array),
                                                  tensor("ROWS", "FP32", rows)]})

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(send, arrays))
    seen = []
    for array, reply in zip(arrays, replies):
        assert reply.status_code == 200, reply.text
        outputs = {one["name"]: one for one in reply.json()["outputs"]}
        assert outputs["Y"]["shape"] == list(array.shape)
        assert outputs["Y"]["data"] == (2 * array).ravel().tolist()
        assert outputs["SEEN"]["shape"][0] == array.shape[0]
        width = outputs["SEEN"]["shape"][1]
        seen.extend(outputs["SEEN"]["data"][at:at + width]
                    for at in range(0, len(outputs["SEEN"]["data"]), width))
    # element counts, running sums, the same from 0, the largest count, the items' shapes twice
    short_first = [3, 4, 3, 7, 0, 3, 7, 4, 3, 2, 2, 3, 2, 2]
    long_first = [4, 3, 4, 7, 0, 4, 7, 4, 2, 2, 3, 2, 2, 3]
    assert seen in ([short_first] * 3, [long_first] * 3)
