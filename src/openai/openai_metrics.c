/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_metrics.h"

#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"
#include "core_api/core_error.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <stdio.h>

struct openai_meter {
        char                       *model; /* owned */
        int64_t                     version;
        struct TRITONSERVER_Metric *latencies[N_OPENAI_LATENCIES]; /* owned */
        struct TRITONSERVER_Metric *counts[N_OPENAI_COUNTS];       /* owned */
};

enum family {
        FAMILY_PROMPT = N_OPENAI_LATENCIES,
        FAMILY_GENERATION,
        FAMILY_REQUESTS,
        N_FAMILIES,
};

struct openai_metrics {
        struct TRITONSERVER_MetricFamily *families[N_FAMILIES]; /* owned */
        struct TRITONSERVER_MetricArgs   *buckets;              /* owned */
        struct mutex                      lock;                 /* rank LOCK_LEAF; guards: */
        struct map                        meters;               /* struct openai_meter; owned */
};

/* 1 ms to 60 s, as the engines have them. */
const double openai_bounds[OPENAI_BUCKETS - 1] = { 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                   0.05,  0.1,    0.25,  0.5,  1,
                                                   2.5,   5,      10,    30,   60 };

static const struct {
        const char *name, *help;
} family_texts[N_FAMILIES] = {
        [OPENAI_FIRST_TOKEN] = { "neso_llm_time_to_first_token_seconds",
                                 "Time from a request to its first response with text" },
        [OPENAI_BETWEEN_TOKENS] = { "neso_llm_inter_token_latency_seconds",
                                    "Time between responses with text" },
        [OPENAI_WHOLE_REQUEST] = { "neso_llm_request_seconds",
                                   "Time from a request to the end of its answer" },
        [FAMILY_PROMPT] = { "neso_llm_prompt_tokens_total", "Tokens of prompts" },
        [FAMILY_GENERATION] = { "neso_llm_generation_tokens_total", "Tokens that models made" },
        [FAMILY_REQUESTS] = { "neso_llm_requests_total",
                              "Answers, or choices of answers, by the reason of their end" },
};

static const struct {
        enum family family;
        const char *reason; /* NULL: the family has no such label */
} count_rows[N_OPENAI_COUNTS] = {
        [OPENAI_PROMPT_TOKENS] = { FAMILY_PROMPT, NULL },
        [OPENAI_GENERATION_TOKENS] = { FAMILY_GENERATION, NULL },
        [OPENAI_ENDED_STOP] = { FAMILY_REQUESTS, "stop" },
        [OPENAI_ENDED_LENGTH] = { FAMILY_REQUESTS, "length" },
        [OPENAI_ENDED_TOOL_CALLS] = { FAMILY_REQUESTS, "tool_calls" },
        [OPENAI_ENDED_OTHER] = { FAMILY_REQUESTS, "other" },
        [OPENAI_ENDED_ERROR] = { FAMILY_REQUESTS, "error" },
};

static struct error *open_families(struct openai_metrics *m) {
        for (int i = 0; i < N_FAMILIES; i++)
                TRY(core_error_take(
                        TRITONSERVER_MetricFamilyNew(&m->families[i],
                                                     i < N_OPENAI_LATENCIES
                                                             ? TRITONSERVER_METRIC_KIND_HISTOGRAM
                                                             : TRITONSERVER_METRIC_KIND_COUNTER,
                                                     family_texts[i].name, family_texts[i].help)));
        TRY(core_error_take(TRITONSERVER_MetricArgsNew(&m->buckets)));
        return core_error_take(
                TRITONSERVER_MetricArgsSetHistogram(m->buckets, openai_bounds, OPENAI_BUCKETS - 1));
}

struct error *openai_metrics_new(struct openai_metrics **ret) {
        struct openai_metrics *m = mem_zalloc(sizeof(*m));

        mutex_init(&m->lock, LOCK_LEAF);
        map_init(&m->meters);
        TRY_OR(open_families(m), openai_metrics_free(m));
        *ret = m;
        return NULL;
}

static void free_meter(struct openai_meter *meter) {
        for (int i = 0; i < N_OPENAI_LATENCIES; i++)
                if (meter->latencies[i] != NULL)
                        core_error_drop(TRITONSERVER_MetricDelete(meter->latencies[i]));
        for (int i = 0; i < N_OPENAI_COUNTS; i++)
                if (meter->counts[i] != NULL)
                        core_error_drop(TRITONSERVER_MetricDelete(meter->counts[i]));
        free(meter->model);
        free(meter);
}

void openai_metrics_free(struct openai_metrics *m) {
        if (m == NULL)
                return;
        MAP_FOR_EACH(&m->meters, e)
                free_meter(e->value);
        map_done(&m->meters);
        if (m->buckets != NULL)
                core_error_drop(TRITONSERVER_MetricArgsDelete(m->buckets));
        for (int i = 0; i < N_FAMILIES; i++)
                if (m->families[i] != NULL)
                        core_error_drop(TRITONSERVER_MetricFamilyDelete(m->families[i]));
        mutex_done(&m->lock);
        free(m);
}

/* ---- meters ---- */

#define MAX_LABELS 3

struct label_list {
        struct TRITONSERVER_Parameter *labels[MAX_LABELS]; /* owned */
        uint64_t                       n;
};

static void add_label(struct label_list *l, const char *name, const char *value) {
        l->labels[l->n] = TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_STRING, value);
        l->n += l->labels[l->n] != NULL;
}

static void free_labels(struct label_list *l) {
        for (uint64_t i = 0; i < l->n; i++)
                TRITONSERVER_ParameterDelete(l->labels[i]);
        l->n = 0;
}

static struct error *open_metric(const struct openai_metrics *m, int family,
                                 const struct label_list *l, struct TRITONSERVER_Metric **ret) {
        const struct TRITONSERVER_Parameter *labels[MAX_LABELS];

        for (uint64_t i = 0; i < l->n; i++)
                labels[i] = l->labels[i];
        return core_error_take(
                TRITONSERVER_MetricNewWithArgs(ret, m->families[family], labels, l->n,
                                               family < N_OPENAI_LATENCIES ? m->buckets : NULL));
}

static struct error *open_meter(const struct openai_metrics *m, const char *model,
                                const char *version, struct openai_meter *to) {
        struct label_list l = { .n = 0 };
        struct error     *err = NULL;

        for (int i = 0; i < N_OPENAI_LATENCIES + N_OPENAI_COUNTS && err == NULL; i++) {
                int count = i - N_OPENAI_LATENCIES;

                add_label(&l, "model", model);
                add_label(&l, "version", version);
                if (count >= 0 && count_rows[count].reason != NULL)
                        add_label(&l, "finish_reason", count_rows[count].reason);
                if (count < 0)
                        err = open_metric(m, i, &l, &to->latencies[i]);
                else
                        err = open_metric(m, count_rows[count].family, &l, &to->counts[count]);
                free_labels(&l);
        }
        return err;
}

/* Called without the lock, because it calls the core. NULL on failure. */
static struct openai_meter *new_meter(const struct openai_metrics *m, const char *model,
                                      int64_t version) {
        struct openai_meter *meter = mem_zalloc(sizeof(*meter));
        AUTO_CHARS           text = mem_printf("%lld", (long long)version);
        AUTO_ERROR           err = open_meter(m, model, text, meter);

        if (err != NULL) {
                free_meter(meter);
                return NULL;
        }
        meter->model = mem_strdup(model);
        meter->version = version;
        return meter;
}

static struct openai_meter *find_meter(struct openai_metrics *m, struct str key,
                                       bool *ret_is_full) {
        MUTEX_GUARD(&m->lock);
        *ret_is_full = map_size(&m->meters) >= OPENAI_MAX_METERS;
        return map_find(&m->meters, key);
}

/* Returns the one that is kept: another thread may have made one meanwhile. */
static struct openai_meter *keep_meter(struct openai_metrics *m, struct str key,
                                       struct openai_meter *made) {
        struct openai_meter *kept;

        mutex_lock(&m->lock);
        kept = map_find(&m->meters, key);
        if (kept == NULL)
                map_set(&m->meters, key, made);
        mutex_unlock(&m->lock);
        if (kept == NULL)
                return made;
        free_meter(made);
        return kept;
}

struct openai_meter *openai_metrics_meter(struct openai_metrics *m, const char *model,
                                          int64_t version) {
        char                 key[512]; /* a longer name is not measured */
        int                  len;
        bool                 is_full;
        struct openai_meter *meter;

        if (m == NULL)
                return NULL;
        len = snprintf(key, sizeof(key), "%lld/%s", (long long)version, model);
        if (len < 0 || (size_t)len >= sizeof(key))
                return NULL;
        meter = find_meter(m, str_range(key, (size_t)len), &is_full);
        if (meter != NULL || is_full)
                return meter;
        meter = new_meter(m, model, version);
        return meter != NULL ? keep_meter(m, str_range(key, (size_t)len), meter) : NULL;
}

void openai_meter_observe(struct openai_meter *m, enum openai_latency what, uint64_t ns) {
        if (m != NULL)
                core_error_drop(TRITONSERVER_MetricObserve(m->latencies[what], (double)ns / 1e9));
}

void openai_meter_add(struct openai_meter *m, enum openai_count what, uint64_t n) {
        if (m != NULL && n > 0)
                core_error_drop(TRITONSERVER_MetricIncrement(m->counts[what], (double)n));
}

/* ---- reading ---- */

/* Returns all meters, which last as long as the metrics; the caller frees the array. */
static struct openai_meter **list_meters(struct openai_metrics *m, size_t *ret_n) {
        struct openai_meter **meters;
        size_t                n = 0;

        MUTEX_GUARD(&m->lock);
        meters = mem_alloc((map_size(&m->meters) + 1) * sizeof(struct openai_meter *));
        MAP_FOR_EACH(&m->meters, e)
                meters[n++] = e->value;
        *ret_n = n;
        return meters;
}

static struct error *read_meter(const struct openai_meter *m, struct openai_reading *ret) {
        double value;

        *ret = (struct openai_reading){ .model = m->model, .version = m->version };
        for (int i = 0; i < N_OPENAI_LATENCIES; i++)
                TRY(core_error_take(NESO_MetricHistogram(m->latencies[i], ret->buckets[i],
                                                         OPENAI_BUCKETS, &ret->seconds[i])));
        for (int i = 0; i < N_OPENAI_COUNTS; i++) {
                TRY(core_error_take(TRITONSERVER_MetricValue(m->counts[i], &value)));
                ret->counts[i] = (uint64_t)value;
        }
        return NULL;
}

void openai_metrics_read(struct openai_metrics *m,
                         void (*each)(void *owner, const struct openai_reading *r), void *owner) {
        struct openai_meter **meters;
        size_t                n;

        if (m == NULL)
                return;
        meters = list_meters(m, &n);
        for (size_t i = 0; i < n; i++) {
                struct openai_reading reading;
                AUTO_ERROR            err = read_meter(meters[i], &reading);

                if (err == NULL)
                        each(owner, &reading);
        }
        free(meters);
}
