/* SPDX-License-Identifier: BSD-3-Clause */
/* What TRITONCACHE_Copy() does in one call of a cache; TRITONCACHE_Allocator is this.
 *
 * On an insertion the response goes into the one buffer that the cache has set in the entry, on a
 * look-up a response is made of the one that it has added: the outputs' bytes are copied once, into
 * the memory that the front end gives.
 *
 * Ownership.  Borrows request and response; what is made is whose transfer it is.
 * Threads.  One owner at a time: that of the call.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct cache_entry;
struct request;
struct response;

struct cache_transfer {
        const struct response *from; /* an insertion: borrowed; NULL: a look-up */
        size_t                 n_bytes; /* of the insertion */
        const struct request  *req;  /* a look-up: borrowed */
        struct response       *made; /* owned; NULL: nothing was copied yet */
};

/* INVALID_ARG when the entry has not the buffer that is needed, or on a second copy. */
struct error *cache_transfer_copy(struct cache_transfer *t, const struct cache_entry *e) NODISCARD;
