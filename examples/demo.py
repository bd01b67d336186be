#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts the server with the example models, asks it things over HTTP and gRPC, shows the answers,
stops it.

    demo.py [BUILD]          BUILD is the folder of the build, by default build/

What is shown is what the server answered, and everything is checked: the exit status is 0 only if
all of it was right. Needs python3-numpy, python3-grpcio, protoc, and what make_models.py needs.
"""
import collections
import http.client
import importlib
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import grpc
import numpy

import make_models

EXAMPLES = pathlib.Path(__file__).resolve().parent
PROTO = EXAMPLES.parent / "proto"
START_SECONDS = 60
ANSWER_SECONDS = 30
STOP_SECONDS = 40

N_SHOWN = 20      # digits drawn
N_ACROSS = 4      # in one row of the screen
N_STREAMED = 8    # of these on one gRPC stream
N_SINGLE = 400    # requests one after the other, for the latencies
N_CLIENTS = 8     # at the same time, for the batches
LARGEST_BATCH = 64
# Of the 360 held-out digits, by the network in models/digits (examples/README.md).
EXPECTED_RIGHT = 358


class Failure(Exception):
    """Something was not as it must be."""


def expect(is_right, what):
    if not is_right:
        raise Failure(what)


# ---- the server --------------------------------------------------------------------------------


class Server:
    def __init__(self, build, repositories):
        command = [str(build / "neso"), "serve",
                   *(f"--model-repository={folder}" for folder in repositories),
                   f"--backend-directory={build / 'backends'}",
                   f"--backend-config=python,python-path={sys.executable}",
                   "--http-address=127.0.0.1",
                   "--http-port=0", "--metrics-port=0", "--grpc-address=127.0.0.1",
                   "--grpc-port=0"]
        self.log = []
        self.lines = queue.Queue()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True, errors="replace")
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)
            self.lines.put(line)
        self.lines.put(None)

    def wait_until_started(self):
        """The ports of HTTP and gRPC, which are in the lines of the log that say they are open."""
        deadline = time.monotonic() + START_SECONDS
        ports = {}
        while len(ports) < 2:
            try:
                line = self.lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise Failure(f"the server did not start within {START_SECONDS} s") from None
            expect(line is not None, "the server ended instead of starting")
            match = re.search(r"Started (HTTP|GRPCInference)Service at 127\.0\.0\.1:(\d+)", line)
            if match:
                ports[match.group(1)] = int(match.group(2))
        return ports["HTTP"], ports["GRPCInference"]

    def stop(self):
        """Asks the server to end, as a service manager does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure(f"the server did not stop within {STOP_SECONDS} s") from None
        self.reader.join()
        return code


class Client:
    """One connection, kept open. The protocol is KServe v2 with its binary tensor extension."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)

    def close(self):
        self.connection.close()

    def send(self, method, path, body=None, headers=None):
        self.connection.request(method, path, body, headers or {})
        reply = self.connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise Failure(f"{method} {path}: {reply.status} {content.decode(errors='replace')}")
        return reply, content

    def get(self, path):
        content = self.send("GET", path)[1]
        return json.loads(content) if content else None

    def infer_json(self, model, name, tensor):
        """All of it as text, which people can read; the first output."""
        request = {"inputs": [{"name": name, "datatype": "FP32", "shape": list(tensor.shape),
                               "data": tensor.ravel().tolist()}]}
        content = self.send("POST", f"/v2/models/{model}/infer", json.dumps(request))[1]
        output = json.loads(content)["outputs"][0]
        return numpy.float32(output["data"]).reshape(output["shape"])

    def infer_binary(self, model, name, tensor):
        """A short JSON text, then the values as they are in memory; the same way back."""
        values = tensor.astype("<f4").tobytes()
        head = json.dumps({
            "inputs": [{"name": name, "datatype": "FP32", "shape": list(tensor.shape),
                        "parameters": {"binary_data_size": len(values)}}],
            "parameters": {"binary_data_output": True}}).encode()
        reply, content = self.send("POST", f"/v2/models/{model}/infer", head + values,
                                   {"Inference-Header-Content-Length": str(len(head))})
        n_head = int(reply.getheader("Inference-Header-Content-Length"))
        output = json.loads(content[:n_head])["outputs"][0]
        return numpy.frombuffer(content[n_head:], "<f4").reshape(output["shape"])

    def add(self, number, sequence, start=False):
        """One request of a sequence, which the server keeps the sum of."""
        request = {"parameters": {"sequence_id": sequence, "sequence_start": start},
                   "inputs": [{"name": "number", "datatype": "FP32", "shape": [1, 1],
                               "data": [number]}]}
        content = self.send("POST", "/v2/models/accumulator/infer", json.dumps(request))[1]
        return json.loads(content)["outputs"][0]["data"][0]

    def classify(self, model, name, tensor, output, n_classes):
        """The classification extension: the n best as (value, index, label)."""
        values = tensor.astype("<f4").tobytes()
        head = json.dumps({
            "inputs": [{"name": name, "datatype": "FP32", "shape": list(tensor.shape),
                        "parameters": {"binary_data_size": len(values)}}],
            "outputs": [{"name": output, "parameters": {"classification": n_classes}}]}).encode()
        content = self.send("POST", f"/v2/models/{model}/infer", head + values,
                            {"Inference-Header-Content-Length": str(len(head))})[1]
        best = [text.split(":", 2) for text in json.loads(content)["outputs"][0]["data"]]
        return [(float(value), int(index), label) for value, index, label in best]


def make_messages():
    """Classes for the messages, which protoc makes from the server's own .proto files."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", f"-I{PROTO}", f"--python_out={folder}", "model_config.proto",
                        "grpc_service.proto"], check=True)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("grpc_service_pb2")
        finally:
            sys.path.remove(folder)


class GrpcClient:
    """The same protocol as messages; one connection, too."""

    def __init__(self, port):
        self.messages = make_messages()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}",
                                             [("grpc.enable_http_proxy", 0)])
        self.metadata = self.method("ServerMetadata")
        self.model_infer = self.method("ModelInfer")
        self.model_stream_infer = self.method("ModelStreamInfer")

    def close(self):
        self.channel.close()

    def method(self, name):
        service = self.messages.DESCRIPTOR.services_by_name["GRPCInferenceService"]
        method = service.methods_by_name[name]
        kind = "stream_stream" if name == "ModelStreamInfer" else "unary_unary"
        request, answer = (getattr(self.messages, descriptor.name)
                           for descriptor in (method.input_type, method.output_type))
        return getattr(self.channel, kind)(f"/{service.full_name}/{name}",
                                           request_serializer=request.SerializeToString,
                                           response_deserializer=answer.FromString)

    def request(self, model, name, tensor, **more):
        message = self.messages.ModelInferRequest(
            model_name=model, raw_input_contents=[tensor.astype("<f4").tobytes()], **more)
        message.inputs.add(name=name, datatype="FP32", shape=tensor.shape)
        return message

    @staticmethod
    def first_output(answer):
        return numpy.frombuffer(answer.raw_output_contents[0], "<f4").reshape(
            answer.outputs[0].shape)

    def about_server(self):
        return self.metadata(self.messages.ServerMetadataRequest(), timeout=ANSWER_SECONDS)

    def infer(self, model, name, tensor):
        return self.first_output(self.model_infer(self.request(model, name, tensor),
                                                  timeout=ANSWER_SECONDS))

    def stream(self, model, name, tensors):
        """All on one stream, sent at once; each answer as (id, first output)."""
        requests = [self.request(model, name, tensor, id=str(number))
                    for number, tensor in enumerate(tensors)]
        for answer in self.model_stream_infer(iter(requests), timeout=ANSWER_SECONDS):
            expect(not answer.error_message, answer.error_message)
            yield answer.infer_response.id, self.first_output(answer.infer_response)


# ---- what is drawn -----------------------------------------------------------------------------


class Screen:
    def __init__(self):
        self.has_colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        encoding = (sys.stdout.encoding or "").lower().replace("-", "")
        self.is_unicode = encoding == "utf8"
        self.shades = " ░▒▓█" if self.is_unicode else " .+#@"
        self.bar = "█" if self.is_unicode else "#"

    def colour(self, number, text):
        return f"\033[{number}m{text}\033[0m" if self.has_colours else text

    def title(self, text):
        print("\n" + self.colour(1, text), flush=True)

    def picture(self, image):
        """8 lines; two characters for each pixel, since characters are narrow."""
        levels = numpy.minimum(image.reshape(8, 8) / 16 * len(self.shades), len(self.shades) - 1)
        return ["".join(2 * self.shades[int(level)] for level in row) for row in levels]

    def digits(self, answers):
        """Some (image, probabilities, truth) beside each other, the answers below them."""
        for lines in zip(*(self.picture(image) for image, _, _ in answers)):
            print("  " + "   ".join(lines))
        texts = []
        for _, probabilities, truth in answers:
            answer = int(probabilities.argmax())
            text = f"{answer}  {100 * probabilities[answer]:5.1f} %  is {truth}"
            texts.append(self.colour(32 if answer == truth else 31, f"{text:16}"))
        print("  " + "   ".join(texts) + "\n", flush=True)


# ---- the parts of the demonstration ------------------------------------------------------------


def read_held_out():
    images = numpy.fromfile(EXAMPLES / "data" / "heldout_images.f32", "<f4").reshape(-1, 64)
    labels = numpy.fromfile(EXAMPLES / "data" / "heldout_labels.u8", numpy.uint8)
    expect(len(images) == len(labels), "as many labels as images")
    return images, labels


def show_server(screen, client):
    server = client.get("/v2")
    client.get("/v2/health/ready")
    screen.title(f"{server['name']} {server['version']} serves")
    for model in ("digits", "pictures", "identity", "reader"):
        about = client.get(f"/v2/models/{model}")
        tensors = [f"{tensor['name']} {tensor['datatype']} {json.dumps(tensor['shape'])}"
                   .replace(", ", ",") for tensor in about["inputs"] + about["outputs"]]
        print(f"  {model:9} {about['platform'] or 'identity':16} {' -> '.join(tensors)}")


def show_digits(screen, client, images, labels):
    screen.title("Handwritten digits that the network has not seen, one request each")
    print("  its answer, how probable it finds it, and what was meant\n")
    answers = []
    for number in range(N_SHOWN):
        infer = client.infer_json if number == 0 else client.infer_binary
        probabilities = infer("digits", "image", images[number:number + 1])[0]
        expect(abs(float(probabilities.sum()) - 1) < 1e-4, "probabilities that sum up to 1")
        answers.append((images[number], probabilities, labels[number]))
        if len(answers) == N_ACROSS:
            screen.digits(answers)
            answers = []


def show_accuracy(screen, client, images, labels):
    screen.title(f"All {len(images)} of them, in batches of up to {LARGEST_BATCH}")
    n_right = 0
    start = time.perf_counter()
    for first in range(0, len(images), LARGEST_BATCH):
        probabilities = client.infer_binary("digits", "image", images[first:first + LARGEST_BATCH])
        n_right += int((probabilities.argmax(axis=1) == labels[first:first + LARGEST_BATCH]).sum())
    milliseconds = 1e3 * (time.perf_counter() - start)
    print(f"  {n_right} right, {100 * n_right / len(images):.1f} %, in {milliseconds:.0f} ms")
    expect(n_right >= EXPECTED_RIGHT, f"at least {EXPECTED_RIGHT} right")


def show_ensemble(screen, client, images, labels):
    screen.title("The ensemble 'reader': pixels -> identity -> digits -> a label, in one request")
    for number in range(N_ACROSS):
        (value, _, label), = client.classify("reader", "pixels", images[number], "digit", 1)
        alone, = client.classify("digits", "image", images[number:number + 1], "probabilities", 1)
        expect(label == alone[2] and abs(value - alone[0]) < 1e-4, "the ensemble to read as digits does")
        print(f"  {label} ({100 * value:.1f} %), meant was {labels[number]}")
    counts = {model: client.get(f"/v2/models/{model}/stats")["model_stats"][0]["execution_count"]
              for model in ("reader", "identity")}
    expect(counts == {"reader": N_ACROSS, "identity": N_ACROSS}, "each step to run once for each")


def show_chain(screen, client, images, labels):
    screen.title("The chain 'relay', identity then digits: one line of configuration")
    stages = client.get("/v2/models/relay/chain")["stages"]
    expect([(stage["name"], stage["ready"]) for stage in stages] ==
           [("identity", True), ("digits", True)], "two stages that are ready")
    (value, _, label), = client.classify("relay", "INPUT0", images[0], "probabilities", 1)
    alone, = client.classify("digits", "image", images[:1], "probabilities", 1)
    expect(label == alone[2] and abs(value - alone[0]) < 1e-4, "the chain to read as digits does")
    print(f"  {label} ({100 * value:.1f} %), meant was {labels[0]}")


def show_grpc(screen, client, rpc, images):
    screen.title("The same over gRPC")
    server, about = client.get("/v2"), rpc.about_server()
    expect((about.name, about.version, list(about.extensions)) ==
           (server["name"], server["version"], server["extensions"]), "the same server")
    print(f"  {'ServerMetadata':17} {about.name} {about.version}, "
          f"{len(about.extensions)} extensions")

    shown = images[:N_SHOWN]
    expected = client.infer_binary("digits", "image", shown)
    probabilities = rpc.infer("digits", "image", shown)
    expect(probabilities.shape == expected.shape, f"the shape {expected.shape}")
    expect(probabilities.tobytes() == expected.tobytes(), "the same bits over gRPC and HTTP")
    print(f"  {'ModelInfer':17} {N_SHOWN} digits in one batch: the same bits as over HTTP")

    answers = list(rpc.stream("digits", "image", shown[:N_STREAMED, None]))
    expect([number for number, _ in answers] == [str(n) for n in range(N_STREAMED)],
           "one answer for each request of the stream, in order")
    streamed = numpy.concatenate([output for _, output in answers])
    expect(numpy.allclose(streamed, expected[:N_STREAMED], atol=1e-5),
           "the same answers from a stream")
    print(f"  {'ModelStreamInfer':17} {N_STREAMED} requests, answered in order: "
          f"{' '.join(str(digit) for digit in streamed.argmax(axis=1))}")


def time_requests(infer, images, n_requests):
    """Seconds that each of some requests took."""
    taken = []
    for number in range(n_requests):
        image = images[number % len(images)][None]
        start = time.perf_counter()
        infer("digits", "image", image)
        taken.append(time.perf_counter() - start)
    return taken


def print_latencies(what, taken):
    median, p99 = 1e6 * numpy.percentile(taken, [50, 99])
    print(f"  {what:34} median {median:6.0f} us   p99 {p99:6.0f} us")


def show_latencies(screen, port, rpc, images):
    screen.title("How long answers take, seen from this script")
    client = Client(port)
    print_latencies(f"{N_SINGLE} requests one after the other",
                    time_requests(client.infer_binary, images, N_SINGLE))
    client.close()
    print_latencies(f"{N_SINGLE} of them over gRPC", time_requests(rpc.infer, images, N_SINGLE))

    taken, failures = [], []

    def run_client(first):
        own = Client(port)
        try:
            taken.extend(time_requests(own.infer_binary, images[first:], N_SINGLE // 2))
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)
        own.close()

    clients = [threading.Thread(target=run_client, args=(number,)) for number in range(N_CLIENTS)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    expect(not failures, f"an answer for every client, not {failures[:1]}")
    print_latencies(f"{N_CLIENTS} clients at the same time", taken)


def show_batches(screen, client):
    screen.title("What the server did with them (/v2/models/digits/stats)")
    statistics = client.get("/v2/models/digits/stats")["model_stats"][0]
    rows = sorted(statistics["batch_stats"], key=lambda row: row["batch_size"])
    counts = [row["compute_infer"]["count"] for row in rows]
    for row, count in zip(rows, counts):
        per_image = row["compute_infer"]["ns"] / count / row["batch_size"] / 1000
        bar = screen.bar * max(1, round(24 * count / max(counts)))
        print(f"  batch of {row['batch_size']:2}: {count:5} times, {per_image:6.1f} us an image  "
              f"{bar}")
    n_images = statistics["inference_count"]
    n_expected = (N_SHOWN + len(read_held_out()[0]) + 2 * (N_ACROSS + 1) + 2 * N_SHOWN +
                  N_STREAMED + 2 * N_SINGLE + N_CLIENTS * (N_SINGLE // 2))
    print(f"  {n_images} images in {statistics['execution_count']} executions")
    expect(n_images == n_expected, f"{n_expected} images counted")
    expect(sum(row["batch_size"] * count for row, count in zip(rows, counts)) == n_images,
           "statistics of batches that sum up to the images")
    expect(statistics["inference_stats"]["fail"]["count"] == 0, "no request that failed")


def show_identity(screen, client):
    screen.title("A megabyte through the identity model, and back")
    values = numpy.random.default_rng(1).random(1 << 18, numpy.float32)
    start = time.perf_counter()
    back = client.infer_binary("identity", "INPUT0", values)
    milliseconds = 1e3 * (time.perf_counter() - start)
    expect(back.tobytes() == values.tobytes(), "identity to repeat what it got")
    print(f"  {values.nbytes} bytes came back as they were, in {milliseconds:.1f} ms")


def make_picture():
    """3x96x96: a red disc before a blue and green sky."""
    rows, columns = numpy.mgrid[0:96, 0:96] / numpy.float32(95)
    disc = ((rows - 0.5) ** 2 + (columns - 0.5) ** 2 < 0.09).astype(numpy.float32)
    return numpy.stack([disc, rows * (1 - disc), columns * (1 - disc)]).astype(numpy.float32)


def show_pictures(screen, client):
    screen.title("A picture of 3x96x96, the five best classes (their weights are random)")
    picture = make_picture()[None]
    best = client.classify("pictures", "picture", picture, "scores", 5)
    scores = client.infer_binary("pictures", "picture", picture)[0]
    for value, index, label in best:
        print(f"  {label:9} {value:.4f}  {screen.bar * max(1, round(40 * value / best[0][0]))}")
        expect(label == f"class {index}", f"the label of class {index}")
        expect(abs(value - float(scores[index])) < 1e-5, f"the score of class {index}")
    expect([index for _, index, _ in best] == numpy.argsort(-scores)[:5].tolist(),
           "the classes with the five highest scores")


def show_sequences(screen, client):
    screen.title("Two sequences at the same time; the model forgets, the server keeps their sums")
    numbers = {"red": [3, 4, 5, 0.5], "blue": [100, 20, 3, -1]}
    sums = {name: [] for name in numbers}
    for turn in range(4):
        for name, row in numbers.items():
            sums[name].append(client.add(row[turn], name, start=turn == 0))
    for name, row in numbers.items():
        print(f"  {name:5} " + "   ".join(f"+ {number:g} = {total:g}"
                                          for number, total in zip(row, sums[name])))
        expect(sums[name] == numpy.cumsum(row).tolist(), f"the sums of {name}")


def show_python(screen, client, images, labels):
    screen.title("Models in Python: one lets digits vote on five pictures of each image")
    names = "zero one two three four five six seven eight nine".split()
    n_right = 0
    for image, label in zip(images[:N_SHOWN], labels):
        request = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [64],
                               "data": image.ravel().tolist()}]}
        reply = json.loads(client.send("POST", "/v2/models/digits_vote/infer",
                                       json.dumps(request))[1])
        outputs = {output["name"]: output["data"] for output in reply["outputs"]}
        expect(outputs["digit"] == [names[numpy.argmax(outputs["votes"])]], "the name of most votes")
        expect(reply["parameters"]["pictures"] == 5, "five pictures")
        n_right += outputs["digit"] == [names[int(label)]]
    print(f"  {n_right} of {N_SHOWN} right")
    expect(n_right >= N_SHOWN - 2, "votes that are mostly right")
    request = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [N_SHOWN, 64],
                           "data": images[:N_SHOWN].ravel().tolist()}]}
    reply = json.loads(client.send("POST", "/v2/models/digits_pipeline/infer",
                                   json.dumps(request))[1])
    n_right = numpy.count_nonzero(numpy.array(reply["outputs"][0]["data"]) == labels[:N_SHOWN])
    print(f"  a pipeline of scikit-learn, trained while it was loaded: {n_right} of {N_SHOWN} right")
    expect(n_right >= N_SHOWN - 2, "a pipeline that is mostly right")


def show_embeddings(screen, client):
    screen.title("Vectors of texts by the OpenAI API (the weights are random; the same words are near)")
    texts = ["the cat sat on the mat", "a cat sat on a mat", "prices fell again on Monday"]
    reply = json.loads(client.send("POST", "/v1/embeddings", json.dumps(
        {"model": "embedder", "input": texts, "encoding_format": "float"}))[1])
    vectors = numpy.float32([row["embedding"] for row in reply["data"]])
    nearness = vectors @ vectors.T
    for text, near in zip(texts, nearness[0]):
        print(f"  {text:30} {screen.bar * max(1, round(30 * float(near)))} {near:.2f}")
    expect(numpy.allclose(nearness.diagonal(), 1, atol=1e-3), "vectors of length 1")
    expect(nearness[0, 1] > nearness[0, 2] + 0.1, "texts with the same words to be nearer")
    expect(reply["usage"]["prompt_tokens"] == sum(map(len, texts)), "a token for each byte")


def show_all(screen, port, grpc_port):
    images, labels = read_held_out()
    client, rpc = Client(port), GrpcClient(grpc_port)
    show_server(screen, client)
    show_digits(screen, client, images, labels)
    show_accuracy(screen, client, images, labels)
    show_ensemble(screen, client, images, labels)
    show_chain(screen, client, images, labels)
    show_grpc(screen, client, rpc, images)
    show_latencies(screen, port, rpc, images)
    show_batches(screen, client)
    show_identity(screen, client)
    show_pictures(screen, client)
    show_sequences(screen, client)
    show_python(screen, client, images, labels)
    show_embeddings(screen, client)
    client.close()
    rpc.close()


def run(screen, server):
    start = time.perf_counter()
    port, grpc_port = server.wait_until_started()
    milliseconds = 1e3 * (time.perf_counter() - start)
    print(f"Started in {milliseconds:.0f} ms: HTTP at 127.0.0.1:{port}, gRPC at 127.0.0.1:"
          f"{grpc_port}", flush=True)
    show_all(screen, port, grpc_port)
    screen.title("SIGTERM")
    code = server.stop()
    print(f"  the server ended with exit code {code}")
    expect(code == 0, "exit code 0")


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else EXAMPLES.parent / "build").resolve()
    if not (build / "neso").exists():
        sys.exit(f"demo: {build / 'neso'} is not built")
    make_models.make_all(build / "examples")
    screen = Screen()
    server = Server(build, [EXAMPLES / "models", EXAMPLES / "python_models", build / "examples"])
    try:
        run(screen, server)
    except (Failure, OSError, http.client.HTTPException, grpc.RpcError,
            subprocess.CalledProcessError) as error:
        print("".join(collections.deque(server.log, 40)), file=sys.stderr)
        print(f"demo: FAILED: {error}", file=sys.stderr)
        return 1
    finally:
        server.process.kill()  # nothing, once it has ended
        server.process.wait()
    print(screen.colour(32, "  all as it should be"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
