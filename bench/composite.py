#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Members of fixed batch sizes against one group that takes any, in turns: 3 minutes.

  bench/composite.py [--keep] [--model=convolution|dense]

ONNX files made here, once with a batch dimension of any size for one group [1,8], and once each for the
batches 1, 4 and 8 for a composite model; the same weights, one instance of each file, ONNX Runtime with one
thread each; 1 to 64 clients that send again at once. `convolution` (the default) costs as much for each row,
`dense` (four layers of 256 x 256) little more for eight rows than for two. Needs Python's onnx.
"""
import argparse
import json
import os
import tempfile

import numpy
import onnx
import onnx.numpy_helper

from batching_lab import Server, add_arguments, keep, print_ratio, take_turns, write

CLIENTS = (1, 2, 4, 8, 13, 16, 32, 64)
MODELS = {"convolution": ((1, 16, 16), (16, 1, 1)), "dense": ((256,), (256,))}
CONFIG = """\
backend: "onnxruntime" max_batch_size: 8
input {{ name: "X" data_type: TYPE_FP32 dims: {} }}
output {{ name: "Y" data_type: TYPE_FP32 dims: {} }}
dynamic_batching {{ max_queue_delay_microseconds: 2000 }}
parameters {{ key: "intra_op_thread_count" value {{ string_value: "1" }} }}
parameters {{ key: "adaptive_batching" value {{ string_value: "flow" }} }}
"""
GROUPS = {
    "one group": "instance_group { count: 1 kind: KIND_CPU }\n",
    "composite": """\
instance_group [ { name: "b1" count: 1 }, { name: "b4" count: 1 }, { name: "b8" count: 1 } ]
parameters { key: "member_files" value { string_value: "b1:m1.onnx,b4:m4.onnx,b8:m8.onnx" } }
""",
}


def onnx_file(kind, rows):
    """`rows` None: any number."""
    helper, float_type = onnx.helper, onnx.TensorProto.FLOAT
    random = numpy.random.default_rng(1)
    nodes, weights = [], []

    def weight(*shape):
        name = f"W{len(weights)}"
        values = random.standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))
        weights.append(onnx.numpy_helper.from_array(values.astype("f4"), name))
        return name

    def node(operator, inputs, **attributes):
        nodes.append(helper.make_node(operator, inputs, [f"T{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    last = "X"
    if kind == "convolution":
        for n_in, n_out in ((1, 16), (16, 32), (32, 16)):
            last = node("Conv", [last, weight(n_out, n_in, 3, 3)], pads=[1, 1, 1, 1])
            last = node("Relu", [last])
        node("GlobalAveragePool", [last])
    else:
        for _ in range(4):
            last = node("Tanh", [node("MatMul", [last, weight(256, 256)])])
    nodes[-1].output[0] = "Y"
    shape_in, shape_out = MODELS[kind]
    graph = helper.make_graph(
        nodes, kind, [helper.make_tensor_value_info("X", float_type, [rows, *shape_in])],
        [helper.make_tensor_value_info("Y", float_type, [rows, *shape_out])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def write_models(folder, kind):
    models = {}
    for group, text in GROUPS.items():
        model = models[group] = group.replace(" ", "_")
        write(folder, f"models/{model}/config.pbtxt", CONFIG.format(*map(list, MODELS[kind])) + text)
    write(folder, f"models/{models['one group']}/1/model.onnx", onnx_file(kind, None))
    for rows in (1, 4, 8):
        write(folder, f"models/{models['composite']}/1/m{rows}.onnx", onnx_file(kind, rows))
    shape = [1, *MODELS[kind][0]]
    write(folder, "body", json.dumps({"inputs": [{
        "name": "X", "shape": shape, "datatype": "FP32",
        "data": [0.5] * int(numpy.prod(shape))}]}))
    return models


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="convolution")
    add_arguments(parser, 15, 0.4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = write_models(folder, arguments.model)
        with Server(arguments.build, os.path.join(folder, "models")) as server:
            cells = take_turns(GROUPS, CLIENTS, arguments.rounds, lambda group, clients, _:
                               server.closed_loop(models[group], os.path.join(folder, "body"),
                                                  clients, arguments.seconds))
    figures = keep(f"composite_{arguments.model}",
                   f"Members 1, 4, 8 against one group [1,8], {arguments.model}; clients", CLIENTS,
                   cells, arguments)
    print_ratio(figures, "rate", "requests/s", "composite", "one group")
    print_ratio(figures, "p50_ms", "p50", "composite", "one group")


if __name__ == "__main__":
    main()
