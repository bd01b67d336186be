/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/item.h"

#include "kit/errors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Memory outside of the item's block: two pointers in the store's table, and for each buffer the
 * server's attributes object. The sizes are those that malloc() uses. */
#define TABLE_BYTES (2 * sizeof(void *))
#define ATTRIBUTES_BYTES 48

#define ALIGNMENT 16

static TRITONSERVER_Error *too_large(void) {
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "the sizes of an entry overflow");
}

static bool add_size(size_t *sum, size_t n) {
        return !__builtin_add_overflow(*sum, n, sum);
}

/* Adds n, and rounds the sum up to a multiple of the alignment. */
static bool add_aligned(size_t *sum, size_t n) {
        return add_size(sum, n) && add_size(sum, -*sum % ALIGNMENT);
}

static TRITONSERVER_Error *plan_buffer(struct item_plan *plan, TRITONCACHE_CacheEntry *entry,
                                       size_t index) {
        TRITONSERVER_BufferAttributes *attributes;
        TRITONSERVER_MemoryType        type;
        void                          *base;

        KIT_TRY(TRITONSERVER_BufferAttributesNew(&attributes));
        plan->attributes[index] = attributes;
        KIT_TRY(TRITONCACHE_CacheEntryGetBuffer(entry, index, &base, attributes));
        KIT_TRY(TRITONSERVER_BufferAttributesMemoryType(attributes, &type));
        if (type == TRITONSERVER_MEMORY_GPU)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "only buffers in CPU memory can be kept");
        KIT_TRY(TRITONSERVER_BufferAttributesByteSize(attributes, &plan->sizes[index]));
        return add_aligned(&plan->n_bytes, plan->sizes[index]) ? NULL : too_large();
}

static TRITONSERVER_Error *plan_all(struct item_plan *plan, TRITONCACHE_CacheEntry *entry) {
        size_t n = 0;

        KIT_TRY(TRITONCACHE_CacheEntryBufferCount(entry, &n));
        if (n > UINT32_MAX)
                return too_large();
        plan->n_bytes = sizeof(struct item) + n * sizeof(struct item_buffer);
        if (!add_aligned(&plan->n_bytes, strlen(plan->key) + 1))
                return too_large();
        plan->attributes = calloc(n + 1, sizeof(TRITONSERVER_BufferAttributes *));
        plan->sizes = calloc(n + 1, sizeof(*plan->sizes));
        if (plan->attributes == NULL || plan->sizes == NULL)
                return kit_error_no_memory(n * sizeof(*plan->sizes), "the buffers of an entry");
        for (; plan->n_buffers < n; plan->n_buffers++)
                KIT_TRY(plan_buffer(plan, entry, plan->n_buffers));
        plan->cost = plan->n_bytes;
        if (!add_size(&plan->cost, TABLE_BYTES + n * ATTRIBUTES_BYTES))
                return too_large();
        return NULL;
}

TRITONSERVER_Error *item_plan_make(const char *key, TRITONCACHE_CacheEntry *entry,
                                   struct item_plan *ret) {
        TRITONSERVER_Error *err;

        *ret = (struct item_plan){ .key = key };
        err = plan_all(ret, entry);
        if (err != NULL) {
                if (ret->attributes != NULL)
                        /* plan_buffer() may have failed after it made the attributes of this
                         * buffer */
                        ret->n_buffers++;
                item_plan_done(ret);
        }
        return err;
}

void item_plan_done(struct item_plan *plan) {
        for (size_t i = 0; plan->attributes != NULL && i < plan->n_buffers; i++)
                if (plan->attributes[i] != NULL)
                        TRITONSERVER_BufferAttributesDelete(plan->attributes[i]);
        free(plan->attributes);
        free(plan->sizes);
        *plan = (struct item_plan){ 0 };
}

static void lay_out(struct item *item, struct item_plan *plan) {
        size_t key_bytes = strlen(plan->key) + 1;
        char  *at = (char *)&item->buffers[plan->n_buffers];

        item->key = memcpy(at, plan->key, key_bytes);
        /* The struct begins at a multiple of the alignment, so this is the offset that was counted. */
        at = (char *)item +
             ((size_t)(at + key_bytes - (char *)item) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        for (size_t i = 0; i < plan->n_buffers; i++) {
                item->buffers[i] = (struct item_buffer){ at, plan->attributes[i] };
                plan->attributes[i] = NULL;
                at += (plan->sizes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        }
        item->n_buffers = (uint32_t)plan->n_buffers;
        item->cost = plan->cost;
}

TRITONSERVER_Error *item_new(struct item_plan *plan, TRITONCACHE_CacheEntry *entry,
                             TRITONCACHE_Allocator *allocator, struct item **ret) {
        TRITONSERVER_Error *err = NULL;
        struct item        *item = malloc(plan->n_bytes);

        if (item == NULL)
                return kit_error_no_memory(plan->n_bytes, "an entry of the cache");
        memset(item, 0, sizeof(*item));
        atomic_init(&item->n_refs, 1);
        lay_out(item, plan);
        for (uint32_t i = 0; i < item->n_buffers && err == NULL; i++)
                err = TRITONCACHE_CacheEntrySetBuffer(entry, i, item->buffers[i].base, NULL);
        if (err == NULL)
                err = TRITONCACHE_Copy(allocator, entry);
        if (err != NULL) {
                item_unref(item);
                return err;
        }
        *ret = item;
        return NULL;
}

void item_ref(struct item *item) {
        atomic_fetch_add_explicit(&item->n_refs, 1, memory_order_relaxed);
}

void item_unref(struct item *item) {
        if (item == NULL || atomic_fetch_sub_explicit(&item->n_refs, 1, memory_order_acq_rel) > 1)
                return;
        for (uint32_t i = 0; i < item->n_buffers; i++)
                TRITONSERVER_BufferAttributesDelete(item->buffers[i].attributes);
        free(item);
}
