/* SPDX-License-Identifier: BSD-3-Clause */
/* The scan of all repositories: the model directories that exist now.
 *
 * A repository may be registered with names for some of its directories. Such a name means that
 * directory alone, whatever other directories are called, and the directory has no other name.
 *
 * A repository that cannot be read does not affect the others. Its models count neither as present
 * nor as removed. The log reports when it becomes unreadable, and when it can be read again.
 *
 * Ownership.  repo_scan_done() frees it.
 * Threads.  Any. The table's lock is held only for the list of repositories.
 */
#pragma once

#include "base/error.h"
#include "repo/model_key.h"

#include <stdbool.h>
#include <stddef.h>

struct repo;
struct repo_entry;
struct repo_path;
struct store_copy;

struct found_model {
        struct model_key key;    /* owns its name; borrows its namespace from the scan */
        const char *repository;  /* borrowed: the scan; path of the first one that has the model */
        char       *directory;   /* owned; in that repository; the address in a remote one */
        struct store_copy *copy; /* ref; its local copy to be; NULL: the directory is local */
        bool is_duplicate;       /* another repository of the same namespace has the model too */
        bool is_mapped;          /* its name was given at the registration of the repository */
};

struct scan_failure {
        char         *repository; /* owned */
        struct error *error;      /* owned */
};

struct repo_scan {
        struct found_model  *models; /* owned; by name, then namespace */
        size_t               n_models;
        struct scan_failure *failures; /* owned; one for each repository that cannot be read */
        size_t               n_failures;
        struct repo_path    *paths; /* owned; copies of the repositories at the time of the scan */
        size_t               n_paths;
};

void repo_scan_read(struct repo *r, struct repo_scan *ret);
/* The same, where the answer of a remote repository may be up to that old (REPO_SCAN_RECENT_NS).
 * `is_quick`: a remote repository is not asked again when it does not answer. */
#define REPO_SCAN_RECENT_NS (15 * NS_PER_S)
void repo_scan_read_recent(struct repo *r, bool is_quick, struct repo_scan *ret);
/* Scans for one name only. A name that is not one entry of a directory, such as "../m", is never
 * found. */
void repo_scan_read_one(struct repo *r, const char *name, struct repo_scan *ret);
void repo_scan_done(struct repo_scan *s);

/* Returns NULL when there is none. */
const struct found_model *repo_scan_find(const struct repo_scan *s, const struct model_key *key);
/* Returns the first model of that name; the others follow it in `models`, *ret_n in all. NULL for
 * none. */
const struct found_model *repo_scan_find_name(const struct repo_scan *s, const char *name,
                                              size_t *ret_n);
/* Returns why that repository could not be read, borrowed from the scan; NULL when it could. */
const struct error *repo_scan_find_failure(const struct repo_scan *s, const char *repository);

/* Updates whether the entry's model, which was `found` or (NULL) not, is a duplicate of one in
 * another repository. While a repository cannot be read, a duplicate stays one. The table's lock is
 * held. */
void repo_entry_note_duplicate_locked(struct repo_entry *e, const struct repo_scan *s,
                                      const struct found_model *found);
