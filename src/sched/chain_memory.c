/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/chain_memory.h"

#include "base/buf.h"
#include "sched/step_memory.h"

#include <stdint.h>

#define ALIGNMENT 64 /* that of buffers: what the widest vector of a backend reads with */

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
        m->half ^= 1;
        atomic_store_explicit(&m->n_used, 0, memory_order_relaxed);
        m->is_direct = is_last && client_memory_is_there(m->outer);
}

static void *take_small(struct chain_memory *m, size_t bytes) {
        size_t room, at;

        if (bytes > CHAIN_HALF_BYTES)
                return NULL;
        room = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
        at = atomic_fetch_add_explicit(&m->n_used, room, memory_order_relaxed);
        return at + room <= CHAIN_HALF_BYTES ? m->small + m->half * CHAIN_HALF_BYTES + at : NULL;
}

/* NULL: it is to be on the heap. */
static struct client_memory *take_record(struct chain_memory *m) {
        unsigned at = atomic_fetch_add_explicit(&m->n_records, 1, memory_order_relaxed);

        return at < CHAIN_N_RECORDS ? &m->records[at] : NULL;
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
        if (m->is_direct)
                return client_memory_get(m->outer, take_record(m),
                                         &(struct wanted_output){ output, byte_size, type, id },
                                         &(struct given_memory){ buffer, buffer_userp, actual_type,
                                                                 actual_id });
        if (byte_size == 0 || (*buffer = take_small(m, byte_size)) != NULL)
                return NULL;
        b = step_memory_get(m->large, byte_size);
        if (b == NULL)
                return step_memory_shortage(output, byte_size);
        *buffer = b->bytes;
        *buffer_userp = b;
        return NULL;
}

const struct response_allocator chain_allocator = { .alloc = allocate,
                                                    .release = client_memory_release };
