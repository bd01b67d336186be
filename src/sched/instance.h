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

struct execution;
struct pull_engine;
struct rate_claim;
struct request;

enum instance_turn { TURN_NONE, TURN_GIVEN, TURN_EXECUTED };

struct instance {
        struct pull_engine    *engine;    /* borrowed: the owner */
        struct executor       *executor;  /* borrowed: the loader's */
        struct thread          thread;
        struct cond            wake;
        struct list_node       idle_node; /* linked while idle */
        bool                   is_borrowed;
        bool                   is_continuing; /* its thread runs what was put off */
        bool                   is_leaving;    /* runs nothing more */
        enum instance_turn     turn;          /* of the rate limiter */
        struct rate_claim     *claim;         /* owned; NULL: nothing is limited */
        uint64_t               watch_until_ns; /* while it is the engine's watcher */
        uint64_t               free_ns;        /* when its last execution ended; 0: none yet */

        struct request **batch; /* owned array; the runner's */
        uint32_t         cap_batch;
};

struct instance *instance_new(struct pull_engine *e, struct executor *executor);
void             instance_free(struct instance *in); /* its thread must have ended; no lock held */

/* Runs the n requests linked by queued.next on the calling thread, and tells when it ended and how
 * long it took. */
void instance_run(struct instance *in, struct request *first, uint32_t n, bool is_inline,
                  struct execution *ret);
