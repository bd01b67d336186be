/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/migrate.h"

#include "base/compiler.h"
#include "cli/text_table.h"
#include "codec/json_find.h"
#include "codec/json_writer.h"

/* One remark on a model. */
struct row {
        enum migrate_verdict verdict;
        struct str           file, field, why, advice; /* advice: ptr NULL for most */
        uint64_t             line, column;             /* 0: the whole file */
};

typedef void row_fn(const struct row *row, void *owner);

/* ---- the rows of a model ----------------------------------------------------------------------- */

static enum migrate_verdict read_verdict(struct str severity) {
        if (str_is(severity, "error") || str_is(severity, "missing"))
                return MIGRATE_MISSING;
        /* A warning of the check, such as about the name of a directory, is one of Triton, too. */
        return str_is(severity, "differs") ? MIGRATE_DIFFERS : MIGRATE_WORKS;
}

static struct row read_row(struct str json, struct arena *arena) {
        return (struct row){ .verdict = read_verdict(json_find_text(json, "severity", arena)),
                             .file = json_find_text(json, "file", arena),
                             .field = json_find_text(json, "field", arena),
                             .why = json_find_text(json, "message", arena),
                             .line = json_find_count(json, "line"),
                             .column = json_find_count(json, "column") };
}

static bool is_same_matter(const struct row *a, const struct row *b) {
        return a->verdict == MIGRATE_MISSING && b->verdict == MIGRATE_MISSING && a->field.len > 0 &&
               str_equal(a->field, b->field);
}

/* The row of the other list that is about the same missing field. */
static bool find_same(const struct checked_model *m, const char *list_name, const struct row *row,
                      struct arena *arena, struct row *ret) {
        JSON_FOR_EACH(json_find(m->json, list_name), json) {
                *ret = read_row(json, arena);
                if (is_same_matter(row, ret))
                        return true;
        }
        return false;
}

/* An error of the check and the note that explains it are one row. */
static void each_note(const struct checked_model *m, struct arena *arena, row_fn *fn, void *owner) {
        struct row other;

        JSON_FOR_EACH(json_find(m->json, "problems"), json) {
                struct row row = read_row(json, arena);

                if (find_same(m, "notes", &row, arena, &other))
                        row.advice = other.why;
                fn(&row, owner);
        }
        JSON_FOR_EACH(json_find(m->json, "notes"), json) {
                struct row row = read_row(json, arena);

                if (!find_same(m, "problems", &row, arena, &other))
                        fn(&row, owner);
        }
}

static void each_row(const struct checked_model *m, struct arena *arena, row_fn *fn, void *owner) {
        if (m->load_error.ptr != NULL)
                fn(&(struct row){ .verdict = MIGRATE_MISSING,
                                  .file = m->directory,
                                  .why = m->load_error },
                   owner);
        each_note(m, arena, fn, owner);
}

static void take_worst(const struct row *row, void *owner) {
        enum migrate_verdict *worst = owner;

        *worst = MAX(*worst, row->verdict);
}

static enum migrate_verdict judge_model(const struct checked_model *m, struct arena *arena) {
        enum migrate_verdict worst = MIGRATE_WORKS;

        each_row(m, arena, take_worst, &worst);
        return worst;
}

enum migrate_verdict migrate_verdict(const struct migration *m) {
        enum migrate_verdict worst = m->command != NULL ? m->command->verdict : MIGRATE_WORKS;

        for (const struct checked_model *c = m->report->models; c != NULL; c = c->next)
                worst = MAX(worst, judge_model(c, m->arena));
        return worst;
}

/* ---- tables ------------------------------------------------------------------------------------ */

struct model_table {
        struct text_table text;
        bool              is_brief;
};

static void put_verdict(struct text_table *t, enum migrate_verdict verdict) {
        text_table_put(t, str_of(migrate_verdict_name(verdict)));
}

/* The advice goes on in the sentence of the error. */
static void put_why(struct text_table *t, const struct row *row) {
        struct str why = row->why;

        if (row->advice.ptr == NULL) {
                text_table_put(t, why);
                return;
        }
        if (str_ends(why, STR_LIT(".")))
                why.len--;
        text_table_printf(t, "%.*s; %.*s", STR_ARG(why), STR_ARG(row->advice));
}

static void put_row(const struct row *row, void *owner) {
        struct model_table *t = owner;

        if (t->is_brief && row->verdict == MIGRATE_WORKS)
                return;
        text_table_put(&t->text, STR_LIT(""));
        put_verdict(&t->text, row->verdict);
        text_table_put(&t->text, row->field);
        if (row->line > 0)
                text_table_printf(&t->text, "%.*s:%llu:%llu", STR_ARG(row->file),
                                  (unsigned long long)row->line, (unsigned long long)row->column);
        else
                text_table_put(&t->text, row->file);
        put_why(&t->text, row);
}

static void print_models(const struct migration *m, struct strbuf *out) {
        static const struct text_column columns[] = { { "MODEL", TEXT_LEFT },
                                                      { "VERDICT", TEXT_LEFT },
                                                      { "FIELD", TEXT_LEFT },
                                                      { "PLACE", TEXT_LEFT },
                                                      { "WHY", TEXT_LEFT } };
        struct model_table              t = { .is_brief = m->is_brief };

        text_table_init(&t.text, columns, ARRAY_LEN(columns));
        for (const struct checked_model *c = m->report->models; c != NULL; c = c->next) {
                text_table_put(&t.text, c->name);
                put_verdict(&t.text, judge_model(c, m->arena));
                for (size_t i = 2; i < ARRAY_LEN(columns); i++)
                        text_table_put(&t.text, STR_LIT(""));
                each_row(c, m->arena, put_row, &t);
        }
        text_table_print(&t.text, out);
        text_table_done(&t.text);
}

static void print_options(const struct migration *m, struct strbuf *out) {
        static const struct text_column columns[] = { { "OPTION", TEXT_LEFT },
                                                      { "VERDICT", TEXT_LEFT },
                                                      { "WHY", TEXT_LEFT } };
        const struct migrated_command  *c = m->command;
        AUTO_TEXT_TABLE                 t;

        text_table_init(&t, columns, ARRAY_LEN(columns));
        for (size_t i = 0; i < c->n_items; i++) {
                if (m->is_brief && c->items[i].verdict == MIGRATE_WORKS)
                        continue;
                text_table_put(&t, c->items[i].given);
                put_verdict(&t, c->items[i].verdict);
                text_table_put(&t, str_of(c->items[i].why != NULL ? c->items[i].why : ""));
        }
        text_table_print(&t, out);
}

/* The words in front of the options that were not read, without the program's name. */
static struct str unread_words(const struct migrated_command *c) {
        const struct shell_word *first = c->words.items, *last;

        if (c->n_before < 2)
                return STR_LIT("");
        last = &c->words.items[c->n_before - 2];
        return str_range(first->raw.ptr, (size_t)(last->raw.ptr - first->raw.ptr) + last->raw.len);
}

static void print_command(const struct migration *m, struct strbuf *out) {
        const struct migrated_command *c = m->command;
        struct str                     unread = unread_words(c);

        strbuf_putc(out, '\n');
        print_options(m, out);
        if (c->problem != NULL)
                strbuf_printf(out, "together: missing: %s\n", c->problem);
        if (unread.len > 0)
                strbuf_printf(out, "Not read: %.*s\n", STR_ARG(unread));
        strbuf_puts(out, "\n");
        migrate_command_put(c, out);
        strbuf_putc(out, '\n');
}

static void print_counts(const struct migration *m, struct strbuf *out) {
        size_t n[MIGRATE_MISSING + 1] = { 0 };

        for (const struct checked_model *c = m->report->models; c != NULL; c = c->next)
                n[judge_model(c, m->arena)]++;
        strbuf_printf(out, "\nmodels: %zu works, %zu differs, %zu missing%s\n", n[MIGRATE_WORKS],
                      n[MIGRATE_DIFFERS], n[MIGRATE_MISSING],
                      m->was_loaded ? "" : " (read, not loaded: --load asks the backends, too)");
}

void migrate_print(const struct migration *m, struct strbuf *out) {
        print_models(m, out);
        if (m->command != NULL)
                print_command(m, out);
        print_counts(m, out);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static void put_row_json(const struct row *row, void *owner) {
        struct json_writer *w = owner;

        json_begin_object(w);
        json_member_string(w, "verdict", migrate_verdict_name(row->verdict));
        json_member_str(w, "file", row->file);
        if (row->line > 0) {
                json_member_u64(w, "line", row->line);
                json_member_u64(w, "column", row->column);
        }
        if (row->field.len > 0)
                json_member_str(w, "field", row->field);
        json_member_str(w, "why", row->why);
        if (row->advice.ptr != NULL)
                json_member_str(w, "advice", row->advice);
        json_end_object(w);
}

static void put_model_json(const struct migration *m, const struct checked_model *c,
                           struct json_writer *w) {
        json_begin_object(w);
        json_member_str(w, "name", c->name);
        json_member_str(w, "directory", c->directory);
        json_member_string(w, "verdict", migrate_verdict_name(judge_model(c, m->arena)));
        json_member_array(w, "rows");
        each_row(c, m->arena, put_row_json, w);
        json_end_array(w);
        json_end_object(w);
}

static void put_option_json(const struct migrated_option *o, struct json_writer *w) {
        json_begin_object(w);
        json_member_str(w, "given", o->given);
        if (o->row != NULL)
                json_member_string(w, "option", o->row->name);
        json_member_string(w, "verdict", migrate_verdict_name(o->verdict));
        if (o->why != NULL)
                json_member_string(w, "why", o->why);
        json_member_bool(w, "is_left_out", o->is_left_out);
        json_end_object(w);
}

static void put_command_json(const struct migrated_command *c, struct json_writer *w) {
        AUTO_STRBUF line = { 0 };

        migrate_command_put(c, &line);
        strbuf_spoil(w->out, &line);
        json_member_object(w, "command_line");
        json_member_string(w, "verdict", migrate_verdict_name(c->verdict));
        json_member_array(w, "options");
        for (size_t i = 0; i < c->n_items; i++)
                put_option_json(&c->items[i], w);
        json_end_array(w);
        if (c->problem != NULL)
                json_member_string(w, "problem", c->problem);
        json_member_str(w, "not_read", unread_words(c));
        json_member_str(w, "neso", strbuf_str(&line));
        json_end_object(w);
}

void migrate_print_json(const struct migration *m, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_str(&w, "path", m->report->path);
        json_member_string(&w, "verdict", migrate_verdict_name(migrate_verdict(m)));
        json_member_bool(&w, "was_loaded", m->was_loaded);
        json_member_array(&w, "models");
        for (const struct checked_model *c = m->report->models; c != NULL; c = c->next)
                put_model_json(m, c, &w);
        json_end_array(&w);
        if (m->command != NULL)
                put_command_json(m->command, &w);
        json_end_object(&w);
        strbuf_putc(out, '\n');
}
