/* SPDX-License-Identifier: BSD-3-Clause */
/* A cache of one entry that calls every function of tritoncache.h with right arguments, and with
 * NULL in the place of each pointer. */
#define CALLER "cache"
#include "calls.h"
#include "triton/core/tritoncache.h"

static struct {
        char  *bytes; /* owned; NULL: nothing is kept */
        size_t size;
} kept;

TRITONSERVER_Error *TRITONCACHE_CacheInitialize(TRITONCACHE_Cache **cache, const char *config) {
        uint32_t major = 7, minor = 0;

        OK(TRITONCACHE_ApiVersion, &major, &minor);
        REFUSED(INVALID_ARG, TRITONCACHE_ApiVersion, NULL, &minor);
        REFUSED(INVALID_ARG, TRITONCACHE_ApiVersion, &major, NULL);
        EXPECT(major == TRITONCACHE_API_VERSION_MAJOR && minor == TRITONCACHE_API_VERSION_MINOR);
        EXPECT(config != NULL);
        *cache = (TRITONCACHE_Cache *)&kept;
        return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheFinalize(TRITONCACHE_Cache *cache) {
        EXPECT(cache == (TRITONCACHE_Cache *)&kept);
        free(kept.bytes);
        kept.bytes = NULL;
        return NULL;
}

static void call_add(TRITONCACHE_CacheEntry *entry, TRITONSERVER_BufferAttributes *attributes) {
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntryAddBuffer, NULL, kept.bytes, attributes);
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntryAddBuffer, entry, NULL, attributes);
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntryAddBuffer, entry, kept.bytes, NULL);
        OK(TRITONCACHE_CacheEntryAddBuffer, entry, kept.bytes, attributes);
}

TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache *cache, const char *key,
                                            TRITONCACHE_CacheEntry *entry,
                                            TRITONCACHE_Allocator  *allocator) {
        TRITONSERVER_BufferAttributes *attributes;

        (void)cache, (void)key;
        if (kept.bytes == NULL)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "nothing is kept");
        OK(TRITONSERVER_BufferAttributesNew, &attributes);
        OK(TRITONSERVER_BufferAttributesSetByteSize, attributes, kept.size);
        call_add(entry, attributes);
        OK(TRITONSERVER_BufferAttributesDelete, attributes);
        REFUSED(INVALID_ARG, TRITONCACHE_Copy, NULL, entry);
        REFUSED(INVALID_ARG, TRITONCACHE_Copy, allocator, NULL);
        OK(TRITONCACHE_Copy, allocator, entry);
        return NULL;
}

static void call_get(TRITONCACHE_CacheEntry *entry, TRITONSERVER_BufferAttributes *attributes) {
        void  *base = NULL;
        size_t n = 0;

        OK(TRITONCACHE_CacheEntryBufferCount, entry, &n);
        EXPECT(n == 1);
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntryBufferCount, NULL, &n);
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntryBufferCount, entry, NULL);
        OK(TRITONCACHE_CacheEntryGetBuffer, entry, 0, &base, attributes);
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntryGetBuffer, NULL, 0, &base, attributes);
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntryGetBuffer, entry, 0, NULL, attributes);
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntryGetBuffer, entry, 0, &base, NULL);
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntryGetBuffer, entry, 1, &base, attributes);
}

static void call_set(TRITONCACHE_CacheEntry *entry) {
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntrySetBuffer, NULL, 0, kept.bytes, NULL);
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntrySetBuffer, entry, 0, NULL, NULL);
        REFUSED(INVALID_ARG, TRITONCACHE_CacheEntrySetBuffer, entry, 1, kept.bytes, NULL);
        OK(TRITONCACHE_CacheEntrySetBuffer, entry, 0, kept.bytes, NULL);
}

TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache *cache, const char *key,
                                            TRITONCACHE_CacheEntry *entry,
                                            TRITONCACHE_Allocator  *allocator) {
        TRITONSERVER_BufferAttributes *attributes;

        (void)cache, (void)key;
        if (kept.bytes != NULL)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_ALREADY_EXISTS, "is kept");
        OK(TRITONSERVER_BufferAttributesNew, &attributes);
        call_get(entry, attributes);
        OK(TRITONSERVER_BufferAttributesByteSize, attributes, &kept.size);
        OK(TRITONSERVER_BufferAttributesDelete, attributes);
        kept.bytes = malloc(kept.size);
        call_set(entry);
        OK(TRITONCACHE_Copy, allocator, entry);
        return NULL;
}
