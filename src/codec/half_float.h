/* SPDX-License-Identifier: BSD-3-Clause */
/* The two 16-bit floats of tensors: FP16 (IEEE 754 binary16) and BF16 (upper half of binary32).
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even; values that are too large become an
 * infinity; denormals are kept; a NaN stays a NaN (quiet, with the upper bits of its payload).
 *
 * Threads.  Pure functions.
 */
#pragma once

#include <stdint.h>

float    half_float_from_fp16(uint16_t bits);
uint16_t half_float_to_fp16(float value);
float    half_float_from_bf16(uint16_t bits);
uint16_t half_float_to_bf16(float value);
