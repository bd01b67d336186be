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
/* So often nothing is found before the end is taken for returned: the first block may be from elsewhere in the heap. */
#define MAX_ABSENT 2

struct block {
        struct block *next;
};

/* Whether a page is in memory of those wholly in [at, at + size). It is asked of the memory behind a block, too, which is
 * not ours: of an end whose pages are not there, no more is allocated. Some settings of the C library write to each block,
 * and so each would bring pages. */
static bool has_pages(const char *at, size_t size) {
        size_t        page = (size_t)sysconf(_SC_PAGESIZE);
        uintptr_t     first = ((uintptr_t)at + page - 1) & ~(page - 1);
        uintptr_t     end = ((uintptr_t)at + size) & ~(page - 1);
        unsigned char is_resident[BLOCK_BYTES / LEAST_PAGE_BYTES + 1];

        if (first >= end || mincore((void *)first, end - first, is_resident) != 0)
                return false; /* not mapped: the heap ends there */
        for (size_t i = 0; i < (end - first) / page; i++)
                if (is_resident[i] & 1)
                        return true;
        return false;
}

/* Under a sanitizer blocks have no heap of this kind, and freed ones are kept. */
void heap_end_trim(void) {
#if defined(__GLIBC__) && !IS_SANITIZED
        struct block *blocks = NULL, *b;
        unsigned      n_absent = 0;

        for (size_t n = 0; n < MAX_BLOCKS && n_absent < MAX_ABSENT; n++) {
                b = malloc(BLOCK_BYTES);
                if (b == NULL)
                        break;
                b->next = blocks;
                blocks = b;
                mem_discard_pages(b + 1, BLOCK_BYTES - sizeof(*b));
                n_absent += !has_pages((char *)b + BLOCK_BYTES, BLOCK_BYTES);
        }
        while (blocks != NULL) {
                b = blocks;
                blocks = b->next;
                free(b);
        }
#else
        (void)has_pages;
#endif
}
