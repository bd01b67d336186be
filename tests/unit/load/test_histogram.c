/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "load/histogram.h"
#include "load/schedule.h"

#include <math.h>

static struct histogram *new_histogram(void) {
        return mem_zalloc(sizeof(struct histogram));
}

static void assert_near(uint64_t got, uint64_t wanted) {
        double error = fabs((double)got - (double)wanted) / (double)wanted;

        if (error > 0.01)
                fail_msg("%llu is not within 1 %% of %llu", (unsigned long long)got,
                         (unsigned long long)wanted);
}

static void test_empty(void **state) {
        struct histogram *h = new_histogram();

        (void)state;
        assert_int_equal(histogram_percentile(h, 99.0), 0);
        assert_true(histogram_mean(h) == 0.0);
        free(h);
}

/* Each value alone: every percentile is the value itself, whatever its size. */
static void test_one_value(void **state) {
        static const uint64_t values[] = { 0,         1,   127,     128,        255,
                                           256,       257, 1000003, 5000000000, UINT64_C(1) << 42,
                                           UINT64_MAX };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                struct histogram *h = new_histogram();

                histogram_add(h, values[i]);
                assert_int_equal(histogram_percentile(h, 0.1), values[i]);
                assert_int_equal(histogram_percentile(h, 100.0), values[i]);
                assert_int_equal(h->min, values[i]);
                assert_int_equal(h->max, values[i]);
                free(h);
        }
}

/* 1, 2, ... 1000000 us: the p-th percentile is p * 10000 us. */
static void test_percentiles(void **state) {
        static const double percents[] = { 0.01, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99 };
        struct histogram   *h = new_histogram();

        (void)state;
        for (uint64_t us = 1; us <= 1000000; us++)
                histogram_add(h, us * 1000);
        for (size_t i = 0; i < ARRAY_LEN(percents); i++)
                assert_near(histogram_percentile(h, percents[i]),
                            (uint64_t)(percents[i] * 10000.0 * 1000.0));
        assert_near((uint64_t)histogram_mean(h), 500000500);
        assert_near((uint64_t)histogram_deviation(h), 288675134);
        assert_int_equal(histogram_percentile(h, 100.0), 1000000000);
        free(h);
}

/* The rank is not one too high where the percentage of a number is whole. */
static void test_ranks(void **state) {
        static const struct {
                double   percent;
                uint64_t n, rank;
        } rows[] = { { 99.9, 1000, 999 }, { 99.9, 2000, 1998 }, { 99.99, 10000, 9999 },
                     { 7, 100, 7 },       { 55, 100, 55 },      { 95, 20, 19 },
                     { 99.9, 500, 500 },  { 50, 3, 2 } };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct histogram *h = new_histogram();

                for (uint64_t k = 1; k <= rows[i].n; k++)
                        histogram_add(h, k < rows[i].rank ? 10 : k == rows[i].rank ? 20 : 30);
                if (histogram_percentile(h, rows[i].percent) != 20)
                        fail_msg("p%g of %llu values is not number %llu", rows[i].percent,
                                 (unsigned long long)rows[i].n, (unsigned long long)rows[i].rank);
                free(h);
        }
}

/* Two halves together are the whole. */
static void test_merge(void **state) {
        struct histogram *whole = new_histogram(), *a = new_histogram(), *b = new_histogram();
        uint64_t          random = random_state(7);

        (void)state;
        for (int i = 0; i < 10000; i++) {
                uint64_t value = random_next(&random) >> (20 + random % 40);

                histogram_add(whole, value);
                histogram_add(i % 3 == 0 ? a : b, value);
        }
        histogram_merge(a, b);
        assert_int_equal(a->n, 10000);
        assert_int_equal(a->min, whole->min);
        assert_int_equal(a->max, whole->max);
        assert_memory_equal(a->buckets, whole->buckets, sizeof(a->buckets));
        free(whole);
        free(a);
        free(b);
}

SUITE(histogram) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_empty),       cmocka_unit_test(test_one_value),
                cmocka_unit_test(test_percentiles), cmocka_unit_test(test_ranks),
                cmocka_unit_test(test_merge),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
