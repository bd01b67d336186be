/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/digest.h"
#include "base/rsa_sign.h"

#include <openssl/err.h>

/* Keys of this test alone. */
static const char rsa_key[] = "-----BEGIN PRIVATE KEY-----\n"
                              "MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBALxQPea5DGcFkxvH\n"
                              "Bo/deX1Q1v5hjbq8BxQ2+dozSzyUZMQ2W/4b8PCt4Wx6lY2XfZr/zHPiUCMMh05V\n"
                              "KJlMMs67eTmUvW4hjgwCsBObrRnMjrrVCYzGvfxEXrpvtBhA0nYsjy+O7dJPPSmH\n"
                              "QUz82ruZ0uHiBralQKF33Y0FUlKDAgMBAAECgYBq76Y3Px4r4p6HR54SVFKJNz7f\n"
                              "dcZmJCBg+lcn8bjnzdzrD3Nt+a/4/MTmNTZ4EW7idiBELmAThynO8cz8QKkYgnmx\n"
                              "1xSJOOdPkGCOB7ynRp5k3Ix6wOrIXCfjr/qbLRVD+WKTFu/ZHs5jjM+kDMq/UlTc\n"
                              "GIfxKCkgih3OpXUeAQJBAO2IOrc4isDPrUJE1JHvGSvfO2e9yO8DmYziSmUCQPpc\n"
                              "+wqinv26ws4zHg0cisNwyf+QXp+kzZ9JBKC62rE3lckCQQDK9GC0F7TXDf7WGZew\n"
                              "hRuuEunHpWnxAPr+CG9v9ji8VJDS2xbin7CICAwrphLQGDIeMXbXJ/OyzRHP4gfu\n"
                              "0rvrAkEAgSMlOONmnDjMK1EceFKTTsTImTgW+8rrOir040F8biEK4tdStQNKUax8\n"
                              "1AgGcQbq6yRkLUr993FNMM0lhF+B8QJAH8UfejGX0m5TbQp2j2BW0+oMBH+lVN+1\n"
                              "apzBbQJbIUgPn6JCM9mRlcnEtfR6T27qMYXGt6l+YYfueN9GJKGCXwJAAxinhpeQ\n"
                              "bz1q474pMhk8au+2AehWtIyQfR6WmeeLqWkc1+6qo9haoiXkRS+tjHQXRle+mIR6\n"
                              "vYoUtkwmjjwe+g==\n"
                              "-----END PRIVATE KEY-----\n";

static const char ec_key[] = "-----BEGIN PRIVATE KEY-----\n"
                             "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgx3VrZpbjQk2RKw55\n"
                             "XjT57heiC9C9yNMb4Z7gfhDtaVqhRANCAAQiEXfJDFjZzF840/Jduzq+SGv1wR8h\n"
                             "mRal33PfaUfokiqHj6Pl/oXxU7t9ZM/uwolISh5U44boxk9E0Z/Wvarf\n"
                             "-----END PRIVATE KEY-----\n";

/* With the passphrase "abc". */
static const char locked_key[] =
        "-----BEGIN RSA PRIVATE KEY-----\n"
        "Proc-Type: 4,ENCRYPTED\n"
        "DEK-Info: AES-128-CBC,D4DAFAF07ABF6085F072C5E6753D4290\n"
        "\n"
        "d+hLsBizTTC0nSKqWdcSpgBna6fE68Z4mGQkHB21dy9/L3qOUw6QTxLkyrqxidhv\n"
        "Rh4dz6NTCCMSy126vZ6BQ8EsIWfFdjh0McdLK9gR0ZIIF7/8RBI5Rcpn7cp5qayF\n"
        "tAQZomzVOEAYoGab/HYe4GciI27qngIcJEST2JZWAyaFS1/p4Qfy+ZoCSdc3vHLK\n"
        "beie3jQU2pNbnd/AS0ymcz9xcP0353exTTceofWQkwWm19RmR7t3+A4cPqnzoylG\n"
        "cVAdnGAjCpAZJMxecNSRGq5zJ9mfmbW1yEf2FyL86MgXJYXj/XDL9gsZtjkpujoQ\n"
        "9czLyqZi9WOKCbAbYPkeX/6z3h18ckSY20LIrvUIHrb8mWcUiDzw27xnUNPu+PEP\n"
        "5lzigkaEhWnO25oZ/APNIG5EyjyuwaRlOWm7pVZ5Uf4=\n"
        "-----END RSA PRIVATE KEY-----\n";

/* Made by the command "openssl dgst -sha256 -sign" from the same key: this kind of signature is always the
 * same. */
static const char signature[] = "15ca2667bc1bcc246cfa4fd13bf2477ff4254b81e87f08575a418724fab000c1"
                                "08f926007349c42a51c2c4b3923ec0864c052e536ccbdce292045fcc1e135878"
                                "26e6d42ac228d4e22d05e844e7c9a4307ac5b4974c545a1127c2126f6757abc2"
                                "2ddcc2943d20ea6186dd5c9f1b553faac1ddd1517544537f8d26bcee7e37434e";

static void test_signature(void **state) {
        AUTO_STRBUF out;
        char        hex[sizeof(signature)];

        (void)state;
        strbuf_init(&out, 0);
        assert_null(rsa_sign_sha256(str_of(rsa_key), STR_LIT("header.claims"), &out));
        assert_int_equal(out.len, (sizeof(signature) - 1) / 2);
        digest_print_hex((const unsigned char *)out.ptr, out.len, hex);
        assert_string_equal(hex, signature);
}

static void expect_refused(struct str pem) {
        AUTO_STRBUF   out;
        struct error *err;

        strbuf_init(&out, 0);
        err = rsa_sign_sha256(pem, STR_LIT("x"), &out);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, "not a private RSA key in PEM without a passphrase");
        assert_int_equal(out.len, 0);
        assert_int_equal(ERR_peek_error(), 0); /* no later call of the thread finds its errors */
        error_free(err);
}

/* A key with a passphrase is refused without a question at the terminal. */
static void test_refused(void **state) {
        (void)state;
        expect_refused(STR_LIT(""));
        expect_refused(STR_LIT("abc"));
        expect_refused(str_range(rsa_key, sizeof(rsa_key) - 40));
        expect_refused(str_of(ec_key));
        expect_refused(str_of(locked_key));
}

SUITE(rsa_sign) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_signature),
                cmocka_unit_test(test_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
