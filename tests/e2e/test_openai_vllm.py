# SPDX-License-Identifier: BSD-3-Clause
"""The OpenAI API over the vLLM backend of Triton: check 3. Every test runs over vllm_model.py, a program of ours with its
inputs, outputs, parameters and metrics; and over its own program where NESO_VLLM_BACKEND names a folder with the
unmodified `model.py` and `utils`. Below both there is no engine with a GPU, but the words of vllm_stand_in."""
import json
import os
import pathlib
import threading
import urllib.request

import pytest

import openai_models as lab
from conftest import BUILD, ROOT, Server, require_build, write_repository
from openai_models import call, chat, chunks, complete
from python_programs import OPTIONS as PYTHON_OPTIONS
from test_openai_limits import wait_until

BACKENDS = ("python",)
TAKES_SECONDS = 20
E2E = ROOT / "tests" / "e2e"
KINDS = 'backend: "vllm"\ninstance_group { count: 1 kind: KIND_MODEL }\n'


def add_program(whose, folder):
    """Makes `folder` the backend's."""
    if whose == "ours":
        folder.mkdir()
        (folder / "model.py").symlink_to(E2E / "vllm_model.py")
        return
    program = pathlib.Path(os.environ["NESO_VLLM_BACKEND"]).resolve() if "NESO_VLLM_BACKEND" in os.environ else None
    if program is None:
        pytest.skip("NESO_VLLM_BACKEND does not name a folder with the vLLM backend's model.py and utils")
    assert (program / "model.py").is_file() and (program / "utils").is_dir(), program
    folder.symlink_to(program)


def make_models(folder):
    engine = {"model": "stand-in", "additional_config": {"log": str(folder / "log")}, "enable_lora": "true"}
    without = {**engine, "enable_lora": False}
    return {
        "llm": {"config.pbtxt": KINDS + lab.parameters(openai_template="render"),
                "1/model.json": json.dumps(engine), "1/multi_lora.json": '{"doll": "/x", "sheep": "/y"}'},
        "plain": {"config.pbtxt": KINDS + lab.parameters(REPORT_CUSTOM_METRICS="true"),
                  "1/model.json": json.dumps({**without, "runner": "generate"})},
        "checked": {"config.pbtxt": KINDS + lab.parameters(ENABLE_VLLM_HEALTH_CHECK="true",
                                                              openai_max_tokens="40"),
                    "1/model.json": json.dumps(without)},
        "absent": {"config.pbtxt": KINDS, "1/model.json": json.dumps({**without, "model": "missing"})},
        "render": lab.models(folder / "log")["render"]}


@pytest.fixture(scope="module", params=["ours", "theirs"])
def server(request, tmp_path_factory):
    require_build(BACKENDS)
    folder = tmp_path_factory.mktemp("vllm")
    (folder / "backends").mkdir()
    (folder / "backends" / "python").symlink_to(BUILD / "backends" / "python")
    add_program(request.param, folder / "backends" / "vllm")
    write_repository(folder / "models", make_models(folder))
    started = Server(folder / "models", (
        *PYTHON_OPTIONS, f"--backend-directory={folder / 'backends'}", "--openai-lora-separator=_lora_",
        "--model-control-mode=explicit", *(f"--load-model={name}" for name in ("llm", "plain", "checked", "render"))),
        ("http", "metrics"), under=("env", f"PYTHONPATH={E2E / 'vllm_stand_in'}", "PYTHONDONTWRITEBYTECODE=1"))
    started.log_file, started.whose = folder / "log", request.param
    started.program_text = (folder / "backends" / "vllm" / "model.py").read_text(encoding="utf-8")
    yield started
    assert started.stop() == 0


def count(server, word):
    return server.log_file.read_text(encoding="ascii").count(word) if server.log_file.exists() else 0


def test_3_the_configuration_is_completed(server):
    config = call(server, "/v2/models/llm/config").json
    assert config["model_transaction_policy"] == {"decoupled": True}
    assert [i["name"] for i in config["input"] if not i.get("optional")] == ["text_input"]
    assert {m["id"] for m in call(server, "/v1/models").json["data"]} == {"llm", "plain", "checked"}


def test_3_a_completion(server):
    found = complete(server, "llm", "one two three").json
    assert found["choices"] == [{"index": 0, "text": "one two three", "logprobs": None, "finish_reason": "stop"}]
    assert found["usage"] == {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
    found = complete(server, "llm", "one two three", max_tokens=2, echo=True).json
    assert found["choices"][0]["text"] == "one two threeone two"
    assert found["choices"][0]["finish_reason"] == "length"


def test_3_a_completion_without_a_limit(server):
    """vLLM's own is 16 tokens."""
    prompt = " ".join("abcdefghijklmnopqrst")
    found = complete(server, "llm", prompt).json
    assert (found["usage"]["completion_tokens"], found["choices"][0]["finish_reason"]) == (16, "length")
    found = complete(server, "checked", prompt).json
    assert (found["usage"]["completion_tokens"], found["choices"][0]["finish_reason"]) == (20, "stop")


def test_3_a_stream(server):
    found = chunks(complete(server, "llm", "one two three", stream=True, stop="three",
                            stream_options={"include_usage": True}).body)
    assert [(c["text"], c["finish_reason"]) for one in found for c in one["choices"]] == [
        ("one", None), (" two", "stop")]
    assert found[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def test_3_a_stream_that_repeats_the_prompt(server):
    """The program refuses that, so the server does it, once for each choice."""
    found = chunks(complete(server, "llm", ["one two", "x"], stream=True, echo=True, n=2).body)
    texts = {}
    for one in found:
        for choice in one["choices"]:
            texts.setdefault(choice["index"], []).append(choice["text"])
    assert texts == {0: ["one two", "one", " two"], 1: ["one two", "one#1", " two#1"], 2: ["x", "x"], 3: ["x", "x#1"]}


def test_3_several_choices(server):
    found = complete(server, "llm", "a b", n=3).json
    assert [(c["index"], c["text"]) for c in found["choices"]] == [(0, "a b"), (1, "a#1 b#1"), (2, "a#2 b#2")]
    assert found["usage"]["completion_tokens"] == 6
    texts = ["", "", ""]
    for one in chunks(complete(server, "llm", "a b", n=3, stream=True).body):
        for choice in one["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == ["a b", "a#1 b#1", "a#2 b#2"]


def test_3_a_chat(server):
    found = chat(server, "llm", "Hi there").json
    assert found["choices"][0]["message"]["content"] == "user: Hi there"


def test_3_logprobs(server):
    [entry] = chat(server, "llm", "x|y", logprobs=True).json["choices"][0]["logprobs"]["content"]
    assert (entry["token"], entry["logprob"]) == ("x|y", -0.5)
    found = complete(server, "llm", "a bc", logprobs=2, n=2).json["choices"]
    assert [one["logprobs"]["tokens"] for one in found] == [["a", " bc"], ["a#1", " bc#1"]]
    assert found[1]["logprobs"]["top_logprobs"] == [{"a#1": -0.5, "rival1": -1.5}, {" bc#1": -0.5, "rival1": -1.5}]
    streamed = chunks(complete(server, "llm", "a bc", logprobs=1, stream=True).body)
    assert [one["choices"][0]["logprobs"]["tokens"] for one in streamed] == [["a"], [" bc"]]


def test_3_a_last_token_without_text(server):
    found = chunks(complete(server, "llm", "a @end", stream=True, stream_options={"include_usage": True}).body)
    assert [(c["text"], c["finish_reason"]) for one in found for c in one["choices"]] == [("a", None), ("", "stop")]
    assert found[-1]["usage"]["completion_tokens"] == 2


def test_3_an_answer_without_tokens(server):
    found = complete(server, "llm", "a b", stop="a").json
    assert [(c["text"], c["finish_reason"]) for c in found["choices"]] == [("", "stop")]
    assert found["usage"] == {"prompt_tokens": 2, "completion_tokens": 0, "total_tokens": 2}
    found = chunks(complete(server, "llm", "a b", stop="a", stream=True).body)
    assert [(c["text"], c["finish_reason"]) for one in found for c in one["choices"]] == [("", "stop")]


def test_3_the_parameters_of_sampling(server):
    found = complete(server, "llm", "@sampling", temperature=0.5, top_p=1, top_k=4, min_p=0.25, seed=7, stop=["x"],
                     frequency_penalty=1, presence_penalty=-1, logit_bias={"5": 1}, logprobs=1, max_tokens=9).json
    assert json.loads(found["choices"][0]["text"]) == {
        "temperature": 0.5, "top_p": 1, "top_k": 4, "min_p": 0.25, "seed": 7, "stop": ["x"], "frequency_penalty": 1,
        "presence_penalty": -1, "logit_bias": {"5": 1}, "logprobs": 1, "max_tokens": 9}


def test_3_a_parameter_that_vllm_does_not_know(server):
    """The reason is in the log of the server."""
    answer = complete(server, "llm", "a", top_kk=4)
    assert answer.status == 500
    assert answer.error["message"] == "Error generating stream: 'NoneType' object has no attribute 'lora_name'"
    answer = complete(server, "llm", "a", top_kk=4, stream=True)
    assert "'NoneType' object has no attribute 'lora_name'" in answer.body.decode()
    assert complete(server, "llm", "a").status == 200


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
    answer = call(server, "/v1/embeddings", {"model": "llm", "input": "a b"})
    assert answer.json["data"][0]["embedding"] == [3, 3, 3]


def test_3_embeddings_of_token_ids(server):
    def ask(ids):
        return call(server, "/v1/embeddings", {"model": "llm", "input": ids})

    answer = ask([101, 7592, 102])
    assert ([row["embedding"] for row in answer.json["data"]], answer.json["usage"]["prompt_tokens"]) == ([[0, 0, 0]], 3)
    answer = ask([[101], [7, 8]])
    assert ([row["index"] for row in answer.json["data"]], answer.json["usage"]["prompt_tokens"]) == ([0, 1], 3)
    for wrong in ([1.5], [-1], [[1, "a"]], [1 << 31]):
        answer = ask(wrong)
        assert (answer.status, answer.error["param"]) == (400, "input")
        assert answer.error["message"] == "the token ids in 'input' must be integers from 0 to 2147483647"
    assert ask([[1], []]).error["message"] == "'input' has an empty list of token ids"
    assert ask([[1], 2]).error["message"] == "'input' mixes token ids and lists of them"


def test_3_a_model_that_makes_no_embeddings(server):
    answer = call(server, "/v1/embeddings", {"model": "plain", "input": "a b"})
    assert answer.status == 500
    assert answer.error["message"] == "Error generating stream: Model plain does not support 'embed' request"


@pytest.mark.parametrize("stream", [False, True])
def test_3_a_client_that_hangs_up_aborts(server, stream):
    before = count(server, "holds"), count(server, "aborted")
    link = lab.begin(server, "/v1/completions", {"model": "llm", "prompt": "@hold", "stream": stream})
    wait_until(lambda: count(server, "holds") == before[0] + 1)
    link.close()
    wait_until(lambda: count(server, "aborted") == before[1] + 1)


def test_3_lora_adapters(server):
    found = complete(server, "llm_lora_doll", "@sampling").json
    assert found["model"] == "llm_lora_doll"  # the program takes the name out of the parameters
    assert found["choices"][0]["text"] == "{}"
    assert complete(server, "llm_lora_sheep", "@lora").json["choices"][0]["text"] == "/y"
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


def metric(server, name):
    url = f"http://127.0.0.1:{server.port('metrics')}/metrics"
    with urllib.request.urlopen(url, timeout=20) as page:
        lines = page.read().decode().splitlines()
    [line] = [one for one in lines if one.startswith(f'vllm:{name}{{model="plain",version="1"')]
    return float(line.rsplit(" ", 1)[1])


def test_3_metrics(server):
    """They are counted by a thread of the program, which may be behind the answer."""
    counters = "prompt_tokens_total", "generation_tokens_total"
    before = [metric(server, name) for name in counters]
    assert complete(server, "plain", "a b c", max_tokens=2, n=3).status == 200
    wait_until(lambda: [metric(server, name) for name in counters] == [before[0] + 3, before[1] + 6])


def test_3_histograms(server):
    if server.whose == "ours":
        pytest.skip("vllm_model.py has counters alone")
    names = ("time_to_first_token_seconds", "time_per_output_token_seconds", "e2e_request_latency_seconds",
             "request_prompt_tokens", "request_generation_tokens", "request_params_n")
    before = [metric(server, f"{name}_count") for name in names]
    sums = metric(server, "request_params_n_sum"), metric(server, "request_generation_tokens_sum")
    assert complete(server, "plain", "a b c d", n=2).status == 200
    wait_until(lambda: [metric(server, f"{name}_count") for name in names] == [
        n + more for n, more in zip(before, (1, 3, 1, 1, 1, 1))])
    assert (metric(server, "request_params_n_sum"), metric(server, "request_generation_tokens_sum")) == (
        sums[0] + 2, sums[1] + 8)


def generate(server, body, name="llm"):
    return call(server, f"/v2/models/{name}/generate", body)


def test_3_the_endpoint_generate(server):
    """The parameters may be those of the request, and the prompt is before the answer unless it is told otherwise."""
    assert generate(server, {"text_input": "a b"}).json["text_output"] == "a ba b"
    found = generate(server, {"text_input": "a b", "exclude_input_in_output": True, "return_cumulative_logprob": True,
                              "return_num_output_tokens": True, "sampling_parameters": '{"logprobs": 1}'}).json
    assert (found["text_output"], found["cumulative_logprob"], found["num_output_tokens"]) == ("a b", -1.0, 2)
    found = generate(server, {"text_input": "", "embedding_request": '{"input": [7, 8]}', "return_num_input_tokens": True})
    assert (found.json["text_output"], found.json["num_input_tokens"]) == ("[0.0, 0.0, 0.0]", 2)


def test_3_parameters_of_the_request(server):
    """They are texts of numbers with some clients."""
    assert generate(server, {"text_input": "a b c", "max_tokens": 2}).json["text_output"] == "a b ca b"
    found = generate(server, {"text_input": "a b c", "max_tokens": "2", "temperature": "0"})
    assert found.json["text_output"] == "a b ca b"


def test_3_invalid_inputs(server):
    if "Invalid sampling_parameters" not in server.program_text and server.whose == "theirs":
        pytest.skip("this version of the program raises an exception of Python's")
    for text, more in (("{no", "expected a valid JSON object."), ("[]", "expected a JSON object.")):
        answer = generate(server, {"text_input": "a", "sampling_parameters": text})
        assert (answer.status, answer.json["error"]) == (400, f"Invalid sampling_parameters: {more}")
    answer = call(server, "/v2/models/llm/generate_stream", {
        "text_input": "a", "stream": True, "exclude_input_in_output": False})
    assert "When streaming, `exclude_input_in_output` = False is not allowed." in answer.body.decode()


def test_3_images(server):
    found = generate(server, {"text_input": "a", "exclude_input_in_output": True, "image": ["YWJj", "YQ=="]})
    assert found.json["text_output"] == "a+3+1"


def test_3_an_engine_that_does_not_start(server):
    answer = call(server, "/v2/repository/models/absent/load", {})
    assert answer.status >= 400
    assert "Repo id 'missing' is not found" in answer.error
    assert complete(server, "llm", "a").status == 200


def test_3_unload_waits_for_requests_and_the_model_loads_again(server):
    gate = server.log_file.parent / (server.log_file.name + ".go")
    before = count(server, "held"), count(server, "shutdown 0")
    answers = []
    asking = threading.Thread(target=lambda: answers.append(complete(server, "plain", "a b @held c", stream=True)))
    asking.start()
    wait_until(lambda: count(server, "held") == before[0] + 1)
    assert call(server, "/v2/repository/models/plain/unload", {}).status == 200
    assert complete(server, "plain", "a").status in (404, 503)
    assert count(server, "shutdown 0") == before[1]
    gate.touch()
    asking.join()
    gate.unlink()
    assert [c["text"] for one in chunks(answers[0].body) for c in one["choices"]] == ["a", " b", " c"]
    wait_until(lambda: count(server, "shutdown 0") == before[1] + 1)
    assert call(server, "/v2/repository/models/plain/load", {}).status == 200
    assert complete(server, "plain", "a b").json["choices"][0]["text"] == "a b"


def test_3_an_engine_that_ends(server):
    """A check of its health refuses requests, and unloads the model."""
    assert complete(server, "checked", "a").status == 200
    answer = complete(server, "checked", "@die")
    assert (answer.status, answer.error["message"]) == (
        500, "Error generating stream: EngineCore encountered an issue.")
    answer = complete(server, "checked", "a")
    assert (answer.status, answer.error["message"]) == (503, "Model is unavailable due to unhealthy vLLM engine")
    wait_until(lambda: "checked" not in {m["id"] for m in call(server, "/v1/models").json["data"]})
    assert call(server, "/v2/repository/models/checked/load", {}).status == 200
    assert complete(server, "checked", "a b").json["choices"][0]["text"] == "a b"
