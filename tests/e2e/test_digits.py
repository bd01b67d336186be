# SPDX-License-Identifier: BSD-3-Clause
"""The digits example, answer by answer, against ONNX Runtime without a server (ort_direct.c)."""
import json
import pathlib
import subprocess
import threading

import numpy
import pytest
import requests

from conftest import BUILD, ROOT

EXAMPLES = ROOT / "examples"
MODEL = EXAMPLES / "models" / "digits" / "1" / "model.onnx"
IMAGES = EXAMPLES / "data" / "heldout_images.f32"
LABELS = EXAMPLES / "data" / "heldout_labels.u8"
ORT_DIRECT = pathlib.Path(BUILD) / "tests" / "e2e" / "ort_direct"

BACKENDS = ("identity", "onnxruntime")
OPTIONS = (f"--model-repository={EXAMPLES / 'models'}",)

# As examples/README.md says; the network has its weights, so this does not move.
N_RIGHT = 358
# Sums are in another order when batches have other sizes.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def images():
    return numpy.fromfile(IMAGES, "<f4").reshape(-1, 64)


@pytest.fixture(scope="module")
def labels():
    return numpy.fromfile(LABELS, numpy.uint8)


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    """Function: probabilities of all held-out digits from ONNX Runtime, run n at a time."""
    assert ORT_DIRECT.exists(), "the backend is built, so this must be, too"
    folder = tmp_path_factory.mktemp("direct")
    known = {}

    def run(batch):
        if batch not in known:
            target = folder / f"batch{batch}.f32"
            subprocess.run([str(ORT_DIRECT), str(MODEL), str(IMAGES), str(target), str(batch)],
                           check=True, timeout=60)
            known[batch] = numpy.fromfile(target, "<f4").reshape(-1, 10)
        return known[batch]

    return run


def infer(session, server, images):
    """Probabilities [n, 10] of one request with n images, binary both ways."""
    values = images.astype("<f4").tobytes()
    head = json.dumps({
        "inputs": [{"name": "image", "datatype": "FP32", "shape": list(images.shape),
                    "parameters": {"binary_data_size": len(values)}}],
        "outputs": [{"name": "probabilities", "parameters": {"binary_data": True}}]}).encode()
    reply = session.post(f"{server.url}/v2/models/digits/infer", data=head + values, timeout=20,
                         headers={"Inference-Header-Content-Length": str(len(head))})
    assert reply.status_code == 200, reply.text
    n_head = int(reply.headers["Inference-Header-Content-Length"])
    output = json.loads(reply.content[:n_head])["outputs"][0]
    assert output["name"] == "probabilities" and output["datatype"] == "FP32"
    assert output["shape"] == [len(images), 10]
    return numpy.frombuffer(reply.content[n_head:], "<f4").reshape(-1, 10)


def infer_all(server, images, batch):
    with requests.Session() as session:
        return numpy.concatenate([infer(session, server, images[first:first + batch])
                                  for first in range(0, len(images), batch)])


def statistics(server):
    reply = requests.get(f"{server.url}/v2/models/digits/stats", timeout=20)
    return reply.json()["model_stats"][0]


def assert_near(answers, expected):
    assert (answers.argmax(axis=1) == expected.argmax(axis=1)).all()
    assert numpy.abs(answers - expected).max() <= TOLERANCE


def test_direct_answers_are_probabilities(direct, images):
    answers = direct(1)
    assert answers.shape == (len(images), 10) == (360, 10)
    assert numpy.abs(answers.sum(axis=1) - 1).max() <= TOLERANCE
    assert (answers >= 0).all()


def test_accuracy(server, images, labels):
    answers = infer_all(server, images, 64)
    assert int((answers.argmax(axis=1) == labels).sum()) == N_RIGHT


@pytest.mark.parametrize("batch", [1, 7, 8, 64])
def test_same_bits_as_direct(server, direct, images, batch):
    """Requests one after the other are batches as they are, so every bit is the same."""
    answers = infer_all(server, images, batch)
    assert answers.tobytes() == direct(batch).tobytes()
    assert_near(answers, direct(1))


def test_json_has_the_same_bits(server, direct, images):
    """The shortest digits that round-trip as FP32."""
    for number in range(20):
        request = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 64],
                               "data": images[number].tolist()}]}
        reply = requests.post(f"{server.url}/v2/models/digits/infer", json=request, timeout=20)
        assert reply.status_code == 200, reply.text
        answer = numpy.float32(reply.json()["outputs"][0]["data"])
        assert answer.tobytes() == direct(1)[number].tobytes()


def test_clients_at_the_same_time(server, direct, images):
    """Whatever is batched with whatever: everybody gets the answer to what was asked."""
    n_clients = 12
    answers = numpy.zeros((len(images), 10), numpy.float32)
    failures = []
    before = statistics(server)

    def run(client):
        try:
            with requests.Session() as session:
                for number in range(client, len(images), n_clients):
                    answers[number] = infer(session, server, images[number:number + 1])[0]
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=run, args=(client,)) for client in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert_near(answers, direct(1))

    after = statistics(server)
    assert after["inference_count"] - before["inference_count"] == len(images)
    counts = {row["batch_size"]: row["compute_infer"]["count"] for row in after["batch_stats"]}
    assert sum(size * count for size, count in counts.items()) == after["inference_count"]
    assert sum(counts.values()) == after["execution_count"]


def test_classification_has_labels(server, direct, images):
    names = "zero one two three four five six seven eight nine".split()
    request = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [2, 64],
                           "data": images[:2].ravel().tolist()}],
               "outputs": [{"name": "probabilities", "parameters": {"classification": 3}}]}
    reply = requests.post(f"{server.url}/v2/models/digits/infer", json=request, timeout=20)
    assert reply.status_code == 200, reply.text
    output = reply.json()["outputs"][0]
    assert output["datatype"] == "BYTES" and output["shape"] == [2, 3]
    expected = []
    for probabilities in direct(2)[:2]:
        best = numpy.argsort(-probabilities, kind="stable")[:3]
        expected += [f"{probabilities[index]:.6f}:{index}:{names[index]}" for index in best]
    assert output["data"] == expected


def test_configuration_is_as_written(server):
    about = requests.get(f"{server.url}/v2/models/digits", timeout=20).json()
    assert about["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 64]}]
    assert about["outputs"] == [{"name": "probabilities", "datatype": "FP32", "shape": [-1, 10]}]
    about = requests.get(f"{server.url}/v2/models/digits/config", timeout=20).json()
    assert about["max_batch_size"] == 64
    assert about["instance_group"][0]["count"] == 1
    assert about["dynamic_batching"]["max_queue_delay_microseconds"] == 0
