/* SPDX-License-Identifier: BSD-3-Clause */
/* The struct of the repository, for the files that implement repo.h.
 *
 * Ownership.  repo_free() frees everything in it.
 * Threads.  The members say what guards them.
 */
#pragma once

#include "base/event_source.h"
#include "repo/repo_table.h"

#include <stdatomic.h>

struct work_pool;
struct model_graph;
struct override_files;
struct override_store;
struct store;
struct store_hub;

/* One --model-repository. */
struct repo_path {
        char         *path;  /* owned; a directory, or the address of a remote repository */
        struct store *store; /* ref; NULL: a directory */
        char *namespace;     /* owned; the path, or "" without namespaces */
        struct repo_name      *names; /* owned, and the texts; renamed models */
        size_t                 n_names;
        struct override_files *view; /* ref; of a bare model without version folders, else NULL */
        bool                   is_unreadable; /* as in the last line of the log about it */
};

struct repo {
        struct repo_environment env;
        char                   *config_name; /* owned; env.config_name points here */
        unsigned                n_load_threads;
        unsigned                n_load_retries;
        bool                    is_followed;
        bool                    has_namespaces;
        bool                    reports_reasons;
        bool                    is_strict_unload; /* a `next` model is not unloaded */
        struct override_store  *overrides;        /* owned */
        struct store_hub       *stores;           /* owned; for remote repositories */
        struct repo_table       table;
        struct work_pool       *loads;   /* owned; for loads of repo_start_poll() */
        struct work_pool       *unloads; /* owned; for its unloads, which loads must not delay */

        struct label_list not_loaded; /* models of the start; of the thread that loads them */

        atomic_bool ends_warmups; /* the server is stopping */

        struct mutex binding; /* rank LOCK_REPO; held during a rebinding */

        /* Guarded by the table's lock. */
        struct model_graph *graph; /* owned; needs of the models, by label */
        struct repo_path   *paths; /* owned */
        size_t              n_paths;
        size_t              n_loading;  /* model versions that load now */
        size_t              n_changing; /* models that change now */
        struct load_slot   *slots;      /* borrowed: the loads of these versions (load_slots.h) */
        struct load_wait   *waits;      /* owned by the changes that are waited for */
        struct load_hold   *holds;      /* borrowed: the loads that hold models (load_hold.h) */
        uint64_t            last_hold;  /* number of the newest one */
        uint64_t            n_unloads;  /* unloads that have ended */
        size_t              n_unloads_pending; /* unloads that are requested or run */
        bool                is_stopping;
};

void              repo_path_done(struct repo_path *p);
struct repo_path *repo_find_path_locked(struct repo *r, const char *path);

/* repo_table_forget_locked(), but not during the shutdown, which walks over the entries. */
static inline void repo_forget_locked(struct repo *r, struct repo_entry *e) {
        if (!r->is_stopping)
                repo_table_forget_locked(&r->table, e);
}

/* INVALID_ARG: n models have that name. */
struct error *repo_ambiguous_name(size_t n, const char *name) COLD;
/* Finds the namespace of the model that the name means. The caller owns *ret, which is "" when
 * there is no such model. */
struct error *repo_find_namespace(struct repo *r, const char *name, char **ret) NODISCARD;
/* Unloads one of several models of a name. */
struct error *repo_unload_one(struct repo *r, const struct model_key *key) NODISCARD;

/* To be called after each change of versions' states, without the table's lock. */
static inline void repo_publish_change(struct repo *r) {
        if (r->env.ready != NULL)
                event_source_publish(r->env.ready);
}
