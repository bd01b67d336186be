/* SPDX-License-Identifier: BSD-3-Clause */
/* The response cache of fuzz_cached_response.c: finds for each key the bytes of the file that NESO_FUZZ_BYTES
 * names, and keeps nothing. The file's first byte says how they are given, the rest is the entry:
 *
 *     bits 0-1   number of buffers; each has all of the bytes
 *     bit 2      the last buffer is in GPU memory
 *     bit 3      the last buffer is NULL
 *     bit 4      the entry is copied twice
 *     bit 5      the look-up fails after the copy
 *     bit 6      the entry is not copied
 */
#include "triton/core/tritoncache.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_BYTES 65536

enum { ON_GPU = 4, IS_NULL = 8, COPIES_TWICE = 16, FAILS = 32, COPIES_NOT = 64 };

static int cache; /* its address is the handle */

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInitialize(TRITONCACHE_Cache **ret,
                                                                  const char         *config) {
        (void)config;
        *ret = (TRITONCACHE_Cache *)&cache;
        return NULL;
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheFinalize(TRITONCACHE_Cache *c) {
        (void)c;
        return NULL;
}

/* The first byte, and the entry in memory of exactly its size, so that a sanitizer sees every byte read too
 * far. NULL: there are no bytes. */
static unsigned char *read_entry(unsigned *ret_how, size_t *ret_n) {
        const char    *path = getenv("NESO_FUZZ_BYTES");
        FILE          *file = path != NULL ? fopen(path, "rb") : NULL;
        int            how = file != NULL ? fgetc(file) : EOF;
        unsigned char *entry = how != EOF ? malloc(MAX_BYTES) : NULL;

        if (entry != NULL) {
                *ret_how = (unsigned)how;
                *ret_n = fread(entry, 1, MAX_BYTES, file);
                entry = realloc(entry, *ret_n > 0 ? *ret_n : 1);
        }
        if (file != NULL)
                fclose(file);
        return entry;
}

static TRITONSERVER_Error *add_buffer(TRITONCACHE_CacheEntry *entry, void *base, size_t n,
                                      int on_gpu) {
        TRITONSERVER_BufferAttributes *attributes;
        TRITONSERVER_Error            *err = TRITONSERVER_BufferAttributesNew(&attributes);

        if (err != NULL)
                return err;
        err = TRITONSERVER_BufferAttributesSetByteSize(attributes, n);
        if (err == NULL)
                err = TRITONSERVER_BufferAttributesSetMemoryType(attributes,
                                                                 on_gpu ? TRITONSERVER_MEMORY_GPU
                                                                        : TRITONSERVER_MEMORY_CPU);
        if (err == NULL)
                err = TRITONCACHE_CacheEntryAddBuffer(entry, base, attributes);
        TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesDelete(attributes));
        return err;
}

static TRITONSERVER_Error *give(TRITONCACHE_CacheEntry *entry, TRITONCACHE_Allocator *allocator,
                                unsigned how, unsigned char *bytes, size_t n) {
        unsigned            n_buffers = how & 3;
        TRITONSERVER_Error *err = NULL;

        for (unsigned i = 0; i < n_buffers && err == NULL; i++) {
                int is_last = i + 1 == n_buffers;

                err = add_buffer(entry, is_last && (how & IS_NULL) ? NULL : bytes, n,
                                 is_last && (how & ON_GPU));
        }
        if (err == NULL && (how & COPIES_NOT) == 0)
                err = TRITONCACHE_Copy(allocator, entry);
        if (err == NULL && (how & COPIES_TWICE) != 0)
                err = TRITONCACHE_Copy(allocator, entry);
        if (err == NULL && (how & FAILS) != 0)
                err = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "the look-up failed");
        return err;
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache *c, const char *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator  *allocator) {
        size_t              n;
        unsigned            how;
        unsigned char      *bytes = read_entry(&how, &n);
        TRITONSERVER_Error *err;

        (void)c;
        (void)key;
        if (bytes == NULL)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "no bytes");
        err = give(entry, allocator, how, bytes, n);
        free(bytes);
        return err;
}

TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache *c, const char *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator  *allocator) {
        (void)c;
        (void)key;
        (void)entry;
        (void)allocator;
        return NULL;
}
