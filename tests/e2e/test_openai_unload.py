# SPDX-License-Identifier: BSD-3-Clause
"""The OpenAI API while a model is unloaded (docs/model_management.md): requests that it has accepted end as any other,
also those that are made of many inferences, and new ones are refused."""
import concurrent.futures
import pathlib
import tempfile
import time

import pytest

import openai_models
from conftest import patience
from openai_models import call, chat, chunks, complete
from python_programs import OPTIONS as PYTHON_OPTIONS

BACKENDS = openai_models.BACKENDS
FOLDER = tempfile.TemporaryDirectory(prefix="openai_unload_")
LOG = pathlib.Path(FOLDER.name) / "log"
OPTIONS = (*PYTHON_OPTIONS, "--model-control-mode=explicit", "--load-model=*")
TAKES_SECONDS = 10


def paused(program, before, words):
    """The program with a pause before that line when the words hold."""
    indent = " " * (len(before) - len(before.lstrip()))
    assert before in program
    return program.replace(before, f"{indent}if {words}:\n{indent}    self.held()\n{before}")


HELD = openai_models.PROGRAM[openai_models.PROGRAM.index("    def log("):openai_models.PROGRAM.index("    def run(")]
SAID = openai_models.parameters(log=LOG)
MODELS = {
    "text": openai_models.model(
        paused(openai_models.VLLM, "            last = i == len(parts) - 1", "i == 1 and '@pause' in prompt"),
        openai_models.VLLM_IO, SAID),
    "speaks": openai_models.model(
        paused(openai_models.OPENAI, "            self.send(sender, self.choice(chat, part))",
               "'@pause' in prompt and part == parts[1]"),
        openai_models.OPENAI_IO, SAID),
    "embed": openai_models.model(
        paused(openai_models.EMBED, "            counts =", "b'pause' in texts")
        .replace("        import json\n", "        global json, os, time\n        import json, os, time\n"
                 '        self.parameters = {"log": json.loads(args["model_config"])["parameters"]["log"]'
                 '["string_value"]}\n') + HELD,
        openai_models.EMBED_IO, SAID + openai_models.parameters(openai="embeddings") + "max_batch_size: 2\n",
        decoupled=False),
}


def wait_until(holds):
    deadline = time.monotonic() + patience(20)
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def state_of(server, name):
    found = next(one for one in call(server, "/v2/repository/index", {}).json if one["name"] == name)
    return found["state"], found.get("reason")


def embed(server, texts):
    return call(server, "/v1/embeddings", {"model": "embed", "input": texts})


def ask_text(server, name, prompt):
    return (chat if name == "speaks" else complete)(server, name, prompt, stream=True)


def during_an_unload(server, name, ask, ask_another):
    """The answer to a request in whose middle the model is unloaded. It is loaded again afterwards."""
    LOG.write_text("")
    gate = LOG.with_name("log.go")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        try:
            wait_until(lambda: "held" in LOG.read_text())
            assert call(server, f"/v2/repository/models/{name}/unload", {}).status == 200
            assert state_of(server, name)[0] == "UNLOADING"
            assert ask_another().status in (404, 503)
        finally:
            gate.touch()
        answer = asked.result()
    gate.unlink()
    wait_until(lambda: state_of(server, name) == ("UNAVAILABLE", "unloaded"))
    assert ask_another().status in (404, 503)
    assert call(server, f"/v2/repository/models/{name}/load", {}).status == 200
    assert ask_another().status == 200
    return answer


@pytest.mark.parametrize("name", ["text", "speaks"])
def test_a_stream(server, name):
    answer = during_an_unload(server, name, lambda: ask_text(server, name, "@pause|a|b|c"),
                              lambda: ask_text(server, name, "a|b"))
    assert answer.status == 200
    choices = [one["choices"][0] for one in chunks(answer.body) if one["choices"]]
    said = [one["text"] if name == "text" else one["delta"].get("content") for one in choices]
    assert "".join(one or "" for one in said) == "abc"
    assert choices[-1]["finish_reason"] == "stop"


def test_a_long_embedding(server):
    """Most of its inferences are made after the unload."""
    texts = ["pause"] + ["x" * (i % 50 + 1) for i in range(1, 999)]
    answer = during_an_unload(server, "embed", lambda: embed(server, texts), lambda: embed(server, ["a"]))
    assert answer.status == 200, answer.body
    assert [row["embedding"][0] for row in answer.json["data"]] == [len(t) for t in texts]
    assert answer.json["usage"] == {"prompt_tokens": 999, "total_tokens": 999}
