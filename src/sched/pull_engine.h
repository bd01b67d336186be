/* SPDX-License-Identifier: BSD-3-Clause */
/* One queue, several instances that pull from it, and a policy that decides: the engine of the default
 * scheduler, of the dynamic batcher and of every other policy.
 *
 *     arrival, completion, timer, cancellation, instance added or removed, permit given
 *                                   |
 *                             schedule_locked()  asks the policy: nothing, wait until, or run
 *                                   |
 *             a batch for the calling thread, an instance to wake, a time to watch
 *
 * There is no batcher thread. An instance that becomes idle asks for its batch itself, under the
 * engine's lock. So a batch is formed at the last possible moment. When the policy returns "wait", one
 * idle instance (the watcher) sleeps until that time. A submitter wakes an instance only when there is
 * a batch to run or a nearer time to watch.
 *
 * Run to completion: a submitter may borrow an idle instance and execute on its own thread, when its
 * request makes a batch that may run now, the executor allows it, and the model's measured execution
 * time (a moving average) is below the limit. An instance that is bound to its own thread's cores is
 * never borrowed. Executions do not nest: when a completion submits another request, that request is
 * queued or deferred (infer/infer_thread.h), so that stacks stay flat.
 *
 * With a rate limiter an instance needs a permit for each batch. The engine asks for a permit when a batch
 * may run, and withdraws when no batch may run any more. The limiter chooses which of the idle
 * instances gets the permit. The batch is formed after the permit was given. A submitter runs the batch
 * itself only when the permit is given at once.
 *
 * Timeouts fire on the timer thread, even while all instances are busy.
 *
 * Ownership.  The model owns its engine. Executors are borrowed and must outlive it.
 * Threads.  See infer/scheduler.h. Lock rank LOCK_QUEUE. No call out is made under the lock, except
 * those of infer/batch_filter.h and of a scheduler library (sched_plugin/policy_plugin.h).
 */
#pragma once

#include "base/timer.h"
#include "infer/executor.h"
#include "infer/scheduler.h"

struct model;
struct policy;
struct rate_limiter;

enum inline_execution { INLINE_AUTO, INLINE_NEVER, INLINE_ALWAYS };

/* Models that execute faster than a hop to another thread (10 to 20 us) gain most. Below 50 us the
 * delay of a loop is not noticeable. */
#define INLINE_DEFAULT_LIMIT_NS (50 * NS_PER_US)

struct pull_options {
        struct model         *model;     /* borrowed: the owner */
        struct executor     **executors; /* borrowed; the array only for the call */
        uint32_t              n_executors;
        struct timer_thread  *timers; /* borrowed */
        struct policy        *policy; /* taken, also on error */
        enum inline_execution inline_execution;
        uint64_t              inline_limit_ns; /* 0: INLINE_DEFAULT_LIMIT_NS */
        struct rate_limiter  *limiter;         /* borrowed; NULL: nothing is limited */
        /* True when a batch costs less than its requests one by one. Then a submitter that defers
         * wake-ups runs one batch at its flush, with all requests that its round has submitted,
         * instead of one request at each arrival. */
        bool batches_at_flush;
};

struct error *pull_engine_new(const struct pull_options *options, struct scheduler **ret) NODISCARD;

/* Asks the policy again after its answer may have changed without an event of the engine. */
void pull_engine_ask_again(struct scheduler *s);
