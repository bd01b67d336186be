/* SPDX-License-Identifier: BSD-3-Clause */
/* A response of the C API as a plain struct. */
#include "call/infer_call.h"

#include "core_api/core_error.h"

#include "triton/core/tritonserver.h"

static void store_value(struct infer_parameter *p, const void *value) {
        switch (p->type) {
        case TRITONSERVER_PARAMETER_INT: p->value.integer = *(const int64_t *)value; break;
        case TRITONSERVER_PARAMETER_BOOL: p->value.boolean = *(const bool *)value; break;
        case TRITONSERVER_PARAMETER_DOUBLE: p->value.real = *(const double *)value; break;
        default: p->value.text = value; break;
        }
}

static struct error *read_parameters(struct TRITONSERVER_InferenceResponse *response,
                                     struct arena *arena, struct infer_response *r) {
        TRY(core_error_take(
                TRITONSERVER_InferenceResponseParameterCount(response, &r->n_parameters)));
        if (r->n_parameters == 0)
                return NULL;
        r->parameters = arena_try_alloc(arena, r->n_parameters * sizeof(*r->parameters));
        if (!r->parameters)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response");
        for (uint32_t i = 0; i < r->n_parameters; i++) {
                struct infer_parameter *p = &r->parameters[i];
                const void             *value;

                TRY(core_error_take(TRITONSERVER_InferenceResponseParameter(response, i, &p->name,
                                                                            &p->type, &value)));
                store_value(p, value);
        }
        return NULL;
}

/* Outputs that were not listed come as the request's default says. */
static void choose_form(const struct infer_request *q, struct infer_output *out) {
        const struct infer_requested_output *asked = infer_request_find_output(q, out->name);
        bool is_binary = asked ? asked->is_binary : q->is_binary_by_default;

        out->n_classes = asked ? asked->n_classes : 0;
        if (asked && asked->shared_memory.region)
                out->form = INFER_OUTPUT_SHARED_MEMORY;
        else
                out->form = is_binary ? INFER_OUTPUT_BINARY : INFER_OUTPUT_JSON;
}

static struct error *read_output(struct TRITONSERVER_InferenceResponse *response, uint32_t index,
                                 struct infer_output *out) {
        TRITONSERVER_MemoryType memory_type;
        int64_t                 memory_type_id;
        const void             *base;
        uint64_t                n_dims;
        size_t                  bytes;
        void                   *holder;

        TRY(core_error_take(
                TRITONSERVER_InferenceResponseOutput(response, index, &out->name, &out->datatype,
                                                     &out->shape, &n_dims, &base, &bytes,
                                                     &memory_type, &memory_type_id, &holder)));
        out->n_dims = (uint32_t)n_dims;
        out->bytes = str_range(base, bytes);
        out->holder = holder;
        out->index = index;
        return NULL;
}

static struct error *read_outputs(struct TRITONSERVER_InferenceResponse *response,
                                  const struct infer_request *q, struct arena *arena,
                                  struct infer_response *r) {
        TRY(core_error_take(TRITONSERVER_InferenceResponseOutputCount(response, &r->n_outputs)));
        if (r->n_outputs == 0)
                return NULL;
        r->outputs = arena_try_alloc(arena, r->n_outputs * sizeof(*r->outputs));
        if (!r->outputs)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response");
        for (uint32_t i = 0; i < r->n_outputs; i++) {
                TRY(read_output(response, i, &r->outputs[i]));
                choose_form(q, &r->outputs[i]);
        }
        return NULL;
}

struct error *infer_response_read(struct TRITONSERVER_InferenceResponse *response,
                                  const struct infer_request *q, struct arena *arena,
                                  struct infer_response *ret) {
        struct infer_response r = { .id = "" };

        TRY(core_error_take(TRITONSERVER_InferenceResponseError(response)));
        TRY(core_error_take(
                TRITONSERVER_InferenceResponseModel(response, &r.model_name, &r.model_version)));
        TRY(core_error_take(TRITONSERVER_InferenceResponseId(response, &r.id)));
        TRY(read_parameters(response, arena, &r));
        TRY(read_outputs(response, q, arena, &r));
        *ret = r;
        return NULL;
}
