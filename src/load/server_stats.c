/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/server_stats.h"

#include "base/mem.h"
#include "codec/json_find.h"

static void add_duration(struct str stats, const char *name, struct stats_duration *d) {
        AUTO_CHARS count = mem_printf("inference_stats.%s.count", name);
        AUTO_CHARS ns = mem_printf("inference_stats.%s.ns", name);

        d->count += json_find_count(stats, count);
        d->ns += json_find_count(stats, ns);
}

static void add_model(struct str json, struct server_stats *s) {
        s->n_inferences += json_find_count(json, "inference_count");
        s->n_executions += json_find_count(json, "execution_count");
        add_duration(json, "success", &s->success);
        add_duration(json, "fail", &s->fail);
        add_duration(json, "queue", &s->queue);
        add_duration(json, "compute_input", &s->input);
        add_duration(json, "compute_infer", &s->infer);
        add_duration(json, "compute_output", &s->output);
        add_duration(json, "cache_hit", &s->hit);
        add_duration(json, "cache_miss", &s->miss);
}

static bool is_text(struct str json, const char *path, const char *wanted) {
        struct str value = json_find(json, path);

        return value.len >= 2 && str_is(str_range(value.ptr + 1, value.len - 2), wanted);
}

struct error *server_stats_read(struct str json, const char *model, const char *version,
                                struct server_stats *ret) {
        TRY(error_wrap(json_check(json, JSON_OBJECT), "the server's statistics"));
        *ret = (struct server_stats){ 0 };
        JSON_FOR_EACH(json_find(json, "model_stats"), item)
                if (is_text(item, "name", model) &&
                    (version == NULL || is_text(item, "version", version)))
                        add_model(item, ret);
        return NULL;
}

static uint64_t minus(uint64_t after, uint64_t before) {
        return after >= before ? after - before : after;
}

static struct stats_duration duration_since(struct stats_duration before,
                                            struct stats_duration after) {
        return (struct stats_duration){ minus(after.count, before.count),
                                        minus(after.ns, before.ns) };
}

struct server_stats server_stats_since(const struct server_stats *b, const struct server_stats *a) {
        return (struct server_stats){
                .n_inferences = minus(a->n_inferences, b->n_inferences),
                .n_executions = minus(a->n_executions, b->n_executions),
                .success = duration_since(b->success, a->success),
                .fail = duration_since(b->fail, a->fail),
                .queue = duration_since(b->queue, a->queue),
                .input = duration_since(b->input, a->input),
                .infer = duration_since(b->infer, a->infer),
                .output = duration_since(b->output, a->output),
                .hit = duration_since(b->hit, a->hit),
                .miss = duration_since(b->miss, a->miss),
        };
}

double stats_mean(const struct stats_duration *d, uint64_t n) {
        return n == 0 ? 0.0 : (double)d->ns / (double)n;
}
