/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/chain_metrics.h"

#include "base/clock.h"
#include "base/mem.h"
#include "observe/metric.h"

#include <stdio.h>
#include <string.h>

struct named_metric {
        char          *name; /* owned: the key, made of the values of its labels */
        struct metric *metric;
};

struct family {
        enum metric_kind kind;
        const char      *name;
        const char      *help;
};

/* Returns NULL without a registry or after an error; then nothing is counted. */
static struct metric *open_metric(struct chain_metrics *m, const struct family *f,
                                  const struct metric_label *labels, size_t n_labels) {
        struct metric_family *family;
        struct metric        *metric = NULL;
        AUTO_ERROR            err = NULL;

        if (m->registry == NULL)
                return NULL;
        err = metric_family_open(m->registry, f->kind, f->name, f->help, &family);
        if (err != NULL)
                return NULL;
        m->families = mem_realloc(m->families, (m->n_families + 1) * sizeof(family));
        m->families[m->n_families++] = family;
        err = metric_new(family, labels, n_labels, NULL, 0, &metric);
        return err == NULL ? metric : NULL;
}

struct chain_metrics *chain_metrics_new(struct metric_registry *registry, const char *chain,
                                        int64_t version) {
        static const struct family success = { METRIC_COUNTER, "neso_chain_request_success",
                                               "Number of requests that passed the whole chain" };
        static const struct family duration = { METRIC_COUNTER, "neso_chain_duration_us",
                                                "Cumulative duration of requests that passed the "
                                                "whole chain, in microseconds" };
        static const struct family in_flight = { METRIC_GAUGE, "neso_chain_inflight",
                                                 "Requests that are in the chain" };
        struct chain_metrics      *m = mem_zalloc(sizeof(*m));
        char                       number[24];
        struct metric_label        labels[] = { { "chain", chain }, { "version", number } };

        snprintf(number, sizeof(number), "%lld", (long long)version);
        m->registry = registry;
        m->chain = mem_strdup(chain);
        m->success = open_metric(m, &success, labels, 2);
        m->duration = open_metric(m, &duration, labels, 1);
        m->in_flight = open_metric(m, &in_flight, labels, 1);
        return m;
}

void chain_metrics_free(struct chain_metrics *m) {
        if (m == NULL)
                return;
        for (unsigned i = 0; i < m->n_named; i++) {
                metric_free(m->named[i].metric);
                free(m->named[i].name);
        }
        free(m->named);
        metric_free(m->success);
        metric_free(m->duration);
        metric_free(m->in_flight);
        for (unsigned i = 0; i < m->n_families; i++)
                error_free(metric_family_close(m->families[i]));
        free(m->families);
        free(m->chain);
        free(m);
}

/* Takes `name`. */
static struct metric *find_or_open(struct chain_metrics *m, char *name, const struct family *f,
                                   const struct metric_label *labels) {
        for (unsigned i = 0; i < m->n_named; i++)
                if (strcmp(m->named[i].name, name) == 0) {
                        free(name);
                        return m->named[i].metric;
                }
        m->named = mem_realloc(m->named, (m->n_named + 1) * sizeof(*m->named));
        m->named[m->n_named++] = (struct named_metric){ name, open_metric(m, f, labels, 2) };
        return m->named[m->n_named - 1].metric;
}

struct metric *chain_metrics_open_failure(struct chain_metrics *m, const char *stage) {
        static const struct family f = { METRIC_COUNTER, "neso_chain_request_failure",
                                         "Number of requests that failed in this stage of the "
                                         "chain" };
        struct metric_label        labels[] = { { "chain", m->chain }, { "stage", stage } };

        return find_or_open(m, mem_printf("stage %s", stage), &f, labels);
}

struct metric *chain_metrics_open_handoff(struct chain_metrics *m, const char *from,
                                          const char *to) {
        static const struct family f = { METRIC_COUNTER, "neso_chain_handoff_us",
                                         "Cumulative time between the end of a stage and the "
                                         "submission of the next, in microseconds" };
        struct metric_label        labels[] = { { "from", from }, { "to", to } };

        return find_or_open(m, mem_printf("edge %s\n%s", from, to), &f, labels);
}

static void count_metric(struct metric *metric, double by) {
        if (metric != NULL)
                error_free(metric_increment(metric, by));
}

void chain_metrics_count_begin(struct chain_metrics *m) {
        count_metric(m->in_flight, 1);
}

void chain_metrics_count_success(struct chain_metrics *m, uint64_t took_ns) {
        atomic_fetch_add_explicit(&m->n_success, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&m->success_ns, took_ns, memory_order_relaxed);
        count_metric(m->in_flight, -1);
        count_metric(m->success, 1);
        count_metric(m->duration, (double)took_ns / (double)NS_PER_US);
}

void chain_metrics_count_failure(struct chain_metrics *m, struct metric *failure,
                                 uint64_t took_ns) {
        atomic_fetch_add_explicit(&m->n_failure, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&m->failure_ns, took_ns, memory_order_relaxed);
        count_metric(m->in_flight, -1);
        count_metric(failure, 1);
}

void chain_metrics_count_handoff(struct metric *handoff, uint64_t took_ns) {
        count_metric(handoff, (double)took_ns / (double)NS_PER_US);
}
