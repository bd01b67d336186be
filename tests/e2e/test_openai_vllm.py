# SPDX-License-Identifier: BSD-3-Clause
"""The OpenAI API over the vLLM backend of Triton: check 3. Its program is not here, and needs a GPU; vllm_model.py has its
inputs, outputs, parameters and metrics, and is a program as backend, as that is."""
import json
import urllib.request

import pytest

import openai_models as lab
from conftest import BUILD, ROOT, Server, require_build, write_repository
from openai_models import call, chat, chunks, complete
from python_programs import OPTIONS as PYTHON_OPTIONS
from test_openai_limits import wait_until

BACKENDS = ("python",)
TAKES_SECONDS = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    require_build(BACKENDS)
    folder = tmp_path_factory.mktemp("vllm")
    (folder / "backends" / "vllm").mkdir(parents=True)
    (folder / "backends" / "python").symlink_to(BUILD / "backends" / "python")
    (folder / "backends" / "vllm" / "model.py").symlink_to(ROOT / "tests" / "e2e" / "vllm_model.py")
    engine = {"model": "stand-in", "log": str(folder / "log"), "enable_lora": "true"}
    config = 'backend: "vllm"\ninstance_group { count: 1 kind: KIND_MODEL }\n'
    write_repository(folder / "models", {
        "llm": {"config.pbtxt": config + lab.parameters(openai_template="render"),
                "1/model.json": json.dumps(engine), "1/multi_lora.json": '{"doll": "/x", "sheep": "/y"}'},
        "plain": {"config.pbtxt": config, "1/model.json": json.dumps({**engine, "enable_lora": False})},
        "render": lab.models(folder / "log")["render"]})
    started = Server(folder / "models", (*PYTHON_OPTIONS, f"--backend-directory={folder / 'backends'}",
                                         "--openai-lora-separator=_lora_"), ("http", "metrics"))
    started.log_file = folder / "log"
    yield started
    assert started.stop() == 0


def test_3_the_configuration_is_completed(server):
    config = call(server, "/v2/models/llm/config").json
    assert config["model_transaction_policy"] == {"decoupled": True}
    assert [i["name"] for i in config["input"] if not i.get("optional")] == ["text_input"]
    assert {m["id"] for m in call(server, "/v1/models").json["data"]} == {"llm", "plain"}


def test_3_a_completion(server):
    found = complete(server, "llm", "one two three").json
    assert found["choices"] == [{"index": 0, "text": "one two three", "logprobs": None, "finish_reason": "stop"}]
    assert found["usage"] == {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
    found = complete(server, "llm", "one two three", max_tokens=2, echo=True).json
    assert found["choices"][0]["text"] == "one two threeone two"
    assert found["choices"][0]["finish_reason"] == "length"


def test_3_a_stream(server):
    found = chunks(complete(server, "llm", "one two three", stream=True, stop="three",
                            stream_options={"include_usage": True}).body)
    assert [(c["text"], c["finish_reason"]) for one in found for c in one["choices"]] == [
        ("one", None), (" two", "stop")]
    assert found[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def test_3_several_choices(server):
    found = complete(server, "llm", "a b", n=3).json
    assert [(c["index"], c["text"]) for c in found["choices"]] == [(0, "a b"), (1, "a b#1"), (2, "a b#2")]
    assert found["usage"]["completion_tokens"] == 6
    texts = ["", "", ""]
    for one in chunks(complete(server, "llm", "a b", n=3, stream=True).body):
        for choice in one["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == ["a b", "a#1 b#1", "a#2 b#2"]


def test_3_a_chat(server):
    found = chat(server, "llm", "Hi there").json
    assert found["choices"][0]["message"]["content"] == "user: Hi there"
    [entry] = chat(server, "llm", "x|y", logprobs=True).json["choices"][0]["logprobs"]["content"]
    assert (entry["token"], entry["logprob"]) == ("x|y", -0.5)


def test_3_the_parameters_of_sampling(server):
    found = complete(server, "llm", "@sampling", temperature=0.5, top_p=1, top_k=4, min_p=0.25, seed=7, stop=["x"],
                     frequency_penalty=1, presence_penalty=-1, logit_bias={"5": 1}, logprobs=1, max_tokens=9).json
    assert json.loads(found["choices"][0]["text"]) == {
        "temperature": 0.5, "top_p": 1, "top_k": 4, "min_p": 0.25, "seed": 7, "stop": ["x"], "frequency_penalty": 1,
        "presence_penalty": -1, "logit_bias": {"5": 1}, "logprobs": 1, "max_tokens": 9}
    answer = complete(server, "llm", "a", top_kk=4)
    assert answer.status == 500
    assert answer.error["message"] == "Error generating stream: Unexpected keyword argument 'top_kk'"


def test_3_a_schema(server):
    schema = {"type": "object"}
    found = chat(server, "llm", "@json", response_format={"type": "json_schema",
                                                          "json_schema": {"name": "x", "schema": schema}}).json
    assert json.loads(found["choices"][0]["message"]["content"]) == {"json": schema}


def test_3_embeddings_without_the_input_that_is_required(server):
    """The reference counts inputs, and does not name those that are missing."""
    answer = call(server, "/v1/embeddings", {"model": "llm", "input": ["a b", "c"], "dimensions": 2,
                                             "encoding_format": "float"})
    assert answer.status == 200, answer.body
    assert [row["embedding"] for row in answer.json["data"]] == [[3, 3], [1, 1]]
    assert answer.json["usage"]["prompt_tokens"] == 3


@pytest.mark.parametrize("stream", [False, True])
def test_3_a_client_that_hangs_up_aborts(server, stream):
    def count(word):
        return server.log_file.read_text(encoding="ascii").count(word) if server.log_file.exists() else 0

    before = count("holds"), count("aborted")
    link = lab.begin(server, "/v1/completions", {"model": "llm", "prompt": "@hold", "stream": stream})
    wait_until(lambda: count("holds") == before[0] + 1)
    link.close()
    wait_until(lambda: count("aborted") == before[1] + 1)


def test_3_lora_adapters(server):
    found = complete(server, "llm_lora_doll", "@sampling").json
    assert found["model"] == "llm_lora_doll"  # the program takes the name out of the parameters
    assert found["choices"][0]["text"] == "{}"
    assert chat(server, "llm_lora_sheep", "Hi").json["choices"][0]["message"]["content"] == "user: Hi"
    answer = complete(server, "llm_lora_cat", "a")
    assert answer.error["message"] == "LoRA cat is not supported, we currently support ['doll', 'sheep']"
    assert complete(server, "plain_lora_doll", "a").error["message"] == "LoRA feature is not enabled."
    answer = complete(server, "nobody_lora_doll", "a")
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    answer = call(server, "/v1/embeddings", {"model": "llm_lora_doll", "input": "a"})
    assert answer.status == 400 and answer.error["param"] == "model"
    for name in ("llm_lora_a_lora_b", "llm_lora_", "_lora_doll"):  # no adapter of a model
        assert complete(server, name, "a").status == 404


def test_3_metrics(server):
    def value(name):
        url = f"http://127.0.0.1:{server.port('metrics')}/metrics"
        with urllib.request.urlopen(url, timeout=20) as page:
            lines = page.read().decode().splitlines()
        [line] = [one for one in lines if one.startswith(f'vllm:{name}{{model="plain",version="1"}}')]
        return float(line.rsplit(" ", 1)[1])

    before = value("prompt_tokens_total"), value("generation_tokens_total")
    assert complete(server, "plain", "a b c", max_tokens=2).status == 200
    assert (value("prompt_tokens_total"), value("generation_tokens_total")) == (before[0] + 3, before[1] + 2)
