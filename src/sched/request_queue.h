/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests waiting for one model, in the order in which they are served. A data structure without
 * a rule: which of them make a batch, and when, is decided by a policy (sched/policy.h).
 *
 * Order: priority levels, 1 first; in a level, requests in order of arrival; those whose timeout
 * passed under the action DELAY come after all others of their level.
 *
 * Time is an argument: nothing here reads a clock, blocks or locks.
 *
 * Ownership.  push() takes the request on success; take(), remove() and expire() hand it back.
 * Threads.  The owner's lock.
 */
#pragma once

#include "base/due_heap.h"
#include "base/error.h"
#include "base/list.h"
#include "config/batching_config.h"
#include "infer/request.h"

#include <stdbool.h>
#include <stdint.h>

struct request_queue {
        const struct batching_config
                       *limits; /* borrowed: levels, sizes and timeouts of the queue */
        struct list     levels; /* struct queue_level, ascending; made on demand */
        uint32_t        n_levels;
        uint64_t        n_waiting; /* requests, delayed ones included */
        uint64_t        n_rows;    /* of all of them */
        struct due_heap dues;
};

void request_queue_init(struct request_queue *q, const struct batching_config *limits);
void request_queue_done(struct request_queue *q); /* must be empty */

/* Refusals: UNAVAILABLE "[request id: <id>] Exceeds maximum queue size". */
struct error *request_queue_push(struct request_queue *q, struct request *req, uint64_t now_ns)
        NODISCARD;
/* False when it is not queued. */
bool request_queue_remove(struct request_queue *q, struct request *req);
/* So many of its rows are taken, not all: it has no timeout any more, and keeps its place. The
 * caller makes its batch_size smaller by them. */
void request_queue_begin_parts(struct request_queue *q, struct request *req, uint64_t n_rows);
/* Applies timeouts: those to be rejected are returned, linked by queued.next. */
struct request *request_queue_expire(struct request_queue *q, uint64_t now_ns);
/* When expire() has something to do next; CLOCK_NEVER. */
uint64_t request_queue_next_due(const struct request_queue *q);
/* The first n requests in the order of service, linked by queued.next. */
struct request *request_queue_take(struct request_queue *q, uint32_t n);

/* A walk over the queue in the order of service. The queue must not change meanwhile. */
struct queue_walk {
        struct request_queue *queue;
        struct list          *list;
        struct list_node     *level_node;
        struct list_node     *node;
};

static inline struct queue_walk queue_walk_begin(struct request_queue *q) {
        return (struct queue_walk){ .queue = q };
}

/* On to the next list that is not empty; false at the end of the queue. */
bool queue_walk_next_list(struct queue_walk *w);

/* NULL at the end. */
static inline struct request *queue_walk_next(struct queue_walk *w) {
        struct request *req;

        if (w->node == NULL && !queue_walk_next_list(w))
                return NULL;
        req = LIST_ENTRY(w->node, struct request, queued.node);
        w->node = list_next(w->list, w->node);
        return req;
}
