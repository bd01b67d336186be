/* SPDX-License-Identifier: BSD-3-Clause */
/* For base/keyed_hash.c: sums with carry-less products, on processors that compute several at once.
 * They take a fifth off a cache hit of 64 KiB and of 1 MiB (`bench/run.py --only=cache`).
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether this processor has the instructions (x86-64: VPCLMULQDQ and AVX2). */
bool carryless_is_there(void);

/* Adds pairs to both sums; only for processors with the instructions. */
void carryless_add(uint128 sum[2], const uint64_t *key, const unsigned char *pairs, size_t n_pairs);
