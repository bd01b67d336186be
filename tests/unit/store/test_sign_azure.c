/* SPDX-License-Identifier: BSD-3-Clause */
/* The account and key are the published ones of the storage emulator. The signatures were computed from
 * the documented text by another program (Python's hmac); tests/stores/test_azurite.py has a real store.
 */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "store/sign_azure.h"

#include <string.h>

#define KEY                                                                                        \
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
#define NOW_NS (UINT64_C(1369353600) * NS_PER_S) /* 2013-05-24T00:00:00Z */

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

static struct store_keys *keys_of(const char *account) {
        return store_keys_new(STORE_KEYS_AZURE_SHARED, str_of(account), STR_LIT(KEY), STR_LIT(""),
                              CLOCK_NEVER);
}

static void test_signatures(void **state) {
        struct store_request r;
        struct store_keys   *keys = keys_of("devstoreaccount1");

        (void)state;
        begin(&r, "GET",
              "http://127.0.0.1:10000/devstoreaccount1/c/"
              "a%20b?restype=container&comp=list&prefix=a%20b%2F");
        store_request_add(&r, "Range", "bytes=0-9");
        store_request_add(&r, "If-Match", "\"0x1\"");
        assert_null(sign_azure(keys, NOW_NS, &r));
        assert_string_equal(header(&r, "x-ms-date"), "Fri, 24 May 2013 00:00:00 GMT");
        assert_string_equal(header(&r, "x-ms-version"), AZURE_VERSION);
        assert_string_equal(
                header(&r, "authorization"),
                "SharedKey devstoreaccount1:Nw1xcLzUJ5nQeLNwvaPhVa6g06jqjJ+m0tkX9tyHDnw=");
        store_request_done(&r);
        store_keys_unref(keys);

        keys = keys_of("acct");
        begin(&r, "PUT", "https://acct.blob.core.windows.net");
        r.body = STR_LIT("12345");
        store_request_add(&r, "x-ms-blob-type", " BlockBlob ");
        store_request_add(&r, "content-language", "en");
        store_request_add(&r, "content-type", "text/plain");
        assert_null(sign_azure(keys, NOW_NS, &r));
        assert_string_equal(header(&r, "authorization"),
                            "SharedKey acct:/qbWwIeV7exBsWpUFtmR3pWHmUtHPn5YJOhqEfKplYU=");
        store_request_done(&r);
        store_keys_unref(keys);
}

static void test_refused(void **state) {
        struct store_request r;
        struct store_keys   *keys = store_keys_new(STORE_KEYS_AZURE_SHARED, STR_LIT("acct"),
                                                   STR_LIT("a*b"), STR_LIT(""), CLOCK_NEVER);
        struct error        *err;

        (void)state;
        begin(&r, "GET", "https://acct.blob.core.windows.net/c");
        err = sign_azure(keys, NOW_NS, &r);
        assert_non_null(err);
        assert_string_equal(err->message, "the key of the storage account 'acct' is not base64");
        error_free(err);
        store_request_done(&r);
        store_keys_unref(keys);
}

SUITE(sign_azure) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_signatures),
                cmocka_unit_test(test_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
