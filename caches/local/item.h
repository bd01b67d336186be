/* SPDX-License-Identifier: BSD-3-Clause */
/* The value of one key: copies of an entry's buffers. The struct, the key and the copies are in one
 * block of memory.
 *
 * Ownership.  Reference counted: the store holds one reference while the item is in it, and each
 * look-up holds one while it copies. So an item can be evicted while it is being read.
 * Threads.  Immutable once it is in the store, except the fields by which the store links it.
 */
#pragma once

#include "triton/core/tritoncache.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct item_buffer {
        void                          *base;       /* in the item's block, after the struct */
        TRITONSERVER_BufferAttributes *attributes; /* owned */
};

struct item {
        _Atomic uint32_t n_refs;
        uint32_t         n_buffers;
        size_t           cost; /* all the memory that it uses */

        /* Fields of the store, under the lock of the shard. */
        struct item *next_of_bucket;
        struct item *newer;
        struct item *older;
        uint64_t     hash;
        uint64_t     used_at; /* time of the last use, on the store's clock */

        const char        *key; /* in the item's block, after the struct */
        struct item_buffer buffers[];
};

/* The memory that an entry needs. Making a plan reads the sizes of the entry's buffers. */
struct item_plan {
        const char                     *key;        /* borrowed */
        TRITONSERVER_BufferAttributes **attributes; /* owned, and each that is not NULL */
        size_t                         *sizes;      /* owned */
        size_t                          n_buffers;
        size_t                          n_bytes; /* size of the item's block */
        size_t                          cost;
};

TRITONSERVER_Error *item_plan_make(const char *key, TRITONCACHE_CacheEntry *entry,
                                   struct item_plan *ret);
void                item_plan_done(struct item_plan *plan);

/* Copies the entry's buffers as planned. Takes the plan's attributes. */
TRITONSERVER_Error *item_new(struct item_plan *plan, TRITONCACHE_CacheEntry *entry,
                             TRITONCACHE_Allocator *allocator, struct item **ret);
void                item_ref(struct item *item);
void                item_unref(struct item *item);
