/* SPDX-License-Identifier: BSD-3-Clause */
/* One instance of a model: takes a batch, runs it, and accounts for it.
 *
 * An instance has a thread, which waits until a batch may be formed. While it waits, a thread that
 * submits a request may borrow the instance and run the batch itself (run to completion). This saves a
 * wake-up and a change of threads.
 *
 * The state says what happens to the instance's batch. All changes are made under the engine's lock, by
 * instance_set_state_locked(), which asserts that this table has them:
 *
 *     from        to          thread      when
 *     FREE        ASSIGNED    any         the policy took a batch for the instance (policy_assign())
 *     FREE        DISPATCHED  any         the policy chose the instance in an event of another thread
 *     FREE        RUNNING     its own     it asked, and got the batch
 *     FREE        BORROWED    submitter   it asked, and runs the batch itself
 *     ASSIGNED    DISPATCHED, RUNNING, BORROWED: as from FREE
 *     DISPATCHED  RUNNING     its own     it begins the batch that another thread handed out
 *     RUNNING     FREE        its own     the batch was executed
 *     BORROWED    FREE        submitter   the batch was executed
 *
 * A batch is handed out only to an instance that is linked in the engine's idle list, which it then leaves.
 * The list is no part of the state: an instance is FREE and not in the list while its thread is about to
 * ask, or before it has begun.
 *
 * With a rate limiter the instance needs a permit for each batch, and returns it afterwards. Likewise
 * instance_set_permit_locked() makes and checks all changes of the permit:
 *
 *     from        to          when
 *     NONE        GIVEN       the limiter gave the permit at once, or delivers it (also after a withdrawal)
 *     NONE        ASKED       the claim waits in the limiter's queue by itself
 *     ASKED       GIVEN       as from NONE
 *     ASKED       DOUBTED     another round of the policy begins, which may have no batch for it
 *     DOUBTED     ASKED       the round has a batch for it, and the permit must be waited for
 *     DOUBTED     GIVEN       the round has a batch for it, and the permit is given at once
 *     DOUBTED     NONE        the round had no batch for it: the claim was withdrawn
 *     GIVEN       EXECUTED    the batch was executed
 *     GIVEN       NONE        there was no batch to run: the permit is returned
 *     EXECUTED    NONE        the permit is returned
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
struct member_counts;
struct model_stats;
struct pull_engine;
struct rate_claim;
struct rate_group;
struct request;
struct request_queue;
struct split_part;
struct virtual_counts;

enum instance_state {
        INSTANCE_FREE,       /* has no batch */
        INSTANCE_ASSIGNED,   /* `items` is its next batch, which is not handed out yet */
        INSTANCE_DISPATCHED, /* its thread must run the batch in `items` */
        INSTANCE_RUNNING,    /* its thread runs its batch */
        INSTANCE_BORROWED,   /* the thread of a submitter runs its batch */
};
#define INSTANCE_N_STATES (INSTANCE_BORROWED + 1)

/* Of a permit of the rate limiter. */
enum instance_permit { PERMIT_NONE, PERMIT_ASKED, PERMIT_DOUBTED, PERMIT_GIVEN, PERMIT_EXECUTED };
#define INSTANCE_N_PERMITS (PERMIT_EXECUTED + 1)

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
        enum instance_state    state;
        enum instance_permit   permit;
        bool                   is_continuing; /* its thread runs continuations, in any state */
        bool                   is_leaving; /* gets no further batch; one that it has still runs */
        struct rate_claim     *claim;      /* owned; NULL: nothing is limited */
        struct rate_group     *group;      /* owned: of this claim alone; NULL: the engine's */
        struct member_counts  *member;     /* borrowed: the model's; NULL: no members */
        struct virtual_counts *virtual_instance; /* borrowed: the model's; likewise */
        uint64_t               watch_until_ns;   /* wake-up time while it is the engine's watcher */
        uint64_t               free_ns;          /* end of its last execution; 0: none yet */
        _Atomic uint64_t       busy_since_ns;    /* start of its execution; 0: it executes none */
        uint32_t               policy_index;     /* number that its policy gave to it */

        struct request **batch; /* owned array; used by the running thread only */
        uint32_t         cap_batch;

        /* For a policy that assigns batches: the batch that was taken for this instance. */
        struct batch_item *items; /* owned array */
        uint32_t           n_items;
        uint32_t           cap_items;
        uint32_t           n_left;       /* number of requests that left the queue with the batch */
        uint32_t           n_new_splits; /* number of requests whose first part is in the batch */
        uint64_t           rows;
};

struct instance *instance_new(struct pull_engine *e, struct executor *executor);
/* its thread must have ended; no lock is held */
void instance_free(struct instance *in);

/* Makes the change, which must be in the tables above. The caller holds the engine's lock. */
void instance_set_state_locked(struct instance *in, enum instance_state to);
void instance_set_permit_locked(struct instance *in, enum instance_permit to);
/* True when the tables have the change. */
bool instance_may_change_state(enum instance_state from, enum instance_state to);
bool instance_may_change_permit(enum instance_permit from, enum instance_permit to);

/* Runs main(in) on a thread: the executor's own, or a new one. */
struct error *instance_start_thread(struct instance *in, thread_fn main) NODISCARD;
/* Waits until main() has ended; returns at once when it never started. */
void instance_join_thread(struct instance *in);

/* Runs the n requests linked by queued.next on the calling thread. The caller has already
 * subtracted them from the count of pending requests. `start_ns` is now; returns the time of the end. */
uint64_t instance_run(struct instance *in, struct request *first, uint32_t n, bool is_inline,
                      uint64_t start_ns);
/* The same for one request that never waited, on the thread that submits it. */
uint64_t instance_run_one(struct instance *in, struct request *req, uint64_t start_ns);

/* The first function empties `items` for the next batch. The second takes the first n_rows waiting
 * rows of the request for it. The caller holds the engine's lock. */
void instance_begin_batch(struct instance *in);
void instance_take_rows(struct instance *in, struct request_queue *q, struct request *req,
                        uint64_t n_rows);
/* Takes the batch that a policy has chosen. */
void instance_take(struct instance *in, struct request_queue *q, const struct dispatch *d);
/* Runs `items` as instance_run() does. Subtracts the requests that left the queue with the batch
 * from the count of pending requests. */
uint64_t instance_run_items(struct instance *in, struct model_stats *stats, bool is_inline,
                            uint64_t start_ns);
