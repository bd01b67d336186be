/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides which instance may execute next when executions are limited by resources:
 * --rate-limit=execution_count.
 *
 * Each instance of a model has a claim. The claims of a model form a group. A group asks for one permit
 * when it has a batch to run. Then all its claims that are not executing enter the queue. The queue is
 * ordered by scaled priority, which is executions so far x max(1, priority), the lowest first; equal
 * claims keep the order of arrival. The first claim whose resources are free gets the permit for its
 * group. The group asks again when it has another batch.
 *
 *     resting --ask--> queued --resources are free, permit is given--> permitted --end--> resting
 *
 * An instance that continues to work asks before it returns its permit, so that it is in the queue when the
 * next claim is chosen.
 *
 * Claims do not overtake each other in a pool: while a claim waits for a resource, all later claims
 * that need this resource wait as well. So small needs do not starve large ones. Claims without a
 * common resource do not wait for each other.
 *
 * A new claim starts with the lowest scaled priority of all claims, not with zero. So a model that was
 * loaded late, or again, does not get all permits until it has caught up.
 *
 * No function here reads a clock, has a thread or blocks, except rate_claim_free().
 * rate_limiter_deliver() notifies instances of their permits. It must be called after each function that
 * says so, when the caller holds no lock.
 *
 * Ownership.  The scheduler owns its group, the instance its claim. Both end before the limiter.
 * Threads.  Any. The limiter's lock (rank LOCK_RATE_LIMITER) is taken inside a queue's lock. No other
 * lock is taken inside it, and no lock is held while on_permit() runs.
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
void               rate_group_free(struct rate_group *g); /* has no claims any more; NULL is fine */

struct rate_claim_options {
        /* borrowed for the call; NULL: the instance needs nothing */
        const Inference__ModelRateLimiter *limits;
        int                                device; /* device of the instance */
        void (*on_permit)(void *instance);
        void *instance;
};

/* Returns the errors of rate_needs_init(). Call rate_limiter_deliver() next: a resource may have
 * grown. */
struct error *rate_claim_new(struct rate_group *g, const struct rate_claim_options *options,
                             struct rate_claim **ret) NODISCARD;
/* Returns the claim's permit, and waits until a running on_permit() has returned. The caller holds no
 * lock. Call rate_limiter_deliver() next. NULL is fine. */
void rate_claim_free(struct rate_claim *c);

/* The group has a batch to run. Returns the instance that gets its permit at once. NULL: a permit will
 * be delivered later. May be called again while the group asks: then its new claims enter the
 * queue. */
void *rate_group_ask(struct rate_group *g);
/* The group has no batch to run any more. A permit that was given meanwhile is still delivered. Call
 * rate_limiter_deliver() next. */
void rate_group_withdraw(struct rate_group *g);

/* Returns the permit. Call rate_limiter_deliver() next. */
enum rate_permit_use { RATE_PERMIT_UNUSED, RATE_PERMIT_EXECUTED };
void rate_claim_end(struct rate_claim *c, enum rate_permit_use use);

/* True when there are permits to deliver. */
bool rate_limiter_has_permits(const struct rate_limiter *l);
/* Calls on_permit() for each new permit. Without any, the cost is one load. */
void rate_limiter_deliver(struct rate_limiter *l);
