# SPDX-License-Identifier: BSD-3-Clause
"""The OpenAI API: chat and completions over models of each format. The numbers of checks are those of openai_models.py."""
import json
import pathlib
import re
import tempfile
import time

import pytest

import openai_models
from openai_models import call, chat, chunks, complete, events
from python_programs import OPTIONS as PYTHON_OPTIONS

BACKENDS = openai_models.BACKENDS
FOLDER = tempfile.TemporaryDirectory(prefix="openai_text_")
LOG = pathlib.Path(FOLDER.name) / "cancelled"
# Older forms of models, without the inputs that some members need.
MODELS = {
    **openai_models.models(LOG),
    "old_vllm": openai_models.model(openai_models.VLLM, openai_models.io(
        [("text_input", "STRING", [1], True), ("stream", "BOOL", [1], True),
         ("sampling_parameters", "STRING", [1], True)], [("text_output", "STRING", [-1])])),
    "old_trtllm": openai_models.model(openai_models.TRTLLM, openai_models.io(
        [("text_input", "STRING", [1], False), ("max_tokens", "INT32", [1], True)],
        [("text_output", "STRING", [-1])]), "max_batch_size: 4\n"),
    "no_template": openai_models.model(openai_models.VLLM, openai_models.VLLM_IO, openai_models.parameters(
        log=LOG, openai_template="nobody")),
    "old_llmapi": openai_models.model(openai_models.LLMAPI, openai_models.io(
        [("text_input", "STRING", [1], False), ("sampling_param_max_tokens", "INT32", [1], True)],
        [("text_output", "STRING", [-1])])),
}
OPTIONS = (*PYTHON_OPTIONS, "--openai-max-choices=4", "--openai-heartbeat-ms=200",
           "--http-max-input-size=200000")
TAKES_SECONDS = 15


def shown(server, name, **more):
    """What the model got: values and [type, shape] of each input."""
    answer = complete(server, name, "@show", **more)
    assert answer.status == 200, answer.body
    got = json.loads(answer.json["choices"][0]["text"])
    return got["values"], got["shapes"]


# ---- whole answers ------------------------------------------------------------------------------


def test_a_completion(server):
    answer = complete(server, "vllm", "one two|three", max_tokens=9)
    assert answer.status == 200, answer.body
    found = answer.json
    assert found["id"].startswith("cmpl-") and abs(found["created"] - time.time()) < 60
    assert answer.headers["x-request-id"] == found["id"]
    assert int(answer.headers["openai-processing-ms"]) >= 0
    del found["id"], found["created"]
    assert found == {
        "object": "text_completion", "model": "vllm",
        "choices": [{"index": 0, "text": "one twothree", "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}}


def test_a_chat_with_a_template(server):
    found = chat(server, "vllm", "Hi \u00e9").json
    assert found["object"] == "chat.completion" and found["id"].startswith("chatcmpl-")
    assert found["choices"] == [{
        "index": 0, "message": {"role": "assistant", "content": "user: Hi \u00e9", "refusal": None},
        "logprobs": None, "finish_reason": "stop"}]


def test_a_chat_without_a_template(server):
    answer = chat(server, "plain", "Hi")
    assert answer.status == 400
    assert answer.error["param"] == "model"
    assert answer.error["message"].startswith("model 'plain' has no chat template")


def test_a_template_that_is_missing(server):
    """It is no fault of the client, and the model that the client named is there."""
    answer = chat(server, "no_template", "Hi")
    assert answer.status == 500, answer.body
    message = answer.error["message"]
    assert message.startswith("the model that renders the messages for 'no_template': ") and "'nobody'" in message
    assert [answer.error[name] for name in ("type", "param", "code")] == ["server_error", None, None]
    assert complete(server, "no_template", "a").status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_finds_something_else_missing(server, stream):
    """That is not the model."""
    answer = complete(server, "vllm", "@lost", stream=stream)
    assert answer.status == 500
    assert answer.error == {"message": "a table is lost", "type": "server_error", "param": None, "code": None}


def test_the_template_refuses(server):
    answer = chat(server, "vllm", "@refuse")
    assert answer.status == 400
    assert answer.error["message"] == "these messages have no form"


def test_the_prefix_of_kserve(server):
    answer = call(server, "/openai/v1/completions", {"model": "vllm", "prompt": "a"})
    assert answer.json["choices"][0]["text"] == "a"


def test_several_prompts_and_choices(server):
    found = complete(server, "vllm", ["a", "b"], n=2).json
    assert [(c["index"], c["text"]) for c in found["choices"]] == [
        (0, "a"), (1, "a1"), (2, "b"), (3, "b1")]
    found = complete(server, "llmapi", ["a", "b"], n=2, seed=7).json
    assert [(c["index"], c["text"]) for c in found["choices"]] == [
        (0, "a"), (1, "a"), (2, "b"), (3, "b")]


def test_prompts_of_token_ids_count_as_texts_do(server):
    answer = complete(server, "speaks", [[1]] * 33, n=4)
    assert answer.status == 400
    assert answer.error["message"] == "33 prompts with 4 choices each are more than 128"
    assert answer.error["param"] == "prompt"


def test_copies_get_seeds_of_their_own(server):
    found = complete(server, "llmapi", "@show", n=3, seed=7).json
    assert [json.loads(c["text"])["values"]["sampling_param_seed"] for c in found["choices"]] == [
        [7], [8], [9]]


def test_a_model_that_speaks_the_api(server):
    found = chat(server, "speaks", "a|b").json
    assert found["id"].startswith("chatcmpl-") and found["model"] == "speaks"
    assert found["object"] == "chat.completion"
    assert found["choices"] == [{"index": 0, "finish_reason": "stop",
                                 "message": {"role": "assistant", "content": "ab"}}]
    assert found["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def test_the_body_reaches_a_model_that_speaks_the_api(server):
    sent = {"model": "speaks", "messages": [{"role": "user", "content": "@show"}], "top_k": 3,
            "endpoint": "of the client", "max_tokens": 16.0, "user": None}
    found = call(server, "/v1/chat/completions", sent).json
    assert json.loads(found["choices"][0]["message"]["content"]) == {**sent, "endpoint": "chat"}


def test_a_model_reports_a_prompt_that_is_too_long(server):
    for stream in (False, True):
        answer = chat(server, "speaks", "@long", stream=stream)
        assert answer.status == 400
        assert answer.error == {
            "message": "the prompt has 9 tokens, the context has 8", "param": "messages",
            "type": "invalid_request_error", "code": "context_length_exceeded"}


def test_a_model_that_answers_no_object(server):
    answer = chat(server, "speaks", "@bad")
    assert answer.status == 500
    assert answer.error["message"] == "model 'speaks' answered a text that is no JSON object"
    assert answer.error["type"] == "server_error"


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_that_is_a_text(server, stream):
    answer = chat(server, "speaks", "@text", stream=stream)
    assert answer.status == 500
    assert answer.error == {"message": "no object", "type": "server_error", "param": None, "code": None}


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_answers_nothing(server, stream):
    said = {"message": "model 'speaks' gave no answer", "type": "server_error", "param": None, "code": None}
    answer = chat(server, "speaks", "@silent", stream=stream)
    assert answer.status == 500
    assert answer.error == said
    if stream:  # after a heartbeat
        *_, failure, done = events(chat(server, "speaks", "@silent|@late", stream=True).body)
        assert json.loads(failure)["error"] == said and done == "[DONE]"


# ---- streams ------------------------------------------------------------------------------------


def test_a_stream_of_completions(server):
    answer = complete(server, "vllm", "a|b", stream=True)
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Accel-Buffering"] == "no"
    found = chunks(answer.body)
    assert {c["id"] for c in found} == {answer.headers["x-request-id"]}
    assert [c["choices"] for c in found] == [
        [{"index": 0, "text": "a", "logprobs": None, "finish_reason": None}],
        [{"index": 0, "text": "b", "logprobs": None, "finish_reason": "stop"}]]
    assert all("usage" not in c for c in found)


def test_a_stream_of_chat_with_usage(server):
    found = chunks(chat(server, "vllm", "a b|c", stream=True,
                        stream_options={"include_usage": True}).body)
    assert [c["choices"] for c in found] == [
        [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None,
          "finish_reason": None}],
        [{"index": 0, "delta": {"content": "a b"}, "logprobs": None, "finish_reason": None}],
        [{"index": 0, "delta": {"content": "c"}, "logprobs": None, "finish_reason": "stop"}],
        []]
    assert [c["usage"] for c in found] == [None, None, None, {
        "prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}]
    assert {c["object"] for c in found} == {"chat.completion.chunk"}


def test_the_end_comes_alone(server):
    found = chunks(complete(server, "vllm", "@none|a", stream=True).body)
    assert [c["choices"][0]["text"] for c in found] == ["a", ""]
    assert found[-1]["choices"][0]["finish_reason"] == "stop"


def test_the_reason_length_is_found_by_counting(server):
    answer = complete(server, "trtllm", "a|b", max_tokens=2).json
    assert answer["choices"][0]["finish_reason"] == "length"
    answer = complete(server, "trtllm", "a|b", max_tokens=3).json
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_a_stream_with_two_choices(server):
    found = chunks(chat(server, "vllm", "a|b", stream=True, n=2).body)
    texts = {0: "", 1: ""}
    for one in found:
        choice = one["choices"][0]
        texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == {0: "ab", 1: "a1b1"}
    assert sorted(c["choices"][0]["index"] for c in found
                  if c["choices"][0]["finish_reason"] == "stop") == [0, 1]


def test_a_stream_of_a_model_that_speaks_the_api(server):
    for usage in (False, True):
        answer = chat(server, "speaks", "a|b", stream=True, stream_options={"include_usage": usage})
        found = chunks(answer.body)
        assert {(c["id"], c["model"]) for c in found} == {
            (answer.headers["x-request-id"], "speaks")}
        assert [c["choices"][0]["delta"] for c in found if c["choices"]] == [
            {"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}, {}]
        assert [c.get("usage") for c in found[4:]] == [
            {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}] * usage


def test_calls_of_tools_pass_through(server):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    found = chunks(chat(server, "speaks", "@tools", stream=True, tools=tools).body)
    calls = [c["choices"][0]["delta"].get("tool_calls") for c in found]
    assert calls[0] == [{"index": 0, "id": "call_1", "type": "function",
                         "function": {"name": "weather", "arguments": ""}}]
    assert "".join(c[0]["function"]["arguments"] for c in calls[1:3]) == '{"city":"Bonn"}'
    assert found[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("parts, text", [
    (["e282", "ac"], "\u20ac"), (["e2", "82", "ac"], "\u20ac"),
    (["61f0", "9f98", "80", "62"], "a\U0001f600b"), (["c3", "a9c3", "a9"], "\u00e9\u00e9"),
    (["e28261"], "\ufffda"), (["61", "ff", "62"], "a\ufffdb"), (["61e282"], "a\ufffd"),
])
def test_5_characters_are_never_split(server, parts, text):
    prompt = "@hex|" + "|".join(parts)
    found = chunks(complete(server, "vllm", prompt, stream=True).body)
    pieces = [c["choices"][0]["text"] for c in found]
    assert "".join(pieces).replace("\ufffd\ufffd", "\ufffd") == text
    assert complete(server, "vllm", prompt).json["choices"][0]["text"].replace(
        "\ufffd\ufffd", "\ufffd") == text


def test_a_failure_before_the_first_text(server):
    for stream in (False, True):
        answer = complete(server, "vllm", "@fail", stream=stream)
        assert answer.status == 500
        assert answer.error == {"message": "the model has failed", "type": "server_error",
                                "param": None, "code": None}


@pytest.mark.parametrize("name", ["vllm", "speaks"])
def test_a_failure_in_a_stream(server, name):
    found = events(chat(server, name, "@fail|a", stream=True).body)
    assert found[-1] == "[DONE]"
    assert json.loads(found[-2]) == {"error": {
        "message": "the model has failed", "type": "server_error", "param": None, "code": None}}


@pytest.mark.parametrize("name, param, code", [("speaks", "messages", "context_length_exceeded"),
                                               ("vllm", None, None)])
def test_a_failure_after_a_heartbeat(server, name, param, code):
    """An event with the whole object, as an answer before the stream would have had it."""
    content = "@long|@late" if name == "speaks" else "@late|@fail"
    answer = chat(server, name, content, stream=True)
    assert answer.status == 200 and answer.body.startswith(b": \n\n"), answer.body
    found = events(answer.body)
    assert found[-1] == "[DONE]"
    error = json.loads(found[-2])["error"]
    assert (error["param"], error["code"]) == (param, code), error


def test_a_heartbeat_while_no_text_comes(server):
    connection = openai_models.begin(server, "/v1/completions",
                           {"model": "vllm", "prompt": "@wait", "stream": True})
    reply = connection.getresponse()
    assert reply.status == 200
    assert reply.read(8) == b": \n\n: \n\n"
    cancelled = len(logged("cancelled"))
    connection.close()
    wait_for("cancelled", cancelled + 1)


def wake_ups(server):
    """How often a thread of the server has waited, so far."""
    files = pathlib.Path(f"/proc/{server.process.pid}/task").glob("*/status")
    return sum(int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read_text(), re.M).group(1))
               for file in files)


def test_after_a_failure_the_server_only_waits(server):
    """The other inference heeds no cancellation for 1.5 s, in which heartbeats would have been due."""
    before = wake_ups(server)
    answer = complete(server, "llmapi", ["@fail", "@stubborn"], stream=True)
    assert answer.status == 500
    assert wake_ups(server) - before < 500


def logged(word):
    found = LOG.read_text().splitlines() if LOG.exists() else []
    return [float(line.split()[1]) for line in found if line.split()[0] == word]


def wait_for(word, n):
    """Waits until the models have logged that word n times; returns the times."""
    deadline = time.monotonic() + 20
    while len(logged(word)) < n:
        assert time.monotonic() < deadline, (word, n, logged(word))
        time.sleep(0.005)
    return logged(word)


@pytest.mark.parametrize("name", ["vllm", "speaks", "llmapi"])
@pytest.mark.parametrize("stream", [False, True])
def test_1_a_client_that_hangs_up_cancels(server, name, stream):
    waits, cancelled = len(logged("waits")), len(logged("cancelled"))
    n, path, said = (1, "/v1/chat/completions", {"messages": [{"role": "user", "content": "@wait"}]}
                     ) if name == "speaks" else (2, "/v1/completions", {"prompt": ["@wait"] * 2})
    connection = openai_models.begin(server, path, {"model": name, "stream": stream, **said})
    wait_for("waits", waits + n)
    connection.close()
    wait_for("cancelled", cancelled + n)


# ---- what the models get ------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


def test_3_inputs_of_vllm(server):
    values, shapes = shown(server, "vllm", max_tokens=5, temperature=0.5, top_p=1, seed=3,
                           stop=["x", "y"], frequency_penalty=-1.5, presence_penalty=0,
                           logit_bias={"7": 1}, top_k=40, min_p=0.25, user="me",
                           response_format=FORM, echo=True, logprobs=2)
    assert json.loads(values.pop("sampling_parameters")[0]) == {
        "max_tokens": 5, "temperature": 0.5, "top_p": 1, "seed": 3, "stop": ["x", "y"],
        "frequency_penalty": -1.5, "presence_penalty": 0, "logit_bias": {"7": 1}, "top_k": 40,
        "min_p": 0.25, "logprobs": 2,
        "structured_outputs": '{"json":' + json.dumps(SCHEMA) + '}'}
    assert values == {
        "text_input": ["@show"], "stream": [False], "exclude_input_in_output": [False],
        "return_finish_reason": [True], "return_num_input_tokens": [True],
        "return_num_output_tokens": [True], "return_logprobs": [True]}
    assert shapes["text_input"] == ["object", [1]] and shapes["stream"] == ["bool", [1]]


def test_4_inputs_of_trtllm(server):
    values, shapes = shown(server, "trtllm", max_tokens=5, temperature=0.5, top_p=1, seed=3,
                           stop=["x", "yy"], frequency_penalty=-1.5, presence_penalty=0, n=2,
                           response_format=FORM, user="me", top_k=40)
    assert values == {
        "text_input": ["@show"], "stream": [False], "max_tokens": [5], "temperature": [0.5],
        "top_p": [1.0], "seed": [3], "stop_words": ["x", "yy"], "frequency_penalty": [-1.5],
        "presence_penalty": [0.0], "num_return_sequences": [2], "exclude_input_in_output": [True],
        "return_num_input_tokens": [True], "return_num_output_tokens": [True],
        "guided_decoding_guide_type": ["json_schema"],
        "guided_decoding_guide": [json.dumps(SCHEMA)]}
    assert shapes["text_input"] == ["object", [1, 1]]
    assert shapes["max_tokens"] == ["int32", [1, 1]]
    assert shapes["temperature"] == ["float32", [1, 1]]
    assert shapes["seed"] == ["uint64", [1, 1]]
    assert shapes["stop_words"] == ["object", [1, 2]]


def test_4_inputs_of_llmapi(server):
    values, shapes = shown(server, "llmapi", temperature=0.5, stop="x", seed=3)
    assert values == {
        "text_input": ["@show"], "streaming": [False], "sampling_param_max_tokens": [2],
        "sampling_param_temperature": [0.5], "sampling_param_seed": [3],
        "sampling_param_stop": ["x"], "sampling_param_exclude_input_from_output": [True],
        "return_finish_reason": [True]}
    assert shapes["sampling_param_stop"] == ["object", [1]]
    values, _ = shown(server, "llmapi", max_tokens=9)
    assert values["sampling_param_max_tokens"] == [9]


@pytest.mark.parametrize("name, member, value", [
    ("trtllm", "logprobs", 1), ("trtllm", "logit_bias", {"1": 1}),
    ("llmapi", "logprobs", 1), ("llmapi", "response_format", FORM),
    ("llmapi", "presence_penalty", 1), ("speaks", "suffix", "x"), ("vllm", "suffix", "x"),
    ("old_vllm", "logprobs", 1), ("old_trtllm", "echo", True), ("old_llmapi", "echo", True),
])
def test_members_that_a_model_lacks_are_refused_by_name(server, name, member, value):
    answer = complete(server, name, "a", **{member: value})
    assert answer.status == 400
    assert answer.error["param"] == member and member in answer.error["message"]


def test_members_that_a_model_needs_no_input_for(server):
    for name in ("old_vllm", "old_trtllm", "old_llmapi"):
        answer = complete(server, name, "a|b", echo=False, logprobs=None)
        assert answer.status == 200, answer.body
        assert answer.json["choices"][0]["text"] == "ab"
    assert complete(server, "old_vllm", "a|b", echo=True).status == 200  # it repeats the prompt without being asked


@pytest.mark.parametrize("seed", [7, 7.0, 7e0])
def test_a_seed_with_a_fraction(server, seed):
    """Numbers may be written with one, and the models get an integer."""
    body = json.dumps({"model": "vllm", "prompt": "@show", "seed": seed}).replace("7.0", "70e-1")
    answer = call(server, "/v1/completions", body.encode())
    assert answer.status == 200, answer.body
    values = json.loads(answer.json["choices"][0]["text"])["values"]
    assert values["sampling_parameters"] == ['{"seed":7}']
    assert shown(server, "trtllm", seed=seed, max_tokens=1)[0]["seed"] == [7]


def test_negative_seeds(server):
    """-1 is none. Others keep their bits."""
    assert "seed" not in shown(server, "trtllm", seed=-1, max_tokens=1)[0]
    assert shown(server, "trtllm", seed=-2, max_tokens=1)[0]["seed"] == [2**64 - 2]
    assert shown(server, "vllm", seed=-1)[0]["sampling_parameters"] == ["{}"]
    found = complete(server, "llmapi", "@show", n=3, seed=-3).json
    assert [json.loads(c["text"])["values"]["sampling_param_seed"] for c in found["choices"]] == [
        [2**64 - 3], [2**64 - 2], [2**64 - 1]]


def test_a_seed_that_does_not_fit(server):
    """Other bits of it would be cut, and two seeds would give the same answer."""
    most = (1 << 31) - 1
    for name, seed in (("seeds_of_32_bits", most), ("seeds_of_32_bits", -most - 1), ("llmapi", 1 << 62)):
        assert shown(server, name, seed=seed)[0]["sampling_param_seed"] == [seed]
    for seed, n in ((most + 1, 1), (-most - 2, 1), (1 << 40, 1), (most, 2)):
        answer = complete(server, "seeds_of_32_bits", "a", seed=seed, n=n)
        assert answer.status == 400 and answer.error["param"] == "seed", answer.body
        assert answer.error["message"].startswith(
            "'seed' of model 'seeds_of_32_bits' must fit into the type INT32 of its input 'sampling_param_seed', not ")


def tool(name, **more):
    return {"type": "function", "function": {"name": name, **more}}


def test_tools_are_refused_where_no_one_reads_them(server):
    for choice in ({}, {"tool_choice": "auto"}):
        answer = chat(server, "vllm", "a|b", tools=[tool("f")], **choice)
        assert answer.status == 400 and answer.error["param"] == "tools"
    assert chat(server, "vllm", "a|b", tools=[tool("f")], tool_choice="none").status == 200


WEATHER = tool("weather", parameters=SCHEMA)
ARGUMENTS = '{"a":| 1}'


@pytest.mark.parametrize("choice", ["required", tool("weather")])
def test_a_tool_that_must_be_called(server, choice):
    """The whole text is the arguments."""
    answer = chat(server, "vllm", ARGUMENTS, tools=[WEATHER], tool_choice=choice)
    assert answer.status == 200, answer.body
    [choice_of] = answer.json["choices"]
    [called] = choice_of["message"].pop("tool_calls")
    assert choice_of == {"index": 0, "logprobs": None, "finish_reason": "tool_calls",
                         "message": {"role": "assistant", "content": None, "refusal": None}}
    assert called.pop("id").startswith("call-")
    assert called == {"type": "function", "function": {"name": "weather", "arguments": '{"a": 1}'}}
    found = chunks(chat(server, "vllm", ARGUMENTS, tools=[WEATHER], tool_choice=choice,
                        stream=True).body)
    deltas = [c["choices"][0]["delta"] for c in found]
    assert deltas[0].pop("tool_calls")[0]["function"] == {"name": "weather", "arguments": ""}
    assert deltas[0] == {"role": "assistant", "content": None}
    assert [d["tool_calls"] for d in deltas[1:]] == [
        [{"index": 0, "function": {"arguments": part}}] for part in ('{"a":', " 1}")]
    assert found[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_3_4_the_schema_of_a_tool_constrains_the_text(server):
    def shown_of(name, **more):
        answer = chat(server, name, "@show", **more)
        assert answer.status == 200, answer.body
        called = answer.json["choices"][0]["message"]["tool_calls"][0]
        return json.loads(called["function"]["arguments"])["values"]

    both = [tool("other"), WEATHER]
    values = shown_of("vllm", tools=both, tool_choice=tool("weather"))
    assert json.loads(values["sampling_parameters"][0]) == {
        "structured_outputs": '{"json":' + json.dumps(SCHEMA) + "}"}
    values = shown_of("trtllm", tools=both, tool_choice=tool("weather"))
    assert values["guided_decoding_guide_type"] == ["json_schema"]
    assert values["guided_decoding_guide"] == [json.dumps(SCHEMA)]
    values = shown_of("trtllm", tools=both, tool_choice=tool("other"))
    assert values["guided_decoding_guide"] == ['{"type":"object"}']


@pytest.mark.parametrize("name, more, param", [
    ("vllm", {"tools": [WEATHER], "tool_choice": tool("sports")}, "tool_choice"),
    ("vllm", {"tools": [WEATHER], "tool_choice": {"type": "function"}}, "tool_choice"),
    ("vllm", {"tools": [WEATHER], "tool_choice": 7}, "tool_choice"),
    ("vllm", {"tool_choice": "required"}, "tool_choice"),
    ("vllm", {"tools": [], "tool_choice": tool("weather")}, "tool_choice"),
    ("trtllm", {"tool_choice": "always"}, "tool_choice"),
    ("vllm", {"tools": [WEATHER, tool("b")], "tool_choice": "required"}, "tool_choice"),
    ("vllm", {"tools": [{}], "tool_choice": "required"}, "tools"),
    ("vllm", {"tools": [WEATHER], "tool_choice": "required", "response_format": FORM},
     "response_format"),
    ("vllm", {"tools": [tool("a", parameters={"x": "a" * 70000})], "tool_choice": "required"}, "tools"),
    ("llmapi", {"tools": [WEATHER], "tool_choice": "required"}, "tools"),
])
def test_tools_that_cannot_be_called(server, name, more, param):
    answer = chat(server, name, "a", **more)
    assert answer.status == 400, answer.body
    assert answer.error["param"] == param


def test_log_probabilities(server):
    found = complete(server, "vllm", "a|bc", logprobs=2).json["choices"][0]["logprobs"]
    assert found == {
        "tokens": ["a", "bc"], "token_logprobs": [-0.5, -0.5], "text_offset": [0, 1],
        "top_logprobs": [{"a": -0.5, "other": -0.25}, {"bc": -0.5, "other": -0.25}]}
    entry = {"token": "a", "logprob": -0.5, "bytes": [97]}
    streamed = chunks(chat(server, "vllm", "a|bc", stream=True, logprobs=True, top_logprobs=1).body)
    assert streamed[1]["choices"][0]["logprobs"] == {"content": [{**entry, "top_logprobs": [entry]}]}
    whole = chat(server, "vllm", "a|bc", logprobs=True).json["choices"][0]["logprobs"]
    assert [(t["token"], t["top_logprobs"]) for t in whole["content"]] == [("a", []), ("bc", [])]


def test_offsets_begin_after_the_prompt_that_is_repeated(server):
    prompts = ["a|bc", "\u00e9|x"]
    whole = complete(server, "vllm", prompts, logprobs=0, echo=True, n=2).json["choices"]
    assert [c["logprobs"]["text_offset"] for c in whole] == [[4, 5], [4, 5], [3, 4], [3, 4]]
    found = {i: [] for i in range(4)}
    for chunk in chunks(complete(server, "vllm", prompts, logprobs=0, echo=True, n=2, stream=True).body):
        for choice in chunk["choices"]:
            found[choice["index"]] += (choice["logprobs"] or {}).get("text_offset", [])
    assert list(found.values()) == [[4, 5], [4, 5], [3, 4], [3, 4]]


# ---- requests that are refused ------------------------------------------------------------------


@pytest.mark.parametrize("more, param", [
    ({"temperature": 2.5}, "temperature"), ({"temperature": "hot"}, "temperature"),
    ({"top_p": -0.1}, "top_p"), ({"n": 0}, "n"), ({"n": 5}, "n"), ({"n": 1.5}, "n"),
    ({"max_tokens": 0}, "max_tokens"), ({"seed": "x"}, "seed"), ({"stop": [1]}, "stop"),
    ({"stop": [""]}, "stop"), ({"stop": ["a"] * 65}, "stop"), ({"stop": "a" * 257}, "stop"),
    ({"stream": 1}, "stream"), ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"logprobs": 6}, "logprobs"), ({"best_of": 2}, "best_of"), ({"prompt": 7}, "prompt"),
    ({"prompt": []}, "prompt"), ({"prompt": ["a", 1]}, "prompt"), ({"prompt": [1, 2]}, "prompt"),
    ({"model": None}, "model"), ({"model": ""}, "model"),
    ({"logit_bias": "a"}, "logit_bias"), ({"logit_bias": {"a": 1}}, "logit_bias"),
    ({"logit_bias": {"7": 101}}, "logit_bias"), ({"logit_bias": {"7": None}}, "logit_bias"),
    ({"response_format": {"type": "xml"}}, "response_format"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
])
def test_2_wrong_members(server, more, param):
    answer = call(server, "/v1/completions", {"model": "vllm", "prompt": "a", **more})
    assert answer.status == 400, answer.body
    assert answer.error["type"] == "invalid_request_error"
    assert answer.error["param"] == param and answer.error["code"] is None
    assert set(answer.error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("messages, param", [
    ([], "messages"), ("Hi", "messages"), (["Hi"], "messages[0]"),
    ([{"content": "Hi"}], "messages[0].role"),
    ([{"role": "user"}, {"role": "boss", "content": "Hi"}], "messages[1].role"),
    ([{"role": "user", "content": 7}], "messages[0].content"),
    ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "messages[0].content"),
])
def test_2_wrong_messages(server, messages, param):
    answer = call(server, "/v1/chat/completions", {"model": "vllm", "messages": messages})
    assert answer.status == 400 and answer.error["param"] == param


def test_null_equals_absent(server):
    answer = complete(server, "vllm", "a", temperature=None, stop=None, n=None, suffix=None,
                      stream_options=None, logprobs=None)
    assert answer.status == 200, answer.body


def test_2_the_body_is_no_object(server):
    for body, text in ((b"[1]", "the body must be a JSON object"), (b"", None), (b"{", None)):
        answer = call(server, "/v1/completions", body, method="POST")
        assert answer.status == 400
        assert text is None or answer.error["message"] == text


def test_2_unknown_models_and_formats(server):
    answer = complete(server, "nobody", "a")
    assert answer.status == 404
    assert (answer.error["code"], answer.error["param"]) == ("model_not_found", "model")
    for name in ("other", "hidden", "embed"):
        answer = complete(server, name, "a")
        assert answer.status == 400 and answer.error["param"] == "model"
