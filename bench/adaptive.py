#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Adaptive batching, and composite models: the figures and the plot of docs/batching.md.

  bench/adaptive.py [--build=build] [--rounds=3] [--seconds=2] [--plot=docs/adaptive.svg]

One instance, max_batch_size 4, a queue delay of 10 ms, an execution of 0.25 ms whatever its size (the
testing backend waits for the clock); 1 to 10 clients that send again at once; the modes take turns, and
medians over the rounds are printed. Then ONNX files of one batch size each against one group that takes 1 to
8 rows, if Python has onnx. Server and clients share the machine's cores as they like.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODES = ("off", "idle", "flow")
CLIENTS = (1, 2, 3, 4, 5, 10)
COLOURS = {"off": "#888888", "idle": "#d08000", "flow": "#0060c0"}
CONFIG = """\
backend: "testing" max_batch_size: 4
input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { max_queue_delay_microseconds: 10000 }
parameters { key: "execute_us" value { string_value: "250" } }
parameters { key: "adaptive_batching" value { string_value: "%s" } }
"""
ONE_GROUP = """\
backend: "onnxruntime" max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: 256 }
output { name: "Y" data_type: TYPE_FP32 dims: 256 }
dynamic_batching { max_queue_delay_microseconds: 2000 }
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
"""
COMPOSITE = ONE_GROUP + """\
instance_group [ { name: "b1" count: 1 }, { name: "b4" count: 1 }, { name: "b8" count: 1 } ]
parameters { key: "member_files" value { string_value: "b1:m1.onnx,b4:m4.onnx,b8:m8.onnx" } }
parameters { key: "member_concurrency" value { string_value: "exclusive" } }
"""
SINGLE = ONE_GROUP + """\
instance_group { count: 1 kind: KIND_CPU }
parameters { key: "adaptive_batching" value { string_value: "flow" } }
"""


class Server:
    def __init__(self, build, repository):
        self.command = [os.path.join(build, "neso"), "serve", "--model-repository", repository,
                        "--backend-directory", os.path.join(build, "backends"),
                        "--http-address", "127.0.0.1", "--http-port", "0", "--allow-grpc=false",
                        "--allow-metrics=false", "--http-thread-count", "1"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        log = []
        for line in self.process.stdout:
            log.append(line)
            match = re.search(r"HTTPService at [^:]*:(\d+)", line)
            if match:
                self.port = match[1]
                return self
        sys.exit("the server did not start:\n" + "".join(log))

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def batches(self, model):
        """(rows, executions) so far."""
        import urllib.request
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/models/{model}/stats") as reply:
            stats = json.load(reply)["model_stats"][0]
        return stats["inference_count"], stats["execution_count"]


def write(folder, path, content):
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def load(build, server, model, body, clients, seconds):
    before = server.batches(model)
    ended = subprocess.run([os.path.join(build, "bench", "closed_loop"), server.port,
                            f"/v2/models/{model}/infer", body, str(clients), str(seconds)],
                           capture_output=True, text=True, check=True, timeout=60 + seconds)
    after = server.batches(model)
    seen = json.loads(ended.stdout)
    seen["batch"] = (after[0] - before[0]) / max(after[1] - before[1], 1)
    return seen


def median(rounds, key):
    return statistics.median(one[key] for one in rounds)


def measure(build, server, models, body, clients, rounds, seconds):
    """{(model, clients): [what each round saw]}; the models take turns."""
    seen = {}
    for _ in range(rounds):
        for n in clients:
            for model in models:
                seen.setdefault((model, n), []).append(load(build, server, model, body, n, seconds))
    return seen


def print_table(seen, models, clients):
    for key, title, form in (("mean_ms", "mean latency, ms", "{:.2f}"), ("p50_ms", "p50, ms", "{:.2f}"),
                             ("p99_ms", "p99, ms", "{:.2f}"), ("rate", "requests/s", "{:.0f}"),
                             ("batch", "mean batch", "{:.2f}")):
        print(f"\n| {title} | " + " | ".join(f"{n}" for n in clients) + " |")
        print("|---" * (len(clients) + 1) + "|")
        for model in models:
            row = (form.format(median(seen[model, n], key)) for n in clients)
            print(f"| {model} | " + " | ".join(row) + " |")


# ---- the plot -----------------------------------------------------------------------------------


def plot(path, seen):
    """Median latency over the number of clients; the latency axis is logarithmic, 0.1 to 20 ms."""
    import math
    left, top, width, height = 60, 20, 520, 280

    def x(n):
        return left + width * (n - 1) / (CLIENTS[-1] - 1)

    def y(ms):
        return top + height * (math.log10(20) - math.log10(ms)) / (math.log10(20) - math.log10(0.1))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 90} {top + height + 50}" '
           'font-family="sans-serif" font-size="13">',
           f'<rect width="{left + width + 90}" height="{top + height + 50}" fill="white"/>']
    for ms in (0.1, 0.25, 0.5, 1, 2, 5, 10, 20):
        out.append(f'<path d="M{left} {y(ms):.1f}h{width}" stroke="#dddddd"/>'
                   f'<text x="{left - 8}" y="{y(ms) + 4:.1f}" text-anchor="end">{ms}</text>')
    for n in CLIENTS:
        out.append(f'<text x="{x(n):.1f}" y="{top + height + 18}" text-anchor="middle">{n}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">'
               'clients that send again at once</text>'
               f'<text x="14" y="{top + height / 2}" text-anchor="middle" '
               f'transform="rotate(-90 14 {top + height / 2})">median latency, ms</text>')
    for i, mode in enumerate(MODES):
        points = [(x(n), y(median(seen[mode, n], "p50_ms"))) for n in CLIENTS]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[mode]}" stroke-width="2"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{COLOURS[mode]}"/>' for a, b in points]
        out.append(f'<text x="{left + width + 12}" y="{top + 20 + 20 * i}" fill="{COLOURS[mode]}">'
                   f'{mode}</text>')
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(out + ["</svg>\n"]))


# ---- composite ----------------------------------------------------------------------------------


def onnx_file(rows):
    """Four layers of 256 x 256; `rows` None: any number."""
    import numpy
    import onnx
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    random = numpy.random.default_rng(1)
    nodes, weights, last = [], [], "X"
    for i in range(4):
        weight = random.standard_normal((256, 256)).astype("f4") / 16
        weights.append(onnx.numpy_helper.from_array(weight, f"W{i}"))
        nodes += [helper.make_node("MatMul", [last, f"W{i}"], [f"A{i}"]),
                  helper.make_node("Tanh", [f"A{i}"], ["Y" if i == 3 else f"B{i}"])]
        last = f"B{i}"
    graph = helper.make_graph(nodes, "m", [helper.make_tensor_value_info("X", kind, [rows, 256])],
                              [helper.make_tensor_value_info("Y", kind, [rows, 256])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                             ir_version=8).SerializeToString()


def compare_composite(arguments):
    try:
        import onnx.numpy_helper  # pylint: disable=unused-import
    except ImportError:
        print("\ncomposite: Python has no onnx, left out")
        return
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "models/single/config.pbtxt", SINGLE)
        write(folder, "models/single/1/model.onnx", onnx_file(None))
        write(folder, "models/composite/config.pbtxt", COMPOSITE)
        for rows in (1, 4, 8):
            write(folder, f"models/composite/1/m{rows}.onnx", onnx_file(rows))
        body = os.path.join(folder, "body")
        asked = {"inputs": [{"name": "X", "shape": [1, 256], "datatype": "FP32",
                             "data": [0.5] * 256}]}
        write(folder, "body", json.dumps(asked))
        with Server(arguments.build, os.path.join(folder, "models")) as server:
            clients = (1, 4, 8, 13, 16)
            seen = measure(arguments.build, server, ("single", "composite"), body, clients,
                           arguments.rounds, arguments.seconds)
            print("\n## Composite [1],[4],[8] against one group [1,8]")
            print_table(seen, ("single", "composite"), clients)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--plot")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for mode in MODES:
            write(folder, f"models/{mode}/config.pbtxt", CONFIG % mode)
            os.makedirs(os.path.join(folder, "models", mode, "1"))
        write(folder, "body", '{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"INT32","data":[1]}]}')
        with Server(arguments.build, os.path.join(folder, "models")) as server:
            seen = measure(arguments.build, server, MODES, os.path.join(folder, "body"), CLIENTS,
                           arguments.rounds, arguments.seconds)
    print("## Adaptive batching: [1,4], delay 10 ms, execution 0.25 ms")
    print_table(seen, MODES, CLIENTS)
    if arguments.plot:
        plot(arguments.plot, seen)
    compare_composite(arguments)


if __name__ == "__main__":
    main()
