# SPDX-License-Identifier: BSD-3-Clause
"""Requests to the OpenAI API and to the ports of cloud platforms that cost more than their bytes.

Each member of a valid body is attacked as in hostile_cases.json_cases(); openai_cases() has what the meaning of the
members permits: many prompts, choices, texts, tools, schemas. The models are of the backend identity, so an answer is
what the client sent.
"""
import base64
import itertools
import json
import struct

from hostile_cases import (INFER, PLAIN_INFER, Case, http_case, http_request, http_transport_cases, json_attacks,
                           members, numbered, repeated)


def inputs(*names):
    return "".join(f'input {{ name: "{name}" data_type: TYPE_STRING dims: 1 optional: {optional} }}\n'
                   for name, optional in names)


def output(name):
    return f'output {{ name: "{name}" data_type: TYPE_STRING dims: 1 }}\n'


PARAMETER = 'parameters {{ key: "{}" value {{ string_value: "{}" }} }}\n'
MODELS = {
    # The formats openai and vllm, the latter with embeddings, and what renders the messages of a chat.
    "speaks": 'backend: "identity"\n' + inputs(("openai_request", "false")) + output("openai_response"),
    "text": 'backend: "identity"\n' + inputs(("text_input", "false"), ("sampling_parameters", "true"))
            + output("text_output") + PARAMETER.format("openai_template", "render"),
    "vectors": 'backend: "identity"\n' + inputs(("embedding_request", "false"), ("text_input", "true"),
                                                ("sampling_parameters", "true")) + output("text_output"),
    "render": 'backend: "identity"\n' + inputs(("openai_request", "false")) + output("text")
              + PARAMETER.format("openai", "off"),
}

CHAT_PATH, TEXT_PATH, EMBED_PATH = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
SCHEMA = {"type": "object", "properties": {"a": {"$ref": "#"}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
CHAT = {"model": "speaks",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}], "name": "b",
                      "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}],
        "temperature": 1, "seed": 1, "n": 1, "stop": ["a"], "logit_bias": {"1": 1},
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}},
        "tools": [TOOL], "tool_choice": "auto", "stream": True, "stream_options": {"include_usage": True},
        "metadata": {"a": "b"}, "own": {"a": [1]}}
TEXT = {"model": "text", "prompt": ["a"], "max_tokens": 1, "echo": True, "n": 1, "best_of": 1, "stop": ["a"],
        "logprobs": 1, "logit_bias": {"1": 1}, "stream": True, "stream_options": {"include_usage": True},
        "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}, "own": 1}
RENDERED = {"model": "text", "messages": [{"role": "user", "content": "a"}], "tools": [TOOL],
            "tool_choice": {"type": "function", "function": {"name": "f"}}, "n": 1}
EMBED = {"model": "vectors", "input": ["a"], "encoding_format": "base64", "dimensions": 1, "user": "u"}
TARGETS = [("HTTP OpenAI chat", CHAT_PATH, CHAT), ("HTTP OpenAI completions", TEXT_PATH, TEXT),
           ("HTTP OpenAI chat, rendered", CHAT_PATH, RENDERED), ("HTTP OpenAI embeddings", EMBED_PATH, EMBED)]

# ---- what the members mean -----------------------------------------------------------------------


def plain(text):
    return {"model": "text", "prompt": text, "max_tokens": 1}


def chat(model="text", content="a", **more):
    return {"model": model, "messages": [{"role": "user", "content": content}], **more}


def nested(depth, unit='{"items":', end="{}"):
    return unit * depth + end + "}" * depth


def wide_schema(size):
    return {"anyOf": [{"$ref": "#", "allOf": [{"$ref": "#/anyOf"}]}] * (size // 48)}


def prompt_bodies(size):
    """(name, path, body, inferences): prompts, choices, and what is repeated for each."""
    for n_prompts, n in ((1, 8), (16, 8), (128, 1), (129, 1), (1, 9), (1, 128)):
        for stream, echo in itertools.product((False, True), repeat=2):
            text = "a" * min(size // n_prompts, (1 << 20) // (n_prompts * n))
            body = plain([text] * n_prompts) | {"n": n, "stream": stream, "echo": echo}
            yield (f"{n_prompts} prompts, {n} choices{', echo' * echo}{', stream' * stream}", TEXT_PATH, body,
                   n_prompts)
    yield "a prompt, 8 choices, echo", TEXT_PATH, plain("a" * size) | {"n": 8, "echo": True}, 1
    yield "a prompt that prints as escapes", TEXT_PATH, plain("\x01" * (size // 6)) | {"n": 8, "echo": True}, 1
    yield "best_of", TEXT_PATH, plain("a") | {"n": 8, "best_of": 128}, 1
    yield "128 prompts and a large bias", TEXT_PATH, plain(["a"] * 128) | {
        "logit_bias": {str(i): 1 for i in range(size // 10)}}, 128
    yield "128 prompts and long stop words", TEXT_PATH, plain(["a"] * 128) | {"stop": ["a" * 256] * 64}, 128


def list_bodies(size):
    many = size // 10
    for name, path, start in (("text", TEXT_PATH, plain("a")), ("rendered", CHAT_PATH, chat()),
                              ("speaks", CHAT_PATH, chat("speaks"))):
        yield f"{name}: bias of {many} tokens", path, start | {"logit_bias": {str(i): -1 for i in range(many)}}, 1
        yield f"{name}: {many} stop words", path, start | {"stop": ["a"] * many}, 1
        yield f"{name}: 64 stop words, 8 choices", path, start | {"stop": ["\x01" * 256] * 64, "n": 8}, 1
        for depth in (31, 33, 98):
            schema = json.loads(nested(depth))
            yield (f"{name}: schema of {depth} levels", path, start | {"response_format": {
                "type": "json_schema", "json_schema": {"schema": schema}}}, 1)
        for bytes_ in (60000, size):
            yield (f"{name}: schema of {bytes_} bytes that refers to itself", path, start | {"n": 8, "response_format": {
                "type": "json_schema", "json_schema": {"schema": wide_schema(bytes_)}}}, 1)
        if path == CHAT_PATH:
            tool = {"type": "function", "function": {"name": "f" * 4000, "parameters": wide_schema(4000)}}
            for choice in ("required", {"type": "function", "function": {"name": "g"}}):
                yield f"{name}: 128 tools, {choice}", path, start | {"tools": [tool] * 128, "tool_choice": choice}, 1
            yield f"{name}: {size // 48} tools", path, start | {"tools": [TOOL] * (size // 80)}, 1
            yield f"{name}: {size // 32} messages", path, start | {
                "messages": [{"role": "user", "content": "a"}] * (size // 32)}, 1
            yield f"{name}: 4096 messages", path, start | {"messages": [{"role": "user", "content": "a"}] * 4096}, 1
            yield f"{name}: parts of a content", path, chat(
                start["model"], [{"type": "text", "text": "a"}] * (size // 28)), 1
            image = "data:image/png;base64," + base64.b64encode(bytes(size // 2)).decode()
            yield f"{name}: an image", path, chat(start["model"], [{"type": "image_url", "image_url": {"url": image}}]), 1
            yield (f"{name}: many images", path, chat(start["model"], [
                {"type": "image_url", "image_url": {"url": image[:1000]}}] * (size // 1100)), 1)


def embedding_bodies(size):
    """(name, body, inferences)"""
    for model in ("vectors", "speaks"):
        each = 0 if model == "speaks" else 1
        for n in (2048, 2049, 100000):
            n_inferences = n * each if n <= 2048 else 1
            yield f"{model}: {n} texts", {"model": model, "input": ["a"] * n}, n_inferences
            yield f"{model}: {n} token lists", {"model": model, "input": [[1, 2]] * n}, n_inferences
        yield f"{model}: 2048 texts of 400 bytes", {"model": model, "input": ["a" * 400] * 2048}, 2048 * each
        yield f"{model}: a list of {size // 2} tokens", {"model": model, "input": [1] * (size // 2)}, 1
        yield f"{model}: lists in lists", {"model": model, "input": [[[[1]]]] * (size // 8)}, 1
        yield f"{model}: texts and tokens", {"model": model, "input": ["a", 1, [1]] * (size // 10)}, 1
        yield f"{model}: a million dimensions", {"model": model, "input": ["a"] * 2048, "dimensions": 1 << 20}, 2048 * each


def openai_case(name, path, body, n_inferences):
    case = http_case("HTTP OpenAI requests", name, path, json.dumps(body, separators=(",", ":")).encode())
    return case._replace(n_requests=max(1, n_inferences))


def openai_cases(size):
    for name, path, body, n in itertools.chain(prompt_bodies(size), list_bodies(size)):
        yield openai_case(name, path, body, n)
    for name, body, n in embedding_bodies(size):
        yield openai_case("embeddings, " + name, EMBED_PATH, body, n)
    start = b'{"model":"text","prompt":"a",'
    yield http_case("HTTP OpenAI requests", "unknown members", TEXT_PATH,
                    numbered(start + b'"a":1', lambda i: b',"%x":1' % i, b"}", size))
    yield http_case("HTTP OpenAI requests", "a bias of one token", TEXT_PATH,
                    repeated(start + b'"logit_bias":{"1":1', b',"1":1', b"}}", size))
    yield http_case("HTTP OpenAI requests", "gzip, which is refused", TEXT_PATH, start + b" " * size, coding="gzip")


# ---- the ports of cloud platforms ----------------------------------------------------------------

PREDICT = "/v1/endpoints/7/deployedModels/8:predict"
REQUESTS_PER_LOAD = 20
REDIRECT = "X-Vertex-Ai-Triton-Redirect: "
CLOUD = [("SageMaker invocations", "/invocations", INFER, ()), ("SageMaker invocations", "/invocations", PLAIN_INFER, ()),
         ("SageMaker load", "/models", {"model_name": "m", "url": "/no/such/folder"}, ()),
         ("SageMaker invoke", "/models/fp32/invoke", PLAIN_INFER, ()),
         ("Vertex AI predict", PREDICT, INFER, ()), ("Vertex AI predict", PREDICT, PLAIN_INFER, ()),
         ("Vertex AI index", PREDICT, {"ready": True}, (REDIRECT + "v2/repository/index",)),
         ("Vertex AI generate", PREDICT, {"INPUT0": 1, "own": {"a": [1]}}, (REDIRECT + "v2/models/fp32/generate",))]
PORTS = {"SageMaker": "SageMaker", "Vertex AI": "VertexAI"}


def at_port(case):
    """The same case for the port that the name of its decoder begins with."""
    port = next(port for start, port in PORTS.items() if case.decoder.startswith(start))
    return case._replace(send=lambda server: case.send(Redirected(server, port)))


class Redirected:
    """A server whose HTTP port is another one."""

    def __init__(self, server, port):
        self.server, self.port = server, port

    def http(self, text):
        return self.server.http(text, self.port)

    def http_held(self, texts):
        return self.server.http_held(texts, name=self.port)


def cloud_head_cases(size):
    body = json.dumps(PLAIN_INFER).encode()
    kinds = {"SageMaker": ("/invocations", "application/vnd.sagemaker-triton.binary+json"),
             "Vertex AI": (PREDICT, "application/vnd.vertex-ai-triton.binary+json")}
    for name, (path, kind) in kinds.items():
        for what, value in (("digits", kind + ";json-header-size=" + "1" * 20000),
                            ("parameters", kind + ";a=b" * 5000),
                            ("blanks", kind + " " * 20000 + ";json-header-size=1"),
                            ("quotes", kind + ';a="' + '\\"' * 8000),
                            ("all bytes", kind + f";json-header-size={len(body)}"),
                            ("more bytes", kind + f";json-header-size={len(body) + 1}")):
            yield http_case(name + " head", "content type: " + what, path, body, "Content-Type: " + value)
        yield http_case(name + " head", "content types", path, body, *[f"Content-Type: {kind}"] * 90)
        n = size // 4
        head = json.dumps({"inputs": [{"name": "INPUT0", "shape": [n], "datatype": "FP32",
                                       "parameters": {"binary_data_size": 4 * n}}]}).encode()
        yield http_case(name + " tensors", "FP32 that print long", path,
                        head + struct.pack("<f", -1.1754944e-38) * n,
                        f"Content-Type: {kind};json-header-size={len(head)}")
        yield http_case(name + " tensors", "gzip of zeros", path, head + bytes(4 * n),
                        f"Content-Type: {kind};json-header-size={len(head)}", coding="gzip")
    for what in ("/" * 20000, "v2/" * 6000, "v2/models/" + "%2e" * 6000, "v2/models/" + "a" * 20000 + "/infer",
                 PREDICT[1:], "v2/models/other/load", "v2/repository/index?" + "a=b&" * 5000):
        yield http_case("Vertex AI head", f"redirect to {what[:24]}", PREDICT, body, REDIRECT + what)
    yield http_case("Vertex AI head", "redirects", PREDICT, body, *[REDIRECT + "v2/models/fp32/infer"] * 90)
    target = "X-Amzn-SageMaker-Target-Model: " + "\x7f" * 20000
    yield http_case("SageMaker head", "a target", "/models/fp32/invoke", body, target)
    for name, start in (("model name", b'{"url":"/no/such/folder","model_name":"'),
                        ("address", b'{"model_name":"m","url":"/')):
        yield http_case("SageMaker load", "a long " + name, "/models", repeated(start, b"a", b'"}', size))
        yield http_case("SageMaker load", "folders in a " + name, "/models", repeated(start, b"a/", b'"}', size))
    names = [http_request("/models", json.dumps({"model_name": f"m{i}", "url": f"/no/{i}"}).encode())
             .replace(b"Connection: close\r\n", b"") for i in range(1000)]
    text = b"".join(names) + b"GET /ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    # A load takes the CPU time of ten requests and more: a look into the repository, and its lines in the log.
    yield Case("SageMaker load", "1000 models that do not exist", lambda server: server.http(text), len(text), len(text),
               REQUESTS_PER_LOAD * len(names))


def cloud_cases(size):
    for decoder, path, template, headers in CLOUD:
        for member in members(template):
            for attack, body in json_attacks(template, member, size):
                yield at_port(http_case(decoder, ".".join(map(str, member)) + ": " + attack, path, body, *headers))
    yield from map(at_port, cloud_head_cases(size))
    for name, path in (("SageMaker", b"/invocations"), ("Vertex AI", PREDICT.encode())):
        for case in http_transport_cases(size, path):
            yield at_port(case._replace(decoder=f"{name} transport"))


# ---- the whole -----------------------------------------------------------------------------------


def openai_json_cases(size, decoders):
    for decoder, path, template in TARGETS:
        if decoders in decoder:
            for member in members(template):
                for attack, body in json_attacks(template, member, size):
                    yield http_case(decoder, ".".join(map(str, member)) + ": " + attack, path, body)


def all_cases(size, decoders=""):
    """Those whose decoder's name has this text."""
    yield from openai_json_cases(size, decoders)
    yield from (case for case in itertools.chain(openai_cases(size), cloud_cases(size)) if decoders in case.decoder)
