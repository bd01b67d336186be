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
#define LEAST_PAGE_BYTES 4096
/* A heap has at most 64 MiB. */
#define MAX_BLOCKS (((size_t)64 << 20) / BLOCK_BYTES)
/* So many blocks without a page are found before the end is taken for returned: the first ones may be from elsewhere in
 * the heap. */
#define MAX_EMPTY 2

struct block {
        struct block *next;
};

/* The pages that are wholly in it. Returns whether there were any. */
static bool discard_pages(struct block *b) {
        size_t        page = (size_t)sysconf(_SC_PAGESIZE);
        unsigned char is_resident[BLOCK_BYTES / LEAST_PAGE_BYTES];
        uintptr_t     first, end;
        bool          has_pages = false;

        first = ((uintptr_t)(b + 1) + page - 1) & ~(page - 1);
        end = ((uintptr_t)b + BLOCK_BYTES) & ~(page - 1);
        if (first >= end || mincore((void *)first, end - first, is_resident) != 0)
                return false;
        for (size_t i = 0; i < (end - first) / page; i++)
                has_pages |= is_resident[i] & 1;
        if (has_pages)
                mem_discard_pages((void *)first, end - first);
        return has_pages;
}

/* Under a sanitizer blocks have no heap of this kind, and freed ones are kept. */
void heap_end_trim(void) {
#if defined(__GLIBC__) && !IS_SANITIZED
        struct block *blocks = NULL, *b;
        unsigned      n_empty = 0;

        for (size_t n = 0; n < MAX_BLOCKS && n_empty < MAX_EMPTY; n++) {
                b = malloc(BLOCK_BYTES);
                if (b == NULL)
                        break;
                b->next = blocks;
                blocks = b;
                n_empty += !discard_pages(b);
        }
        while (blocks != NULL) {
                b = blocks;
                blocks = b->next;
                free(b);
        }
#else
        (void)discard_pages;
#endif
}
