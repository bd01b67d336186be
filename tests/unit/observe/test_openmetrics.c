/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "observe/openmetrics.h"

static void expect(const char *page, const char *wanted) {
        AUTO_STRBUF out;

        strbuf_init(&out, 0);
        openmetrics_convert(str_of(page), &out);
        openmetrics_end(&out);
        assert_string_equal(strbuf_cstr(&out), wanted);
}

static void test_empty(void **state) {
        (void)state;
        expect("", "# EOF\n");
}

static void test_counters(void **state) {
        (void)state;
        expect("# HELP a_total Said \"so\", a \\\\ and \\n\n# TYPE a_total counter\n"
               "a_total{x=\"1\"} 2\na_total{x=\"2\"} 3\n"
               "# HELP nv_b Text\n# TYPE nv_b counter\nnv_b 4\n",
               "# HELP a Said \\\"so\\\", a \\\\ and \\n\n# TYPE a counter\n"
               "a_total{x=\"1\"} 2\na_total{x=\"2\"} 3\n"
               "# HELP nv_b Text\n# TYPE nv_b unknown\nnv_b 4\n# EOF\n");
}

static void test_gauges(void **state) {
        (void)state;
        expect("# HELP g_total Not a counter\n# TYPE g_total gauge\ng_total{le=\"1\"} 2.5\n",
               "# HELP g_total Not a counter\n# TYPE g_total gauge\ng_total{le=\"1\"} 2.5\n# "
               "EOF\n");
}

static void test_help_without_text(void **state) {
        (void)state;
        expect("# HELP a \n# TYPE a gauge\na 1\n", "# HELP a \n# TYPE a gauge\na 1\n# EOF\n");
}

/* A bound is a float; labels that look like one are left alone. */
static void test_histograms(void **state) {
        (void)state;
        expect("# HELP h H\n# TYPE h histogram\n"
               "h_bucket{le=\"1\"} 1\n"
               "h_bucket{le=\"0.5\"} 1\n"
               "h_bucket{le=\"1e-05\"} 1\n"
               "h_bucket{le=\"+Inf\"} 1\n"
               "h_bucket{m=\"a,le=\\\"7\\\"\",title=\"3\",le=\"1024\"} 1 # {trace_id=\"ab\"} 0.5 "
               "1.2\n"
               "h_bucket{m=\",le=\",n=\"5 6\",le=\"2\"} 1\n"
               "h_sum{m=\",le=\",n=\"5\"} 1\n"
               "h_count 1\n",
               "# HELP h H\n# TYPE h histogram\n"
               "h_bucket{le=\"1.0\"} 1\n"
               "h_bucket{le=\"0.5\"} 1\n"
               "h_bucket{le=\"1e-05\"} 1\n"
               "h_bucket{le=\"+Inf\"} 1\n"
               "h_bucket{m=\"a,le=\\\"7\\\"\",title=\"3\",le=\"1024.0\"} 1 # {trace_id=\"ab\"} 0.5 "
               "1.2\n"
               "h_bucket{m=\",le=\",n=\"5 6\",le=\"2.0\"} 1\n"
               "h_sum{m=\",le=\",n=\"5\"} 1\n"
               "h_count 1\n# EOF\n");
}

SUITE(openmetrics) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_empty),      cmocka_unit_test(test_counters),
                cmocka_unit_test(test_gauges),     cmocka_unit_test(test_help_without_text),
                cmocka_unit_test(test_histograms),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
