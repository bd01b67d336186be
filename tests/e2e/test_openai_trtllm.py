# SPDX-License-Identifier: BSD-3-Clause
"""The OpenAI API over the three configurations of TensorRT-LLM for Triton: check 4. The tensors have the names, types and
shapes of the published ones: the ensemble of preprocessing, tensorrt_llm and postprocessing; tensorrt_llm_bls; and the
model of the LLM API. The models are stand-ins in Python: tokens are bytes, and the answer is the prompt, or what the model
got when the prompt is "@show"."""
import json
import tempfile

import pytest

import openai_models as lab
from openai_models import call, chat, chunks, complete
from python_programs import OPTIONS as PYTHON_OPTIONS

BACKENDS = ("python",)
FOLDER = tempfile.TemporaryDirectory(prefix="openai_trtllm_")
OPTIONS = PYTHON_OPTIONS
TAKES_SECONDS = 8

ONE, ANY = [1], [-1]

# What the ensemble and the BLS model take: their optional inputs, in the order of the published configuration.
TEXT_INPUTS = [("decoder_text_input", "STRING", ONE), ("num_return_sequences", "INT32", ONE), ("bad_words", "STRING", ANY),
               ("stop_words", "STRING", ANY), ("exclude_input_in_output", "BOOL", ONE), ("end_id", "INT32", ONE),
               ("pad_id", "INT32", ONE), ("top_k", "INT32", ONE), ("top_p", "FP32", ONE), ("temperature", "FP32", ONE),
               ("length_penalty", "FP32", ONE), ("repetition_penalty", "FP32", ONE), ("min_tokens", "INT32", ONE),
               ("presence_penalty", "FP32", ONE), ("frequency_penalty", "FP32", ONE), ("seed", "UINT64", ONE),
               ("return_log_probs", "BOOL", ONE), ("return_context_logits", "BOOL", ONE),
               ("return_generation_logits", "BOOL", ONE), ("return_perf_metrics", "BOOL", ONE),
               ("return_num_input_tokens", "BOOL", ONE), ("return_num_output_tokens", "BOOL", ONE),
               ("beam_width", "INT32", ONE), ("stream", "BOOL", ONE), ("prompt_embedding_table", "FP16", [-1, -1]),
               ("prompt_table_extra_id", "UINT64", ONE), ("prompt_vocab_size", "INT32", ONE),
               ("embedding_bias_words", "STRING", ANY), ("embedding_bias_weights", "FP32", ANY),
               ("lora_task_id", "UINT64", ONE), ("lora_weights", "FP16", [-1, -1]), ("lora_config", "INT32", [-1, 3]),
               ("guided_decoding_guide_type", "STRING", ONE), ("guided_decoding_guide", "STRING", ONE)]
TEXT_OUTPUTS = [("text_output", "STRING", ANY), ("num_input_tokens", "INT32", ONE), ("num_output_tokens", "INT32", ONE)]
# Of the BLS model these have no dimension but the batch.
SCALARS = {"return_log_probs", "return_context_logits", "return_generation_logits", "num_return_sequences",
           "return_perf_metrics", "return_num_input_tokens", "return_num_output_tokens", "lora_task_id"}

# Of tensorrt_llm: its input, the tensor of the ensemble, type, dims, and whether it has no dimension but the batch.
ENGINE = [("decoder_input_ids", "_DECODER_INPUT_ID", "INT32", ANY, False),
          ("decoder_input_lengths", "_REQUEST_DECODER_INPUT_LEN", "INT32", ONE, True),
          ("exclude_input_in_output", "exclude_input_in_output", "BOOL", ONE, True),
          ("end_id", "_PREPROCESSOR_END_ID", "INT32", ONE, True), ("pad_id", "_PREPROCESSOR_PAD_ID", "INT32", ONE, True),
          ("embedding_bias", "_EMBEDDING_BIAS", "FP32", ANY, False), ("runtime_top_k", "top_k", "INT32", ONE, True),
          ("runtime_top_p", "top_p", "FP32", ONE, True), ("temperature", "temperature", "FP32", ONE, True),
          ("len_penalty", "length_penalty", "FP32", ONE, True),
          ("repetition_penalty", "repetition_penalty", "FP32", ONE, True), ("min_tokens", "min_tokens", "INT32", ONE, True),
          ("presence_penalty", "presence_penalty", "FP32", ONE, True),
          ("frequency_penalty", "frequency_penalty", "FP32", ONE, True), ("seed", "seed", "UINT64", ONE, True),
          ("return_log_probs", "return_log_probs", "BOOL", ONE, True),
          ("return_context_logits", "return_context_logits", "BOOL", ONE, True),
          ("return_generation_logits", "return_generation_logits", "BOOL", ONE, True),
          ("return_perf_metrics", "return_perf_metrics", "BOOL", ONE, True),
          ("return_num_input_tokens", "return_num_input_tokens", "BOOL", ONE, True),
          ("return_num_output_tokens", "return_num_output_tokens", "BOOL", ONE, True),
          ("num_return_sequences", "num_return_sequences", "INT32", ONE, True),
          ("beam_width", "beam_width", "INT32", ONE, True), ("streaming", "stream", "BOOL", ONE, True),
          ("prompt_embedding_table", "prompt_embedding_table", "FP16", [-1, -1], False),
          ("prompt_vocab_size", "prompt_vocab_size", "INT32", ONE, True),
          ("stop_words_list", "_STOP_WORDS_IDS", "INT32", [2, -1], False),
          ("bad_words_list", "_BAD_WORDS_IDS", "INT32", [2, -1], False),
          ("prompt_table_extra_ids", "_OUT_PROMPT_TABLE_EXTRA_IDS", "UINT64", ANY, False),
          ("lora_task_id", "lora_task_id", "UINT64", ONE, True), ("lora_weights", "lora_weights", "FP16", [-1, -1], False),
          ("lora_config", "lora_config", "INT32", [-1, 3], False),
          ("guided_decoding_guide_type", "guided_decoding_guide_type", "STRING", ONE, False),
          ("guided_decoding_guide", "guided_decoding_guide", "STRING", ONE, False)]

PREPROCESSING_INPUTS = [("DECODER_QUERY", "decoder_text_input", "STRING", ONE),
                        ("BAD_WORDS_DICT", "bad_words", "STRING", ANY), ("STOP_WORDS_DICT", "stop_words", "STRING", ANY),
                        ("EMBEDDING_BIAS_WORDS", "embedding_bias_words", "STRING", ANY),
                        ("EMBEDDING_BIAS_WEIGHTS", "embedding_bias_weights", "FP32", ANY),
                        ("END_ID", "end_id", "INT32", ONE), ("PAD_ID", "pad_id", "INT32", ONE),
                        ("PROMPT_TABLE_EXTRA_ID", "prompt_table_extra_id", "UINT64", ONE)]
PREPROCESSING_OUTPUTS = [("INPUT_ID", "_INPUT_ID", "INT32", ANY), ("REQUEST_INPUT_LEN", "_REQUEST_INPUT_LEN", "INT32", ONE),
                         ("DECODER_INPUT_ID", "_DECODER_INPUT_ID", "INT32", ANY),
                         ("REQUEST_DECODER_INPUT_LEN", "_REQUEST_DECODER_INPUT_LEN", "INT32", ONE),
                         ("BAD_WORDS_IDS", "_BAD_WORDS_IDS", "INT32", [2, -1]),
                         ("STOP_WORDS_IDS", "_STOP_WORDS_IDS", "INT32", [2, -1]),
                         ("EMBEDDING_BIAS", "_EMBEDDING_BIAS", "FP32", ANY),
                         ("REQUEST_OUTPUT_LEN", "_REQUEST_OUTPUT_LEN", "INT32", ANY),
                         ("OUT_END_ID", "_PREPROCESSOR_END_ID", "INT32", ONE),
                         ("OUT_PAD_ID", "_PREPROCESSOR_PAD_ID", "INT32", ONE),
                         ("OUT_PROMPT_TABLE_EXTRA_IDS", "_OUT_PROMPT_TABLE_EXTRA_IDS", "UINT64", ANY)]

HEAD = '''
import json, time
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def ids(text, kind=np.int32):
    return np.frombuffer(text, np.uint8).astype(kind).reshape(1, -1)


def shown(request):
    """Name: [type, shape, values] of each input."""
    return {t.name(): [str(t.as_numpy().dtype), list(t.as_numpy().shape),
                       [v.decode() if isinstance(v, bytes) else v.item() for v in t.as_numpy().reshape(-1)]]
            for t in request.inputs()}


def first(request, name, other=None):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return other if tensor is None else tensor.as_numpy().reshape(-1)[0]
'''

PREPROCESSING = HEAD + '''

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        text = first(request, "QUERY")
        zero, none = np.zeros((1, 1), np.int32), np.zeros((1, 2, 0), np.int32)
        stops = pb_utils.get_input_tensor_by_name(request, "STOP_WORDS_DICT")
        if stops is not None:
            words = stops.as_numpy().reshape(-1)
            flat = np.concatenate([ids(w).reshape(-1) for w in words])
            ends = np.cumsum([len(w) for w in words]).tolist()
            stops = np.array([[flat, ends + [-1] * (len(flat) - len(ends))]], np.int32)
        made = {"INPUT_ID": ids(text), "REQUEST_INPUT_LEN": zero + len(text), "DECODER_INPUT_ID": zero,
                "REQUEST_DECODER_INPUT_LEN": zero + 1, "BAD_WORDS_IDS": none,
                "STOP_WORDS_IDS": none if stops is None else stops, "EMBEDDING_BIAS": np.zeros((1, 0), np.float32),
                "REQUEST_OUTPUT_LEN": zero + first(request, "REQUEST_OUTPUT_LEN"), "OUT_END_ID": zero + 2,
                "OUT_PAD_ID": zero + 2, "OUT_PROMPT_TABLE_EXTRA_IDS": np.zeros((1, 0), np.uint64)}
        return pb_utils.InferenceResponse([pb_utils.Tensor(n, a) for n, a in made.items()])
'''

# A response for each word when it streams; the limit is one of words.
ENGINE_PROGRAM = HEAD + '''

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.run(request, request.get_response_sender())

    def run(self, request, sender):
        text = bytes(pb_utils.get_input_tensor_by_name(request, "input_ids").as_numpy().reshape(-1).astype(np.uint8))
        if text == b"@show":
            pieces = [json.dumps(shown(request)).encode()]
        else:
            pieces = [(b" " if i else b"") + w for i, w in enumerate(text.split())]
            pieces = pieces[:int(first(request, "request_output_len"))]
        groups = [[p] for p in pieces] if first(request, "streaming", False) else [pieces]
        for group in groups:
            sender.send(self.response(request, len(text), group))
        sender.send(flags=FINAL)

    def response(self, request, n_input, group):
        text, n = b"".join(group), int(first(request, "num_return_sequences", 1))
        output = np.repeat(ids(text), n, axis=0).reshape(1, n, -1)
        made = {"output_ids": output, "sequence_length": np.full((1, n), len(text), np.int32)}
        if first(request, "return_num_input_tokens", False):
            made["num_input_tokens"] = np.array([[n_input]], np.int32)
        if first(request, "return_num_output_tokens", False):
            made["num_output_tokens"] = np.array([[len(group)]], np.int32)
        return pb_utils.InferenceResponse([pb_utils.Tensor(n, a) for n, a in made.items()])
'''

POSTPROCESSING = HEAD + '''

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        rows = pb_utils.get_input_tensor_by_name(request, "TOKENS_BATCH").as_numpy()[0]
        lengths = pb_utils.get_input_tensor_by_name(request, "SEQUENCE_LENGTH").as_numpy()[0]
        texts = [bytes(row[:n].astype(np.uint8)) for row, n in zip(rows, lengths)]
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.array([texts], dtype=np.object_))])
'''

# One program with texts; BLS has no finish reason, the LLM API no counts.
TEXT_PROGRAM = HEAD + '''

class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.outputs = [o["name"] for o in config["output"]]
        self.prefix = "sampling_param_" if "finish_reason" in self.outputs else ""

    def execute(self, requests):
        for request in requests:
            self.run(request, request.get_response_sender())

    def run(self, request, sender):
        text = first(request, "text_input")
        words = [(b" " if i else b"") + w for i, w in enumerate(text.split())]
        if text == b"@show":
            words = [json.dumps(shown(request)).encode()]
        kept = words[:int(first(request, self.prefix + "max_tokens", 1 << 20))]
        streams = first(request, "streaming" if self.prefix else "stream", False)
        groups = [[w] for w in kept] if streams else [kept]
        for i, group in enumerate(groups):
            made = {"text_output": np.array([[b"".join(group)]], dtype=np.object_)}
            if first(request, "return_finish_reason", False):
                end = "length" if len(kept) < len(words) else "stop"
                made["finish_reason"] = np.array([[end if i == len(groups) - 1 else "None"]], dtype=np.object_)
            if "num_output_tokens" in self.outputs and first(request, "return_num_output_tokens", False):
                made["num_output_tokens"] = np.array([[len(group)]], np.int32)
            if "num_input_tokens" in self.outputs and first(request, "return_num_input_tokens", False):
                made["num_input_tokens"] = np.array([[len(text)]], np.int32)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor(n, a) for n, a in made.items()]))
        sender.send(flags=FINAL)
'''


def tensor(kind, name, type_of, dims, optional=False, scalar=False):
    return (f'{kind} {{ name: "{name}" data_type: TYPE_{type_of} dims: {dims}'
            + (" reshape: { shape: [ ] }" if scalar else "") + (" optional: true" if optional else "") + " }\n")


def model(program, tensors, decoupled=False, more=""):
    return {"config.pbtxt": f'backend: "python"\nmax_batch_size: 4\n{tensors}{more}' + lab.DECOUPLED * decoupled,
            "1/model.py": program}


def text_tensors(scalars=()):
    return (tensor("input", "text_input", "STRING", ONE) + tensor("input", "max_tokens", "INT32", ONE)
            + "".join(tensor("input", *row, True, row[0] in scalars) for row in TEXT_INPUTS)
            + "".join(tensor("output", *row) for row in TEXT_OUTPUTS))


def step(name, inputs, outputs):
    return (f'  step {{ model_name: "{name}" model_version: -1\n'
            + "".join(f'    input_map {{ key: "{key}" value: "{value}" }}\n' for key, value in inputs)
            + "".join(f'    output_map {{ key: "{key}" value: "{value}" }}\n' for key, value in outputs) + "  }\n")


ENSEMBLE = ('platform: "ensemble"\nmax_batch_size: 4\n' + text_tensors() + "ensemble_scheduling {\n"
            + step("preprocessing", [("QUERY", "text_input"), ("REQUEST_OUTPUT_LEN", "max_tokens"),
                                     *(row[:2] for row in PREPROCESSING_INPUTS)],
                   [row[:2] for row in PREPROCESSING_OUTPUTS])
            + step("tensorrt_llm", [("input_ids", "_INPUT_ID"), ("input_lengths", "_REQUEST_INPUT_LEN"),
                                    ("request_output_len", "_REQUEST_OUTPUT_LEN"), *(row[:2] for row in ENGINE)],
                   [("output_ids", "_TOKENS_BATCH"), ("sequence_length", "_SEQUENCE_LENGTH"),
                    ("num_input_tokens", "num_input_tokens"), ("num_output_tokens", "num_output_tokens")])
            + step("postprocessing", [("TOKENS_BATCH", "_TOKENS_BATCH"), ("SEQUENCE_LENGTH", "_SEQUENCE_LENGTH")],
                   [("OUTPUT", "text_output")]) + "}\n")
LLMAPI_INPUTS = [("streaming", "BOOL", ONE), ("sampling_param_best_of", "INT32", ONE),
                 ("sampling_param_temperature", "FP32", ONE), ("sampling_param_top_k", "INT32", ONE),
                 ("sampling_param_top_p", "FP32", ONE), ("sampling_param_frequency_penalty", "FP32", ONE),
                 ("sampling_param_presence_penalty", "FP32", ONE), ("sampling_param_max_tokens", "INT32", ONE),
                 ("sampling_param_stop", "STRING", ANY), ("sampling_param_seed", "UINT64", ONE),
                 ("sampling_param_exclude_input_from_output", "BOOL", ONE),
                 ("sampling_param_return_perf_metrics", "BOOL", ONE), ("return_finish_reason", "BOOL", ONE),
                 ("return_stop_reason", "BOOL", ONE), ("return_cumulative_logprob", "BOOL", ONE), ("stop", "BOOL", ONE)]
TEMPLATE = lab.parameters(openai_template="render")
MODELS = {
    "preprocessing": model(PREPROCESSING, tensor("input", "QUERY", "STRING", ONE)
                           + tensor("input", "REQUEST_OUTPUT_LEN", "INT32", ONE)
                           + "".join(tensor("input", name, kind, dims, True) for name, _, kind, dims in PREPROCESSING_INPUTS)
                           + "".join(tensor("output", name, kind, dims) for name, _, kind, dims in PREPROCESSING_OUTPUTS)),
    "tensorrt_llm": model(ENGINE_PROGRAM, tensor("input", "input_ids", "INT32", ANY, True)
                          + tensor("input", "input_lengths", "INT32", ONE, False, True)
                          + tensor("input", "request_output_len", "INT32", ONE, False, True)
                          + "".join(tensor("input", name, kind, dims, True, scalar)
                                    for name, _, kind, dims, scalar in ENGINE)
                          + tensor("output", "output_ids", "INT32", [-1, -1])
                          + tensor("output", "sequence_length", "INT32", ANY)
                          + "".join(tensor("output", *row) for row in TEXT_OUTPUTS[1:]), True),
    "postprocessing": model(POSTPROCESSING, tensor("input", "TOKENS_BATCH", "INT32", [-1, -1])
                            + tensor("input", "SEQUENCE_LENGTH", "INT32", ANY) + tensor("output", "OUTPUT", "STRING", ANY)),
    "ensemble": {"config.pbtxt": ENSEMBLE + TEMPLATE},
    "tensorrt_llm_bls": model(TEXT_PROGRAM, text_tensors(SCALARS), True, TEMPLATE + lab.parameters(openai_max_tokens="3")),
    "llmapi": model(TEXT_PROGRAM, tensor("input", "text_input", "STRING", ANY)
                    + "".join(tensor("input", *row, True) for row in LLMAPI_INPUTS)
                    + tensor("output", "text_output", "STRING", ANY) + tensor("output", "finish_reason", "STRING", ANY),
                    True, TEMPLATE),
    "render": lab.models(f"{FOLDER.name}/log")["render"],
}
TEXTS = ("ensemble", "tensorrt_llm_bls", "llmapi")


def shown(server, name, **more):
    answer = complete(server, name, "@show", **more)
    assert answer.status == 200, answer.body
    return json.loads(answer.json["choices"][0]["text"])


@pytest.mark.parametrize("name", TEXTS)
def test_4_a_completion(server, name):
    found = complete(server, name, "one two three", max_tokens=2).json
    assert found["choices"] == [{"index": 0, "text": "one two", "logprobs": None, "finish_reason": "length"}]
    assert found["usage"] == (None if name == "llmapi" else {
        "prompt_tokens": 13, "completion_tokens": 2, "total_tokens": 15})
    assert complete(server, name, "one two", max_tokens=9).json["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("name", TEXTS)
def test_4_a_stream(server, name):
    found = chunks(chat(server, name, "a|b c", max_tokens=9, stream=True, stream_options={"include_usage": True}).body)
    assert "".join(c["delta"].get("content", "") for one in found for c in one["choices"]) == "a|b c"
    assert [c["finish_reason"] for one in found for c in one["choices"]][-1] == "stop"
    assert found[-1]["usage"] == (None if name == "llmapi" else {
        "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})


SCHEMA = {"type": "object"}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
ASKED = {"temperature": 0.5, "top_p": 0.25, "frequency_penalty": 1, "presence_penalty": -1, "seed": 7, "max_tokens": 99}


def test_4_what_the_engine_behind_the_ensemble_gets(server):
    got = shown(server, "ensemble", **ASKED, stop=["xy", "z"], response_format=FORM)
    scalar, row = [1], [1, 1]
    assert {name: got[name] for name in got if not name.startswith(("_", "DECODER", "decoder"))} == {
        "input_ids": ["int32", [1, 5], list(b"@show")], "input_lengths": ["int32", scalar, [5]],
        "request_output_len": ["int32", scalar, [99]], "temperature": ["float32", scalar, [0.5]],
        "runtime_top_p": ["float32", scalar, [0.25]], "frequency_penalty": ["float32", scalar, [1.0]],
        "presence_penalty": ["float32", scalar, [-1.0]], "seed": ["uint64", scalar, [7]],
        "streaming": ["bool", scalar, [False]], "exclude_input_in_output": ["bool", scalar, [True]],
        "return_num_input_tokens": ["bool", scalar, [True]], "return_num_output_tokens": ["bool", scalar, [True]],
        "guided_decoding_guide_type": ["object", row, ["json_schema"]],
        "guided_decoding_guide": ["object", row, [json.dumps(SCHEMA)]],
        "stop_words_list": ["int32", [1, 2, 3], [120, 121, 122, 2, 3, -1]], "bad_words_list": ["int32", [1, 2, 0], []],
        "end_id": ["int32", scalar, [2]], "pad_id": ["int32", scalar, [2]],
        "embedding_bias": ["float32", [1, 0], []], "prompt_table_extra_ids": ["uint64", [1, 0], []]}


def test_4_what_the_bls_model_gets(server):
    got = shown(server, "tensorrt_llm_bls", **ASKED, stop=["xy", "z"], response_format=FORM, n=1)
    row, scalar = [1, 1], [1]
    assert got == {
        "text_input": ["object", row, ["@show"]], "max_tokens": ["int32", row, [99]],
        "temperature": ["float32", row, [0.5]], "top_p": ["float32", row, [0.25]],
        "frequency_penalty": ["float32", row, [1.0]], "presence_penalty": ["float32", row, [-1.0]],
        "seed": ["uint64", row, [7]], "stop_words": ["object", [1, 2], ["xy", "z"]], "stream": ["bool", row, [False]],
        "exclude_input_in_output": ["bool", row, [True]], "return_num_input_tokens": ["bool", scalar, [True]],
        "return_num_output_tokens": ["bool", scalar, [True]],
        "guided_decoding_guide_type": ["object", row, ["json_schema"]],
        "guided_decoding_guide": ["object", row, [json.dumps(SCHEMA)]]}


def test_4_what_the_model_of_the_llm_api_gets(server):
    got = shown(server, "llmapi", **ASKED, stop=["xy", "z"])
    row = [1, 1]
    assert got == {
        "text_input": ["object", row, ["@show"]], "streaming": ["bool", row, [False]],
        "sampling_param_max_tokens": ["int32", row, [99]], "sampling_param_temperature": ["float32", row, [0.5]],
        "sampling_param_top_p": ["float32", row, [0.25]], "sampling_param_frequency_penalty": ["float32", row, [1.0]],
        "sampling_param_presence_penalty": ["float32", row, [-1.0]], "sampling_param_seed": ["uint64", row, [7]],
        "sampling_param_stop": ["object", [1, 2], ["xy", "z"]],
        "sampling_param_exclude_input_from_output": ["bool", row, [True]], "return_finish_reason": ["bool", row, [True]]}


def test_4_several_choices(server):
    found = complete(server, "ensemble", "a b", max_tokens=9, n=2).json
    assert [(c["index"], c["text"]) for c in found["choices"]] == [(0, "a b"), (1, "a b")]


def test_4_the_limit_that_the_configurations_require(server):
    """The inputs of the ensemble have one that is required; its parameter may give the usual value."""
    answer = complete(server, "ensemble", "a b c d")
    assert answer.status == 400
    assert answer.error == {
        "message": "model 'ensemble' needs 'max_tokens', or the parameter 'openai_max_tokens' in its configuration",
        "type": "invalid_request_error", "param": "max_tokens", "code": None}
    assert complete(server, "tensorrt_llm_bls", "a b c d").json["choices"][0]["text"] == "a b c"


def test_4_only_models_with_texts_are_listed(server):
    assert {m["id"] for m in call(server, "/v1/models").json["data"]} == set(TEXTS)
