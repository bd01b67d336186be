/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/pool_memory.h"

#include "base/log.h"
#include "gpu/range_pool.h"

void pool_memory_init(struct pool_memory *p, uint64_t wanted_bytes, uint64_t granule) {
        *p = (struct pool_memory){ .granule = granule,
                                   .wanted_bytes = wanted_bytes / granule * granule };
        mutex_init(&p->lock, LOCK_GPU);
}

void pool_memory_done(struct pool_memory *p) {
        range_pool_free(p->ranges);
        mutex_done(&p->lock);
}

/* The records come first: memory of the driver need not be given back when there is no room for them. They
 * count from 0, since the address is not known yet. */
static bool make_locked(struct pool_memory *p, pool_make_fn make, void *owner) {
        struct range_pool *ranges;
        uint64_t           base;

        if (p->ranges != NULL)
                return true;
        if (p->has_failed)
                return false;
        ranges = range_pool_new(0, p->wanted_bytes, p->granule);
        if (ranges == NULL)
                return false;
        if (!make(owner, p->wanted_bytes, &base)) {
                p->has_failed = true;
                range_pool_free(ranges);
                return false;
        }
        p->ranges = ranges;
        atomic_store_explicit(&p->total_bytes, p->wanted_bytes, memory_order_relaxed);
        atomic_store_explicit(&p->base, base, memory_order_release);
        return true;
}

static void note_usage_locked(struct pool_memory *p) {
        atomic_store_explicit(&p->used_bytes, range_pool_used_bytes(p->ranges),
                              memory_order_relaxed);
}

bool pool_memory_take(struct pool_memory *p, uint64_t bytes, pool_make_fn make, void *owner,
                      uint64_t *ret) {
        uint64_t at;
        bool     is_taken;

        if (p->wanted_bytes == 0)
                return false;
        mutex_lock(&p->lock);
        is_taken = make_locked(p, make, owner) && range_pool_take(p->ranges, bytes, &at);
        if (is_taken)
                note_usage_locked(p);
        mutex_unlock(&p->lock);
        if (!is_taken) {
                atomic_fetch_add_explicit(&p->n_beyond, 1, memory_order_relaxed);
                return false;
        }
        *ret = pool_memory_base(p) + at;
        return true;
}

bool pool_memory_give(struct pool_memory *p, uint64_t address) {
        uint64_t base = pool_memory_base(p);
        bool     is_given;

        if (base == 0 || address < base || address - base >= p->wanted_bytes)
                return false;
        mutex_lock(&p->lock);
        is_given = range_pool_give(p->ranges, address - base);
        note_usage_locked(p);
        mutex_unlock(&p->lock);
        if (!is_given)
                log_error("memory of a pool at 0x%llx is freed that is not in use",
                          (unsigned long long)address);
        return true;
}

uint64_t pool_memory_base(const struct pool_memory *p) {
        return atomic_load_explicit(&p->base, memory_order_acquire);
}

struct gpu_pool_usage pool_memory_usage(const struct pool_memory *p) {
        return (struct gpu_pool_usage){
                .total_bytes = atomic_load_explicit(&p->total_bytes, memory_order_relaxed),
                .used_bytes = atomic_load_explicit(&p->used_bytes, memory_order_relaxed),
                .n_beyond = atomic_load_explicit(&p->n_beyond, memory_order_relaxed),
        };
}
