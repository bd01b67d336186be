/* SPDX-License-Identifier: BSD-3-Clause */
/* The grammar of a JSON number (RFC 8259, section 6), and runs of digits eight at a time.
 *
 * Besides numbers the scanner accepts NaN, Inf and Infinity, each with or without a minus, as the
 * reference server's parser does.
 *
 * Ownership.  A scan borrows the text.
 */
#pragma once

#include "base/compiler.h"
#include "codec/float_parse.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__ /* every x86-64; other processors use the portable code */
#include <emmintrin.h>
#endif

enum json_number_kind {
        JSON_NUMBER_BAD,
        JSON_NUMBER_INTEGER, /* no dot and no exponent; of any size */
        JSON_NUMBER_REAL,
        JSON_NUMBER_INFINITY,
        JSON_NUMBER_NAN,
};

struct json_number_scan {
        struct decimal        decimal;
        enum json_number_kind kind;
        const char           *at;         /* borrowed: after the number, or at the first wrong
                                           * character */
        const char           *error_text; /* static; only with JSON_NUMBER_BAD */
};

void json_number_scan(const char *at, const char *end, struct json_number_scan *ret);

/* Value of any kind except JSON_NUMBER_BAD. False: a finite number beyond FP64. */
bool json_number_get_f64(const struct json_number_scan *scan, double *ret);
/* The same as FP32; beyond FP32 but not beyond FP64 is an infinity. */
bool json_number_get_f32(const struct json_number_scan *scan, float *ret);
/* True when the number is an integer whose magnitude fits in 64 bits. */
bool json_number_get_magnitude(const struct json_number_scan *scan, uint64_t *ret);

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first character is the low byte");

/* Loads eight characters as one word, minus '0' each. */
static ALWAYS_INLINE uint64_t json_digits_load(const char *at) {
        uint64_t word;

        memcpy(&word, at, sizeof(word));
        return word ^ 0x3030303030303030;
}

/* Number of digits, from the first on, among the eight: 0 to 8. */
static ALWAYS_INLINE unsigned json_digits_count(uint64_t word) {
        /* Adding 0x76 sets the top bit of all bytes above 9. A carry out of such a byte can change
         * only later ones, and the first decides. */
        uint64_t others = ((word + 0x7676767676767676) | word) & 0x8080808080808080;

        return others == 0 ? 8 : (unsigned)__builtin_ctzll(others) / 8;
}

/* 1 for a minus, else 0. By addition, not by comparison: turning a comparison into a byte waits for
 * the last value of the whole register, which may be the previous number. */
static ALWAYS_INLINE uint32_t json_minus(const char *at) {
        return ((uint32_t)((unsigned char)*at ^ '-') - 1) >> 31;
}

/* Bit mask of the characters that are not digits, of 16; the first in the lowest bit. */
static ALWAYS_INLINE uint32_t json_digits_mask_portable(const char *at) {
        uint32_t mask = 0;

        for (int i = 0; i < 2; i++) {
                uint64_t word = json_digits_load(at + 8 * i);
                /* As in json_digits_count(), but exact for each byte: the sums stay within it. */
                uint64_t others = ((word & 0x7f7f7f7f7f7f7f7f) + 0x7676767676767676) | word;

                others = (others & 0x8080808080808080) >> 7;
                mask |= (uint32_t)((others * 0x0102040810204080) >> 56) << (8 * i);
        }
        return mask;
}

static ALWAYS_INLINE uint32_t json_digits_mask(const char *at) {
#ifdef __SSE2__
        __m128i text = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i digits = _mm_sub_epi8(text, _mm_set1_epi8('0'));
        __m128i above_9 = _mm_subs_epu8(digits, _mm_set1_epi8(9));

        return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(above_9, _mm_setzero_si128())) ^ 0xffff;
#else
        return json_digits_mask_portable(at);
#endif
}

/* Number that the eight digits represent. */
static ALWAYS_INLINE uint64_t json_digits_value(uint64_t word) {
        word = word * 10 + (word >> 8); /* pairs, in every second byte */
        return ((word & 0x000000ff000000ff) * 0x000f424000000064 +
                ((word >> 16) & 0x000000ff000000ff) * 0x0000271000000001) >>
               32;
}

/* Number that the first n digits represent, n from 1 to 8. */
static ALWAYS_INLINE uint64_t json_digits_value_n(uint64_t word, unsigned n) {
        return json_digits_value(word << (64 - 8 * n)); /* zeros are shifted in at the front */
}
