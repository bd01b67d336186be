# SPDX-License-Identifier: BSD-3-Clause
"""A client that may load models tries names of files and programs that are easily forgotten.

Each way sends one load or setting. What must hold: none of the refused ways is accepted, no program
of the client runs, nothing outside of the model's directory is written, others are served.
"""
import base64
import hashlib
import json
import os
import pathlib
import sys
import tempfile
import types

import grpc
import requests

import attack
import grpc_stubs
from session_options import onnx_file

OPTIONS = ("--model-control-mode=explicit",
           f"--backend-config=python,python-path={sys.executable}")
VERBOSE = "NESO_ATTACK_VERBOSE" in os.environ
TENSORS = {"input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [4]}],
           "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [4]}]}
SEQUENCE = {"sequence_batching": {"state": [{
    "input_name": "S", "output_name": "T", "data_type": "TYPE_FP32", "dims": [4],
    "initial_state": [{"name": "s", "data_type": "TYPE_FP32", "dims": [4],
                       "data_file": "../../../outside"}]}]}}


PROGRAM = b"class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"


def config(backend="identity", **more):
    return json.dumps({"name": "m", "backend": backend, "max_batch_size": 0, **TENSORS, **more})


def onnx(**more):
    return json.dumps({"name": "m", "backend": "onnxruntime", "max_batch_size": 0, **more})


def parameter(key, value):
    return {"parameters": {key: {"string_value": value}}}


def warmup(name):
    return {"model_warmup": [{"name": "w", "batch_size": 1, "inputs": {"INPUT0": {
        "data_type": "TYPE_FP32", "dims": [4], "input_data_file": name}}}]}


def agent(name, value):
    return {"model_repository_agents": {"agents": [{"name": "checksum",
                                                    "parameters": {name: value}}]}}


def ways(evil, outside):
    """Name, configuration, files, further parameters of the load."""
    env = '"EXECUTION_ENV_PATH":{"string_value":"%s"}' % (outside.parent / "env")
    twice = config("python")[:-1] + ',"parameters":{},"parameters":{%s}}' % env
    escaped = (config("python")[:-1] + ',"parameters":{%s}}' % env).replace("EXECUTION_ENV",
                                                                           "EXECUTION\\u005fENV")
    program = {"1/program.txt": evil}
    named = {"default_model_filename": "program.txt"}
    yield "python: a program whose name ends in .txt", config("python", **named), program, {}
    yield "python: a program without an ending", config(
        "python", default_model_filename="model"), {"1/model": evil}, {}
    yield "python: model.PY", config("python", default_model_filename="model.PY"), {
        "1/model.PY": evil}, {}
    yield "python: a path of another model", config(
        "python", default_model_filename="../../victim/1/program.txt"), {}, {}
    yield "python: a package beside the program", config("python"), {
        "1/numpy/__init__.py": evil}, {}
    yield "python: a .pth file", config("python"), {"1/site.pth": evil}, {}
    yield "python: an environment, parameters twice", twice, {}, {}
    yield "python: an environment, its key escaped", escaped, {}, {}
    yield "python: an instance named like an option", config("python", instance_group=[
        {"name": "-c open('proof','w')", "count": 1, "kind": "KIND_CPU"}]), {}, {}
    yield "backend: a path", config("../../" + outside.name), {}, {}
    yield "backend: python with a slash", config("python/../python"), {}, {}
    yield "runtime: a path", config(runtime=str(outside)), {}, {}
    yield "runtime: an uploaded name", config(runtime="x.bin"), {"1/x.bin": evil}, {}
    yield "scheduler: a path", config(**parameter("scheduler", "../../../x")), {}, {}
    yield "default_model_filename: absolute", onnx(default_model_filename=str(outside)), {}, {}
    yield "cc_model_filenames: a path", onnx(cc_model_filenames={"7.5": str(outside)},
                                             default_model_filename="none"), {}, {}
    yield "warm-up: a path", config(**warmup("../../outside")), {}, {}
    yield "warm-up: a device", config(**warmup("/dev/zero")), {}, {}
    yield "initial state: a path", config(**SEQUENCE), {}, {}
    yield "labels: a path", config(output=[{**TENSORS["output"][0],
                                           "label_filename": "../outside"}]), {}, {}
    right = hashlib.md5(bytes(16)).hexdigest()
    yield "checksum: a path", config(**agent("MD5:../outside", right)), {}, {}
    yield "agent: a path", json.dumps({**json.loads(config()), "model_repository_agents": {
        "agents": [{"name": "../../x"}]}}), {}, {}
    yield "next: a path", config(**parameter("next", "../outside")), {}, {}
    yield "load parameter next: a path", config(), {}, {"next": "../../outside"}
    yield "chain: stages with paths", json.dumps({
        "name": "m", "platform": "chain",
        **parameter("stages", "../outside")}), {}, {}
    yield "ensemble: a step with a path", json.dumps({
        "name": "m", "platform": "ensemble", **TENSORS, "ensemble_scheduling": {"step": [{
            "model_name": "../outside", "model_version": -1, "input_map": {"INPUT0": "INPUT0"},
            "output_map": {"OUTPUT0": "OUTPUT0"}}]}}), {}, {}
    yield "accelerator: OpenVINO's cache folder", onnx(optimization={"execution_accelerators": {
        "cpu_execution_accelerator": [{"name": "openvino", "parameters": {
            "cache_dir": str(outside.parent)}}]}}), {}, {}
    yield "onnxruntime: an ORT file named .ort", onnx(default_model_filename="model.ort"), {
        "1/model.ort": b"\x1c\0\0\0ORTM" + bytes(64)}, {}
    yield "onnxruntime: member_files with a path", onnx(
        instance_group=[{"name": "a", "count": 1, "kind": "KIND_CPU"}],
        **parameter("member_files", "a:../../../outside")), {}, {}
    yield "onnxruntime: a name of an option in capitals", onnx(
        **parameter("session.Optimized_model_filepath", str(outside) + ".new")), {}, {}
    for path in ("../x", "1/../../x", "/tmp/x", "1//x", "1/a\\..\\x", "1/\x01"):
        yield f"file: {path!r}", onnx(), {path: evil}, {}


def settings(outside):
    path = str(outside) + ".new"
    yield "log settings: log_file", "logging", {"log_file": path}
    yield "log settings: log_format with a path", "logging", {"log_format": path}
    yield "trace: trace_file", "trace/setting", {"trace_file": path}
    yield "trace of a model: trace_file", "models/served/trace/setting", {"trace_file": path}
    for key in ("/../outside", "..", "a/../../outside"):
        yield f"shared memory: key {key!r}", "systemsharedmemory/region/r/register", {
            "key": key, "offset": 0, "byte_size": 16}
    for name in ("..%2Foutside", "%2E%2E%2Foutside", "..", "victim%2F..%2F..%2Foutside"):
        yield f"load of the model {name!r}", f"repository/models/{name}/load", {}
    yield "load from another repository", "repository/..%2F/models/outside/load", {}


def unknown_settings(outside):
    """Members without a meaning are ignored, as in Triton: the settings stay as they are."""
    path = str(outside) + ".new"
    return {"trace_mode": "opentelemetry", "url": "file://" + path, "triton,file": path}


def post(server, path, body):
    reply = requests.post(f"{server.url}/v2/{path}", json=body, timeout=20)
    return reply.status_code, reply.text


def load_by_name(server, folder):
    """Over gRPC, where a name is any text, with files: the code of each load, and what appeared."""
    made = grpc_stubs.generate(folder)
    stubs = types.SimpleNamespace(service=made["grpc_service"])
    proof = "neso-name-proof"
    with grpc_stubs.open_channel(server) as channel:
        client = grpc_stubs.Client(channel, stubs)
        for name in (f"../{proof}", f"../../{proof}", f"/tmp/{proof}", "..", ".", "m/1", "m/../m"):
            request = client.pb.RepositoryModelLoadRequest(model_name=name)
            request.parameters["config"].string_param = onnx().replace('"name": "m", ', "")
            request.parameters["file:1/model.onnx"].bytes_param = onnx_file()
            try:
                client.RepositoryModelLoad(request, timeout=20)
                status, text = 200, ""
            except grpc.RpcError as e:
                status, text = 400, f"{e.code().name} {e.details()}"
            if VERBOSE:
                print(f"    {name}: {text[:300]}")
            yield attack.Figure(f"gRPC load of the model {name!r} with a file", status, "status",
                                at_least=400)
    temporary = pathlib.Path(tempfile.gettempdir())
    places = [temporary, *temporary.glob("neso-*"), pathlib.Path(server.repository),
              pathlib.Path(server.repository).parent, temporary.parent]
    yield attack.Figure("files that a name made", sum((place / proof).exists()
                                                      for place in places), at_most=0)


def model(name):
    """Environments are tried with a program of the repository, which starts without them."""
    return "prog" if "an environment" in name or "named like" in name else "m"


def measure():
    models = {"prog": {"config.pbtxt": 'backend: "python"\n', "1/model.py": PROGRAM},
              "served": {"config.pbtxt": attack.IDENTITY, "1/x": b""},
              "m": {"config.pbtxt": 'backend: "onnxruntime"\n', "1/model.onnx": onnx_file()},
              "victim": {"config.pbtxt": attack.IDENTITY, "1/program.txt": b""}}
    with attack.server(models, *OPTIONS, "--allow-client-shm=true",
                       waits_for=("http", "grpc")) as server, \
            attack.Probe(server.ports["http"]) as probe:
        folder = pathlib.Path(server.repository).parent
        outside, proof = folder / "outside", folder / "proof"
        outside.write_bytes(bytes(16))
        evil = f"open({str(proof)!r}, 'w').close()\n".encode()
        (folder / "models" / "victim" / "1" / "program.txt").write_bytes(evil)
        (folder / "env" / "bin").mkdir(parents=True)
        for program in ("activate", "python3"):
            path = folder / "env" / "bin" / program
            path.write_text(f"#!/bin/sh\ntouch {proof}\n", "ascii")
            path.chmod(0o755)
        post(server, "repository/models/served/load", {})
        before = {str(path) for path in folder.rglob("*")}
        for name, sent, files, more in ways(evil, outside):
            sent = sent.replace('"name": "m"', f'"name": "{model(name)}"', 1)
            status, text = post(server, f"repository/models/{model(name)}/load", {"parameters": {
                "config": sent, **more, **{"file:" + path: base64.b64encode(content).decode()
                                           for path, content in files.items()}}})
            if VERBOSE:
                print(f"    {status} {text[:300]}")
            at_least = 200 if "named like" in name else 400  # a name is no option: it may load
            yield attack.Figure(name, status, "status", at_least=at_least)
        for name, path, body in settings(outside):
            status, text = post(server, path, body)
            if VERBOSE:
                print(f"    {status} {text[:300]}")
            yield attack.Figure(name, status, "status", at_least=400)
        status, text = post(server, "trace/setting", {})
        yield attack.holds("unknown settings of traces change nothing", post(
            server, "trace/setting", unknown_settings(outside)) == (status, text))
        yield attack.Figure("programs of the client that ran", proof.exists(), at_most=0)
        yield attack.Figure("files that appeared", len(
            {str(path) for path in folder.rglob("*")} - before), at_most=0)
        with tempfile.TemporaryDirectory() as stubs:
            yield from load_by_name(server, pathlib.Path(stubs))
    yield attack.Figure("failed requests of the innocent client", probe.n_failed, at_most=0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
