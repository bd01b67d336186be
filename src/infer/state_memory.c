/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/state_memory.h"

#include "base/byte_budget.h"
#include "base/mem.h"
#include "gpu/gpu.h"

#include <string.h>

#define STATE_ALIGNMENT 64

static const struct state_place on_host = { MEMORY_CPU, GPU_HOST };

/* ---- places ---------------------------------------------------------------------------------- */

static COLD struct error *unknown_device(const struct gpus *g, int64_t id) {
        return error_new(ERR_INVALID_ARG,
                         "memory of GPU %lld was asked for, but the server uses the GPUs %s",
                         (long long)id, gpus_list(g));
}

struct error *state_place_find(const struct gpus *g, enum memory_type type, int64_t id,
                               struct state_place *ret) {
        *ret = on_host;
        if (g == NULL || type == MEMORY_CPU)
                return NULL;
        if (type == MEMORY_GPU && gpus_find(g, id) == NULL)
                return unknown_device(g, id);
        ret->type = type;
        if (type == MEMORY_GPU)
                ret->device = (int)id;
        return NULL;
}

struct buffer_attributes state_place_attributes(struct state_place place, size_t n_bytes) {
        return (struct buffer_attributes){ .memory_type = place.type,
                                           .memory_id = place.type == MEMORY_GPU ? place.device : 0,
                                           .byte_size = n_bytes };
}

static bool is_equal(struct state_place a, struct state_place b) {
        return a.type == b.type && a.device == b.device;
}

bool state_memory_is_at(const struct state_memory *m, struct state_place place) {
        return m->bytes != NULL && (is_equal(m->place, place) || is_equal(m->wanted, place));
}

/* ---- one kind of memory each ------------------------------------------------------------------ */

static struct error *out_of_memory(size_t n) {
        return error_new(ERR_UNAVAILABLE, "out of memory for a state of %zu bytes", n);
}

static struct error *alloc_host(size_t n, struct state_memory *ret) {
        ret->bytes = try_aligned_alloc(STATE_ALIGNMENT, n);
        ret->place = on_host;
        return ret->bytes != NULL ? NULL : out_of_memory(n);
}

static struct error *alloc_pinned(struct gpus *g, size_t n, struct state_memory *ret) {
        bool is_pinned;

        TRY(gpu_pinned_alloc(g, n, &ret->bytes, &is_pinned));
        ret->place = (struct state_place){ is_pinned ? MEMORY_CPU_PINNED : MEMORY_CPU, GPU_HOST };
        return NULL;
}

/* Memory of the host is charged before it is taken. */
static struct error *alloc_charged(const struct state_source *source, bool is_ordinary, size_t n,
                                   struct state_memory *ret) {
        struct error *err;

        if (source->budget != NULL && !byte_budget_take(source->budget, n))
                return out_of_memory(n);
        err = is_ordinary ? alloc_host(n, ret) : alloc_pinned(source->gpus, n, ret);
        if (err != NULL && source->budget != NULL)
                byte_budget_give(source->budget, n);
        return err;
}

static struct error *alloc_growing(struct gpus *g, int device, size_t n, struct state_memory *ret) {
        struct error *err;

        TRY(gpu_growable_new(g, device, 0, &ret->growable));
        err = gpu_growable_reserve(ret->growable, n);
        if (err != NULL)
                gpu_growable_free(ret->growable);
        else
                ret->bytes = gpu_growable_memory(ret->growable);
        return err;
}

/* When the host has no room, either, the error is the device's. */
static struct error *alloc_device(const struct state_source *source, int device, size_t n,
                                  struct state_memory *ret) {
        struct error *err = gpu_alloc(source->gpus, device, n, &ret->bytes);
        AUTO_ERROR    second = err != NULL ? alloc_charged(source, false, n, ret) : NULL;

        if (err == NULL || second != NULL)
                return err;
        error_free(err);
        return NULL;
}

static struct error *alloc_at(const struct state_source *source, struct state_place place,
                              bool grows, size_t n, struct state_memory *ret) {
        *ret = (struct state_memory){ .n_room = n, .place = place, .wanted = place };
        if (place.type != MEMORY_GPU)
                return alloc_charged(source, place.type == MEMORY_CPU, n, ret);
        return grows ? alloc_growing(source->gpus, place.device, n, ret)
                     : alloc_device(source, place.device, n, ret);
}

void state_memory_free(const struct state_source *source, struct state_memory *m) {
        if (m->bytes == NULL)
                return;
        if (m->growable != NULL)
                gpu_growable_free(m->growable);
        else if (m->place.type == MEMORY_GPU)
                gpu_free(source->gpus, m->place.device, m->bytes);
        else if (m->wanted.type == MEMORY_CPU)
                mem_free_large(m->bytes, m->n_room);
        else
                gpu_pinned_free(source->gpus, m->bytes);
        if (m->place.type != MEMORY_GPU && source->budget != NULL)
                byte_budget_give(source->budget, m->n_room);
        *m = (struct state_memory){ 0 };
}

/* ---- room ------------------------------------------------------------------------------------- */

/* Room for growth: a value that grows with each request is not reallocated each time. */
static bool choose_room(const struct state_memory *old, bool grows, size_t n_bytes, size_t *ret) {
        size_t n_room = MAX(n_bytes, (size_t)STATE_ALIGNMENT);

        if (!grows && old->bytes != NULL && old->n_room / 2 <= SIZE_MAX - old->n_room)
                n_room = MAX(n_room, old->n_room + old->n_room / 2);
        if (n_room > SIZE_MAX - STATE_ALIGNMENT)
                return false;
        *ret = (n_room + STATE_ALIGNMENT - 1) / STATE_ALIGNMENT * STATE_ALIGNMENT;
        return true;
}

struct error *state_memory_reserve(const struct state_source *source, struct state_memory *m,
                                   struct state_place place, bool grows, size_t n_bytes) {
        bool                is_there = state_memory_is_at(m, place);
        struct state_memory larger;
        size_t              n_room;

        if (is_there && m->n_room >= n_bytes)
                return NULL;
        if (!choose_room(m, grows || !is_there, n_bytes, &n_room))
                return out_of_memory(n_bytes);
        if (is_there && m->growable != NULL) {
                TRY(gpu_growable_reserve(m->growable, n_room));
                m->n_room = n_room;
                return NULL;
        }
        TRY(alloc_at(source, place, grows, n_room, &larger));
        state_memory_free(source, m);
        *m = larger;
        return NULL;
}

/* ---- contents --------------------------------------------------------------------------------- */

struct error *state_memory_copy(const struct state_source *source, const struct state_memory *to,
                                const struct state_memory *from, size_t n_bytes) {
        struct gpu_copy copy = { .to = to->bytes,
                                 .from = from->bytes,
                                 .to_device = to->place.device,
                                 .from_device = from->place.device,
                                 .bytes = n_bytes };

        return n_bytes > 0 ? gpu_copy_all(source->gpus, &copy, 1) : NULL;
}

struct error *state_memory_write(const struct state_source *source, const struct state_memory *to,
                                 const void *bytes, size_t n_bytes) {
        struct state_memory from = { .bytes = (void *)bytes, .place = on_host };

        if (to->place.type == MEMORY_GPU && bytes != NULL)
                return state_memory_copy(source, to, &from, n_bytes);
        if (to->place.type == MEMORY_GPU)
                return gpu_zero(source->gpus, to->place.device, to->bytes, n_bytes);
        if (bytes != NULL)
                memcpy(to->bytes, bytes, n_bytes);
        else
                memset(to->bytes, 0, n_bytes);
        return NULL;
}
