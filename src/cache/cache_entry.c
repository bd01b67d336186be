/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/cache_entry.h"

#include "base/mem.h"
#include "cache/serialized_response.h"

#include <string.h>

void cache_entry_init(struct cache_entry *e) {
        e->buffers = e->first;
        e->n_buffers = 0;
        e->cap_buffers = CACHE_ENTRY_FIRST_BUFFERS;
}

void cache_entry_done(struct cache_entry *e) {
        if (e->buffers != e->first)
                free(e->buffers);
}

static struct error *grow_outputs(struct cache_entry *e) {
        size_t               cap = e->cap_buffers * 2;
        struct cache_buffer *buffers;

        if (e->n_buffers >= CACHE_ENTRY_MAX_BUFFERS)
                return error_new(ERR_INVALID_ARG, "a cache entry has at most %d buffers",
                                 CACHE_ENTRY_MAX_BUFFERS);
        buffers = try_alloc(cap * sizeof(*buffers));
        if (buffers == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a cache entry");
        memcpy(buffers, e->buffers, e->n_buffers * sizeof(*buffers));
        if (e->buffers != e->first)
                free(e->buffers);
        e->buffers = buffers;
        e->cap_buffers = cap;
        return NULL;
}

struct error *cache_entry_add(struct cache_entry *e, void *base,
                              const struct buffer_attributes *attributes) {
        if (e->n_buffers == e->cap_buffers)
                TRY(grow_outputs(e));
        e->buffers[e->n_buffers++] = (struct cache_buffer){ base, *attributes };
        return NULL;
}

static struct error *check_index(const struct cache_entry *e, size_t index) {
        if (index < e->n_buffers)
                return NULL;
        return error_new(ERR_INVALID_ARG, "there is no buffer %zu in a cache entry of %zu", index,
                         e->n_buffers);
}

struct error *cache_entry_get(const struct cache_entry *e, size_t index, void **ret_base,
                              struct buffer_attributes *ret_attributes) {
        TRY(check_index(e, index));
        *ret_base = e->buffers[index].base;
        *ret_attributes = e->buffers[index].attributes;
        return NULL;
}

struct error *cache_entry_set(struct cache_entry *e, size_t index, void *base,
                              const struct buffer_attributes *attributes) {
        TRY(check_index(e, index));
        e->buffers[index].base = base;
        if (attributes != NULL)
                e->buffers[index].attributes = *attributes;
        return NULL;
}

/* ---- transfers ------------------------------------------------------------------------------- */

static struct error *insert_entry(const struct cache_transfer *t, const struct cache_buffer *to) {
        if (to->attributes.byte_size < t->n_bytes)
                return error_new(ERR_INVALID_ARG,
                                 "the buffer of the cache entry has %zu bytes, it takes %zu",
                                 to->attributes.byte_size, t->n_bytes);
        return serialized_response_write(t->from, to->base);
}

struct error *cache_transfer_copy(struct cache_transfer *t, const struct cache_entry *e) {
        const struct cache_buffer *b = &e->buffers[0];

        if (e->n_buffers != 1)
                return error_new(ERR_INVALID_ARG, "the cache entry has %zu buffers instead of 1",
                                 e->n_buffers);
        if (b->base == NULL || b->attributes.memory_type == MEMORY_GPU)
                return error_new(ERR_INVALID_ARG, "the cache entry has no buffer in CPU memory");
        if (t->from != NULL)
                return insert_entry(t, b);
        if (t->made != NULL)
                return error_new(ERR_INVALID_ARG, "the cache entry was copied before");
        return serialized_response_read(b->base, b->attributes.byte_size, t->req, &t->made);
}
