/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills in fields that the author left out and that follow from the files: name, platform, backend
 * and default_model_filename.
 *
 * It runs at every load, also when auto-completion is turned off (that only forbids an absent
 * config.pbtxt). Fields that are set are never changed. Source: model configuration, auto-fill.
 *
 * Threads.  The configuration's owner.
 */
#pragma once

#include "config/model_config.h"

#include <stdbool.h>
#include <stddef.h>

struct config_place_entry {
        const char *name; /* borrowed */
        bool        is_directory;
};

/* The directory of the configuration. */
struct config_place {
        const char *model_name; /* borrowed: the model directory's name */

        /* borrowed: entries of the model directory's lexicographically first sub-directory; none
         * when there is no sub-directory */
        const struct config_place_entry *entries;
        size_t                           n_entries;
};

/* INVALID_ARG when no rule gives the backend and the directory's name does not end in one. */
struct error *model_config_fill(struct model_config *c, const struct config_place *place) NODISCARD;

/* True for the usual name of a model's file or directory, such as "model.onnx". */
bool model_config_knows_file(const char *name, bool is_directory);
