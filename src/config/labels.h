/* SPDX-License-Identifier: BSD-3-Clause */
/* Labels of a model's classes: one per line in the file that an output's configuration names.
 *
 * Source: model configuration, ModelOutput.label_filename; KServe v2 classification extension.
 *
 * Ownership.  Counted: the model has a reference, and so have responses of an ensemble whose
 * outputs are the model's. labels_free() drops a reference; labels are borrowed from the set.
 * Threads.  Immutable after labels_read(); shared freely.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct model_config;

/* The labels of each output of one model. */
struct labels;

/* Reads the label files of all outputs; only files inside the model directory are opened.
 * *ret is never NULL on success, also when no output has labels. INVALID_ARG when the files have too many
 * bytes together; a file that several outputs name counts once. */
struct error *labels_read(const struct model_config *c, const char *model_directory,
                          struct labels **ret) NODISCARD;
void          labels_ref(struct labels *l);
void          labels_free(struct labels *l); /* NULL is fine */

/* Returns the label of one class; NULL when the output has no labels or fewer ones. */
const char *labels_find(const struct labels *l, const char *output, size_t class_index);
size_t      labels_count(const struct labels *l, const char *output);

/* About how much memory they take. */
size_t labels_bytes(const struct labels *l);
