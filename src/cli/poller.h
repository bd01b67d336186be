/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the core check its model repositories for changes at regular intervals:
 * --model-control-mode=poll.
 *
 * Ownership.  poller_start() creates it, poller_stop() frees it.
 * Threads.  It has a thread of its own; the same thread starts and stops it. It calls the core with
 * no lock held. A check that takes longer than the interval delays the next one; the loads that a
 * check begins do not.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct TRITONSERVER_Server;
struct poller;

struct error *poller_start(struct TRITONSERVER_Server *core, uint64_t interval_ns,
                           struct poller **ret) NODISCARD;
/* Waits for the end of a running check. NULL is fine. */
void poller_stop(struct poller *p);
