/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/check_report.h"

#include "cli/json_indent.h"
#include "codec/json_writer.h"

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

struct error *check_report_read(struct str json, struct arena *arena, struct check_report *ret) {
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

void check_report_print_problems(const struct checked_model *m, struct strbuf *out) {
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

void check_report_print_model(const struct checked_model *m, struct strbuf *out) {
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

void check_report_print_json(const struct check_report *report, struct strbuf *out) {
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
