/* SPDX-License-Identifier: BSD-3-Clause */
/* Metric families and their metrics: what GET /metrics prints.
 *
 * A registry holds families in order of creation; a family holds one metric per set of labels. A
 * family that is opened again with the same kind is shared, and keeps its help text; another kind is
 * refused. A family without metrics is not printed. Values are updated without a lock: counters and
 * gauges are atomic doubles, histograms have one atomic counter per bucket. Creation, removal and
 * printing lock the registry (rank LOCK_REGISTRY, so that collectors may take locks of higher rank).
 *
 * Other families exist only while they are printed: a collector writes their lines then (CPU use,
 * statistics of models), so that they cost nothing on the request path.
 *
 * Ownership.  The registry outlives its families. Families and metrics are reference counted: each
 * successful metric_family_open() or metric_new() needs one metric_family_close()
 * or metric_free().
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values are those of TRITONSERVER_MetricKind. */
enum metric_kind { METRIC_COUNTER = 0, METRIC_GAUGE = 1, METRIC_HISTOGRAM = 2 };

struct metric_registry;
struct metric_family;
struct metric;

struct metric_label {
        const char *name; /* borrowed during calls */
        const char *value;
};

struct metric_registry *metric_registry_new(void);
void                    metric_registry_free(struct metric_registry *r);

/* INVALID_ARG when the name is not a valid Prometheus name or exists with another kind. */
struct error *metric_family_open(struct metric_registry *r, enum metric_kind kind, const char *name,
                                 const char *help, struct metric_family **ret);
/* INTERNAL "Must call MetricDelete on all dependent metrics before calling MetricFamilyDelete."
 * when the last user closes a family that has metrics. */
struct error    *metric_family_close(struct metric_family *f);
enum metric_kind metric_family_kind(const struct metric_family *f);

/* Labels are copied and printed sorted by name. Two metrics with the same set of labels share one
 * value. buckets: ascending upper bounds without +Inf, for histograms only (else NULL, 0). */
struct error    *metric_new(struct metric_family *f, const struct metric_label *labels,
                            size_t n_labels, const double *buckets, size_t n_buckets,
                            struct metric **ret);
void             metric_free(struct metric *m);
enum metric_kind metric_kind(const struct metric *m);

/* INVALID_ARG: a negative increment of a counter. UNSUPPORTED: a kind of metric that does not have the
 * operation. Both errors name the kind. */
struct error *metric_increment(struct metric *m, double by);
struct error *metric_set(struct metric *m, double value);
struct error *metric_observe(struct metric *m, double value);
struct error *metric_value(struct metric *m, double *ret); /* not for histograms */
/* Sets what is in each bucket of a histogram, not cumulative: counts[i] belongs to bounds[i], the last to
 * +Inf. INVALID_ARG when n_counts is not the number of bounds + 1. */
struct error *metric_histogram(struct metric *m, uint64_t *counts, size_t n_counts,
                               double *ret_sum);

/* A collector is called while the registry is printed and locked. It writes complete families as text,
 * with the functions of prometheus.h. Collectors run in order of registration, before or after the
 * registry's own families. */
typedef void (*metric_collect_fn)(void *owner, struct strbuf *out);
struct metric_collector;
struct metric_collector *metric_collector_add(struct metric_registry *r, bool before_families,
                                              metric_collect_fn collect, void *owner);
void metric_collector_remove(struct metric_registry *r, struct metric_collector *c);

/* Prometheus text exposition format 0.0.4. */
void metric_registry_print(struct metric_registry *r, struct strbuf *out);
/* The same lines with exemplars, for openmetrics_convert(). */
void metric_registry_print_exemplars(struct metric_registry *r, struct strbuf *out);
/* For collectors, while they are called: whether they print exemplars. */
bool metric_registry_wants_exemplars(const struct metric_registry *r);

/* The registry of families that plug-ins and programs create through the C API. It is one per process,
 * since those functions of the C API have no server argument. Created on first use, never freed. */
struct metric_registry *metric_registry_process(void);
