/* SPDX-License-Identifier: BSD-3-Clause */
/* Options as rows of a table. A row is the one place of an option: its name, kind, default, range and
 * help, and the member of a struct that stores its value. Parsing, --help, the manual pages, the
 * completion of shells and the settings of the core are all made from rows.
 *
 *     struct values { int64_t port; };
 *     static const struct option_row rows[] = {
 *             { .name = "port", .kind = OPTION_NUMBER, .offset = offsetof(struct values, port),
 *               .initial = "8000", .max = 65535, .help = "Port for requests." },
 *     };
 *
 * option_rows.def has the options of the server.
 *
 * Ownership.  A struct of values owns its texts: option_table_init(), option_table_done(). Rows are
 * static.
 * Threads.  One owner of the values at a time.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
        OPTION_FLAG,   /* no value: the bool becomes true */
        OPTION_BOOL,   /* true/false/on/off/1/0, any case */
        OPTION_NUMBER, /* within [min, max] */
        OPTION_COUNT,  /* any number that is not negative */
        OPTION_REAL,   /* within [min, max] */
        OPTION_TEXT,   /* NULL: not given, without a default */
        OPTION_TEXTS,  /* may be given several times */
};

struct option_texts {
        char **items; /* owned, in the order given */
        size_t n_items;
};

/* The type of the member of each kind. */
#define OPTION_TYPE_FLAG bool
#define OPTION_TYPE_BOOL bool
#define OPTION_TYPE_NUMBER int64_t
#define OPTION_TYPE_COUNT uint64_t
#define OPTION_TYPE_REAL double
#define OPTION_TYPE_TEXT char *
#define OPTION_TYPE_TEXTS struct option_texts

struct option_row {
        const char      *group;    /* heading in --help */
        const char      *name;     /* without dashes */
        char             letter;   /* "-m" for "--model"; command_line.h alone reads it. 0: none */
        const char      *old_name; /* another name of the same option; NULL: none */
        enum option_kind kind;
        size_t           offset; /* of the member in the struct of values */
        double           min, max;
        const char      *initial;      /* default, in the form of a value; NULL: zero */
        const char      *default_text; /* shown as the default; NULL: `initial` */
        const char      *argument; /* "<path>"; "<a|b>" is a choice of words. NULL: by the kind */
        const char      *help;
        bool             refuses_empty; /* OPTION_TEXT: "--name=" is an error */
        bool             is_core;       /* the server library has the option, by the same name */
        unsigned         used_by;       /* bits of the commands that take it; 0: all */
        /* A feature that does not exist. Giving the option is then an error, except with the value
         * `harmless`, which does not request the feature. NULL: the option is supported. */
        const char *missing;
        const char *harmless;
};

struct option_table {
        const struct option_row *rows;
        size_t                   n_rows;
};

/* Sets the defaults; the struct need not be initialised. */
void option_table_init(const struct option_table *t, void *values, size_t values_bytes);
void option_table_done(const struct option_table *t, void *values);

/* Finds an option by its name or its older one; NULL when there is none. */
const struct option_row *option_table_find(const struct option_table *t, struct str name);
/* The name nearest to a misspelt one; NULL when none is near. */
const char *option_table_suggest(const struct option_table *t, struct str name);

/* Sets the value, or adds it to the list. INVALID_ARG names the option and what is allowed;
 * UNSUPPORTED for a missing feature. On error the value is unchanged. */
struct error *option_set(const struct option_row *row, void *values, const char *text) NODISCARD;
/* Replaces *owned by a copy of `text`. */
void option_text_set(char **owned, const char *text);
void option_texts_add(struct option_texts *texts, const char *text);
void option_texts_done(struct option_texts *texts);

/* Number of values: that of a list; 0 for an option that was not given and has no default; else 1. */
size_t option_n_values(const struct option_row *row, const void *values);
/* Puts a value in the form that option_set() reads. */
void option_put_value(const struct option_row *row, const void *values, size_t index,
                      struct strbuf *out);
/* True when the option has another value than its default. */
bool option_is_changed(const struct option_row *row, const void *values);

/* For help: the form of a value, "" for flags; the default, "" when there is none to show. */
const char *option_argument(const struct option_row *row);
const char *option_default(const struct option_row *row);
