/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of HTTP/2 sessions: small blocks that a loop keeps for its next streams.
 *
 * A stream costs nghttp2 about ten small allocations that live as long as its frames. A loop with
 * many streams outruns what malloc keeps per thread, so freed blocks stay here, in a list for each
 * multiple of 64 bytes. What is larger, or more than MAX_KEPT of a size, goes back to malloc. Under
 * AddressSanitizer nothing is kept, so that it sees each use after a free.
 *
 * Ownership.  h2_blocks_done() frees what is kept; every block must have been given back.
 * Threads.  The loop's only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define H2_BLOCK_CLASSES 8 /* 64, 128, ... 512 bytes */
#define H2_BLOCKS_MAX_KEPT 128

struct h2_block;

struct h2_blocks {
        struct h2_block *kept[H2_BLOCK_CLASSES]; /* owned */
        uint32_t         n_kept[H2_BLOCK_CLASSES];
};

void h2_blocks_done(struct h2_blocks *b);

/* As malloc, free, calloc and realloc; NULL when memory is short. `blocks` is a struct h2_blocks:
 * these have the form that nghttp2 asks for. */
void *h2_blocks_alloc(size_t size, void *blocks);
void *h2_blocks_zalloc(size_t n, size_t size, void *blocks);
void *h2_blocks_realloc(void *block, size_t size, void *blocks);
void  h2_blocks_free(void *block, void *blocks);
