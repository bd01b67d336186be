/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "credentials_fixture.h"
#include "fake_exchange.h"

#include <string.h>

static struct store_url address(void) {
        return fixture_url(STORE_AS, "acct", "c", "as://acct/c/models");
}

static void expect_origin(struct store_url url, const char *origin, const char *account) {
        struct store_credentials *c = fixture_open(&url);
        AUTO_CHARS                start = mem_printf("SharedKey %s:", account);

        assert_string_equal(store_credentials_origin(c), origin);
        assert_int_equal(strncmp(fixture_sign(c, "c/k", "authorization"), start, strlen(start)), 0);
        store_credentials_free(c);
}

static void test_accounts(void **state) {
        (void)state;
        fixture_set("AZURE_STORAGE_KEY", "a2V5");
        expect_origin(address(), "https://acct.blob.core.windows.net", "acct");
        expect_origin(fixture_url(STORE_AS, "acct.blob.core.windows.net", "c",
                                  "as://acct.blob.core.windows.net/c"),
                      "https://acct.blob.core.windows.net", "acct");
        expect_origin(fixture_url(STORE_AS, "acct.blob.core.chinacloudapi.cn", "c",
                                  "as://acct.blob.core.chinacloudapi.cn/c"),
                      "https://acct.blob.core.chinacloudapi.cn", "acct");
        expect_origin(fixture_url(STORE_AS, "127.0.0.1:10000", "dev/c",
                                  "as://http://127.0.0.1:10000/dev/c"),
                      "http://127.0.0.1:10000", "dev");
        expect_origin(fixture_url(STORE_AS, "h", "dev/c", "as://http://h/dev/c"), "http://h",
                      "dev");

        fixture_set("AZURE_STORAGE_ACCOUNT",
                    "other"); /* goes before the address, as with the reference server */
        expect_origin(address(), "https://other.blob.core.windows.net", "other");
        expect_origin(fixture_url(STORE_AS, "acct.blob.core.windows.net", "c",
                                  "as://acct.blob.core.windows.net/c"),
                      "https://other.blob.core.windows.net", "other");
        expect_origin(fixture_url(STORE_AS, "127.0.0.1:10000", "dev/c",
                                  "as://http://127.0.0.1:10000/dev/c"),
                      "http://127.0.0.1:10000", "other");
        assert_int_equal(fake_n_requests(), 0);
}

static void test_sas(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fixture_set("AZURE_STORAGE_SAS_TOKEN", "?sv=2020&sig=a%2Fb");
        c = fixture_open(&url);
        assert_string_equal(fixture_sign(c, "c/k", "URL"),
                            "https://acct.blob.core.windows.net/c/k?sv=2020&sig=a%2Fb");
        assert_string_equal(fixture_sign(c, "c?comp=list", "URL"),
                            "https://acct.blob.core.windows.net/c?comp=list&sv=2020&sig=a%2Fb");
        assert_string_equal(fixture_sign(c, "c/k", "authorization"), "");
        assert_string_equal(fixture_sign(c, "c/k", "x-ms-version"), "2020-10-02");
        store_credentials_free(c);
        fixture_set("AZURE_STORAGE_SAS_TOKEN", "sv=1 sig=secret");
        fixture_open_fails(&url, "AZURE_STORAGE_SAS_TOKEN is not the query of a URL");
}

static void test_workload(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fixture_write("token", "eyJ.f.t\n");
        fixture_set_path("AZURE_FEDERATED_TOKEN_FILE", "token");
        fixture_open_fails(&url, "AZURE_FEDERATED_TOKEN_FILE is set, but AZURE_CLIENT_ID is not");
        fixture_set("AZURE_CLIENT_ID", "client");
        fixture_open_fails(&url, "AZURE_FEDERATED_TOKEN_FILE is set, but AZURE_TENANT_ID is not");
        fixture_set("AZURE_TENANT_ID", "ten/ant");
        fixture_open_fails(&url, "AZURE_TENANT_ID is not the id or domain of a tenant");
        fixture_set("AZURE_TENANT_ID", "tenant");
        fake_expect("POST https://login.microsoftonline.com/tenant/oauth2/v2.0/token", 200, "",
                    "{\"token_type\":\"Bearer\",\"expires_in\":3599,\"access_token\":\"w1\"}");
        c = fixture_open(&url);
        assert_string_equal(fixture_sign(c, "c/k", "authorization"), "Bearer w1");
        assert_string_equal(fixture_sign(c, "c/k", "x-ms-version"), "2020-10-02");
        assert_non_null(
                strstr(fake_request()->text,
                       "\n\ngrant_type=client_credentials&client_id=client&"
                       "scope=https%3A%2F%2Fstorage.azure.com%2F.default&client_assertion_type="
                       "urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_"
                       "assertion=eyJ.f.t"));
        store_credentials_free(c);

        fixture_set("AZURE_AUTHORITY_HOST", "https://login.other/");
        c = fixture_open(&url);
        fake_expect("POST https://login.other/tenant/oauth2/v2.0/token", 401, "",
                    "{\"error\":\"invalid_client\",\"error_description\":\"AADSTS eyJ.f.t\"}");
        fixture_sign_fails(
                c, ERR_INVALID_ARG,
                "https://login.other/tenant/oauth2/v2.0/token: answered 401 (invalid_client)");
        store_credentials_free(c);
}

#define IMDS                                                                                       \
        "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&"            \
        "resource=https%3A%2F%2Fstorage.azure.com%2F"

static void test_managed(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fake_expect("GET " IMDS, 200, "", "{\"access_token\":\"i1\",\"expires_in\":\"3599\"}");
        c = fixture_open(&url);
        assert_string_equal(fixture_sign(c, "c/k", "authorization"), "Bearer i1");
        assert_non_null(strstr(fake_request()->text, "\nmetadata: true\n"));
        store_credentials_free(c);

        fake_expect("GET " IMDS, 400, "",
                    "{\"error\":\"invalid_request\"}"); /* a machine without an identity */
        c = fixture_open(&url);
        assert_string_equal(fixture_sign(c, "c/k", "authorization"), "");
        assert_string_equal(fixture_sign(c, "c/k", "x-ms-version"), "2020-10-02");
        store_credentials_free(c);

        fixture_set("AZURE_CLIENT_ID", "id");
        fixture_set("IDENTITY_ENDPOINT", "http://127.0.0.1:41/msi/token");
        fixture_open_fails(&url, "IDENTITY_ENDPOINT is set, but IDENTITY_HEADER is not");
        fixture_set("IDENTITY_HEADER", "secret\r\nx-evil: 1");
        fixture_open_fails(&url, "IDENTITY_HEADER has a control character in it, such as the end "
                                 "of a line");
        fixture_set("IDENTITY_HEADER", "secret");
        fake_expect("GET http://127.0.0.1:41/msi/token?api-version=2019-08-01&"
                    "resource=https%3A%2F%2Fstorage.azure.com%2F&client_id=id",
                    200, "", "{\"access_token\":\"s1\",\"expires_on\":\"1440938760\"}");
        c = fixture_open(&url);
        assert_string_equal(fixture_sign(c, "c/k", "authorization"), "Bearer s1");
        assert_non_null(strstr(fake_request()->text, "\nx-identity-header: secret\n"));
        fixture_set_time(1440938160 + 299); /* ten minutes of life: five before the end are now */
        assert_string_equal(fixture_sign(c, "c/k", "authorization"), "Bearer s1");
        assert_int_equal(fake_n_requests(), 3);
        store_credentials_free(c);
}

static void test_refused(void **state) {
        struct store_url url = address();

        (void)state;
        fixture_set("AZURE_STORAGE_KEY", "sec*ret");
        fixture_open_fails(&url, "AZURE_STORAGE_KEY is not base64");
        fixture_set("AZURE_STORAGE_ACCOUNT", "evil.com/");
        fixture_open_fails(
                &url,
                "AZURE_STORAGE_ACCOUNT: not a name of an account: it has other characters than "
                "letters, digits and '-'");
}

static void test_cloud_file(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fixture_set("AZURE_STORAGE_ACCOUNT", "env"); /* not used with the file */
        fixture_set("AZURE_STORAGE_KEY", "ZW52");
        fixture_write("cloud.json",
                      "{\"as\":{\"\":{\"account_str\":\"\",\"account_key\":\"a2V5\"},"
                      "\"as://two\":{\"account_str\":\"file\",\"account_key\":\"a2V5\"}}}");
        fixture_set_path("TRITON_CLOUD_CREDENTIAL_PATH", "cloud.json");
        expect_origin(url, "https://acct.blob.core.windows.net", "acct");
        expect_origin(fixture_url(STORE_AS, "two", "c", "as://two/c"),
                      "https://file.blob.core.windows.net", "file");
        fixture_write("cloud.json", "{\"as\":{\"\":{\"account_key\":\"sec*ret\"}}}");
        fixture_open_fails(&url, "account_key of TRITON_CLOUD_CREDENTIAL_PATH is not base64");
        fixture_write("cloud.json", "{\"as\":{\"\":{}}}");
        fake_expect("GET " IMDS, 0, "", "");
        c = fixture_open(&url);
        assert_string_equal(fixture_sign(c, "c/k", "authorization"), "");
        store_credentials_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

SUITE(credentials_azure) {
        const struct CMUnitTest tests[] = {
                TEST(test_accounts), TEST(test_sas),     TEST(test_workload),
                TEST(test_managed),  TEST(test_refused), TEST(test_cloud_file),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
