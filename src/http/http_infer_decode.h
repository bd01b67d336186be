/* SPDX-License-Identifier: BSD-3-Clause */
/* The body of an infer request: JSON, then binary tensors ("KServe v2, binary tensor data
 * extension"), or one raw tensor and nothing else.
 *
 *     {"id","parameters","inputs":[{"name","shape","datatype","parameters","data"}],"outputs":[]}
 *     followed by the bytes of each input that has parameters.binary_data_size, in this order
 *
 * The JSON is walked once. Values go straight where they belong: a "data" array that follows its
 * name, shape and datatype is read into the tensor; one that comes earlier is passed over and
 * read when the shape is known. Binary tensors stay where they are, as ranges of the body.
 *
 * A request may have several faults, and the first in this order is told: syntax of the whole
 * JSON, id, parameters, inputs in their order, bytes left over, outputs. So reading goes on after
 * a fault, and each part remembers its first one. All of them are the client's: INVALID_ARG, but
 * UNSUPPORTED for a sequence id that is too long.
 *
 * Ownership.  The decoded request borrows from the body and the arena; infer_request_done() gives
 * back the buffers of converted tensors. On an error nothing is left to give back.
 * Threads.  One owner at a time.
 */
#pragma once

#include "call/infer_message.h"

struct http_infer_source {
        struct str       body;            /* not compressed */
        size_t           json_bytes;      /* 0 = a raw request */
        const char      *model_name;      /* for texts */
        size_t           max_input_bytes; /* --http-max-input-size */
        struct arena    *arena;           /* borrowed */
        struct buf_pool *pool;            /* borrowed; may be NULL */
};

/* The length of the JSON part: the value of Inference-Header-Content-Length, or the whole body
 * when the field is absent (value.ptr NULL). */
struct error *http_infer_read_json_bytes(struct str value, size_t body_bytes, size_t *ret)
        NODISCARD;

struct error *http_infer_decode(const struct http_infer_source *source, struct infer_request *ret)
        NODISCARD;
