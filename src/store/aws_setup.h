/* SPDX-License-Identifier: BSD-3-Clause */
/* The source of the keys for a store with the interface of S3, from the environment variables and the shared
 * files. Sends no request.
 *
 * The first of these sources that exists is used:
 *   1. keys of the entry of TRITON_CLOUD_CREDENTIAL_PATH, or the profile that it names; with that file the
 *      variables of 2 and AWS_PROFILE are not used
 *   2. AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
 *   3. the profile AWS_PROFILE, else "default", of the shared files
 *   4. a token for a role: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN
 *   5. the container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, ..._FULL_URI
 *   6. the metadata service of an EC2 instance, unless AWS_EC2_METADATA_DISABLED is "true"; when it does not
 *      answer, requests are anonymous
 *
 * Ownership.  aws_setup_done() overwrites and frees the texts.
 * Threads.  One owner; read by any.
 */
#pragma once

#include "base/error.h"
#include "store/credential_file.h"
#include "store/store_environment.h"

#include <stdatomic.h>
#include <stdbool.h>

enum aws_source {
        AWS_ANONYMOUS,
        AWS_STATIC,
        AWS_WEB_IDENTITY,
        AWS_CONTAINER,
        AWS_INSTANCE,
};

struct aws_setup {
        enum aws_source source;
        bool            is_role; /* the keys of the source take the role `role_arn` */
        bool is_required; /* AWS_INSTANCE: the user names it, so a missing answer is an error */
        const atomic_bool *is_cancelled; /* borrowed: ends requests for keys; NULL: nothing does */
        /* All owned; NULL: not given. */
        char *key_id; /* AWS_STATIC */
        char *secret;
        char *token;
        char *role_arn;
        char *role_session_name;
        char *external_id;
        char *duration;
        char *web_token_file; /* AWS_WEB_IDENTITY */
        char *web_token_from; /* what names that file: for messages */
        char *container_url;  /* AWS_CONTAINER */
        char *container_token;
        char *container_token_file;
        char *instance_url; /* without a slash at its end */
        char *region;       /* never NULL */
        char *s3_url;       /* "https://host:port", without a slash at its end; never NULL */
        char *sts_url;      /* likewise */
};

/* `entry` NULL: without TRITON_CLOUD_CREDENTIAL_PATH. `has_host`: the address names the host of the store, so
 * s3_url is not used. INVALID_ARG that names the variable, or the file and the line. */
struct error *aws_setup_read(const struct store_environment *e,
                             const struct credential_entry *entry, bool has_host,
                             struct aws_setup *ret) NODISCARD;
void          aws_setup_done(struct aws_setup *s);
