/* SPDX-License-Identifier: BSD-3-Clause */
/* A command line of `tritonserver`, option by option: whether this server does the same, and the
 * command line of `neso serve` that follows from it.
 *
 * The verdicts are those of the code that starts a server: the options are parsed by its parser, set
 * and checked as a start does (serve_check()), and a server is made with them that has no models and no
 * ports. When that fails, the options are left out one after the other, to find the one that is
 * refused. migrate_table.h adds the differences that no check knows.
 *
 * Words before `tritonserver`, such as `docker run ...`, are not read.
 *
 * Ownership.  migrate_command_done() frees everything; the text outlives the struct.
 * Threads.  The main thread.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "cli/cli_options.h"
#include "cli/migrate_table.h"
#include "cli/shell_words.h"

#include <stdbool.h>
#include <stddef.h>

struct migrated_option {
        struct str               given; /* range of the text: with its value */
        const struct option_row *row;   /* NULL: unknown */
        const char              *value; /* borrowed from a word; NULL: none */
        enum migrate_verdict     verdict;
        char                    *why;         /* owned; NULL: there is nothing to say */
        bool                     is_left_out; /* not in the new command line */
        bool                     has_expansion;
};

struct migrated_command {
        struct shell_words      words;
        size_t                  n_before; /* words before the options, not read */
        struct migrated_option *items;    /* owned; in their order */
        size_t                  n_items;
        char                   *problem; /* owned; of the options together; NULL: none */
        struct cli_options      options; /* those that are neither missing nor left out */
        enum migrate_verdict    verdict;
        const char             *repository; /* borrowed; stands for the repositories of the text */
};

/* INVALID_ARG when the text is no command line (shell_words.h). */
struct error *migrate_command_read(const char *text, const char *repository,
                                   struct migrated_command *ret) NODISCARD;
void          migrate_command_done(struct migrated_command *c);

/* Puts the command line of `neso serve`, an option on each line. */
void migrate_command_put(const struct migrated_command *c, struct strbuf *out);
