/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/keyed_hash.h"
#include "base/keyed_hash_private.h"

#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)KEYED_HASH_BLOCK_PAIRS * KEYED_HASH_PAIR_BYTES)
#define MAX_BYTES 4096

static struct keyed_hash_key key;
static struct siphash_key    short_key;
static unsigned char         text[MAX_BYTES + KEYED_HASH_PAIR_BYTES];

struct hash {
        uint64_t word[2];
};

static uint64_t next_random(uint64_t *state) {
        *state += UINT64_C(0x9e3779b97f4a7c15);
        return (*state ^ *state >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static int fill(void **state) {
        uint64_t random = 1;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(key.word); i++)
                key.word[i] = next_random(&random);
        for (size_t i = 0; i < ARRAY_LEN(short_key.word); i++)
                short_key.word[i] = next_random(&random);
        for (size_t i = 0; i < sizeof(text); i++)
                text[i] = (unsigned char)(next_random(&random) >> 56);
        return 0;
}

static struct hash hash_of(const void *bytes, size_t len) {
        struct keyed_hash h;
        struct hash       found;

        keyed_hash_init(&h, &key, &short_key);
        keyed_hash_add(&h, bytes, len);
        keyed_hash_pad(&h);
        keyed_hash_finish(&h, found.word);
        return found;
}

static void assert_same(const struct hash *a, const struct hash *b, size_t len) {
        if (memcmp(a, b, sizeof(*a)) != 0)
                fail_msg("%zu bytes", len);
}

/* ---- the definition, the slow way ------------------------------------------------------------ */

/* A number of 128 bits as four of 32, the lowest first. */
struct wide {
        uint32_t limb[4];
};

/* sum += a * b, as one does it by hand. */
static void add_product(struct wide *sum, uint64_t a, uint64_t b) {
        for (int i = 0; i < 2; i++)
                for (int k = 0; k < 2; k++) {
                        uint64_t carry =
                                (a >> (32 * i) & UINT32_MAX) * (b >> (32 * k) & UINT32_MAX);

                        for (int at = i + k; at < 4; at++) {
                                uint64_t low = (uint64_t)sum->limb[at] + (carry & UINT32_MAX);

                                sum->limb[at] = (uint32_t)low;
                                carry = (carry >> 32) + (low >> 32);
                        }
                }
}

/* sum ^= a * b, as polynomials: b is shifted to each power of a. */
static void add_carryless_product(struct wide *sum, uint64_t a, uint64_t b) {
        for (int i = 0; i < 64; i++) {
                uint64_t low = b << i, high = i > 0 ? b >> (64 - i) : 0;

                if ((a >> i & 1) == 0)
                        continue;
                sum->limb[0] ^= (uint32_t)low;
                sum->limb[1] ^= (uint32_t)(low >> 32);
                sum->limb[2] ^= (uint32_t)high;
                sum->limb[3] ^= (uint32_t)(high >> 32);
        }
}

static uint64_t word_of(const unsigned char *at) {
        uint64_t word;

        memcpy(&word, at, sizeof(word));
        return word;
}

static void add_pair(struct wide *sum, const uint64_t *words, const unsigned char *pair) {
        if (key.is_carryless)
                add_carryless_product(sum, word_of(pair) ^ words[0], word_of(pair + 8) ^ words[1]);
        else
                add_product(sum, word_of(pair) + words[0], word_of(pair + 8) + words[1]);
}

static struct hash defined_hash(const unsigned char *bytes, size_t len) {
        size_t      n_pairs = (len + 15) / 16;
        uint64_t    outer[4], n_bytes = 7;
        struct hash ret;

        siphash_begin(outer, &short_key);
        for (size_t block = 0; block < n_pairs; block += KEYED_HASH_BLOCK_PAIRS) {
                struct wide sums[2] = { { { 0 } } };

                for (size_t i = 0; i < KEYED_HASH_BLOCK_PAIRS && block + i < n_pairs; i++) {
                        unsigned char pair[16] = { 0 };
                        size_t        at = (block + i) * 16;

                        memcpy(pair, bytes + at, MIN(len - at, sizeof(pair)));
                        for (size_t s = 0; s < 2; s++)
                                add_pair(&sums[s], &key.word[2 * i + 2 * s], pair);
                }
                for (int s = 0; s < 2; s++)
                        for (int limb = 0; limb < 4; limb += 2, n_bytes += 8)
                                siphash_take(outer, sums[s].limb[limb] |
                                                            (uint64_t)sums[s].limb[limb + 1] << 32);
        }
        siphash_take(outer, n_pairs | n_bytes << 56);
        siphash_end(outer, ret.word);
        return ret;
}

static void test_definition(void **state) {
        (void)state;
        for (size_t len = 0; len <= MAX_BYTES; len++) {
                struct hash found = hash_of(text, len), want = defined_hash(text, len);

                assert_same(&found, &want, len);
        }
}

/* Carries through all words: the largest numbers there are; and nothing but zeros. */
static void test_extremes(void **state) {
        static unsigned char  bytes[3 * BLOCK_BYTES];
        struct keyed_hash_key kept = key;

        (void)state;
        for (int k = 0; k < 3; k++) {
                memset(key.word, k == 0 ? 0 : 0xff, sizeof(key.word));
                memset(bytes, k == 1 ? 0 : 0xff, sizeof(bytes));
                for (size_t len = 0; len <= sizeof(bytes); len += BLOCK_BYTES / 2) {
                        struct hash found = hash_of(bytes, len), want = defined_hash(bytes, len);

                        assert_same(&found, &want, len);
                }
        }
        key = kept;
}

/* ---- how it may be called -------------------------------------------------------------------- */

static void test_pieces(void **state) {
        static const size_t lengths[] = { 1, 15, 16, 17, 33, 40 };
        static const size_t borders[] = { BLOCK_BYTES - 17, BLOCK_BYTES - 1, BLOCK_BYTES,
                                          BLOCK_BYTES + 1, 2 * BLOCK_BYTES - 3 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
                for (size_t a = 0; a <= lengths[i]; a++)
                        for (size_t b = a; b <= lengths[i]; b++) {
                                struct hash       found, want = hash_of(text, lengths[i]);
                                struct keyed_hash h;

                                keyed_hash_init(&h, &key, &short_key);
                                keyed_hash_add(&h, text, a);
                                keyed_hash_add(&h, text + a, b - a);
                                keyed_hash_add(&h, text + b, lengths[i] - b);
                                keyed_hash_pad(&h);
                                keyed_hash_finish(&h, found.word);
                                assert_same(&found, &want, lengths[i]);
                        }
        for (size_t i = 0; i < ARRAY_LEN(borders); i++) {
                struct hash       found, want = hash_of(text, MAX_BYTES);
                struct keyed_hash h;

                keyed_hash_init(&h, &key, &short_key);
                keyed_hash_add(&h, text, borders[i]);
                keyed_hash_add(&h, text + borders[i], MAX_BYTES - borders[i]);
                keyed_hash_pad(&h);
                keyed_hash_finish(&h, found.word);
                assert_same(&found, &want, borders[i]);
        }
}

static void test_pairs(void **state) {
        (void)state;
        for (size_t n = 0; n <= MAX_BYTES / 16; n++) {
                struct hash       found, want = hash_of(text, 16 * n);
                struct keyed_hash h;

                keyed_hash_init(&h, &key, &short_key);
                for (size_t i = 0; i < n; i++)
                        keyed_hash_add_pair(&h, word_of(text + 16 * i), word_of(text + 16 * i + 8));
                keyed_hash_finish(&h, found.word);
                assert_same(&found, &want, 16 * n);
        }
}

/* Where the bytes lie does not matter, and finishing does not end a message. */
static void test_places_and_going_on(void **state) {
        static unsigned char moved[sizeof(text)];
        struct hash          want = hash_of(text, MAX_BYTES);

        (void)state;
        for (size_t shift = 0; shift < KEYED_HASH_PAIR_BYTES; shift++) {
                struct hash found;

                memcpy(moved + shift, text, MAX_BYTES);
                found = hash_of(moved + shift, MAX_BYTES);
                assert_same(&found, &want, shift);
        }
        for (size_t cut = 0; cut <= MAX_BYTES; cut += 16) {
                struct hash       found, part = hash_of(text, cut);
                struct keyed_hash h;

                keyed_hash_init(&h, &key, &short_key);
                keyed_hash_add(&h, text, cut);
                keyed_hash_finish(&h, found.word);
                assert_same(&found, &part, cut);
                keyed_hash_add(&h, text + cut, MAX_BYTES - cut);
                keyed_hash_finish(&h, found.word);
                assert_same(&found, &want, cut);
        }
}

/* ---- what it is for -------------------------------------------------------------------------- */

static unsigned n_changed_bits(const struct hash *a, const struct hash *b) {
        return (unsigned)(__builtin_popcountll(a->word[0] ^ b->word[0]) +
                          __builtin_popcountll(a->word[1] ^ b->word[1]));
}

/* Each bit of the message changes half of the bits of the hash: 64 of 128, with a deviation of
 * 5.7; seven of them are no chance. */
static void test_each_bit_counts(void **state) {
        static const size_t lengths[] = { 1, 8, 16, 64, 100, BLOCK_BYTES, BLOCK_BYTES + 24 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
                struct hash want = hash_of(text, lengths[i]);
                uint64_t    sum = 0;

                for (size_t bit = 0; bit < 8 * lengths[i]; bit++) {
                        struct hash found;
                        unsigned    n;

                        text[bit / 8] ^= (unsigned char)(1 << bit % 8);
                        found = hash_of(text, lengths[i]);
                        text[bit / 8] ^= (unsigned char)(1 << bit % 8);
                        n = n_changed_bits(&found, &want);
                        sum += n;
                        if (n < 24 || n > 104)
                                fail_msg("%zu bytes, bit %zu: %u", lengths[i], bit, n);
                }
                /* The mean of all of them is closer to 64. */
                assert_in_range(sum * 10 / (8 * lengths[i]), 560, 720);
        }
}

/* Zeros alone, of which NH takes the least notice: each number of pairs has a hash of its own. */
static void test_lengths_differ(void **state) {
        static unsigned char zeros[MAX_BYTES];
        static struct hash   seen[MAX_BYTES / 16 + 1];

        (void)state;
        for (size_t n = 0; n <= MAX_BYTES / 16; n++) {
                seen[n] = hash_of(zeros, 16 * n);
                for (size_t i = 0; i < n; i++)
                        assert_memory_not_equal(&seen[i], &seen[n], sizeof(seen[n]));
        }
}

/* Pairs that change places, whole blocks that do, and words that are added to one and taken from
 * another one: what sums might miss. */
static void test_what_sums_might_miss(void **state) {
        static unsigned char other[MAX_BYTES];
        struct hash          want = hash_of(text, MAX_BYTES), found;

        (void)state;
        for (size_t i = 0; i < MAX_BYTES / 16; i++)
                for (size_t k = i + 1; k < MAX_BYTES / 16; k += 7) {
                        memcpy(other, text, MAX_BYTES);
                        memcpy(other + 16 * i, text + 16 * k, 16);
                        memcpy(other + 16 * k, text + 16 * i, 16);
                        found = hash_of(other, MAX_BYTES);
                        assert_memory_not_equal(&found, &want, sizeof(want));
                }
        memcpy(other, text + BLOCK_BYTES, BLOCK_BYTES);
        memcpy(other + BLOCK_BYTES, text, BLOCK_BYTES);
        memcpy(other + 2 * BLOCK_BYTES, text + 2 * BLOCK_BYTES, MAX_BYTES - 2 * BLOCK_BYTES);
        found = hash_of(other, MAX_BYTES);
        assert_memory_not_equal(&found, &want, sizeof(want));
        for (size_t i = 0; i + 16 <= MAX_BYTES; i += 8) {
                uint64_t words[2];

                memcpy(other, text, MAX_BYTES);
                memcpy(words, other + i, sizeof(words));
                words[0]++;
                words[1]--;
                memcpy(other + i, words, sizeof(words));
                found = hash_of(other, MAX_BYTES);
                assert_memory_not_equal(&found, &want, sizeof(want));
        }
}

/* Every word of either key is used. */
static void test_each_key_word_counts(void **state) {
        struct hash want = hash_of(text, BLOCK_BYTES), found;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(key.word); i++) {
                key.word[i] ^= 1;
                found = hash_of(text, BLOCK_BYTES);
                key.word[i] ^= 1;
                assert_memory_not_equal(&found, &want, sizeof(want));
        }
        for (size_t i = 0; i < ARRAY_LEN(short_key.word); i++) {
                short_key.word[i] ^= 1;
                found = hash_of(text, BLOCK_BYTES);
                short_key.word[i] ^= 1;
                assert_memory_not_equal(&found, &want, sizeof(want));
        }
}

static void test_keys_differ(void **state) {
        static struct keyed_hash_key a, b;

        (void)state;
        assert_null(keyed_hash_key_make(&a));
        assert_null(keyed_hash_key_make(&b));
        assert_int_equal(a.is_carryless, carryless_is_there());
        for (size_t i = 0; i < ARRAY_LEN(a.word); i++)
                assert_true(a.word[i] != b.word[i]);
}

SUITE(keyed_hash) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_definition),
                cmocka_unit_test(test_extremes),
                cmocka_unit_test(test_pieces),
                cmocka_unit_test(test_pairs),
                cmocka_unit_test(test_places_and_going_on),
                cmocka_unit_test(test_each_bit_counts),
                cmocka_unit_test(test_lengths_differ),
                cmocka_unit_test(test_what_sums_might_miss),
                cmocka_unit_test(test_each_key_word_counts),
                cmocka_unit_test(test_keys_differ),
        };

        int n_failed = cmocka_run_group_tests_name("products with carries", tests, fill, NULL);

        key.is_carryless = true;
        if (carryless_is_there())
                n_failed += cmocka_run_group_tests_name("carry-less products", tests, fill, NULL);
        else
                printf("this processor has no carry-less products\n");
        return n_failed;
}
