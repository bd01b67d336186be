/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server gives to one call of a cache. The entry (TRITONCACHE_CacheEntry) is the value of one
 * key: a list of buffers. The transfer (TRITONCACHE_Allocator) is the state of TRITONCACHE_Copy().
 *
 * On an insertion the response is written to the one buffer that the cache has set in the entry. On
 * a look-up a response is created from the one buffer that the cache has added: the outputs' bytes
 * are copied once, into memory that the front end provides.
 *
 * Ownership.  The entry owns the list but not the buffers. The buffers belong to the cache, which
 * sets them on an insertion and adds them on a look-up. The transfer borrows request and response,
 * and owns the response that it creates. Both live for one call of the cache.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/error.h"
#include "infer/buffer_attributes.h"

#include <stddef.h>

struct request;
struct response;

/* Largest number of buffers that a cache may add; the server's own entries have one. */
#define CACHE_ENTRY_MAX_BUFFERS 1024
#define CACHE_ENTRY_FIRST_BUFFERS 2

struct cache_buffer {
        void                    *base; /* borrowed from the cache; NULL: not set yet */
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

/* Adds a buffer and copies the attributes. INVALID_ARG beyond the limit. */
struct error *cache_entry_add(struct cache_entry *e, void *base,
                              const struct buffer_attributes *attributes) NODISCARD;
/* INVALID_ARG for an index beyond the last buffer. */
struct error *cache_entry_get(const struct cache_entry *e, size_t index, void **ret_base,
                              struct buffer_attributes *ret_attributes) NODISCARD;
/* `attributes` may be NULL: the old ones stay. */
struct error *cache_entry_set(struct cache_entry *e, size_t index, void *base,
                              const struct buffer_attributes *attributes) NODISCARD;

struct cache_transfer {
        const struct response *from;    /* borrowed response of an insertion; NULL: a look-up */
        size_t                 n_bytes; /* size of the insertion */
        const struct request  *req;     /* borrowed request of a look-up */
        struct response       *made;    /* owned; NULL: not copied yet */
};

/* INVALID_ARG when the entry lacks the buffer that is needed, or on a second copy. */
struct error *cache_transfer_copy(struct cache_transfer *t, const struct cache_entry *e) NODISCARD;
