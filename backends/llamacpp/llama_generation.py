# SPDX-License-Identifier: BSD-3-Clause
"""Requests for text: their prompts as tokens, and their answers in OpenAI's form."""
import json
import uuid

import numpy as np
import triton_python_backend_utils as pb_utils

import llama_answer
from chat_template import TemplateError, TemplateRefusal
from llama_grammar import SchemaError, grammar_of, grammar_of_calls
from llama_library import LibraryError
from llama_loop import FINAL, Job
from llama_request import Refusal
from llama_slots import Sequence, prepare_sampling

TOO_LONG = "context_length_exceeded"


def response(text):
    return pb_utils.InferenceResponse([pb_utils.Tensor(
        "openai_response", np.array([text.encode("utf-8", "replace")], dtype=np.object_))])


class TextJob(Job):
    """A request for text. Its choices are sequences."""

    def __init__(self, request, sender, key_name):
        super().__init__(request, sender)
        self.is_chat = request.endpoint == "chat"
        self.key = key_name
        self.scope = (key_name, request.cache_key)  # of the prompts that it may share
        self.sequences = []
        self.prompts = []  # texts that `echo` repeats
        self.n_open = 0
        self.used = [0, 0, 0]  # prompt tokens, new tokens, cached tokens
        self.parts = []  # texts of each choice, for an answer that is not streamed
        self.entries = []  # log-probabilities of each choice
        self.n_characters = []  # of each choice
        self.reasons = []
        self.call_ids = []

    def add(self, sequence):
        self.sequences.append(sequence)
        self.n_open += 1
        self.parts.append([])
        self.entries.append([])
        self.n_characters.append(0)
        self.reasons.append(None)
        self.call_ids.append("call_" + uuid.uuid4().hex[:24] if self.request.functions else None)


def _message_of_template(error):
    return Refusal(str(error), "messages")


class TextMaker:
    """Makes jobs of requests."""

    def __init__(self, model, context, settings, template):
        self._model = model
        self._context = context
        self._settings = settings
        self._template = template  # a ChatTemplate, or None
        self._bos = model.special("bos")

    def make(self, request, sender, key_name):
        job = TextJob(request, sender, key_name)
        grammar = self._grammar(request)
        self._check_biases(request)
        index = 0
        try:
            for tokens in self._prompts(job, request):
                limit = self._limit(request, len(tokens))
                for _ in range(request.n):
                    sequence = Sequence(job, index, tokens, limit, request.stops)
                    job.add(sequence)
                    self._prepare(sequence, grammar)
                    index += 1
        except Exception:
            for sequence in job.sequences:
                if sequence.sampler is not None:
                    sequence.sampler.close()
            raise
        request.body_text = None  # only the template needs it, and the request may wait
        return job

    # ---- prompts ----

    def _prompts(self, job, request):
        for text in request.texts:
            if request.endpoint == "chat":
                text = self._render(request)
                tokens = self._tokens(text, not text.startswith(self._bos) or not self._bos, "messages")
            elif isinstance(text, str):
                tokens = self._tokens(text, True, "prompt")
            else:
                tokens = self._given_tokens(text)
                text = b"".join(self._model.name_of(token) for token in text).decode("utf-8", "replace")
            job.prompts.append(text)
            yield self._checked(tokens, request)

    def _render(self, request):
        if self._template is None:
            raise Refusal("this model has no chat template: its file has none, and neither has its directory",
                          "messages")
        if request.has_tools and "tools" not in self._template.source:
            raise Refusal("the chat template of this model has no tools", "tools")
        try:
            return self._template.render(request.body_text)
        except TemplateRefusal as error:
            raise Refusal(str(error), "messages") from None
        except TemplateError as error:
            raise Refusal(str(error), None, None, "server_error") from None

    def _tokens(self, text, add_special, param):
        n_ctx = self._settings.n_ctx
        tokens = self._model.tokenize_at_most(text.encode("utf-8", "replace"), add_special, n_ctx)
        if tokens is None:
            raise Refusal("the prompt has more than %d tokens, the context of this model has %d" % (
                n_ctx, n_ctx), param, TOO_LONG)
        return tokens

    def _given_tokens(self, tokens):
        for token in tokens:
            if not 0 <= token < self._model.n_vocab:
                raise Refusal("the token id %d is not one of the %d of this model" % (
                    token, self._model.n_vocab), "prompt")
        return np.array(tokens, np.int32)

    def _checked(self, tokens, request):
        param = "messages" if request.endpoint == "chat" else "prompt"
        if len(tokens) == 0:
            raise Refusal("the prompt has no tokens", param)
        if len(tokens) >= self._settings.n_ctx:
            raise Refusal("the prompt has %d tokens, the context of this model has %d" % (
                len(tokens), self._settings.n_ctx), param, TOO_LONG)
        return tokens

    def _limit(self, request, n_prompt):
        limits = [self._settings.n_ctx - n_prompt, request.max_tokens, self._settings.max_new_tokens]
        return min(limit for limit in limits if limit is not None)

    # ---- sampling ----

    def _grammar(self, request):
        try:
            if request.functions:
                return grammar_of_calls(request.functions, request.n_choices)
            return None if request.schema is None else grammar_of(request.schema, request.n_choices)
        except SchemaError as error:
            raise Refusal(str(error), "tools" if request.functions else "response_format") from None

    def _check_biases(self, request):
        for token in request.sampling["logit_bias"]:
            if token >= self._model.n_vocab:
                raise Refusal("the token id %d of 'logit_bias' is not one of the %d of this model" % (
                    token, self._model.n_vocab), "logit_bias")

    def _prepare(self, sequence, grammar):
        try:
            prepare_sampling(self._context, sequence, grammar)
        except LibraryError as error:
            raise Refusal(str(error), "response_format") from None


class TextAnswers:
    """Sends the texts of sequences as they come. Called by the thread that computes."""

    def __init__(self, model, meters):
        self._model = model
        self._meters = meters

    def logprobs(self, sequence, row, token):
        return llama_answer.token_logprobs(row, token, sequence.job.request.logprobs, self._model.name_of)

    def begin(self, sequence):
        """The prompt is read."""
        job = sequence.job
        if job.request.stream and job.is_chat:
            delta = {"role": "assistant", "content": ""}
            if self._names_call(job):
                delta = {"role": "assistant", "content": None,
                         "tool_calls": [{"index": 0, **self._call(job, sequence.index, "")}]}
            job.send(response(llama_answer.chunk(True, sequence.index, delta=delta)))
        if job.request.echo:
            self.text(sequence, job.prompts[sequence.index // job.request.n], None)

    def text(self, sequence, text, entries):
        job, index = sequence.job, sequence.index
        if not job.request.stream or (job.request.functions and not self._names_call(job)):
            job.parts[index].append(text)
            job.entries[index] += entries or ()
        elif not entries and not job.request.functions:
            job.send(response(llama_answer.text_chunk(job.is_chat, index, text)))
        else:
            job.send(response(self._chunk(job, index, text, entries)))
        job.n_characters[index] += len(text)

    def end(self, sequence, reason, text, entries):
        """The last text of a sequence. True when its request is answered."""
        job, index = sequence.job, sequence.index
        self._count(sequence)
        job.n_open -= 1
        if reason == "stop" and job.request.functions:
            reason = "tool_calls"
        job.reasons[index] = reason
        if not job.request.stream:
            job.parts[index].append(text)
            job.entries[index] += entries or ()
            if job.n_open == 0:
                job.send(response(self._whole(job)), FINAL)
            return job.n_open == 0
        return self._end_stream(job, index, reason, text, entries)

    def _count(self, sequence):
        used = sequence.job.used
        if sequence.index % sequence.job.request.n == 0:  # the choices of a prompt share it
            used[0] += len(sequence.prompt)
            used[2] += sequence.n_cached
        used[1] += sequence.n_new
        self._meters.n_cached += sequence.n_cached

    # ---- streams ----

    def _end_stream(self, job, index, reason, text, entries):
        used = llama_answer.usage(*job.used) if job.n_open == 0 else None
        if job.request.functions and not self._names_call(job):
            text = "".join(job.parts[index]) + text
            last = self._calls_chunk(job, index, text, reason, used)
        else:
            last = self._chunk(job, index, text, entries, reason, None if job.request.wants_usage else used)
        if used is not None and job.request.wants_usage:
            job.send(response(last))
            job.send(response(llama_answer.usage_chunk(used)), FINAL)
        else:
            job.send(response(last), FINAL if used is not None else 0)
        return used is not None

    def _chunk(self, job, index, text, entries, reason=None, used=None):
        if job.request.functions:
            delta = {"tool_calls": [{"index": 0, "function": {"arguments": text}}]} if text else {}
            return llama_answer.chunk(True, index, None, reason, None, delta, used)
        return llama_answer.chunk(job.is_chat, index, text, reason, self._described(job, index, entries),
                                  None, used)

    def _calls_chunk(self, job, index, text, reason, used):
        calls = [{"index": 0, **call} for call in self._parsed_calls(job, index, text)]
        return llama_answer.chunk(True, index, None, reason, None, {"tool_calls": calls},
                                  None if job.request.wants_usage else used)

    @staticmethod
    def _described(job, index, entries):
        if not entries:
            return None
        if job.is_chat:
            return llama_answer.chat_logprobs(entries)
        return llama_answer.completion_logprobs(entries, job.n_characters[index])

    # ---- whole answers ----

    def _whole(self, job):
        choices = []
        for index, parts in enumerate(job.parts):
            text = "".join(parts)
            calls = self._parsed_calls(job, index, text) if job.request.functions else None
            job.n_characters[index] = 0
            if job.request.echo:
                job.n_characters[index] = len(job.prompts[index // job.request.n])
            choices.append(llama_answer.whole_choice(
                job.is_chat, index, text, job.reasons[index],
                self._described(job, index, job.entries[index]), calls))
        return llama_answer.whole(choices, llama_answer.usage(*job.used))

    # ---- calls of tools ----

    @staticmethod
    def _names_call(job):
        """True when the text is the arguments of the only function that may be called."""
        return len(job.request.functions) == 1

    @staticmethod
    def _call(job, index, arguments, name=None):
        name = next(iter(job.request.functions)) if name is None else name
        return {"id": job.call_ids[index], "type": "function",
                "function": {"name": name, "arguments": arguments}}

    @staticmethod
    def _arguments(text):
        """As the model wrote them: json.dumps() would make Infinity, which is no JSON, of 1e999. A name of a function
        may have the key in it only as its end."""
        return text[text.index(":", text.index('"arguments"')) + 1:text.rindex("}")].strip()

    def _parsed_calls(self, job, index, text):
        if self._names_call(job):
            return [self._call(job, index, text)]
        try:
            call = json.loads(text, parse_int=str)  # int() refuses numbers of thousands of digits
        except (ValueError, RecursionError):  # cut by the limit of tokens, or too deep for the module
            return []
        return [self._call(job, index, self._arguments(text), call["name"])]
