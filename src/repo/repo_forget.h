/* SPDX-License-Identifier: BSD-3-Clause */
/* Forgetting models that do not serve.
 *
 * The index reports why a model is not there: it was unloaded, or its load failed. A model of a repository is
 * remembered as long as the repository. A model that came with a load request is in no repository, so clients could
 * make the table grow without end: of these, the last REPO_MAX_GONE that do not serve are remembered. So are that
 * many versions of a model that its last load did not pick.
 *
 * Ownership.  The table owns the entries.
 * Threads.  The table's lock is held.
 */
#pragma once

#include "config/version_policy.h"
#include "repo/repo_private.h"

#define REPO_MAX_GONE 100 /* more than a person reads, and some 100 KB */

/* True for a model that neither serves nor changes. */
bool repo_is_over_locked(const struct repo_entry *e);
/* Forgets a model that is over, unless live sequences may still ask for an earlier load of it. Returns a
 * reference to that load, which the caller drops without the lock; or NULL. */
struct model *repo_forget_model_locked(struct repo *r, struct repo_entry *e);
/* Forgets versions that do not serve and are none of `pick`, those of the last load: the lowest ones, but for
 * REPO_MAX_GONE. */
void repo_forget_versions_locked(struct repo_entry *e, const struct version_pick *pick);
/* To be called when a model may be over: after its change or its end. Forgets the one that has been over longest
 * when there are too many. Returns a reference as repo_forget_model_locked() does. */
struct model *repo_note_gone_locked(struct repo *r, struct repo_entry *e) NODISCARD;
