/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may execute next when executions are limited by resources: --rate-limit=execution_count.
 *
 * Each instance of a model has a claim; the claims of a model form a group. A group asks for one
 * turn when it has a batch to run; then all its claims that are not executing stand in the line.
 * The line is ordered by scaled priority, which is executions so far x max(1, priority), the lowest
 * first; of equals, who came first. The first whose resources are free gets the turn, for its
 * group, which asks again when it has more.
 *
 *     resting --ask--> in line --resources are free, turn comes--> on turn --end--> resting
 *
 * Who goes on working asks before it ends its turn, so that it stands in the line when the next one
 * is picked.
 *
 * Nobody overtakes in a pool: while one waits for a resource, who stands behind and needs the same
 * resource waits as well, so large needs are not starved by small ones. Claims that have nothing in
 * common do not wait for each other.
 *
 * A new claim begins where the lowest one stands, not at zero: others have not to wait until a
 * model that was loaded late, or again, has caught up with them.
 *
 * Nothing here reads a clock, has a thread or blocks, but for rate_claim_free(). A turn is told
 * by rate_limiter_deliver(), which is to be called after every function that says so, once the
 * caller holds no lock.
 *
 * Ownership.  A group is its scheduler's, a claim its instance's; both end before the limiter.
 * Threads.  Any. Its lock (rank LOCK_RATE_LIMITER) is taken inside a queue's, and no other inside
 * it; none is held while on_turn() runs.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"
#include "sched/rate_pool.h"

#include <stdbool.h>
#include <stddef.h>

struct rate_claim;
struct rate_group;
struct rate_limiter;

struct rate_limiter *rate_limiter_new(const struct rate_supply *supplies, size_t n_supplies);
void                 rate_limiter_free(struct rate_limiter *l); /* NULL is fine */

struct rate_group *rate_group_new(struct rate_limiter *l);
void               rate_group_free(struct rate_group *g); /* without claims; NULL is fine */

struct rate_claim_options {
        const Inference__ModelRateLimiter *limits; /* borrowed for the call; NULL: no needs */
        int                                device; /* where the instance runs */
        void (*on_turn)(void *instance);
        void *instance;
};

/* Errors of rate_needs_init(). To be followed by deliver: a resource may have grown. */
struct error *rate_claim_new(struct rate_group *g, const struct rate_claim_options *options,
                             struct rate_claim **ret) NODISCARD;
/* Gives back its turn if it has one, waits for on_turn() if that is running. The caller holds no
 * lock. To be followed by deliver. NULL is fine. */
void rate_claim_free(struct rate_claim *c);

/* The group has a batch to run. Returns the instance whose turn it is at once; NULL: its turn will
 * be told. Asking while it asks is fine: claims that are new to the line join it. */
void *rate_group_ask(struct rate_group *g);
/* It has nothing to run any more. A turn that was given meanwhile is still told. To be followed
 * by deliver. */
void rate_group_withdraw(struct rate_group *g);

/* After its turn. To be followed by deliver. */
enum rate_turn_use { RATE_TURN_UNUSED, RATE_TURN_EXECUTED };
void rate_claim_end(struct rate_claim *c, enum rate_turn_use use);

/* Whether there are turns that deliver would tell of. */
bool rate_limiter_has_turns(const struct rate_limiter *l);
/* Calls on_turn() for those whose turn it has become. Without any, costs one load. */
void rate_limiter_deliver(struct rate_limiter *l);
