# SPDX-License-Identifier: BSD-3-Clause
"""The OpenAI API: embeddings over each format, and the metrics of all its endpoints."""
import base64
import json
import math
import pathlib
import struct
import tempfile
import urllib.request

import pytest

import openai_models
from openai_models import call, chat, complete
from python_programs import OPTIONS as PYTHON_OPTIONS
from test_memory import MIB, check_peak, forget_peak

BACKENDS = openai_models.BACKENDS
FOLDER = tempfile.TemporaryDirectory(prefix="openai_embeddings_")
MODELS = openai_models.models(pathlib.Path(FOLDER.name) / "log")
OPTIONS = PYTHON_OPTIONS
TAKES_SECONDS = 15


def embed(server, name, texts, **more):
    return call(server, "/v1/embeddings", {"model": name, "input": texts, **more})


def vectors(answer):
    assert answer.status == 200, answer.body
    assert [row["index"] for row in answer.json["data"]] == list(range(len(answer.json["data"])))
    return [row["embedding"] for row in answer.json["data"]]


def decoded(text):
    raw = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


def test_one_text(server):
    answer = embed(server, "embed", "a bc")
    assert answer.json == {
        "object": "list", "model": "embed",
        "data": [{"object": "embedding", "index": 0, "embedding": [4.0, 1.0, 2.0, 2.0]}],
        "usage": {"prompt_tokens": 2, "total_tokens": 2}}
    assert answer.headers["x-request-id"].startswith("embd-")


@pytest.mark.parametrize("name", ["embed", "embed_one"])
def test_a_list_of_texts(server, name):
    """Batches of two, or one request for each."""
    answer = embed(server, name, ["a", "bb", "c c c", "dddd", "eeeee"])
    assert [v[0] for v in vectors(answer)] == [1, 2, 5, 4, 5]
    assert answer.json["usage"] == {"prompt_tokens": 7, "total_tokens": 7}


def test_lists_run_as_batches(server):
    def executed():
        stats = call(server, "/v2/models/embed/stats").json["model_stats"][0]
        return stats["inference_count"], stats["execution_count"]

    before = executed()
    vectors(embed(server, "embed", ["a", "b", "c", "d"]))
    after = executed()
    assert after[0] - before[0] == 4 and after[1] - before[1] <= 2


def test_base64(server):
    answer = embed(server, "embed", ["a", "bb"], encoding_format="base64")
    assert [decoded(v) for v in vectors(answer)] == [[1, 1, 2, 2], [2, 1, 2, 2]]
    assert vectors(embed(server, "embed", "a", encoding_format="float")) == [[1, 1, 2, 2]]


@pytest.mark.parametrize("form", ["float", "base64"])
def test_dimensions_are_cut_and_normalised(server, form):
    row = vectors(embed(server, "embed", "aa", dimensions=3, encoding_format=form))[0]
    row = decoded(row) if form == "base64" else row
    assert row == pytest.approx([2 / 3, 1 / 3, 2 / 3])
    assert math.hypot(*row) == pytest.approx(1)
    answer = embed(server, "embed", "aa", dimensions=5)
    assert answer.status == 400 and answer.error["param"] == "dimensions"


@pytest.mark.parametrize("form", ["float", "base64"])
def test_a_very_short_vector_is_normalised(server, form):
    """The factor is larger than the largest float."""
    row = vectors(embed(server, "embed", "@1e-44", dimensions=1, encoding_format=form))[0]
    assert (decoded(row) if form == "base64" else row) == [1]


@pytest.mark.parametrize("form", ["float", "base64"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("name", ["embed", "embed_one", "speaks"])
def test_vectors_without_numbers(server, name, value, form):
    """JSON has no NaN; a client could not compute with one, either."""
    answer = embed(server, name, ["a", "@" + value, "b"], encoding_format=form)
    assert answer.status == 500, answer.body
    assert answer.error["message"] == f"model '{name}' gave NaN or an infinity in the vector of text 1"
    assert len(vectors(embed(server, name, ["a", "@2", "b"], encoding_format=form))) == 3


def test_dimensions_are_passed_on(server):
    assert vectors(embed(server, "embed_one", "aa", dimensions=2)) == [[2, 1]]


def test_vllm(server):
    answer = embed(server, "vllm_embedding", ["a", "bb cc"])
    assert vectors(answer) == [[1.0] * 3, [5.0] * 3]
    assert answer.json["usage"]["prompt_tokens"] == 3
    answer = embed(server, "vllm_embedding", "abc", dimensions=2, encoding_format="base64")
    assert [decoded(v) for v in vectors(answer)] == [[3.0, 3.0]]


@pytest.mark.parametrize("form", ["float", "base64"])
@pytest.mark.parametrize("word", ["5", "null", "{}", '"a"'])
def test_a_model_that_gives_no_list(server, word, form):
    answer = embed(server, "speaks", "@@" + word, encoding_format=form)
    assert answer.status == 500
    assert answer.error["message"] == "model 'speaks' answered 'data' that is no array"


def test_a_model_that_speaks_the_api(server):
    answer = embed(server, "speaks", ["a", "bb"])
    assert vectors(answer) == [[0.5, 1], [0.5, 2]]
    assert (answer.json["object"], answer.json["model"]) == ("list", "speaks")
    assert answer.json["usage"]["total_tokens"] == 3
    answer = embed(server, "speaks", ["a", "bb"], encoding_format="base64")
    assert [decoded(v) for v in vectors(answer)] == [[0.5, 1], [0.5, 2]]


@pytest.mark.parametrize("name, more, param", [
    ("embed", {"input": [1, 2]}, "input"), ("embed", {"input": []}, "input"),
    ("embed", {"input": [[1], [2]]}, "input"), ("embed", {"input": None}, "input"),
    ("embed", {"input": ["a"] * 2049}, "input"), ("embed", {"encoding_format": "hex"},
                                                  "encoding_format"),
    ("embed", {"dimensions": 0}, "dimensions"), ("llmapi", {}, "model"), ("plain", {}, "model"),
])
def test_wrong_requests(server, name, more, param):
    answer = call(server, "/v1/embeddings", {"model": name, "input": "a", **more})
    assert answer.status == 400, answer.body
    assert answer.error["param"] == param


# ---- long requests and answers, which compute threads read and print ----


def test_long_texts(server):
    text = "\u00e9 x\"" * 100000
    answer = complete(server, "plain", text)
    assert answer.status == 200, answer.body[:300]
    assert answer.json["choices"][0]["text"] == text
    found = openai_models.chunks(complete(server, "plain", text, stream=True).body)
    assert "".join(c["choices"][0]["text"] for c in found) == text
    answer = chat(server, "speaks", text)
    assert answer.json["choices"][0]["message"]["content"] == text
    answer = complete(server, "plain", text, temperature=9)
    assert answer.status == 400 and answer.error["param"] == "temperature"


def test_many_texts(server):
    answer = embed(server, "embed", [f"{'word ' * 40}{i}" for i in range(2048)],
                   encoding_format="base64")
    found = vectors(answer)
    assert len(found) == 2048 and decoded(found[-1]) == [204, 1, 2, 2]
    assert answer.json["usage"]["prompt_tokens"] == 41 * 2048


@pytest.mark.parametrize("name", ["embed_one", "vllm_embedding"])
def test_many_short_texts_hold_little(server, name):
    """Each takes an inference of some KiB. They do not all run at a time, and each answer stays with its text."""
    texts = ["a" * (1 + i % 7) for i in range(2048)]
    assert len(vectors(embed(server, name, texts[:300]))) == 300
    before = forget_peak(server)
    answer = embed(server, name, texts)
    assert [v[0] for v in vectors(answer)] == [len(text) for text in texts]
    assert answer.json["usage"]["prompt_tokens"] == 2048
    check_peak(server, before, 4 * MIB)


def test_wrong_tokens_of_a_late_list(server):
    """They are refused before the first inference begins."""
    def executed():
        return call(server, "/v2/models/vllm_embedding/stats").json["model_stats"][0]["execution_count"]

    before = executed()
    answer = embed(server, "vllm_embedding", [[1]] * 1000 + [[-1]])
    assert answer.status == 400 and answer.error["param"] == "input"
    assert executed() == before


def test_a_client_that_hangs_up_while_its_body_is_read(server):
    for _ in range(20):
        openai_models.begin(server, "/v1/completions", {"model": "llmapi", "prompt": "a" * 1000000}).close()
    assert complete(server, "plain", "a").status == 200


# ---- metrics ------------------------------------------------------------------------------------


def metrics(server):
    """{name and labels: value} of the metrics of language models."""
    url = f"http://127.0.0.1:{server.port('metrics')}/metrics"
    with urllib.request.urlopen(url, timeout=20) as page:
        lines = page.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines
            if line.startswith("neso_llm_")}


def test_metrics(server):
    before = metrics(server)
    chat(server, "speaks", "a|b", stream=True)
    complete(server, "plain", "a|b|c", stream=True)
    complete(server, "plain", "a", n=2)
    complete(server, "plain", "@fail")
    complete(server, "trtllm", "a|b", max_tokens=2)
    embed(server, "embed", ["a", "b", "c"])
    embed(server, "embed", ["a"])
    found = {k: v - before.get(k, 0) for k, v in metrics(server).items() if v != before.get(k, 0)}

    def value(name, model, reason=None):
        labels = f'model="{model}",version="1"'
        if reason is not None:
            labels = f'finish_reason="{reason}",{labels}'
        return found.get(f"neso_llm_{name}{{{labels}}}", 0)

    assert value("time_to_first_token_seconds_count", "plain") == 1
    assert value("inter_token_latency_seconds_count", "plain") == 2
    assert value("request_seconds_count", "plain") == 2
    assert value("prompt_tokens_total", "plain") == 2
    assert value("generation_tokens_total", "plain") == 5
    assert value("requests_total", "plain", "stop") == 3
    assert value("requests_total", "plain", "error") == 1
    assert value("requests_total", "trtllm", "length") == 1
    assert value("requests_total", "embed", "other") == value("request_seconds_count", "embed") == 2
    assert value("time_to_first_token_seconds_count", "speaks") == 1
    assert value("inter_token_latency_seconds_count", "speaks") == 1  # neither the role nor the end
    assert value("generation_tokens_total", "speaks") == 2
    assert value("prompt_tokens_total", "speaks") == 5
    assert value("requests_total", "speaks", "stop") == 1

