/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics of a program's own: families, counters, gauges and histograms, and how they are seen on the
 * page of a server.
 */
#include "api_assert.h"
#include "embedded.h"
#include "triton/core/tritonserver.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char                        root[64];
static struct TRITONSERVER_Server *server;

/* The lines of the page that begin with `name` or are about it; empty: none. */
static void assert_page(const char *name, const char *expected) {
        struct TRITONSERVER_Metrics *metrics;
        const char                  *base;
        char                         help[64];
        size_t                       n;
        const char                  *at;

        assert_ok(TRITONSERVER_ServerMetrics(server, &metrics));
        assert_ok(
                TRITONSERVER_MetricsFormatted(metrics, TRITONSERVER_METRIC_PROMETHEUS, &base, &n));
        snprintf(help, sizeof(help), "# HELP %s ", name);
        at = strstr(base, help);
        if (*expected == '\0')
                assert_null(at);
        else if (at == NULL || strncmp(at, expected, strlen(expected)) != 0)
                fail_msg("not on the page:\n%s\nbut:\n%s", expected, at != NULL ? at : base);
        assert_ok(TRITONSERVER_MetricsDelete(metrics));
}

static struct TRITONSERVER_MetricFamily *open_family(TRITONSERVER_MetricKind kind,
                                                     const char             *name) {
        struct TRITONSERVER_MetricFamily *family;

        assert_ok(TRITONSERVER_MetricFamilyNew(&family, kind, name, "what it is"));
        return family;
}

static struct TRITONSERVER_Metric *open_metric(struct TRITONSERVER_MetricFamily *family) {
        struct TRITONSERVER_Metric *metric;

        assert_ok(TRITONSERVER_MetricNew(&metric, family, NULL, 0));
        return metric;
}

static void assert_value(struct TRITONSERVER_Metric *metric, double expected) {
        double value = NAN;

        assert_ok(TRITONSERVER_MetricValue(metric, &value));
        assert_true(value == expected);
}

static void test_counter(void **state) {
        struct TRITONSERVER_MetricFamily *family =
                open_family(TRITONSERVER_METRIC_KIND_COUNTER, "own_total");
        struct TRITONSERVER_Metric *metric;
        TRITONSERVER_MetricKind     kind;

        (void)state;
        assert_page("own_total", ""); /* a family without metrics is not there */
        metric = open_metric(family);
        assert_ok(TRITONSERVER_GetMetricKind(metric, &kind));
        assert_int_equal(kind, TRITONSERVER_METRIC_KIND_COUNTER);
        assert_ok(TRITONSERVER_GetMetricFamilyKind(family, &kind));
        assert_int_equal(kind, TRITONSERVER_METRIC_KIND_COUNTER);
        assert_ok(TRITONSERVER_MetricIncrement(metric, 2));
        assert_ok(TRITONSERVER_MetricIncrement(metric, 0.5));
        assert_error(TRITONSERVER_MetricIncrement(metric, -1), TRITONSERVER_ERROR_INVALID_ARG,
                     "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by "
                     "non-negative values.");
        assert_error(TRITONSERVER_MetricSet(metric, 7), TRITONSERVER_ERROR_UNSUPPORTED,
                     "TRITONSERVER_METRIC_KIND_COUNTER does not support Set");
        assert_error(TRITONSERVER_MetricObserve(metric, 7), TRITONSERVER_ERROR_UNSUPPORTED,
                     "TRITONSERVER_METRIC_KIND_COUNTER does not support Observe");
        assert_value(metric, 2.5);
        assert_page("own_total", "# HELP own_total what it is\n# TYPE own_total counter\n"
                                 "own_total 2.5\n");
        assert_error(TRITONSERVER_MetricFamilyDelete(family), TRITONSERVER_ERROR_INTERNAL,
                     "Must call MetricDelete on all dependent metrics before calling "
                     "MetricFamilyDelete.");
        assert_value(metric, 2.5);
        assert_ok(TRITONSERVER_MetricDelete(metric));
        assert_page("own_total", "");
        assert_ok(TRITONSERVER_MetricFamilyDelete(family));
}

static void test_gauge(void **state) {
        struct TRITONSERVER_MetricFamily *family =
                open_family(TRITONSERVER_METRIC_KIND_GAUGE, "own_gauge");
        struct TRITONSERVER_Metric *metric = open_metric(family);

        (void)state;
        assert_ok(TRITONSERVER_MetricSet(metric, 4));
        assert_ok(TRITONSERVER_MetricIncrement(metric, -6.5));
        assert_value(metric, -2.5);
        assert_page("own_gauge", "# HELP own_gauge what it is\n# TYPE own_gauge gauge\n"
                                 "own_gauge -2.5\n");
        assert_error(TRITONSERVER_MetricObserve(metric, 7), TRITONSERVER_ERROR_UNSUPPORTED,
                     "TRITONSERVER_METRIC_KIND_GAUGE does not support Observe");
        assert_ok(TRITONSERVER_MetricDelete(metric));
        assert_ok(TRITONSERVER_MetricFamilyDelete(family));
}

static void test_histogram(void **state) {
        static const double               buckets[] = { 1, 2.5, 10 }, unsorted[] = { 2, 1 };
        struct TRITONSERVER_MetricFamily *family =
                open_family(TRITONSERVER_METRIC_KIND_HISTOGRAM, "own_seconds");
        struct TRITONSERVER_MetricArgs *args;
        struct TRITONSERVER_Metric     *metric = NULL;
        double                          value;

        (void)state;
        assert_error(
                TRITONSERVER_MetricNew(&metric, family, NULL, 0), TRITONSERVER_ERROR_INVALID_ARG,
                "metric family 'own_seconds': TRITONSERVER_METRIC_KIND_HISTOGRAM requires buckets");
        assert_ok(TRITONSERVER_MetricArgsNew(&args));
        assert_ok(TRITONSERVER_MetricArgsSetHistogram(args, unsorted, 2));
        assert_error(TRITONSERVER_MetricNewWithArgs(&metric, family, NULL, 0, args),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "metric family 'own_seconds': buckets must be in ascending order");
        assert_null(metric);
        assert_ok(TRITONSERVER_MetricArgsSetHistogram(args, buckets, 3)); /* instead */
        assert_ok(TRITONSERVER_MetricNewWithArgs(&metric, family, NULL, 0, args));
        assert_ok(TRITONSERVER_MetricArgsDelete(args)); /* was copied */
        for (int i = 0; i < 4; i++)
                assert_ok(TRITONSERVER_MetricObserve(metric, i * 2.5)); /* 0, 2.5, 5, 7.5 */
        assert_ok(TRITONSERVER_MetricObserve(metric, 11));
        assert_error(TRITONSERVER_MetricValue(metric, &value), TRITONSERVER_ERROR_UNSUPPORTED,
                     "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value");
        assert_error(TRITONSERVER_MetricIncrement(metric, 1), TRITONSERVER_ERROR_UNSUPPORTED,
                     "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment");
        assert_error(TRITONSERVER_MetricSet(metric, 1), TRITONSERVER_ERROR_UNSUPPORTED,
                     "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Set");
        assert_page("own_seconds", "# HELP own_seconds what it is\n# TYPE own_seconds histogram\n"
                                   "own_seconds_bucket{le=\"1\"} 1\n"
                                   "own_seconds_bucket{le=\"2.5\"} 2\n"
                                   "own_seconds_bucket{le=\"10\"} 4\n"
                                   "own_seconds_bucket{le=\"+Inf\"} 5\n"
                                   "own_seconds_sum 26\nown_seconds_count 5\n");
        assert_ok(TRITONSERVER_MetricDelete(metric));
        assert_ok(TRITONSERVER_MetricFamilyDelete(family));
}

static struct TRITONSERVER_Metric *open_labelled(struct TRITONSERVER_MetricFamily *family,
                                                 const char *zone, const char *area) {
        struct TRITONSERVER_Parameter *labels[] = {
                TRITONSERVER_ParameterNew("zone", TRITONSERVER_PARAMETER_STRING, zone),
                TRITONSERVER_ParameterNew("area", TRITONSERVER_PARAMETER_STRING, area),
        };
        struct TRITONSERVER_Metric *metric;

        assert_ok(TRITONSERVER_MetricNew(&metric, family,
                                         (const struct TRITONSERVER_Parameter **)labels, 2));
        TRITONSERVER_ParameterDelete(labels[0]);
        TRITONSERVER_ParameterDelete(labels[1]);
        return metric;
}

/* The same labels are the same metric, whoever asks for them. */
static void test_labels(void **state) {
        struct TRITONSERVER_MetricFamily *family =
                open_family(TRITONSERVER_METRIC_KIND_COUNTER, "own_total");
        struct TRITONSERVER_Metric    *one = open_labelled(family, "a", "b\"\n\\");
        struct TRITONSERVER_Metric    *same = open_labelled(family, "a", "b\"\n\\");
        struct TRITONSERVER_Metric    *other = open_labelled(family, "c", "d");
        struct TRITONSERVER_Metric    *bad = NULL;
        int64_t                        five = 5;
        struct TRITONSERVER_Parameter *number =
                TRITONSERVER_ParameterNew("zone", TRITONSERVER_PARAMETER_INT, &five);
        const struct TRITONSERVER_Parameter *labels[] = { number };

        (void)state;
        assert_ok(TRITONSERVER_MetricIncrement(one, 1));
        assert_ok(TRITONSERVER_MetricIncrement(same, 2));
        assert_value(one, 3);
        assert_page("own_total", "# HELP own_total what it is\n# TYPE own_total counter\n"
                                 "own_total{area=\"b\\\"\\n\\\\\",zone=\"a\"} 3\n"
                                 "own_total{area=\"d\",zone=\"c\"} 0\n");
        assert_ok(TRITONSERVER_MetricDelete(one));
        assert_value(same, 3);
        assert_error(TRITONSERVER_MetricNew(&bad, family, labels, 1),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "Parameter [zone] must have a type of TRITONSERVER_PARAMETER_STRING to be "
                     "added as a label.");
        labels[0] = NULL;
        assert_error(TRITONSERVER_MetricNew(&bad, family, labels, 1),
                     TRITONSERVER_ERROR_INVALID_ARG, "metric label 0 is NULL");
        TRITONSERVER_ParameterDelete(number);
        assert_ok(TRITONSERVER_MetricDelete(same));
        assert_ok(TRITONSERVER_MetricDelete(other));
        assert_ok(TRITONSERVER_MetricFamilyDelete(family));
}

static void test_families(void **state) {
        struct TRITONSERVER_MetricFamily *one =
                open_family(TRITONSERVER_METRIC_KIND_COUNTER, "own_total");
        struct TRITONSERVER_MetricFamily *same =
                open_family(TRITONSERVER_METRIC_KIND_COUNTER, "own_total");
        struct TRITONSERVER_MetricFamily *other = NULL;
        struct TRITONSERVER_Metric       *metric = open_metric(one);

        (void)state;
        assert_error(TRITONSERVER_MetricFamilyNew(&other, TRITONSERVER_METRIC_KIND_GAUGE,
                                                  "own_total", "what it is"),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "metric family 'own_total' already exists with a different kind");
        assert_error(TRITONSERVER_MetricFamilyNew(&other, TRITONSERVER_METRIC_KIND_COUNTER,
                                                  "own total", "what it is"),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "invalid name of a metric family: 'own total'");
        assert_ok(TRITONSERVER_MetricFamilyDelete(one));
        assert_ok(TRITONSERVER_MetricIncrement(metric, 1)); /* the other user keeps it */
        assert_page("own_total", "# HELP own_total what it is\n# TYPE own_total counter\n"
                                 "own_total 1\n");
        assert_ok(TRITONSERVER_MetricDelete(metric));
        assert_ok(TRITONSERVER_MetricFamilyDelete(same));
}

/* They would be on the page twice. Some are there only with GPUs, or with models of a kind. */
static void test_names_of_servers(void **state) {
        static const char *const names[] = {
                "nv_inference_count",
                "nv_inference_first_response_histogram_ms",
                "nv_model_load_duration_secs",
                "nv_cache_num_hits_per_model",
                "nv_cpu_utilization",
                "nv_pinned_memory_pool_used_bytes",
                "nv_gpu_utilization",
                "nv_gpu_memory_used_bytes",
                "nv_gpu_power_limit",
                "nv_energy_consumption",
                "neso_request_duration_seconds",
                "neso_request_split",
                "neso_batch_size",
                "neso_batch_dispatch_reason",
                "neso_executions_total",
                "neso_load_ratio",
                "neso_oldest_request_age_seconds",
                "neso_model_ready",
                "neso_sequences_active",
                "neso_sequence_slots",
                "neso_member_rows",
                "neso_virtual_instance_busy",
                "neso_chain_inflight",
                "neso_scheduler_errors",
                "neso_gpu_info",
                "neso_pinned_memory_pool_full_total",
                "neso_log_lines_lost_total",
                "neso_rejected_total",
                "neso_api_key_refused_total",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                struct TRITONSERVER_MetricFamily *family = NULL;
                char                              text[128];

                snprintf(text, sizeof(text), "metric family '%s' has a name of the server's own",
                         names[i]);
                assert_error(TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_GAUGE,
                                                          names[i], "what it is"),
                             TRITONSERVER_ERROR_INVALID_ARG, text);
        }
}

static int open_server(void **state) {
        (void)state;
        snprintf(root, sizeof(root), "/tmp/neso_metrics_XXXXXX");
        assert_non_null(mkdtemp(root));
        server = embedded_start(embedded_options(root, NULL));
        return 0;
}

static int close_server(void **state) {
        (void)state;
        assert_ok(TRITONSERVER_ServerDelete(server));
        return rmdir(root);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_counter),   cmocka_unit_test(test_gauge),
                cmocka_unit_test(test_histogram), cmocka_unit_test(test_labels),
                cmocka_unit_test(test_families),  cmocka_unit_test(test_names_of_servers),
        };

        return cmocka_run_group_tests(tests, open_server, close_server);
}
