/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation and checked size arithmetic.
 *
 * mem_* never return NULL: for small sizes that our own code fixes. When memory is short they take
 * from the reserve (base/reserve.h); without one they end the process with a clear message and exit code 1. try_*
 * may return NULL: for every size that a peer or a file can influence, after it was limited. Tests
 * let try_* calls fail with mem_fail_after() and mem_fail_once().
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void *mem_alloc(size_t size);              /* uninitialised; size 0 gives a unique pointer */
void *mem_zalloc(size_t size);             /* zeroed */
void *mem_realloc(void *old, size_t size); /* takes `old` */
/* Room for one item behind the n items of an array that grows by one item at a time: doubles the array
 * when n is 0 or a power of two. Takes `items`. */
void *mem_grow(void *items, size_t n, size_t item_bytes);
char *mem_strdup(const char *text); /* NULL gives NULL */
char *mem_strndup(const char *text, size_t len);
char *mem_printf(const char *format, ...) PRINTF_LIKE(1, 2);

/* `alignment` is a power of two and a multiple of sizeof(void *); released with free(). */
void *mem_aligned_alloc(size_t alignment, size_t size);

void *try_alloc(size_t size) NODISCARD;
void *try_zalloc(size_t size) NODISCARD;
void *try_realloc(void *old, size_t size)
        NODISCARD; /* on NULL, `old` still belongs to the caller */
/* try_* variant of mem_aligned_alloc(). */
void *try_aligned_alloc(size_t alignment, size_t size) NODISCARD;

/* Returns freed memory to the system, which free() alone rarely does: what lies between blocks, of all threads; the end
 * of a heap is for heap_end_trim() (base/heap_end.h). It walks all freed memory with the allocator's locks held: call
 * it when the server is idle. */
void mem_trim(void);

/* Discards the contents of whole pages and returns them to the system; the next write maps zeroed
 * pages. For blocks of megabytes. */
void mem_discard_pages(void *at, size_t size);

/* Pages straight from the system, for a block that grows by megabytes: try_remap() moves page
 * tables, not bytes. A size is a multiple of the page size (mem_round_to_pages()). The pages are
 * zeroed, and take memory once they are written. NULL when there is none; the old block is then
 * unchanged. */
void  *try_map(size_t size) NODISCARD;
void  *try_remap(void *block, size_t size, size_t new_size) NODISCARD;
void   mem_unmap(void *at, size_t size); /* a block, or the pages at its end */
size_t mem_round_to_pages(size_t size);  /* `size` is less than SIZE_MAX / 2 */

/* Freeing many megabytes takes long, since the system visits each page. On a thread that must not
 * block, mem_free_large() and mem_unmap_large() pass blocks of MEM_LARGE_BYTES and more to `take`,
 * which frees them little by little; `take` returns false for a block that it did not take. On
 * other threads they are free() and mem_unmap(). */
#define MEM_LARGE_BYTES ((size_t)4 << 20)
typedef bool (*mem_take_fn)(void *block, size_t size, bool is_mapped);
void mem_free_large_by(mem_take_fn take); /* for the calling thread; NULL removes it */
void mem_free_large(void *block, size_t size);
void mem_unmap_large(void *block, size_t size);

/* Makes the n-th try_* call from now (1 = the next) and all later ones fail; 0 turns it off. Per
 * thread; for tests. */
void mem_fail_after(unsigned n);
/* As mem_fail_after(), but the later calls succeed: what is said about the failure has memory. */
void mem_fail_once(unsigned n);
bool mem_fail_was_hit(void);
/* Whether a failure is to come: callers then use no preallocated memory, so that a test reaches
 * every allocation. */
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
