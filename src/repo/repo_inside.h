/* SPDX-License-Identifier: BSD-3-Clause */
/* The repository's own struct, for the files that implement repo.h.
 */
#pragma once

#include "base/notice.h"
#include "repo/repo_table.h"

struct override_store;

/* One --model-repository. */
struct repo_path {
        char             *path;  /* owned */
        struct repo_name *names; /* owned, and the texts; directories with another name */
        size_t            n_names;
};

struct repo {
        struct repo_parts      parts;
        char                  *config_name; /* owned; parts.config_name points here */
        unsigned               n_load_threads;
        unsigned               n_load_retries;
        bool                   is_followed;
        struct override_store *overrides; /* owned */
        struct repo_table      table;

        /* Guarded by the table's lock. */
        struct repo_path *paths; /* owned */
        size_t            n_paths;
        size_t            n_loading;  /* model versions that load right now */
        size_t            n_changing; /* models */
        bool              is_stopping;
};

void repo_path_done(struct repo_path *p);

/* Behind each change of versions' states; the table's lock is free. */
static inline void repo_tell_changed(struct repo *r) {
        if (r->parts.ready != NULL)
                notice_announce(r->parts.ready);
}
