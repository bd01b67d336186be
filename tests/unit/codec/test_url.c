/* SPDX-License-Identifier: BSD-3-Clause */
/* Request targets: splitting and percent escapes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "codec/url.h"

static void check_split(const char *target, const char *wanted_path, const char *wanted_query) {
        struct str path, query = url_split(str_of(target), &path);

        assert_true(str_is(path, wanted_path));
        assert_int_equal(query.ptr == NULL, wanted_query == NULL);
        if (wanted_query != NULL)
                assert_true(str_is(query, wanted_query));
}

static void test_split(void **state) {
        (void)state;
        check_split("/v2/models", "/v2/models", NULL);
        check_split("/v2?a=1", "/v2", "a=1");
        check_split("/v2?", "/v2", "");
        check_split("/v2?a=1?b", "/v2", "a=1?b");
        check_split("/v2?a=1#part?x", "/v2", "a=1");
        check_split("/v2#part?a=1", "/v2", NULL);
        check_split("?a", "", "a");
        check_split("", "", NULL);
        check_split("/a%3Fb?c", "/a%3Fb", "c");
}

static void test_query(void **state) {
        struct str query = STR_LIT("a=1&b&&c=&d=x=y&=e"), key, value;

        (void)state;
        assert_true(url_query_next(&query, &key, &value));
        assert_true(str_is(key, "a") && str_is(value, "1"));
        assert_true(url_query_next(&query, &key, &value));
        assert_true(str_is(key, "b") && value.ptr == NULL && value.len == 0);
        assert_true(url_query_next(&query, &key, &value));
        assert_true(str_is(key, "c") && value.ptr != NULL && value.len == 0);
        assert_true(url_query_next(&query, &key, &value));
        assert_true(str_is(key, "d") && str_is(value, "x=y"));
        assert_true(url_query_next(&query, &key, &value));
        assert_true(key.len == 0 && str_is(value, "e"));
        assert_false(url_query_next(&query, &key, &value));
        assert_false(url_query_next(&query, &key, &value));

        query = STR_LIT("");
        assert_false(url_query_next(&query, &key, &value));
        query = STR_LIT("&&");
        assert_false(url_query_next(&query, &key, &value));
        query = (struct str){ NULL, 0 };
        assert_false(url_query_next(&query, &key, &value));
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
        assert_true(url_decode_form(STR_LIT("a+b%2Bc"), &out));
        assert_string_equal(strbuf_cstr(&out), "a b+c");
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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_split),
                cmocka_unit_test(test_query),
                cmocka_unit_test(test_decode),
                cmocka_unit_test(test_maximum),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
