/* SPDX-License-Identifier: BSD-3-Clause */
/* The models of the repository that need each other: ensembles, chains, models with a next model.
 *
 *     a change begins        repo_compose_register()   records the needs; checks that there is no
 *                                                      cycle, and that all models exist
 *     versions came or went  repo_compose_rebind()     binds the models that need them to the new
 *                                                      ones, or blocks them, with a reason
 *
 * Ownership.  The repository owns the graph. The names in it are labels of entries.
 * Threads.  Any. One rebinding runs at a time (rank LOCK_REPO), so the last change wins.
 */
#pragma once

#include "base/error.h"
#include "repo/label_list.h"
#include "repo/model_needs.h"
#include "repo/repo_private.h"

/* The callback struct repo_environment.find_step. `owner` is the repository. */
struct model *repo_compose_find_step(void *owner, const struct model_key *user,
                                     const struct model_need *need);

/* Text of a cycle: the first model, the one that needs it again, and the first one. */
#define CIRCULAR_ENSEMBLES_FORMAT "circular dependency between ensembles: %s -> ... -> %s -> %s"

/* Records the needs of the entry's model. INVALID_ARG "load failed for model '<m>': ...\n" when
 * they form a cycle, or when a needed model is missing; then it restores the previous needs. */
struct error *repo_compose_register(struct repo *r, struct repo_entry *e,
                                    const struct model_needs *needs) NODISCARD;
/* After a failed load: restores the needs of what serves. The graph has no others, so what is in it has no
 * cycle, and needs nothing that only a client has named. */
void repo_compose_restore(struct repo *r, struct repo_entry *e);
/* To be called before repo_compose_register() in a load of a poll: when it fails, the next poll tries again
 * once one of these models has changed. */
void repo_compose_await(struct repo *r, struct repo_entry *e, const struct model_needs *needs);
/* Removes the needs of the entry's model. The table's lock is held. */
void repo_compose_forget_locked(struct repo *r, struct repo_entry *e);

/* To be called after versions of this model came or went, without the table's lock. */
void repo_compose_rebind(struct repo *r, const struct repo_entry *e);

/* The callback struct repo_environment.on_left: composed models drop what they kept for live sequences of the
 * models of their steps. */
void repo_compose_prune(void *owner);
/* Returns a new reference to a version of the model that look-ups do not find, because a step is missing,
 * and that keeps steps for live sequences; version -1: any. NULL: none. */
struct model *repo_compose_find_kept(struct repo *r, const char *name, int64_t version);

/* True when the repository has heard of the model. */
bool repo_compose_is_known(struct repo *r, const struct model_key *user,
                           const struct model_need *need);
/* True when a version is loaded, even if it is not ready since it lacks a model itself. */
bool repo_compose_is_loaded(struct repo *r, const struct model_key *user,
                            const struct model_need *need);
/* True when a version exists that can be a step now, with all that it needs itself. */
bool repo_compose_has(struct repo *r, const struct model_key *user, const struct model_need *need);

/* With --chain-strict-unload: INVALID_ARG "model 'C' is the next of 'B'". */
struct error *repo_compose_check_unload(struct repo *r, const char *name) NODISCARD;

/* Lists all that this model needs, directly or indirectly. Each model comes before those that it
 * needs. */
void repo_compose_list_needs(struct repo *r, const struct model_key *key, struct label_list *ret);
/* Lists the names of all models that the models of this name need, directly or indirectly. */
void repo_compose_list_needed_names(struct repo *r, const char *name, struct label_list *ret);
/* Lists all entries, those that need others first, each before those that it needs. The caller owns the
 * array. */
struct repo_entry **repo_compose_list_top_down(struct repo *r, size_t *ret_n);
/* Adds the labels of the models that these needs mean, and of all that those need, directly or
 * indirectly. Some may be listed twice. The table's lock is held. */
void repo_compose_add_needs_locked(struct repo *r, const struct model_key *user,
                                   const struct model_needs *needs, struct label_list *to);
/* True for a loaded model that was not requested and that no loaded model needs. */
bool repo_compose_is_unused(struct repo *r, const struct repo_entry *e) NODISCARD;
/* The same for a label. The caller owns the texts of *ret. */
bool repo_compose_find_unused(struct repo *r, const char *label, struct model_key *ret) NODISCARD;
