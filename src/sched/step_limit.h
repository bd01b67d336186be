/* SPDX-License-Identifier: BSD-3-Clause */
/* At most so many requests of one step of an ensemble at the same time: max_inflight_requests.
 *
 * A step that finds no room waits in a line, not on its thread; the one that leaves hands its room to
 * the first of the line, and the caller starts that one. A step whose deadline passes leaves the line
 * at once, without room: a timer calls `expired` with it.
 *
 * Ownership.  The line borrows its waiters.
 * Threads.  Any. Nothing is called under the lock (rank LOCK_RATE_LIMITER). `expired` runs on the timer
 * thread, and may free the limit.
 */
#pragma once

#include "base/due_heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/timer.h"

#include <stdbool.h>
#include <stdint.h>

/* Embedded in what waits. */
struct step_waiter {
        struct list_node node; /* in the line */
        struct due       due;  /* CLOCK_NEVER: it waits without a deadline */
};

typedef void (*step_expired_fn)(struct step_waiter *w);

struct step_limit {
        uint32_t             max; /* 0: no limit */
        struct timer_thread *timers;
        struct timer         timer;
        step_expired_fn      expired;

        struct mutex    lock; /* guards everything below */
        struct list     waiters;
        struct due_heap deadlines;    /* of the line, those with a deadline */
        uint64_t        timer_due_ns; /* when the timer fires */
        uint32_t        n_inside;     /* inside */
};

/* `timers` outlives the limit. */
void step_limit_init(struct step_limit *l, uint32_t max, struct timer_thread *timers,
                     step_expired_fn expired);
void step_limit_done(struct step_limit *l); /* none is inside or waits */

enum step_entry {
        STEP_INSIDE,
        STEP_WAITS, /* in the line, until it is handed room, withdrawn or expired */
        STEP_OUT_OF_MEMORY,
};

/* deadline_ns: CLOCK_NEVER, or when it does not want to wait any longer. */
enum step_entry step_limit_enter(struct step_limit *l, struct step_waiter *w, uint64_t deadline_ns)
        NODISCARD;
/* The one that has the room from now on, and is to be started; NULL: none waits. */
struct step_waiter *step_limit_leave(struct step_limit *l) NODISCARD;
/* True: it waited, and does not any more. */
bool step_limit_withdraw(struct step_limit *l, struct step_waiter *w) NODISCARD;
