# SPDX-License-Identifier: BSD-3-Clause
"""A program as backend that a client cannot tell from the vLLM backend of Triton: the same inputs and outputs, which it
completes in the configuration; the same parameters of sampling; streams from an event loop and a thread that sends; its
errors and the names of its metrics. There is no engine below: vllm_stand_in/stand_in_words.py says what it answers.
Its own program is tested by the same tests where it is at hand (test_openai_vllm.py).
"""
import asyncio
import base64
import json
import os
import queue
import threading

import numpy as np
import triton_python_backend_utils as pb_utils
from stand_in_words import answer_words, choice_words, likely_tokens, prompt_words, vector

INPUTS = [("text_input", "TYPE_STRING", 1, False), ("image", "TYPE_STRING", -1, True), ("stream", "TYPE_BOOL", 1, True),
          ("sampling_parameters", "TYPE_STRING", 1, True), ("exclude_input_in_output", "TYPE_BOOL", 1, True),
          ("return_finish_reason", "TYPE_BOOL", 1, True), ("return_cumulative_logprob", "TYPE_BOOL", 1, True),
          ("return_logprobs", "TYPE_BOOL", 1, True), ("return_num_input_tokens", "TYPE_BOOL", 1, True),
          ("return_num_output_tokens", "TYPE_BOOL", 1, True), ("embedding_request", "TYPE_STRING", 1, True)]
OUTPUTS = [("text_output", "TYPE_STRING", -1), ("finish_reason", "TYPE_STRING", -1),
           ("cumulative_logprob", "TYPE_FP32", -1), ("logprobs", "TYPE_STRING", -1),
           ("num_input_tokens", "TYPE_UINT32", 1), ("num_output_tokens", "TYPE_UINT32", -1)]
SAMPLING = {"n": int, "temperature": float, "top_p": float, "top_k": int, "min_p": float, "seed": int, "max_tokens": int,
            "logprobs": int, "frequency_penalty": float, "presence_penalty": float, "structured_outputs": str,
            "lora_name": str, "stop": list, "logit_bias": dict}
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


TASKS = {"auto": ("generate", "embed"), "generate": ("generate",), "pooling": ("embed",)}


def is_true(parameters, name):
    return name in parameters and parameters[name]["string_value"].lower() == "true"


class Refused(Exception):
    pass


class Asked:
    """A request: its inputs, and the parameters of sampling."""

    def __init__(self, request):
        self.values = {t.name(): t.as_numpy().reshape(-1) for t in request.inputs()}
        self.sampling = self.read_sampling(self.text("sampling_parameters", request.parameters()))
        self.lora = self.sampling.get("lora_name")
        self.stream = self.flag("stream")

    @staticmethod
    def read_sampling(text):
        try:
            found = json.loads(text)
        except json.JSONDecodeError:
            raise Refused("Invalid sampling_parameters: expected a valid JSON object.") from None
        if not isinstance(found, dict):
            raise Refused("Invalid sampling_parameters: expected a JSON object.")
        return found

    def check(self):
        """Texts of numbers are numbers. The reason of the error is in the log alone."""
        try:
            self.sampling = {name: SAMPLING[name](value) for name, value in self.sampling.items()}
        except (KeyError, TypeError, ValueError):
            raise AttributeError("'NoneType' object has no attribute 'lora_name'") from None
        if self.stream and not self.values.get("exclude_input_in_output", [True])[0]:
            raise ValueError("When streaming, `exclude_input_in_output` = False is not allowed.")

    def text(self, name, default=None):
        return self.values[name][0].decode() if name in self.values else default

    def flag(self, name):
        return bool(self.values[name][0]) if name in self.values else False


class TritonPythonModel:
    @classmethod
    def auto_complete_config(cls, config):
        known = config.as_dict()
        for name, kind, n, optional in INPUTS:
            if name not in [i["name"] for i in known["input"]]:
                config.add_input({"name": name, "data_type": kind, "dims": [n],
                                  **({"optional": True} if optional else {})})
        for name, kind, n in OUTPUTS:
            if name not in [o["name"] for o in known["output"]]:
                config.add_output({"name": name, "data_type": kind, "dims": [n]})
        config.set_model_transaction_policy({"decoupled": True})
        config.set_max_batch_size(0)
        return config

    def initialize(self, args):
        folder = pb_utils.get_model_dir()
        with open(os.path.join(folder, "model.json"), encoding="utf-8") as file:
            engine = json.load(file)
        self.name, self.loras = args["model_name"], None
        if str(engine.get("enable_lora", "")).lower() == "true":
            with open(os.path.join(folder, "multi_lora.json"), encoding="utf-8") as file:
                self.loras = json.load(file)
        if engine["model"] == "missing":
            raise ValueError("Repo id 'missing' is not found")
        self.log = engine["additional_config"]["log"]
        self.tasks = TASKS[engine.get("runner", "auto")]
        parameters = json.loads(args["model_config"])["parameters"]
        self.checks_health = is_true(parameters, "ENABLE_VLLM_HEALTH_CHECK")
        self.is_dead, self.running = False, 0
        self.prompt_tokens = self.generation_tokens = None
        if is_true(parameters, "REPORT_CUSTOM_METRICS"):
            self.count_tokens({"model": args["model_name"], "version": args["model_version"]})
        self.ready = queue.Queue()
        self.loop = asyncio.new_event_loop()
        self.threads = [threading.Thread(target=self.run_loop), threading.Thread(target=self.send_all)]
        for thread in self.threads:
            thread.start()

    def count_tokens(self, labels):
        self.families = [pb_utils.MetricFamily(name=f"vllm:{name}", description=name.replace("_", " "),
                                               kind=pb_utils.MetricFamily.COUNTER)
                         for name in ("prompt_tokens_total", "generation_tokens_total")]
        self.prompt_tokens, self.generation_tokens = [family.Metric(labels=labels) for family in self.families]

    async def drain(self):
        while self.running > 0:
            await asyncio.sleep(0.001)

    def run_loop(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def send_all(self):
        while (item := self.ready.get()) is not None:
            sender, response, flags = item
            sender.send(response, flags=flags)

    def finalize(self):
        asyncio.run_coroutine_threadsafe(self.drain(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.ready.put(None)
        for thread in self.threads:
            thread.join()
        self.note("shutdown 0")

    # ---- requests ----

    def execute(self, requests):
        if self.checks_health and self.is_dead:
            self.refuse_all(requests)
            return
        for request in requests:
            sender = request.get_response_sender()
            try:
                asked = Asked(request)
            except Refused as error:
                self.ready.put((sender, self.failure(str(error), pb_utils.TritonError.INVALID_ARG), FINAL))
                continue
            wrong = self.wrong_lora(asked.lora)
            if wrong is not None:
                self.ready.put((sender, self.failure(wrong), FINAL))
            else:
                asyncio.run_coroutine_threadsafe(self.infer(asked, sender), self.loop)

    def refuse_all(self, requests):
        pb_utils.unload_model(self.name)
        for request in requests:
            self.ready.put((request.get_response_sender(), pb_utils.InferenceResponse(error=pb_utils.TritonError(
                "Model is unavailable due to unhealthy vLLM engine", pb_utils.TritonError.UNAVAILABLE)), FINAL))

    def wrong_lora(self, name):
        if name is None:
            return None
        if self.loras is None:
            return "LoRA feature is not enabled."
        return None if name in self.loras else (
            f"LoRA {name} is not supported, we currently support {list(self.loras)}")

    @staticmethod
    def failure(text, code=pb_utils.TritonError.INTERNAL):
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(text, code))

    async def infer(self, asked, sender):
        self.running += 1
        try:
            task = "embed" if "embedding_request" in asked.values else "generate"
            if task not in self.tasks:
                raise ValueError(f"Model {self.name} does not support '{task}' request")
            if task == "embed":
                self.ready.put((sender, self.embed(asked), FINAL))
            else:
                await self.generate(asked, sender)
        except Exception as error:  # pylint: disable=broad-except
            self.ready.put((sender, self.failure(f"Error generating stream: {error}"), FINAL))
        finally:
            self.running -= 1

    @staticmethod
    def embed(asked):
        wanted = json.loads(asked.text("embedding_request"))
        text = wanted["input"] if isinstance(wanted["input"], str) else ""
        tokens = prompt_words(text) if text else wanted["input"]
        made = vector(text, wanted.get("pooling_params", {}).get("dimensions", [None])[0])
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("text_output", np.array([json.dumps(made)], dtype=np.object_)),
            pb_utils.Tensor("num_input_tokens", np.array(len(tokens), dtype=np.uint32))])

    def note(self, word):
        with open(self.log, "a", encoding="ascii") as file:
            print(word, file=file)

    async def generate(self, asked, sender):
        text = asked.text("text_input")
        asked.check()
        self.is_dead = self.is_dead or text == "@die"
        if self.is_dead:
            raise RuntimeError("EngineCore encountered an issue.")
        if text == "@hold":
            await self.hold(asked, sender)
            return
        adapter = None if asked.lora is None else self.loras[asked.lora]
        words, reason = answer_words(text, asked.sampling, adapter)
        words += [f"+{len(base64.b64decode(image))}" for image in asked.values.get("image", [])]
        pieces = [[word] for word in words] if asked.stream and words else [words]
        for number, piece in enumerate(pieces):
            is_last = number == len(pieces) - 1
            if is_last and "@held" in text:
                await self.wait_for_file()
            if is_last and self.prompt_tokens is not None:
                self.prompt_tokens.increment(len(prompt_words(text)))
                self.generation_tokens.increment(len(words) * asked.sampling.get("n", 1))
            self.ready.put((sender, self.response(asked, piece, reason if is_last else "None"),
                            FINAL if is_last else 0))
            await asyncio.sleep(0)

    async def hold(self, asked, sender):
        self.note("holds")
        while not sender.is_cancelled():
            if asked.stream:
                self.ready.put((sender, self.response(asked, [], "None"), 0))
            await asyncio.sleep(0.001)
        self.note("aborted")
        self.ready.put((sender, self.failure("Request was cancelled"), FINAL))

    async def wait_for_file(self):
        self.note("held")
        while not os.path.exists(self.log + ".go"):
            await asyncio.sleep(0.001)

    def response(self, asked, words, reason):
        n = asked.sampling.get("n", 1)
        lists = [choice_words(words, choice) for choice in range(n)]
        before = "" if asked.stream or asked.flag("exclude_input_in_output") else asked.text("text_input")
        made = [("text_output", [before + "".join(one) for one in lists], np.object_)]
        if asked.flag("return_finish_reason"):
            made.append(("finish_reason", [reason] * n, np.object_))
        if asked.flag("return_cumulative_logprob"):
            each = -0.5 if "logprobs" in asked.sampling else np.nan
            made.append(("cumulative_logprob", [each * len(words)] * n, np.float32))
        if asked.flag("return_logprobs"):
            made.append(("logprobs", [self.logprobs(one, asked.sampling.get("logprobs")) for one in lists], np.object_))
        if asked.flag("return_num_input_tokens"):
            made.append(("num_input_tokens", len(prompt_words(asked.text("text_input"))), np.uint32))
        if asked.flag("return_num_output_tokens"):
            made.append(("num_output_tokens", [len(words)] * n, np.uint32))
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, np.array(values, dtype=kind))
                                           for name, values, kind in made])

    @staticmethod
    def logprobs(words, count):
        if count is None:
            return "null"
        return json.dumps([{str(number): {"logprob": value, "rank": rank, "decoded_token": text}
                            for number, value, rank, text in likely_tokens(word, count)} for word in words])
