/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "store/list_gs.h"

#include <string.h>

static void test_urls(void **state) {
        AUTO_STRBUF url;

        (void)state;
        strbuf_init(&url, 0);
        list_gs_url("https://h", "b", "", "", 1000, &url);
        assert_string_equal(
                strbuf_cstr(&url),
                "https://h/storage/v1/b/b/o?maxResults=1000&fields=items%28name%2Csize%2Cetag%2C"
                "generation%2Cmd5Hash%29%2CnextPageToken");
        strbuf_clear(&url);
        list_gs_url("https://h", "a/b", "m/x y", "t=&", 2, &url);
        assert_non_null(strstr(strbuf_cstr(&url), "/b/a%2Fb/o?maxResults=2&"));
        assert_non_null(strstr(strbuf_cstr(&url), "&prefix=m%2Fx%20y%2F&pageToken=t%3D%26"));
        strbuf_clear(&url);
        list_gs_object_url("http://h:1", "b", STR_LIT("m/a b"), &url);
        assert_string_equal(strbuf_cstr(&url), "http://h:1/storage/v1/b/b/o/m%2Fa%20b?alt=media");
}

static void test_pages(void **state) {
        static const char first[] =
                "{\"kind\":\"storage#objects\",\"nextPageToken\":\"n\\u003d1\",\"items\":["
                "{\"name\":\"m/"
                "a\",\"size\":\"7\",\"etag\":\"CJ=\",\"generation\":\"12\",\"x\":{\"y\":[1]},"
                "\"md5Hash\":\"AQIDBAUGBwgJCgsMDQ4PEA==\"},"
                "{\"name\":\"m/"
                "\\u00e9\",\"size\":\"18446744073709551615\",\"generation\":\"13\"}]}";
        static const unsigned char md5[] = {
                1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
        };
        struct store_list l;
        AUTO_STRBUF       token;

        (void)state;
        strbuf_init(&token, 0);
        store_list_init(&l, "m");
        assert_null(list_gs_read(str_of(first), &l, &token));
        assert_string_equal(strbuf_cstr(&token), "n=1");
        assert_int_equal(l.n_entries, 2);
        assert_string_equal(l.entries[0].name, "a");
        assert_int_equal(l.entries[0].size, 7);
        assert_string_equal(l.entries[0].etag, "CJ=");
        assert_true(l.entries[0].has_md5);
        assert_memory_equal(l.entries[0].md5, md5, sizeof(md5));
        assert_string_equal(l.entries[1].name, "\xc3\xa9");
        assert_true(l.entries[1].size == UINT64_MAX);
        assert_string_equal(l.entries[1].etag, "13");
        assert_false(l.entries[1].has_md5);

        assert_null(list_gs_read(STR_LIT("{\"kind\":\"storage#objects\"}"), &l, &token));
        assert_int_equal(token.len, 0);
        assert_int_equal(l.n_entries, 2);
        store_list_done(&l);
}

static void test_refused(void **state) {
        static const struct {
                const char *page;
                const char *text;
        } rows[] = {
                { "[]", "the listing is not a JSON object" },
                { "{\"items\":{}}", "'items' of the listing is not an array" },
                { "{\"items\":[1]}", "an item of the listing is not an object" },
                { "{\"items\":[{}]}", "an object of the listing has no name" },
                { "{\"items\":[{\"name\":1,\"size\":\"1\"}]}",
                  "an object of the listing has no name" },
                { "{\"items\":[{\"name\":\"a\"}]}",
                  "the object 'a' of the listing has no valid size" },
                { "{\"items\":[{\"name\":\"a\",\"size\":\"-1\"}]}",
                  "the object 'a' of the listing has no valid size" },
                { "{\"items\":[{\"name\":\"a\",\"size\":\"18446744073709551616\"}]}",
                  "the object 'a' of the listing has no valid size" },
        };
        static const char *const malformed[] = { "", "{", "{\"items\":[", "{}x",
                                                 "{\"items\":[{\"name\":\"a\",\"size\":\"1\"}}" };
        AUTO_STRBUF              token;

        (void)state;
        strbuf_init(&token, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct store_list l;
                struct error     *err;

                store_list_init(&l, "");
                err = list_gs_read(str_of(rows[i].page), &l, &token);
                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(err->message, rows[i].text);
                error_free(err);
                store_list_done(&l);
        }
        for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
                struct store_list l;
                struct error     *err;

                store_list_init(&l, "");
                err = list_gs_read(str_of(malformed[i]), &l, &token);
                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                error_free(err);
                store_list_done(&l);
        }
}

SUITE(list_gs) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_urls),
                cmocka_unit_test(test_pages),
                cmocka_unit_test(test_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
