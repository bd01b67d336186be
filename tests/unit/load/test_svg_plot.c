/* SPDX-License-Identifier: BSD-3-Clause */
/* Ticks, the places of marks and bars, and text that is not markup. */
#include "suite.h"

#include "base/compiler.h"
#include "load/svg_plot.h"

#include <math.h>
#include <string.h>

static void test_steps(void **state) {
        static const double most[] = { 0.013, 0.9, 1, 2, 3, 5, 7, 10, 99, 250, 123456 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(most); i++) {
                double n = most[i] / svg_plot_step(most[i]);

                assert_true(n >= 4.0 && n <= 10.0);
        }
        assert_true(fabs(svg_plot_step(250) - 50) < 1e-9);
        assert_true(fabs(svg_plot_step(0) - 1) < 1e-9);
        assert_true(fabs(svg_plot_step(INFINITY) - 1) < 1e-9);
}

static void test_lines(void **state) {
        static const double     x[] = { 1, 2, 4 }, y[] = { 0, 50, 100 };
        const struct svg_series series = { "p99 <&>", x, y, 3 };
        AUTO_STRBUF             out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        svg_plot_put_lines(&(struct svg_plot){ "T", "load", "ms", &series, 1 }, &out);
        /* From the lower edge, 238, to the upper one, 34; from 64 on the left to 548. */
        assert_non_null(strstr(strbuf_cstr(&out), "points=\"185.0,238.0 306.0,136.0 548.0,34.0\""));
        assert_non_null(strstr(strbuf_cstr(&out), "<title>p99 &lt;&amp;&gt; 50 at 2</title>"));
        assert_null(strstr(strbuf_cstr(&out), "<&>"));
}

static void test_bars(void **state) {
        static const double     x[] = { 8 }, low[] = { 25 }, high[] = { 75 };
        const struct svg_series series[] = { { "queue", x, low, 1 }, { "infer", x, high, 1 } };
        AUTO_STRBUF             out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        svg_plot_put_bars(&(struct svg_plot){ "T", "load", "ms", series, 2 }, &out);
        assert_non_null(strstr(strbuf_cstr(&out), "y=\"187.0\" width=\"60.0\" height=\"51.0\""));
        assert_non_null(strstr(strbuf_cstr(&out), "y=\"34.0\" width=\"60.0\" height=\"153.0\""));
        assert_non_null(strstr(strbuf_cstr(&out), "<title>infer 75 at 8</title>"));
}

static void test_nothing(void **state) {
        const struct svg_series series = { "none", NULL, NULL, 0 };
        AUTO_STRBUF             out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        svg_plot_put_lines(&(struct svg_plot){ "T", "x", "y", &series, 1 }, &out);
        svg_plot_put_bars(&(struct svg_plot){ "T", "x", "y", &series, 1 }, &out);
        assert_null(strstr(strbuf_cstr(&out), "nan"));
        assert_null(strstr(strbuf_cstr(&out), "inf"));
}

SUITE(svg_plot) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_steps),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_bars),
                cmocka_unit_test(test_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
