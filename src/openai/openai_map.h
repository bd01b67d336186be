/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps a request of the OpenAI API to inference requests for a model of one of the formats.
 *
 * A request may need several inferences: one for each prompt, for each choice where the format cannot
 * make several, for each batch of texts to embed. openai_split_make() decides how many; then
 * openai_map_fill() makes the request of each.
 *
 *     prompts a, b and n = 2      inferences     choices
 *     format vllm                 a, b           0 1, 2 3
 *     format llmapi               a, a, b, b     0, 1, 2, 3
 *
 * A member of the body that the model has no input for is refused by its name. Members that the server
 * does not know go on to the formats vllm and openai.
 *
 * What is the same in several inferences, prompt or sampling parameters, is made once: the others borrow
 * it, so that the memory does not grow with their number.
 *
 * Ownership.  The inference request borrows from the body, the arena and the request before it, and holds
 * buffers of its own that infer_request_done() frees.
 * Threads.  One owner at a time.
 */
#pragma once

#include "call/infer_message.h"
#include "openai/openai_model.h"
#include "openai/openai_request.h"

struct openai_split {
        uint32_t n_parts;   /* inferences */
        uint32_t n_texts;   /* of each part; the last one may have fewer */
        uint32_t n_choices; /* of each part */
        uint32_t n_copies;  /* parts with the same prompt, one after the other */
};

/* One inference of the split. */
struct openai_part {
        uint32_t first_text, n_texts;
        uint32_t first_choice, n_choices;
        uint32_t copy; /* its number among those with the same prompt */
};

struct openai_map {
        const struct openai_request *q;
        const struct openai_model   *model;
        struct arena                *arena;  /* borrowed */
        struct buf_pool             *pool;   /* borrowed; may be NULL */
        const struct infer_request  *before; /* borrowed: of the part before, or NULL */
};

/* INVALID_ARG when the request has more choices than max_choices, or when the model does not take it. */
struct error *openai_split_make(const struct openai_request *q, const struct openai_model *m,
                                uint32_t max_choices, struct openai_split *ret) NODISCARD;
/* Returns part `i` of the split. */
struct openai_part openai_split_part(const struct openai_request *q, const struct openai_split *s,
                                     uint32_t i);

/* `part` is NULL for the whole body, which a model of the format openai takes. */
struct error *openai_map_fill(const struct openai_map *map, const struct openai_part *part,
                              struct infer_request *ret) NODISCARD;
