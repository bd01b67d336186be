/* SPDX-License-Identifier: BSD-3-Clause */
/* How options of the reference server differ here, for `neso check --migrate`: one table. An option
 * without a row works the same. What is unknown or refused is not in it: the table of options
 * (options/option_rows.def) and the start's checks know that.
 *
 * Threads.  Static.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* In the order of their weight. */
enum migrate_verdict {
        MIGRATE_WORKS,
        MIGRATE_DIFFERS,
        MIGRATE_MISSING,
};

/* "works", "differs", "missing". */
const char *migrate_verdict_name(enum migrate_verdict verdict);

struct migrate_row {
        const char *option;
        bool        is_ignored; /* the option has no effect, so a command line needs it no more */
        bool (*is_meant)(const char *value); /* the values that the row is about; NULL: all */
        const char *why;
};

extern const struct migrate_row migrate_rows[];
extern const size_t             n_migrate_rows;

/* NULL: the option works the same with this value. */
const struct migrate_row *migrate_table_find(const char *option, const char *value);
