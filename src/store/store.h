/* SPDX-License-Identifier: BSD-3-Clause */
/* An opened remote repository: its address, the credentials, the folder of the copies, and the listing.
 *
 * Ownership.  Counted.
 * Threads.  Any, at the same time.
 */
#pragma once

#include "base/error.h"
#include "base/lock.h"
#include "base/ref.h"
#include "store/store_url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store_cache;
struct store_credentials;
struct store_folder;
struct store_hub;
struct store_listing;

struct store {
        struct ref                ref;
        struct store_hub         *hub; /* borrowed: outlives it */
        struct store_url          url;
        struct store_credentials *credentials; /* owned */
        struct store_folder      *folder;      /* owned; local copies */
        struct store_cache       *cache;       /* owned */

        struct mutex          lock;         /* rank LOCK_LEAF; guards everything below */
        struct store_listing *latest;       /* ref; of the whole repository; NULL: none yet */
        uint64_t              latest_ns;    /* when it was asked for, also in vain */
        struct error         *latest_error; /* owned; why the last attempt failed; or NULL */
        char *refusal; /* owned; the warning about names of the last listing; or NULL */
};

/* Opens it without a request. INVALID_ARG for an address, a variable or a file that is not valid;
 * an error when a library is missing, or the folder for copies cannot be used. */
struct error *store_open(struct store_hub *hub, const char *address, struct store **ret) NODISCARD;
struct store *store_ref(struct store *s);   /* NULL gives NULL */
void          store_unref(struct store *s); /* NULL is fine */

/* The address in one form, without anything secret. */
static inline const char *store_text(const struct store *s) {
        return s->url.text;
}

/* Lists what lies below the directory, "" for all of the repository; its names are relative to the
 * repository. The caller owns a reference. The error names the address. */
struct error *store_list_directory(struct store *s, const char *directory,
                                   struct store_listing **ret) NODISCARD;
/* The same for all of it; or the last answer, also a failure, when it is not older than that. */
struct error *store_list_recent(struct store *s, uint64_t max_age_ns, bool has_retries,
                                struct store_listing **ret) NODISCARD;
