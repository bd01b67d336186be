/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/migrate_command.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/core_options.h"
#include "cli/option_parse.h"
#include "cli/serve.h"
#include "core_api/core_error.h"
#include "triton/core/neso.h"

#include <stdlib.h>
#include <string.h>

#define PROGRAM "tritonserver"

/* ---- the options of the text ------------------------------------------------------------------- */

/* The index of the word after the program's name; 0 when the text has options alone. */
static size_t find_options(const struct shell_words *words) {
        for (size_t i = 0; i < words->n_items; i++)
                if (strcmp(path_basename(words->items[i].text), PROGRAM) == 0)
                        return i + 1;
        return 0;
}

static void say(struct migrated_option *o, enum migrate_verdict verdict, const char *why) {
        free(o->why);
        o->why = mem_strdup(why);
        o->verdict = verdict;
        o->is_left_out = o->is_left_out || verdict == MIGRATE_MISSING;
}

static struct migrated_option *add_option(struct migrated_command *c) {
        c->items = mem_realloc(c->items, (c->n_items + 1) * sizeof(*c->items));
        c->items[c->n_items] = (struct migrated_option){ 0 };
        return &c->items[c->n_items++];
}

/* The value of an option that the server does not know is taken for one, not for an argument. */
static void skip_value(const struct shell_words *words, size_t *at) {
        const char *name = words->items[*at].text;

        if (strncmp(name, "--", 2) == 0 && strchr(name, '=') == NULL && *at + 1 < words->n_items &&
            strncmp(words->items[*at + 1].text, "--", 2) != 0)
                ++*at;
}

/* Reads one option; *at becomes the index of its last word. */
static void read_option(struct migrated_command *c, char **argv, size_t *at) {
        const struct shell_word *first = &c->words.items[*at], *last;
        struct migrated_option  *o = add_option(c);
        struct option_match      match = { 0 };
        int                      index = (int)*at;
        AUTO_ERROR err = option_parse_one((int)c->words.n_items, argv, &index, &match);

        if (err == NULL)
                *at = (size_t)index;
        else
                skip_value(&c->words, at);
        last = &c->words.items[*at];
        o->given =
                str_range(first->raw.ptr, (size_t)(last->raw.ptr - first->raw.ptr) + last->raw.len);
        o->has_expansion = first->has_expansion || last->has_expansion;
        o->row = err == NULL ? match.row : NULL;
        o->value = match.value;
        if (err != NULL)
                say(o, MIGRATE_MISSING, err->message);
}

static void read_options(struct migrated_command *c) {
        char **argv = mem_zalloc((c->words.n_items + 1) * sizeof(*argv));

        for (size_t i = 0; i < c->words.n_items; i++)
                argv[i] = c->words.items[i].text;
        for (size_t at = c->n_before; at < c->words.n_items; at++)
                read_option(c, argv, &at);
        free(argv);
}

/* ---- what the server says ---------------------------------------------------------------------- */

static bool is_option(const struct migrated_option *o, const char *name) {
        return o->row != NULL && strcmp(o->row->name, name) == 0;
}

static bool is_remote(const char *path) {
        return strstr(path, "://") != NULL;
}

/* A repository of the text is a directory of another machine or of a container, or in a store, which the
 * check does not ask: the given one takes its place. */
static const char *checked_value(const struct migrated_command *c,
                                 const struct migrated_option  *o) {
        return is_option(o, "model-repository") ? c->repository : o->value;
}

/* The values of all options but those that are left out and `without`. The caller ends *ret. */
static void collect(const struct migrated_command *c, const struct migrated_option *without,
                    struct cli_options *ret) {
        cli_options_init(ret);
        for (size_t i = 0; i < c->n_items; i++) {
                const struct migrated_option *o = &c->items[i];

                if (!o->is_left_out && o != without)
                        error_free(option_set(o->row, ret, checked_value(c, o)));
        }
        if (ret->model_repository.n_items == 0)
                option_texts_add(&ret->model_repository, c->repository);
}

/* Makes a server that loads nothing and opens no port, and ends it. */
static struct error *try_server(struct cli_options *o) {
        struct TRITONSERVER_ServerOptions *core;
        struct TRITONSERVER_Server        *server = NULL;
        struct error                      *err;

        option_texts_done(&o->load_model);
        TRY(cli_options_set(o, "model-control-mode", "explicit"));
        TRY(cli_options_set(o, "log-file", ""));
        TRY(core_options_make(o, &core));
        err = core_error_take(TRITONSERVER_ServerNew(&server, core));
        core_error_drop(TRITONSERVER_ServerOptionsDelete(core));
        if (err == NULL)
                core_error_drop(TRITONSERVER_ServerDelete(server));
        return err;
}

/* Checks the options without one of them, or all when `without` is NULL. The log stays silent. */
static struct error *check_without(const struct migrated_command *c,
                                   const struct migrated_option  *without) {
        struct cli_options o;
        struct error      *err;

        collect(c, without, &o);
        o.log_info = o.log_warning = o.log_error = false;
        err = serve_check(&o);
        if (err == NULL)
                err = try_server(&o);
        cli_options_done(&o);
        return err;
}

/* Finds the option without which there is another result. NULL when no single one is the cause. */
static struct migrated_option *find_culprit(struct migrated_command *c, const struct error *err) {
        for (size_t i = 0; i < c->n_items; i++) {
                AUTO_ERROR other = NULL;

                if (c->items[i].is_left_out)
                        continue;
                other = check_without(c, &c->items[i]);
                if (other == NULL || strcmp(other->message, err->message) != 0)
                        return &c->items[i];
        }
        return NULL;
}

/* Each round leaves out one option, so it ends. */
static void check_together(struct migrated_command *c) {
        for (;;) {
                AUTO_ERROR              err = check_without(c, NULL);
                struct migrated_option *culprit = NULL;

                if (err == NULL)
                        return;
                culprit = find_culprit(c, err);
                if (culprit == NULL) {
                        c->problem = mem_strdup(err->message);
                        return;
                }
                say(culprit, MIGRATE_MISSING, err->message);
        }
}

/* ---- the verdicts ------------------------------------------------------------------------------ */

static bool is_plugin_directory(const struct migrated_option *o) {
        return is_option(o, "backend-directory") || is_option(o, "repoagent-directory") ||
               is_option(o, "cache-directory");
}

static void compare(struct migrated_option *o) {
        const struct migrate_row *row;

        if (is_plugin_directory(o) && !file_is_directory(o->value)) {
                say(o, MIGRATE_DIFFERS,
                    "is no directory of this machine: without the option, Neso's own is taken");
                o->is_left_out = true;
                return;
        }
        if (is_option(o, "model-repository") && is_remote(o->value)) {
                say(o, MIGRATE_WORKS, "the store is not asked here");
                return;
        }
        row = migrate_table_find(o->row->name, o->value);
        if (row != NULL) {
                say(o, MIGRATE_DIFFERS, row->why);
                o->is_left_out = row->is_ignored;
        }
}

/* Each value alone: a number out of its range, or a feature that is missing. */
static void set_alone(struct migrated_option *o) {
        struct cli_options alone;
        AUTO_ERROR         err = NULL;

        cli_options_init(&alone);
        err = option_set(o->row, &alone, o->value);
        cli_options_done(&alone);
        if (err != NULL)
                say(o, MIGRATE_MISSING, err->message);
        else
                compare(o);
}

/* A shell replaces the text before the server gets it: nothing can be said about the value. */
static void leave_open(struct migrated_option *o) {
        say(o, MIGRATE_WORKS, "the value is not expanded here, and so not checked");
}

static void judge(struct migrated_command *c) {
        for (size_t i = 0; i < c->n_items; i++)
                if (c->items[i].row != NULL && !c->items[i].has_expansion)
                        set_alone(&c->items[i]);
                else if (c->items[i].row != NULL)
                        c->items[i].is_left_out = true; /* while the others are checked */
        check_together(c);
        for (size_t i = 0; i < c->n_items; i++)
                if (c->items[i].row != NULL && c->items[i].has_expansion) {
                        c->items[i].is_left_out = false;
                        leave_open(&c->items[i]);
                }
        for (size_t i = 0; i < c->n_items; i++)
                c->verdict = MAX(c->verdict, c->items[i].verdict);
        if (c->problem != NULL)
                c->verdict = MIGRATE_MISSING;
}

struct error *migrate_command_read(const char *text, const char *repository,
                                   struct migrated_command *ret) {
        struct migrated_command c = { .repository = repository };

        TRY(shell_words_split(text, &c.words));
        c.n_before = find_options(&c.words);
        read_options(&c);
        judge(&c);
        collect(&c, NULL, &c.options);
        *ret = c;
        return NULL;
}

void migrate_command_done(struct migrated_command *c) {
        for (size_t i = 0; i < c->n_items; i++)
                free(c->items[i].why);
        free(c->items);
        free(c->problem);
        cli_options_done(&c->options);
        shell_words_done(&c->words);
}

/* ---- the new command line ---------------------------------------------------------------------- */

#define NEXT_LINE " \\\n  "

static void put_option(const struct migrated_option *o, struct strbuf *out) {
        AUTO_CHARS text = NULL;

        strbuf_puts(out, NEXT_LINE);
        if (o->has_expansion) {
                strbuf_put(out, o->given.ptr, o->given.len);
                return;
        }
        text = o->row->kind == OPTION_FLAG ? mem_printf("--%s", o->row->name)
                                           : mem_printf("--%s=%s", o->row->name, o->value);
        shell_word_put(text, out);
}

void migrate_command_put(const struct migrated_command *c, struct strbuf *out) {
        bool has_repository = false;

        strbuf_puts(out, "neso serve");
        for (size_t i = 0; i < c->n_items; i++)
                if (!c->items[i].is_left_out) {
                        put_option(&c->items[i], out);
                        has_repository =
                                has_repository || is_option(&c->items[i], "model-repository");
                }
        if (!has_repository) {
                AUTO_CHARS text = mem_printf("--model-repository=%s", c->repository);

                strbuf_puts(out, NEXT_LINE);
                shell_word_put(text, out);
        }
}
