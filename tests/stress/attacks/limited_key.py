#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A key that is limited to models `mine-*` loads configurations that name another model.

The key grants the groups model-repository and inference. Its holder sends, over HTTP and GRPC, each
form of a configuration that names the model `secret`: as a step, a stage, the next model; as JSON, as
a parameter of the load, beside files; and unloads an ensemble with its dependents. No answer may come
from `secret`, and `secret` must stay as its owner left it.
"""
import base64
import hashlib
import json
import os
import pathlib
import tempfile

import attack

import requests

KEY = {name: f"the-key-of.{name}" for name in ("limited", "operator")}
SECONDS = 10
TENSOR = {"data_type": "TYPE_FP32", "dims": [-1]}
SHAPE = {"input": [{"name": "INPUT0", **TENSOR}], "output": [{"name": "OUTPUT0", **TENSOR}]}
PLAIN = {"backend": "identity", **SHAPE}
STEP = {"model_name": "secret", "model_version": -1, "input_map": {"INPUT0": "INPUT0"},
        "output_map": {"OUTPUT0": "OUTPUT0"}}
ENSEMBLE = {"platform": "ensemble", **SHAPE, "ensemble_scheduling": {"step": [STEP]}}
NEXT = {**PLAIN, "parameters": {"next": {"string_value": "secret"}}}
CHAIN = {"platform": "chain", "parameters": {"stages": {"string_value": "mine-b, secret"}}}
ESCAPED = json.dumps(ENSEMBLE).replace("ensemble_sch", "ensemble\\u005fsch").replace(
    '"secret"', '"\\u0073ecret"')
LOADS = {
    "a step": {"config": json.dumps(ENSEMBLE)},
    "a step with escapes": {"config": ESCAPED},
    "the next model": {"config": json.dumps(NEXT)},
    "a stage": {"config": json.dumps(CHAIN)},
    "the parameter next": {"next": "secret"},
    "next beside a configuration": {"config": json.dumps(PLAIN), "next": "secret"},
    "a step beside a file": {"config": json.dumps(ENSEMBLE), "file:1/some": "bytes"},
}
OWNERS = """platform: "ensemble"
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
ensemble_scheduling { step { model_name: "secret" model_version: -1
  input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } } }
"""
MODELS = {"secret": attack.IDENTITY, "mine-a": attack.IDENTITY, "mine-b": attack.IDENTITY,
          "mine-owners": OWNERS}


def change(server, what, model, parameters=None, key="limited"):
    parameters = {name: base64.b64encode(value.encode()).decode() if name.startswith("file:")
                  else value for name, value in (parameters or {}).items()}
    return requests.post(f"{server.url}/v2/repository/models/{model}/{what}",
                         headers={"X-Api-Key": KEY[key]}, json={"parameters": parameters},
                         timeout=SECONDS).status_code


def n_executions(server):
    statistics = requests.get(f"{server.url}/v2/models/secret/stats", timeout=SECONDS,
                              headers={"X-Api-Key": KEY["operator"]}).json()
    return statistics["model_stats"][0]["inference_stats"]["success"]["count"]


def infer(server, model):
    return requests.post(f"{server.url}/v2/models/{model}/infer", timeout=SECONDS,
                         headers={"X-Api-Key": KEY["limited"]}, json={"inputs": [
                             {"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]})


def is_ready(server, model):
    return requests.get(f"{server.url}/v2/models/{model}/ready", timeout=SECONDS,
                        headers={"X-Api-Key": KEY["operator"]}).status_code == 200


def measure():
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder) / "keys"
        rights = {"limited": "model-repository,inference mine-*", "operator": "*"}
        keys.write_text("".join(f"{name} {hashlib.sha256(KEY[name].encode()).hexdigest()} {right}\n"
                                for name, right in rights.items()), "ascii")
        os.chmod(keys, 0o600)
        with attack.server(MODELS, f"--api-key-file={keys}",
                           "--model-control-mode=explicit") as server:
            change(server, "load", "secret", key="operator")
            n_accepted = 0
            for name, parameters in LOADS.items():
                change(server, "load", "mine-a")
                status = change(server, "load", "mine-a", parameters)
                infer(server, "mine-a")
                n_accepted += status == 200
                print(f"{status:12} {name}")
                change(server, "unload", "mine-a")
            yield attack.Figure("loads that name another model accepted", n_accepted, "", 0)
            yield attack.Figure("answers computed by that model", n_executions(server), "", 0)
            change(server, "unload", "secret", key="operator")
            for parameters in LOADS.values():
                change(server, "load", "mine-a", parameters)
            yield attack.holds("a load leaves it unloaded", not is_ready(server, "secret"))
            change(server, "unload", "mine-a")
            change(server, "load", "mine-owners", key="operator")
            change(server, "unload", "mine-owners", {"unload_dependents": True})
            yield attack.holds("an unload with dependents leaves it loaded",
                               is_ready(server, "secret"))


if __name__ == "__main__":
    attack.main(measure, __doc__)
