/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/infer_message.h"

#include "base/compiler.h"

#include <string.h>

void infer_request_init(struct infer_request *q) {
        *q = (struct infer_request){ .id = "" };
}

void infer_request_done(struct infer_request *q) {
        for (uint32_t i = 0; i < q->n_inputs; i++) {
                buf_unref(q->inputs[i].converted);
                q->inputs[i].converted = NULL;
        }
        q->n_inputs = 0;
}

/* At the powers of two from 4 on, so the count alone tells when. */
static bool is_full(uint32_t n) {
        return n == 0 || (n >= 4 && (n & (n - 1)) == 0);
}

struct error *infer_array_grow(struct arena *arena, void **array, uint32_t n,
                               size_t element_bytes) {
        void *grown;

        if (!is_full(n))
                return NULL;
        grown = arena_try_alloc(arena, (n == 0 ? 4 : 2 * (size_t)n) * element_bytes);
        if (!grown)
                return error_new(ERR_UNAVAILABLE, "out of memory for the request");
        if (n > 0)
                memcpy(grown, *array, n * element_bytes);
        *array = grown;
        return NULL;
}

static struct error *refuse_more(const char *what, unsigned max) {
        return error_new(ERR_INVALID_ARG, "request has more than %u %s", max, what);
}

struct error *infer_request_add_parameter(struct infer_request *q, struct arena *arena,
                                          struct infer_parameter **ret) {
        void *array = q->parameters;

        if (q->n_parameters >= INFER_MAX_PARAMETERS)
                return refuse_more("parameters", INFER_MAX_PARAMETERS);
        TRY(infer_array_grow(arena, &array, q->n_parameters, sizeof(*q->parameters)));
        q->parameters = array;
        *ret = &q->parameters[q->n_parameters++];
        **ret = (struct infer_parameter){ 0 };
        return NULL;
}

struct error *infer_request_add_input(struct infer_request *q, struct arena *arena,
                                      struct infer_input **ret) {
        void *array = q->inputs;

        if (q->n_inputs >= INFER_MAX_TENSORS)
                return refuse_more("inputs", INFER_MAX_TENSORS);
        TRY(infer_array_grow(arena, &array, q->n_inputs, sizeof(*q->inputs)));
        q->inputs = array;
        *ret = &q->inputs[q->n_inputs++];
        **ret = (struct infer_input){ 0 };
        return NULL;
}

struct error *infer_request_add_output(struct infer_request *q, struct arena *arena,
                                       struct infer_requested_output **ret) {
        void *array = q->outputs;

        if (q->n_outputs >= INFER_MAX_TENSORS)
                return refuse_more("outputs", INFER_MAX_TENSORS);
        TRY(infer_array_grow(arena, &array, q->n_outputs, sizeof(*q->outputs)));
        q->outputs = array;
        *ret = &q->outputs[q->n_outputs++];
        **ret = (struct infer_requested_output){ 0 };
        return NULL;
}

const struct infer_requested_output *infer_request_find_output(const struct infer_request *q,
                                                               const char                 *name) {
        for (uint32_t i = 0; i < q->n_outputs; i++)
                if (strcmp(q->outputs[i].name, name) == 0)
                        return &q->outputs[i];
        return NULL;
}
