/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of --api-key-file: who may use which endpoints, and which models.
 *
 *     # name      SHA-256 of the key    groups               models (all, when left out)
 *     team-a      9f86d081...           inference,health     llama-*,embedder
 *     operator    60303ae2...           *
 *     anonymous   -                     health
 *
 * A line for each key, its fields separated by blanks. "*" among the groups is every group, in a
 * pattern of model names any run of characters. The line with "-" in the digest's place says what
 * requests without a key may do; without such a line they may do nothing. The file holds no key
 * itself: who reads it cannot use it.
 *
 * Errors are INVALID_ARG, "file:line:column: what is wrong"; lines and columns count from 1,
 * columns in bytes.
 *
 * Ownership.  api_key_file_done() frees what read made.
 * Threads.  Constant after read; any thread.
 */
#pragma once

#include "auth/endpoint.h"
#include "base/compiler.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every request with a key is compared with all of them. */
#define API_KEY_FILE_MAX_KEYS 4096
#define API_KEY_FILE_MAX_BYTES ((size_t)1 << 20)
#define API_KEY_MAX_NAME 64

struct api_key {
        char         *name; /* owned; letters, digits, '.', '_', '-' */
        unsigned char digest[DIGEST_SHA256_BYTES];
        uint32_t      groups; /* one bit for each enum endpoint_group */
        char         *models; /* owned: patterns with commas between them; NULL = all */
        uint32_t      line;
};

struct api_key_file {
        struct api_key *keys; /* owned */
        size_t          n_keys;
        struct api_key  anonymous; /* name NULL: requests without a key may do nothing */
};

/* `file_for_errors` is put before line and column. *ret is written only on success. */
struct error *api_key_file_read(struct str text, const char *file_for_errors,
                                struct api_key_file *ret) NODISCARD;
void          api_key_file_done(struct api_key_file *f);

/* NULL when there is none. The time it takes does not tell which, nor how much was right. */
const struct api_key *api_key_file_find(const struct api_key_file *f, const unsigned char *digest);

bool api_key_grants_group(const struct api_key *key, enum endpoint_group group);
/* An empty name: all models. */
bool api_key_grants_model(const struct api_key *key, struct str model);
