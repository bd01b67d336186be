/* SPDX-License-Identifier: BSD-3-Clause */
/* Has the core look at its model repositories every so often: --model-control-mode=poll.
 *
 * Ownership.  poller_start() makes it, poller_stop() ends it.
 * Threads.  One of its own; start and stop by the same thread. The core is asked with no lock held,
 * and a look that takes longer than the interval delays the next one; loads that it begins do not.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct TRITONSERVER_Server;
struct poller;

struct error *poller_start(struct TRITONSERVER_Server *core, uint64_t interval_ns,
                           struct poller **ret) NODISCARD;
/* Waits for a look that is at work. NULL is fine. */
void poller_stop(struct poller *p);
