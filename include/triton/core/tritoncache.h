/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface between the server and a response cache: a shared library that keeps responses
 * by a key that the server makes of model and inputs.
 *
 * The server finds <directory>/<name>/libtritoncache_<name>.so, loads it at start-up if it is
 * configured, and calls the four entry points at the end of this file, all required. An *entry*
 * is a list of buffers: on insertion the server has filled it and the cache copies from it; on
 * a lookup the cache fills it. Copies go through TRITONCACHE_Copy(), so that the server can
 * write straight into a response.
 *
 * **Ownership.** As in tritonserver.h. Entries and allocators are lent for the call.
 *
 * **Threads.** Lookups and insertions come from several threads at once.
 */
#pragma once

#include "triton/core/tritonserver.h"

/* On what the server defines. */
#if defined(__GNUC__)
#define TRITONCACHE_DECLSPEC __attribute__((visibility("default")))
#else
#define TRITONCACHE_DECLSPEC
#endif

/* On what a plug-in defines and the server looks up in it. */
#define TRITONCACHE_ISPEC TRITONCACHE_DECLSPEC

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. */
#define TRITONCACHE_API_VERSION_MAJOR 0
#define TRITONCACHE_API_VERSION_MINOR 1

/* TRITONCACHE_Cache is the cache's own; the others are objects of the server. */
typedef struct TRITONCACHE_Cache      TRITONCACHE_Cache;
typedef struct TRITONCACHE_CacheEntry TRITONCACHE_CacheEntry;
typedef struct TRITONCACHE_Allocator  TRITONCACHE_Allocator;

/* ---- What a cache can call ------------------------------------------------------------------- */

/* Gives the version of this interface that the server implements. */
TRITONCACHE_DECLSPEC TRITONSERVER_Error *TRITONCACHE_ApiVersion(uint32_t *major, uint32_t *minor);

/* How many buffers an entry has. */
TRITONCACHE_DECLSPEC TRITONSERVER_Error *TRITONCACHE_CacheEntryBufferCount(
        TRITONCACHE_CacheEntry *entry, size_t *count);

/* Adds a buffer at the end of an entry; the attributes, which give its size, are copied, the
 * buffer is not. */
TRITONCACHE_DECLSPEC TRITONSERVER_Error *TRITONCACHE_CacheEntryAddBuffer(
        TRITONCACHE_CacheEntry *entry, void *base,
        TRITONSERVER_BufferAttributes *buffer_attributes);

/* A buffer of an entry, counted from 0, and what is known about it, written into the caller's
 * attributes. INVALID_ARG beyond the last. */
TRITONCACHE_DECLSPEC TRITONSERVER_Error *TRITONCACHE_CacheEntryGetBuffer(
        TRITONCACHE_CacheEntry *entry, size_t index, void **base,
        TRITONSERVER_BufferAttributes *buffer_attributes);

/* Replaces a buffer of an entry, and its attributes unless `buffer_attributes` is NULL. */
TRITONCACHE_DECLSPEC TRITONSERVER_Error *TRITONCACHE_CacheEntrySetBuffer(
        TRITONCACHE_CacheEntry *entry, size_t index, void *new_base,
        TRITONSERVER_BufferAttributes *buffer_attributes);

/* Copies between the cache's buffers in `entry` and the response: on insertion into the buffers
 * that the cache has set in the entry, on a lookup out of those it has added. */
TRITONCACHE_DECLSPEC TRITONSERVER_Error *TRITONCACHE_Copy(TRITONCACHE_Allocator  *allocator,
                                                          TRITONCACHE_CacheEntry *entry);

/* ---- Entry points that a cache defines ------------------------------------------------------- */

/* A cache is made. `config` is the JSON object that it was configured with. */
TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInitialize(TRITONCACHE_Cache **cache,
                                                                  const char         *config);

/* A cache ends. */
TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheFinalize(TRITONCACHE_Cache *cache);

/* Fills `entry` with what is kept under `key` and calls TRITONCACHE_Copy(); NOT_FOUND when
 * there is nothing. */
TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache      *cache,
                                                              const char             *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator  *allocator);

/* Keeps what is in `entry` under `key`; ALREADY_EXISTS when there is something. */
TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache      *cache,
                                                              const char             *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator  *allocator);

#ifdef __cplusplus
}
#endif
