# SPDX-License-Identifier: BSD-3-Clause
"""A repository in which a picture goes through three models: it is scaled, classified by the digits model of
examples/, and given the name of its likeliest digit. The same line as an ensemble and as a chain.

      scale                    digits                          name
  image FP32 [64] 0..255 -> image 0..16 -> probabilities [10] -> label, the text
"""
import os
import shutil

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

DIGITS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples", "models",
                      "digits")
# As digits is configured.
COMMON = ('backend: "onnxruntime"\nmax_batch_size: 64\ninstance_group { count: 1 kind: KIND_CPU }\n'
          'dynamic_batching { }\n'
          'parameters { key: "intra_op_thread_count" value { string_value: "1" } }\n')


def write_model(folder, name, config, nodes=(), tensors=(), constants=()):
    """`tensors`: the input and the output, as (name, type, size); none for a model of models."""
    os.makedirs(os.path.join(folder, name, "1"))
    with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="ascii") as file:
        file.write(config)
    if not nodes:
        return
    first, last = (helper.make_tensor_value_info(tensor, kind, ["batch", size])
                   for tensor, kind, size in tensors)
    made = helper.make_model(helper.make_graph(nodes, name, [first], [last], constants),
                             opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.checker.check_model(made, full_check=True)
    onnx.save(made, os.path.join(folder, name, "1", "model.onnx"))


def write_scale(folder):
    constants = [numpy_helper.from_array(numpy.array(value, numpy.float32), name)
                 for name, value in (("factor", 16 / 255), ("low", 0), ("high", 16))]
    write_model(folder, "scale", COMMON +
                'input { name: "image" data_type: TYPE_FP32 dims: [ 64 ] }\n'
                'output { name: "scaled" data_type: TYPE_FP32 dims: [ 64 ] }\n',
                [helper.make_node("Mul", ["image", "factor"], ["product"]),
                 helper.make_node("Clip", ["product", "low", "high"], ["scaled"])],
                [("image", TensorProto.FLOAT, 64), ("scaled", TensorProto.FLOAT, 64)], constants)


def write_name(folder):
    with open(os.path.join(DIGITS, "labels.txt"), encoding="ascii") as file:
        labels = numpy_helper.from_array(numpy.array(file.read().split(), object), "labels")
    write_model(folder, "name", COMMON +
                'input { name: "probabilities" data_type: TYPE_FP32 dims: [ 10 ] }\n'
                'output { name: "label" data_type: TYPE_STRING dims: [ 1 ] }\n',
                [helper.make_node("ArgMax", ["probabilities"], ["digit"], axis=1, keepdims=1),
                 helper.make_node("Gather", ["labels", "digit"], ["label"])],
                [("probabilities", TensorProto.FLOAT, 10), ("label", TensorProto.STRING, 1)],
                [labels])


def write_repository(folder):
    shutil.copytree(DIGITS, os.path.join(folder, "digits"))
    write_scale(folder)
    write_name(folder)
    write_model(folder, "chain", 'platform: "chain"\n'
                'parameters { key: "stages" value { string_value: "scale,digits,name" } }\n')
    steps = (("scale", "image", "image", "scaled", "scaled"),
             ("digits", "image", "scaled", "probabilities", "probabilities"),
             ("name", "probabilities", "probabilities", "label", "label"))
    write_model(folder, "ensemble", 'platform: "ensemble"\nmax_batch_size: 64\n'
                'input { name: "image" data_type: TYPE_FP32 dims: [ 64 ] }\n'
                'output { name: "label" data_type: TYPE_STRING dims: [ 1 ] }\nensemble_scheduling {\n' +
                "".join(f'step {{ model_name: "{model}" model_version: -1 '
                        f'input_map {{ key: "{taken}" value: "{source}" }} '
                        f'output_map {{ key: "{given}" value: "{target}" }} }}\n'
                        for model, taken, source, given, target in steps) + "}\n")
