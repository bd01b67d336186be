# SPDX-License-Identifier: BSD-3-Clause
"""A client that may load models reads files of the server's user as the weights of an ONNX model.

The attacker uploads model files whose tensors have their data outside: at an absolute path, with
"..", in a constant, in a subgraph, in a function, at an address of memory. What must hold: no byte
of such a file comes back, and weights beside the model file are read as before.
"""
import base64
import json
import pathlib
import time

import requests
from onnx import TensorProto, helper

import attack

SECRET = bytes(range(64, 128))
CONFIG = json.dumps({"name": "m", "backend": "onnxruntime", "max_batch_size": 0})


def external(name, location, offset=0):
    tensor = TensorProto(name=name, data_type=TensorProto.UINT8, dims=[64],
                         data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", str(offset)), ("length", "64")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def made(nodes, initializers=(), functions=()):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("X", TensorProto.BOOL, [1])],
        [helper.make_tensor_value_info("Y", TensorProto.UINT8, [64])], list(initializers))
    model = helper.make_model(graph, functions=functions, opset_imports=[
        helper.make_opsetid("", 15), helper.make_opsetid("mine", 1)])
    model.ir_version = 8
    return model.SerializeToString()


def constant(location, output="C"):
    return helper.make_node("Constant", [], [output], value=external("c", location))


def same(name, output="Y"):
    return helper.make_node("Identity", [name], [output])


def branch(location):
    return helper.make_graph([constant(location, "B")], "b", [], [
        helper.make_tensor_value_info("B", TensorProto.UINT8, [64])])


def model_files(location):
    """Each place of a model file that may have external data."""
    function = helper.make_function("mine", "F", [], ["O"], [constant(location, "O")],
                                    [helper.make_opsetid("", 15)])
    return {"an initializer": made([same("w")], [external("w", location)]),
            "a constant": made([constant(location), same("C")]),
            "a subgraph": made([helper.make_node("If", ["X"], ["Y"], then_branch=branch(location),
                                                 else_branch=branch(location))]),
            "a function": made([helper.make_node("F", [], ["Y"], domain="mine")],
                               functions=[function])}


def post(server, path, **body):
    return requests.post(f"{server.url}/v2/{path}", json=body, timeout=30)


def load(server, **files):
    return post(server, "repository/models/m/load", parameters={
        "config": CONFIG, **{"file:" + path: base64.b64encode(content).decode()
                             for path, content in files.items()}})


def answer(server):
    """The 64 bytes that the model returns."""
    reply = post(server, "models/m/infer", inputs=[
        {"name": "X", "datatype": "BOOL", "shape": [1], "data": [True]}])
    if reply.status_code != 200:
        return None
    return bytes(reply.json()["outputs"][0]["data"])


def survives_address(server):
    """The runtime takes this location for its own: the offset is an address."""
    model = made([same("w")], [external("w", "*/_ORT_MEM_ADDR_/*", 4096)])
    try:
        reply = load(server, **{"1/model.onnx": model, "1/*/_ORT_MEM_ADDR_/*": SECRET})
    except requests.ConnectionError:
        return False
    return reply.status_code != 200 and server.process.poll() is None


def measure():
    with attack.server({}, "--model-control-mode=explicit") as server, \
            attack.Probe(server.ports["http"]) as probe:
        secret = pathlib.Path(server.repository).parent / "secret"
        secret.write_bytes(SECRET)
        n_leaks = n_loads = n_unnamed = 0
        slowest = 0.0
        for location in (str(secret), "../" * 12 + str(secret)[1:], "/proc/self/environ"):
            for content in model_files(location).values():
                begun = time.monotonic()
                reply = load(server, **{"1/model.onnx": content})
                slowest = max(slowest, time.monotonic() - begun)
                n_loads += reply.status_code == 200
                n_leaks += reply.status_code == 200 and answer(server) is not None
                n_unnamed += location not in reply.text or "initializer" not in reply.text
        yield attack.Figure("loads with data outside of the model taken", n_loads, at_most=0)
        yield attack.Figure("answers with bytes of other files", n_leaks, at_most=0)
        yield attack.Figure("refusals that do not name tensor and path", n_unnamed, at_most=0)
        n_right = 0
        for content in model_files("weights").values():
            reply = load(server, **{"1/model.onnx": content, "1/weights": SECRET})
            n_right += reply.status_code == 200 and answer(server) == SECRET
        yield attack.Figure("kinds of models with weights beside them that answer", n_right,
                            at_least=4)
        # 16 MiB of empty messages and a mistake behind them: the time is that of the check alone.
        many = made([same("w")], [external("w", "weights")]) + b"\x3a\x80\x80\x80\x08" + (
            b"\x0a\x02\x2a\x00" * (4 << 20)) + b"\x3c"
        begun = time.monotonic()
        reply = load(server, **{"1/model.onnx": many, "1/weights": SECRET})
        yield attack.holds("a file with a mistake at its end is refused", reply.status_code != 200)
        yield attack.Figure("load of 16 MiB of empty messages", time.monotonic() - begun, "s",
                            at_most=5)
        yield attack.Figure("slowest refusal", 1e3 * slowest, "ms", at_most=2000)
        yield attack.holds("the server lives after an address of memory", survives_address(server))
    yield attack.Figure("failed requests of the innocent client", probe.n_failed, at_most=0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
