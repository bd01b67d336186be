/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/metric.h"

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"
#include "observe/prometheus.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* A registry owns its families until their last users close them; a family owns its metrics until
 * their last users free them. The registry's lock guards lists, maps and user counts. Names, help
 * texts, labels and bounds never change, and values are atomic. */
struct metric_registry {
        struct mutex lock;       /* rank LOCK_REGISTRY; guards everything below */
        struct map   families;   /* struct metric_family, owned, by name; printed in this order */
        struct list  collectors; /* struct metric_collector, owned, in order of registration */
        bool         wants_exemplars; /* of the page that is printed now */
};

struct metric_collector {
        struct list_node  node;
        metric_collect_fn collect;
        void             *owner; /* borrowed: lives until the collector is removed */
        bool              before_families;
};

struct metric_family {
        struct metric_registry *registry; /* borrowed: outlives its families */
        enum metric_kind        kind;
        char                   *name;    /* owned */
        char                   *help;    /* owned */
        unsigned                n_users; /* guarded by the registry's lock */
        struct map              metrics; /* struct metric, owned, by text of labels; guarded */
};

struct metric {
        struct metric_family *family;      /* borrowed: a family with metrics cannot be closed */
        char                 *labels_text; /* owned: `{a="x"}` or "" */
        unsigned              n_users;     /* guarded by the registry's lock */
        _Atomic double        value;       /* counter, gauge; the sum of a histogram */
        double               *bounds;      /* owned; histograms only */
        _Atomic uint64_t     *counts;      /* owned; n_bounds + 1 */
        size_t                n_bounds;
};

/* ---- metrics -------------------------------------------------------------------------------- */

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

static void free_metric(struct metric *m) {
        free(m->labels_text);
        free(m->bounds);
        free(m->counts);
        free(m);
}

static struct error *create_metric(struct metric_family *f, const char *labels_text,
                                   const double *buckets, size_t n_buckets, struct metric **ret) {
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
                        free_metric(m);
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
                TRY(create_metric(f, labels_text, buckets, n_buckets, &m));
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

        TRY(check_labels(f, labels, n_labels));
        TRY(check_buckets(f, buckets, n_buckets));
        /* The bucket "+Inf" always exists. */
        if (n_buckets > 0 && isinf(buckets[n_buckets - 1]) && buckets[n_buckets - 1] > 0)
                n_buckets--;
        prometheus_labels(&text, labels, n_labels);
        if (text.no_memory)
                return strbuf_check(&text, "the labels of a metric");
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
                free_metric(m);
}

enum metric_kind metric_kind(const struct metric *m) {
        return m->family->kind;
}

static void add_atomically(_Atomic double *to, double by) {
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
        add_atomically(&m->value, by);
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
        add_atomically(&m->value, value);
        return NULL;
}

struct error *metric_value(struct metric *m, double *ret) {
        if (m->family->kind == METRIC_HISTOGRAM)
                return not_supported(m, "Value");
        *ret = atomic_load_explicit(&m->value, memory_order_relaxed);
        return NULL;
}

static void read_counts(const struct metric *m, uint64_t *ret) {
        for (size_t i = 0; i <= m->n_bounds; i++)
                ret[i] = atomic_load_explicit(&m->counts[i], memory_order_relaxed);
}

struct error *metric_histogram(struct metric *m, uint64_t *counts, size_t n_counts,
                               double *ret_sum) {
        if (m->family->kind != METRIC_HISTOGRAM)
                return not_supported(m, "Histogram");
        if (n_counts != m->n_bounds + 1)
                return error_new(ERR_INVALID_ARG, "the histogram '%s' has %zu buckets, not %zu",
                                 m->family->name, m->n_bounds + 1, n_counts);
        read_counts(m, counts);
        *ret_sum = atomic_load_explicit(&m->value, memory_order_relaxed);
        return NULL;
}

static void print_metric(const struct metric *m, struct strbuf *out) {
        double    value = atomic_load_explicit(&m->value, memory_order_relaxed);
        uint64_t *counts;

        if (m->family->kind != METRIC_HISTOGRAM) {
                prometheus_sample(out, m->family->name, m->labels_text, value);
                return;
        }
        counts = mem_alloc(
                (m->n_bounds + 1) *
                sizeof(*counts)); /* bounded: the metric already has an array of this size */
        read_counts(m, counts);
        prometheus_histogram(out, m->family->name, m->labels_text,
                             &(struct prometheus_histogram){ .bounds = m->bounds,
                                                             .counts = counts,
                                                             .n_bounds = m->n_bounds,
                                                             .sum = value });
        free(counts);
}

/* ---- families and registries ---------------------------------------------------------------- */

struct metric_registry *metric_registry_new(void) {
        struct metric_registry *r = mem_zalloc(sizeof(*r));

        mutex_init(&r->lock, LOCK_REGISTRY);
        map_init(&r->families);
        list_init(&r->collectors);
        return r;
}

void metric_registry_free(struct metric_registry *r) {
        if (r == NULL)
                return;
        assert(map_size(&r->families) == 0);
        assert(list_is_empty(&r->collectors));
        map_done(&r->families);
        mutex_done(&r->lock);
        free(r);
}

static struct metric_registry *process_registry;
static pthread_once_t          process_once = PTHREAD_ONCE_INIT;

static void make_process_registry(void) {
        process_registry = metric_registry_new();
}

struct metric_registry *metric_registry_process(void) {
        pthread_once(&process_once, make_process_registry);
        return process_registry;
}

static struct metric_family *family_new(struct metric_registry *r, enum metric_kind kind,
                                        const char *name, const char *help) {
        struct metric_family *f = mem_zalloc(sizeof(*f));

        f->registry = r;
        f->kind = kind;
        f->name = mem_strdup(name);
        f->help = mem_strdup(help);
        map_init(&f->metrics);
        return f;
}

struct error *metric_family_open(struct metric_registry *r, enum metric_kind kind, const char *name,
                                 const char *help, struct metric_family **ret) {
        struct metric_family *f;

        if (!prometheus_is_family_name(name))
                return error_new(ERR_INVALID_ARG, "invalid name of a metric family: '%s'", name);

        MUTEX_GUARD(&r->lock);
        f = map_find(&r->families, str_of(name));
        if (f == NULL) {
                f = family_new(r, kind, name, help);
                map_set(&r->families, str_of(name), f);
        } else if (f->kind != kind) {
                return error_new(ERR_INVALID_ARG,
                                 "metric family '%s' already exists with a different kind", name);
        }
        f->n_users++;
        *ret = f;
        return NULL;
}

struct error *metric_family_close(struct metric_family *f) {
        struct metric_registry *r;

        if (f == NULL)
                return NULL;
        r = f->registry;
        mutex_lock(&r->lock);
        if (f->n_users == 1 && map_size(&f->metrics) > 0) {
                mutex_unlock(&r->lock);
                return error_new(ERR_INTERNAL, "Must call MetricDelete on all dependent metrics "
                                               "before calling MetricFamilyDelete.");
        }
        if (--f->n_users > 0) {
                mutex_unlock(&r->lock);
                return NULL;
        }
        map_remove(&r->families, str_of(f->name));
        mutex_unlock(&r->lock);
        map_done(&f->metrics);
        free(f->name);
        free(f->help);
        free(f);
        return NULL;
}

enum metric_kind metric_family_kind(const struct metric_family *f) {
        return f->kind;
}

struct metric_collector *metric_collector_add(struct metric_registry *r, bool before_families,
                                              metric_collect_fn collect, void *owner) {
        struct metric_collector *c = mem_zalloc(sizeof(*c));

        c->collect = collect;
        c->owner = owner;
        c->before_families = before_families;
        MUTEX_GUARD(&r->lock);
        list_append(&r->collectors, &c->node);
        return c;
}

void metric_collector_remove(struct metric_registry *r, struct metric_collector *c) {
        if (c == NULL)
                return;
        mutex_lock(&r->lock);
        list_remove(&c->node);
        mutex_unlock(&r->lock);
        free(c);
}

static void print_family_locked(const struct metric_family *f, struct strbuf *out) {
        if (map_size(&f->metrics) == 0)
                return;
        prometheus_head(out, f->name, f->help, f->kind);
        MAP_FOR_EACH(&f->metrics, e)
                print_metric(e->value, out);
}

static void collect_locked(struct metric_registry *r, bool before_families, struct strbuf *out) {
        LIST_FOR_EACH(&r->collectors, node) {
                struct metric_collector *c = LIST_ENTRY(node, struct metric_collector, node);

                if (c->before_families == before_families)
                        c->collect(c->owner, out);
        }
}

static void print_page(struct metric_registry *r, bool wants_exemplars, struct strbuf *out) {
        MUTEX_GUARD(&r->lock);
        r->wants_exemplars = wants_exemplars;
        collect_locked(r, true, out);
        MAP_FOR_EACH(&r->families, e)
                print_family_locked(e->value, out);
        collect_locked(r, false, out);
}

void metric_registry_print(struct metric_registry *r, struct strbuf *out) {
        print_page(r, false, out);
}

void metric_registry_print_exemplars(struct metric_registry *r, struct strbuf *out) {
        print_page(r, true, out);
}

bool metric_registry_wants_exemplars(const struct metric_registry *r) {
        assert(mutex_is_held(&r->lock));
        return r->wants_exemplars;
}
