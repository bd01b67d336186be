/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend with the kit: Y = X * factor, the parameter of the model. Batches of any size are one
 * tensor here; kit_gather() and kit_scatter() put it together and take it apart.
 */
#include "kit/batch.h"
#include "kit/input.h"
#include "kit/model.h"
#include "kit/output.h"

#include <stdlib.h>

KIT_BACKEND_INLINE_SAFE; /* quick, and it waits for nobody: may run on the thread of the request */

struct scale {
        struct kit_model model;
        int64_t          factor;
};

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *triton) {
        struct scale *scale = calloc(1, sizeof(*scale));

        if (scale == NULL)
                return kit_error_no_memory(sizeof(*scale), "a model");
        scale->factor = 2;
        KIT_TRY(TRITONBACKEND_ModelSetState(triton, scale)); /* ModelFinalize frees it */
        KIT_TRY(kit_model_open(triton, &scale->model));
        return kit_model_parameter_int(&scale->model, "factor", &scale->factor);
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *triton) {
        void *scale;

        KIT_TRY(TRITONBACKEND_ModelState(triton, &scale));
        if (scale != NULL)
                kit_model_close(&((struct scale *)scale)->model);
        free(scale);
        return NULL;
}

static void multiply(struct kit_batch *batch, const struct scale *scale) {
        struct kit_scratch  gathered = { 0 }, result = { 0 }; /* better kept by the instance */
        struct kit_gathered x;
        TRITONSERVER_Error *err = kit_gather(batch, "X", &gathered, &x);
        float              *y = err == NULL ? kit_scratch_reserve(&result, x.n_bytes) : NULL;

        batch->stats.compute_start = kit_clock_ns();
        for (size_t i = 0; y != NULL && i < x.n_bytes / sizeof(float); i++)
                y[i] = ((const float *)x.bytes)[i] * (float)scale->factor;
        batch->stats.compute_end = kit_clock_ns();
        if (y == NULL)
                kit_batch_fail_all(batch, err != NULL ? err : kit_error_no_memory(x.n_bytes, "Y"));
        else
                kit_scatter(batch, &(struct kit_output){ "Y", x.type, x.shape, x.n_dims, false }, y,
                            x.n_bytes);
        kit_scratch_done(&gathered);
        kit_scratch_done(&result);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        TRITONBACKEND_Model *model;
        struct kit_batch     batch;
        void                *scale;

        KIT_TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
        KIT_TRY(TRITONBACKEND_ModelState(model, &scale));
        KIT_TRY(kit_batch_open(&batch, instance, requests, n_requests));
        kit_batch_drop_cancelled(&batch);
        kit_batch_read_rows(&batch, ((struct scale *)scale)->model.max_batch_size);
        if (batch.n_live > 0)
                multiply(&batch, scale);
        kit_batch_close(&batch);
        return NULL;
}
