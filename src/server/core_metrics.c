/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/core_metrics.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "observe/metric.h"
#include "observe/prometheus.h"
#include "repo/repo.h"
#include "server/gpu_metrics.h"

#include <stdio.h>

#define MAX_LIMIT_NAMES 64
#define MAX_KEY_SERIES 16384            /* four reasons for each of API_KEY_FILE_MAX_KEYS keys */
#define PROC_FILE_MAX ((size_t)4 << 20) /* one line per CPU, one with a number per interrupt */

struct cpu_times {
        uint64_t busy;
        uint64_t total;
};

struct core_metrics {
        struct metric_registry     *registry; /* borrowed from the server */
        struct metric_collector    *collector;
        struct metric_family       *rejected;    /* owned */
        struct metric_family       *key_refused; /* owned */
        struct core_metrics_options options;
        struct gpu_metrics         *gpus; /* owned */

        struct mutex lock;       /* rank LOCK_LEAF; guards the maps */
        struct map   limits;     /* struct metric, owned, by limit */
        struct map   key_series; /* struct metric, owned, by "<reason> <key>" */

        struct mutex  ready_lock; /* rank LOCK_METRIC; guards ready */
        struct strbuf ready;      /* the lines of neso_model_ready */

        /* Used by collect_metrics() only, which runs with the registry locked. */
        uint64_t         read_at_ns;
        struct cpu_times last;
        double           utilization;
        uint64_t         memory_total_bytes;
        uint64_t         memory_used_bytes;
};

/* The first line of /proc/stat: user nice system idle iowait irq softirq steal, in ticks. */
static bool read_cpu_times(struct cpu_times *ret) {
        AUTO_STRBUF        text = { .max = PROC_FILE_MAX };
        AUTO_ERROR         err = NULL;
        unsigned long long v[8] = { 0 };

        err = file_read("/proc/stat", PROC_FILE_MAX, &text);
        if (err != NULL || sscanf(strbuf_cstr(&text), "cpu %llu %llu %llu %llu %llu %llu %llu %llu",
                                  &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) < 4)
                return false;
        ret->total = 0;
        for (size_t i = 0; i < ARRAY_LEN(v); i++)
                ret->total += v[i];
        ret->busy = ret->total - v[3] - v[4];
        return true;
}

static uint64_t memory_field(const char *text, const char *name) {
        const char        *at = strstr(text, name);
        unsigned long long kib = 0;

        if (at == NULL || sscanf(at + strlen(name), " %llu", &kib) != 1)
                return 0;
        return kib * 1024;
}

/* In a container MemAvailable may be the machine's, and larger than MemTotal. */
void core_metrics_read_memory(const char *text, uint64_t *ret_total_bytes,
                              uint64_t *ret_used_bytes) {
        uint64_t total = memory_field(text, "MemTotal:");
        uint64_t available = memory_field(text, "MemAvailable:");

        *ret_total_bytes = total;
        *ret_used_bytes = total - MIN(available, total);
}

static void read_memory(struct core_metrics *m) {
        AUTO_STRBUF text = { .max = PROC_FILE_MAX };
        AUTO_ERROR  err = NULL;

        err = file_read("/proc/meminfo", PROC_FILE_MAX, &text);
        if (err != NULL)
                return;
        core_metrics_read_memory(strbuf_cstr(&text), &m->memory_total_bytes, &m->memory_used_bytes);
}

static void refresh_machine(struct core_metrics *m) {
        uint64_t         now_ns = clock_now_ns();
        struct cpu_times now;

        if (m->read_at_ns != 0 && now_ns - m->read_at_ns < m->options.interval_ms * NS_PER_MS)
                return;
        if (read_cpu_times(&now)) {
                /* The kernel may correct its times downwards (iowait does decrease): such an interval
                 * is skipped. */
                if (m->read_at_ns != 0 && now.total > m->last.total && now.busy >= m->last.busy)
                        m->utilization = MIN(1.0, (double)(now.busy - m->last.busy) /
                                                          (double)(now.total - m->last.total));
                m->last = now;
        }
        read_memory(m);
        m->read_at_ns = now_ns;
}

static void put_gauge(struct strbuf *out, const char *name, const char *help, double value) {
        prometheus_head(out, name, help, METRIC_GAUGE);
        prometheus_sample(out, name, "", value);
}

static void put_counter(struct strbuf *out, const char *name, const char *help, double value) {
        prometheus_head(out, name, help, METRIC_COUNTER);
        prometheus_sample(out, name, "", value);
}

static void collect_metrics(void *owner, struct strbuf *out) {
        struct core_metrics *m = owner;

        mutex_lock(&m->ready_lock);
        strbuf_put(out, strbuf_cstr(&m->ready), m->ready.len);
        strbuf_spoil(out, &m->ready);
        mutex_unlock(&m->ready_lock);
        put_counter(out, "neso_log_lines_lost_total",
                    "Lines of the log that were lost: not read in time, or refused by the disk",
                    (double)log_n_lost());
        gpu_metrics_print(m->gpus, out);
        if (!m->options.cpu)
                return;
        refresh_machine(m);
        put_gauge(out, "nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", m->utilization);
        put_gauge(out, "nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes",
                  (double)m->memory_total_bytes);
        put_gauge(out, "nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes",
                  (double)m->memory_used_bytes);
}

struct core_metrics *core_metrics_new(struct metric_registry            *r,
                                      const struct core_metrics_options *options) {
        struct core_metrics *m = mem_zalloc(sizeof(*m));

        m->registry = r;
        m->options = *options;
        m->gpus = gpu_metrics_new(&options->gpus);
        mutex_init(&m->lock, LOCK_LEAF);
        mutex_init(&m->ready_lock, LOCK_METRIC);
        map_init(&m->limits);
        map_init(&m->key_series);
        /* Cannot fail: name and text are valid constants. */
        error_free(metric_family_open(r, METRIC_COUNTER, "neso_rejected_total",
                                      "Requests and connections refused because of a limit",
                                      &m->rejected));
        error_free(metric_family_open(r, METRIC_COUNTER, "neso_api_key_refused_total",
                                      "Requests refused because of their API key",
                                      &m->key_refused));
        m->collector = metric_collector_add(r, false, collect_metrics, m);
        return m;
}

static void free_metrics(struct map *metrics) {
        MAP_FOR_EACH(metrics, e)
                metric_free(e->value);
        map_done(metrics);
}

void core_metrics_free(struct core_metrics *m) {
        metric_collector_remove(m->registry, m->collector);
        gpu_metrics_free(m->gpus);
        free_metrics(&m->limits);
        free_metrics(&m->key_series);
        error_free(metric_family_close(m->rejected));
        error_free(metric_family_close(m->key_refused));
        mutex_done(&m->ready_lock);
        strbuf_done(&m->ready);
        mutex_done(&m->lock);
        free(m);
}

void core_metrics_measure(struct core_metrics *m, struct repo *repo) {
        struct strbuf lines = { 0 }, old;

        gpu_metrics_measure(m->gpus);
        repo_print_ready(repo, &lines);
        mutex_lock(&m->ready_lock);
        old = m->ready;
        m->ready = lines;
        mutex_unlock(&m->ready_lock);
        strbuf_done(&old);
}

void core_metrics_print_gpus(struct core_metrics *m, struct strbuf *out) {
        gpu_metrics_measure(m->gpus);
        gpu_metrics_print_json(m->gpus, out);
}

struct error *core_metrics_count_rejected(struct core_metrics *m, const char *limit) {
        struct metric_label label = { "limit", limit };
        struct metric      *metric;

        MUTEX_GUARD(&m->lock);
        metric = map_find(&m->limits, str_of(limit));
        if (metric == NULL) {
                if (map_size(&m->limits) >= MAX_LIMIT_NAMES)
                        return error_new(ERR_INVALID_ARG, "more than %d names of limits",
                                         MAX_LIMIT_NAMES);
                TRY(metric_new(m->rejected, &label, 1, NULL, 0, &metric));
                map_set(&m->limits, str_of(limit), metric);
        }
        return metric_increment(metric, 1);
}

struct error *core_metrics_count_key_refused(struct core_metrics *m, const char *key,
                                             const char *reason) {
        const struct metric_label labels[] = { { "key", key }, { "reason", reason } };
        AUTO_CHARS                series = mem_printf("%s %s", reason, key);
        struct metric            *metric;

        MUTEX_GUARD(&m->lock);
        metric = map_find(&m->key_series, str_of(series));
        if (metric == NULL) {
                if (map_size(&m->key_series) >= MAX_KEY_SERIES)
                        return error_new(ERR_INVALID_ARG, "more than %d refusals of keys to count",
                                         MAX_KEY_SERIES);
                TRY(metric_new(m->key_refused, labels, ARRAY_LEN(labels), NULL, 0, &metric));
                map_set(&m->key_series, str_of(series), metric);
        }
        return metric_increment(metric, 1);
}
