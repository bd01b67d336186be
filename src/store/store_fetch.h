/* SPDX-License-Identifier: BSD-3-Clause */
/* The fetch of some objects of a store into a local directory, through the cache.
 *
 *     entries -> cache file: whole -> a further name in the directory
 *                            part  -> runners fetch its pieces -> verified -> whole
 *                            busy  -> another server fetches it: looked at again
 *
 * A file has up to as many runners as the server has transfers. A runner is a piece of work of the
 * transfer pool: it fetches one piece and queues up again, so that all files of all models take turns.
 * The first request of a file decides whether the store serves ranges; when it does not, one runner
 * fetches the whole file.
 *
 * Each byte comes from the object of the listing: requests have If-Match, and the ETag of an answer is
 * compared. The checksum of a file is computed piece by piece while later ones arrive.
 *
 * Ownership.  Embedded in its copy (store_copy.h). Borrows the entries until store_fetch_run() returns.
 * Threads.  store_fetch_run(): one. Cancel and progress: any, at the same time.
 */
#pragma once

#include "base/error.h"
#include "base/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;
struct store_entry;

struct store_fetch {
        struct list_node node;         /* in hub->fetches while it runs */
        struct store    *store;        /* borrowed */
        atomic_bool      is_cancelled; /* the run ends, for whatever reason */
        _Atomic uint64_t total_bytes;
        _Atomic uint64_t done_bytes;

        /* Guarded by the hub's lock. */
        bool          is_abandoned; /* by store_fetch_cancel(): later runs end at once */
        struct error *error;        /* owned; the first one */
        bool          has_changed;  /* an object is not that of the listing any more */
        size_t        n_running;    /* files that have runners */
};

struct store_fetch_options {
        const struct store_entry *const *entries;
        size_t                           n_entries;
        size_t      n_skipped; /* bytes of each name that are not in the directory */
        const char *directory; /* exists */
        const char *what;      /* address, for the log */
};

void store_fetch_init(struct store_fetch *f, struct store *s);
/* Returns when all is there, or has failed. CANCELLED; else the error names the object.
 * *ret_has_changed: the listing is out of date. */
struct error *store_fetch_run(struct store_fetch *f, const struct store_fetch_options *o,
                              bool *ret_has_changed) NODISCARD;
/* Ends it, now or when it begins, and all later runs. */
void store_fetch_cancel(struct store_fetch *f);
