/* SPDX-License-Identifier: BSD-3-Clause */
/* The vectors are those of AWS's documentation: "Signature Calculations for the Authorization Header" of S3,
 * and the test suite of Signature Version 4.
 */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "store/sign_aws.h"

#include <stdlib.h>
#include <string.h>

#define S3_HOST "https://examplebucket.s3.amazonaws.com"
#define S3_SCOPE                                                                                   \
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
#define S3_NS (UINT64_C(1369353600) * NS_PER_S) /* 2013-05-24T00:00:00Z */
#define SUITE_HOST "https://example.amazonaws.com"
#define SUITE_SCOPE                                                                                \
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
#define SUITE_NS (UINT64_C(1440938160) * NS_PER_S) /* 2015-08-30T12:36:00Z */

static struct store_keys *s3_keys(void) {
        return store_keys_new(STORE_KEYS_AWS, STR_LIT("AKIAIOSFODNN7EXAMPLE"),
                              STR_LIT("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), STR_LIT(""),
                              CLOCK_NEVER);
}

static struct store_keys *suite_keys(const char *token) {
        return store_keys_new(STORE_KEYS_AWS, STR_LIT("AKIDEXAMPLE"),
                              STR_LIT("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), str_of(token),
                              CLOCK_NEVER);
}

static void begin(struct store_request *r, const char *method, const char *url) {
        *r = (struct store_request){ .method = method };
        strbuf_init(&r->url, 0);
        strbuf_puts(&r->url, url);
}

static const char *header(const struct store_request *r, const char *name) {
        for (size_t i = 0; i < r->n_headers; i++)
                if (strcmp(r->headers[i].name, name) == 0)
                        return r->headers[i].value;
        return "";
}

/* Ends the request. */
static void expect(struct store_request *r, struct store_keys *keys, bool is_s3,
                   const char *authorization) {
        const struct aws_signer s = {
                .keys = keys,
                .region = "us-east-1",
                .service = is_s3 ? "s3" : "service",
                .now_ns = is_s3 ? S3_NS : SUITE_NS,
        };

        assert_null(sign_aws(&s, r));
        assert_string_equal(header(r, "authorization"), authorization);
        store_request_done(r);
        store_keys_unref(keys);
}

static void test_s3(void **state) {
        struct store_request r;

        (void)state;
        begin(&r, "GET", S3_HOST "/test.txt");
        store_request_add(&r, "Range", "bytes=0-9");
        expect(&r, s3_keys(), true,
               S3_SCOPE
               "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
               "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");

        begin(&r, "PUT", S3_HOST "/test%24file.text");
        r.body = STR_LIT("Welcome to Amazon S3.");
        store_request_add(&r, "date", "Fri, 24 May 2013 00:00:00 GMT");
        store_request_add(&r, "x-amz-storage-class", "REDUCED_REDUNDANCY");
        expect(&r, s3_keys(), true,
               S3_SCOPE
               "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, "
               "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");

        begin(&r, "GET", S3_HOST "/?lifecycle");
        expect(&r, s3_keys(), true,
               S3_SCOPE
               "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
               "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");

        begin(&r, "GET", S3_HOST "?prefix=J&max-keys=2");
        expect(&r, s3_keys(), true,
               S3_SCOPE
               "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
               "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void test_suite(void **state) {
        struct store_request r;

        (void)state;
        begin(&r, "GET", SUITE_HOST "/"); /* get-vanilla */
        expect(&r, suite_keys(""), false,
               SUITE_SCOPE
               "SignedHeaders=host;x-amz-date, "
               "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");

        begin(&r, "GET",
              SUITE_HOST "/?Param2=value2&Param1=value1"); /* get-vanilla-query-order-key-case */
        expect(&r, suite_keys(""), false,
               SUITE_SCOPE
               "SignedHeaders=host;x-amz-date, "
               "Signature=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");

        begin(&r, "POST", SUITE_HOST "/"); /* post-x-www-form-urlencoded */
        r.body = STR_LIT("Param1=value1");
        store_request_add(&r, "Content-Type", "application/x-www-form-urlencoded");
        expect(&r, suite_keys(""), false,
               SUITE_SCOPE
               "SignedHeaders=content-type;host;x-amz-date, "
               "Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a");
}

/* A port that is the scheme's own is not in the header that libcurl sends, another one is. */
static void test_headers(void **state) {
        const struct aws_signer signer = {
                .keys = suite_keys("token"), .region = "us-east-1", .service = "s3", .now_ns = S3_NS
        };
        static const struct {
                const char *url;
                const char *host;
        } rows[] = {
                { "https://h:443/a", "h" },     { "http://h:80/a", "h" },
                { "http://h:443/a", "h:443" },  { "https://[::1]:8443/a", "[::1]:8443" },
                { "https://h:8443", "h:8443" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct store_request r;

                begin(&r, "GET", rows[i].url);
                assert_null(sign_aws(&signer, &r));
                assert_string_equal(header(&r, "host"), rows[i].host);
                assert_string_equal(header(&r, "x-amz-date"), "20130524T000000Z");
                assert_string_equal(header(&r, "x-amz-security-token"), "token");
                assert_string_equal(
                        header(&r, "x-amz-content-sha256"),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
                assert_non_null(strstr(header(&r, "authorization"),
                                       "SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
                                       "x-amz-security-token, "));
                store_request_done(&r);
        }
        store_keys_unref((struct store_keys *)signer.keys);
}

/* Escapes that another writer would not have made give the same signature: the service has one form. */
static void test_one_form(void **state) {
        static const char *const urls[] = { S3_HOST "/a%20b/%7ec?prefix=a%2Fb&x",
                                            S3_HOST "/a b/~c?x=&prefix=a/b" };
        char                    *first = NULL;
        struct store_keys       *keys = s3_keys();
        const struct aws_signer  signer = {
                 .keys = keys, .region = "us-east-1", .service = "s3", .now_ns = S3_NS
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
                struct store_request r;

                begin(&r, "GET", urls[i]);
                assert_null(sign_aws(&signer, &r));
                if (first == NULL)
                        first = strdup(header(&r, "authorization"));
                assert_string_equal(header(&r, "authorization"), first);
                store_request_done(&r);
        }
        free(first);
        store_keys_unref(keys);
}

static void test_refused(void **state) {
        static const struct {
                const char *url;
                const char *text;
        } rows[] = {
                { "ftp://h/a", "the URL of a request is not http:// or https://" },
                { "https://user@h/a", "the URL of a request is not http:// or https://" },
                { "https:///a", "the URL of a request is not http:// or https://" },
                { "https://h/%zz", "the path of a request has a malformed escape" },
                { "https://h/?a=%z", "a parameter of a request has a malformed escape" },
        };
        struct store_keys      *keys = s3_keys();
        const struct aws_signer signer = {
                .keys = keys, .region = "r", .service = "s3", .now_ns = S3_NS
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct store_request r;
                struct error        *err;

                begin(&r, "GET", rows[i].url);
                err = sign_aws(&signer, &r);
                assert_non_null(err);
                assert_string_equal(err->message, rows[i].text);
                error_free(err);
                store_request_done(&r);
        }
        store_keys_unref(keys);
}

SUITE(sign_aws) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_s3),      cmocka_unit_test(test_suite),
                cmocka_unit_test(test_headers), cmocka_unit_test(test_one_form),
                cmocka_unit_test(test_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
