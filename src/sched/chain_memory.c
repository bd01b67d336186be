/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/chain_memory.h"

#include "base/buf.h"
#include "base/mem.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/response.h"
#include "sched/step_memory.h"

#include <stdint.h>

#define ALIGNMENT 64 /* that of buffers: what the widest vector of a backend reads with */

/* The lowest bit of an output's userp: a record; else it is a buffer, or NULL for one in the run. */
#define RECORD_MARK 1

void chain_memory_init(struct chain_memory *m, const struct request *outer,
                       struct step_memory *large) {
        m->outer = outer;
        m->large = large;
        m->is_direct = false;
        m->half = 0;
        atomic_init(&m->n_used, 0);
        atomic_init(&m->n_records, 0);
        m->small = (char *)(((uintptr_t)m->room + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
}

void chain_memory_begin_stage(struct chain_memory *m, bool is_last) {
        const struct response_allocator *a = m->outer->allocator;

        m->half ^= 1;
        atomic_store_explicit(&m->n_used, 0, memory_order_relaxed);
        m->is_direct = is_last && a != NULL && a->start == NULL;
}

static void *take_small(struct chain_memory *m, size_t bytes) {
        size_t room, at;

        if (bytes > CHAIN_HALF_BYTES)
                return NULL;
        room = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
        at = atomic_fetch_add_explicit(&m->n_used, room, memory_order_relaxed);
        return at + room <= CHAIN_HALF_BYTES ? m->small + m->half * CHAIN_HALF_BYTES + at : NULL;
}

static struct chain_record *new_record(struct chain_memory *m) {
        unsigned             at = atomic_fetch_add_explicit(&m->n_records, 1, memory_order_relaxed);
        struct chain_record *r = at < CHAIN_N_RECORDS ? &m->records[at] : try_alloc(sizeof(*r));

        if (r != NULL)
                *r = (struct chain_record){ .allocator = m->outer->allocator,
                                            .is_inline = at < CHAIN_N_RECORDS };
        return r;
}

static void free_record(struct chain_record *r) {
        if (!r->is_inline)
                free(r);
}

static struct chain_record *record_of(void *userp) {
        uintptr_t bits = (uintptr_t)userp;

        return (bits & RECORD_MARK) != 0 ? (struct chain_record *)(bits - RECORD_MARK) : NULL;
}

static struct error *too_short(const char *output, size_t byte_size) {
        return error_new(ERR_UNAVAILABLE, "out of memory for output '%s' of %zu bytes", output,
                         byte_size);
}

struct wanted {
        const char      *output;
        size_t           byte_size;
        enum memory_type type;
        int64_t          id;
};

static struct error *allocate_direct(struct chain_memory *m, const struct wanted *w, void **buffer,
                                     void **buffer_userp, enum memory_type *actual_type,
                                     int64_t *actual_id) {
        struct chain_record *r = new_record(m);
        struct error        *err;

        if (r == NULL)
                return too_short(w->output, w->byte_size);
        err = r->allocator->alloc((struct response_allocator *)r->allocator, w->output,
                                  w->byte_size, w->type, w->id, m->outer->allocator_userp, buffer,
                                  &r->userp, actual_type, actual_id);
        if (err != NULL)
                free_record(r);
        else
                *buffer_userp = (char *)r + RECORD_MARK;
        return err;
}

/* The signature of allocator_alloc_fn. */
static struct error *allocate(struct response_allocator *allocator, const char *output,
                              size_t byte_size, enum memory_type type, int64_t id, void *userp,
                              void **buffer, void **buffer_userp, enum memory_type *actual_type,
                              int64_t *actual_id) {
        struct chain_memory *m = userp;
        struct buf          *b;

        (void)allocator;
        *buffer = *buffer_userp = NULL;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        if (m->is_direct) {
                const struct wanted w = { output, byte_size, type, id };

                return allocate_direct(m, &w, buffer, buffer_userp, actual_type, actual_id);
        }
        if (byte_size == 0 || (*buffer = take_small(m, byte_size)) != NULL)
                return NULL;
        b = step_memory_get(m->large, byte_size);
        if (b == NULL)
                return too_short(output, byte_size);
        *buffer = b->bytes;
        *buffer_userp = b;
        return NULL;
}

static struct error *give_back(struct response_allocator *allocator, void *buffer,
                               void *buffer_userp, size_t byte_size, enum memory_type type,
                               int64_t id) {
        struct chain_record *r = record_of(buffer_userp);
        struct error        *err = NULL;

        (void)allocator;
        if (r == NULL) {
                buf_unref(buffer_userp);
                return NULL;
        }
        if (r->allocator->release != NULL)
                err = r->allocator->release((struct response_allocator *)r->allocator, buffer,
                                            r->userp, byte_size, type, id);
        free_record(r);
        return err;
}

const struct response_allocator chain_allocator = { .alloc = allocate, .release = give_back };

bool chain_memory_hand_over(struct response_output *from, struct response_output *to,
                            struct error **ret_error) {
        struct chain_record *r = from->has_buffer ? record_of(from->userp) : NULL;
        void                *userp;

        if (r == NULL)
                return false;
        userp = r->userp;
        free_record(r);
        *ret_error = response_take_buffer(to, from, userp);
        return true;
}
