/* SPDX-License-Identifier: BSD-3-Clause */
/* The allocator of output memory: the callbacks of TRITONSERVER_ResponseAllocator.
 *
 * The function types repeat those of the public header with the core's own names, so that the core does
 * not depend on the public headers; src/api checks that the two agree.
 *
 * Threads.  The callbacks are called from any thread, concurrently for different responses.
 */
#pragma once

#include "base/error.h"
#include "infer/buffer_attributes.h"

#include <stdbool.h>

struct response_allocator;

typedef struct error *(*allocator_alloc_fn)(struct response_allocator *allocator,
                                            const char *tensor, size_t byte_size,
                                            enum memory_type type, int64_t id, void *userp,
                                            void **buffer, void **buffer_userp,
                                            enum memory_type *actual_type, int64_t *actual_id);
typedef struct error *(*allocator_query_fn)(struct response_allocator *allocator, void *userp,
                                            const char *tensor, size_t *byte_size,
                                            enum memory_type *type, int64_t *id);
typedef struct error *(*allocator_attributes_fn)(struct response_allocator *allocator,
                                                 const char                *tensor,
                                                 struct buffer_attributes *attributes, void *userp,
                                                 void *buffer_userp);
typedef struct error *(*allocator_release_fn)(struct response_allocator *allocator, void *buffer,
                                              void *buffer_userp, size_t byte_size,
                                              enum memory_type type, int64_t id);
typedef struct error *(*allocator_start_fn)(struct response_allocator *allocator, void *userp);

/* Where the memory of an output comes from. */
struct memory_origin {
        const struct response_allocator *allocator;
        void                            *userp; /* for its alloc() */
        const char                      *name;  /* its name for the output */
};

/* For composed models (pipeline/client_memory.h). True when the memory of this output comes from another
 * allocator, which also takes it back; then *ret says from where. */
typedef bool (*allocator_redirect_fn)(void *userp, const char *tensor, struct memory_origin *ret);

/* Memory of the host for a small output, without a userp, which is not released; NULL: alloc() decides. Any thread. */
typedef void *(*allocator_small_fn)(void *userp, size_t byte_size);

struct response_allocator {
        allocator_alloc_fn      alloc;
        allocator_small_fn      small;      /* may be NULL; not with redirect */
        allocator_release_fn    release;    /* may be NULL */
        allocator_start_fn      start;      /* may be NULL */
        allocator_query_fn      query;      /* may be NULL */
        allocator_attributes_fn attributes; /* may be NULL */
        allocator_redirect_fn   redirect;   /* may be NULL */
};
