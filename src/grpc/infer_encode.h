/* SPDX-License-Identifier: BSD-3-Clause */
/* A ModelInferResponse on the wire, alone or within a ModelStreamInferResponse ("KServe v2, gRPC").
 *
 * Everything but large tensors is written by hand into one piece of memory; large tensors become
 * parts of their own and go to the socket from where the backend put them. Results are always raw:
 * one entry of raw_output_contents for each output, in the order of the outputs, empty for those
 * in shared memory. The bytes are what a protobuf library gives: fields by number, defaults left
 * out.
 *
 * Ownership.  Parts hold references on the buffers that they point into, for grpc_call to take.
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

/* A message is no longer than this, here as with the reference. */
#define INFER_MAX_ANSWER_BYTES ((size_t)INT32_MAX)

/* What is told; all borrowed. Empty texts are not sent. */
struct infer_answer {
        const char                   *model_name;
        const char                   *model_version;
        const char                   *id;
        const struct infer_parameter *parameters;
        const struct infer_output    *outputs;
        uint32_t                      n_parameters;
        uint32_t                      n_outputs;

        /* Streams. */
        bool        is_streamed;
        bool        has_final;     /* the parameter triton_final_response, after the others */
        bool        is_final;      /* its value */
        const char *error_message; /* NULL or "" = success */
};

struct infer_answer_memory {
        struct arena    *arena; /* borrowed; for the parts, and for text that is short */
        struct buf_pool *pool;  /* borrowed; NULL = plain allocations */
};

struct infer_answer_parts {
        struct grpc_part *parts; /* in arena; each holds a reference on its buf */
        size_t            n_parts;
        size_t            bytes;
        bool              is_packed; /* compressed already; then there is one part */
};

/* INVALID_ARG "Response has byte size <n> which exceeds gRPC's byte size limit 2147483647." */
struct error *infer_encode(const struct infer_answer *answer, const struct infer_answer_memory *m,
                           struct infer_answer_parts *ret) NODISCARD;
/* Drops the references of an answer that is not sent. */
void infer_answer_parts_done(struct infer_answer_parts *p);
