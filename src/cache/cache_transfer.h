/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of TRITONCACHE_Copy() in one call of a cache. This is TRITONCACHE_Allocator.
 *
 * On an insertion the response is written to the one buffer that the cache has set in the entry. On
 * a look-up a response is created from the one buffer that the cache has added: the outputs' bytes
 * are copied once, into memory that the front end provides.
 *
 * Ownership.  Borrows request and response. The transfer owns the response that it creates.
 * Threads.  One owner at a time: the thread of the call.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct cache_entry;
struct request;
struct response;

struct cache_transfer {
        const struct response *from; /* borrowed response of an insertion; NULL: a look-up */
        size_t                 n_bytes; /* size of the insertion */
        const struct request  *req;  /* borrowed request of a look-up */
        struct response       *made; /* owned; NULL: not copied yet */
};

/* INVALID_ARG when the entry lacks the buffer that is needed, or on a second copy. */
struct error *cache_transfer_copy(struct cache_transfer *t, const struct cache_entry *e) NODISCARD;
