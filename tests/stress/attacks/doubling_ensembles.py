#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ensembles of two steps, each of which is the ensemble before: forty would execute 2^40 models.

The steps are parallel, so all of a level begin before the first ends. --memory-budget is 64 MiB. The largest
that is served must stay within it; a larger one must be refused at once, as must
the question whether it is ready.
"""
import http.client
import json
import time

import attack

MIB = 1 << 20
BUDGET = 64 * MIB
N = 40
LARGEST = 11  # 3 * 2^11 - 3 models
SECONDS = 20
IO = ('input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }\n'
      'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }\n')
BODY = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32",
                               "data": [1]}]})


def step(model, inputs, output):
    return (f'step {{ model_name: "{model}" model_version: -1 '
            + "".join(f'input_map {{ key: "{key}" value: "{value}" }} ' for key, value in inputs)
            + f'output_map {{ key: "OUTPUT0" value: "{output}" }} }}\n')


def doubling(before):
    return ('platform: "ensemble"\n' + IO + "ensemble_scheduling {\n"
            + step(before, [("INPUT0", "INPUT0")], "A") + step(before, [("INPUT0", "INPUT0")], "B")
            + step("pair", [("INPUT0", "A"), ("INPUT1", "B")], "OUTPUT0") + "}\n")


MODELS = {"other": attack.IDENTITY, "e0": attack.IDENTITY,
          "pair": 'backend: "identity"\n' + IO + IO.replace("0", "1")}
MODELS.update({f"e{i}": doubling(f"e{i - 1}") for i in range(1, N + 1)})


def ask(server, method, path, body=None):
    """(status, seconds); the status 0 is no answer in time."""
    begun = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", server.port("http"), timeout=SECONDS)
    try:
        connection.request(method, path, body)
        status = connection.getresponse().status
    except OSError:
        status = 0
    connection.close()
    return status, time.monotonic() - begun


def measure():
    with attack.server(MODELS, "--model-control-mode=explicit", "--load-model=other",
                       "--http-thread-count=1", f"--memory-budget={BUDGET}") as server:
        for model in (f"e{N}", f"e{LARGEST + 1}"):
            status, seconds = ask(server, "POST", f"/v2/repository/models/{model}/load")
            yield attack.Figure(f"status of the load of {model}", status, "", at_least=400)
            yield attack.Figure("until its answer", seconds, "s", at_most=5)
        yield attack.holds("the largest loads", ask(
            server, "POST", f"/v2/repository/models/e{LARGEST}/load")[0] == 200)
        for path in (f"/v2/models/e{LARGEST}/ready", f"/v2/models/e{N}/ready"):
            yield attack.Figure(f"until the answer of {path}", ask(server, "GET", path)[1], "s", 1)
        before = attack.resident_bytes(server.process)
        attack.forget_peak(server.process)
        with attack.Probe(server.port("http"), "/v2/models/other/ready") as probe:
            statuses = [ask(server, "POST", f"/v2/models/e{LARGEST}/infer", BODY)[0]
                        for _ in range(5)]
        held = attack.resident_bytes(server.process, "VmHWM") - before
        yield attack.Figure("requests that are answered", statuses.count(200), "", at_least=5)
        yield attack.Figure("held by one of them", held / MIB, "MiB", BUDGET / MIB)
        yield attack.Figure("worst answer of the innocent client", probe.worst_ms, "ms")
        yield attack.Figure("its failed requests", probe.n_failed, "", 0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
