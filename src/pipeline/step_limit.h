/* SPDX-License-Identifier: BSD-3-Clause */
/* The limit of the requests that one step of an ensemble runs at the same time
 * (max_inflight_requests): a counting semaphore that does not block threads.
 *
 * A step that finds no free place is put in a queue, and its thread continues with other work. A
 * step that leaves passes its place to the first of the queue, and its thread starts that one. A
 * timer removes a step from the queue when its deadline passes, and calls `expired` with it.
 *
 * Ownership.  The queue borrows its waiters.
 * Threads.  Any. No callback runs under the lock (rank LOCK_RATE_LIMITER). `expired` runs on the
 * timer thread, and may free the limit.
 */
#pragma once

#include "base/due_heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/timer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Embedded in the step that waits. */
struct step_waiter {
        struct list_node node; /* in the queue */
        struct due       due;  /* CLOCK_NEVER: no deadline */
};

typedef void (*step_expired_fn)(struct step_waiter *w);

struct step_limit {
        uint32_t             max; /* 0: no limit */
        struct timer_thread *timers;
        struct timer         timer;
        step_expired_fn      expired;

        struct mutex    lock; /* guards everything below */
        struct list     waiters;
        struct due_heap deadlines;    /* of the waiters that have one */
        uint64_t        timer_due_ns; /* when the timer fires; CLOCK_NEVER: not armed */
        uint32_t        n_inside;     /* steps that have a place */
};

/* `timers` outlives the limit. */
void step_limit_init(struct step_limit *l, uint32_t max, struct timer_thread *timers,
                     step_expired_fn expired);
void step_limit_done(struct step_limit *l); /* no step has a place or waits */

enum step_entry {
        STEP_INSIDE,
        STEP_WAITS,   /* until it gets a place, is withdrawn or expires */
        STEP_STOPPED, /* it would have to wait, and must not any more */
        STEP_OUT_OF_MEMORY,
};

/* deadline_ns: the end of the wait; CLOCK_NEVER for none. The thread that sets `is_stopping` calls
 * step_limit_withdraw() afterwards: so no step waits on. */
enum step_entry step_limit_enter(struct step_limit *l, struct step_waiter *w, uint64_t deadline_ns,
                                 const _Atomic bool *is_stopping) NODISCARD;
/* Gives a place back. Returns the waiter that has the place now, and that the caller must start;
 * NULL: none waited. */
struct step_waiter *step_limit_leave(struct step_limit *l) NODISCARD;
/* Removes a waiter from the queue. False: it does not wait, or no longer. */
bool step_limit_withdraw(struct step_limit *l, struct step_waiter *w) NODISCARD;
