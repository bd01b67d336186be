/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers that fire on a thread of their own: one thread per server.
 *
 * A queue's requests must time out even while every instance is executing, so the instance threads
 * cannot do it. A timer is armed with an absolute time and calls back once.
 *
 * Ownership.  A timer is embedded in its owner and must be cancelled before it is freed.
 * Threads.  Any. The callback runs on the timer thread with no lock held; it may arm its own timer
 * again. timer_cancel() returns after a running callback of that timer has ended, unless it is
 * called from within that callback.
 */
#pragma once

#include "base/due_heap.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer_thread;
struct timer;

typedef void (*timer_fn)(struct timer *t);

struct timer {
        struct due due; /* due_ns is CLOCK_NEVER when not armed */
        timer_fn   fire;
};

struct error *timer_thread_new(struct timer_thread **ret) NODISCARD;
void          timer_thread_free(struct timer_thread *thread); /* no timer may be armed */

void timer_init(struct timer *t, timer_fn fire);
/* Arms or moves a timer; due_ns CLOCK_NEVER disarms it. */
void timer_arm(struct timer_thread *thread, struct timer *t, uint64_t due_ns);
void timer_cancel(struct timer_thread *thread, struct timer *t);
