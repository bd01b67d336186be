/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables, times and indented JSON for a terminal. */
#include "suite.h"

#include "cli/json_indent.h"
#include "cli/text_table.h"

static void put_row(struct text_table *t, const char *a, const char *b, const char *c) {
        text_table_put(t, str_of(a));
        text_table_put(t, str_of(b));
        text_table_put(t, str_of(c));
}

static void check(const struct text_table *t, const char *expected) {
        AUTO_STRBUF out = { 0 };

        strbuf_init(&out, 0);
        text_table_print(t, &out);
        assert_string_equal(strbuf_cstr(&out), expected);
}

static void test_table(void **state) {
        static const struct text_column columns[] = {
                { "MODEL", TEXT_LEFT },
                { "N", TEXT_RIGHT },
                { "REASON", TEXT_LEFT },
        };
        struct text_table t;

        (void)state;
        text_table_init(&t, columns, ARRAY_LEN(columns));
        check(&t, "\n"); /* no rows: no columns */
        put_row(&t, "a", "1", "");
        put_row(&t, "much longer", "12345", "why\nnot\t\x01");
        put_row(&t, "\xc3\xa4\xc3\xb6", "22", "x"); /* two characters of two bytes */
        check(&t, "MODEL            N  REASON\n"
                  "a                1\n"
                  "much longer  12345  why not  \n"
                  "\xc3\xa4\xc3\xb6              22  x\n");
        text_table_done(&t);
}

static void test_empty_columns_are_left_out(void **state) {
        static const struct text_column columns[] = {
                { "A", TEXT_LEFT },
                { "B", TEXT_LEFT },
                { "C", TEXT_LEFT },
        };
        struct text_table t;

        (void)state;
        text_table_init(&t, columns, ARRAY_LEN(columns));
        put_row(&t, "1", "", "");
        text_table_put(&t, str_range(NULL, 0));
        text_table_put(&t, STR_LIT(""));
        text_table_printf(&t, "%d", 3);
        check(&t, "A  C\n1\n   3\n");
        text_table_done(&t);
}

static void test_durations(void **state) {
        static const struct {
                double      ns;
                const char *text;
        } rows[] = {
                { 0, "0" },           { -1, "0" },           { 1, "1 ns" },
                { 999.4, "999 ns" },  { 999.5, "1.00 us" },  { 1234, "1.23 us" },
                { 9995, "10.0 us" },  { 12345, "12.3 us" },  { 99950, "100 us" },
                { 999499, "999 us" }, { 999500, "1.00 ms" }, { 4560000, "4.56 ms" },
                { 1.2e9, "1.20 s" },  { 1.2e13, "12000 s" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_STRBUF out = { 0 };

                strbuf_init(&out, 0);
                duration_print(rows[i].ns, &out);
                assert_string_equal(strbuf_cstr(&out), rows[i].text);
        }
}

static void test_indented_json(void **state) {
        static const struct {
                const char *json, *text;
        } rows[] = {
                { "{}", "{}" },
                { " [ ] ", "[]" },
                { "7", "7" },
                { "[1,  \"a\\n\",null]", "[1, \"a\\n\", null]" },
                { "{\"a\":1,\"b\\\"\" :[ 1,2 ]}", "{\n  \"a\": 1,\n  \"b\\\"\": [1, 2]\n}" },
                { "[{\"x\":{}},[1]]", "[\n  {\n    \"x\": {}\n  },\n  [1]\n]" },
                { "{\"a\": {\"b\": [[]]}}",
                  "{\n  \"a\": {\n    \"b\": [\n      []\n    ]\n  }\n}" },
                { "{not json", "{not json" },
                { "{} {}", "{} {}" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_STRBUF out = { 0 };

                strbuf_init(&out, 0);
                json_indent(str_of(rows[i].json), &out);
                assert_string_equal(strbuf_cstr(&out), rows[i].text);
        }
}

SUITE(text_table) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_empty_columns_are_left_out),
                cmocka_unit_test(test_durations),
                cmocka_unit_test(test_indented_json),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
