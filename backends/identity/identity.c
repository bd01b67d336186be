/* SPDX-License-Identifier: BSD-3-Clause */
/* The identity backend: each output repeats an input, whatever its type. For tests, and to
 * measure what the server itself costs; so its path for one request has nothing in it that the
 * answer does not need.
 *
 * An output whose optional input the request left out is left out too.
 */
#include "identity/identity_model.h"
#include "kit/batch.h"
#include "kit/input.h"
#include "kit/output.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

KIT_BACKEND_INLINE_SAFE;

struct instance {
        struct identity_model *model; /* borrowed: outlives its instances */
        struct timespec        delay;
        bool                   has_delay;
};

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend) {
        (void)backend;
        return kit_check_api_version("identity");
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend          *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes) {
        (void)backend;
        return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attributes, true);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *triton) {
        struct identity_model *model;

        KIT_TRY(identity_model_new(triton, &model));
        return TRITONBACKEND_ModelSetState(triton, model);
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *triton) {
        void *model;

        KIT_TRY(TRITONBACKEND_ModelState(triton, &model));
        if (model != NULL)
                identity_model_free(model);
        return NULL;
}

static void set_delay(struct instance *instance, unsigned number) {
        const struct identity_model *model = instance->model;
        int64_t                      factor = model->delay_multiplier * (int64_t)number;
        int64_t                      ms = model->delay_ms;

        if (factor > 1 && __builtin_mul_overflow(ms, factor, &ms))
                ms = INT32_MAX;
        instance->has_delay = ms > 0;
        if (ms > 0)
                instance->delay =
                        (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *triton) {
        struct instance     *instance;
        TRITONBACKEND_Model *model;
        void                *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceModel(triton, &model));
        KIT_TRY(TRITONBACKEND_ModelState(model, &state));
        instance = kit_alloc_array(1, sizeof(*instance));
        if (instance == NULL)
                return kit_error_no_memory(sizeof(*instance), "an instance");
        instance->model = state;
        set_delay(instance, atomic_fetch_add(&instance->model->n_instances, 1));
        return TRITONBACKEND_ModelInstanceSetState(triton, instance);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *triton) {
        void *instance;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &instance));
        free(instance);
        return NULL;
}

static const char *find_input(const struct identity_model *model, const char *output) {
        for (uint32_t i = 0; i < model->n_pairs; i++)
                if (strcmp(model->pairs[i].output, output) == 0)
                        return model->pairs[i].input;
        return NULL;
}

static TRITONSERVER_Error *repeat_input(const struct kit_slot *slot, const char *output_name,
                                        const struct kit_input *input) {
        struct kit_output output = {
                .name = output_name,
                .type = input->type,
                .shape = input->shape,
                .n_dims = input->n_dims,
        };
        void *out;

        KIT_TRY(kit_output_new(slot->response, &output, input->n_bytes, &out));
        return kit_input_copy(input, out);
}

static TRITONSERVER_Error *add_parameters(TRITONBACKEND_Response *response) {
        KIT_TRY(TRITONBACKEND_ResponseSetStringParameter(response, "param0",
                                                         "an example string parameter"));
        KIT_TRY(TRITONBACKEND_ResponseSetIntParameter(response, "param1", 42));
        return TRITONBACKEND_ResponseSetBoolParameter(response, "param2", false);
}

static TRITONSERVER_Error *count_bytes(const struct identity_model *model,
                                       TRITONBACKEND_Request       *request) {
        uint64_t n_all = 0, n_bytes;
        uint32_t n_inputs;

        KIT_TRY(TRITONBACKEND_RequestInputCount(request, &n_inputs));
        for (uint32_t i = 0; i < n_inputs; i++) {
                TRITONBACKEND_Input *input;

                KIT_TRY(TRITONBACKEND_RequestInputByIndex(request, i, &input));
                KIT_TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, &n_bytes,
                                                      NULL));
                n_all += n_bytes;
        }
        return TRITONSERVER_MetricIncrement(model->byte_count, (double)n_all);
}

static TRITONSERVER_Error *fill_response(const struct identity_model *model,
                                         struct kit_slot             *slot) {
        uint32_t n_outputs;

        KIT_TRY(TRITONBACKEND_RequestOutputCount(slot->request, &n_outputs));
        for (uint32_t i = 0; i < n_outputs; i++) {
                const char      *output, *input_name;
                struct kit_input input;

                KIT_TRY(TRITONBACKEND_RequestOutputName(slot->request, i, &output));
                input_name = find_input(model, output);
                if (input_name == NULL || !kit_input_find(slot->request, input_name, &input))
                        continue;
                KIT_TRY(repeat_input(slot, output, &input));
                if (model->kit.max_batch_size > 0 && input.n_dims > 0)
                        slot->rows = input.shape[0];
        }
        if (model->has_parameters)
                KIT_TRY(add_parameters(slot->response));
        return model->byte_count != NULL ? count_bytes(model, slot->request) : NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *triton,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        struct kit_batch batch;
        struct instance *instance;
        struct kit_slot *slot;
        void            *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &state));
        KIT_TRY(kit_batch_open(&batch, triton, requests, n_requests));
        instance = state;
        if (instance->has_delay)
                (void)nanosleep(&instance->delay, NULL);
        for (slot = kit_batch_live(&batch, batch.slots); slot != NULL;
             slot = kit_batch_live(&batch, slot + 1)) {
                TRITONSERVER_Error *err = fill_response(instance->model, slot);

                batch.n_rows += slot->rows - 1;
                if (err != NULL)
                        kit_batch_fail(&batch, slot, err);
        }
        kit_batch_close(&batch);
        return NULL;
}
