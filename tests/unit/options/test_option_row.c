/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "options/option_row.h"

#include <string.h>

struct values {
        bool                flag, on;
        int64_t             number;
        uint64_t            count;
        double              real;
        char               *text, *none;
        struct option_texts texts;
};

#define ROW(row_kind, member, ...)                                                                 \
        {                                                                                          \
                .kind = OPTION_##row_kind, .name = #member,                                        \
                .offset = offsetof(struct values, member), __VA_ARGS__                             \
        }

static const struct option_row rows[] = {
        ROW(FLAG, flag, .initial = "false"),
        ROW(BOOL, on, .initial = "true"),
        ROW(NUMBER, number, .initial = "-1", .max = 9007199254740992.0),
        ROW(COUNT, count, .initial = "18446744073709551615"),
        ROW(REAL, real, .initial = "0.5", .max = 10),
        ROW(TEXT, text, .initial = "start", .refuses_empty = true, .old_name = "words"),
        ROW(TEXT, none),
        ROW(TEXTS, texts),
        { .kind = OPTION_BOOL,
          .name = "gone",
          .initial = "false",
          .missing = "flying",
          .harmless = "false" },
};

static const struct option_table table = { rows, ARRAY_LEN(rows) };

static const struct option_row *find(const char *name) {
        return option_table_find(&table, str_of(name));
}

static void assert_refused(struct values *v, const char *name, const char *text,
                           const char *message) {
        struct error *err = option_set(find(name), v, text);

        assert_non_null(err);
        assert_string_equal(err->message, message);
        error_free(err);
}

static void assert_value(const struct values *v, const char *name, size_t index,
                         const char *expected) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        option_put_value(find(name), v, index, &text);
        assert_string_equal(strbuf_cstr(&text), expected);
}

static void test_defaults(void **state) {
        struct values v;

        (void)state;
        option_table_init(&table, &v, sizeof(v));
        assert_false(v.flag);
        assert_true(v.on);
        assert_int_equal(v.number, -1); /* not within the range: "not given" */
        assert_true(v.count == UINT64_MAX);
        assert_true(v.real == 0.5);
        assert_string_equal(v.text, "start");
        assert_null(v.none);
        assert_int_equal(v.texts.n_items, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_false(option_is_changed(&rows[i], &v));
        assert_int_equal(option_n_values(find("number"), &v), 0);
        assert_int_equal(option_n_values(find("text"), &v), 1);
        assert_int_equal(option_n_values(find("none"), &v), 0);
        assert_int_equal(option_n_values(find("gone"), &v), 0);
        option_table_done(&table, &v);
        assert_null(v.text);
}

static void test_values_are_copied_and_printed(void **state) {
        static const char *const sets[][2] = {
                { "flag", "true" }, { "on", "off" },    { "number", "9007199254740992" },
                { "count", "7" },   { "real", "2.25" }, { "words", "old name" },
                { "none", "" },     { "texts", "a" },   { "texts", "b" },
        };
        struct values v;
        char          text[20];

        (void)state;
        option_table_init(&table, &v, sizeof(v));
        for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
                strcpy(text, sets[i][1]);
                assert_null(option_set(find(sets[i][0]), &v, text));
                assert_true(option_is_changed(find(sets[i][0]), &v));
        }
        text[0] = 'x';
        assert_value(&v, "flag", 0, "true");
        assert_value(&v, "on", 0, "false");
        assert_value(&v, "number", 0, "9007199254740992");
        assert_value(&v, "count", 0, "7");
        assert_value(&v, "real", 0, "2.25");
        assert_value(&v, "text", 0, "old name");
        assert_value(&v, "none", 0, "");
        assert_value(&v, "texts", 0, "a");
        assert_value(&v, "texts", 1, "b");
        assert_int_equal(option_n_values(find("texts"), &v), 2);
        option_table_done(&table, &v);
}

static void test_refusals_change_nothing(void **state) {
        struct values v;

        (void)state;
        option_table_init(&table, &v, sizeof(v));
        assert_refused(&v, "on", "yes", "Bad option: \"--on\".\nexpects true or false, got: yes");
        assert_refused(&v, "number", "9007199254740993",
                       "Bad option: \"--number\".\nvalue is out of range [ 0, 9007199254740992 ], "
                       "got: 9007199254740993");
        assert_refused(&v, "number", "1.5",
                       "Bad option: \"--number\".\nexpects an integer, got: 1.5");
        assert_refused(&v, "count", "-1", "--count expects a number, got '-1'");
        assert_refused(&v, "real", "nan", "Bad option: \"--real\".\nexpects a number, got: nan");
        assert_refused(&v, "real", "10.5",
                       "Bad option: \"--real\".\nvalue is out of range [ 0, 10 ], got: 10.5");
        assert_refused(&v, "text", "", "Error: empty argument for --text");
        assert_refused(&v, "gone", "true", "--gone: flying is not supported yet");
        assert_null(option_set(find("gone"), &v, "OFF"));
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_false(option_is_changed(&rows[i], &v));
        assert_true(v.on &&
                    !v.flag); /* the first members, where a row without a place would write */
        option_table_done(&table, &v);
}

static void test_names(void **state) {
        (void)state;
        assert_ptr_equal(find("text"), find("words"));
        assert_null(find("tex"));
        assert_null(find(""));
        assert_string_equal(option_table_suggest(&table, STR_LIT("wrods")), "words");
        assert_string_equal(option_table_suggest(&table, STR_LIT("nubmer")), "number");
        assert_null(option_table_suggest(&table, STR_LIT("qqqqqqqqq")));
}

static void test_help(void **state) {
        static const struct option_row row = { .kind = OPTION_TEXT,
                                               .argument = "<a|b>",
                                               .initial = "",
                                               .default_text = "what there is" };

        (void)state;
        assert_string_equal(option_argument(find("flag")), "");
        assert_string_equal(option_argument(find("on")), "<boolean>");
        assert_string_equal(option_argument(find("number")), "<integer>");
        assert_string_equal(option_argument(&row), "<a|b>");
        assert_string_equal(option_default(&row), "what there is");
        assert_string_equal(option_default(find("on")), "true");
        assert_string_equal(option_default(find("flag")), "");
        assert_string_equal(option_default(find("none")), "");
}

SUITE(option_row) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_values_are_copied_and_printed),
                cmocka_unit_test(test_refusals_change_nothing),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_help),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
