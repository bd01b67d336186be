/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/check.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/check_report.h"
#include "cli/command_line.h"
#include "cli/command_page.h"
#include "cli/core_options.h"
#include "cli/json_indent.h"
#include "cli/migrate.h"
#include "codec/json_find.h"
#include "codec/json_writer.h"
#include "core_api/core_error.h"
#include "load/plain_text.h"
#include "triton/core/neso.h"

#include <stdio.h>
#include <stdlib.h>

#define CORE(call) TRY(core_error_take(call))

enum { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2 };

#define REPORT_MAX_BYTES ((size_t)1 << 30)

struct check {
        const char                  *path;
        bool                         is_json, is_quiet, loads, is_migration;
        char                        *command_text; /* owned; --command-line */
        struct migrated_command      command;      /* with --command-line */
        struct cli_options           options;      /* of the server that would load the models */
        struct TRITONSERVER_Message *message;      /* owned; the report's JSON */
        struct TRITONSERVER_Server  *server;       /* owned; with --load */
        struct arena                 arena;
        struct check_report          report;
        struct strbuf                wrong; /* for stderr */
        struct strbuf                fine;  /* for stdout */
        bool                         has_errors;
};

/* ---- the report ----------------------------------------------------------------------------- */

/* "file:line:column: message" for each, with "warning: " before the message of a warning. */
static void print_problems(const struct checked_model *m, struct arena *arena, struct strbuf *out) {
        JSON_FOR_EACH(json_find(m->json, "problems"), p) {
                bool is_warning = str_is(json_find_text(p, "severity", arena), "warning");

                strbuf_printf(out, "%.*s", STR_ARG(json_find_text(p, "file", arena)));
                if (json_find_count(p, "line") > 0)
                        strbuf_printf(out, ":%llu:%llu",
                                      (unsigned long long)json_find_count(p, "line"),
                                      (unsigned long long)json_find_count(p, "column"));
                strbuf_printf(out, "%s%.*s\n", is_warning ? ": warning: " : ": ",
                              STR_ARG(json_find_text(p, "message", arena)));
        }
}

static void print_versions(struct str versions, struct strbuf *out) {
        const char *before = ", versions ";

        JSON_FOR_EACH(versions, version) {
                strbuf_printf(out, "%s%.*s", before, STR_ARG(version));
                before = ", ";
        }
}

static void print_plan(struct str plan, struct strbuf *out) {
        unsigned long long n_rows = 1;

        strbuf_puts(out, "executions for each number of rows:\n");
        JSON_FOR_EACH(plan, one) /* digits and words between quotes */
                strbuf_printf(out, "  %llu: %.*s\n", n_rows++,
                              STR_ARG(str_range(one.ptr + 1, one.len - 2)));
}

/* "name: ok, versions 1, 2" and the indented configuration; for composite models also the plan. */
static void print_config(const struct checked_model *m, struct strbuf *out) {
        strbuf_put(out, m->name.ptr, m->name.len);
        strbuf_puts(out, m->is_loaded ? ": loads" : ": ok");
        print_versions(json_find(m->json, "versions"), out);
        strbuf_putc(out, '\n');
        json_indent(m->config, out);
        strbuf_putc(out, '\n');
        if (json_find(m->json, "batch_plan").ptr != NULL)
                print_plan(json_find(m->json, "batch_plan"), out);
}

static void put_member(struct json_writer *w, const char *key, struct str text) {
        if (text.ptr == NULL)
                return;
        json_member_str(w, key, text);
}

static void put_raw(struct json_writer *w, const char *key, struct str json) {
        if (json.ptr == NULL)
                return;
        json_member_raw(w, key, json);
}

/* The members of the core's report, with the results of the load before the configuration. */
static void print_model_json(const struct checked_model *m, struct json_writer *w) {
        static const char *const members[] = { "name", "directory", "file", "problems",
                                               "versions" };

        json_begin_object(w);
        for (size_t i = 0; i < ARRAY_LEN(members); i++)
                put_raw(w, members[i], json_find(m->json, members[i]));
        if (m->is_loaded)
                put_raw(w, "loaded", STR_LIT("true"));
        put_member(w, "load_error", m->load_error);
        put_raw(w, "config", m->config);
        put_raw(w, "batch_plan", json_find(m->json, "batch_plan"));
        json_end_object(w);
}

/* The report as the core printed it, with "loaded" or "load_error" for models that were loaded. */
static void print_report_json(const struct check_report *report, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        put_member(&w, "path", report->path);
        json_member_bool(&w, "is_model", report->is_model);
        json_member_array(&w, "models");
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

static struct error *load_model(struct check *c, struct checked_model *m) {
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
static void load_models(struct check *c) {
        for (struct checked_model *m = c->report.models; m != NULL; m = m->next) {
                AUTO_ERROR err = m->n_errors == 0 ? load_model(c, m) : NULL;

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
        return check_report_read(json, &c->arena, &c->report);
}

static void print_model(struct check *c, const struct checked_model *m) {
        print_problems(m, &c->arena, &c->wrong);
        if (m->load_error.ptr != NULL)
                strbuf_printf(&c->wrong, "%.*s: %.*s\n", STR_ARG(m->directory),
                              STR_ARG(m->load_error));
        c->has_errors = c->has_errors || m->n_errors > 0 || m->load_error.ptr != NULL;
        if (m->config.ptr != NULL && m->load_error.ptr == NULL && !c->is_quiet)
                print_config(m, &c->fine);
}

static void print_migration(struct check *c) {
        const struct migration m = { .report = &c->report,
                                     .command = c->command_text != NULL ? &c->command : NULL,
                                     .is_brief = c->is_quiet,
                                     .was_loaded = c->loads,
                                     .arena = &c->arena };

        if (c->is_json)
                migrate_print_json(&m, &c->fine);
        else
                migrate_print(&m, &c->fine);
        c->has_errors = migrate_verdict(&m) == MIGRATE_MISSING;
}

static void print_report(struct check *c) {
        for (const struct checked_model *m = c->report.models; m != NULL; m = m->next)
                print_model(c, m);
        if (c->is_json) {
                strbuf_clear(&c->wrong);
                strbuf_clear(&c->fine);
                print_report_json(&c->report, &c->fine);
        }
}

static struct error *check_run(struct check *c) {
        TRY(make_report(c));
        if (c->loads) {
                TRY(start_server(c));
                load_models(c);
        }
        if (c->report.models == NULL && !c->is_json)
                strbuf_printf(&c->wrong, "%s: warning: there is no model in it\n", c->path);
        if (c->is_migration)
                print_migration(c);
        else
                print_report(c);
        if (c->wrong.overflowed || c->fine.overflowed)
                return error_new(ERR_UNAVAILABLE, "there is too much to print");
        return NULL;
}

static int check_repository(struct check *c) {
        AUTO_ERROR err = NULL;

        arena_init(&c->arena, NULL, 0, REPORT_MAX_BYTES);
        strbuf_init(&c->wrong, REPORT_MAX_BYTES);
        strbuf_init(&c->fine, REPORT_MAX_BYTES);
        err = check_run(c);
        if (err == NULL) {
                plain_text_print(&c->fine, c->is_json);
                fflush(stdout);
                if (c->wrong.len > 0)
                        plain_text_make(c->wrong.ptr, c->wrong.len, '?');
                fputs(strbuf_cstr(&c->wrong), stderr);
        } else {
                plain_text_print_error("check", err);
        }
        core_error_drop(TRITONSERVER_ServerDelete(c->server));
        strbuf_done(&c->fine);
        strbuf_done(&c->wrong);
        arena_done(&c->arena);
        return err != NULL || c->has_errors ? EXIT_WRONG : EXIT_FINE;
}

/* ---- the command line ------------------------------------------------------------------------ */

#define ROW(row_kind, row_name, member, ...)                                                       \
        {                                                                                          \
                .kind = OPTION_##row_kind, .name = row_name,                                       \
                .offset = offsetof(struct check, member), __VA_ARGS__                              \
        }

static const struct option_row rows[] = {
        ROW(FLAG, "json", is_json, .help = "print everything as one JSON object"),
        ROW(FLAG, "load", loads,
            .help = "also load each model once, and print its configuration as its backend\n"
                    "completed it, or why it does not load"),
        ROW(FLAG, "migrate", is_migration,
            .help = "say of each model, and of the parts of its configuration, whether it works\n"
                    "as in Triton, differs, or is missing, and why"),
        ROW(TEXT, "command-line", command_text, .argument = "TEXT",
            .help = "with --migrate: the command line of tritonserver, in quotes; say the same of\n"
                    "its options, and print the command line of `neso serve`"),
        ROW(FLAG, "quiet", is_quiet,
            .help = "print mistakes only; with --migrate: what differs or is missing only"),
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

static const struct option_table check_options = { rows, ARRAY_LEN(rows) };

const struct command_page check_page = {
        .name = "check",
        .summary = "check the configurations of a repository",
        .arguments = "<repository or model directory> [options]",
        .about =
                "Reads the configuration of each model as a server would and prints the effective\n"
                "configuration, or its mistakes: <file>:<line>:<column>: <message>. With "
                "--migrate,\n"
                "what a repository that was written for Triton needs here.",
        .options = &check_options,
        .exit_codes =
                "0 no mistakes, or nothing is missing, 1 mistakes, or something is missing, 2 "
                "wrong usage",
};

static int wrong_usage(const char *what) {
        fprintf(stderr, "neso check: %s\n`neso check --help` lists the options.\n", what);
        return EXIT_USAGE;
}

/* Options of the command line that are about models, for those of the check that are not given. */
static void take_options(struct check *c, const struct cli_options *from) {
        struct cli_options *to = &c->options;

        if (*to->backend_directory == '\0' && file_is_directory(from->backend_directory))
                error_free(cli_options_set(to, "backend-directory", from->backend_directory));
        if (*to->repoagent_directory == '\0' && file_is_directory(from->repoagent_directory))
                error_free(cli_options_set(to, "repoagent-directory", from->repoagent_directory));
        if (*to->model_config_name == '\0' && *from->model_config_name != '\0')
                error_free(cli_options_set(to, "model-config-name", from->model_config_name));
        to->disable_auto_complete = to->disable_auto_complete || from->disable_auto_complete ||
                                    from->strict_model_config;
        for (size_t i = 0; i < from->backend_config.n_items; i++)
                option_texts_add(&to->backend_config, from->backend_config.items[i]);
}

static int read_and_check(struct check *c, struct command_line *l, int argc, char **argv) {
        AUTO_ERROR err = command_line_read(l, argc, argv);
        int        code;

        if (err != NULL)
                return wrong_usage(err->message);
        if (l->wants_help) {
                command_page_print_help(&check_page);
                return EXIT_FINE;
        }
        if (l->words.n_items != 1)
                return wrong_usage("which repository, or which model? One directory is checked");
        c->path = l->words.items[0];
        if (c->command_text == NULL)
                return check_repository(c);
        if (!c->is_migration)
                return wrong_usage("--command-line needs --migrate");
        err = error_wrap(migrate_command_read(c->command_text, c->path, &c->command),
                         "--command-line");
        if (err != NULL)
                return wrong_usage(err->message);
        take_options(c, &c->command.options);
        code = check_repository(c);
        migrate_command_done(&c->command);
        return code;
}

int check_main(int argc, char **argv) {
        struct check        c;
        struct command_line line = { .options = &check_options, .values = &c };
        int                 code;

        option_table_init(&check_options, &c, sizeof(c));
        cli_options_init(&c.options);
        /* The report has all problems, so the server of --load does not log them again. */
        c.options.log_info = c.options.log_warning = c.options.log_error = false;
        code = read_and_check(&c, &line, argc, argv);
        command_line_done(&line);
        free(c.command_text);
        cli_options_done(&c.options);
        return code;
}
