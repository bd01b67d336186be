#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the example models that are made rather than kept with the sources.

    make_models.py TARGET

TARGET/pictures is a small residual network for pictures of 3x96x96, with 100 classes and about
5 MB of weights. The weights are random (seeded, so that the file is the same each time): it has
the size, the operators and the arithmetic of the real thing, 46 million multiply-adds a picture,
but it has learned nothing, and its classes mean nothing.

TARGET/accumulator adds up the numbers of a sequence. It remembers nothing itself: the sum so far is
an implicit state, an output of one request that the server gives as an input to the next one.

TARGET/embedder makes vectors of texts for the OpenAI API, as a chain: python_models/text_bytes makes
numbers of a text's bytes, and text_network, whose weights are random, too, makes the vector: a
convolution over the bytes, and the mean of what it finds. Texts with the same pieces have near vectors.

Needs python3-numpy and python3-onnx.
"""
import pathlib
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 11
N_CLASSES = 100
PICTURE = (3, 96, 96)
STAGES = [32, 64, 128, 256]  # channels; each stage halves rows and columns, but for the first

OPSET = 17
IR_VERSION = 8

CONFIG = """\
name: "pictures"
backend: "onnxruntime"
max_batch_size: 8

# Red, green and blue planes, values from 0 to 1.
input { name: "picture" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 96, 96 ] }
output { name: "scores" data_type: TYPE_FP32 dims: [ 100 ] label_filename: "labels.txt" }

instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { }
"""


class Graph:
    """Nodes and weights in the making. Every function takes and gives names of tensors."""

    def __init__(self):
        self.random = numpy.random.default_rng(SEED)
        self.nodes = []
        self.weights = []

    def weight(self, shape, spread):
        values = self.random.normal(0, spread, shape).astype(numpy.float32)
        self.weights.append(numpy_helper.from_array(values, f"weight{len(self.weights)}"))
        return self.weights[-1].name

    def add(self, operator, *inputs, output=None, **attributes):
        output = output or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def conv(self, x, n_inputs, n_outputs, size, stride, gain=1.0):
        spread = gain * (2 / (n_inputs * size * size)) ** 0.5
        return self.add("Conv", x, self.weight((n_outputs, n_inputs, size, size), spread),
                        self.weight((n_outputs,), 0.02), kernel_shape=[size, size],
                        strides=[stride, stride], pads=[size // 2] * 4)

    def block(self, x, n_inputs, n_outputs, stride):
        """Two convolutions and the way around them; half gain keeps the sum from growing."""
        y = self.add("Relu", self.conv(x, n_inputs, n_outputs, 3, stride))
        y = self.conv(y, n_outputs, n_outputs, 3, 1, gain=0.5)
        if stride != 1 or n_inputs != n_outputs:
            x = self.conv(x, n_inputs, n_outputs, 1, stride, gain=0.7)
        return self.add("Relu", self.add("Add", x, y))


def finish_model(graph, name, inputs, outputs):
    made = helper.make_model(helper.make_graph(graph.nodes, name, inputs, outputs, graph.weights),
                             producer_name="examples/make_models.py",
                             opset_imports=[helper.make_opsetid("", OPSET)])
    made.ir_version = IR_VERSION
    onnx.checker.check_model(made, full_check=True)
    return made


def make_network():
    graph = Graph()
    x = graph.add("Relu", graph.conv("picture", PICTURE[0], STAGES[0], 7, 2))
    x = graph.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    n_channels = STAGES[0]
    for number, n_outputs in enumerate(STAGES):
        x = graph.block(x, n_channels, n_outputs, 1 if number == 0 else 2)
        n_channels = n_outputs
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x))
    x = graph.add("Gemm", x, graph.weight((n_channels, N_CLASSES), 3 / n_channels ** 0.5),
                  graph.weight((N_CLASSES,), 0.02))
    graph.add("Softmax", x, output="scores", axis=1)
    return finish_model(
        graph, "pictures",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["batch", *PICTURE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", N_CLASSES])])


def make_pictures(target):
    version = target / "pictures" / "1"
    version.mkdir(parents=True, exist_ok=True)
    onnx.save(make_network(), str(version / "model.onnx"))
    labels = "".join(f"class {number}\n" for number in range(N_CLASSES))
    (target / "pictures" / "labels.txt").write_text(labels)
    (target / "pictures" / "config.pbtxt").write_text(CONFIG)


ACCUMULATOR = """\
name: "accumulator"
backend: "onnxruntime"
max_batch_size: 8

input { name: "number" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "sum" data_type: TYPE_FP32 dims: [ 1 ] }

# Up to eight sequences at a time on each instance; of each, the server keeps the sum so far.
sequence_batching {
  oldest { max_candidate_sequences: 8 }
  state { input_name: "sum_before" output_name: "sum_after" data_type: TYPE_FP32 dims: [ 1 ] }
}

instance_group { count: 1 kind: KIND_CPU }
"""


def make_accumulator(target):
    def tensor(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 1])

    made = helper.make_model(
        helper.make_graph(
            [helper.make_node("Add", ["sum_before", "number"], ["sum_after"]),
             helper.make_node("Identity", ["sum_after"], ["sum"])],
            "accumulator", [tensor("number"), tensor("sum_before")],
            [tensor("sum"), tensor("sum_after")]),
        producer_name="examples/make_models.py",
        opset_imports=[helper.make_opsetid("", OPSET)])
    made.ir_version = IR_VERSION
    onnx.checker.check_model(made, full_check=True)
    version = target / "accumulator" / "1"
    version.mkdir(parents=True, exist_ok=True)
    onnx.save(made, str(version / "model.onnx"))
    (target / "accumulator" / "config.pbtxt").write_text(ACCUMULATOR)


N_BYTES = 128  # of a text, as python_models/text_bytes has it
N_FEATURES = 64

TEXT_NETWORK = """\
name: "text_network"
backend: "onnxruntime"
max_batch_size: 64

input { name: "tokens" data_type: TYPE_INT64 dims: [ 128 ] }
output { name: "vector" data_type: TYPE_FP32 dims: [ 64 ] }
output { name: "num_input_tokens" data_type: TYPE_INT32 dims: [ 1 ] }

instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { }
"""

EMBEDDER = """\
name: "embedder"
platform: "chain"
parameters { key: "stages" value { string_value: "text_bytes,text_network" } }
parameters { key: "openai" value { string_value: "embeddings" } }
"""


def make_text_network():
    graph = Graph()
    number = numpy_helper.from_array
    graph.weights += [number(numpy.int64([1]), "one"), number(numpy.int64([2]), "two"),
                      number(numpy.int64(0), "zero"), number(numpy.float32(1), "least")]
    x = graph.add("Gather", graph.weight((257, N_FEATURES), 1), "tokens")
    x = graph.add("Transpose", x, perm=[0, 2, 1])
    x = graph.add("Conv", x, graph.weight((N_FEATURES, N_FEATURES, 5), (5 * N_FEATURES) ** -0.5),
                  kernel_shape=[5], pads=[2, 2])
    x = graph.add("Tanh", x)
    is_text = graph.add("Cast", graph.add("Greater", "tokens", "zero"), to=TensorProto.FLOAT)
    n_bytes = graph.add("ReduceSum", is_text, "one", keepdims=1)
    x = graph.add("Mul", x, graph.add("Unsqueeze", is_text, "one"))
    x = graph.add("ReduceSum", x, "two", keepdims=0)
    x = graph.add("Div", x, graph.add("Max", n_bytes, "least"))
    graph.add("LpNormalization", x, output="vector", axis=1, p=2)
    graph.add("Cast", n_bytes, output="num_input_tokens", to=TensorProto.INT32)

    def tensor(name, kind, n):
        return helper.make_tensor_value_info(name, kind, ["batch", n])

    return finish_model(graph, "text_network", [tensor("tokens", TensorProto.INT64, N_BYTES)],
                        [tensor("vector", TensorProto.FLOAT, N_FEATURES),
                         tensor("num_input_tokens", TensorProto.INT32, 1)])


def make_embedder(target):
    version = target / "text_network" / "1"
    version.mkdir(parents=True, exist_ok=True)
    onnx.save(make_text_network(), str(version / "model.onnx"))
    (target / "text_network" / "config.pbtxt").write_text(TEXT_NETWORK)
    (target / "embedder" / "1").mkdir(parents=True, exist_ok=True)
    (target / "embedder" / "config.pbtxt").write_text(EMBEDDER)


def make_all(target):
    make_pictures(target)
    make_accumulator(target)
    make_embedder(target)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    make_all(pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
