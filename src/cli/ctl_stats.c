/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl stats` and `neso ctl members`, both from the server's statistics: requests, executions
 * and mean times of the models, or of a model's members (instance groups that take certain batch
 * sizes).
 */
#include "cli/ctl_private.h"
#include "cli/text_table.h"

/* ---- stats ---------------------------------------------------------------------------------- */

/* {"count": 3, "ns": 4711} */
struct total {
        uint64_t count, ns;
};

struct batch_row {
        uint64_t          size;
        struct total      input, infer, output;
        struct batch_row *next;
};

struct model_row {
        struct str        name, version;
        uint64_t          n_inferences, n_executions;
        struct total      success, fail, queue, input, infer, output, cache_hit;
        struct batch_row *batches;
};

static void read_total(struct ctl *c, struct json_reader *r, struct total *ret) {
        struct str key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (str_is(key, "count"))
                        ret->count = ctl_read_count(r);
                else if (str_is(key, "ns"))
                        ret->ns = ctl_read_count(r);
                else
                        json_skip(r);
        }
}

struct total_field {
        const char   *name;
        struct total *target;
};

/* Reads the members of an object that are totals, and skips the others. */
static void read_totals(struct ctl *c, struct json_reader *r, const struct total_field *fields,
                        size_t n_fields) {
        struct str key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                size_t i = 0;

                while (i < n_fields && !str_is(key, fields[i].name))
                        i++;
                if (i < n_fields)
                        read_total(c, r, fields[i].target);
                else
                        json_skip(r);
        }
}

static void read_inference_stats(struct ctl *c, struct json_reader *r, struct model_row *row) {
        const struct total_field fields[] = {
                { "success", &row->success },     { "fail", &row->fail },
                { "queue", &row->queue },         { "compute_input", &row->input },
                { "compute_infer", &row->infer }, { "compute_output", &row->output },
                { "cache_hit", &row->cache_hit },
        };

        read_totals(c, r, fields, ARRAY_LEN(fields));
}

static struct batch_row *read_batch(struct ctl *c, struct json_reader *r) {
        struct batch_row *b = ARENA_NEW(&c->arena, struct batch_row);
        struct str        key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (str_is(key, "batch_size"))
                        b->size = ctl_read_count(r);
                else if (str_is(key, "compute_input"))
                        read_total(c, r, &b->input);
                else if (str_is(key, "compute_infer"))
                        read_total(c, r, &b->infer);
                else if (str_is(key, "compute_output"))
                        read_total(c, r, &b->output);
                else
                        json_skip(r);
        }
        return b;
}

static void read_model(struct ctl *c, struct json_reader *r, struct model_row *row) {
        struct batch_row **end = &row->batches;
        struct str         key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (str_is(key, "name"))
                        row->name = json_read_string(r, &c->arena);
                else if (str_is(key, "version"))
                        row->version = json_read_string(r, &c->arena);
                else if (str_is(key, "inference_count"))
                        row->n_inferences = ctl_read_count(r);
                else if (str_is(key, "execution_count"))
                        row->n_executions = ctl_read_count(r);
                else if (str_is(key, "inference_stats"))
                        read_inference_stats(c, r, row);
                else if (!str_is(key, "batch_stats"))
                        json_skip(r);
                else
                        for (json_enter_array(r); json_next_element(r); end = &(*end)->next)
                                *end = read_batch(c, r);
        }
}

/* Puts the mean time, or "-" when nothing was counted. */
static void put_mean(struct text_table *t, struct total total) {
        if (total.count > 0)
                text_table_put_duration(t, (double)total.ns / (double)total.count);
        else
                text_table_put(t, STR_LIT("-"));
}

static void put_average_batch(struct text_table *t, const struct model_row *row) {
        if (row->n_executions == 0)
                text_table_put(t, STR_LIT("-"));
        else
                text_table_printf(t, "%.2f", (double)row->n_inferences / (double)row->n_executions);
}

/* Puts the executions of each batch size: "1:20 4:3". */
static void put_batch_sizes(struct text_table *t, const struct model_row *row) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        for (const struct batch_row *b = row->batches; b != NULL; b = b->next)
                strbuf_printf(&text, "%s%llu:%llu", text.len > 0 ? " " : "",
                              (unsigned long long)b->size, (unsigned long long)b->infer.count);
        text_table_put(t, strbuf_str(&text));
}

static const struct text_column model_columns[] = {
        { "MODEL", TEXT_LEFT },   { "VERSION", TEXT_LEFT },     { "OK", TEXT_RIGHT },
        { "FAILED", TEXT_RIGHT }, { "CACHED", TEXT_RIGHT },     { "INFERENCES", TEXT_RIGHT },
        { "RUNS", TEXT_RIGHT },   { "MEAN BATCH", TEXT_RIGHT }, { "TOTAL", TEXT_RIGHT },
        { "QUEUE", TEXT_RIGHT },  { "INPUT", TEXT_RIGHT },      { "INFER", TEXT_RIGHT },
        { "OUTPUT", TEXT_RIGHT }, { "BATCHES", TEXT_LEFT },
};

static void put_model(struct text_table *t, const struct model_row *row) {
        text_table_put(t, row->name);
        text_table_put(t, row->version);
        text_table_put_count(t, row->success.count);
        text_table_put_count(t, row->fail.count);
        if (row->cache_hit.count > 0)
                text_table_put_count(t, row->cache_hit.count);
        else
                text_table_put(t, STR_LIT("")); /* an empty column is left out */
        text_table_put_count(t, row->n_inferences);
        text_table_put_count(t, row->n_executions);
        put_average_batch(t, row);
        put_mean(t, row->success);
        put_mean(t, row->queue);
        put_mean(t, row->input);
        put_mean(t, row->infer);
        put_mean(t, row->output);
        put_batch_sizes(t, row);
}

static const struct text_column batch_columns[] = {
        { "BATCH", TEXT_RIGHT }, { "RUNS", TEXT_RIGHT },   { "INPUT", TEXT_RIGHT },
        { "INFER", TEXT_RIGHT }, { "OUTPUT", TEXT_RIGHT },
};

/* Prints the mean times of each batch size, for one version. */
static void print_batches(struct ctl *c, const struct model_row *row) {
        struct text_table t;

        text_table_init(&t, batch_columns, ARRAY_LEN(batch_columns));
        for (const struct batch_row *b = row->batches; b != NULL; b = b->next) {
                text_table_put_count(&t, b->size);
                text_table_put_count(&t, b->infer.count);
                put_mean(&t, b->input);
                put_mean(&t, b->infer);
                put_mean(&t, b->output);
        }
        strbuf_printf(&c->out, "\n%.*s, version %.*s, by size of batch:\n", STR_ARG(row->name),
                      STR_ARG(row->version));
        text_table_print(&t, &c->out);
        text_table_done(&t);
}

static void print_stats(struct ctl *c, struct json_reader *r) {
        struct json_reader again = *r;
        struct text_table  t;

        text_table_init(&t, model_columns, ARRAY_LEN(model_columns));
        for (json_enter_array(r); json_next_element(r);) {
                struct model_row row = { .batches = NULL };

                read_model(c, r, &row);
                put_model(&t, &row);
        }
        text_table_print(&t, &c->out);
        text_table_done(&t);
        if (c->model == NULL || json_failed(r))
                return;
        for (json_enter_array(&again); json_next_element(&again);) {
                struct model_row row = { .batches = NULL };

                read_model(c, &again, &row);
                if (row.batches != NULL)
                        print_batches(c, &row);
        }
}

struct error *ctl_stats(struct ctl *c) {
        const char *path = c->model != NULL ? ctl_model_path(c, "/stats") : "/v2/models/stats";

        return ctl_print_member(c, path, "model_stats", print_stats);
}

/* ---- members -------------------------------------------------------------------------------- */

struct member_row {
        struct str name;
        uint64_t   min_rows, max_rows, n_instances, n_busy, n_executions, n_rows, busy_ns;
};

static const struct text_column member_columns[] = {
        { "VERSION", TEXT_LEFT },    { "MEMBER", TEXT_LEFT }, { "BATCHES", TEXT_RIGHT },
        { "INSTANCES", TEXT_RIGHT }, { "BUSY", TEXT_RIGHT },  { "EXECUTIONS", TEXT_RIGHT },
        { "ROWS", TEXT_RIGHT },      { "TIME", TEXT_RIGHT },  { "MEAN", TEXT_RIGHT },
};

static void read_member(struct ctl *c, struct json_reader *r, struct member_row *l) {
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

static void put_member(struct text_table *t, struct str version, const struct member_row *l) {
        text_table_put(t, version);
        text_table_put(t, l->name);
        if (l->min_rows == l->max_rows)
                text_table_put_count(t, l->min_rows);
        else
                text_table_printf(t, "%llu-%llu", (unsigned long long)l->min_rows,
                                  (unsigned long long)l->max_rows);
        text_table_put_count(t, l->n_instances);
        text_table_put_count(t, l->n_busy);
        text_table_put_count(t, l->n_executions);
        text_table_put_count(t, l->n_rows);
        text_table_put_duration(t, (double)l->busy_ns);
        if (l->n_executions > 0)
                text_table_put_duration(t, (double)l->busy_ns / (double)l->n_executions);
        else
                text_table_put(t, STR_LIT("-"));
}

/* Reads ahead: the version may stand after the members. */
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

/* Returns the number of members of a version. */
static size_t put_members(struct ctl *c, struct json_reader *r, struct text_table *t) {
        struct str version = read_version(c, *r);
        struct str key;
        size_t     n = 0;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (!str_is(key, "members")) {
                        json_skip(r);
                        continue;
                }
                for (json_enter_array(r); json_next_element(r); n++) {
                        struct member_row l = { .n_rows = 0 };

                        read_member(c, r, &l);
                        put_member(t, version, &l);
                }
        }
        return n;
}

static void print_members(struct ctl *c, struct json_reader *r) {
        struct text_table t;
        size_t            n = 0;

        text_table_init(&t, member_columns, ARRAY_LEN(member_columns));
        for (json_enter_array(r); json_next_element(r);)
                n += put_members(c, r, &t);
        if (n > 0)
                text_table_print(&t, &c->out);
        else
                strbuf_printf(&c->out,
                              "model '%s' has no members: its instances take all batch sizes\n",
                              c->model);
        text_table_done(&t);
}

struct error *ctl_members(struct ctl *c) {
        return ctl_print_member(c, ctl_model_path(c, "/stats"), "model_stats", print_members);
}
