/* SPDX-License-Identifier: BSD-3-Clause */
/* Moments of an open loop, on a clock of the test's own. */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "load/schedule.h"

#include <math.h>

#define START UINT64_C(1000000000)

static uint64_t take(struct schedule *s) {
        uint64_t moment_ns = schedule_next(s);

        schedule_advance(s);
        return moment_ns;
}

/* A third of a microsecond is lost in no step: after a million requests the moment is exact. */
static void test_constant(void **state) {
        struct schedule_options o = { .kind = SCHEDULE_CONSTANT, .rate = 3000.0, .n_parts = 1 };
        struct schedule         s;

        (void)state;
        schedule_init(&s, &o, START);
        assert_int_equal(take(&s), START);
        assert_int_equal(take(&s), START + 333333);
        for (int i = 2; i < 3000000; i++)
                take(&s);
        assert_int_equal(take(&s), START + 1000 * NS_PER_S);
}

/* Two threads take turns. */
static void test_parts(void **state) {
        struct schedule_options a = { .kind = SCHEDULE_CONSTANT, .rate = 1000.0, .n_parts = 2 };
        struct schedule_options b = a;
        struct schedule         s, t;

        (void)state;
        b.part = 1;
        schedule_init(&s, &a, START);
        schedule_init(&t, &b, START);
        for (uint64_t i = 0; i < 100; i += 2) {
                assert_int_equal(take(&s), START + i * NS_PER_MS);
                assert_int_equal(take(&t), START + (i + 1) * NS_PER_MS);
        }
}

static void test_intervals(void **state) {
        static const uint64_t   intervals[] = { 10, 0, 30 };
        struct schedule_options o = { .kind = SCHEDULE_INTERVALS,
                                      .intervals_ns = intervals,
                                      .n_intervals = 3,
                                      .n_parts = 1 };
        static const uint64_t   wanted[] = { 10, 10, 40, 50, 50, 80 };
        struct schedule         s;

        (void)state;
        schedule_init(&s, &o, START);
        for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
                assert_int_equal(take(&s), START + wanted[i]);
}

/* Mean and deviation of exponential distances are both 1/rate; moments never go back. */
static void test_poisson(void **state) {
        struct schedule_options o = {
                .kind = SCHEDULE_POISSON, .rate = 1000.0, .n_parts = 1, .seed = 3
        };
        double          sum = 0.0, squares = 0.0, n = 200000.0, mean;
        uint64_t        last = START;
        struct schedule s;

        (void)state;
        schedule_init(&s, &o, START);
        for (int i = 0; i < (int)n; i++) {
                uint64_t moment_ns = take(&s);
                double   distance = (double)(moment_ns - last);

                assert_true(moment_ns >= last);
                sum += distance;
                squares += distance * distance;
                last = moment_ns;
        }
        mean = sum / n;
        assert_true(fabs(mean / 1e6 - 1.0) < 0.01);
        assert_true(fabs(sqrt(squares / n - mean * mean) / 1e6 - 1.0) < 0.02);
}

SUITE(schedule) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_constant),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_intervals),
                cmocka_unit_test(test_poisson),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
