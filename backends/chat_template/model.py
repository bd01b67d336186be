# SPDX-License-Identifier: BSD-3-Clause
"""The chat_template backend: a model that renders the messages of a chat into a prompt.

Its directory has the template: chat_template.jinja, or tokenizer_config.json, or the file that the parameter
`chat_template` names. docs/llamacpp.md describes it.
"""
import json
import os

import numpy as np
import triton_python_backend_utils as pb_utils

from chat_template import (ChatTemplate, TemplateError, TemplateRefusal, read_file,
                           read_tokenizer_config)

TEMPLATE_FILE = "chat_template.jinja"
TOKENIZER_FILE = "tokenizer_config.json"


def _find_folder(model_folder, version_folder):
    """The directory of the files: that of the version, else that of the model."""
    for folder in (version_folder, model_folder):
        if any(os.path.exists(os.path.join(folder, name)) for name in (TEMPLATE_FILE, TOKENIZER_FILE)):
            return folder
    return version_folder


def load_template(model_folder, version_folder, parameters):
    """The ChatTemplate of a model."""
    folder = _find_folder(model_folder, version_folder)
    template, bos, eos = None, "", ""
    if os.path.exists(os.path.join(folder, TOKENIZER_FILE)):
        template, bos, eos = read_tokenizer_config(folder, TOKENIZER_FILE)
    name = parameters.get("chat_template")
    if name is None and os.path.exists(os.path.join(folder, TEMPLATE_FILE)):
        name = TEMPLATE_FILE
    if name is not None and name.endswith(".json"):
        template, bos, eos = read_tokenizer_config(model_folder, name)
    elif name is not None:
        template = read_file(folder if name == TEMPLATE_FILE else model_folder, name)
    if template is None:
        raise TemplateError("the directory '%s' has no chat template: neither %s nor %s with a template" % (
            folder, TEMPLATE_FILE, TOKENIZER_FILE))
    return ChatTemplate(template, parameters.get("bos_token", bos), parameters.get("eos_token", eos))


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "openai_request", "data_type": "TYPE_STRING", "dims": [1]})
        config.add_output({"name": "text", "data_type": "TYPE_STRING", "dims": [1]})
        config.set_max_batch_size(0)
        return config

    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        self.template = load_template(args["model_repository"], pb_utils.get_model_dir(), parameters)
        self.template.start()

    def execute(self, requests):
        return [self.render(request) for request in requests]

    def render(self, request):
        body = pb_utils.get_input_tensor_by_name(request, "openai_request").as_numpy().reshape(-1)[0]
        try:
            text = self.template.render(body)
        except TemplateRefusal as error:
            return self.fail(pb_utils.TritonError.INVALID_ARG, error)
        except TemplateError as error:
            return self.fail(pb_utils.TritonError.INTERNAL, error)
        return pb_utils.InferenceResponse([pb_utils.Tensor(
            "text", np.array([text.encode("utf-8", "replace")], dtype=np.object_))])

    @staticmethod
    def fail(code, error):
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), code))

    def finalize(self):
        self.template.close()
