# SPDX-License-Identifier: BSD-3-Clause
"""The llamacpp backend: serves GGUF files with the library of llama.cpp. docs/llamacpp.md describes it.

    request -> Request (llama_request) -> TextMaker (llama_generation): tokens, sampler
            -> SlotLoop (llama_slots): steps -> TextAnswers (llama_generation) -> responses

execute() runs on the main thread and returns when the loop has room for one more request.
"""
import json
import os
import sys

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "chat_template"))

import llama_answer  # noqa: E402 - modules of this folder, and of the one above
from chat_template import ChatTemplate, TemplateError, read_file, read_tokenizer_config  # noqa: E402
from llama_generation import TOO_LONG, TextAnswers, TextMaker, response  # noqa: E402
from llama_library import Context, Library, Model  # noqa: E402
from llama_loop import FINAL, EmbeddingLoop, EmbeddingWork, Job  # noqa: E402
from llama_meters import Meters  # noqa: E402
from llama_request import Refusal, Request  # noqa: E402
from llama_settings import Settings  # noqa: E402
from llama_slots import SlotLoop  # noqa: E402

DEFAULT_LIBRARY = "libllama.so.0"
LOG_ERROR = 4  # of the library
# How long the thread that reads requests may keep the interpreter's lock while a step ends; 5 ms by default.
SWITCH_SECONDS = 0.0005


def _log(level, text):
    """The library warns of much that is intended, as of a memory that is larger than one context."""
    (pb_utils.Logger.log_error if level >= LOG_ERROR else pb_utils.Logger.log_verbose)("llama.cpp: " + text)


class TritonPythonModel:
    has_own_queue = True  # requests wait in the server's queue, and none is offered ahead of time

    @staticmethod
    def auto_complete_config(config):
        Settings(config.as_dict(), pb_utils.get_model_dir())  # which may refuse the file or a parameter
        config.add_input({"name": "openai_request", "data_type": "TYPE_STRING", "dims": [1]})
        config.add_output({"name": "openai_response", "data_type": "TYPE_STRING", "dims": [1]})
        config.set_max_batch_size(0)
        config.set_model_transaction_policy({"decoupled": True})
        return config

    def initialize(self, args):
        config = json.loads(args["model_config"])
        sys.setswitchinterval(SWITCH_SECONDS)
        self.name = args["model_name"]
        self.settings = settings = Settings(config, pb_utils.get_model_dir())
        self.library = Library(pb_utils.get_backend_config().get("library", DEFAULT_LIBRARY), _log)
        self.model = Model(self.library, settings.file)
        self.template = None
        self.meters = Meters(self.name, args["model_version"], args["model_instance_name"])
        self.meters.open()
        if settings.pooling is None:
            self._start_text(args)
        else:
            self._start_embeddings()

    def _start_text(self, args):
        settings = self.settings
        self.template = self._find_template(args["model_repository"])
        if self.template is not None:
            self.template.start()
        self.context = Context(self.model, settings.slots * settings.n_ctx, settings.tokens_per_step,
                               settings.slots, settings.threads)
        self.maker = TextMaker(self.model, self.context, settings, self.template)
        self.loop = SlotLoop(self.context, settings, TextAnswers(self.model, self.meters),
                             settings.n_ahead_of_keys, n_ahead=settings.n_ahead, meters=self.meters)

    def _start_embeddings(self):
        settings = self.settings
        n_batch = max(settings.tokens_per_step, settings.n_ctx)  # a text must fit in a step
        self.context = Context(self.model, n_batch, n_batch, settings.slots, settings.threads,
                               settings.pooling)
        self.loop = EmbeddingLoop(self.context, settings.slots, n_batch, self._embedding_answer,
                                  n_ahead=settings.n_ahead, meters=self.meters)

    def _find_template(self, folder):
        """The chat template: of the directory, where the configuration names one, else of the file."""
        name = self.settings.chat_template
        bos, eos = self.model.special("bos"), self.model.special("eos")
        if name is None:
            source = self.settings.metadata.get("tokenizer.chat_template")
        elif name.endswith(".json"):
            source = read_tokenizer_config(folder, name)[0]
        else:
            source = read_file(folder, name)
        return None if source is None else ChatTemplate(source, bos, eos)

    # ---- requests ----

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._take(request, sender)
            except Refusal as error:
                sender.send(response(json.dumps(error.answer(), ensure_ascii=False)), flags=FINAL)
        self.loop.wait_for_room()

    def _take(self, request, sender):
        body = pb_utils.get_input_tensor_by_name(request, "openai_request").as_numpy().reshape(-1)[0]
        wanted = Request(body)
        if self.settings.pooling is None:
            if wanted.endpoint == "embedding":
                raise Refusal("model '%s' makes texts: neither its file nor its parameter 'pooling' names how "
                              "it makes embeddings" % self.name, "model")
            job = self.maker.make(wanted, sender, self._key_name(request))
            self.loop.submit(job, job.sequences)
        else:
            if wanted.endpoint != "embedding":
                raise Refusal("model '%s' makes embeddings only" % self.name, "model")
            job = self._embedding_job(wanted, sender)
            self.loop.submit(job, job.works)

    @staticmethod
    def _key_name(request):
        """The name of the client's API key, a parameter that the server sets and clients cannot set."""
        parameters = request.parameters()
        return "" if parameters == "{}" else json.loads(parameters).get("triton_api_key_name", "")

    # ---- embeddings ----

    def _embedding_job(self, wanted, sender):
        job = Job(wanted, sender)
        if wanted.dimensions is not None and wanted.dimensions > self.model.n_embd:
            raise Refusal("'dimensions' is %d, but the vectors of this model have %d" % (
                wanted.dimensions, self.model.n_embd), "dimensions")
        job.works = [EmbeddingWork(job, i, self._embedding_tokens(text))
                     for i, text in enumerate(wanted.texts)]
        job.vectors = [None] * len(job.works)
        job.n_open = len(job.works)
        return job

    def _embedding_tokens(self, text):
        if isinstance(text, str):
            tokens = self.model.tokenize_at_most(text.encode("utf-8", "replace"), True, self.settings.n_ctx)
            if tokens is None:
                raise Refusal("a text of 'input' has more than %d tokens, the context of this model has %d" % (
                    self.settings.n_ctx, self.settings.n_ctx), "input", TOO_LONG)
        elif all(0 <= token < self.model.n_vocab for token in text):
            tokens = np.array(text, np.int32)
        else:
            raise Refusal("a token id of 'input' is not one of the %d of this model" % self.model.n_vocab,
                          "input")
        if len(tokens) == 0:
            raise Refusal("a text of 'input' has no tokens", "input")
        if len(tokens) > self.settings.n_ctx:
            raise Refusal("a text of 'input' has %d tokens, the context of this model has %d" % (
                len(tokens), self.settings.n_ctx), "input", TOO_LONG)
        return tokens

    @staticmethod
    def _embedding_answer(job):
        size = job.request.dimensions
        vectors = [llama_answer.normalised(vector if size is None else vector[:size])
                   for vector in job.vectors]
        return response(llama_answer.embeddings(vectors, sum(len(work.tokens) for work in job.works)))

    # ---- the end ----

    def finalize(self):
        self.loop.stop()
        if self.template is not None:
            self.template.close()
        self.context.close()
        self.model.close()
