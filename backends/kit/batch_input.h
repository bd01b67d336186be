/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors that a backend makes of the batch itself, and outputs that are cut by the shape of an input:
 * `batch_input` and `batch_output` of the model configuration, for models that take ragged inputs.
 *
 * With a source input of the shapes [1,3] and [2,2] in a batch of two requests:
 *
 *     BATCH_ELEMENT_COUNT                        [3, 4]            one number per request
 *     BATCH_ACCUMULATED_ELEMENT_COUNT            [3, 7]
 *     BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO  [0, 3, 7]
 *     BATCH_MAX_ELEMENT_COUNT_AS_SHAPE           [0, 0, 0, 0]      the shape counts, not the values
 *     BATCH_ITEM_SHAPE                           [[3], [2], [2]]   one row per item of the batch
 *     BATCH_ITEM_SHAPE_FLATTEN                   [3, 2, 2]
 *
 * Where the model does not batch, a request is one item and all of its dimensions are the item's.
 *
 * Ownership.  The caller frees the arrays; their names belong to the model's configuration.
 * Threads.  As the batch; the arrays do not change.
 */
#pragma once

#include "kit/input.h"
#include "kit/model.h"
#include "kit/output.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are those of model_config.proto. */
enum kit_batch_input_kind {
        KIT_BATCH_ELEMENT_COUNT,
        KIT_BATCH_ACCUMULATED_ELEMENT_COUNT,
        KIT_BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO,
        KIT_BATCH_MAX_ELEMENT_COUNT_AS_SHAPE,
        KIT_BATCH_ITEM_SHAPE,
        KIT_BATCH_ITEM_SHAPE_FLATTEN,
};

struct kit_batch_input {
        enum kit_batch_input_kind kind;
        TRITONSERVER_DataType     type;   /* INT32 or FP32 */
        const char               *target; /* tensor of the model that gets it */
        const char               *source; /* input of the requests */
};

/* An output that is flat over the batch. Each request gets the dims of the output's configuration,
 * where a variable one is the same dimension of the request's source input. */
struct kit_batch_output {
        const struct kit_tensor *target; /* borrowed: the model */
        const char              *source;
};

/* Reads the configuration: one element per target. INVALID_ARG for one that the server would have
 * refused, UNSUPPORTED for a batch_output of strings. */
TRITONSERVER_Error *kit_batch_inputs_read(const struct kit_model  *model,
                                          struct kit_batch_input **ret, size_t *ret_n);
TRITONSERVER_Error *kit_batch_outputs_read(const struct kit_model   *model,
                                           struct kit_batch_output **ret, size_t *ret_n);

/* Makes the tensor of all live slots in the scratch. INVALID_ARG when the shapes of the source have
 * different numbers of dimensions (BATCH_ITEM_SHAPE), or when a number does not fit into the type. */
TRITONSERVER_Error *kit_batch_input_make(const struct kit_batch_input *input,
                                         const struct kit_batch *batch, struct kit_scratch *scratch,
                                         struct kit_gathered *ret);

/* Cuts `bytes` into the responses that want the output. INTERNAL when the parts do not add up to the
 * elements of `made`; then no response has the output. */
TRITONSERVER_Error *kit_batch_output_scatter(const struct kit_batch_output *output,
                                             struct kit_batch *batch, const struct kit_output *made,
                                             const void *bytes);
/* The same for bytes in any memory, in a batch that has a kit_memory: see kit_scatter_from(). */
TRITONSERVER_Error *kit_batch_output_scatter_from(const struct kit_batch_output *output,
                                                  struct kit_batch              *batch,
                                                  const struct kit_output *made, const void *bytes,
                                                  const struct kit_place *place);

#ifdef __cplusplus
}
#endif
