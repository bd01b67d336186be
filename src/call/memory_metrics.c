/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/memory_metrics.h"

#include "base/byte_budget.h"
#include "base/mem.h"
#include "core_api/core_error.h"
#include "triton/core/tritonserver.h"

/* A gauge without labels, and its family, which has no other metric. */
struct gauge {
        struct TRITONSERVER_MetricFamily *family; /* owned */
        struct TRITONSERVER_Metric       *metric; /* owned */
};

struct memory_metrics {
        const struct byte_budget *budget; /* borrowed */
        struct gauge              used, limit;
};

static struct error *open_gauge(struct gauge *g, const char *name, const char *help) {
        TRY(core_error_take(TRITONSERVER_MetricFamilyNew(&g->family, TRITONSERVER_METRIC_KIND_GAUGE,
                                                         name, help)));
        return core_error_take(TRITONSERVER_MetricNew(&g->metric, g->family, NULL, 0));
}

static void close_gauge(struct gauge *g) {
        if (g->metric != NULL)
                core_error_drop(TRITONSERVER_MetricDelete(g->metric));
        if (g->family != NULL)
                core_error_drop(TRITONSERVER_MetricFamilyDelete(g->family));
}

static struct error *open_gauges(struct memory_metrics *m) {
        TRY(open_gauge(&m->used, "neso_memory_budget_used_bytes",
                       "Bytes of requests and answers that the server holds"));
        TRY(open_gauge(&m->limit, "neso_memory_budget_limit_bytes",
                       "Bytes of requests and answers that the server may hold"));
        return core_error_take(TRITONSERVER_MetricSet(m->limit.metric, (double)m->budget->max));
}

struct error *memory_metrics_new(const struct byte_budget *budget, struct memory_metrics **ret) {
        struct memory_metrics *m = mem_zalloc(sizeof(*m));

        m->budget = budget;
        TRY_OR(open_gauges(m), memory_metrics_free(m));
        *ret = m;
        return NULL;
}

void memory_metrics_free(struct memory_metrics *m) {
        if (m == NULL)
                return;
        close_gauge(&m->used);
        close_gauge(&m->limit);
        free(m);
}

void memory_metrics_refresh(struct memory_metrics *m) {
        if (m != NULL)
                core_error_drop(TRITONSERVER_MetricSet(m->used.metric,
                                                       (double)byte_budget_used(m->budget)));
}
