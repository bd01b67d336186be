# SPDX-License-Identifier: BSD-3-Clause
"""The engine. A step makes one token of each choice; between two steps other requests have theirs."""
import asyncio
import json
import os
import time

from stand_in_words import answer_words, choice_words, likely_tokens, prompt_words, vector
from vllm.engine.protocol import EngineClient
from vllm.outputs import CompletionOutput, Logprob, PoolingOutput, PoolingRequestOutput, RequestOutput
from vllm.v1.metrics.stats import FinishedRequestStats, IterationStats

TASKS = {"auto": ("generate", "embed"), "generate": ("generate",), "pooling": ("embed",)}


class EngineDeadError(Exception):
    pass


class Renderer:
    async def render_cmpl_async(self, prompts):
        return [{**one, "rendered": True} for one in prompts]


def token_ids(text):
    return [len(word) for word in prompt_words(text)]


def given_parameters(sampling):
    given = dict(sampling.given)
    if sampling.structured_outputs is not None:
        given["structured_outputs"] = json.dumps(sampling.structured_outputs.given)
    return given


class AsyncLLM(EngineClient):
    def __init__(self, config, stat_loggers):
        self.config = config
        self.log_file = config.additional_config.get("log", os.devnull)
        self.stat_loggers = [make(config, 0) for make in stat_loggers or []]
        self.running, self.is_dead = set(), False
        self.renderer = Renderer()

    @classmethod
    def from_vllm_config(cls, vllm_config, usage_context, stat_loggers, enable_log_requests,
                         aggregate_engine_logging, disable_log_stats):
        assert usage_context and not enable_log_requests and not aggregate_engine_logging
        return cls(vllm_config, [] if disable_log_stats else stat_loggers)

    async def reset_mm_cache(self):
        pass

    def shutdown(self):
        self.note(f"shutdown {len(self.running)}")

    async def get_supported_tasks(self):
        return TASKS[self.config.model_config.runner]

    async def check_health(self):
        if self.is_dead:
            raise EngineDeadError("EngineCore encountered an issue.")

    async def abort(self, request_id):
        self.running.discard(request_id)
        self.note("aborted")

    def note(self, text):
        with open(self.log_file, "a", encoding="ascii") as file:
            print(text, file=file)

    async def generate(self, prompt, sampling_params, request_id, lora_request=None):
        prompt = {"prompt": prompt} if isinstance(prompt, str) else prompt
        text = prompt["prompt"]
        if text == "@die":
            self.is_dead = True
        await self.check_health()
        self.running.add(request_id)
        words, reason = answer_words(text, given_parameters(sampling_params),
                                     lora_request and lora_request.lora_path)
        words += [f"+{len(image.data)}" for image in prompt.get("multi_modal_data", {}).get("image", [])]
        outputs = [CompletionOutput(i, "", [], None, None if sampling_params.logprobs is None else [])
                   for i in range(sampling_params.n)]
        answer = RequestOutput(request_id, text, token_ids(text), outputs, False)
        if text == "@hold":
            self.note("holds")
        while text == "@hold" and request_id in self.running:
            yield answer
            await asyncio.sleep(0.001)
        times = [time.monotonic()]
        for number, word in enumerate(words or [None]):
            is_last = number >= len(words) - 1
            if is_last and "@held" in text:
                await self.wait_for_file()
            outputs = self.step(outputs, word, sampling_params.logprobs, reason if is_last else None)
            answer = RequestOutput(request_id, text, answer.prompt_token_ids, outputs, is_last)
            times.append(time.monotonic())
            self.report(answer, times)
            yield answer
            await asyncio.sleep(0)
        self.running.discard(request_id)

    async def wait_for_file(self):
        self.note("held")
        while not os.path.exists(self.log_file + ".go"):
            await asyncio.sleep(0.001)

    def report(self, answer, times):
        """The numbers of a step that made `answer`."""
        n_prompt, n = len(answer.prompt_token_ids), len(answer.outputs)
        stats = IterationStats(num_generation_tokens=n)
        if len(times) == 2:
            stats.num_prompt_tokens, stats.n_params_iter = n_prompt, [n]
            stats.time_to_first_tokens_iter = [times[1] - times[0]]
        else:
            stats.inter_token_latencies_iter = [times[-1] - times[-2]]
        if answer.finished:
            stats.finished_requests = [FinishedRequestStats(
                times[-1] - times[0], n_prompt, sum(len(one.token_ids) for one in answer.outputs))]
        for logger in self.stat_loggers:
            logger.record(None, stats)

    @staticmethod
    def step(outputs, word, n_logprobs, reason):
        """Each choice gets its token, in a new object: those that were yielded stay as they are. `word`: None for
        an answer without a token."""
        made = []
        for old in outputs:
            new = [] if word is None else choice_words([word], old.index)
            logprobs, total = old.logprobs, old.cumulative_logprob
            if n_logprobs is not None:
                likely = [likely_tokens(token, n_logprobs) for token in new]
                logprobs = logprobs + [{number: Logprob(*rest) for number, *rest in one} for one in likely]
                total = sum((one[0][1] for one in likely), total or 0.0)
            made.append(CompletionOutput(old.index, old.text + "".join(new), old.token_ids + [len(t) for t in new],
                                         total, logprobs, reason))
        return made

    async def encode(self, prompt, pooling_params, request_id):
        assert pooling_params.task == "embed"
        prompt = {"prompt": prompt} if isinstance(prompt, str) else prompt
        tokens = prompt.get("prompt_token_ids") or token_ids(prompt["prompt"])
        made = vector(prompt.get("prompt", ""), pooling_params.dimensions)
        yield PoolingRequestOutput(request_id, PoolingOutput(made), tokens, True)
