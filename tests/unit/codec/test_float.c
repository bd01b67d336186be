/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats to text and back: the table of powers, both directions against the C library, and every
 * edge that has a name.
 */
#include "suite.h"

#include "codec/float_parse.h"
#include "codec/float_print.h"
#include "codec/float_print_run.h"
#include "codec/json_number.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "codec/pow10_table.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 0x243f6a8885a308d3;

static uint64_t random_bits(void) {
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state;
}

static unsigned random_below(unsigned n) {
        return (unsigned)(random_bits() >> 33) % n;
}

static float f32_of(uint32_t bits) {
        float value;

        memcpy(&value, &bits, sizeof(value));
        return value;
}

static double f64_of(uint64_t bits) {
        double value;

        memcpy(&value, &bits, sizeof(value));
        return value;
}

static uint32_t bits_f32(float value) {
        uint32_t bits;

        memcpy(&bits, &value, sizeof(bits));
        return bits;
}

static uint64_t bits_f64(double value) {
        uint64_t bits;

        memcpy(&bits, &value, sizeof(bits));
        return bits;
}

/* Numbers of up to 1280 bits, for the table. */
#define LIMBS 40

struct big {
        uint32_t limbs[LIMBS]; /* lowest first */
};

static void big_multiply(struct big *b, uint32_t factor) {
        uint64_t carry = 0;

        for (int i = 0; i < LIMBS; i++) {
                carry += (uint64_t)b->limbs[i] * factor;
                b->limbs[i] = (uint32_t)carry;
                carry >>= 32;
        }
        assert_int_equal(carry, 0);
}

static struct big big_pow10(int q) {
        struct big b = { { 1 } };

        for (int i = 0; i < q; i++)
                big_multiply(&b, 10);
        return b;
}

static int big_bits(const struct big *b) {
        for (int i = LIMBS - 1; i >= 0; i--) {
                if (b->limbs[i] != 0)
                        return 32 * i + 32 - __builtin_clz(b->limbs[i]);
        }
        return 0;
}

static bool big_bit(const struct big *b, int i) {
        return b->limbs[i / 32] >> (i % 32) & 1;
}

static int big_compare(const struct big *a, const struct big *b) {
        for (int i = LIMBS - 1; i >= 0; i--) {
                if (a->limbs[i] != b->limbs[i])
                        return a->limbs[i] < b->limbs[i] ? -1 : 1;
        }
        return 0;
}

static struct big big_times_128(const struct big *b, struct pow10 g) {
        const uint32_t parts[4] = { (uint32_t)g.lo, (uint32_t)(g.lo >> 32), (uint32_t)g.hi,
                                    (uint32_t)(g.hi >> 32) };
        struct big     product = { { 0 } };

        for (int k = 0; k < 4; k++) {
                uint64_t carry = 0;

                for (int i = 0; i + k < LIMBS; i++) {
                        carry += (uint64_t)b->limbs[i] * parts[k] + product.limbs[i + k];
                        product.limbs[i + k] = (uint32_t)carry;
                        carry >>= 32;
                }
                assert_int_equal(carry, 0);
        }
        return product;
}

/* The upper 128 bits of 10^q, rounded up, taken bit by bit. */
static struct pow10 upper_bits(const struct big *b) {
        int          top = big_bits(b) - 1;
        struct pow10 g = { 0, 0 };
        bool         has_rest = false;

        for (int i = 0; i < 128; i++) {
                g.hi = g.hi << 1 | g.lo >> 63;
                g.lo = g.lo << 1 | (top - i >= 0 && big_bit(b, top - i));
        }
        for (int i = 0; i <= top - 128; i++)
                has_rest |= big_bit(b, i);
        if (has_rest && ++g.lo == 0)
                g.hi++;
        return g;
}

static void test_powers_positive(void **state) {
        (void)state;
        for (int q = 0; q <= POW10_MAX; q++) {
                struct big   b = big_pow10(q);
                struct pow10 g = upper_bits(&b);

                assert_int_equal(pow10_get(q)->hi, g.hi);
                assert_int_equal(pow10_get(q)->lo, g.lo);
                assert_int_equal(pow10_floor_log2(q), big_bits(&b) - 1);
                assert_true(pow10_is_exact(q) || g.lo != 0);
        }
        assert_int_equal(pow10_u64[0], 1);
        for (size_t i = 1; i < ARRAY_LEN(pow10_u64); i++) {
                assert_int_equal(pow10_u64[i] % 10, 0);
                assert_int_equal(pow10_u64[i] / 10, pow10_u64[i - 1]);
        }
}

/* g is the smallest integer with g * 10^n >= 2^(127 + the bits of 10^n). */
static void test_powers_negative(void **state) {
        (void)state;
        for (int n = 1; n <= -POW10_MIN; n++) {
                struct big   b = big_pow10(n), power = { { 0 } }, product;
                struct pow10 g = *pow10_get(-n);
                int          bit = 127 + big_bits(&b);

                power.limbs[bit / 32] = 1u << (bit % 32);
                product = big_times_128(&b, g);
                assert_int_equal(big_compare(&product, &power), 1);
                assert_true(g.lo != 0);
                g.lo--;
                product = big_times_128(&b, g);
                assert_int_equal(big_compare(&product, &power), -1);
                assert_int_equal(g.hi >> 63, 1);
                assert_int_equal(pow10_floor_log2(-n), -big_bits(&b));
        }
}

/* Reading a text as the JSON reader does. */
static bool parse(const char *text, double *ret_f64, float *ret_f32) {
        struct json_number_scan scan;
        const char             *end = text + strlen(text);

        json_number_scan(text, end, &scan);
        assert_int_not_equal(scan.kind, JSON_NUMBER_BAD);
        assert_ptr_equal(scan.at, end);
        bool is_good = json_number_get_f64(&scan, ret_f64);

        assert_int_equal(json_number_get_f32(&scan, ret_f32), is_good);
        return is_good;
}

/* Bit for bit what the C library makes of it. */
static void check_parse(const char *text) {
        double wide = 0, wanted = strtod(text, NULL);
        float  narrow = 0, wanted_narrow = strtof(text, NULL);
        bool   is_good = parse(text, &wide, &narrow);

        assert_int_equal(is_good, !isinf(wanted));
        if (!is_good)
                return;
        if (bits_f64(wide) != bits_f64(wanted) || bits_f32(narrow) != bits_f32(wanted_narrow))
                fail_msg("%s: %a %a, wanted %a %a", text, wide, (double)narrow, wanted,
                         (double)wanted_narrow);
}

static void test_parse_edges(void **state) {
        static const char *const texts[] = {
                "0",
                "-0",
                "0.0",
                "-0.0",
                "0e5",
                "-0e-999999999999999999999",
                "0.000e400",
                "1",
                "-1",
                "9007199254740991",
                "9007199254740992",
                "9007199254740993",
                "9007199254740995",
                "9007199254740993.0000000000000000000000000000000001",
                "16777216",
                "16777217",
                "16777218",
                "16777219",
                "16777217.0000000000000000001",
                "1e22",
                "1e23",
                "1e24",
                "9e22",
                "8.5e22",
                "123456789012345678",
                "1234567890123456789",
                "12345678901234567890",
                "123456789012345678901",
                "18446744073709551615",
                "18446744073709551616",
                /* the ends of FP64 */
                "1.7976931348623157e308",
                "1.7976931348623158e308",
                "1.7976931348623159e308",
                "1.797693134862315807e308",
                "1.797693134862315808e308",
                "1e308",
                "1e309",
                "1e400",
                "-1e400",
                "1e99999999999999999999",
                "2.2250738585072014e-308",
                "2.2250738585072011e-308",
                "2.2250738585072012e-308",
                "4.9406564584124654e-324",
                "5e-324",
                "3e-324",
                "2.4703282292062327e-324",
                "2.4703282292062328e-324",
                "2.4e-324",
                "1e-400",
                "1e-99999999999999999999",
                /* the ends of FP32 */
                "3.4028234663852886e38",
                "3.4028235e38",
                "3.4028235677973366e38",
                "3.4028235677973365e38",
                "3.40282356779733661637539395458142568447e38",
                "3.40282356779733661637539395458142568448e38",
                "3.5e38",
                "1e39",
                "1.1754943508222875e-38",
                "1.1754942e-38",
                "1.1754943e-38",
                "1.1754942106924411e-38",
                "1.401298464324817e-45",
                "1e-45",
                "7.0064923216240853e-46",
                "7.0064923216240854e-46",
                "7.1e-46",
                "7e-46",
                "1e-46",
                /* exactly between two floats, and just beside */
                "1.00000005960464477539062",
                "1.00000005960464477539063",
                "1.000000059604644775390625",
                "1.0000000596046447753906250000000000000000000001",
                "1.0000000596046447753906249999999999999999999999",
                "1.00000017881393432617187",
                "1.000000178813934326171875",
                "1.00000017881393432617188",
                "1.00000000000000011102230246251565404236316680908203125",
                "1.00000000000000011102230246251565404236316680908203124",
                "1.00000000000000011102230246251565404236316680908203126",
                "1.00000000000000033306690738754696212708950042724609375",
                "0.1",
                "0.2",
                "0.3",
                "1e-5",
                "123456789e-20",
                "0.000000000000000000000000000000000000000000000001",
                "100000000000000000000000000000000000000000000000000000000e-50",
                "1E5",
                "1e+5",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                check_parse(texts[i]);
}

static void test_parse_huge_texts(void **state) {
        enum { N = 100000 };
        char *text = malloc(N + 64);

        (void)state;
        assert_non_null(text);
        memset(text, '7', N); /* many digits before the dot, scaled back */
        strcpy(text + N, "e-100000");
        check_parse(text);
        strcpy(text + N, "e-99691");
        check_parse(text);
        memset(text, '0', N); /* many zeros behind it */
        memcpy(text, "0.", 2);
        strcpy(text + N, "123456789e100000");
        check_parse(text);
        /* A tie that only the last of 100 000 digits decides. */
        strcpy(text, "1.000000059604644775390625");
        memset(text + strlen(text), '0', N - 26);
        strcpy(text + N, "1");
        check_parse(text);
        strcpy(text + N, "0");
        check_parse(text);
        free(text);
}

/* A decimal of n digits with or without a dot, and an exponent most of the time. */
static void random_decimal(char *out, unsigned n_digits, int exponent_range) {
        unsigned dot = random_below(n_digits + 1), n = 0;
        char    *begin = out;

        if (random_below(4) == 0)
                *out++ = '-', begin++;
        for (n = 0; n < n_digits; n++) {
                if (n == dot && n > 0)
                        *out++ = '.';
                *out++ = (char)('0' + random_below(10));
        }
        if (begin[0] == '0')
                begin[0] = '1'; /* JSON allows a zero only alone */
        if (random_below(8) != 0)
                out += sprintf(out, "e%d",
                               (int)random_below((unsigned)exponent_range * 2) - exponent_range);
        *out = '\0';
}

static void test_parse_random(void **state) {
        char text[128];

        (void)state;
        for (int i = 0; i < 700000; i++) {
                random_decimal(text, 1 + random_below(20), 60);
                check_parse(text);
        }
        for (int i = 0; i < 300000; i++) {
                random_decimal(text, 1 + random_below(40), 345);
                check_parse(text);
        }
}

/* The exact middle of two neighbours, and its neighbours in the last digit. */
static void test_parse_middles(void **state) {
        char text[1200];

        (void)state;
        for (int i = 0; i < 20000; i++) {
                float  f = f32_of((uint32_t)(random_bits() >> 33) % 0x7f7fffff);
                double d = f64_of((random_bits() >> 1) % 0x7fefffffffffffff);

                snprintf(text, sizeof(text), "%.150e",
                         ((double)f + (double)nextafterf(f, INFINITY)) / 2);
                check_parse(text);
                text[strcspn(text, "e") - 1] = '1';
                check_parse(text);
                if (i < 1000 && d > 1e-290) { /* where the wide type holds the middle exactly */
                        snprintf(text, sizeof(text), "%.900Le",
                                 ((long double)d + (long double)nextafter(d, INFINITY)) / 2);
                        check_parse(text);
                }
        }
}

static void check_print_f64(double value, const char *wanted) {
        char text[FLOAT_PRINT_ROOM];

        *float_print_f64(text, value) = '\0';
        assert_string_equal(text, wanted);
}

static void check_print_f32(float value, const char *wanted) {
        char text[FLOAT_PRINT_ROOM];

        *float_print_f32(text, value) = '\0';
        assert_string_equal(text, wanted);
}

static void test_print_f32(void **state) {
        (void)state;
        check_print_f32(0.0f, "0.0");
        check_print_f32(-0.0f, "-0.0");
        check_print_f32(1.0f, "1.0");
        check_print_f32(-1.0f, "-1.0");
        check_print_f32(10.0f, "10.0");
        check_print_f32(255.0f, "255.0");
        check_print_f32(1234567.0f, "1234567.0");
        check_print_f32(12345678.0f, "12345678.0");
        check_print_f32(16777216.0f, "16777216.0");
        check_print_f32(0.1f, "0.1");
        check_print_f32(0.3f, "0.3");
        check_print_f32(0.5f, "0.5");
        check_print_f32(1.5f, "1.5");
        check_print_f32(3.14159274f, "3.1415927");
        check_print_f32(100000.0f, "100000.0");
        check_print_f32(1234567.5f, "1234567.5");
        check_print_f32(0.00001f, "0.00001");
        check_print_f32(0.000001f, "0.000001");
        check_print_f32(0.00000123456789f, "0.0000012345679");
        check_print_f32(9.99999997e-7f, "0.000001");
        check_print_f32(9.9999e-7f, "9.9999e-7");
        check_print_f32(1e-7f, "1e-7");
        check_print_f32(1.17549435e-38f, "1.1754944e-38");
        check_print_f32(1.17549421e-38f, "1.1754942e-38");
        check_print_f32(FLT_TRUE_MIN, "1e-45");
        check_print_f32(2 * FLT_TRUE_MIN, "3e-45");
        check_print_f32(FLT_MAX, "3.4028235e38");
        check_print_f32(-FLT_MAX, "-3.4028235e38");
        check_print_f32(1e20f, "100000000000000000000.0");
        check_print_f32(1e21f, "1e21");
        check_print_f32(3.4e10f, "34000000000.0");
        check_print_f32(1.5e9f, "1500000000.0");
        check_print_f32(33554432.0f, "33554432.0"); /* powers of two: the lower neighbour is near */
        check_print_f32(0x1p-100f, "7.888609e-31");
        check_print_f32(NAN, "NaN");
        check_print_f32(-NAN, "NaN");
        check_print_f32(INFINITY, "Infinity");
        check_print_f32(-INFINITY, "-Infinity");
}

static void test_print_f64(void **state) {
        (void)state;
        check_print_f64(0.0, "0.0");
        check_print_f64(-0.0, "-0.0");
        check_print_f64(1.0, "1.0");
        check_print_f64(0.1, "0.1");
        check_print_f64(0.1f, "0.10000000149011612");
        check_print_f64(1e-7f, "1.0000000116860974e-7");
        check_print_f64(3.4e38f, "3.3999999521443642e38");
        check_print_f64(1e20f, "100000002004087730000.0");
        check_print_f64(0.30000000000000004, "0.30000000000000004");
        check_print_f64(123.456, "123.456");
        check_print_f64(1e5, "100000.0");
        check_print_f64(1e-6, "0.000001");
        check_print_f64(1.2345678901234567e-6, "0.0000012345678901234567");
        check_print_f64(1e-7, "1e-7");
        check_print_f64(1e20, "100000000000000000000.0");
        check_print_f64(1e21, "1e21");
        check_print_f64(1.5e21, "1.5e21");
        check_print_f64(9007199254740992.0, "9007199254740992.0");
        check_print_f64(9007199254740993.0, "9007199254740992.0");
        check_print_f64(2251799813685248.5, "2251799813685248.5");
        check_print_f64(9007199254740994.0, "9007199254740994.0");
        check_print_f64(1e23, "1e23");
        check_print_f64(9.5367431640625e-7, "9.5367431640625e-7");
        check_print_f64(DBL_MAX, "1.7976931348623157e308");
        check_print_f64(-DBL_MAX, "-1.7976931348623157e308");
        check_print_f64(DBL_MIN, "2.2250738585072014e-308");
        check_print_f64(DBL_TRUE_MIN, "5e-324");
        check_print_f64(1e100, "1e100");
        check_print_f64(1.25e-100, "1.25e-100");
        check_print_f64((double)NAN, "NaN");
        check_print_f64((double)-INFINITY, "-Infinity");
}

static unsigned significant_digits(const char *text) {
        unsigned n = 0, n_up_to_last = 0;

        for (; *text != '\0' && *text != 'e'; text++) {
                if (*text < '0' || *text > '9' || (n == 0 && *text == '0'))
                        continue;
                n++;
                if (*text != '0')
                        n_up_to_last = n;
        }
        return n_up_to_last;
}

static void check_round_trip_f32(float value) {
        char   text[FLOAT_PRINT_ROOM];
        double wide;
        float  again;
        char  *end = float_print_f32(text, value);

        assert_in_range(end - text, 3, FLOAT_PRINT_MAX);
        *end = '\0';
        assert_true(strpbrk(text, ".e") != NULL);
        assert_true(parse(text, &wide, &again));
        if (bits_f32(again) != bits_f32(value) || bits_f32(strtof(text, NULL)) != bits_f32(value))
                fail_msg("%a became %s", (double)value, text);
}

static void check_round_trip_f64(double value) {
        char   text[FLOAT_PRINT_ROOM];
        double again;
        float  narrow;
        char  *end = float_print_f64(text, value);

        assert_in_range(end - text, 3, FLOAT_PRINT_MAX);
        *end = '\0';
        assert_true(parse(text, &again, &narrow));
        if (bits_f64(again) != bits_f64(value) || bits_f64(strtod(text, NULL)) != bits_f64(value))
                fail_msg("%a became %s", value, text);
}

static void test_round_trip_random(void **state) {
        (void)state;
        for (int i = 0; i < 1000000; i++) {
                float value = f32_of((uint32_t)(random_bits() >> 16));

                if (isfinite(value))
                        check_round_trip_f32(value);
        }
        for (int i = 0; i < 200000; i++) {
                double value = f64_of(random_bits());

                if (isfinite(value))
                        check_round_trip_f64(value);
        }
}

/* Each exponent with the mantissas at its ends. */
static void test_round_trip_edges(void **state) {
        static const uint64_t mantissas[] = {
                0, 1, 2, 3, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX / 2
        };

        (void)state;
        for (uint32_t exponent = 0; exponent < 255; exponent++) {
                for (size_t i = 0; i < ARRAY_LEN(mantissas); i++)
                        check_round_trip_f32(
                                f32_of(exponent << 23 | ((uint32_t)mantissas[i] & 0x7fffff)));
        }
        for (uint64_t exponent = 0; exponent < 2047; exponent++) {
                for (size_t i = 0; i < ARRAY_LEN(mantissas); i++)
                        check_round_trip_f64(
                                f64_of(exponent << 52 | (mantissas[i] & 0xfffffffffffff)));
        }
}

/* No shorter text gives the same float, and none as short is nearer. */
static void test_print_is_shortest(void **state) {
        char text[FLOAT_PRINT_ROOM], other[64];

        (void)state;
        for (int i = 0; i < 100000; i++) {
                float    value = f32_of((uint32_t)(random_bits() >> 33) % 0x7f800000);
                unsigned n;

                if (value == 0)
                        continue;
                *float_print_f32(text, value) = '\0';
                n = significant_digits(text);
                if (n > 1) {
                        snprintf(other, sizeof(other), "%.*e", (int)n - 2, (double)value);
                        assert_true(bits_f32(strtof(other, NULL)) != bits_f32(value));
                }
                snprintf(other, sizeof(other), "%.*e", (int)n - 1, (double)value);
                if (bits_f32(strtof(other, NULL)) == bits_f32(value) &&
                    strtod(other, NULL) != strtod(text, NULL))
                        fail_msg("%s is nearer than %s", other, text);
        }
        for (int i = 0; i < 50000; i++) {
                double   value = f64_of((random_bits() >> 1) % 0x7ff0000000000000);
                unsigned n;

                *float_print_f64(text, value) = '\0';
                n = significant_digits(text);
                if (n > 1) {
                        snprintf(other, sizeof(other), "%.*e", (int)n - 2, value);
                        assert_true(bits_f64(strtod(other, NULL)) != bits_f64(value));
                }
        }
}

/* ---- the short way of FP64 -------------------------------------------------------------------- */

/* Asserts that the short way gives what the exact one does. */
static void assert_exact(double value) {
        char text[FLOAT_PRINT_ROOM], exact[FLOAT_PRINT_ROOM];

        *float_print_f64(text, value) = '\0';
        *float_print_f64_exactly(exact, value) = '\0';
        if (strcmp(text, exact) != 0)
                fail_msg("%a became %s, not %s", value, text, exact);
}

/* The significant digits of a number, without zeros at their end. */
static void copy_digits(const char *text, char *out) {
        unsigned n = significant_digits(text), n_copied = 0;

        for (; n_copied < n; text++)
                if (*text >= '0' && *text <= '9' && (n_copied > 0 || *text != '0'))
                        out[n_copied++] = *text;
        out[n] = '\0';
}

/* Against the C library: with fewer digits it is another number, and with as many these are the nearest. */
static void assert_shortest(double value) {
        char     text[FLOAT_PRINT_ROOM], other[64], digits[32], other_digits[32];
        unsigned n;

        assert_exact(value);
        check_round_trip_f64(value);
        *float_print_f64(text, value) = '\0';
        n = significant_digits(text);
        if (n > 1) {
                snprintf(other, sizeof(other), "%.*e", (int)n - 2, value);
                assert_true(bits_f64(strtod(other, NULL)) != bits_f64(value));
        }
        snprintf(other, sizeof(other), "%.*e", (int)n - 1, value);
        copy_digits(text, digits);
        copy_digits(other, other_digits);
        if (bits_f64(strtod(other, NULL)) == bits_f64(value))
                assert_string_equal(digits, other_digits);
}

static double random_unit(void) {
        return (double)(random_bits() >> 11) * 0x1p-53;
}

/* Decimals of up to eight digits, as prices and measurements have them. */
static double random_short(void) {
        static const double scales[] = { 1, 10, 100, 1e3, 1e4, 1e6, 1e9, 1e-9, 1e-15, 1e30 };

        return (double)((int)random_below(200000001) - 100000000) /
               scales[random_below(ARRAY_LEN(scales))];
}

/* Few bits, at all exponents. */
static double random_few_bits(void) {
        return ldexp((double)(random_bits() >> (11 + random_below(52))),
                     (int)random_below(2100) - 1100);
}

static void test_short_way_of_f64(void **state) {
        (void)state;
        for (int i = 0; i < 1000000; i++) {
                assert_exact(f64_of(random_bits()));
                assert_exact(random_unit() * (random_below(2) != 0 ? 1 : -20));
                assert_exact(random_short());
                assert_exact(random_few_bits());
        }
        for (int i = 0; i < 20000; i++) {
                assert_shortest(random_unit());
                assert_shortest(random_short());
        }
}

/* In the middle of two candidates: a digit 5 and nothing after it. */
static void test_ties_of_f64(void **state) {
        (void)state;
        for (int exponent = -60; exponent <= 4; exponent++)
                for (int i = 0; i < 500; i++) {
                        double odd = (double)((random_bits() >> 12 | UINT64_C(1) << 52) | 1);

                        assert_shortest(ldexp(odd, exponent));
                }
        check_print_f64(1125899906842624.25, "1125899906842624.2"); /* the even one of two */
        check_print_f64(1125899906842624.75, "1125899906842624.8");
}

/* A number with few digits at the very end of the rounding interval: it belongs to the interval of an even
 * mantissa, not to that of an odd one. The end is in the middle of two neighbours, so it is an odd multiple of
 * half the distance, 2^(exponent - 1), and also one of 10^(k + 1). */
static void test_ends_of_f64(void **state) {
        (void)state;
        for (int exponent = 2; exponent <= 75; exponent++) {
                int      k = (int)floor(exponent * 0.30102999566398120);
                uint64_t fives = 1;

                for (int i = 0; i <= k; i++)
                        fives *= 5;
                for (int i = 0; i < 200 && k + 1 <= exponent - 1; i++) {
                        uint64_t least = (UINT64_C(1) << 53) / fives + 1;
                        uint64_t times = (least + random_bits() % least) | 1;
                        uint64_t end = times * fives;

                        if (end >> 53 != 1)
                                continue;
                        assert_shortest(ldexp((double)(end / 2), exponent));
                        assert_shortest(ldexp((double)(end / 2 + 1), exponent));
                }
        }
}

/* What the tensor reader's quick way relies on. */
static void test_digits_at_once(void **state) {
        char text[32];

        (void)state;
        for (int i = 0; i < 200000; i++) {
                uint32_t mask = 0;
                unsigned n = 0;

                for (size_t k = 0; k < sizeof(text); k++)
                        text[k] = random_below(8) == 0 ? (char)random_bits()
                                                       : (char)('0' + random_below(10));
                for (unsigned k = 0; k < 16; k++)
                        mask |= (uint32_t)(text[k] < '0' || text[k] > '9') << k;
                assert_int_equal(json_digits_mask(text), mask);
                assert_int_equal(json_digits_mask_portable(text), mask);
                while (n < 8 && text[n] >= '0' && text[n] <= '9')
                        n++;
                assert_int_equal(json_digits_count(json_digits_load(text)), n);
                if (n > 0) {
                        char digits[9] = { 0 };

                        memcpy(digits, text, n);
                        assert_int_equal(json_digits_value_n(json_digits_load(text), n),
                                         strtoul(digits, NULL, 10));
                }
        }
}

/* ---- several at a time ----------------------------------------------------------------------- */

/* Asserts that n floats at `in` are printed as float_print_f32() prints each. */
static void assert_run(const char *in, size_t n) {
        char  run[64 * (FLOAT_PRINT_MAX + 1) + FLOAT_PRINT_ROOM], each[sizeof(run)];
        char *run_end = float_print_f32_run(run, in, n), *each_end = each;

        for (size_t i = 0; i < n; i++) {
                float value;

                memcpy(&value, in + i * sizeof(value), sizeof(value));
                each_end = float_print_f32(each_end, value);
                *each_end++ = ',';
        }
        *run_end = *each_end = '\0';
        assert_string_equal(run, each);
}

/* All exponents with fractions that spread over their range: an odd factor makes a permutation of
 * the bit patterns. */
static void test_runs_of_patterns(void **state) {
        uint32_t bits[64];

        (void)state;
        for (uint32_t i = 0; i < 1 << 22; i += ARRAY_LEN(bits)) {
                for (uint32_t k = 0; k < ARRAY_LEN(bits); k++)
                        bits[k] = (i + k) * 2654435761u;
                assert_run((const char *)bits, ARRAY_LEN(bits));
        }
}

/* Powers of two and of ten with their neighbours, whole numbers, what has no digits: beside each
 * other in all places of a group, in runs of every length, at odd addresses. */
static void test_runs_of_edges(void **state) {
        static const float edges[] = { 0.0f,        -0.0f, 1.0f,       -1.0f,      NAN,
                                       INFINITY,    0.1f,  FLT_MIN,    FLT_MAX,    -FLT_MAX,
                                       1e-45f,      1e-6f, 9.9e-7f,    1e-7f,      9999999.0f,
                                       12345678.0f, 1e10f, 1e21f,      1e22f,      16777216.0f,
                                       255.0f,      3.25f, -0.000123f, 1234567.8f, 0x1p-126f };
        char               in[1 + 64 * sizeof(float)];
        float              values[64];

        (void)state;
        for (unsigned round = 0; round < 20000; round++) {
                size_t n = random_below(ARRAY_LEN(values) + 1);

                for (size_t i = 0; i < n; i++) {
                        int exponent = (int)random_below(76) - 38;

                        switch (random_below(4)) {
                        case 0: values[i] = edges[random_below(ARRAY_LEN(edges))]; break;
                        case 1: values[i] = ldexpf(1, (int)random_below(276) - 149); break;
                        case 2: values[i] = (float)random_below(300); break;
                        default:
                                values[i] = nextafterf(powf(10, (float)exponent),
                                                       random_below(2) != 0 ? 0 : INFINITY);
                        }
                }
                memcpy(in + 1, values, n * sizeof(float));
                assert_run(in + 1, n);
        }
}

SUITE(float) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_powers_positive),   cmocka_unit_test(test_powers_negative),
                cmocka_unit_test(test_parse_edges),       cmocka_unit_test(test_parse_huge_texts),
                cmocka_unit_test(test_parse_random),      cmocka_unit_test(test_parse_middles),
                cmocka_unit_test(test_print_f32),         cmocka_unit_test(test_print_f64),
                cmocka_unit_test(test_round_trip_random), cmocka_unit_test(test_round_trip_edges),
                cmocka_unit_test(test_print_is_shortest), cmocka_unit_test(test_short_way_of_f64),
                cmocka_unit_test(test_ties_of_f64),       cmocka_unit_test(test_ends_of_f64),
                cmocka_unit_test(test_digits_at_once),    cmocka_unit_test(test_runs_of_patterns),
                cmocka_unit_test(test_runs_of_edges),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
