/* SPDX-License-Identifier: BSD-3-Clause */
/* Powers of ten to 128 bits, for parsing and printing floats; and the 128-bit product.
 *
 * Entry q - POW10_MIN holds the 128 upper bits of 10^q, rounded up: the smallest integer that is
 * not below 10^q * 2^(127 - floor(log2(10^q))). So the top bit of `hi` is always set. Entries are
 * exact for 0 <= q <= 55 and only there; `lo` of the others is never zero, so that subtracting one
 * from `lo` gives the power rounded down. tools/make_pow10.py writes the tables when the program is built.
 *
 * Threads.  Constants.
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

#define POW10_MIN (-342) /* below it, even 2^64 * 10^q is zero as FP64 */
#define POW10_MAX 324    /* needed to print the smallest FP64 */

struct pow10 {
        uint64_t hi;
        uint64_t lo;
};

extern const struct pow10 pow10_table[POW10_MAX - POW10_MIN + 1];

/* The powers that fit into 64 bits: 10^0 to 10^19. */
extern const uint64_t pow10_u64[20];

static inline const struct pow10 *pow10_get(int q) {
        return &pow10_table[q - POW10_MIN];
}

static inline bool pow10_is_exact(int q) {
        return q >= 0 && q <= 55;
}

/* floor(log2(10^q)), valid for |q| <= 1233. */
static inline int pow10_floor_log2(int q) {
        return (q * 1741647) >> 19;
}

/* a * b, all 128 bits. */
static inline struct pow10 pow10_multiply(uint64_t a, uint64_t b) {
        __extension__ unsigned __int128 product = (unsigned __int128)a * b;

        return (struct pow10){ (uint64_t)(product >> 64), (uint64_t)product };
}
