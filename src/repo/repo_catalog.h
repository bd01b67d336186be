/* SPDX-License-Identifier: BSD-3-Clause */
/* What the directories of all repositories hold, for the index: it is asked for often, and of
 * thousands of models, while directories seldom change. One reading is kept until the stamp of a
 * repository's directory is another one (base/dir_stamp.h); where stamps cannot be relied on, and
 * where links are among the models, every look reads.
 *
 * Ownership.  Counted. The repository holds one of the catalog it keeps, each index another.
 * Threads.  Any; a catalog never changes.
 */
#pragma once

#include "base/dir_stamp.h"
#include "base/ref.h"
#include "repo/index_line.h"
#include "repo/repo_scan.h"

#include <stdint.h>

struct repo_catalog {
        struct ref        ref;
        struct repo_scan  scan;
        struct index_line *lines; /* owned; of each found model without a version */
        char             *texts;  /* owned; where they are; NULL: memory was short */
        struct dir_stamp *stamps; /* owned; of each repository, before it was read */
        size_t            n_stamps;
        unsigned          n_path_changes; /* of the repository, at that time */
};

/* A reference to what the directories hold now; `wall_ns` is the time of day. */
struct repo_catalog *repo_catalog_get(struct repo *r, uint64_t wall_ns);
void                 repo_catalog_unref(struct repo_catalog *c); /* NULL is fine */
