/* SPDX-License-Identifier: BSD-3-Clause */
/* What NESO_ModelRepositoryCheck() reports, with the results of --load.
 *
 * Ownership.  Texts are in the arena of the reader, or ranges of the JSON there.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct checked_model {
        struct str            json; /* as the core reports the model */
        struct str            name, directory;
        struct str            config; /* JSON; ptr NULL when there are errors */
        size_t                n_errors;
        bool                  is_loaded;  /* with --load: it was loaded, and `config` is its
                                           * completed configuration */
        struct str            load_error; /* ptr NULL: the load succeeded, or was not tried */
        struct checked_model *next;
};

struct check_report {
        struct str            path;
        bool                  is_model;
        struct checked_model *models;
};

/* `json` is in the arena. INTERNAL when it is not a report of the core. */
struct error *check_report_read(struct str json, struct arena *arena, struct check_report *ret)
        NODISCARD;
