/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes a ModelInferResponse, alone or within a ModelStreamInferResponse ("KServe v2, gRPC").
 *
 * Everything except large tensors is written into one piece of memory without a protobuf library. Large
 * tensors are parts of their own, sent from the backend's buffer. Results are always raw: one entry of
 * raw_output_contents for each output, in the order of the outputs, empty for those in shared memory. The
 * bytes equal those of a protobuf library: fields in the order of their numbers, without default values.
 *
 * Ownership.  Parts hold references on the buffers that they point into; the grpc_call takes these.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "call/infer_message.h"
#include "grpc/grpc_call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit of a message, as in the reference. */
#define INFER_MAX_ANSWER_BYTES ((size_t)INT32_MAX)

/* Contents of an answer; all borrowed. Empty texts are not sent. */
struct infer_answer {
        const char                   *model_name;
        const char                   *model_version;
        const char                   *id;
        const struct infer_parameter *parameters;
        const struct infer_output    *outputs;
        uint32_t                      n_parameters;
        uint32_t                      n_outputs;

        /* Streams only. */
        bool        is_streamed;
        bool        has_final;     /* add the parameter triton_final_response */
        bool        is_final;      /* value of that parameter */
        const char *error_message; /* NULL or "" = success */
};

struct infer_answer_memory {
        struct arena    *arena; /* borrowed; for the parts, and for a short message */
        struct buf_pool *pool;  /* borrowed; NULL = plain allocations */
};

struct infer_answer_parts {
        struct grpc_part *parts; /* in arena; each holds a reference on its buf */
        size_t            n_parts;
        size_t            bytes;
        bool              is_packed; /* already compressed into one part */
};

/* INVALID_ARG "Response has byte size <n> which exceeds gRPC's byte size limit 2147483647." */
struct error *infer_encode(const struct infer_answer *answer, const struct infer_answer_memory *m,
                           struct infer_answer_parts *ret) NODISCARD;
/* Drops the references of an answer that is not sent. */
void infer_answer_parts_done(struct infer_answer_parts *p);
