/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of `neso check --migrate`: for each model and each option of a command line of the
 * reference server, whether it works here, differs, or is missing, and why.
 *
 * A model's verdict is the worst of its rows. Its rows are the errors of the check, the error of its
 * load when it was loaded, and the notes of the core (config/config_notes.h).
 *
 * Threads.  The main thread.
 */
#pragma once

#include "base/arena.h"
#include "base/strbuf.h"
#include "cli/check_report.h"
#include "cli/migrate_command.h"

#include <stdbool.h>

struct migration {
        const struct check_report     *report;
        const struct migrated_command *command;  /* NULL: none was given */
        bool                           is_brief; /* rows of what differs or is missing alone */
        bool          was_loaded;                /* the models, too: their backends had their say */
        struct arena *arena;                     /* borrowed; for texts of the JSON */
};

/* Puts tables for people. */
void migrate_print(const struct migration *m, struct strbuf *out);
void migrate_print_json(const struct migration *m, struct strbuf *out);
/* Of all models and of the command line. */
enum migrate_verdict migrate_verdict(const struct migration *m);
