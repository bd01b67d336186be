/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/config_origin.h"

static void compare(const char *given_json, const char *own_json, struct config_origin *ret) {
        AUTO_MODEL_CONFIG given = NULL;
        AUTO_MODEL_CONFIG own = NULL;

        assert_ok(model_config_read_json(str_of(given_json), &given), given_json);
        if (own_json != NULL)
                assert_ok(model_config_read_json(str_of(own_json), &own), own_json);
        config_origin_compare(given, own, ret);
}

#define TWO                                                                                        \
        "{\"runtime\":\"r\",\"parameters\":{\"a\":{\"string_value\":\"1\"},"                       \
        "\"b\":{\"string_value\":\"2\"}}}"

static void test_parameters(void **state) {
        static const struct {
                const char *own;
                bool        is_a_sent, is_b_sent, is_runtime_sent;
        } rows[] = {
                { NULL, true, true, true },
                { "{}", true, true, true },
                { TWO, false, false, false },
                { "{\"parameters\":{\"a\":{\"string_value\":\"1\"}}}", false, true, true },
                { "{\"parameters\":{\"a\":{\"string_value\":\"10\"},\"c\":{\"string_value\":\"2\"}}"
                  "}",
                  true, true, true },
                { "{\"runtime\":\"r\"}", true, true, false },
                { "{\"runtime\":\"rr\"}", true, true, true },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct config_origin origin, copy;

                compare(TWO, rows[i].own, &origin);
                config_origin_copy(&origin, &copy);
                config_origin_done(&origin);
                assert_int_equal(config_origin_is_sent(&copy, "a"), rows[i].is_a_sent);
                assert_int_equal(config_origin_is_sent(&copy, "b"), rows[i].is_b_sent);
                assert_int_equal(copy.has_sent_runtime, rows[i].is_runtime_sent);
                assert_false(config_origin_is_sent(&copy, "c"));
                config_origin_done(&copy);
        }
}

/* The reader of JSON keeps both entries of a key. One of them is that of the repository. */
static void test_a_key_twice(void **state) {
        AUTO_MODEL_CONFIG    given = NULL;
        AUTO_MODEL_CONFIG    own = NULL;
        struct config_origin origin;

        (void)state;
        assert_ok(model_config_read_json(STR_LIT(TWO), &given), "given");
        assert_ok(model_config_read_json(STR_LIT(TWO), &own), "own");
        given->pb->parameters[1]->key = given->pb->parameters[0]->key;
        config_origin_compare(given, own, &origin);
        assert_true(config_origin_is_sent(&origin, "a"));
        config_origin_done(&origin);
}

static void test_empty(void **state) {
        struct config_origin origin = { 0 }, copy;

        (void)state;
        assert_false(config_origin_is_sent(&origin, "a"));
        config_origin_copy(&origin, &copy);
        config_origin_done(&copy);
        config_origin_done(&copy);
        compare("{}", NULL, &origin);
        assert_false(origin.has_sent_runtime);
        config_origin_done(&origin);
}

SUITE(config_origin) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parameters),
                cmocka_unit_test(test_a_key_twice),
                cmocka_unit_test(test_empty),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
