/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes the body of an infer request: JSON followed by binary tensors ("KServe v2, binary tensor data
 * extension"), or one raw tensor only.
 *
 *     {"id","parameters","inputs":[{"name","shape","datatype","parameters","data"}],"outputs":[]}
 *     followed by the bytes of each input that has parameters.binary_data_size, in this order
 *
 * The JSON is read in one pass. A "data" array that follows the name, shape and datatype is read directly
 * into the tensor; one that comes earlier is skipped, and read once the shape is known. Binary tensors
 * stay in the body, as ranges of it.
 *
 * A request may have several errors. The first in this order is reported: syntax of the whole JSON, id,
 * parameters, inputs in their order, bytes left over, outputs. So reading continues after an error, and
 * each part keeps its first one. All are INVALID_ARG, except UNSUPPORTED for a sequence id that is too
 * long.
 *
 * Ownership.  The decoded request borrows from the body and the arena; infer_request_done() frees the
 * buffers of converted tensors. On an error nothing is left to free.
 * Threads.  One owner at a time.
 */
#pragma once

#include "call/infer_message.h"

struct http_infer_source {
        struct str       body;            /* not compressed */
        size_t           json_bytes;      /* 0 = a raw request */
        const char      *model_name;      /* for error messages */
        size_t           max_input_bytes; /* --http-max-input-size */
        struct arena    *arena;           /* borrowed */
        struct buf_pool *pool;            /* borrowed; may be NULL */
};

/* Reads the length of the JSON part from the value of Inference-Header-Content-Length. If the field is
 * absent (value.ptr NULL), it is the whole body. */
struct error *http_infer_read_json_bytes(struct str value, size_t body_bytes, size_t *ret)
        NODISCARD;

/* Errors of bodies that --http-max-input-size does not permit, with the reference server's texts. */
struct error *http_infer_json_too_large(uint64_t bytes, size_t max);
struct error *http_infer_raw_too_large(uint64_t bytes, size_t max);

struct error *http_infer_decode(const struct http_infer_source *source, struct infer_request *ret)
        NODISCARD;
