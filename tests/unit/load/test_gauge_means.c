/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "load/gauge_means.h"

#include <math.h>

static double mean(const struct gauge_means *g, const char *name) {
        const struct gauge_mean *m = map_find(&g->gauges, str_of(name));

        return m != NULL ? m->mean : -1.0;
}

static void test_pages(void **state) {
        struct gauge_means g;

        (void)state;
        gauge_means_init(&g);
        gauge_means_add(&g, STR_LIT("# HELP nv_a text\n# TYPE nv_a gauge\nnv_a 1\nnv_a_b 9\n"
                                    "# TYPE nv_c counter\nnv_c 5\n"
                                    "# TYPE nv_d gauge\nnv_d{x=\"1 2\"} 3.5\nnv_d{x=\"3\"} NaN\n"
                                    "nv_d{x=\"4\"} broken\nnv_d\n"));
        gauge_means_add(&g, STR_LIT("# TYPE nv_a gauge\nnv_a 3"));
        assert_true(mean(&g, "nv_a") == 2.0);
        assert_true(mean(&g, "nv_d{x=\"1 2\"}") == 3.5);
        assert_int_equal(map_size(&g.gauges), 2);
        gauge_means_done(&g);
}

/* A time may follow the value; labels may contain what ends them elsewhere. */
static void test_times(void **state) {
        struct gauge_means g;

        (void)state;
        gauge_means_init(&g);
        gauge_means_add(&g, STR_LIT("# TYPE nv_a gauge\nnv_a 1 1700000000000\n"
                                    "nv_a{x=\"} 5\"} 2 1700000000000\nnv_a{x=\"\\\"} 6\"}  4\n"
                                    "nv_a{x=\"7\nnv_a{x=\"8\"}9\nnv_a \n"));
        gauge_means_add(&g, STR_LIT("# TYPE nv_a gauge\nnv_a 3 1700000000001\n"));
        assert_true(mean(&g, "nv_a") == 2.0);
        assert_true(mean(&g, "nv_a{x=\"} 5\"}") == 2.0);
        assert_true(mean(&g, "nv_a{x=\"\\\"} 6\"}") == 4.0);
        assert_int_equal(map_size(&g.gauges), 3);
        gauge_means_done(&g);
}

/* JSON has no infinity. */
static void test_large_values(void **state) {
        struct gauge_means g;

        (void)state;
        gauge_means_init(&g);
        for (size_t i = 0; i < 3; i++)
                gauge_means_add(&g, STR_LIT("# TYPE nv_a gauge\nnv_a 1e308\n"));
        assert_true(isfinite(mean(&g, "nv_a")));
        assert_true(mean(&g, "nv_a") > 9.9e307);
        gauge_means_done(&g);
}

SUITE(gauge_means) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pages),
                cmocka_unit_test(test_times),
                cmocka_unit_test(test_large_values),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
