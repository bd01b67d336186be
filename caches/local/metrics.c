/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/metrics.h"

#include "kit/errors.h"

static const struct {
        const char             *name;
        const char             *help;
        TRITONSERVER_MetricKind kind;
} families[N_CACHE_METRICS] = {
        [CACHE_SIZE] = { "neso_cache_size_bytes", "Bytes that the response cache may use",
                         TRITONSERVER_METRIC_KIND_GAUGE },
        [CACHE_USED] = { "neso_cache_used_bytes", "Bytes that the response cache uses",
                         TRITONSERVER_METRIC_KIND_GAUGE },
        [CACHE_ENTRIES] = { "neso_cache_entries", "Responses in the response cache",
                            TRITONSERVER_METRIC_KIND_GAUGE },
        [CACHE_EVICTIONS] = { "neso_cache_evictions_total",
                              "Responses that the response cache evicted for others",
                              TRITONSERVER_METRIC_KIND_COUNTER },
};

static TRITONSERVER_Error *open_one(struct cache_metrics *m, enum cache_metric i) {
        KIT_TRY(TRITONSERVER_MetricFamilyNew(&m->families[i], families[i].kind, families[i].name,
                                             families[i].help));
        return TRITONSERVER_MetricNew(&m->metrics[i], m->families[i], NULL, 0);
}

void cache_metrics_open(struct cache_metrics *m, const struct store *store) {
        for (int i = 0; i < N_CACHE_METRICS; i++)
                TRITONSERVER_ErrorDelete(open_one(m, (enum cache_metric)i));
        cache_metrics_update(m, store);
}

void cache_metrics_close(struct cache_metrics *m) {
        for (int i = 0; i < N_CACHE_METRICS; i++) {
                if (m->metrics[i] != NULL)
                        kit_error_log(TRITONSERVER_MetricDelete(m->metrics[i]), "the local cache");
                if (m->families[i] != NULL)
                        kit_error_log(TRITONSERVER_MetricFamilyDelete(m->families[i]),
                                      "the local cache");
        }
}

static void set(struct cache_metrics *m, enum cache_metric i, double value) {
        if (m->metrics[i] != NULL)
                kit_error_log(TRITONSERVER_MetricSet(m->metrics[i], value), "the local cache");
}

/* Of several threads, each counts the evictions that no other one has counted. */
static void count_evictions(struct cache_metrics *m, uint64_t n_evicted) {
        uint64_t counted = atomic_load_explicit(&m->n_evicted, memory_order_relaxed);

        do {
                if (n_evicted <= counted)
                        return;
        } while (!atomic_compare_exchange_weak(&m->n_evicted, &counted, n_evicted));
        if (m->metrics[CACHE_EVICTIONS] != NULL)
                kit_error_log(TRITONSERVER_MetricIncrement(m->metrics[CACHE_EVICTIONS],
                                                           (double)(n_evicted - counted)),
                              "the local cache");
}

void cache_metrics_update(struct cache_metrics *m, const struct store *store) {
        struct store_state state;

        store_get_state(store, &state);
        set(m, CACHE_SIZE, (double)state.size);
        set(m, CACHE_USED, (double)state.used);
        set(m, CACHE_ENTRIES, (double)state.n_entries);
        count_evictions(m, state.n_evicted);
}
