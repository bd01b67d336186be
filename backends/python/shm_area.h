/* SPDX-License-Identifier: BSD-3-Clause */
/* The area of one side in the shared region, for its owner: a heap that grows by segments (shm_layout.h).
 *
 * A new segment has room for the block that needs it, and at least the growth of the settings and a share
 * of what the area has, so that an area has few segments and at most a few times the addresses of its
 * largest use. The share is small when addresses are limited (RLIMIT_AS, which both sides have in common).
 * When there are no addresses for that much, the segment has room for the block alone.
 *
 * The other side may refuse a segment: then nothing more is allocated in it, and it is removed when its
 * blocks have come back.
 *
 * Ownership.  The area owns its heap; map and header are borrowed.
 * Threads.  One user at a time. The other side changes the records' states.
 */
#pragma once

#include "python/shm_heap.h"
#include "python/shm_map.h"

struct shm_area {
        struct shm_heap            heap;
        struct shm_map            *map;     /* borrowed */
        struct shm_segment_record *records; /* borrowed: its segments in the header */
        _Atomic uint32_t *refusals; /* borrowed: the count of the other side's in the header */
        uint64_t          first_bytes;
        uint64_t          growth_bytes;
        uint32_t          n_refused; /* refusals that were noticed */
        bool              is_tight;  /* addresses are limited */
};

struct shm_area_options {
        bool     is_server;    /* the area is the server's */
        uint64_t max_bytes;    /* limit of the committed bytes of both areas; 0: none */
        uint64_t first_bytes;  /* size of the first segment */
        uint64_t growth_bytes; /* least size of the others */
};

/* The map has the header. */
void shm_area_init(struct shm_area *area, struct shm_map *map,
                   const struct shm_area_options *options);
void shm_area_done(struct shm_area *area);

/* Returns a block; 0 when memory or addresses are short or the limit is reached. *ret_segment is the index
 * of the segment that was added and offered for it, else SHM_NO_INDEX. */
uint32_t shm_area_alloc(struct shm_area *area, uint64_t n_bytes, uint32_t *ret_segment);

/* Unmaps the segments without blocks, except that the first one stays. No thread uses what has no block.
 * Returns the number of removed segments, of which the other side must learn. */
unsigned shm_area_shrink(struct shm_area *area);
