/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "store/list_as.h"

#include <string.h>

static void test_urls(void **state) {
        AUTO_STRBUF url;

        (void)state;
        strbuf_init(&url, 0);
        list_as_url("https://h", "c", "", "", 5000, &url);
        assert_string_equal(strbuf_cstr(&url),
                            "https://h/c?restype=container&comp=list&maxresults=5000");
        strbuf_clear(&url);
        list_as_url("http://h:1", "devstoreaccount1/c", "m/x y", "2!a=", 2, &url);
        assert_string_equal(strbuf_cstr(&url),
                            "http://h:1/devstoreaccount1/c?restype=container&comp=list&maxresults=2"
                            "&prefix=m%2Fx%20y%2F&marker=2%21a%3D");
}

#define BEGIN                                                                                      \
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults "                           \
        "ServiceEndpoint=\"https://h/\">"
#define END "</EnumerationResults>"

static void test_pages(void **state) {
        static const char page[] =
                BEGIN "<Prefix>m/</Prefix><MaxResults>3</MaxResults><Blobs>"
                      "<Blob><Name>m/a &amp; b</Name><Properties><Last-Modified>Fri</Last-Modified>"
                      "<Etag>0x8D</Etag><Content-Length>7</Content-Length>"
                      "<Content-MD5>AQIDBAUGBwgJCgsMDQ4PEA==</Content-MD5></Properties>"
                      "<Metadata><Name>x</Name></Metadata></Blob>"
                      "<Blob><Name>m/d</Name><Properties><Content-Length>0</Content-Length>"
                      "<ResourceType>directory</ResourceType></Properties></Blob>"
                      "<Blob><Name>m/d/e</Name><Properties><Content-Length>1</"
                      "Content-Length><Content-MD5 />"
                      "</Properties></Blob></Blobs><NextMarker>2!8</NextMarker>" END;
        static const unsigned char md5[] = {
                1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
        };
        struct store_list l;
        AUTO_STRBUF       token;

        (void)state;
        strbuf_init(&token, 0);
        store_list_init(&l, "m");
        assert_null(list_as_read(str_of(page), &l, &token));
        assert_string_equal(strbuf_cstr(&token), "2!8");
        assert_int_equal(l.n_entries, 3);
        assert_string_equal(l.entries[0].name, "a & b");
        assert_int_equal(l.entries[0].size, 7);
        assert_string_equal(l.entries[0].etag, "\"0x8D\"");
        assert_true(l.entries[0].has_md5);
        assert_memory_equal(l.entries[0].md5, md5, sizeof(md5));
        assert_string_equal(l.entries[1].name, "d");
        assert_true(l.entries[1].is_directory);
        assert_string_equal(l.entries[2].name, "d/e");
        assert_string_equal(l.entries[2].etag, "");
        assert_false(l.entries[2].has_md5);

        assert_null(list_as_read(STR_LIT(BEGIN "<Blobs/><NextMarker/>" END), &l, &token));
        assert_int_equal(token.len, 0);
        assert_int_equal(l.n_entries, 3);
        store_list_done(&l);
}

static void test_refused(void **state) {
        static const struct {
                const char *page;
                const char *text;
        } rows[] = {
                { "<Error><Code>X</Code></Error>",
                  "the listing has no element EnumerationResults" },
                { BEGIN "<Blobs><Blob/></Blobs>" END, "a blob of the listing has no name" },
                { BEGIN "<Blobs><Blob><Name>a</Name></Blob></Blobs>" END,
                  "the blob 'a' of the listing has no valid size" },
                { BEGIN "<Blobs><Blob><Name>a</Name><Properties><Content-Length>-1</"
                        "Content-Length></Properties>"
                        "</Blob></Blobs>" END,
                  "the blob 'a' of the listing has no valid size" },
        };
        AUTO_STRBUF token;

        (void)state;
        strbuf_init(&token, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct store_list l;
                struct error     *err;

                store_list_init(&l, "");
                err = list_as_read(str_of(rows[i].page), &l, &token);
                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(err->message, rows[i].text);
                error_free(err);
                store_list_done(&l);
        }
}

/* A size of the blob before does not count for the next one. */
static void test_no_size(void **state) {
        static const char page[] =
                BEGIN "<Blobs><Blob><Name>a</Name><Properties><Content-Length>1"
                      "</Content-Length></Properties></Blob><Blob><Name>b</Name></Blob>"
                      "</Blobs>" END;
        struct store_list l;
        struct error     *err;
        AUTO_STRBUF       token;

        (void)state;
        strbuf_init(&token, 0);
        store_list_init(&l, "");
        err = list_as_read(str_of(page), &l, &token);
        assert_non_null(err);
        assert_string_equal(err->message, "the blob 'b' of the listing has no valid size");
        error_free(err);
        store_list_done(&l);
}

SUITE(list_as) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_urls),
                cmocka_unit_test(test_pages),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_no_size),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
