# SPDX-License-Identifier: BSD-3-Clause
"""Embeddings by the llamacpp backend."""
import base64

import numpy as np
import pytest

from conftest import gguf, llama, needs_library, options
from openai_models import call, complete

pytestmark = needs_library

BACKENDS = ("python",)
MODELS = {
    "mean": llama(gguf(context=64, pooling=1), slots=4, tokens_per_step=64),
    "last": llama(gguf(context=64), slots=4, pooling="last"),
}
OPTIONS = options()
WIDTH = 32


def vectors(server, texts, model="mean", **more):
    answer = call(server, "/v1/embeddings", {"model": model, "input": texts, **more})
    assert answer.status == 200, answer.body
    rows = answer.json["data"]
    assert [row["index"] for row in rows] == list(range(len(rows)))
    return np.array([row["embedding"] for row in rows], np.float32), answer.json["usage"]


@pytest.mark.parametrize("model", MODELS)
def test_vectors_alone_and_together(server, model):
    """More texts than slots, and more tokens than a step has; each vector is that of its text alone."""
    texts = [f"text {i} " + "x" * (5 * i) for i in range(9)]
    together, used = vectors(server, texts, model)
    assert together.shape == (9, WIDTH)
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(9), abs=1e-5)
    tokens = [1 + len(text) + 2 * text.count(" ") for text in texts]
    assert used == {"prompt_tokens": sum(tokens), "total_tokens": sum(tokens)}
    for text, vector in zip(texts, together):
        alone, _ = vectors(server, text, model)
        assert alone[0] == pytest.approx(vector, abs=0.01)
    distances = np.linalg.norm(together[:, None] - together[None], axis=2)[~np.eye(9, dtype=bool)]
    assert distances.min() > 0.01


def test_the_pooling_matters(server):
    assert np.linalg.norm(vectors(server, "a text", "mean")[0] - vectors(server, "a text", "last")[0]) > 0.1


def test_dimensions_and_forms(server):
    whole, _ = vectors(server, "a text")
    short, _ = vectors(server, "a text", dimensions=8)
    assert short[0] == pytest.approx(whole[0, :8] / np.linalg.norm(whole[0, :8]), abs=1e-5)
    answer = call(server, "/v1/embeddings", {"model": "mean", "input": "a text", "encoding_format": "base64"})
    found = np.frombuffer(base64.b64decode(answer.json["data"][0]["embedding"]), np.float32)
    assert found == pytest.approx(whole[0], abs=1e-6)
    ids = [1] + [3 + byte for byte in b"abc"]
    assert vectors(server, ids)[0][0] == pytest.approx(vectors(server, ["abc"])[0][0], abs=1e-6)
    assert vectors(server, [ids, ids])[0].shape == (2, WIDTH)


@pytest.mark.parametrize("body, text, code", [
    ({"input": "x" * 64}, "a text of 'input' has 65 tokens, the context of this model has 64",
     "context_length_exceeded"),
    ({"input": "x", "dimensions": 33}, "'dimensions' is 33, but the vectors of this model have 32", None),
    ({"input": [259]}, "a token id of 'input' is not one of the 259 of this model", None)])
def test_refusals(server, body, text, code):
    answer = call(server, "/v1/embeddings", {"model": "mean", **body})
    assert answer.status == 400, answer.body
    assert (answer.error["message"], answer.error["code"]) == (text, code)
    assert vectors(server, "x")[0].shape == (1, WIDTH)


def test_texts_are_refused(server):
    answer = complete(server, "mean", "x")
    assert answer.status == 400 and answer.error["message"] == "model 'mean' makes embeddings only"
