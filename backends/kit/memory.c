/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/memory.h"

#include "triton/core/neso.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 16

/* Other servers do not have it. */
#pragma weak NESO_MemoryManagerCopy

struct kit_copy_owner {
        struct kit_slot     *slot;  /* borrowed: the batch; NULL: all of it */
        TRITONBACKEND_State *state; /* borrowed: the request; NULL: an output, or an input */
};

TRITONSERVER_Error *kit_memory_open(TRITONBACKEND_ModelInstance *instance, struct kit_memory *ret) {
        TRITONBACKEND_Backend *backend;
        TRITONBACKEND_Model   *model;
        int32_t                device;

        *ret = (struct kit_memory){ 0 };
        KIT_TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
        KIT_TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
        KIT_TRY(TRITONBACKEND_ModelBackend(model, &backend));
        KIT_TRY(TRITONBACKEND_BackendMemoryManager(backend, &ret->manager));
        ret->device = (struct kit_place){ TRITONSERVER_MEMORY_GPU, device };
        return NULL;
}

void kit_memory_close(struct kit_memory *memory) {
        free(memory->copies);
        free(memory->owners);
        *memory = (struct kit_memory){ 0 };
}

/* ---- copies --------------------------------------------------------------------------------- */

/* Either array may become larger without the other; `room` is that of both. */
static bool make_room(struct kit_memory *memory) {
        uint32_t room = memory->room > 0 ? 2 * memory->room : FIRST_ROOM;
        size_t   copy_bytes, owner_bytes;
        void    *more;

        if (memory->n_copies < memory->room)
                return true;
        if (room < memory->room || !kit_size_mul(room, sizeof(*memory->copies), &copy_bytes) ||
            !kit_size_mul(room, sizeof(*memory->owners), &owner_bytes))
                return false;
        more = realloc(memory->copies, copy_bytes);
        if (more == NULL)
                return false;
        memory->copies = more;
        more = realloc(memory->owners, owner_bytes);
        if (more == NULL)
                return false;
        memory->owners = more;
        memory->room = room;
        return true;
}

struct NESO_MemoryCopy kit_copy_for_server(const struct kit_copy *copy) {
        return (struct NESO_MemoryCopy){
                .to = copy->to,
                .from = copy->from,
                .byte_size = copy->n_bytes,
                .to_type = copy->to_place.type,
                .from_type = copy->from_place.type,
                .to_id = copy->to_place.id,
                .from_id = copy->from_place.id,
        };
}

TRITONSERVER_Error *kit_memory_copy(struct kit_memory *memory, const struct kit_copy *copy,
                                    struct kit_slot *slot, TRITONBACKEND_State *state) {
        bool is_done = copy->n_bytes == 0;

        if (!is_done && !kit_place_is_gpu(&copy->to_place) &&
            !kit_place_is_gpu(&copy->from_place)) {
                memmove(copy->to, copy->from, copy->n_bytes); /* they may be the same memory of a
                                                               * client */
                is_done = true;
        }
        if (is_done && state == NULL)
                return NULL;
        if (!make_room(memory))
                return kit_error_no_memory(2 * memory->room * sizeof(*memory->copies),
                                           "copies of a batch");
        memory->owners[memory->n_copies] = (struct kit_copy_owner){ slot, state };
        memory->copies[memory->n_copies] = kit_copy_for_server(copy);
        if (is_done)
                memory->copies[memory->n_copies].byte_size = 0;
        memory->n_copies++;
        return NULL;
}

/* Some may have no bytes, for the sake of their states. */
static TRITONSERVER_Error *copy_some(const struct kit_memory      *memory,
                                     const struct NESO_MemoryCopy *copies, uint32_t n) {
        uint32_t i = 0;

        while (i < n && copies[i].byte_size == 0)
                i++;
        if (i == n)
                return NULL;
        if (NESO_MemoryManagerCopy == NULL)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "a tensor must be copied from or to a GPU, which this server does "
                                 "not do for backends");
        return NESO_MemoryManagerCopy(memory->manager, copies, n);
}

TRITONSERVER_Error *kit_memory_copy_now(const struct kit_memory *memory,
                                        const struct kit_copy   *copy) {
        const struct NESO_MemoryCopy one = kit_copy_for_server(copy);

        return copy_some(memory, &one, 1);
}

TRITONSERVER_Error *kit_memory_run(struct kit_memory *memory) {
        uint32_t n = memory->n_copies;

        memory->n_copies = 0;
        return copy_some(memory, memory->copies, n);
}

static bool is_live(const struct kit_copy_owner *owner) {
        return owner->slot == NULL || owner->slot->request != NULL;
}

static void fail_owner(struct kit_batch *batch, const struct kit_copy_owner *owner,
                       TRITONSERVER_Error *err) {
        if (err == NULL)
                return;
        if (owner->slot != NULL)
                kit_batch_fail(batch, owner->slot, err);
        else
                kit_batch_fail_all(batch, err);
}

/* After a failure of all together, which does not show whose copy it was. */
static void copy_each(struct kit_memory *memory, struct kit_batch *batch) {
        for (uint32_t i = 0; i < memory->n_copies; i++)
                if (is_live(&memory->owners[i]))
                        fail_owner(batch, &memory->owners[i],
                                   copy_some(memory, &memory->copies[i], 1));
}

/* A slot may have failed since its copies were collected: then its memory is the server's again. */
static void skip_ended(struct kit_memory *memory) {
        for (uint32_t i = 0; i < memory->n_copies; i++)
                if (!is_live(&memory->owners[i]))
                        memory->copies[i].byte_size = 0;
}

void kit_memory_finish(struct kit_memory *memory, struct kit_batch *batch) {
        TRITONSERVER_Error *err;

        skip_ended(memory);
        err = copy_some(memory, memory->copies, memory->n_copies);
        if (err != NULL) {
                TRITONSERVER_ErrorDelete(err);
                copy_each(memory, batch);
        }
        for (uint32_t i = 0; i < memory->n_copies; i++)
                if (memory->owners[i].state != NULL && is_live(&memory->owners[i]))
                        fail_owner(batch, &memory->owners[i],
                                   TRITONBACKEND_StateUpdate(memory->owners[i].state));
        memory->n_copies = 0;
}

void kit_memory_drop(struct kit_memory *memory) {
        memory->n_copies = 0;
}

/* ---- scratch memory ------------------------------------------------------------------------- */

TRITONSERVER_Error *kit_device_scratch_reserve(struct kit_device_scratch *scratch,
                                               const struct kit_memory *memory, size_t n_bytes) {
        if (scratch->bytes != NULL && n_bytes <= scratch->n_bytes)
                return NULL;
        kit_device_scratch_done(scratch, memory);
        KIT_TRY(TRITONBACKEND_MemoryManagerAllocate(memory->manager, &scratch->bytes,
                                                    memory->device.type, memory->device.id,
                                                    n_bytes));
        scratch->n_bytes = n_bytes;
        return NULL;
}

void kit_device_scratch_done(struct kit_device_scratch *scratch, const struct kit_memory *memory) {
        if (scratch->bytes != NULL)
                kit_error_log(TRITONBACKEND_MemoryManagerFree(memory->manager, scratch->bytes,
                                                              memory->device.type,
                                                              memory->device.id),
                              "failed to free memory of a GPU");
        *scratch = (struct kit_device_scratch){ 0 };
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* Some bytes of an input. */
struct piece {
        const void      *bytes;
        uint64_t         n_bytes;
        struct kit_place place;
};

/* What is known about an input of all live slots. */
struct survey {
        bool         has_gpu; /* some bytes are on a GPU */
        size_t       n_bytes;
        uint32_t     n_pieces; /* that have bytes */
        struct piece last;     /* of them */
};

/* Asks with the place that the backend prefers. */
static TRITONSERVER_Error *get_piece(const struct kit_memory *memory, const struct kit_input *input,
                                     uint32_t i, struct piece *ret) {
        ret->place = memory->device;
        return TRITONBACKEND_InputBuffer(input->triton, i, &ret->bytes, &ret->n_bytes,
                                         &ret->place.type, &ret->place.id);
}

static TRITONSERVER_Error *survey_input(const struct kit_memory *memory,
                                        const struct kit_input *input, struct survey *s) {
        if (!kit_size_add(s->n_bytes, input->n_bytes, &s->n_bytes))
                return kit_error_no_memory(SIZE_MAX, input->name);
        for (uint32_t i = 0; i < input->n_buffers; i++) {
                struct piece piece;

                KIT_TRY(get_piece(memory, input, i, &piece));
                if (piece.n_bytes == 0)
                        continue;
                s->n_pieces++;
                s->last = piece;
                s->has_gpu = s->has_gpu || kit_place_is_gpu(&piece.place);
        }
        return NULL;
}

static TRITONSERVER_Error *survey_all(const struct kit_batch *batch, const char *name,
                                      struct kit_gathered *ret, struct survey *s) {
        struct kit_slot *slot = kit_batch_live(batch, batch->slots);

        *s = (struct survey){ 0 };
        for (bool is_first = true; slot != NULL; slot = kit_batch_live(batch, slot + 1)) {
                struct kit_input input;

                KIT_TRY(kit_input_open(slot->request, name, &input));
                if (is_first)
                        KIT_TRY(kit_input_describe(&input, ret));
                is_first = false;
                KIT_TRY(survey_input(batch->memory, &input, s));
        }
        ret->n_bytes = s->n_bytes;
        return NULL;
}

static TRITONSERVER_Error *copy_input(struct kit_memory *memory, const struct kit_input *input,
                                      char *to) {
        uint64_t done = 0;

        for (uint32_t i = 0; i < input->n_buffers; i++) {
                struct kit_copy copy = { .to = to + done, .to_place = memory->device };
                struct piece    piece;

                KIT_TRY(get_piece(memory, input, i, &piece));
                if (piece.n_bytes > input->n_bytes - done)
                        break;
                copy.from = piece.bytes;
                copy.from_place = piece.place;
                copy.n_bytes = piece.n_bytes;
                KIT_TRY(kit_memory_copy(memory, &copy, NULL, NULL));
                done += piece.n_bytes;
        }
        if (done != input->n_bytes)
                return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                 "the buffers of input '%s' do not add up to its %llu bytes",
                                 input->name, (unsigned long long)input->n_bytes);
        return NULL;
}

static TRITONSERVER_Error *copy_inputs(const struct kit_batch *batch, const char *name, char *to) {
        struct kit_slot *slot = kit_batch_live(batch, batch->slots);

        for (; slot != NULL; slot = kit_batch_live(batch, slot + 1)) {
                struct kit_input input;

                KIT_TRY(kit_input_open(slot->request, name, &input));
                KIT_TRY(copy_input(batch->memory, &input, to));
                to += input.n_bytes;
        }
        return NULL;
}

static bool lies_well(const struct kit_memory *memory, const struct survey *s) {
        return s->n_pieces == 1 && s->last.place.id == memory->device.id &&
               (uintptr_t)s->last.bytes % KIT_DEVICE_ALIGNMENT == 0;
}

TRITONSERVER_Error *kit_gather_on(const struct kit_batch *batch, const char *name,
                                  struct kit_scratch *host, struct kit_device_scratch *device,
                                  struct kit_gathered_on *ret) {
        struct survey s;

        KIT_TRY(survey_all(batch, name, &ret->tensor, &s));
        if (!s.has_gpu) {
                ret->place = (struct kit_place){ TRITONSERVER_MEMORY_CPU, 0 };
                return kit_gather(batch, name, host, &ret->tensor);
        }
        if (ret->tensor.type == TRITONSERVER_TYPE_BYTES)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "input '%s' has strings in GPU memory, which this backend cannot "
                                 "read",
                                 name);
        ret->place = batch->memory->device;
        ret->tensor.bytes = s.last.bytes;
        if (batch->has_row_dim && batch->n_live > 1 && ret->tensor.n_dims > 0)
                ret->tensor.shape[0] = batch->n_rows;
        if (batch->n_live == 1 && lies_well(batch->memory, &s))
                return NULL;
        KIT_TRY(kit_device_scratch_reserve(device, batch->memory, s.n_bytes));
        ret->tensor.bytes = device->bytes;
        return copy_inputs(batch, name, device->bytes);
}
