/* SPDX-License-Identifier: BSD-3-Clause */
/* The repository's own struct, for the files that implement repo.h.
 */
#pragma once

#include "base/notice.h"
#include "repo/repo_table.h"

struct repo {
        struct repo_parts parts;
        char             *config_name; /* owned; parts.config_name points here */
        char            **paths;       /* owned, and each */
        size_t            n_paths;
        unsigned          n_load_threads;
        struct repo_table table;
};

/* Behind each change of versions' states; the table's lock is free. */
static inline void repo_tell_changed(struct repo *r) {
        if (r->parts.ready != NULL)
                notice_announce(r->parts.ready);
}
