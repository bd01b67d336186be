/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "observe/metric.h"
#include "shortage.h"

#include <math.h>

#define N_THREADS 4
#define N_UPDATES 100000

static struct metric_registry *registry;

static int set_up(void **state) {
        (void)state;
        registry = metric_registry_new();
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        metric_registry_free(registry);
        return 0;
}

static void refuse(struct error *err, enum error_code code, const char *message) {
        assert_non_null(err);
        assert_string_equal(err->message, message);
        assert_int_equal(err->code, code);
        error_free(err);
}

static struct metric_family *open_family(enum metric_kind kind, const char *name) {
        struct metric_family *f = NULL;

        assert_null(metric_family_open(registry, kind, name, "help", &f));
        return f;
}

static struct metric *open_metric(struct metric_family *f, const double *buckets, size_t n) {
        struct metric *m = NULL;

        assert_null(metric_new(f, NULL, 0, buckets, n, &m));
        return m;
}

static double value_of(struct metric *m) {
        double value = -1;

        assert_null(metric_value(m, &value));
        return value;
}

static void expect_text(const char *text) {
        AUTO_STRBUF out;

        strbuf_init(&out, 0);
        metric_registry_print(registry, &out);
        assert_string_equal(strbuf_cstr(&out), text);
}

static void test_counter(void **state) {
        struct metric_family *f = open_family(METRIC_COUNTER, "c");
        struct metric        *m = open_metric(f, NULL, 0);

        (void)state;
        assert_int_equal(metric_family_kind(f), METRIC_COUNTER);
        assert_int_equal(metric_kind(m), METRIC_COUNTER);
        assert_true(value_of(m) == 0);
        assert_null(metric_increment(m, 1.5));
        assert_null(metric_increment(m, 0));
        assert_null(metric_increment(m, 2));
        refuse(metric_increment(m, -1), ERR_INVALID_ARG,
               "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by "
               "non-negative values.");
        refuse(metric_increment(m, (double)NAN), ERR_INVALID_ARG,
               "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by "
               "non-negative values.");
        refuse(metric_set(m, 7), ERR_UNSUPPORTED,
               "TRITONSERVER_METRIC_KIND_COUNTER does not support Set");
        refuse(metric_observe(m, 7), ERR_UNSUPPORTED,
               "TRITONSERVER_METRIC_KIND_COUNTER does not support Observe");
        assert_true(value_of(m) == 3.5);
        metric_free(m);
        assert_null(metric_family_close(f));
}

static void test_gauge(void **state) {
        struct metric_family *f = open_family(METRIC_GAUGE, "g");
        struct metric        *m = open_metric(f, NULL, 0);
        uint64_t              count;
        double                sum;

        (void)state;
        assert_null(metric_increment(m, 4));
        assert_null(metric_increment(m, -5));
        assert_true(value_of(m) == -1);
        assert_null(metric_set(m, 0.25));
        assert_true(value_of(m) == 0.25);
        refuse(metric_observe(m, 7), ERR_UNSUPPORTED,
               "TRITONSERVER_METRIC_KIND_GAUGE does not support Observe");
        refuse(metric_histogram(m, &count, 1, &sum), ERR_UNSUPPORTED,
               "TRITONSERVER_METRIC_KIND_GAUGE does not support Histogram");
        metric_free(m);
        assert_null(metric_family_close(f));
}

static void test_histogram(void **state) {
        const double          buckets[] = { 0.5, 1, 4, 16, 64 };
        const double          seen[] = { 0.25, 0.5, 0.75, 1, 1.5, 16, 17, 64, 65 };
        struct metric_family *f = open_family(METRIC_HISTOGRAM, "h");
        struct metric        *m = open_metric(f, buckets, 5);
        const uint64_t        expected[] = { 2, 2, 1, 1, 2, 1 };
        uint64_t              counts[6];
        double                value, sum;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(seen); i++)
                assert_null(metric_observe(m, seen[i]));
        assert_null(metric_histogram(m, counts, 6, &sum));
        assert_memory_equal(counts, expected, sizeof(expected));
        assert_true(sum == 166);
        refuse(metric_histogram(m, counts, 5, &sum), ERR_INVALID_ARG,
               "the histogram 'h' has 6 buckets, not 5");
        refuse(metric_increment(m, 1), ERR_UNSUPPORTED,
               "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment");
        refuse(metric_set(m, 1), ERR_UNSUPPORTED,
               "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Set");
        refuse(metric_value(m, &value), ERR_UNSUPPORTED,
               "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value");
        expect_text("# HELP h help\n"
                    "# TYPE h histogram\n"
                    "h_bucket{le=\"0.5\"} 2\n"
                    "h_bucket{le=\"1\"} 4\n"
                    "h_bucket{le=\"4\"} 5\n"
                    "h_bucket{le=\"16\"} 6\n"
                    "h_bucket{le=\"64\"} 8\n"
                    "h_bucket{le=\"+Inf\"} 9\n"
                    "h_sum 166\n"
                    "h_count 9\n");
        metric_free(m);
        assert_null(metric_family_close(f));
}

static void test_infinity_is_no_bucket_of_its_own(void **state) {
        const double          buckets[] = { 1, INFINITY };
        struct metric_family *f = open_family(METRIC_HISTOGRAM, "h");
        struct metric        *m = open_metric(f, buckets, 2);
        struct metric        *same = open_metric(f, buckets, 1);

        (void)state;
        assert_ptr_equal(m, same);
        assert_null(metric_observe(m, INFINITY));
        assert_null(metric_observe(m, -INFINITY));
        expect_text("# HELP h help\n"
                    "# TYPE h histogram\n"
                    "h_bucket{le=\"1\"} 1\n"
                    "h_bucket{le=\"+Inf\"} 2\n"
                    "h_sum NaN\n"
                    "h_count 2\n");
        metric_free(same);
        metric_free(m);
        assert_null(metric_family_close(f));
}

static void test_refused_buckets(void **state) {
        const double          equal[] = { 1, 1 }, falling[] = { 2, 1 }, nan[] = { NAN };
        const double          one[] = { 1 }, other[] = { 2 };
        struct metric_family *f = open_family(METRIC_HISTOGRAM, "h");
        struct metric_family *counter = open_family(METRIC_COUNTER, "c");
        struct metric        *m, *none = NULL;

        (void)state;
        refuse(metric_new(f, NULL, 0, NULL, 0, &none), ERR_INVALID_ARG,
               "metric family 'h': TRITONSERVER_METRIC_KIND_HISTOGRAM requires buckets");
        refuse(metric_new(counter, NULL, 0, one, 1, &none), ERR_INVALID_ARG,
               "metric family 'c': TRITONSERVER_METRIC_KIND_COUNTER has no buckets");
        refuse(metric_new(f, NULL, 0, equal, 2, &none), ERR_INVALID_ARG,
               "metric family 'h': buckets must be in ascending order");
        refuse(metric_new(f, NULL, 0, falling, 2, &none), ERR_INVALID_ARG,
               "metric family 'h': buckets must be in ascending order");
        refuse(metric_new(f, NULL, 0, nan, 1, &none), ERR_INVALID_ARG,
               "metric family 'h': buckets must be in ascending order");
        m = open_metric(f, one, 1);
        refuse(metric_new(f, NULL, 0, other, 1, &none), ERR_INVALID_ARG,
               "metric family 'h': metric  already exists with different buckets");
        assert_null(none);
        metric_free(m);
        assert_null(metric_family_close(f));
        assert_null(metric_family_close(counter));
}

static void test_out_of_memory_for_buckets(void **state) {
        const double          buckets[] = { 1 };
        struct metric_family *f = open_family(METRIC_HISTOGRAM, "h");

        (void)state;
        for (unsigned n = 1;; n++) {
                struct metric *m = NULL;
                struct error  *err;
                bool           was_hit;

                mem_fail_after(n);
                err = metric_new(f, NULL, 0, buckets, 1, &m);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                if (err == NULL && !was_hit) {
                        metric_free(m);
                        assert_true(n > 1);
                        break;
                }
                assert_non_null(err);
                assert_null(m);
                error_free(err);
        }
        assert_null(metric_family_close(f));
}

static void test_refused_labels(void **state) {
        const struct metric_label bad[] = { { "a", "1" }, { "b-c", "2" } };
        const struct metric_label twice[] = { { "a", "1" }, { "b", "2" }, { "a", "3" } };
        const struct metric_label le[] = { { "le", "1" } };
        const double              one[] = { 1 };
        struct metric_family     *f = open_family(METRIC_HISTOGRAM, "h");
        struct metric            *m = NULL;

        (void)state;
        refuse(metric_new(f, bad, 2, one, 1, &m), ERR_INVALID_ARG,
               "metric family 'h': invalid name of a label: 'b-c'");
        refuse(metric_new(f, twice, 3, one, 1, &m), ERR_INVALID_ARG,
               "metric family 'h': label 'a' is given twice");
        refuse(metric_new(f, le, 1, one, 1, &m), ERR_INVALID_ARG,
               "metric family 'h': label 'le' names the buckets of a histogram");
        assert_null(m);
        assert_null(metric_family_close(f));
}

static void test_labels_without_memory(void **state) {
        const struct metric_label one[] = { { "a", "1" } };
        struct metric_family     *f = open_family(METRIC_GAUGE, "g");
        struct metric            *m;
        struct error             *err;
        unsigned                  n = 0;

        (void)state;
        do {
                m = NULL;
                mem_fail_once(++n);
                err = metric_new(f, one, 1, NULL, 0, &m);
                metric_free(m);
        } while (expect_or_shortage(err, ERR_UNKNOWN, NULL));
        assert_true(n > 1);
        assert_null(metric_family_close(f));
}

static void test_same_labels_share_a_metric(void **state) {
        const struct metric_label ab[] = { { "a", "1" }, { "b", "2" } };
        const struct metric_label ba[] = { { "b", "2" }, { "a", "1" } };
        struct metric_family     *f = open_family(METRIC_COUNTER, "c");
        struct metric            *first, *second, *other;

        (void)state;
        assert_null(metric_new(f, ab, 2, NULL, 0, &first));
        assert_null(metric_new(f, ba, 2, NULL, 0, &second));
        assert_null(metric_new(f, ab, 1, NULL, 0, &other));
        assert_ptr_equal(first, second);
        assert_ptr_not_equal(first, other);
        assert_null(metric_increment(first, 1));
        metric_free(first);
        assert_null(metric_increment(second, 1));
        expect_text("# HELP c help\n"
                    "# TYPE c counter\n"
                    "c{a=\"1\",b=\"2\"} 2\n"
                    "c{a=\"1\"} 0\n");
        metric_free(second);
        expect_text("# HELP c help\n# TYPE c counter\nc{a=\"1\"} 0\n");
        metric_free(other);
        expect_text("");
        assert_null(metric_family_close(f));
        metric_free(NULL);
}

static struct metric *shared_counter, *shared_histogram;

static void update_many(void *arg) {
        (void)arg;
        for (int i = 0; i < N_UPDATES; i++) {
                error_free(metric_increment(shared_counter, 0.5));
                error_free(metric_observe(shared_histogram, i % 4));
        }
}

static void test_updates_from_many_threads(void **state) {
        const double          buckets[] = { 0, 1, 2 };
        struct metric_family *f = open_family(METRIC_COUNTER, "c");
        struct metric_family *h = open_family(METRIC_HISTOGRAM, "h");
        struct thread         threads[N_THREADS];

        (void)state;
        shared_counter = open_metric(f, NULL, 0);
        shared_histogram = open_metric(h, buckets, 3);
        for (int i = 0; i < N_THREADS; i++)
                assert_null(thread_start(&threads[i], "update", update_many, NULL));
        for (int i = 0; i < N_THREADS; i++)
                thread_join(&threads[i]);
        expect_text("# HELP c help\n"
                    "# TYPE c counter\n"
                    "c 200000\n"
                    "# HELP h help\n"
                    "# TYPE h histogram\n"
                    "h_bucket{le=\"0\"} 100000\n"
                    "h_bucket{le=\"1\"} 200000\n"
                    "h_bucket{le=\"2\"} 300000\n"
                    "h_bucket{le=\"+Inf\"} 400000\n"
                    "h_sum 600000\n"
                    "h_count 400000\n");
        metric_free(shared_counter);
        metric_free(shared_histogram);
        assert_null(metric_family_close(f));
        assert_null(metric_family_close(h));
}

SUITE(metric) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_counter, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_gauge, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_histogram, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_infinity_is_no_bucket_of_its_own, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(test_refused_buckets, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_out_of_memory_for_buckets, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_refused_labels, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_labels_without_memory, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_same_labels_share_a_metric, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_updates_from_many_threads, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
