/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines on a loop's own thread, to the millisecond.
 *
 * Most deadlines are never reached: the answer comes first. So arming and cancelling only move a
 * pointer in a heap; the system's timer is set to the soonest of them and left there when that one
 * is cancelled. A wake-up for nothing now and then is cheaper than a change each time.
 *
 * Ownership.  A timer is embedded in its owner and must be cancelled before it is freed.
 * Threads.  The loop's. The callback may arm and cancel any timer, and free its own.
 */
#pragma once

#include "base/due_heap.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_timer;

typedef void (*loop_timer_fn)(struct loop_timer *t);

struct loop_timer {
        struct due    due;
        struct loop  *loop; /* borrowed: while armed; NULL otherwise */
        loop_timer_fn fire;
};

void loop_timer_init(struct loop_timer *t, loop_timer_fn fire);
/* Fires once, not before the monotonic time `due_ns`; moves it when it is armed. CLOCK_NEVER
 * disarms. False when memory is short: then it is not armed. */
bool loop_timer_arm(struct loop *l, struct loop_timer *t, uint64_t due_ns);
void loop_timer_cancel(struct loop_timer *t);
bool loop_timer_is_armed(const struct loop_timer *t);
