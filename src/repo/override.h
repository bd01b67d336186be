/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that came with a load request instead of lying in a repository.
 *
 * They are written to a new directory, which then replaces the model's own:
 * $TMPDIR/neso-<uid>/<server>/<n>/. Each server holds a lock on the file `lock` in its directory.
 * The kernel releases the lock however the process ends, so a directory whose lock is free belongs
 * to a dead server. The next server removes it when it makes its store.
 *
 * Ownership.  A store outlives its files. Files are counted, and the last unref removes them.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct override_files;
struct override_store;

/* One file. `path` is relative to the model's directory, such as "1/model.onnx". */
struct override_file {
        const char *path;  /* borrowed for the call */
        const void *bytes; /* borrowed for the call */
        size_t      n_bytes;
};

/* Makes a store. It only removes the directories of dead servers. */
struct override_store *override_store_new(void);
void                   override_store_free(struct override_store *s); /* NULL is fine */

/* Makes an empty directory, which the caller may fill. */
struct error *override_files_new(struct override_store *s, struct override_files **ret) NODISCARD;
/* Writes the files to a new directory. INVALID_ARG for a path that leaves the directory or is not
 * plain, or that is given twice. */
struct error *override_files_write(struct override_store *s, const struct override_file *files,
                                   size_t n_files, struct override_files **ret) NODISCARD;
struct override_files *override_files_ref(struct override_files *f);   /* NULL gives NULL */
void                   override_files_unref(struct override_files *f); /* NULL is fine */
const char            *override_files_directory(const struct override_files *f);
