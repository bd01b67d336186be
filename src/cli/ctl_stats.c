/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl stats` and `neso ctl members`, both from the server's statistics: requests, executions
 * and mean times of the models, or of a model's members (instance groups that take certain batch
 * sizes).
 */
#include "cli/ctl_private.h"
#include "cli/json_table.h"
#include "codec/json_find.h"

#define MEAN(head, total)                                                                          \
        { head, TEXT_RIGHT, cell_mean, .path = total ".ns", .second = total ".count" }

/* ---- stats ---------------------------------------------------------------------------------- */

/* Puts the executions of each batch size: "1:20 4:3". */
static void put_batch_sizes(const struct json_row *row, const char *path, const char *second,
                            struct text_table *t) {
        AUTO_STRBUF text = { 0 };

        (void)second;
        JSON_FOR_EACH(json_find(row->object, path), batch)
                strbuf_printf(&text, "%s%llu:%llu", text.len > 0 ? " " : "",
                              (unsigned long long)json_find_count(batch, "batch_size"),
                              (unsigned long long)json_find_count(batch, "compute_infer.count"));
        text_table_put(t, strbuf_str(&text));
}

static const struct json_column model_columns[] = {
        { "MODEL", TEXT_LEFT, cell_text, .path = "name" },
        { "VERSION", TEXT_LEFT, cell_text, .path = "version" },
        { "OK", TEXT_RIGHT, cell_count, .path = "inference_stats.success.count" },
        { "FAILED", TEXT_RIGHT, cell_count, .path = "inference_stats.fail.count" },
        { "CACHED", TEXT_RIGHT, cell_count_or_blank, .path = "inference_stats.cache_hit.count" },
        { "INFERENCES", TEXT_RIGHT, cell_count, .path = "inference_count" },
        { "RUNS", TEXT_RIGHT, cell_count, .path = "execution_count" },
        { "MEAN BATCH", TEXT_RIGHT, cell_ratio, .path = "inference_count",
          .second = "execution_count" },
        MEAN("TOTAL", "inference_stats.success"),
        MEAN("QUEUE", "inference_stats.queue"),
        MEAN("INPUT", "inference_stats.compute_input"),
        MEAN("INFER", "inference_stats.compute_infer"),
        MEAN("OUTPUT", "inference_stats.compute_output"),
        { "BATCHES", TEXT_LEFT, put_batch_sizes, .path = "batch_stats" },
};

static const struct json_column batch_columns[] = {
        { "BATCH", TEXT_RIGHT, cell_count, .path = "batch_size" },
        { "RUNS", TEXT_RIGHT, cell_count, .path = "compute_infer.count" },
        MEAN("INPUT", "compute_input"),
        MEAN("INFER", "compute_infer"),
        MEAN("OUTPUT", "compute_output"),
};

/* Prints the mean times of each batch size, for one version. */
static void print_batches(struct ctl *c, struct str model) {
        struct json_table t;
        struct str        name = json_find_text(model, "name", &c->arena);
        struct str        version = json_find_text(model, "version", &c->arena);

        json_table_init(&t, batch_columns, ARRAY_LEN(batch_columns), &c->arena);
        if (json_table_add(&t, model, &(struct json_rows){ .outer = "batch_stats" }) == 0) {
                json_table_end(&t, NULL);
                return;
        }
        strbuf_printf(&c->out, "\n%.*s, version %.*s, by size of batch:\n", STR_ARG(name),
                      STR_ARG(version));
        json_table_end(&t, &c->out);
}

static void print_stats(struct ctl *c, struct str body) {
        struct json_table t;

        json_table_init(&t, model_columns, ARRAY_LEN(model_columns), &c->arena);
        json_table_add(&t, body, &(struct json_rows){ .outer = "model_stats" });
        json_table_end(&t, &c->out);
        if (c->model == NULL)
                return;
        JSON_FOR_EACH(json_find(body, "model_stats"), model)
                print_batches(c, model);
}

struct error *ctl_stats(struct ctl *c) {
        return ctl_show(c, c->model != NULL ? ctl_model_path(c, "/stats") : "/v2/models/stats",
                        print_stats);
}

/* ---- members -------------------------------------------------------------------------------- */

static const struct json_column member_columns[] = {
        { "VERSION", TEXT_LEFT, cell_text_of_parent, .path = "version" },
        { "MEMBER", TEXT_LEFT, cell_text, .path = "name" },
        { "BATCHES", TEXT_RIGHT, cell_range, .path = "min_rows", .second = "max_rows" },
        { "INSTANCES", TEXT_RIGHT, cell_count, .path = "instances" },
        { "BUSY", TEXT_RIGHT, cell_count, .path = "busy" },
        { "EXECUTIONS", TEXT_RIGHT, cell_count, .path = "execution_count" },
        { "ROWS", TEXT_RIGHT, cell_count, .path = "row_count" },
        { "TIME", TEXT_RIGHT, cell_ns, .path = "busy_ns" },
        { "MEAN", TEXT_RIGHT, cell_mean, .path = "busy_ns", .second = "execution_count" },
};

static void print_members(struct ctl *c, struct str body) {
        struct json_table t;
        size_t            n;

        json_table_init(&t, member_columns, ARRAY_LEN(member_columns), &c->arena);
        n = json_table_add(&t, body,
                           &(struct json_rows){ .outer = "model_stats", .inner = "members" });
        json_table_end(&t, n > 0 ? &c->out : NULL);
        if (n == 0)
                strbuf_printf(&c->out,
                              "model '%s' has no members: its instances take all batch sizes\n",
                              c->model);
}

struct error *ctl_members(struct ctl *c) {
        return ctl_show(c, ctl_model_path(c, "/stats"), print_members);
}
