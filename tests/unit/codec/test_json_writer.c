/* SPDX-License-Identifier: BSD-3-Clause */
/* The writer: commas, strings, numbers, tensors, and buffers that are full.
 */
#include "suite.h"

#include "base/mem.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void test_structure(void **state) {
        struct strbuf      text;
        struct json_writer w;

        (void)state;
        strbuf_init(&text, 0);
        json_writer_init(&w, &text);
        json_begin_object(&w);
        json_key(&w, "empty");
        json_begin_object(&w);
        json_end_object(&w);
        json_key(&w, "list");
        json_begin_array(&w);
        json_put_raw(&w, STR_LIT("null"));
        json_put_bool(&w, true);
        json_put_bool(&w, false);
        json_begin_array(&w);
        json_end_array(&w);
        json_begin_object(&w);
        json_key_str(&w, STR_LIT("k"));
        json_put_u64(&w, 1);
        json_end_object(&w);
        json_put_raw(&w, STR_LIT("{\"raw\":[1]}"));
        json_end_array(&w);
        json_key(&w, "text");
        json_put_string(&w, "a\"b");
        json_key(&w, "str");
        json_put_str(&w, STR_LIT("c"));
        json_end_object(&w);
        assert_string_equal(strbuf_cstr(&text),
                            "{\"empty\":{},\"list\":[null,true,false,[],{\"k\":1},"
                            "{\"raw\":[1]}],\"text\":\"a\\\"b\",\"str\":\"c\"}");
        strbuf_done(&text);
}

static void test_members(void **state) {
        AUTO_STRBUF        text = { 0 };
        struct json_writer w = { .out = &text };

        (void)state;
        json_begin_object(&w);
        json_member_string(&w, "string", "a");
        json_member_str(&w, "str", STR_LIT("b"));
        json_member_bool(&w, "bool", true);
        json_member_i64(&w, "i64", INT64_MIN);
        json_member_u64(&w, "u64", UINT64_MAX);
        json_member_f64(&w, "f64", 0.5);
        json_member_raw(&w, "raw", STR_LIT("null"));
        json_member_object(&w, "object");
        json_end_object(&w);
        json_member_array(&w, "array");
        json_end_array(&w);
        json_end_object(&w);
        assert_string_equal(strbuf_cstr(&text),
                            "{\"string\":\"a\",\"str\":\"b\",\"bool\":true,"
                            "\"i64\":-9223372036854775808,\"u64\":18446744073709551615,"
                            "\"f64\":0.5,\"raw\":null,\"object\":{},\"array\":[]}");
}

static void check_quote(const char *bytes, size_t len, const char *wanted) {
        struct strbuf text;

        strbuf_init(&text, 0);
        json_quote(&text, str_range(bytes, len));
        assert_string_equal(strbuf_cstr(&text), wanted);
        strbuf_done(&text);
}

static void test_quote(void **state) {
        (void)state;
        check_quote("", 0, "\"\"");
        check_quote(NULL, 0, "\"\"");
        check_quote("plain", 5, "\"plain\"");
        check_quote("\"\\/", 3, "\"\\\"\\\\/\"");
        check_quote("\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\"");
        check_quote("a\0b\x01\x0b\x1f\x7f", 7, "\"a\\u0000b\\u0001\\u000B\\u001F\x7f\"");
        check_quote("gr\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", 11,
                    "\"gr\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\"");
        /* What is not UTF-8: lone bytes, cut sequences, surrogates, overlong forms. */
        check_quote("a\xff"
                    "b",
                    3,
                    "\"a\xef\xbf\xbd"
                    "b\"");
        check_quote("\xc3", 1, "\"\xef\xbf\xbd\"");
        check_quote("\xc3(", 2, "\"\xef\xbf\xbd(\"");
        check_quote("\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
        check_quote("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
        check_quote("\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

/* Whatever bytes go in, the reader takes what comes out. */
static void test_quote_reads_back(void **state) {
        char               bytes[256];
        struct strbuf      text;
        struct json_reader r;
        struct arena       arena;
        struct str         again;

        (void)state;
        for (int i = 0; i < 256; i++)
                bytes[i] = (char)i;
        strbuf_init(&text, 0);
        arena_init(&arena, NULL, 0, 0);
        json_quote(&text, str_range(bytes, sizeof(bytes)));
        json_reader_init(&r, strbuf_str(&text));
        again = json_read_string(&r, &arena);
        json_read_end(&r);
        assert_false(json_failed(&r));
        assert_int_equal(again.len, 128 + 3 * 128);
        assert_memory_equal(again.ptr, bytes, 128);
        arena_done(&arena);
        strbuf_done(&text);
}

static void test_numbers(void **state) {
        struct strbuf      text;
        struct json_writer w;
        char               out[32];

        (void)state;
        strbuf_init(&text, 0);
        json_writer_init(&w, &text);
        json_begin_array(&w);
        json_put_i64(&w, 0);
        json_put_i64(&w, -1);
        json_put_i64(&w, INT64_MAX);
        json_put_i64(&w, INT64_MIN);
        json_put_u64(&w, 0);
        json_put_u64(&w, 7);
        json_put_u64(&w, 10);
        json_put_u64(&w, 99);
        json_put_u64(&w, 100);
        json_put_u64(&w, 12345);
        json_put_u64(&w, UINT64_MAX);
        json_put_f32(&w, 0.1f);
        json_put_f64(&w, 0.1);
        json_put_f64(&w, (double)0.1f);
        json_put_f32(&w, -0.0f);
        json_put_f32(&w, NAN);
        json_put_f64(&w, (double)-INFINITY);
        json_end_array(&w);
        assert_string_equal(strbuf_cstr(&text),
                            "[0,-1,9223372036854775807,-9223372036854775808,0,7,10,99,100,12345,"
                            "18446744073709551615,0.1,0.1,0.10000000149011612,-0.0,NaN,-Infinity]");
        strbuf_done(&text);
        assert_int_equal(json_format_f32(out, 1.5f) - out, 3);
        assert_memory_equal(out, "1.5", 3);
}

static void check_tensor(enum json_element element, const void *in, size_t n, const char *wanted) {
        struct strbuf      text;
        struct json_writer w;

        strbuf_init(&text, 0);
        json_writer_init(&w, &text);
        json_begin_object(&w);
        json_key(&w, "data");
        json_put_tensor(&w, element, in, n);
        json_key(&w, "next");
        json_put_raw(&w, STR_LIT("null"));
        json_end_object(&w);
        assert_string_equal(strbuf_cstr(&text), wanted);
        strbuf_done(&text);
}

static void test_tensors(void **state) {
        static const float    f32[] = { 1, -0.5f, 3.4028235e38f, 1e-45f, 0, INFINITY };
        static const double   f64[] = { 1, -0.1, 1e100 };
        static const uint8_t  u8[] = { 0, 255 }, bools[] = { 0, 1, 2 };
        static const int8_t   i8[] = { -128, 127 };
        static const uint16_t u16[] = { 65535 };
        static const int16_t  i16[] = { -32768 };
        static const uint32_t u32[] = { 4294967295 };
        static const int32_t  i32[] = { -2147483647 - 1 };
        static const uint64_t u64[] = { UINT64_MAX };
        static const int64_t  i64[] = { INT64_MIN, 0 };

        (void)state;
        check_tensor(JSON_ELEMENT_F32, f32, 6,
                     "{\"data\":[1.0,-0.5,3.4028235e38,1e-45,0.0,Infinity],\"next\":null}");
        check_tensor(JSON_ELEMENT_F64, f64, 3, "{\"data\":[1.0,-0.1,1e100],\"next\":null}");
        check_tensor(JSON_ELEMENT_BOOL, bools, 3, "{\"data\":[false,true,true],\"next\":null}");
        check_tensor(JSON_ELEMENT_U8, u8, 2, "{\"data\":[0,255],\"next\":null}");
        check_tensor(JSON_ELEMENT_I8, i8, 2, "{\"data\":[-128,127],\"next\":null}");
        check_tensor(JSON_ELEMENT_U16, u16, 1, "{\"data\":[65535],\"next\":null}");
        check_tensor(JSON_ELEMENT_I16, i16, 1, "{\"data\":[-32768],\"next\":null}");
        check_tensor(JSON_ELEMENT_U32, u32, 1, "{\"data\":[4294967295],\"next\":null}");
        check_tensor(JSON_ELEMENT_I32, i32, 1, "{\"data\":[-2147483648],\"next\":null}");
        check_tensor(JSON_ELEMENT_U64, u64, 1, "{\"data\":[18446744073709551615],\"next\":null}");
        check_tensor(JSON_ELEMENT_I64, i64, 2, "{\"data\":[-9223372036854775808,0],\"next\":null}");
        check_tensor(JSON_ELEMENT_F32, NULL, 0, "{\"data\":[],\"next\":null}");
}

static void put_tensor(struct strbuf *text, const float *in, size_t n) {
        struct json_writer w;

        json_writer_init(&w, text);
        json_put_tensor(&w, JSON_ELEMENT_F32, in, n);
}

/* Only the text itself decides whether it fits, to the byte. */
static void test_maximum(void **state) {
        static float  in[1000];
        struct strbuf whole, text;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(in); i++)
                in[i] = (float)i / 7;
        strbuf_init(&whole, 0);
        put_tensor(&whole, in, ARRAY_LEN(in));
        for (size_t less = 0; less < 3; less++) {
                strbuf_init(&text, whole.len - less);
                put_tensor(&text, in, ARRAY_LEN(in));
                assert_int_equal(text.overflowed, less > 0);
                if (less == 0)
                        assert_string_equal(strbuf_cstr(&text), strbuf_cstr(&whole));
                assert_in_range(text.len, 0, whole.len - less);
                strbuf_done(&text);
        }
        strbuf_done(&whole);
}

static void test_memory_is_short(void **state) {
        static const float in[600] = { 1.5f };
        struct strbuf      whole, text;
        bool               was_hit = true;

        (void)state;
        strbuf_init(&whole, 0);
        put_tensor(&whole, in, ARRAY_LEN(in));
        for (unsigned n = 1; was_hit; n++) {
                strbuf_init(&text, 0);
                mem_fail_after(n);
                put_tensor(&text, in, ARRAY_LEN(in));
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                assert_int_equal(text.overflowed, was_hit);
                if (!was_hit)
                        assert_string_equal(strbuf_cstr(&text), strbuf_cstr(&whole));
                strbuf_done(&text);
        }
        strbuf_done(&whole);
}

/* Short names have a way of their own: every byte in every place of names of every length, in
 * buffers with and without room for it. */
static void test_names(void **state) {
        (void)state;
        for (size_t len = 1; len <= 20; len++) {
                for (size_t i = 0; i < len * 256; i++) {
                        char          name[20], memory[64];
                        unsigned char c = (unsigned char)(i % 256);
                        struct strbuf roomy, tight;
                        char         *exact = malloc(len); /* nothing behind it */

                        memset(name, 'n', len);
                        name[i / 256] = (char)c;
                        memcpy(exact, name, len);
                        strbuf_init(&roomy, 0);
                        strbuf_reserve(&roomy, 200);
                        json_quote(&roomy, str_range(exact, len));
                        tight = (struct strbuf){ .ptr = memory,
                                                 .cap = roomy.len + 1,
                                                 .max = roomy.len };
                        json_quote(&tight, str_range(exact, len));
                        assert_false(tight.overflowed);
                        assert_string_equal(strbuf_cstr(&tight), strbuf_cstr(&roomy));
                        assert_int_equal(roomy.ptr[0], '"');
                        assert_int_equal(roomy.ptr[roomy.len - 1], '"');
                        if (c >= ' ' && c < 0x80 && c != '"' && c != '\\') {
                                assert_int_equal(roomy.len, len + 2);
                                assert_memory_equal(roomy.ptr + 1, name, len);
                        } else {
                                assert_true(roomy.len > len + 2); /* escaped or replaced */
                        }
                        strbuf_done(&roomy);
                        free(exact);
                }
        }
}

SUITE(json_writer) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_structure), cmocka_unit_test(test_members),
                cmocka_unit_test(test_quote),     cmocka_unit_test(test_quote_reads_back),
                cmocka_unit_test(test_numbers),   cmocka_unit_test(test_tensors),
                cmocka_unit_test(test_maximum),   cmocka_unit_test(test_memory_is_short),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
