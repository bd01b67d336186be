/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/cache_transfer.h"

#include "cache/cache_entry.h"
#include "cache/serialized_response.h"

static struct error *insert(const struct cache_transfer *t, const struct cache_buffer *to) {
        if (to->attributes.byte_size < t->n_bytes)
                return error_new(ERR_INVALID_ARG,
                                 "the buffer of the cache entry has %zu bytes, it takes %zu",
                                 to->attributes.byte_size, t->n_bytes);
        serialized_response_write(t->from, to->base);
        return NULL;
}

struct error *cache_transfer_copy(struct cache_transfer *t, const struct cache_entry *e) {
        const struct cache_buffer *b = &e->buffers[0];

        if (e->n_buffers != 1)
                return error_new(ERR_INVALID_ARG, "the cache entry has %zu buffers instead of 1",
                                 e->n_buffers);
        if (b->base == NULL || b->attributes.memory_type == MEMORY_GPU)
                return error_new(ERR_INVALID_ARG, "the cache entry has no buffer in CPU memory");
        if (t->from != NULL)
                return insert(t, b);
        if (t->made != NULL)
                return error_new(ERR_INVALID_ARG, "the cache entry was copied before");
        return serialized_response_read(b->base, b->attributes.byte_size, t->req, &t->made);
}
