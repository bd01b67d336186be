/* SPDX-License-Identifier: BSD-3-Clause */
/* A few threads that compute what would hold a loop for too long, first come, first served.
 *
 * The number of threads is bounded, and so is what they take from those that serve: each has a
 * smaller share of the CPUs (thread_step_back()). Threads start when there is work for them and
 * then stay. The queue holds no more than its users bring: each piece of work is embedded in the
 * request that it belongs to, and a request has one at a time.
 *
 * Ownership.  A piece of work is the pool's from push until run() has returned, or until it was
 * taken back. run() may end the memory that it lies in.
 * Threads.  push and take_back: any. new and free: one, when nobody else uses the pool.
 */
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>

struct work_pool;
struct work;

typedef void (*work_fn)(struct work *w);

struct work {
        struct list_node node; /* the pool's: linked while it waits */
        work_fn          run;  /* on a thread of the pool */
};

/* `name` is that of its threads; static. */
struct work_pool *work_pool_new(const char *name, size_t max_threads);
/* Waits for everything that was pushed; NULL is fine. */
void              work_pool_free(struct work_pool *p);

/* False, and the work is still the caller's, when there is no thread and none can be had. */
bool              work_pool_push(struct work_pool *p, struct work *w) NODISCARD;
/* True, and the work is the caller's again, when it has not begun. */
bool              work_pool_take_back(struct work_pool *p, struct work *w) NODISCARD;
