/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of --api-key-file: which key grants which groups of endpoints, and which models.
 *
 *     # name      SHA-256 of the key    groups               models (all, when left out)
 *     team-a      9f86d081...           inference,health     llama-*,embedder
 *     operator    60303ae2...           *
 *     anonymous   -                     health
 *
 * Each key has a line of fields that are separated by blanks. "*" in the groups means all groups.
 * In a pattern of model names, "*" matches any run of characters. The line with "-" instead of a
 * digest holds the rules for requests without a key; without such a line these requests are granted
 * nothing. The file does not contain the keys themselves, so a reader of the file cannot use them.
 *
 * Errors are INVALID_ARG, "file:line:column: what is wrong". Lines and columns count from 1,
 * columns in bytes.
 *
 * Ownership.  api_key_file_done() frees what api_key_file_read() makes.
 * Threads.  Constant after it was read; any thread.
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

/* Limit of keys: the key of each request is compared with all of them. */
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
        struct api_key  anonymous; /* name NULL: requests without a key are granted nothing */
};

/* Error messages begin with `file_for_errors`. *ret is written only on success. */
struct error *api_key_file_read(struct str text, const char *file_for_errors,
                                struct api_key_file *ret) NODISCARD;
void          api_key_file_done(struct api_key_file *f);

/* Returns NULL when there is no such key. The time that it takes depends neither on which key
 * matches nor on how much of a digest matches. */
const struct api_key *api_key_file_find(const struct api_key_file *f, const unsigned char *digest);

bool api_key_grants_group(const struct api_key *key, enum endpoint_group group);
/* True when the key grants the model. An empty name asks for all models. */
bool api_key_grants_model(const struct api_key *key, struct str model);
