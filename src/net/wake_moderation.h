/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that trickle in while models compute wake their loop a few at a time, not one by one.
 *
 * Clients that were answered together ask again within some 100 us, one after the other. Where a
 * loop and an instance share a core, each of these requests takes the core from the model for some
 * microseconds, to be put into a queue that nobody looks at before the batch is over. So a loop
 * that was woken twice in quick succession, each time for a request or two that went to instances,
 * looks at nothing but its mailbox for a moment. Network cards do the same with their interrupts.
 *
 * It costs latency only where requests come faster than they are answered: a mail, which is what an
 * answer is, begins anew, and ends a hold that is under way. Models that run on the loop's own
 * thread hand nothing over.
 *
 * Ownership.  Embedded in the loop.
 * Threads.  The loop's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The kernel may add its timer slack, 50 us unless told otherwise. */
#define WAKE_MODERATION_HOLD_NS UINT64_C(30000)
/* Rounds trickle when they end within so much of each other. */
#define WAKE_MODERATION_GAP_NS UINT64_C(40000)
/* With more at a time there is nothing to gain. */
#define WAKE_MODERATION_MAX_HANDED 2

struct wake_moderation {
        uint64_t trickled_ns; /* when the last round ended, if it trickled; otherwise 0 */
        unsigned n_handed;    /* in this round: requests that went to other threads */
        bool     has_mail;    /* in this round */
};

void wake_moderation_handed(struct wake_moderation *m);
void wake_moderation_mail(struct wake_moderation *m);

/* A round is over, and the loop is about to wait: for how long it looks at its mailbox alone; 0 = it
 * does not. The clock is asked only when it matters. */
uint64_t wake_moderation_end_round(struct wake_moderation *m, uint64_t (*now_ns)(void));
