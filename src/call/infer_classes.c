/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/infer_classes.h"

#include "call/classify.h"
#include "core_api/core_error.h"

#include "triton/core/tritonserver.h"

/* Of one output: a million classes with labels, and a bound for what a hostile label file does. */
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

        if (!shape)
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
                if (!c->tensors) {
                        TRY(core_error_take(TRITONSERVER_ServerModelBatchProperties(
                                core, r->model_name, r->model_version, &flags, &unused)));
                        c->tensors = arena_try_alloc(arena, r->n_outputs * sizeof(*c->tensors));
                        if (!c->tensors)
                                return error_new(ERR_UNAVAILABLE, "out of memory for the response");
                }
                TRY(replace_output(c, response, (flags & TRITONSERVER_BATCH_FIRST_DIM) != 0,
                                   &r->outputs[i], arena));
        }
        return NULL;
}
