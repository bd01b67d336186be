/* SPDX-License-Identifier: BSD-3-Clause */
/* Things by the time at which they are due, soonest first: a binary heap of what is embedded in
 * them.
 *
 * Ownership.  Borrows its members; one must be removed before it goes.
 * Threads.  The owner's lock, or the owner's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embedded. Filled before it is pushed, and not changed while it is in a heap. */
struct due {
        uint64_t due_ns;
        size_t   at; /* place in the heap; the heap's */
};

struct due_heap {
        struct due **dues; /* owned array */
        size_t       n;
        size_t       cap;
};

void        due_heap_init(struct due_heap *h);
void        due_heap_done(struct due_heap *h);
bool        due_heap_push(struct due_heap *h, struct due *d); /* false: no memory */
void        due_heap_remove(struct due_heap *h, struct due *d);
struct due *due_heap_first(const struct due_heap *h); /* NULL when empty */
