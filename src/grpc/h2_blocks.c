/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/h2_blocks.h"

#include "base/compiler.h"
#include "base/mem.h"

#include <string.h>

#define STEP 64
/* Allocations up to this size abort the program instead of failing. They are nghttp2's own structs: some of
 * its versions, 1.52 among them, free an item twice when its queue cannot grow (a queue for 256 streams has
 * this many bytes). Larger allocations, whose size a peer can influence, may fail. */
#define SURE_BYTES ((size_t)4 << 10)

#if IS_SANITIZED
#define MAX_KEPT 0
#else
#define MAX_KEPT H2_BLOCKS_MAX_KEPT
#endif

/* Header in front of each allocated block. */
struct h2_block {
        struct cached_block link; /* valid while the block is kept */
        size_t              cap;  /* size of the block behind the header */
} __attribute__((aligned(16)));

static struct h2_block *block_of(void *bytes) {
        return (struct h2_block *)bytes - 1;
}

/* Returns the size class; blocks of class H2_BLOCK_CLASSES or higher are never kept. */
static size_t class_of(size_t cap) {
        return (cap - 1) / STEP;
}

/* Charges a block; false when it must not be allocated. */
static bool charge_block(struct h2_blocks *b, size_t size, size_t bytes) {
        if (byte_account_take(&b->account, bytes))
                return true;
        byte_budget_refused(b->account.budget);
        if (size > SURE_BYTES)
                return false;
        byte_budget_force(b->account.budget, bytes);
        return true;
}

static void free_block(struct h2_blocks *b, struct h2_block *block) {
        byte_account_give(&b->account, block->cap + sizeof(*block));
        free(block);
}

void h2_blocks_done(struct h2_blocks *b) {
        for (size_t i = 0; i < H2_BLOCK_CLASSES; i++)
                while (b->kept[i].first != NULL)
                        free_block(b, block_cache_take(&b->kept[i]));
        byte_account_close(&b->account);
        *b = (struct h2_blocks){ 0 };
}

void *h2_blocks_alloc(size_t size, void *blocks) {
        struct h2_blocks *b = blocks;
        size_t class = class_of(MAX(size, (size_t)1));
        struct h2_block *block;
        size_t           cap = size, bytes;

        if (class < H2_BLOCK_CLASSES) {
                block = block_cache_take(&b->kept[class]);
                if (block != NULL)
                        return block + 1;
                cap = (class + 1) * STEP;
        }
        if (!size_add(cap, sizeof(*block), &bytes))
                return NULL;
        if (!charge_block(b, size, bytes))
                return NULL;
        block = size <= SURE_BYTES ? mem_alloc(bytes) : try_alloc(bytes);
        if (block == NULL) {
                byte_account_give(&b->account, bytes);
                return NULL;
        }
        block->cap = cap;
        return block + 1;
}

void *h2_blocks_zalloc(size_t n, size_t size, void *blocks) {
        void  *block;
        size_t bytes;

        if (!size_mul(n, size, &bytes) || (block = h2_blocks_alloc(bytes, blocks)) == NULL)
                return NULL;
        return memset(block, 0, bytes);
}

void h2_blocks_free(void *block, void *blocks) {
        struct h2_blocks *b = blocks;
        struct h2_block  *freed;
        size_t class;

        if (block == NULL)
                return;
        freed = block_of(block);
        class = freed->cap > 0 ? class_of(freed->cap) : H2_BLOCK_CLASSES;
        if (class >= H2_BLOCK_CLASSES || !block_cache_give(&b->kept[class], freed, MAX_KEPT))
                free_block(b, freed);
}

void *h2_blocks_realloc(void *block, size_t size, void *blocks) {
        void  *grown;
        size_t cap;

        if (block == NULL)
                return h2_blocks_alloc(size, blocks);
        cap = block_of(block)->cap;
        if (size <= cap)
                return block;
        grown = h2_blocks_alloc(size, blocks);
        if (grown == NULL)
                return NULL;
        memcpy(grown, block, cap);
        h2_blocks_free(block, blocks);
        return grown;
}
