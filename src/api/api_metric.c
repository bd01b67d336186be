/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of metrics and metric families. */
#include "api/api_types.h"
#include "base/mem.h"
#include "base/str.h"
#include "observe/metric.h"
#include "observe/openmetrics.h"
#include "server/server.h"
#include "triton/core/neso.h"

#include <string.h>

DEFINE_API_TYPE(TRITONSERVER_Server, server)
/* All metrics of a server, printed once. */
struct metrics {
        TRITONSERVER_MetricFormat format;
        struct strbuf             text;
};
DEFINE_API_TYPE(TRITONSERVER_Metrics, metrics)
DEFINE_API_TYPE(TRITONSERVER_MetricFamily, metric_family)
DEFINE_API_TYPE(TRITONSERVER_Metric, metric)

/* The arguments of a metric: buckets of a histogram. */
struct metric_args {
        bool    is_histogram;
        double *buckets; /* owned */
        size_t  n_buckets;
};
DEFINE_API_TYPE(TRITONSERVER_MetricArgs, metric_args)

static void print_text(struct server *s, struct strbuf *out) {
        metric_registry_print(s->metrics, out);
        metric_registry_print(metric_registry_process(), out);
}

static void print_openmetrics(struct server *s, struct strbuf *out) {
        AUTO_STRBUF page = { 0 };

        metric_registry_print_exemplars(s->metrics, &page);
        metric_registry_print_exemplars(metric_registry_process(), &page);
        openmetrics_convert(strbuf_str(&page), out);
        openmetrics_end(out);
        strbuf_spoil(out, &page);
}

static struct error *make_metrics(struct server *s, TRITONSERVER_MetricFormat format,
                                  struct metrics **ret) {
        struct metrics *m = mem_zalloc(sizeof(*m));
        struct error   *err;

        m->format = format;
        server_measure(s);
        if (format == NESO_METRIC_OPENMETRICS)
                print_openmetrics(s, &m->text);
        else
                print_text(s, &m->text);
        err = strbuf_check(&m->text, "the metrics");
        if (err != NULL) {
                strbuf_done(&m->text);
                free(m);
                return err;
        }
        *ret = m;
        return NULL;
}

struct TRITONSERVER_Error *NESO_ServerMetrics(struct TRITONSERVER_Server   *server,
                                              TRITONSERVER_MetricFormat     format,
                                              struct TRITONSERVER_Metrics **metrics) {
        struct metrics *m;

        API_NEEDS(server, metrics);
        if (format != TRITONSERVER_METRIC_PROMETHEUS && format != NESO_METRIC_OPENMETRICS)
                return error_to_api(api_bad_value(__func__, "metric format", format));
        API_TRY(make_metrics(server_from_api(server), format, &m));
        *metrics = metrics_to_api(m);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerMetrics(struct TRITONSERVER_Server   *server,
                                                      struct TRITONSERVER_Metrics **metrics) {
        struct metrics *m;

        API_NEEDS(server, metrics);
        API_TRY(make_metrics(server_from_api(server), TRITONSERVER_METRIC_PROMETHEUS, &m));
        *metrics = metrics_to_api(m);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MetricsDelete(struct TRITONSERVER_Metrics *metrics) {
        struct metrics *m = metrics_from_api(metrics);

        if (m != NULL)
                strbuf_done(&m->text);
        free(m);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MetricsFormatted(struct TRITONSERVER_Metrics *metrics,
                                                         TRITONSERVER_MetricFormat    format,
                                                         const char **base, size_t *byte_size) {
        const struct metrics *m = metrics_from_api(metrics);

        API_NEEDS(metrics, base, byte_size);
        if (format != m->format)
                return error_to_api(api_bad_value(__func__, "metric format", format));
        *base = strbuf_cstr(&m->text);
        *byte_size = m->text.len;
        return NULL;
}

/* Prefixes of the metrics that servers print themselves. A scraper rejects a whole page on which a
 * family occurs twice. */
static bool is_of_servers(const char *name) {
        static const char *const begins[] = {
                "nv_inference_",
                "nv_model_load_",
                "nv_pinned_memory_pool_",
                "nv_cpu_",
                "nv_cache_num_hits_",
                "nv_cache_num_misses_",
                "nv_cache_hit_",
                "nv_cache_miss_",
                "nv_gpu_utilization",
                "nv_gpu_memory_",
                "nv_gpu_power_",
                "nv_energy_consumption",
                "neso_request_",
                "neso_queue_",
                "neso_compute_",
                "neso_batch_size",
                "neso_batch_dispatch_",
                "neso_executions_",
                "neso_rejected_",
                "neso_api_key_",
                "neso_load_ratio",
                "neso_oldest_",
                "neso_model_ready",
                "neso_sequence",
                "neso_member_",
                "neso_virtual_instance_",
                "neso_chain_",
                "neso_scheduler_",
                "neso_gpu_",
                "neso_pinned_memory_pool_",
                "neso_log_lines_",
        };

        for (size_t i = 0; i < ARRAY_LEN(begins); i++)
                if (str_starts(str_of(name), str_of(begins[i])))
                        return true;
        return false;
}

struct TRITONSERVER_Error *TRITONSERVER_MetricFamilyNew(struct TRITONSERVER_MetricFamily **family,
                                                        const TRITONSERVER_MetricKind      kind,
                                                        const char *name, const char *description) {
        struct metric_family *f;

        API_NEEDS(family, name, description);
        if ((int)kind < METRIC_COUNTER || (int)kind > METRIC_HISTOGRAM)
                return error_to_api(api_bad_value(__func__, "metric kind", kind));
        if (is_of_servers(name))
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "metric family '%s' has a name of the server's own",
                                              name));
        API_TRY(metric_family_open(metric_registry_process(), (enum metric_kind)kind, name,
                                   description, &f));
        *family = metric_family_to_api(f);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MetricFamilyDelete(
        struct TRITONSERVER_MetricFamily *family) {
        API_NEEDS(family);
        return error_to_api(metric_family_close(metric_family_from_api(family)));
}

API_GETTER(TRITONSERVER_GetMetricFamilyKind, struct TRITONSERVER_MetricFamily, family,
           TRITONSERVER_MetricKind, kind,
           (TRITONSERVER_MetricKind)metric_family_kind(metric_family_from_api(family)))

struct TRITONSERVER_Error *TRITONSERVER_MetricArgsNew(struct TRITONSERVER_MetricArgs **args) {
        API_NEEDS(args);
        *args = metric_args_to_api(mem_zalloc(sizeof(struct metric_args)));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MetricArgsSetHistogram(struct TRITONSERVER_MetricArgs *args,
                                                               const double  *buckets,
                                                               const uint64_t buckets_count) {
        struct metric_args *a = metric_args_from_api(args);
        double             *copy;
        size_t              bytes;

        API_NEEDS(args);
        if (buckets_count > 0)
                API_NEEDS(buckets);
        if (!size_mul(buckets_count, sizeof(*copy), &bytes) || (copy = try_alloc(bytes)) == NULL)
                return error_to_api(error_new(ERR_UNAVAILABLE, "out of memory for buckets"));
        if (bytes > 0)
                memcpy(copy, buckets, bytes);
        free(a->buckets);
        *a = (struct metric_args){ .is_histogram = true,
                                   .buckets = copy,
                                   .n_buckets = (size_t)buckets_count };
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MetricArgsDelete(struct TRITONSERVER_MetricArgs *args) {
        struct metric_args *a = metric_args_from_api(args);

        if (a != NULL)
                free(a->buckets);
        free(a);
        return NULL;
}

/* Reads labels from parameters; only strings can be labels. */
static struct error *read_labels(const struct TRITONSERVER_Parameter **parameters, uint64_t n,
                                 struct metric_label *ret) {
        for (uint64_t i = 0; i < n; i++) {
                const struct parameter *p =
                        parameter_from_api((struct TRITONSERVER_Parameter *)parameters[i]);

                if (p == NULL)
                        return error_new(ERR_INVALID_ARG, "metric label %llu is NULL",
                                         (unsigned long long)i);
                if (p->type != PARAMETER_STRING)
                        return error_new(ERR_INVALID_ARG,
                                         "Parameter [%s] must have a type of "
                                         "TRITONSERVER_PARAMETER_STRING to be added as a label.",
                                         p->name);
                ret[i] = (struct metric_label){ p->name, p->string };
        }
        return NULL;
}

#define MAX_LABELS 256

struct TRITONSERVER_Error *TRITONSERVER_MetricNewWithArgs(
        struct TRITONSERVER_Metric **metric, struct TRITONSERVER_MetricFamily *family,
        const struct TRITONSERVER_Parameter **labels, const uint64_t label_count,
        const struct TRITONSERVER_MetricArgs *args) {
        const struct metric_args *a = metric_args_from_api((struct TRITONSERVER_MetricArgs *)args);
        struct metric_label      *copies;
        struct metric            *m = NULL;
        struct error             *err;

        API_NEEDS(metric, family);
        if (label_count > 0)
                API_NEEDS(labels);
        if (label_count > MAX_LABELS)
                return error_to_api(
                        error_new(ERR_INVALID_ARG, "a metric has at most %d labels", MAX_LABELS));
        copies = mem_zalloc((size_t)(label_count + 1) * sizeof(*copies));
        err = read_labels(labels, label_count, copies);
        if (err == NULL)
                err = metric_new(metric_family_from_api(family), copies, (size_t)label_count,
                                 a != NULL ? a->buckets : NULL, a != NULL ? a->n_buckets : 0, &m);
        free(copies);
        API_TRY(err);
        *metric = metric_to_api(m);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MetricNew(struct TRITONSERVER_Metric          **metric,
                                                  struct TRITONSERVER_MetricFamily     *family,
                                                  const struct TRITONSERVER_Parameter **labels,
                                                  const uint64_t label_count) {
        return TRITONSERVER_MetricNewWithArgs(metric, family, labels, label_count, NULL);
}

struct TRITONSERVER_Error *TRITONSERVER_MetricDelete(struct TRITONSERVER_Metric *metric) {
        API_NEEDS(metric);
        metric_free(metric_from_api(metric));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MetricValue(struct TRITONSERVER_Metric *metric,
                                                    double                     *value) {
        API_NEEDS(metric, value);
        return error_to_api(metric_value(metric_from_api(metric), value));
}

struct TRITONSERVER_Error *TRITONSERVER_MetricIncrement(struct TRITONSERVER_Metric *metric,
                                                        double                      value) {
        API_NEEDS(metric);
        return error_to_api(metric_increment(metric_from_api(metric), value));
}

struct TRITONSERVER_Error *TRITONSERVER_MetricSet(struct TRITONSERVER_Metric *metric,
                                                  double                      value) {
        API_NEEDS(metric);
        return error_to_api(metric_set(metric_from_api(metric), value));
}

struct TRITONSERVER_Error *TRITONSERVER_MetricObserve(struct TRITONSERVER_Metric *metric,
                                                      double                      value) {
        API_NEEDS(metric);
        return error_to_api(metric_observe(metric_from_api(metric), value));
}

struct TRITONSERVER_Error *NESO_MetricHistogram(struct TRITONSERVER_Metric *metric,
                                                uint64_t *counts, uint64_t n_counts, double *sum) {
        API_NEEDS(metric, counts, sum);
        return error_to_api(
                metric_histogram(metric_from_api(metric), counts, (size_t)n_counts, sum));
}

API_GETTER(TRITONSERVER_GetMetricKind, struct TRITONSERVER_Metric, metric, TRITONSERVER_MetricKind,
           kind, (TRITONSERVER_MetricKind)metric_kind(metric_from_api(metric)))
