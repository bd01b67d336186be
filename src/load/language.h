/* SPDX-License-Identifier: BSD-3-Clause */
/* What the load generator reads of a language model's answers: whether a piece has text, and the tokens.
 *
 *     chat          {"choices":[{"delta":{"content":" a"}}],"usage":null}
 *     completions   {"choices":[{"text":" a"}]}       ...  {"choices":[],"usage":{"prompt_tokens":3,...}}
 *     embeddings    {"data":[...],"usage":{"prompt_tokens":3}}
 *     generate      {"text_output":" a","num_output_tokens":1}
 *
 * A piece is an event of a stream, or a whole answer. The usage of the OpenAI API is that of the request so far,
 * so the last one counts; a count of generate_stream is that of its response, so these are added.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum language_endpoint {
        LANGUAGE_NONE,
        LANGUAGE_CHAT,
        LANGUAGE_COMPLETIONS,
        LANGUAGE_EMBEDDINGS,
        LANGUAGE_GENERATE,
        N_LANGUAGE_ENDPOINTS,
};

/* The times and counts of one request, from the pieces that have arrived. */
struct language_answer {
        bool     has_text;          /* the last piece had text */
        bool     is_counted;        /* the server has told the number of tokens */
        uint64_t n_pieces, n_texts; /* of them: those with text */
        uint64_t n_prompt_tokens, n_output_tokens;
};

/* Reads "chat", "completions", "embeddings", "generate", or the path of one of the first three, such as
 * "v1/chat/completions"; NONE for another word. */
enum language_endpoint language_endpoint_find(struct str word);
/* "chat", ...; "" for NONE. */
const char *language_endpoint_name(enum language_endpoint endpoint);
/* "/v1/chat/completions"; NULL for generate, whose path has the model in it. */
const char *language_endpoint_path(enum language_endpoint endpoint);

/* Takes a piece. One that is no JSON object, such as [DONE], has no text. */
void language_answer_add(struct language_answer *a, enum language_endpoint endpoint,
                         struct str json);
/* The server's number of tokens, or else that of pieces with text. */
uint64_t language_answer_tokens(const struct language_answer *a);
