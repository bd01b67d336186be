/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of TRITON_CLOUD_CREDENTIAL_PATH: credentials by the beginning of an address.
 *
 *     {"s3": {"": {"key_id": "", "secret_key": "", "region": "", "session_token": "", "profile": ""},
 *             "s3://bucket-b": {...}},
 *      "gs": {"": "/path.json"},
 *      "as": {"": {"account_str": "", "account_key": ""}}}
 *
 * The longest beginning wins.
 *
 * Ownership.  credential_entry_done() overwrites and frees the texts.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "store/store_url.h"

struct credential_entry {
        /* All owned; "" when the file does not have it. */
        char *key_id;
        char *secret_key;
        char *session_token;
        char *region;
        char *profile;
        char *path;        /* of a service account's file */
        char *account_str; /* of Azure */
        char *account_key;
};

/* INVALID_ARG "Cannot match credential for path  <address>" when no entry does; errors of the file begin
 * with the variable and its path, and never have a value of it. */
struct error *credential_file_find(const char *path, const struct store_url *url,
                                   struct credential_entry *ret) NODISCARD;
void          credential_entry_done(struct credential_entry *e);
