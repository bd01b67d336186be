/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/infer_response.h"

#include "call/classify.h"
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
        if (r->parameters == NULL)
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

/* Outputs that the request does not list have its default form. */
static void choose_form(const struct infer_request *q, struct infer_output *out) {
        const struct infer_requested_output *asked = infer_request_find_output(q, out->name);
        bool is_binary = asked != NULL ? asked->is_binary : q->is_binary_by_default;

        out->n_classes = asked != NULL ? asked->n_classes : 0;
        if (asked != NULL && asked->shared_memory.region != NULL)
                out->form = INFER_OUTPUT_SHARED_MEMORY;
        else
                out->form = is_binary ? INFER_OUTPUT_BINARY : INFER_OUTPUT_JSON;
}

static struct error *read_output(struct TRITONSERVER_InferenceResponse *response, uint32_t index,
                                 struct infer_output *out, bool *ret_is_on_device) {
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
        *ret_is_on_device = memory_type == TRITONSERVER_MEMORY_GPU && bytes > 0;
        return NULL;
}

/* Our allocators give memory of a device only where the client named a region there, whose bytes stay
 * where they are. */
static struct error *check_place(const struct infer_output *out, bool is_on_device) {
        if (!is_on_device || out->form == INFER_OUTPUT_SHARED_MEMORY)
                return NULL;
        return error_new(ERR_INTERNAL, "output '%s' is in the memory of a GPU", out->name);
}

static struct error *read_outputs(struct TRITONSERVER_InferenceResponse *response,
                                  const struct infer_request *q, struct arena *arena,
                                  struct infer_response *r) {
        TRY(core_error_take(TRITONSERVER_InferenceResponseOutputCount(response, &r->n_outputs)));
        if (r->n_outputs == 0)
                return NULL;
        r->outputs = arena_try_alloc(arena, r->n_outputs * sizeof(*r->outputs));
        if (r->outputs == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response");
        for (uint32_t i = 0; i < r->n_outputs; i++) {
                bool is_on_device;

                TRY(read_output(response, i, &r->outputs[i], &is_on_device));
                choose_form(q, &r->outputs[i]);
                TRY(check_place(&r->outputs[i], is_on_device));
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

/* ---- classes in place of scores ---- */

/* Limit of one output: a million classes with labels fit, and it bounds the damage of a hostile
 * label file. */
#define MAX_TENSOR_BYTES ((size_t)256 << 20)

struct label_source {
        struct TRITONSERVER_InferenceResponse *response; /* borrowed */
        uint32_t                               output;
};

void infer_classes_init(struct infer_classes *c) {
        *c = (struct infer_classes){ 0 };
}

void infer_classes_done(struct infer_classes *c) {
        for (size_t i = 0; i < c->n_tensors; i++)
                strbuf_done(&c->tensors[i]);
        c->n_tensors = 0;
}

static const char *find_label(void *labels, size_t class_index) {
        const struct label_source *source = labels;
        const char                *label = NULL;

        core_error_drop(TRITONSERVER_InferenceResponseOutputClassificationLabel(
                source->response, source->output, class_index, &label));
        return label;
}

static struct error *replace_output(struct infer_classes                  *c,
                                    struct TRITONSERVER_InferenceResponse *response,
                                    bool is_batched, struct infer_output *out,
                                    struct arena *arena) {
        struct label_source    labels = { response, out->index };
        struct strbuf         *tensor = &c->tensors[c->n_tensors];
        struct classify_source source = {
                .datatype = out->datatype,
                .bytes = out->bytes,
                .n_rows = 1,
                .n_classes = out->n_classes,
                .label = find_label,
                .labels = &labels,
        };
        int64_t *shape = arena_try_alloc(arena, 2 * sizeof(*shape));
        size_t   n_classes;

        if (shape == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response");
        is_batched = is_batched && out->n_dims > 0;
        if (is_batched)
                source.n_rows = (size_t)MAX(out->shape[0], 0);
        strbuf_init(tensor, MAX_TENSOR_BYTES);
        c->n_tensors++;
        TRY(classify(&source, tensor, &n_classes));

        shape[0] = is_batched ? out->shape[0] : (int64_t)n_classes;
        shape[1] = (int64_t)n_classes;
        out->shape = shape;
        out->n_dims = is_batched ? 2 : 1;
        out->datatype = TRITONSERVER_TYPE_BYTES;
        out->bytes = strbuf_str(tensor);
        out->holder = NULL;
        return NULL;
}

static bool wants_classes(const struct infer_output *out) {
        return out->n_classes > 0 && out->form != INFER_OUTPUT_SHARED_MEMORY;
}

struct error *infer_classes_replace(struct infer_classes *c, struct TRITONSERVER_Server *core,
                                    struct TRITONSERVER_InferenceResponse *response,
                                    struct infer_response *r, struct arena *arena) {
        uint32_t flags = 0;
        void    *unused;

        for (uint32_t i = 0; i < r->n_outputs; i++) {
                if (!wants_classes(&r->outputs[i]))
                        continue;
                if (c->tensors == NULL) {
                        TRY(core_error_take(TRITONSERVER_ServerModelBatchProperties(
                                core, r->model_name, r->model_version, &flags, &unused)));
                        c->tensors = arena_try_alloc(arena, r->n_outputs * sizeof(*c->tensors));
                        if (c->tensors == NULL)
                                return error_new(ERR_UNAVAILABLE, "out of memory for the response");
                }
                TRY(replace_output(c, response, (flags & TRITONSERVER_BATCH_FIRST_DIM) != 0,
                                   &r->outputs[i], arena));
        }
        return NULL;
}
