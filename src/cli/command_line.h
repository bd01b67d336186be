/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the commands `neso check` and `neso ctl`. A table of options is the source of both the
 * parsing and --help. `neso serve` has a table of its own (option_table.h).
 *
 * Accepted are "--name=value" and "--name value"; a value may begin with dashes in the first form
 * only. "--" ends the options.
 *
 * Ownership.  Texts are borrowed from argv. command_line_done() frees the lists.
 * Threads.  The main thread.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "cli/cli_options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum command_option_kind {
        COMMAND_FLAG,  /* bool; takes no value */
        COMMAND_WORD,  /* const char * */
        COMMAND_WORDS, /* struct cli_texts; may be given again */
        COMMAND_COUNT, /* uint64_t */
};

struct command_option {
        const char              *name; /* without dashes */
        enum command_option_kind kind;
        void                    *target;
        const char              *value_name; /* in --help; NULL for flags */
        unsigned                 group;      /* which commands take it; the caller defines it */
        const char              *help;       /* may have several lines */
};

struct command_line {
        const struct command_option *options;
        size_t                       n_options;  /* at most 64 */
        uint64_t                     given;      /* a bit for each option, by its index */
        struct cli_texts             words;      /* the other arguments, in their order */
        bool                         wants_help; /* --help or -h; later arguments were not read */
};

/* argv[0] is skipped. An INVALID_ARG error names the wrong option, with a suggestion. */
struct error *command_line_read(struct command_line *l, int argc, char **argv) NODISCARD;
void          command_line_done(struct command_line *l);

/* A line for each option. */
void command_line_print_options(const struct command_line *l, struct strbuf *out);
