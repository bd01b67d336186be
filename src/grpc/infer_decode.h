/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes a ModelInferRequest into a struct infer_request ("KServe v2, gRPC").
 *
 * The message is read once for its structure and once more for the tensors. The second pass is necessary
 * because the meaning of an input's elements depends on its datatype, and because `contents` are permitted
 * only if there are no `raw_input_contents` anywhere. Raw bytes and packed floats stay in the message; other
 * typed contents are converted.
 *
 * infer_decode() fails only for a message that is no ModelInferRequest at all. Errors of its values are kept
 * as faults and reported once the model is known, in the order of the reference: parameters first, then
 * (after the forwarded metadata) data of inputs and requested outputs.
 *
 * Ownership.  Names and shapes are in the arena, bytes in the message, the arena or a buffer that the input
 * holds. infer_wire_done() frees buffers and faults.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "call/infer_message.h"

#include <stdbool.h>

struct infer_source {
        struct str       message; /* borrowed: outlives the request */
        struct arena    *arena;   /* borrowed: outlives the request */
        struct buf_pool *pool;    /* borrowed; NULL = plain allocations */
};

struct infer_wire {
        const char          *model_name;        /* in arena; "" = not given */
        const char          *model_version;     /* in arena; "" = not given */
        bool                 wants_empty_final; /* triton_enable_empty_final_response */
        struct infer_request request;
        struct error        *parameter_fault; /* owned; NULL = none */
        struct error        *tensor_fault;    /* owned; NULL = none */
};

/* Returns how many bytes infer_decode() reads element by element: all but raw contents. A message with many
 * fields is counted as a whole. */
size_t infer_message_work(struct str message);
/* infer_wire_done() may follow in any case. After an error, names and id are set as far as they were read. */
struct error *infer_decode(const struct infer_source *source, struct infer_wire *ret) NODISCARD;
void          infer_wire_done(struct infer_wire *w);
