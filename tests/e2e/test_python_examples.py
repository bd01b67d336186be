# SPDX-License-Identifier: BSD-3-Clause
"""The Python models of examples/, and models as the public examples of Python backends are: sums, an
ensemble that decodes pictures, instance kinds, tensors of other libraries.

Numbers in brackets are those of the list of acceptance checks in docs/python_models.md.
"""
import io
import struct
import subprocess

import numpy
import pytest
import requests

from conftest import ROOT
from grpc_stubs import Client, client, stubs  # noqa: F401
from python_programs import RUNNER, OPTIONS as PYTHON, PYTHON as INTERPRETER, infer, run_program, model
from scrape import metrics

BACKENDS = ("python", "onnxruntime", "identity")
EXAMPLES = ROOT / "examples"
NAMES = ("digits", "digits_vote", "digits_pipeline", "primes", "ink")

ADD_SUB = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.types = [pb_utils.triton_string_to_numpy(
            pb_utils.get_output_config_by_name(config, name)["data_type"]) for name in ("SUM", "DIFF")]

    def execute(self, requests):
        responses = []
        for request in requests:
            a, b = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in "AB")
            responses.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("SUM", (a + b).astype(self.types[0])),
                pb_utils.Tensor("DIFF", (a - b).astype(self.types[1]))]))
        return responses

    def finalize(self):
        print("cleaning up")
"""
ADD_SUB_IO = "".join(f'{kind} {{ name: "{name}" data_type: TYPE_FP32 dims: [ 4 ] }}\n' for kind, name in (
    ("input", "A"), ("input", "B"), ("output", "SUM"), ("output", "DIFF")))

# A picture as a file (PPM, or what the interpreter's PIL reads) becomes an array.
DECODE = """
import io
import numpy as np
import triton_python_backend_utils as pb_utils

def read(data):
    if data[:2] == b"P6":
        magic, width, height, top, pixels = data.split(maxsplit=4)
        return np.frombuffer(pixels, np.uint8).reshape(int(height), int(width), 3)
    from PIL import Image
    return np.array(Image.open(io.BytesIO(data)))

class TritonPythonModel:
    def execute(self, requests):
        out = []
        for request in requests:
            files = pb_utils.get_input_tensor_by_name(request, "FILE").as_numpy()
            pixels = np.stack([read(data[0]) for data in files]).astype(np.float32) / 255
            out.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("PIXELS", np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))]))
        return out
"""
MEAN = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "MEAN", r.inputs()[0].as_numpy().mean(axis=(2, 3)))]) for r in requests]
"""
PICTURES = """platform: "ensemble"
max_batch_size: 4
input { name: "FILE" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "MEAN" data_type: TYPE_FP32 dims: [ 3 ] }
ensemble_scheduling {
  step { model_name: "decode" model_version: -1
         input_map { key: "FILE" value: "FILE" } output_map { key: "PIXELS" value: "pixels" } }
  step { model_name: "mean" model_version: -1
         input_map { key: "PIXELS" value: "pixels" } output_map { key: "MEAN" value: "MEAN" } }
}
"""

# The sum of a sequence so far, by its correlation ID.
SUMS = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    sums = {}

    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, r):
        key, value = r.correlation_id(), int(r.inputs()[0].as_numpy()[0, 0])
        if r.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self.sums[key] = 0
        self.sums[key] += value
        sum = self.sums[key]
        if r.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
            del self.sums[key]
        return pb_utils.InferenceResponse([pb_utils.Tensor("SUM", np.array([[sum]], np.int32))])
"""
SUMS_IO = ('max_batch_size: 4\nsequence_batching { oldest { max_candidate_sequences: 4 } }\n'
           'input { name: "ADD" data_type: TYPE_INT32 dims: [ 1 ] }\n'
           'output { name: "SUM" data_type: TYPE_INT32 dims: [ 1 ] }\n')
ASK = """
def ask(model, output, inputs, **more):
    r = pb_utils.InferenceRequest(model_name=model, requested_output_names=[output], inputs=[
        pb_utils.Tensor(k, v) for k, v in inputs.items()], **more).exec()
    return r.error().message() if r.has_error() else r.output_tensors()[0].as_numpy()
START, END = (pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START,
              pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)
"""

MODELS = {
    "lab": model(RUNNER),
    "sums": model(SUMS, io=SUMS_IO),
    "add_sub": model(ADD_SUB, io=ADD_SUB_IO),
    "decode": model(DECODE, "max_batch_size: 4\n", 'input { name: "FILE" data_type: TYPE_STRING dims: [ 1 ] }\n'
                    'output { name: "PIXELS" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] }\n'),
    "mean": model(MEAN, "max_batch_size: 4\n", 'input { name: "PIXELS" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] }\n'
                  'output { name: "MEAN" data_type: TYPE_FP32 dims: [ 3 ] }\n'),
    "pictures": PICTURES,
    **{f"kind_{kind}": model(RUNNER, f"instance_group {{ count: 1 kind: KIND_{kind} }}\n")
       for kind in ("CPU", "MODEL")},
}


def has_module(name):
    """Whether the interpreter that runs models has it."""
    return subprocess.run([INTERPRETER, "-c", f"import {name}"], capture_output=True, check=False,
                          timeout=300).returncode == 0


# digits_pipeline needs scikit-learn, which an interpreter of NESO_TEST_PYTHON may lack.
HAS_SKLEARN = has_module("sklearn")
OPTIONS = (*PYTHON, "--model-control-mode=explicit", f"--model-repository={EXAMPLES / 'models'}",
           f"--model-repository={EXAMPLES / 'python_models'}",
           *(f"--load-model={name}" for name in (*MODELS, *NAMES)
             if HAS_SKLEARN or name != "digits_pipeline"))


@pytest.fixture(scope="module")
def images():
    return numpy.fromfile(EXAMPLES / "data" / "heldout_images.f32", "<f4").reshape(-1, 64)


@pytest.fixture(scope="module")
def labels():
    return numpy.fromfile(EXAMPLES / "data" / "heldout_labels.u8", numpy.uint8)


def image_input(images):
    return [{"name": "image", "datatype": "FP32", "shape": list(images.shape),
             "data": images.ravel().tolist()}]


# ---- examples/ ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not HAS_SKLEARN, reason="the interpreter has no scikit-learn")
def test_a_scikit_learn_pipeline(server, images, labels):
    read = []
    for i in range(0, 360, 60):
        status, answer = infer(server, "digits_pipeline", image_input(images[i:i + 60]))
        assert status == 200, answer
        read += answer["outputs"][0]["data"]
    assert (numpy.array(read) == labels).sum() >= 0.97 * 360


def test_calls_of_another_model(server, images, labels):
    names = "zero one two three four five six seven eight nine".split()
    right = 0
    for image, label in zip(images[:40], labels):
        status, answer = infer(server, "digits_vote", image_input(image))
        assert status == 200, answer
        assert answer["parameters"]["pictures"] == 5
        right += answer["outputs"][0]["data"] == [names[label]]
    assert right >= 36


def test_a_generator(client):  # noqa: F811
    """Two streams side by side; the responses of each come in order."""
    asked = {"few": 5, "many": 300}
    seen = {name: [] for name in asked}
    for message in client.stream([client.request("primes", [("N", "INT32", [1])],
                                                 [struct.pack("<i", n)], id=name)
                                  for name, n in asked.items()]):
        assert not message.error_message
        response = message.infer_response
        assert response.parameters["index"].int64_param == len(seen[response.id])
        seen[response.id].append(struct.unpack("<q", response.raw_output_contents[0])[0])
    assert seen["few"] == [2, 3, 5, 7, 11]
    assert (len(seen["many"]), seen["many"][-1]) == (300, 1987)


def test_metrics_of_a_model(server, images):
    """(8) They leave the page with the model."""
    shares = [float(image.mean()) / 16 for image in images[:10]]
    for image, share in zip(images[:10], shares):
        status, answer = infer(server, "ink", image_input(image))
        assert status == 200 and answer["outputs"][0]["data"] == [pytest.approx(share)]
    page = metrics(server)
    assert page['example_pictures_total{model="ink"}'] == 10
    assert page['example_ink_last{model="ink"}'] == pytest.approx(shares[-1])
    assert page['example_ink_count{model="ink"}'] == 10
    assert page['example_ink_sum{model="ink"}'] == pytest.approx(sum(shares))
    assert requests.post(f"{server.url}/v2/repository/models/ink/unload", json={},
                         timeout=60).status_code == 200
    server.wait_for_line("successfully unloaded 'ink'")
    assert not [name for name in metrics(server) if name.startswith("example_")]


# ---- as public examples are --------------------------------------------------------------------------

A, B = [1.0, 2.0, 3.0, 4.0], [0.5, -2.0, 3.0, 1e10]


def test_sums_over_http(server):
    """(1)"""
    status, answer = infer(server, "add_sub", [
        {"name": name, "datatype": "FP32", "shape": [4], "data": data} for name, data in (
            ("A", A), ("B", B))])
    assert status == 200, answer
    assert {o["name"]: o["data"] for o in answer["outputs"]} == {
        "SUM": [1.5, 0.0, 6.0, 1e10], "DIFF": [0.5, 4.0, 0.0, -1e10]}


def test_sums_over_grpc(client):  # noqa: F811
    """(1)"""
    answer = client.infer("add_sub", [("A", "FP32", [4]), ("B", "FP32", [4])],
                          [struct.pack("<4f", *A), struct.pack("<4f", *B)])
    assert {o.name: struct.unpack("<4f", raw) for o, raw in zip(
        answer.outputs, answer.raw_output_contents)} == {
        "SUM": (1.5, 0.0, 6.0, 1e10), "DIFF": (0.5, 4.0, 0.0, -1e10)}


def as_ppm(pixels):
    height, width, _ = pixels.shape
    return b"P6 %d %d 255\n" % (width, height) + pixels.tobytes()


def as_jpeg(pixels):
    if not has_module("PIL"):
        pytest.skip("the interpreter has no PIL, which reads JPEG")
    file = io.BytesIO()
    pytest.importorskip("PIL.Image").fromarray(pixels).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.mark.parametrize("encode", [as_ppm, as_jpeg])
def test_pictures_are_decoded_in_an_ensemble(client, encode):  # noqa: F811
    """(7)"""
    rows, columns = numpy.mgrid[0:24, 0:32]
    picture = numpy.stack([rows * 8, columns * 4, 255 - rows * 8], axis=2).astype(numpy.uint8)
    files = [encode(picture), encode(picture[::-1].copy())]
    raw = b"".join(struct.pack("<I", len(data)) + data for data in files)
    answer = client.infer("pictures", [("FILE", "BYTES", [2, 1])], [raw])
    means = numpy.frombuffer(answer.raw_output_contents[0], "<f4").reshape(2, 3)
    assert numpy.abs(means - picture.mean(axis=(0, 1)) / 255).max() < 0.01


def test_calls_of_a_model_with_sequences(server):
    """(36) IDs that are numbers and texts, interleaved; a request without START is refused."""
    assert run_program(server, ASK + """
result = []
for i, key in enumerate([7, "seven", 7, "seven", 7, "seven"]):
    flags = START if i < 2 else END if i > 3 else 0
    sum = ask("sums", "SUM", {"ADD": np.array([[10 ** (i % 2) * (i + 1)]], np.int32)},
              correlation_id=key, flags=flags)
    result.append(sum if isinstance(sum, str) else int(sum[0, 0]))
result.append(ask("sums", "SUM", {"ADD": np.ones((1, 1), np.int32)}, correlation_id=7))
""") == [1, 20, 4, 60, 9, 120,
         "Model sums - Error when running inference: inference request for sequence 7 to model 'sums' "
         "must specify the START flag on the first request of the sequence"]


def test_calls_of_an_ensemble(server):
    """(36)"""
    picture = numpy.zeros((4, 5, 3), numpy.uint8)
    picture[:, :, 1] = 255
    assert run_program(server, ASK + f"file = {as_ppm(picture)!r}\n" + """
result = ask("pictures", "MEAN", {"FILE": np.array([[file], [file]], dtype=np.object_)}).tolist()
""") == [[0, 1, 0]] * 2


def test_calls_of_a_model_of_onnx_runtime(server, images, labels):
    """(36) The values that a client gets."""
    status, direct = infer(server, "digits", image_input(images[:3]))
    assert status == 200
    assert run_program(server, ASK + f"images = np.array({images[:3].tolist()}, np.float32)\n" + """
result = [float(v) for v in ask("digits", "probabilities", {"image": images}).ravel()]
""") == pytest.approx(direct["outputs"][0]["data"], rel=1e-6)
    assert [row.index(max(row)) for row in numpy.array(
        direct["outputs"][0]["data"]).reshape(3, 10).tolist()] == labels[:3].tolist()


@pytest.mark.parametrize("kind", ["CPU", "MODEL"])
def test_instance_kinds(server, kind):
    """(9)"""
    assert run_program(server, "result = [self.args['model_instance_kind'], "
                       "self.args['model_instance_device_id']]", name=f"kind_{kind}") == [kind, "0"]


TENSORS_OF = {
    "torch": """
import torch
x = torch.from_dlpack(pb_utils.Tensor("x", np.arange(6, dtype=np.float32).reshape(2, 3)).to_dlpack())
y = pb_utils.Tensor.from_dlpack("y", torch.utils.dlpack.to_dlpack(x * 2))
result = y.as_numpy().tolist()
""",
    "jax": """
import jax.numpy as jnp
x = jnp.asarray(pb_utils.Tensor("x", np.arange(6, dtype=np.float32).reshape(2, 3)).as_numpy())
result = pb_utils.Tensor("y", np.array(x * 2)).as_numpy().tolist()
""",
    "numpy": """
x = np.from_dlpack(pb_utils.Tensor("x", np.arange(6, dtype=np.float32).reshape(2, 3)))
result = pb_utils.Tensor.from_dlpack("y", x * np.float32(2)).as_numpy().tolist()
""",
}


@pytest.mark.parametrize("library", TENSORS_OF)
def test_tensors_of_other_libraries(server, library):
    """(9)"""
    if not has_module(library):
        pytest.skip(f"the interpreter has no {library}")
    assert run_program(server, TENSORS_OF[library], name="kind_CPU") == [[0, 2, 4], [6, 8, 10]]
