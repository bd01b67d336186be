/* SPDX-License-Identifier: BSD-3-Clause */
/* Free blocks of one size that their owner keeps for its next allocations, the last one freed first.
 *
 * A cache earns its room when malloc would take 5 % of a request's CPU time
 * (docs/decisions/free-lists.md has the figures of each).
 *
 * Ownership.  The cache owns the blocks that it keeps. Their owner allocates and frees them, and says
 * how many stay. A kept block is overwritten by a link at its beginning.
 * Threads.  No lock: the owner's thread, or under the owner's lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The beginning of a kept block. */
struct cached_block {
        struct cached_block *next;
};

/* Zeroed memory is an empty cache. */
struct block_cache {
        struct cached_block *first;
        uint32_t             n;
};

/* NULL when the cache is empty. */
static inline void *block_cache_take(struct block_cache *c) {
        struct cached_block *block = c->first;

        if (block == NULL)
                return NULL;
        c->first = block->next;
        c->n--;
        return block;
}

/* False when `max` blocks are kept: the caller frees the block. */
static inline bool block_cache_give(struct block_cache *c, void *memory, uint32_t max) {
        struct cached_block *block = memory;

        if (c->n >= max)
                return false;
        block->next = c->first;
        c->first = block;
        c->n++;
        return true;
}
