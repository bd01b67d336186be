/* SPDX-License-Identifier: BSD-3-Clause */
/* The answer to an embedding request of models whose outputs are tensors.
 *
 *     {"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,...]}],
 *      "model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}
 *
 * A vector is printed as numbers, or as the base64 of its little-endian FP32, as the client asked. A model
 * with the parameter openai_dimensions: "truncate" gives longer vectors than the client wants: these are
 * cut and normalised. A vector with NaN or an infinity is an error, in both forms.
 *
 * Ownership.  Vectors borrow from the responses, or are in the arena.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/strbuf.h"
#include "call/infer_message.h"
#include "openai/openai_map.h"

/* The vectors of one inference. */
struct openai_vectors {
        const float *values; /* n_rows * n_dims */
        uint32_t     n_rows;
        size_t       n_dims;
        uint64_t     n_tokens; /* of its texts; 0 when the model does not report it */
};

/* INTERNAL when the response has no vectors, or their number is not that of the part's texts. */
struct error *openai_vectors_read(const struct openai_model *m, const struct openai_part *part,
                                  const struct infer_response *r, struct arena *arena,
                                  struct openai_vectors *ret) NODISCARD;
/* INVALID_ARG when the client wants more dimensions than the vectors have; openai_vector_fault(). */
struct error *openai_embedding_print(const struct openai_request *q, const struct openai_model *m,
                                     const struct openai_vectors *parts, uint32_t n_parts,
                                     struct strbuf *out) NODISCARD;
