/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/holds.h"

#include "kit/scratch.h"
#include "python/device_memory.h"

#include <stdlib.h>

#define FEW_PIECES 16

/* ---- one hold -------------------------------------------------------------------------------- */

struct hold *hold_new(const struct model *model, uint32_t n_inputs) {
        struct hold *hold =
                kit_alloc_array(1, sizeof(*hold) + n_inputs * sizeof(struct held_input));

        if (hold == NULL)
                return NULL;
        hold->backend = model->backend;
        hold->number = atomic_fetch_add(&model->backend->n_holds, 1) + 1;
        hold->in_place = model->takes_in_place;
        hold->n_users = 1;
        hold->n_inputs = n_inputs;
        for (uint32_t i = 0; i < n_inputs; i++)
                hold->inputs[i].device = -1;
        return hold;
}

void hold_free(struct hold *hold) {
        if (hold == NULL)
                return;
        if (hold->request != NULL)
                kit_error_log(TRITONBACKEND_RequestRelease(hold->request, hold->release_flags),
                              "Failed to release request");
        for (uint32_t i = 0; i < hold->n_inputs; i++)
                if (hold->inputs[i].is_copy)
                        device_free(hold->backend, hold->inputs[i].device,
                                    (void *)(uintptr_t)hold->inputs[i].memory);
        free(hold);
}

/* ---- sharing --------------------------------------------------------------------------------- */

TRITONSERVER_Error *hold_is_needed(const struct kit_input *input, bool *ret) {
        *ret = false;
        for (uint32_t i = 0; i < input->n_buffers && !*ret; i++) {
                TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
                int64_t                 id = 0;
                const void             *bytes;
                uint64_t                n_bytes;

                KIT_TRY(TRITONBACKEND_InputBuffer(input->triton, i, &bytes, &n_bytes, &type, &id));
                *ret = type == TRITONSERVER_MEMORY_GPU && n_bytes > 0;
        }
        return NULL;
}

static TRITONSERVER_Error *get_piece(const struct kit_input *input, uint32_t i,
                                     struct device_bytes *ret, uint64_t *ret_n_bytes) {
        ret->place = (struct kit_place){ TRITONSERVER_MEMORY_CPU, 0 };
        return TRITONBACKEND_InputBuffer(input->triton, i, &ret->bytes, ret_n_bytes,
                                         &ret->place.type, &ret->place.id);
}

/* The one buffer of an input, where it lies. */
static TRITONSERVER_Error *share_whole(struct hold *hold, uint32_t i, const struct kit_input *input,
                                       struct shm_device *ret) {
        struct held_input             *held = &hold->inputs[i];
        TRITONSERVER_BufferAttributes *attributes;
        const void                    *memory;
        void                          *known = NULL;

        KIT_TRY(TRITONBACKEND_InputBufferAttributes(input->triton, 0, &memory, &attributes));
        KIT_TRY(TRITONSERVER_BufferAttributesMemoryTypeId(attributes, &held->device));
        KIT_TRY(TRITONSERVER_BufferAttributesCudaIpcHandle(attributes, &known));
        KIT_TRY(device_share(hold->backend, held->device, memory, known, ret));
        held->memory = memory;
        return NULL;
}

static TRITONSERVER_Error *find_device(const struct kit_input *input, int64_t *ret) {
        for (uint32_t i = 0; i < input->n_buffers; i++) {
                struct device_bytes piece;
                uint64_t            n_bytes;

                KIT_TRY(get_piece(input, i, &piece, &n_bytes));
                if (kit_place_is_gpu(&piece.place)) {
                        *ret = piece.place.id;
                        return NULL;
                }
        }
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "input '%s' is on no GPU", input->name);
}

static TRITONSERVER_Error *share_copy(struct hold *hold, uint32_t i, const struct kit_input *input,
                                      struct shm_device *ret) {
        struct held_input *held = &hold->inputs[i];
        void              *copy;

        KIT_TRY(find_device(input, &held->device));
        KIT_TRY(device_alloc(hold->backend, held->device, input->n_bytes, &copy));
        held->memory = copy;
        held->is_copy = true;
        return device_share(hold->backend, held->device, copy, NULL, ret);
}

/* Takes `err`. */
static TRITONSERVER_Error *cannot_share(const struct kit_input *input, TRITONSERVER_Error *err) {
        TRITONSERVER_Error *longer =
                kit_error(TRITONSERVER_ErrorCode(err),
                          "input '%s' cannot be shared with the Python process: %s", input->name,
                          TRITONSERVER_ErrorMessage(err));

        TRITONSERVER_ErrorDelete(err);
        return longer;
}

TRITONSERVER_Error *hold_share(struct hold *hold, uint32_t i, const struct kit_input *input,
                               struct shm_device *ret) {
        TRITONSERVER_Error *err;

        *ret = (struct shm_device){ .hold = hold->number, .input = i };
        if (hold->in_place && input->n_buffers == 1)
                err = share_whole(hold, i, input, ret);
        else
                err = share_copy(hold, i, input, ret);
        if (err != NULL)
                return cannot_share(input, err);
        hold->inputs[i].n_bytes = input->n_bytes;
        return NULL;
}

/* ---- copying --------------------------------------------------------------------------------- */

static TRITONSERVER_Error *list_pieces(const struct held_input *held, const struct kit_input *input,
                                       struct NESO_MemoryCopy *ret) {
        uint64_t done = 0;

        for (uint32_t i = 0; i < input->n_buffers; i++) {
                struct device_bytes from;
                uint64_t            n_bytes;

                KIT_TRY(get_piece(input, i, &from, &n_bytes));
                if (n_bytes > input->n_bytes - done)
                        break;
                ret[i] = kit_copy_for_server(
                        &(struct kit_copy){ .to = (char *)(uintptr_t)held->memory + done,
                                            .from = from.bytes,
                                            .n_bytes = (size_t)n_bytes,
                                            .to_place = { TRITONSERVER_MEMORY_GPU, held->device },
                                            .from_place = from.place });
                done += n_bytes;
        }
        if (done != input->n_bytes)
                return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                 "the buffers of input '%s' do not add up to its %llu bytes",
                                 input->name, (unsigned long long)input->n_bytes);
        return NULL;
}

static TRITONSERVER_Error *fill_copies(const struct hold *hold, const struct kit_input *inputs,
                                       struct NESO_MemoryCopy *copies) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < hold->n_inputs; i++) {
                if (!hold->inputs[i].is_copy)
                        continue;
                KIT_TRY(list_pieces(&hold->inputs[i], &inputs[i], copies + n));
                n += inputs[i].n_buffers;
        }
        return n > 0 ? device_copy_all(hold->backend, copies, n) : NULL;
}

TRITONSERVER_Error *hold_fill(const struct hold *hold, const struct kit_input *inputs) {
        struct NESO_MemoryCopy few[FEW_PIECES], *many = few;
        uint32_t               n = 0;
        TRITONSERVER_Error    *err;

        for (uint32_t i = 0; i < hold->n_inputs; i++)
                n += hold->inputs[i].is_copy ? inputs[i].n_buffers : 0;
        if (n > FEW_PIECES)
                many = kit_alloc_array(n, sizeof(*many));
        if (many == NULL)
                return kit_error_no_memory(n * sizeof(*many), "inputs on a GPU");
        err = fill_copies(hold, inputs, many);
        if (many != few)
                free(many);
        return err;
}

/* ---- those of an instance --------------------------------------------------------------------- */

static void unlink_locked(struct instance *in, struct hold *hold) {
        struct hold **link = &in->holds;

        while (*link != hold)
                link = &(*link)->next;
        *link = hold->next;
        if (hold->entry != NULL)
                hold->entry->hold = NULL;
        hold->entry = NULL;
}

void holds_leave(struct instance *in, struct hold *hold) {
        bool is_last;

        if (hold == NULL)
                return;
        (void)pthread_mutex_lock(&in->lock);
        is_last = --hold->n_users == 0;
        (void)pthread_mutex_unlock(&in->lock);
        if (is_last)
                hold_free(hold);
}

void holds_drop(struct entry *e) {
        struct instance *in = e->instance;
        struct hold     *hold;

        (void)pthread_mutex_lock(&in->lock);
        hold = e->hold;
        if (hold != NULL)
                unlink_locked(in, hold);
        (void)pthread_mutex_unlock(&in->lock);
        holds_leave(in, hold);
}

void holds_add(struct entry *e, struct hold *hold) {
        struct instance *in = e->instance;

        holds_drop(e); /* of a process that has ended before it began with the request */
        (void)pthread_mutex_lock(&in->lock);
        hold->entry = e;
        hold->next = in->holds;
        in->holds = hold;
        e->hold = hold;
        (void)pthread_mutex_unlock(&in->lock);
}

/* Inputs in place are the request's. */
static bool end_in_place_locked(struct entry *e, struct hold *hold, uint32_t release_flags) {
        unlink_locked(e->instance, hold);
        if (--hold->n_users == 0)
                return false;
        hold->request = e->request;
        hold->release_flags = release_flags;
        e->request = NULL;
        return true;
}

bool holds_release(struct entry *e, uint32_t release_flags) {
        struct instance *in = e->instance;
        struct hold     *hold, *ended = NULL;
        bool             is_later = false;

        (void)pthread_mutex_lock(&in->lock);
        hold = e->hold;
        if (hold != NULL && hold->in_place) {
                is_later = end_in_place_locked(e, hold, release_flags);
                ended = is_later ? NULL : hold;
        } else if (hold != NULL) {
                hold->entry = NULL;
                e->hold = NULL;
        }
        (void)pthread_mutex_unlock(&in->lock);
        hold_free(ended);
        return is_later;
}

TRITONSERVER_Error *holds_add_output(struct instance *in, const struct session *s, int64_t device,
                                     void *memory, uint64_t n_bytes, struct shm_device *place) {
        struct hold *hold = hold_new(in->model, 1);
        bool         is_over;

        if (hold == NULL)
                return kit_error_no_memory(sizeof(*hold), "an output");
        hold->in_place = false;
        hold->inputs[0] = (struct held_input){ memory, n_bytes, device, true };
        place->hold = hold->number;
        (void)pthread_mutex_lock(&in->lock);
        is_over = session_is_over(s);
        if (!is_over) {
                hold->next = in->holds;
                in->holds = hold;
        }
        (void)pthread_mutex_unlock(&in->lock);
        if (!is_over)
                return NULL;
        free(hold); /* the memory stays the caller's */
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "the Python process has ended");
}

static struct hold *find_locked(const struct instance *in, uint64_t number) {
        struct hold *hold = in->holds;

        while (hold != NULL && hold->number != number)
                hold = hold->next;
        return hold;
}

void holds_on_dropped(struct instance *in, uint64_t number) {
        struct hold *hold;

        (void)pthread_mutex_lock(&in->lock);
        hold = find_locked(in, number);
        if (hold != NULL)
                unlink_locked(in, hold);
        (void)pthread_mutex_unlock(&in->lock);
        holds_leave(in, hold);
}

/* Inputs in place end with their request, which a call may still read. */
static struct hold *take_ended(struct instance *in) {
        struct hold *hold;

        (void)pthread_mutex_lock(&in->lock);
        hold = in->holds;
        while (hold != NULL && hold->in_place && hold->entry != NULL)
                hold = hold->next;
        if (hold != NULL)
                unlink_locked(in, hold);
        (void)pthread_mutex_unlock(&in->lock);
        return hold;
}

void holds_end_all(struct instance *in) {
        struct hold *hold;

        while ((hold = take_ended(in)) != NULL)
                holds_leave(in, hold);
}

struct hold *holds_find(struct instance *in, const struct shm_device *place, uint64_t n_bytes,
                        struct device_bytes *ret) {
        const struct held_input *held = NULL;
        struct hold             *hold;

        (void)pthread_mutex_lock(&in->lock);
        hold = find_locked(in, place->hold);
        if (hold != NULL && place->input < hold->n_inputs)
                held = &hold->inputs[place->input];
        if (held == NULL || held->memory == NULL || place->offset > held->n_bytes ||
            n_bytes > held->n_bytes - place->offset)
                hold = NULL;
        if (hold != NULL) {
                hold->n_users++;
                *ret = (struct device_bytes){ { TRITONSERVER_MEMORY_GPU, held->device },
                                              (const char *)held->memory + place->offset };
        }
        (void)pthread_mutex_unlock(&in->lock);
        return hold;
}
