/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests of a load on a language model, one for each prompt; of embeddings, one for each `batch` of them.
 *
 *     chat        {"model":"m","messages":[{"role":"user","content":"..."}],"stream":true,
 *                  "stream_options":{"include_usage":true},"max_tokens":64}
 *     generate    {"text_input":"...","stream":true,"max_tokens":64}    with the names of the model's inputs
 *
 * Ownership.  The set owns the bytes: request_set_done().
 * Threads.  Constant after it was made.
 */
#pragma once

#include "load/language.h"
#include "load/prompt_set.h"
#include "load/request_set.h"

struct language_request_options {
        enum language_endpoint   endpoint;
        const struct target     *target;     /* borrowed */
        const struct load_model *model;      /* borrowed; generate: with its inputs */
        const struct prompt_set *prompts;    /* borrowed */
        bool                     is_whole;   /* no stream */
        uint64_t                 batch;      /* embeddings: texts of a request */
        uint64_t                 max_tokens; /* 0: the server's default */
        char *const             *parameters; /* "name:value:type": further members */
        size_t                   n_parameters;
};

/* INVALID_ARG when a parameter is malformed, or when the model has no input for what is asked. */
struct error *request_set_make_language(const struct language_request_options *o,
                                        struct request_set                    *ret) NODISCARD;
