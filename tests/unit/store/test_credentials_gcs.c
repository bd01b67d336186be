/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "credentials_fixture.h"
#include "fake_exchange.h"

#include <string.h>

/* A key of this test alone. */
#define PRIVATE_KEY                                                                                \
        "-----BEGIN PRIVATE KEY-----\\n"                                                           \
        "MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBALxQPea5DGcFkxvH\\n"                      \
        "Bo/deX1Q1v5hjbq8BxQ2+dozSzyUZMQ2W/4b8PCt4Wx6lY2XfZr/zHPiUCMMh05V\\n"                      \
        "KJlMMs67eTmUvW4hjgwCsBObrRnMjrrVCYzGvfxEXrpvtBhA0nYsjy+O7dJPPSmH\\n"                      \
        "QUz82ruZ0uHiBralQKF33Y0FUlKDAgMBAAECgYBq76Y3Px4r4p6HR54SVFKJNz7f\\n"                      \
        "dcZmJCBg+lcn8bjnzdzrD3Nt+a/4/MTmNTZ4EW7idiBELmAThynO8cz8QKkYgnmx\\n"                      \
        "1xSJOOdPkGCOB7ynRp5k3Ix6wOrIXCfjr/qbLRVD+WKTFu/ZHs5jjM+kDMq/UlTc\\n"                      \
        "GIfxKCkgih3OpXUeAQJBAO2IOrc4isDPrUJE1JHvGSvfO2e9yO8DmYziSmUCQPpc\\n"                      \
        "+wqinv26ws4zHg0cisNwyf+QXp+kzZ9JBKC62rE3lckCQQDK9GC0F7TXDf7WGZew\\n"                      \
        "hRuuEunHpWnxAPr+CG9v9ji8VJDS2xbin7CICAwrphLQGDIeMXbXJ/OyzRHP4gfu\\n"                      \
        "0rvrAkEAgSMlOONmnDjMK1EceFKTTsTImTgW+8rrOir040F8biEK4tdStQNKUax8\\n"                      \
        "1AgGcQbq6yRkLUr993FNMM0lhF+B8QJAH8UfejGX0m5TbQp2j2BW0+oMBH+lVN+1\\n"                      \
        "apzBbQJbIUgPn6JCM9mRlcnEtfR6T27qMYXGt6l+YYfueN9GJKGCXwJAAxinhpeQ\\n"                      \
        "bz1q474pMhk8au+2AehWtIyQfR6WmeeLqWkc1+6qo9haoiXkRS+tjHQXRle+mIR6\\n"                      \
        "vYoUtkwmjjwe+g==\\n"                                                                      \
        "-----END PRIVATE KEY-----\\n"                                                             \
        ""

#define SERVICE_ACCOUNT                                                                            \
        "{\"type\":\"service_account\",\"client_email\":\"a@p.iam\",\"private_key_id\":\"k1\","    \
        "\"private_key\":\"" PRIVATE_KEY "\",\"token_uri\":\"https://t/token\"}"

static struct store_url address(void) {
        return fixture_url(STORE_GS, "", "b", "gs://b/models");
}

static void expect_token(struct store_credentials *c, const char *value) {
        assert_string_equal(store_credentials_origin(c), "https://storage.googleapis.com");
        assert_string_equal(fixture_sign(c, "storage/v1/b/b/o", "authorization"), value);
        store_credentials_free(c);
}

/* The head and the claims of the assertion, in base64: the signature is checked by test_rsa_sign.c and, with
 * another library, by tests/e2e/test_store_credentials.py. */
static void test_service_account(void **state) {
        struct store_url url = address();

        (void)state;
        fixture_write("a.json", SERVICE_ACCOUNT);
        fixture_set_path("GOOGLE_APPLICATION_CREDENTIALS", "a.json");
        fake_expect("POST https://t/token", 200, "",
                    "{\"access_token\":\"ya29.x\",\"expires_in\":3599,\"token_type\":\"Bearer\"}");
        expect_token(fixture_open(&url), "Bearer ya29.x");
        assert_non_null(strstr(
                fake_request()->text,
                "\n\ngrant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
                "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6ImsxIn0.eyJpc3MiOiJhQHAuaW"
                "FtIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXRoL2RldnN0b3Jh"
                "Z2UucmVhZF9vbmx5IiwiYXVkIjoiaHR0cHM6Ly90L3Rva2VuIiwiaWF0IjoxNDQwOTM4MT"
                "YwLCJleHAiOjE0NDA5NDE3NjB9."));
}

static void test_user(void **state) {
        struct store_url url = address();

        (void)state;
        fixture_write(".config/gcloud/application_default_credentials.json",
                      "{\"type\":\"authorized_user\",\"client_id\":\"i\",\"client_secret\":\"s&t\","
                      "\"refresh_token\":\"1//r\"}");
        fake_expect("POST https://oauth2.googleapis.com/token", 200, "",
                    "{\"access_token\":\"u1\",\"expires_in\":\"3599\"}");
        expect_token(fixture_open(&url), "Bearer u1");
        assert_non_null(strstr(fake_request()->text, "\n\ngrant_type=refresh_token&client_id=i&"
                                                     "client_secret=s%26t&refresh_token=1%2F%2Fr"));
}

static void test_external(void **state) {
        struct store_url url = address();
        AUTO_CHARS       json = NULL;

        (void)state;
        json = mem_printf(
                "{\"type\":\"external_account\",\"audience\":\"//iam/"
                "x\",\"subject_token_type\":\"urn:t\","
                "\"token_url\":\"https://sts/"
                "token\",\"credential_source\":{\"file\":\"%s\",\"format\":"
                "{\"type\":\"json\",\"subject_token_field_name\":\"id\"}},"
                "\"service_account_impersonation_url\":\"https://iam/a:generateAccessToken\"}",
                fixture_path("subject"));
        fixture_write("subject", "{\"id\":\"sub.j.ect\"}");
        fixture_write("a.json", json);
        fixture_set_path("GOOGLE_APPLICATION_CREDENTIALS", "a.json");
        fake_expect("POST https://sts/token", 200, "",
                    "{\"access_token\":\"federated\",\"expires_in\":3599}");
        fake_expect("POST https://iam/a:generateAccessToken", 200, "",
                    "{\"accessToken\":\"final\",\"expireTime\":\"2015-08-30T13:36:00Z\"}");
        expect_token(fixture_open(&url), "Bearer final");
        assert_string_equal(
                fake_request()->text,
                "POST https://iam/a:generateAccessToken\nauthorization: Bearer federated\n"
                "content-type: application/json\n\n{\"scope\":[\"https://www.googleapis.com/auth/"
                "devstorage.read_only\"],\"lifetime\":\"3600s\"}");

        fake_expect("POST https://sts/token", 200, "", "{\"access_token\":\"a\\nb: c\"}");
        struct store_credentials *c = fixture_open(&url);
        fixture_sign_fails(c, ERR_INVALID_ARG, "a token has a control character in it");
        store_credentials_free(c);

        fixture_write("subject", "{\"other\":1}");
        c = fixture_open(&url);
        fixture_sign_fails(c, ERR_INVALID_ARG,
                           "'credential_source.file' of '%/a.json': the file '%/subject' has "
                           "no 'id'");
        store_credentials_free(c);
}

static void test_external_text(void **state) {
        struct store_url url = address();
        AUTO_CHARS       json = NULL;

        (void)state;
        json = mem_printf(
                "{\"type\":\"external_account\",\"audience\":\"//iam/"
                "x\",\"subject_token_type\":\"urn:t\","
                "\"token_url\":\"https://sts/token\",\"credential_source\":{\"file\":\"%s\"},"
                "\"client_id\":\"i\",\"client_secret\":\"s\"}",
                fixture_path("subject"));
        fixture_write("subject", "sub.j.ect\n");
        fixture_write("a.json", json);
        fixture_set_path("GOOGLE_APPLICATION_CREDENTIALS", "a.json");
        fake_expect("POST https://sts/token", 200, "",
                    "{\"access_token\":\"federated\",\"expires_in\":3599}");
        expect_token(fixture_open(&url), "Bearer federated");
        assert_string_equal(
                fake_request()->text,
                "POST https://sts/token\ncontent-type: application/x-www-form-urlencoded\n"
                "authorization: Basic aTpz\n\n"
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&"
                "requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&"
                "audience=%2F%2Fiam%2Fx&scope=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fdevstorage."
                "read_only&"
                "subject_token_type=urn%3At&subject_token=sub.j.ect");
}

#define METADATA "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token"

static void test_metadata(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fake_expect("GET " METADATA, 200, "Metadata-Flavor: Google\n",
                    "{\"access_token\":\"m1\",\"expires_in\":3599}");
        expect_token(fixture_open(&url), "Bearer m1");
        assert_string_equal(fake_request()->text, "GET " METADATA "\nmetadata-flavor: Google\n\n");

        fake_expect("GET " METADATA, 0, "", ""); /* nothing there */
        expect_token(fixture_open(&url), "");
        fake_expect("GET " METADATA, 401, "", ""); /* another cloud's service */
        expect_token(fixture_open(&url), "");
        fake_expect("GET " METADATA, 200, "", "{\"access_token\":\"m1\"}");
        expect_token(fixture_open(&url), "");
        c = fixture_open(&url);
        fake_expect("GET " METADATA, 503, "Metadata-Flavor: Google\n", "");
        fixture_sign_fails(c, ERR_UNAVAILABLE, METADATA ": answered 503");
        store_credentials_free(c);

        fixture_set("GCE_METADATA_HOST", "h:1");
        c = fixture_open(&url);
        fake_expect("GET http://h:1/computeMetadata/v1/instance/service-accounts/default/token", 0,
                    "", "");
        fixture_sign_fails(
                c, ERR_UNAVAILABLE,
                "http://h:1/computeMetadata/v1/instance/service-accounts/default/token: no "
                "connection");
        store_credentials_free(c);
}

static void test_emulator(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fixture_set("GOOGLE_APPLICATION_CREDENTIALS", "/none");
        fixture_set("STORAGE_EMULATOR_HOST", "localhost:4443");
        c = fixture_open(&url);
        assert_string_equal(store_credentials_origin(c), "http://localhost:4443");
        assert_string_equal(fixture_sign(c, "x", "authorization"), "");
        store_credentials_free(c);
        fixture_set("STORAGE_EMULATOR_HOST", "https://h/");
        c = fixture_open(&url);
        assert_string_equal(store_credentials_origin(c), "https://h");
        store_credentials_free(c);
        fixture_set("STORAGE_EMULATOR_HOST", "http://h/path");
        fixture_open_fails(&url, "STORAGE_EMULATOR_HOST is not host:port or http://host:port");
        assert_int_equal(fake_n_requests(), 0);
}

static void test_refusals(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fixture_write("a.json", SERVICE_ACCOUNT);
        fixture_set_path("GOOGLE_APPLICATION_CREDENTIALS", "a.json");
        c = fixture_open(&url);
        fake_expect(
                "POST https://t/token", 400, "",
                "{\"error\":\"invalid_grant\",\"error_description\":\"Invalid JWT Signature.\"}");
        fixture_sign_fails(
                c, ERR_INVALID_ARG,
                "the account of '%/a.json': https://t/token: answered 400 (invalid_grant)");
        fake_expect(
                "POST https://t/token", 403, "",
                "{\"error\":{\"code\":403,\"message\":\"x\",\"status\":\"PERMISSION_DENIED\"}}");
        fixture_sign_fails(
                c, ERR_INVALID_ARG,
                "the account of '%/a.json': https://t/token: answered 403 (PERMISSION_DENIED)");
        fake_expect("POST https://t/token", 200, "", "{\"id_token\":\"x\"}");
        fixture_sign_fails(c, ERR_INVALID_ARG, "https://t/token: the answer has no access_token");
        fake_expect("POST https://t/token", 200, "", "secret");
        fixture_sign_fails(c, ERR_INVALID_ARG, "https://t/token: the answer is not a JSON object");
        store_credentials_free(c);
}

static void test_refused_files(void **state) {
        static const struct {
                const char *json;
                const char *text;
        } rows[] = {
                { "{}",
                  "the file '%/a.json': its 'type' is not service_account, authorized_user or "
                  "external_account" },
                { "{\"type\":\"impersonated_service_account\"}",
                  "the file '%/a.json': its 'type' is not service_account, authorized_user or "
                  "external_account" },
                { "{\"type\":\"service_account\"}", "the file '%/a.json' has no 'client_email'" },
                { "{\"type\":\"service_account\",\"client_email\":\"e\"}",
                  "the file '%/a.json' has no 'private_key'" },
                { "{\"type\":\"service_account\",\"client_email\":\"e\",\"private_key\":\"p\","
                  "\"token_uri\":"
                  "\"http://evil/token\"}",
                  "the file '%/a.json': 'token_uri' does not begin with https:// and a host" },
                { "{\"type\":\"service_account\",\"client_email\":\"e\",\"private_key\":\"p\","
                  "\"token_uri\":\"https://good\\u007f/token\"}",
                  "the file '%/a.json': 'token_uri' has a control character in it" },
                { "{\"type\":\"authorized_user\",\"client_id\":\"i\",\"client_secret\":\"s\"}",
                  "the file '%/a.json' has no 'refresh_token'" },
                { "{\"type\":\"external_account\",\"credential_source\":{\"executable\":{"
                  "\"command\":\"x\"}}}",
                  "the file '%/a.json': 'credential_source.executable' is not supported; "
                  "'credential_source.file' is" },
                { "{\"type\":\"external_account\",\"credential_source\":{\"url\":\"http://h\"}}",
                  "the file '%/a.json': 'credential_source.url' is not supported; "
                  "'credential_source.file' is" },
                { "{\"type\":\"external_account\"}", "the file '%/a.json' has no 'audience'" },
        };
        struct store_url url = address();

        (void)state;
        fixture_set_path("GOOGLE_APPLICATION_CREDENTIALS", "a.json");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_CHARS text = mem_printf("GOOGLE_APPLICATION_CREDENTIALS: %s", rows[i].text);

                fixture_write("a.json", rows[i].json);
                fixture_open_fails(&url, text);
        }
        fixture_set_path("GOOGLE_APPLICATION_CREDENTIALS", "none.json");
        fixture_open_fails(
                &url,
                "GOOGLE_APPLICATION_CREDENTIALS: unable to open '%/none.json': No such file or "
                "directory");
}

/* A key that is none shows when it is first used, and the text has nothing of it. */
static void test_bad_key(void **state) {
        struct store_url          url = address();
        struct store_credentials *c;

        (void)state;
        fixture_write(
                "a.json",
                "{\"type\":\"service_account\",\"client_email\":\"e\",\"private_key\":\"secret\"}");
        fixture_set_path("GOOGLE_APPLICATION_CREDENTIALS", "a.json");
        c = fixture_open(&url);
        fixture_sign_fails(c, ERR_INVALID_ARG,
                           "the 'private_key' of the file '%/a.json': not a private RSA key in "
                           "PEM without a passphrase");
        store_credentials_free(c);
}

static void test_cloud_file(void **state) {
        struct store_url url = address();
        AUTO_CHARS       json = NULL;

        (void)state;
        fixture_write("a.json", SERVICE_ACCOUNT);
        json = mem_printf("{\"gs\":{\"\":\"/none\",\"gs://b\":\"%s\"}}", fixture_path("a.json"));
        fixture_write("cloud.json", json);
        fixture_set_path("TRITON_CLOUD_CREDENTIAL_PATH", "cloud.json");
        fake_expect("POST https://t/token", 200, "", "{\"access_token\":\"f\",\"expires_in\":60}");
        expect_token(fixture_open(&url), "Bearer f");
        url = fixture_url(STORE_GS, "", "c", "gs://c");
        fixture_open_fails(
                &url,
                "TRITON_CLOUD_CREDENTIAL_PATH: unable to open '/none': No such file or directory");
        fixture_write("cloud.json", "{\"gs\":{\"\":{}}}");
        fixture_open_fails(
                &url, "TRITON_CLOUD_CREDENTIAL_PATH: the file '%/cloud.json' has no text as the "
                      "credentials for 'gs://c'");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

SUITE(credentials_gcs) {
        const struct CMUnitTest tests[] = {
                TEST(test_service_account), TEST(test_user),          TEST(test_external),
                TEST(test_external_text),   TEST(test_metadata),      TEST(test_emulator),
                TEST(test_refusals),        TEST(test_refused_files), TEST(test_bad_key),
                TEST(test_cloud_file),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
