/* SPDX-License-Identifier: BSD-3-Clause */
/* A ModelInferRequest on the wire becomes a struct infer_request ("KServe v2, gRPC").
 *
 * The message is walked once for its structure and once more for the tensors, because what an
 * input's elements mean depends on its datatype, and whether it may have `contents` depends on
 * whether there are `raw_input_contents` anywhere. Raw bytes stay where they are; so do floats
 * that came packed. Other typed contents are converted.
 *
 * Only a message that is not a ModelInferRequest at all is an error of infer_decode(). What is
 * wrong with its values is kept as a fault, to be told once the model is known, as the reference
 * does: parameters first, then (after the metadata that is forwarded) data of inputs and wishes
 * for outputs.
 *
 * Ownership.  Names and shapes are in the arena, bytes in the message, the arena or a buffer that
 * the input holds. infer_wire_done() gives back buffers and faults.
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
        const char          *model_name;        /* in arena; "" when there was none */
        const char          *model_version;     /* in arena; the same */
        bool                 wants_empty_final; /* triton_enable_empty_final_response */
        struct infer_request request;
        struct error        *parameter_fault; /* owned; NULL = none */
        struct error        *tensor_fault;    /* owned; NULL = none */
};

/* What infer_decode() goes over element by element, in bytes: everything but raw contents. A message of
 * many fields is counted as a whole. */
size_t infer_message_work(struct str message);
/* Whatever it returns, infer_wire_done() may be called afterwards. After an error the names and
 * the id are what had been read by then. */
struct error *infer_decode(const struct infer_source *source, struct infer_wire *ret) NODISCARD;
void          infer_wire_done(struct infer_wire *w);
