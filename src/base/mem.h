/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation and checked size arithmetic.
 *
 * mem_* never return NULL: sizes that our own code fixes, and small. When memory is short they take
 * from the reserve (base/reserve.h), and without one the process ends with a clear line. try_*
 * return NULL: every size that a peer or a file can influence, after it was limited. Tests make the
 * n-th try_alloc fail with mem_fail_after().
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void *mem_alloc(size_t size);              /* uninitialised; size 0 gives a unique pointer */
void *mem_zalloc(size_t size);             /* zeroed */
void *mem_realloc(void *old, size_t size); /* takes old */
char *mem_strdup(const char *text);        /* NULL gives NULL */
char *mem_strndup(const char *text, size_t len);
char *mem_printf(const char *format, ...) PRINTF_LIKE(1, 2);

/* `alignment` is a power of two and a multiple of sizeof(void *); released with free(). */
void *mem_aligned_alloc(size_t alignment, size_t size);

void *try_alloc(size_t size) NODISCARD;
void *try_zalloc(size_t size) NODISCARD;
void *try_realloc(void *old, size_t size) NODISCARD; /* on NULL, old is still the caller's */
/* As above. */
void *try_aligned_alloc(size_t alignment, size_t size) NODISCARD;

/* Gives what was freed back to the system, which free() alone rarely does. It looks through all of
 * it with the allocator's locks held: for quiet moments. */
void mem_give_back(void);

/* What is there is not needed any more: its whole pages go back to the system, and come again,
 * zeroed, when somebody writes there. For blocks of megabytes. */
void mem_forget(void *at, size_t size);

/* Giving back many megabytes takes long: the system looks at each page. On a thread that must not take
 * long, blocks of MEM_LARGE_BYTES and more go to `take`, which frees them little by little; false: it
 * did not take it. Elsewhere mem_free_large() is free(). */
#define MEM_LARGE_BYTES ((size_t)4 << 20)
typedef bool (*mem_take_fn)(void *block, size_t size);
void mem_free_large_by(mem_take_fn take); /* of this thread; NULL = as before */
void mem_free_large(void *block, size_t size);

/* The n-th try_* call from now (1 = the next) fails, and every later one too; 0 turns it off.
 * Per thread; for tests. */
void mem_fail_after(unsigned n);
bool mem_fail_was_hit(void);
/* Whether that is turned on: then memory that was set aside is left alone, so that a test meets each
 * allocation there can be. */
bool mem_may_fail(void);

/* True on success; *ret is written only then. */
static inline bool size_add(size_t a, size_t b, size_t *ret) {
        size_t sum;

        if (__builtin_add_overflow(a, b, &sum))
                return false;
        *ret = sum;
        return true;
}

static inline bool size_mul(size_t a, size_t b, size_t *ret) {
        size_t product;

        if (__builtin_mul_overflow(a, b, &product))
                return false;
        *ret = product;
        return true;
}

DEFINE_CLEANUP(mem_cleanup, char *, free)
#define AUTO_CHARS CLEANUP(mem_cleanup) char *
