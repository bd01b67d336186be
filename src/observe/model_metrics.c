/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates and frees the statistics of models (model_stats.h), and lists those that GET /metrics
 * prints. */
#include "base/clock.h"
#include "base/mem.h"
#include "observe/batch_counts.h"
#include "observe/model_stats.h"
#include "observe/model_stats_private.h"
#include "observe/prometheus.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Labels besides the tags: model, version, namespace, gpu_uuid, and one that distinguishes lines (reason,
 * path or state). */
#define N_OWN_LABELS 5

static const char *const reasons[] = {
        [FAILURE_OTHER] = "OTHER",
        [FAILURE_BACKEND] = "BACKEND",
        [FAILURE_CANCELED] = "CANCELED",
        [FAILURE_REJECTED] = "REJECTED",
};

static const double default_first_response_ms[] = { 100, 500, 2000, 5000 };

struct model_metrics *model_metrics_new(struct metric_registry             *r,
                                        const struct model_metrics_options *options) {
        struct model_metrics *m = mem_zalloc(sizeof(*m));

        m->options = *options;
        m->registry = r;
        mutex_init(&m->lock, LOCK_MODEL_METRICS);
        list_init(&m->shown);
        load_meter_init(&m->meter);
        m->collector = metric_collector_add(r, true, model_metrics_print, m);
        return m;
}

void model_metrics_free(struct model_metrics *m) {
        if (m == NULL)
                return;
        metric_collector_remove(m->registry, m->collector);
        assert(list_is_empty(&m->shown));
        load_meter_done(&m->meter);
        mutex_done(&m->lock);
        free(m);
}

/* The name of a tag's label: "_" and the key, with "_" in place of characters that a label may not
 * have. */
static char *tag_label(const char *key) {
        char *name = mem_printf("_%s", key);

        for (char *at = name; *at != '\0'; at++) {
                bool is_alnum = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') ||
                                (*at >= 'A' && *at <= 'Z');

                if (!is_alnum)
                        *at = '_';
        }
        return name;
}

/* Fills in a label per tag; returns their number. Of tags with the same label name, the last one
 * counts. */
static size_t add_tags(struct metric_label *labels, const struct model_stats_options *o) {
        size_t n = 0;

        for (size_t i = 0; i < o->n_tags; i++) {
                char  *name = tag_label(o->tags[i].name);
                size_t at = 0;

                while (at < n && strcmp(labels[at].name, name) != 0)
                        at++;
                if (at < n)
                        free((char *)labels[at].name);
                else
                        n++;
                labels[at] = (struct metric_label){ name, o->tags[i].value };
        }
        return n;
}

static char *labels_with(struct metric_label *labels, size_t n, const char *name,
                         const char *value) {
        if (name != NULL)
                labels[n++] = (struct metric_label){ name, value };
        return prometheus_labels_new(labels, n);
}

static void make_sequences(struct model_stats *s, struct metric_label *labels, size_t n) {
        static const char *const ends[] = { "end", "idle", "cancelled", "timeout" };

        s->sequences = mem_zalloc(sizeof(*s->sequences));
        for (size_t i = 0; i < ARRAY_LEN(ends); i++)
                s->ended_labels[i] = labels_with(labels, n, "reason", ends[i]);
        s->slot_labels[0] = labels_with(labels, n, "state", "used");
        s->slot_labels[1] = labels_with(labels, n, "state", "free");
}

struct sequence_counts *model_stats_sequences(struct model_stats *s) {
        return s->sequences;
}

const char *model_stats_labels(const struct model_stats *s) {
        return s->own.labels;
}

struct batch_counts *model_stats_batches(struct model_stats *s) {
        return s->batching;
}

static void make_shards(struct stats_series *s) {
        uintptr_t start;

        s->shards_memory = mem_zalloc(N_SHARDS * sizeof(*s->shards) + CACHE_LINE_BYTES);
        start = (uintptr_t)s->shards_memory;
        s->shards = (void *)((char *)s->shards_memory +
                             (CACHE_LINE_BYTES - start % CACHE_LINE_BYTES) % CACHE_LINE_BYTES);
        for (size_t i = 0; i < N_SHARDS; i++)
                mutex_init(&s->shards[i].shard.lock, LOCK_METRIC);
}

/* `labels` has room for one more than n. */
static void make_series(struct stats_series *s, struct metric_label *labels, size_t n) {
        s->labels = labels_with(labels, n, NULL, NULL);
        for (size_t why = 0; why < ARRAY_LEN(reasons); why++)
                s->failure_labels[why] = labels_with(labels, n, "reason", reasons[why]);
        make_shards(s);
}

static void series_done(struct stats_series *s) {
        for (size_t i = 0; i < N_SHARDS; i++) {
                batch_table_done(&s->shards[i].shard.batches);
                mutex_done(&s->shards[i].shard.lock);
        }
        free(s->shards_memory);
        free(s->labels);
        for (size_t i = 0; i < ARRAY_LEN(s->failure_labels); i++)
                free(s->failure_labels[i]);
}

static void make_gpus(struct model_stats *s, const struct model_stats_options *o,
                      struct metric_label *labels, size_t n) {
        s->on_gpu = mem_zalloc((o->n_gpus + 1) * sizeof(*s->on_gpu));
        for (; s->n_gpus < o->n_gpus; s->n_gpus++) {
                labels[n] = (struct metric_label){ "gpu_uuid", o->gpus[s->n_gpus].uuid };
                s->on_gpu[s->n_gpus].device = o->gpus[s->n_gpus].device;
                make_series(&s->on_gpu[s->n_gpus], labels, n + 1);
        }
}

static void make_all_series(struct model_stats *s, const struct model_stats_options *o) {
        AUTO_CHARS           version = mem_printf("%lld", (long long)o->version);
        struct metric_label *labels = mem_alloc((o->n_tags + N_OWN_LABELS) * sizeof(*labels));
        size_t               n_tags = add_tags(labels, o), n = n_tags;

        labels[n++] = (struct metric_label){ "model", o->model };
        labels[n++] = (struct metric_label){ "version", version };
        if (o->namespace != NULL && *o->namespace != '\0')
                labels[n++] = (struct metric_label){ "namespace", o->namespace };
        make_series(&s->own, labels, n);
        make_gpus(s, o, labels, n);
        s->path_labels[0] = labels_with(labels, n, "path", "inline");
        s->path_labels[1] = labels_with(labels, n, "path", "queued");
        if (o->has_sequences)
                make_sequences(s, labels, n);
        if (o->has_batches)
                s->batching = batch_counts_new(labels, n);
        for (size_t i = 0; i < n_tags; i++)
                free((char *)labels[i].name);
        free(labels);
}

static void make_responses(struct stats_responses *r, const struct model_stats_options *o) {
        const double *bounds = default_first_response_ms;

        r->n_first_bounds = ARRAY_LEN(default_first_response_ms);
        if (o->first_response_ms != NULL) {
                bounds = o->first_response_ms;
                r->n_first_bounds = o->n_first_response_ms;
        }
        mutex_init(&r->lock, LOCK_METRIC);
        r->first_bounds_ms = mem_alloc(r->n_first_bounds * sizeof(*bounds));
        if (r->n_first_bounds > 0)
                memcpy(r->first_bounds_ms, bounds, r->n_first_bounds * sizeof(*bounds));
        r->first_counts = mem_zalloc((r->n_first_bounds + 1) * sizeof(*r->first_counts));
}

struct model_stats *model_stats_new(struct model_metrics             *metrics,
                                    const struct model_stats_options *options) {
        struct model_stats *s = mem_zalloc(sizeof(*s));

        s->metrics = metrics;
        s->has_cache = options->has_cache;
        s->is_decoupled = options->is_decoupled;
        s->memory = options->memory;
        list_init(&s->load.sources);
        s->load.gone.oldest_ns = CLOCK_NEVER;
        make_all_series(s, options);
        make_responses(&s->responses, options);
        mutex_init(&s->exemplars.lock, LOCK_METRIC);
        atomic_init(&s->wall_offset_ns, clock_wall_ns() - clock_now_ns());
        return s;
}

void model_stats_free(struct model_stats *s) {
        if (s == NULL)
                return;
        model_stats_hide(s);
        series_done(&s->own);
        for (size_t i = 0; i < s->n_gpus; i++)
                series_done(&s->on_gpu[i]);
        free(s->on_gpu);
        mutex_done(&s->responses.lock);
        free(s->responses.items);
        free(s->responses.first_bounds_ms);
        free(s->responses.first_counts);
        mutex_done(&s->exemplars.lock);
        free(s->exemplars.items);
        for (size_t i = 0; i < ARRAY_LEN(s->path_labels); i++)
                free(s->path_labels[i]);
        for (size_t i = 0; i < ARRAY_LEN(s->ended_labels); i++)
                free(s->ended_labels[i]);
        for (size_t i = 0; i < ARRAY_LEN(s->slot_labels); i++)
                free(s->slot_labels[i]);
        free(s->sequences);
        batch_counts_free(s->batching);
        free(s);
}

void model_stats_show(struct model_stats *s, double load_secs) {
        MUTEX_GUARD(&s->metrics->lock);
        s->load_secs = load_secs;
        if (!list_is_linked(&s->node))
                list_append(&s->metrics->shown, &s->node);
}

void model_stats_hide(struct model_stats *s) {
        MUTEX_GUARD(&s->metrics->lock);
        if (list_is_linked(&s->node))
                list_remove(&s->node);
}
