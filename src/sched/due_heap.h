/* SPDX-License-Identifier: BSD-3-Clause */
/* Queued requests by the time at which they expire, soonest first.
 *
 * Ownership.  Borrows the requests; a request must be removed before it leaves the queue.
 * Threads.  The queue's lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

struct due_heap {
        struct request **requests; /* owned array */
        size_t           n;
        size_t           cap;
};

void            due_heap_init(struct due_heap *h);
void            due_heap_done(struct due_heap *h);
bool            due_heap_push(struct due_heap *h, struct request *req); /* false: no memory */
void            due_heap_remove(struct due_heap *h, struct request *req);
struct request *due_heap_first(const struct due_heap *h); /* NULL when empty */
