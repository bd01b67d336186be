/* SPDX-License-Identifier: BSD-3-Clause */
/* How the main thread of a load waits: for time, for progress of the workers, and for SIGINT, SIGTERM or
 * SIGHUP.
 *
 * Ownership.  waiter_open(), waiter_close(). The signals are blocked and read here until it is closed.
 * Threads.  waiter_wake(): any thread. Others: the main thread.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct waiter {
        int  signal_fd, wake_fd; /* owned */
        bool is_interrupted;
};

struct error *waiter_open(struct waiter *w) NODISCARD;
void          waiter_close(struct waiter *w);
void          waiter_wake(struct waiter *w);
/* Waits until the monotonic time, a wake-up or a signal. */
void waiter_wait(struct waiter *w, uint64_t until_ns);
