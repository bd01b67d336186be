/* SPDX-License-Identifier: BSD-3-Clause */
/* Listings of Azure Blob Storage (List Blobs).
 *
 * Ownership.  Texts are appended to the caller's buffers, which report overflow.
 * Threads.  Any.
 */
#pragma once

#include "base/strbuf.h"
#include "store/store_list.h"

#include <stddef.h>

#define LIST_AS_PAGE 5000 /* the largest that the service answers with */

/* Writes "<origin>/<container>?restype=container&comp=list...". With a host that serves several accounts,
 * such as Azurite, the container is "account/container". `prefix` as in store_list_init(); "" as
 * `token` for the first page; a page has at most `n_max` objects. */
void list_as_url(const char *origin, const char *container, const char *prefix, const char *token,
                 unsigned n_max, struct strbuf *ret);
/* Adds the objects of a page; *ret_token, which is cleared first, is empty after the last page. Directories of a store with a hierarchical namespace are entries of their own. INVALID_ARG that names what is
 * missing, or UNAVAILABLE. */
struct error *list_as_read(struct str page, struct store_list *l, struct strbuf *ret_token)
        NODISCARD;
