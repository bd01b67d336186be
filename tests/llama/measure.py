# SPDX-License-Identifier: BSD-3-Clause
"""CPU time for a token: the library alone, and the backend's loop over it, without a server.

    /usr/bin/python3 tests/llama/measure.py

One thread, the models of tiny_gguf.py, prompts of 24 characters, 16 new tokens, greedy, 1 and 8 slots. Each line is
the best of five rounds.
"""
import json
import pathlib
import sys
import tempfile
import threading
import time
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "backends" / name) for name in ("llamacpp", "chat_template")] + [
    str(ROOT / "tests" / "llama")]
LIBRARY = ROOT / ".deps" / "llama" / "libllama.so"
PROMPT, N_NEW, N_REQUESTS, N_ROUNDS = "Once upon a time there ", 16, 160, 5


def stand_in():
    """The module that the server gives to models, as far as the loop uses it."""
    module = types.ModuleType("triton_python_backend_utils")
    module.TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
    module.InferenceResponse = module.Tensor = lambda *values, **named: (values, named)
    module.Logger = types.SimpleNamespace(log_error=print, log_warn=print)
    module.TritonError = types.SimpleNamespace(INTERNAL=1, CANCELLED=2, INVALID_ARG=3)
    return module


sys.modules["triton_python_backend_utils"] = stand_in()
import tiny_gguf  # noqa: E402
from llama_generation import TextAnswers, TextMaker  # noqa: E402
from llama_library import Context, Library, Model  # noqa: E402
from llama_request import Request  # noqa: E402
from llama_slots import SlotLoop  # noqa: E402


class Quiet(SlotLoop):
    """The loop without its threads: the measurement makes the steps."""

    def __init__(self, *arguments, **named):
        start, threading.Thread.start = threading.Thread.start, lambda self: None
        try:
            super().__init__(*arguments, **named)
        finally:
            threading.Thread.start = start


def best(function):
    """CPU time for a token, in microseconds."""
    seconds = []
    for _ in range(N_ROUNDS):
        began = time.process_time()
        function()
        seconds.append(time.process_time() - began)
    return min(seconds) / N_REQUESTS / N_NEW * 1e6


def library_alone(model, context, n_slots):
    prompt, slots = model.tokenize(PROMPT.encode(), True), list(range(n_slots))
    for _ in range(N_REQUESTS // n_slots):
        at = 0
        for slot in slots:
            context.forget(slot)
            context.fill(at, slot, prompt, 0)
            at += len(prompt)
            context.wants[at - 1] = 1
        context.decode(at)
        for i in range(N_NEW - 1):
            tokens = context.rows(n_slots).argmax(axis=1).tolist()
            context.fill_singles(slots, tokens, [len(prompt) + i] * n_slots)
            context.decode(n_slots)


def loop_over_it(loop, maker, n_slots, stream):
    body = json.dumps({"prompt": PROMPT, "max_tokens": N_NEW, "temperature": 0, "stream": stream}).encode()
    sender = types.SimpleNamespace(send=lambda response, flags: None, is_cancelled=lambda: False)
    for _ in range(N_REQUESTS // n_slots):
        for _ in range(n_slots):
            job = maker.make(Request(body), sender, "")
            loop.submit(job, job.sequences)
        while loop.jobs:
            loop.step()


def main():
    library = Library(str(LIBRARY), lambda level, text: None)
    settings = types.SimpleNamespace(slots=8, n_ctx=512, tokens_per_step=512, prompt_share=0.5,
                                     max_new_tokens=None, prompt_cache="off")
    meters = types.SimpleNamespace(n_cached=0)
    print("llama.cpp %s, us of CPU time for a token" % library.version)
    for name, shape in (("nano", tiny_gguf.NANO), ("small", tiny_gguf.SMALL)):
        with tempfile.NamedTemporaryFile() as file:
            tiny_gguf.write(file.name, shape)
            model = Model(library, file.name)
        context = Context(model, 4096, 512, 8, 1)
        loop = Quiet(context, settings, TextAnswers(model, meters), n_ahead=1, meters=meters)
        maker = TextMaker(model, context, settings, None)
        for n_slots in (1, 8):
            print("%-5s %d slots: library %6.1f, plain %6.1f, stream %6.1f" % (
                name, n_slots, best(lambda: library_alone(model, context, n_slots)),
                best(lambda: loop_over_it(loop, maker, n_slots, False)),
                best(lambda: loop_over_it(loop, maker, n_slots, True))), flush=True)


if __name__ == "__main__":
    main()
