/* SPDX-License-Identifier: BSD-3-Clause */
/* Remarks on a configuration that was written for the reference server: which of its parts work as
 * there, which have another or no effect, and which keep the model from loading in a way that only a
 * backend reports. `neso check --migrate` prints them. The checks (config_check.h) find what the
 * server itself refuses; the remarks do not repeat it.
 *
 * The file has one table for fields and one for parameters. A field or parameter without a row works
 * as in the reference server.
 *
 * Threads.  Pure functions; the test for an execution environment reads the file system.
 */
#pragma once

#include "config/model_config.h"

/* In the order of their weight: the verdict on a model is the greatest of its remarks. */
enum note_verdict {
        NOTE_WORKS,   /* as in the reference server */
        NOTE_DIFFERS, /* the model loads, and the part has another effect, or none */
        NOTE_MISSING, /* the model does not load */
};

/* "works", "differs", "missing". */
const char *note_verdict_name(enum note_verdict verdict);

/* `field` is a path such as "optimization.cuda"; the texts live during the call. */
typedef void config_note_fn(void *owner, enum note_verdict verdict, const char *field,
                            const char *text);

struct config_notes_place {
        const char *directory; /* borrowed; the model's */
        bool        has_gpus;  /* the machine has GPUs that the server can use */
};

/* Calls `add` for each remark. `c` is as its author wrote it, filled but not normalised: defaults that
 * the server would write into it are not remarked on. */
void config_notes_each(const struct model_config *c, const struct config_notes_place *place,
                       config_note_fn *add, void *owner);

/* What can be done about a backend of the reference server that is not installed; "" for any other. */
const char *config_notes_of_backend(const char *backend);
