/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of options: name, kind, place of the value, help. Parsing, --help and docs/options.md
 * all follow from an option's row.
 */
#pragma once

#include "base/str.h"
#include "cli/cli_options.h"

enum option_kind {
        OPTION_FLAG,   /* no value: bool becomes true */
        OPTION_BOOL,   /* true/false/on/off/1/0, any case */
        OPTION_NUMBER, /* int64_t within [min, max] */
        OPTION_REAL,   /* double within [min, max] */
        OPTION_TEXT,
        OPTION_TEXTS, /* may be given several times */
};

struct option_row {
        const char      *name;
        enum option_kind kind;
        size_t           offset; /* of the value in struct cli_options */
        const char      *argument; /* for --help: "<integer>"; NULL for flags */
        double           min, max;
        const char      *default_text; /* for --help; NULL = none */
        const char      *help;
        bool             refuses_empty; /* of OPTION_TEXT: "--name=" is an error */
        /* A feature that does not exist. Giving the option is then an error, except with the value
         * `harmless`, which does not request the feature. NULL = the option is supported. */
        const char *missing;
        const char *harmless;
};

struct option_group {
        const char              *title;
        const struct option_row *rows;
        size_t                   n_rows;
};

const struct option_group *option_groups(size_t *ret_n);
const struct option_row   *option_find(const char *name, size_t len);
/* The only option whose name begins so; NULL when there are none or several. */
const struct option_row *option_find_prefix(struct str prefix, size_t *ret_n_matches);
