/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/digest.h"
#include "base/siphash.h"

#include <string.h>

/* The key 00 01 .. 0f and the bytes 00 01 .. <n - 1>, as the algorithm's authors publish them. */
static const struct {
        size_t      n;
        const char *hex;
} rows[] = {
        { 0, "a3817f04ba25a8e66df67214c7550293" },  { 1, "da87c1d86b99af44347659119b22fc45" },
        { 7, "a1f1ebbed8dbc153c0b84aa61ff08239" },  { 8, "3b62a9ba6258f5610f83e264f31497b4" },
        { 15, "5493e99933b0a8117e08ec0f97cfc3d9" }, { 16, "6ee2a4ca67b054bbfd3315bf85230577" },
        { 63, "5150d1772f50834a503e069a973fbd7c" },
};

/* The n bytes at `at`, the first one lowest. */
static uint64_t word_of(const unsigned char *at, size_t n) {
        uint64_t word = 0;

        for (size_t i = 0; i < n; i++)
                word |= (uint64_t)at[i] << 8 * i;
        return word;
}

static void test_known(void **state) {
        struct siphash_key key;
        unsigned char      bytes[64];

        (void)state;
        for (int i = 0; i < 64; i++)
                bytes[i] = (unsigned char)i;
        key = (struct siphash_key){ { word_of(bytes, 8), word_of(bytes + 8, 8) } };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                size_t        n = rows[i].n, at = 0;
                unsigned char want[16];
                uint64_t      v[4], found[2];

                assert_true(digest_read_hex(str_of(rows[i].hex), want, sizeof(want)));
                siphash_begin(v, &key);
                for (; at + 8 <= n; at += 8)
                        siphash_take(v, word_of(bytes + at, 8));
                siphash_take(v, word_of(bytes + at, n - at) | (uint64_t)n << 56);
                siphash_end(v, found);
                assert_true(found[0] == word_of(want, 8));
                assert_true(found[1] == word_of(want + 8, 8));
        }
}

static void test_keys_differ(void **state) {
        struct siphash_key a = { { 0 } }, b = { { 0 } };

        (void)state;
        assert_null(siphash_key_make(&a));
        assert_null(siphash_key_make(&b));
        assert_memory_not_equal(&a, &b, sizeof(a));
}

SUITE(siphash) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_known),
                cmocka_unit_test(test_keys_differ),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
