/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/request_write.h"

#include "kit/input.h"
#include "kit/scratch.h"
#include "kit/text.h"
#include "python/bls_call.h"
#include "python/parameter_text.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STACK_INPUTS 16

/* Facts of the request, determined before it is written. */
struct plan {
        TRITONBACKEND_Request *request;
        const struct model    *model;
        struct kit_input      *inputs; /* MAX_STACK_INPUTS of the caller, or owned */
        bool                   owns_inputs;
        uint32_t               n_inputs;
        uint32_t               n_outputs;
        const char            *id;
        const char            *correlation_text;
        uint64_t               correlation;
        const char            *trace; /* NULL: none */
        bool                   has_trace;
        uint32_t               depth;
        uint32_t               handle;
        struct hold           *hold; /* NULL: no input stays on a GPU */
        struct kit_text        parameters;
        size_t                 n_bytes;
};

static bool add_size(size_t *sum, size_t n) {
        return kit_size_add(*sum, n, sum) && kit_size_add(*sum, 7, sum) &&
               ((*sum &= ~(size_t)7), true);
}

static uint32_t index_of(const struct kit_tensor *tensors, uint32_t n, const char *name) {
        for (uint32_t i = 0; i < n; i++)
                if (strcmp(tensors[i].name, name) == 0)
                        return i;
        return SHM_NO_INDEX;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static TRITONSERVER_Error *open_inputs(struct plan *plan) {
        KIT_TRY(TRITONBACKEND_RequestInputCount(plan->request, &plan->n_inputs));
        if (plan->n_inputs > MAX_STACK_INPUTS) {
                plan->inputs = kit_alloc_array(plan->n_inputs, sizeof(*plan->inputs));
                plan->owns_inputs = true;
        }
        if (plan->inputs == NULL)
                return kit_error_no_memory(plan->n_inputs * sizeof(*plan->inputs), "a request");
        for (uint32_t i = 0; i < plan->n_inputs; i++) {
                struct kit_input *input = &plan->inputs[i];

                KIT_TRY(TRITONBACKEND_RequestInputByIndex(plan->request, i, &input->triton));
                KIT_TRY(TRITONBACKEND_InputProperties(input->triton, &input->name, &input->type,
                                                      &input->shape, &input->n_dims,
                                                      &input->n_bytes, &input->n_buffers));
        }
        return NULL;
}

static bool is_on_device(const struct plan *plan, uint32_t i) {
        return plan->hold != NULL && plan->hold->inputs[i].device >= 0;
}

/* Finds the inputs that stay on GPUs. */
static TRITONSERVER_Error *find_device_inputs(struct plan *plan) {
        struct hold *hold = NULL;

        if (!plan->model->takes_device_memory)
                return NULL;
        for (uint32_t i = 0; i < plan->n_inputs; i++) {
                bool is_needed;

                KIT_TRY(hold_is_needed(&plan->inputs[i], &is_needed));
                if (!is_needed)
                        continue;
                if (hold == NULL)
                        hold = hold_new(plan->model, plan->n_inputs);
                if (hold == NULL)
                        return kit_error_no_memory(sizeof(*hold), "a request");
                plan->hold = hold;
                hold->inputs[i].device = 0;
        }
        return NULL;
}

static TRITONSERVER_Error *print_parameters(struct plan *plan) {
        uint32_t n;

        KIT_TRY(TRITONBACKEND_RequestParameterCount(plan->request, &n));
        for (uint32_t i = 0; i < n; i++) {
                TRITONSERVER_ParameterType type;
                const char                *key;
                const void                *value;

                KIT_TRY(TRITONBACKEND_RequestParameter(plan->request, i, &key, &type, &value));
                if (strcmp(key, BLS_DEPTH_PARAMETER) == 0 && type == TRITONSERVER_PARAMETER_INT)
                        plan->depth = (uint32_t) * (const int64_t *)value;
                else
                        parameter_text_add(&plan->parameters, key, type, value);
        }
        if (plan->parameters.len > 0)
                kit_text_add(&plan->parameters, "}", 1);
        return plan->parameters.has_failed ? kit_error_no_memory(plan->parameters.len, "parameters")
                                           : NULL;
}

static TRITONSERVER_Error *read_identity(struct plan *plan) {
        TRITONSERVER_InferenceTrace *trace = NULL;
        TRITONSERVER_Error          *err;

        KIT_TRY(TRITONBACKEND_RequestId(plan->request, &plan->id));
        err = TRITONBACKEND_RequestCorrelationId(plan->request, &plan->correlation);
        if (err != NULL) {
                TRITONSERVER_ErrorDelete(err);
                KIT_TRY(TRITONBACKEND_RequestCorrelationIdString(plan->request,
                                                                 &plan->correlation_text));
        }
        KIT_TRY(TRITONBACKEND_RequestTrace(plan->request, &trace));
        plan->has_trace = trace != NULL;
        return trace != NULL ? TRITONSERVER_InferenceTraceContext(trace, &plan->trace) : NULL;
}

static size_t text_bytes(const char *text) {
        return text != NULL ? strlen(text) : 0;
}

static bool measure_request(struct plan *plan) {
        size_t n = sizeof(struct shm_request);
        bool   fits = add_size(&n, plan->n_inputs * sizeof(struct shm_tensor)) &&
                    add_size(&n, plan->n_outputs * sizeof(uint32_t)) &&
                    add_size(&n, text_bytes(plan->id)) &&
                    add_size(&n, text_bytes(plan->correlation_text)) &&
                    add_size(&n, text_bytes(plan->trace)) && add_size(&n, plan->parameters.len);

        for (uint32_t i = 0; fits && i < plan->n_inputs; i++) {
                const struct kit_input *input = &plan->inputs[i];

                fits = add_size(&n, input->n_dims * sizeof(int64_t)) &&
                       add_size(&n, strlen(input->name));
        }
        fits = fits && n <= UINT32_MAX / 2; /* places in the record have 32 bits */
        for (uint32_t i = 0; fits && i < plan->n_inputs; i++)
                fits = add_size(&n, SHM_BLOCK) &&
                       kit_size_add(n,
                                    is_on_device(plan, i) ? sizeof(struct shm_device)
                                                          : plan->inputs[i].n_bytes,
                                    &n);
        plan->n_bytes = n;
        return fits;
}

static TRITONSERVER_Error *make_plan(struct plan *plan) {
        KIT_TRY(open_inputs(plan));
        KIT_TRY(find_device_inputs(plan));
        KIT_TRY(TRITONBACKEND_RequestOutputCount(plan->request, &plan->n_outputs));
        KIT_TRY(read_identity(plan));
        KIT_TRY(print_parameters(plan));
        if (!measure_request(plan))
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "the request is too large");
        return NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct writer {
        unsigned char *base;
        size_t         at;
        uint64_t       place; /* block number of `base` in the region */
};

static uint32_t reserve_bytes(struct writer *w, size_t n_bytes) {
        size_t at = w->at;

        w->at = (at + n_bytes + 7) & ~(size_t)7;
        return (uint32_t)at;
}

static struct shm_text put_text(struct writer *w, const char *text, size_t len) {
        struct shm_text put = { 0, (uint32_t)len };

        if (len > 0) {
                put.at = reserve_bytes(w, len);
                memcpy(w->base + put.at, text, len);
        }
        return put;
}

static void put_input(struct writer *w, const struct plan *plan, uint32_t i,
                      struct shm_tensor *tensor) {
        const struct kit_input *input = &plan->inputs[i];
        size_t                  n_dims_bytes = input->n_dims * sizeof(int64_t);

        *tensor = (struct shm_tensor){
                .name_index =
                        index_of(plan->model->kit.inputs, plan->model->kit.n_inputs, input->name),
                .type = input->type,
                .n_dims = input->n_dims,
                .n_bytes = input->n_bytes,
        };
        if (tensor->name_index == SHM_NO_INDEX)
                tensor->name = put_text(w, input->name, strlen(input->name));
        tensor->dims = reserve_bytes(w, n_dims_bytes);
        memcpy(w->base + tensor->dims, input->shape, n_dims_bytes);
}

static TRITONSERVER_Error *put_device(struct writer *w, const struct plan *plan, uint32_t i,
                                      struct shm_tensor *tensor) {
        KIT_TRY(hold_share(plan->hold, i, &plan->inputs[i],
                           (struct shm_device *)(void *)(w->base + w->at)));
        tensor->gpu = (uint32_t)plan->hold->inputs[i].device + 1;
        w->at += sizeof(struct shm_device);
        return NULL;
}

static TRITONSERVER_Error *put_bytes(struct writer *w, const struct plan *plan,
                                     struct shm_tensor *tensors) {
        for (uint32_t i = 0; i < plan->n_inputs; i++) {
                w->at = (w->at + SHM_BLOCK - 1) & ~(size_t)(SHM_BLOCK - 1);
                tensors[i].data = w->place + w->at;
                if (is_on_device(plan, i)) {
                        KIT_TRY(put_device(w, plan, i, &tensors[i]));
                        continue;
                }
                KIT_TRY(kit_input_copy(&plan->inputs[i], w->base + w->at));
                w->at += plan->inputs[i].n_bytes;
        }
        return plan->hold != NULL ? hold_fill(plan->hold, plan->inputs) : NULL;
}

static TRITONSERVER_Error *put_outputs(struct writer *w, const struct plan *plan,
                                       struct shm_request *record) {
        const struct kit_model *kit = &plan->model->kit;
        uint32_t               *outputs;

        if (plan->n_outputs == kit->n_outputs) {
                record->n_outputs = SHM_NO_INDEX;
                return NULL;
        }
        record->outputs = reserve_bytes(w, plan->n_outputs * sizeof(uint32_t));
        outputs = (uint32_t *)(void *)(w->base + record->outputs);
        for (uint32_t i = 0; i < plan->n_outputs; i++) {
                const char *name;
                uint32_t    index;

                KIT_TRY(TRITONBACKEND_RequestOutputName(plan->request, i, &name));
                index = index_of(kit->outputs, kit->n_outputs, name);
                if (index != SHM_NO_INDEX)
                        outputs[record->n_outputs++] = index;
        }
        return NULL;
}

static TRITONSERVER_Error *put_request(struct writer *w, const struct plan *plan) {
        struct shm_request *record = (struct shm_request *)(void *)w->base;
        struct shm_tensor  *tensors;

        (void)reserve_bytes(w, sizeof(*record));
        *record = (struct shm_request){ .handle = plan->handle,
                                        .n_inputs = plan->n_inputs,
                                        .correlation = plan->correlation,
                                        .has_trace = plan->has_trace,
                                        .bls_depth = plan->depth,
                                        .hold = plan->hold != NULL ? plan->hold->number : 0 };
        KIT_TRY(TRITONBACKEND_RequestFlags(plan->request, &record->flags));
        KIT_TRY(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(plan->request,
                                                                  &record->timeout_us));
        record->inputs = reserve_bytes(w, plan->n_inputs * sizeof(*tensors));
        tensors = (struct shm_tensor *)(void *)(w->base + record->inputs);
        KIT_TRY(put_outputs(w, plan, record));
        record->id = put_text(w, plan->id, text_bytes(plan->id));
        record->trace = put_text(w, plan->trace, text_bytes(plan->trace));
        record->parameters = put_text(w, plan->parameters.chars, plan->parameters.len);
        if (plan->correlation_text != NULL) {
                record->correlation_kind = SHM_CORRELATION_TEXT;
                record->correlation_text =
                        put_text(w, plan->correlation_text, strlen(plan->correlation_text));
        }
        for (uint32_t i = 0; i < plan->n_inputs; i++)
                put_input(w, plan, i, &tensors[i]);
        return put_bytes(w, plan, tensors);
}

static TRITONSERVER_Error *no_room(size_t n_bytes) {
        return kit_error(
                TRITONSERVER_ERROR_INTERNAL,
                "Failed to increase the shared memory pool size to %zu bytes. The memory that "
                "the server and the Python process share is limited by "
                "--backend-config=python,shm-max-byte-size, or no more memory or addresses "
                "(`ulimit -v`) are left.",
                n_bytes);
}

TRITONSERVER_Error *request_write(const struct model *model, TRITONBACKEND_Request *request,
                                  uint32_t handle, struct region *region, uint32_t *ret_block,
                                  struct hold **ret_hold) {
        struct kit_input few[MAX_STACK_INPUTS];
        struct plan plan = { .request = request, .model = model, .inputs = few, .handle = handle };
        TRITONSERVER_Error *err = make_plan(&plan);
        uint32_t            block = 0;

        if (err == NULL) {
                block = region_alloc(region, plan.n_bytes);
                if (block == 0) {
                        err = no_room(plan.n_bytes);
                        *ret_block = 0;
                }
        }
        if (err == NULL) {
                struct writer w = { .base = region_block(region, block),
                                    .place = (uint64_t)block * SHM_BLOCK };

                err = put_request(&w, &plan);
                if (err != NULL)
                        region_free(region, block);
        }
        if (plan.owns_inputs)
                free(plan.inputs);
        kit_text_done(&plan.parameters);
        if (err != NULL) {
                hold_free(plan.hold);
                return err;
        }
        *ret_block = block;
        *ret_hold = plan.hold;
        return NULL;
}
