/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of a region that is shared with a stub (shm_layout.h): blocks of the server's
 * area, and places in the region that the stub names.
 *
 * The stub names places in segments, which are unmapped when no block is in them. The server reads such
 * places with the reader's role, or *borrows* the region for as long as it does (a call to another model);
 * segments are unmapped with the role, and while nothing is borrowed. So a stub that names a place which it
 * has given back breaks the rules, and the server does not read memory that is not there.
 *
 * Ownership.  The region owns its memory and its descriptor. The allocator of a block owns it until
 * it is freed or passed to the stub, which gives it back through the list `released`.
 * Threads.  region_alloc(), region_free(), region_borrow() and region_end_borrow() from any thread; what
 * maps and unmaps segments with the reader's role; the rest does not change.
 */
#pragma once

#include "kit/errors.h"
#include "python/shm_area.h"
#include "python/shm_sync.h"

#include <pthread.h>
#include <stdbool.h>

/* A segment of the stub that the server has mapped. */
struct stub_segment {
        bool     is_mapped;
        uint64_t offset;
};

struct region {
        int                fd;
        struct shm_header *header;
        struct shm_map     map;
        pthread_mutex_t    lock; /* guards area, limbo */
        struct shm_area    area;
        uint32_t           limbo;       /* list of blocks that were given back, but may be named by
                                         * ... */
        uint32_t           limbo_until; /* ... messages before this one */
        _Atomic uint32_t   n_handled;   /* number of the stub's messages that were handled */
        atomic_bool        is_broken;   /* the stub broke the rules of the region: region_break() */
        atomic_uint        n_borrowed;  /* users outside of the reader's role */
        bool               must_shrink; /* the stub has removed segments; the reader's role */

        struct stub_segment stub_segments[SHM_SEGMENTS]; /* the reader's role */
};

struct region_options {
        uint64_t max_bytes;    /* limit of its memory; 0: none */
        uint64_t first_bytes;  /* size of an area's first segment */
        uint64_t growth_bytes; /* least size of its other segments */
};

TRITONSERVER_Error *region_open(struct region *r, const struct region_options *options);
void                region_close(struct region *r);

/* The process broke the rules of the region: marks it, and wakes the receiver, which ends the
 * process. */
void region_break(struct region *r);

/* Returns 0 when memory is short. */
uint32_t region_alloc(struct region *r, uint64_t n_bytes);
void     region_free(struct region *r, uint32_t block);

/* Maps the segment with that index, which the stub offers, and answers. */
void region_grow(struct region *r, uint32_t segment);

/* The stub's blocks may be read outside of the reader's role until the end; called with the role. */
static inline void region_borrow(struct region *r) {
        atomic_fetch_add_explicit(&r->n_borrowed, 1, memory_order_relaxed);
}

static inline void region_end_borrow(struct region *r) {
        atomic_fetch_sub_explicit(&r->n_borrowed, 1, memory_order_release);
}

/* Unmaps the segments that the stub has removed, when nothing is borrowed. */
void region_follow(struct region *r);
/* Returns the memory and the addresses of a burst to the system, when nothing is borrowed. No thread writes
 * into a block or reads one. Returns true when the stub must be woken, which holds addresses as well. */
bool     region_shrink(struct region *r);
uint64_t region_idle_bytes(struct region *r);

/* A block that one thread passes to the stub may come back to another thread: the order of the two is
 * made in the stub, which ThreadSanitizer does not see. For it the stub is one object, which is released
 * before anything is published to the stub, and acquired after anything was taken from it. */
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

/* What a thread writes into a block at the moment when it passes it to the stub comes after the release. */
static inline void region_begin_pass(void) {
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

static inline void region_end_pass(void) {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}

static inline void region_before_publish(struct region *r) {
        __tsan_release(r->header);
}

static inline void region_after_take(struct region *r) {
        __tsan_acquire(r->header);
}
#else
static inline void region_begin_pass(void) {
}

static inline void region_end_pass(void) {
}

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
        bool     is_pushed;

        do {
                *(volatile uint32_t *)link = first;
                region_before_publish(r);
                region_begin_pass(); /* the list may be in a block that the stub frees now */
                is_pushed = atomic_compare_exchange_weak_explicit(list, &first, block,
                                                                  memory_order_release,
                                                                  memory_order_relaxed);
                region_end_pass();
        } while (!is_pushed);
}

/* Counts a handled message of the stub; called with the reader's role. */
static inline void region_count_handled(struct region *r) {
        uint32_t n = atomic_load_explicit(&r->n_handled, memory_order_relaxed);

        atomic_store_explicit(&r->n_handled, n + 1, memory_order_release);
}

static inline void *region_block(const struct region *r, uint32_t block) {
        return shm_map_at(&r->map, (uint64_t)block * SHM_BLOCK);
}

/* Returns n_bytes at `offset`; NULL when they are not within a segment of the two areas. */
static inline const void *region_find(const struct region *r, uint64_t offset, uint64_t n_bytes) {
        return offset >= SHM_SERVER_AREA ? shm_map_find(&r->map, offset, n_bytes) : NULL;
}

/* Returns a block of the stub's area with n_bytes; NULL when there can be none. */
static inline void *region_find_stub_block(const struct region *r, uint32_t block,
                                           uint64_t n_bytes) {
        uint64_t offset = (uint64_t)block * SHM_BLOCK;

        return offset >= SHM_STUB_AREA ? shm_map_find(&r->map, offset, n_bytes) : NULL;
}
