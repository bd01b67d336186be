/* SPDX-License-Identifier: BSD-3-Clause */
#include "caches/cache_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

TRITONSERVER_Error *TRITONCACHE_ApiVersion(uint32_t *major, uint32_t *minor) {
        *major = TRITONCACHE_API_VERSION_MAJOR;
        *minor = TRITONCACHE_API_VERSION_MINOR;
        return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheEntryBufferCount(TRITONCACHE_CacheEntry *entry,
                                                      size_t                 *count) {
        *count = entry->n;
        return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheEntryAddBuffer(TRITONCACHE_CacheEntry *entry, void *base,
                                                    TRITONSERVER_BufferAttributes *attributes) {
        struct host_buffer *b = &entry->buffers[entry->n++];

        if (entry->n > HOST_MAX_BUFFERS)
                abort();
        b->base = base;
        TRITONSERVER_BufferAttributesByteSize(attributes, &b->bytes);
        return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheEntryGetBuffer(TRITONCACHE_CacheEntry *entry, size_t index,
                                                    void                         **base,
                                                    TRITONSERVER_BufferAttributes *attributes) {
        if (index >= entry->n)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "no such buffer");
        *base = entry->buffers[index].base;
        TRITONSERVER_BufferAttributesSetByteSize(attributes, entry->buffers[index].bytes);
        TRITONSERVER_BufferAttributesSetMemoryType(
                attributes, (TRITONSERVER_MemoryType)entry->buffers[index].memory_type);
        return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheEntrySetBuffer(TRITONCACHE_CacheEntry *entry, size_t index,
                                                    void                          *new_base,
                                                    TRITONSERVER_BufferAttributes *attributes) {
        (void)attributes;
        if (index >= entry->n)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "no such buffer");
        entry->buffers[index].base = new_base;
        return NULL;
}

TRITONSERVER_Error *TRITONCACHE_Copy(TRITONCACHE_Allocator  *allocator,
                                     TRITONCACHE_CacheEntry *entry) {
        if (allocator->fail != NULL)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, allocator->fail);
        for (size_t i = 0; i < entry->n; i++) {
                struct host_buffer *b = &entry->buffers[i];

                if (allocator->is_lookup)
                        memcpy(allocator->bytes[i], b->base, b->bytes);
                else
                        memcpy(b->base, allocator->bytes[i], b->bytes);
                allocator->n_copied += b->bytes;
        }
        return NULL;
}

char *host_take(TRITONSERVER_Error *err, TRITONSERVER_Error_Code code) {
        char *text;

        if (err == NULL)
                return NULL;
        text = strdup(TRITONSERVER_ErrorMessage(err));
        if (TRITONSERVER_ErrorCode(err) != code)
                fail_msg("code %d instead of %d: %s", TRITONSERVER_ErrorCode(err), code, text);
        TRITONSERVER_ErrorDelete(err);
        return text;
}

char *host_insert(TRITONCACHE_Cache *cache, const char *key, const char *const *texts) {
        TRITONCACHE_CacheEntry entry = { .n = 0 };
        TRITONCACHE_Allocator  allocator = { .is_lookup = 0 };
        TRITONSERVER_Error    *err;
        char                  *text = NULL;

        for (; texts[entry.n] != NULL; entry.n++) {
                allocator.bytes[entry.n] = (char *)texts[entry.n];
                entry.buffers[entry.n].bytes = strlen(texts[entry.n]);
        }
        err = TRITONCACHE_CacheInsert(cache, key, &entry, &allocator);
        if (err != NULL) {
                text = strdup(TRITONSERVER_ErrorMessage(err));
                TRITONSERVER_ErrorDelete(err);
        }
        return text;
}

char *host_find(TRITONCACHE_Cache *cache, const char *key) {
        TRITONCACHE_CacheEntry entry = { .n = 0 };
        char                   bytes[65536];
        TRITONCACHE_Allocator  allocator = { .is_lookup = 1, .bytes = { bytes } };
        TRITONSERVER_Error    *err = TRITONCACHE_CacheLookup(cache, key, &entry, &allocator);

        if (err != NULL) {
                free(host_take(err, TRITONSERVER_ERROR_NOT_FOUND));
                return NULL;
        }
        return strndup(bytes, allocator.n_copied);
}
