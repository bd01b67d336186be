/* SPDX-License-Identifier: BSD-3-Clause */
/* One model's step from what serves to what its files, or a request, say.
 *
 *     begin -> load or unload -> end
 *
 * Between begin and end the entry is busy: nobody else changes it, while requests, the index and
 * the statistics go on reading it.
 *
 * Threads.  Any; no lock is held while anything is loaded.
 */
#pragma once

#include "repo/repo_private.h"

struct dir_fingerprint;
struct model_source;

/* The entry, made when there is none; waits for a change of it that is at work. UNAVAILABLE when
 * the server is stopping. */
struct error *repo_change_begin(struct repo *r, const struct model_source *source,
                                struct repo_entry **ret) NODISCARD;
/* An entry of which nothing came is forgotten: `e` may be gone afterwards. */
void repo_change_end(struct repo *r, struct repo_entry *e);

/* `mark` is of the source's files, before they were read; taken on success only. NULL when they
 * were sent. NOT_FOUND and the like when the directory or its configuration cannot be used: nothing
 * was tried then. Else repo_load()'s error for versions that failed. */
struct error *repo_change_load(struct repo *r, struct repo_entry *e,
                               const struct model_source *source,
                               struct dir_fingerprint    *fingerprint) NODISCARD;
void          repo_change_unload(struct repo *r, struct repo_entry *e);

/* Does what serves agree with files that look like this? */
bool repo_entry_is_current(struct repo *r, struct repo_entry *e,
                           const struct dir_fingerprint *fingerprint);
/* The configuration that came with an earlier load and still holds for files that look like this:
 * until the model is unloaded, or its configuration file is another one. Owned by the caller; NULL:
 * the file's holds. */
char *repo_entry_copy_kept_config(struct repo *r, struct repo_entry *e,
                                  const struct dir_fingerprint *fingerprint);
