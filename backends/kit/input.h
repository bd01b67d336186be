/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs of requests, and gathering: one tensor made of the same input of all requests of a batch.
 *
 * When the batch has one request, whose input is one buffer, the gathered tensor is that buffer.
 * Otherwise the bytes are copied, in slot order, into scratch memory of the instance.
 *
 * Ownership.  Inputs and gathered tensors are borrowed: from the request until it is released, or
 * from the scratch until its next use.
 * Threads.  As the batch.
 */
#pragma once

#include "kit/batch.h"
#include "kit/scratch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* More than any common model has; a tensor with more is refused. */
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

/* Returns the server's error, NOT_FOUND or INVALID_ARG, when the request has no such input. */
TRITONSERVER_Error *kit_input_open(TRITONBACKEND_Request *request, const char *name,
                                   struct kit_input *ret);

/* Returns false when the request has no such input: for optional inputs. */
bool kit_input_find(TRITONBACKEND_Request *request, const char *name, struct kit_input *ret);

/* Returns the bytes when they are one piece of main memory at an address that is aligned for the
 * type; *ret is NULL when they must be copied. UNSUPPORTED for device memory. */
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

/* Type and shape of one input as a gathered one. UNSUPPORTED for too many dimensions. */
TRITONSERVER_Error *kit_input_describe(const struct kit_input *input, struct kit_gathered *ret);

/* All live requests must have the input, with the same shape except for the rows: see
 * kit_inputs_agree(). */
TRITONSERVER_Error *kit_gather(const struct kit_batch *batch, const char *name,
                               struct kit_scratch *scratch, struct kit_gathered *ret);

/* The same for an input with allow_ragged_batch: the shapes may differ, and the result has one
 * dimension, the number of all elements. */
TRITONSERVER_Error *kit_gather_ragged(const struct kit_batch *batch, const char *name,
                                      struct kit_scratch *scratch, struct kit_gathered *ret);
/* Gives a gathered tensor of such an input its one dimension. */
TRITONSERVER_Error *kit_gathered_flatten(const struct kit_batch *batch, const char *name,
                                         struct kit_gathered *ret);

/* True when two requests may be gathered: both have the input, or neither has it, and type and
 * shape agree from dimension `first_dim` on. */
bool kit_inputs_agree(TRITONBACKEND_Request *a, TRITONBACKEND_Request *b, const char *name,
                      uint32_t first_dim);

/* Returns the number of elements of a shape; INVALID_ARG with the name `tensor` when a dimension is
 * negative or the product overflows. */
TRITONSERVER_Error *kit_count_elements(const int64_t *shape, uint32_t n_dims, const char *tensor,
                                       size_t *ret);

#ifdef __cplusplus
}
#endif
