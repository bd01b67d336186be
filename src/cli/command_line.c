/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/command_line.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

#define HELP_COLUMN 28 /* column of the help texts, after the longest option */

static void add_word(struct cli_texts *l, const char *word) {
        l->items = mem_realloc(l->items, (l->n_items + 1) * sizeof(*l->items));
        l->items[l->n_items++] = word;
}

static const struct command_option *find_option(const struct command_line *l, struct str name) {
        for (size_t i = 0; i < l->n_options; i++)
                if (str_is(name, l->options[i].name))
                        return &l->options[i];
        return NULL;
}

static struct error *unknown_option(const struct command_line *l, struct str name) {
        const char **names = mem_zalloc((l->n_options + 1) * sizeof(*names));
        const char  *nearest;

        for (size_t i = 0; i < l->n_options; i++)
                names[i] = l->options[i].name;
        nearest = str_suggest(name, names, l->n_options);
        free(names);
        return error_new(ERR_INVALID_ARG, "unknown option '--%.*s'%s%s%s", STR_ARG(name),
                         nearest ? "; did you mean '--" : "", nearest ? nearest : "",
                         nearest ? "'?" : "");
}

static struct error *set(struct command_line *l, const struct command_option *o,
                         const char *value) {
        uint64_t bit = UINT64_C(1) << (o - l->options);

        switch (o->kind) {
        case COMMAND_FLAG: *(bool *)o->target = true; break;
        case COMMAND_WORD:
                if ((l->given & bit) != 0)
                        return error_new(ERR_INVALID_ARG, "--%s is given twice", o->name);
                *(const char **)o->target = value;
                break;
        case COMMAND_WORDS: add_word(o->target, value); break;
        case COMMAND_COUNT:
                if (!str_to_u64(str_of(value), o->target))
                        return error_new(ERR_INVALID_ARG, "--%s expects a number, got '%s'",
                                         o->name, value);
                break;
        }
        l->given |= bit;
        return NULL;
}

/* Reads an option; argv[*at] begins with two dashes. *at moves on when the value is an argument of
 * its own. */
static struct error *read_option(struct command_line *l, int argc, char **argv, int *at) {
        struct str                   name;
        const char                  *value = str_split(str_of(argv[*at] + 2), '=', &name).ptr;
        const struct command_option *o = find_option(l, name);

        if (o == NULL)
                return unknown_option(l, name);
        if (o->kind == COMMAND_FLAG)
                return value == NULL ? set(l, o, NULL)
                                     : error_new(ERR_INVALID_ARG, "--%s takes no value", o->name);
        if (value == NULL && *at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0)
                value = argv[++*at];
        if (value == NULL)
                return error_new(ERR_INVALID_ARG, "--%s needs a value: --%s=%s", o->name, o->name,
                                 o->value_name);
        return set(l, o, value);
}

struct error *command_line_read(struct command_line *l, int argc, char **argv) {
        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
                        l->wants_help = true;
                        return NULL;
                }
                if (strcmp(argv[i], "--") == 0) {
                        while (++i < argc)
                                add_word(&l->words, argv[i]);
                        return NULL;
                }
                if (strncmp(argv[i], "--", 2) == 0)
                        TRY(read_option(l, argc, argv, &i));
                else if (argv[i][0] == '-' && argv[i][1] != '\0')
                        return error_new(ERR_INVALID_ARG,
                                         "unknown option '%s'; options begin with two dashes",
                                         argv[i]);
                else
                        add_word(&l->words, argv[i]);
        }
        return NULL;
}

void command_line_done(struct command_line *l) {
        free(l->words.items);
        for (size_t i = 0; i < l->n_options; i++)
                if (l->options[i].kind == COMMAND_WORDS)
                        free(((struct cli_texts *)l->options[i].target)->items);
}

void command_line_print_options(const struct command_line *l, struct strbuf *out) {
        for (size_t i = 0; i < l->n_options; i++) {
                const struct command_option *o = &l->options[i];
                size_t                       start = out->len;

                strbuf_printf(out, "  --%s", o->name);
                if (o->value_name != NULL)
                        strbuf_printf(out, "=%s", o->value_name);
                do {
                        strbuf_putc(out, ' ');
                } while (!out->overflowed && out->len - start < HELP_COLUMN);
                for (const char *c = o->help; *c != '\0'; c++) {
                        strbuf_putc(out, *c);
                        if (*c == '\n')
                                strbuf_printf(out, "%*s", HELP_COLUMN, "");
                }
                strbuf_putc(out, '\n');
        }
}
