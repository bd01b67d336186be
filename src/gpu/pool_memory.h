/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool of memory that is made when it is first used: one piece from the driver, divided by a
 * range_pool.h. Memory that cannot be made is not asked for again: there is no pool then.
 *
 * Ownership.  The memory belongs to the caller, who frees what pool_memory_base() returns before
 * pool_memory_done().
 * Threads.  Any. The lock is held while the memory is made, which is the only wait.
 */
#pragma once

#include "base/lock.h"
#include "gpu/gpu.h"

#include <stdatomic.h>

struct range_pool;

/* Makes the memory. Logs why it cannot. */
typedef bool (*pool_make_fn)(void *owner, uint64_t bytes, uint64_t *ret);

struct pool_memory {
        uint64_t granule;
        uint64_t wanted_bytes; /* 0: there is no pool */

        _Atomic uint64_t base; /* set once, after `total_bytes`; 0: there is none yet */
        _Atomic uint64_t total_bytes;
        _Atomic uint64_t used_bytes;
        _Atomic uint64_t n_beyond;

        struct mutex       lock;   /* rank LOCK_GPU; guards everything below */
        struct range_pool *ranges; /* owned; NULL: not made */
        bool               has_failed;
};

void pool_memory_init(struct pool_memory *p, uint64_t wanted_bytes, uint64_t granule);
void pool_memory_done(struct pool_memory *p);

/* False when the pool has no room, which is counted, and when there is no pool. */
bool pool_memory_take(struct pool_memory *p, uint64_t bytes, pool_make_fn make, void *owner,
                      uint64_t *ret);
/* False when the address is not in the pool. */
bool pool_memory_give(struct pool_memory *p, uint64_t address);

uint64_t              pool_memory_base(const struct pool_memory *p); /* 0: not made */
struct gpu_pool_usage pool_memory_usage(const struct pool_memory *p);
