/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of a region that is shared with a stub (shm_layout.h): blocks of the server's
 * area, and places in the region that the stub names.
 *
 * Ownership.  The region owns its memory and its descriptor. The allocator of a block owns it until
 * it is freed or passed to the stub, which gives it back through the list `released`.
 * Threads.  region_alloc() and region_free() from any thread; the rest does not change.
 */
#pragma once

#include "kit/errors.h"
#include "python/shm_heap.h"
#include "python/shm_layout.h"
#include "python/shm_sync.h"

#include <pthread.h>
#include <stdbool.h>

struct region {
        int                fd;
        unsigned char     *base;
        struct shm_header *header; /* = base */
        pthread_mutex_t    lock;   /* guards heap, limbo */
        struct shm_heap    heap;
        uint32_t           limbo;       /* list of blocks that were given back, but may be named by
                                         * ... */
        uint32_t           limbo_until; /* ... messages before this one */
        _Atomic uint32_t   n_handled;   /* number of the stub's messages that were handled */
        atomic_bool        is_broken;   /* the stub broke the rules of the region: region_break() */
};

/* max_bytes 0 means no limit. */
TRITONSERVER_Error *region_open(struct region *r, uint64_t max_bytes);
void                region_close(struct region *r);

/* The process broke the rules of the region: marks it, and wakes the receiver, which ends the
 * process. */
void region_break(struct region *r);

/* Returns 0 when memory is short. */
uint32_t region_alloc(struct region *r, uint64_t n_bytes);
void     region_free(struct region *r, uint32_t block);

/* Returns memory of a burst to the system; to be called after a while without traffic. */
void     region_trim(struct region *r);
uint64_t region_idle_bytes(struct region *r);

/* A block that one thread passes to the stub may come back to another thread: the order of the two is
 * made in the stub, which ThreadSanitizer does not see. For it the stub is one object, which is released
 * before anything is published to the stub, and acquired after anything was taken from it. */
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *address);
void __tsan_release(void *address);

static inline void region_before_publish(struct region *r) {
        __tsan_release(r->header);
}

static inline void region_after_take(struct region *r) {
        __tsan_acquire(r->header);
}
#else
static inline void region_before_publish(struct region *r) {
        (void)r;
}

static inline void region_after_take(struct region *r) {
        (void)r;
}
#endif

/* shm_list_push() of the server. */
static inline void region_push(struct region *r, _Atomic uint32_t *list, uint32_t block,
                               uint32_t *link) {
        uint32_t first = atomic_load_explicit(list, memory_order_relaxed);

        do {
                *(volatile uint32_t *)link = first;
                region_before_publish(r);
        } while (!atomic_compare_exchange_weak_explicit(list, &first, block, memory_order_release,
                                                        memory_order_relaxed));
}

/* Counts a handled message of the stub; called with the reader's role. */
static inline void region_count_handled(struct region *r) {
        uint32_t n = atomic_load_explicit(&r->n_handled, memory_order_relaxed);

        atomic_store_explicit(&r->n_handled, n + 1, memory_order_release);
}

static inline void *region_block(const struct region *r, uint32_t block) {
        return r->base + (uint64_t)block * SHM_BLOCK;
}

/* Returns n_bytes at `offset`; NULL when they are not within the two areas. */
static inline const void *region_find(const struct region *r, uint64_t offset, uint64_t n_bytes) {
        if (offset < SHM_SERVER_AREA || offset > SHM_BYTES || n_bytes > SHM_BYTES - offset)
                return NULL;
        return r->base + offset;
}

/* Returns a block of the stub's area with n_bytes; NULL when there can be none. */
static inline void *region_find_stub_block(const struct region *r, uint32_t block,
                                           uint64_t n_bytes) {
        uint64_t offset = (uint64_t)block * SHM_BLOCK;

        if (offset < SHM_STUB_AREA || offset > SHM_BYTES || n_bytes > SHM_BYTES - offset)
                return NULL;
        return r->base + offset;
}
