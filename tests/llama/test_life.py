# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong: clients that leave, libraries that are missing, unknown or end the process; files and
parameters that cannot be used. The numbers of checks are those of docs/llamacpp.md."""
import concurrent.futures
import hashlib
import http.client
import json
import os
import random
import re
import select
import signal
import time

import pytest

import openai_models as lab
from conftest import build_shim, gguf, llama, needs_library
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from openai_models import call, complete
from python_programs import stub_of

LONG = gguf(context=8192)
SECONDS = 60


def wait_until(condition, what):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def metric(server, name):
    """The sum of a metric over the instances."""
    import urllib.request
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=30) as reply:
        text = reply.read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE))


def works(server, model="chat"):
    answer = complete(server, model, "Once", temperature=0, max_tokens=8)
    assert answer.status == 200, answer.body
    return answer.json["choices"][0]["text"]


# ---- clients that leave -------------------------------------------------------------------------------------


@needs_library
@pytest.mark.parametrize("streams", [True, False])
def test_clients_that_leave_free_their_slots(start, streams):
    """(9) More than there are slots; each would generate for a long time."""
    server = start({"chat": llama(LONG, slots=2)})
    text = works(server)
    for _ in range(4):
        connections = [lab.begin(server, "/v1/completions", {
            "model": "chat", "prompt": "Once", "max_tokens": 8000, "stream": streams}) for _ in range(3)]
        wait_until(lambda: metric(server, "neso_llm_requests_running") == 2, "both slots are used")
        for connection in connections:
            connection.close()
        wait_until(lambda: metric(server, "neso_llm_requests_running") == 0, "the slots are free")
    assert works(server) == text
    assert metric(server, "neso_llm_requests_waiting") == 0


def hang_up(server, rng):
    """A request whose client leaves: at once, while the prompt is read, or after some of the answer."""
    body = {"model": "chat", "prompt": "x" * rng.choice((1, 1, 40, 40, 700)) + str(rng.random()),
            "max_tokens": 4000, "stream": rng.random() < 0.8, "n": rng.choice((1, 1, 1, 1, 3))}
    if rng.random() < 0.3:
        body["prompt"] = "The same beginning of many prompts, which is copied. " * 3 + body["prompt"]
    if rng.random() < 0.3:
        body["response_format"] = {"type": "json_object"}
    if rng.random() < 0.3:
        body.update(logprobs=2, frequency_penalty=0.5, stop=["never"])
    connection = lab.begin(server, "/v1/completions", body)
    if body["stream"] and rng.random() < 0.8:
        reply = connection.getresponse()
        assert reply.status == 200
        for _ in range(rng.choice((1, 2, 5, 20))):
            reply.readline()
        reply.close()
    connection.close()


def resident_bytes(process):
    with open(f"/proc/{process}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1)) << 10


@needs_library
def test_a_thousand_hang_ups(start):
    """(9) At random steps, 8 clients at once, with 4 slots: no slot is lost, and memory is constant."""
    server = start({"chat": llama(LONG, slots=4)})
    text, process = works(server), stub_of(server, "chat_0")

    def hang_ups(seed):
        rng = random.Random(seed)
        for _ in range(25):
            hang_up(server, rng)

    sizes = []
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for part in range(5):  # 200 hang-ups each
            list(pool.map(hang_ups, range(8 * part, 8 * part + 8)))
            wait_until(lambda: metric(server, "neso_llm_requests_running") == 0, "the slots are free")
            sizes.append(resident_bytes(process))
    assert sizes[-1] - sizes[1] < 4 << 20, sizes
    assert metric(server, "neso_llm_requests_waiting") == 0
    connections = [lab.begin(server, "/v1/completions", {"model": "chat", "prompt": "Once", "max_tokens": 8000})
                   for _ in range(4)]
    wait_until(lambda: metric(server, "neso_llm_requests_running") == 4, "all slots are used")
    for connection in connections:
        connection.close()
    assert works(server) == text and stub_of(server, "chat_0") == process
    assert "a step failed" not in server.text()


@needs_library
def test_a_long_step_is_broken_off(start, tmp_path):
    """The computation would never end; the other request of the step is computed again."""
    server = start({"chat": llama(LONG, slots=1)}, library=build_shim(tmp_path))
    text = works(server)
    connection = lab.begin(server, "/v1/completions", {"model": "chat", "prompt": "\x01", "max_tokens": 9})
    wait_until(lambda: metric(server, "neso_llm_requests_running") == 1, "the step has begun")
    connection.close()
    assert works(server) == text
    assert "ret = 2" not in server.text()


@needs_library
def test_requests_wait_in_the_queue_of_the_server(start):
    """With its limit: one is generated, one is ahead, one is in an execution that waits for room, one waits in
    the queue, and the others are refused."""
    files = llama(LONG, slots=1)
    files["config.pbtxt"] += "dynamic_batching { default_queue_policy { max_queue_size: 1 } }\n"
    server = start({"chat": files})
    body = {"model": "chat", "prompt": "Once", "max_tokens": 8000}
    connections = [lab.begin(server, "/v1/completions", body)]
    wait_until(lambda: metric(server, "neso_llm_requests_running") == 1, "one is generated")
    connections += [lab.begin(server, "/v1/completions", body) for _ in range(12)]

    def answered():
        return select.select([c.sock for c in connections], [], [], 0)[0]

    wait_until(lambda: len(answered()) >= 9, "the others are refused")
    assert metric(server, "neso_llm_requests_waiting") <= 1
    refused = [c for c in connections if c.sock in answered()]
    assert [c.getresponse().status for c in refused] == [503] * len(refused)
    for connection in connections:
        connection.close()
    wait_until(lambda: metric(server, "neso_llm_requests_running") == 0, "the slot is free")
    assert works(server)


# ---- faults inside the library ------------------------------------------------------------------------------


@needs_library
def test_the_library_ends_the_process(start, tmp_path):
    """(11) The requests in the process fail, the server lives, and the next request works."""
    server = start({"chat": llama(LONG, slots=2)}, library=build_shim(tmp_path))
    text, before = works(server), stub_of(server, "chat_0")
    answer = complete(server, "chat", "\x02", max_tokens=9)
    assert answer.status == 500 and answer.error["message"] == "Stub process 'chat_0' is not healthy."
    assert works(server) == text
    assert stub_of(server, "chat_0") not in (None, before)
    assert "signal 6" in server.text()


@needs_library
def test_a_computation_that_fails(start, tmp_path):
    server = start({"chat": llama(LONG, slots=2)}, library=build_shim(tmp_path))
    text, before = works(server), stub_of(server, "chat_0")
    for prompt, words in (("\x03", "llama_decode() gives -3"), ("\x04", "no room for the request")):
        answer = complete(server, "chat", prompt, max_tokens=9)
        assert answer.status == 500 and words in answer.error["message"]
        assert works(server) == text
    assert stub_of(server, "chat_0") == before


@needs_library
def test_a_killed_process_is_replaced(start):
    server = start({"chat": llama(LONG, slots=2)})
    text = works(server)
    os.kill(stub_of(server, "chat_0"), signal.SIGKILL)
    wait_until(lambda: complete(server, "chat", "x", max_tokens=1).status == 200, "another process serves")
    assert works(server) == text


# ---- what does not load -------------------------------------------------------------------------------------


def refusal(start, files, **keywords):
    """Why a model does not load."""
    server = start({"chat": files}, more=("--exit-on-error=false",), **keywords)
    (found,) = [m["reason"] for m in call(server, "/v2/repository/index", {}).json]
    return found


def test_a_missing_library(start):
    """(11)"""
    text = refusal(start, llama(LONG), library="/nowhere/libllama.so")
    assert "the library '/nowhere/libllama.so' of llama.cpp cannot be loaded" in text
    assert "--backend-config=llamacpp,library=<path>" in text


def test_a_library_of_something_else(start):
    text = refusal(start, llama(LONG), library="libm.so.6")
    assert "the library 'libm.so.6' is no llama.cpp that this backend can use: it has no function" in text


@needs_library
def test_an_unknown_version(start, tmp_path):
    """(11)"""
    text = refusal(start, llama(LONG), library=build_shim(tmp_path, '-DVERSION="9.8.7-dev"'))
    assert "is llama.cpp 9.8.7-dev, whose structure llama_context_params is unknown" in text
    assert "0.5.x, 0.7.x" in text


@needs_library
def test_another_layout_than_the_version_has(start, tmp_path):
    """(11)"""
    text = refusal(start, llama(LONG), library=build_shim(tmp_path, '-DVERSION="0.7.0"'))
    assert "the structure llama_context_params of the library" in text and "(llama.cpp 0.7.0)" in text


FILES = {
    "no GGUF": ({"1/model.gguf": b"text"}, "it is no GGUF file"),
    "cut": ({"1/model.gguf": LONG[:300]}, "the file ends within its metadata"),
    "version": ({"1/model.gguf": b"GGUF\x09\0\0\0" + LONG[8:]}, "it has version 9 of GGUF"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_used(start, name):
    more, words = FILES[name]
    text = refusal(start, {**llama(LONG), **more})
    assert words in text and "/chat/1/model.gguf" in text


def test_no_file(start):
    files = llama(LONG)
    del files["1/model.gguf"]
    assert "no file *.gguf, and no model.gguf" in refusal(start, files)


@needs_library
def test_a_file_without_tensors(start):
    """The metadata is right; the library reports what is not."""
    text = refusal(start, llama(LONG[:-2000]))
    assert "does not load" in text and "/chat/1/model.gguf" in text


@pytest.mark.parametrize("key, value, words", [
    ("slots", "0", "'slots' of model 'chat' is '0', but must be an integer from 1 to 256"),
    ("slots", "many", "'slots' of model 'chat' is 'many'"),
    ("prompt_share", "2", "'prompt_share' of model 'chat' is '2', but must be a number above 0"),
    ("prompt_cache", "all", "'prompt_cache' of model 'chat' is 'all', but must be one of slot, key, off"),
    ("pooling", "rank", "must be one of none, mean, cls, last"),
    ("tokens_per_step", "2", "must be an integer from 4 to")])
def test_a_wrong_parameter(start, key, value, words):
    assert words in refusal(start, llama(LONG, **{key: value}))


@needs_library
@pytest.mark.parametrize("value, words", [
    ("missing.jinja", "the file 'missing.jinja' of the chat template cannot be read: No such file"),
    ("../../x.jinja", "must be in the model's directory"),
    ("bad.jinja", "the chat template cannot be used: TemplateSyntaxError")])
def test_a_chat_template_that_cannot_be_used(start, value, words):
    files = {**llama(LONG, chat_template=value), "bad.jinja": "{% for %}"}
    assert words in refusal(start, files)


@needs_library
def test_other_names_of_the_file(start):
    """The only GGUF file of the directory, and default_model_filename."""
    one = llama(LONG)
    one["1/other.gguf"] = one.pop("1/model.gguf")
    named = {**llama(gguf(seed=5)), "1/second.gguf": LONG}
    named["config.pbtxt"] += 'default_model_filename: "second.gguf"\n'
    server = start({"one": one, "named": named, "plain": llama(LONG)})
    assert works(server, "one") == works(server, "named") == works(server, "plain")


@needs_library
def test_reloads_leave_nothing(start):
    server = start({"chat": llama(LONG, slots=2)}, more=("--model-control-mode=explicit",
                                                         "--load-model=chat"))
    text = works(server)
    for _ in range(3):
        assert call(server, "/v2/repository/models/chat/unload", {}).status == 200
        wait_until(lambda: stub_of(server, "chat_0") is None, "the process has ended")
        assert call(server, "/v2/repository/models/chat/load", {}).status == 200
        assert works(server) == text


# ---- keys ---------------------------------------------------------------------------------------------------


def key_file(folder, *names):
    """The option of a file with a key "<name> key" for each name. The metrics are open."""
    (folder / "keys").write_text("open - metrics,health\n" + "".join(
        f"{name} {hashlib.sha256(f'{name} key'.encode()).hexdigest()} *\n" for name in names))
    return f"--api-key-file={folder / 'keys'}"


@needs_library
def test_a_key_with_many_requests_does_not_hold_up_another(start, tmp_path):
    """A single request beside 30 that came before gets the next slot."""
    server = start({"chat": llama(LONG, slots=1)},
                   more=(key_file(tmp_path, "greedy", "modest"),))

    def begin(name, n_tokens):
        connection = http.client.HTTPConnection(server.url.split("://")[1], timeout=SECONDS)
        connection.request("POST", "/v1/completions", json.dumps(
            {"model": "chat", "prompt": name, "max_tokens": n_tokens}), {"Authorization": f"Bearer {name} key"})
        return connection

    many = [begin("greedy", 2000) for _ in range(30)]
    wait_until(lambda: metric(server, "neso_llm_requests_waiting") >= 20, "requests wait in the backend")
    single = begin("modest", 2)
    assert single.getresponse().status == 200
    n_answered = len(select.select([c.sock for c in many], [], [], 0)[0])
    assert n_answered < 20
    for connection in many:
        connection.close()


@needs_library
def test_api_keys_share_no_prompts(start, tmp_path, stubs):  # noqa: F811
    """A prompt that is in memory is answered sooner, which would tell a client what others have sent."""
    server = start({"own": llama(LONG, slots=2), "all": llama(LONG, slots=2, prompt_cache="slot")},
                   more=(key_file(tmp_path, "alice", "bob", "carol", "dave"),))
    prompt = "A secret of one of them. " * 4

    def cached(model, name):
        answer = call(server, "/v1/completions", {"model": model, "prompt": prompt, "max_tokens": 2},
                      headers={"Authorization": f"Bearer {name} key"})
        assert answer.status == 200, answer.body
        return answer.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert [cached("own", name) > 50 for name in ("alice", "bob", "alice", "bob")] == [False, False, True, True]
    assert [cached("all", name) > 50 for name in ("alice", "bob")] == [False, True]

    def cached_by_generate(name):
        answer = call(server, "/v2/models/own/generate", {"openai_request": json.dumps(
            {"prompt": prompt, "max_tokens": 2})}, headers={"Authorization": f"Bearer {name} key"})
        assert answer.status == 200, answer.body
        return json.loads(answer.json["openai_response"])["usage"]["prompt_tokens_details"]["cached_tokens"]

    # Two slots: the last prompts are those of alice and bob.
    assert cached_by_generate("bob") > 50 and cached_by_generate("alice") > 50
    assert [cached_by_generate(name) > 50 for name in ("carol", "carol")] == [False, True]

    def cached_by_grpc(name):
        with open_channel(server) as channel:
            client = Client(channel, stubs)
            message = client.request("own", [("openai_request", "BYTES", [1], {"bytes_contents": [json.dumps(
                {"prompt": prompt, "max_tokens": 2}).encode()]})])
            (answer,) = client.stream([message], metadata=(("authorization", f"Bearer {name} key"),))
        assert answer.error_message == ""
        response = json.loads(answer.infer_response.raw_output_contents[0][4:])
        return response["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached_by_grpc("carol") > 50
    assert [cached_by_grpc(name) > 50 for name in ("dave", "dave")] == [False, True]

    text = json.dumps({"prompt": prompt, "max_tokens": 2})
    for forged in ({"triton_api_key_name": "alice"}, {"parameters": {"triton_api_key_name": "alice"}}):
        answer = call(server, "/v2/models/own/generate_stream", {"openai_request": text, **forged},
                      headers={"Authorization": "Bearer bob key"})
        assert answer.status == 400, answer.body
        assert "'triton_api_key_name' is set by the server" in answer.json["error"]
