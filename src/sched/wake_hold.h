/* SPDX-License-Identifier: BSD-3-Clause */
/* Wake-ups that a submitting thread holds back for a moment.
 *
 * An event loop often finds many requests at once. Waking an idle instance for the first of them
 * makes it run that one alone, on a shared core even before the loop reads the second. So a thread
 * that promises to ask before it waits (wake_hold_flush() at the end of each round of its loop) may
 * submit a few requests first; the instance then finds them all and makes one batch. A lone
 * request is not delayed: the round ends right after it. A round that takes longer than
 * WAKE_HOLD_NS does not hold anything back any longer.
 *
 * Ownership.  What is held keeps a reference to its model, and with it the scheduler.
 * Threads.  Everything here belongs to the calling thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct model;

/* Reading and submitting a small request takes some 5 us: time for a dozen of them. */
#define WAKE_HOLD_NS UINT64_C(60000)

typedef void (*wake_hold_fn)(void *scheduler);

/* False: this thread holds nothing back, or has no room; the caller wakes by itself. Otherwise
 * `wake(scheduler)` is called by the next flush, once however often it was added. May be called
 * with the scheduler's lock held. */
bool wake_hold_add(void *scheduler, struct model *model, wake_hold_fn wake);
/* After the lock is released: flushes when the first one has been held for too long. */
void wake_hold_check(uint64_t now_ns);
/* Wakes for everything held. The first call on a thread is its promise to call again before each
 * wait. No lock may be held. */
void wake_hold_flush(void);
