/* SPDX-License-Identifier: BSD-3-Clause */
/* Outputs of responses, and scattering: one output tensor of a batch is cut into the responses of
 * its requests.
 *
 * Ownership.  Buffers of outputs belong to the responses. These functions keep no pointer.
 * Threads.  As the batch.
 */
#pragma once

#include "kit/batch.h"
#include "kit/input.h"
#include "kit/memory.h"
#include "kit/string_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kit_output {
        const char           *name;
        TRITONSERVER_DataType type;
        const int64_t        *shape; /* with the batch dimension */
        uint32_t              n_dims;
        /* The next state of the sequence instead of an output of the response. Model configuration:
         * sequence_batching { state }. */
        bool is_state;
};

/* True when the request asks for the output; a backend makes only such outputs. */
bool kit_wants_output(TRITONBACKEND_Request *request, const char *name);

/* Adds an output of n_bytes to a response; the caller writes the bytes to *ret. UNSUPPORTED when the
 * allocator gives memory of a GPU. */
TRITONSERVER_Error *kit_output_new(TRITONBACKEND_Response  *response,
                                   const struct kit_output *output, size_t n_bytes, void **ret);
/* The same for any memory: *place is what the backend prefers, then what the allocator gave. */
TRITONSERVER_Error *kit_output_new_at(TRITONBACKEND_Response  *response,
                                      const struct kit_output *output, size_t n_bytes,
                                      struct kit_place *place, void **ret);

/* Returns memory for the next value of a state, for a backend that computes directly into it: the
 * caller writes n_bytes to *ret, then calls TRITONBACKEND_StateUpdate(). */
TRITONSERVER_Error *kit_state_new(TRITONBACKEND_Request *request, const struct kit_output *output,
                                  size_t n_bytes, TRITONBACKEND_State **ret_state, void **ret);
TRITONSERVER_Error *kit_state_new_at(TRITONBACKEND_Request   *request,
                                     const struct kit_output *output, size_t n_bytes,
                                     struct kit_place *place, TRITONBACKEND_State **ret_state,
                                     void **ret);

/* Cuts `bytes`, which has the rows of all live slots in slot order, into the responses that want
 * the output (a state: into all). Without a row dimension the batch has one live slot, which gets
 * all bytes. A slot whose output cannot be made is answered with the error. A tensor with another
 * number of rows fails all slots. */
void kit_scatter(struct kit_batch *batch, const struct kit_output *output, const void *bytes,
                 size_t n_bytes);

/* The same for bytes in any memory, in a batch that has a kit_memory: the outputs are filled, and the states
 * committed, by kit_memory_finish(). Until then the bytes must stay. */
void kit_scatter_from(struct kit_batch *batch, const struct kit_output *output, const void *bytes,
                      const struct kit_place *place, size_t n_bytes);

/* kit_scatter() for BYTES: `strings` has the elements of all live slots in slot order. */
void kit_scatter_strings(struct kit_batch *batch, const struct kit_output *output,
                         const struct kit_packed_strings *strings);

#ifdef __cplusplus
}
#endif
