/* SPDX-License-Identifier: BSD-3-Clause */
/* How a model's directory looks from outside: what tells that something in it was changed.
 *
 * No file is read: name, size, time of change and inode of each one are mixed into a number. There
 * is one for the configuration, one for each version, and one for all the rest (labels, samples
 * for the warm-up), because a changed version concerns that version only. What editors and
 * backends leave behind (hidden files, backups, swap files, __pycache__) does not count.
 *
 * Ownership.  model_mark_free() frees it.
 * Threads.  One owner.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `config` of a directory without a configuration. */
#define MODEL_MARK_NO_CONFIG UINT64_C(0xcbf29ce484222325)

struct version_mark {
        int64_t  number;
        uint64_t files;
};

struct model_mark {
        uint64_t             config; /* config.pbtxt, and the directory configs/ */
        uint64_t             rest;
        struct version_mark *versions; /* owned; ascending */
        size_t               n_versions;
};

/* NOT_FOUND and the like when the directory cannot be read. A file that goes away meanwhile is as
 * if it had never been there. */
struct error *model_mark_read(const char *directory, struct model_mark **ret) NODISCARD;
void          model_mark_free(struct model_mark *m); /* NULL is fine */

/* Two absent directories are equal too. */
bool model_mark_equal(const struct model_mark *a, const struct model_mark *b);

/* The same files in this version? False when one of them lacks it. */
bool model_mark_version_equal(const struct model_mark *a, const struct model_mark *b,
                              int64_t version);
