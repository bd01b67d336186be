# SPDX-License-Identifier: BSD-3-Clause
"""Reads the body of an OpenAI request: which members there are, their types and ranges.

A member that this backend has no use for is refused by its name. `Request` is plain values; the loop, the
tokens and the library are elsewhere.
"""
import json
import random

ENDPOINTS = ("chat", "completion", "embedding")

MAX_CHOICES = 128
MAX_TEXTS = 2048
MAX_STOPS = 64
MAX_STOP_BYTES = 256
MAX_MESSAGES = 4096
MAX_TOOLS = 128
MAX_TOP_LOGPROBS = 20
MAX_BIASES = 1024
NO_SEED = -1  # as clients of llama.cpp and of vLLM send it

# Members without an effect: what OpenAI keeps of a request, and what the server has done already.
WITHOUT_EFFECT = frozenset((
    "model", "endpoint", "user", "store", "metadata", "service_tier", "safety_identifier",
    "parallel_tool_calls", "stream_options", "encoding_format", "prompt_cache_key", "modalities"))
FOR_TEMPLATE = frozenset(("chat_template_kwargs", "add_generation_prompt", "documents", "reasoning_effort"))
SAMPLING = frozenset(("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repetition_penalty",
                      "repeat_last_n", "frequency_penalty", "presence_penalty", "seed", "logit_bias"))
GENERATION = SAMPLING | {"stream", "max_tokens", "max_completion_tokens", "n", "stop", "logprobs",
                         "response_format"}
MEMBERS = {
    "chat": WITHOUT_EFFECT | GENERATION | FOR_TEMPLATE | {
        "messages", "top_logprobs", "tools", "tool_choice"},
    "completion": WITHOUT_EFFECT | GENERATION | {"prompt", "echo", "best_of"},
    "embedding": WITHOUT_EFFECT | {"input", "dimensions"},
}


class Refusal(Exception):
    """A request that is answered with an error in OpenAI's form."""

    def __init__(self, message, param=None, code=None, kind="invalid_request_error"):
        super().__init__(message)
        self.param = param
        self.code = code
        self.kind = kind

    def answer(self):
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}}


class Body:
    """The members of a body; null equals an absent member."""

    def __init__(self, text):
        try:
            members = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Refusal("the request is no JSON: %s" % error) from None
        if not isinstance(members, dict):
            raise Refusal("the request must be a JSON object")
        self.members = {key: value for key, value in members.items() if value is not None}

    def get(self, name, default=None):
        return self.members.get(name, default)

    def number(self, name, low, high, default):
        value = self.members.get(name, default)
        if value is default:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Refusal("'%s' must be a number" % name, name)
        if not low <= value <= high:
            raise Refusal("'%s' must be between %s and %s, not %s" % (name, low, high, value), name)
        return value

    def integer(self, name, low, high, default):
        value = self.number(name, low, high, default)
        if value is default:
            return default
        if value != int(value):
            raise Refusal("'%s' must be an integer" % name, name)
        return int(value)

    def flag(self, name):
        value = self.members.get(name, False)
        if not isinstance(value, bool):
            raise Refusal("'%s' must be true or false" % name, name)
        return value


def _endpoint(body):
    """The member that the server adds, or what a client of another API means."""
    found = body.get("endpoint")
    if found is None:
        found = ("chat" if "messages" in body.members else
                 "completion" if "prompt" in body.members else "embedding")
    if found not in ENDPOINTS:
        raise Refusal("'endpoint' must be chat, completion or embedding", "endpoint")
    return found


def _is_ids(value):
    return all(isinstance(one, int) and not isinstance(one, bool) for one in value)


def _texts(body, name):
    """A text, a list of texts, of token ids, or of lists of token ids: a list of texts or lists."""
    value = body.get(name)
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(one, str) for one in value):
            found = value
        elif _is_ids(value):
            found = [value]
        elif all(isinstance(one, list) and one and _is_ids(one) for one in value):
            found = value
        else:
            raise Refusal("'%s' must be a string, a list of strings, or token ids" % name, name)
        if len(found) > MAX_TEXTS:
            raise Refusal("'%s' lists more than %d texts" % (name, MAX_TEXTS), name)
        return found
    raise Refusal("'%s' must be a string, a list of strings, or token ids" % name, name)


def _stops(body):
    value = body.get("stop", [])
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise Refusal("'stop' must be a string or a list of strings", "stop")
    if len(stops) > MAX_STOPS:
        raise Refusal("'stop' lists more than %d words" % MAX_STOPS, "stop")
    for stop in stops:
        if not 1 <= len(stop.encode("utf-8", "replace")) <= MAX_STOP_BYTES:
            raise Refusal("a stop word has %d bytes, 1 to %d are allowed" % (
                len(stop.encode("utf-8", "replace")), MAX_STOP_BYTES), "stop")
    return stops


def _biases(body):
    value = body.get("logit_bias", {})
    if not isinstance(value, dict) or len(value) > MAX_BIASES:
        raise Refusal("'logit_bias' must be an object with at most %d members" % MAX_BIASES, "logit_bias")
    found = {}
    for key, bias in value.items():
        if not key.isascii() or not key.isdecimal() or len(key) > 9:
            raise Refusal("'logit_bias' has the member '%s', which is no token id" % key[:64], "logit_bias")
        if isinstance(bias, bool) or not isinstance(bias, (int, float)) or not -100 <= bias <= 100:
            raise Refusal("a bias must be a number between -100 and 100", "logit_bias")
        found[int(key)] = float(bias)
    return found


def _sampling(body):
    """The keyword arguments of llama_library.Sampler."""
    repeat = "repetition_penalty" if "repetition_penalty" in body.members else "repeat_penalty"
    seed = body.integer("seed", -2**63, 2**63 - 1, NO_SEED)
    return {
        "temperature": float(body.number("temperature", 0, 2, 1.0)),
        "top_k": max(0, body.integer("top_k", -1, 2**31 - 1, 0)),
        "top_p": float(body.number("top_p", 0, 1, 1.0)),
        "min_p": float(body.number("min_p", 0, 1, 0.0)),
        "repeat_penalty": float(body.number(repeat, 0.01, 10, 1.0)),
        "repeat_last_n": body.integer("repeat_last_n", 0, 65536, 64),
        "frequency_penalty": float(body.number("frequency_penalty", -2, 2, 0.0)),
        "presence_penalty": float(body.number("presence_penalty", -2, 2, 0.0)),
        "logit_bias": _biases(body),
        "seed": random.getrandbits(32) if seed == NO_SEED else seed & 0xFFFFFFFF,
    }


def _logprobs(body, endpoint):
    """How many alternatives are wanted beside the chosen token; None: no log-probabilities."""
    if endpoint == "completion":
        return body.integer("logprobs", 0, 5, None)
    top = body.integer("top_logprobs", 0, MAX_TOP_LOGPROBS, None)
    if not body.flag("logprobs"):
        if top is not None:
            raise Refusal("'top_logprobs' needs 'logprobs': true", "top_logprobs")
        return None
    return top or 0


def _schema_of_format(body):
    """The JSON schema that the text must obey, or None."""
    value = body.get("response_format", {"type": "text"})
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind == "json_schema":
        described = value.get("json_schema")
        schema = described.get("schema") if isinstance(described, dict) else None
        if isinstance(schema, (dict, bool)):
            return schema
        raise Refusal("'response_format' needs 'json_schema' with a 'schema'", "response_format")
    raise Refusal("'response_format' must have the type text, json_object or json_schema", "response_format")


def _functions(body):
    tools = body.get("tools", [])
    if not isinstance(tools, list) or len(tools) > MAX_TOOLS:
        raise Refusal("'tools' must be a list of at most %d tools" % MAX_TOOLS, "tools")
    found = {}
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Refusal("each of 'tools' must be a function with a name", "tools")
        found[function["name"]] = function.get("parameters") or {"type": "object"}
    return found


def _chosen_functions(body):
    """Schemas of the arguments of the functions one of which must be called; empty: none must be."""
    functions = _functions(body)
    choice = body.get("tool_choice", "auto")
    if choice in ("auto", "none"):
        return {}
    if not functions:
        raise Refusal("'tool_choice' needs 'tools'", "tool_choice")
    if choice == "required":
        return functions
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or name not in functions:
        raise Refusal("'tool_choice' must be none, auto, required, or name one of 'tools'", "tool_choice")
    return {name: functions[name]}


class Request:
    """One request of a client. `body_text` is kept for the chat template."""

    def __init__(self, text):
        body = Body(text)
        self.endpoint = endpoint = _endpoint(body)
        self.body_text = text
        for name in body.members:
            if name not in MEMBERS[endpoint]:
                raise Refusal("'%s' is not supported by this model" % name[:64], name[:64])
        key = body.get("prompt_cache_key", "")
        self.cache_key = key if isinstance(key, str) else ""
        if endpoint == "embedding":
            self.texts = _texts(body, "input")
            self.dimensions = body.integer("dimensions", 1, 2**31 - 1, None)
            self.stream = False
            return
        self._read_generation(body)

    def _read_generation(self, body):
        self.stream = body.flag("stream")
        options = body.get("stream_options", {})
        self.wants_usage = isinstance(options, dict) and options.get("include_usage") is True
        limit = "max_completion_tokens" if "max_completion_tokens" in body.members else "max_tokens"
        self.max_tokens = body.integer(limit, 1, 2**31 - 1, None)
        self.n = body.integer("n", 1, MAX_CHOICES, 1)
        self.stops = _stops(body)
        self.sampling = _sampling(body)
        self.logprobs = _logprobs(body, self.endpoint)
        self.schema = _schema_of_format(body)
        self.functions = {}
        self.has_tools = False
        self.echo = False
        if self.endpoint == "chat":
            self._read_chat(body)
        else:
            self._read_completion(body)
        self.n_choices = self.n * len(self.texts)

    def _read_chat(self, body):
        messages = body.get("messages")
        if not isinstance(messages, list) or not 1 <= len(messages) <= MAX_MESSAGES:
            raise Refusal("'messages' must be a list of 1 to %d messages" % MAX_MESSAGES, "messages")
        self.texts = [None]  # the template makes it
        self.functions = _chosen_functions(body)
        self.has_tools = bool(body.get("tools")) and body.get("tool_choice") != "none"
        if self.functions and self.schema is not None:
            raise Refusal("'response_format' and a 'tool_choice' that demands a call exclude each other",
                          "tool_choice")

    def _read_completion(self, body):
        self.texts = _texts(body, "prompt")
        self.echo = body.flag("echo")
        if body.integer("best_of", 1, MAX_CHOICES, self.n) != self.n:
            raise Refusal("'best_of' is not supported by this model", "best_of")
        if len(self.texts) * self.n > MAX_CHOICES:
            raise Refusal("%d prompts with %d choices each are more than %d" % (
                len(self.texts), self.n, MAX_CHOICES), "prompt")
