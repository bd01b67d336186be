/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/str.h"

#include <limits.h>

static void test_equality(void **state) {
        (void)state;
        assert_true(str_equal(str_range(NULL, 0), STR_LIT("")));
        assert_true(str_equal(STR_LIT("a\0b"), str_range("a\0b", 3)));
        assert_false(str_equal(STR_LIT("a\0b"), STR_LIT("a\0c")));
        assert_true(str_is(str_range("abc", 2), "ab"));
        assert_false(str_is(str_range("abc", 2), "abc"));
        assert_true(STR_IS(str_range("abc", 2), "ab"));
        assert_false(STR_IS(str_range("abc", 2), "abc"));
        assert_false(STR_IS(str_range("abc", 3), "abd"));
        assert_true(str_equal_nocase(STR_LIT("Content-Length"), STR_LIT("content-LENGTH")));
        assert_false(str_equal_nocase(STR_LIT("@"), STR_LIT("`"))); /* differ by 0x20, no letters */
        assert_false(str_equal_nocase(STR_LIT("ab"), STR_LIT("abc")));
}

static void test_starts_and_ends(void **state) {
        (void)state;
        assert_true(str_starts(STR_LIT("model.onnx"), STR_LIT("model")));
        assert_true(str_starts(str_range(NULL, 0), STR_LIT("")));
        assert_false(str_starts(STR_LIT("mod"), STR_LIT("model")));
        assert_true(str_ends(STR_LIT("model.onnx"), STR_LIT(".onnx")));
        assert_true(str_ends(str_range(NULL, 0), STR_LIT("")));
        assert_false(str_ends(STR_LIT("nnx"), STR_LIT(".onnx")));
        assert_false(str_ends(STR_LIT("model.onnX"), STR_LIT(".onnx")));
}

static void test_trim(void **state) {
        (void)state;
        assert_true(str_is(str_trim(STR_LIT(" \t a b\t ")), "a b"));
        assert_int_equal(str_trim(STR_LIT(" \t ")).len, 0);
        assert_int_equal(str_trim(str_range(NULL, 0)).len, 0);
        assert_true(str_is(str_trim(STR_LIT("\na\n")), "\na\n"));
}

static void test_split(void **state) {
        (void)state;
        struct str rest, head;

        rest = str_split(STR_LIT("a,,b"), ',', &head);
        assert_true(str_is(head, "a"));
        rest = str_split(rest, ',', &head);
        assert_non_null(rest.ptr);
        assert_int_equal(head.len, 0);
        rest = str_split(rest, ',', &head);
        assert_null(rest.ptr);
        assert_true(str_is(head, "b"));

        rest = str_split(STR_LIT("a,"), ',', &head);
        assert_non_null(rest.ptr); /* there was a separator: one more, empty part */
        assert_int_equal(rest.len, 0);
        rest = str_split(str_range(NULL, 0), ',', &head);
        assert_null(rest.ptr);
        assert_int_equal(head.len, 0);
}

static void test_parts(void **state) {
        struct str none = { 0 };
        char       joined[32] = "", text[] = "Ab\xc3\x84Z";

        (void)state;
        STR_FOR_EACH(STR_LIT("a,,b,"), ',', part) {
                strncat(joined, part.ptr, part.len);
                strcat(joined, "|");
        }
        assert_string_equal(joined, "a||b||");
        STR_FOR_EACH(STR_LIT(""), ',', part)
                strcat(joined, "one");
        STR_FOR_EACH(none, ',', part)
                strcat(joined, "two");
        assert_string_equal(joined, "a||b||one");
        str_lower(text);
        assert_string_equal(text, "ab\xc3\x84z");
}

static void test_u64(void **state) {
        (void)state;
        static const char *const bad[] = { "",
                                           "+1",
                                           "-1",
                                           " 1",
                                           "1 ",
                                           "1a",
                                           "0x1",
                                           ":",
                                           "/",
                                           "18446744073709551616",
                                           "99999999999999999999" };
        uint64_t                 value = 7;

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_false(str_to_u64(str_of(bad[i]), &value));
        assert_int_equal(value, 7);
        assert_true(str_to_u64(STR_LIT("18446744073709551615"), &value));
        assert_true(value == UINT64_MAX);
        assert_true(str_to_u64(STR_LIT("000"), &value));
        assert_int_equal(value, 0);
        assert_true(str_to_u64(str_range("123456", 3), &value));
        assert_int_equal(value, 123);
}

static void test_i64(void **state) {
        (void)state;
        int64_t value = 7;

        assert_true(str_to_i64(STR_LIT("-9223372036854775808"), &value));
        assert_true(value == INT64_MIN);
        assert_true(str_to_i64(STR_LIT("9223372036854775807"), &value));
        assert_true(value == INT64_MAX);
        assert_true(str_to_i64(STR_LIT("-0"), &value));
        assert_int_equal(value, 0);
        assert_false(str_to_i64(STR_LIT("9223372036854775808"), &value));
        assert_false(str_to_i64(STR_LIT("-9223372036854775809"), &value));
        assert_false(str_to_i64(STR_LIT("-"), &value));
        assert_false(str_to_i64(STR_LIT("--1"), &value));
        assert_int_equal(value, 0);
}

static void test_hex_digits(void **state) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";

        (void)state;
        for (int c = CHAR_MIN; c <= CHAR_MAX; c++) {
                const char *at = c != 0 ? strchr(digits, c) : NULL;

                assert_int_equal(str_hex_digit((char)c), at != NULL ? (at - digits) % 16 : -1);
        }
}

/* Each byte at each place of texts around the length of a word. */
static void test_plain(void **state) {
        (void)state;
        assert_true(str_is_plain(str_range(NULL, 0)));
        for (size_t len = 1; len <= 20; len++) {
                for (size_t at = 0; at < len; at++) {
                        for (int byte = 0; byte < 256; byte++) {
                                char text[20];

                                memset(text, 'x', sizeof(text));
                                text[at] = (char)byte;
                                assert_int_equal(str_is_plain(str_range(text, len)),
                                                 byte > 0 && byte < 0x80);
                        }
                }
        }
}

static void test_utf8(void **state) {
        (void)state;
        static const char *const good[] = { "",
                                            "ascii",
                                            "\xc2\x80",
                                            "\xdf\xbf",
                                            "\xe0\xa0\x80",
                                            "\xed\x9f\xbf",
                                            "\xee\x80\x80",
                                            "\xef\xbf\xbf",
                                            "\xf0\x90\x80\x80",
                                            "\xf4\x8f\xbf\xbf",
                                            "eight ascii, then \xe2\x82\xac and more ascii" };
        static const char *const bad[] = { "\x80",
                                           "\xc0\x80",
                                           "\xc1\xbf",
                                           "\xc2",
                                           "\xc2\x41",
                                           "\xe0\x9f\xbf",
                                           "\xed\xa0\x80",
                                           "\xe2\x82",
                                           "\xf0\x8f\xbf\xbf",
                                           "\xf4\x90\x80\x80",
                                           "\xf5\x80\x80\x80",
                                           "\xff",
                                           "01234567\x80",
                                           "01234567012345\xe2\x82" };

        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                assert_true(str_is_utf8(str_of(good[i])));
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_false(str_is_utf8(str_of(bad[i])));
        assert_true(str_is_utf8(str_range("a\0b", 3)));
        assert_int_equal(str_utf8_first(STR_LIT("\xe2\x82\xac!")), 3);
        assert_int_equal(str_utf8_first(STR_LIT("")), 0);
}

static void test_suggest(void **state) {
        (void)state;
        static const char *const options[] = { "http-port", "grpc-port", "model-repository", "id" };
        size_t                   n = ARRAY_LEN(options);

        assert_string_equal(str_suggest(STR_LIT("htpp-port"), options, n), "http-port");
        assert_string_equal(str_suggest(STR_LIT("grpcport"), options, n), "grpc-port");
        assert_string_equal(str_suggest(STR_LIT("modle-repositroy"), options, n),
                            "model-repository");
        assert_string_equal(str_suggest(STR_LIT("ids"), options, n), "id");
        assert_null(str_suggest(STR_LIT("metrics"), options, n));
        assert_null(str_suggest(STR_LIT("xyz"), options, n));
        assert_null(str_suggest(STR_LIT(""), options, n));
        assert_null(str_suggest(STR_LIT("id"), options, 0));
}

static void test_suggest_prefers_the_nearest_then_the_first(void **state) {
        (void)state;
        static const char *const words[] = { "abcdxx", "abcdex", "abcdey" };

        assert_string_equal(str_suggest(STR_LIT("abcdef"), words, 3), "abcdex");
}

static void test_suggest_ignores_what_is_too_long(void **state) {
        (void)state;
        char              huge[200];
        const char *const words[] = { huge };

        memset(huge, 'a', sizeof(huge) - 1);
        huge[sizeof(huge) - 1] = '\0';
        assert_null(str_suggest(str_of(huge), words, 1));
        assert_null(str_suggest(STR_LIT("aaaa"), words, 1));
}

SUITE(str) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_equality),
                cmocka_unit_test(test_starts_and_ends),
                cmocka_unit_test(test_trim),
                cmocka_unit_test(test_split),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_u64),
                cmocka_unit_test(test_i64),
                cmocka_unit_test(test_hex_digits),
                cmocka_unit_test(test_plain),
                cmocka_unit_test(test_utf8),
                cmocka_unit_test(test_suggest),
                cmocka_unit_test(test_suggest_prefers_the_nearest_then_the_first),
                cmocka_unit_test(test_suggest_ignores_what_is_too_long),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
