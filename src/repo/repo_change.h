/* SPDX-License-Identifier: BSD-3-Clause */
/* A change of one model: from what serves to what its files, or a request, ask for.
 *
 *     begin -> load or unload -> end
 *
 * Between begin and end the entry is busy. No other thread changes it then, while requests, the
 * index and the statistics still read it.
 *
 * Ownership.  The table owns the entries.
 * Threads.  Any. No lock is held while a model loads.
 */
#pragma once

#include "repo/repo_private.h"

struct dir_fingerprint;
struct model_source;

/* Begins a change of the entry, which is made when there is none. Waits for a running change of it. When that
 * one loads and this one makes the load needless (change_goal.h), its warm-up ends early, and with it the load.
 * UNAVAILABLE when the server is stopping; INVALID_ARG when that change waits for this one
 * (load_slots.h). */
struct error *repo_change_begin(struct repo *r, const struct model_source *source,
                                struct repo_entry **ret) NODISCARD;
/* The same for an unload, which also waits for the loads that need the model (load_hold.h). */
struct error *repo_change_begin_unload(struct repo *r, const struct model_key *key,
                                       struct repo_entry **ret) NODISCARD;
/* The same for a change that will be begun later: that of a poll. */
void repo_change_outdate_locked(struct repo_entry *e, const struct change_goal *goal);
/* Ends the change. An entry without content is removed, so `e` may be freed afterwards. */
void repo_change_end(struct repo *r, struct repo_entry *e);

/* Loads the model. `fingerprint` is that of the source's files, read before the files; NULL for
 * uploaded files. It is taken on success only. NOT_FOUND or a similar error when the directory or
 * its configuration cannot be used; the function then tries nothing. Otherwise the error of
 * repo_load() for versions that failed. */
struct error *repo_change_load(struct repo *r, struct repo_entry *e,
                               const struct model_source *source,
                               struct dir_fingerprint    *fingerprint) NODISCARD;
void          repo_change_unload(struct repo *r, struct repo_entry *e);

/* True when what serves agrees with files of this fingerprint, and with the models that it needs. */
bool repo_entry_is_current(struct repo *r, struct repo_entry *e,
                           const struct dir_fingerprint *fingerprint);
/* Returns the configuration that came with an earlier load and is still valid for files of this
 * fingerprint: it is valid until the model is unloaded, or its configuration file changes. The
 * caller owns it. NULL: that of the file is valid. */
char *repo_entry_copy_kept_config(struct repo *r, struct repo_entry *e,
                                  const struct dir_fingerprint *fingerprint);
