/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts decimal digits to the nearest FP64 or FP32, rounded once (to nearest, ties to even).
 *
 * A scanner (json_number.h, the text format's lexer) turns text into a `struct decimal`; the
 * functions here turn that into a float. There are three ways, each for the numbers that the
 * previous one cannot convert:
 *
 *  1. exact powers: mantissa and power of ten are both exact as FP64, so one multiplication or
 *     division rounds correctly (Clinger, "How to read floating point numbers accurately", 1990).
 *     The FP64 may be narrowed to FP32 unless it lies exactly between two FP32 values: only then
 *     could the first rounding have moved the number across, or onto, that middle;
 *  2. a product with a 128-bit power of ten (Lemire, "Number parsing at a gigabyte per second",
 *     2021), which detects when 128 bits do not decide;
 *  3. the C library, on the digits rewritten without a decimal point, so that no locale matters.
 *
 * Ownership.  A decimal borrows the text it was scanned from.
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DECIMAL_MAX_DIGITS 19 /* any 19 digits fit in 64 bits */

struct decimal {
        uint64_t    mantissa;   /* its first DECIMAL_MAX_DIGITS significant digits */
        int64_t     exponent;   /* the value is mantissa * 10^exponent; greater if is_cut */
        int64_t     shift;      /* exponent as written after the 'e' */
        const char *digits;     /* borrowed: digits and at most one dot, for way 3 */
        const char *digits_end; /* borrowed */
        bool        is_negative;
        bool        is_cut; /* there are more significant digits than `mantissa` holds */
};

/* Values that are too large give an infinity, too small ones a zero, both with the sign. */
double float_parse_f64(const struct decimal *d);
float  float_parse_f32(const struct decimal *d);

/* Way 2 alone, for positive values: mantissa * 10^exponent. False when 128 bits do not decide. */
bool float_parse_wide_f64(uint64_t mantissa, int64_t exponent, double *ret);
bool float_parse_wide_f32(uint64_t mantissa, int64_t exponent, float *ret);

/* Largest power of ten whose value FP64 holds exactly. */
#define FLOAT_PARSE_EXACT_POWER 22
extern const double float_parse_powers[FLOAT_PARSE_EXACT_POWER + 1];

/* Way 1 alone, for positive values. */
static ALWAYS_INLINE bool float_parse_exact_f64(uint64_t mantissa, int64_t exponent, double *ret) {
        if (mantissa > (1ull << 53) || exponent < -FLOAT_PARSE_EXACT_POWER ||
            exponent > FLOAT_PARSE_EXACT_POWER)
                return false;
        /* The cast is signed because that conversion is one instruction on every processor. */
        *ret = exponent < 0 ? (double)(int64_t)mantissa / float_parse_powers[-exponent]
                            : (double)(int64_t)mantissa * float_parse_powers[exponent];
        return true;
}

static ALWAYS_INLINE bool float_parse_exact_f32(uint64_t mantissa, int64_t exponent, float *ret) {
        double   wide;
        uint64_t bits;

        if (!float_parse_exact_f64(mantissa, exponent, &wide))
                return false;
        /* 29 bits of an FP64 do not fit into FP32; "a one and 28 zeros" is the middle. All values
         * here are normal as FP32: between 10^-22 and 2^53 * 10^22. */
        memcpy(&bits, &wide, sizeof(bits));
        if ((bits & 0x1fffffff) == 0x10000000)
                return false;
        *ret = (float)wide;
        return true;
}
