/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "codec/json_find.h"

static const char text[] = " { \"a\": 1, \"list\" : [ {\"n\":7}, {\"n\":8} ], \"deep\":{\"er\":"
                           "{\"flag\":true,\"name\":\"x\\ty\"}}, \"neg\":-3, \"none\":null, "
                           "\"a\": 2 } ";

static void assert_found(const char *path, const char *expected) {
        struct str found = json_find(str_of(text), path);

        assert_non_null(found.ptr);
        if (!str_is(str_trim(found), expected))
                fail_msg("%s: %.*s", path, STR_ARG(found));
}

static void test_paths(void **state) {
        (void)state;
        assert_found("a", "1"); /* the first of the same name */
        assert_found("list", "[ {\"n\":7}, {\"n\":8} ]");
        assert_found("deep.er.flag", "true");
        assert_found("none", "null");
        assert_null(json_find(str_of(text), "b").ptr);
        assert_null(json_find(str_of(text), "a.b").ptr);
        assert_null(json_find(str_of(text), "list.n").ptr);
        assert_null(json_find(str_of(text), "deep.er.flag.x").ptr);
        assert_null(json_find(str_range(NULL, 0), "a").ptr);
}

static void test_values(void **state) {
        struct arena arena;
        struct str   t = str_of(text);

        (void)state;
        arena_init(&arena, NULL, 0, 1 << 20);
        assert_int_equal(json_find_count(t, "a"), 1);
        assert_int_equal(json_find_count(t, "neg"), 3);
        assert_int_equal(json_find_count(t, "deep"), 0);
        assert_int_equal(json_find_count(t, "nothing"), 0);
        assert_true(json_find_flag(t, "deep.er.flag"));
        assert_false(json_find_flag(t, "a"));
        assert_true(str_is(json_find_text(t, "deep.er.name", &arena), "x\ty"));
        assert_int_equal(json_find_text(t, "a", &arena).len, 0);
        arena_done(&arena);
}

static void test_lists(void **state) {
        struct str list = json_find(str_of(text), "list");
        uint64_t   n = 0;

        (void)state;
        JSON_FOR_EACH(list, element)
                n = 10 * n + json_find_count(element, "n");
        assert_int_equal(n, 78);
        n = 0;
        JSON_FOR_EACH(list, element) {
                n = json_find_count(element, "n");
                break;
        }
        assert_int_equal(n, 7);
        assert_int_equal(json_list_count(list), 2);
        assert_int_equal(json_find_count(json_list_first(list), "n"), 7);
        assert_int_equal(json_list_count(json_find(str_of(text), "deep")), 0);
        assert_int_equal(json_list_count(json_find(str_of(text), "nothing")), 0);
        assert_int_equal(json_list_count(STR_LIT("[]")), 0);
        assert_null(json_list_first(STR_LIT("[]")).ptr);
}

static void assert_bad(struct str json, enum json_type type, const char *message) {
        struct error *err = json_check(json, type);

        assert_non_null(err);
        assert_string_equal(err->message, message);
        error_free(err);
}

static void test_check(void **state) {
        (void)state;
        assert_null(json_check(str_of(text), JSON_OBJECT));
        assert_null(json_check(STR_LIT("[1]"), JSON_ARRAY));
        assert_bad(STR_LIT("[1]"), JSON_OBJECT, "attempt to access JSON non-object as object at 0");
        assert_bad(STR_LIT("{}"), JSON_ARRAY, "attempt to access JSON non-array as array at 0");
        assert_bad(STR_LIT("{\"a\":1"), JSON_OBJECT,
                   "Missing a comma or } after an object member. at 6");
        assert_bad(STR_LIT("{} 1"), JSON_OBJECT,
                   "The document root must not be followed by other values. at 3");
}

SUITE(json_find) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_paths),
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_lists),
                cmocka_unit_test(test_check),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
