/* SPDX-License-Identifier: BSD-3-Clause */
/* One instance of a model: takes a batch, runs it, and accounts for it.
 *
 * An instance has a thread, which waits until a batch may be formed. While it waits, a thread that
 * submits a request may borrow the instance and run the batch itself (run to completion). This saves a
 * wake-up and a change of threads.
 *
 *     IDLE --signal--> (thread forms a batch) --> RUNNING --> IDLE
 *     IDLE --borrow--> RUNNING on the submitter's thread --> IDLE
 *
 * With a rate limiter the instance needs a turn to leave IDLE, and returns it afterwards.
 *
 * Ownership.  The engine owns the instance. It borrows its executor from the loader.
 * Threads.  The engine's lock guards the fields, except those that only the running thread uses.
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

/* A request in a batch, or a part of one. */
struct batch_item {
        struct request    *request; /* NULL: the item is a part */
        struct split_part *part;    /* owned by its split */
};

struct instance {
        struct pull_engine    *engine;   /* borrowed: the owner */
        struct executor       *executor; /* borrowed: the loader's */
        struct thread          thread;   /* not used when the executor has a thread */
        struct cond            wake;
        struct list_node       idle_node; /* linked while idle */
        bool                   is_borrowed;
        bool                   is_continuing; /* its thread runs continuations */
        bool                   is_leaving;    /* runs no further batch */
        bool                   is_running;    /* has a batch, or is about to run it */
        bool                   is_dispatched; /* its thread must run the batch in `items` */
        bool                   is_wanted;     /* the current pump found a batch for it */
        bool                   is_asking;     /* waits in the rate limiter's queue by itself */
        enum instance_turn     turn;          /* state of its turn of the rate limiter */
        struct rate_claim     *claim;         /* owned; NULL: nothing is limited */
        struct rate_group     *group;         /* owned: of this claim alone; NULL: the engine's */
        struct member_counts  *member;        /* borrowed: the model's; NULL: no members */
        struct virtual_counts *virtual_instance; /* borrowed: the model's; likewise */
        uint64_t               watch_until_ns;   /* wake-up time while it is the engine's watcher */
        uint64_t               free_ns;          /* end of its last execution; 0: none yet */
        _Atomic uint64_t       busy_since_ns;    /* start of its execution; 0: it executes none */
        uint32_t               policy_index;     /* number that its policy gave to it */

        struct request **batch; /* owned array; used by the running thread only */
        uint32_t         cap_batch;

        /* For a policy that picks: the batch that was taken for this instance. */
        bool               is_assigned; /* by the policy, and not yet handed out */
        struct batch_item *items;       /* owned array */
        uint32_t           n_items;
        uint32_t           cap_items;
        uint32_t           n_left;       /* number of requests that left the queue with the batch */
        uint32_t           n_new_splits; /* number of requests whose first part is in the batch */
        uint64_t           rows;
};

struct instance *instance_new(struct pull_engine *e, struct executor *executor);
/* its thread must have ended; no lock is held */
void instance_free(struct instance *in);

/* Runs main(in) on a thread: the executor's own, or a new one. */
struct error *instance_start_thread(struct instance *in, thread_fn main) NODISCARD;
/* Waits until main() has ended; returns at once when it never started. */
void instance_join_thread(struct instance *in);

/* Runs the n requests linked by queued.next on the calling thread. The caller has already
 * subtracted them from the count of pending requests. *ret gets the end and the duration since
 * ret->start_ns; if that is 0, the execution starts now. */
void instance_run(struct instance *in, struct request *first, uint32_t n, bool is_inline,
                  struct execution *ret);

/* The first function empties `items` for the next batch. The second takes the first n_rows waiting
 * rows of the request for it. The caller holds the engine's lock. */
void instance_begin_batch(struct instance *in);
void instance_take_rows(struct instance *in, struct request_queue *q, struct request *req,
                        uint64_t n_rows);
/* Takes the batch that a policy picked. */
void instance_take(struct instance *in, struct request_queue *q, const struct dispatch *d);
/* Runs `items` as instance_run() does. Subtracts the requests that left the queue with the batch
 * from the count of pending requests. */
void instance_run_items(struct instance *in, struct model_stats *stats, bool is_inline,
                        struct execution *ret);
