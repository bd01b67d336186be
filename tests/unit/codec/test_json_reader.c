/* SPDX-License-Identifier: BSD-3-Clause */
/* The pull reader: grammar, texts and offsets of failures, depth, strings, numbers.
 */
#include "suite.h"

#include "base/mem.h"
#include "codec/json_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy that ends where its memory ends, so that a sanitizer sees any look beyond. */
struct exact {
        char      *bytes;
        struct str text;
};

static struct exact exact_new(const char *text, size_t len) {
        struct exact e = { .bytes = malloc(len > 0 ? len : 1) };

        assert_non_null(e.bytes);
        memcpy(e.bytes, text, len);
        e.text = str_range(e.bytes, len);
        return e;
}

/* Reads a whole text with calls of all kinds, values thrown away. */
static void walk(struct json_reader *r, struct arena *arena) {
        struct str key;

        switch (json_peek(r)) {
        case JSON_OBJECT:
                for (json_enter_object(r); json_next_key(r, arena, &key);)
                        walk(r, arena);
                break;
        case JSON_ARRAY:
                for (json_enter_array(r); json_next_element(r);)
                        walk(r, arena);
                break;
        case JSON_STRING: json_read_string(r, arena); break;
        case JSON_NUMBER: json_read_number(r); break;
        case JSON_BOOL: json_read_bool(r); break;
        case JSON_NULL: json_read_null(r); break;
        case JSON_INVALID:
                json_read_null(r); /* the failure of whatever is read here */
                break;
        }
}

static void check_failure(const struct json_reader *r, const char *text, const char *error_text,
                          size_t offset) {
        if (error_text == NULL) {
                if (json_failed(r))
                        fail_msg("%s: %s at %zu", text, json_error_text(r), json_error_offset(r));
                return;
        }
        if (!json_failed(r) || strcmp(json_error_text(r), error_text) != 0 ||
            json_error_offset(r) != offset)
                fail_msg("%s: '%s' at %zu, wanted '%s' at %zu", text, json_error_text(r),
                         json_error_offset(r), error_text, offset);
}

/* Skipping and reading must agree on each text. */
static void check_text(const char *text, size_t len, const char *error_text, size_t offset) {
        struct exact       e = exact_new(text, len);
        struct json_reader r;
        struct arena       arena;

        arena_init(&arena, NULL, 0, 0);
        json_reader_init(&r, e.text);
        json_skip(&r);
        json_read_end(&r);
        check_failure(&r, text, error_text, offset);

        json_reader_init(&r, e.text);
        walk(&r, &arena);
        json_read_end(&r);
        check_failure(&r, text, error_text, offset);
        arena_done(&arena);
        free(e.bytes);
}

#define EMPTY "The document is empty."
#define TRAILING "The document root must not be followed by other values."
#define VALUE "Invalid value."
#define NAME "Missing a name for object member."
#define COLON "Missing a colon after a name of object member."
#define OBJECT_COMMA "Missing a comma or } after an object member."
#define ARRAY_COMMA "Missing a comma or ] after an array element."
#define HEX "Incorrect hex digit after \\u escape in string."
#define SURROGATE "The surrogate pair in string is invalid."
#define ESCAPE "Invalid escape character in string."
#define QUOTE "Missing a closing quotation mark in string."
#define ENCODING "Invalid encoding in string."
#define TOO_BIG "Number too big to be stored in double."
#define FRACTION "Miss fraction part in number."
#define EXPONENT "Miss exponent in number."
#define TOO_DEEP "JSON nesting depth exceeds maximum allowed limit (100)"

static void test_failures(void **state) {
        static const struct {
                const char *text;
                const char *error_text; /* NULL: well-formed */
                size_t      offset;
        } rows[] = {
                { "", EMPTY, 0 },
                { " \t\r\n", EMPTY, 4 },
                { "null", NULL, 0 },
                { " true ", NULL, 0 },
                { "false", NULL, 0 },
                { "nul", VALUE, 3 },
                { "nulL", VALUE, 3 },
                { "tru\n", VALUE, 3 },
                { "fals", VALUE, 4 },
                { "x", VALUE, 0 },
                { "\v1", VALUE, 0 },
                { "null x", TRAILING, 5 },
                { "1 2", TRAILING, 2 },
                { "{}{}", TRAILING, 2 },
                { "]", VALUE, 0 },
                { "}", VALUE, 0 },
                /* one byte order mark at the front */
                { "\xef\xbb\xbf{}", NULL, 0 },
                { "\xef\xbb\xbf 1 ", NULL, 0 },
                { "\xef\xbb\xbf", EMPTY, 3 },
                { "\xef\xbb\xbf[1,]", VALUE, 6 },
                { "\xef\xbb\xbf\xef\xbb\xbf"
                  "1",
                  VALUE, 3 },
                { " \xef\xbb\xbf"
                  "1",
                  VALUE, 1 },
                { "\xef\xbb"
                  "1",
                  VALUE, 0 },
                { "1\xef\xbb\xbf", TRAILING, 1 },
                /* numbers */
                { "0", NULL, 0 },
                { "-0", NULL, 0 },
                { "-", VALUE, 1 },
                { "+1", VALUE, 0 },
                { "01", TRAILING, 1 },
                { "-01", TRAILING, 2 },
                { "[01]", ARRAY_COMMA, 2 },
                { "1.", FRACTION, 2 },
                { "1.e5", FRACTION, 2 },
                { "[1.]", FRACTION, 3 },
                { ".5", VALUE, 0 },
                { "-.5", VALUE, 1 },
                { "0x10", TRAILING, 1 },
                { "1e", EXPONENT, 2 },
                { "1e+", EXPONENT, 3 },
                { "1e-x", EXPONENT, 3 },
                { "1E5", NULL, 0 },
                { "1.5e-300", NULL, 0 },
                { "1e308", NULL, 0 },
                { "1e309", TOO_BIG, 0 },
                { " 1e400", TOO_BIG, 1 },
                { "[0,-1e400]", TOO_BIG, 3 },
                { "1e-400", NULL, 0 },
                { "0e400", NULL, 0 },
                { "1e99999999999999999999999", TOO_BIG, 0 },
                { "1.7976931348623159e308", TOO_BIG, 0 },
                { "NaN", NULL, 0 },
                { "-NaN", NULL, 0 },
                { "Infinity", NULL, 0 },
                { "-Infinity", NULL, 0 },
                { "Inf", NULL, 0 },
                { "Infinit", TRAILING, 3 },
                { "Na", VALUE, 0 },
                { "-Na", VALUE, 1 },
                { "nan", VALUE, 1 },
                /* arrays */
                { "[]", NULL, 0 },
                { "[ ]", NULL, 0 },
                { "[1,2 , 3]", NULL, 0 },
                { "[", VALUE, 1 },
                { "[1", ARRAY_COMMA, 2 },
                { "[1 2]", ARRAY_COMMA, 3 },
                { "[1,]", VALUE, 3 },
                { "[,1]", VALUE, 1 },
                { "[1,,2]", VALUE, 3 },
                { "[1}", ARRAY_COMMA, 2 },
                { "[[1]", ARRAY_COMMA, 4 },
                { "[1,", VALUE, 3 },
                /* objects */
                { "{}", NULL, 0 },
                { "{ }", NULL, 0 },
                { "{\"a\":1,\"b\":[{}]}", NULL, 0 },
                { "{", NAME, 1 },
                { "{1:2}", NAME, 1 },
                { "{a:1}", NAME, 1 },
                { "{\"a\"", COLON, 4 },
                { "{\"a\" 1}", COLON, 5 },
                { "{\"a\":", VALUE, 5 },
                { "{\"a\":}", VALUE, 5 },
                { "{\"a\":1", OBJECT_COMMA, 6 },
                { "{\"a\":1]", OBJECT_COMMA, 6 },
                { "{\"a\":1 \"b\":2}", OBJECT_COMMA, 7 },
                { "{\"a\":1,}", NAME, 7 },
                { "{,}", NAME, 1 },
                { "{\"a", QUOTE, 3 },
                /* strings */
                { "\"\"", NULL, 0 },
                { "\"a", QUOTE, 2 },
                { "\"", QUOTE, 1 },
                { "\"\\\"", QUOTE, 3 },
                { "\"\\b\\f\\n\\r\\t\\/\\\\\\\"\\u00e9\"", NULL, 0 },
                { "\"ab\\x\"", ESCAPE, 3 },
                { "\"ab\\", ESCAPE, 3 },
                { "\"\\a\"", ESCAPE, 1 },
                { "\"\\U0041\"", ESCAPE, 1 },
                { "\"\\u12\"", HEX, 1 },
                { "\"\\u12g4\"", HEX, 1 },
                { "\"x\\u", HEX, 2 },
                { "\"\\ud83d\\ude00\"", NULL, 0 },
                { "\"\\ud83d\"", SURROGATE, 1 },
                { "\"\\ud83dx\"", SURROGATE, 1 },
                { "\"\\ud83d\\n\"", SURROGATE, 1 },
                { "\"\\ud83d\\u0041\"", SURROGATE, 1 },
                { "\"\\ud83d\\ud83d\"", SURROGATE, 1 },
                { "\"\\ude00\"", SURROGATE, 1 },
                { "\"\\ud83d\\u00\"", HEX, 1 },
                { "\"tab\there\"", ENCODING, 4 },
                { "\"line\nhere\"", ENCODING, 5 },
                { "\"0123456789abcdef\x1f\"", ENCODING, 17 },
                { "\"0123456789abcdef\x7f\"", NULL, 0 },
                { "\"gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80\"", NULL, 0 },
                { "\"\xff\"", ENCODING, 1 },
                { "\"abcdefgh\xc3\"", ENCODING, 9 },
                { "\"\xc3", ENCODING, 1 },
                { "\"\x80\"", ENCODING, 1 },
                { "\"\xc0\xaf\"", ENCODING, 1 },
                { "\"\xe0\x80\xaf\"", ENCODING, 1 },
                { "\"\xed\xa0\x80\"", ENCODING, 1 },
                { "\"\xf4\x90\x80\x80\"", ENCODING, 1 },
                { "\"\xf0\x9f\x98\"", ENCODING, 1 },
                { "{\"\xff\":1}", ENCODING, 2 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                check_text(rows[i].text, strlen(rows[i].text), rows[i].error_text, rows[i].offset);
        /* NUL is never what a NUL-terminated text would make of it. */
        check_text("\0", 1, VALUE, 0);
        check_text("1\0", 2, TRAILING, 1);
        check_text("[1\0", 3, ARRAY_COMMA, 2);
        check_text("\"a\0b\"", 5, QUOTE, 2);
        check_text("\"\\\0\"", 4, ESCAPE, 1);
}

/* No beginning of a text may be read beyond its end; all but the whole fail. */
static void test_beginnings(void **state) {
        static const char text[] =
                "{\"inputs\":[{\"name\":\"I\\u00e9\\ud83d\\ude00\\n\xe2\x82\xac\","
                "\"shape\":[1,-2.5e+10],\"data\":[true,false,null,NaN]}]}";

        (void)state;
        for (size_t len = 0; len < sizeof(text); len++) {
                struct exact       e = exact_new(text, len);
                struct json_reader r;
                struct arena       arena;

                arena_init(&arena, NULL, 0, 0);
                json_reader_init(&r, e.text);
                walk(&r, &arena);
                json_read_end(&r);
                assert_int_equal(json_failed(&r), len < sizeof(text) - 1);
                json_reader_init(&r, e.text);
                json_skip(&r);
                assert_int_equal(json_failed(&r), len < sizeof(text) - 1);
                arena_done(&arena);
                free(e.bytes);
        }
}

static void nested(char *out, unsigned depth, const char *open, const char *inside,
                   const char *close) {
        *out = '\0';
        for (unsigned i = 0; i < depth; i++)
                out = stpcpy(out, open);
        out = stpcpy(out, inside);
        for (unsigned i = 0; i < depth; i++)
                out = stpcpy(out, close);
}

static void test_depth(void **state) {
        char text[1000];

        (void)state;
        nested(text, 100, "[", "1", "]");
        check_text(text, strlen(text), NULL, 0);
        nested(text, 101, "[", "", "]");
        check_text(text, strlen(text), TOO_DEEP, 100);
        nested(text, 100, "{\"a\":", "1", "}");
        check_text(text, strlen(text), NULL, 0);
        nested(text, 101, "{\"a\":", "1", "}");
        check_text(text, strlen(text), TOO_DEEP, 500);
        nested(text, 50, "[{\"a\":", "1", "}]");
        check_text(text, strlen(text), NULL, 0);
        nested(text, 50, "[{\"a\":", "[]", "}]");
        check_text(text, strlen(text), TOO_DEEP, 300);
        /* Brackets that do not match, on both sides of a word of the stack. */
        nested(text, 70, "[", "", "]");
        text[70 + 3] = '}';
        check_text(text, strlen(text), ARRAY_COMMA, 73);
        nested(text, 100, "[", "", "]");
        text[100 + 98] = '}';
        check_text(text, strlen(text), ARRAY_COMMA, 198);
}

/* A million brackets cost nothing but the first hundred. */
static void test_depth_bomb(void **state) {
        size_t             n = 1000000;
        char              *text = malloc(n);
        struct json_reader r;

        (void)state;
        assert_non_null(text);
        memset(text, '[', n);
        json_reader_init(&r, str_range(text, n));
        json_skip(&r);
        assert_string_equal(json_error_text(&r), TOO_DEEP);
        free(text);
}

static void test_pull(void **state) {
        struct str text = STR_LIT(" { \"id\" : \"a\\tb\" , \"n\":[1 , -2,3.5],\"o\":{\"x\":{}},"
                                  "\"\\u0069\":null,\"t\":true,\"f\":false } ");
        struct json_reader r;
        struct arena       arena;
        struct str         key, value;
        struct json_number number;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        json_reader_init(&r, text);
        assert_int_equal(json_peek(&r), JSON_OBJECT);
        json_enter_object(&r);
        assert_true(json_next_key(&r, &arena, &key));
        assert_true(str_is(key, "id"));
        assert_int_equal(json_peek(&r), JSON_STRING);
        value = json_read_string(&r, &arena);
        assert_true(str_is(value, "a\tb"));
        assert_true(json_next_key(&r, &arena, &key));
        assert_true(str_is(key, "n"));
        json_enter_array(&r);
        assert_true(json_next_element(&r));
        number = json_read_number(&r);
        assert_true(number.is_integer && !number.is_negative && number.magnitude == 1);
        assert_true(json_next_element(&r));
        number = json_read_number(&r);
        assert_true(number.is_integer && number.is_negative && number.magnitude == 2);
        assert_true(number.real == -2.0);
        assert_true(json_next_element(&r));
        number = json_read_number(&r);
        assert_true(!number.is_integer && number.magnitude == 0 && number.real == 3.5);
        assert_false(json_next_element(&r));
        assert_true(json_next_key(&r, &arena, &key));
        assert_true(str_is(json_skip(&r), "{\"x\":{}}"));
        assert_true(json_next_key(&r, &arena, &key));
        assert_true(str_is(key, "i")); /* decoded into the arena */
        assert_int_equal(json_peek(&r), JSON_NULL);
        json_read_null(&r);
        assert_true(json_next_key(&r, &arena, &key));
        assert_true(json_read_bool(&r));
        assert_true(json_next_key(&r, &arena, &key));
        assert_false(json_read_bool(&r));
        assert_false(json_next_key(&r, &arena, &key));
        json_read_end(&r);
        assert_false(json_failed(&r));
        assert_string_equal(json_error_text(&r), "");
        assert_int_equal(r.depth, 0);
        arena_done(&arena);
}

/* Strings without escapes are where they were; keys with escapes and no arena are unknown. */
static void test_borrowing(void **state) {
        struct str         text = STR_LIT("{\"plain\":\"text\",\"\\u0061\":1}");
        struct json_reader r;
        struct str         key, value;

        (void)state;
        json_reader_init(&r, text);
        json_enter_object(&r);
        assert_true(json_next_key(&r, NULL, &key));
        assert_ptr_equal(key.ptr, text.ptr + 2);
        value = json_read_string(&r, NULL);
        assert_ptr_equal(value.ptr, text.ptr + 10);
        assert_int_equal(value.len, 4);
        assert_true(json_next_key(&r, NULL, &key));
        assert_int_equal(key.len, 0);
        json_skip(&r);
        assert_false(json_next_key(&r, NULL, &key));
        json_read_end(&r);
        assert_false(json_failed(&r));
}

static void check_string(const char *json, const char *wanted, size_t wanted_len) {
        struct json_reader r;
        struct arena       arena;
        struct str         value;

        arena_init(&arena, NULL, 0, 0);
        json_reader_init(&r, str_of(json));
        value = json_read_string(&r, &arena);
        json_read_end(&r);
        assert_false(json_failed(&r));
        assert_int_equal(value.len, wanted_len);
        assert_memory_equal(value.ptr, wanted, wanted_len);
        arena_done(&arena);
}

static void test_strings(void **state) {
        (void)state;
        check_string("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
        check_string("\"\\u0000\"", "\0", 1);
        check_string("\"a\\u0000b\"", "a\0b", 3);
        check_string("\"\\u0041\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
                     "A\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 12);
        check_string("\"\\uD800\\uDC00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8);
        check_string("\"\\uABCD\\uabcd\"", "\xea\xaf\x8d\xea\xaf\x8d", 6);
        check_string("\"plain \xc3\xa9 then \\n and \xf0\x9f\x98\x80 end\"",
                     "plain \xc3\xa9 then \n and \xf0\x9f\x98\x80 end", 28);
        check_string("\"\\\\u0041\"", "\\u0041", 6);
}

static void check_number(const char *json, bool is_integer, bool is_negative, uint64_t magnitude,
                         double real) {
        struct json_reader r;
        struct json_number number;

        json_reader_init(&r, str_of(json));
        number = json_read_number(&r);
        json_read_end(&r);
        assert_false(json_failed(&r));
        if (number.is_integer != is_integer || number.is_negative != is_negative ||
            number.magnitude != magnitude)
                fail_msg("%s: %d %d %ju", json, number.is_integer, number.is_negative,
                         (uintmax_t)number.magnitude);
        assert_memory_equal(&number.real, &real, sizeof(real));
}

static void test_numbers(void **state) {
        struct json_reader r;

        (void)state;
        check_number("0", true, false, 0, 0.0);
        check_number("-0", true, false, 0, -0.0);
        check_number("9007199254740993", true, false, 9007199254740993, 9007199254740992.0);
        check_number("9223372036854775807", true, false, INT64_MAX, 0x1p63);
        check_number("-9223372036854775808", true, true, 1ull << 63, -0x1p63);
        check_number("-9223372036854775809", false, true, 0, -0x1p63);
        check_number("18446744073709551615", true, false, UINT64_MAX, 0x1p64);
        check_number("18446744073709551616", false, false, 0, 0x1p64);
        check_number("99999999999999999999", false, false, 0, 1e20);
        check_number("123456789012345678901234567890", false, false, 0, 1.2345678901234568e29);
        check_number("1.0", false, false, 0, 1.0);
        check_number("-1e2", false, true, 0, -100.0);
        check_number("1.5e308", false, false, 0, 1.5e308);
        check_number("5e-324", false, false, 0, 5e-324);
        check_number("Infinity", false, false, 0, (double)INFINITY);
        check_number("-Infinity", false, true, 0, (double)-INFINITY);
        json_reader_init(&r, STR_LIT("NaN"));
        assert_true(isnan(json_read_number(&r).real));
        assert_false(json_failed(&r));
}

/* A wrong type fails with the words of the reference's accessors, and sticks. */
static void test_wrong_type(void **state) {
        struct json_reader r;
        struct str         key;

        (void)state;
        json_reader_init(&r, STR_LIT("  3"));
        assert_int_equal(json_read_string(&r, NULL).len, 0);
        assert_string_equal(json_error_text(&r), "attempt to access JSON non-string as string");
        assert_int_equal(json_error_offset(&r), 2);
        json_enter_object(&r); /* nothing more happens */
        assert_false(json_next_key(&r, NULL, &key));
        assert_false(json_next_element(&r));
        assert_int_equal(json_peek(&r), JSON_INVALID);
        assert_true(json_read_number(&r).real == 0);
        assert_int_equal(json_skip(&r).len, 0);
        json_read_end(&r);
        assert_string_equal(json_error_text(&r), "attempt to access JSON non-string as string");

        json_reader_init(&r, STR_LIT("\"x\""));
        json_read_number(&r);
        assert_string_equal(json_error_text(&r), "attempt to access JSON non-number as double");
        json_reader_init(&r, STR_LIT("[]"));
        json_enter_object(&r);
        assert_true(json_failed(&r));
        json_reader_init(&r, STR_LIT("1"));
        json_read_bool(&r);
        assert_string_equal(json_error_text(&r), "attempt to access JSON non-boolean as boolean");
}

static void test_no_text(void **state) {
        struct json_reader r;

        (void)state;
        json_reader_init(&r, (struct str){ NULL, 0 });
        assert_int_equal(json_peek(&r), JSON_INVALID);
        assert_false(json_failed(&r)); /* the end alone is no failure */
        json_read_end(&r);
        assert_string_equal(json_error_text(&r), EMPTY);
}

/* Keys have a short way; it must end where the text does, and know blanks and brackets. */
static void test_keys(void **state) {
        static const char *const before[] = { "", " ", "\n ", "\"a\":1,", "\"a\" : 1 , " };
        static const char *const behind[] = { "", " ", "\t\n" };
        char                     text[128], name[41];

        (void)state;
        for (size_t i = 0; i < sizeof(name) * ARRAY_LEN(before) * ARRAY_LEN(behind); i++) {
                size_t             len = i % sizeof(name);
                const char        *first = before[i / sizeof(name) % ARRAY_LEN(before)];
                const char        *blank = behind[i / sizeof(name) / ARRAY_LEN(before)];
                struct json_reader r;
                struct exact       e;
                struct str         key;

                memset(name, 'k', len);
                name[len] = '\0';
                snprintf(text, sizeof(text), "{%s\"%s\"%s:%s2%s}", first, name, blank, blank,
                         blank);
                e = exact_new(text, strlen(text));
                json_reader_init(&r, e.text);
                json_enter_object(&r);
                assert_true(json_next_key(&r, NULL, &key));
                if (*first && strchr(first, 'a') != NULL) {
                        assert_true(str_is(key, "a"));
                        assert_int_equal(json_read_number(&r).magnitude, 1);
                        assert_true(json_next_key(&r, NULL, &key));
                }
                assert_true(str_is(key, name));
                assert_int_equal(json_read_number(&r).magnitude, 2);
                assert_false(json_next_key(&r, NULL, &key));
                json_read_end(&r);
                check_failure(&r, text, NULL, 0);
                free(e.bytes);
        }
}

static void test_try_u64(void **state) {
        static const struct {
                const char *text;
                size_t      taken; /* 0 = left to json_read_number() */
                uint64_t    value;
        } rows[] = {
                { "0,", 1, 0 },
                { " 7]", 2, 7 },
                { "120 }", 3, 120 },
                { "9999999999999999999,", 19, 9999999999999999999u },
                { "18446744073709551615,", 0, 0 },
                { "12", 0, 0 }, /* the end: there may be more to say */
                { "01,", 0, 0 },
                { "-1,", 0, 0 },
                { "1.0,", 0, 0 },
                { "1e2,", 0, 0 },
                { "1E2,", 0, 0 },
                { "true", 0, 0 },
                { "\"1\"", 0, 0 },
                { "", 0, 0 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct exact       e = exact_new(rows[i].text, strlen(rows[i].text));
                struct json_reader r;
                uint64_t           value = 42;

                json_reader_init(&r, e.text);
                assert_int_equal(json_try_u64(&r, &value), rows[i].taken > 0);
                assert_int_equal(value, rows[i].taken > 0 ? rows[i].value : 42);
                if (rows[i].taken > 0)
                        assert_int_equal(r.at - r.begin, rows[i].taken);
                assert_false(json_failed(&r));
                free(e.bytes);
        }
}

static void test_try_string(void **state) {
        struct json_reader r;
        struct str         text;

        (void)state;
        json_reader_init(&r, STR_LIT(" \"plain\", \"a longer one of more than a vector\""
                                     ", 1, 2, 3, 4, 5, 6 "));
        assert_true(json_try_string(&r, &text));
        assert_true(str_is(text, "plain"));
        json_reader_init(&r, str_range(r.at + 1, (size_t)(r.end - r.at) - 1));
        assert_true(json_try_string(&r, &text));
        assert_true(str_is(text, "a longer one of more than a vector"));

        /* an escape, UTF-8, a control character, no end, another type: all left alone */
        for (size_t i = 0; i < 5; i++) {
                static const char *const others[] = {
                        "\"a\\nb\"                   ",   "\"\xc3\xa9\"                ",
                        "\"a\nb\"                    ",   "\"no end                   ",
                        "12                            ",
                };

                json_reader_init(&r, str_of(others[i]));
                assert_false(json_try_string(&r, &text));
                assert_ptr_equal(r.at, r.begin);
                assert_false(json_failed(&r));
        }
}

static void test_try_enter(void **state) {
        char               text[JSON_MAX_DEPTH + 1];
        struct json_reader r;

        (void)state;
        json_reader_init(&r, STR_LIT(" { }"));
        assert_false(json_try_enter(&r, JSON_ARRAY));
        assert_true(json_try_enter(&r, JSON_OBJECT));
        assert_false(json_next_key(&r, NULL, &(struct str){ NULL, 0 }));
        json_read_end(&r);
        assert_false(json_failed(&r));

        /* too deep is a failure, as of json_enter_array() */
        memset(text, '[', sizeof(text));
        json_reader_init(&r, str_range(text, sizeof(text)));
        for (int i = 0; i < JSON_MAX_DEPTH; i++)
                assert_true(json_try_enter(&r, JSON_ARRAY));
        assert_false(json_failed(&r));
        json_try_enter(&r, JSON_ARRAY);
        assert_true(json_failed(&r));
        assert_false(json_next_element(&r));
}

static void test_arena_is_full(void **state) {
        char               first[16];
        struct json_reader r;
        struct arena       arena;
        struct str         key;

        (void)state;
        arena_init(&arena, first, sizeof(first), 0);
        mem_fail_after(1);
        json_reader_init(&r, STR_LIT("\"a string that does not fit\\n\""));
        assert_int_equal(json_read_string(&r, &arena).len, 0);
        assert_string_equal(json_error_text(&r), "Terminate parsing due to Handler error.");
        json_reader_init(&r, STR_LIT("{\"a key that does not fit either\\n\":1}"));
        json_enter_object(&r);
        assert_false(json_next_key(&r, &arena, &key));
        assert_true(json_failed(&r));
        assert_true(mem_fail_was_hit());
        mem_fail_after(0);
        arena_done(&arena);
}

SUITE(json_reader) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_failures),      cmocka_unit_test(test_beginnings),
                cmocka_unit_test(test_depth),         cmocka_unit_test(test_depth_bomb),
                cmocka_unit_test(test_pull),          cmocka_unit_test(test_borrowing),
                cmocka_unit_test(test_strings),       cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_wrong_type),    cmocka_unit_test(test_no_text),
                cmocka_unit_test(test_arena_is_full), cmocka_unit_test(test_keys),
                cmocka_unit_test(test_try_u64),       cmocka_unit_test(test_try_string),
                cmocka_unit_test(test_try_enter),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
