/* SPDX-License-Identifier: BSD-3-Clause */
/* The repository's models that need each other: ensembles, chains, models with a next one.
 *
 *     a change begins        repo_compose_register()   what the model needs, no cycle, all there
 *     versions came or went  repo_compose_rebind()     models that need it get the new ones, or are
 *                                                      blocked, and say so in the index
 *
 * Ownership.  The graph is the repository's; names in it are entries' labels.
 * Threads.  Any. Rebinding is one at a time (rank LOCK_REPO): what came last holds.
 */
#pragma once

#include "base/error.h"
#include "repo/model_needs.h"
#include "repo/repo_private.h"

/* struct repo_parts.find_step; `owner` is the repository. */
struct model *repo_compose_find_step(void *owner, const struct model_key *user,
                                     const struct model_need *need);

/* What the entry's model needs from now on. INVALID_ARG "load failed for model '<m>': ...\n" when
 * that would be a cycle, or a model that it needs is not there; then nothing has changed. */
struct error *repo_compose_register(struct repo *r, struct repo_entry *e,
                                    const struct model_needs *needs) NODISCARD;
/* A load failed: what serves, if anything does, needs what it needed before. */
void repo_compose_restore(struct repo *r, struct repo_entry *e);
/* The entry's model needs nothing any more. The table's lock is held. */
void repo_compose_forget_locked(struct repo *r, struct repo_entry *e);

/* After versions of this model came or went; the table's lock is free. */
void repo_compose_rebind(struct repo *r, const struct repo_entry *e);

/* Is there a version that could be a step, with all that it needs itself? */
bool repo_compose_has(struct repo *r, const struct model_key *user, const struct model_need *need);

/* With --chain-strict-unload: INVALID_ARG "model 'C' is the next of 'B'". */
struct error *repo_compose_check_unload(struct repo *r, const char *name) NODISCARD;

/* Labels of models, owned. */
struct label_list {
        char **items;
        size_t n;
};

void label_list_done(struct label_list *l);
/* All that this model needs, directly or not, each before those that it needs. */
void repo_compose_list_needs(struct repo *r, const struct model_key *key, struct label_list *ret);
/* True for a loaded model that was not asked for and that no loaded model needs; the texts of *ret are
 * owned by the caller. */
bool repo_compose_take_unused(struct repo *r, const char *label, struct model_key *ret) NODISCARD;
