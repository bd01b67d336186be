/* SPDX-License-Identifier: BSD-3-Clause */
/* What a cache keeps under one key, as it and the server tell each other: a list of buffers.
 * TRITONCACHE_CacheEntry is this.
 *
 * Ownership.  The list is the entry's, the buffers are not: on an insertion they are the cache's,
 * which it sets, on a look-up the cache's, which it adds. It lives for one call of the cache.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/error.h"
#include "infer/buffer_attributes.h"

#include <stddef.h>

/* What a cache may add; the server's own entries have one. */
#define CACHE_ENTRY_MAX_BUFFERS 1024
#define CACHE_ENTRY_FIRST_BUFFERS 2

struct cache_buffer {
        void                    *base; /* borrowed: the cache; NULL: not set yet */
        struct buffer_attributes attributes;
};

struct cache_entry {
        struct cache_buffer *buffers; /* owned, or `first` */
        size_t               n_buffers;
        size_t               cap_buffers;
        struct cache_buffer  first[CACHE_ENTRY_FIRST_BUFFERS];
};

void cache_entry_init(struct cache_entry *e);
void cache_entry_done(struct cache_entry *e);

/* Copies the attributes. INVALID_ARG beyond the limit. */
struct error *cache_entry_add(struct cache_entry *e, void *base,
                              const struct buffer_attributes *attributes) NODISCARD;
/* INVALID_ARG beyond the last. */
struct error *cache_entry_get(const struct cache_entry *e, size_t index, void **ret_base,
                              struct buffer_attributes *ret_attributes) NODISCARD;
/* `attributes` may be NULL: they stay. */
struct error *cache_entry_set(struct cache_entry *e, size_t index, void *base,
                              const struct buffer_attributes *attributes) NODISCARD;
