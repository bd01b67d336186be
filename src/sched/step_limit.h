/* SPDX-License-Identifier: BSD-3-Clause */
/* At most so many requests of one step of an ensemble at the same time: max_inflight_requests.
 *
 * A step that finds no room waits in a line, not on its thread; whoever leaves hands the room to the
 * first of the line and starts it.
 *
 * Threads.  Any. Nothing is called under the lock (rank LOCK_RATE_LIMITER).
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"

#include <stdbool.h>
#include <stdint.h>

struct step_limit {
        struct mutex lock; /* guards everything below */
        struct list  line;
        uint32_t     max; /* 0: no limit */
        uint32_t     n;   /* inside */
};

void step_limit_init(struct step_limit *l, uint32_t max);
void step_limit_done(struct step_limit *l); /* nobody is inside or waits */

/* False: it waits in the line. */
bool step_limit_enter(struct step_limit *l, struct list_node *n) NODISCARD;
/* The one that has the room from now on, and is to be started; NULL: nobody waits. */
struct list_node *step_limit_leave(struct step_limit *l) NODISCARD;
/* True: it waited, and does not any more. */
bool step_limit_withdraw(struct step_limit *l, struct list_node *n) NODISCARD;
