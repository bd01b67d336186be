/* SPDX-License-Identifier: BSD-3-Clause */
/* Checked sizes, and scratch memory that an instance keeps from one batch to the next.
 *
 * A scratch grows to the size of the largest batch and keeps it: to return megabytes and allocate
 * them again costs a page fault for every 4 KiB, each time.
 *
 * Ownership.  The scratch owns its bytes; they are valid until the next kit_scratch_reserve() or
 * done.
 * Threads.  One user at a time; an instance runs one execution at a time.
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

/* Returns at least n_bytes, aligned to 64, with undefined contents (n_bytes 0: any valid pointer).
 * NULL when memory is short. The old contents are lost in both cases. */
void *kit_scratch_reserve(struct kit_scratch *scratch, size_t n_bytes);
void  kit_scratch_done(struct kit_scratch *scratch);

/* Returns n * size zeroed bytes, which the caller frees; NULL on overflow or when memory is
 * short. */
void *kit_alloc_array(size_t n, size_t size);

/* Returns true on success; *ret is written only then. */
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
