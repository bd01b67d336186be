/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes the body of an infer answer: JSON followed by the bytes of binary outputs ("KServe v2, binary
 * tensor data extension").
 *
 *     {"id","model_name","model_version","parameters",
 *      "outputs":[{"name","datatype","shape","parameters":{"binary_data_size"},"data"}]}
 *
 * The keys have exactly this order, there is no white space, and "data" is always flat. Outputs in shared
 * memory have neither parameters nor data. Small binary outputs are copied behind the JSON. Larger ones
 * are parts of their own, written from the backend's buffer.
 *
 * Ownership.  A short JSON goes into `scratch`, a longer one into `arena` or a buffer. Parts hold
 * references on the buffers they point into; http_call_reply() takes these.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/strbuf.h"
#include "call/infer_message.h"
#include "codec/json_writer.h"
#include "http/http_call.h"

struct http_infer_body {
        struct http_part *parts; /* in scratch; each holds a reference on its buf */
        size_t            n_parts;
        size_t            json_bytes;
        bool              has_binary; /* there is a binary output that is not empty */
        bool              is_brief;   /* parts without a buf are in scratch, not in arena */
        const char       *packed_as;  /* for the reply; NULL = not compressed */
};

/* Memory for encoding an answer. */
struct http_infer_room {
        struct arena    *arena;   /* lives until the answer is written */
        struct arena    *scratch; /* lives until http_call_reply() returns */
        struct buf_pool *pool;    /* may be NULL */
};

/* INVALID_ARG for an output whose type JSON cannot carry. */
struct error *http_infer_encode(const struct infer_response *r, const struct http_infer_room *room,
                                struct http_infer_body *ret) NODISCARD;

/* Parts of the JSON: a parameter's name and value; the elements of an output as a flat array.
 * *ret_has_replaced is true when bytes of strings were not UTF-8 and are U+FFFD in the text. */
void          http_infer_put_parameter(struct json_writer *w, const struct infer_parameter *p);
struct error *http_infer_put_elements(struct strbuf *out, const struct infer_output *output,
                                      bool *ret_has_replaced) NODISCARD;
