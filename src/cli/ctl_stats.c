/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl stats`: what the models did, in means.
 */
#include "cli/ctl_private.h"
#include "cli/duration.h"
#include "cli/text_table.h"

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

/* The members of an object that are totals; others are passed over. */
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

/* "-" when there was nothing. */
static void put_mean(struct text_table *t, struct total total) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        if (total.count > 0)
                duration_print((double)total.ns / (double)total.count, &text);
        else
                strbuf_puts(&text, "-");
        text_table_put(t, strbuf_str(&text));
}

static void put_number(struct text_table *t, uint64_t n) {
        text_table_printf(t, "%llu", (unsigned long long)n);
}

static void put_average_batch(struct text_table *t, const struct model_row *row) {
        if (row->n_executions == 0)
                text_table_put(t, STR_LIT("-"));
        else
                text_table_printf(t, "%.2f", (double)row->n_inferences / (double)row->n_executions);
}

/* "1:20 4:3": executions of each size. */
static void put_batch_sizes(struct text_table *t, const struct model_row *row) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        for (const struct batch_row *b = row->batches; b != NULL; b = b->next)
                strbuf_printf(&text, "%s%llu:%llu", text.len > 0 ? " " : "",
                              (unsigned long long)b->size, (unsigned long long)b->infer.count);
        text_table_put(t, strbuf_str(&text));
}

static const char *const heads[] = { "MODEL",      "VERSION", "OK",         "FAILED", "CACHED",
                                     "INFERENCES", "RUNS",    "MEAN BATCH", "TOTAL",  "QUEUE",
                                     "INPUT",      "INFER",   "OUTPUT",     "BATCHES" };
#define FIRST_NUMBER 2
#define LAST_NUMBER 12

static void start_table(struct text_table *t) {
        text_table_init(t, ARRAY_LEN(heads));
        for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
                t->is_right[i] = i >= FIRST_NUMBER && i <= LAST_NUMBER;
                text_table_put(t, str_of(heads[i]));
        }
}

static void put_model(struct text_table *t, const struct model_row *row) {
        text_table_put(t, row->name);
        text_table_put(t, row->version);
        put_number(t, row->success.count);
        put_number(t, row->fail.count);
        if (row->cache_hit.count > 0)
                put_number(t, row->cache_hit.count);
        else
                text_table_put(t, STR_LIT("")); /* no column when no model has a cache */
        put_number(t, row->n_inferences);
        put_number(t, row->n_executions);
        put_average_batch(t, row);
        put_mean(t, row->success);
        put_mean(t, row->queue);
        put_mean(t, row->input);
        put_mean(t, row->infer);
        put_mean(t, row->output);
        put_batch_sizes(t, row);
}

/* Of one version: what each size of batch took. */
static void print_batches(struct ctl *c, const struct model_row *row) {
        struct text_table t;

        text_table_init(&t, 5);
        text_table_put(&t, STR_LIT("BATCH"));
        text_table_put(&t, STR_LIT("RUNS"));
        text_table_put(&t, STR_LIT("INPUT"));
        text_table_put(&t, STR_LIT("INFER"));
        text_table_put(&t, STR_LIT("OUTPUT"));
        for (size_t i = 0; i < 5; i++)
                t.is_right[i] = true;
        for (const struct batch_row *b = row->batches; b != NULL; b = b->next) {
                put_number(&t, b->size);
                put_number(&t, b->infer.count);
                put_mean(&t, b->input);
                put_mean(&t, b->infer);
                put_mean(&t, b->output);
        }
        strbuf_printf(&c->out, "\n%.*s, version %.*s, by size of batch:\n", STR_ARG(row->name),
                      STR_ARG(row->version));
        text_table_print(&t, &c->out);
        text_table_done(&t);
}

static void print_models(struct ctl *c, struct json_reader *r) {
        struct json_reader again = *r;
        struct text_table  t;

        start_table(&t);
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

        return ctl_print_member(c, path, "model_stats", print_models);
}
