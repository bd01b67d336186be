/* SPDX-License-Identifier: BSD-3-Clause */
/* The keyed hash with carry-less multiplication, for CPUs that have it (keyed_hash.h). */
#include "base/keyed_hash_private.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#define WITH_CARRYLESS TARGET("avx2,pclmul,vpclmulqdq")

bool carryless_is_there(void) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
               __builtin_cpu_supports("vpclmulqdq");
}

/* Returns in each half of 128 bits the product of that half's two words. */
static WITH_CARRYLESS inline __m256i product_2(__m256i pairs) {
        return _mm256_clmulepi64_epi128(pairs, pairs, 0x01);
}

static WITH_CARRYLESS inline __m256i load_2(const void *at) {
        return _mm256_loadu_si256(at);
}

static WITH_CARRYLESS inline __m128i fold(__m256i both) {
        return _mm_xor_si128(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
}

static WITH_CARRYLESS inline void add_to(uint128 *sum, __m128i more) {
        uint128 value;

        memcpy(&value, &more, sizeof(value));
        *sum ^= value;
}

/* Adds the last pair of an odd number of pairs. */
static WITH_CARRYLESS inline void add_1(uint128 sum[2], const uint64_t *key,
                                        const unsigned char *pair) {
        __m128i text = _mm_loadu_si128((const void *)pair);
        __m128i first = _mm_xor_si128(text, _mm_loadu_si128((const void *)key));
        __m128i second = _mm_xor_si128(text, _mm_loadu_si128((const void *)(key + 2)));

        add_to(&sum[0], _mm_clmulepi64_si128(first, first, 0x01));
        add_to(&sum[1], _mm_clmulepi64_si128(second, second, 0x01));
}

WITH_CARRYLESS void carryless_add(uint128 sum[2], const uint64_t *key, const unsigned char *pairs,
                                  size_t n_pairs) {
        __m256i first = _mm256_setzero_si256(), second = first;
        __m256i other_first = first, other_second = first; /* independent sums: no product waits for
                                                            * another one */

        for (; n_pairs >= 4; n_pairs -= 4, key += 8, pairs += 64) {
                __m256i text = load_2(pairs), next = load_2(pairs + 32);

                first = _mm256_xor_si256(first, product_2(_mm256_xor_si256(text, load_2(key))));
                second = _mm256_xor_si256(second,
                                          product_2(_mm256_xor_si256(text, load_2(key + 2))));
                other_first = _mm256_xor_si256(other_first,
                                               product_2(_mm256_xor_si256(next, load_2(key + 4))));
                other_second = _mm256_xor_si256(other_second,
                                                product_2(_mm256_xor_si256(next, load_2(key + 6))));
        }
        add_to(&sum[0], fold(_mm256_xor_si256(first, other_first)));
        add_to(&sum[1], fold(_mm256_xor_si256(second, other_second)));
        for (; n_pairs > 0; n_pairs--, key += 2, pairs += 16)
                add_1(sum, key, pairs);
}

#else

bool carryless_is_there(void) {
        return false;
}

void carryless_add(uint128 sum[2], const uint64_t *key, const unsigned char *pairs,
                   size_t n_pairs) {
        (void)sum, (void)key, (void)pairs, (void)n_pairs;
}

#endif
