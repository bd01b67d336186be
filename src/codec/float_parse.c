/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/float_parse.h"

#include "codec/pow10_table.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

const double float_parse_powers[FLOAT_PARSE_EXACT_POWER + 1] = {
        1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

/* Way 2. The names follow the paper: w is the mantissa, q the power of ten. */
struct binary_format {
        int mantissa_bits; /* stored bits, without the leading one */
        int bias;
        int infinity;   /* the exponent field of infinities */
        int min_q;      /* below it, 2^64 * 10^q is less than half of the smallest denormal */
        int max_q;      /* above it, 10^q is an infinity */
        int min_even_q; /* a tie is possible only where 5^q or 5^-q is small enough */
        int max_even_q;
};

static const struct binary_format format_f64 = { 52, 1023, 0x7ff, -342, 308, -4, 23 };
static const struct binary_format format_f32 = { 23, 127, 0xff, -64, 38, -17, 10 };

/* Returns the upper 128 bits of w * 10^q, exact enough for `bits` bits; w has its top bit set. */
static ALWAYS_INLINE struct pow10 scale(uint64_t w, int q, int bits) {
        const struct pow10 *power = pow10_get(q);
        struct pow10        product = pow10_multiply(w, power->hi);

        if ((product.hi & (UINT64_MAX >> bits)) == (UINT64_MAX >> bits)) {
                /* All ones: the lower half of the power may carry into them. Its entry is rounded
                 * up; the method needs powers rounded down, except for small negative q. */
                bool         is_rounded_up = !pow10_is_exact(q) && (q < -27 || q > 55);
                struct pow10 lower = pow10_multiply(w, power->lo - (is_rounded_up ? 1 : 0));

                product.lo += lower.hi;
                if (product.lo < lower.hi)
                        product.hi++;
        }
        return product;
}

/* Computes the exponent and mantissa fields of the nearest float. */
static ALWAYS_INLINE bool round_wide(uint64_t w, int64_t exponent, const struct binary_format *f,
                                     uint64_t *ret_bits) {
        const uint64_t infinity = (uint64_t)f->infinity << f->mantissa_bits;

        *ret_bits = exponent > 0 && w != 0 ? infinity : 0;
        if (w == 0 || exponent < f->min_q || exponent > f->max_q)
                return true;

        int          q = (int)exponent;
        int          zeros = __builtin_clzll(w);
        struct pow10 product = scale(w << zeros, q, f->mantissa_bits + 3);

        if (product.lo == UINT64_MAX && !(q >= -27 && q <= 55))
                return false;

        int      top = (int)(product.hi >> 63);
        int      shift = top + 64 - f->mantissa_bits - 3;
        uint64_t mantissa = product.hi >> shift; /* with one extra bit, for rounding */
        int      field = pow10_floor_log2(q) + 63 + top - zeros + f->bias;

        if (field <= 0) { /* a denormal or zero */
                /* Rounding up to the first normal sets the exponent field by itself. */
                mantissa = 1 - field < 64 ? mantissa >> (1 - field) : 0;
                *ret_bits = (mantissa + (mantissa & 1)) >> 1;
                return true;
        }
        if (product.lo <= 1 && q >= f->min_even_q && q <= f->max_even_q && (mantissa & 3) == 1 &&
            mantissa << shift == product.hi)
                mantissa &= ~1ull; /* exactly between two floats: choose the even one */
        mantissa = (mantissa + (mantissa & 1)) >> 1;
        if (mantissa >= 2ull << f->mantissa_bits) {
                mantissa >>= 1;
                field++;
        }
        mantissa &= ~(1ull << f->mantissa_bits);
        *ret_bits = MIN(mantissa | (uint64_t)field << f->mantissa_bits, infinity);
        return true;
}

bool float_parse_wide_f64(uint64_t mantissa, int64_t exponent, double *ret) {
        uint64_t bits;

        if (!round_wide(mantissa, exponent, &format_f64, &bits))
                return false;
        memcpy(ret, &bits, sizeof(*ret));
        return true;
}

bool float_parse_wide_f32(uint64_t mantissa, int64_t exponent, float *ret) {
        uint64_t bits;
        uint32_t narrow;

        if (!round_wide(mantissa, exponent, &format_f32, &bits))
                return false;
        narrow = (uint32_t)bits;
        memcpy(ret, &narrow, sizeof(*ret));
        return true;
}

/* Way 3. No FP64 and no middle between two has more than 767 significant digits, so the digits
 * beyond 800 matter only if one of them is not zero: a single 1 replaces them. */
#define PLAIN_DIGITS 800

struct plain_text {
        char text[PLAIN_DIGITS + 1 + sizeof("e-1000000")];
};

static char *put_exponent(char *out, int64_t exponent) {
        char   digits[8];
        size_t n = 0;

        /* Beyond a million the value is a zero or an infinity whatever the digits are: there are at
         * most 801 of them. */
        exponent = MAX(MIN(exponent, 999999), -999999);
        *out++ = 'e';
        if (exponent < 0) {
                *out++ = '-';
                exponent = -exponent;
        }
        do {
                digits[n++] = (char)('0' + exponent % 10);
                exponent /= 10;
        } while (exponent > 0);
        while (n > 0)
                *out++ = digits[--n];
        return out;
}

/* Writes the number as "<digits>e<exponent>": no dot, no sign, no leading zeros. */
static void put_plain(const struct decimal *d, struct plain_text *plain) {
        size_t  n = 0;
        int64_t exponent = d->shift;
        bool    in_fraction = false, has_rest = false;

        for (const char *p = d->digits; p < d->digits_end; p++) {
                if (*p == '.') {
                        in_fraction = true;
                        continue;
                }
                if (n == PLAIN_DIGITS) {
                        has_rest |= *p != '0';
                        exponent += in_fraction ? 0 : 1;
                        continue;
                }
                if (n > 0 || *p != '0')
                        plain->text[n++] = *p;
                exponent -= in_fraction ? 1 : 0;
        }
        if (n == 0)
                plain->text[n++] = '0';
        if (has_rest) {
                plain->text[n++] = '1';
                exponent--;
        }
        *put_exponent(plain->text + n, exponent) = '\0';
}

static COLD double slow_f64(const struct decimal *d) {
        struct plain_text plain;

        put_plain(d, &plain);
        return strtod(plain.text, NULL);
}

static COLD float slow_f32(const struct decimal *d) {
        struct plain_text plain;

        put_plain(d, &plain);
        return strtof(plain.text, NULL);
}

double float_parse_f64(const struct decimal *d) {
        double value, above;

        if (!d->is_cut) {
                if (!float_parse_exact_f64(d->mantissa, d->exponent, &value) &&
                    !float_parse_wide_f64(d->mantissa, d->exponent, &value))
                        value = slow_f64(d);
        } else if (!float_parse_wide_f64(d->mantissa, d->exponent, &value) ||
                   !float_parse_wide_f64(d->mantissa + 1, d->exponent, &above) || value != above) {
                /* The exact value lies between the two; when both round alike, so does it. */
                value = slow_f64(d);
        }
        return d->is_negative ? -value : value;
}

float float_parse_f32(const struct decimal *d) {
        float value, above;

        if (!d->is_cut) {
                if (!float_parse_exact_f32(d->mantissa, d->exponent, &value) &&
                    !float_parse_wide_f32(d->mantissa, d->exponent, &value))
                        value = slow_f32(d);
        } else if (!float_parse_wide_f32(d->mantissa, d->exponent, &value) ||
                   !float_parse_wide_f32(d->mantissa + 1, d->exponent, &above) || value != above) {
                value = slow_f32(d);
        }
        return d->is_negative ? -value : value;
}
