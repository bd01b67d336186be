/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/infer_message.h"

#include "base/compiler.h"
#include "base/mem.h"

#include <string.h>

#define OPENAI_INPUT "openai_request" /* docs/language_models.md */

void infer_arena_limit(struct arena *a, size_t message_bytes, size_t *ret_before) {
        size_t max;

        if (!size_mul(message_bytes, INFER_ARENA_PER_BYTE, &max) ||
            !size_add(max, INFER_ARENA_BASE_BYTES + a->used_bytes, &max))
                max = SIZE_MAX;
        *ret_before = arena_max(a);
        arena_set_max(a, MIN(max, *ret_before));
}

void infer_arena_release(struct arena *a, size_t before) {
        arena_set_max(a, before);
}

struct error *infer_no_memory(void) {
        static struct error full = ERROR_STATIC(ERR_UNAVAILABLE, "out of memory for the request");

        return &full;
}

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

/* Arrays grow at the powers of two from 4 on, so that n alone shows whether one is full. */
static bool is_full(uint32_t n) {
        return n == 0 || (n >= 4 && (n & (n - 1)) == 0);
}

struct error *infer_array_grow(struct arena *arena, void **array, uint32_t n,
                               size_t element_bytes) {
        void *grown;

        if (!is_full(n))
                return NULL;
        grown = arena_try_alloc(arena, (n == 0 ? 4 : 2 * (size_t)n) * element_bytes);
        if (grown == NULL)
                return infer_no_memory();
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

struct error *infer_request_add_key_name(struct infer_request *q, struct arena *arena,
                                         struct str name) {
        struct infer_parameter *parameter;
        const char             *text;

        if (name.len == 0 || q->n_inputs != 1 || strcmp(q->inputs[0].name, OPENAI_INPUT) != 0)
                return NULL;
        text = arena_try_str(arena, name);
        if (text == NULL)
                return infer_no_memory();
        TRY(infer_request_add_parameter(q, arena, &parameter));
        parameter->name = INFER_API_KEY_NAME;
        parameter->type = TRITONSERVER_PARAMETER_STRING;
        parameter->value.text = text;
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

const struct infer_output *infer_response_find_output(const struct infer_response *r,
                                                      const char                  *name) {
        for (uint32_t i = 0; i < r->n_outputs; i++)
                if (strcmp(r->outputs[i].name, name) == 0)
                        return &r->outputs[i];
        return NULL;
}

/* ---- the amount of work ---- */

/* Adds and saturates at SIZE_MAX. */
static size_t add_size(size_t sum, uint64_t n) {
        size_t total;

        return size_add(sum, (size_t)MIN(n, SIZE_MAX), &total) ? total : SIZE_MAX;
}

size_t infer_request_work(const struct infer_request *q) {
        size_t work = 0;

        for (uint32_t i = 0; i < q->n_inputs; i++) {
                const struct infer_input *in = &q->inputs[i];

                if (in->datatype != TRITONSERVER_TYPE_BYTES)
                        continue;
                work = add_size(work, in->bytes.len);
                if (in->shared_memory.region != NULL)
                        work = add_size(work, in->shared_memory.byte_size);
        }
        return work;
}

/* Work of one class, in bytes of JSON that take as long: the class is sorted, and printed with its
 * label. */
#define CLASS_WORK 64

/* An element has at least one byte, so the number of bytes bounds the number of elements, and of
 * classes. */
static size_t class_work(const struct infer_output *out) {
        uint64_t n_rows = out->n_dims > 1 && out->shape[0] > 0 ? (uint64_t)out->shape[0] : 1;
        size_t   n_classes;

        if (!size_mul(out->n_classes, (size_t)n_rows, &n_classes))
                n_classes = SIZE_MAX;
        n_classes = MIN(n_classes, out->bytes.len);
        return size_mul(n_classes, CLASS_WORK, &n_classes) ? add_size(n_classes, out->bytes.len)
                                                           : SIZE_MAX;
}

size_t infer_response_work(const struct infer_response *r) {
        size_t work = 0;

        for (uint32_t i = 0; i < r->n_outputs; i++) {
                const struct infer_output *out = &r->outputs[i];

                if (out->form == INFER_OUTPUT_SHARED_MEMORY)
                        continue;
                if (out->n_classes > 0)
                        work = add_size(work, class_work(out));
                else if (out->form == INFER_OUTPUT_JSON)
                        work = add_size(work, out->bytes.len);
        }
        return work;
}

size_t infer_response_bytes(const struct infer_response *r) {
        size_t bytes = 0;

        for (uint32_t i = 0; i < r->n_outputs; i++)
                if (r->outputs[i].form != INFER_OUTPUT_SHARED_MEMORY)
                        bytes = add_size(bytes, r->outputs[i].bytes.len);
        return bytes;
}
