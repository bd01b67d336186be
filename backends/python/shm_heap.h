/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation of blocks within one area of the shared region.
 *
 * The area has segments, in which the blocks are; the user adds them and removes free ones. A block of up
 * to a quarter of a unit (16 KiB) shares a unit with blocks of the same size; larger blocks are runs of
 * units of one segment. Free runs are merged with their neighbours and kept in lists by size; the smallest
 * one that fits is used. Memory is committed by runs when it is first used; shm_heap_trim() returns it.
 *
 * The heap's records are private memory: writes of the other process into the area cannot corrupt
 * them, and shm_heap_free() refuses offsets at which no allocated block begins.
 *
 *     add -> SEGMENT_OPEN -------------------> drop -> SEGMENT_GONE -> forget
 *                 '-- close -> SEGMENT_CLOSED ---^
 *
 * Ownership.  The area is borrowed.
 * Threads.  One user at a time.
 */
#pragma once

#include "python/shm_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_HEAP_BINS 24 /* powers of two, up to the area's units */
#define SHM_HEAP_SIZES 7 /* 64, 128, ... 4096 */

struct shm_unit;

enum segment_state {
        SEGMENT_NONE,
        SEGMENT_OPEN,
        SEGMENT_CLOSED, /* nothing more is allocated there */
        SEGMENT_GONE,   /* has no memory, but its place in the file is still taken */
};

struct shm_segment {
        enum segment_state state;
        uint32_t           first; /* unit, the first one of a granule */
        uint32_t           n;
};

struct shm_heap {
        uint64_t          begin;     /* offset of the area in the region */
        int               fd;        /* borrowed: the memfd; -1: nothing is committed (tests) */
        uint64_t          max_bytes; /* limit of the committed bytes of both areas together */
        _Atomic uint64_t *committed; /* borrowed: committed bytes of this area, read by the other
                                      * side */
        _Atomic uint64_t *committed_by_other; /* borrowed */
        uint64_t          file;               /* number of the memfd's inode */
        struct shm_unit  *units;              /* owned */
        uint32_t          n_units;            /* units that the records cover */
        uint32_t          capacity;
        uint32_t          n_segment_units;         /* of the segments that are not gone */
        uint32_t          bins[SHM_HEAP_BINS];     /* first unit of a free run; SHM_NO_INDEX */
        uint32_t          partial[SHM_HEAP_SIZES]; /* units with a free block of that size */
        uint64_t          allocated_bytes;

        struct shm_segment segments[SHM_SEGMENTS];
};

struct shm_heap_options {
        uint64_t          begin;
        int               fd;
        uint64_t          file; /* number of its inode */
        uint64_t          max_bytes;
        _Atomic uint64_t *committed;
        _Atomic uint64_t *committed_by_other;
};

void shm_heap_init(struct shm_heap *heap, const struct shm_heap_options *options);
void shm_heap_done(struct shm_heap *heap);

/* Adds a segment of n units and returns its index. SHM_NO_INDEX when there is no place for it. */
uint32_t shm_heap_add(struct shm_heap *heap, uint32_t n);
/* Stops to allocate blocks in a segment. */
void shm_heap_close(struct shm_heap *heap, uint32_t segment);
/* Returns the memory of a segment without blocks to the system. Returns false, and changes nothing, when it
 * has blocks. */
bool shm_heap_drop(struct shm_heap *heap, uint32_t segment);
/* Makes the place of a segment that is gone available again. */
void shm_heap_forget(struct shm_heap *heap, uint32_t segment);

/* Returns the units of a block of its own. */
uint32_t shm_heap_units(uint64_t n_bytes);

/* Returns the block's number; 0 when no segment has room, memory is short or max_bytes would be
 * exceeded. */
uint32_t shm_heap_alloc(struct shm_heap *heap, uint64_t n_bytes);
/* Returns true when a segment has room for such a block. */
bool shm_heap_has_room(const struct shm_heap *heap, uint64_t n_bytes);
/* Returns true when max_bytes permits to commit that much. */
bool shm_heap_may_commit(const struct shm_heap *heap, uint64_t n_bytes);

/* Returns false, and changes nothing, when there is no such block. */
bool shm_heap_free(struct shm_heap *heap, uint32_t block);

/* Returns the block's size; 0 when there is no such block. */
uint64_t shm_heap_size(const struct shm_heap *heap, uint32_t block);

/* Returns the committed bytes that no block uses. */
uint64_t shm_heap_idle_bytes(const struct shm_heap *heap);

/* Returns the memory of free runs to the system. */
void shm_heap_trim(struct shm_heap *heap);
