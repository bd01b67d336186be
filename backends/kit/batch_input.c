/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/batch_input.h"

#include <stdlib.h>
#include <string.h>

/* ---- configuration -------------------------------------------------------------------------- */

static const char *const kinds[] = {
        [KIT_BATCH_ELEMENT_COUNT] = "BATCH_ELEMENT_COUNT",
        [KIT_BATCH_ACCUMULATED_ELEMENT_COUNT] = "BATCH_ACCUMULATED_ELEMENT_COUNT",
        [KIT_BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO] =
                "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
        [KIT_BATCH_MAX_ELEMENT_COUNT_AS_SHAPE] = "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
        [KIT_BATCH_ITEM_SHAPE] = "BATCH_ITEM_SHAPE",
        [KIT_BATCH_ITEM_SHAPE_FLATTEN] = "BATCH_ITEM_SHAPE_FLATTEN",
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const struct kit_json_value *first_of(const struct kit_model *model, const char *list) {
        const struct kit_json_value *found = kit_json_find(kit_json_root(model->config), list);

        return found != NULL ? found->first : NULL;
}

static size_t count_targets(const struct kit_json_value *at) {
        size_t n = 0;

        for (; at != NULL; at = at->next)
                n += kit_json_count(kit_json_find(at, "target_name"));
        return n;
}

static TRITONSERVER_Error *read_source(const struct kit_model      *model,
                                       const struct kit_json_value *at, const char **ret) {
        *ret = kit_json_string(kit_json_find(at, "source_input/0"), "");
        if (kit_model_find_input(model, *ret) != NULL)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "unknown source input name '%s' for %s",
                         *ret, model->name);
}

static TRITONSERVER_Error *read_input(const struct kit_model      *model,
                                      const struct kit_json_value *at,
                                      struct kit_batch_input      *ret) {
        const char *kind = kit_json_string(kit_json_find(at, "kind"), kinds[0]);
        size_t      i = 0;

        while (i < N_KINDS && strcmp(kinds[i], kind) != 0)
                i++;
        if (i == N_KINDS)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "unknown kind '%s' of batch_input for %s", kind, model->name);
        ret->kind = (enum kit_batch_input_kind)i;
        ret->type = kit_type_from_config(kit_json_string(kit_json_find(at, "data_type"), ""));
        if (ret->type != TRITONSERVER_TYPE_INT32 && ret->type != TRITONSERVER_TYPE_FP32)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "batch input data type must be TYPE_INT32 or TYPE_FP32 for %s",
                                 model->name);
        return read_source(model, at, &ret->source);
}

static TRITONSERVER_Error *read_inputs(const struct kit_model *model,
                                       struct kit_batch_input *inputs) {
        size_t n = 0;

        for (const struct kit_json_value *at = first_of(model, "batch_input"); at != NULL;
             at = at->next) {
                const struct kit_json_value *targets = kit_json_find(at, "target_name");
                struct kit_batch_input       input;

                KIT_TRY(read_input(model, at, &input));
                for (targets = targets != NULL ? targets->first : NULL; targets != NULL;
                     targets = targets->next) {
                        input.target = kit_json_string(targets, "");
                        inputs[n++] = input;
                }
        }
        return NULL;
}

TRITONSERVER_Error *kit_batch_inputs_read(const struct kit_model  *model,
                                          struct kit_batch_input **ret, size_t *ret_n) {
        size_t                  n = count_targets(first_of(model, "batch_input"));
        struct kit_batch_input *inputs = kit_alloc_array(n, sizeof(*inputs));
        TRITONSERVER_Error     *err;

        if (inputs == NULL)
                return kit_error_no_memory(n * sizeof(*inputs), model->name);
        err = read_inputs(model, inputs);
        if (err != NULL) {
                free(inputs);
                return err;
        }
        *ret = inputs;
        *ret_n = n;
        return NULL;
}

static TRITONSERVER_Error *read_outputs(const struct kit_model  *model,
                                        struct kit_batch_output *outputs) {
        size_t n = 0;

        for (const struct kit_json_value *at = first_of(model, "batch_output"); at != NULL;
             at = at->next) {
                const struct kit_json_value *targets = kit_json_find(at, "target_name");
                const char                  *source;

                KIT_TRY(read_source(model, at, &source));
                for (targets = targets != NULL ? targets->first : NULL; targets != NULL;
                     targets = targets->next) {
                        const char              *name = kit_json_string(targets, "");
                        const struct kit_tensor *target = kit_model_find_output(model, name);

                        if (target == NULL)
                                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                                 "unknown target output name '%s' for %s", name,
                                                 model->name);
                        if (target->type == TRITONSERVER_TYPE_BYTES)
                                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                                 "model '%s': output '%s' of batch_output has "
                                                 "strings, which is not supported",
                                                 model->name, name);
                        outputs[n++] = (struct kit_batch_output){ target, source };
                }
        }
        return NULL;
}

TRITONSERVER_Error *kit_batch_outputs_read(const struct kit_model   *model,
                                           struct kit_batch_output **ret, size_t *ret_n) {
        size_t                   n = count_targets(first_of(model, "batch_output"));
        struct kit_batch_output *outputs = kit_alloc_array(n, sizeof(*outputs));
        TRITONSERVER_Error      *err;

        if (outputs == NULL)
                return kit_error_no_memory(n * sizeof(*outputs), model->name);
        err = read_outputs(model, outputs);
        if (err != NULL) {
                free(outputs);
                return err;
        }
        *ret = outputs;
        *ret_n = n;
        return NULL;
}

/* ---- inputs --------------------------------------------------------------------------------- */

static bool is_item_shape(enum kit_batch_input_kind kind) {
        return kind == KIT_BATCH_ITEM_SHAPE || kind == KIT_BATCH_ITEM_SHAPE_FLATTEN;
}

/* Opens the source of a slot and counts its elements. */
static TRITONSERVER_Error *open_source(const struct kit_slot *slot, const char *source,
                                       struct kit_input *ret, size_t *ret_n) {
        KIT_TRY(kit_input_open(slot->request, source, ret));
        return kit_count_elements(ret->shape, ret->n_dims, source, ret_n);
}

/* Returns the dimensions of an item, in *ret_first the number of those before them. */
static uint32_t item_dims(const struct kit_batch *batch, const struct kit_input *input,
                          uint32_t *ret_first) {
        *ret_first = batch->has_row_dim && input->n_dims > 0 ? 1 : 0;
        return input->n_dims - *ret_first;
}

/* What the shape of the result depends on. */
struct extent {
        size_t   max_elements;
        uint32_t n_item_dims;
};

static TRITONSERVER_Error *measure_batch_input(const struct kit_batch_input *in,
                                               const struct kit_batch *batch, struct extent *ret) {
        struct kit_slot *slot = kit_batch_live(batch, batch->slots);

        *ret = (struct extent){ 0 };
        for (bool is_first = true; slot != NULL; slot = kit_batch_live(batch, slot + 1)) {
                struct kit_input input;
                uint32_t         first, n_dims;
                size_t           n;

                KIT_TRY(open_source(slot, in->source, &input, &n));
                n_dims = item_dims(batch, &input, &first);
                if (!is_first && is_item_shape(in->kind) && n_dims != ret->n_item_dims)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "input '%s' has a different number of dimensions in the "
                                         "requests of a batch",
                                         in->source);
                ret->n_item_dims = n_dims;
                if (n > ret->max_elements)
                        ret->max_elements = n;
                is_first = false;
        }
        return NULL;
}

static void set_shape(const struct kit_batch_input *in, const struct kit_batch *batch,
                      const struct extent *extent, struct kit_gathered *ret) {
        ret->n_dims = 1;
        switch (in->kind) {
        case KIT_BATCH_ELEMENT_COUNT:
        case KIT_BATCH_ACCUMULATED_ELEMENT_COUNT: ret->shape[0] = batch->n_live; break;
        case KIT_BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO:
                ret->shape[0] = (int64_t)batch->n_live + 1;
                break;
        case KIT_BATCH_MAX_ELEMENT_COUNT_AS_SHAPE:
                ret->shape[0] = (int64_t)extent->max_elements;
                break;
        case KIT_BATCH_ITEM_SHAPE:
                ret->n_dims = 2;
                ret->shape[0] = batch->n_rows;
                ret->shape[1] = extent->n_item_dims;
                break;
        case KIT_BATCH_ITEM_SHAPE_FLATTEN:
                /* The rows are at most max_batch_size, an int32, and the dimensions few. */
                ret->shape[0] = batch->n_rows * (int64_t)extent->n_item_dims;
                break;
        }
}

/* Writes numbers of the type one after the other. */
struct numbers {
        const struct kit_batch_input *in;
        char                         *at;
};

static TRITONSERVER_Error *put_count(struct numbers *out, size_t number) {
        if (out->in->type == TRITONSERVER_TYPE_FP32) {
                float real = (float)number;

                memcpy(out->at, &real, sizeof(real));
        } else {
                int32_t integer = (int32_t)number;

                if (number > INT32_MAX)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "input '%s' has %zu elements, more than TYPE_INT32 of "
                                         "batch_input '%s' can count",
                                         out->in->source, number, out->in->target);
                memcpy(out->at, &integer, sizeof(integer));
        }
        out->at += 4;
        return NULL;
}

static TRITONSERVER_Error *put_item_shapes(struct numbers *out, const struct kit_batch *batch,
                                           const struct kit_slot  *slot,
                                           const struct kit_input *input) {
        uint32_t first, n_dims = item_dims(batch, input, &first);

        for (int64_t row = 0; row < slot->rows; row++)
                for (uint32_t i = 0; i < n_dims; i++)
                        KIT_TRY(put_count(out, (size_t)input->shape[first + i]));
        return NULL;
}

static TRITONSERVER_Error *put_all(struct numbers *out, const struct kit_batch *batch) {
        enum kit_batch_input_kind kind = out->in->kind;
        struct kit_slot          *slot = kit_batch_live(batch, batch->slots);
        size_t                    sum = 0;

        if (kind == KIT_BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO)
                KIT_TRY(put_count(out, 0));
        for (; slot != NULL; slot = kit_batch_live(batch, slot + 1)) {
                struct kit_input input;
                size_t           n;

                KIT_TRY(open_source(slot, out->in->source, &input, &n));
                if (!kit_size_add(sum, n, &sum))
                        sum = SIZE_MAX;
                if (is_item_shape(kind))
                        KIT_TRY(put_item_shapes(out, batch, slot, &input));
                else
                        KIT_TRY(put_count(out, kind == KIT_BATCH_ELEMENT_COUNT ? n : sum));
        }
        return NULL;
}

TRITONSERVER_Error *kit_batch_input_make(const struct kit_batch_input *in,
                                         const struct kit_batch *batch, struct kit_scratch *scratch,
                                         struct kit_gathered *ret) {
        struct numbers out = { .in = in };
        struct extent  extent;
        size_t         n;

        KIT_TRY(measure_batch_input(in, batch, &extent));
        ret->type = in->type;
        set_shape(in, batch, &extent, ret);
        KIT_TRY(kit_count_elements(ret->shape, ret->n_dims, in->target, &n));
        if (!kit_size_mul(n, 4, &ret->n_bytes))
                return kit_error_no_memory(SIZE_MAX, in->target);
        out.at = kit_scratch_reserve(scratch, ret->n_bytes);
        if (out.at == NULL)
                return kit_error_no_memory(ret->n_bytes, in->target);
        ret->bytes = out.at;
        if (in->kind != KIT_BATCH_MAX_ELEMENT_COUNT_AS_SHAPE)
                return put_all(&out, batch);
        memset(out.at, 0, ret->n_bytes);
        return NULL;
}

/* ---- outputs -------------------------------------------------------------------------------- */

/* Determines the shape of one request's part and its number of elements. */
static TRITONSERVER_Error *measure_part(const struct kit_batch_output *output,
                                        const struct kit_batch *batch, const struct kit_slot *slot,
                                        int64_t *shape, struct kit_output *part, size_t *ret_n) {
        const struct kit_tensor *target = output->target;
        uint32_t                 first = batch->has_row_dim ? 1 : 0;
        struct kit_input         input;

        KIT_TRY(kit_input_open(slot->request, output->source, &input));
        if (target->n_dims + first > KIT_MAX_DIMS)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "output '%s' has %u dimensions, more than the %d supported",
                                 target->name, target->n_dims + first, KIT_MAX_DIMS);
        if (batch->has_row_dim)
                shape[0] = slot->rows;
        for (uint32_t i = 0; i < target->n_dims; i++) {
                uint32_t at = first + i;

                if (target->dims[i] < 0 && at >= input.n_dims)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "dimension %u of output '%s' is variable, but input '%s' "
                                         "has %u dimensions",
                                         at, target->name, output->source, input.n_dims);
                shape[at] = target->dims[i] < 0 ? input.shape[at] : target->dims[i];
        }
        part->shape = shape;
        part->n_dims = target->n_dims + first;
        return kit_count_elements(shape, part->n_dims, target->name, ret_n);
}

static TRITONSERVER_Error *check_sum(const struct kit_batch_output *output,
                                     const struct kit_batch *batch, const struct kit_output *made) {
        struct kit_slot  *slot = kit_batch_live(batch, batch->slots);
        struct kit_output part = *made;
        int64_t           shape[KIT_MAX_DIMS];
        size_t            n_made, n, sum = 0;

        KIT_TRY(kit_count_elements(made->shape, made->n_dims, made->name, &n_made));
        for (; slot != NULL; slot = kit_batch_live(batch, slot + 1)) {
                KIT_TRY(measure_part(output, batch, slot, shape, &part, &n));
                if (!kit_size_add(sum, n, &sum))
                        sum = SIZE_MAX;
        }
        if (sum == n_made)
                return NULL;
        return kit_error(
                TRITONSERVER_ERROR_INTERNAL,
                "failed to split the output tensor '%s' in responses: expected %zu elements "
                "by the shapes of input '%s', got %zu",
                made->name, sum, output->source, n_made);
}

static TRITONSERVER_Error *write_part(const struct kit_batch *batch, struct kit_slot *slot,
                                      const struct kit_output *part, const void *bytes,
                                      const struct kit_place *place, size_t n_bytes) {
        struct kit_place to_place;
        void            *to;

        if (!kit_wants_output(slot->request, part->name))
                return NULL;
        if (batch->memory != NULL) {
                to_place = batch->memory->device;
                KIT_TRY(kit_output_new_at(slot->response, part, n_bytes, &to_place, &to));
                return kit_memory_copy(batch->memory,
                                       &(struct kit_copy){ to, bytes, n_bytes, to_place, *place },
                                       slot, NULL);
        }
        KIT_TRY(kit_output_new(slot->response, part, n_bytes, &to));
        if (n_bytes > 0)
                memmove(to, bytes, n_bytes); /* may be an input's, in the same memory of a client */
        return NULL;
}

TRITONSERVER_Error *kit_batch_output_scatter_from(const struct kit_batch_output *output,
                                                  struct kit_batch              *batch,
                                                  const struct kit_output *made, const void *bytes,
                                                  const struct kit_place *place) {
        size_t            element_bytes = TRITONSERVER_DataTypeByteSize(made->type);
        struct kit_slot  *slot;
        struct kit_output part = *made;
        const char       *at = bytes;
        int64_t           shape[KIT_MAX_DIMS];

        KIT_TRY(check_sum(output, batch, made));
        for (slot = kit_batch_live(batch, batch->slots); slot != NULL;
             slot = kit_batch_live(batch, slot + 1)) {
                TRITONSERVER_Error *err;
                size_t              n;

                KIT_TRY(measure_part(output, batch, slot, shape, &part, &n));
                err = write_part(batch, slot, &part, at, place, n * element_bytes);
                at += n * element_bytes;
                if (err != NULL)
                        kit_batch_fail(batch, slot, err);
        }
        return NULL;
}

TRITONSERVER_Error *kit_batch_output_scatter(const struct kit_batch_output *output,
                                             struct kit_batch *batch, const struct kit_output *made,
                                             const void *bytes) {
        static const struct kit_place on_host = { TRITONSERVER_MEMORY_CPU, 0 };

        return kit_batch_output_scatter_from(output, batch, made, bytes, &on_host);
}
