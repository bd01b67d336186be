/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/half_float.h"

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

/* Drops the lowest n bits, to nearest, ties to even. A carry out of the mantissa raises the
 * exponent field, as it must; the largest finite value becomes infinity. */
static uint32_t round_off(uint32_t bits, unsigned n) {
        uint32_t odd = bits >> n & 1;

        return (bits + (1u << (n - 1)) - 1 + odd) >> n;
}

float half_float_from_fp16(uint16_t half) {
        uint32_t sign = (uint32_t)(half & 0x8000) << 16;
        uint32_t field = half >> 10 & 0x1f, mantissa = half & 0x3ff;

        if (field == 0x1f)
                return float_of(sign | 0x7f800000 | mantissa << 13);
        if (field != 0) /* the biases are 15 and 127 */
                return float_of(sign | (field + 112) << 23 | mantissa << 13);
        /* A denormal counts units of 2^-24, which a float holds exactly; zero too. */
        return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
}

uint16_t half_float_to_fp16(float value) {
        uint32_t bits = bits_of(value);
        uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
        uint32_t field = magnitude >> 23;

        if (magnitude > 0x7f800000)
                return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
        if (magnitude >= 0x47800000) /* 2^16; values between 65504 and this are rounded below */
                return (uint16_t)(sign | 0x7c00);
        if (magnitude >= 0x38800000) /* 2^-14, the smallest normal */
                return (uint16_t)(sign | round_off(magnitude - (112u << 23), 13));
        if (magnitude < 0x33000000) /* 2^-25, half of the smallest denormal, rounds to zero */
                return (uint16_t)sign;
        return (uint16_t)(sign | round_off((magnitude & 0x7fffff) | 0x800000, 126 - field));
}

float half_float_from_bf16(uint16_t half) {
        return float_of((uint32_t)half << 16);
}

uint16_t half_float_to_bf16(float value) {
        uint32_t bits = bits_of(value);

        if ((bits & 0x7fffffff) > 0x7f800000)
                return (uint16_t)(bits >> 16 | 0x40); /* quiet bit: rounding must not turn it into
                                                       * an infinity */
        return (uint16_t)round_off(bits, 16);
}
