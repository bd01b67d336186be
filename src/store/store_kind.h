/* SPDX-License-Identifier: BSD-3-Clause */
/* The differences between the kinds of stores: the address of a page of the listing, the form of such a page,
 * the address of an object, and the headers of a request for it.
 *
 * Ownership.  Texts are appended to the caller's buffers.
 * Threads.  Pure functions.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

struct store;
struct store_entry;
struct store_list;
struct store_request;

/* The prefix of the names of a listing (store_list_init()). Borrowed. */
const char *store_kind_prefix(const struct store *s);
/* Writes the address of a page of the listing of a directory, "" for all of the repository; `token` "" :
 * the first page. */
void store_kind_print_page(const struct store *s, const char *directory, const char *token,
                           struct strbuf *out);
/* Reads a page into the list. *ret_token is cleared, and becomes that of the next page; it stays empty at
 * the last one. INVALID_ARG for a page that is not valid. */
struct error *store_kind_read_page(const struct store *s, const char *directory, struct str page,
                                   struct store_list *list, struct strbuf *ret_token) NODISCARD;
/* Limit of the size of a page. */
size_t store_kind_page_bytes(const struct store *s);

void store_kind_print_object(const struct store *s, const struct store_entry *e,
                             struct strbuf *out);
/* Headers with which the store answers only when the object is that of the listing. */
void store_kind_add_headers(const struct store *s, const struct store_entry *e,
                            struct store_request *r);
/* True when the ETag of an answer is written as in the listing. */
bool store_kind_compares_etag(const struct store *s);

/* The address of an object, for messages. The caller owns it. */
char *store_kind_describe(const struct store *s, const char *name);
/* The address of a listing, for messages; allocated. */
char *store_kind_describe_page(const struct store *s);
