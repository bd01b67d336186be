# SPDX-License-Identifier: BSD-3-Clause
"""Texts of the llamacpp backend, over the OpenAI API, generate_stream and gRPC. The numbers of checks are those
of docs/llamacpp.md."""
import concurrent.futures
import json

import pytest

import openai_models as lab
from conftest import gguf, llama, needs_library, options
from grpc_stubs import client, stubs  # noqa: F401
from openai_models import call, chat, chunks, complete

pytestmark = needs_library

BACKENDS = ("python",)
TEMPLATE = ("{%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
            "{%- if tools %}{{ tools | tojson }}{% endif %}assistant:")
NANO = gguf(context=512, chat_template=TEMPLATE)
MODELS = {
    "chat": llama(NANO, slots=8),
    "one": llama(NANO, slots=1, n_ctx=64, max_new_tokens=20, prompt_cache="off"),
    "plain": llama(gguf(context=128), slots=2),
    "ends": llama(gguf(context=512, ends=True, seed=3), slots=2),
}
OPTIONS = options()


def greedy(server, prompt, model="chat", **more):
    answer = complete(server, model, prompt, temperature=0, **{"max_tokens": 24, **more})
    assert answer.status == 200, answer.body
    return answer.json


def text_of(answer):
    return answer["choices"][0]["text"]


def streamed(server, path, body):
    answer = call(server, path, {**body, "stream": True})
    assert answer.status == 200, answer.body
    return chunks(answer.body)


# ---- whole answers and streams --------------------------------------------------------------------------


def test_a_completion(server):
    found = greedy(server, "Once", max_tokens=16)
    assert found["object"] == "text_completion" and found["model"] == "chat"
    (choice,) = found["choices"]
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "length", None)
    assert len(choice["text"]) == 16 and choice["text"].isascii() and choice["text"].isprintable()
    used = found["usage"]
    assert (used["prompt_tokens"], used["completion_tokens"], used["total_tokens"]) == (5, 16, 21)


def test_a_stream_gives_the_same_text(server):
    body = {"model": "chat", "prompt": "Once", "temperature": 0, "max_tokens": 16}
    whole = call(server, "/v1/completions", body).json["choices"][0]["text"]
    found = streamed(server, "/v1/completions", {**body, "stream_options": {"include_usage": True}})
    assert "".join(c["choices"][0]["text"] for c in found[:-1]) == whole
    assert [c["choices"][0]["finish_reason"] for c in found[:-1]] == [None] * 15 + ["length"]
    assert found[-1]["choices"] == [] and found[-1]["usage"]["completion_tokens"] == 16
    assert found[-1]["usage"]["prompt_tokens"] == 5


def test_a_chat(server):
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0,
            "max_completion_tokens": 12}
    whole = call(server, "/v1/chat/completions", body).json
    message = whole["choices"][0]["message"]
    assert message["role"] == "assistant" and len(message["content"]) == 12
    # Begin of the text, and the bytes of the template's text; a blank has three.
    rendered = "user: Hi\nassistant:"
    assert whole["usage"]["prompt_tokens"] == 1 + len(rendered) + 2 * rendered.count(" ")
    found = streamed(server, "/v1/chat/completions", body)
    assert found[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in found) == message["content"]
    assert found[-1]["choices"][0]["finish_reason"] == "length"
    assert all("usage" not in c for c in found)


def test_the_template_sees_all_messages(server):
    """The same text as a prompt gives the same continuation."""
    messages = [{"role": "developer", "content": "Be brief"},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}]
    answer = call(server, "/v1/chat/completions", {"model": "chat", "messages": messages, "temperature": 0,
                                                   "max_tokens": 20}).json
    text = "system: Be brief\nuser: a\nb\nassistant: c\nuser: d\nassistant:"
    assert answer["choices"][0]["message"]["content"] == text_of(greedy(server, text, max_tokens=20))


def test_generate_stream(server):
    body = json.dumps({"prompt": "Once", "temperature": 0, "max_tokens": 4, "stream": True})
    answer = call(server, "/v2/models/chat/generate_stream", {"openai_request": body})
    found = [json.loads(json.loads(line)["openai_response"]) for line in lab.events(answer.body)]
    text = text_of(greedy(server, "Once", max_tokens=4))
    assert [c["choices"][0]["text"] for c in found] == list(text)
    assert found[-1]["choices"][0]["finish_reason"] == "length"
    assert found[-1]["usage"]["total_tokens"] == 9


def test_a_stream_of_grpc(server, client):  # noqa: F811
    body = json.dumps({"endpoint": "chat", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0,
                       "max_tokens": 4, "stream": True})
    message = client.request("chat", [("openai_request", "BYTES", [1], {"bytes_contents": [body.encode()]})])
    found = []
    for answer in client.stream([message]):
        assert answer.error_message == ""
        content = answer.infer_response
        raw = content.raw_output_contents[0] if content.raw_output_contents else \
            b"\0\0\0\0" + content.outputs[0].contents.bytes_contents[0]
        found.append(json.loads(raw[4:]))
    whole = chat(server, "chat", "Hi", temperature=0, max_tokens=4).json["choices"][0]["message"]["content"]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in found) == whole
    assert found[-1]["usage"]["completion_tokens"] == 4


def test_the_configuration_is_completed(server):
    found = call(server, "/v2/models/chat/config").json
    assert [(t["name"], t["data_type"], t["dims"]) for t in found["input"] + found["output"]] == [
        ("openai_request", "TYPE_STRING", [1]), ("openai_response", "TYPE_STRING", [1])]
    assert found["max_batch_size"] == 0 and found["model_transaction_policy"] == {"decoupled": True}


# ---- the same text, whatever else is computed ---------------------------------------------------------------


PROMPTS = [f"The {word} of number {i} " + "x" * i for i, word in enumerate(
    ("cat", "dog", "bird", "horse", "cow", "frog", "bee", "ant"))]


def test_alone_and_in_eight_slots(server):
    """(12)"""
    alone = [text_of(greedy(server, prompt, "one", max_tokens=20)) for prompt in PROMPTS]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda prompt: text_of(greedy(server, prompt, max_tokens=20)), PROMPTS * 4))
    assert together == alone * 4
    assert len(set(alone)) > 4


def test_with_and_without_cached_tokens(server):
    """(12)"""
    prompt = "A text that comes twice, and is long enough to be worth it. "
    more = {"prompt_cache_key": "mine", "max_tokens": 40}
    first, second = greedy(server, prompt, **more), greedy(server, prompt, **more)
    assert text_of(first) == text_of(second)
    cached = [f["usage"]["prompt_tokens_details"]["cached_tokens"] for f in (first, second)]
    assert cached == [0, first["usage"]["prompt_tokens"] - 1]
    longer = greedy(server, prompt + "And more.", **more)
    assert longer["usage"]["prompt_tokens_details"]["cached_tokens"] == first["usage"]["prompt_tokens"]
    assert text_of(longer) == text_of(greedy(server, prompt + "And more.", prompt_cache_key="other",
                                             max_tokens=40))


def test_another_key_shares_nothing(server):
    prompt = "A secret that only one user has sent to the server before. "
    greedy(server, prompt, prompt_cache_key="alice")
    for key in ({"prompt_cache_key": "bob"}, {}):  # other prompts without a key have the begin token
        assert greedy(server, prompt, **key)["usage"]["prompt_tokens_details"]["cached_tokens"] <= 1
    found = greedy(server, prompt, prompt_cache_key="alice")
    assert found["usage"]["prompt_tokens_details"]["cached_tokens"] > 50


def test_choices_read_their_prompt_once(server):
    """The first choice reads the prompt, the others copy it from its slot while it is busy."""
    prompt = "One prompt with several choices, each of which has it as its begin. "
    alone = text_of(greedy(server, prompt, max_tokens=30, prompt_cache_key="n"))
    found = greedy(server, prompt, n=4, max_tokens=30, prompt_cache_key="m")
    assert [c["index"] for c in found["choices"]] == [0, 1, 2, 3]
    assert [c["text"] for c in found["choices"]] == [alone] * 4
    n = found["usage"]["prompt_tokens"]
    assert found["usage"]["completion_tokens"] == 120
    text = call(server, "/metrics")
    assert text.status in (200, 404, 400)
    assert n == len(prompt) + 1 + 2 * prompt.count(" ")


# ---- sampling -----------------------------------------------------------------------------------------------


def sample(server, **more):
    answer = complete(server, "chat", "Once upon", max_tokens=24, **more)
    assert answer.status == 200, answer.body
    return answer.json["choices"][0]["text"]


def test_seeds(server):
    assert sample(server, seed=1) == sample(server, seed=1)
    assert sample(server, seed=1) != sample(server, seed=2)
    assert sample(server, seed=-5) == sample(server, seed=-5)
    assert sample(server) != sample(server)


def test_no_seed(server):
    """Also the choices after the first one, whose seed would be 0."""
    found = [[c["text"] for c in complete(server, "chat", "Once", max_tokens=16, n=2, seed=-1).json["choices"]]
             for _ in range(2)]
    assert found[0][0] != found[1][0] and found[0][1] != found[1][1]


def test_choices_of_a_seed_differ_and_come_again(server):
    found = [[c["text"] for c in complete(server, "chat", "Once", max_tokens=16, n=3, seed=9).json["choices"]]
             for _ in range(2)]
    assert found[0] == found[1] and len(set(found[0])) == 3


@pytest.mark.parametrize("more", [{"top_k": 1}, {"top_p": 0}, {"min_p": 1}, {"temperature": 0.0001}],
                         ids=lambda more: next(iter(more)))
def test_samplers_that_leave_one_token(server, more):
    assert sample(server, seed=3, **more) == text_of(greedy(server, "Once upon"))


def test_a_bias_makes_a_token_certain(server):
    assert sample(server, temperature=0, logit_bias={str(3 + ord("u")): 100}) == "u" * 24


@pytest.mark.parametrize("more", [{"frequency_penalty": 2}, {"repeat_penalty": 10}],
                         ids=lambda more: next(iter(more)))
def test_penalties(server, more):
    """A bias makes one token a little more probable than any other: only a penalty lets another one follow."""
    biased = {"temperature": 0, "logit_bias": {str(3 + ord("u")): 22}}
    assert sample(server, **biased)[1:] == "u" * 23
    assert sample(server, **biased, **more).count("u") < 23


def test_penalties_of_the_last_tokens(server):
    """Each token of the answer differs from the two before it."""
    text = sample(server, temperature=0, repeat_penalty=10, repeat_last_n=2)
    assert all(a not in text[max(0, i - 2):i] for i, a in enumerate(text))


def test_a_bias_forbids_a_token(server):
    first = text_of(greedy(server, "Once upon"))[0]
    found = sample(server, temperature=0, logit_bias={str(3 + ord(first)): -100})
    assert first not in found


def test_log_probabilities_of_a_chat(server):
    found = chat(server, "chat", "Hi", temperature=0, max_tokens=3, logprobs=True, top_logprobs=2).json
    choice = found["choices"][0]
    entries = choice["logprobs"]["content"]
    assert "".join(e["token"] for e in entries) == choice["message"]["content"]
    for e in entries:
        assert e["bytes"] == list(e["token"].encode()) and e["logprob"] < 0
        assert [t["token"] for t in e["top_logprobs"]][0] == e["token"] and len(e["top_logprobs"]) == 2
        assert e["top_logprobs"][0]["logprob"] == e["logprob"] >= e["top_logprobs"][1]["logprob"]


def test_log_probabilities_of_a_stream(server):
    body = {"model": "chat", "prompt": "Once", "temperature": 0, "max_tokens": 4, "logprobs": 1}
    whole = call(server, "/v1/completions", body).json["choices"][0]
    found = streamed(server, "/v1/completions", body)
    pieces = [c["choices"][0]["logprobs"] for c in found]
    for key in ("tokens", "text_offset"):
        assert sum((p[key] for p in pieces), []) == whole["logprobs"][key]
    # The prompt's last token is computed alone the second time, with other roundings.
    assert sum((p["token_logprobs"] for p in pieces), []) == pytest.approx(
        whole["logprobs"]["token_logprobs"], abs=0.02)
    assert [list(t) for p in pieces for t in p["top_logprobs"]] == [
        [token] for token in whole["logprobs"]["tokens"]]
    assert whole["logprobs"]["text_offset"] == [0, 1, 2, 3]
    assert "".join(whole["logprobs"]["tokens"]) == whole["text"]


# ---- the end of a text --------------------------------------------------------------------------------------


def test_stop_words(server):
    """(6) Each token is a byte, so a stop word has several."""
    text = text_of(greedy(server, "Once", max_tokens=24))
    word = text[10:13]
    end = text.index(word)
    for stop in (word, [word, "never comes"], ["zzzz", word, text[20:22] + "?"]):
        found = greedy(server, "Once", max_tokens=24, stop=stop)
        assert found["choices"][0] == {"index": 0, "text": text[:end], "logprobs": None,
                                       "finish_reason": "stop"}


def test_overlapping_stop_words(server):
    """(6) The one that is complete first ends the text."""
    text = text_of(greedy(server, "Once", max_tokens=24))
    early, late = text[8:10], text[9:14]
    found = greedy(server, "Once", max_tokens=24, stop=[late, early])
    assert text_of(found) == text[:text.index(early)]


def test_a_stop_word_does_not_leak_into_a_stream(server):
    """(6)"""
    text = text_of(greedy(server, "Once", max_tokens=24))
    word = text[10:15]
    found = streamed(server, "/v1/completions", {"model": "chat", "prompt": "Once", "temperature": 0,
                                                 "max_tokens": 24, "stop": word, "logprobs": 0})
    assert "".join(c["choices"][0]["text"] for c in found) == text[:text.index(word)]
    assert found[-1]["choices"][0]["finish_reason"] == "stop"
    tokens = sum((c["choices"][0]["logprobs"]["tokens"] for c in found if c["choices"][0].get("logprobs")), [])
    assert "".join(tokens) == text[:text.index(word)]


def test_the_begin_of_a_stop_word_is_given_at_the_end(server):
    """(6) The limit comes while a part of a stop word is held back."""
    text = text_of(greedy(server, "Once", max_tokens=12))
    found = streamed(server, "/v1/completions", {"model": "chat", "prompt": "Once", "temperature": 0,
                                                 "max_tokens": 12, "stop": text[9:12] + "#never"})
    assert "".join(c["choices"][0]["text"] for c in found) == text
    assert found[-1]["choices"][0]["finish_reason"] == "length"


def test_the_model_ends_a_text(server):
    reasons = {complete(server, "ends", "Once", seed=seed, max_tokens=400).json["choices"][0]["finish_reason"]
               for seed in range(6)}
    assert "stop" in reasons


def test_the_limits_of_new_tokens(server):
    """The configuration's, and the context: a text is cut, never shifted."""
    assert greedy(server, "Once", "one", max_tokens=50)["usage"]["completion_tokens"] == 20
    found = greedy(server, "x" * 50, "one", max_tokens=50)
    assert found["usage"] == {"prompt_tokens": 51, "completion_tokens": 13, "total_tokens": 64,
                              "prompt_tokens_details": {"cached_tokens": 0}}
    assert found["choices"][0]["finish_reason"] == "length"


# ---- prompts ------------------------------------------------------------------------------------------------


def test_token_ids_and_lists(server):
    ids = [1] + [3 + byte for byte in b"Once"]
    text = text_of(greedy(server, "Once"))
    assert text_of(greedy(server, ids)) == text
    found = greedy(server, ["Once", "Twice"], n=2)["choices"]
    other = text_of(greedy(server, "Twice"))
    assert [c["text"] for c in found] == [text, text, other, other]
    assert [c["index"] for c in found] == [0, 1, 2, 3]
    assert [c["text"] for c in greedy(server, [ids, ids[:3]])["choices"]][0] == text


def test_echo(server):
    text = text_of(greedy(server, "Once"))
    assert text_of(greedy(server, "Once", echo=True)) == "Once" + text
    found = streamed(server, "/v1/completions", {"model": "chat", "prompt": "Once", "temperature": 0,
                                                 "max_tokens": 24, "echo": True})
    assert "".join(c["choices"][0]["text"] for c in found) == "Once" + text


REFUSED = [
    ({"prompt": "x" * 600}, "the prompt has 601 tokens, the context of this model has 512", "prompt",
     "context_length_exceeded"),
    ({"prompt": "x" * (1 << 20)}, "the prompt has more than 512 tokens, the context of this model has 512", "prompt",
     "context_length_exceeded"),
    ({"prompt": [1, 259]}, "the token id 259 is not one of the 259 of this model", "prompt", None),
    ({"prompt": [-1]}, "the token id -1 is not one of the 259 of this model", "prompt", None),
    ({"prompt": "x", "logit_bias": {"259": 1}},
     "the token id 259 of 'logit_bias' is not one of the 259 of this model", "logit_bias", None),
    ({"prompt": "x", "mirostat": 2}, "'mirostat' is not supported by this model", "mirostat", None),
    ({"prompt": "x", "top_k": "many"}, "'top_k' must be a number", "top_k", None),
    ({"prompt": "x", "min_p": 2}, "'min_p' must be between 0 and 1, not 2", "min_p", None),
    ({"prompt": "x", "best_of": 3}, "'best_of'", "best_of", None),
]


@pytest.mark.parametrize("body, text, param, code", REFUSED, ids=lambda value: None)
def test_refusals(server, body, text, param, code):
    answer = call(server, "/v1/completions", {"model": "chat", **body})
    assert answer.status == 400, answer.body
    assert text in answer.error["message"] and answer.error["type"] == "invalid_request_error"
    assert (answer.error["param"], answer.error["code"]) == (param, code)


def test_refusals_by_the_other_apis(server):
    """There nothing has checked the body before."""
    for body, text in (("no JSON", "the request is no JSON"), ("[]", "must be a JSON object"),
                       ('{"messages": 3}', "'messages' must be a list"),
                       ('{"prompt": "x", "temperature": 3}', "'temperature' must be between 0 and 2"),
                       ('{"prompt": "x", "stop": [""]}', "a stop word has 0 bytes"),
                       ('{"prompt": "x", "n": 1.5}', "'n' must be an integer"),
                       ('{"prompt": [1, "x"]}', "'prompt' must be a string"),
                       ("[" * 100000, "the request is no JSON")):
        answer = call(server, "/v2/models/chat/generate_stream", {"openai_request": body})
        (line,) = lab.events(answer.body)
        assert text in json.loads(json.loads(line)["openai_response"])["error"]["message"], body


def test_what_a_model_lacks(server):
    answer = chat(server, "plain", "Hi")
    assert answer.status == 400 and "this model has no chat template" in answer.error["message"]
    answer = call(server, "/v1/embeddings", {"model": "chat", "input": "x"})
    assert answer.status == 400 and "model 'chat' makes texts" in answer.error["message"]


# ---- grammars -----------------------------------------------------------------------------------------------


SCHEMA = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 8}, "n": {"type": "integer"},
    "kind": {"enum": ["a", "b"]}, "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    "also": {"type": ["null", "boolean"]}}, "required": ["name", "kind", "list", "also"],
    "additionalProperties": False}


def obeys(found):
    assert set(found) <= {"name", "n", "kind", "list", "also"} and "name" in found
    assert isinstance(found["name"], str) and len(found["name"]) <= 8
    assert found["kind"] in ("a", "b") and len(found["list"]) <= 3
    assert all(isinstance(one, bool) for one in found["list"]) and found["also"] in (None, True, False)
    assert isinstance(found.get("n", 0), int)
    return True


@pytest.mark.parametrize("more", [{"temperature": 0}, {"seed": 1}, {"seed": 2, "top_k": 5}, {"seed": 3}],
                         ids=lambda more: str(more))
def test_a_schema_is_obeyed(server, more):
    answer = chat(server, "chat", "Hi", max_tokens=400, **more, response_format={
        "type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}})
    assert answer.status == 200, answer.body
    choice = answer.json["choices"][0]
    assert choice["finish_reason"] == "stop", choice
    assert obeys(json.loads(choice["message"]["content"]))


def test_any_object(server):
    answer = chat(server, "chat", "Hi", max_tokens=300, seed=5, response_format={"type": "json_object"}).json
    text = answer["choices"][0]["message"]["content"]
    assert text.startswith("{")
    if answer["choices"][0]["finish_reason"] == "stop":
        assert isinstance(json.loads(text), dict)


def test_a_schema_that_cannot_be_obeyed(server):
    for schema, text in (({"type": "string", "pattern": "^a"}, "the keyword 'pattern'"),
                         ({"type": "integer", "minimum": 2}, "the keyword 'minimum'"),
                         ({"$ref": "#/$defs/none"}, "leads nowhere"),
                         ({"$ref": "#"}, "")):
        answer = chat(server, "chat", "Hi", response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
        assert answer.status == 400, (schema, answer.body)
        assert text in answer.error["message"] and answer.error["param"] == "response_format"
    assert chat(server, "chat", "Hi", max_tokens=1).status == 200


def test_a_grammar_whose_ways_double_with_each_level(server):
    """It would take longer and longer, and hold up the other slots; both forms of an answer are ended."""
    level = {"type": "array", "prefixItems": [{"$ref": "#/$defs/n"}]}
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [level] * 2}}}
    more = {"max_tokens": 400, "temperature": 0,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
    answer = chat(server, "chat", "Hi", **more)
    assert answer.status == 400 and "took more than 0.25 s for a token" in answer.error["message"]
    answer = chat(server, "chat", "Hi", stream=True, **more)
    assert "took more than 0.25 s for a token" in answer.body.decode()
    assert chat(server, "chat", "Hi", max_tokens=1).status == 200


TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 5}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "time"}}]


def test_a_call_of_a_named_tool(server):
    more = {"tools": TOOLS, "seed": 4, "max_tokens": 300,
            "tool_choice": {"type": "function", "function": {"name": "weather"}}}
    choice = chat(server, "chat", "Hi", **more).json["choices"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    (made,) = choice["message"]["tool_calls"]
    assert made["function"]["name"] == "weather" and made["id"].startswith("call_")
    assert set(json.loads(made["function"]["arguments"])) == {"city"}
    found = streamed(server, "/v1/chat/completions", {
        "model": "chat", "messages": [{"role": "user", "content": "Hi"}], **more})
    first = found[0]["choices"][0]["delta"]["tool_calls"][0]
    assert first["function"] == {"name": "weather", "arguments": ""} and first["index"] == 0
    pieces = [c["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
              for c in found if c["choices"][0]["delta"].get("tool_calls")]
    assert "".join(pieces) == made["function"]["arguments"]


def test_a_call_of_some_tool(server):
    more = {"tools": TOOLS[:1] + [{"type": "function", "function": {"name": "no \" r1 way", "parameters": {
        "type": "object", "properties": {}}}}], "seed": 4, "max_tokens": 300, "tool_choice": "required"}
    (made,) = chat(server, "chat", "Hi", **more).json["choices"][0]["message"]["tool_calls"]
    assert made["function"]["name"] in ("weather", 'no " r1 way')
    json.loads(made["function"]["arguments"])
    found = streamed(server, "/v1/chat/completions", {
        "model": "chat", "messages": [{"role": "user", "content": "Hi"}], **more})
    last = found[-1]["choices"][0]
    assert last["finish_reason"] == "tool_calls"
    assert last["delta"]["tool_calls"][0]["function"] == made["function"]


def test_tools_are_in_the_prompt(server):
    found = chat(server, "chat", "Hi", tools=TOOLS, max_tokens=1, tool_choice="auto").json
    assert found["usage"]["prompt_tokens"] > 150
    assert chat(server, "chat", "Hi", tools=TOOLS, max_tokens=1, tool_choice="none").json[
        "usage"]["prompt_tokens"] < 50
