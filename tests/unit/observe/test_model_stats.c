/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "observe/model_activity.h"
#include "observe/model_stats.h"

#include <string.h>

#define N_THREADS 4
#define N_UPDATES 100000

static struct metric_registry *registry;
static struct model_metrics   *metrics;
static struct model_stats     *stats;

/* Durations: request 70 000, queue 3 000, input 5 000, infer 30 000, output 9 000 ns. */
static const struct request_times times = {
        .request_start_ns = 100000,
        .queue_start_ns = 101000,
        .exec_start_ns = 104000,
        .compute_start_ns = 109000,
        .compute_end_ns = 139000,
        .exec_end_ns = 148000,
        .request_end_ns = 170000,
};

static int set_up(void **state) {
        (void)state;
        registry = metric_registry_new();
        metrics = model_metrics_new(registry,
                                    &(struct model_metrics_options){ .counter_latencies = true });
        stats = model_stats_new(metrics,
                                &(struct model_stats_options){ .model = "m", .version = 3 });
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        model_stats_free(stats);
        model_metrics_free(metrics);
        metric_registry_free(registry);
        return 0;
}

static struct model_stats_snapshot read_stats(void) {
        struct model_stats_snapshot s;

        model_stats_read(stats, &s);
        return s;
}

#define EXPECT_PAIR(pair, n, sum)                                                                  \
        do {                                                                                       \
                assert_int_equal((pair).count, n);                                                 \
                assert_int_equal((pair).ns, sum);                                                  \
        } while (0)

static void test_nothing_happened(void **state) {
        struct model_stats_snapshot s = read_stats();
        struct model_stats_snapshot zero = { 0 };

        (void)state;
        assert_memory_equal(&s, &zero, sizeof(s));
        model_stats_snapshot_done(&s);
}

static void test_success(void **state) {
        struct model_stats_snapshot s;

        (void)state;
        model_stats_success(stats, &times, 4);
        model_stats_success(stats, &times, 1);
        s = read_stats();
        assert_int_equal(s.inference_count, 5);
        assert_int_equal(s.execution_count, 0);
        EXPECT_PAIR(s.success, 2, 140000);
        EXPECT_PAIR(s.fail, 0, 0);
        EXPECT_PAIR(s.queue, 2, 6000);
        EXPECT_PAIR(s.compute_input, 2, 10000);
        EXPECT_PAIR(s.compute_infer, 2, 60000);
        EXPECT_PAIR(s.compute_output, 2, 18000);
        EXPECT_PAIR(s.cache_hit, 0, 0);
        EXPECT_PAIR(s.cache_miss, 0, 0);
        model_stats_snapshot_done(&s);
}

static void test_times_out_of_order_count_nothing(void **state) {
        const struct request_times backwards = {
                .request_start_ns = 7000,
                .queue_start_ns = 6000,
                .exec_start_ns = 5000,
                .compute_start_ns = 4000,
                .compute_end_ns = 3000,
                .exec_end_ns = 2000,
                .request_end_ns = 1000,
        };
        struct model_stats_snapshot s;

        (void)state;
        model_stats_success(stats, &backwards, 1);
        model_stats_execution(stats, 1, &backwards);
        s = read_stats();
        EXPECT_PAIR(s.success, 1, 0);
        EXPECT_PAIR(s.queue, 1, 0);
        EXPECT_PAIR(s.compute_input, 1, 0);
        EXPECT_PAIR(s.compute_infer, 1, 0);
        EXPECT_PAIR(s.compute_output, 1, 0);
        EXPECT_PAIR(s.batches[0].compute_input, 1, 0);
        EXPECT_PAIR(s.batches[0].compute_infer, 1, 0);
        EXPECT_PAIR(s.batches[0].compute_output, 1, 0);
        model_stats_snapshot_done(&s);
}

static void test_failures(void **state) {
        struct model_stats_snapshot s;

        (void)state;
        model_stats_failure(stats, FAILURE_OTHER, 1);
        model_stats_failure(stats, FAILURE_BACKEND, 20);
        model_stats_failure(stats, FAILURE_CANCELED, 300);
        model_stats_failure(stats, FAILURE_REJECTED, 4000);
        s = read_stats();
        EXPECT_PAIR(s.fail, 4, 4321);
        EXPECT_PAIR(s.success, 0, 0);
        assert_int_equal(s.inference_count, 0);
        assert_int_equal(s.last_inference_ms, 0);
        model_stats_snapshot_done(&s);
}

static void test_executions_by_batch_size(void **state) {
        struct model_stats_snapshot s;

        (void)state;
        model_stats_execution(stats, 8, &times);
        model_stats_execution(stats, 2, &times);
        model_stats_execution(stats, 8, &times);
        s = read_stats();
        assert_int_equal(s.execution_count, 3);
        assert_int_equal(s.inference_count, 0);
        assert_int_equal(s.n_batches, 2);
        assert_int_equal(s.batches[0].batch_size, 2);
        EXPECT_PAIR(s.batches[0].compute_input, 1, 5000);
        EXPECT_PAIR(s.batches[0].compute_infer, 1, 30000);
        EXPECT_PAIR(s.batches[0].compute_output, 1, 9000);
        assert_int_equal(s.batches[1].batch_size, 8);
        EXPECT_PAIR(s.batches[1].compute_input, 2, 10000);
        EXPECT_PAIR(s.batches[1].compute_infer, 2, 60000);
        EXPECT_PAIR(s.batches[1].compute_output, 2, 18000);
        model_stats_snapshot_done(&s);
}

static void test_cache(void **state) {
        struct model_stats_snapshot s;

        (void)state;
        model_stats_success(stats, &times, 2);
        model_stats_cache_miss(stats, 700);
        model_stats_cache_hit(stats, &times, 400);
        model_stats_cache_hit(stats, &times, 50);
        s = read_stats();
        assert_int_equal(s.inference_count, 2);
        EXPECT_PAIR(s.success, 3, 210000);
        EXPECT_PAIR(s.queue, 3, 9000);
        EXPECT_PAIR(s.compute_input, 1, 5000);
        EXPECT_PAIR(s.compute_infer, 1, 30000);
        EXPECT_PAIR(s.compute_output, 1, 9000);
        EXPECT_PAIR(s.cache_hit, 2, 450);
        EXPECT_PAIR(s.cache_miss, 1, 700);
        model_stats_snapshot_done(&s);
}

static void test_last_inference_is_wall_time(void **state) {
        struct request_times        late = times;
        struct model_stats_snapshot s, again;
        uint64_t                    before_ms, after_ms;

        (void)state;
        before_ms = clock_wall_ns() / NS_PER_MS;
        late.request_end_ns = clock_now_ns();
        after_ms = clock_wall_ns() / NS_PER_MS;
        model_stats_success(stats, &late, 1);
        model_stats_success(stats, &times, 1); /* ended earlier: changes nothing */
        model_stats_failure(stats, FAILURE_OTHER, 1);
        s = read_stats();
        again = read_stats();
        /* The two clocks are read one after the other: a millisecond may lie between. */
        assert_in_range(s.last_inference_ms, before_ms - 1, after_ms + 1);
        assert_int_equal(s.last_inference_ms, again.last_inference_ms);
        model_stats_snapshot_done(&s);
        model_stats_snapshot_done(&again);
}

static void test_responses(void **state) {
        struct model_stats_snapshot s;

        (void)state;
        model_stats_response(stats, 0, RESPONSE_SUCCESS, 10, 3);
        model_stats_response(stats, 0, RESPONSE_SUCCESS, 20, 4);
        model_stats_response(stats, 6, RESPONSE_FAIL, 5, 1);
        model_stats_response(stats, 6, RESPONSE_FAIL, 3, 0);
        model_stats_response(stats, 2, RESPONSE_EMPTY, 100, 0);
        model_stats_response(stats, 2, RESPONSE_CANCEL, 7, 0);
        model_stats_response(stats, 4095, RESPONSE_SUCCESS, 1, 1);
        model_stats_response(stats, 4096, RESPONSE_SUCCESS, 1, 1);
        s = read_stats();
        assert_int_equal(s.n_responses, 4);
        assert_int_equal(s.responses[0].index, 0);
        EXPECT_PAIR(s.responses[0].compute_infer, 2, 30);
        EXPECT_PAIR(s.responses[0].compute_output, 2, 7);
        EXPECT_PAIR(s.responses[0].success, 2, 37);
        EXPECT_PAIR(s.responses[0].fail, 0, 0);
        assert_int_equal(s.responses[1].index, 2);
        EXPECT_PAIR(s.responses[1].compute_infer, 1, 100);
        EXPECT_PAIR(s.responses[1].compute_output, 0, 0);
        EXPECT_PAIR(s.responses[1].empty_response, 1, 100);
        EXPECT_PAIR(s.responses[1].cancel, 1, 7);
        assert_int_equal(s.responses[2].index, 6);
        EXPECT_PAIR(s.responses[2].compute_infer, 2, 8);
        EXPECT_PAIR(s.responses[2].compute_output, 1, 1);
        EXPECT_PAIR(s.responses[2].fail, 2, 9);
        EXPECT_PAIR(s.responses[2].success, 0, 0);
        assert_int_equal(s.responses[3].index, 4095);
        EXPECT_PAIR(s.responses[3].success, 1, 2);
        model_stats_snapshot_done(&s);
}

static void test_short_memory_loses_only_the_response(void **state) {
        struct model_stats_snapshot s;

        (void)state;
        model_stats_response(stats, 0, RESPONSE_SUCCESS, 1, 1);
        mem_fail_after(1);
        model_stats_response(stats, 9, RESPONSE_SUCCESS, 1, 1);
        mem_fail_after(0);
        model_stats_response(stats, 9, RESPONSE_CANCEL, 1, 0);
        s = read_stats();
        assert_int_equal(s.n_responses, 2);
        EXPECT_PAIR(s.responses[1].success, 0, 0);
        EXPECT_PAIR(s.responses[1].cancel, 1, 1);
        model_stats_snapshot_done(&s);
}

static void update_many(void *arg) {
        uint64_t batch = (uintptr_t)arg;

        for (int i = 0; i < N_UPDATES; i++) {
                model_stats_success(stats, &times, batch);
                model_stats_execution(stats, batch, &times);
                model_stats_failure(stats, FAILURE_BACKEND, 2);
                model_stats_pending(stats, 1);
                model_stats_path(stats, i % 4 == 0);
        }
}

static void expect_line(const char *text, const char *line) {
        if (strstr(text, line) == NULL)
                fail_msg("no line '%s' in:\n%s", line, text);
}

static void test_updates_from_many_threads(void **state) {
        struct thread               threads[N_THREADS];
        struct model_stats_snapshot s;
        AUTO_STRBUF                 out;

        (void)state;
        strbuf_init(&out, 0);
        model_stats_show(stats, 0);
        for (uintptr_t i = 0; i < N_THREADS; i++)
                assert_null(thread_start(&threads[i], "update", update_many, (void *)(i / 2 + 1)));
        for (int i = 0; i < 20; i++) { /* readers disturb nobody */
                strbuf_clear(&out);
                metric_registry_print(registry, &out);
        }
        for (int i = 0; i < N_THREADS; i++)
                thread_join(&threads[i]);
        s = read_stats();
        assert_int_equal(s.inference_count, 600000);
        assert_int_equal(s.execution_count, 400000);
        EXPECT_PAIR(s.success, 400000, UINT64_C(28000000000));
        EXPECT_PAIR(s.queue, 400000, 1200000000);
        EXPECT_PAIR(s.compute_input, 400000, 2000000000);
        EXPECT_PAIR(s.compute_infer, 400000, UINT64_C(12000000000));
        EXPECT_PAIR(s.compute_output, 400000, UINT64_C(3600000000));
        EXPECT_PAIR(s.fail, 400000, 800000);
        assert_int_equal(s.n_batches, 2);
        EXPECT_PAIR(s.batches[0].compute_infer, 200000, UINT64_C(6000000000));
        EXPECT_PAIR(s.batches[1].compute_infer, 200000, UINT64_C(6000000000));
        model_stats_snapshot_done(&s);
        strbuf_clear(&out);
        metric_registry_print(registry, &out);
        expect_line(strbuf_cstr(&out),
                    "\nnv_inference_pending_request_count{model=\"m\",version=\"3\"} 400000\n");
        expect_line(strbuf_cstr(&out), "\nneso_executions_total"
                                       "{model=\"m\",path=\"inline\",version=\"3\"} 100000\n");
        expect_line(strbuf_cstr(&out), "\nneso_executions_total"
                                       "{model=\"m\",path=\"queued\",version=\"3\"} 300000\n");
        expect_line(strbuf_cstr(&out), "\nneso_request_duration_seconds_count"
                                       "{model=\"m\",version=\"3\"} 400000\n");
}

static void test_activity_has_the_same_numbers(void **state) {
        struct model_activity a;

        (void)state;
        model_stats_success(stats, &times, 2);
        model_stats_success(stats, &times, 1);
        model_stats_execution(stats, 3, &times);
        model_stats_failure(stats, FAILURE_BACKEND, 5);
        model_stats_failure(stats, FAILURE_REJECTED, 5);
        model_stats_cache_miss(stats, 10);
        model_stats_pending(stats, 1);
        model_activity_read(stats, &a);
        assert_int_equal(a.success, 2);
        assert_int_equal(a.inferences, 3);
        assert_int_equal(a.executions, 1);
        assert_int_equal(a.executed_inferences, 3);
        assert_int_equal(a.failures[FAILURE_BACKEND], 1);
        assert_int_equal(a.failures[FAILURE_REJECTED], 1);
        assert_int_equal(a.failures[FAILURE_OTHER], 0);
        assert_int_equal(a.cache_misses, 1);
        assert_int_equal(a.pending, 1);
        assert_int_equal(a.n_sequences, 0);
        assert_int_equal(a.busy_ns, 44000);     /* 5 000 + 30 000 + 9 000 */
        assert_int_equal(a.latency[0][3], 2);   /* requests of 40 to 80 us */
        assert_int_equal(a.latency[1][0], 2);   /* of at most 10 us in the queue */
        assert_int_equal(a.latency[3][2], 2);   /* inference, of 20 to 40 us */
        assert_int_equal(a.phase_ns[3], 60000); /* 30 000 each */
        model_stats_pending(stats, -1);
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

SUITE(model_stats) {
        const struct CMUnitTest tests[] = {
                ROW(test_nothing_happened),
                ROW(test_success),
                ROW(test_times_out_of_order_count_nothing),
                ROW(test_failures),
                ROW(test_executions_by_batch_size),
                ROW(test_cache),
                ROW(test_activity_has_the_same_numbers),
                ROW(test_last_inference_is_wall_time),
                ROW(test_responses),
                ROW(test_short_memory_loses_only_the_response),
                ROW(test_updates_from_many_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
