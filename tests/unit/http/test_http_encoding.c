/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "http/http_reply.h"

struct row {
        const char        *accept;
        enum http_encoding want;
};

static void test_choose(void **state) {
        static const struct row rows[] = {
                { NULL, HTTP_ENCODING_IDENTITY },
                { "", HTTP_ENCODING_IDENTITY },
                { "gzip", HTTP_ENCODING_GZIP },
                { "GZip", HTTP_ENCODING_GZIP },
                { "deflate", HTTP_ENCODING_DEFLATE },
                { "gzip, deflate", HTTP_ENCODING_GZIP },
                { "deflate,gzip", HTTP_ENCODING_DEFLATE },
                { "identity, gzip", HTTP_ENCODING_IDENTITY },
                { "gzip;q=0.5, deflate;q=0.8", HTTP_ENCODING_DEFLATE },
                { "gzip;q=0.5, deflate;q=0.5", HTTP_ENCODING_GZIP },
                { "gzip; q=0.501, deflate;q=0.5", HTTP_ENCODING_GZIP },
                { "deflate;q=0.123, gzip;q=0.124", HTTP_ENCODING_GZIP },
                { "gzip;q=0", HTTP_ENCODING_IDENTITY },
                { "gzip;q=0.000, deflate;q=0", HTTP_ENCODING_IDENTITY },
                { "identity;q=0.5, gzip;q=1.0", HTTP_ENCODING_GZIP },
                { "br, zstd", HTTP_ENCODING_IDENTITY },
                { "br;q=1, gzip;q=0.1", HTTP_ENCODING_GZIP },
                { "*", HTTP_ENCODING_IDENTITY },
                { "gzip;q=9", HTTP_ENCODING_IDENTITY },
                { "gzip;q=x", HTTP_ENCODING_IDENTITY },
                { "gzip;q=", HTTP_ENCODING_IDENTITY },
                { "gzip;q=1x", HTTP_ENCODING_IDENTITY },
                { "gzip;level=1;Q=0.2, deflate;q=0.1", HTTP_ENCODING_GZIP },
                { ",,;;,gzip", HTTP_ENCODING_GZIP },
                { "gzi, gzipp", HTTP_ENCODING_IDENTITY },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct http_encoding_choice got = { 0 };

                http_encoding_consider(&got, str_of(rows[i].accept));
                if (got.best != rows[i].want)
                        fail_msg("'%s': %s", rows[i].accept, http_encoding_name(got.best));
        }
}

/* Several fields are one list. */
static void test_several(void **state) {
        static const struct {
                const char        *accept[3];
                enum http_encoding want;
        } rows[] = {
                { { "identity;q=0.5", "gzip" }, HTTP_ENCODING_GZIP },
                { { "br", "", "deflate" }, HTTP_ENCODING_DEFLATE },
                { { "gzip", "deflate" }, HTTP_ENCODING_GZIP },
                { { "gzip;q=0.1, br", "x", "deflate;q=0.2" }, HTTP_ENCODING_DEFLATE },
                { { "gzip;q=0", "deflate;q=0" }, HTTP_ENCODING_IDENTITY },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct http_encoding_choice got = { 0 };

                for (size_t k = 0; k < ARRAY_LEN(rows[i].accept); k++)
                        http_encoding_consider(&got, str_of(rows[i].accept[k]));
                assert_int_equal(got.best, rows[i].want);
        }
}

static void test_media_types(void **state) {
        static const struct {
                const char *accept;
                unsigned    weight; /* of text/x, version 1.0 */
        } rows[] = {
                { NULL, 0 },
                { "", 0 },
                { "text/x", 1000 },
                { "Text/X;charset=utf-8", 1000 },
                { "text/x;version=1.0", 1000 },
                { "text/x; version=1.0; q=0.75", 750 },
                { "text/x;version=2.0,text/x;q=0.25", 250 },
                { "text/x;version=2.0", 0 },
                { "text/x;version=", 0 },
                { "a/b;q=0.9 , text/x;q=0.2,text/x;q=0.4", 400 },
                { "text/x;q=0", 0 },
                { "*/*, text/*, text/xx", 0 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                unsigned got = http_accept_weight(str_of(rows[i].accept), "text/x", "1.0");

                if (got != rows[i].weight)
                        fail_msg("'%s': %u", rows[i].accept, got);
        }
}

SUITE(http_encoding) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_choose),
                                            cmocka_unit_test(test_several),
                                            cmocka_unit_test(test_media_types) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
