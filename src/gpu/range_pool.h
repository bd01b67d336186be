/* SPDX-License-Identifier: BSD-3-Clause */
/* Divides a range of addresses into blocks: best fit, and free neighbours become one block. The addresses
 * are never read or written, so the range may be memory of a device. What is known about the blocks lies
 * outside of it.
 *
 *     | used | free      | used | used | free |       in the order of addresses: a list
 *               '----------------------'              free ones by size, then address: a treap
 *
 * A block's size is a multiple of the granule. Taking and giving back are O(log n).
 *
 * Ownership.  The pool owns its records. The range belongs to the caller.
 * Threads.  One at a time.
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range_pool;

/* `base` and `bytes` are multiples of `granule`. NULL when memory is short. */
struct range_pool *range_pool_new(uint64_t base, uint64_t bytes, uint64_t granule) NODISCARD;
void               range_pool_free(struct range_pool *p); /* NULL is fine */

/* Takes the smallest free block that is large enough, of several the one with the lowest address. Zero bytes
 * take a granule. False when there is none, or no memory for a record. */
bool range_pool_take(struct range_pool *p, uint64_t bytes, uint64_t *ret) NODISCARD;
/* False when the address is not the beginning of a used block. */
bool range_pool_give(struct range_pool *p, uint64_t address) NODISCARD;

uint64_t range_pool_used_bytes(const struct range_pool *p);
uint64_t range_pool_largest_free(const struct range_pool *p); /* 0: all is used */
size_t   range_pool_n_blocks(const struct range_pool *p);     /* used and free ones */
