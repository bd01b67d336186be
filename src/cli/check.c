/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/check.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/command_line.h"
#include "cli/core_options.h"
#include "cli/json_indent.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "core_api/core_error.h"
#include "triton/core/neso.h"

#include <stdio.h>
#include <stdlib.h>

#define CORE(call) TRY(core_error_take(call))

enum { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2 };

#define REPORT_MAX_BYTES ((size_t)1 << 30)

/* What NESO_ModelRepositoryCheck() reports. Texts are in the arena, or ranges of the JSON there. */
struct check_problem {
        bool                  is_warning;
        struct str            file, message;
        uint64_t              line, column; /* 0: none */
        struct check_problem *next;
};

struct checked_model {
        struct str            name, directory, file; /* file: ptr NULL when there is none */
        struct str            versions, config;      /* JSON; empty when there are errors */
        struct str            plan;                  /* JSON; of composite models */
        struct str            problems_json;
        struct check_problem *problems;
        size_t                n_errors;
        bool                  is_loaded;  /* with --load: it was loaded, and `config` is its
                                           * completed configuration */
        struct str            load_error; /* ptr NULL: the load succeeded, or was not tried */
        struct checked_model *next;
};

struct check_report {
        struct str            path;
        bool                  is_model;
        struct checked_model *models;
};

struct check {
        const char                  *path;
        bool                         is_json, is_quiet, loads;
        struct cli_options           options; /* of the server that would load the models */
        struct TRITONSERVER_Message *message; /* owned; the report's JSON */
        struct TRITONSERVER_Server  *server;  /* owned; with --load */
        struct arena                 arena;
        struct check_report          report;
        struct strbuf                wrong; /* for stderr */
        struct strbuf                fine;  /* for stdout */
        bool                         has_errors;
};

/* ---- the report ----------------------------------------------------------------------------- */

static struct check_problem *read_problem(struct json_reader *r, struct arena *arena) {
        struct check_problem *p = ARENA_NEW(arena, struct check_problem);
        struct str            key;

        for (json_enter_object(r); json_next_key(r, arena, &key);) {
                if (str_is(key, "severity"))
                        p->is_warning = str_is(json_read_string(r, arena), "warning");
                else if (str_is(key, "file"))
                        p->file = json_read_string(r, arena);
                else if (str_is(key, "line"))
                        p->line = json_read_number(r).magnitude;
                else if (str_is(key, "column"))
                        p->column = json_read_number(r).magnitude;
                else if (str_is(key, "message"))
                        p->message = json_read_string(r, arena);
                else
                        json_skip(r);
        }
        return p;
}

static void read_problems(struct json_reader *r, struct arena *arena, struct checked_model *m) {
        struct check_problem **end = &m->problems;

        for (json_enter_array(r); json_next_element(r); end = &(*end)->next) {
                *end = read_problem(r, arena);
                m->n_errors += !(*end)->is_warning;
        }
}

static struct checked_model *read_model(struct json_reader *r, struct arena *arena) {
        struct checked_model *m = ARENA_NEW(arena, struct checked_model);
        struct json_reader    again;
        struct str            key;

        for (json_enter_object(r); json_next_key(r, arena, &key);) {
                if (str_is(key, "name"))
                        m->name = json_read_string(r, arena);
                else if (str_is(key, "directory"))
                        m->directory = json_read_string(r, arena);
                else if (str_is(key, "file"))
                        m->file = json_read_string(r, arena);
                else if (str_is(key, "problems")) {
                        again = *r;
                        m->problems_json = json_skip(&again);
                        read_problems(r, arena, m);
                } else if (str_is(key, "versions"))
                        m->versions = json_skip(r);
                else if (str_is(key, "config"))
                        m->config = json_skip(r);
                else if (str_is(key, "batch_plan"))
                        m->plan = json_skip(r);
                else
                        json_skip(r);
        }
        return m;
}

static void read_report(struct json_reader *r, struct arena *arena, struct check_report *report) {
        struct checked_model **end = &report->models;
        struct str             key;

        for (json_enter_object(r); json_next_key(r, arena, &key);) {
                if (str_is(key, "path"))
                        report->path = json_read_string(r, arena);
                else if (str_is(key, "is_model"))
                        report->is_model = json_read_bool(r);
                else if (!str_is(key, "models"))
                        json_skip(r);
                else
                        for (json_enter_array(r); json_next_element(r); end = &(*end)->next)
                                *end = read_model(r, arena);
        }
        json_read_end(r);
}

/* INTERNAL when the JSON is not a report of the core. */
static struct error *read_report_json(struct str json, struct arena *arena,
                                      struct check_report *ret) {
        struct check_report report = { 0 };
        struct json_reader  r;

        json_reader_init(&r, json);
        read_report(&r, arena, &report);
        if (json_failed(&r))
                return error_new(ERR_INTERNAL, "the report of the check cannot be read: %s at %zu",
                                 json_error_text(&r), json_error_offset(&r));
        *ret = report;
        return NULL;
}

/* "file:line:column: message" for each, with "warning: " before the message of a warning. */
static void print_problems(const struct checked_model *m, struct strbuf *out) {
        for (const struct check_problem *p = m->problems; p != NULL; p = p->next) {
                strbuf_put(out, p->file.ptr, p->file.len);
                if (p->line > 0)
                        strbuf_printf(out, ":%llu:%llu", (unsigned long long)p->line,
                                      (unsigned long long)p->column);
                strbuf_puts(out, p->is_warning ? ": warning: " : ": ");
                strbuf_put(out, p->message.ptr, p->message.len);
                strbuf_putc(out, '\n');
        }
}

static void print_versions(struct str versions, struct strbuf *out) {
        struct json_reader r;
        const char        *before = ", versions ";

        json_reader_init(&r, versions);
        for (json_enter_array(&r); json_next_element(&r); before = ", ") {
                struct str version = json_skip(&r);

                strbuf_puts(out, before);
                strbuf_put(out, version.ptr, version.len);
        }
}

static void print_plan(const struct checked_model *m, struct strbuf *out) {
        struct json_reader r;
        uint64_t           n_rows = 1;

        strbuf_puts(out, "executions for each number of rows:\n");
        json_reader_init(&r, m->plan);
        for (json_enter_array(&r); json_next_element(&r); n_rows++) {
                struct str plan = json_skip(&r); /* digits and words between quotes */

                strbuf_printf(out, "  %llu: %.*s\n", (unsigned long long)n_rows,
                              STR_ARG(str_range(plan.ptr + 1, plan.len - 2)));
        }
}

/* "name: ok, versions 1, 2" and the indented configuration; for composite models also the plan. */
static void print_config(const struct checked_model *m, struct strbuf *out) {
        strbuf_put(out, m->name.ptr, m->name.len);
        strbuf_puts(out, m->is_loaded ? ": loads" : ": ok");
        print_versions(m->versions, out);
        strbuf_putc(out, '\n');
        json_indent(m->config, out);
        strbuf_putc(out, '\n');
        if (m->plan.ptr != NULL)
                print_plan(m, out);
}

static void put_member(struct json_writer *w, const char *key, struct str text) {
        if (text.ptr == NULL)
                return;
        json_key(w, key);
        json_put_str(w, text);
}

static void put_raw(struct json_writer *w, const char *key, struct str json) {
        if (json.ptr == NULL)
                return;
        json_key(w, key);
        json_put_raw(w, json);
}

static void print_model_json(const struct checked_model *m, struct json_writer *w) {
        json_begin_object(w);
        put_member(w, "name", m->name);
        put_member(w, "directory", m->directory);
        put_member(w, "file", m->file);
        put_raw(w, "problems", m->problems_json);
        put_raw(w, "versions", m->versions);
        if (m->is_loaded)
                put_raw(w, "loaded", STR_LIT("true"));
        put_member(w, "load_error", m->load_error);
        put_raw(w, "config", m->config);
        put_raw(w, "batch_plan", m->plan);
        json_end_object(w);
}

/* The report as the core printed it, with "loaded" or "load_error" for models that were loaded. */
static void print_json(const struct check_report *report, struct strbuf *out) {
        struct json_writer w;

        json_writer_init(&w, out);
        json_begin_object(&w);
        put_member(&w, "path", report->path);
        json_key(&w, "is_model");
        json_put_bool(&w, report->is_model);
        json_key(&w, "models");
        json_begin_array(&w);
        for (const struct checked_model *m = report->models; m != NULL; m = m->next)
                print_model_json(m, &w);
        json_end_array(&w);
        json_end_object(&w);
        strbuf_putc(out, '\n');
}

/* ---- --load ---------------------------------------------------------------------------------- */

/* Returns the repository. For a model's directory, that is its parent directory under its real
 * path. */
static char *find_repository(const struct check *c) {
        AUTO_CHARS full = realpath(c->path, NULL);

        return c->report.is_model && full != NULL ? path_dirname(full) : mem_strdup(c->path);
}

/* Starts a server in mode explicit, which loads no model at its start. */
static struct error *start_server(struct check *c) {
        AUTO_CHARS                         repository = find_repository(c);
        struct TRITONSERVER_ServerOptions *core;
        struct error                      *err;

        option_texts_add(&c->options.model_repository, repository);
        TRY(cli_options_set(&c->options, "model-control-mode", "explicit"));
        TRY(core_options_make(&c->options, &core));
        err = core_error_take(NESO_ServerOptionsSetLoadReasons(core, true));
        if (err == NULL)
                err = core_error_take(TRITONSERVER_ServerNew(&c->server, core));
        core_error_drop(TRITONSERVER_ServerOptionsDelete(core));
        return err;
}

static struct error *read_message(struct check *c, struct TRITONSERVER_Message *message,
                                  struct str *ret) {
        const char   *base;
        size_t        byte_size;
        struct error *err;

        err = core_error_take(TRITONSERVER_MessageSerializeToJson(message, &base, &byte_size));
        if (err == NULL)
                *ret = str_range(arena_strndup(&c->arena, base, byte_size), byte_size);
        core_error_drop(TRITONSERVER_MessageDelete(message));
        return err;
}

static struct error *load(struct check *c, struct checked_model *m) {
        const char                  *name = arena_str(&c->arena, m->name);
        struct TRITONSERVER_Message *config;

        CORE(TRITONSERVER_ServerLoadModel(c->server, name));
        CORE(TRITONSERVER_ServerModelConfig(c->server, name, -1, 1, &config));
        TRY(read_message(c, config, &m->config));
        return core_error_take(TRITONSERVER_ServerUnloadModel(c->server, name));
}

/* Returns the error's text without the line ends that follow it. */
static struct str reason_of(struct check *c, const struct error *err) {
        struct str reason = str_of(arena_strdup(&c->arena, err->message));

        while (reason.len > 0 && reason.ptr[reason.len - 1] == '\n')
                reason.len--;
        return reason;
}

/* Loads one model after the other, so that each has the machine for itself. */
static void load_all(struct check *c) {
        for (struct checked_model *m = c->report.models; m != NULL; m = m->next) {
                AUTO_ERROR err = m->n_errors == 0 ? load(c, m) : NULL;

                if (m->n_errors > 0)
                        continue;
                m->is_loaded = err == NULL;
                if (err != NULL)
                        m->load_error = reason_of(c, err);
        }
}

/* ---- the check ------------------------------------------------------------------------------- */

static struct error *make_report(struct check *c) {
        struct TRITONSERVER_ServerOptions *core;
        struct TRITONSERVER_Message       *message;
        struct error                      *err;
        struct str                         json;

        TRY(core_options_make(&c->options, &core));
        err = core_error_take(NESO_ModelRepositoryCheck(core, c->path, &message));
        core_error_drop(TRITONSERVER_ServerOptionsDelete(core));
        TRY(err);
        TRY(read_message(c, message, &json));
        return read_report_json(json, &c->arena, &c->report);
}

static void print_model(struct check *c, const struct checked_model *m) {
        print_problems(m, &c->wrong);
        if (m->load_error.ptr != NULL)
                strbuf_printf(&c->wrong, "%.*s: %.*s\n", STR_ARG(m->directory),
                              STR_ARG(m->load_error));
        c->has_errors = c->has_errors || m->n_errors > 0 || m->load_error.ptr != NULL;
        if (m->config.ptr != NULL && m->load_error.ptr == NULL && !c->is_quiet)
                print_config(m, &c->fine);
}

static struct error *run(struct check *c) {
        TRY(make_report(c));
        if (c->loads) {
                TRY(start_server(c));
                load_all(c);
        }
        for (const struct checked_model *m = c->report.models; m != NULL; m = m->next)
                print_model(c, m);
        if (c->report.models == NULL)
                strbuf_printf(&c->wrong, "%s: warning: there is no model in it\n", c->path);
        if (c->is_json) {
                strbuf_clear(&c->wrong);
                strbuf_clear(&c->fine);
                print_json(&c->report, &c->fine);
        }
        if (c->wrong.overflowed || c->fine.overflowed)
                return error_new(ERR_UNAVAILABLE, "there is too much to print");
        return NULL;
}

static int check(struct check *c) {
        AUTO_ERROR err = NULL;

        arena_init(&c->arena, NULL, 0, REPORT_MAX_BYTES);
        strbuf_init(&c->wrong, REPORT_MAX_BYTES);
        strbuf_init(&c->fine, REPORT_MAX_BYTES);
        err = run(c);
        if (err == NULL) {
                fputs(strbuf_cstr(&c->fine), stdout);
                fflush(stdout);
                fputs(strbuf_cstr(&c->wrong), stderr);
        } else {
                fprintf(stderr, "neso check: %s\n", err->message);
        }
        core_error_drop(TRITONSERVER_ServerDelete(c->server));
        strbuf_done(&c->fine);
        strbuf_done(&c->wrong);
        arena_done(&c->arena);
        return err != NULL || c->has_errors ? EXIT_WRONG : EXIT_FINE;
}

/* ---- the command line ------------------------------------------------------------------------ */

#define ROW(row_kind, row_name, member, ...)                                                       \
        { .kind = OPTION_##row_kind, .name = row_name, .offset = offsetof(struct check, member),   \
          __VA_ARGS__ }

static const struct option_row rows[] = {
        ROW(FLAG, "json", is_json, .help = "print everything as one JSON object"),
        ROW(FLAG, "load", loads,
            .help = "also load each model once, and print its configuration as its backend\n"
                    "completed it, or why it does not load"),
        ROW(FLAG, "quiet", is_quiet, .help = "print mistakes only"),
        ROW(TEXT, "backend-directory", options.backend_directory, .argument = "DIRECTORY",
            .help = "where the backends are, as of `neso serve`"),
        ROW(TEXT, "repoagent-directory", options.repoagent_directory, .argument = "DIRECTORY",
            .help = "where the repository agents are, as of `neso serve`"),
        ROW(TEXT, "scheduler-directory", options.scheduler_directory, .argument = "DIRECTORY",
            .help = "where the scheduler libraries are, as of `neso serve`"),
        ROW(TEXT, "model-config-name", options.model_config_name, .argument = "NAME",
            .help = "read configs/NAME.pbtxt where there is one"),
        ROW(FLAG, "disable-auto-complete", options.disable_auto_complete,
            .help = "configurations must be complete, as of `neso serve`"),
};

static const struct option_table check_option_table = { rows, ARRAY_LEN(rows) };

static void print_help(void) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        strbuf_puts(
                &text,
                "Usage: neso check <repository or model directory> [options]\n\n"
                "Reads the configuration of each model as a server would and prints the effective\n"
                "configuration, or its mistakes: <file>:<line>:<column>: <message>.\n"
                "Exit code: 0 no mistakes, 1 mistakes, 2 wrong usage.\n\n");
        command_line_print_options(&check_option_table, &text);
        fputs(strbuf_cstr(&text), stdout);
}

static int wrong_usage(const char *what) {
        fprintf(stderr, "neso check: %s\n`neso check --help` lists the options.\n", what);
        return EXIT_USAGE;
}

static int read_and_check(struct check *c, struct command_line *l, int argc, char **argv) {
        AUTO_ERROR err = command_line_read(l, argc, argv);

        if (err != NULL)
                return wrong_usage(err->message);
        if (l->wants_help) {
                print_help();
                return EXIT_FINE;
        }
        if (l->words.n_items != 1)
                return wrong_usage("which repository, or which model? One directory is checked");
        c->path = l->words.items[0];
        return check(c);
}

int check_main(int argc, char **argv) {
        struct check        c;
        struct command_line line = { .options = &check_option_table, .values = &c };
        int                 code;

        option_table_init(&check_option_table, &c, sizeof(c));
        cli_options_init(&c.options);
        /* The report has all problems, so the server of --load does not log them again. */
        c.options.log_info = c.options.log_warning = c.options.log_error = false;
        code = read_and_check(&c, &line, argc, argv);
        command_line_done(&line);
        cli_options_done(&c.options);
        return code;
}
