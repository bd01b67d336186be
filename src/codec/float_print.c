/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/float_print.h"

#include "codec/pow10_table.h"

#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

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
static ALWAYS_INLINE struct short_decimal choose_decimal(uint64_t lower, uint64_t middle,
                                                         uint64_t upper, int k) {
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

                return choose_decimal(scale_f32(g, low) + odd, scale_f32(g, middle),
                                      scale_f32(g, high) - odd, k);
        }
        return choose_decimal(scale_f64(power, low) + odd, scale_f64(power, middle),
                              scale_f64(power, high) - odd, k);
}

/* Whole numbers up to 2^24 are their own shortest digits. */
static ALWAYS_INLINE bool is_small_integer(const struct binary *b) {
        return b->exponent <= 0 && b->exponent >= -23 &&
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

/* Prints a whole number from 1 to 10^8 - 1. */
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

        if (field == 0xff)
                return put_special(out, fraction != 0, bits >> 31 != 0);
        *out = '-';
        out += bits >> 31;
        if ((bits & 0x7fffffff) == 0)
                return put_zero(out);

        struct binary b = {
                .mantissa = field == 0 ? fraction : fraction | 0x800000,
                .exponent = (int)(field == 0 ? 1 : field) - 150,
        };
        struct nine d;

        if (is_small_integer(&b))
                return put_whole(out, b.mantissa >> -b.exponent);
        else if (fraction == 0 && field > 1)
                d = spread_nine(shorten(&b, true, true));
        else
                d = spread_nine(shorten(&b, false, true));
        return d.point > -6 && d.point <= 7 ? put_plain(out, &d) : put_nine_elsewhere(out, &d);
}

/* ---- FP64 ------------------------------------------------------------------------------------- */

/* Seventeen digits as values without '0'. The first is not zero. */
struct seventeen {
        uint64_t first;
        uint64_t rest[2];  /* eight digits each */
        unsigned n_digits; /* as in struct layout */
        int      point;
};

#ifdef __x86_64__

/* Two numbers below 10^8 as sixteen digits, as spread_digits() makes them. Returns how many of them there
 * are up to the last that is not zero. */
static ALWAYS_INLINE unsigned spread_sixteen(uint64_t high, uint64_t low, uint64_t ret[2]) {
        __m128i  eights = _mm_set_epi64x((long long)low, (long long)high);
        __m128i  upper = _mm_srli_epi64(_mm_mul_epu32(eights, _mm_set1_epi64x(0xd1b71759)), 45);
        __m128i  lower = _mm_sub_epi32(eights, _mm_mul_epu32(upper, _mm_set1_epi64x(10000)));
        __m128i  fours = _mm_or_si128(upper, _mm_slli_epi64(lower, 32));
        __m128i  hundreds = _mm_srli_epi16(_mm_mulhi_epu16(fours, _mm_set1_epi16(5243)), 3);
        __m128i  below = _mm_sub_epi16(fours, _mm_mullo_epi16(hundreds, _mm_set1_epi16(100)));
        __m128i  twos = _mm_or_si128(hundreds, _mm_slli_epi32(below, 16));
        __m128i  tens = _mm_mulhi_epu16(twos, _mm_set1_epi16(6554));
        __m128i  ones = _mm_sub_epi16(twos, _mm_mullo_epi16(tens, _mm_set1_epi16(10)));
        __m128i  digits = _mm_or_si128(tens, _mm_slli_epi16(ones, 8));
        __m128i  is_zero = _mm_cmpeq_epi8(digits, _mm_setzero_si128());
        unsigned is_digit = (unsigned)_mm_movemask_epi8(is_zero) ^ 0xffff;

        _mm_storeu_si128((void *)ret, digits);
        return 31 - (unsigned)__builtin_clz(is_digit << 1 | 1);
}

#else

static ALWAYS_INLINE unsigned spread_sixteen(uint64_t high, uint64_t low, uint64_t ret[2]) {
        ret[0] = spread_digits(high);
        ret[1] = spread_digits(low);
        return ret[1] != 0 ? 8 + count_significant(ret[1]) : count_significant(ret[0]);
}

#endif

/* Of sixteen or seventeen digits. */
static ALWAYS_INLINE struct seventeen spread_seventeen(struct short_decimal d) {
        uint64_t is_sixteen = is_less(d.digits, 10000000000000000);
        uint64_t digits = d.digits * (1 + 9 * is_sixteen);
        uint64_t upper = digits / 100000000, first = upper / 100000000;

        struct seventeen ret = { .first = first, .point = 17 - (int)is_sixteen + d.exponent };

        ret.n_digits =
                1 + spread_sixteen(upper - first * 100000000, digits - upper * 100000000, ret.rest);
        return ret;
}

/* See put_plain(). Whether the number is above one is computed, not compared: it alternates. */
static ALWAYS_INLINE char *put_plain_f64(char *out, const struct seventeen *d) {
        unsigned is_above_one = (unsigned)-d->point >> 31;
        unsigned before = (unsigned)d->point & (0 - is_above_one);
        unsigned shift = before - is_above_one; /* of the digits before the dot, those in `rest` */
        unsigned zeros = (unsigned)(2 - d->point) & (is_above_one - 1); /* and the dot */
        char    *front = out + zeros;                                   /* of the first digit */
        char    *after = front + 1 + before;

        put_eight(out, 0);
        *front = (char)('0' + d->first);
        put_eight(front + 1, d->rest[0]);
        out[1 + shift] = '.';
        put_eight(after, drop_front(d->rest[0], d->rest[1], shift));
        put_eight(after + 8, d->rest[1] >> (8 * shift));
        return after + MAX((int)(d->n_digits - shift) - 1, (int)is_above_one);
}

static NOINLINE char *put_elsewhere_f64(char *out, const struct seventeen *d) {
        struct layout l = { .n_digits = d->n_digits, .point = d->point };

        l.text[0] = (char)('0' + d->first);
        put_eight(l.text + 1, d->rest[0]);
        put_eight(l.text + 9, d->rest[1]);
        put_eight(l.text + 16, d->rest[1] >> 56);
        return put_layout(out, &l);
}

static ALWAYS_INLINE char *put_f64(char *out, struct short_decimal digits) {
        struct seventeen d = spread_seventeen(digits);

        return d.point > -6 && d.point <= 7 ? put_plain_f64(out, &d) : put_elsewhere_f64(out, &d);
}

/* Adds zeros up to seventeen digits. */
static struct short_decimal lengthen(struct short_decimal d) {
        unsigned n = 17 - count_digits(d.digits);

        return (struct short_decimal){ d.digits * pow10_u64[n], d.exponent - (int)n };
}

/* Whether a and b differ by at most 2. */
static ALWAYS_INLINE bool is_near(uint64_t a, uint64_t b) {
        return a - b + 2 <= 4;
}

/* The shortest digits of a normal number that is no power of two, mostly without a look at the ends of its
 * rounding interval. The interval is 1 to 10 units of 10^k wide, so the nearest multiple of 10^k is inside.
 * It is the answer, unless a multiple of 10^(k+1) is inside, and there is at most one. That depends on how far
 * the number is above the last such multiple, compared with half the width. These distances have errors
 * below 2, in units of 2^-59. When they are too near each other to be compared, or the number is in the
 * middle of two multiples of 10^k, the result is false. */
static ALWAYS_INLINE bool shorten_f64(const struct binary *b, struct short_decimal *ret) {
        int k = floor_log10_pow2(b->exponent, false);
        int shift = b->exponent + pow10_floor_log2(-k) + 1; /* 1 to 4 */

        const struct pow10 *power = pow10_get(-k);
        uint64_t            scaled = b->mantissa << shift;
        uint64_t            carry = pow10_multiply(power->lo, scaled).hi;
        struct pow10        product = pow10_multiply(power->hi, scaled);
        uint64_t            fraction = product.lo + carry;
        uint64_t            units = product.hi + (fraction < carry ? 1 : 0);
        uint64_t            tens = units / 10;

        uint64_t above = (units - tens * 10) << 59 | fraction >> 5;
        uint64_t half = power->hi >> (6 - shift);
        uint64_t rest = (UINT64_C(10) << 59) - half;

        if (is_near(above, half) || is_near(above, rest) || is_near(fraction, UINT64_C(1) << 63))
                return false;

        uint64_t is_up = is_less(rest, above);
        uint64_t mask = 0 - (is_less(above, half) | is_up);
        uint64_t rounded = (tens + is_up) * 10, nearest = units + (fraction >> 63);

        *ret = (struct short_decimal){ (rounded & mask) | (nearest & ~mask), k };
        return true;
}

/* Puts what has no digits, and the sign of what has some. Returns true when the number is complete. */
static ALWAYS_INLINE bool put_front_f64(char **out, uint64_t bits) {
        uint64_t magnitude = bits & INT64_MAX, infinite = UINT64_C(0x7ff) << 52;
        bool     is_special = magnitude >= infinite;

        if (is_special) {
                *out = put_special(*out, magnitude > infinite, bits >> 63 != 0);
                return true;
        }
        **out = '-';
        *out += bits >> 63;
        if (magnitude != 0)
                return false;
        *out = put_zero(*out);
        return true;
}

static ALWAYS_INLINE struct binary take_apart_f64(uint64_t bits) {
        uint64_t field = bits >> 52 & 0x7ff, fraction = bits & 0xfffffffffffff;

        return (struct binary){
                .mantissa = field == 0 ? fraction : fraction | 0x10000000000000,
                .exponent = (int)(field == 0 ? 1 : field) - 1075,
        };
}

static ALWAYS_INLINE uint64_t bits_of(double value) {
        uint64_t bits;

        memcpy(&bits, &value, sizeof(bits));
        return bits;
}

#define SMALLEST_NORMAL_F64 (UINT64_C(1) << 52) /* as a mantissa */

static COLD char *print_exactly(char *out, struct binary b) {
        bool is_power_of_two = b.mantissa == SMALLEST_NORMAL_F64 && b.exponent > -1074;

        return put_f64(out, lengthen(is_power_of_two ? shorten(&b, true, false)
                                                     : shorten(&b, false, false)));
}

char *float_print_f64(char *out, double value) {
        uint64_t             bits = bits_of(value);
        struct binary        b;
        struct short_decimal digits;

        if (put_front_f64(&out, bits))
                return out;
        b = take_apart_f64(bits);
        /* Whole numbers below 2^53: one comparison, since numbers above and below 1 alternate. */
        if ((unsigned)-b.exponent <= (unsigned)__builtin_ctzll(b.mantissa)) {
                struct short_decimal whole = { b.mantissa >> -b.exponent, 0 };

                return whole.digits < 100000000 ? put_whole(out, whole.digits)
                                                : put_f64(out, lengthen(whole));
        }
        /* A power of two, a subnormal number, or a rare one. */
        if (b.mantissa <= SMALLEST_NORMAL_F64 || !shorten_f64(&b, &digits))
                return print_exactly(out, b);
        return put_f64(out, digits);
}

char *float_print_f64_exactly(char *out, double value) {
        uint64_t bits = bits_of(value);

        if (put_front_f64(&out, bits))
                return out;
        return print_exactly(out, take_apart_f64(bits));
}
