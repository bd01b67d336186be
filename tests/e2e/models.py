# SPDX-License-Identifier: BSD-3-Clause
"""Models of the testing backend that tests load, change and unload, and how they are asked."""
import base64
import contextlib
import json
import os
import time

import grpc
import requests

from conftest import ON_GPU, Server, patience, write_repository
from grpc_stubs import Client, open_channel
from on_gpus import on_gpus

EXPLICIT = ("--model-control-mode=explicit",)
SECONDS = patience(20)
NAMES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 500: "INTERNAL", 501: "UNIMPLEMENTED",
         503: "UNAVAILABLE"}


def model_text(backend="testing", count=1, parameters=None, labels=None, form="text", name=None):
    """INPUT0 is repeated as OUTPUT0; EXECUTIONS and SERIAL tell models and instances apart."""
    config = {
        "backend": backend, "max_batch_size": 0,
        "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
        "instance_group": [{"count": count, "kind": "KIND_CPU"}],
    }
    if backend == "testing":
        config["output"] += [{"name": "EXECUTIONS", "data_type": "TYPE_INT64", "dims": [1]},
                             {"name": "SERIAL", "data_type": "TYPE_INT64", "dims": [1]}]
    if labels:
        config["output"][0]["label_filename"] = labels
    if name:
        config["name"] = name
    config["parameters"] = {key: {"string_value": value}
                            for key, value in (parameters or {}).items()}
    return json.dumps(config) if form == "json" else as_text(config)


def as_text(config):
    """The text form of configurations, of the few kinds of field that are used here."""
    lines = [f'backend: "{config["backend"]}" max_batch_size: {config["max_batch_size"]}']
    for kind in ("input", "output"):
        for t in config[kind]:
            labels = f' label_filename: "{t["label_filename"]}"' if "label_filename" in t else ""
            lines.append(f'{kind} {{ name: "{t["name"]}" data_type: {t["data_type"]} '
                         f'dims: {t["dims"]}{labels} }}')
    for group in config["instance_group"]:
        lines.append(f'instance_group {{ count: {group["count"]} kind: {group["kind"]} }}')
    for key, value in config["parameters"].items():
        lines.append(f'parameters {{ key: "{key}" value {{ '
                     f'string_value: "{value["string_value"]}" }} }}')
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def opens_server(folder, models, *options):
    folder.mkdir(exist_ok=True)
    write_repository(folder, models)
    server = Server(folder, options)
    try:
        yield server
    finally:
        assert server.stop() == 0, server.text()


# ---- files --------------------------------------------------------------------------------------


def write(server, path, content):
    """By a rename, so that no reader sees half of it."""
    target = server.repository / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if ON_GPU and target.name == "config.pbtxt":
        content = on_gpus(content)
    other = target.parent / f".{target.name}.new"
    other.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.rename(other, target)


# ---- questions ----------------------------------------------------------------------------------


def wait_until(condition, reported=lambda: "", seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, reported()


def index(server, ready=False, way="http", stubs=None):
    """(name, version, state, reason) of each line."""
    if way == "grpc":
        with open_channel(server) as channel:
            answer = Client(channel, stubs).call("RepositoryIndex", {"ready": ready})
        return [(m.name, m.version or None, m.state or None, m.reason or None)
                for m in answer.models]
    answer = requests.post(f"{server.url}/v2/repository/index", json={"ready": ready},
                           timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    return [(m["name"], m.get("version"), m.get("state"), m.get("reason")) for m in answer.json()]


def wait_for_index(server, name, expected):
    """For what comes later than an answer: the end of a version that is still used, or a poll."""
    wait_until(lambda: [line[1:] for line in index(server) if line[0] == name] == expected,
               lambda: f"{index(server)}, not {expected}")


def is_server_ready(server):
    return requests.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 200


def model_config(server, name):
    answer = requests.get(f"{server.url}/v2/models/{name}/config", timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.json()


# ---- orders -------------------------------------------------------------------------------------


def load(server, name, expected=200, config=None, **files):
    parameters = {key: base64.b64encode(value).decode() for key, value in files.items()}
    if config is not None:
        parameters["config"] = on_gpus(config) if ON_GPU else config
    reply = requests.post(f"{server.url}/v2/repository/models/{name}/load",
                          json={"parameters": parameters} if parameters else None, timeout=SECONDS)
    assert expected in (None, reply.status_code), reply.text
    return reply


def unload(server, name):
    reply = requests.post(f"{server.url}/v2/repository/models/{name}/unload", timeout=SECONDS)
    assert reply.status_code == 200, reply.text


def control(server, way, verb, name, stubs, config=None, **files):
    """None, or the code and the text of the refusal. The status of HTTP is told as that of gRPC."""
    if way == "http":
        if verb == "unload":
            reply = requests.post(f"{server.url}/v2/repository/models/{name}/unload",
                                  timeout=SECONDS)
        else:
            reply = load(server, name, None, config, **files)
        return None if reply.status_code == 200 else (NAMES[reply.status_code],
                                                      reply.json()["error"])
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        method = "RepositoryModelLoad" if verb == "load" else "RepositoryModelUnload"
        request = getattr(client.pb, f"{method}Request")(model_name=name)
        if config is not None:
            request.parameters["config"].string_param = on_gpus(config) if ON_GPU else config
        for key, value in files.items():
            request.parameters[key].bytes_param = value
        try:
            getattr(client, method)(request, timeout=SECONDS)
        except grpc.RpcError as refusal:
            return refusal.code().name, refusal.details()
    return None


class Answer:
    """Of an inference."""

    def __init__(self, reply):
        body = reply.json()
        self.status = reply.status_code
        self.error = body.get("error")
        self.version = body.get("model_version")
        outputs = {o["name"]: o["data"] for o in body.get("outputs", ())}
        self.executions = outputs.get("EXECUTIONS", [None])[0]
        self.serial = outputs.get("SERIAL", [None])[0]
        self.classes = outputs.get("OUTPUT0")


def infer(server, name, version=None, classes=0, delay_ms=0, session=requests):
    path = f"{name}/versions/{version}" if version else name
    body = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]}
    if classes:
        body["outputs"] = [{"name": "OUTPUT0", "parameters": {"classification": classes}}]
    if delay_ms:
        body["parameters"] = {"delay_ms": delay_ms}
    return Answer(session.post(f"{server.url}/v2/models/{path}/infer", json=body, timeout=SECONDS))
