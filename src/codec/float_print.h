/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the shortest decimal text that reads back as the same float, and the nearest of several.
 *
 * The digits come from Schubfach (Giulietti, "The Schubfach way to render doubles", 2020): scale
 * the float and both ends of its rounding interval by one power of ten, and the answer is among
 * four candidates. FP64 is scaled alone, and its ends are needed only in rare cases. Notation is that of the reference server's JSON: decimal from 1e-6 up to below
 * 1e21 ("0.000001", "100000.0"), else an exponent ("1e-7", "3.4028235e38"); always a dot or an
 * exponent; "-0.0" keeps its sign. Not-a-number is "NaN", infinities "Infinity", "-Infinity".
 *
 * Threads.  Pure functions.
 */
#pragma once

#include <stdint.h>

#define FLOAT_PRINT_MAX 32       /* longest text in bytes */
#define FLOAT_PRINT_MAX_POINT 21 /* digits before the dot; larger numbers have an exponent */
#define FLOAT_PRINT_ROOM 64 /* bytes that the functions may overwrite, so as to copy fixed sizes */

/* `out` has FLOAT_PRINT_ROOM bytes; returns the end of the text, which is not NUL-terminated. */
char *float_print_f32(char *out, float value);
char *float_print_f64(char *out, double value);
/* The same without shortcuts: for tests. */
char *float_print_f64_exactly(char *out, double value);
/* Puts "e-7"; |exponent| < 1000. */
char *float_print_exponent(char *out, int exponent);
