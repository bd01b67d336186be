/* SPDX-License-Identifier: BSD-3-Clause */
/* FP16 and BF16: all 65 536 patterns, and rounding against a slow reference.
 */
#include "suite.h"

#include "codec/half_float.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float value) {
        uint32_t bits;

        memcpy(&bits, &value, sizeof(bits));
        return bits;
}

static float float_of(uint32_t bits) {
        float value;

        memcpy(&value, &bits, sizeof(value));
        return value;
}

/* By the definition: (-1)^s * 2^(e-15) * 1.m */
static double fp16_by_definition(uint16_t half) {
        int    field = half >> 10 & 31;
        double mantissa = half & 1023, value;

        if (field == 31)
                value = mantissa == 0 ? (double)INFINITY : (double)NAN;
        else
                value = field == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, field - 25);
        return half & 0x8000 ? -value : value;
}

static void test_fp16_widens(void **state) {
        (void)state;
        for (uint32_t half = 0; half <= 0xffff; half++) {
                float  value = half_float_from_fp16((uint16_t)half);
                double wanted = fp16_by_definition((uint16_t)half);

                assert_int_equal(isnan(value), isnan(wanted));
                assert_int_equal(!!signbit(value), half >> 15);
                if (!isnan(value))
                        assert_true((double)value == wanted);
                assert_int_equal(half_float_to_fp16(value), isnan(value) ? half | 0x200 : half);
        }
}

static void test_bf16_widens(void **state) {
        (void)state;
        for (uint32_t half = 0; half <= 0xffff; half++) {
                float value = half_float_from_bf16((uint16_t)half);

                assert_int_equal(bits_of(value), half << 16);
                assert_int_equal(half_float_to_bf16(value), isnan(value) ? half | 0x40 : half);
        }
}

static void test_fp16_narrows(void **state) {
        static const struct {
                float    value;
                uint16_t half;
        } rows[] = {
                { 0.0f, 0x0000 },
                { -0.0f, 0x8000 },
                { 1.0f, 0x3c00 },
                { -2.0f, 0xc000 },
                { 0.1f, 0x2e66 },
                { 65504.0f, 0x7bff }, /* the largest */
                { 65519.996f, 0x7bff },
                { 65520.0f, 0x7c00 }, /* the middle goes to the even one, an infinity */
                { 1e10f, 0x7c00 },
                { -1e10f, 0xfc00 },
                { INFINITY, 0x7c00 },
                { -INFINITY, 0xfc00 },
                { 2049.0f, 0x6800 }, /* ties to even: 2048 */
                { 2051.0f, 0x6802 }, /* and 2052 */
                { 2049.001f, 0x6801 },
                { 0x1p-14f, 0x0400 },     /* the smallest normal */
                { 0x1.ff8p-15f, 0x03ff }, /* the largest denormal */
                { 0x1.ffbp-15f, 0x03ff },
                { 0x1.ffcp-15f, 0x0400 }, /* a tie that rounds up to it */
                { 0x1p-24f, 0x0001 },
                { 0x1p-25f, 0x0000 }, /* tie to zero */
                { 0x1.000002p-25f, 0x0001 },
                { 0x1.8p-24f, 0x0002 },
                { 0x1p-26f, 0x0000 },
                { 1e-45f, 0x0000 },
                { -1e-45f, 0x8000 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                assert_int_equal(half_float_to_fp16(rows[i].value), rows[i].half);
        assert_int_equal(half_float_to_fp16(NAN) & 0x7e00, 0x7e00);
        assert_int_equal(half_float_to_fp16(float_of(0x7f800001)), 0x7e00); /* no infinity */
        assert_int_equal(half_float_to_fp16(float_of(0xffc00000)), 0xfe00);
}

static void test_bf16_narrows(void **state) {
        (void)state;
        assert_int_equal(half_float_to_bf16(1.0f), 0x3f80);
        assert_int_equal(half_float_to_bf16(float_of(0x3f808000)), 0x3f80); /* tie, even */
        assert_int_equal(half_float_to_bf16(float_of(0x3f818000)), 0x3f82); /* tie, odd */
        assert_int_equal(half_float_to_bf16(float_of(0x3f808001)), 0x3f81);
        assert_int_equal(half_float_to_bf16(float_of(0x7f7fffff)), 0x7f80); /* up to infinity */
        assert_int_equal(half_float_to_bf16(float_of(0x7f7f7fff)), 0x7f7f);
        assert_int_equal(half_float_to_bf16(float_of(0x00008000)), 0x0000);
        assert_int_equal(half_float_to_bf16(float_of(0x00008001)), 0x0001);
        assert_int_equal(half_float_to_bf16(-0.0f), 0x8000);
        assert_int_equal(half_float_to_bf16(float_of(0x7f800001)), 0x7fc0);
        assert_int_equal(half_float_to_bf16(float_of(0xffffffff)), 0xffff);
}

/* Of the two halves around each value the nearer one is taken, of equals the even one. */
static void test_narrowing_is_nearest(void **state) {
        uint32_t random = 2463534242u;

        (void)state;
        for (int i = 0; i < 1000000; i++) {
                uint16_t half;
                double   value, here, below, above;

                random ^= random << 13;
                random ^= random >> 17;
                random ^= random << 5;
                value = (double)float_of((random & 0x8fffffff) |
                                         0x30000000); /* around 1, all signs */
                half = half_float_to_fp16((float)value);
                if ((half & 0x7fff) == 0x7c00 || (half & 0x7fff) == 0)
                        continue;
                here = fabs(fp16_by_definition(half) - value);
                below = fabs(fp16_by_definition((uint16_t)(half - 1)) - value);
                above = fabs(fp16_by_definition((uint16_t)(half + 1)) - value);
                assert_true(here <= below && here <= above);
                assert_true((here != below && here != above) || half % 2 == 0);
        }
}

SUITE(half_float) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fp16_widens),          cmocka_unit_test(test_bf16_widens),
                cmocka_unit_test(test_fp16_narrows),         cmocka_unit_test(test_bf16_narrows),
                cmocka_unit_test(test_narrowing_is_nearest),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
