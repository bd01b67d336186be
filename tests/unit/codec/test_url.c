/* SPDX-License-Identifier: BSD-3-Clause */
/* Percent escapes.
 */
#include "suite.h"

#include "base/compiler.h"
#include "codec/url.h"

static void test_names(void **state) {
        AUTO_STRBUF out = { 0 };

        (void)state;
        url_put_name(STR_LIT("a b/c?d#e%20"), &out);
        assert_string_equal(strbuf_cstr(&out), "a%20b%2Fc%3Fd%23e%20");
        strbuf_clear(&out);
        url_put_name(STR_LIT("\xc3\xa4%20"), &out);
        assert_string_equal(strbuf_cstr(&out), "%C3%A4%2520");
}

static void test_decode(void **state) {
        static const char *const bad[] = { "%", "a%", "%4", "%4g", "%g4", "%%41", "% 41", "x%2" };
        struct strbuf            out;

        (void)state;
        strbuf_init(&out, 0);
        assert_true(url_decode(STR_LIT(""), &out));
        assert_int_equal(out.len, 0);
        assert_true(url_decode(STR_LIT("a%20b%2Fc%2fd+e"), &out));
        assert_string_equal(strbuf_cstr(&out), "a b/c/d+e");
        strbuf_clear(&out);
        assert_true(url_decode(STR_LIT("%00%ff%C3%A9"), &out));
        assert_int_equal(out.len, 4);
        assert_memory_equal(out.ptr, "\0\xff\xc3\xa9", 5);
        assert_true(url_decode(STR_LIT("%2541"), &out)); /* once, not twice */
        assert_memory_equal(out.ptr + 4, "%41", 4);
        strbuf_clear(&out);
        strbuf_puts(&out, "kept");
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                assert_false(url_decode(str_of(bad[i]), &out));
                assert_string_equal(strbuf_cstr(&out), "kept");
        }
        strbuf_done(&out);
}

static void test_maximum(void **state) {
        struct strbuf out;

        (void)state;
        strbuf_init(&out, 3);
        assert_true(url_decode(STR_LIT("%61%62%63"), &out));
        assert_string_equal(strbuf_cstr(&out), "abc");
        assert_false(out.overflowed);
        assert_true(url_decode(STR_LIT("d"), &out));
        assert_true(out.overflowed);
        assert_string_equal(strbuf_cstr(&out), "abc");
        strbuf_done(&out);
}

static void test_encode(void **state) {
        struct strbuf out;

        (void)state;
        strbuf_init(&out, 0);
        url_encode(STR_LIT("aZ09-._~ /+%?\xc3\xa9*"), false, &out);
        assert_string_equal(strbuf_cstr(&out), "aZ09-._~%20%2F%2B%25%3F%C3%A9%2A");
        strbuf_clear(&out);
        url_encode(STR_LIT("a b/c"), true, &out);
        assert_string_equal(strbuf_cstr(&out), "a%20b/c");
        strbuf_done(&out);
}

static void test_put_parameter(void **state) {
        AUTO_STRBUF out = { 0 };

        (void)state;
        strbuf_init(&out, 100);
        url_put_parameter(&out, "a", "x/y z");
        url_put_parameter(&out, "b", "&=");
        url_put_parameter(&out, "c", "");
        assert_string_equal(strbuf_cstr(&out), "a=x%2Fy%20z&b=%26%3D&c=");
}

SUITE(url) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),         cmocka_unit_test(test_decode),
                cmocka_unit_test(test_maximum),       cmocka_unit_test(test_encode),
                cmocka_unit_test(test_put_parameter),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
