/* SPDX-License-Identifier: BSD-3-Clause */
/* Response allocators. The core calls the program's callbacks through its own function types, which
 * differ from the public ones only in the names of structs and enums: the same pointers and integers
 * are passed. The assertions check the properties that this relies on.
 */
#include "api/api_types.h"
#include "base/mem.h"

_Static_assert(sizeof(enum memory_type) == sizeof(TRITONSERVER_MemoryType),
               "memory types are passed differently");

/* A cast through this type converts between function types without a warning. */
typedef void (*any_fn)(void);

struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorNew(
        struct TRITONSERVER_ResponseAllocator   **allocator,
        TRITONSERVER_ResponseAllocatorAllocFn_t   alloc_fn,
        TRITONSERVER_ResponseAllocatorReleaseFn_t release_fn,
        TRITONSERVER_ResponseAllocatorStartFn_t   start_fn) {
        struct response_allocator *a;

        API_NEEDS(allocator, alloc_fn, release_fn);
        a = mem_zalloc(sizeof(*a));
        a->alloc = (allocator_alloc_fn)(any_fn)alloc_fn;
        a->release = (allocator_release_fn)(any_fn)release_fn;
        a->start = (allocator_start_fn)(any_fn)start_fn;
        *allocator = response_allocator_to_api(a);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(
        struct TRITONSERVER_ResponseAllocator             *allocator,
        TRITONSERVER_ResponseAllocatorBufferAttributesFn_t buffer_attributes_fn) {
        API_NEEDS(allocator);
        response_allocator_from_api(allocator)->attributes =
                (allocator_attributes_fn)(any_fn)buffer_attributes_fn;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorSetQueryFunction(
        struct TRITONSERVER_ResponseAllocator  *allocator,
        TRITONSERVER_ResponseAllocatorQueryFn_t query_fn) {
        API_NEEDS(allocator);
        response_allocator_from_api(allocator)->query = (allocator_query_fn)(any_fn)query_fn;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorDelete(
        struct TRITONSERVER_ResponseAllocator *allocator) {
        free(response_allocator_from_api(allocator));
        return NULL;
}
