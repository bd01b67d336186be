/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays into tensors: shapes, statuses, every kind of element, the bounds of the quick way, and
 * whole tensors through writer and reader.
 */
#include "suite.h"

#include "codec/json_reader.h"
#include "codec/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOO_DEEP "JSON nesting depth exceeds maximum allowed limit (100)"

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

static void nested(char *out, unsigned depth, const char *open, const char *inside,
                   const char *close) {
        *out = '\0';
        for (unsigned i = 0; i < depth; i++)
                out = stpcpy(out, open);
        out = stpcpy(out, inside);
        for (unsigned i = 0; i < depth; i++)
                out = stpcpy(out, close);
}

static enum json_tensor_status read_f32(const char *json, float *out, size_t n) {
        struct exact            e = exact_new(json, strlen(json));
        struct json_reader      r;
        enum json_tensor_status status;

        json_reader_init(&r, e.text);
        status = json_read_tensor(&r, JSON_ELEMENT_F32, out, n);
        json_read_end(&r);
        assert_int_equal(json_failed(&r),
                         status == JSON_TENSOR_SYNTAX || status == JSON_TENSOR_TOO_DEEP);
        free(e.bytes);
        return status;
}

static void test_tensor_shapes(void **state) {
        static const char *const good[] = {
                "[1,2,3,4]",
                "[[1,2],[3,4]]",
                "[[[1],[2]],[[3],[4]]]",
                " [ [ 1 , 2 ] , [ 3 , 4 ] ] ",
                "[1,[2,[3,[4]]]]",
                "[[],1,[[]],2,3,4,[]]",
                "[1.0, 2.0, 3.0, 4.0]",
                "[1e0,2E0,0.3e1,40e-1]",
                "[1.00000000000000000000000000,2,3,4.0e0]",
        };
        float out[4];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                const float wanted[4] = { 1, 2, 3, 4 };

                memset(out, 0xff, sizeof(out));
                assert_int_equal(read_f32(good[i], out, 4), JSON_TENSOR_OK);
                assert_memory_equal(out, wanted, sizeof(wanted));
        }
        assert_int_equal(read_f32("[]", out, 0), JSON_TENSOR_OK);
        assert_int_equal(read_f32("[[],[[]]]", out, 0), JSON_TENSOR_OK);
}

static void test_tensor_statuses(void **state) {
        static const struct {
                const char             *json;
                enum json_tensor_status status;
        } rows[] = {
                { "[1,2,3]", JSON_TENSOR_TOO_FEW },
                { "[]", JSON_TENSOR_TOO_FEW },
                { "[1,2,3,4,5]", JSON_TENSOR_TOO_MANY },
                { "[1,2,3,4,[5]]", JSON_TENSOR_TOO_MANY },
                { "[1,2,3,4,\"x\"]", JSON_TENSOR_TOO_MANY },
                { "[1,2,3,4,x]", JSON_TENSOR_SYNTAX },
                { "[1,2,3,4,5", JSON_TENSOR_SYNTAX },
                { "[1,2,3,4,5,{\"a\":[}]", JSON_TENSOR_SYNTAX },
                { "[1,null,3,4]", JSON_TENSOR_WRONG_TYPE },
                { "[1,true,3,4]", JSON_TENSOR_WRONG_TYPE },
                { "[1,\"2\",3,4]", JSON_TENSOR_WRONG_TYPE },
                { "[1,{},3,4]", JSON_TENSOR_WRONG_TYPE },
                { "[[1,{\"a\":[1]}],3,4]", JSON_TENSOR_WRONG_TYPE },
                { "[1,{},3,4", JSON_TENSOR_SYNTAX },
                { "3", JSON_TENSOR_WRONG_TYPE },
                { "{\"a\":1}", JSON_TENSOR_WRONG_TYPE },
                { "\"x\"", JSON_TENSOR_WRONG_TYPE },
                { "\"x", JSON_TENSOR_SYNTAX },
                { "", JSON_TENSOR_SYNTAX },
                { "[1,2,3,4", JSON_TENSOR_SYNTAX },
                { "[1,2,3,4}", JSON_TENSOR_SYNTAX },
                { "[1,2,3 4]", JSON_TENSOR_SYNTAX },
                { "[1,2,,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,3,]", JSON_TENSOR_SYNTAX },
                { "[1,2,03,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,.3,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,3.,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,3e,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,--3,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,+3,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,0x3,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,1e400,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,1.2.3,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,1e-+3,4]", JSON_TENSOR_SYNTAX },
                { "[1,2,1e1.5,4]", JSON_TENSOR_SYNTAX },
        };
        char  text[200];
        float out[4];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                enum json_tensor_status status = read_f32(rows[i].json, out, 4);

                if (status != rows[i].status)
                        fail_msg("%s: %d, wanted %d", rows[i].json, (int)status,
                                 (int)rows[i].status);
        }
        /* The same with room behind the array, where the quick way goes first. */
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct json_reader      r;
                enum json_tensor_status status;

                snprintf(text, sizeof(text), "%s%100s", rows[i].json, "");
                json_reader_init(&r, str_of(text));
                status = json_read_tensor(&r, JSON_ELEMENT_F32, out, 4);
                if (status != rows[i].status)
                        fail_msg("%s: %d, wanted %d", text, (int)status, (int)rows[i].status);
        }
}

static void test_tensor_depth(void **state) {
        char               text[300];
        float              out = 0;
        struct json_reader r;

        (void)state;
        nested(text, 100, "[", "7", "]");
        assert_int_equal(read_f32(text, &out, 1), JSON_TENSOR_OK);
        assert_true(out == 7);
        nested(text, 101, "[", "7", "]");
        assert_int_equal(read_f32(text, &out, 1), JSON_TENSOR_TOO_DEEP);
        json_reader_init(&r, str_of(text));
        json_read_tensor(&r, JSON_ELEMENT_F32, &out, 1);
        assert_string_equal(json_error_text(&r), TOO_DEEP);
        nested(text, 99, "[", "{}", "]");
        assert_int_equal(read_f32(text, &out, 1), JSON_TENSOR_WRONG_TYPE);
}

/* A million brackets cost nothing but the first hundred. */
static void test_tensor_depth_bomb(void **state) {
        size_t             n = 1000000;
        char              *text = malloc(n);
        struct json_reader r;
        float              out;

        (void)state;
        assert_non_null(text);
        memset(text, '[', n);
        json_reader_init(&r, str_range(text, n));
        assert_int_equal(json_read_tensor(&r, JSON_ELEMENT_F32, &out, 1), JSON_TENSOR_TOO_DEEP);
        assert_int_equal(json_error_offset(&r), 100);
        free(text);
}

/* After a tensor that does not fit the reader stands behind it, so that the rest can be checked. */
static void test_tensor_position(void **state) {
        struct json_reader r;
        struct str         key;
        float              out[2];

        (void)state;
        json_reader_init(&r, STR_LIT("{\"a\":[1,[2,3],4],\"b\":[1,[null,[2]],3],\"c\":1}"));
        json_enter_object(&r);
        assert_true(json_next_key(&r, NULL, &key));
        assert_int_equal(json_read_tensor(&r, JSON_ELEMENT_F32, out, 2), JSON_TENSOR_TOO_MANY);
        assert_true(json_next_key(&r, NULL, &key));
        assert_int_equal(json_read_tensor(&r, JSON_ELEMENT_F32, out, 2), JSON_TENSOR_WRONG_TYPE);
        assert_true(json_next_key(&r, NULL, &key));
        assert_true(str_is(key, "c"));
        json_skip(&r);
        assert_false(json_next_key(&r, NULL, &key));
        json_read_end(&r);
        assert_false(json_failed(&r));
}

/* One element, alone and in the midst of a text, quick and careful. */
static enum json_tensor_status read_one(const char *number, enum json_element element,
                                        uint64_t *ret_bits) {
        char                    text[256];
        struct json_reader      r;
        enum json_tensor_status status;
        uint64_t                careful = 0, quick[2] = { 0, 0 };
        size_t                  size = element == JSON_ELEMENT_U8 || element == JSON_ELEMENT_I8 ? 1
                                       : element == JSON_ELEMENT_U16 || element == JSON_ELEMENT_I16 ? 2
                                       : element == JSON_ELEMENT_U32 || element == JSON_ELEMENT_I32 ||
                                      element == JSON_ELEMENT_F32
                                               ? 4
                                               : 8;

        snprintf(text, sizeof(text), "[%s]", number);
        json_reader_init(&r, str_of(text));
        status = json_read_tensor(&r, element, &careful, 1);
        snprintf(text, sizeof(text), "[%s,%s]%80s", number, number, "");
        json_reader_init(&r, str_of(text));
        assert_int_equal(json_read_tensor(&r, element, quick, 2), status);
        if (status == JSON_TENSOR_OK) {
                assert_memory_equal(quick, &careful, size);
                assert_memory_equal((char *)quick + size, &careful, size);
        }
        *ret_bits = careful;
        return status;
}

static void check_integer(enum json_element element, const char *number, uint64_t wanted) {
        uint64_t bits;

        assert_int_equal(read_one(number, element, &bits), JSON_TENSOR_OK);
        assert_int_equal(bits, wanted);
}

static void check_not_integer(enum json_element element, const char *number) {
        uint64_t bits;

        assert_int_equal(read_one(number, element, &bits), JSON_TENSOR_WRONG_TYPE);
}

static void test_tensor_integers(void **state) {
        static const enum json_element signs[] = { JSON_ELEMENT_I8, JSON_ELEMENT_I16,
                                                   JSON_ELEMENT_I32, JSON_ELEMENT_I64 };
        static const enum json_element unsigneds[] = { JSON_ELEMENT_U8, JSON_ELEMENT_U16,
                                                       JSON_ELEMENT_U32, JSON_ELEMENT_U64 };

        (void)state;
        check_integer(JSON_ELEMENT_U8, "255", 255);
        check_integer(JSON_ELEMENT_U8, "256", 0); /* truncated */
        check_integer(JSON_ELEMENT_U8, "300", 44);
        check_integer(JSON_ELEMENT_I8, "-128", 0x80);
        check_integer(JSON_ELEMENT_I8, "-1", 0xff);
        check_integer(JSON_ELEMENT_I8, "128", 0x80);
        check_integer(JSON_ELEMENT_I16, "-32769", 0x7fff);
        check_integer(JSON_ELEMENT_U16, "65537", 1);
        check_integer(JSON_ELEMENT_I32, "-2147483648", 0x80000000);
        check_integer(JSON_ELEMENT_U32, "4294967295", 0xffffffff);
        check_integer(JSON_ELEMENT_I64, "9223372036854775807", INT64_MAX);
        check_integer(JSON_ELEMENT_I64, "-9223372036854775808", 1ull << 63);
        check_integer(JSON_ELEMENT_U64, "18446744073709551615", UINT64_MAX);
        check_integer(JSON_ELEMENT_U64, "1234567890123456789", 1234567890123456789);
        check_integer(JSON_ELEMENT_U64, "12345678901234567890", 12345678901234567890u);
        check_integer(JSON_ELEMENT_U64, "-0", 0);
        check_not_integer(JSON_ELEMENT_I64, "9223372036854775808");
        check_not_integer(JSON_ELEMENT_I64, "-9223372036854775809");
        check_not_integer(JSON_ELEMENT_U64, "18446744073709551616");
        for (size_t i = 0; i < 4; i++) {
                char number[16];

                check_integer(signs[i], "0", 0);
                check_integer(signs[i], "-0", 0);
                check_integer(unsigneds[i], "0", 0);
                check_not_integer(unsigneds[i], "-1");
                check_not_integer(signs[i], "1.0");
                check_not_integer(unsigneds[i], "1e2");
                check_not_integer(signs[i], "1E2");
                check_not_integer(signs[i], "NaN");
                check_not_integer(unsigneds[i], "true");
                for (unsigned n = 1; n <= 9; n++) { /* each number of digits */
                        uint64_t value = 123456789 % (uint64_t)pow(10, n);

                        snprintf(number, sizeof(number), "%ju", (uintmax_t)value);
                        check_integer(unsigneds[i], number,
                                      value & (UINT64_MAX >> (64 - (8 << i))));
                }
        }
}

static void test_tensor_bools(void **state) {
        struct json_reader r;
        unsigned char      out[4] = { 9, 9, 9, 9 };

        (void)state;
        json_reader_init(&r, STR_LIT("[true,[false, true ] ,false]"));
        assert_int_equal(json_read_tensor(&r, JSON_ELEMENT_BOOL, out, 4), JSON_TENSOR_OK);
        assert_memory_equal(out, "\1\0\1\0", 4);
        json_reader_init(&r, STR_LIT("[true,1]"));
        assert_int_equal(json_read_tensor(&r, JSON_ELEMENT_BOOL, out, 2), JSON_TENSOR_WRONG_TYPE);
        json_reader_init(&r, STR_LIT("[true,\"false\"]"));
        assert_int_equal(json_read_tensor(&r, JSON_ELEMENT_BOOL, out, 2), JSON_TENSOR_WRONG_TYPE);
        json_reader_init(&r, STR_LIT("[true,falsy]"));
        assert_int_equal(json_read_tensor(&r, JSON_ELEMENT_BOOL, out, 2), JSON_TENSOR_SYNTAX);
        assert_int_equal(json_error_offset(&r), 10);
}

static void check_float(const char *number) {
        uint64_t bits;
        float    narrow = strtof(number, NULL);
        double   wide = strtod(number, NULL);
        uint32_t narrow_bits;
        uint64_t wide_bits;

        memcpy(&narrow_bits, &narrow, sizeof(narrow));
        memcpy(&wide_bits, &wide, sizeof(wide));
        if (read_one(number, JSON_ELEMENT_F32, &bits) != JSON_TENSOR_OK || bits != narrow_bits)
                fail_msg("%s as FP32: %jx, wanted %x", number, (uintmax_t)bits, narrow_bits);
        if (read_one(number, JSON_ELEMENT_F64, &bits) != JSON_TENSOR_OK || bits != wide_bits)
                fail_msg("%s as FP64: %jx, wanted %jx", number, (uintmax_t)bits,
                         (uintmax_t)wide_bits);
}

/* The shapes that the quick way tells apart, with numbers of digits around each of its bounds. */
static void test_tensor_floats(void **state) {
        static const char *const numbers[] = {
                "0",
                "-0",
                "1",
                "-1",
                "0.0",
                "-0.0",
                "0.5",
                "-0.5",
                "1.25",
                "123456.5",
                "1234567.5",
                "12345678.5",
                "123456789.5",
                "1234567.1234567",
                "-1234567.123456",
                "-1234567.12345678",
                "0.1234567890123",
                "0.12345678901234",
                "0.123456789012345",
                "0.1234567890123456",
                "0.12345678901234567",
                "0.123456789012345678",
                "0.1234567890123456789",
                "0.12345678901234567890",
                "1234567890123456789",
                "12345678901234567890",
                "1234567890.123456789",
                "12345678901234567.89",
                "1e5",
                "1E5",
                "1e+5",
                "1e-5",
                "1.5e10",
                "-1.5e-10",
                "1.2345678e-23",
                "1.2345678e23",
                "1e38",
                "3.4028235e38",
                "1e39",
                "1e300",
                "1e-45",
                "1e-46",
                "1e-300",
                "1e-400",
                "5e-324",
                "1.17549435e-38",
                "1.1754942e-38",
                "1e0005",
                "1e-0005",
                "1.0e000000000000000001",
                "0.000000000000000000000000000000001",
                "100000000000000000000000000000000",
                "16777217",
                "16777217.0",
                "1.00000005960464477539",
                "1.000000059604644775390625",
                "9007199254740993",
                "9007199254740993.0",
                "0.10000000149011612",
                "7.038531e-26",
        };
        uint64_t bits;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                check_float(numbers[i]);
        assert_int_equal(read_one("Infinity", JSON_ELEMENT_F32, &bits), JSON_TENSOR_OK);
        assert_int_equal(bits, 0x7f800000);
        assert_int_equal(read_one("-Infinity", JSON_ELEMENT_F64, &bits), JSON_TENSOR_OK);
        assert_int_equal(bits, 0xfff0000000000000);
        assert_int_equal(read_one("NaN", JSON_ELEMENT_F32, &bits), JSON_TENSOR_OK);
        assert_int_equal(bits & 0x7fc00000, 0x7fc00000);
        assert_int_equal(read_one("-1e39", JSON_ELEMENT_F32, &bits), JSON_TENSOR_OK);
        assert_int_equal(bits, 0xff800000);
        assert_int_equal(read_one("1e309", JSON_ELEMENT_F32, &bits), JSON_TENSOR_SYNTAX);
        assert_int_equal(read_one("1e309", JSON_ELEMENT_F64, &bits), JSON_TENSOR_SYNTAX);
}

static uint64_t random_state = 0xb7e151628aed2a6b;

static uint64_t random_bits(void) {
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state;
}

/* Whole tensors through writer and reader: bit patterns of all kinds, odd addresses too. */
static void check_tensor_round_trip(enum json_element element, size_t size, size_t n) {
        char              *in = malloc(n * size + 1), *out = malloc(n * size + 1);
        struct json_writer w;
        struct json_reader r;
        struct strbuf      text;

        assert_true(in != NULL && out != NULL);
        for (size_t i = 0; i < n * size; i++)
                in[1 + i] = (char)(random_bits() >> 24);
        for (size_t i = 0; i < n; i++) { /* a NaN keeps no payload in text */
                double f64;
                float  f32;

                memcpy(&f32, in + 1 + i * size, MIN(size, sizeof(f32)));
                memcpy(&f64, in + 1 + i * size, size);
                if ((element == JSON_ELEMENT_F32 && isnan(f32)) ||
                    (element == JSON_ELEMENT_F64 && isnan(f64)))
                        memset(in + 1 + i * size, 0, size);
        }
        strbuf_init(&text, 0);
        json_writer_init(&w, &text);
        json_put_tensor(&w, element, in + 1, n);
        json_reader_init(&r, strbuf_str(&text));
        assert_int_equal(json_read_tensor(&r, element, out + 1, n), JSON_TENSOR_OK);
        json_read_end(&r);
        assert_false(json_failed(&r));
        assert_memory_equal(out + 1, in + 1, n * size);
        strbuf_done(&text);
        free(in);
        free(out);
}

static void test_tensor_round_trips(void **state) {
        (void)state;
        for (size_t n = 0; n < 20; n++) {
                check_tensor_round_trip(JSON_ELEMENT_F32, 4, n);
                check_tensor_round_trip(JSON_ELEMENT_I64, 8, n);
        }
        check_tensor_round_trip(JSON_ELEMENT_F32, 4, 1000000);
        check_tensor_round_trip(JSON_ELEMENT_F64, 8, 200000);
        check_tensor_round_trip(JSON_ELEMENT_U8, 1, 10000);
        check_tensor_round_trip(JSON_ELEMENT_I8, 1, 10000);
        check_tensor_round_trip(JSON_ELEMENT_U16, 2, 10000);
        check_tensor_round_trip(JSON_ELEMENT_I16, 2, 10000);
        check_tensor_round_trip(JSON_ELEMENT_U32, 4, 10000);
        check_tensor_round_trip(JSON_ELEMENT_I32, 4, 10000);
        check_tensor_round_trip(JSON_ELEMENT_U64, 8, 10000);
        check_tensor_round_trip(JSON_ELEMENT_I64, 8, 10000);
}

static void test_type_errors(void **state) {
        (void)state;
        assert_string_equal(json_tensor_type_error(JSON_ELEMENT_F32),
                            "attempt to access JSON non-number as double");
        assert_string_equal(json_tensor_type_error(JSON_ELEMENT_F64),
                            "attempt to access JSON non-number as double");
        assert_string_equal(json_tensor_type_error(JSON_ELEMENT_BOOL),
                            "attempt to access JSON non-boolean as boolean");
        for (int e = JSON_ELEMENT_U8; e <= JSON_ELEMENT_U64; e++)
                assert_string_equal(
                        json_tensor_type_error((enum json_element)e),
                        "attempt to access JSON non-unsigned-integer as unsigned-integer");
        for (int e = JSON_ELEMENT_I8; e <= JSON_ELEMENT_I64; e++)
                assert_string_equal(json_tensor_type_error((enum json_element)e),
                                    "attempt to access JSON non-signed-integer as signed-integer");
}

SUITE(json_tensor) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tensor_shapes),      cmocka_unit_test(test_tensor_statuses),
                cmocka_unit_test(test_tensor_depth),       cmocka_unit_test(test_tensor_depth_bomb),
                cmocka_unit_test(test_tensor_position),    cmocka_unit_test(test_tensor_integers),
                cmocka_unit_test(test_tensor_bools),       cmocka_unit_test(test_tensor_floats),
                cmocka_unit_test(test_tensor_round_trips), cmocka_unit_test(test_type_errors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
