#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sent configurations that say little and ask for much: what the server holds is bounded.

A client that may load models sends a MiB of empty messages, a warm-up of 2 GiB in a few hundred
bytes, and loads that fail with texts of a MiB. --memory-budget is 64 MiB. An innocent client asks for health,
and once for the index.
"""
import base64
import json

import attack

import requests

MIB = 1 << 20
BUDGET = 64 * MIB
SECONDS = 60
N_FAILURES = 60
TENSOR = {"data_type": "TYPE_FP32", "dims": [-1]}
PLAIN = {"backend": "identity", "max_batch_size": 1, "input": [{"name": "INPUT0", **TENSOR}],
         "output": [{"name": "OUTPUT0", **TENSOR}]}
FILE = {"file:1/x": base64.b64encode(b"x").decode()}


def with_list(name, element):
    """A MiB of this element, as text."""
    others = {key: value for key, value in PLAIN.items() if key != name}
    return json.dumps(others)[:-1] + f',"{name}":[' + ",".join([element] * (
        MIB // (len(element) + 1))) + "]}"


def warmup(**more):
    return json.dumps({**PLAIN, "model_warmup": [{"name": "w", "batch_size": 1, **more, "inputs": {
        "INPUT0": {"data_type": "TYPE_FP32", "dims": [500 * 10**6], "random_data": True}}}]})


def load(server, model, config, **more):
    return requests.post(f"{server.url}/v2/repository/models/{model}/load", timeout=SECONDS,
                         json={"parameters": {"config": config, **more}}).status_code


def most_held(server, config):
    """(status, the peak of resident memory beyond that before)"""
    before = attack.resident_bytes(server.process)
    attack.forget_peak(server.process)
    status = load(server, "m", config)
    return status, attack.resident_bytes(server.process, "VmHWM") - before


def measure():
    with attack.server({"m": attack.IDENTITY}, "--model-control-mode=explicit",
                       f"--memory-budget={BUDGET}") as server, attack.Probe(
                           server.port("http")) as probe:
        for name, element in (("input", "{}"), ("output", "{}"), ("instance_group", "{}"),
                              ("model_warmup", "{}"), ("input", '{"optional":true}')):
            status, held = most_held(server, with_list(name, element))
            yield attack.Figure(f"held by a MiB of {element} as {name}", held / MIB, "MiB", 28)
            yield attack.Figure("its status", status, "", at_least=400)
        status, held = most_held(server, json.dumps(
            {**PLAIN, "metric_tags": {f"{i:0100}": "v" for i in range(9000)}}))
        yield attack.Figure("held by 9000 metric tags", held / MIB, "MiB", 28)
        yield attack.Figure("their status", status, "", at_least=400)
        status, held = most_held(server, warmup())
        yield attack.Figure("held by a warm-up of 2 GiB", held / MIB, "MiB", BUDGET / MIB)
        yield attack.Figure("its status", status, "", at_least=400)
        long = json.dumps({**PLAIN, "instance_group": [
            {"name": "g" * 900000, "kind": "KIND_CPU", "gpus": [1]}]})
        before = attack.resident_bytes(server.process)
        for i in range(N_FAILURES):
            load(server, f"failing{i}", long, **FILE)
        kept = attack.resident_bytes(server.process) - before
        yield attack.Figure(f"kept of {N_FAILURES} failed loads of 0.9 MB", kept / MIB, "MiB", 40)
        index = requests.post(server.url + "/v2/repository/index", timeout=SECONDS)
        yield attack.Figure("the index", len(index.content) / MIB, "MiB", 2)
    yield attack.Figure("failed requests of the innocent client", probe.n_failed, "", 0)
    yield attack.Figure("its worst answer", probe.worst_ms, "ms")


if __name__ == "__main__":
    attack.main(measure, __doc__)
