#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the repositories of small models that the tests use.

    make_test_models.py TARGET [--only NAME ...]

TARGET/good holds models that load, TARGET/broken models that must not, each with its own reason.
The files are the same each time. The ONNX models need the packages python3-onnx and python3-numpy.
"""
import argparse
import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

# Old enough for every runtime since ONNX Runtime 1.8; the defaults are those of the package.
OPSET = 13
IR_VERSION = 7

# KServe name, configuration name, ONNX type.
TYPES = [
    ("bool", "TYPE_BOOL", TensorProto.BOOL),
    ("uint8", "TYPE_UINT8", TensorProto.UINT8),
    ("uint16", "TYPE_UINT16", TensorProto.UINT16),
    ("uint32", "TYPE_UINT32", TensorProto.UINT32),
    ("uint64", "TYPE_UINT64", TensorProto.UINT64),
    ("int8", "TYPE_INT8", TensorProto.INT8),
    ("int16", "TYPE_INT16", TensorProto.INT16),
    ("int32", "TYPE_INT32", TensorProto.INT32),
    ("int64", "TYPE_INT64", TensorProto.INT64),
    ("fp16", "TYPE_FP16", TensorProto.FLOAT16),
    ("fp32", "TYPE_FP32", TensorProto.FLOAT),
    ("fp64", "TYPE_FP64", TensorProto.DOUBLE),
    ("bf16", "TYPE_BF16", TensorProto.BFLOAT16),
    ("bytes", "TYPE_STRING", TensorProto.STRING),
]

MODELS = {}  # name -> function(folder of the model)
BROKEN = {}


def good(name):
    return lambda function: MODELS.setdefault(name, function)


def broken(name):
    return lambda function: BROKEN.setdefault(name, function)


def value(name, onnx_type, *dims):
    """A tensor of a graph; None and strings are open dimensions."""
    return helper.make_tensor_value_info(name, onnx_type, list(dims))


def model(nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(constants))
    made = helper.make_model(graph, producer_name="tests/models",
                             opset_imports=[helper.make_opsetid("", OPSET)])
    made.ir_version = IR_VERSION
    onnx.checker.check_model(made)
    return made


def constant(name, array):
    return numpy_helper.from_array(numpy.asarray(array), name)


def write(folder, made, config=None, version=1):
    """One version of a model; no config leaves all to auto-completion."""
    target = folder / str(version)
    target.mkdir(parents=True, exist_ok=True)
    onnx.save(made, str(target / "model.onnx"))
    if config is not None:
        write_config(folder, config)


def write_config(folder, config):
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(f'name: "{folder.name}"\n{config.strip()}\n')


def tensor(kind, name, config_type, dims, more=""):
    return f'{kind} {{ name: "{name}" data_type: {config_type} dims: {list(dims)} {more}}}\n'


def onnx_config(max_batch_size, *tensors, more=""):
    return (f'backend: "onnxruntime"\nmax_batch_size: {max_batch_size}\n' + "".join(tensors) + more)


# ---- arithmetic --------------------------------------------------------------------------------


def add_sub(onnx_type, *dims):
    return model(
        [helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
         helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"])],
        [value("INPUT0", onnx_type, *dims), value("INPUT1", onnx_type, *dims)],
        [value("OUTPUT0", onnx_type, *dims), value("OUTPUT1", onnx_type, *dims)])


def add_sub_config(max_batch_size, config_type, dims, more=""):
    return onnx_config(
        max_batch_size,
        tensor("input", "INPUT0", config_type, dims), tensor("input", "INPUT1", config_type, dims),
        tensor("output", "OUTPUT0", config_type, dims),
        tensor("output", "OUTPUT1", config_type, dims), more=more)


@good("simple")
def make_simple(folder):
    write(folder, add_sub(TensorProto.INT32, None, 16), add_sub_config(8, "TYPE_INT32", [16]))


@good("divide")
def make_divide(folder):
    write(folder, model(
        [helper.make_node("Div", ["INPUT0", "INPUT1"], ["QUOTIENT"]),
         helper.make_node("Mod", ["INPUT0", "INPUT1"], ["REMAINDER"])],
        [value("INPUT0", TensorProto.INT32, 2), value("INPUT1", TensorProto.INT32, 2)],
        [value("QUOTIENT", TensorProto.INT32, 2), value("REMAINDER", TensorProto.INT32, 2)]))


@good("simple_batched")
def make_simple_batched(folder):
    write(folder, add_sub(TensorProto.INT32, None, 16),
          add_sub_config(8, "TYPE_INT32", [16],
                         "dynamic_batching { max_queue_delay_microseconds: 1000 }\n"))


@good("add_sub_fp32")
def make_add_sub_fp32(folder):
    write(folder, add_sub(TensorProto.FLOAT, None, 16), add_sub_config(8, "TYPE_FP32", [16]))


@good("add_sub_nobatch")
def make_add_sub_nobatch(folder):
    write(folder, add_sub(TensorProto.FLOAT, 4, 4), add_sub_config(0, "TYPE_FP32", [4, 4]))


@good("versions")
def make_versions(folder):
    """Three versions whose outputs tell which one answered: the input plus 1, 2 or 3."""
    for version in (1, 2, 3):
        write(folder, model(
            [helper.make_node("Add", ["INPUT", "BY"], ["OUTPUT"])],
            [value("INPUT", TensorProto.FLOAT, None, 1)],
            [value("OUTPUT", TensorProto.FLOAT, None, 1)],
            [constant("BY", numpy.float32([version]))]), version=version)
    write_config(folder, onnx_config(4, tensor("input", "INPUT", "TYPE_FP32", [1]),
                                     tensor("output", "OUTPUT", "TYPE_FP32", [1]),
                                     more="version_policy { all {} }\n"))


@good("row_mean")
def make_row_mean(folder):
    """A reduction: [rows, anything] to [rows, 1]."""
    write(folder, model(
        [helper.make_node("ReduceMean", ["INPUT"], ["OUTPUT"], axes=[1], keepdims=1)],
        [value("INPUT", TensorProto.FLOAT, None, None)],
        [value("OUTPUT", TensorProto.FLOAT, None, 1)]),
        onnx_config(8, tensor("input", "INPUT", "TYPE_FP32", [-1]),
                    tensor("output", "OUTPUT", "TYPE_FP32", [1]), more="dynamic_batching { }\n"))


@good("row_max")
def make_row_max(folder):
    """One number per row, so that nothing is left of the shape without the batch dimension."""
    write(folder, model(
        [helper.make_node("ReduceMax", ["INPUT"], ["OUTPUT"], axes=[1], keepdims=0)],
        [value("INPUT", TensorProto.FLOAT, None, 3)], [value("OUTPUT", TensorProto.FLOAT, None)]),
        onnx_config(8, tensor("input", "INPUT", "TYPE_FP32", [3]),
                    tensor("output", "OUTPUT", "TYPE_FP32", [1], "reshape { shape: [ ] } ")))


@good("scalar_output")
def make_scalar_output(folder):
    """A tensor without dimensions, which clients see as [1]."""
    write(folder, model(
        [helper.make_node("ReduceMean", ["INPUT"], ["OUTPUT"], keepdims=0)],
        [value("INPUT", TensorProto.FLOAT, None)], [value("OUTPUT", TensorProto.FLOAT)]),
        onnx_config(0, tensor("input", "INPUT", "TYPE_FP32", [-1]),
                    tensor("output", "OUTPUT", "TYPE_FP32", [1])))


@good("dynamic_axes")
def make_dynamic_axes(folder):
    """[rows, a, b] transposed to [rows, b, a]; requests of other shapes must not be mixed."""
    write(folder, model(
        [helper.make_node("Transpose", ["INPUT"], ["OUTPUT"], perm=[0, 2, 1])],
        [value("INPUT", TensorProto.INT64, "rows", "a", "b")],
        [value("OUTPUT", TensorProto.INT64, "rows", "b", "a")]),
        onnx_config(8, tensor("input", "INPUT", "TYPE_INT64", [-1, -1]),
                    tensor("output", "OUTPUT", "TYPE_INT64", [-1, -1]),
                    more="dynamic_batching { }\n"))


@good("lookup")
def make_lookup(folder):
    """The row of a table at an index; an index beyond 3 fails in the run, and only there."""
    write(folder, model(
        [helper.make_node("Gather", ["TABLE", "INDEX"], ["OUTPUT"], axis=0)],
        [value("INDEX", TensorProto.INT64, None, 1)],
        [value("OUTPUT", TensorProto.FLOAT, None, 1, 2)],
        [constant("TABLE", numpy.arange(8, dtype=numpy.float32).reshape(4, 2))]),
        onnx_config(8, tensor("input", "INDEX", "TYPE_INT64", [1]),
                    tensor("output", "OUTPUT", "TYPE_FP32", [1, 2]),
                    more="dynamic_batching { max_queue_delay_microseconds: 1000 }\n"))


@good("nonzero")
def make_nonzero(folder):
    """An output whose shape depends on the values, and may be empty."""
    write(folder, model(
        [helper.make_node("NonZero", ["INPUT"], ["OUTPUT"])],
        [value("INPUT", TensorProto.FLOAT, None)], [value("OUTPUT", TensorProto.INT64, 1, None)]),
        onnx_config(0, tensor("input", "INPUT", "TYPE_FP32", [-1]),
                    tensor("output", "OUTPUT", "TYPE_INT64", [1, -1])))


@good("mlp")
def make_mlp(folder):
    """16 -> 32 -> 4 with fixed weights: the size of a scoring model."""
    draw = numpy.random.RandomState(7)
    write(folder, model(
        [helper.make_node("Gemm", ["INPUT", "W1", "B1"], ["HIDDEN"]),
         helper.make_node("Relu", ["HIDDEN"], ["ACTIVE"]),
         helper.make_node("Gemm", ["ACTIVE", "W2", "B2"], ["OUTPUT"])],
        [value("INPUT", TensorProto.FLOAT, None, 16)],
        [value("OUTPUT", TensorProto.FLOAT, None, 4)],
        [constant("W1", draw.randn(16, 32).astype(numpy.float32)),
         constant("B1", draw.randn(32).astype(numpy.float32)),
         constant("W2", draw.randn(32, 4).astype(numpy.float32)),
         constant("B2", draw.randn(4).astype(numpy.float32))]),
        onnx_config(64, tensor("input", "INPUT", "TYPE_FP32", [16]),
                    tensor("output", "OUTPUT", "TYPE_FP32", [4]), more="dynamic_batching { }\n"))


@good("ragged")
def make_ragged(folder):
    """X is flat over the batch. Y = 2 X, cut as X was. SEEN has the numbers of the tensors that are
    made of the batch, one kind after the other, the same in each row."""
    kinds = {
        "COUNT": "BATCH_ELEMENT_COUNT", "SUM": "BATCH_ACCUMULATED_ELEMENT_COUNT",
        "SUM0": "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
        "MAX": "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", "ITEM": "BATCH_ITEM_SHAPE",
        "FLAT": "BATCH_ITEM_SHAPE_FLATTEN"}
    nodes = [helper.make_node("Add", ["X", "X"], ["Y"])]
    inputs = [value("X", TensorProto.FLOAT, None), value("ROWS", TensorProto.FLOAT, None, 1)]
    names = []
    for name in kinds:
        rank = 2 if name == "ITEM" else 1
        inputs.append(value(name, TensorProto.FLOAT, *[None] * rank))
        if name == "MAX":
            nodes.append(helper.make_node("Shape", [name], ["MAX_SHAPE"]))
            nodes.append(helper.make_node("Cast", ["MAX_SHAPE"], ["MAX_FLAT"], to=TensorProto.FLOAT))
        else:
            nodes.append(helper.make_node("Reshape", [name, "FLAT_SHAPE"], [f"{name}_FLAT"]))
        names.append(f"{name}_FLAT")
    nodes.append(helper.make_node("Concat", names, ["ALL"], axis=0))
    nodes.append(helper.make_node("Mul", ["ROWS", "ZERO"], ["ZEROS"]))
    nodes.append(helper.make_node("Add", ["ZEROS", "ALL"], ["SEEN"]))
    made = model(nodes, inputs,
                 [value("Y", TensorProto.FLOAT, None), value("SEEN", TensorProto.FLOAT, None, None)],
                 [constant("FLAT_SHAPE", numpy.array([-1])),
                  constant("ZERO", numpy.array([0], numpy.float32))])
    more = "".join(
        f'batch_input {{ kind: {kind} target_name: "{name}" data_type: TYPE_FP32 source_input: "X" }}\n'
        for name, kind in kinds.items())
    more += ('batch_output { target_name: "Y" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }\n'
             'dynamic_batching { preferred_batch_size: [ 3 ] max_queue_delay_microseconds: 5000000 }\n')
    write(folder, made, onnx_config(
        3, tensor("input", "X", "TYPE_FP32", [-1], "allow_ragged_batch: true"),
        tensor("input", "ROWS", "TYPE_FP32", [1]), tensor("output", "Y", "TYPE_FP32", [-1]),
        tensor("output", "SEEN", "TYPE_FP32", [-1]), more=more))


@good("unknown_output")
def make_unknown_output_shape(folder):
    """OUTPUT has no shape in the file, and none can be inferred: it is SHAPE's value."""
    nodes = [helper.make_node("Reshape", ["INPUT", "SHAPE"], ["OUTPUT"])]
    made = model(nodes, [value("INPUT", TensorProto.FLOAT, 2), value("SHAPE", TensorProto.INT64, None)],
                 [value("OUTPUT", TensorProto.FLOAT, None)])
    made.graph.output[0].type.tensor_type.ClearField("shape")
    write(folder, made, onnx_config(
        0, tensor("input", "INPUT", "TYPE_FP32", [2]), tensor("input", "SHAPE", "TYPE_INT64", [-1]),
        tensor("output", "OUTPUT", "TYPE_FP32", [2])))


@good("override")
def make_override(folder):
    """OUTPUT = INPUT * SCALE, where SCALE is an initializer that is also an input: 2 and 3 unless it
    is sent."""
    nodes = [helper.make_node("Mul", ["INPUT", "SCALE"], ["OUTPUT"])]
    made = model(nodes, [value("INPUT", TensorProto.FLOAT, 2), value("SCALE", TensorProto.FLOAT, 2)],
                 [value("OUTPUT", TensorProto.FLOAT, 2)],
                 [constant("SCALE", numpy.array([2, 3], numpy.float32))])
    write(folder, made, onnx_config(
        0, tensor("input", "INPUT", "TYPE_FP32", [2]),
        tensor("input", "SCALE", "TYPE_FP32", [2], "optional: true"),
        tensor("output", "OUTPUT", "TYPE_FP32", [2])))


@good("external")
def make_external(folder):
    """A directory in place of the file, with the weights in a file of their own."""
    target = folder / "1" / "model.onnx"
    target.mkdir(parents=True, exist_ok=True)
    made = model(
        [helper.make_node("Add", ["INPUT", "BY"], ["OUTPUT"])],
        [value("INPUT", TensorProto.FLOAT, None, 1024)],
        [value("OUTPUT", TensorProto.FLOAT, None, 1024)],
        [constant("BY", numpy.arange(1024, dtype=numpy.float32))])
    weights = target / "weights.bin"
    if weights.exists():
        weights.unlink()  # saving appends
    onnx.save_model(made, str(target / "model.onnx"), save_as_external_data=True,
                    all_tensors_to_one_file=True, location="weights.bin", size_threshold=0)


# ---- every type --------------------------------------------------------------------------------


def make_identity_of(config_type, onnx_type):
    def make(folder):
        write(folder, model(
            [helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])],
            [value("INPUT0", onnx_type, None, None)], [value("OUTPUT0", onnx_type, None, None)]),
            onnx_config(8, tensor("input", "INPUT0", config_type, [-1]),
                        tensor("output", "OUTPUT0", config_type, [-1]),
                        more="dynamic_batching { }\n"))
    return make


for _name, _config_type, _onnx_type in TYPES:
    MODELS[f"onnx_identity_{_name}"] = make_identity_of(_config_type, _onnx_type)


@good("join_strings")
def make_join_strings(folder):
    write(folder, model(
        [helper.make_node("Concat", ["LEFT", "RIGHT"], ["OUTPUT"], axis=1)],
        [value("LEFT", TensorProto.STRING, None, 1), value("RIGHT", TensorProto.STRING, None, 2)],
        [value("OUTPUT", TensorProto.STRING, None, 3)]),
        onnx_config(8, tensor("input", "LEFT", "TYPE_STRING", [1]),
                    tensor("input", "RIGHT", "TYPE_STRING", [2]),
                    tensor("output", "OUTPUT", "TYPE_STRING", [3]), more="dynamic_batching { }\n"))


# ---- no configuration --------------------------------------------------------------------------


@good("auto_batch")
def make_auto_batch(folder):
    write(folder, add_sub(TensorProto.FLOAT, None, 16))


@good("auto_fixed")
def make_auto_fixed(folder):
    write(folder, add_sub(TensorProto.FLOAT, 2, 3))


@good("auto_scalar")
def make_auto_scalar(folder):
    write(folder, model(
        [helper.make_node("ReduceMean", ["INPUT"], ["OUTPUT"], keepdims=0)],
        [value("INPUT", TensorProto.FLOAT, 4)], [value("OUTPUT", TensorProto.FLOAT)]))


@good("auto_partial")
def make_auto_partial(folder):
    """A configuration that says little: the rest must be completed, and this must stay."""
    write(folder, add_sub(TensorProto.FLOAT, None, 16),
          'backend: "onnxruntime"\n'
          'output { name: "OUTPUT1" label_filename: "labels.txt" }\n'
          'instance_group { count: 1 kind: KIND_CPU }\n')
    (folder / "labels.txt").write_text("".join(f"label{i}\n" for i in range(16)))


# ---- sequences ---------------------------------------------------------------------------------

START_AND_READY = """
  control_input {
    name: "START"
    control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }
  }
  control_input {
    name: "READY"
    control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] }
  }
"""


@good("sequence_sum")
def make_sequence_sum(folder):
    """The sum of a sequence so far, kept in an implicit state; READY masks empty slots."""
    kinds = ["INPUT", "START", "READY", "SUM_IN"]
    write(folder, model(
        [helper.make_node("Sub", ["ONE", "START"], ["GOES_ON"]),
         helper.make_node("Mul", ["SUM_IN", "GOES_ON"], ["BEFORE"]),
         helper.make_node("Mul", ["INPUT", "READY"], ["NOW"]),
         helper.make_node("Add", ["BEFORE", "NOW"], ["SUM"]),
         helper.make_node("Identity", ["SUM"], ["OUTPUT"]),
         helper.make_node("Identity", ["SUM"], ["SUM_OUT"])],
        [value(kind, TensorProto.INT32, None, 1) for kind in kinds],
        [value("OUTPUT", TensorProto.INT32, None, 1), value("SUM_OUT", TensorProto.INT32, None, 1)],
        [constant("ONE", numpy.int32([[1]]))]),
        onnx_config(4, tensor("input", "INPUT", "TYPE_INT32", [1]),
                    tensor("output", "OUTPUT", "TYPE_INT32", [1]), more="""
sequence_batching {
  max_sequence_idle_microseconds: 5000000
""" + START_AND_READY + """
  state {
    input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: [ 1 ]
    initial_state { name: "zero" data_type: TYPE_INT32 dims: [ 1 ] zero_data: true }
  }
}
"""))


def state(name, config_type, dims, more=""):
    return (f'state {{ input_name: "{name}_IN" output_name: "{name}_OUT" data_type: {config_type} '
            f'dims: {list(dims)} {more}}}\n')


def sequences(*parts):
    return ("sequence_batching {\n  max_sequence_idle_microseconds: 3600000000\n"
            + "".join(parts) + "}\n")


@good("sequence_mean")
def make_sequence_mean(folder):
    """Two states of different types: the sum so far, and of how many."""
    write(folder, model(
        [helper.make_node("Add", ["SUM_IN", "INPUT"], ["SUM_OUT"]),
         helper.make_node("Add", ["COUNT_IN", "ONE"], ["COUNT_OUT"]),
         helper.make_node("Cast", ["COUNT_OUT"], ["COUNT"], to=TensorProto.FLOAT),
         helper.make_node("Div", ["SUM_OUT", "COUNT"], ["OUTPUT"])],
        [value("INPUT", TensorProto.FLOAT, None, 2), value("SUM_IN", TensorProto.FLOAT, None, 2),
         value("COUNT_IN", TensorProto.INT64, None, 1)],
        [value("OUTPUT", TensorProto.FLOAT, None, 2), value("SUM_OUT", TensorProto.FLOAT, None, 2),
         value("COUNT_OUT", TensorProto.INT64, None, 1)],
        [constant("ONE", numpy.int64([[1]]))]),
        onnx_config(4, tensor("input", "INPUT", "TYPE_FP32", [2]),
                    tensor("output", "OUTPUT", "TYPE_FP32", [2]),
                    more=sequences("  oldest { max_candidate_sequences: 4 }\n  ",
                                   state("SUM", "TYPE_FP32", [2]), "  ",
                                   state("COUNT", "TYPE_INT64", [1]))))


@good("sequence_list")
def make_sequence_list(folder):
    """A state that grows: all values of the sequence, of which there are none at first."""
    write(folder, model(
        [helper.make_node("Concat", ["LIST_IN", "INPUT"], ["LIST_OUT"], axis=1),
         helper.make_node("Identity", ["LIST_OUT"], ["OUTPUT"])],
        [value("INPUT", TensorProto.INT32, None, 1), value("LIST_IN", TensorProto.INT32, None, None)],
        [value("OUTPUT", TensorProto.INT32, None, None),
         value("LIST_OUT", TensorProto.INT32, None, None)]),
        onnx_config(4, tensor("input", "INPUT", "TYPE_INT32", [1]),
                    tensor("output", "OUTPUT", "TYPE_INT32", [-1]),
                    more=sequences("  oldest { max_candidate_sequences: 4 }\n  ", state(
                        "LIST", "TYPE_INT32", [-1],
                        'initial_state { name: "none" data_type: TYPE_INT32 dims: [ 0 ] '
                        'zero_data: true } '))))


@good("sequence_before")
def make_sequence_before(folder):
    """The text that the request before had; a file has the one before the first."""
    write(folder, model(
        [helper.make_node("Identity", ["TEXT_IN"], ["OUTPUT"]),
         helper.make_node("Identity", ["INPUT"], ["TEXT_OUT"])],
        [value("INPUT", TensorProto.STRING, 1), value("TEXT_IN", TensorProto.STRING, 1)],
        [value("OUTPUT", TensorProto.STRING, 1), value("TEXT_OUT", TensorProto.STRING, 1)]),
        onnx_config(0, tensor("input", "INPUT", "TYPE_STRING", [1]),
                    tensor("output", "OUTPUT", "TYPE_STRING", [1]), more=sequences("  ", state(
                        "TEXT", "TYPE_STRING", [1],
                        'initial_state { name: "first" data_type: TYPE_STRING dims: [ 1 ] '
                        'data_file: "first" } '))))
    (folder / "initial_state").mkdir(exist_ok=True)
    (folder / "initial_state" / "first").write_bytes(b"\7\0\0\0nothing")


@good("sequence_from_file")
def make_sequence_from_file(folder):
    """Begins at what a file says, in one buffer; clients may see the state as an output."""
    write(folder, model(
        [helper.make_node("Add", ["SUM_IN", "INPUT"], ["SUM_OUT"]),
         helper.make_node("ReduceMax", ["SUM_IN"], ["OUTPUT"], keepdims=1)],
        [value("INPUT", TensorProto.INT64, 3), value("SUM_IN", TensorProto.INT64, 3)],
        [value("OUTPUT", TensorProto.INT64, 1), value("SUM_OUT", TensorProto.INT64, 3)]),
        onnx_config(0, tensor("input", "INPUT", "TYPE_INT64", [3]),
                    tensor("output", "OUTPUT", "TYPE_INT64", [1]),
                    tensor("output", "SUM_OUT", "TYPE_INT64", [3]), more=sequences("  ", state(
                        "SUM", "TYPE_INT64", [3],
                        'use_same_buffer_for_input_output: true '
                        'initial_state { name: "first" data_type: TYPE_INT64 dims: [ 3 ] '
                        'data_file: "sum.bin" } '))))
    (folder / "initial_state").mkdir(exist_ok=True)
    (folder / "initial_state" / "sum.bin").write_bytes(numpy.int64([100, 200, 300]).tobytes())


# ---- the other backends ------------------------------------------------------------------------


@good("identity")
def make_identity(folder):
    write_config(folder, 'backend: "identity"\nmax_batch_size: 8\n'
                 + tensor("input", "INPUT0", "TYPE_FP32", [-1])
                 + tensor("output", "OUTPUT0", "TYPE_FP32", [-1]))


def make_identity_backend_of(config_type):
    def make(folder):
        write_config(folder, 'backend: "identity"\nmax_batch_size: 8\n'
                     + tensor("input", "INPUT0", config_type, [-1])
                     + tensor("output", "OUTPUT0", config_type, [-1]))
    return make


for _name, _config_type, _onnx_type in TYPES:
    MODELS[f"identity_{_name}"] = make_identity_backend_of(_config_type)


@good("identity_parameters")
def make_identity_parameters(folder):
    write_config(folder, 'backend: "identity"\nmax_batch_size: 0\n'
                 + tensor("input", "INPUT0", "TYPE_INT32", [-1])
                 + tensor("output", "OUTPUT0", "TYPE_INT32", [-1])
                 + 'parameters { key: "response_parameters" value { string_value: "true" } }\n'
                 + 'parameters { key: "byte_size_metric" value { string_value: "true" } }\n')


TESTING_OUTPUTS = "".join(
    tensor("output", name, "TYPE_INT64", [1])
    for name in ("EXECUTIONS", "BATCH_ROWS", "REQUESTS", "RESPONSE", "FLAGS"))


@good("testing")
def make_testing(folder):
    write_config(folder, 'backend: "testing"\nmax_batch_size: 8\n'
                 + tensor("input", "INPUT0", "TYPE_INT32", [-1])
                 + tensor("output", "OUTPUT0", "TYPE_INT32", [-1]) + TESTING_OUTPUTS
                 + tensor("output", "INSTANCE", "TYPE_STRING", [1])
                 + "dynamic_batching { }\ninstance_group { kind: KIND_CPU count: 1 }\n")


@good("testing_decoupled")
def make_testing_decoupled(folder):
    write_config(folder, 'backend: "testing"\nmax_batch_size: 0\n'
                 + tensor("input", "INPUT0", "TYPE_INT32", [-1])
                 + tensor("output", "OUTPUT0", "TYPE_INT32", [-1]) + TESTING_OUTPUTS
                 + "model_transaction_policy { decoupled: true }\n"
                 + 'parameters { key: "responses" value { string_value: "3" } }\n')


# ---- models that must not load -----------------------------------------------------------------


@broken("missing_file")
def make_missing_file(folder):
    write_config(folder, add_sub_config(8, "TYPE_INT32", [16]))


@broken("empty_directory")
def make_empty_directory(folder):
    write_config(folder, add_sub_config(8, "TYPE_INT32", [16]))
    (folder / "1" / "model.onnx").mkdir(parents=True, exist_ok=True)


@broken("corrupt_file")
def make_corrupt_file(folder):
    write_config(folder, add_sub_config(8, "TYPE_INT32", [16]))
    (folder / "1" / "model.onnx").write_bytes(b"this is no protobuf message" * 10)


@broken("outside_file")
def make_outside_file(folder):
    write(folder, add_sub(TensorProto.INT32, None, 16),
          add_sub_config(8, "TYPE_INT32", [16], 'default_model_filename: "../1/model.onnx"\n'))


@broken("unknown_input")
def make_unknown_input(folder):
    write(folder, add_sub(TensorProto.INT32, None, 16),
          add_sub_config(8, "TYPE_INT32", [16]).replace('"INPUT1"', '"INPUT2"'))


@broken("too_many_inputs")
def make_too_many_inputs(folder):
    write(folder, add_sub(TensorProto.INT32, None, 16),
          add_sub_config(8, "TYPE_INT32", [16]) + tensor("input", "INPUT2", "TYPE_INT32", [16]))


@broken("unknown_output")
def make_unknown_output(folder):
    write(folder, add_sub(TensorProto.INT32, None, 16),
          add_sub_config(8, "TYPE_INT32", [16]) + tensor("output", "OUTPUT2", "TYPE_INT32", [16]))


@broken("wrong_type")
def make_wrong_type(folder):
    write(folder, add_sub(TensorProto.INT32, None, 16), add_sub_config(8, "TYPE_FP32", [16]))


@broken("wrong_dims")
def make_wrong_dims(folder):
    write(folder, add_sub(TensorProto.INT32, None, 16), add_sub_config(8, "TYPE_INT32", [8]))


@broken("wrong_rank")
def make_wrong_rank(folder):
    write(folder, add_sub(TensorProto.INT32, None, 16), add_sub_config(8, "TYPE_INT32", [4, 4]))


@broken("no_batch_dimension")
def make_no_batch_dimension(folder):
    write(folder, add_sub(TensorProto.INT32, 1, 16), add_sub_config(8, "TYPE_INT32", [16]))


@broken("bad_parameter")
def make_bad_parameter(folder):
    write(folder, add_sub(TensorProto.INT32, None, 16), add_sub_config(
        8, "TYPE_INT32", [16],
        'parameters { key: "intra_op_thread_count" value { string_value: "many" } }\n'))


def make_sequence_of(states):
    def make(folder):
        write(folder, model(
            [helper.make_node("Add", ["SUM_IN", "INPUT"], ["SUM_OUT"]),
             helper.make_node("Identity", ["SUM_OUT"], ["OUTPUT"])],
            [value("INPUT", TensorProto.FLOAT, None, 2), value("SUM_IN", TensorProto.FLOAT, None, 2)],
            [value("OUTPUT", TensorProto.FLOAT, None, 2),
             value("SUM_OUT", TensorProto.FLOAT, None, 2)]),
            onnx_config(4, tensor("input", "INPUT", "TYPE_FP32", [2]),
                        tensor("output", "OUTPUT", "TYPE_FP32", [2]), more=sequences(states)))
    return make


BROKEN["state_without_output"] = make_sequence_of(
    'state { input_name: "SUM_IN" output_name: "NEXT" data_type: TYPE_FP32 dims: [ 2 ] }\n')
BROKEN["state_of_another_type"] = make_sequence_of(state("SUM", "TYPE_FP64", [2]))
BROKEN["state_of_another_shape"] = make_sequence_of(state("SUM", "TYPE_FP32", [3]))
BROKEN["state_file_outside"] = make_sequence_of(state(
    "SUM", "TYPE_FP32", [2], 'initial_state { name: "s" data_type: TYPE_FP32 dims: [ 2 ] '
    'data_file: "../config.pbtxt" } '))


@broken("fails_to_load")
def make_fails_to_load(folder):
    write_config(folder, 'backend: "testing"\n'
                 + tensor("input", "INPUT0", "TYPE_INT32", [-1])
                 + tensor("output", "OUTPUT0", "TYPE_INT32", [-1])
                 + 'parameters { key: "fail_load" value { string_value: "told to fail" } }\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these models only")
    arguments = parser.parse_args()
    unknown = set(arguments.only or ()) - set(MODELS) - set(BROKEN)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    for repository, models in (("good", MODELS), ("broken", BROKEN)):
        (arguments.target / repository).mkdir(parents=True, exist_ok=True)
        for name, make in models.items():
            if not arguments.only or name in arguments.only:
                make(arguments.target / repository / name)


if __name__ == "__main__":
    main()
