/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills in what the author left out because the files tell it: name, platform, backend and
 * default_model_filename.
 *
 * It runs at every load, also when auto-completion is turned off (that only forbids an absent
 * config.pbtxt). What is given is never changed. Source: model configuration, auto-fill.
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

/* Where the configuration was found. */
struct config_place {
        const char *model_name; /* borrowed: the model directory's name */

        /* borrowed: what the lexicographically first sub-directory of the model directory holds;
         * none when there is no sub-directory */
        const struct config_place_entry *entries;
        size_t                           n_entries;
};

/* INVALID_ARG when nothing tells the backend and the directory's name does not end in one. */
struct error *model_config_fill(struct model_config *c, const struct config_place *place) NODISCARD;
