# SPDX-License-Identifier: BSD-3-Clause
"""The time limits of the OpenAI API: a client gets its answer when its time has passed, also when the model heeds
no cancellation; and the limits of the model that renders the messages of a chat."""
import http.client
import json
import pathlib
import tempfile
import time

import pytest

import openai_models as lab
from conftest import Server
from openai_models import chat, complete, events
from python_programs import OPTIONS as PYTHON_OPTIONS
from scrape import metrics

BACKENDS = lab.BACKENDS
FOLDER = tempfile.TemporaryDirectory(prefix="openai_limits_")
LOG = pathlib.Path(FOLDER.name) / "log"
GO = pathlib.Path(f"{LOG}.go")
MODELS = {name: files for name, files in lab.models(LOG).items() if name in ("vllm", "trtllm", "render")}
OPTIONS = (*PYTHON_OPTIONS, "--openai-request-timeout-ms=3000", "--openai-template-timeout-ms=1500")
TAKES_SECONDS = 30
LATE = "the request took more than 3000 ms (--openai-request-timeout-ms)"


@pytest.fixture(autouse=True)
def let_go():
    """What a test holds goes on after it."""
    yield
    GO.touch()
    wait_until(lambda: count("let go") == count("held"))
    GO.unlink()


def count(word):
    lines = LOG.read_text(encoding="ascii").splitlines() if LOG.exists() else []
    return sum(line.rsplit(" ", 1)[0] == word for line in lines)


def wait_until(is_so):
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("prompt, more", [("@held", {}), ("@wait", {}), ("@held", {"stream": True}),
                                          (["a", "@held"], {}), ("a|@held", {"n": 2})])
def test_a_request_that_takes_too_long(server, prompt, more):
    gone = count("let go")
    answer = complete(server, "vllm", prompt, **more)
    assert answer.status == 503, answer.body
    assert answer.error == {"message": LATE, "type": "server_error", "param": None, "code": "overloaded"}
    assert answer.headers["Retry-After"] == "1" and answer.headers["Connection"] == "close"
    assert answer.headers["x-request-id"].startswith("cmpl-")
    assert count("let go") == gone  # the model goes on


def test_a_request_that_takes_too_long_is_counted(server):
    """The model answers after the client has its answer."""
    def failed():
        return metrics(server).get('neso_llm_requests_total{finish_reason="error",model="vllm",version="1"}', 0)

    before = failed()
    assert complete(server, "vllm", "@held|@fail").status == 503
    GO.touch()
    wait_until(lambda: failed() == before + 1)


def test_a_stream_that_takes_too_long(server):
    answer = complete(server, "vllm", "a|b|@held", stream=True)
    assert answer.status == 200
    *texts, failure, done = events(answer.body)
    assert [json.loads(t)["choices"][0]["text"] for t in texts] == ["a", "b"]
    assert json.loads(failure)["error"] == {"message": LATE, "type": "server_error", "param": None,
                                            "code": "overloaded"}
    assert done == "[DONE]"


def test_the_end_of_a_choice_does_not_wait_for_others(server):
    """The first choice has ended, without a reason from the model, while the second one goes on."""
    begun = count("held")
    link = lab.begin(server, "/v1/completions", {"model": "trtllm", "prompt": ["a", "@held"], "stream": True,
                                                 "max_tokens": 9})
    reply, found = link.getresponse(), b""
    while b'"finish_reason":"stop"' not in found:
        piece = reply.read1()
        assert piece, found
        found += piece
    assert b"error" not in found
    wait_until(lambda: count("held") == begun + 1)
    assert count("let go") == begun
    link.close()


def test_a_failure_does_not_wait_for_others_beyond_the_limit(server):
    answer = complete(server, "vllm", ["@fail", "@held"])
    assert answer.status == 500
    assert answer.error["message"] == "the model has failed"


def test_the_connection_ends_after_a_late_stream(server):
    """The next request of the client must not wait for the model."""
    link = http.client.HTTPConnection(server.url.split("://")[1], timeout=30)
    link.request("POST", "/v1/completions", json.dumps({"model": "vllm", "prompt": "a|@held", "stream": True}),
                 {"Content-Type": "application/json"})
    reply = link.getresponse()
    assert reply.read().endswith(b"data: [DONE]\n\n")
    assert reply.fp is None or link.sock.recv(1) == b""
    link.close()


def test_a_client_that_goes_away_after_its_late_answer(server):
    for close_late in (False, True):
        before = count("held")
        link = lab.begin(server, "/v1/completions", {"model": "vllm", "prompt": "@held"})
        wait_until(lambda: count("held") == before + 1)
        if close_late:
            assert link.getresponse().status == 503
        link.close()
    assert complete(server, "vllm", "a").status == 200


def test_requests_in_time_are_not_disturbed(server):
    for _ in range(20):
        assert complete(server, "vllm", "a|b").json["choices"][0]["text"] == "ab"
        assert chat(server, "vllm", "a|b").json["choices"][0]["message"]["content"] == "ab"


@pytest.mark.parametrize("stream", [False, True])
def test_a_template_that_takes_too_long(server, stream):
    answer = chat(server, "vllm", "@held", stream=stream)
    assert answer.status == 500
    assert answer.error == {
        "message": "model 'render' did not render the messages within 1500 ms (--openai-template-timeout-ms)",
        "type": "server_error", "param": None, "code": None}
    GO.touch()
    wait_until(lambda: chat(server, "vllm", "a|b").status == 200)  # it answers one request after the other


def test_a_template_that_renders_too_much(server):
    """Without the limit of time, which a text of 16 MiB may exceed on a busy machine."""
    other = Server(server.repository, (*PYTHON_OPTIONS, "--openai-template-timeout-ms=0"))
    answer = chat(other, "vllm", "@huge")
    other.stop()
    assert answer.status == 500
    assert answer.error["message"] == (
        "model 'render' rendered a text of 16777217 bytes, at most 16777216 are allowed")


def test_a_stream_that_repeats_much(server):
    """The prompts of all choices are written at once, on the loop's thread."""
    prompt = "a" * (1 << 17)
    answer = complete(server, "vllm", prompt, n=8, stream=True, echo=True)
    assert answer.status == 200
    assert answer.body.count(f'"text":"{prompt}'.encode()) == 16  # and from the model
    answer = complete(server, "vllm", prompt + "a", n=8, stream=True, echo=True)
    assert answer.status == 400
    assert answer.error == {
        "message": "a stream would repeat 1048584 bytes of prompts, at most 1048576 are allowed",
        "type": "invalid_request_error", "param": "echo", "code": None}


def test_the_texts_of_an_answer_are_charged(server):
    """Eight choices of 2.4 MB, in pieces of 60 KB, are held until the last one has come."""
    other = Server(server.repository, (*OPTIONS, f"--memory-budget={48 << 20}"), ("http", "metrics"))
    before = metrics(other)["neso_memory_budget_used_bytes"]
    answer = complete(other, "vllm", "|".join(["a" * 60000] * 40), n=8)
    assert answer.status == 503, answer.status
    assert answer.error["message"] == "the server's memory budget (--memory-budget) is used up"
    answer = complete(other, "vllm", "|".join(["a" * 60000] * 4), n=8)
    assert answer.status == 200
    wait_until(lambda: metrics(other)["neso_memory_budget_used_bytes"] <= before + (2 << 20))
    other.stop()
