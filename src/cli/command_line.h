/* SPDX-License-Identifier: BSD-3-Clause */
/* The command lines of `neso check`, `neso ctl` and `neso bench`: options from a table of rows, and words. `neso serve`
 * reads its options as the reference server does (option_parse.h).
 *
 * Accepted are "--name=value" and "--name value"; a value may begin with two dashes in the first form
 * only. An option with a letter may also be given as "-m value" or "-mvalue". "--" ends the options.
 *
 * Ownership.  The caller owns the values, and initialises and ends them with the table.
 * command_line_done() frees the words.
 * Threads.  The main thread.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "options/option_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMMAND_LINE_MAX_OPTIONS 128

struct command_line {
        const struct option_table *options; /* at most COMMAND_LINE_MAX_OPTIONS rows */
        void                      *values;  /* borrowed; the struct that the rows store into */
        bool                       given[COMMAND_LINE_MAX_OPTIONS]; /* by the index of the option */
        struct option_texts        words;      /* the other arguments, in their order */
        bool                       wants_help; /* --help or -h; later arguments were not read */
};

/* argv[0] is skipped. An INVALID_ARG error names the wrong option, with a suggestion. */
struct error *command_line_read(struct command_line *l, int argc, char **argv) NODISCARD;
void          command_line_done(struct command_line *l);

/* A line for each option. A row's help may have several lines. */
void command_line_print_options(const struct option_table *options, struct strbuf *out);
