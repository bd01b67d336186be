/* SPDX-License-Identifier: BSD-3-Clause */
/* A work pool: a bounded number of threads that run work in the order of submission.
 *
 * A thread starts when work is pushed and fewer than the maximum run, and ends when no work waits.
 * Work that never returns occupies its thread only: the others continue as long as the maximum is
 * larger than one. The queue needs no bound of its own, since each piece of work is embedded in the
 * request or the load that it belongs to.
 *
 * Ownership.  The pool owns a piece of work from work_pool_push() until run() begins, or until
 * work_pool_take_back() returns true. run() may free the memory that the work lies in.
 * Threads.  Push and take_back: any. New and free: one, while no other thread uses the pool. The
 * lock (rank LOCK_LEAF) is not held while work runs.
 */
#pragma once

#include "base/compiler.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>

struct work_pool;
struct work;

typedef void (*work_fn)(struct work *w);

struct work {
        struct list_node node; /* linked while it waits; set by the pool */
        work_fn          run;
};

/* How the pool's threads share the CPUs with threads that serve requests (base/thread.h). */
enum work_priority {
        WORK_BACKGROUND, /* same share, later turns: thread_enter_background(). Work may start threads */
        WORK_LOW_PRIORITY, /* smaller share: thread_lower_priority(). Work starts no threads */
};

/* `name` is the name of each thread; static. */
struct work_pool *work_pool_new(const char *name, size_t max_threads, enum work_priority priority);
/* Waits until all work has run. NULL is fine. */
void work_pool_free(struct work_pool *p);

/* Does not wait for the work. When no thread runs and none can be started, the caller runs it. */
void work_pool_push(struct work_pool *p, struct work *w);
/* True when the work had not begun: it belongs to the caller again. */
bool work_pool_take_back(struct work_pool *p, struct work *w) NODISCARD;

/* For a piece of work that is running: another one may take its place while it waits for a moment to come.
 * Up to three times the maximum of threads can wait in addition; work that waits beyond that keeps its place.
 * The end returns when fewer than the maximum run. */
void work_pool_begin_wait(struct work_pool *p);
void work_pool_end_wait(struct work_pool *p);

/* Runs n pieces of work on at most max_threads threads, which give way, and waits for all of them. The
 * caller helps when fewer threads than that can be started. */
void work_run_all(const char *name, struct work **works, size_t n, size_t max_threads);
