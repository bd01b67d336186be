/* SPDX-License-Identifier: BSD-3-Clause */
/* One queue, several instances that pull from it, and a policy that decides: the engine of the
 * default scheduler, of the dynamic batcher and of every policy that comes.
 *
 *     arrival, completion, timer, cancellation, instance added or removed, turn given
 *                                   |
 *                             pump_locked()  asks the policy: nothing, wait until, or run
 *                                   |
 *             a batch for the calling thread, an instance to wake, a time to watch
 *
 * There is no batcher thread. An instance that becomes idle asks for its batch itself, under the
 * engine's lock, so that a batch is formed at the last possible moment. When the policy says "wait",
 * one idle instance (the watcher) sleeps until that time. A submitter wakes an instance only when
 * there is something to run or a nearer time to watch.
 *
 * Run to completion: a submitter whose request makes a batch that may run now borrows an idle
 * instance and executes on its own thread, when the executor allows it and the model's measured
 * execution time (a moving average) is below the limit; never one that is bound to its own
 * thread's cores. Not nested: a completion that submits again goes through the queue, or is put off
 * (infer/submitter.h), so that stacks stay flat.
 *
 * With a rate limiter an instance needs a turn for each batch. The engine asks for one when a batch
 * may run and withdraws when it may not any more; which of its idle instances gets the turn is the
 * limiter's choice. The batch is formed once the turn has come. A submitter runs it itself only
 * when the turn comes at once.
 *
 * Timeouts fire on the timer thread, also while all instances are busy.
 *
 * Ownership.  Made for one model, owned by it. Executors are borrowed and must outlive it.
 * Threads.  See infer/scheduler.h. Lock rank LOCK_QUEUE, never held across a call out,
 * but for those of infer/batch_filter.h.
 */
#pragma once

#include "base/timer.h"
#include "infer/executor.h"
#include "infer/scheduler.h"

struct model;
struct policy;
struct rate_limiter;

enum inline_execution { INLINE_AUTO, INLINE_NEVER, INLINE_ALWAYS };

/* A model whose execution takes less than a hop to another thread costs (10 to 20 us) gains most;
 * below 50 us a loop is not held up noticeably. */
#define INLINE_DEFAULT_LIMIT_NS (50 * NS_PER_US)

struct pull_options {
        struct model         *model;     /* borrowed: the owner */
        struct executor     **executors; /* borrowed; the array for the call only */
        uint32_t              n_executors;
        struct timer_thread  *timers; /* borrowed */
        struct policy        *policy; /* taken, also on error */
        enum inline_execution inline_execution;
        uint64_t              inline_limit_ns; /* 0 = default */
        struct rate_limiter  *limiter;         /* borrowed; NULL: nothing is limited */
        /* A batch costs less than its requests one by one: a submitter that defers wake-ups runs one
         * batch at its flush, with all that its round has submitted, instead of one request at each
         * arrival. */
        bool gathers;
};

struct error *pull_engine_new(const struct pull_options *options, struct scheduler **ret) NODISCARD;

/* The policy's answer may be another one now, without an event of the engine's own. */
void pull_engine_ask_again(struct scheduler *s);
