# SPDX-License-Identifier: BSD-3-Clause
"""A program as backend that a client cannot tell from the vLLM backend of Triton: the same inputs and outputs, which it
completes in the configuration; the same parameters of sampling; streams from an event loop and a thread that sends; its
errors and the names of its metrics. There is no engine below: tokens are the words of the prompt, in turn.

Special prompts: "@json" is answered by the schema that must hold, "@sampling" by the parameters, "@hold" not at all.
"""
import asyncio
import json
import os
import queue
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

INPUTS = [("text_input", "TYPE_STRING", 1, False), ("image", "TYPE_STRING", -1, True), ("stream", "TYPE_BOOL", 1, True),
          ("sampling_parameters", "TYPE_STRING", 1, True), ("exclude_input_in_output", "TYPE_BOOL", 1, True),
          ("return_finish_reason", "TYPE_BOOL", 1, True), ("return_cumulative_logprob", "TYPE_BOOL", 1, True),
          ("return_logprobs", "TYPE_BOOL", 1, True), ("return_num_input_tokens", "TYPE_BOOL", 1, True),
          ("return_num_output_tokens", "TYPE_BOOL", 1, True), ("embedding_request", "TYPE_STRING", 1, True)]
OUTPUTS = [("text_output", "TYPE_STRING", -1), ("finish_reason", "TYPE_STRING", -1),
           ("cumulative_logprob", "TYPE_FP32", -1), ("logprobs", "TYPE_STRING", -1),
           ("num_input_tokens", "TYPE_UINT32", 1), ("num_output_tokens", "TYPE_UINT32", -1)]
SAMPLING = {"n", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "max_tokens", "logprobs", "logit_bias",
            "frequency_penalty", "presence_penalty", "structured_outputs"}
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class Asked:
    """A request: its inputs, and the parameters of sampling."""

    def __init__(self, request):
        self.values = {t.name(): t.as_numpy().reshape(-1) for t in request.inputs()}
        self.sampling = json.loads(self.text("sampling_parameters", "{}"))
        self.lora = self.sampling.pop("lora_name", None)
        self.stream = self.flag("stream")

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
        self.loras = None
        if str(engine.get("enable_lora", "")).lower() == "true":
            with open(os.path.join(folder, "multi_lora.json"), encoding="utf-8") as file:
                self.loras = list(json.load(file))
        self.log = engine["log"]
        self.metrics = [pb_utils.MetricFamily(name=f"vllm:{name}", description=name.replace("_", " "),
                                              kind=pb_utils.MetricFamily.COUNTER)
                        for name in ("prompt_tokens_total", "generation_tokens_total")]
        labels = {"model": args["model_name"], "version": args["model_version"]}
        self.prompt_tokens, self.generation_tokens = [family.Metric(labels=labels) for family in self.metrics]
        self.ready = queue.Queue()
        self.loop = asyncio.new_event_loop()
        self.threads = [threading.Thread(target=self.run_loop), threading.Thread(target=self.send_all)]
        for thread in self.threads:
            thread.start()

    def run_loop(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def send_all(self):
        while (item := self.ready.get()) is not None:
            sender, response, flags = item
            sender.send(response, flags=flags)

    def finalize(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.ready.put(None)
        for thread in self.threads:
            thread.join()

    # ---- requests ----

    def execute(self, requests):
        for request in requests:
            sender, asked = request.get_response_sender(), Asked(request)
            wrong = self.wrong_lora(asked.lora)
            if wrong is not None:
                self.ready.put((sender, self.failure(wrong), FINAL))
            else:
                asyncio.run_coroutine_threadsafe(self.infer(asked, sender), self.loop)

    def wrong_lora(self, name):
        if name is None:
            return None
        if self.loras is None:
            return "LoRA feature is not enabled."
        return None if name in self.loras else (
            f"LoRA {name} is not supported, we currently support {self.loras}")

    @staticmethod
    def failure(text):
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(text))

    async def infer(self, asked, sender):
        try:
            if "embedding_request" in asked.values:
                self.ready.put((sender, self.embed(asked), FINAL))
            else:
                await self.generate(asked, sender)
        except Exception as error:  # pylint: disable=broad-except
            self.ready.put((sender, self.failure(f"Error generating stream: {error}"), FINAL))

    @staticmethod
    def embed(asked):
        wanted = json.loads(asked.text("embedding_request"))
        n = wanted.get("pooling_params", {}).get("dimensions", [3])[0]
        vector = [float(len(wanted["input"]))] * n
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("text_output", np.array([json.dumps(vector)], dtype=np.object_)),
            pb_utils.Tensor("num_input_tokens", np.array(len(wanted["input"].split()), dtype=np.uint32))])

    def words(self, asked):
        prompt = asked.text("text_input")
        if prompt == "@json":
            return [asked.sampling["structured_outputs"]], "stop"
        if prompt == "@sampling":
            return [json.dumps(asked.sampling)], "stop"
        words, end = [], asked.sampling.get("max_tokens", 1 << 30)
        for word in prompt.split():
            if word in asked.sampling.get("stop", []):
                return words, "stop"
            if len(words) == end:
                return words, "length"
            words.append(f" {word}" if words else word)
        return words, "length" if len(words) == end else "stop"

    def note(self, word):
        with open(self.log, "a", encoding="ascii") as file:
            print(word, file=file)

    async def generate(self, asked, sender):
        unknown = set(asked.sampling) - SAMPLING
        if unknown:
            raise TypeError(f"Unexpected keyword argument '{sorted(unknown)[0]}'")
        if asked.text("text_input") == "@hold":
            self.note("holds")
        while asked.text("text_input") == "@hold":
            await asyncio.sleep(0.001)
            if sender.is_cancelled():
                self.note("aborted")
                self.ready.put((sender, self.failure("Request was cancelled"), FINAL))
                return
        words, reason = self.words(asked)
        self.prompt_tokens.increment(len(asked.text("text_input").split()))
        self.generation_tokens.increment(len(words))
        pieces = [[word] for word in words] if asked.stream else [words]
        for number, piece in enumerate(pieces):
            is_last = number == len(pieces) - 1
            self.ready.put((sender, self.response(asked, piece, reason if is_last else "None"),
                            FINAL if is_last else 0))
            await asyncio.sleep(0)

    def response(self, asked, words, reason):
        n = asked.sampling.get("n", 1)
        before = "" if asked.stream or asked.flag("exclude_input_in_output") else asked.text("text_input")
        made = [("text_output", [before + "".join(words) + (f"#{k}" if k else "") for k in range(n)], np.object_)]
        if asked.flag("return_finish_reason"):
            made.append(("finish_reason", [reason] * n, np.object_))
        if asked.flag("return_logprobs"):
            lists = [{str(len(w)): {"logprob": -0.5, "rank": 1, "decoded_token": w}} for w in words]
            made.append(("logprobs", [json.dumps(lists)] * n, np.object_))
        if asked.flag("return_num_input_tokens"):
            made.append(("num_input_tokens", len(asked.text("text_input").split()), np.uint32))
        if asked.flag("return_num_output_tokens"):
            made.append(("num_output_tokens", [len(words)] * n, np.uint32))
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, np.array(values, dtype=kind))
                                           for name, values, kind in made])
