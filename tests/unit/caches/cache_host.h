/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of a cache's ABI, for tests of caches: entries and allocators that are plain
 * structs. The rest of what a cache calls is the core's own.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "triton/core/tritoncache.h"

#include <stddef.h>

#define HOST_MAX_BUFFERS 4

struct host_buffer {
        void  *base;
        size_t bytes;
        int    memory_type;
};

struct TRITONCACHE_CacheEntry {
        struct host_buffer buffers[HOST_MAX_BUFFERS];
        size_t             n;
};

/* On an insertion `bytes[i]` goes into buffer i, on a look-up it receives what is in there. */
struct TRITONCACHE_Allocator {
        int         is_lookup;
        char       *bytes[HOST_MAX_BUFFERS];
        size_t      n_copied; /* by a look-up: of all buffers */
        const char *fail;     /* the copy fails with it; NULL: it works */
};

/* Inserts texts, up to a NULL; NULL or the error's text, to be freed. */
char *host_insert(TRITONCACHE_Cache *cache, const char *key, const char *const *texts);
/* The one text under the key, to be freed; NULL when there is none. */
char *host_find(TRITONCACHE_Cache *cache, const char *key);

/* Takes err, whose code must be this one; its text, to be freed. NULL for no error. */
char *host_take(TRITONSERVER_Error *err, TRITONSERVER_Error_Code code);
