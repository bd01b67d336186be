/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "cli/json_table.h"

static const struct json_column columns[] = {
        { "", TEXT_LEFT, cell_label, .path = "" },
        { "OF", TEXT_LEFT, cell_text_of_parent, .path = "name" },
        { "NAME", TEXT_LEFT, cell_text, .path = "name" },
        { "N", TEXT_RIGHT, cell_count, .path = "n" },
        { "SOME", TEXT_RIGHT, cell_count_or_blank, .path = "some" },
        { "ROWS", TEXT_RIGHT, cell_range, .path = "from", .second = "to" },
        { "NS", TEXT_RIGHT, cell_ns, .path = "t.ns" },
        { "US", TEXT_RIGHT, cell_us, .path = "n" },
        { "MEAN", TEXT_RIGHT, cell_mean, .path = "t.ns", .second = "t.count" },
        { "RATIO", TEXT_RIGHT, cell_ratio, .path = "to", .second = "from" },
        { "RAW", TEXT_LEFT, cell_json, .path = "raw" },
};

static const char answer[] =
        "{\"flat\":[{\"name\":\"a\",\"n\":3,\"from\":1,\"to\":8,\"t\":{\"ns\":5000,\"count\":2},"
        "\"raw\":[1,2]},{}],"
        "\"outer\":[{\"name\":\"v1\",\"in\":[{\"name\":\"b\",\"some\":4,\"from\":4,\"to\":4}]},"
        "{\"name\":\"v2\"},{\"in\":[{\"name\":\"c\"}],\"name\":\"v3\"}]}";

static void test_rows(void **state) {
        struct json_table t;
        struct arena      arena;
        AUTO_STRBUF       out = { 0 };

        (void)state;
        arena_init(&arena, NULL, 0, 1 << 20);
        strbuf_init(&out, 0);
        json_table_init(&t, columns, ARRAY_LEN(columns), &arena);
        assert_int_equal(json_table_add(&t, str_of(answer),
                                        &(struct json_rows){ .outer = "flat", .label = "x" }),
                         2);
        assert_int_equal(json_table_add(&t, str_of(answer),
                                        &(struct json_rows){ .outer = "outer", .inner = "in" }),
                         2);
        assert_int_equal(json_table_add(&t, str_of(answer),
                                        &(struct json_rows){ .outer = "nothing" }),
                         0);
        json_table_end(&t, &out);
        assert_string_equal(strbuf_cstr(&out),
                            "   OF  NAME  N  SOME  ROWS       NS       US     MEAN  RATIO  RAW\n"
                            "x      a     3         1-8  5.00 us  3.00 us  2.50 us   8.00  [1,2]\n"
                            "x            0           0        0        0        -      -\n"
                            "   v1  b     0     4     4        0        0        -   1.00\n"
                            "   v3  c     0           0        0        0        -      -\n");
        arena_done(&arena);
}

static void test_array_itself(void **state) {
        struct json_table t;
        struct arena      arena;
        AUTO_STRBUF       out = { 0 };

        (void)state;
        arena_init(&arena, NULL, 0, 1 << 20);
        strbuf_init(&out, 0);
        json_table_init(&t, columns + 2, 2, &arena);
        assert_int_equal(json_table_add(&t, STR_LIT("[{\"name\":\"a\\nb\",\"n\":1}]"),
                                        &(struct json_rows){ .outer = "" }),
                         1);
        json_table_end(&t, &out);
        assert_string_equal(strbuf_cstr(&out), "NAME  N\na b   1\n");
        json_table_init(&t, columns, 2, &arena);
        json_table_end(&t, NULL);
        arena_done(&arena);
}

SUITE(json_table) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_array_itself),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
