/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints runs of FP32, as float_print_f32() prints each, four at a time where the CPU has AVX2.
 *
 * The arithmetic of Schubfach has no branches, so four floats go through it in the lanes of one
 * vector. A lane leaves with at most nine digits and the place of the dot; one shuffle of 16 bytes
 * then makes its text. Four whole numbers, and each subnormal one, zero, infinity and not-a-number
 * are printed by float_print_f32().
 *
 * Threads.  Pure functions.
 */
#pragma once

#include <stddef.h>

/* Prints n floats, each followed by a comma, and returns the end. `in` may be unaligned. The text
 * has at most FLOAT_PRINT_MAX + 1 bytes a float; up to FLOAT_PRINT_ROOM bytes after it may be
 * overwritten. */
char *float_print_f32_run(char *out, const char *in, size_t n);
