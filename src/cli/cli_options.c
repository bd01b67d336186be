/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/cli_options.h"

#include "base/compiler.h"

#define ROW(row_kind, row_name, row_initial, ...)                                                  \
        .group = OPTION_GROUP, .kind = OPTION_##row_kind, .name = row_name,                        \
        .initial = row_initial, __VA_ARGS__

static const struct option_row rows[] = {
#define OPTION(kind, member, ...)                                                                  \
        { .offset = offsetof(struct cli_options, member), ROW(kind, __VA_ARGS__) },
#define CORE_OPTION(kind, member, ...)                                                             \
        { .offset = offsetof(struct cli_options, member), .is_core = true, ROW(kind, __VA_ARGS__) },
#include "options/option_rows.def"
};

const struct option_table cli_option_table = { rows, ARRAY_LEN(rows) };

void cli_options_init(struct cli_options *o) {
        option_table_init(&cli_option_table, o, sizeof(*o));
}

void cli_options_done(struct cli_options *o) {
        option_table_done(&cli_option_table, o);
}

struct error *cli_options_set(struct cli_options *o, const char *name, const char *text) {
        return option_set(option_table_find(&cli_option_table, str_of(name)), o, text);
}
