/* SPDX-License-Identifier: BSD-3-Clause */
/* Configurations: what may change, and what they become. */
#include "suite.h"

#include "base/compiler.h"
#include "tune/tune_config.h"

#include <string.h>

static const char digits[] =
        "{\"name\":\"digits\",\"backend\":\"onnxruntime\",\"max_batch_size\":64,"
        "\"dynamic_batching\":{\"preferred_batch_size\":[64],\"max_queue_delay_microseconds\":0,"
        "\"preserve_ordering\":false},"
        "\"instance_group\":[{\"name\":\"digits_0\",\"kind\":\"KIND_CPU\",\"count\":1,"
        "\"host_policy\":\"x\"}],"
        "\"parameters\":{\"intra_op_thread_count\":{\"string_value\":\"1\"},"
        "\"mine\":{\"string_value\":\"kept\"}}}";
static const struct tune_bounds bounds = { 4, 2, 1000 };

static struct tune_limits read(const char *config) {
        struct tune_limits l;
        AUTO_ERROR         err = tune_config_read(str_of(config), &bounds, &l);

        assert_null(err);
        return l;
}

static void test_read(void **state) {
        struct tune_limits l = read(digits);
        AUTO_ERROR         err = NULL;

        (void)state;
        assert_true(l.has_instances && l.has_threads && l.has_batching && l.may_disable_batching);
        assert_true(l.is_batching);
        assert_int_equal(l.instances, 1);
        assert_int_equal(l.threads, 1);
        assert_int_equal(l.preferred, 0); /* 64 is what the server fills in */
        assert_int_equal(l.adaptive, TUNE_ADAPTIVE_OFF);
        l = read("{\"backend\":\"python\",\"max_batch_size\":8,\"instance_group\":[{\"count\":3}],"
                 "\"dynamic_batching\":{\"priority_levels\":2,\"preferred_batch_size\":[4,8]},"
                 "\"parameters\":{\"adaptive_batching\":{\"string_value\":\"idle\"}}}");
        assert_false(l.has_threads);
        assert_false(l.may_disable_batching);
        assert_int_equal(l.instances, 3);
        assert_int_equal(l.preferred, 4);
        assert_int_equal(l.adaptive, TUNE_IDLE);
        l = read("{\"max_batch_size\":8,\"sequence_batching\":{},"
                 "\"instance_group\":[{\"count\":1},{\"count\":1}]}");
        assert_false(l.has_batching || l.has_instances);
        l = read("{\"max_batch_size\":1}");
        assert_false(l.has_batching || l.has_instances || l.has_threads);
        err = tune_config_read(STR_LIT("[]"), &bounds, &l);
        assert_non_null(err);
}

/* The point of these values, which are on their axes. */
static struct tune_point point_of(const struct tune_space *s, const uint64_t *values) {
        struct tune_point p = { { 0 } };

        for (size_t axis = 0; axis < TUNE_AXES; axis++)
                while (s->axes[axis].values[p.at[axis]] != values[axis])
                        p.at[axis]++;
        return p;
}

static const struct {
        uint64_t    values[TUNE_AXES];
        const char *json, *lines;
} rows[] = {
        { { 2, 1, 16, 500, TUNE_FLOW },
          "{\"name\":\"digits\",\"backend\":\"onnxruntime\",\"max_batch_size\":64,"
          "\"instance_group\":[{\"name\":\"digits_0\",\"kind\":\"KIND_CPU\",\"host_policy\":\"x\","
          "\"count\":2}],"
          "\"dynamic_batching\":{\"preserve_ordering\":false,\"preferred_batch_size\":[16],"
          "\"max_queue_delay_microseconds\":500},"
          "\"parameters\":{\"mine\":{\"string_value\":\"kept\"},"
          "\"adaptive_batching\":{\"string_value\":\"flow\"},"
          "\"intra_op_thread_count\":{\"string_value\":\"1\"}}}",
          "instance_group { count: 2 kind: KIND_CPU }\n"
          "dynamic_batching { preferred_batch_size: [ 16 ] max_queue_delay_microseconds: 500 }\n"
          "parameters { key: \"adaptive_batching\" value { string_value: \"flow\" } }\n"
          "parameters { key: \"intra_op_thread_count\" value { string_value: \"1\" } }\n" },
        { { 4, 2, TUNE_NO_BATCHING, 0, TUNE_FLOW },
          "{\"name\":\"digits\",\"backend\":\"onnxruntime\",\"max_batch_size\":64,"
          "\"instance_group\":[{\"name\":\"digits_0\",\"kind\":\"KIND_CPU\",\"host_policy\":\"x\","
          "\"count\":4}],"
          "\"parameters\":{\"mine\":{\"string_value\":\"kept\"},"
          "\"intra_op_thread_count\":{\"string_value\":\"2\"}}}",
          "instance_group { count: 4 kind: KIND_CPU }\n"
          "# no dynamic_batching\n"
          "parameters { key: \"intra_op_thread_count\" value { string_value: \"2\" } }\n" },
};

static void test_put(void **state) {
        struct tune_limits l = read(digits);
        struct tune_space  s;

        (void)state;
        tune_space_make(&l, &s);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct tune_point p = point_of(&s, rows[i].values);
                AUTO_STRBUF       json = { 0 }, lines = { 0 };

                strbuf_init(&json, 0);
                strbuf_init(&lines, 0);
                tune_config_put(str_of(digits), &s, &p, &json);
                assert_string_equal(strbuf_cstr(&json), rows[i].json);
                tune_config_put_lines(str_of(digits), &s, &p, &lines);
                assert_string_equal(strbuf_cstr(&lines), rows[i].lines);
        }
}

/* A configuration without anything to change stays as it is. */
static void test_put_nothing(void **state) {
        static const char  config[] = "{\"max_batch_size\":1,\"parameters\":{}}";
        struct tune_limits l = read(config);
        struct tune_space  s;
        struct tune_point  p = { { 0 } };
        AUTO_STRBUF        json = { 0 }, lines = { 0 };

        (void)state;
        strbuf_init(&json, 0);
        strbuf_init(&lines, 0);
        tune_space_make(&l, &s);
        tune_config_put(str_of(config), &s, &p, &json);
        assert_string_equal(strbuf_cstr(&json), config);
        tune_config_put_lines(str_of(config), &s, &p, &lines);
        assert_string_equal(strbuf_cstr(&lines), "");
}

/* Names with escapes stay as they are, too. */
static void test_put_keeps_names(void **state) {
        static const char  config[] = "{\"instance_group\":[{\"count\":1}],\"parameters\":{"
                                      "\"a\\\"b\":{\"string_value\":\"x\"},"
                                      "\"c\\\\d\":{\"string_value\":\"y\"}}}";
        struct tune_limits l = read(config);
        struct tune_space  s;
        struct tune_point  p = { { 0 } };
        AUTO_STRBUF        json = { 0 };

        (void)state;
        strbuf_init(&json, 0);
        tune_space_make(&l, &s);
        tune_config_put(str_of(config), &s, &p, &json);
        assert_string_equal(strbuf_cstr(&json), config);
}

SUITE(tune_config) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_read),
                cmocka_unit_test(test_put),
                cmocka_unit_test(test_put_nothing),
                cmocka_unit_test(test_put_keeps_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
