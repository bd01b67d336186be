/* SPDX-License-Identifier: BSD-3-Clause */
/* A priority queue by due time, soonest first: a binary heap of embedded members.
 *
 * Ownership.  Borrows its members; a member must be removed before it is freed.
 * Threads.  The owner's lock, or the owner's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embedded in a member. Filled before it is pushed, and not changed while it is in a heap. */
struct due {
        uint64_t due_ns;
        size_t   at; /* position in the array; set by the heap */
};

struct due_heap {
        struct due **dues; /* owned array */
        size_t       n;
        size_t       cap;
};

void due_heap_init(struct due_heap *h);
void due_heap_done(struct due_heap *h);
bool due_heap_push(struct due_heap *h, struct due *d); /* false: no memory */
/* Makes room for one more, so that the next push does not fail. Takes memory as mem_realloc() does. */
void        due_heap_need(struct due_heap *h);
void        due_heap_remove(struct due_heap *h, struct due *d);
struct due *due_heap_first(const struct due_heap *h); /* NULL when empty */
