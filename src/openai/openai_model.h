/* SPDX-License-Identifier: BSD-3-Clause */
/* A model as the OpenAI API sees it: the form of its tensors, and its parameters.
 *
 * The form is recognised by the names of the model's inputs, unless its parameter `openai_format` names
 * one:
 *
 *     vllm     text_input, sampling_parameters        the vLLM backend
 *     trtllm   text_input, max_tokens                 TensorRT-LLM's ensemble and BLS models
 *     llmapi   text_input, sampling_param_max_tokens  TensorRT-LLM's LLM API model
 *     openai   openai_request                         models that speak the API's JSON
 *     embed    one BYTES input, and the parameter openai: "embeddings"
 *
 * The parameter openai: "off" hides a model.
 *
 * Ownership.  Texts are valid as long as the request of the core that they were read from.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/error.h"
#include "openai/openai_request.h"

#include <stdbool.h>
#include <stdint.h>

struct TRITONSERVER_InferenceRequest;

enum openai_format {
        OPENAI_FORMAT_NONE,
        OPENAI_FORMAT_VLLM,
        OPENAI_FORMAT_TRTLLM,
        OPENAI_FORMAT_LLMAPI,
        OPENAI_FORMAT_OPENAI,
        OPENAI_FORMAT_EMBED,
        N_OPENAI_FORMATS,
};

struct openai_model {
        const char        *name; /* borrowed */
        enum openai_format format;
        bool               is_off;     /* hidden by its parameter */
        bool               truncates;  /* cuts vectors to the dimensions that the client wants */
        uint64_t           max_tokens; /* used when the client gives none; 0 = none */
        const char        *template_model; /* the model that renders messages; NULL = none */
        const char        *input;          /* embed: its input */
        uint32_t           max_batch_size;
        uint64_t           loaded_at_s;

        struct TRITONSERVER_InferenceRequest *request; /* borrowed: to look up inputs */
};

const char *openai_format_name(enum openai_format format); /* "none" for NONE */

/* Reads the model of a request. INVALID_ARG when a parameter has a value that it cannot have. */
struct error *openai_model_read(struct TRITONSERVER_InferenceRequest *request, const char *name,
                                struct openai_model *ret) NODISCARD;
/* An error when the model cannot serve the endpoint. */
struct error *openai_model_check(const struct openai_model *m, enum openai_endpoint endpoint)
        NODISCARD;
/* True when each request must have that input. */
bool openai_model_needs(const struct openai_model *m, const char *input);
/* True when the model has that input. */
bool openai_model_takes(const struct openai_model *m, const char *input);
