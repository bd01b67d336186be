/* SPDX-License-Identifier: BSD-3-Clause */
/* The statistics of models as Prometheus text. */
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "observe/batch_counts.h"
#include "observe/model_stats_private.h"
#include "observe/prometheus.h"

#include <string.h>

/* What the page prints of one model, read once for all families. */
struct shown_model {
        struct model_stats *stats; /* borrowed: stays listed while the model_metrics is locked */
        struct stats_sums   sums;  /* of all its series */
};

/* The counters of one series of one model. */
struct shown_series {
        const struct stats_series *series;
        uint64_t                   values[N_STATS];
};

struct page {
        const struct model_metrics_options *options;
        struct strbuf                      *out;
        bool                                wants_exemplars;
        struct shown_model                 *models; /* owned */
        size_t                              n_models;
        struct shown_series                *series; /* owned; of all models, in their order */
        size_t                              n_series;
};

/* A family with one value per model: a count, or a duration that is kept in nanoseconds and printed in
 * whole microseconds. */
struct counter_family {
        const char *name;
        const char *help;
        enum stat   stat;
        bool        is_duration;
};

static const struct counter_family success_family = {
        "nv_inference_request_success",
        "Number of successful inference requests, all batch sizes",
        STAT_SUCCESS,
        false,
};

static const struct counter_family reference_counts[] = {
        { "nv_inference_count", "Number of inferences performed (does not include cached requests)",
          STAT_INFERENCES, false },
        { "nv_inference_exec_count",
          "Number of model executions performed (does not include cached requests)",
          STAT_EXECUTIONS, false },
};

static const struct counter_family latency_families[] = {
        { "nv_inference_request_duration_us",
          "Cumulative inference request duration in microseconds (includes cached requests)",
          STAT_PHASE_NS + PHASE_REQUEST, true },
        { "nv_inference_queue_duration_us",
          "Cumulative inference queuing duration in microseconds (includes cached requests)",
          STAT_PHASE_NS + PHASE_QUEUE, true },
        { "nv_inference_compute_input_duration_us",
          "Cumulative compute input duration in microseconds (does not include cached requests)",
          STAT_PHASE_NS + PHASE_INPUT, true },
        { "nv_inference_compute_infer_duration_us",
          "Cumulative compute inference duration in microseconds "
          "(does not include cached requests)",
          STAT_PHASE_NS + PHASE_INFER, true },
        { "nv_inference_compute_output_duration_us",
          "Cumulative inference compute output duration in microseconds "
          "(does not include cached requests)",
          STAT_PHASE_NS + PHASE_OUTPUT, true },
};

static const struct counter_family cache_families[] = {
        { "nv_cache_num_hits_per_model", "Number of cache hits per model", STAT_CACHE_HIT, false },
        { "nv_cache_num_misses_per_model", "Number of cache misses per model", STAT_CACHE_MISS,
          false },
        { "nv_cache_hit_duration_per_model", "Total cache hit duration per model, in microseconds",
          STAT_CACHE_HIT_NS, true },
        { "nv_cache_miss_duration_per_model",
          "Total cache miss duration per model, in microseconds", STAT_CACHE_MISS_NS, true },
};

static const struct {
        const char *name;
        const char *help;
} latency_histograms[N_PHASES] = {
        [PHASE_REQUEST] = { "neso_request_duration_seconds",
                            "Time from the start to the end of a successful request" },
        [PHASE_QUEUE] = { "neso_queue_duration_seconds",
                          "Time that a successful request waited for its execution" },
        [PHASE_INPUT] = { "neso_compute_input_duration_seconds",
                          "Time that the backend took to prepare the inputs of a request" },
        [PHASE_INFER] = { "neso_compute_infer_duration_seconds",
                          "Time that the backend took to compute the outputs of a request" },
        [PHASE_OUTPUT] = { "neso_compute_output_duration_seconds",
                           "Time that the backend took to deliver the outputs of a request" },
};

/* --metrics-config counter_latencies=false stops the counters of `struct counter_family` and the
 * failures, not only the latencies; our other counters go on. */
static uint64_t counted(const struct page *p, uint64_t value) {
        return p->options->counter_latencies ? value : 0;
}

static double counter_value(const struct page *p, const struct counter_family *f,
                            const uint64_t *values) {
        uint64_t value = values[f->stat];

        return (double)counted(p, f->is_duration ? value / NS_PER_US : value);
}

static void print_counters(const struct page *p, const struct counter_family *f) {
        prometheus_head(p->out, f->name, f->help, METRIC_COUNTER);
        for (size_t i = 0; i < p->n_series; i++)
                prometheus_sample(p->out, f->name, p->series[i].series->labels,
                                  counter_value(p, f, p->series[i].values));
}

static void print_cache(const struct page *p, const struct counter_family *f) {
        bool has_head = false;

        for (size_t i = 0; i < p->n_models; i++) {
                const struct shown_model *model = &p->models[i];

                if (!model->stats->has_cache)
                        continue;
                if (!has_head)
                        prometheus_head(p->out, f->name, f->help, METRIC_COUNTER);
                has_head = true;
                prometheus_sample(p->out, f->name, model->stats->own.labels,
                                  counter_value(p, f, model->sums.values));
        }
}

static void print_failures(const struct page *p) {
        const char *name = "nv_inference_request_failure";

        prometheus_head(p->out, name, "Number of failed inference requests, all batch sizes",
                        METRIC_COUNTER);
        for (size_t i = 0; i < p->n_series; i++) {
                const struct shown_series *s = &p->series[i];

                for (int why = 0; why < N_FAILURE_REASONS; why++)
                        prometheus_sample(p->out, name, s->series->failure_labels[why],
                                          (double)counted(p, s->values[STAT_FAIL + why]));
        }
}

static void print_gauges(const struct page *p) {
        const char *pending = "nv_inference_pending_request_count";
        const char *load = "nv_model_load_duration_secs";

        prometheus_head(p->out, pending,
                        "Instantaneous number of pending requests awaiting execution per-model.",
                        METRIC_GAUGE);
        for (size_t i = 0; i < p->n_models; i++)
                prometheus_sample(p->out, pending, p->models[i].stats->own.labels,
                                  (double)model_stats_get_pending(p->models[i].stats));
        prometheus_head(p->out, load, "Model load time in seconds", METRIC_GAUGE);
        for (size_t i = 0; i < p->n_models; i++)
                prometheus_sample(p->out, load, p->models[i].stats->own.labels,
                                  p->models[i].stats->load_secs);
}

static void print_first_responses(const struct page *p) {
        const char *name = "nv_inference_first_response_histogram_ms";
        bool        has_head = false;

        for (size_t i = 0; i < p->n_models; i++) {
                struct stats_responses *r = &p->models[i].stats->responses;

                if (!p->models[i].stats->is_decoupled)
                        continue;
                if (!has_head)
                        prometheus_head(p->out, name,
                                        "Duration from request to first response in milliseconds",
                                        METRIC_HISTOGRAM);
                has_head = true;
                MUTEX_GUARD(&r->lock);
                prometheus_histogram(p->out, name, p->models[i].stats->own.labels,
                                     &(struct prometheus_histogram){
                                             .bounds = r->first_bounds_ms,
                                             .counts = r->first_counts,
                                             .n_bounds = r->n_first_bounds,
                                             .sum = (double)r->first_sum_ns / (double)NS_PER_MS,
                                     });
        }
}

static void print_latency(const struct page *p, enum phase phase) {
        struct prometheus_exemplar exemplars[N_LATENCY_BOUNDS + 1];
        double                     bounds[N_LATENCY_BOUNDS];
        bool                       wanted = phase == PHASE_REQUEST && p->wants_exemplars;

        /* Dividing integers gives the double nearest to the decimal value, which prints with few
         * digits; adding up doubles would not. */
        for (size_t k = 0; k < N_LATENCY_BOUNDS; k++)
                bounds[k] = (double)((uint64_t)LATENCY_BASE_NS << k) / (double)NS_PER_S;
        prometheus_head(p->out, latency_histograms[phase].name, latency_histograms[phase].help,
                        METRIC_HISTOGRAM);
        for (size_t i = 0; i < p->n_models; i++) {
                const struct stats_sums *sums = &p->models[i].sums;
                struct model_stats      *s = p->models[i].stats;
                bool                     has = wanted && model_stats_get_exemplars(s, exemplars);

                prometheus_histogram(p->out, latency_histograms[phase].name, s->own.labels,
                                     &(struct prometheus_histogram){
                                             .bounds = bounds,
                                             .counts = sums->latency[phase],
                                             .n_bounds = N_LATENCY_BOUNDS,
                                             .sum = (double)sums->values[STAT_PHASE_NS + phase] /
                                                    (double)NS_PER_S,
                                             .exemplars = has ? exemplars : NULL,
                                     });
        }
}

static void print_batch_sizes(const struct page *p) {
        const char *name = "neso_batch_size";
        double      bounds[N_BATCH_BOUNDS];

        for (size_t k = 0; k < N_BATCH_BOUNDS; k++)
                bounds[k] = (double)(1 << k);
        prometheus_head(p->out, name, "Inferences in an execution of a model", METRIC_HISTOGRAM);
        for (size_t i = 0; i < p->n_models; i++) {
                const struct stats_sums *sums = &p->models[i].sums;

                prometheus_histogram(p->out, name, p->models[i].stats->own.labels,
                                     &(struct prometheus_histogram){
                                             .bounds = bounds,
                                             .counts = sums->batch,
                                             .n_bounds = N_BATCH_BOUNDS,
                                             .sum = (double)sums->values[STAT_EXECUTED_INFERENCES],
                                     });
        }
}

static void print_paths(const struct page *p) {
        const char *name = "neso_executions_total";

        prometheus_head(p->out, name,
                        "Executions on the submitting thread (inline) or after a hop (queued)",
                        METRIC_COUNTER);
        for (size_t i = 0; i < p->n_models; i++) {
                struct model_stats *s = p->models[i].stats;

                prometheus_sample(p->out, name, s->path_labels[0],
                                  (double)model_stats_get_path(s, true));
                prometheus_sample(p->out, name, s->path_labels[1],
                                  (double)model_stats_get_path(s, false));
        }
}

static double read_count(const _Atomic uint64_t *count) {
        return (double)atomic_load_explicit(count, memory_order_relaxed);
}

/* A model without instances, such as an ensemble, has no load and no queue of its own. */
static bool has_load(const struct model_stats *s) {
        return atomic_load_explicit(&s->load.is_measured, memory_order_relaxed);
}

static void print_ratio(struct strbuf *out, const char *name, const struct model_stats *s) {
        prometheus_sample(out, name, s->own.labels,
                          atomic_load_explicit(&s->load.ratio, memory_order_relaxed));
}

static void print_oldest_age(struct strbuf *out, const char *name, const struct model_stats *s) {
        prometheus_sample(out, name, s->own.labels,
                          read_count(&s->load.oldest_age_ns) / (double)NS_PER_S);
}

static bool has_sequences(const struct model_stats *s) {
        return s->sequences != NULL;
}

static void print_active(struct strbuf *out, const char *name, const struct model_stats *s) {
        prometheus_sample(out, name, s->own.labels, read_count(&s->sequences->n_active));
}

static void print_backlog(struct strbuf *out, const char *name, const struct model_stats *s) {
        prometheus_sample(out, name, s->own.labels, read_count(&s->sequences->n_backlog));
}

static void print_started(struct strbuf *out, const char *name, const struct model_stats *s) {
        prometheus_sample(out, name, s->own.labels, read_count(&s->sequences->n_started));
}

static void print_ended(struct strbuf *out, const char *name, const struct model_stats *s) {
        for (size_t i = 0; i < N_SEQUENCE_REASONS; i++)
                prometheus_sample(out, name, s->ended_labels[i],
                                  read_count(&s->sequences->n_ended[i]));
}

/* The two values are read one after the other, so `used` may exceed `all`; the free slots are then 0. */
static void print_slots(struct strbuf *out, const char *name, const struct model_stats *s) {
        double used = read_count(&s->sequences->n_active);
        double all = read_count(&s->sequences->n_slots);

        prometheus_sample(out, name, s->slot_labels[0], used);
        prometheus_sample(out, name, s->slot_labels[1], MAX(all - used, 0));
}

/* A family that only some models have. */
struct partial_family {
        const char      *name;
        const char      *help;
        enum metric_kind kind;
        bool (*is_of)(const struct model_stats *s);
        void (*print)(struct strbuf *out, const char *name, const struct model_stats *s);
};

static const struct partial_family partial_families[] = {
        { "neso_load_ratio",
          "Time that instances executed by the time that they were available, last 15 s",
          METRIC_GAUGE, has_load, print_ratio },
        { "neso_oldest_request_age_seconds",
          "Time that the oldest waiting request has waited, 0 when none waits", METRIC_GAUGE,
          has_load, print_oldest_age },
        { "neso_sequences_active", "Sequences with a slot", METRIC_GAUGE, has_sequences,
          print_active },
        { "neso_sequences_backlog", "Sequences that wait for a slot", METRIC_GAUGE, has_sequences,
          print_backlog },
        { "neso_sequences_started_total", "Sequences begun", METRIC_COUNTER, has_sequences,
          print_started },
        { "neso_sequences_ended_total", "Sequences ended, by what ended them", METRIC_COUNTER,
          has_sequences, print_ended },
        { "neso_sequence_slots", "Slots for sequences, of all instances of a model", METRIC_GAUGE,
          has_sequences, print_slots },
};

static void print_partial(const struct page *p, const struct partial_family *f) {
        bool has_head = false;

        for (size_t i = 0; i < p->n_models; i++) {
                if (!f->is_of(p->models[i].stats))
                        continue;
                if (!has_head)
                        prometheus_head(p->out, f->name, f->help, f->kind);
                has_head = true;
                f->print(p->out, f->name, p->models[i].stats);
        }
}

static void print_batching(const struct page *p, size_t family) {
        const struct batch_family *f = &batch_families[family];
        bool                       has_head = false;

        for (size_t i = 0; i < p->n_models; i++) {
                struct batch_counts *c = p->models[i].stats->batching;

                if (c == NULL || !batch_counts_has(c, family))
                        continue;
                if (!has_head)
                        prometheus_head(p->out, f->name, f->help, f->kind);
                has_head = true;
                batch_counts_print(c, family, p->out);
        }
}

/* Counters, gauges and histograms in the reference server's order; then our own families. */
static void print_page(const struct page *p) {
        print_counters(p, &success_family);
        print_failures(p);
        for (size_t i = 0; i < ARRAY_LEN(reference_counts); i++)
                print_counters(p, &reference_counts[i]);
        if (p->options->counter_latencies) {
                for (size_t i = 0; i < ARRAY_LEN(latency_families); i++)
                        print_counters(p, &latency_families[i]);
                for (size_t i = 0; i < ARRAY_LEN(cache_families); i++)
                        print_cache(p, &cache_families[i]);
        }
        print_gauges(p);
        if (p->options->histogram_latencies)
                print_first_responses(p);
        for (int phase = 0; phase < N_PHASES; phase++)
                print_latency(p, (enum phase)phase);
        print_batch_sizes(p);
        print_paths(p);
        for (size_t i = 0; i < ARRAY_LEN(partial_families); i++)
                print_partial(p, &partial_families[i]);
        for (size_t i = 0; i < N_BATCH_FAMILIES; i++)
                print_batching(p, i);
}

static void add_series(struct page *p, struct stats_series *s, struct stats_sums *all) {
        struct shown_series *shown = &p->series[p->n_series++];
        struct stats_sums    sums = { 0 };

        stats_series_add(s, &sums);
        stats_sums_add(all, &sums);
        shown->series = s;
        memcpy(shown->values, sums.values, sizeof(shown->values));
}

static void add_model(struct page *p, struct model_stats *s) {
        struct shown_model *shown = &p->models[p->n_models++];

        *shown = (struct shown_model){ .stats = s };
        add_series(p, &s->own, &shown->sums);
        for (size_t i = 0; i < s->n_gpus; i++)
                add_series(p, &s->on_gpu[i], &shown->sums);
}

/* Reads the models to print. While a version is reloaded, both the old and the new load are listed,
 * with equal labels. A line may be printed only once, so only the newest load is. */
static void add_models_locked(struct model_metrics *m, struct page *p) {
        struct map newest;

        map_init(&newest);
        LIST_FOR_EACH(&m->shown, node) {
                struct model_stats *s = LIST_ENTRY(node, struct model_stats, node);

                map_set(&newest, str_of(s->own.labels), s);
        }
        LIST_FOR_EACH(&m->shown, node) {
                struct model_stats *s = LIST_ENTRY(node, struct model_stats, node);

                if (map_find(&newest, str_of(s->own.labels)) == s)
                        add_model(p, s);
        }
        map_done(&newest);
}

void model_metrics_print(void *owner, struct strbuf *out) {
        struct model_metrics *m = owner;
        struct page           page = { .options = &m->options, .out = out };
        size_t                n_models = 0, n_series = 0;

        MUTEX_GUARD(&m->lock);
        LIST_FOR_EACH(&m->shown, node) {
                n_models++;
                n_series += 1 + LIST_ENTRY(node, struct model_stats, node)->n_gpus;
        }
        if (n_models == 0)
                return;
        page.wants_exemplars = metric_registry_wants_exemplars(m->registry);
        page.models = mem_alloc(n_models * sizeof(*page.models));
        page.series = mem_alloc(n_series * sizeof(*page.series));
        add_models_locked(m, &page);
        print_page(&page);
        free(page.models);
        free(page.series);
}
