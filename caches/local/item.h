/* SPDX-License-Identifier: BSD-3-Clause */
/* What is kept under one key: copies of an entry's buffers, in one piece of memory with the key
 * and all that belongs to them.
 *
 * Ownership.  Counted: the store holds one reference while the entry is in it, each look-up one
 * while it copies. So an entry may be thrown out while it is being read.
 * Threads.  Immutable once it is in the store, but for the places where the store links it.
 */
#pragma once

#include "triton/core/tritoncache.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct item_buffer {
        void                          *base;       /* behind the struct */
        TRITONSERVER_BufferAttributes *attributes; /* owned */
};

struct item {
        _Atomic uint32_t n_refs;
        uint32_t         n_buffers;
        size_t           cost; /* all the memory it takes */

        /* The store's, under the lock of its shard. */
        struct item *next_of_bucket;
        struct item *newer;
        struct item *older;
        uint64_t     hash;
        uint64_t     used_at; /* on the store's clock */

        const char        *key; /* behind the struct */
        struct item_buffer buffers[];
};

/* What an entry will take: asks for its buffers. The caller ends the plan. */
struct item_plan {
        const char                     *key;        /* borrowed */
        TRITONSERVER_BufferAttributes **attributes; /* owned, and each that is not NULL */
        size_t                         *sizes;      /* owned */
        size_t                          n_buffers;
        size_t                          n_bytes; /* of the one piece of memory */
        size_t                          cost;
};

TRITONSERVER_Error *item_plan_make(const char *key, TRITONCACHE_CacheEntry *entry,
                                   struct item_plan *ret);
void                item_plan_done(struct item_plan *plan);

/* Copies the entry's buffers, as planned; takes the plan's attributes. */
TRITONSERVER_Error *item_new(struct item_plan *plan, TRITONCACHE_CacheEntry *entry,
                             TRITONCACHE_Allocator *allocator, struct item **ret);
void                item_ref(struct item *item);
void                item_unref(struct item *item);
