/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of requests: one block for a request and its first response, and a cache of free blocks
 * per thread.
 *
 * A thread frees all requests of one batch and then allocates all of the next. These are more blocks
 * than malloc caches per thread, so malloc would search, join and split blocks again and again. So a
 * thread that frees requests caches up to REQUEST_MEMORY_MAX_KEPT blocks for its next requests.
 * Further blocks go back to malloc, and all do when the thread ends. Under a sanitizer no block is
 * cached, so that the sanitizer sees each use after free.
 *
 * Ownership.  A block belongs to the caller of take until request_memory_give(); a cached block
 * belongs to the thread.
 * Threads.  Any; a block may be given back on another thread than the one that took it.
 */
#pragma once

#include "base/compiler.h"
#include "infer/request.h"
#include "infer/response.h"

#include <assert.h>
#include <stddef.h>

#if IS_SANITIZED
#define REQUEST_MEMORY_MAX_KEPT 0
#else
#define REQUEST_MEMORY_MAX_KEPT 64 /* about 115 KB */
#endif

/* Each part begins at a cache line of its own. */
struct request_memory {
        _Alignas(CACHE_LINE_BYTES) struct request request;
        /* Lent by the request's own stream, see response_stream.h. */
        _Alignas(CACHE_LINE_BYTES) struct response response;
};

static_assert(offsetof(struct request, times) == 2 * CACHE_LINE_BYTES &&
                      offsetof(struct request, own_stream) == 3 * CACHE_LINE_BYTES &&
                      offsetof(struct request, arena) == 4 * CACHE_LINE_BYTES &&
                      offsetof(struct request, first_memory) == 6 * CACHE_LINE_BYTES,
              "of a request, instances touch four lines, and a plain one has six");
static_assert(offsetof(struct request_input, only_chunk) == CACHE_LINE_BYTES &&
                      offsetof(struct request_input, raw_length) == 3 * CACHE_LINE_BYTES,
              "an input is two lines for its backend, and a plain one has three");
static_assert(offsetof(struct response, first_memory) == 3 * CACHE_LINE_BYTES,
              "a response with an output is five lines");

/* Uninitialised; NULL when memory is short. */
struct request_memory *request_memory_take(void) NODISCARD;
void                   request_memory_give(void *memory);
unsigned request_memory_count_kept(void); /* cached by the calling thread; for tests */
