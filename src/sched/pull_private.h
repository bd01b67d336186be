/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's state, shared by its two files: pull_engine.c, and pull_assigned.c for policies that assign
 * batches.
 *
 * Ownership.  As in pull_engine.h.
 * Threads.  The engine's lock guards everything that changes.
 */
#pragma once

#include "base/lock.h"
#include "base/timer.h"
#include "infer/scheduler.h"
#include "observe/load_meter.h"
#include "observe/model_stats.h"
#include "sched/instance.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sched/request_queue.h"

struct batch_counts;
struct rate_group;
struct infer_thread;

struct pull_engine {
        struct scheduler      base;
        struct model         *model;  /* borrowed: the owner */
        struct policy        *policy; /* owned; guarded by the lock */
        struct timer_thread  *timers; /* borrowed */
        struct timer          timeout;
        struct rate_limiter  *limiter; /* borrowed: outlives the engine; NULL: nothing is limited */
        struct rate_group    *group;   /* owned; NULL without a limiter */
        struct batch_counts  *counts;  /* borrowed: the model's; NULL: not counted */
        enum inline_execution inline_execution;
        uint64_t              inline_limit_ns;
        bool                  batches_at_flush;
        bool has_device_tensors; /* of a request that may wait; see waits_for_copies() */

        struct load_source load; /* of the model's statistics */

        struct mutex         lock;       /* rank LOCK_QUEUE; guards everything below */
        uint64_t             average_ns; /* moving average of the execution time; 0: unknown */
        uint64_t             rows_running;
        uint64_t             busy_ns;      /* sum of the execution times */
        uint64_t             available_ns; /* sum of the instances' life times, up to counted_ns */
        uint64_t             counted_ns;   /* when the number of instances changed last */
        struct instance    **instances;    /* owned, and each */
        uint32_t             n_instances;
        struct request_queue queue;
        uint64_t             last_queued_ns; /* latest time at which a request was queued */
        struct list          idle;    /* struct instance, the last one that became idle first */
        struct instance     *watcher; /* borrowed: sleeps until its watch_until_ns; may be NULL */
        uint64_t             timer_due_ns;
        bool                 is_draining; /* accepts no new requests of clients */
        bool                 is_ending;   /* the threads of all instances end */
        bool                 is_ready;    /* the first instances have been added */
};

/* Instances that an event wakes after it has released the lock. One that wakes more wakes the first of them earlier. */
#define MAX_WAKES_LATER 4

/* An event, and its results for the thread on which it happened. */
struct sched_event {
        struct infer_thread *thread; /* the thread of the event; NULL: it runs nothing here */
        uint64_t             now_ns;
        struct instance     *self; /* idle, its own thread asks; NULL: other event */
        struct instance *ended; /* instance that this thread had borrowed; it returns its permit */
        bool             may_run_here; /* the thread may borrow an instance */
        bool             asks_again;   /* when its batch has run; wakes no instance for the rest */
        uint64_t         spends_ns;    /* expected duration when it runs a batch */

        /* Filled in by schedule_locked(). */
        struct instance  *runner; /* runs `batch` on this thread; NULL: nothing */
        struct request   *batch;  /* linked by queued.next */
        uint32_t          n_requests;
        uint64_t          rows;
        uint32_t          n_signalled; /* instances, which are woken after the lock is released */
        _Atomic uint32_t *signalled[MAX_WAKES_LATER];
        struct request   *expired; /* timed out: refused after that */
        struct refusal   *refused; /* refused by the policy: answered after that */

        bool has_continuations; /* the batch left continuations to run */
        bool has_more;          /* after the batch: the event asks again */
};

static inline struct sched_view view_of(struct pull_engine *e) {
        return (struct sched_view){ .queue = &e->queue,
                                    .idle = &e->idle,
                                    .rows_running = e->rows_running,
                                    .instances = e->instances,
                                    .n_instances = e->n_instances };
}

/* Whether the thread of a submitter may execute the instance. */
static inline bool runs_anywhere(const struct pull_engine *e, const struct instance *in) {
        return !in->executor->is_bound &&
               (e->inline_execution == INLINE_ALWAYS || in->executor->may_inline);
}

static inline bool may_borrow(const struct pull_engine *e, const struct instance *in) {
        return list_is_linked(&in->idle_node) && runs_anywhere(e, in);
}

/* Wakes the threads of the instances that the event has signalled. */
static inline void wake_signalled(const struct sched_event *ev) {
        for (uint32_t i = 0; i < ev->n_signalled; i++)
                cond_wake(ev->signalled[i]);
}

/* Wakes the thread of the instance after the event has released the lock. */
static inline void wake_instance_locked(struct sched_event *ev, struct instance *in) {
        _Atomic uint32_t *signalled = cond_signal_later(&in->wake);

        if (signalled == NULL)
                return;
        if (ev->n_signalled == MAX_WAKES_LATER) {
                wake_signalled(ev);
                ev->n_signalled = 0;
        }
        ev->signalled[ev->n_signalled++] = signalled;
}

/* The instance leaves the idle list with a batch of that many rows. All batches are handed out here. */
static inline void hand_out_locked(struct pull_engine *e, struct instance *in,
                                   enum instance_state to, uint64_t rows) {
        list_remove(&in->idle_node);
        if (e->watcher == in)
                e->watcher = NULL; /* it cannot watch while it runs: another one has to */
        instance_set_state_locked(in, to);
        e->rows_running += rows;
}

/* The same, when the batch runs on the thread of the event. */
static inline void hand_out_here_locked(struct pull_engine *e, struct sched_event *ev,
                                        struct instance *in, uint64_t rows) {
        bool is_own = in == ev->self;

        hand_out_locked(e, in, is_own ? INSTANCE_RUNNING : INSTANCE_BORROWED, rows);
        ev->runner = in;
        ev->rows = rows;
        if (is_own)
                ev->self = NULL; /* the rest of the event concerns other instances */
        ev->may_run_here = false;
}

/* Counters of members (observe/batch_counts.h): the first function finds those of an instance, the
 * second adds one execution. */
void pull_count_member(struct pull_engine *e, struct instance *in);
void pull_count_execution(const struct execution *done);

/* schedule_locked() for a policy that assigns batches: dispatches until the policy has no more batches. */
void pull_schedule_assigned_locked(struct pull_engine *e, struct sched_event *ev);
