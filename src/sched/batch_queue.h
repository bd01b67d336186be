/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests waiting for one model, and the rules that turn them into batches.
 *
 * Workers pull: an idle instance asks batch_queue_decide() at the moment when it could run
 * something, so a batch is formed as late as possible. The answer is "nothing", "run the first n"
 * or "wait until". Time is an argument: nothing here reads a clock, blocks or locks.
 *
 * Order: priority levels, 1 first; in a level, requests in order of arrival; those whose timeout
 * passed under the action DELAY come after all others of their level.
 *
 * The rules are the reference server's dynamic batcher's, observed from outside:
 *   1. a request counts as max(1, its batch size) rows; a batch has at most max_batch_size rows,
 *      but a single request always runs;
 *   2. shapes that may not be mixed end a batch before the request that differs, and so does a
 *      request that the model's custom batching does not admit;
 *   3. when the rows of the first requests hit a preferred size, the largest one hit is
 *      remembered; when the next request would go beyond the largest preferred size and none was
 *      hit, what is there so far counts as preferred;
 *   4. preferred and the oldest request is younger than the queue delay (or there is no delay):
 *      run exactly that; else run all when the batch cannot grow, has reached the largest
 *      preferred size, the delay is over or there is no delay; else wait for the rest of the delay.
 *
 * Ownership.  push() takes the request on success; take(), remove() and expire() hand it back.
 * Threads.  The owner's lock.
 */
#pragma once

#include "base/due_heap.h"
#include "base/error.h"
#include "base/list.h"
#include "config/batch_policy.h"

#include <stdbool.h>
#include <stdint.h>

struct batch_filter;
struct request;

struct batch_rules {
        const struct batch_policy *policy;         /* borrowed */
        bool                       one_by_one;     /* the default scheduler: never batch */
        bool                       equal_shapes;   /* check request_same_shape() */
        struct batch_filter       *filter;         /* borrowed; may be NULL */
};

struct batch_queue {
        struct batch_rules rules;
        struct list        levels;    /* struct queue_level, ascending; made on demand */
        uint32_t           n_levels;
        uint64_t           n_waiting; /* requests, delayed ones included */
        struct due_heap    dues;
};

enum batch_verdict { BATCH_NOTHING, BATCH_WAIT, BATCH_RUN };

struct batch_decision {
        enum batch_verdict verdict;
        uint32_t           n_requests; /* RUN: the first n in order */
        uint64_t           wait_until_ns;
};

void batch_queue_init(struct batch_queue *q, const struct batch_rules *rules);
void batch_queue_done(struct batch_queue *q); /* must be empty */

/* Refusals: UNAVAILABLE "[request id: <id>] Exceeds maximum queue size". */
struct error *batch_queue_push(struct batch_queue *q, struct request *req, uint64_t now_ns);
/* False when it is not queued. */
bool batch_queue_remove(struct batch_queue *q, struct request *req);
/* Applies timeouts: those to be rejected are returned, linked by queued.next. */
struct request *batch_queue_expire(struct batch_queue *q, uint64_t now_ns);
/* When expire() has something to do next; CLOCK_NEVER. */
uint64_t batch_queue_next_due(const struct batch_queue *q);

/* Call after expire() with the same time. */
struct batch_decision batch_queue_decide(struct batch_queue *q, uint64_t now_ns);
/* The first n requests, linked by queued.next. */
struct request *batch_queue_take(struct batch_queue *q, uint32_t n);
/* Everything, as take(). */
struct request *batch_queue_take_all(struct batch_queue *q);
