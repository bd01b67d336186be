/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client asked, put into the request of the C API. */
#include "call/infer_call.h"

#include "core_api/core_error.h"

#include "triton/core/neso.h"

/* The name under which the core finds the only input of a raw request; it asks for one. */
static const char raw_input_name[] = "raw_input";

static struct error *set_sequence(struct TRITONSERVER_InferenceRequest *r,
                                  const struct infer_request           *q) {
        if (q->sequence_name)
                TRY(core_error_take(
                        TRITONSERVER_InferenceRequestSetCorrelationIdString(r, q->sequence_name)));
        else if (q->sequence_id != 0)
                TRY(core_error_take(
                        TRITONSERVER_InferenceRequestSetCorrelationId(r, q->sequence_id)));
        if (q->flags != 0)
                TRY(core_error_take(TRITONSERVER_InferenceRequestSetFlags(r, q->flags)));
        return NULL;
}

static struct error *set_schedule(struct TRITONSERVER_InferenceRequest *r,
                                  const struct infer_request           *q) {
        if (q->priority != 0)
                TRY(core_error_take(
                        TRITONSERVER_InferenceRequestSetPriorityUInt64(r, q->priority)));
        if (q->timeout_us != 0)
                TRY(core_error_take(
                        TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(r, q->timeout_us)));
        return NULL;
}

static struct error *set_parameter(struct TRITONSERVER_InferenceRequest *r,
                                   const struct infer_parameter         *p) {
        switch (p->type) {
        case TRITONSERVER_PARAMETER_STRING:
                return core_error_take(
                        TRITONSERVER_InferenceRequestSetStringParameter(r, p->name, p->value.text));
        case TRITONSERVER_PARAMETER_INT:
                return core_error_take(
                        TRITONSERVER_InferenceRequestSetIntParameter(r, p->name, p->value.integer));
        case TRITONSERVER_PARAMETER_BOOL:
                return core_error_take(
                        TRITONSERVER_InferenceRequestSetBoolParameter(r, p->name,
                                                                      p->value.boolean));
        case TRITONSERVER_PARAMETER_DOUBLE:
                return core_error_take(
                        TRITONSERVER_InferenceRequestSetDoubleParameter(r, p->name, p->value.real));
        default:
                return error_new(ERR_INTERNAL, "parameter '%s' has a type that cannot be forwarded",
                                 p->name);
        }
}

static struct error *append_bytes(struct TRITONSERVER_InferenceRequest *r, const char *name,
                                  struct str bytes) {
        if (bytes.len == 0)
                return NULL;
        return core_error_take(
                TRITONSERVER_InferenceRequestAppendInputData(r, name, bytes.ptr, bytes.len,
                                                             TRITONSERVER_MEMORY_CPU, 0));
}

static struct error *add_inputs(struct TRITONSERVER_InferenceRequest *r,
                                const struct infer_request           *q) {
        if (q->is_raw) {
                TRY(core_error_take(TRITONSERVER_InferenceRequestAddRawInput(r, raw_input_name)));
                return append_bytes(r, raw_input_name, q->raw);
        }
        for (uint32_t i = 0; i < q->n_inputs; i++) {
                const struct infer_input *in = &q->inputs[i];

                TRY(core_error_take(TRITONSERVER_InferenceRequestAddInput(r, in->name, in->datatype,
                                                                          in->shape, in->n_dims)));
                TRY(append_bytes(r, in->name, in->bytes));
        }
        return NULL;
}

struct error *infer_call_fill(struct infer_call *c, const struct infer_request *q) {
        struct TRITONSERVER_InferenceRequest *r = c->request;

        if (q->id[0] != '\0')
                TRY(core_error_take(TRITONSERVER_InferenceRequestSetId(r, q->id)));
        TRY(set_sequence(r, q));
        TRY(set_schedule(r, q));
        for (uint32_t i = 0; i < q->n_parameters; i++)
                TRY(set_parameter(r, &q->parameters[i]));
        TRY(add_inputs(r, q));
        for (uint32_t i = 0; i < q->n_outputs; i++)
                TRY(core_error_take(
                        TRITONSERVER_InferenceRequestAddRequestedOutput(r, q->outputs[i].name)));
        /* In shared memory the client could give the model other bytes than those that were looked
         * at, and so decide what others are answered. */
        if (UNLIKELY(c->n_regions > 0))
                return core_error_take(NESO_InferenceRequestSetCacheable(r, false));
        return NULL;
}
