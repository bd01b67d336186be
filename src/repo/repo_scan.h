/* SPDX-License-Identifier: BSD-3-Clause */
/* The model directories of all repositories, as they are now.
 *
 * Ownership.  repo_scan_done() frees it.
 * Threads.  Any; the table's lock is held only while the list of repositories is copied.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct repo;

struct found_model {
        char *name;
        char *directory;    /* of the first repository that has it */
        bool  is_duplicate; /* another one has it too */
};

struct repo_scan {
        struct found_model *models; /* owned, and the texts; by name */
        size_t              n_models;
        size_t              cap_models;
};

/* The error names the repository that cannot be read. */
struct error *repo_scan_read(struct repo *r, struct repo_scan *ret) NODISCARD;
/* The same of one name alone. */
struct error *repo_scan_read_one(struct repo *r, const char *name, struct repo_scan *ret) NODISCARD;
void          repo_scan_done(struct repo_scan *s);

/* NULL when there is none. Names are compared byte by byte with those that the directories have,
 * so that no name leads out of them. */
const struct found_model *repo_scan_find(const struct repo_scan *s, const char *name);
