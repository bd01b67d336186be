/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/option_parse.h"

#include "base/strbuf.h"

#include <string.h>

static struct error *unknown_option(struct str name) {
        return error_suggest(error_new(ERR_INVALID_ARG, "unrecognized option '--%.*s'",
                                       STR_ARG(name)),
                             "--", option_table_suggest(&cli_option_table, name));
}

/* Adds a name that begins with the prefix to the list of matches. */
static size_t match_prefix(const struct option_row *row, const char *name, struct str prefix,
                           struct option_match *last, struct strbuf *names) {
        if (name == NULL || !str_starts(str_of(name), prefix))
                return 0;
        *last = (struct option_match){ .row = row, .name = name };
        strbuf_printf(names, " '--%s'", name);
        return 1;
}

/* Finds the only name that begins so, as getopt_long() does. */
static struct error *find_by_prefix(struct str prefix, struct option_match *ret) {
        const struct option_table *t = &cli_option_table;
        AUTO_STRBUF                names = { 0 };
        size_t                     n = 0;

        for (size_t i = 0; i < t->n_rows; i++) {
                n += match_prefix(&t->rows[i], t->rows[i].name, prefix, ret, &names);
                n += match_prefix(&t->rows[i], t->rows[i].old_name, prefix, ret, &names);
        }
        if (n == 1)
                return NULL;
        TRY(strbuf_check(&names, "the text of an error"));
        return n == 0 ? unknown_option(prefix)
                      : error_new(ERR_INVALID_ARG, "option '--%.*s' is ambiguous; possibilities:%s",
                                  STR_ARG(prefix), strbuf_cstr(&names));
}

static struct error *find_option(struct str name, struct option_match *ret) {
        ret->row = option_table_find(&cli_option_table, name);
        if (ret->row == NULL)
                return name.len > 0 ? find_by_prefix(name, ret) : unknown_option(name);
        ret->name = str_is(name, ret->row->name) ? ret->row->name : ret->row->old_name;
        return NULL;
}

struct error *option_parse_one(int argc, char **argv, int *at, struct option_match *ret) {
        const char *arg = argv[*at];
        struct str  name, value;

        if (strncmp(arg, "--", 2) != 0 || arg[2] == '\0')
                return error_new(ERR_INVALID_ARG, "Unexpected argument: %s", arg);
        value = str_split(str_of(arg + 2), '=', &name);
        TRY(find_option(name, ret));
        ret->value = value.ptr;
        if (ret->row->kind == OPTION_FLAG) {
                if (value.ptr != NULL)
                        return error_new(ERR_INVALID_ARG, "option '--%s' takes no value",
                                         ret->name);
                ret->value = "true";
        }
        if (ret->value == NULL && *at + 1 >= argc)
                return error_new(ERR_INVALID_ARG, "option '--%s' needs a value", ret->name);
        if (ret->value == NULL)
                ret->value = argv[++*at];
        return NULL;
}

struct error *option_parse(int argc, char **argv, struct cli_options *ret) {
        for (int at = 1; at < argc; at++) {
                struct option_match match;

                TRY(option_parse_one(argc, argv, &at, &match));
                TRY(option_set(match.row, ret, match.value));
        }
        return NULL;
}
