/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of a repository, or of one of its directories, at one moment: entries sorted by name. One
 * listing serves the scan for models, the fingerprints of their files and their transfer.
 *
 * Ownership.  Counted; nothing in it changes.
 * Threads.  Any.
 */
#pragma once

#include "base/ref.h"
#include "store/store_list.h"

struct store_listing {
        struct ref        ref;
        struct store_list list;
};

/* Takes the list. */
struct store_listing *store_listing_new(struct store_list *list);
struct store_listing *store_listing_ref(struct store_listing *l);   /* NULL gives NULL */
void                  store_listing_unref(struct store_listing *l); /* NULL is fine */

/* The entries below a directory ("m": those that begin with "m/"), in the order of their names. */
const struct store_entry *store_listing_find(const struct store_listing *l, const char *directory,
                                             size_t *ret_n);
/* The name of the directory at the top that has this entry; len 0 for a file at the top. */
struct str store_entry_top(const struct store_entry *e);
