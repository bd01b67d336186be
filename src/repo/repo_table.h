/* SPDX-License-Identifier: BSD-3-Clause */
/* The table behind the repository: models by name, their versions and states.
 *
 * Without namespaces a name is one model's. With them (--model-namespacing) each repository is one,
 * by its path, and may have a model of a name that others have too: entries of one name are a
 * chain.
 *
 * Whatever is asked often and of all models is kept up to date with each change, so that nobody
 * holds the lock for long: the order of the entries, and how many are not ready.
 *
 * Ownership.  The table owns its entries; a READY version holds a reference to its model.
 * Threads.  Guarded by `lock` (rank LOCK_MODEL); the functions ending in _locked need it held.
 */
#pragma once

#include "base/lock.h"
#include "base/map.h"
#include "repo/model_key.h"
#include "repo/repo.h"

struct model_generations;
struct repo_table;

struct repo_version {
        struct repo_entry  *entry; /* borrowed: it holds this */
        int64_t             number;
        enum version_state  state;
        char               *reason;  /* owned; NULL = none */
        struct model       *model;   /* ref; READY only */
        const struct model *leaving; /* only compared: whose end is awaited while UNLOADING */
        char               *blocked; /* owned; READY, but a model that it needs is not: why, as the
                                      * index says it; NULL = it serves */
        bool                is_hidden; /* blocked, and as if it were not there: an ensemble */
        bool                is_fault;  /* blocked, and not because that model was unloaded */
};

struct repo_entry {
        struct repo_table *table; /* borrowed: it holds this */
        struct repo_entry *next;  /* the same name in another namespace */
        char              *name;  /* owned */
        char *namespace;          /* owned; see model_key.h */
        char *label;              /* owned; for texts: "<namespace>::<name>", or the name */
        char *directory;          /* owned */
        char *repository;         /* owned; where it was found; "" of sent files */
        bool  is_duplicate;       /* two repositories have it; set by the function below */
        bool  is_busy;            /* it is being loaded or unloaded: one such step at a time */
        bool  is_planned;         /* a poll has found something to do about it */
        char *sent_config;        /* owned; came with a load, later ones keep it; NULL: the
                                   * file's serves */
        uint64_t
                replaced_config_fingerprint; /* the file whose place it took: struct dir_fingerprint's config */
        bool     is_wanted;                  /* since the start: the server is not ready without it;
                                              * set by the function below */
        bool     is_versionless;             /* there was no version of it to load: it is known, the
                                              * index leaves it out; set by the function below */
        bool     is_requested; /* somebody asked for it, not only a model that needs it */
        unsigned n_waiting;    /* for their turn, while it is busy */
        char    *given_config; /* owned; of what serves, see model_files.h; NULL = nothing */
        struct agent_list      *agents;      /* ref; of what serves; NULL: it has none */
        struct dir_fingerprint *fingerprint; /* owned; of the files that serve; NULL = none */
        struct dir_fingerprint *seen;        /* owned; by the last poll; NULL = no directory */
        struct dir_fingerprint *tried;       /* owned; that failed to load; NULL = none did */
        struct model_generations
                            *generations; /* ref; of all its loads that sequences may belong to */
        struct repo_version *versions;    /* owned; ascending */
        size_t               n_versions;

        /* Made of the above by each of the functions below that changes it. */
        bool   is_unready;       /* counted in the table */
        size_t n_may_be_unready; /* READY versions that must be asked; counted likewise */
};

struct repo_table {
        struct mutex        lock;    /* rank LOCK_MODEL; guards everything below */
        struct cond         changed; /* an entry is not busy any more, or all is stopping */
        struct map          by_name; /* struct repo_entry, owned: the first of each name */
        struct repo_entry **sorted;  /* owned array; by name, then namespace */
        size_t              n_entries;
        size_t              cap_entries;
        size_t              n_unready; /* entries that make the server not ready */
        size_t n_may_be_unready; /* READY versions whose instances may say that they cannot serve */
};

void repo_table_init(struct repo_table *t);
void repo_table_done(struct repo_table *t);

/* NULL when there is none. */
struct repo_entry *repo_table_find_locked(struct repo_table *t, const struct model_key *key);
/* The first entry of that name, NULL when there is none; the others follow by `next`. */
struct repo_entry *repo_table_first_locked(struct repo_table *t, const char *name);
/* The entry, made when it is not there. */
struct repo_entry *repo_table_add_locked(struct repo_table *t, const struct model_key *key,
                                         const char *directory, const char *repository);
struct model_key   repo_entry_key(const struct repo_entry *e); /* borrows from it */

void                 repo_entry_set_duplicate_locked(struct repo_entry *e, bool is_duplicate);
void                 repo_entry_set_wanted_locked(struct repo_entry *e, bool is_wanted);
void                 repo_entry_set_versionless_locked(struct repo_entry *e, bool is_versionless);
struct repo_version *repo_entry_add_version_locked(struct repo_entry *e, int64_t number);
struct repo_version *repo_entry_find_version_locked(struct repo_entry *e, int64_t number);
/* One that has no model. */
void repo_entry_remove_version_locked(struct repo_entry *e, int64_t number);
/* Removes and frees an entry that nobody uses and of which there is nothing to tell: no version,
 * no directory that was seen, no failure to remember (that it had no version is one). Any other stays. */
void repo_table_forget_locked(struct repo_table *t, struct repo_entry *e);
/* Because somebody wanted it to go, not because it failed. */
bool repo_version_was_unloaded(const struct repo_version *v);
/* The highest READY version, NULL when there is none. */
struct repo_version *repo_entry_latest_locked(struct repo_entry *e);
/* The new state; `reason` is copied, NULL = none. Returns the reference that the version held,
 * for the caller to drop once the lock is free; `model` is taken. */
struct model *repo_version_set_locked(struct repo_version *v, enum version_state state,
                                      const char *reason, struct model *model);
/* Why a READY version cannot serve for now: the fields of repo_version. */
struct repo_block {
        const char *why; /* copied */
        bool        is_hidden;
        bool        is_fault;
};
/* NULL: it can. */
void repo_version_block_locked(struct repo_version *v, const struct repo_block *block);
/* READY and not hidden. */
bool repo_version_is_found(const struct repo_version *v);
/* All entries sorted by name, then namespace; owned array, borrowed entries. */
struct repo_entry **repo_table_sorted_locked(struct repo_table *t, size_t *ret_n);
