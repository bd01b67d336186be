/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API that response cache plug-ins call: TRITONCACHE_CacheEntry. */
#include "api/api_types.h"
#include "cache/cache_entry.h"
#include "triton/core/tritoncache.h"

DEFINE_API_TYPE(TRITONCACHE_CacheEntry, cache_entry)
DEFINE_API_TYPE(TRITONCACHE_Allocator, cache_transfer)

API_GETTER(TRITONCACHE_CacheEntryBufferCount, TRITONCACHE_CacheEntry, entry, size_t, count,
           cache_entry_from_api(entry)->n_buffers)

TRITONSERVER_Error *TRITONCACHE_CacheEntryAddBuffer(
        TRITONCACHE_CacheEntry *entry, void *base,
        TRITONSERVER_BufferAttributes *buffer_attributes) {
        API_NEEDS(entry, base, buffer_attributes);
        return error_to_api(cache_entry_add(cache_entry_from_api(entry), base,
                                            buffer_attributes_from_api(buffer_attributes)));
}

TRITONSERVER_Error *TRITONCACHE_CacheEntryGetBuffer(
        TRITONCACHE_CacheEntry *entry, size_t index, void **base,
        TRITONSERVER_BufferAttributes *buffer_attributes) {
        API_NEEDS(entry, base, buffer_attributes);
        return error_to_api(cache_entry_get(cache_entry_from_api(entry), index, base,
                                            buffer_attributes_from_api(buffer_attributes)));
}

TRITONSERVER_Error *TRITONCACHE_CacheEntrySetBuffer(
        TRITONCACHE_CacheEntry *entry, size_t index, void *new_base,
        TRITONSERVER_BufferAttributes *buffer_attributes) {
        API_NEEDS(entry, new_base);
        return error_to_api(cache_entry_set(cache_entry_from_api(entry), index, new_base,
                                            buffer_attributes_from_api(buffer_attributes)));
}

TRITONSERVER_Error *TRITONCACHE_Copy(TRITONCACHE_Allocator  *allocator,
                                     TRITONCACHE_CacheEntry *entry) {
        API_NEEDS(allocator, entry);
        return error_to_api(cache_transfer_copy(cache_transfer_from_api(allocator),
                                                cache_entry_from_api(entry)));
}
