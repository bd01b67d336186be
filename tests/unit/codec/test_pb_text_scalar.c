/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kind of value in the text format: what it is read as, and what is refused. */
#include "suite.h"

#include "base/compiler.h"
#include "codec/pb_text.h"
#include "codec/pb_text_scalar.h"
#include "pb_node.h"

#include <math.h>
#include <stdio.h>

static struct arena arena;

static int setup(void **state) {
        (void)state;
        arena_init(&arena, NULL, 0, 0);
        return 0;
}

static int teardown(void **state) {
        (void)state;
        arena_done(&arena);
        return 0;
}

static struct node *read_text(struct str text) {
        ProtobufCMessage *message = NULL;
        struct error     *err = pb_text_read(&node_type, text, "f", &arena, &message);

        if (err != NULL)
                fail_msg("%s in: %.*s", err->message, STR_ARG(text));
        return (struct node *)message;
}

static struct node *read_node(const char *text) {
        return read_text(str_of(text));
}

static void test_integers(void **state) {
        static const struct {
                const char *text;
                int64_t     value;
        } rows[] = {
                { "i64: 0", 0 },
                { "i64: 7", 7 },
                { "i64: -7", -7 },
                { "i64: - 7", -7 },
                { "i64: -0", 0 },
                { "i64: 0x1F", 31 },
                { "i64: 0Xff", 255 },
                { "i64: -0x10", -16 },
                { "i64: 017", 15 },
                { "i64: -017", -15 },
                { "i64: 00", 0 },
                { "i64: 9223372036854775807", INT64_MAX },
                { "i64: -9223372036854775808", INT64_MIN },
                { "i64: 0x7fffffffffffffff", INT64_MAX },
                { "i64: 0777777777777777777777", INT64_MAX },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_true(read_node(rows[i].text)->i64 == rows[i].value);
}

static void test_integers_of_every_width(void **state) {
        struct node *low = read_node("i32: -2147483648 s32: -2147483648 sf32: -2147483648 "
                                     "s64: -9223372036854775808 sf64: -9223372036854775808 "
                                     "u32: 0 u64: -0 f32: 0 f64: 0");
        struct node *high = read_node("i32: 2147483647 s32: 2147483647 sf32: 2147483647 "
                                      "s64: 9223372036854775807 sf64: 9223372036854775807 "
                                      "u32: 4294967295 f32: 0xFFFFFFFF "
                                      "u64: 18446744073709551615 f64: 01777777777777777777777");

        (void)state;
        assert_int_equal(low->i32, INT32_MIN);
        assert_int_equal(low->s32, INT32_MIN);
        assert_int_equal(low->sf32, INT32_MIN);
        assert_true(low->s64 == INT64_MIN);
        assert_true(low->sf64 == INT64_MIN);
        assert_true(low->u64 == 0);
        assert_int_equal(high->i32, INT32_MAX);
        assert_int_equal(high->s32, INT32_MAX);
        assert_int_equal(high->sf32, INT32_MAX);
        assert_true(high->s64 == INT64_MAX);
        assert_true(high->sf64 == INT64_MAX);
        assert_true(high->u32 == UINT32_MAX);
        assert_true(high->f32 == UINT32_MAX);
        assert_true(high->u64 == UINT64_MAX);
        assert_true(high->f64 == UINT64_MAX);
}

static void test_reals(void **state) {
        static const struct {
                const char *text;
                double      value;
        } rows[] = {
                { "real64: 0", 0.0 },
                { "real64: 1", 1.0 },
                { "real64: -1.5", -1.5 },
                { "real64: .5", 0.5 },
                { "real64: 5.", 5.0 },
                { "real64: 1e3", 1000.0 },
                { "real64: 1E+3", 1000.0 },
                { "real64: 25e-2", 0.25 },
                { "real64: 1.5f", 1.5 },
                { "real64: 2F", 2.0 },
                { "real64: 1e2f", 100.0 },
                { "real64: 0.1", 0.1 },
                { "real64: inf", INFINITY },
                { "real64: -inf", -INFINITY },
                { "real64: Infinity", INFINITY },
                { "real64: - INF", -INFINITY },
                { "real64: 1e400", INFINITY },
                { "real64: 4.9406564584124654e-324", 4.9406564584124654e-324 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_true(read_node(rows[i].text)->real64 == rows[i].value);
        assert_true(isnan(read_node("real64: nan")->real64));
        assert_true(isnan(read_node("real64: -NaN")->real64));
        assert_true(signbit(read_node("real64: -0.0")->real64));
}

static void test_floats_are_rounded_once(void **state) {
        (void)state;
        assert_true(read_node("real32: 0.1")->real32 == 0.1f);
        assert_true(read_node("real32: 1e40")->real32 == INFINITY);
        /* Just above half-way between 1 and the next float; half-way as a double. */
        assert_true(read_node("real32: 1.000000059604644775390626")->real32 ==
                    1.00000011920928955f);
}

static void test_bools(void **state) {
        static const char *const yes[] = { "true", "True", "t", "1", "0x1", "01" };
        static const char *const no[] = { "false", "False", "f", "0", "0x0", "00" };
        char                     text[32];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
                snprintf(text, sizeof(text), "truth: %s", yes[i]);
                assert_int_equal(read_node(text)->truth, 1);
        }
        for (size_t i = 0; i < ARRAY_LEN(no); i++) {
                snprintf(text, sizeof(text), "truth: %s", no[i]);
                assert_int_equal(read_node(text)->truth, 0);
        }
}

static void test_enums_by_name_and_number(void **state) {
        (void)state;
        assert_int_equal(read_node("color: GREEN")->color, NODE_GREEN);
        assert_int_equal(read_node("color: RED")->color, NODE_RED);
        assert_int_equal(read_node("color: 1")->color, NODE_GREEN);
        assert_int_equal(read_node("color: 0x1")->color, NODE_GREEN);
        assert_int_equal(read_node("color: -2")->color, NODE_BELOW);
        assert_int_equal(read_node("")->color, NODE_RED);
}

static void test_strings(void **state) {
        static const struct {
                const char *text;
                const char *value;
        } rows[] = {
                { "text: \"\"", "" },
                { "text: ''", "" },
                { "text: \"it's\"", "it's" },
                { "text: 'say \"a\"'", "say \"a\"" },
                { "text: 'a' 'b' \"c\"", "abc" },
                { "text: 'a' # comment\n\n  \"b\"", "ab" },
                { "text: '' '' 'x'", "x" },
                { "text: 'a#b'", "a#b" },
                { "text: 'tab\there'", "tab\there" },
                { "text: '\\a\\b\\f\\n\\r\\t\\v'", "\a\b\f\n\r\t\v" },
                { "text: '\\\\ \\? \\' \\\"'", "\\ ? ' \"" },
                { "text: '\\1\\12\\1234'", "\001\012S4" },
                { "text: '\\x41\\X4a\\x9z'", "AJ\tz" },
                { "text: '\\x414'", "A4" },
                { "text: '\\u00e9\\u20AC'", "\xc3\xa9\xe2\x82\xac" },
                { "text: '\\U0001f600'", "\xf0\x9f\x98\x80" },
                { "text: '\\ud83d\\ude00'", "\xf0\x9f\x98\x80" },
                { "text: '\\u0041\\u007f\\u0080\\u07ff\\u0800\\uffff'",
                  "A\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf" },
                { "text: '\\U0010FFFF'", "\xf4\x8f\xbf\xbf" },
                { "text: '\xc3\xa9'", "\xc3\xa9" },
                { "text: '\\303\\251'", "\xc3\xa9" },
                { "text: '\\303' '\\251'", "\xc3\xa9" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_string_equal(read_node(rows[i].text)->text, rows[i].value);
}

static void test_bytes_may_be_anything(void **state) {
        struct node *node = read_text(STR_LIT("bytes: '\\000\\377\xff' \"\\x00\""));

        (void)state;
        assert_int_equal(node->bytes.len, 4);
        assert_memory_equal(node->bytes.data, "\0\xff\xff\0", 4);
        node = read_node("bytes: ''");
        assert_int_equal(node->bytes.len, 0);
}

/* Strings in the message are copies: nothing points into the text. */
static void test_strings_are_copies(void **state) {
        char         text[] = "text: 'abc' words: 'def'";
        struct node *node = read_node(text);

        (void)state;
        memset(text, 'x', sizeof(text) - 1);
        assert_string_equal(node->text, "abc");
        assert_string_equal(node->words[0], "def");
}

static const struct {
        const char *text;
        const char *error;
} refusals[] = {
        { "i32: 2147483648", "f:1:6: value 2147483648 of field 'i32' is out of range for int32" },
        { "i32: -2147483649", "f:1:6: value -2147483649 of field 'i32' is out of range for int32" },
        { "u32: 4294967296", "f:1:6: value 4294967296 of field 'u32' is out of range for uint32" },
        { "u32: -1", "f:1:6: value -1 of field 'u32' is out of range for uint32" },
        { "u64: -1", "f:1:6: value -1 of field 'u64' is out of range for uint64" },
        { "i64: 9223372036854775808",
          "f:1:6: value 9223372036854775808 of field 'i64' is out of range for int64" },
        { "i64: -9223372036854775809",
          "f:1:6: value -9223372036854775809 of field 'i64' is out of range for int64" },
        { "u64: 18446744073709551616",
          "f:1:6: value 18446744073709551616 of field 'u64' is out of range for uint64" },
        { "f64: 0x10000000000000000",
          "f:1:6: value 0x10000000000000000 of field 'f64' is out of range for fixed64" },
        { "i32: 1.0", "f:1:6: expected an integer for field 'i32', got '1.0'" },
        { "i32: 1e3", "f:1:6: expected an integer for field 'i32', got '1e3'" },
        { "i32: 08", "f:1:6: expected an integer for field 'i32', got '08'" },
        { "i32: 0x", "f:1:6: expected an integer for field 'i32', got '0x'" },
        { "i32: 0xg", "f:1:6: expected an integer for field 'i32', got '0xg'" },
        { "i32: 12abc", "f:1:6: expected an integer for field 'i32', got '12abc'" },
        { "i32: +1", "f:1:6: expected an integer for field 'i32', got '+'" },
        { "i32: - -1", "f:1:8: expected an integer for field 'i32', got '-'" },
        { "i32: -", "f:1:7: expected an integer for field 'i32', got the end of the text" },
        { "i32: true", "f:1:6: expected an integer for field 'i32', got 'true'" },
        { "i32: '1'", "f:1:6: expected an integer for field 'i32', got '1'" },
        { "i32 { }", "f:1:5: expected ':' after field 'i32', got '{'" },
        { "i32: { }", "f:1:6: expected an integer for field 'i32', got '{'" },
        { "real64: 0x10", "f:1:9: expected a number for field 'real64', got '0x10'" },
        { "real64: 010", "f:1:9: expected a number for field 'real64', got '010'" },
        { "real64: 1.2.3", "f:1:9: expected a number for field 'real64', got '1.2.3'" },
        { "real64: 1e", "f:1:9: expected a number for field 'real64', got '1e'" },
        { "real64: 1e+", "f:1:9: expected a number for field 'real64', got '1e+'" },
        { "real64: 1.5ff", "f:1:9: expected a number for field 'real64', got '1.5ff'" },
        { "real64: .", "f:1:9: expected a number for field 'real64', got '.'" },
        { "real64: abc", "f:1:9: expected a number for field 'real64', got 'abc'" },
        { "real64: '1'", "f:1:9: expected a number for field 'real64', got '1'" },
        { "truth: 2", "f:1:8: expected true or false for field 'truth', got '2'" },
        { "truth: -1", "f:1:8: expected true or false for field 'truth', got '-'" },
        { "truth: TRUE", "f:1:8: expected true or false for field 'truth', got 'TRUE'" },
        { "truth: \"true\"", "f:1:8: expected true or false for field 'truth', got \"true\"" },
        { "color: GREN", "f:1:8: enum 'Color' of field 'color' has no value 'GREN'; did "
                         "you mean 'GREEN'?" },
        { "color: green", "f:1:8: enum 'Color' of field 'color' has no value 'green'; did "
                          "you mean 'GREEN'?" },
        { "color: 2", "f:1:8: enum 'Color' of field 'color' has no value '2'" },
        { "color: -1", "f:1:8: enum 'Color' of field 'color' has no value '-1'" },
        { "color: 4294967297", "f:1:8: enum 'Color' of field 'color' has no value '4294967297'" },
        { "color: 1.0", "f:1:8: expected the name of an enum value for field 'color', got '1.0'" },
        { "color: 'RED'",
          "f:1:8: expected the name of an enum value for field 'color', got 'RED'" },
        { "color: -RED", "f:1:9: expected the name of an enum value for field 'color', got 'RED'" },
        { "text: abc", "f:1:7: expected a string in quotes for field 'text', got 'abc'" },
        { "text: 1", "f:1:7: expected a string in quotes for field 'text', got '1'" },
        { "text: 'ab\\q'", "f:1:10: unknown escape sequence in string" },
        { "text: 'a'\n 'b\\8'", "f:2:4: unknown escape sequence in string" },
        { "text: '\\400'", "f:1:8: octal escape is larger than a byte" },
        { "text: '\\x'", "f:1:8: \\x must be followed by hexadecimal digits" },
        { "text: '\\xg'", "f:1:8: \\x must be followed by hexadecimal digits" },
        { "text: '\\u12'", "f:1:8: \\u must be followed by 4 hexadecimal digits" },
        { "text: '\\U0001f60'", "f:1:8: \\U must be followed by 8 hexadecimal digits" },
        { "text: '\\U00110000'", "f:1:8: there is no such Unicode character" },
        { "text: '\\ud83d'", "f:1:8: surrogate without its other half" },
        { "text: '\\ud83dx'", "f:1:8: surrogate without its other half" },
        { "text: '\\ud83d\\u0041'", "f:1:8: surrogate without its other half" },
        { "text: '\\ude00'", "f:1:8: surrogate without its other half" },
        { "text: '\\xc3'", "f:1:7: string is not valid UTF-8" },
        { "text: 'a\\x00'", "f:1:7: string contains a NUL byte" },
        { "words: 'a' words: '\\xed\\xa0\\x80'", "f:1:19: string is not valid UTF-8" },
};

static void test_refusals(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
                ProtobufCMessage *message = NULL;
                struct error     *err;

                err = pb_text_read(&node_type, str_of(refusals[i].text), "f", &arena, &message);
                if (err == NULL)
                        fail_msg("read without an error: %s", refusals[i].text);
                assert_string_equal(err->message, refusals[i].error);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                error_free(err);
        }
}

static void test_a_nul_byte_outside_of_strings_is_refused(void **state) {
        ProtobufCMessage *message = NULL;
        struct error     *err;

        (void)state;
        err = pb_text_read(&node_type, STR_LIT("i32: 1\0"), "f", &arena, &message);
        assert_non_null(err);
        assert_string_equal(err->message, "f:1:7: expected a field name, got '\\x00'");
        error_free(err);
        err = pb_text_read(&node_type, STR_LIT("text: '\\\0'"), "f", &arena, &message);
        assert_non_null(err);
        assert_string_equal(err->message, "f:1:8: unknown escape sequence in string");
        error_free(err);
}

/* The reader of scalars itself, on one token, leaves the lexer at the next one. */
static void test_the_lexer_stands_behind_the_value(void **state) {
        struct pb_lexer                 lexer;
        AUTO_STRBUF                     scratch;
        union pb_value                  value = { .u64 = 0 };
        const ProtobufCFieldDescriptor *field = pb_field_find(&node_type, STR_LIT("i64"));

        (void)state;
        strbuf_init(&scratch, 0);
        assert_null(pb_lexer_start(&lexer, STR_LIT("-12 next"), "f"));
        assert_null(pb_text_scalar_read(&lexer, field, &arena, &scratch, &value));
        assert_true(value.i64 == -12);
        assert_int_equal(lexer.token.kind, PB_TOKEN_WORD);
        assert_true(str_is(lexer.token.text, "next"));
}

SUITE(pb_text_scalar) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_integers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_integers_of_every_width, setup, teardown),
                cmocka_unit_test_setup_teardown(test_reals, setup, teardown),
                cmocka_unit_test_setup_teardown(test_floats_are_rounded_once, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bools, setup, teardown),
                cmocka_unit_test_setup_teardown(test_enums_by_name_and_number, setup, teardown),
                cmocka_unit_test_setup_teardown(test_strings, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bytes_may_be_anything, setup, teardown),
                cmocka_unit_test_setup_teardown(test_strings_are_copies, setup, teardown),
                cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_nul_byte_outside_of_strings_is_refused,
                                                setup, teardown),
                cmocka_unit_test_setup_teardown(test_the_lexer_stands_behind_the_value, setup,
                                                teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
