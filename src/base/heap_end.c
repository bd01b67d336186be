/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/heap_end.h"

#include "base/compiler.h"
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The end is free memory, so it is had by allocating it. Larger blocks, from 128 KiB on, may be mapped from the system
 * instead (mallopt(3), M_MMAP_THRESHOLD). */
#define BLOCK_BYTES ((size_t)120 << 10)
/* A heap has at most 64 MiB, and begins at a multiple of that; but the first one ends at sbrk(0). */
#define HEAP_BYTES ((size_t)64 << 20)
#define MAX_BLOCKS (HEAP_BYTES / BLOCK_BYTES)
/* Limit of the blocks without pages that malloc() gives from free room between others, before the free end. */
#define MAX_ABSENT 64

struct block {
        struct block *next;
};

/* Pages that one system call looks at: few at first, since pages are mostly found at once, or not at all. */
#define FIRST_LOOK_PAGES 32
#define MAX_LOOK_PAGES 4096

/* Whether a page is in memory of those wholly in [at, end). It is asked of the memory behind a block, too, which is
 * not ours: of an end whose pages are not there, no more is allocated. Some settings of the C library write to each block,
 * and so each would bring pages. */
static bool has_pages(uintptr_t at, uintptr_t end) {
        size_t        page = (size_t)sysconf(_SC_PAGESIZE);
        size_t        look = FIRST_LOOK_PAGES;
        unsigned char is_resident[MAX_LOOK_PAGES];

        at = (at + page - 1) & ~(page - 1);
        end &= ~(page - 1);
        while (at < end) {
                size_t n = MIN((end - at) / page, look);

                if (mincore((void *)at, n * page, is_resident) != 0)
                        return false; /* not mapped: the heap ends there */
                for (size_t i = 0; i < n; i++)
                        if (is_resident[i] & 1)
                                return true;
                at += n * page;
                look = MIN(2 * look, MAX_LOOK_PAGES);
        }
        return false;
}

static uintptr_t end_of_heap(uintptr_t at) {
        uintptr_t end_of_first = (uintptr_t)sbrk(0);

        return at <= end_of_first ? end_of_first : (at + HEAP_BYTES - 1) & ~(HEAP_BYTES - 1);
}

/* Under a sanitizer blocks have no heap of this kind, and freed ones are kept. */
void heap_end_trim(void) {
#if defined(__GLIBC__) && !IS_SANITIZED
        struct block *blocks = NULL, *b;
        unsigned      n_absent = 0;
        uintptr_t     behind;

        for (size_t n = 0; n < MAX_BLOCKS && n_absent < MAX_ABSENT; n++) {
                b = malloc(BLOCK_BYTES);
                if (b == NULL)
                        break;
                b->next = blocks;
                blocks = b;
                mem_discard_pages(b + 1, BLOCK_BYTES - sizeof(*b));
                behind = (uintptr_t)b + BLOCK_BYTES;
                if (!has_pages(behind, end_of_heap(behind)))
                        break;
                n_absent += !has_pages(behind, behind + BLOCK_BYTES);
        }
        while (blocks != NULL) {
                b = blocks;
                blocks = b->next;
                free(b);
        }
#else
        (void)has_pages;
        (void)end_of_heap;
#endif
}
