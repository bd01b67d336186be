/* SPDX-License-Identifier: BSD-3-Clause */
/* What the index says of one model: its names and its versions' states, as they were at one moment.
 *
 * It never changes: a change of the model makes another one. So the table is locked while the
 * index takes references, and no longer while it compares, sorts and prints.
 *
 * Ownership.  Counted. The table holds one of each entry, an index that is read another.
 * Threads.  Any.
 */
#pragma once

#include "base/ref.h"
#include "repo/index_line.h"
#include "repo/model_key.h"
#include "repo/repo.h"

struct repo_entry;

struct listed_version {
        int64_t            number;
        enum version_state state;
        const char        *reason; /* borrowed: in the same block; NULL = none */
        struct index_line  line;   /* in `texts` */
};

struct listed_model {
        struct ref            ref;
        const char           *name;      /* borrowed: in the same block */
        const char           *namespace; /* likewise */
        bool                  is_duplicate;
        bool                  is_versionless; /* without a line, unless it is a duplicate */
        char                 *texts; /* owned; the lines of the index, as JSON; may be NULL */
        struct index_line     line;  /* of the model itself; empty: it has versions instead */
        size_t                n_versions;
        struct listed_version versions[]; /* ascending */
};

struct listed_model *listed_model_new(const struct repo_entry *e);
struct model_key listed_model_key(const struct listed_model *m); /* borrows from it */
/* A line of the index; borrows from the model. */
struct repo_index_entry listed_model_entry(const struct listed_model *m,
                                           const struct listed_version *v);
void                 listed_model_unref(struct listed_model *m); /* NULL is fine */
