/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON of the generate endpoints: the body of a request, and the object of a response.
 *
 * Request ("Triton, generate extension"): one object whose members are inputs and parameters by
 * name.
 *
 *     {"id":"1","text_input":"Hello","stop":["a","b"],"parameters":{"max_tokens":20}}
 *
 * A member with the name of a model input becomes that tensor; any other member becomes a parameter of
 * the request. Members of the object "parameters" are treated like those outside it. "id" is also the
 * request's id. Tensors come without a shape: a scalar is one element, an array has as many as it lists.
 * The shape follows from the model's dimensions: fixed dimensions keep their size, the innermost
 * variable one gets the rest, and each other variable one is 1.
 *
 *     dims [-1,-1,4], 8 elements -> shape [1,2,4]
 *
 * As in an infer request, an error of syntax is reported before any other, and of the others the first.
 * All are INVALID_ARG.
 *
 * Response: one flat object, whose keys are in the order of their bytes. An output of one element is a
 * scalar, any other a flat array. When several members have the same key, the first one is printed; the
 * order is id, model name, model version, parameters, outputs.
 *
 *     {"OUTPUT0":[1,2],"id":"7","model_name":"m","model_version":"1","parameter":true,"text":"a"}
 *
 * Ownership.  The decoded request borrows from the body and the arena; infer_request_done() frees
 * the buffers of converted tensors. On an error nothing is left to free.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/strbuf.h"
#include "call/infer_message.h"

/* The model's configuration of an input. */
struct http_generate_input {
        TRITONSERVER_DataType datatype; /* INVALID = the model has no such input */
        const int64_t        *dims;     /* borrowed during the call; -1 = any size */
        uint64_t              n_dims;
        bool                  is_batched; /* an additional first dimension of any size */
};

typedef struct error *(*http_generate_find_fn)(void *owner, const char *name,
                                               struct http_generate_input *ret);

struct http_generate_source {
        struct str body;
        size_t max_input_bytes; /* --http-max-input-size: limit of the JSON, and of all tensors together */
        struct arena         *arena; /* borrowed */
        struct buf_pool      *pool;  /* borrowed; may be NULL */
        http_generate_find_fn find;
        void                 *owner; /* borrowed: argument of find */
};

struct error *http_generate_decode(const struct http_generate_source *source,
                                   struct infer_request              *ret) NODISCARD;

/* INVALID_ARG for an output whose type JSON cannot carry. The caller checks `out` for overflow. Borrows
 * from the response; temporary memory comes from `scratch`. */
struct error *http_generate_print(const struct infer_response *r, struct arena *scratch,
                                  struct strbuf *out) NODISCARD;

/* {"error":"<message>"} */
void http_generate_print_error(const char *message, struct strbuf *out);
