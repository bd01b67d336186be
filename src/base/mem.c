/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"

#include "base/reserve.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* For tests: number of the try_* call that fails first; 0 is off. */
static _Thread_local TLS_EARLY unsigned fail_countdown;
static _Thread_local TLS_EARLY bool     fail_was_hit;
static _Thread_local TLS_EARLY bool     fail_is_once;

void mem_fail_after(unsigned n) {
        fail_countdown = n;
        fail_was_hit = fail_is_once = false;
}

void mem_fail_once(unsigned n) {
        mem_fail_after(n);
        fail_is_once = true;
}

bool mem_fail_was_hit(void) {
        return fail_was_hit;
}

bool mem_may_fail(void) {
        return fail_countdown > 0;
}

static bool must_fail(size_t size) {
        if (size > PTRDIFF_MAX) /* no object can be larger */
                return true;
        if (fail_countdown == 0)
                return false;
        if (fail_countdown > 1) {
                fail_countdown--;
                return false;
        }
        fail_was_hit = true;
        fail_countdown = fail_is_once ? 0 : 1; /* 1: every later call fails as well */
        return true;
}

/* Without a core file: on a machine without memory, writing one would hold up the restart. */
static COLD NORETURN void end_process(size_t size) {
        fprintf(stderr, "out of memory: unable to allocate %zu bytes\n", size);
        _exit(EXIT_FAILURE);
}

/* Called when the allocator has no memory. */
static COLD void *take_reserve(size_t size) {
        void *memory = reserve_take(size);

        if (memory == NULL)
                end_process(size);
        return memory;
}

/* malloc(0) may return NULL, which would look like a failure. */
static size_t at_least_one(size_t size) {
        return size > 0 ? size : 1;
}

#define MIN_ITEMS 4 /* of mem_grow() */

/* docs/decisions/huge-pages.md */
#define HUGE_PAGE_BYTES ((uintptr_t)2 << 20)
#define SMALL_PAGES_BYTES ((size_t)1 << 20)

/* Asks the system to back these pages by huge ones where it has some. A system without them says no. */
static void prefer_huge_pages(void *pages, size_t size) {
        if (size >= MEM_LARGE_BYTES)
                (void)madvise(pages, size, MADV_HUGEPAGE);
}

/* The same for a block that is written from its start on, all but its first mebibyte: of a buffer that a peer announced
 * and does not send, the first page that is touched is a small one. */
static void prefer_huge_pages_behind(void *block, size_t size) {
        uintptr_t at = (uintptr_t)block;
        uintptr_t first = (at + SMALL_PAGES_BYTES + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1);
        uintptr_t end = (at + size) & ~(HUGE_PAGE_BYTES - 1);

        if (size >= MEM_LARGE_BYTES && first < end)
                (void)madvise((char *)block + (first - at), end - first, MADV_HUGEPAGE);
}

void *mem_alloc(size_t size) {
        void *memory = malloc(at_least_one(size));

        return memory != NULL ? memory : take_reserve(size);
}

void *mem_aligned_alloc(size_t alignment, size_t size) {
        void *memory = NULL;

        if (posix_memalign(&memory, alignment, at_least_one(size)) == 0)
                return memory;
        if (alignment > RESERVE_ALIGNMENT)
                end_process(size);
        return take_reserve(size);
}

void *mem_zalloc(size_t size) {
        void *memory = calloc(1, at_least_one(size));

        return memory != NULL ? memory : memset(take_reserve(size), 0, size);
}

void *mem_realloc(void *old, size_t size) {
        void *memory = realloc(old, at_least_one(size));

        if (memory == NULL && (memory = reserve_move(old, size)) == NULL)
                end_process(size);
        return memory;
}

void *mem_grow(void *items, size_t n, size_t item_bytes) {
        size_t bytes;

        if (n != 0 && (n < MIN_ITEMS || (n & (n - 1)) != 0))
                return items;
        if (!size_mul(MAX(2 * n, MIN_ITEMS), item_bytes, &bytes))
                end_process(SIZE_MAX);
        return mem_realloc(items, bytes);
}

char *mem_strndup(const char *text, size_t len) {
        char  *copy;
        size_t total;

        if (!size_add(len, 1, &total))
                end_process(len);
        copy = mem_alloc(total);
        if (len > 0)
                memcpy(copy, text, len);
        copy[len] = '\0';
        return copy;
}

char *mem_strdup(const char *text) {
        return text != NULL ? mem_strndup(text, strlen(text)) : NULL;
}

char *mem_printf(const char *format, ...) {
        va_list args, again;
        char   *text;
        int     len;

        va_start(args, format);
        va_copy(again, args);
        len = vsnprintf(NULL, 0, format, again);
        va_end(again);
        if (len < 0)
                end_process(0);
        text = mem_alloc((size_t)len + 1);
        vsnprintf(text, (size_t)len + 1, format, args);
        va_end(args);
        return text;
}

void *try_alloc(size_t size) {
        return must_fail(size) ? NULL : malloc(at_least_one(size));
}

void *try_zalloc(size_t size) {
        return must_fail(size) ? NULL : calloc(1, at_least_one(size));
}

void *try_realloc(void *old, size_t size) {
        return must_fail(size) ? NULL : realloc(old, at_least_one(size));
}

void *try_aligned_alloc(size_t alignment, size_t size) {
        void *memory = NULL;

        if (must_fail(size) || posix_memalign(&memory, alignment, at_least_one(size)) != 0)
                return NULL;
        prefer_huge_pages_behind(memory, size);
        return memory;
}

void mem_discard_pages(void *at, size_t size) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t first = ((uintptr_t)at + page - 1) & ~(page - 1);
        uintptr_t end = ((uintptr_t)at + size) & ~(page - 1);

        if (first < end) /* after a failure the pages stay as they are */
                madvise((char *)at + (first - (uintptr_t)at), end - first, MADV_DONTNEED);
}

size_t mem_round_to_pages(size_t size) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);

        return (size + page - 1) & ~(page - 1);
}

void *try_map(size_t size) {
        void *block;

        if (must_fail(size))
                return NULL;
        block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return block == MAP_FAILED ? NULL : block;
}

void *try_remap(void *block, size_t size, size_t new_size) {
        void *moved;

        if (must_fail(new_size))
                return NULL;
        moved = mremap(block, size, new_size, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED)
                return NULL;
        prefer_huge_pages(moved, new_size); /* all of it: one mapping, or it could not grow again */
        return moved;
}

void mem_unmap(void *at, size_t size) {
        munmap(at, size);
}

static _Thread_local TLS_EARLY mem_take_fn take_large;

void mem_free_large_by(mem_take_fn take) {
        take_large = take;
}

void mem_free_large(void *block, size_t size) {
        if (size < MEM_LARGE_BYTES || take_large == NULL || !take_large(block, size, false))
                free(block);
}

void mem_unmap_large(void *block, size_t size) {
        if (size < MEM_LARGE_BYTES || take_large == NULL || !take_large(block, size, true))
                mem_unmap(block, size);
}

void mem_trim(void) {
#ifdef __GLIBC__
        malloc_trim(0);
#endif
}
