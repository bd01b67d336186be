/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "store/list_s3.h"

#define HEAD                                                                                       \
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"                                             \
        "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
#define OBJECT(key, etag, size)                                                                    \
        "<Contents><Key>" key "</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"        \
        "<ETag>" etag "</ETag><Size>" size "</Size><Owner><ID>x</ID></Owner></Contents>"
#define END "</ListBucketResult>"

struct reading {
        struct store_list list;
        struct strbuf     token;
        struct error     *err;
};

static void read_page(struct reading *r, const char *prefix, const char *text) {
        store_list_init(&r->list, prefix);
        strbuf_init(&r->token, 0);
        strbuf_puts(&r->token, "old");
        r->err = list_s3_read(str_of(text), &r->list, &r->token);
}

static void reading_done(struct reading *r) {
        store_list_done(&r->list);
        strbuf_done(&r->token);
        error_free(r->err);
}

static void test_addresses(void **state) {
        AUTO_STRBUF url = { 0 };

        (void)state;
        strbuf_init(&url, 0);
        list_s3_url("https://h:1", "b", "", "", 1000, &url);
        assert_string_equal(strbuf_cstr(&url),
                            "https://h:1/b?encoding-type=url&list-type=2&max-keys=1000");
        strbuf_clear(&url);
        list_s3_url("https://h:1", "b", "p q/r", "a+/=", 7, &url);
        assert_string_equal(strbuf_cstr(&url),
                            "https://h:1/b?continuation-token=a%2B%2F%3D&encoding-type=url&"
                            "list-type=2&max-keys=7&prefix=p%20q%2Fr%2F");
}

static void test_a_page(void **state) {
        struct reading r;

        (void)state;
        read_page(&r, "p",
                  HEAD "<Name>b</Name><IsTruncated>true</IsTruncated>"
                       "<NextContinuationToken>t1</NextContinuationToken>" OBJECT(
                               "p/m/config.pbtxt", "&quot;000102030405060708090a0b0c0d0e0f&quot;",
                               "12") OBJECT("p/m/1/w", "&quot;0001-2&quot;", "9000000000")
                               OBJECT("p/m/2/", "x", "0") "<CommonPrefixes><Prefix>p/</Prefix>"
                                                          "</CommonPrefixes>" END);
        assert_null(r.err);
        assert_string_equal(strbuf_cstr(&r.token), "t1");
        assert_int_equal(r.list.n_entries, 3);
        assert_string_equal(r.list.entries[0].name, "m/config.pbtxt");
        assert_string_equal(r.list.entries[0].etag, "\"000102030405060708090a0b0c0d0e0f\"");
        assert_true(r.list.entries[0].has_md5);
        assert_int_equal(r.list.entries[0].md5[15], 15);
        assert_int_equal(r.list.entries[0].size, 12);
        assert_false(r.list.entries[1].has_md5); /* of an object that was sent in parts */
        assert_true(r.list.entries[1].size == 9000000000);
        assert_string_equal(r.list.entries[2].name, "m/2");
        assert_true(r.list.entries[2].is_directory);
        reading_done(&r);
}

static void test_names(void **state) {
        struct reading r;

        (void)state;
        read_page(&r, "",
                  HEAD OBJECT("a+b%2Bc%26%C3%A9", "", "1")
                          OBJECT("x%0Ay", "", "1") "<EncodingType>url</EncodingType>" END);
        assert_null(r.err);
        assert_string_equal(strbuf_cstr(&r.token), "");
        assert_int_equal(r.list.n_entries, 1);
        assert_string_equal(r.list.entries[0].name, "a b+c&\xc3\xa9");
        assert_int_equal(r.list.n_refused, 1);
        assert_string_equal(r.list.refusal->message,
                            "the name of the object 'x?y' has a control character");
        reading_done(&r);
        read_page(&r, "", HEAD OBJECT("a+b%41&amp;", "", "1") END);
        assert_null(r.err);
        assert_string_equal(r.list.entries[0].name, "a+b%41&");
        reading_done(&r);
}

static void test_mistakes(void **state) {
        static const struct {
                const char *text, *message;
        } rows[] = {
                { "", "XML, line 1, column 1: no element found" },
                { "<Error><Code>x</Code></Error>", "the listing has no element ListBucketResult" },
                { HEAD "<Contents><Size>1</Size></Contents>" END,
                  "an object of the listing has no name" },
                { HEAD OBJECT("a", "e", "") END,
                  "the object 'a' of the listing has no valid size" },
                { HEAD OBJECT("a", "e", "-1") END,
                  "the object 'a' of the listing has no valid size" },
                { HEAD OBJECT("a", "e", "18446744073709551616") END,
                  "the object 'a' of the listing has no valid size" },
                { HEAD "<IsTruncated>true</IsTruncated>" END,
                  "the listing has a next page, but no token for it" },
                { HEAD OBJECT("a%4", "e", "1") "<EncodingType>url</EncodingType>" END,
                  "an object of the listing has a name whose escapes are not valid" },
        };
        struct reading r;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                read_page(&r, "", rows[i].text);
                if (r.err == NULL)
                        fail_msg("row %zu was accepted", i);
                assert_string_equal(r.err->message, rows[i].message);
                assert_int_equal(r.err->code, ERR_INVALID_ARG);
                reading_done(&r);
        }
}

static void test_a_long_name(void **state) {
        AUTO_STRBUF    text = { 0 };
        struct reading r;

        (void)state;
        strbuf_init(&text, 0);
        strbuf_puts(&text, HEAD "<Contents><Key>");
        for (size_t i = 0; i < 20000; i++)
                strbuf_putc(&text, 'a');
        strbuf_puts(&text, "</Key><Size>1</Size></Contents>" END);
        read_page(&r, "", strbuf_cstr(&text));
        assert_non_null(r.err);
        assert_string_equal(r.err->message, "the name of an object is longer than 16384 bytes");
        reading_done(&r);
}

SUITE(list_s3) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_addresses),   cmocka_unit_test(test_a_page),
                cmocka_unit_test(test_names),       cmocka_unit_test(test_mistakes),
                cmocka_unit_test(test_a_long_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
