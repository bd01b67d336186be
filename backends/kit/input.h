/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs of requests, and gathering: one tensor made of the same input of all requests of a batch.
 *
 * One request whose input lies in one buffer is not copied: the gathered tensor is that buffer.
 * Otherwise the bytes go, in slot order, into scratch memory of the instance.
 *
 * Ownership.  What is found or gathered is borrowed: from the request until it is released, or
 * from the scratch until it is used again.
 * Threads.  As the batch.
 */
#pragma once

#include "kit/batch.h"
#include "kit/scratch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* More than any model of the field; what has more is refused. */
#define KIT_MAX_DIMS 32

struct kit_input {
        TRITONBACKEND_Input  *triton;
        const char           *name;
        TRITONSERVER_DataType type;
        const int64_t        *shape; /* with the batch dimension */
        uint32_t              n_dims;
        uint32_t              n_buffers;
        uint64_t              n_bytes;
};

/* NOT_FOUND or INVALID_ARG from the server when the request has no such input. */
TRITONSERVER_Error *kit_input_open(TRITONBACKEND_Request *request, const char *name,
                                   struct kit_input *ret);

/* False when the request has no such input: for inputs that are optional. */
bool kit_input_find(TRITONBACKEND_Request *request, const char *name, struct kit_input *ret);

/* The bytes when they lie in one piece of main memory, at an address that fits the type; NULL in
 * *ret when they must be copied. UNSUPPORTED for the memory of a device. */
TRITONSERVER_Error *kit_input_borrow(const struct kit_input *input, const void **ret);

/* Copies all n_bytes to `out`. */
TRITONSERVER_Error *kit_input_copy(const struct kit_input *input, void *out);

struct kit_gathered {
        TRITONSERVER_DataType type;
        uint32_t              n_dims;
        int64_t               shape[KIT_MAX_DIMS]; /* first dimension: the rows of all requests */
        const void           *bytes;               /* borrowed: a request, or the scratch */
        size_t                n_bytes;
};

/* The live requests must have the input, with the same shape but for its rows: see
 * kit_inputs_agree(). */
TRITONSERVER_Error *kit_gather(const struct kit_batch *batch, const char *name,
                               struct kit_scratch *scratch, struct kit_gathered *ret);

/* The same for an input with allow_ragged_batch: the shapes need not agree, and the result has one
 * dimension, the number of all elements. */
TRITONSERVER_Error *kit_gather_ragged(const struct kit_batch *batch, const char *name,
                                      struct kit_scratch *scratch, struct kit_gathered *ret);

/* Whether two requests may be gathered: both have the input, or none, and type and shape are the
 * same from dimension `first_dim` on. */
bool kit_inputs_agree(TRITONBACKEND_Request *a, TRITONBACKEND_Request *b, const char *name,
                      uint32_t first_dim);

/* The number of elements of a shape; INVALID_ARG naming `tensor` when a dimension is negative or
 * the product does not fit. */
TRITONSERVER_Error *kit_count_elements(const int64_t *shape, uint32_t n_dims, const char *tensor,
                                       size_t *ret);

#ifdef __cplusplus
}
#endif
