# SPDX-License-Identifier: BSD-3-Clause
"""A client that may load models writes files of the server's user through ONNX session options.

The attacker sends a configuration for a model of the repository, and a model file whose nodes are
named like lines of a program. What must hold: no file appears, no program of the client runs, and
harmless options are accepted as before.
"""
import base64
import json
import pathlib
import sys

import requests
from onnx import TensorProto, helper

import attack

OPTIONS = ("--model-control-mode=explicit",
           f"--backend-config=python,python-path={sys.executable}")
FILE_ENTRIES = ("session.collect_node_memory_stats_to_file", "session.node_partition_config_file",
                "session.model_external_initializers_file_folder_path",
                "session.optimized_model_external_initializers_file_name",
                "session.resource_cuda_partitioning_settings",
                "session.debug_layout_transformation", "optimization.memory_optimizer_config",
                "session.of_the_future")
HARMLESS = {"session.intra_op.allow_spinning": "1", "session.inter_op.allow_spinning": "0",
            "session.use_device_allocator_for_initializers": "1",
            "session.set_denormal_as_zero": "1", "session.disable_prepacking": "1",
            "optimization.enable_gelu_approximation": "0", "intra_op_thread_count": "1",
            "execution_mode": "0", "enable_mem_arena": "1"}
PYTHON = 'backend: "python"\nmax_batch_size: 0\n'


def onnx_file(node="n"):
    tensor = helper.make_tensor_value_info("X", TensorProto.FLOAT, [4])
    graph = helper.make_graph(
        [helper.make_node("Neg", ["X"], ["T"], name=node),
         helper.make_node("Neg", ["T"], ["Y"], name="pass #")],
        "g", [tensor], [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    return model.SerializeToString()


def config(parameters, backend="onnxruntime", **more):
    return json.dumps({"name": "m", "backend": backend, "max_batch_size": 0, **more,
                       "parameters": {key: {"string_value": value}
                                      for key, value in parameters.items()}})


def load(server, name, sent, **files):
    parameters = {"config": sent}
    for path, content in files.items():
        parameters["file:" + path] = base64.b64encode(content).decode()
    return requests.post(f"{server.url}/v2/repository/models/{name}/load",
                         json={"parameters": parameters}, timeout=30).status_code


def infer(server, name):
    """Without a request there are no statistics; they are written at the end of the session."""
    requests.post(f"{server.url}/v2/models/{name}/infer", timeout=30, json={
        "inputs": [{"name": "X", "datatype": "FP32", "shape": [4], "data": [1, 2, 3, 4]}]})


def measure():
    models = {"m": {"config.pbtxt": 'backend: "onnxruntime"\n', "1/model.onnx": onnx_file()},
              "victim": {"config.pbtxt": PYTHON, "1/model.py": b"raise SystemExit\n"}}
    with attack.server(models, *OPTIONS) as server, attack.Probe(server.ports["http"]) as probe:
        folder = pathlib.Path(server.repository)
        proof = folder.parent / "proof"
        program = folder / "victim" / "1" / "model.py"
        before = program.read_bytes()
        # Each line of the statistics begins with the name of a node.
        evil = onnx_file(f"open({str(proof)!r}, 'w').close()\nraise SystemExit #")
        sent = config({"session.collect_node_memory_stats_to_file": str(program)})
        load(server, "m", sent, **{"1/model.onnx": evil})
        infer(server, "m")
        requests.post(f"{server.url}/v2/repository/models/m/unload", timeout=30)
        requests.post(f"{server.url}/v2/repository/models/victim/load", timeout=30)
        yield attack.holds("the program of another model is unchanged",
                           program.read_bytes() == before)
        yield attack.Figure("programs of the client that ran", proof.exists(), at_most=0)
        n_taken = n_files = 0
        for number, entry in enumerate(FILE_ENTRIES):
            path = folder.parent / f"written{number}"
            n_taken += load(server, "m", config({entry: str(path)})) == 200
            n_taken += load(server, "m", config({entry: str(path)}),
                            **{"1/model.onnx": onnx_file()}) == 200
            n_files += path.exists()
        yield attack.Figure(f"loads with one of {len(FILE_ENTRIES)} entries taken", n_taken,
                            at_most=0)
        yield attack.Figure("files written", n_files, at_most=0)
        n_taken = sum(load(server, "m", config({key: value})) == 200
                      for key, value in HARMLESS.items())
        yield attack.Figure(f"loads with one of {len(HARMLESS)} harmless parameters taken", n_taken,
                            at_least=len(HARMLESS))
    yield attack.Figure("failed requests of the innocent client", probe.n_failed, at_most=0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
