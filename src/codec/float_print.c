/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/float_print.h"

#include "codec/pow10_table.h"

#include <stdbool.h>
#include <string.h>

/* A positive finite float is digits * 10^exponent. */
struct short_decimal {
        uint64_t digits;
        int      exponent;
};

/* floor(log10(2^e)), or floor(log10(3/4 * 2^e)) for a power of two, whose lower neighbour is at
 * half the distance. Valid for |e| <= 1500. */
static int floor_log10_pow2(int e, bool is_power_of_two) {
        return (e * 1262611 - (is_power_of_two ? 524031 : 0)) >> 22;
}

/* Fields of a float, taken apart: value = mantissa * 2^exponent. */
struct binary {
        uint64_t mantissa;
        int      exponent;
};

/* 1 if a < b else 0, for numbers below 2^63, by subtraction. Turning a comparison into a byte would
 * wait for the last value of the byte's register, and so make each float depend on the previous
 * one. */
static ALWAYS_INLINE uint64_t is_less(uint64_t a, uint64_t b) {
        return (a - b) >> 63;
}

/* The candidates. The float is at `middle`, its rounding interval from `lower` to `upper`, all
 * times four, in units of 10^k; bounds that do not belong to the interval were moved inside. The
 * choices are unpredictable from float to float, so there are no branches. */
static ALWAYS_INLINE struct short_decimal choose(uint64_t lower, uint64_t middle, uint64_t upper,
                                                 int k) {
        uint64_t units = middle / 4, half = 4 * units + 2;
        uint64_t tens = units / 10;

        /* Drops one digit if exactly one of the two shorter candidates fits. */
        uint64_t is_down_outside = is_less(40 * tens, lower);
        uint64_t is_up_outside = is_less(upper, 40 * tens + 40);
        uint64_t is_shorter = (is_down_outside ^ is_up_outside) & is_less(9, units);
        uint64_t tens_up = is_up_outside ^ 1;

        /* Otherwise takes the candidate that fits; if both do, the nearer one, or the even one of
         * equals. */
        uint64_t is_next_inside = is_less(upper, 4 * units + 4) ^ 1;
        uint64_t is_only_one = is_less(4 * units, lower) ^ is_next_inside ^ 1;
        uint64_t is_nearer = is_less(half, middle + (units & 1));
        uint64_t units_up = (is_only_one & is_next_inside) | ((is_only_one ^ 1) & is_nearer);
        uint64_t mask = 0 - is_shorter;

        return (struct short_decimal){
                .digits = ((tens + tens_up) & mask) | ((units + units_up) & ~mask),
                .exponent = k + (int)is_shorter,
        };
}

/* floor(g * c / 2^64) for a 64-bit power; the last bit is also set if a remainder was cut off. A
 * remainder as small as the error of the power is ignored. */
static ALWAYS_INLINE uint64_t scale_f32(uint64_t g, uint64_t c) {
        struct pow10 product = pow10_multiply(g, c);

        return product.hi | (product.lo >> 32 > 1 ? 1 : 0);
}

static ALWAYS_INLINE uint64_t scale_f64(const struct pow10 *g, uint64_t c) {
        uint64_t     carry = pow10_multiply(g->lo, c).hi;
        struct pow10 product = pow10_multiply(g->hi, c);

        product.lo += carry;
        product.hi += product.lo < carry ? 1 : 0;
        return product.hi | (product.lo > 1 ? 1 : 0);
}

/* A power of two has its lower neighbour at half the distance of the upper one, but for the
 * smallest normal number. */
static ALWAYS_INLINE struct short_decimal shorten(const struct binary *b, bool is_power_of_two,
                                                  bool is_f32) {
        int      k = floor_log10_pow2(b->exponent, is_power_of_two);
        int      shift = b->exponent + pow10_floor_log2(-k) + 1;
        uint64_t middle = 4 * b->mantissa << shift;
        uint64_t high = middle + (2ull << shift);
        uint64_t low = middle - ((is_power_of_two ? 1ull : 2ull) << shift);
        uint64_t odd = b->mantissa & 1; /* the interval of an odd mantissa is open */

        const struct pow10 *power = pow10_get(-k);

        if (is_f32) {
                uint64_t g = power->hi + (power->lo != 0 ? 1 : 0);

                return choose(scale_f32(g, low) + odd, scale_f32(g, middle),
                              scale_f32(g, high) - odd, k);
        }
        return choose(scale_f64(power, low) + odd, scale_f64(power, middle),
                      scale_f64(power, high) - odd, k);
}

/* Small integers are their own shortest digits. */
static ALWAYS_INLINE bool is_small_integer(const struct binary *b, int mantissa_bits) {
        return b->exponent <= 0 && b->exponent >= -mantissa_bits &&
               (b->mantissa & ((1ull << -b->exponent) - 1)) == 0;
}

/* Two numbers below 10000 as eight digit values (without '0'), the first in the low byte. Divisions
 * by constants are multiplications, on two and on four numbers at once. */
static ALWAYS_INLINE uint64_t spread_fours(uint64_t first, uint64_t second) {
        uint64_t fours = first | second << 32;
        uint64_t hundreds = ((fours * 10486) >> 20) & 0x0000007f0000007f;
        uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
        uint64_t tens = ((twos * 103) >> 10) & 0x000f000f000f000f;

        return tens | (twos - tens * 10) << 8;
}

/* Digit values of a number below 10^8. */
static ALWAYS_INLINE uint64_t spread_digits(uint64_t value) {
        return spread_fours(value / 10000, value % 10000);
}

static ALWAYS_INLINE unsigned count_digits(uint64_t value) {
        unsigned bits = 64 - (unsigned)__builtin_clzll(value);
        unsigned guess = (bits * 1233) >> 12; /* 1233 / 4096 is a little above log10(2) */

        return guess + (value >= pow10_u64[guess] ? 1 : 0);
}

#define LAYOUT_DIGITS 24 /* the longest integer part is 21 */

/* Digits as text, the first at the front, followed by zeros. */
struct layout {
        char     text[LAYOUT_DIGITS];
        unsigned n_digits; /* up to the last digit that is not zero; at least 1 */
        int      point;    /* digits before the dot; zero or negative: zeros after the dot */
};

static ALWAYS_INLINE void put_eight(char *out, uint64_t digits) {
        digits |= 0x3030303030303030;
        memcpy(out, &digits, sizeof(digits));
}

/* Number of significant digits among eight, counted from the front. */
static ALWAYS_INLINE unsigned count_significant(uint64_t digits) {
        return digits == 0 ? 0 : 8 - (unsigned)__builtin_clzll(digits) / 8;
}

/* Lays out at most seventeen digits: one, eight, and eight. */
static ALWAYS_INLINE void lay_out_f64(struct short_decimal d, struct layout *l) {
        unsigned n = count_digits(d.digits);
        uint64_t all = d.digits * pow10_u64[17 - n];
        uint64_t first = all / 10000000000000000;
        uint64_t rest = all % 10000000000000000;
        uint64_t high = spread_digits(rest / 100000000);
        uint64_t low = spread_digits(rest % 100000000);

        l->text[0] = (char)('0' + first);
        put_eight(l->text + 1, high);
        put_eight(l->text + 9, low);
        put_eight(l->text + 16, low >> 56);
        l->n_digits = 1 + (low != 0 ? 8 + count_significant(low) : count_significant(high));
        l->point = (int)n + d.exponent;
}

char *float_print_exponent(char *out, int exponent) {
        *out++ = 'e';
        if (exponent < 0) {
                *out++ = '-';
                exponent = -exponent;
        }
        if (exponent >= 100)
                *out++ = (char)('0' + exponent / 100);
        if (exponent >= 10)
                *out++ = (char)('0' + exponent / 10 % 10);
        *out++ = (char)('0' + exponent % 10);
        return out;
}

static NOINLINE char *put_scientific(char *out, const struct layout *l) {
        *out++ = l->text[0];
        if (l->n_digits > 1) {
                *out++ = '.';
                memcpy(out, l->text + 1, LAYOUT_DIGITS - 1);
                out += l->n_digits - 1;
        }
        return float_print_exponent(out, l->point - 1);
}

/* Copies fixed sizes beyond the end of the text: `out` has room for it. */
static ALWAYS_INLINE char *put_layout(char *out, const struct layout *l) {
        int point = l->point;

        if (point > FLOAT_PRINT_MAX_POINT || point <= -6)
                return put_scientific(out, l);
        if (point <= 0) {
                memcpy(out, "0.000000", 8);
                memcpy(out + 2 - point, l->text, LAYOUT_DIGITS);
                return out + 2 - point + l->n_digits;
        }
        memcpy(out, l->text, LAYOUT_DIGITS);
        out[point] = '.';
        if ((unsigned)point >= l->n_digits) {
                out[point + 1] = '0';
                return out + point + 2;
        }
        memcpy(out + point + 1, l->text + point, 16); /* at most 17 digits, at least one of them
                                                       * before the dot */
        return out + 1 + l->n_digits;
}

/* At most nine digits as values without '0', from the first that is not zero, then zeros. They stay
 * in registers: a load of bytes just written would wait for them. */
struct nine {
        uint64_t low;      /* the first eight digits */
        uint64_t high;     /* the ninth digit */
        unsigned n_digits; /* as in struct layout */
        int      point;
};

/* Moves all bytes to the front by n; n < 8. */
static ALWAYS_INLINE uint64_t drop_front(uint64_t low, uint64_t high, unsigned n) {
        return low >> (8 * n) | high << (63 - 8 * n) << 1;
}

static ALWAYS_INLINE struct nine spread_nine(struct short_decimal d) {
        uint64_t upper = d.digits / 10000, first = d.digits / 100000000;
        uint64_t rest = spread_fours(upper - first * 10000, d.digits - upper * 10000);
        uint64_t low = first | rest << 8, high = rest >> 56;
        /* Almost always 0 or 1: a scaled mantissa has eight or nine digits. Only the smallest
         * denormals have just one. */
        unsigned n_zeros = low != 0 ? (unsigned)__builtin_ctzll(low) / 8 : 8;

        return (struct nine){
                .low = n_zeros < 8 ? drop_front(low, high, n_zeros) : high,
                .high = n_zeros == 0 ? high : 0,
                .n_digits = 1 + count_significant(rest) - n_zeros,
                .point = 9 - (int)n_zeros + d.exponent,
        };
}

/* Prints a point from -5 to 7: "0.000001234" or "1234567.89", without a branch between them. The
 * digits are written twice, once from the start and once shifted by one for the dot. */
static ALWAYS_INLINE char *put_plain(char *out, const struct nine *d) {
        unsigned before = d->point > 0 ? (unsigned)d->point : 0;      /* digits before the dot */
        unsigned zeros = d->point > 0 ? 0 : (unsigned)(1 - d->point); /* zeros around it */
        char    *after = out + MAX(before, zeros) + 1;

        put_eight(out, 0);
        put_eight(d->point > 0 ? out : after, d->low);
        out[MAX(before, 1)] = '.';
        put_eight(after, drop_front(d->low, d->high, before));
        put_eight(after + 8, d->high); /* the ninth digit, when all nine are after the dot */
        return after + MAX((int)(d->n_digits - before), 1);
}

static NOINLINE char *put_nine_elsewhere(char *out, const struct nine *d) {
        struct layout l = { .n_digits = d->n_digits, .point = d->point };

        put_eight(l.text, d->low);
        put_eight(l.text + 8, d->high);
        put_eight(l.text + 16, 0);
        return put_layout(out, &l);
}

/* Prints a whole number from 1 to 2^24. */
static ALWAYS_INLINE char *put_whole(char *out, uint64_t value) {
        uint64_t digits = spread_digits(value);
        unsigned n_zeros = (unsigned)__builtin_ctzll(digits) / 8;

        put_eight(out, digits >> (8 * n_zeros));
        out += 8 - n_zeros;
        memcpy(out, ".0", 2);
        return out + 2;
}

static COLD char *put_special(char *out, bool is_nan, bool is_negative) {
        const char *word = is_nan ? "NaN" : is_negative ? "-Infinity" : "Infinity";
        size_t      len = strlen(word);

        memcpy(out, word, len);
        return out + len;
}

static COLD char *put_zero(char *out) {
        memcpy(out, "0.0", 3);
        return out + 3;
}

char *float_print_f32(char *out, float value) {
        uint32_t bits;

        memcpy(&bits, &value, sizeof(bits));
        uint32_t field = bits >> 23 & 0xff;
        uint32_t fraction = bits & 0x7fffff;

        if (UNLIKELY(field == 0xff))
                return put_special(out, fraction != 0, bits >> 31 != 0);
        *out = '-';
        out += bits >> 31;
        if (UNLIKELY((bits & 0x7fffffff) == 0))
                return put_zero(out);

        struct binary b = {
                .mantissa = field == 0 ? fraction : fraction | 0x800000,
                .exponent = (int)(field == 0 ? 1 : field) - 150,
        };
        struct nine d;

        if (is_small_integer(&b, 23))
                return put_whole(out, b.mantissa >> -b.exponent);
        else if (UNLIKELY(fraction == 0 && field > 1))
                d = spread_nine(shorten(&b, true, true));
        else
                d = spread_nine(shorten(&b, false, true));
        return d.point > -6 && d.point <= 7 ? put_plain(out, &d) : put_nine_elsewhere(out, &d);
}

char *float_print_f64(char *out, double value) {
        uint64_t      bits;
        struct layout l;

        memcpy(&bits, &value, sizeof(bits));
        uint64_t field = bits >> 52 & 0x7ff;
        uint64_t fraction = bits & 0xfffffffffffff;

        if (UNLIKELY(field == 0x7ff))
                return put_special(out, fraction != 0, bits >> 63 != 0);
        *out = '-';
        out += bits >> 63;
        if (UNLIKELY(bits << 1 == 0))
                return put_zero(out);

        struct binary b = {
                .mantissa = field == 0 ? fraction : fraction | 0x10000000000000,
                .exponent = (int)(field == 0 ? 1 : field) - 1075,
        };

        if (is_small_integer(&b, 52))
                lay_out_f64((struct short_decimal){ b.mantissa >> -b.exponent, 0 }, &l);
        else if (UNLIKELY(fraction == 0 && field > 1))
                lay_out_f64(shorten(&b, true, false), &l);
        else
                lay_out_f64(shorten(&b, false, false), &l);
        return put_layout(out, &l);
}
