/* SPDX-License-Identifier: BSD-3-Clause */
/* The local copy of one directory of a remote repository: a model.
 *
 *     new -> (fetch_config) -> fetch_all -> the files are in store_copy_directory()
 *
 * The copy is that of a listing. When an object has changed since, the directory is listed once more and
 * everything that changed is fetched anew.
 *
 * Ownership.  Counted. The last unref removes the local directory; so a model that is loaded holds a
 * reference.
 * Threads.  Fetches: one at a time. The rest: any.
 */
#pragma once

#include "base/error.h"
#include "base/ref.h"
#include "store/store_fetch.h"

#include <stdbool.h>
#include <stdint.h>

struct store;
struct store_entry;
struct store_listing;

struct store_copy {
        struct ref            ref;
        struct store         *store;     /* ref */
        struct store_listing *listing;   /* ref; NULL after fetch_all */
        char                 *name;      /* owned; below the repository */
        char                 *address;   /* owned; "s3://bucket/path/m" */
        char                 *directory; /* owned; NULL: nothing is fetched yet */
        struct store_fetch    fetch;
};

struct store_copy *store_copy_new(struct store *s, struct store_listing *l, const char *name);
struct store_copy *store_copy_ref(struct store_copy *c);   /* NULL gives NULL */
void               store_copy_unref(struct store_copy *c); /* NULL is fine */

/* The entries of the directory; their names begin with "<name>/". None after store_copy_fetch_all(). */
const struct store_entry *store_copy_entries(const struct store_copy *c, size_t *ret_n);
/* The local directory; "" before anything was fetched. */
const char *store_copy_directory(const struct store_copy *c);

/* Fetches the configuration files alone: config.pbtxt and what is in configs/. Errors begin with the
 * address of an object. */
struct error *store_copy_fetch_config(struct store_copy *c) NODISCARD;
/* Fetches all. `may_change`: the directory may be listed once more; *ret_is_changed tells that the
 * entries are other ones than before. After success the entries are those of the local files. */
struct error *store_copy_fetch_all(struct store_copy *c, bool may_change, bool *ret_is_changed)
        NODISCARD;
/* The listing is not needed any more. */
void store_copy_drop_listing(struct store_copy *c);
/* Ends the running fetch, and those that begin later. */
void store_copy_cancel(struct store_copy *c);
/* False: nothing is being fetched. */
bool store_copy_progress(const struct store_copy *c, uint64_t *ret_done, uint64_t *ret_total);
