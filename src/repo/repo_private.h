/* SPDX-License-Identifier: BSD-3-Clause */
/* The repository's own struct, for the files that implement repo.h.
 */
#pragma once

#include "base/event_source.h"
#include "repo/repo_table.h"

struct work_pool;
struct model_graph;
struct override_store;

/* One --model-repository. */
struct repo_path {
        char *path;              /* owned */
        char *namespace;         /* owned; the path, or "" without namespaces */
        struct repo_name *names; /* owned, and the texts; directories with another name */
        size_t            n_names;
        bool              is_unreadable; /* as the log was told */
};

struct repo {
        struct repo_parts      parts;
        char                  *config_name; /* owned; parts.config_name points here */
        unsigned               n_load_threads;
        unsigned               n_load_retries;
        bool                   is_followed;
        bool                   has_namespaces;
        bool                   reports_reasons;
        bool                   is_strict_unload; /* what another one's `next` is stays */
        struct override_store *overrides;        /* owned */
        struct repo_table      table;
        struct work_pool      *loads;   /* owned; of polls that nobody waits for */
        struct work_pool      *unloads; /* owned; the same: a load that hangs is not in their way */

        struct mutex binding; /* rank LOCK_REPO; held while models get their steps' models */

        /* Guarded by the table's lock. */
        struct model_graph *graph; /* owned; who needs whom, by label */
        struct repo_path   *paths; /* owned */
        size_t              n_paths;
        size_t              n_loading;  /* model versions that load right now */
        size_t              n_changing; /* models */
        bool                is_stopping;
};

void              repo_path_done(struct repo_path *p);
struct repo_path *repo_find_path_locked(struct repo *r, const char *path);

/* repo_table_forget_locked(), but for the end: who unloads all walks over the entries. */
static inline void repo_forget_locked(struct repo *r, struct repo_entry *e) {
        if (!r->is_stopping)
                repo_table_forget_locked(&r->table, e);
}

/* INVALID_ARG: so many models have that name. */
struct error *repo_ambiguous_name(size_t n, const char *name) COLD;
/* Of the model that the name means; *ret is owned by the caller, "" when it means none. */
struct error *repo_find_namespace(struct repo *r, const char *name, char **ret) NODISCARD;
/* repo_unload() of one among several of a name. */
struct error *repo_unload_one(struct repo *r, const struct model_key *key) NODISCARD;

/* Behind each change of versions' states; the table's lock is free. */
static inline void repo_publish_change(struct repo *r) {
        if (r->parts.ready != NULL)
                event_source_publish(r->parts.ready);
}
