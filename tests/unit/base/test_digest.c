/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/digest.h"

struct row {
        enum digest_kind kind;
        struct str       text;
        const char      *hex;
};

/* From RFC 1321, A.5, and FIPS 180-4's examples. */
/* clang-format off */
static const struct row rows[] = {
        { DIGEST_SHA256, { "", 0 },
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { DIGEST_SHA256, { "abc", 3 },
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { DIGEST_SHA256, { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56 },
          "248D6A61D20638B8E5C026930C3E6039A33CE45964FF2167F6ECEDD419DB06C1" },
        { DIGEST_MD5, { "", 0 }, "d41d8cd98f00b204e9800998ecf8427e" },
        { DIGEST_MD5, { "message digest", 14 }, "f96b697d7cb7938d525a2f31aaf161d0" },
};
/* clang-format on */

static void test_known(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                unsigned char want[DIGEST_MAX_BYTES], found[DIGEST_MAX_BYTES];
                size_t        n = digest_bytes(rows[i].kind);

                assert_true(digest_read_hex(str_of(rows[i].hex), want, n));
                assert_null(digest_of(rows[i].kind, rows[i].text, found));
                assert_memory_equal(found, want, n);
        }
}

/* Cut anywhere, the bytes give the same digest. */
static void test_pieces(void **state) {
        static const char text[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        unsigned char     want[DIGEST_MAX_BYTES], found[DIGEST_MAX_BYTES];
        size_t            len = sizeof(text) - 1;

        (void)state;
        assert_null(digest_of(DIGEST_SHA256, str_range(text, len), want));
        for (size_t cut = 0; cut <= len; cut++) {
                AUTO_DIGEST d = { 0 };

                assert_null(digest_init(&d, DIGEST_SHA256));
                digest_add(&d, text, cut);
                digest_add(&d, text + cut, len - cut);
                assert_null(digest_finish(&d, found));
                assert_memory_equal(found, want, DIGEST_SHA256_BYTES);
        }
}

static void test_unfinished(void **state) {
        struct digest d;

        (void)state;
        assert_null(digest_init(&d, DIGEST_MD5));
        digest_add(&d, "abc", 3);
        digest_done(&d);
        digest_done(&d);
}

static void test_hex(void **state) {
        unsigned char bytes[2] = { 0 };

        (void)state;
        assert_true(digest_read_hex(STR_LIT("0aF9"), bytes, 2));
        assert_int_equal(bytes[0], 0x0a);
        assert_int_equal(bytes[1], 0xf9);
        assert_false(digest_read_hex(STR_LIT("0aF"), bytes, 2));
        assert_false(digest_read_hex(STR_LIT("0aF90"), bytes, 2));
        assert_false(digest_read_hex(STR_LIT("0ag9"), bytes, 2));
        assert_false(digest_read_hex(STR_LIT("0a 9"), bytes, 2));
        assert_false(digest_read_hex(STR_LIT(""), bytes, 2));
}

/* RFC 4231, 4.2, 4.3 and 4.7; an empty key and text. */
static void test_hmac(void **state) {
        static const struct row_hmac {
                struct str  key, text;
                const char *hex;
        } table[] = {
                { { "\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b"
                    "\x0b",
                    20 },
                  { "Hi There", 8 },
                  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
                { { "Jefe", 4 },
                  { "what do ya want for nothing?", 28 },
                  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
                { { NULL, 0 },
                  { NULL, 0 },
                  "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                unsigned char found[DIGEST_SHA256_BYTES];
                char          hex[2 * DIGEST_SHA256_BYTES + 1];

                assert_null(digest_hmac_sha256(table[i].key, table[i].text, found));
                digest_print_hex(found, sizeof(found), hex);
                assert_string_equal(hex, table[i].hex);
        }
}

static void test_equal(void **state) {
        static const unsigned char a[] = { 1, 2, 3 }, b[] = { 1, 2, 0x83 }, c[] = { 0, 2, 3 };

        (void)state;
        assert_true(digest_equal(a, a, 3));
        assert_true(digest_equal(a, b, 2));
        assert_false(digest_equal(a, b, 3));
        assert_false(digest_equal(a, c, 3));
        assert_true(digest_equal(a, c, 0));
}

SUITE(digest) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_known),      cmocka_unit_test(test_pieces),
                cmocka_unit_test(test_unfinished), cmocka_unit_test(test_hex),
                cmocka_unit_test(test_equal),      cmocka_unit_test(test_hmac),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
