/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "observe/load_window.h"

#include <math.h>

/* Times in milliseconds; two instances, so that the available time is twice the time. */
static struct load_sample sample(uint64_t at_ms, uint64_t busy_ms) {
        return (struct load_sample){ at_ms * NS_PER_MS, busy_ms * NS_PER_MS,
                                     2 * at_ms * NS_PER_MS };
}

static void add(struct load_window *w, uint64_t at_ms, uint64_t busy_ms) {
        struct load_sample s = sample(at_ms, busy_ms);

        load_window_add(w, &s);
}

static void expect(const struct load_window *w, uint64_t at_ms, uint64_t busy_ms, double ratio) {
        struct load_sample s = sample(at_ms, busy_ms);
        double             got = load_window_ratio(w, &s);

        if (fabs(got - ratio) > 1e-9)
                fail_msg("at %llu ms: %g, not %g", (unsigned long long)at_ms, got, ratio);
}

static void test_no_samples_and_no_time(void **state) {
        struct load_window w = { 0 };

        (void)state;
        expect(&w, 1000, 500, 0);
        add(&w, 1000, 500);
        expect(&w, 1000, 500, 0);
}

static void test_since_the_only_sample(void **state) {
        struct load_window w = { 0 };

        (void)state;
        add(&w, 0, 0);
        expect(&w, 1000, 500, 0.25);
        expect(&w, 100000, 50000, 0.25);
}

/* Busy until 20 s and idle from then on: the ratio is 0 when the newest sample of 15 s or more ago is one of
 * the idle time. */
static void test_the_window_moves(void **state) {
        struct load_window w = { 0 };

        (void)state;
        for (uint64_t ms = 0; ms <= 35000; ms += 2500) {
                uint64_t busy_ms = 2 * (ms < 20000 ? ms : 20000);

                if (ms == 20000)
                        expect(&w, ms, busy_ms, 1);
                if (ms == 30000)
                        expect(&w, ms, busy_ms, 5.0 / 15);
                if (ms == 35000)
                        expect(&w, ms, busy_ms, 0);
                add(&w, ms, busy_ms);
        }
        assert_int_equal(w.n, N_LOAD_SAMPLES);
}

/* Scrapes every 100 ms do not push out the sample of 15 s ago. */
static void test_samples_keep_their_distance(void **state) {
        struct load_window w = { 0 };

        (void)state;
        for (uint64_t ms = 0; ms <= 20000; ms += 100)
                add(&w, ms, 0);
        expect(&w, 20000, 1500, 1500.0 / 30000);
}

/* An instance that leaves while it executes takes its busy time along for a moment. */
static void test_sums_that_shrink(void **state) {
        struct load_window w = { 0 };

        (void)state;
        add(&w, 1000, 900);
        expect(&w, 2000, 800, 0);
        expect(&w, 2000, 9000, 1);
}

SUITE(load_window) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_no_samples_and_no_time),
                cmocka_unit_test(test_since_the_only_sample),
                cmocka_unit_test(test_the_window_moves),
                cmocka_unit_test(test_samples_keep_their_distance),
                cmocka_unit_test(test_sums_that_shrink),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
