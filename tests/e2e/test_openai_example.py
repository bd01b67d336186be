# SPDX-License-Identifier: BSD-3-Clause
"""The example "embedder": texts become bytes in Python, and vectors in an ONNX network, over /v1/embeddings."""
import base64
import math
import struct
import sys

import pytest

from conftest import ROOT, Server, require_build
from openai_models import call
from python_programs import OPTIONS

sys.path.insert(0, str(ROOT / "examples"))
make_models = pytest.importorskip("make_models", reason="onnx is not installed")

BACKENDS = ("python", "onnxruntime")
TAKES_SECONDS = 5
TEXTS = ["the cat sat on the mat", "a cat sat on a mat", "prices fell again", "", "x" * 500, "\u00e9\u00df"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    require_build(BACKENDS)
    folder = tmp_path_factory.mktemp("example")
    make_models.make_embedder(folder)
    (folder / "text_bytes").symlink_to(ROOT / "examples" / "python_models" / "text_bytes")
    started = Server(folder, OPTIONS)
    yield started
    assert started.stop() == 0


def embed(server, texts, **more):
    answer = call(server, "/v1/embeddings", {"model": "embedder", "input": texts, **more})
    assert answer.status == 200, answer.body
    return answer.json


def vectors(server, texts, **more):
    return [row["embedding"] for row in embed(server, texts, **more)["data"]]


def test_vectors(server):
    found = vectors(server, TEXTS)
    assert [len(v) for v in found] == [64] * len(TEXTS)
    for text, vector in zip(TEXTS, found):
        assert math.hypot(*vector) == pytest.approx(1 if text else 0, abs=1e-3)
    near = [sum(a * b for a, b in zip(found[0], other)) for other in found[:3]]
    assert near[0] == pytest.approx(1, abs=1e-3) and near[1] > near[2] + 0.1


def test_one_at_a_time_gives_the_same(server):
    for text, vector in zip(TEXTS, vectors(server, TEXTS)):
        assert vectors(server, text)[0] == pytest.approx(vector, abs=1e-5)
    raw = base64.b64decode(vectors(server, TEXTS[0], encoding_format="base64")[0])
    assert list(struct.unpack("<64f", raw)) == pytest.approx(vectors(server, TEXTS[0])[0], abs=1e-5)


def test_usage_and_the_cut(server):
    assert embed(server, TEXTS)["usage"]["prompt_tokens"] == 22 + 18 + 17 + 0 + 128 + 4
    assert vectors(server, "x" * 500)[0] == pytest.approx(vectors(server, "x" * 128)[0], abs=1e-5)
