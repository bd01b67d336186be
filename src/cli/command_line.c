/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/command_line.h"

#include "base/str.h"

#include <string.h>

#define HELP_COLUMN 28 /* column of the help texts, after the longest option */

static struct error *unknown_option(const struct command_line *l, struct str name) {
        return error_suggest(error_new(ERR_INVALID_ARG, "unknown option '--%.*s'", STR_ARG(name)),
                             "--", option_table_suggest(l->options, name));
}

static struct error *set_option(struct command_line *l, const struct option_row *row,
                                const char *value) {
        bool *is_given = &l->given[row - l->options->rows];

        if (row->kind == OPTION_TEXT && *is_given)
                return error_new(ERR_INVALID_ARG, "--%s is given twice", row->name);
        TRY(option_set(row, l->values, value));
        *is_given = true;
        return NULL;
}

/* Reads an option; argv[*at] begins with two dashes. *at moves on when the value is an argument of
 * its own. */
static struct error *read_option(struct command_line *l, int argc, char **argv, int *at) {
        struct str               name;
        const char              *value = str_split(str_of(argv[*at] + 2), '=', &name).ptr;
        const struct option_row *row = option_table_find(l->options, name);

        if (row == NULL)
                return unknown_option(l, name);
        if (row->kind == OPTION_FLAG)
                return value == NULL ? set_option(l, row, "true")
                                     : error_new(ERR_INVALID_ARG, "--%s takes no value", row->name);
        if (value == NULL && *at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0)
                value = argv[++*at];
        if (value == NULL)
                return error_new(ERR_INVALID_ARG, "--%s needs a value: --%s=%s", row->name,
                                 row->name, row->argument);
        return set_option(l, row, value);
}

/* Reads "-m value", "-mvalue" or "-z". */
static struct error *read_letter(struct command_line *l, int argc, char **argv, int *at) {
        const char              *arg = argv[*at], *value = arg[2] != '\0' ? arg + 2 : NULL;
        const struct option_row *row = NULL;

        for (size_t i = 0; i < l->options->n_rows && row == NULL; i++)
                if (l->options->rows[i].letter == arg[1])
                        row = &l->options->rows[i];
        if (row == NULL || (row->kind == OPTION_FLAG && value != NULL))
                return error_new(ERR_INVALID_ARG,
                                 "unknown option '%s'; options begin with two dashes", arg);
        if (row->kind == OPTION_FLAG)
                return set_option(l, row, "true");
        if (value == NULL && *at + 1 < argc)
                value = argv[++*at];
        if (value == NULL)
                return error_new(ERR_INVALID_ARG, "-%c needs a value: -%c %s", row->letter,
                                 row->letter, row->argument);
        return set_option(l, row, value);
}

struct error *command_line_read(struct command_line *l, int argc, char **argv) {
        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
                        l->wants_help = true;
                        return NULL;
                }
                if (strcmp(argv[i], "--") == 0) {
                        while (++i < argc)
                                option_texts_add(&l->words, argv[i]);
                        return NULL;
                }
                if (strncmp(argv[i], "--", 2) == 0)
                        TRY(read_option(l, argc, argv, &i));
                else if (argv[i][0] == '-' && argv[i][1] != '\0')
                        TRY(read_letter(l, argc, argv, &i));
                else
                        option_texts_add(&l->words, argv[i]);
        }
        return NULL;
}

void command_line_done(struct command_line *l) {
        option_texts_done(&l->words);
}

void command_line_print_options(const struct option_table *options, struct strbuf *out) {
        for (size_t i = 0; i < options->n_rows; i++) {
                const struct option_row *row = &options->rows[i];
                size_t                   start = out->len;

                if (row->letter != 0)
                        strbuf_printf(out, "  -%c, --%s", row->letter, row->name);
                else
                        strbuf_printf(out, "  --%s", row->name);
                if (row->kind != OPTION_FLAG)
                        strbuf_printf(out, "=%s", row->argument);
                do {
                        strbuf_putc(out, ' ');
                } while (!out->overflowed && out->len - start < HELP_COLUMN);
                for (const char *c = row->help; *c != '\0'; c++) {
                        strbuf_putc(out, *c);
                        if (*c == '\n')
                                strbuf_printf(out, "%*s", HELP_COLUMN, "");
                }
                strbuf_puts(out, row->missing != NULL ? " (not supported yet)\n" : "\n");
        }
}
