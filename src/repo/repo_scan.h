/* SPDX-License-Identifier: BSD-3-Clause */
/* The model directories of all repositories, as they are now.
 *
 * A repository that cannot be read takes nothing from the others: of its models nothing is known
 * then, neither that they are there nor that they are gone. The log is told when it becomes
 * unreadable, and when it can be read again.
 *
 * Ownership.  repo_scan_done() frees it.
 * Threads.  Any; the table's lock is held only for the list of repositories.
 */
#pragma once

#include "base/error.h"
#include "repo/model_key.h"

#include <stdbool.h>
#include <stddef.h>

struct repo;
struct repo_entry;
struct repo_path;

struct found_model {
        struct model_key key;     /* its name is owned, its namespace the scan's */
        const char *repository;   /* borrowed: the scan's; the path of the first one that has it */
        char       *directory;    /* owned; there */
        bool        is_duplicate; /* another repository of the same namespace has it too */
};

struct scan_failure {
        char         *repository; /* owned */
        struct error *error;      /* owned */
};

struct repo_scan {
        struct found_model  *models; /* owned; by name, then namespace */
        size_t               n_models;
        size_t               cap_models;
        struct scan_failure *failures; /* owned; of the repositories that cannot be read */
        size_t               n_failures;
        struct repo_path    *paths; /* owned; of the repositories, as they were */
        size_t               n_paths;
};

void repo_scan_read(struct repo *r, struct repo_scan *ret);
/* The same of one name alone, without a look at the others. A name that is not one entry of a
 * directory, such as "../m", is nobody's. */
void repo_scan_read_one(struct repo *r, const char *name, struct repo_scan *ret);
void repo_scan_done(struct repo_scan *s);

/* NULL when there is none. */
const struct found_model *repo_scan_find(const struct repo_scan *s, const struct model_key *key);
/* The first of that name; the others, *ret_n in all, follow it in `models`. NULL for none. */
const struct found_model *repo_scan_find_name(const struct repo_scan *s, const char *name,
                                              size_t *ret_n);
/* Why that repository could not be read; NULL when it could. Borrowed: the scan. */
const struct error *repo_scan_find_failure(const struct repo_scan *s, const char *repository);

/* Does the entry's model, which was `found` or (NULL) not, have a twin in another repository? While
 * one cannot be read, what was a twin stays one. The table's lock is held. */
void repo_entry_note_duplicate_locked(struct repo_entry *e, const struct repo_scan *s,
                                      const struct found_model *found);
