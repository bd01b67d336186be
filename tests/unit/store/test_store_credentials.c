/* SPDX-License-Identifier: BSD-3-Clause */
/* When keys are renewed, and what becomes of those that wait. A service account of Azure's workload identity
 * stands for all sources.
 */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "credentials_fixture.h"
#include "fake_exchange.h"
#include "store/store_credentials_private.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define URL "POST https://login.microsoftonline.com/t/oauth2/v2.0/token"
#define START UINT64_C(1440938160)
#define TOKEN(name, life_s) "{\"access_token\":\"" name "\",\"expires_in\":" #life_s "}"

static struct store_credentials *open_workload(void) {
        struct store_url url = fixture_url(STORE_AS, "acct", "c", "as://acct/c");

        fixture_write("token", "t");
        fixture_set_path("AZURE_FEDERATED_TOKEN_FILE", "token");
        fixture_set("AZURE_CLIENT_ID", "c");
        fixture_set("AZURE_TENANT_ID", "t");
        return fixture_open(&url);
}

static void expect_token(struct store_credentials *c, const char *token) {
        AUTO_CHARS value = mem_printf("Bearer %s", token);

        assert_string_equal(fixture_sign(c, "c/k", "authorization"), value);
}

static void test_five_minutes(void **state) {
        struct store_credentials *c = open_workload();

        (void)state;
        fake_expect(URL, 200, "", TOKEN("one", 3600));
        fake_expect(URL, 200, "", TOKEN("two", 3600));
        expect_token(c, "one");
        fixture_set_time(START + 3600 - CREDENTIALS_RENEW_S - 1);
        expect_token(c, "one");
        assert_int_equal(fake_n_requests(), 1);
        assert_int_equal(store_credentials_renewals(c), 0);
        fixture_set_time(START + 3600 - CREDENTIALS_RENEW_S);
        expect_token(c, "two");
        assert_int_equal(fake_n_requests(), 2);
        assert_int_equal(store_credentials_renewals(c), 1);
        store_credentials_free(c);
}

/* Half of their life has passed, then. */
static void test_short_life(void **state) {
        struct store_credentials *c = open_workload();

        (void)state;
        fake_expect(URL, 200, "", TOKEN("one", 60));
        fake_expect(URL, 200, "", TOKEN("two", 60));
        expect_token(c, "one");
        fixture_set_time(START + 29);
        expect_token(c, "one");
        fixture_set_time(START + 30);
        expect_token(c, "two");
        store_credentials_free(c);
}

/* The old keys stay in use until they expire; another attempt is made each half a minute. */
static void test_failed_renewal(void **state) {
        struct store_credentials *c = open_workload();

        (void)state;
        fake_expect(URL, 200, "", TOKEN("one", 3600));
        expect_token(c, "one");
        fixture_set_time(START + 3400);
        fake_expect(URL, 0, "", "");
        expect_token(c, "one");
        fixture_set_time(START + 3400 + CREDENTIALS_RETRY_S - 1);
        expect_token(c, "one");
        assert_int_equal(fake_n_requests(), 2);
        fixture_set_time(START + 3400 + CREDENTIALS_RETRY_S);
        fake_expect(URL, 500, "", "");
        expect_token(c, "one");
        fixture_set_time(START + 3600);
        fake_expect(URL, 400, "", "{\"error\":\"invalid_client\"}");
        fixture_sign_fails(c, ERR_INVALID_ARG,
                           "https://login.microsoftonline.com/t/oauth2/v2.0/token: answered 400 "
                           "(invalid_client)");
        fake_expect(URL, 200, "", TOKEN("two", 3600));
        expect_token(c, "two");
        store_credentials_free(c);
}

/* A metadata service that once gave keys is not taken for one that is not there: no request becomes anonymous because
 * it does not answer, and none after the keys have expired. */
static void test_silent_metadata(void **state) {
        static const struct {
                enum store_kind kind;
                const char     *host, *address, *request, *headers, *place;
        } rows[] = {
                { STORE_AS, "acct", "as://acct/c",
                  "GET http://169.254.169.254/metadata/identity/oauth2/token"
                  "?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F",
                  "", "http://169.254.169.254/metadata/identity/oauth2/token" },
                { STORE_GS, "", "gs://c/m",
                  "GET http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/"
                  "token",
                  "metadata-flavor: Google\n",
                  "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/"
                  "token" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct store_url url =
                        fixture_url(rows[i].kind, rows[i].host, "c", rows[i].address);
                AUTO_CHARS                silent = mem_printf("%s: no connection", rows[i].place);
                AUTO_CHARS                absent = mem_printf("%s: answered 404", rows[i].place);
                struct store_credentials *c;

                fixture_set_time(START);
                c = fixture_open(&url);
                fake_expect(rows[i].request, 200, rows[i].headers, TOKEN("one", 3600));
                expect_token(c, "one");
                fixture_set_time(START + 3400);
                fake_expect(rows[i].request, 0, "", "");
                expect_token(c, "one");
                fake_expect(rows[i].request, 0, "", "");
                assert_false(store_credentials_renew(c, 0));
                expect_token(c, "one");
                assert_int_equal(store_credentials_renewals(c), 0);
                fixture_set_time(START + 3600);
                fake_expect(rows[i].request, 0, "", "");
                fixture_sign_fails(c, ERR_UNAVAILABLE, silent);
                fake_expect(rows[i].request, 404, "", "");
                fixture_sign_fails(c, ERR_INVALID_ARG, absent);
                fake_expect(rows[i].request, 200, rows[i].headers, TOKEN("two", 3600));
                expect_token(c, "two");
                store_credentials_free(c);
        }
}

static void test_refusals(void **state) {
        struct store_credentials *c = open_workload();
        unsigned                  n = store_credentials_renewals(c);

        (void)state;
        fake_expect(URL, 200, "", TOKEN("one", 3600));
        expect_token(c, "one");
        assert_int_equal(store_credentials_renewals(c), n); /* the first keys are no renewal */

        fake_expect(URL, 200, "", TOKEN("two", 3600));
        assert_true(store_credentials_renew(c, n));
        expect_token(c, "two");
        assert_true(store_credentials_renew(c, n)); /* another request of the same keys */
        assert_int_equal(fake_n_requests(), 2);

        n = store_credentials_renewals(c); /* the new keys are refused at once */
        fixture_set_time(START + CREDENTIALS_REFUSAL_S - 1);
        assert_false(store_credentials_renew(c, n));
        assert_int_equal(fake_n_requests(), 2);

        fixture_set_time(START + CREDENTIALS_REFUSAL_S);
        fake_expect(URL, 200, "", TOKEN("two", 3600)); /* the server of tokens has none but these */
        assert_false(store_credentials_renew(c, n));
        fixture_set_time(START + 2 * CREDENTIALS_REFUSAL_S);
        fake_expect(URL, 0, "", "");
        assert_false(store_credentials_renew(c, n));
        expect_token(c, "two");
        store_credentials_free(c);
}

/* Keys of a file are read again when they are refused; without a change the refusal counts. */
static void test_changed_file(void **state) {
        struct store_url          url = fixture_url(STORE_AS, "acct", "c", "as://acct/c");
        struct store_credentials *c;
        char                     *before;

        (void)state;
        fixture_set_path("TRITON_CLOUD_CREDENTIAL_PATH", "cloud.json");
        fixture_write("cloud.json", "{\"as\":{\"\":{\"account_key\":\"b25l\"}}}");
        c = fixture_open(&url);
        before = mem_strdup(fixture_sign(c, "c/k", "authorization"));
        assert_false(store_credentials_renew(c, 0));
        fixture_write("cloud.json", "{\"as\":{\"\":{\"account_key\":\"dHdv\"}}}");
        fixture_set_time(START + CREDENTIALS_REFUSAL_S);
        assert_true(store_credentials_renew(c, 0));
        assert_string_not_equal(fixture_sign(c, "c/k", "authorization"), before);
        assert_int_equal(store_credentials_renewals(c), 1);
        fixture_write("cloud.json", "{");
        fixture_set_time(START + 2 * CREDENTIALS_REFUSAL_S);
        assert_false(store_credentials_renew(c, 1));
        free(before);
        store_credentials_free(c);
}

/* A token of several lines would add headers to each request. */
static void test_lines_in_tokens(void **state) {
        struct store_credentials *c = open_workload();

        (void)state;
        fake_expect(URL, 200, "", TOKEN("one\\r\\nx-evil: 1", 3600));
        fixture_sign_fails(
                c, ERR_INVALID_ARG,
                "a key or token has a control character in it, such as the end of a line");
        store_credentials_free(c);
}

/* Requests to all kinds of servers of tokens end. A server that was not asked is not one without keys. */
static void test_a_stop(void **state) {
        static const atomic_bool yes = true;
        const struct {
                struct store_url url;
                const char      *asked;
        } rows[] = {
                { fixture_url(STORE_S3, "", "b", "s3://b/m"),
                  "http://169.254.169.254/latest/api/token" },
                { fixture_url(STORE_GS, "", "b", "gs://b/m"),
                  "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/"
                  "token" },
                { fixture_url(STORE_AS, "acct", "c", "as://acct/c"),
                  "http://169.254.169.254/metadata/identity/oauth2/token" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_CHARS text = mem_printf("%s: the request was cancelled", rows[i].asked);
                struct store_credentials *c = fixture_open(&rows[i].url);

                store_credentials_set_end(c, &yes);
                fixture_sign_fails(c, ERR_CANCELLED, text);
                store_credentials_free(c);
        }
}

/* ---- several threads ----------------------------------------------------------------------- */

#define N_THREADS 4

struct signer {
        struct store_credentials *credentials;
        pthread_t                 thread;
        struct error             *err;
        char                      value[64];
};

static void *sign_once(void *userp) {
        struct signer       *s = userp;
        struct store_request r = { .method = "GET" };

        strbuf_init(&r.url, 0);
        strbuf_printf(&r.url, "%s/c/k", store_credentials_origin(s->credentials));
        s->err = store_credentials_sign(s->credentials, &r);
        for (size_t i = 0; s->err == NULL && i < r.n_headers; i++)
                if (strcmp(r.headers[i].name, "authorization") == 0)
                        snprintf(s->value, sizeof(s->value), "%s", r.headers[i].value);
        store_request_done(&r);
        return NULL;
}

static void start_all(struct store_credentials *c, struct signer *s) {
        for (size_t i = 0; i < N_THREADS; i++) {
                s[i] = (struct signer){ .credentials = c };
                assert_int_equal(pthread_create(&s[i].thread, NULL, sign_once, &s[i]), 0);
        }
}

static void join_all(struct signer *s) {
        for (size_t i = 0; i < N_THREADS; i++)
                assert_int_equal(pthread_join(s[i].thread, NULL), 0);
}

/* One asks for the keys; the others wait for its answer. */
static void test_one_renewal(void **state) {
        struct store_credentials *c = open_workload();
        struct signer             s[N_THREADS];

        (void)state;
        fake_expect(URL, 200, "", TOKEN("one", 3600));
        fake_hold();
        start_all(c, s);
        fake_wait_held();
        fake_release();
        join_all(s);
        for (size_t i = 0; i < N_THREADS; i++) {
                assert_null(s[i].err);
                assert_string_equal(s[i].value, "Bearer one");
        }
        assert_int_equal(fake_n_requests(), 1);
        store_credentials_free(c);
}

/* While one thread renews, the others go on with keys that are still valid. */
static void test_valid_meanwhile(void **state) {
        struct store_credentials *c = open_workload();
        struct signer             s = { .credentials = c };

        (void)state;
        fake_expect(URL, 200, "", TOKEN("one", 3600));
        fake_expect(URL, 200, "", TOKEN("two", 3600));
        expect_token(c, "one");
        fixture_set_time(START + 3400);
        fake_hold();
        assert_int_equal(pthread_create(&s.thread, NULL, sign_once, &s), 0);
        fake_wait_held();
        expect_token(c, "one");
        fake_release();
        assert_int_equal(pthread_join(s.thread, NULL), 0);
        assert_string_equal(s.value, "Bearer two");
        expect_token(c, "two");
        store_credentials_free(c);
}

/* ---- hosts --------------------------------------------------------------------------------- */

static void test_other_hosts(void **state) {
        static const char *const urls[] = {
                "https://evil/c/k",
                "http://acct.blob.core.windows.net/c/k",
                "https://acct.blob.core.windows.net:444/c/k",
                "https://acct.blob.core.windows.net.evil/c/k",
        };
        struct store_url          url = fixture_url(STORE_AS, "acct", "c", "as://acct/c");
        struct store_credentials *c;

        (void)state;
        fixture_set("AZURE_STORAGE_KEY", "a2V5");
        c = fixture_open(&url);
        for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
                struct store_request r = { .method = "GET" };
                struct error        *err;

                strbuf_init(&r.url, 0);
                strbuf_puts(&r.url, urls[i]);
                err = store_credentials_sign(c, &r);
                assert_non_null(err);
                assert_non_null(
                        strstr(err->message, "as://acct/c: no keys are sent to another host, '"));
                assert_int_equal(r.n_headers, 0);
                error_free(err);
                store_request_done(&r);
        }
        store_credentials_free(c);
}

static void test_web(void **state) {
        struct store_url          url = fixture_url(STORE_WEB, "h:1", "", "http://h:1/models");
        struct store_credentials *c;

        (void)state;
        fixture_set("TRITON_CLOUD_CREDENTIAL_PATH", "/none");
        c = fixture_open(&url);
        assert_string_equal(store_credentials_origin(c), "http://h:1");
        assert_string_equal(fixture_sign(c, "models/index", "URL"), "http://h:1/models/index");
        assert_string_equal(fixture_sign(c, "models/index", "authorization"), "");
        assert_false(store_credentials_renew(c, 0));
        store_credentials_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

SUITE(store_credentials) {
        const struct CMUnitTest tests[] = {
                TEST(test_five_minutes), TEST(test_short_life),      TEST(test_failed_renewal),
                TEST(test_refusals),     TEST(test_changed_file),    TEST(test_lines_in_tokens),
                TEST(test_one_renewal),  TEST(test_valid_meanwhile), TEST(test_other_hosts),
                TEST(test_web),          TEST(test_a_stop),          TEST(test_silent_metadata),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
