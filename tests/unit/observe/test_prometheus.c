/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "observe/prometheus.h"

#include <math.h>
#include <stdlib.h>

static struct strbuf out;

static int set_up(void **state) {
        (void)state;
        strbuf_init(&out, 0);
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        strbuf_done(&out);
        return 0;
}

static void expect(const char *text) {
        assert_string_equal(strbuf_cstr(&out), text);
        strbuf_clear(&out);
}

static void test_numbers(void **state) {
        static const struct {
                double      value;
                const char *text;
        } rows[] = {
                { 0, "0" },
                { -0.0, "0" },
                { 1, "1" },
                { -17, "-17" },
                { 268435456, "268435456" },
                { 16768405504, "16768405504" },
                { 9007199254740991, "9007199254740991" },
                { 9007199254740992, "9007199254740992" },
                { 1e300, "1e+300" },
                { 0.1, "0.1" },
                { 0.3, "0.3" },
                { 0.1 + 0.2, "0.30000000000000004" },
                { 0.001726159, "0.001726159" },
                { 2.5, "2.5" },
                { 1e-05, "1e-05" },
                { 1.0 / 3, "0.3333333333333333" },
                { 5e-324, "4.94065645841247e-324" },
                { INFINITY, "+Inf" },
                { -INFINITY, "-Inf" },
                { NAN, "NaN" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                prometheus_number(&out, rows[i].value);
                expect(rows[i].text);
        }
}

static void test_every_number_comes_back(void **state) {
        uint64_t seed = 88172645463325252u;

        (void)state;
        for (int i = 0; i < 20000; i++) {
                double value;

                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                value = ldexp((double)(seed >> 11), (int)(seed % 120) - 100);
                prometheus_number(&out, value);
                assert_true(strtod(strbuf_cstr(&out), NULL) == value);
                strbuf_clear(&out);
        }
}

static void test_head_escapes_help(void **state) {
        (void)state;
        prometheus_head(&out, "a_total", "one\\two\nthree \"four\"", METRIC_COUNTER);
        expect("# HELP a_total one\\\\two\\nthree \"four\"\n# TYPE a_total counter\n");
        prometheus_head(&out, "b", "", METRIC_GAUGE);
        expect("# HELP b \n# TYPE b gauge\n");
        prometheus_head(&out, "c", "d", METRIC_HISTOGRAM);
        expect("# HELP c d\n# TYPE c histogram\n");
}

static void test_labels_are_sorted_and_escaped(void **state) {
        const struct metric_label labels[] = {
                { "version", "1" },
                { "model", "a \"b\" \\ c\nd" },
                { "_tag", "" },
        };

        (void)state;
        prometheus_labels(&out, labels, ARRAY_LEN(labels));
        expect("{_tag=\"\",model=\"a \\\"b\\\" \\\\ c\\nd\",version=\"1\"}");
        assert_string_equal(labels[0].name, "version");
        prometheus_labels(&out, labels, 0);
        expect("");
}

/* One label with other bytes would make a scraper refuse the whole page. */
static void test_bytes_that_are_no_utf8(void **state) {
        const struct metric_label label = { "model", "\xc3\xa9\xff\"\xc3" };
        char                     *text = prometheus_labels_new(&label, 1);

        (void)state;
        assert_string_equal(text, "{model=\"\xc3\xa9\xef\xbf\xbd\\\"\xef\xbf\xbd\"}");
        free(text);
        prometheus_head(&out, "a", "\xff", METRIC_GAUGE);
        expect("# HELP a \xef\xbf\xbd\n# TYPE a gauge\n");
}

/* The labels of a model are printed once, so they must not be cut for good. */
static void test_labels_have_memory(void **state) {
        const struct metric_label labels[] = { { "model", "\"\"\"\"" }, { "version", "1" } };
        AUTO_CHARS                text = NULL;
        AUTO_CHARS                none = NULL;

        (void)state;
        mem_fail_after(1);
        text = prometheus_labels_new(labels, ARRAY_LEN(labels));
        none = prometheus_labels_new(NULL, 0);
        mem_fail_after(0);
        assert_string_equal(text, "{model=\"\\\"\\\"\\\"\\\"\",version=\"1\"}");
        assert_string_equal(none, "");
}

static void test_sample(void **state) {
        (void)state;
        prometheus_sample(&out, "x", "", 0.5);
        prometheus_sample(&out, "x", "{a=\"b\"}", 3);
        expect("x 0.5\nx{a=\"b\"} 3\n");
}

static void test_histogram(void **state) {
        const double                      bounds[] = { 0.5, 2 };
        const uint64_t                    counts[] = { 1, 0, 4 };
        const struct prometheus_histogram h = { bounds, counts, 2, 12.25, NULL };
        const uint64_t                    none[] = { 0 };
        const struct prometheus_histogram empty = { NULL, none, 0, 0, NULL };

        (void)state;
        prometheus_histogram(&out, "h", "{a=\"b\"}", &h);
        expect("h_bucket{a=\"b\",le=\"0.5\"} 1\n"
               "h_bucket{a=\"b\",le=\"2\"} 1\n"
               "h_bucket{a=\"b\",le=\"+Inf\"} 5\n"
               "h_sum{a=\"b\"} 12.25\n"
               "h_count{a=\"b\"} 5\n");
        prometheus_histogram(&out, "h", "", &empty);
        expect("h_bucket{le=\"+Inf\"} 0\nh_sum 0\nh_count 0\n");
}

static void test_names(void **state) {
        (void)state;
        assert_true(prometheus_is_label_name("_a9"));
        assert_false(prometheus_is_label_name(""));
        assert_false(prometheus_is_label_name("9a"));
        assert_false(prometheus_is_label_name("a:b"));
        assert_false(prometheus_is_label_name("a-b"));
        assert_false(prometheus_is_label_name("\xc3\xa4"));
        assert_true(prometheus_is_family_name(":a:b_1"));
        assert_false(prometheus_is_family_name("1a"));
        assert_false(prometheus_is_family_name("a b"));
}

SUITE(prometheus) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_numbers, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_every_number_comes_back, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_head_escapes_help, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_labels_are_sorted_and_escaped, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(test_bytes_that_are_no_utf8, set_up, tear_down),
                cmocka_unit_test(test_labels_have_memory),
                cmocka_unit_test_setup_teardown(test_sample, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_histogram, set_up, tear_down),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
