/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the repository: models by name, with their versions and states.
 *
 * Without namespaces a name belongs to one model. With --model-namespacing each repository is a
 * namespace, and several of them may have a model of the same name: the entries of one name are
 * linked.
 *
 * Data that is often asked for and concerns all models is updated with each change, so that no
 * thread holds the lock for long: the order of the entries, the number of those that are not ready,
 * and the list of those whose backend must be asked.
 *
 * Ownership.  The table owns its entries. A READY version holds a reference to its model.
 * Threads.  `lock` (rank LOCK_MODEL) guards everything. The functions ending in _locked require it.
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "repo/change_goal.h"
#include "repo/label_list.h"
#include "repo/model_key.h"
#include "repo/repo.h"

#include <stdatomic.h>

struct model_generations;
struct repo_table;
struct store_copy;

/* Longer reasons are cut. They are kept, and the index has all of them; the client that asked for the load and
 * the log have the whole text. */
#define REPO_REASON_MAX_BYTES ((size_t)16 << 10)

struct repo_version {
        struct repo_entry  *entry; /* borrowed: it holds this */
        int64_t             number;
        enum version_state  state;
        char               *reason;       /* owned; NULL = none */
        bool                was_unloaded; /* why it is UNAVAILABLE; otherwise it failed */
        struct model       *model;        /* ref; READY only */
        const struct model *leaving;      /* UNLOADING: the model that ends; only compared */
        char               *blocked;      /* owned; why a READY version cannot serve; or NULL */
        bool                is_hidden;    /* blocked and not found by look-ups: an ensemble */
        bool                is_fault;     /* blocked, and not by a model that was unloaded */
};

struct repo_entry {
        struct repo_table *table;        /* borrowed: it holds this */
        struct repo_entry *next;         /* the same name in another namespace */
        char              *name;         /* owned */
        char *namespace;                 /* owned; see model_key.h */
        char              *label;        /* owned; see model_key_label() */
        char              *directory;    /* owned */
        char              *repository;   /* owned; its repository; "" for uploaded files */
        bool               is_busy;      /* a load or an unload runs; one at a time */
        bool               is_planned;   /* a poll has planned a step for it */
        bool               is_requested; /* requested, not only needed by another model */
        unsigned           n_waiting;    /* threads that wait for their change of it */
        unsigned           n_unloads;    /* unloads of it that wait or run */
        bool               is_unloading; /* the change that makes it busy is an unload */
        bool               is_outdated;  /* a poll has found that the running change is needless */
        struct store_copy *fetching; /* borrowed: the running load fetches it; NULL: it does not */
        struct change_goal running;  /* of the change that runs; its text is `running_config` */
        char              *running_config; /* owned */
        atomic_uint
                n_superseding; /* changes that wait and make the running one needless; the running one
                                    * reads it without the lock */
        char   *given_config; /* owned; of what serves, see model_files.h; or NULL */
        char   *sent_config;  /* owned; of a load request, valid for later loads; or NULL */
        uint64_t replaced_config_fingerprint; /* of the file that sent_config replaces */

        /* Changed only by the functions repo_entry_set_...(). */
        bool is_duplicate;   /* two repositories have it */
        bool is_wanted;      /* since the start: the server is not ready without it */
        bool is_versionless; /* it has no version to load: known, but not in the index */

        struct agent_list        *agents;      /* ref; of what serves; NULL: none */
        struct dir_fingerprint   *fingerprint; /* owned; of the files that serve; or NULL */
        struct dir_fingerprint   *seen;        /* owned; at the last poll; NULL: no directory */
        struct dir_fingerprint   *tried;       /* owned; of a failed load of a poll; or NULL */
        struct label_list         awaited; /* names of the models that this load needs: when one of
                                            * them has changed, the next poll tries again */
        bool                      is_due;  /* one of them has changed since the load began */
        struct model_generations *generations; /* ref; loads that live sequences may belong to */
        struct repo_version      *versions;    /* owned; ascending */
        size_t                    n_versions;

        /* Computed from the above by each function below that changes it. */
        bool             is_unready;       /* counted in the table */
        size_t           n_may_be_unready; /* READY versions whose backend must be queried */
        struct list_node queried;          /* in table->queried when there are any */

        struct list_node gone; /* in table->gone; see repo_forget.h */
};

struct repo_table {
        struct mutex        lock;    /* rank LOCK_MODEL; guards everything below */
        struct cond         changed; /* an entry is not busy any more, or the server is stopping */
        struct map          by_name; /* struct repo_entry, owned: the first of each name */
        struct repo_entry **sorted;  /* owned array; by name, then namespace */
        size_t              n_entries;
        size_t              n_unready; /* entries that are not ready */
        struct list         queried;   /* struct repo_entry: whose backends must be queried */
        struct list gone; /* struct repo_entry: uploaded and over, the last one at the end; some
                                        * serve again */
        size_t      n_gone;
};

void repo_table_init(struct repo_table *t);
void repo_table_done(struct repo_table *t);

/* Returns NULL when there is none. */
struct repo_entry *repo_table_find_locked(struct repo_table *t, const struct model_key *key);
/* Returns the first entry of that name; the others follow by `next`. NULL when there is none. */
struct repo_entry *repo_table_first_locked(struct repo_table *t, const char *name);
/* Returns the entry of that label (model_key_label()); NULL when there is none. */
struct repo_entry *repo_table_find_label_locked(struct repo_table *t, const char *label);
/* Returns the entry, which is made when it is missing. */
struct repo_entry *repo_table_add_locked(struct repo_table *t, const struct model_key *key,
                                         const char *directory, const char *repository);
struct model_key   repo_entry_key(const struct repo_entry *e); /* borrows from it */

void                 repo_entry_set_duplicate_locked(struct repo_entry *e, bool is_duplicate);
void                 repo_entry_set_wanted_locked(struct repo_entry *e, bool is_wanted);
void                 repo_entry_set_versionless_locked(struct repo_entry *e, bool is_versionless);
struct repo_version *repo_entry_add_version_locked(struct repo_entry *e, int64_t number);
struct repo_version *repo_entry_find_version_locked(struct repo_entry *e, int64_t number);
/* Removes a version, which must have no model. */
void repo_entry_remove_version_locked(struct repo_entry *e, int64_t number);
/* Forgets what polls and failed loads have recorded. */
void repo_entry_clear_locked(struct repo_entry *e);
/* Removes and frees an entry that is not in use and has no content: no version, no directory that a
 * poll has seen, no failure to remember (also that of a model without versions). Any other entry
 * stays. */
void repo_table_forget_locked(struct repo_table *t, struct repo_entry *e);
/* Makes the entry the last of the list `gone`. */
void repo_table_append_gone_locked(struct repo_table *t, struct repo_entry *e);
/* Removes the first of the list, which is not empty, and returns it. */
struct repo_entry *repo_table_take_gone_locked(struct repo_table *t);
/* True when a name can mean this entry. With namespaces, an unloaded model leaves its name to the
 * models of other namespaces. */
bool repo_entry_is_identified_locked(const struct repo_entry *e);
/* Returns the highest READY version; NULL when there is none. */
struct repo_version *repo_entry_latest_locked(struct repo_entry *e);
/* Sets the state. `reason` is copied, NULL = none; `model` is taken. Returns the reference that the
 * version held; the caller drops it after it has released the lock. */
struct model *repo_version_set_locked(struct repo_version *v, enum version_state state,
                                      const char *reason, struct model *model);
/* Sets UNAVAILABLE, with the reason "unloaded", for a version that was not loaded because of no failure of
 * its own. */
struct model *repo_version_set_unloaded_locked(struct repo_version *v);
/* The same for all versions that failed to load: the model was unloaded, or is gone. */
void repo_entry_excuse_failures_locked(struct repo_entry *e);
/* Why a READY version cannot serve for now: see the members of struct repo_version. */
struct repo_block {
        const char *why; /* copied */
        bool        is_hidden;
        bool        is_fault;
};
/* Blocks the version; NULL: unblocks it. */
void repo_version_block_locked(struct repo_version *v, const struct repo_block *block);
/* True when the version is READY and not hidden. */
bool repo_version_is_found(const struct repo_version *v);
/* Returns all entries sorted by name, then namespace: an array that the caller owns, of borrowed
 * entries. */
struct repo_entry **repo_table_sorted_locked(struct repo_table *t, size_t *ret_n);
