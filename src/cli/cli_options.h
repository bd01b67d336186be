/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of the options of `neso serve`. Each member is declared by its option's row in
 * options/option_rows.def.
 *
 * Ownership.  The struct owns its texts: cli_options_init(), cli_options_done().
 * Threads.  The main thread.
 */
#pragma once

#include "options/option_row.h"

struct cli_options {
#define OPTION(kind, member, ...) OPTION_TYPE_##kind member;
#include "options/option_rows.def"
};

/* All rows, in the order of --help. */
extern const struct option_table cli_option_table;

/* --*-max-connections-per-address when it was not given: a part, so that no address takes all. */
#define CLI_CONNECTIONS_SHARE (-1)

/* The limit of an address; 0 = none. */
static inline size_t cli_connections_per_address(int64_t wished, int64_t connections) {
        if (wished != CLI_CONNECTIONS_SHARE)
                return (size_t)wished;
        return (size_t)(connections - connections / 4);
}

void cli_options_init(struct cli_options *o); /* defaults */
void cli_options_done(struct cli_options *o);

/* Sets the option of that name; see option_set(). */
struct error *cli_options_set(struct cli_options *o, const char *name, const char *text) NODISCARD;
