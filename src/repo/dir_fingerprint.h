/* SPDX-License-Identifier: BSD-3-Clause */
/* How a model's directory looks from outside: what tells that something in it was changed.
 *
 * No file is read: name, size, time of change and inode of each one are mixed into a number. There
 * is one for the configuration, one for each version, and one for all the rest (labels, samples
 * for the warm-up), because a changed version concerns that version only. What editors and
 * backends leave behind (hidden files, backups, swap files, __pycache__) does not count.
 *
 * Ownership.  dir_fingerprint_free() frees it.
 * Threads.  One owner.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `config` of a directory without a configuration. */
#define DIR_FINGERPRINT_NO_CONFIG UINT64_C(0xcbf29ce484222325)

struct version_fingerprint {
        int64_t  number;
        uint64_t files;
};

struct dir_fingerprint {
        uint64_t                    config; /* config.pbtxt, and the directory configs/ */
        uint64_t                    rest;
        struct version_fingerprint *versions; /* owned; ascending */
        size_t                      n_versions;
};

/* NOT_FOUND and the like when the directory cannot be read. A file that goes away meanwhile is as
 * if it had never been there. */
struct error *dir_fingerprint_read(const char *directory, struct dir_fingerprint **ret) NODISCARD;
void          dir_fingerprint_free(struct dir_fingerprint *m); /* NULL is fine */

/* Two absent directories are equal too. */
bool dir_fingerprint_equal(const struct dir_fingerprint *a, const struct dir_fingerprint *b);

/* The same files in this version? False when one of them lacks it. */
bool dir_fingerprint_version_equal(const struct dir_fingerprint *a, const struct dir_fingerprint *b,
                                   int64_t version);
