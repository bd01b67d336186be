/* SPDX-License-Identifier: BSD-3-Clause */
/* The credentials for a storage account of Azure, from the environment variables. Sends no request.
 *
 * The first of these sources that exists is used:
 *   1. the entry of TRITON_CLOUD_CREDENTIAL_PATH: an account and its key; with that file the variables of 2
 *      and 3 are not used
 *   2. AZURE_STORAGE_KEY, the key of the account
 *   3. AZURE_STORAGE_SAS_TOKEN
 *   4. workload identity: AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID, AZURE_TENANT_ID
 *   5. managed identity: IDENTITY_ENDPOINT with IDENTITY_HEADER, else the metadata service of a virtual
 *      machine; when that does not answer, requests are anonymous
 *
 * The account is AZURE_STORAGE_ACCOUNT (account_str of the file), as in the reference server, which then
 * ignores the one in the address; without it, that of the address.
 *
 * Ownership.  azure_setup_done() overwrites and frees the texts.
 * Threads.  One owner; read by any.
 */
#pragma once

#include "base/error.h"
#include "store/credential_file.h"
#include "store/store_environment.h"
#include "store/store_url.h"

#include <stdatomic.h>
#include <stdbool.h>

enum azure_source {
        AZURE_ANONYMOUS,
        AZURE_SHARED_KEY,
        AZURE_SAS,
        AZURE_WORKLOAD,
        AZURE_MANAGED,
};

struct azure_setup {
        enum azure_source source;
        bool is_required; /* AZURE_MANAGED: the user names it, so a missing answer is an error */
        const atomic_bool
                *is_cancelled; /* borrowed: ends requests for tokens; NULL: nothing does */
        /* All owned; NULL: not given. */
        char *account;         /* never NULL */
        char *secret;          /* the key in base64, or the parameters without '?' */
        char *token_file;      /* AZURE_WORKLOAD */
        char *token_url;       /* likewise */
        char *client_id;       /* also AZURE_MANAGED, where a machine has several identities */
        char *identity_url;    /* AZURE_MANAGED */
        char *identity_header; /* for IDENTITY_ENDPOINT */
        char *origin;          /* "https://account.blob.core.windows.net"; never NULL */
};

/* `entry` NULL: without TRITON_CLOUD_CREDENTIAL_PATH. INVALID_ARG that names the variable. */
struct error *azure_setup_read(const struct store_environment *e,
                               const struct credential_entry *entry, const struct store_url *url,
                               struct azure_setup *ret) NODISCARD;
void          azure_setup_done(struct azure_setup *s);
