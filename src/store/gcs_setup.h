/* SPDX-License-Identifier: BSD-3-Clause */
/* The source of the token for Google Cloud Storage, from the environment variables and the file of an account.
 * Sends no request.
 *
 * The first of these sources that exists is used:
 *   1. STORAGE_EMULATOR_HOST: a server of tests, without credentials
 *   2. the file of the entry of TRITON_CLOUD_CREDENTIAL_PATH, else of GOOGLE_APPLICATION_CREDENTIALS, else
 *      the one that gcloud writes (application_default_credentials.json)
 *   3. the metadata service of a machine in Google's cloud; when it does not answer, requests are anonymous
 *
 * Ownership.  gcs_setup_done() overwrites and frees the texts.
 * Threads.  One owner; read by any.
 */
#pragma once

#include "base/error.h"
#include "store/credential_file.h"
#include "store/store_environment.h"

#include <stdatomic.h>
#include <stdbool.h>

enum gcs_source {
        GCS_ANONYMOUS,
        GCS_SERVICE_ACCOUNT, /* a token that the account's key signs */
        GCS_USER,            /* a refresh token */
        GCS_EXTERNAL,        /* the token of another issuer, in a file */
        GCS_METADATA,
};

struct gcs_setup {
        enum gcs_source source;
        bool is_required; /* GCS_METADATA: the user names it, so a missing answer is an error */
        const atomic_bool
                *is_cancelled; /* borrowed: ends requests for tokens; NULL: nothing does */
        /* All owned; NULL: not given. */
        char *path;         /* of the account's file: for messages */
        char *token_url;    /* the server that issues tokens */
        char *client_email; /* GCS_SERVICE_ACCOUNT */
        char *private_key;
        char *private_key_id;
        char *client_id; /* GCS_USER; GCS_EXTERNAL may have them */
        char *client_secret;
        char *refresh_token;
        char *audience; /* GCS_EXTERNAL */
        char *token_type;
        char *token_file;
        char *token_field;       /* the file is JSON, and this member of it is the token */
        char *impersonation_url; /* the token is exchanged for one of a service account */
        char *metadata_url;      /* "http://host" */
        char *origin;            /* "https://storage.googleapis.com"; never NULL */
};

/* `entry` NULL: without TRITON_CLOUD_CREDENTIAL_PATH. INVALID_ARG that names the variable or the file, and
 * the member. */
struct error *gcs_setup_read(const struct store_environment *e,
                             const struct credential_entry *entry, struct gcs_setup *ret) NODISCARD;
void          gcs_setup_done(struct gcs_setup *s);
