/* SPDX-License-Identifier: BSD-3-Clause */
/* Listings of Google Cloud Storage by its JSON API (objects.list), and addresses of objects there.
 *
 * An entry's ETag is that of the object's resource. The same API takes it in If-Match when the object is
 * read from the address of list_gs_object_url(); the XML API has other ETags.
 *
 * Ownership.  Texts are appended to the caller's buffers, which report overflow.
 * Threads.  Any.
 */
#pragma once

#include "base/strbuf.h"
#include "store/store_list.h"

#include <stddef.h>

#define LIST_GS_PAGE 1000 /* the largest that the service answers with */

/* Writes "<origin>/storage/v1/b/<bucket>/o?...". `prefix` as in store_list_init(); "" as `token` for the
 * first page; a page has at most `n_max` objects. */
void list_gs_url(const char *origin, const char *bucket, const char *prefix, const char *token,
                 unsigned n_max, struct strbuf *ret);
/* Adds the objects of a page; *ret_token, which is cleared first, is empty after the last page.
 * INVALID_ARG that names what is missing, or UNAVAILABLE. */
struct error *list_gs_read(struct str page, struct store_list *l, struct strbuf *ret_token)
        NODISCARD;

/* Writes the address of an object's bytes. */
void list_gs_object_url(const char *origin, const char *bucket, struct str key, struct strbuf *ret);
