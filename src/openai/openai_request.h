/* SPDX-License-Identifier: BSD-3-Clause */
/* The body of a request of the OpenAI API: chat completions, completions, embeddings.
 *
 * One pass over the JSON. Members that the server knows are checked for type and range; null equals
 * absent. Members that it does not know are kept as text, for models that take them. As in the other
 * decoders, an error of syntax is reported before any other, and of the others the first. All are
 * INVALID_ARG; the `field` of an error is the member that is at fault, the "param" of the answer.
 *
 *     {"model":"m","prompt":"Hello","max_tokens":16,"stream":true,"top_k":40}
 *
 * Ownership.  Everything borrows from the body or is in the arena.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "openai/openai_tool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of what one request may list. */
#define OPENAI_MAX_MESSAGES 4096
#define OPENAI_MAX_TOOLS 128
#define OPENAI_MAX_STOPS 64
#define OPENAI_MAX_STOP_BYTES 256
#define OPENAI_MAX_SCHEMA_BYTES ((size_t)64 << 10)
#define OPENAI_MAX_SCHEMA_DEPTH 32
#define OPENAI_MAX_TEXTS 2048 /* inputs of an embedding request, as OpenAI has it */
#define OPENAI_MAX_OTHERS 256 /* members that the server does not know */
#define OPENAI_MAX_CHOICES 128
#define OPENAI_MAX_TOP 20           /* of the most likely tokens, of which logprobs are wanted */
#define OPENAI_MAX_MODEL_BYTES 1024 /* of the name, which goes into errors and the log */
#define OPENAI_MAX_SHOWN 64         /* longest part of a value that an error quotes */

enum openai_endpoint { OPENAI_CHAT, OPENAI_COMPLETIONS, OPENAI_EMBEDDINGS };

/* A number as the client wrote it; `json.ptr` is NULL when it is absent. */
struct openai_number {
        struct str json;
        double     value;
        int64_t    integer; /* of a member that must be an integer */
};

/* A member that the server passes on unread. */
struct openai_member {
        struct str key;
        struct str json;
};

struct openai_request {
        enum openai_endpoint endpoint;
        struct str           body;
        const char          *model; /* in arena: as the client wrote it */
        const char *served; /* in arena: the model of the server; that name without an adapter's */
        struct str  lora;   /* the adapter; ptr NULL: none */

        struct openai_number temperature, top_p, frequency_penalty, presence_penalty;
        struct openai_number seed, n, max_tokens, max_completion_tokens, best_of;
        struct openai_number n_logprobs; /* "top_logprobs" of chat, "logprobs" of completions */
        struct openai_number dimensions;
        bool                 is_stream;
        bool                 includes_usage; /* stream_options.include_usage */
        bool                 echoes;
        bool                 wants_logprobs;
        bool                 is_base64; /* encoding_format */

        /* "prompt" or "input": texts, unless they are token ids. */
        struct str *texts; /* in arena */
        uint32_t    n_texts;
        struct str *token_lists; /* in arena: JSON as the client wrote it; each is a prompt */
        uint32_t    n_token_lists;
        bool        has_token_ids;

        struct str *stops; /* in arena */
        uint32_t    n_stops;

        /* JSON as the client wrote it; ptr NULL = absent. */
        struct str         messages, tools, tool_choice, response_format, logit_bias;
        struct str         modalities, audio; /* refused, as is the suffix, a text */
        struct str         suffix;
        struct str         schema;           /* of response_format */
        bool               wants_any_object; /* response_format is json_object */
        struct openai_tool tool;             /* that must be called; of openai_tool_choose() */

        struct openai_member *others; /* in arena */
        uint32_t              n_others;
};

/* Reads the body. *ret is written in any case; `model` may be set although an error is returned. */
struct error *openai_request_read(enum openai_endpoint endpoint, struct str body,
                                  struct arena *arena, struct openai_request *ret) NODISCARD;

/* Splits the name of the model into that of the server's model and that of a LoRA adapter, where `separator` occurs in
 * it once. "" is no separator. */
struct error *openai_request_split_model(struct openai_request *q, const char *separator,
                                         struct arena *arena) NODISCARD;
/* INVALID_ARG for a JSON schema that is too long or too deep; `param` is the member that has it. */
struct error *openai_schema_check(struct str schema, const char *param) NODISCARD;
/* Returns the largest number of tokens that the client wants; 0 when it gave none. */
uint64_t openai_request_max_tokens(const struct openai_request *q);
/* Returns the number of choices for each prompt. */
uint32_t openai_request_choices(const struct openai_request *q);
/* Returns the number of prompts or inputs, whether they are texts or token ids. */
uint32_t openai_request_prompts(const struct openai_request *q);

/* INVALID_ARG whose field is `param`. */
#define openai_fault(param, ...) error_in_field((param), __VA_ARGS__)
