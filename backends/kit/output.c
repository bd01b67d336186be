/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/output.h"

#include <stdlib.h>
#include <string.h>

bool kit_wants_output(TRITONBACKEND_Request *request, const char *name) {
        TRITONSERVER_Error *err;
        uint32_t            n = 0;

        err = TRITONBACKEND_RequestOutputCount(request, &n);
        for (uint32_t i = 0; err == NULL && i < n; i++) {
                const char *wanted;

                err = TRITONBACKEND_RequestOutputName(request, i, &wanted);
                if (err == NULL && strcmp(wanted, name) == 0)
                        return true;
        }
        kit_error_log(err, "failed to read the requested outputs");
        return false;
}

static const struct kit_place on_host = { TRITONSERVER_MEMORY_CPU, 0 };

TRITONSERVER_Error *kit_output_new_at(TRITONBACKEND_Response  *response,
                                      const struct kit_output *output, size_t n_bytes,
                                      struct kit_place *place, void **ret) {
        TRITONBACKEND_Output *made;

        KIT_TRY(TRITONBACKEND_ResponseOutput(response, &made, output->name, output->type,
                                             output->shape, output->n_dims));
        return TRITONBACKEND_OutputBuffer(made, ret, n_bytes, &place->type, &place->id);
}

TRITONSERVER_Error *kit_output_new(TRITONBACKEND_Response  *response,
                                   const struct kit_output *output, size_t n_bytes, void **ret) {
        struct kit_place place = on_host;

        KIT_TRY(kit_output_new_at(response, output, n_bytes, &place, ret));
        if (kit_place_is_gpu(&place))
                return kit_error(
                        TRITONSERVER_ERROR_UNSUPPORTED,
                        "output '%s' was given GPU memory, which this backend cannot write",
                        output->name);
        return NULL;
}

TRITONSERVER_Error *kit_state_new_at(TRITONBACKEND_Request   *request,
                                     const struct kit_output *output, size_t n_bytes,
                                     struct kit_place *place, TRITONBACKEND_State **ret_state,
                                     void **ret) {
        KIT_TRY(TRITONBACKEND_StateNew(ret_state, request, output->name, output->type,
                                       output->shape, output->n_dims));
        return TRITONBACKEND_StateBuffer(*ret_state, ret, n_bytes, &place->type, &place->id);
}

TRITONSERVER_Error *kit_state_new(TRITONBACKEND_Request *request, const struct kit_output *output,
                                  size_t n_bytes, TRITONBACKEND_State **ret_state, void **ret) {
        struct kit_place place = on_host;

        KIT_TRY(kit_state_new_at(request, output, n_bytes, &place, ret_state, ret));
        if (kit_place_is_gpu(&place))
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "state '%s' was given GPU memory, which this backend cannot write",
                                 output->name);
        return NULL;
}

/* Describes the output of one slot: the same tensor with the slot's own rows. `shape` is room for
 * its shape. */
static struct kit_output cut(const struct kit_batch *batch, const struct kit_slot *slot,
                             const struct kit_output *output, int64_t *shape) {
        struct kit_output part = *output;

        memcpy(shape, output->shape, output->n_dims * sizeof(*shape));
        if (batch->has_row_dim)
                shape[0] = slot->rows;
        part.shape = shape;
        return part;
}

static TRITONSERVER_Error *check_rows(const struct kit_batch  *batch,
                                      const struct kit_output *output) {
        int64_t rows;

        if (output->n_dims > KIT_MAX_DIMS)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "output '%s' has %u dimensions, more than the %d supported",
                                 output->name, output->n_dims, KIT_MAX_DIMS);
        if (!batch->has_row_dim && batch->n_live <= 1)
                return NULL;
        rows = batch->has_row_dim && output->n_dims > 0 ? output->shape[0] : 0;
        if (rows == batch->n_rows)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "failed to split the output tensor '%s' in responses: expected batch size "
                         "of %lld in model output, got %lld",
                         output->name, (long long)batch->n_rows, (long long)rows);
}

/* Returns false when nothing is left to scatter: no slot is live, or all slots were failed. */
static bool can_cut(struct kit_batch *batch, const struct kit_output *output) {
        TRITONSERVER_Error *err;

        if (batch->n_live == 0)
                return false;
        err = check_rows(batch, output);
        if (err != NULL)
                kit_batch_fail_all(batch, err);
        return err == NULL;
}

/* Destination of a slot's part: the buffer of an output, or of a state, which must be committed. */
struct target {
        void                *bytes;
        struct kit_place     place;
        TRITONBACKEND_State *state; /* NULL: an output */
};

/* Asks for memory of the preferred place; on the host unless the batch has a memory. */
static TRITONSERVER_Error *open_target(const struct kit_batch *batch, const struct kit_slot *slot,
                                       const struct kit_output *part, size_t n_bytes,
                                       const struct kit_place *preferred, struct target *ret) {
        ret->state = NULL;
        ret->place = *preferred;
        if (batch->memory != NULL && !part->is_state)
                return kit_output_new_at(slot->response, part, n_bytes, &ret->place, &ret->bytes);
        if (batch->memory != NULL)
                return kit_state_new_at(slot->request, part, n_bytes, &ret->place, &ret->state,
                                        &ret->bytes);
        if (!part->is_state)
                return kit_output_new(slot->response, part, n_bytes, &ret->bytes);
        return kit_state_new(slot->request, part, n_bytes, &ret->state, &ret->bytes);
}

static TRITONSERVER_Error *close_target(const struct target *target) {
        return target->state != NULL ? TRITONBACKEND_StateUpdate(target->state) : NULL;
}

static bool is_wanted(const struct kit_slot *slot, const struct kit_output *output) {
        return output->is_state || kit_wants_output(slot->request, output->name);
}

/* What is cut into parts. */
struct source {
        const char             *bytes;
        const struct kit_place *place;     /* of a batch with a memory */
        const struct kit_place *preferred; /* of the outputs */
};

static TRITONSERVER_Error *write_part(const struct kit_batch *batch, struct kit_slot *slot,
                                      const struct kit_output *part, const struct source *source,
                                      size_t n_bytes) {
        struct target target;

        if (!is_wanted(slot, part))
                return NULL;
        KIT_TRY(open_target(batch, slot, part, n_bytes, source->preferred, &target));
        if (batch->memory != NULL)
                return kit_memory_copy(batch->memory,
                                       &(struct kit_copy){ target.bytes, source->bytes, n_bytes,
                                                           target.place, *source->place },
                                       slot, target.state);
        if (n_bytes > 0)
                memmove(target.bytes, source->bytes, n_bytes); /* may be an input's, in the same
                                                                * memory of a client */
        return close_target(&target);
}

static void scatter(struct kit_batch *batch, const struct kit_output *output, struct source *source,
                    size_t n_bytes) {
        int64_t          shape[KIT_MAX_DIMS];
        struct kit_slot *slot;
        size_t           row_bytes;

        if (!can_cut(batch, output))
                return;
        row_bytes = n_bytes / (batch->has_row_dim ? (size_t)batch->n_rows : 1);
        for (slot = kit_batch_live(batch, batch->slots); slot != NULL;
             slot = kit_batch_live(batch, slot + 1)) {
                struct kit_output   part = cut(batch, slot, output, shape);
                size_t              part_bytes = row_bytes * (size_t)slot->rows;
                TRITONSERVER_Error *err = write_part(batch, slot, &part, source, part_bytes);

                if (part_bytes > 0) /* `bytes` may be NULL otherwise */
                        source->bytes += part_bytes;
                if (err != NULL)
                        kit_batch_fail(batch, slot, err);
        }
}

void kit_scatter(struct kit_batch *batch, const struct kit_output *output, const void *bytes,
                 size_t n_bytes) {
        struct source source = { bytes, &on_host, &on_host };

        scatter(batch, output, &source, n_bytes);
}

void kit_scatter_from(struct kit_batch *batch, const struct kit_output *output, const void *bytes,
                      const struct kit_place *place, size_t n_bytes) {
        struct source source = { bytes, place, &batch->memory->device };

        scatter(batch, output, &source, n_bytes);
}

/* The allocator has given memory of a GPU for strings, which the CPU writes. */
static TRITONSERVER_Error *send_strings(const struct kit_memory         *memory,
                                        const struct kit_packed_strings *strings, size_t first,
                                        size_t count, size_t n_bytes, const struct target *target) {
        void               *encoded = kit_alloc_array(n_bytes, 1);
        TRITONSERVER_Error *err;

        if (encoded == NULL)
                return kit_error_no_memory(n_bytes, "strings for a GPU");
        kit_strings_encode(strings, first, count, encoded);
        err = kit_memory_copy_now(memory, &(struct kit_copy){ target->bytes, encoded, n_bytes,
                                                              target->place, on_host });
        free(encoded);
        return err;
}

static TRITONSERVER_Error *write_strings(const struct kit_batch *batch, const struct kit_slot *slot,
                                         const struct kit_output         *part,
                                         const struct kit_packed_strings *strings, size_t first,
                                         size_t count) {
        struct target target;
        size_t        n_bytes;

        if (!is_wanted(slot, part))
                return NULL;
        KIT_TRY(kit_strings_encoded_size(strings, first, count, &n_bytes));
        KIT_TRY(open_target(batch, slot, part, n_bytes, &on_host, &target));
        if (kit_place_is_gpu(&target.place))
                KIT_TRY(send_strings(batch->memory, strings, first, count, n_bytes, &target));
        else
                kit_strings_encode(strings, first, count, target.bytes);
        return close_target(&target);
}

void kit_scatter_strings(struct kit_batch *batch, const struct kit_output *output,
                         const struct kit_packed_strings *strings) {
        int64_t          shape[KIT_MAX_DIMS];
        struct kit_slot *slot;
        size_t           row_count, first = 0;

        if (!can_cut(batch, output))
                return;
        row_count = strings->n / (batch->has_row_dim ? (size_t)batch->n_rows : 1);
        for (slot = kit_batch_live(batch, batch->slots); slot != NULL;
             slot = kit_batch_live(batch, slot + 1)) {
                struct kit_output   part = cut(batch, slot, output, shape);
                size_t              count = row_count * (size_t)slot->rows;
                TRITONSERVER_Error *err = write_strings(batch, slot, &part, strings, first, count);

                first += count;
                if (err != NULL)
                        kit_batch_fail(batch, slot, err);
        }
}
