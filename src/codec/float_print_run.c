/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/float_print_run.h"

#include "codec/float_print.h"
#include "codec/pow10_table.h"

#include <string.h>

static char *print_one(char *out, const char *in) {
        float value;

        memcpy(&value, in, sizeof(value));
        out = float_print_f32(out, value);
        *out++ = ',';
        return out;
}

#ifdef __x86_64__

#include <immintrin.h>

#define WITH_AVX2 TARGET("avx2")
#define LANES 4

static bool has_avx2(void) {
        return __builtin_cpu_supports("avx2");
}

/* Four floats as digits. The names are those of struct nine and struct short_decimal. */
struct four {
        uint64_t low[LANES];  /* the first eight of nine digit values; leading zeros are possible */
        uint64_t high[LANES]; /* the ninth */
        int32_t  exponent[LANES]; /* of ten, of the ninth digit */
        unsigned others;          /* bit i: float i is not among those that this file prints */
};

/* ---- the arithmetic of float_print.c in lanes of 64 bits -------------------------------------- */

static WITH_AVX2 inline __m256i wide(__m128i lanes) {
        return _mm256_cvtepu32_epi64(lanes);
}

/* All ones where a > b. */
static WITH_AVX2 inline __m256i is_greater(__m256i a, __m256i b) {
        return _mm256_cmpgt_epi64(a, b);
}

/* floor(value * factor / 2^shift) for values and factors below 2^32. */
#define MULTIPLY_SHIFT(value, factor, shift)                                                       \
        _mm256_srli_epi64(_mm256_mul_epu32(value, _mm256_set1_epi64x(factor)), shift)

/* See scale_f32(); `upper` and `lower` are the halves of the power. */
static WITH_AVX2 inline __m256i scale(__m256i upper, __m256i lower, __m256i c) {
        __m256i carry = _mm256_srli_epi64(_mm256_mul_epu32(lower, c), 32);
        __m256i sum = _mm256_add_epi64(_mm256_mul_epu32(upper, c), carry);
        __m256i rest = _mm256_and_si256(sum, _mm256_set1_epi64x(0xffffffff));
        __m256i sticky = _mm256_srli_epi64(is_greater(rest, _mm256_set1_epi64x(1)), 63);

        return _mm256_or_si256(_mm256_srli_epi64(sum, 32), sticky);
}

/* See choose_decimals(). *exponent has k, and becomes the digits' exponent. */
static WITH_AVX2 inline __m256i choose_decimals(__m256i lower, __m256i middle, __m256i upper,
                                                __m256i *exponent) {
        __m256i one = _mm256_set1_epi64x(1);
        __m256i units = _mm256_srli_epi64(middle, 2);
        __m256i units4 = _mm256_slli_epi64(units, 2);
        __m256i tens = MULTIPLY_SHIFT(units, 0xcccccccd, 35);
        __m256i tens40 = _mm256_mul_epu32(tens, _mm256_set1_epi64x(40));

        __m256i is_down_outside = is_greater(lower, tens40);
        __m256i is_up_outside = is_greater(_mm256_add_epi64(tens40, _mm256_set1_epi64x(40)), upper);
        __m256i is_shorter = _mm256_and_si256(_mm256_xor_si256(is_down_outside, is_up_outside),
                                              is_greater(units, _mm256_set1_epi64x(9)));
        /* Masks are -1: adding one is subtracting a mask. */
        __m256i tens_up = _mm256_add_epi64(_mm256_add_epi64(tens, one), is_up_outside);

        __m256i is_next_outside =
                is_greater(_mm256_add_epi64(units4, _mm256_set1_epi64x(4)), upper);
        __m256i is_this_outside = is_greater(lower, units4);
        __m256i is_only_one = _mm256_xor_si256(is_this_outside, is_next_outside);
        __m256i half = _mm256_add_epi64(units4, _mm256_set1_epi64x(2));
        __m256i is_nearer =
                is_greater(_mm256_add_epi64(middle, _mm256_and_si256(units, one)), half);
        /* The only one is the next one when this one is outside. */
        __m256i is_up = _mm256_blendv_epi8(is_nearer, is_this_outside, is_only_one);
        __m256i units_up = _mm256_sub_epi64(units, is_up);

        *exponent = _mm256_sub_epi64(*exponent, is_shorter);
        return _mm256_blendv_epi8(units_up, tens_up, is_shorter);
}

/* See spread_fours(): two numbers below 10000 in the halves of each lane become eight digits. */
static WITH_AVX2 inline __m256i spread_fours(__m256i fours) {
        __m256i hundreds =
                _mm256_srli_epi32(_mm256_mullo_epi32(fours, _mm256_set1_epi32(10486)), 20);
        __m256i low = _mm256_sub_epi32(fours, _mm256_mullo_epi32(hundreds, _mm256_set1_epi32(100)));
        __m256i twos = _mm256_or_si256(hundreds, _mm256_slli_epi32(low, 16));
        __m256i tens = _mm256_srli_epi16(_mm256_mullo_epi16(twos, _mm256_set1_epi16(103)), 10);
        __m256i ones = _mm256_sub_epi16(twos, _mm256_mullo_epi16(tens, _mm256_set1_epi16(10)));

        return _mm256_or_si256(tens, _mm256_slli_epi16(ones, 8));
}

/* See spread_nine(). */
static WITH_AVX2 inline void spread_nine(__m256i digits, struct four *ret) {
        __m256i ten_thousand = _mm256_set1_epi64x(10000);
        __m256i upper = MULTIPLY_SHIFT(digits, 0xd1b71759, 45);
        __m256i first = MULTIPLY_SHIFT(upper, 0xd1b71759, 45);
        __m256i second_four = _mm256_sub_epi64(upper, _mm256_mul_epu32(first, ten_thousand));
        __m256i third_four = _mm256_sub_epi64(digits, _mm256_mul_epu32(upper, ten_thousand));
        __m256i rest =
                spread_fours(_mm256_or_si256(second_four, _mm256_slli_epi64(third_four, 32)));

        _mm256_storeu_si256((void *)ret->low, _mm256_or_si256(first, _mm256_slli_epi64(rest, 8)));
        _mm256_storeu_si256((void *)ret->high, _mm256_srli_epi64(rest, 56));
}

/* The upper 64 bits of 10^q, rounded up, as shorten() uses them: the powers that have more bits are
 * those below 10^0 and above 10^27. */
static WITH_AVX2 inline __m256i powers(__m128i q) {
        __m128i at = _mm_slli_epi32(_mm_sub_epi32(q, _mm_set1_epi32(POW10_MIN)), 1);
        __m256i hi = _mm256_i32gather_epi64((const void *)pow10_table, at, 8);
        __m128i is_cut = _mm_or_si128(_mm_cmpgt_epi32(_mm_setzero_si128(), q),
                                      _mm_cmpgt_epi32(q, _mm_set1_epi32(27)));

        return _mm256_sub_epi64(hi, _mm256_cvtepi32_epi64(is_cut));
}

static WITH_AVX2 inline unsigned lanes_of(__m128i mask) {
        return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(mask));
}

/* See shorten(). */
static WITH_AVX2 inline void shorten(__m128i bits, struct four *ret) {
        __m128i one = _mm_set1_epi32(1);
        __m128i field = _mm_and_si128(_mm_srli_epi32(bits, 23), _mm_set1_epi32(0xff));
        __m128i fraction = _mm_and_si128(bits, _mm_set1_epi32(0x7fffff));
        __m128i mantissa = _mm_or_si128(fraction, _mm_set1_epi32(0x800000));
        __m128i exponent = _mm_sub_epi32(field, _mm_set1_epi32(150));
        __m128i is_power_of_two = _mm_cmpeq_epi32(fraction, _mm_setzero_si128());
        __m128i k = _mm_srai_epi32(_mm_sub_epi32(_mm_mullo_epi32(exponent, _mm_set1_epi32(1262611)),
                                                 _mm_and_si128(is_power_of_two,
                                                               _mm_set1_epi32(524031))),
                                   22);
        __m128i q = _mm_sub_epi32(_mm_setzero_si128(), k);
        __m128i log2 = _mm_srai_epi32(_mm_mullo_epi32(q, _mm_set1_epi32(1741647)), 19);
        __m128i shift = _mm_add_epi32(_mm_add_epi32(exponent, log2), one);
        __m128i middle = _mm_sllv_epi32(_mm_slli_epi32(mantissa, 2), shift);
        __m128i up = _mm_sllv_epi32(_mm_set1_epi32(2), shift);
        /* The lower neighbour of a power of two is at half the distance. */
        __m128i down = _mm_sllv_epi32(_mm_add_epi32(_mm_set1_epi32(2), is_power_of_two), shift);
        __m256i odd = wide(_mm_and_si128(mantissa, one));
        __m256i power = powers(q);
        __m256i power_high = _mm256_srli_epi64(power, 32);
        __m256i digits, k_wide = _mm256_cvtepi32_epi64(k);

        digits = choose_decimals(
                _mm256_add_epi64(scale(power_high, power, wide(_mm_sub_epi32(middle, down))), odd),
                scale(power_high, power, wide(middle)),
                _mm256_sub_epi64(scale(power_high, power, wide(_mm_add_epi32(middle, up))), odd),
                &k_wide);
        spread_nine(digits, ret);
        /* The low halves of the four lanes. */
        _mm_storeu_si128((void *)ret->exponent,
                         _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(
                                 k_wide, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6))));
        ret->others = lanes_of(_mm_or_si128(_mm_cmpgt_epi32(_mm_set1_epi32(2), field),
                                            _mm_cmpeq_epi32(field, _mm_set1_epi32(0xff))));
}

/* ---- text ------------------------------------------------------------------------------------- */

#define MIN_POINT (-5)
#define MAX_POINT 7

/* For each place of the dot, which byte of the source is at each place of the text. The source has
 * nine digits, zeros, and the dot as its last byte. */
enum { Z = 9, DOT = 15 };
static const uint8_t layouts[MAX_POINT - MIN_POINT + 1][16] = {
        { Z, DOT, Z, Z, Z, Z, Z, 0, 1, 2, 3, 4, 5, 6, 7, 8 }, /* 0.00000123456789 */
        { Z, DOT, Z, Z, Z, Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, Z },
        { Z, DOT, Z, Z, Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, Z, Z },
        { Z, DOT, Z, Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, Z, Z, Z },
        { Z, DOT, Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, Z, Z, Z, Z },
        { Z, DOT, 0, 1, 2, 3, 4, 5, 6, 7, 8, Z, Z, Z, Z, Z }, /* 0.123456789 */
        { 0, DOT, 1, 2, 3, 4, 5, 6, 7, 8, Z, Z, Z, Z, Z, Z }, /* 1.23456789 */
        { 0, 1, DOT, 2, 3, 4, 5, 6, 7, 8, Z, Z, Z, Z, Z, Z },
        { 0, 1, 2, DOT, 3, 4, 5, 6, 7, 8, Z, Z, Z, Z, Z, Z },
        { 0, 1, 2, 3, DOT, 4, 5, 6, 7, 8, Z, Z, Z, Z, Z, Z },
        { 0, 1, 2, 3, 4, DOT, 5, 6, 7, 8, Z, Z, Z, Z, Z, Z },
        { 0, 1, 2, 3, 4, 5, DOT, 6, 7, 8, Z, Z, Z, Z, Z, Z },
        { 0, 1, 2, 3, 4, 5, 6, DOT, 7, 8, Z, Z, Z, Z, Z, Z }, /* 1234567.89 */
};

/* The digits of one lane, from the first that is not zero. */
static WITH_AVX2 inline __m128i digits_of(uint64_t low, uint64_t high, unsigned n_zeros) {
        uint64_t front = low >> (8 * n_zeros) | high << (63 - 8 * n_zeros) << 1;
        uint64_t back = n_zeros == 0 ? high : 0;

        return _mm_or_si128(_mm_set_epi64x((long long)back, (long long)front),
                            _mm_set_epi64x(0x2e30303030303030, 0x3030303030303030));
}

static WITH_AVX2 inline void put_layout(char *out, __m128i digits, int point) {
        __m128i layout = _mm_loadu_si128((const void *)layouts[point - MIN_POINT]);

        _mm_storeu_si128((void *)out, _mm_shuffle_epi8(digits, layout));
}

static WITH_AVX2 NOINLINE char *put_scientific(char *out, __m128i digits, unsigned n_digits,
                                               int point) {
        put_layout(out, digits, 1);
        out = float_print_exponent(out + (n_digits > 1 ? n_digits + 1 : 1), point - 1);
        *out++ = ',';
        return out;
}

/* Puts the text of lane i and a comma. NULL for whole numbers of eight digits and more. */
static WITH_AVX2 inline char *put_lane(char *out, const struct four *f, unsigned i,
                                       unsigned is_negative) {
        uint64_t low = f->low[i], high = f->high[i];
        uint64_t rest = low >> 8 | high << 56;
        /* A normal float has at least seven digits here: `low` is not zero. */
        unsigned n_zeros = (unsigned)__builtin_ctzll(low) / 8;
        unsigned n_digits = 9 - n_zeros - (rest == 0 ? 8 : (unsigned)__builtin_clzll(rest) / 8);
        int      point = 9 - (int)n_zeros + f->exponent[i];
        __m128i  digits = digits_of(low, high, n_zeros);

        *out = '-';
        if (point < MIN_POINT || point > MAX_POINT) {
                if (point > MAX_POINT && point <= FLOAT_PRINT_MAX_POINT)
                        return NULL;
                return put_scientific(out + is_negative, digits, n_digits, point);
        }

        unsigned before = point > 0 ? (unsigned)point : 0;
        unsigned lead = point > 0 ? 1 : (unsigned)(2 - point); /* the dot, and zeros around it */
        unsigned len = lead + MAX(n_digits, before + 1);

        out += is_negative;
        put_layout(out, digits, point);
        out[len] = ',';
        return out + len + 1;
}

/* Whole numbers have a shorter way in float_print_f32(). */
static WITH_AVX2 inline bool are_whole(__m128i bits) {
        __m128 values = _mm_castsi128_ps(bits);
        __m128 whole = _mm_cvtepi32_ps(_mm_cvttps_epi32(values));

        return _mm_movemask_ps(_mm_cmpeq_ps(values, whole)) == (1 << LANES) - 1;
}

static WITH_AVX2 char *print_fours(char *out, const char *in, size_t n) {
        for (; n >= LANES; n -= LANES, in += LANES * sizeof(float)) {
                __m128i     bits = _mm_loadu_si128((const void *)in);
                unsigned    negative = lanes_of(bits);
                struct four f = { .others = (1 << LANES) - 1 };

                if (!are_whole(bits))
                        shorten(bits, &f);
                for (unsigned i = 0; i < LANES; i++) {
                        char *end = (f.others >> i & 1) != 0
                                            ? NULL
                                            : put_lane(out, &f, i, negative >> i & 1);

                        out = end != NULL ? end : print_one(out, in + i * sizeof(float));
                }
        }
        return out;
}

#else

#define LANES 1

static bool has_avx2(void) {
        return false;
}

static char *print_fours(char *out, const char *in, size_t n) {
        (void)in, (void)n;
        return out;
}

#endif

char *float_print_f32_run(char *out, const char *in, size_t n) {
        size_t n_done = 0;

        if (n >= LANES && has_avx2()) {
                n_done = n - n % LANES;
                out = print_fours(out, in, n_done);
        }
        for (size_t i = n_done; i < n; i++)
                out = print_one(out, in + i * sizeof(float));
        return out;
}
