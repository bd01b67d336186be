/* SPDX-License-Identifier: BSD-3-Clause */
/* The address of a model repository in an object store, or of something below it.
 *
 *     s3://bucket/path                            the store of AWS, in the region of the credentials
 *     s3://https://host:port/bucket/path          another store with this interface; also http://, or
 *                                                 host:port alone, which means https
 *     gs://bucket/path
 *     as://account/container/path                 account may be a host: account.blob.core.windows.net
 *     as://http://host:port/account/container/path    another store with this interface; likewise https://,
 *                                                 or host:port alone, which means https
 *     http://host:port/path, https://...          a folder with an index file
 *
 * Repeated slashes and slashes at the end are ignored.
 *
 * Ownership.  store_url_done() frees the texts.
 * Threads.  One owner; read by any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>

enum store_kind { STORE_S3, STORE_GS, STORE_AS, STORE_WEB };

struct store_url {
        enum store_kind kind;
        bool            is_tls;
        char           *host; /* owned; "host" or "host:port"; for STORE_AS the account when it is a
                                 * name; "" : the kind's own service */
        char           *bucket; /* owned; the bucket or container, or "account/container" of a store
                                 * host:port; "" for STORE_WEB */
        char *path; /* owned; below the bucket, without slashes at both ends; "" : all of it */
        char *text; /* owned; the address in one form, without a query: for messages, and to
                                 * compare prefixes, such as "s3://bucket/path" */
};

/* True for a text that begins with one of the schemes above. */
bool store_url_is_remote(const char *text);
/* INVALID_ARG that names the address, without its query. */
struct error *store_url_parse(const char *text, struct store_url *ret) NODISCARD;
void          store_url_done(struct store_url *u);
