/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/metric.h"

#include "base/mem.h"
#include "observe/metric_private.h"
#include "observe/prometheus.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char *kind_text(const struct metric_family *f) {
        switch (f->kind) {
        case METRIC_COUNTER: return "TRITONSERVER_METRIC_KIND_COUNTER";
        case METRIC_GAUGE: return "TRITONSERVER_METRIC_KIND_GAUGE";
        case METRIC_HISTOGRAM: return "TRITONSERVER_METRIC_KIND_HISTOGRAM";
        }
        return "unknown metric kind";
}

static struct error *not_supported(const struct metric *m, const char *operation) {
        return error_new(ERR_UNSUPPORTED, "%s does not support %s", kind_text(m->family),
                         operation);
}

static struct error *check_labels(const struct metric_family *f, const struct metric_label *labels,
                                  size_t n_labels) {
        for (size_t i = 0; i < n_labels; i++) {
                if (!prometheus_is_label_name(labels[i].name))
                        return error_new(ERR_INVALID_ARG,
                                         "metric family '%s': invalid name of a label: '%s'",
                                         f->name, labels[i].name);
                if (f->kind == METRIC_HISTOGRAM && strcmp(labels[i].name, "le") == 0)
                        return error_new(ERR_INVALID_ARG,
                                         "metric family '%s': label 'le' names the buckets of a "
                                         "histogram",
                                         f->name);
                for (size_t k = 0; k < i; k++) {
                        if (strcmp(labels[i].name, labels[k].name) == 0)
                                return error_new(ERR_INVALID_ARG,
                                                 "metric family '%s': label '%s' is given twice",
                                                 f->name, labels[i].name);
                }
        }
        return NULL;
}

static struct error *check_buckets(const struct metric_family *f, const double *buckets,
                                   size_t n_buckets) {
        if (f->kind != METRIC_HISTOGRAM)
                return buckets == NULL
                               ? NULL
                               : error_new(ERR_INVALID_ARG, "metric family '%s': %s has no buckets",
                                           f->name, kind_text(f));
        if (buckets == NULL)
                return error_new(ERR_INVALID_ARG, "metric family '%s': %s requires buckets",
                                 f->name, kind_text(f));
        for (size_t i = 0; i < n_buckets; i++) {
                if (isnan(buckets[i]) || (i > 0 && buckets[i] <= buckets[i - 1]))
                        return error_new(ERR_INVALID_ARG,
                                         "metric family '%s': buckets must be in ascending order",
                                         f->name);
        }
        return NULL;
}

static void destroy(struct metric *m) {
        free(m->labels_text);
        free(m->bounds);
        free(m->counts);
        free(m);
}

static struct error *create(struct metric_family *f, const char *labels_text, const double *buckets,
                            size_t n_buckets, struct metric **ret) {
        struct metric *m = mem_zalloc(sizeof(*m));
        size_t         bytes = 0;

        m->family = f;
        m->labels_text = mem_strdup(labels_text);
        if (f->kind == METRIC_HISTOGRAM) {
                m->n_bounds = n_buckets;
                if (size_add(n_buckets, 1, &bytes) && size_mul(bytes, sizeof(double), &bytes)) {
                        m->bounds = try_zalloc(bytes);
                        m->counts = try_zalloc(bytes);
                }
                if (m->bounds == NULL || m->counts == NULL) {
                        destroy(m);
                        return error_new(ERR_UNAVAILABLE,
                                         "metric family '%s': out of memory for %zu buckets",
                                         f->name, n_buckets);
                }
                if (n_buckets > 0)
                        memcpy(m->bounds, buckets, n_buckets * sizeof(double));
        }
        *ret = m;
        return NULL;
}
static_assert(sizeof(_Atomic uint64_t) == sizeof(double), "one size for bounds and counts");

static bool has_buckets(const struct metric *m, const double *buckets, size_t n_buckets) {
        return m->n_bounds == n_buckets &&
               (n_buckets == 0 || memcmp(m->bounds, buckets, n_buckets * sizeof(double)) == 0);
}

static struct error *open_locked(struct metric_family *f, const char *labels_text,
                                 const double *buckets, size_t n_buckets, struct metric **ret) {
        struct metric *m = map_find(&f->metrics, str_of(labels_text));

        assert(mutex_is_held(&f->registry->lock));
        if (m == NULL) {
                TRY(create(f, labels_text, buckets, n_buckets, &m));
                map_set(&f->metrics, str_of(labels_text), m);
        } else if (!has_buckets(m, buckets, n_buckets)) {
                return error_new(ERR_INVALID_ARG,
                                 "metric family '%s': metric %s already exists with different "
                                 "buckets",
                                 f->name, labels_text);
        }
        m->n_users++;
        *ret = m;
        return NULL;
}

struct error *metric_new(struct metric_family *f, const struct metric_label *labels,
                         size_t n_labels, const double *buckets, size_t n_buckets,
                         struct metric **ret) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        TRY(check_labels(f, labels, n_labels));
        TRY(check_buckets(f, buckets, n_buckets));
        /* The bucket "+Inf" always exists. */
        if (n_buckets > 0 && isinf(buckets[n_buckets - 1]) && buckets[n_buckets - 1] > 0)
                n_buckets--;
        prometheus_labels(&text, labels, n_labels);
        if (text.overflowed)
                return error_new(ERR_INVALID_ARG, "metric family '%s': labels are too long",
                                 f->name);
        MUTEX_GUARD(&f->registry->lock);
        return open_locked(f, strbuf_cstr(&text), buckets, n_buckets, ret);
}

void metric_free(struct metric *m) {
        struct metric_family *f;
        bool                  is_last;

        if (m == NULL)
                return;
        f = m->family;
        mutex_lock(&f->registry->lock);
        is_last = --m->n_users == 0;
        if (is_last)
                map_remove(&f->metrics, str_of(m->labels_text));
        mutex_unlock(&f->registry->lock);
        if (is_last)
                destroy(m);
}

enum metric_kind metric_kind(const struct metric *m) {
        return m->family->kind;
}

static void add(_Atomic double *to, double by) {
        double old = atomic_load_explicit(to, memory_order_relaxed);

        while (!atomic_compare_exchange_weak_explicit(to, &old, old + by, memory_order_relaxed,
                                                      memory_order_relaxed)) {
        }
}

struct error *metric_increment(struct metric *m, double by) {
        if (m->family->kind == METRIC_HISTOGRAM)
                return not_supported(m, "Increment");
        if (m->family->kind == METRIC_COUNTER && !(by >= 0))
                return error_new(ERR_INVALID_ARG,
                                 "%s can only be incremented monotonically by non-negative values.",
                                 kind_text(m->family));
        add(&m->value, by);
        return NULL;
}

struct error *metric_set(struct metric *m, double value) {
        if (m->family->kind != METRIC_GAUGE)
                return not_supported(m, "Set");
        atomic_store_explicit(&m->value, value, memory_order_relaxed);
        return NULL;
}

/* Index of the first bucket whose bound is not below the value; NaN counts in "+Inf" only. */
static size_t bucket_of(const struct metric *m, double value) {
        size_t low = 0, high = m->n_bounds;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (value <= m->bounds[middle])
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

struct error *metric_observe(struct metric *m, double value) {
        if (m->family->kind != METRIC_HISTOGRAM)
                return not_supported(m, "Observe");
        atomic_fetch_add_explicit(&m->counts[bucket_of(m, value)], 1, memory_order_relaxed);
        add(&m->value, value);
        return NULL;
}

struct error *metric_value(struct metric *m, double *ret) {
        if (m->family->kind == METRIC_HISTOGRAM)
                return not_supported(m, "Value");
        *ret = atomic_load_explicit(&m->value, memory_order_relaxed);
        return NULL;
}

void metric_print(const struct metric *m, struct strbuf *out) {
        double    value = atomic_load_explicit(&m->value, memory_order_relaxed);
        uint64_t *counts;

        if (m->family->kind != METRIC_HISTOGRAM) {
                prometheus_sample(out, m->family->name, m->labels_text, value);
                return;
        }
        counts = mem_alloc((m->n_bounds + 1) * sizeof(*counts)); /* as many as the metric has */
        for (size_t i = 0; i <= m->n_bounds; i++)
                counts[i] = atomic_load_explicit(&m->counts[i], memory_order_relaxed);
        prometheus_histogram(out, m->family->name, m->labels_text,
                             &(struct prometheus_histogram){ .bounds = m->bounds,
                                                             .counts = counts,
                                                             .n_bounds = m->n_bounds,
                                                             .sum = value });
        free(counts);
}
