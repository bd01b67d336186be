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

struct stored_buffer {
        void                          *base; /* behind the struct */
        TRITONSERVER_BufferAttributes *attributes; /* owned */
};

struct stored {
        _Atomic uint32_t n_refs;
        uint32_t         n_buffers;
        size_t           cost; /* all the memory it takes */

        /* The store's, under the lock of its shard. */
        struct stored *next_of_bucket;
        struct stored *newer;
        struct stored *older;
        uint64_t       hash;
        uint64_t       used_at; /* on the store's clock */

        const char          *key;     /* behind the struct */
        struct stored_buffer buffers[];
};

/* What an entry will take: asks for its buffers. The caller ends the plan. */
struct stored_plan {
        const char                     *key; /* borrowed */
        TRITONSERVER_BufferAttributes **attributes; /* owned, and each that is not NULL */
        size_t                         *sizes;      /* owned */
        size_t                          n_buffers;
        size_t                          n_bytes; /* of the one piece of memory */
        size_t                          cost;
};

TRITONSERVER_Error *stored_plan_make(const char *key, TRITONCACHE_CacheEntry *entry,
                                     struct stored_plan *ret);
void                stored_plan_done(struct stored_plan *plan);

/* Copies the entry's buffers, as planned; takes the plan's attributes. */
TRITONSERVER_Error *stored_new(struct stored_plan *plan, TRITONCACHE_CacheEntry *entry,
                               TRITONCACHE_Allocator *allocator, struct stored **ret);
void                stored_ref(struct stored *s);
void                stored_unref(struct stored *s);
