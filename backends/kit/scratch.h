/* SPDX-License-Identifier: BSD-3-Clause */
/* Checked sizes, and scratch memory that an instance keeps from one batch to the next.
 *
 * A scratch grows to the largest batch it has seen and stays that large: giving megabytes back and
 * taking them again costs a page fault for every 4 KiB, each time.
 *
 * Ownership.  The bytes of a scratch belong to it until the next kit_scratch_reserve() or done.
 * Threads.  A scratch has one user at a time; an instance never executes twice at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kit_scratch {
        void  *bytes; /* owned */
        size_t n_bytes;
};

/* At least n_bytes (n_bytes 0: any valid pointer), aligned to 64, contents undefined. NULL when
 * memory is short; the old contents are gone either way. */
void *kit_scratch_reserve(struct kit_scratch *scratch, size_t n_bytes);
void  kit_scratch_done(struct kit_scratch *scratch);

/* n * size zeroed bytes, NULL on overflow or when memory is short; free() ends it. */
void *kit_alloc_array(size_t n, size_t size);

/* True on success; *ret is written only then. */
static inline bool kit_size_mul(size_t a, size_t b, size_t *ret) {
        size_t product;

        if (__builtin_mul_overflow(a, b, &product))
                return false;
        *ret = product;
        return true;
}

static inline bool kit_size_add(size_t a, size_t b, size_t *ret) {
        size_t sum;

        if (__builtin_add_overflow(a, b, &sum))
                return false;
        *ret = sum;
        return true;
}

#ifdef __cplusplus
}
#endif
