# SPDX-License-Identifier: BSD-3-Clause
"""Models for tests of chains: A adds 1, B adds 10, C adds 100; and how they are asked."""
import requests

from models import SECONDS


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def adding(number, next_model=None, out="OUT", tensor="IN", batch=8, more="", **parameters):
    """One INT32 per row; `number` is added to it."""
    text = (f'backend: "testing" max_batch_size: {batch}\n'
            f'input {{ name: "{tensor}" data_type: TYPE_INT32 dims: [1] }}\n'
            f'output {{ name: "{out}" data_type: TYPE_INT32 dims: [1] }}\n'
            'instance_group { count: 1 kind: KIND_CPU }\n' + parameter("add", number) + more)
    if next_model is not None:
        text += parameter("next", next_model)
    return text + "".join(parameter(key, value) for key, value in parameters.items())


def line_of_three(**more):
    """A -> B -> C, the outputs of each with names of their own."""
    return {"A": adding(1, "B", out="A_OUT"), "B": adding(10, "C", out="B_OUT"),
            "C": adding(100, out="C_OUT"), **more}


def pipe(stages, **parameters):
    return 'platform: "chain"\n' + parameter("stages", stages) + "".join(
        parameter(key, value) for key, value in parameters.items())


def body(values, **more):
    values = values if isinstance(values, list) else [values]
    return {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [len(values), 1],
                        "data": values}], **more}


def ask(server, model, values, session=requests, **more):
    return session.post(f"{server.url}/v2/models/{model}/infer", json=body(values, **more),
                        timeout=SECONDS)


def value(server, model, number, **more):
    reply = ask(server, model, number, **more)
    assert reply.status_code == 200, reply.text
    return reply.json()["outputs"][0]["data"][0]


def error(server, model, number, **more):
    reply = ask(server, model, number, **more)
    assert reply.status_code != 200, reply.text
    return reply.status_code, reply.json()["error"]


def load(server, model, **parameters):
    reply = requests.post(f"{server.url}/v2/repository/models/{model}/load",
                          json={"parameters": parameters} if parameters else None, timeout=SECONDS)
    return reply.status_code, reply.json()["error"] if reply.status_code != 200 else ""


def unload(server, model, **parameters):
    reply = requests.post(f"{server.url}/v2/repository/models/{model}/unload",
                          json={"parameters": parameters} if parameters else None, timeout=SECONDS)
    return reply.status_code, reply.json()["error"] if reply.status_code != 200 else ""


def is_ready(server, model):
    return requests.get(f"{server.url}/v2/models/{model}/ready",
                        timeout=SECONDS).status_code == 200


def stages(server, model):
    reply = requests.get(f"{server.url}/v2/models/{model}/chain", timeout=SECONDS)
    assert reply.status_code == 200, reply.text
    return [(s["name"], s["ready"]) for s in reply.json()["stages"]]


def states(server):
    """{model: (state, reason)} of the index."""
    reply = requests.post(f"{server.url}/v2/repository/index", timeout=SECONDS)
    return {m["name"]: (m.get("state"), m.get("reason")) for m in reply.json()}


def executions(server, model):
    reply = requests.get(f"{server.url}/v2/models/{model}/stats", timeout=SECONDS)
    return reply.json()["model_stats"][0]["execution_count"]


def statistics(server, model):
    reply = requests.get(f"{server.url}/v2/models/{model}/stats", timeout=SECONDS)
    return reply.json()["model_stats"][0]


def ensemble(*steps, tensor="IN", out="OUT"):
    """A line of (model, its output) that passes one INT32 per row on."""
    text = ('platform: "ensemble"\nmax_batch_size: 8\n'
            f'input {{ name: "{tensor}" data_type: TYPE_INT32 dims: [1] }}\n'
            f'output {{ name: "{out}" data_type: TYPE_INT32 dims: [1] }}\nensemble_scheduling {{\n')
    for i, (model, output) in enumerate(steps):
        before = tensor if i == 0 else f"between_{i}"
        after = out if i == len(steps) - 1 else f"between_{i + 1}"
        text += (f'step {{ model_name: "{model}" model_version: -1 '
                 f'input_map {{ key: "IN" value: "{before}" }} '
                 f'output_map {{ key: "{output}" value: "{after}" }} }}\n')
    return text + "}\n"
