/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "base/digest.h"
#include "base/siphash.h"

#include <string.h>

/* The key 00 01 .. 0f and the bytes 00 01 .. <n - 1>, as the algorithm's authors publish them. */
static const struct {
        size_t      n;
        const char *hex;
} rows[] = {
        { 0, "a3817f04ba25a8e66df67214c7550293" },
        { 1, "da87c1d86b99af44347659119b22fc45" },
        { 7, "a1f1ebbed8dbc153c0b84aa61ff08239" },
        { 8, "3b62a9ba6258f5610f83e264f31497b4" },
        { 15, "5493e99933b0a8117e08ec0f97cfc3d9" },
        { 16, "6ee2a4ca67b054bbfd3315bf85230577" },
        { 63, "5150d1772f50834a503e069a973fbd7c" },
};

static struct siphash begin(unsigned char bytes[64]) {
        struct siphash_key key;
        struct siphash     h;

        for (int i = 0; i < 64; i++)
                bytes[i] = (unsigned char)i;
        memcpy(key.word, bytes, sizeof(key.word));
        siphash_init(&h, &key);
        return h;
}

static void test_known(void **state UNUSED) {
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                unsigned char  bytes[64], want[SIPHASH_BYTES], found[SIPHASH_BYTES];
                struct siphash h = begin(bytes);

                assert_true(digest_read_hex(str_of(rows[i].hex), want, SIPHASH_BYTES));
                siphash_add(&h, bytes, rows[i].n);
                siphash_finish(&h, found);
                assert_memory_equal(found, want, SIPHASH_BYTES);
        }
}

/* Cut anywhere, twice, the bytes give the same hash; and finishing does not end it. */
static void test_pieces(void **state UNUSED) {
        unsigned char bytes[64], want[SIPHASH_BYTES], found[SIPHASH_BYTES];

        for (size_t n = 0; n <= 40; n++) {
                struct siphash whole = begin(bytes);

                siphash_add(&whole, bytes, n);
                siphash_finish(&whole, want);
                for (size_t a = 0; a <= n; a++)
                        for (size_t b = a; b <= n; b++) {
                                struct siphash h = begin(bytes);

                                siphash_add(&h, bytes, a);
                                siphash_add(&h, bytes + a, b - a);
                                siphash_finish(&h, found);
                                siphash_add(&h, bytes + b, n - b);
                                siphash_finish(&h, found);
                                assert_memory_equal(found, want, SIPHASH_BYTES);
                        }
        }
}

static void test_keys_differ(void **state UNUSED) {
        struct siphash_key a = { { 0 } }, b = { { 0 } };

        assert_null(siphash_key_make(&a));
        assert_null(siphash_key_make(&b));
        assert_memory_not_equal(&a, &b, sizeof(a));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_known),
                cmocka_unit_test(test_pieces),
                cmocka_unit_test(test_keys_differ),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
