/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocator of small blocks for the HTTP/2 sessions of a loop, which reuses freed blocks.
 *
 * nghttp2 makes about ten small allocations for a stream, which live as long as its frames. A loop with
 * many streams exceeds the per-thread cache of malloc. So freed blocks are kept here, in a list for each
 * multiple of 64 bytes. Larger blocks, and those beyond H2_BLOCKS_MAX_KEPT of a size, are freed. Under
 * AddressSanitizer no block is kept, so that it detects each use after free.
 *
 * All blocks are charged to the byte budget, kept ones included: those of a connection are what its client
 * makes the server hold before any message.
 *
 * Ownership.  h2_blocks_done() frees the kept blocks; all blocks must have been freed before.
 * Threads.  The loop's thread only.
 */
#pragma once

#include "base/block_cache.h"
#include "base/byte_budget.h"

#include <stddef.h>
#include <stdint.h>

#define H2_BLOCK_CLASSES 8 /* 64, 128, ... 512 bytes */
#define H2_BLOCKS_MAX_KEPT 128

struct h2_blocks {
        struct block_cache kept[H2_BLOCK_CLASSES];
        struct byte_account
                account; /* its budget, NULL without one, is set before the first block */
};

void h2_blocks_done(struct h2_blocks *b);

/* As malloc, calloc, realloc and free; NULL when memory is short. `blocks` is a struct h2_blocks. nghttp2
 * requires these signatures. */
void *h2_blocks_alloc(size_t size, void *blocks);
void *h2_blocks_zalloc(size_t n, size_t size, void *blocks);
void *h2_blocks_realloc(void *block, size_t size, void *blocks);
void  h2_blocks_free(void *block, void *blocks);
