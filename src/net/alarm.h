/* SPDX-License-Identifier: BSD-3-Clause */
/* An exact deadline on a loop's own thread: a timer of the kernel, with a resolution of nanoseconds, where
 * loop_timer.h has milliseconds. Each alarm is a descriptor, and arming it a system call.
 *
 * Ownership.  alarm_open() creates it; alarm_close() ends it, and its memory is freed by the loop later.
 * Threads.  The loop's thread. The callback may arm and close its alarm.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct alarm;
struct loop;

typedef void (*alarm_fn)(void *owner);

struct error *alarm_open(struct loop *l, alarm_fn fire, void *owner, struct alarm **ret) NODISCARD;
void          alarm_close(struct alarm *a); /* NULL is fine */
/* Calls `fire` once at the monotonic time, or soon when that has passed; the earlier deadline of an armed
 * alarm is forgotten. CLOCK_NEVER disarms it. */
void alarm_arm(struct alarm *a, uint64_t due_ns);
