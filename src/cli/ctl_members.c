/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl members`: the instance groups of a model that take certain batch sizes, and what they ran.
 */
#include "cli/ctl_private.h"
#include "cli/duration.h"
#include "cli/text_table.h"

struct member_line {
        struct str name;
        uint64_t   min_rows, max_rows, n_instances, n_busy, n_executions, n_rows, busy_ns;
};

static const char *const heads[] = { "VERSION",    "MEMBER", "BATCHES", "INSTANCES", "BUSY",
                                     "EXECUTIONS", "ROWS",   "TIME",    "MEAN" };
#define FIRST_NUMBER 2

static void start_table(struct text_table *t) {
        text_table_init(t, ARRAY_LEN(heads));
        for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
                t->is_right[i] = i >= FIRST_NUMBER;
                text_table_put(t, str_of(heads[i]));
        }
}

static void read_line(struct ctl *c, struct json_reader *r, struct member_line *l) {
        const struct {
                const char *name;
                uint64_t   *target;
        } counts[] = { { "min_rows", &l->min_rows },
                       { "max_rows", &l->max_rows },
                       { "instances", &l->n_instances },
                       { "busy", &l->n_busy },
                       { "execution_count", &l->n_executions },
                       { "row_count", &l->n_rows },
                       { "busy_ns", &l->busy_ns } };
        struct str key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                size_t i = 0;

                while (i < ARRAY_LEN(counts) && !str_is(key, counts[i].name))
                        i++;
                if (i < ARRAY_LEN(counts))
                        *counts[i].target = ctl_read_count(r);
                else if (str_is(key, "name"))
                        l->name = json_read_string(r, &c->arena);
                else
                        json_skip(r);
        }
}

static void put_ns(struct text_table *t, double ns) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        duration_print(ns, &text);
        text_table_put(t, strbuf_str(&text));
}

static void put_line(struct text_table *t, struct str version, const struct member_line *l) {
        text_table_put(t, version);
        text_table_put(t, l->name);
        if (l->min_rows == l->max_rows)
                text_table_printf(t, "%llu", (unsigned long long)l->min_rows);
        else
                text_table_printf(t, "%llu-%llu", (unsigned long long)l->min_rows,
                                  (unsigned long long)l->max_rows);
        text_table_printf(t, "%llu", (unsigned long long)l->n_instances);
        text_table_printf(t, "%llu", (unsigned long long)l->n_busy);
        text_table_printf(t, "%llu", (unsigned long long)l->n_executions);
        text_table_printf(t, "%llu", (unsigned long long)l->n_rows);
        put_ns(t, (double)l->busy_ns);
        if (l->n_executions > 0)
                put_ns(t, (double)l->busy_ns / (double)l->n_executions);
        else
                text_table_put(t, STR_LIT("-"));
}

/* Stands before the members in the object of a version. */
static struct str read_version(struct ctl *c, struct json_reader r) {
        struct str key, version = STR_LIT("");

        for (json_enter_object(&r); json_next_key(&r, &c->arena, &key);) {
                if (str_is(key, "version"))
                        version = json_read_string(&r, &c->arena);
                else
                        json_skip(&r);
        }
        return version;
}

/* How many members it has. */
static size_t read_model(struct ctl *c, struct json_reader *r, struct text_table *t) {
        struct str version = read_version(c, *r);
        struct str key;
        size_t     n = 0;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (!str_is(key, "members")) {
                        json_skip(r);
                        continue;
                }
                for (json_enter_array(r); json_next_element(r); n++) {
                        struct member_line l = { .n_rows = 0 };

                        read_line(c, r, &l);
                        put_line(t, version, &l);
                }
        }
        return n;
}

static void print_models(struct ctl *c, struct json_reader *r) {
        struct text_table t;
        size_t            n = 0;

        start_table(&t);
        for (json_enter_array(r); json_next_element(r);)
                n += read_model(c, r, &t);
        if (n > 0)
                text_table_print(&t, &c->out);
        else
                strbuf_printf(&c->out,
                              "model '%s' has no members: its instances take all batch sizes\n",
                              c->model);
        text_table_done(&t);
}

struct error *ctl_members(struct ctl *c) {
        return ctl_print_member(c, ctl_model_path(c, "/stats"), "model_stats", print_models);
}
