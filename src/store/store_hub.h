/* SPDX-License-Identifier: BSD-3-Clause */
/* What the remote repositories of one server share: the threads that fetch, the limits, and the end.
 *
 * Threads that wait (for the next try of a request, for the end of a transfer) wait on one condition;
 * store_hub_stop() and a cancelled fetch wake them.
 *
 * Ownership.  The hub outlives its stores. It has no thread until the first transfer.
 * Threads.  Any. The lock (rank LOCK_LEAF) is not held during a request or a file operation.
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"
#include "base/work_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct store_fetch;

struct store_hub_options {
        const char *cache_directory; /* copied; "" or NULL: copies are not kept */
        uint64_t    cache_bytes;     /* limit of the cache; 0: none */
        unsigned    n_transfers;     /* requests for contents at a time */
        uint64_t    retry_ns;        /* time for further tries, from the last progress */
};

struct store_hub {
        char    *cache_directory; /* owned; "" : none */
        uint64_t cache_bytes;
        unsigned n_transfers;
        uint64_t retry_ns;
        struct work_pool
                    *transfers; /* owned; a transfer that waits for its next try frees its place */
        atomic_bool  is_stopping;
        struct mutex lock;    /* rank LOCK_LEAF; guards everything below, and the fetches */
        struct cond  changed; /* a piece has ended, a fetch is cancelled, the server stops */
        struct list  fetches; /* struct store_fetch: those that run */
};

struct store_hub *store_hub_new(const struct store_hub_options *o);
void              store_hub_free(struct store_hub *h); /* NULL is fine; no store may be left */

/* Ends all requests and fetches, also later ones, with CANCELLED. */
void store_hub_stop(struct store_hub *h);

/* Ends the present run of the fetch; the lock is held. */
void store_hub_end_fetch_locked(struct store_hub *h, struct store_fetch *f);

/* Waits until that time, or until *is_cancelled. */
void store_hub_wait(struct store_hub *h, const atomic_bool *is_cancelled, uint64_t until_ns);
