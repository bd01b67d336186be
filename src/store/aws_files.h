/* SPDX-License-Identifier: BSD-3-Clause */
/* The profiles of AWS's shared files: ~/.aws/credentials and ~/.aws/config, or the files that
 * AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name. In the second a section is "[profile name]", or
 * "[default]".
 *
 * Ownership.  aws_files_done() overwrites and frees both; values are ranges of them.
 * Threads.  One owner; read by any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "store/ini_file.h"
#include "store/store_environment.h"

#include <stdbool.h>

struct aws_files {
        struct ini_file credentials; /* path NULL: there is none */
        struct ini_file config;      /* likewise */
};

/* A file of the home folder need not be there; one that a variable names must be. INVALID_ARG names the
 * variable or the file, and the line. */
struct error *aws_files_open(const struct store_environment *e, struct aws_files *ret) NODISCARD;
void          aws_files_done(struct aws_files *f);

struct aws_value {
        struct str  text;
        const char *path; /* of the file that has it */
        unsigned    line;
};

bool aws_files_has_profile(const struct aws_files *f, const char *profile);
/* The value of the credentials file goes before that of the config file. False when both lack it or have
 * an empty one. */
bool aws_files_find(const struct aws_files *f, const char *profile, const char *key,
                    struct aws_value *ret);
