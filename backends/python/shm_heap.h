/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation of blocks within one area of the shared region.
 *
 * A block of up to a quarter of a unit (16 KiB) shares a unit with blocks of the same size; larger
 * blocks are runs of units. Free runs are merged with their neighbours and kept in lists by size.
 * Memory is committed by runs when it is first used; shm_heap_trim() returns it.
 *
 * The heap's records are private memory: writes of the other process into the area cannot corrupt
 * them, and shm_heap_free() refuses offsets at which no allocated block begins.
 *
 * Ownership.  The area is borrowed.
 * Threads.  One user at a time.
 */
#pragma once

#include "python/shm_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_UNIT (16u << 10)
#define SHM_HEAP_BINS 24 /* powers of two, up to the area's units */
#define SHM_HEAP_SIZES 7 /* 64, 128, ... 4096 */

struct shm_unit;

struct shm_heap {
        uint64_t          begin;     /* offset of the area in the region */
        int               fd;        /* borrowed: the memfd; -1: nothing is committed (tests) */
        uint64_t          max_bytes; /* limit of the committed bytes of both areas together */
        _Atomic uint64_t *committed; /* borrowed: committed bytes of this area, read by the other
                                      * side */
        _Atomic uint64_t *committed_by_other; /* borrowed */
        struct shm_unit  *units;              /* owned */
        uint32_t          n_units;            /* units that the records cover */
        uint32_t          capacity;
        uint32_t          bins[SHM_HEAP_BINS];     /* first unit of a free run; SHM_NO_INDEX */
        uint32_t          partial[SHM_HEAP_SIZES]; /* units with a free block of that size */
        uint64_t          allocated_bytes;
};

struct shm_heap_options {
        uint64_t          begin;
        int               fd;
        uint64_t          max_bytes;
        _Atomic uint64_t *committed;
        _Atomic uint64_t *committed_by_other;
};

void shm_heap_init(struct shm_heap *heap, const struct shm_heap_options *options);
void shm_heap_done(struct shm_heap *heap);

/* Returns the block's number; 0 when memory is short or max_bytes would be exceeded. */
uint32_t shm_heap_alloc(struct shm_heap *heap, uint64_t n_bytes);

/* Returns false, and changes nothing, when there is no such block. */
bool shm_heap_free(struct shm_heap *heap, uint32_t block);

/* Returns the block's size; 0 when there is no such block. */
uint64_t shm_heap_size(const struct shm_heap *heap, uint32_t block);

/* Returns the committed bytes that no block uses. */
uint64_t shm_heap_idle_bytes(const struct shm_heap *heap);

/* Returns the memory of free runs to the system. */
void shm_heap_trim(struct shm_heap *heap);
