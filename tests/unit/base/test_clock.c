/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"

#include <time.h>

static void test_monotonic_is_the_systems_clock(void **state) {
        (void)state;
        struct timespec before, after;
        uint64_t        now;

        clock_gettime(CLOCK_MONOTONIC, &before);
        now = clock_now_ns();
        clock_gettime(CLOCK_MONOTONIC, &after);
        assert_true(now >= (uint64_t)before.tv_sec * NS_PER_S + (uint64_t)before.tv_nsec);
        assert_true(now <= (uint64_t)after.tv_sec * NS_PER_S + (uint64_t)after.tv_nsec);
}

static void test_wall_is_since_the_epoch(void **state) {
        (void)state;
        uint64_t before = (uint64_t)time(NULL);
        uint64_t now = clock_wall_ns();

        /* time() may be read from a coarser clock, a tick behind. */
        assert_in_range(now / NS_PER_S, before, before + 2);
}

SUITE(clock) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_monotonic_is_the_systems_clock),
                cmocka_unit_test(test_wall_is_since_the_epoch),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
