/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines on a loop's own thread, with a resolution of one millisecond.
 *
 * Most deadlines are never reached, because the answer comes first. So arming and cancelling only
 * change a heap. The loop's one system timer is set to the earliest deadline, and it stays set when
 * that deadline is cancelled: a rare spurious wake-up is cheaper than a system call for each change.
 *
 * Ownership.  A timer is embedded in its owner and must be cancelled before the owner is freed.
 * Threads.  The loop's thread. The callback may arm and cancel any timer, and free its own.
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
        struct loop  *loop; /* borrowed while armed; NULL otherwise */
        loop_timer_fn fire;
};

void loop_timer_init(struct loop_timer *t, loop_timer_fn fire);
/* Arms the timer, which then fires once, at or after the monotonic time `due_ns`. An armed timer gets
 * the new deadline; CLOCK_NEVER disarms it. False when memory is short; then the timer is not armed. */
bool loop_timer_arm(struct loop *l, struct loop_timer *t, uint64_t due_ns);
void loop_timer_cancel(struct loop_timer *t);
bool loop_timer_is_armed(const struct loop_timer *t);
