/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "store/store_url.h"

static void test_addresses(void **state) {
        static const struct {
                const char     *text;
                enum store_kind kind;
                bool            is_tls;
                const char     *host, *bucket, *path, *one_form;
        } rows[] = {
                { "s3://b", STORE_S3, true, "", "b", "", "s3://b" },
                { "s3://b/", STORE_S3, true, "", "b", "", "s3://b" },
                { "s3://b/p/q", STORE_S3, true, "", "b", "p/q", "s3://b/p/q" },
                { "s3:////b//p///q//", STORE_S3, true, "", "b", "p/q", "s3://b/p/q" },
                { "s3://b/a@b", STORE_S3, true, "", "b", "a@b", "s3://b/a@b" },
                { "s3://https://h:1/b/p", STORE_S3, true, "h:1", "b", "p", "s3://https://h:1/b/p" },
                { "s3://https://h/b/p", STORE_S3, true, "h", "b", "p", "s3://https://h/b/p" },
                { "s3://http://h:1/b", STORE_S3, false, "h:1", "b", "", "s3://http://h:1/b" },
                { "s3://h:9000/b/p/", STORE_S3, true, "h:9000", "b", "p",
                  "s3://https://h:9000/b/p" },
                { "s3://[::1]:9/b", STORE_S3, true, "[::1]:9", "b", "", "s3://https://[::1]:9/b" },
                { "gs://b/p", STORE_GS, true, "", "b", "p", "gs://b/p" },
                { "as://a/c/p", STORE_AS, true, "a", "c", "p", "as://a/c/p" },
                { "as://a.blob.core.windows.net/c", STORE_AS, true, "a.blob.core.windows.net", "c",
                  "", "as://a.blob.core.windows.net/c" },
                { "as://http://h:10000/a/c/p", STORE_AS, false, "h:10000", "a/c", "p",
                  "as://http://h:10000/a/c/p" },
                { "as://h:10000/a/c", STORE_AS, true, "h:10000", "a/c", "",
                  "as://https://h:10000/a/c" },
                { "http://h:80/p//q/", STORE_WEB, false, "h:80", "", "p/q", "http://h:80/p/q" },
                { "https://h", STORE_WEB, true, "h", "", "", "https://h" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct store_url u;
                struct error    *err = store_url_parse(rows[i].text, &u);

                if (err != NULL)
                        fail_msg("%s", err->message);
                assert_true(store_url_is_remote(rows[i].text));
                assert_int_equal(u.kind, rows[i].kind);
                assert_int_equal(u.is_tls, rows[i].is_tls);
                assert_string_equal(u.host, rows[i].host);
                assert_string_equal(u.bucket, rows[i].bucket);
                assert_string_equal(u.path, rows[i].path);
                assert_string_equal(u.text, rows[i].one_form);
                store_url_done(&u);
        }
}

static void test_refused(void **state) {
        static const struct {
                const char *text, *message;
        } rows[] = {
                { "s3://", "'s3://' is not valid: it has no bucket" },
                { "s3:///", "'s3:///' is not valid: it has no bucket" },
                { "s3://h:1", "'s3://h:1' is not valid: it has no bucket" },
                { "s3://http:///b", "'s3://http:///b' is not valid: it has no bucket" },
                { "s3://h:x/b", "'s3://h:x/b' is not valid: its host is not valid; a user is not "
                                "possible" },
                { "s3://https://me:secret@h/b", "'...@h/b' is not valid: its host is not valid; a "
                                                "user is not possible" },
                { "https://me:secret@h/p", "'...@h/p' is not valid: its host is not valid; a user "
                                           "is not possible" },
                { "https://h/p?secret=1", "'https://h/p' is not valid: it has a query or a "
                                          "fragment" },
                { "s3://b/p#x", "'s3://b/p#x' is not valid: it has a query or a fragment" },
                { "s3://b/a b", "'s3://b/a b' is not valid: it contains a blank or a control "
                                "character" },
                { "s3://b/../c", "'s3://b/../c' is not valid: '.' and '..' are not possible in "
                                 "it" },
                { "s3://./c", "'s3://./c' is not valid: '.' and '..' are not possible in it" },
                { "as://a", "'as://a' is not valid: it has no account and container" },
                { "gs://", "'gs://' is not valid: it has no bucket" },
                { "http://", "'http://' is not valid: its host is not valid; a user is not "
                             "possible" },
                { "ftp://h/b", "'ftp://h/b' is not valid: its scheme is not known" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct store_url u;
                AUTO_ERROR       err = store_url_parse(rows[i].text, &u);

                if (err == NULL)
                        fail_msg("'%s' was accepted", rows[i].text);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(err->message + sizeof("the address of a model repository"),
                                    rows[i].message);
        }
}

static void test_local_paths(void **state) {
        static const char *const rows[] = { "/models", "models", "s3",      "s3:/b",
                                            "",        "S3://b", "./s3://b" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_false(store_url_is_remote(rows[i]));
}

SUITE(store_url) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_addresses),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_local_paths),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
