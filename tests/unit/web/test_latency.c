/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "web/latency.h"

#include <string.h>

static void test_nothing_has_no_quantile(void **state) {
        const uint64_t        now[NESO_LATENCY_BUCKETS] = { 5 };
        struct latency_counts c;

        (void)state;
        latency_between(now, now, &c);
        assert_int_equal(c.n, 0);
        assert_int_equal(latency_quantile_us(&c, 500), 0);
}

/* 100 requests between 20 and 40 us: half of them are below 30. */
static void test_a_bucket_is_filled_evenly(void **state) {
        const uint64_t        now[NESO_LATENCY_BUCKETS] = { [2] = 100 };
        struct latency_counts c;

        (void)state;
        latency_between(NULL, now, &c);
        assert_int_equal(c.n, 100);
        assert_int_equal(latency_quantile_us(&c, 500), 30);
        assert_int_equal(latency_quantile_us(&c, 950), 39);
        assert_int_equal(latency_quantile_us(&c, 1000), 40);
}

static void test_quantiles_are_of_what_was_added(void **state) {
        const uint64_t        before[NESO_LATENCY_BUCKETS] = { [0] = 1000, [5] = 7 };
        const uint64_t        now[NESO_LATENCY_BUCKETS] = { [0] = 1090, [5] = 17 };
        struct latency_counts c;

        (void)state;
        latency_between(before, now, &c);
        assert_int_equal(c.n, 100);
        assert_int_equal(latency_quantile_us(&c, 500), 5);
        /* The last ten are between 160 and 320 us. */
        assert_int_equal(latency_quantile_us(&c, 950), 240);
}

static void test_smaller_counts_are_those_of_a_new_load(void **state) {
        const uint64_t        before[NESO_LATENCY_BUCKETS] = { [0] = 5, [3] = 1000 };
        const uint64_t        now[NESO_LATENCY_BUCKETS] = { [0] = 6, [3] = 2 };
        struct latency_counts c;

        (void)state;
        latency_between(before, now, &c);
        assert_int_equal(c.n, 8);
        assert_int_equal(c.counts[0], 6);
}

static void test_a_mean_is_exact(void **state) {
        const uint64_t        before[NESO_LATENCY_BUCKETS] = { [2] = 10 };
        const uint64_t        now[NESO_LATENCY_BUCKETS] = { [2] = 12, [4] = 2 };
        struct latency_counts c;

        (void)state;
        latency_between(before, now, &c);
        assert_int_equal(latency_mean_ns(&c, 250000, 250000 + 30000 + 32000 + 81000 + 93000),
                         59000);
        latency_between(now, before, &c); /* loaded again: ten of 25 us */
        assert_int_equal(latency_mean_ns(&c, 486000, 250000), 25000);
        latency_between(now, now, &c);
        assert_int_equal(latency_mean_ns(&c, 486000, 486000), 0);
}

static void test_the_last_bucket_counts_as_its_lower_bound(void **state) {
        const uint64_t        now[NESO_LATENCY_BUCKETS] = { [NESO_LATENCY_BUCKETS - 1] = 3 };
        struct latency_counts c;

        (void)state;
        latency_between(NULL, now, &c);
        assert_int_equal(latency_quantile_us(&c, 990), 10 << 20);
}

SUITE(latency) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_has_no_quantile),
                cmocka_unit_test(test_a_bucket_is_filled_evenly),
                cmocka_unit_test(test_quantiles_are_of_what_was_added),
                cmocka_unit_test(test_smaller_counts_are_those_of_a_new_load),
                cmocka_unit_test(test_a_mean_is_exact),
                cmocka_unit_test(test_the_last_bucket_counts_as_its_lower_bound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
