/* SPDX-License-Identifier: BSD-3-Clause */
/* The fingerprint of a model's directory, to detect changes of its files.
 *
 * No file is read. Name, size, modification time and inode of each file are mixed into a number; of an
 * object in a remote repository name, size, ETag and checksum, as they were listed.
 * There is one number for the configuration, one for each version, and one for the rest (labels,
 * samples for the warm-up), because a changed version concerns only that version. Files that
 * editors and backends leave behind (hidden files, backups, swap files, __pycache__) are left out.
 * Symbolic links are followed, except to a directory that the link is in. At most 131 072 entries below
 * the versions and the rest are looked at, in the order of their names, 16 levels deep: a link to the
 * root of a machine costs some seconds at most, and changes behind the limit are not seen.
 *
 * Ownership.  dir_fingerprint_free() frees it.
 * Threads.  One owner.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Value of `config` for a directory without a configuration. */
#define DIR_FINGERPRINT_NO_CONFIG UINT64_C(0xcbf29ce484222325)

#define DIR_FINGERPRINT_MAX_ENTRIES 131072

struct store_copy;

struct version_fingerprint {
        int64_t  number;
        uint64_t files;
};

struct dir_fingerprint {
        uint64_t                    config; /* config.pbtxt, and the directory configs/ */
        uint64_t                    rest;
        struct version_fingerprint *versions; /* owned; ascending */
        size_t                      n_versions;
        bool                        is_cut; /* there may be entries beyond the limit */
};

/* Reads the fingerprint. NOT_FOUND or a similar error when the directory cannot be read. A file
 * that is removed meanwhile is left out. */
struct error *dir_fingerprint_read(const char *directory, struct dir_fingerprint **ret) NODISCARD;
/* The same for a directory of a remote repository, from its listing, without a request. NOT_FOUND: nothing
 * is listed. */
struct error *dir_fingerprint_of_copy(const struct store_copy *copy, struct dir_fingerprint **ret)
        NODISCARD;
/* Replaces the content of `m` by that of `other`, which is freed. */
void dir_fingerprint_replace(struct dir_fingerprint *m, struct dir_fingerprint *other);
void dir_fingerprint_free(struct dir_fingerprint *m); /* NULL is fine */

/* Compares. NULL stands for an absent directory; two of them are equal. */
bool dir_fingerprint_equal(const struct dir_fingerprint *a, const struct dir_fingerprint *b);

/* Mixes all into one number, which is not 0. NULL gives 0. */
uint64_t dir_fingerprint_digest(const struct dir_fingerprint *m);

/* True when both have this version, with the same files. */
bool dir_fingerprint_version_equal(const struct dir_fingerprint *a, const struct dir_fingerprint *b,
                                   int64_t version);
