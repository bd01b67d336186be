/* SPDX-License-Identifier: BSD-3-Clause */
/* One instance of a model: it takes a batch, runs it, accounts for it.
 *
 * An instance has a thread, which waits until a batch may be formed. While it waits, a thread
 * that submits a request may borrow the instance and run the batch itself (run to completion):
 * no wake-up, no hop.
 *
 *     IDLE --signal--> (thread forms a batch) --> RUNNING --> IDLE
 *     IDLE --borrow--> RUNNING on the submitter's thread --> IDLE
 *
 * With a rate limiter it needs a turn to leave IDLE, and gives it back afterwards.
 *
 * Ownership.  Owned by its engine; borrows its executor from the loader.
 * Threads.  Fields are guarded by the engine's lock, except what only the runner touches.
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"
#include "base/thread.h"
#include "infer/executor.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct dispatch;
struct execution;
struct member_counts;
struct model_stats;
struct pull_engine;
struct rate_claim;
struct rate_group;
struct request;
struct request_queue;
struct split_part;
struct virtual_counts;

enum instance_turn { TURN_NONE, TURN_GIVEN, TURN_EXECUTED };

/* What of a request is in a batch: all of it, or a part. */
struct batch_item {
        struct request    *request; /* NULL: a part */
        struct split_part *part;    /* owned by its split */
};

struct instance {
        struct pull_engine    *engine;   /* borrowed: the owner */
        struct executor       *executor; /* borrowed: the loader's */
        struct thread          thread;   /* unless the executor has one */
        struct cond            wake;
        struct list_node       idle_node; /* linked while idle */
        bool                   is_borrowed;
        bool                   is_continuing;    /* its thread runs what was put off */
        bool                   is_leaving;       /* runs nothing more */
        bool                   has_begun;        /* its thread */
        bool                   is_running;       /* has a batch, or is about to run it */
        bool                   is_dispatched;    /* its thread has a batch in `items` to run */
        bool                   is_wanted;        /* asked for a turn since the pump began */
        bool                   is_asking;        /* stands in the rate limiter's line by itself */
        enum instance_turn     turn;             /* of the rate limiter */
        struct rate_claim     *claim;            /* owned; NULL: nothing is limited */
        struct rate_group     *group;            /* owned; the claim's, of a policy that picks */
        struct member_counts  *member;           /* borrowed: the model's; the same */
        struct virtual_counts *virtual_instance; /* borrowed: the model's; the same */
        uint64_t               watch_until_ns;   /* while it is the engine's watcher */
        uint64_t               free_ns;          /* when its last execution ended; 0: none yet */
        uint32_t               policy_index;     /* its policy's number for it */

        struct request **batch; /* owned array; the runner's */
        uint32_t         cap_batch;

        /* Of a policy that picks: what was taken for this instance. */
        bool               is_assigned; /* by the policy itself, and waits to be handed out */
        struct batch_item *items;       /* owned array */
        uint32_t           n_items;
        uint32_t           cap_items;
        uint32_t           n_left;       /* requests that have left the queue with it */
        uint32_t           n_new_splits; /* requests whose first part is in it */
        uint64_t           rows;
};

struct instance *instance_new(struct pull_engine *e, struct executor *executor);
void             instance_free(struct instance *in); /* its thread must have ended; no lock held */

/* Has its thread run main(in): the one that the executor began on, or a new one there. */
struct error *instance_start_thread(struct instance *in, thread_fn main) NODISCARD;
/* Until main() has ended; returns at once when it never began. */
void instance_join_thread(struct instance *in);

/* Runs the n requests linked by queued.next on the calling thread, which are not counted as pending
 * any more, and tells when it ended and how
 * long it took: since ret->start_ns, which is now when it is 0. */
void instance_run(struct instance *in, struct request *first, uint32_t n, bool is_inline,
                  struct execution *ret);

/* Begins the next batch in `items`, then takes rows for it from the queue: so many of those of the
 * request that wait, the first ones. With the engine's lock. */
void instance_begin_batch(struct instance *in);
void instance_take_rows(struct instance *in, struct request_queue *q, struct request *req,
                        uint64_t n_rows);
/* The batch that a policy picked. */
void instance_take(struct instance *in, struct request_queue *q, const struct dispatch *d);
/* Runs `items`, as instance_run(); those that left the queue with it are not pending any more. */
void instance_run_items(struct instance *in, struct model_stats *stats, bool is_inline,
                        struct execution *ret);
