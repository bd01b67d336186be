/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "observe/model_stats.h"

#include <string.h>

static struct metric_registry *registry;
static struct model_metrics   *metrics;

static void open_metrics(struct model_metrics_options options) {
        registry = metric_registry_new();
        metrics = model_metrics_new(registry, &options);
}

static void close_metrics(void) {
        model_metrics_free(metrics);
        metric_registry_free(registry);
}

static struct model_stats *open_model(const char *name, int64_t version) {
        return model_stats_new(metrics,
                               &(struct model_stats_options){ .model = name, .version = version });
}

static void print(struct strbuf *ret) {
        strbuf_init(ret, 0);
        metric_registry_print(registry, ret);
        assert_false(ret->overflowed);
}

static void expect_text(const char *text) {
        AUTO_STRBUF out;

        print(&out);
        assert_string_equal(strbuf_cstr(&out), text);
}

/* The text has the part, or (present false) has not. */
static void expect_part(const char *part, bool present) {
        AUTO_STRBUF out;

        print(&out);
        if ((strstr(strbuf_cstr(&out), part) != NULL) != present)
                fail_msg("%s '%s' in:\n%s", present ? "no" : "there is", part, strbuf_cstr(&out));
}

/* What test_whole_text_of_one_model() prints. */
static const char whole_text[] =
        "# HELP nv_inference_request_success Number of successful inference requests, all "
        "batch sizes\n"
        "# TYPE nv_inference_request_success counter\n"
        "nv_inference_request_success{model=\"w\",version=\"1\"} 2\n"
        "# HELP nv_inference_request_failure Number of failed inference requests, all batch "
        "sizes\n"
        "# TYPE nv_inference_request_failure counter\n"
        "nv_inference_request_failure{model=\"w\",reason=\"OTHER\",version=\"1\"} 0\n"
        "nv_inference_request_failure{model=\"w\",reason=\"BACKEND\",version=\"1\"} 0\n"
        "nv_inference_request_failure{model=\"w\",reason=\"CANCELED\",version=\"1\"} 1\n"
        "nv_inference_request_failure{model=\"w\",reason=\"REJECTED\",version=\"1\"} 2\n"
        "# HELP nv_inference_count Number of inferences performed (does not include cached "
        "requests)\n"
        "# TYPE nv_inference_count counter\n"
        "nv_inference_count{model=\"w\",version=\"1\"} 4\n"
        "# HELP nv_inference_exec_count Number of model executions performed (does not include "
        "cached requests)\n"
        "# TYPE nv_inference_exec_count counter\n"
        "nv_inference_exec_count{model=\"w\",version=\"1\"} 3\n"
        "# HELP nv_inference_request_duration_us Cumulative inference request duration in "
        "microseconds (includes cached requests)\n"
        "# TYPE nv_inference_request_duration_us counter\n"
        "nv_inference_request_duration_us{model=\"w\",version=\"1\"} 12000000\n"
        "# HELP nv_inference_queue_duration_us Cumulative inference queuing duration in "
        "microseconds (includes cached requests)\n"
        "# TYPE nv_inference_queue_duration_us counter\n"
        "nv_inference_queue_duration_us{model=\"w\",version=\"1\"} 10\n"
        "# HELP nv_inference_compute_input_duration_us Cumulative compute input duration in "
        "microseconds (does not include cached requests)\n"
        "# TYPE nv_inference_compute_input_duration_us counter\n"
        "nv_inference_compute_input_duration_us{model=\"w\",version=\"1\"} 10\n"
        "# HELP nv_inference_compute_infer_duration_us Cumulative compute inference duration "
        "in microseconds (does not include cached requests)\n"
        "# TYPE nv_inference_compute_infer_duration_us counter\n"
        "nv_inference_compute_infer_duration_us{model=\"w\",version=\"1\"} 20000\n"
        "# HELP nv_inference_compute_output_duration_us Cumulative inference compute output "
        "duration in microseconds (does not include cached requests)\n"
        "# TYPE nv_inference_compute_output_duration_us counter\n"
        "nv_inference_compute_output_duration_us{model=\"w\",version=\"1\"} 0\n"
        "# HELP nv_inference_pending_request_count Instantaneous number of pending requests "
        "awaiting execution per-model.\n"
        "# TYPE nv_inference_pending_request_count gauge\n"
        "nv_inference_pending_request_count{model=\"w\",version=\"1\"} 2\n"
        "# HELP nv_model_load_duration_secs Model load time in seconds\n"
        "# TYPE nv_model_load_duration_secs gauge\n"
        "nv_model_load_duration_secs{model=\"w\",version=\"1\"} 0.001726159\n"
        "# HELP neso_request_duration_seconds Time from the start to the end of a successful "
        "request\n"
        "# TYPE neso_request_duration_seconds histogram\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"1e-05\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"2e-05\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"4e-05\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"8e-05\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00016\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00032\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00064\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00128\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00256\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00512\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.01024\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.02048\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.04096\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.08192\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.16384\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.32768\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.65536\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"1.31072\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"2.62144\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"5.24288\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"10.48576\"} 1\n"
        "neso_request_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"+Inf\"} 2\n"
        "neso_request_duration_seconds_sum{model=\"w\",version=\"1\"} 12\n"
        "neso_request_duration_seconds_count{model=\"w\",version=\"1\"} 2\n"
        "# HELP neso_queue_duration_seconds Time that a successful request waited for its "
        "execution\n"
        "# TYPE neso_queue_duration_seconds histogram\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"1e-05\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"2e-05\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"4e-05\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"8e-05\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00016\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00032\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00064\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00128\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00256\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00512\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.01024\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.02048\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.04096\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.08192\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.16384\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.32768\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.65536\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"1.31072\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"2.62144\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"5.24288\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"10.48576\"} 2\n"
        "neso_queue_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"+Inf\"} 2\n"
        "neso_queue_duration_seconds_sum{model=\"w\",version=\"1\"} 1e-05\n"
        "neso_queue_duration_seconds_count{model=\"w\",version=\"1\"} 2\n"
        "# HELP neso_compute_input_duration_seconds Time that the backend took to prepare the "
        "inputs of a request\n"
        "# TYPE neso_compute_input_duration_seconds histogram\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"1e-05\"} 1\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"2e-05\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"4e-05\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"8e-05\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00016\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00032\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00064\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00128\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00256\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00512\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.01024\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.02048\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.04096\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.08192\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.16384\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.32768\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.65536\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"1.31072\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"2.62144\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"5.24288\"} 2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"10.48576\"} "
        "2\n"
        "neso_compute_input_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"+Inf\"} 2\n"
        "neso_compute_input_duration_seconds_sum{model=\"w\",version=\"1\"} 1.0001e-05\n"
        "neso_compute_input_duration_seconds_count{model=\"w\",version=\"1\"} 2\n"
        "# HELP neso_compute_infer_duration_seconds Time that the backend took to compute the "
        "outputs of a request\n"
        "# TYPE neso_compute_infer_duration_seconds histogram\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"1e-05\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"2e-05\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"4e-05\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"8e-05\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00016\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00032\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00064\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00128\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00256\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00512\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.01024\"} 1\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.02048\"} 2\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.04096\"} 2\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.08192\"} 2\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.16384\"} 2\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.32768\"} 2\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.65536\"} 2\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"1.31072\"} 2\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"2.62144\"} 2\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"5.24288\"} 2\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"10.48576\"} "
        "2\n"
        "neso_compute_infer_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"+Inf\"} 2\n"
        "neso_compute_infer_duration_seconds_sum{model=\"w\",version=\"1\"} 0.02\n"
        "neso_compute_infer_duration_seconds_count{model=\"w\",version=\"1\"} 2\n"
        "# HELP neso_compute_output_duration_seconds Time that the backend took to deliver the "
        "outputs of a request\n"
        "# TYPE neso_compute_output_duration_seconds histogram\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"1e-05\"} 2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"2e-05\"} 2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"4e-05\"} 2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"8e-05\"} 2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00016\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00032\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00064\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00128\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00256\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.00512\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.01024\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.02048\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.04096\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.08192\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.16384\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.32768\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"0.65536\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"1.31072\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"2.62144\"} "
        "2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"5.24288\"} "
        "2\n"
        ""
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"10.48576\"} 2\n"
        "neso_compute_output_duration_seconds_bucket{model=\"w\",version=\"1\",le=\"+Inf\"} 2\n"
        "neso_compute_output_duration_seconds_sum{model=\"w\",version=\"1\"} 9e-07\n"
        "neso_compute_output_duration_seconds_count{model=\"w\",version=\"1\"} 2\n"
        "# HELP neso_batch_size Inferences in an execution of a model\n"
        "# TYPE neso_batch_size histogram\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"1\"} 1\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"2\"} 1\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"4\"} 2\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"8\"} 2\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"16\"} 2\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"32\"} 2\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"64\"} 2\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"128\"} 2\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"256\"} 2\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"512\"} 2\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"1024\"} 2\n"
        "neso_batch_size_bucket{model=\"w\",version=\"1\",le=\"+Inf\"} 3\n"
        "neso_batch_size_sum{model=\"w\",version=\"1\"} 2004\n"
        "neso_batch_size_count{model=\"w\",version=\"1\"} 3\n"
        "# HELP neso_executions_total Executions on the submitting thread (inline) or after a "
        "hop (queued)\n"
        "# TYPE neso_executions_total counter\n"
        "neso_executions_total{model=\"w\",path=\"inline\",version=\"1\"} 1\n"
        "neso_executions_total{model=\"w\",path=\"queued\",version=\"1\"} 2\n";

static void test_whole_text_of_one_model(void **state) {
        static const struct request_times times = {
                .request_start_ns = 1000000,
                .queue_start_ns = 1001000,
                .exec_start_ns = 1011000,      /* queue: 10 us, the end of the first bucket */
                .compute_start_ns = 1021001,   /* input: 10.001 us */
                .compute_end_ns = 21021001,    /* infer: 20 ms */
                .exec_end_ns = 21021901,       /* output: 0.9 us */
                .request_end_ns = 12001000000, /* request: 12 s, beyond the last bucket */
        };
        static const struct request_times fast = { 0 };
        struct model_stats               *s;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = true });
        s = open_model("w", 1);
        expect_text("");
        model_stats_show(s, 0.001726159);
        model_stats_success(s, &times, 3);
        model_stats_success(s, &fast, 1);
        model_stats_execution(s, 3, &times);
        model_stats_execution(s, 1, &times);
        model_stats_execution(s, 2000, &times);
        model_stats_failure(s, FAILURE_CANCELED, 5);
        model_stats_failure(s, FAILURE_REJECTED, 5);
        model_stats_failure(s, FAILURE_REJECTED, 5);
        model_stats_pending(s, 3);
        model_stats_pending(s, -1);
        model_stats_path(s, true);
        model_stats_path(s, false);
        model_stats_path(s, false);
        expect_text(whole_text);
        model_stats_hide(s);
        expect_text("");
        model_stats_free(s);
        close_metrics();
}

static void test_order_of_models(void **state) {
        struct model_stats *b, *a;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = true });
        b = open_model("b", 2);
        a = open_model("a", 1);
        model_stats_show(b, 1);
        model_stats_show(a, 2.5);
        expect_part("# TYPE nv_model_load_duration_secs gauge\n"
                    "nv_model_load_duration_secs{model=\"b\",version=\"2\"} 1\n"
                    "nv_model_load_duration_secs{model=\"a\",version=\"1\"} 2.5\n"
                    "# HELP ",
                    true);
        model_stats_show(b, 4); /* shown already: only its load time changes */
        expect_part("nv_model_load_duration_secs{model=\"b\",version=\"2\"} 4\n"
                    "nv_model_load_duration_secs{model=\"a\",version=\"1\"} 2.5\n",
                    true);
        model_stats_free(b); /* hides it */
        expect_part("model=\"b\"", false);
        expect_part("nv_model_load_duration_secs{model=\"a\",version=\"1\"} 2.5\n", true);
        model_stats_hide(a);
        model_stats_hide(a);
        model_stats_free(a);
        close_metrics();
}

static void test_reloaded_version_is_printed_once(void **state) {
        struct model_stats *before, *after;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = true });
        before = open_model("m", 1);
        after = open_model("m", 1);
        model_stats_show(before, 1);
        model_stats_show(after, 2);
        expect_part("gauge\nnv_model_load_duration_secs{model=\"m\",version=\"1\"} 2\n# HELP ",
                    true);
        model_stats_hide(after); /* its load failed: the old one is still there */
        expect_part("gauge\nnv_model_load_duration_secs{model=\"m\",version=\"1\"} 1\n# HELP ",
                    true);
        model_stats_free(before);
        model_stats_free(after);
        close_metrics();
}

static void test_tags_are_labels(void **state) {
        const struct metric_label tags[] = {
                { "zone", "a \"quoted\" \\ tag" },
                { "app-name", "first" },
                { "app-name", "last" },
        };
        struct model_stats *s;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = true });
        s = model_stats_new(metrics,
                            &(struct model_stats_options){
                                    .model = "m", .version = 1, .tags = tags, .n_tags = 3 });
        model_stats_show(s, 1);
        expect_part("\nnv_inference_request_failure{_app_name=\"last\","
                    "_zone=\"a \\\"quoted\\\" \\\\ tag\",model=\"m\",reason=\"OTHER\","
                    "version=\"1\"} 0\n",
                    true);
        expect_part("\nneso_batch_size_bucket{_app_name=\"last\","
                    "_zone=\"a \\\"quoted\\\" \\\\ tag\",model=\"m\",version=\"1\",le=\"1\"} 0\n",
                    true);
        model_stats_free(s);
        close_metrics();
}

static void test_cache_families(void **state) {
        static const struct request_times times = { .request_end_ns = 1 };
        struct model_stats               *plain, *cached;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = true });
        plain = open_model("plain", 1);
        model_stats_show(plain, 1);
        expect_part("nv_cache", false);
        cached = model_stats_new(metrics, &(struct model_stats_options){
                                                  .model = "c", .version = 1, .has_cache = true });
        model_stats_show(cached, 1);
        model_stats_cache_hit(cached, &times, 2500);
        model_stats_cache_miss(cached, 7000);
        model_stats_cache_miss(cached, 999);
        expect_part("# HELP nv_cache_num_hits_per_model Number of cache hits per model\n"
                    "# TYPE nv_cache_num_hits_per_model counter\n"
                    "nv_cache_num_hits_per_model{model=\"c\",version=\"1\"} 1\n"
                    "# HELP nv_cache_num_misses_per_model Number of cache misses per model\n"
                    "# TYPE nv_cache_num_misses_per_model counter\n"
                    "nv_cache_num_misses_per_model{model=\"c\",version=\"1\"} 2\n"
                    "# HELP nv_cache_hit_duration_per_model Total cache hit duration per model, "
                    "in microseconds\n"
                    "# TYPE nv_cache_hit_duration_per_model counter\n"
                    "nv_cache_hit_duration_per_model{model=\"c\",version=\"1\"} 2\n"
                    "# HELP nv_cache_miss_duration_per_model Total cache miss duration per model, "
                    "in microseconds\n"
                    "# TYPE nv_cache_miss_duration_per_model counter\n"
                    "nv_cache_miss_duration_per_model{model=\"c\",version=\"1\"} 7\n"
                    "# HELP nv_inference_pending_request_count ",
                    true);
        model_stats_free(plain);
        model_stats_free(cached);
        close_metrics();
}

/* As in the reference server: a series for each GPU, and one without the label for what no instance counts, such
 * as answers of the cache. Statistics and histograms are of all of them. */
static void test_a_series_for_each_gpu(void **state) {
        static const struct stats_gpu     gpus[] = { { 0, "GPU-a" }, { 3, "GPU-b" } };
        static const struct request_times times = { .exec_start_ns = 1000,
                                                    .compute_start_ns = 3000,
                                                    .compute_end_ns = 6000,
                                                    .exec_end_ns = 10000,
                                                    .request_end_ns = 10000 };
        struct model_stats_snapshot       snapshot;
        struct model_stats               *s;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = true });
        s = model_stats_new(metrics, &(struct model_stats_options){ .model = "m",
                                                                    .version = 1,
                                                                    .gpus = gpus,
                                                                    .n_gpus = 2,
                                                                    .has_cache = true });
        assert_ptr_equal(model_stats_series(s, -1), model_stats_series(s, 1));
        stats_series_success(model_stats_series(s, 0), &times, 2);
        stats_series_success(model_stats_series(s, 3), &times, 3);
        stats_series_success(model_stats_series(s, 3), &times, 4);
        stats_series_execution(model_stats_series(s, 0), 2, &times);
        stats_series_execution(model_stats_series(s, 3), 7, &times);
        stats_series_failure(model_stats_series(s, 3), FAILURE_BACKEND, 5);
        model_stats_cache_hit(s, &times, 2000);
        model_stats_failure(s, FAILURE_REJECTED, 5);
        model_stats_show(s, 1);
        expect_part("\nnv_inference_request_success{model=\"m\",version=\"1\"} 1\n"
                    "nv_inference_request_success{gpu_uuid=\"GPU-a\",model=\"m\",version=\"1\"} 1\n"
                    "nv_inference_request_success{gpu_uuid=\"GPU-b\",model=\"m\",version=\"1\"} 2\n"
                    "# HELP ",
                    true);
        expect_part("\nnv_inference_count{model=\"m\",version=\"1\"} 0\n"
                    "nv_inference_count{gpu_uuid=\"GPU-a\",model=\"m\",version=\"1\"} 2\n"
                    "nv_inference_count{gpu_uuid=\"GPU-b\",model=\"m\",version=\"1\"} 7\n",
                    true);
        expect_part("\nnv_inference_exec_count{gpu_uuid=\"GPU-b\",model=\"m\",version=\"1\"} 1\n",
                    true);
        expect_part("\nnv_inference_compute_infer_duration_us{model=\"m\",version=\"1\"} 0\n"
                    "nv_inference_compute_infer_duration_us{gpu_uuid=\"GPU-a\",model=\"m\","
                    "version=\"1\"} 3\n"
                    "nv_inference_compute_infer_duration_us{gpu_uuid=\"GPU-b\",model=\"m\","
                    "version=\"1\"} 6\n",
                    true);
        expect_part(
                "\nnv_inference_request_failure{model=\"m\",reason=\"REJECTED\",version=\"1\"} 1\n",
                true);
        expect_part("\nnv_inference_request_failure{gpu_uuid=\"GPU-b\",model=\"m\","
                    "reason=\"BACKEND\",version=\"1\"} 1\n",
                    true);
        expect_part("\nnv_cache_num_hits_per_model{model=\"m\",version=\"1\"} 1\n# HELP", true);
        expect_part("\nneso_request_duration_seconds_count{model=\"m\",version=\"1\"} 4\n# HELP",
                    true);
        model_stats_read(s, &snapshot);
        assert_int_equal(snapshot.inference_count, 9);
        assert_int_equal(snapshot.execution_count, 2);
        assert_int_equal(snapshot.success.count, 4);
        assert_int_equal(snapshot.fail.count, 2);
        assert_int_equal(snapshot.n_batches, 2);
        model_stats_snapshot_done(&snapshot);
        model_stats_free(s);
        close_metrics();
}

static void test_without_counter_latencies(void **state) {
        static const struct request_times times = { .request_end_ns = 5000 };
        struct model_stats_snapshot       snapshot;
        struct model_stats               *s;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = false });
        s = model_stats_new(metrics, &(struct model_stats_options){
                                             .model = "m", .version = 1, .has_cache = true });
        model_stats_show(s, 1);
        model_stats_success(s, &times, 1);
        model_stats_failure(s, FAILURE_OTHER, 1);
        expect_part("\nnv_inference_request_success{model=\"m\",version=\"1\"} 0\n", true);
        expect_part("\nnv_inference_request_failure{model=\"m\",reason=\"OTHER\","
                    "version=\"1\"} 0\n",
                    true);
        expect_part("\nnv_inference_count{model=\"m\",version=\"1\"} 0\n", true);
        expect_part("nv_inference_request_duration_us", false);
        expect_part("nv_inference_queue_duration_us", false);
        expect_part("nv_inference_compute_", false);
        expect_part("nv_cache", false);
        expect_part("\nneso_request_duration_seconds_count{model=\"m\",version=\"1\"} 1\n", true);
        model_stats_read(s, &snapshot);
        assert_int_equal(snapshot.success.count, 1);
        assert_int_equal(snapshot.success.ns, 5000);
        model_stats_snapshot_done(&snapshot);
        model_stats_free(s);
        close_metrics();
}

static void test_first_response_histogram(void **state) {
        const double        bounds[] = { 0.5 };
        struct model_stats *plain, *stream, *custom;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = true,
                                                     .histogram_latencies = true });
        plain = open_model("plain", 1);
        model_stats_show(plain, 1);
        expect_part("nv_inference_first_response_histogram_ms", false);
        stream = model_stats_new(metrics, &(struct model_stats_options){ .model = "s",
                                                                         .version = 1,
                                                                         .is_decoupled = true });
        custom =
                model_stats_new(metrics, &(struct model_stats_options){ .model = "c",
                                                                        .version = 1,
                                                                        .is_decoupled = true,
                                                                        .first_response_ms = bounds,
                                                                        .n_first_response_ms = 1 });
        model_stats_show(stream, 1);
        model_stats_show(custom, 1);
        model_stats_first_response(stream, 100 * NS_PER_MS);
        model_stats_first_response(stream, 100 * NS_PER_MS + 1);
        model_stats_first_response(stream, 6000 * NS_PER_MS);
        model_stats_first_response(custom, NS_PER_MS / 2);
        expect_part("# HELP nv_inference_first_response_histogram_ms Duration from request to "
                    "first response in milliseconds\n"
                    "# TYPE nv_inference_first_response_histogram_ms histogram\n"
                    "nv_inference_first_response_histogram_ms_bucket{model=\"s\",version=\"1\","
                    "le=\"100\"} 1\n"
                    "nv_inference_first_response_histogram_ms_bucket{model=\"s\",version=\"1\","
                    "le=\"500\"} 2\n"
                    "nv_inference_first_response_histogram_ms_bucket{model=\"s\",version=\"1\","
                    "le=\"2000\"} 2\n"
                    "nv_inference_first_response_histogram_ms_bucket{model=\"s\",version=\"1\","
                    "le=\"5000\"} 2\n"
                    "nv_inference_first_response_histogram_ms_bucket{model=\"s\",version=\"1\","
                    "le=\"+Inf\"} 3\n"
                    "nv_inference_first_response_histogram_ms_sum{model=\"s\",version=\"1\"} "
                    "6200.000001\n"
                    "nv_inference_first_response_histogram_ms_count{model=\"s\",version=\"1\"} 3\n"
                    "nv_inference_first_response_histogram_ms_bucket{model=\"c\",version=\"1\","
                    "le=\"0.5\"} 1\n"
                    "nv_inference_first_response_histogram_ms_bucket{model=\"c\",version=\"1\","
                    "le=\"+Inf\"} 1\n"
                    "nv_inference_first_response_histogram_ms_sum{model=\"c\",version=\"1\"} 0.5\n"
                    "nv_inference_first_response_histogram_ms_count{model=\"c\",version=\"1\"} 1\n"
                    "# HELP neso_request_duration_seconds ",
                    true);
        model_stats_free(plain);
        model_stats_free(stream);
        model_stats_free(custom);
        close_metrics();
}

/* Every bound of the latency buckets: at it, in; a nanosecond more, in the next. */
static void test_edges_of_latency_buckets(void **state) {
        (void)state;
        for (int k = 0; k < 21; k++) {
                uint64_t            bound_ns = UINT64_C(10000) << k;
                struct model_stats *s;
                AUTO_STRBUF         line;

                open_metrics((struct model_metrics_options){ .counter_latencies = true });
                s = open_model("m", 1);
                model_stats_show(s, 1);
                model_stats_success(s, &(struct request_times){ .request_end_ns = bound_ns }, 1);
                model_stats_success(s, &(struct request_times){ .request_end_ns = bound_ns + 1 },
                                    1);
                strbuf_init(&line, 0);
                strbuf_printf(&line,
                              "neso_request_duration_seconds_bucket"
                              "{model=\"m\",version=\"1\",le=\"%.10g\"} 1\n",
                              (double)bound_ns / 1e9);
                expect_part(strbuf_cstr(&line), true);
                strbuf_clear(&line);
                strbuf_puts(&line, "neso_request_duration_seconds_bucket"
                                   "{model=\"m\",version=\"1\",le=\"");
                if (k < 20)
                        strbuf_printf(&line, "%.10g\"} 2\n", (double)bound_ns * 2 / 1e9);
                else
                        strbuf_puts(&line, "+Inf\"} 2\n");
                expect_part(strbuf_cstr(&line), true);
                model_stats_free(s);
                close_metrics();
        }
}

static void test_edges_of_batch_buckets(void **state) {
        static const struct request_times times = { 0 };
        const uint64_t                    sizes[] = { 0, 1, 2, 3, 4, 5, 1024, 1025, UINT64_MAX };
        struct model_stats               *s;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = true });
        s = open_model("m", 1);
        model_stats_show(s, 1);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
                model_stats_execution(s, sizes[i], &times);
        expect_part("# TYPE neso_batch_size histogram\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"1\"} 2\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"2\"} 3\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"4\"} 5\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"8\"} 6\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"16\"} 6\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"32\"} 6\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"64\"} 6\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"128\"} 6\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"256\"} 6\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"512\"} 6\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"1024\"} 7\n"
                    "neso_batch_size_bucket{model=\"m\",version=\"1\",le=\"+Inf\"} 9\n",
                    true);
        model_stats_free(s);
        close_metrics();
}

static void test_pending_is_never_negative(void **state) {
        struct model_stats *s;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = true });
        s = open_model("m", 1);
        model_stats_show(s, 1);
        model_stats_pending(s, -4);
        expect_part("\nnv_inference_pending_request_count{model=\"m\",version=\"1\"} 0\n", true);
        model_stats_pending(s, 6);
        expect_part("\nnv_inference_pending_request_count{model=\"m\",version=\"1\"} 2\n", true);
        model_stats_free(s);
        close_metrics();
}

static void expect_exemplars(const char *part, bool present) {
        AUTO_STRBUF out;

        strbuf_init(&out, 0);
        metric_registry_print_exemplars(registry, &out);
        if ((strstr(strbuf_cstr(&out), part) != NULL) != present)
                fail_msg("%s '%s' in:\n%s", present ? "no" : "there is", part, strbuf_cstr(&out));
}

/* The latest traced request of each bucket of the request's latency, and of no other histogram. */
static void test_exemplars(void **state) {
        const struct request_times fast = { .request_start_ns = 1000, .request_end_ns = 13000 };
        const struct request_times slow = { .request_start_ns = 1,
                                            .request_end_ns = NS_PER_S * 60 };
        struct model_stats        *s;

        (void)state;
        open_metrics((struct model_metrics_options){ .counter_latencies = true });
        s = open_model("m", 1);
        model_stats_show(s, 1);
        expect_exemplars(" # {", false);
        model_stats_success(s, &fast, 1);
        model_stats_exemplar(s, &fast, "4bf92f3577b34da6a3ce929d0e0e4735");
        model_stats_exemplar(s, &fast, "4bf92f3577b34da6a3ce929d0e0e4736");
        model_stats_exemplar(s, &slow, "7");
        model_stats_exemplar(s, &fast, "4bf92f3577b34da6a3ce929d0e0e4736x"); /* too long */
        expect_exemplars("neso_request_duration_seconds_bucket{model=\"m\",version=\"1\","
                         "le=\"1e-05\"} 0\n",
                         true);
        expect_exemplars("neso_request_duration_seconds_bucket{model=\"m\",version=\"1\","
                         "le=\"2e-05\"} 1 # {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} "
                         "1.2e-05 ",
                         true);
        expect_exemplars("le=\"+Inf\"} 1 # {trace_id=\"7\"} 59.999999999 ", true);
        expect_exemplars("4735", false);
        expect_exemplars("neso_queue_duration_seconds_bucket{model=\"m\",version=\"1\","
                         "le=\"2e-05\"} 1\n",
                         true);
        expect_part(" # {", false); /* not in the other format */
        model_stats_free(s);
        close_metrics();
}

SUITE(model_metrics) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_text_of_one_model),
                cmocka_unit_test(test_order_of_models),
                cmocka_unit_test(test_reloaded_version_is_printed_once),
                cmocka_unit_test(test_tags_are_labels),
                cmocka_unit_test(test_cache_families),
                cmocka_unit_test(test_a_series_for_each_gpu),
                cmocka_unit_test(test_without_counter_latencies),
                cmocka_unit_test(test_first_response_histogram),
                cmocka_unit_test(test_edges_of_latency_buckets),
                cmocka_unit_test(test_edges_of_batch_buckets),
                cmocka_unit_test(test_pending_is_never_negative),
                cmocka_unit_test(test_exemplars),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
