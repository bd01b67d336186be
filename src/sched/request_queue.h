/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests waiting for one model, in the order of service. This is a data structure without rules: a
 * policy (sched/policy.h) decides which of them form a batch, and when.
 *
 * Order: priority levels, 1 first. Within a level, the order of arrival. Requests whose timeout passed
 * with the action DELAY come after all others of their level.
 *
 * Each level has two lists with sums (queue_list.h), so that a policy need not look at each request.
 *
 * Time is an argument: no function here reads a clock, blocks or locks.
 *
 * Ownership.  push() takes the request on success. take(), remove() and expire() return it.
 * Threads.  The caller holds the owner's lock.
 */
#pragma once

#include "base/due_heap.h"
#include "base/error.h"
#include "base/list.h"
#include "config/batching_config.h"
#include "infer/request.h"
#include "sched/queue_list.h"

#include <stdbool.h>
#include <stdint.h>

struct request_queue {
        const struct batching_config
                       *limits; /* borrowed: levels, sizes and timeouts of the queue */
        struct list     levels; /* struct queue_level, ascending; made on demand */
        uint32_t        n_levels;
        uint64_t        n_waiting; /* requests, delayed ones included */
        uint64_t        n_rows;    /* rows of these requests */
        struct due_heap dues;
        /* Increases with each change, except with a request that is queued on the level `settled` or
         * behind it. A policy that has looked at the requests before that level sets it. */
        uint64_t version;
        uint64_t settled; /* UINT64_MAX: every change counts */
};

void request_queue_init(struct request_queue *q, const struct batching_config *limits);
void request_queue_done(struct request_queue *q); /* must be empty */

/* Fails with UNAVAILABLE "[request id: <id>] Exceeds maximum queue size". */
struct error *request_queue_push(struct request_queue *q, struct request *req, uint64_t now_ns)
        NODISCARD;
/* Returns false when the request is not queued. */
bool request_queue_remove(struct request_queue *q, struct request *req);
/* Called when n_rows of its rows are taken, but not all. The request loses its timeout and keeps
 * its place. The caller subtracts the rows from its batch_size. */
void request_queue_begin_parts(struct request_queue *q, struct request *req, uint64_t n_rows);
/* Applies timeouts. Returns the requests to be rejected, linked by queued.next. */
struct request *request_queue_expire(struct request_queue *q, uint64_t now_ns);
/* Returns the time of the next timeout; CLOCK_NEVER: none. */
uint64_t request_queue_next_due(const struct request_queue *q);
/* Takes the first n requests in the order of service, linked by queued.next. */
struct request *request_queue_take(struct request_queue *q, uint32_t n);

struct queue_level {
        uint64_t                   level;
        const struct queue_policy *policy; /* borrowed */
        struct queue_list          waiting;
        struct queue_list          delayed;
        struct list_node           node;
};

/* A walk over the queue in the order of service. The queue must not change meanwhile. */
struct queue_walk {
        struct request_queue *queue;
        struct queue_list    *list;
        struct list_node     *level_node;
        struct list_node     *node; /* the next request; NULL: the first one of the next list */
};

static inline struct queue_walk queue_walk_begin(struct request_queue *q) {
        return (struct queue_walk){ .queue = q };
}

/* Moves to the next list that is not empty. Returns false at the end of the queue. */
bool queue_walk_next_list(struct queue_walk *w);

/* Returns NULL at the end. */
static inline struct request *queue_walk_next(struct queue_walk *w) {
        struct request *req;

        if (w->node == NULL && !queue_walk_next_list(w))
                return NULL;
        req = queue_list_entry(w->node);
        w->node = list_next(&w->list->requests, w->node);
        return req;
}

/* Goes to the end of the current list, so that the next request is the first one of the next list. */
static inline void queue_walk_skip_list(struct queue_walk *w) {
        w->node = NULL;
}

/* Returns the level on which the walk is. */
static inline const struct queue_level *queue_walk_level(const struct queue_walk *w) {
        return LIST_ENTRY(w->level_node, struct queue_level, node);
}

/* Returns the time at which the oldest waiting request was queued, CLOCK_NEVER when none waits. */
uint64_t request_queue_oldest(struct request_queue *q);
