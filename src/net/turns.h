/* SPDX-License-Identifier: BSD-3-Clause */
/* The shares of a round of a loop: how much of what a connection has sent is worked off before the
 * others are served.
 *
 * A round has TURNS_ROUND_NS. Until that has passed, a connection may have up to TURNS_MAX_REQUESTS
 * requests (or messages) handled; afterwards each still gets one. A connection that has used its
 * share and has input left waits in a queue, and does not read from its socket meanwhile. Each round
 * serves connections whose bytes have just arrived first, then the queue, each entry once at most, in the
 * order of arrival, until TURNS_QUEUE_NS have passed. So a new connection, or one that was quiet, is served
 * before the next share of those that always have more.
 *
 * The time comes from the caller, which mostly has read the clock already.
 *
 * Ownership.  A struct turn is embedded in its owner, which cancels it before it is freed.
 * Threads.  The loop's thread only.
 */
#pragma once

#include "base/clock.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requests of one connection in one round. A pipeline of this depth is answered in one round. */
#define TURNS_MAX_REQUESTS 64
#define TURNS_ROUND_NS (2 * NS_PER_MS)
/* The queue's part of a round, also when arrivals have used the round. */
#define TURNS_QUEUE_NS NS_PER_MS

struct turn {
        struct list_node node; /* in turns->waiting */
        void (*run)(struct turn *t);
        uint64_t round;      /* of n_requests */
        unsigned n_requests; /* begun in that round */
};

struct turns {
        struct list waiting; /* struct turn, in the order of arrival */
        uint64_t    round;
        uint64_t    end_ns;       /* of full shares in this round; 0 = nothing was handled yet */
        uint64_t    queue_end_ns; /* 0 = the queue was not served yet */
};

void turns_init(struct turns *s);
/* Takes one request from the share; false when it is used up. */
bool turns_take(struct turns *s, struct turn *t, uint64_t now_ns);
/* True when the time of full shares in this round has passed. */
bool turns_is_late(struct turns *s, uint64_t now_ns);
/* Queues it for a later round; does nothing when it is queued. */
void turns_wait(struct turns *s, struct turn *t);
void turns_cancel(struct turn *t);
bool turns_is_waiting(const struct turn *t);

/* Returns the next of the queue, with a new share, for its `run`; NULL when those of this round were
 * served. The first one is served however late it is. */
struct turn *turns_next(struct turns *s, uint64_t now_ns);
bool         turns_is_empty(const struct turns *s);
void         turns_end_round(struct turns *s);
