/* SPDX-License-Identifier: BSD-3-Clause */
/* Listings of Amazon S3 and of stores with its interface (ListObjectsV2).
 *
 * Names are asked for in percent-encoding, since XML has no form for control characters. An ETag that is
 * an MD5 in hexadecimal is taken for that of the contents; the answer to a request for the object shows
 * whether it is (fetch_file.c).
 *
 * Ownership.  Texts are appended to the caller's buffers, which report overflow.
 * Threads.  Any.
 */
#pragma once

#include "base/strbuf.h"
#include "store/store_list.h"

#include <stddef.h>

#define LIST_S3_PAGE 1000 /* the largest that the service answers with */

/* Writes "<origin>/<bucket>?list-type=2...". `prefix` as in store_list_init(); "" as `token` for the first
 * page; a page has at most `n_max` objects. */
void list_s3_url(const char *origin, const char *bucket, const char *prefix, const char *token,
                 unsigned n_max, struct strbuf *ret);
/* Adds the objects of a page; *ret_token, which is cleared first, is empty after the last page.
 * INVALID_ARG that names what is missing, or UNAVAILABLE. */
struct error *list_s3_read(struct str page, struct store_list *l, struct strbuf *ret_token)
        NODISCARD;
