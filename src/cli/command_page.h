/* SPDX-License-Identifier: BSD-3-Clause */
/* What users read about a command of `neso`: the one source of `neso help`, --help, the manual page and
 * the completion of bash.
 *
 * Ownership.  Pages are static.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "options/option_row.h"

struct ctl;

/* A command of a command: `neso ctl load MODEL`. */
struct command_word {
        const char *name;
        const char *argument; /* "MODEL", "[MODEL]" or "" */
        const char *help;
        unsigned    takes; /* bits of the options that it takes besides those for all */
        struct error *(*run)(struct ctl *c);
};

struct command_page {
        const char                *name;      /* "ctl" */
        const char                *summary;   /* "query a running server" */
        const char                *arguments; /* "<command> [options]" */
        const char                *about;     /* sentences; lines may end anywhere */
        const struct command_word *words;
        size_t                     n_words;
        const struct option_table *options; /* NULL: none */
        const char                *exit_codes;
};

/* All commands, in the order of `neso help`. */
struct command_pages {
        const struct command_page *const *items;
        size_t                            n_items;
};

extern const struct command_page serve_page, check_page, ctl_page, bench_page, tune_page;

/* Prints the text of --help to standard output. `neso serve --help` has a form of its own (option_print.h). */
void command_page_print_help(const struct command_page *page);
/* Puts the manual page in the language of troff. */
void command_page_print_manual(const struct command_page *page, struct strbuf *out);
/* Puts neso.1, which names the other pages. */
void command_pages_print_manual(const struct command_pages *pages, struct strbuf *out);
/* Puts the script that bash reads to complete `neso` and `tritonserver`. */
void command_pages_print_completion(const struct command_pages *pages, struct strbuf *out);
