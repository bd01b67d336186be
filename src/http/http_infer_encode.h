/* SPDX-License-Identifier: BSD-3-Clause */
/* The body of an infer answer: JSON, then the bytes of binary outputs ("KServe v2, binary tensor
 * data extension").
 *
 *     {"id","model_name","model_version","parameters",
 *      "outputs":[{"name","datatype","shape","parameters":{"binary_data_size"},"data"}]}
 *
 * in exactly this order of keys, compact, "data" always flat. Outputs in shared memory have
 * neither parameters nor data. Small binary outputs are copied behind the JSON; the others become
 * parts of their own and are written from where the backend put them.
 *
 * Ownership.  A short JSON goes into `scratch`, a longer one into `arena` or a buffer; parts hold
 * references on the buffers they point into, for http_call_reply() to take.
 * Threads.  One owner at a time.
 */
#pragma once

#include "call/infer_message.h"
#include "http/http_call.h"

#include "base/strbuf.h"
#include "codec/json_writer.h"

struct http_infer_body {
        struct http_part *parts; /* in scratch; each holds a reference on its buf */
        size_t            n_parts;
        size_t            json_bytes;
        bool              has_binary; /* a binary output that is not empty */
        bool              is_brief;   /* parts without a buf are in scratch, not in arena */
        const char       *packed_as;  /* for the reply; NULL = as it is */
};

/* Where an answer is made. */
struct http_infer_room {
        struct arena    *arena;   /* lives until the answer is written */
        struct arena    *scratch; /* lives until http_call_reply() returns */
        struct buf_pool *pool;    /* may be NULL */
};

/* INVALID_ARG for an output whose type JSON cannot carry. */
struct error *http_infer_encode(const struct infer_response *r, const struct http_infer_room *room,
                                struct http_infer_body *ret) NODISCARD;

/* Drops the references of a body that is not sent. */
void http_infer_body_done(struct http_infer_body *body);

/* The JSON alone. An overflow of `out` is for the caller to ask. */
struct error *http_infer_print(const struct infer_response *r, struct strbuf *out) NODISCARD;
/* Pieces of it: name and value; the elements as a flat array. */
void          http_infer_put_parameter(struct json_writer *w, const struct infer_parameter *p);
struct error *http_infer_put_elements(struct strbuf *out, const struct infer_output *output)
        NODISCARD;
