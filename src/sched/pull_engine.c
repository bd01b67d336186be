/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/pull_engine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/timer.h"
#include "infer/infer_thread.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_split.h"
#include "infer/response_order.h"
#include "observe/batch_counts.h"
#include "sched/pull_private.h"
#include "sched/rate_limiter.h"

#include <assert.h>
#include <stdlib.h>

static struct pull_engine *self_of(struct scheduler *s) {
        return CONTAINER_OF(s, struct pull_engine, base);
}

/* ---- waking and watching --------------------------------------------------------------------- */

static void leave_idle_locked(struct instance *in) {
        if (list_is_linked(&in->idle_node))
                list_remove(&in->idle_node);
}

static void wake_locked(struct instance *in) {
        leave_idle_locked(in);
        cond_signal(&in->wake);
}

/* The limiter calls this when the instance gets its permit. */
static void on_permit(void *instance) {
        struct instance    *in = instance;
        struct pull_engine *e = in->engine;
        _Atomic uint32_t   *signalled;

        mutex_lock(&e->lock);
        instance_set_permit_locked(in, PERMIT_GIVEN);
        leave_idle_locked(in);
        signalled = cond_signal_later(&in->wake);
        mutex_unlock(&e->lock);
        cond_wake(signalled);
}

static void wake_deferred(void *scheduler);

static void take_and_wake_locked(struct sched_event *ev, struct instance *in) {
        leave_idle_locked(in);
        wake_instance_locked(ev, in);
}

/* A submitter may defer the wake-up. Its flush asks the policy again. */
static void wake_or_defer_locked(struct pull_engine *e, struct sched_event *ev,
                                 struct instance *in) {
        if (!ev->may_run_here || !infer_thread_defer_wake(ev->thread, e, e->model, wake_deferred))
                take_and_wake_locked(ev, in);
}

/* Lets one idle instance sleep until then, unless another one sleeps for a shorter time. */
static void watch_locked(struct pull_engine *e, struct sched_event *ev, uint64_t until_ns) {
        struct list_node *first = list_first(&e->idle);

        /* One watcher is enough: when it wakes up, the policy names the instances that have work. If all
         * idle instances slept until that time, all would wake for one batch, and all but one in vain.
         * The thread that asks is preferred because it is about to sleep anyway; any other one has to
         * be woken to set its alarm. */
        if (e->watcher != NULL) {
                if (until_ns < e->watcher->watch_until_ns)
                        wake_or_defer_locked(e, ev, e->watcher);
        } else if (ev->self != NULL) {
                e->watcher = ev->self;
                ev->self->watch_until_ns = until_ns;
        } else if (first != NULL) {
                wake_or_defer_locked(e, ev, LIST_ENTRY(first, struct instance, idle_node));
        }
}

static NOINLINE void move_timer_locked(struct pull_engine *e, uint64_t due_ns) {
        e->timer_due_ns = due_ns;
        timer_arm(e->timers, &e->timeout, due_ns);
}

/* Sets the timer to the queue's next due time or the policy's, whichever is earlier. */
static inline void update_timer_locked(struct pull_engine *e) {
        uint64_t due_ns = request_queue_next_due(&e->queue);

        if (e->policy->due_ns != 0)
                due_ns = MIN(due_ns, e->policy->due_ns);
        if (due_ns != e->timer_due_ns)
                move_timer_locked(e, due_ns);
}

/* True when an instance, or the end of an event, must ask the policy. */
static inline bool has_work(const struct pull_engine *e) {
        return e->queue.n_waiting > 0 || e->policy->n_assigned > 0 || e->policy->refused != NULL;
}

/* ---- scheduling ----------------------------------------------------------------------------- */

/* Asks the limiter for a permit when there is a batch to run, and withdraws otherwise. Returns the
 * instance that may run the batch at once; NULL when there is none, or when its permit will be given
 * later. An instance that continues asks before it returns its old permit, so that it competes for
 * the next one. */
static struct instance *ask_limiter_locked(struct pull_engine *e, struct sched_event *ev,
                                           bool has_batch) {
        struct instance     *chosen = NULL;
        struct instance     *ended = ev->self != NULL ? ev->self : STEAL(ev->ended);
        enum instance_permit permit = PERMIT_NONE;

        if (ended != NULL)
                permit = ended->permit;
        if (permit == PERMIT_GIVEN && has_batch)
                return ended; /* it uses the permit that it has */
        if (permit != PERMIT_NONE)
                instance_set_permit_locked(ended, PERMIT_NONE);
        if (has_batch)
                chosen = rate_group_ask(e->group);
        else
                rate_group_withdraw(e->group);
        if (permit != PERMIT_NONE)
                rate_claim_end(ended->claim, permit == PERMIT_EXECUTED ? RATE_PERMIT_EXECUTED
                                                                       : RATE_PERMIT_UNUSED);
        return chosen;
}

static void take_first_locked(struct pull_engine *e, struct sched_event *ev, struct instance *in,
                              uint32_t n) {
        uint64_t rows = 0;

        assert(n > 0 && n <= e->queue.n_waiting);
        ev->n_requests = n;
        ev->batch = request_queue_take(&e->queue, n);
        for (struct request *req = ev->batch; req != NULL; req = req->queued.next) {
                rows += MAX(req->batch_size, 1);
                /* The response cache may have given it a ticket. */
                if (e->base.order != NULL && req->order_ticket == NULL)
                        req->order_ticket = response_ticket_new(e->base.order);
        }
        hand_out_here_locked(e, ev, in, rows);
}

/* Returns true when the calling thread got the batch. Then the policy is asked once more. */
static bool carry_out_locked(struct pull_engine *e, struct sched_event *ev,
                             const struct dispatch *d) {
        struct instance *in = d->on;

        if (e->group != NULL) {
                in = ask_limiter_locked(e, ev, d->verdict == BATCH_RUN);
                if (in != NULL && in->permit != PERMIT_GIVEN)
                        instance_set_permit_locked(in, PERMIT_GIVEN);
                if (in != NULL && in != ev->self && !(ev->may_run_here && may_borrow(e, in))) {
                        take_and_wake_locked(ev, in);
                        in = NULL;
                }
        }
        if (d->verdict == BATCH_WAIT)
                watch_locked(e, ev, d->wait_until_ns);
        if (d->verdict != BATCH_RUN || in == NULL)
                return false;
        if (in == ev->self || (ev->may_run_here && may_borrow(e, in))) {
                if (e->counts != NULL)
                        batch_counts_add_batch(e->counts, d->reason);
                take_first_locked(e, ev, in, d->n_requests);
                return true;
        }
        /* The requests stay in the queue: the instance takes its batch when its thread runs, some
         * microseconds later. Until then the batch may grow, its requests may be cancelled or expire,
         * and an instance that finishes earlier may take it. If the batch were taken here, none of
         * these would be possible. */
        wake_or_defer_locked(e, ev, in);
        return false;
}

static void expire_locked(struct pull_engine *e, struct sched_event *ev) {
        ev->expired = request_queue_expire(&e->queue, ev->now_ns);
        if (e->policy->ops->withdrawn != NULL)
                for (struct request *req = ev->expired; req != NULL; req = req->queued.next)
                        e->policy->ops->withdrawn(e->policy, req);
}

static NOINLINE void notify_due_locked(struct pull_engine *e, uint64_t now_ns) {
        const struct sched_view view = view_of(e);

        e->policy->ops->due(e->policy, &view, now_ns);
}

/* Asks the policy. After the calling thread got its batch, asks once more for the other instances. */
static inline void ask_policy_locked(struct pull_engine *e, struct sched_event *ev) {
        bool has_batch = true;

        while (has_batch && (!list_is_empty(&e->idle) || e->group != NULL)) {
                const struct sched_view view = view_of(e);
                struct dispatch         d = e->policy->ops->decide(e->policy, &view, ev->now_ns);

                has_batch = carry_out_locked(e, ev, &d) && (has_work(e) || e->group != NULL);
        }
}

/* Decides what happens next, after each event. This is the only place that does so. */
static void schedule_locked(struct pull_engine *e, struct sched_event *ev) {
        if (e->queue.dues.n > 0)
                expire_locked(e, ev);
        if (e->policy->due_ns != 0 && e->policy->due_ns <= ev->now_ns)
                notify_due_locked(e, ev->now_ns);
        if (e->policy->assigns_batches)
                pull_schedule_assigned_locked(e, ev);
        else
                ask_policy_locked(e, ev);
        if (e->policy->refused != NULL)
                ev->refused = STEAL(e->policy->refused);
        update_timer_locked(e);
}

/* ---- refusals, no lock held ------------------------------------------------------------------ */

static void refuse_all(struct pull_engine *e, struct request *first, const struct error *why,
                       enum failure_reason reason) {
        for (struct request *req = first, *next; req != NULL; req = next) {
                next = req->queued.next;
                model_stats_pending(e->model->stats, -1);
                request_refuse(req, why, reason);
        }
}

/* Gives up those of its rows that still waited. Its other rows are running or answered. */
static void give_up_parts(struct pull_engine *e, struct request *req, const struct error *why,
                          enum failure_reason reason) {
        model_stats_pending(e->model->stats, -1);
        request_split_give_up(req, why, reason);
}

static void answer_refused(struct pull_engine *e, struct refusal *first) {
        for (struct refusal *r = first, *next; r != NULL; r = next) {
                next = r->next;
                r->req->queued.next = NULL;
                if (r->req->is_split)
                        give_up_parts(e, r->req, r->why, FAILURE_REJECTED);
                else
                        refuse_all(e, r->req, r->why, FAILURE_REJECTED);
                error_free(r->why);
                free(r);
        }
}

static void refuse_cancelled(struct pull_engine *e, struct request *req) {
        static const struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "");

        req->queued.next = NULL;
        if (req->is_split)
                give_up_parts(e, req, &cancelled, FAILURE_CANCELED);
        else
                refuse_all(e, req, &cancelled, FAILURE_CANCELED);
}

/* ---- after the lock was released ------------------------------------------------------------- */

/* Releases the lock. Then wakes the threads of instances, and instances of other models that got a permit, and refuses
 * requests that timed out, before anything runs on this thread. When no batch was taken, the engine may be
 * freed during this call. */
static void unlock_and_finish(struct pull_engine *e, const struct sched_event *ev) {
        static const struct error expired =
                ERROR_STATIC(ERR_UNAVAILABLE, "Request timeout expired");
        struct rate_limiter *limiter = e->limiter;

        mutex_unlock(&e->lock);
        wake_signalled(ev);
        if (limiter != NULL)
                rate_limiter_deliver(limiter);
        if (ev->expired != NULL)
                refuse_all(e, ev->expired, &expired, FAILURE_REJECTED);
        if (ev->refused != NULL)
                answer_refused(e, ev->refused);
}

static void schedule_and_unlock(struct pull_engine *e, struct instance *ended) {
        struct sched_event ev = { .now_ns = clock_now_ns(), .ended = ended };

        schedule_locked(e, &ev);
        unlock_and_finish(e, &ev);
}

static NOINLINE void notify_executed_locked(struct pull_engine *e, const struct execution *done) {
        if (done->on->member != NULL)
                pull_count_execution(done);
        if (e->policy->ops->executed != NULL)
                e->policy->ops->executed(e->policy, done);
}

/* The instance has executed a batch. */
static inline void measure_locked(struct pull_engine *e, struct instance *in, uint64_t rows,
                                  uint64_t start_ns, uint64_t end_ns) {
        uint64_t old = e->average_ns, took_ns = end_ns - start_ns;

        e->average_ns = old == 0 ? MAX(took_ns, 1u) : (old * 7 + MAX(took_ns, 1u)) / 8;
        e->rows_running -= rows;
        e->busy_ns += took_ns;
        atomic_store_explicit(&in->busy_since_ns, 0, memory_order_relaxed);
        in->free_ns = end_ns;
        instance_set_state_locked(in, INSTANCE_FREE);
        if (in->member != NULL || e->policy->ops->executed != NULL)
                notify_executed_locked(e,
                                       &(struct execution){ in, rows, start_ns, took_ns, end_ns });
}

static uint64_t run_requests(struct pull_engine *e, const struct sched_event *ev, bool is_inline,
                             uint64_t start_ns) {
        model_stats_pending(e->model->stats, -(int)ev->n_requests);
        return instance_run(ev->runner, ev->batch, ev->n_requests, is_inline, start_ns);
}

/* Runs the event's batch, and then takes the lock. */
static void run_batch(struct pull_engine *e, struct sched_event *ev, bool is_inline) {
        uint64_t start_ns = infer_thread_now(ev->thread), end_ns;

        infer_thread_enter_execution(ev->thread, ev->spends_ns);
        if (e->policy->assigns_batches)
                end_ns = instance_run_items(ev->runner, e->model->stats, is_inline, start_ns);
        else
                end_ns = run_requests(e, ev, is_inline, start_ns);
        ev->has_continuations = infer_thread_leave_execution(ev->thread, end_ns);
        mutex_lock(&e->lock);
        measure_locked(e, ev->runner, ev->rows, start_ns, end_ns);
        if (ev->runner->claim != NULL)
                instance_set_permit_locked(ev->runner, PERMIT_EXECUTED);
}

/* Returns an instance that a submitter has borrowed. Its own thread sleeps on, because waking it would
 * cost more than the execution did. Only a thread that is to end waits for the return of its instance.
 * The instance becomes the first of the idle list: what it used last is most likely still in this core's
 * cache. */
static void return_borrowed_locked(struct pull_engine *e, struct instance *in) {
        if (e->is_ending || in->is_leaving)
                cond_signal(&in->wake);
        else if (in->is_continuing)
                list_append(&e->idle, &in->idle_node); /* its thread does not wait for a wake-up */
        else
                list_prepend(&e->idle, &in->idle_node);
}

/* Runs the submitter's batch on its own thread. */
static void run_borrowed(struct pull_engine *e, struct sched_event *ev) {
        struct instance *in = ev->runner;

        run_batch(e, ev, true);
        return_borrowed_locked(e, in);
        ev->has_more = ev->asks_again && has_work(e);
        /* Requests that came meanwhile found this instance busy, and may have woken none. So
         * the policy is asked for them: by the flush, which asks again anyway, or by this thread. */
        if (in->claim != NULL || (has_work(e) && !ev->asks_again))
                schedule_and_unlock(e, in);
        else
                mutex_unlock(&e->lock);
}

static void on_timeout(struct timer *t) {
        struct pull_engine *e = CONTAINER_OF(t, struct pull_engine, timeout);

        mutex_lock(&e->lock);
        e->timer_due_ns = CLOCK_NEVER;
        schedule_and_unlock(e, NULL);
}

/* ---- submit and cancel ----------------------------------------------------------------------- */

/* True for a request whose inputs are copied from a device before its execution, or whose outputs are copied
 * to one after it: the thread that executes it waits for the device, and the first time for the device's
 * context as well. */
static inline bool has_copies(const struct request *req) {
        return req->has_device_inputs || req->has_device_outputs;
}

/* True while such a request may wait. */
static bool waits_for_copies(const struct pull_engine *e) {
        return e->has_device_tensors && has_work(e);
}

/* Checks the first idle instance, which is the one that a policy runs if all are alike. A policy
 * that assigns batches may choose another one; that instance is checked when it is known. */
static inline bool may_run_here(struct pull_engine *e, const struct infer_thread *thread,
                                bool is_step) {
        struct list_node *first = list_first(&e->idle);

        if (e->inline_execution == INLINE_NEVER || first == NULL || waits_for_copies(e) ||
            (!e->policy->assigns_batches &&
             !runs_anywhere(e, LIST_ENTRY(first, struct instance, idle_node))))
                return false;
        if (e->inline_execution == INLINE_ALWAYS)
                return !infer_thread_is_executing(thread);
        return e->average_ns > 0 &&
               infer_thread_may_run(thread, e->average_ns, e->inline_limit_ns, is_step);
}

static struct error *error_draining(const struct request *req) {
        return request_error(req, ERR_UNAVAILABLE,
                             "Server is stopping, scheduler for model has stopped accepting new "
                             "inference requests");
}

/* Marks the request as queued. Returns false when it was cancelled meanwhile; then it is not queued
 * any more. */
static inline bool mark_queued_locked(struct pull_engine *e, struct request *req) {
        atomic_store(&req->state, REQUEST_PENDING);
        model_stats_pending(e->model->stats, 1);
        /* request_cancel() writes the flag and then reads the state, so one of the two sees the
         * other. */
        if (atomic_load(&req->stream->is_cancelled) && !req->runs_cancelled) {
                request_queue_remove(&e->queue, req);
                return false;
        }
        return true;
}

static inline void notify_arrival_locked(struct pull_engine *e, struct request *req) {
        if (e->policy->ops->arrived != NULL) {
                const struct sched_view view = view_of(e);

                e->policy->ops->arrived(e->policy, &view, req);
        }
}

/* Releases the lock, then runs the batch that was taken for this thread. */
static void unlock_and_run(struct pull_engine *e, struct sched_event *ev) {
        unlock_and_finish(e, ev);
        if (ev->runner == NULL)
                return;
        run_borrowed(e, ev);
        if (ev->has_continuations)
                infer_thread_continue(ev->thread, false);
}

/* Returns the instance that this thread may borrow for a request that runs at once, without the
 * queue and the policy: no other request waits. NULL: the request goes through the queue. The run of a step
 * has just looked whether its client has cancelled. */
static struct instance *find_direct_locked(struct pull_engine *e, const struct infer_thread *thread,
                                           const struct request *req) {
        if (!e->policy->is_immediate || e->queue.n_waiting > 0 || e->group != NULL ||
            e->batches_at_flush || has_copies(req) || !may_run_here(e, thread, req->is_inner) ||
            response_stream_is_cancelled(req->stream))
                return NULL;
        return LIST_ENTRY(list_first(&e->idle), struct instance, idle_node);
}

/* Runs a request that was never queued; no limiter counts its execution. Releases the lock. `req` may be
 * freed afterwards. */
static void run_direct(struct pull_engine *e, struct infer_thread *thread, struct instance *in,
                       struct request *req) {
        uint64_t rows = request_rows(req), spends_ns = e->average_ns;
        uint64_t start_ns, end_ns;
        bool     has_continuations;

        hand_out_locked(e, in, INSTANCE_BORROWED, rows);
        if (e->counts != NULL)
                batch_counts_add_batch(e->counts, DISPATCH_DUE);
        mutex_unlock(&e->lock);
        start_ns = infer_thread_now(thread);
        infer_thread_enter_execution(thread, spends_ns);
        end_ns = instance_run_one(in, req, start_ns);
        has_continuations = infer_thread_leave_execution(thread, end_ns);
        mutex_lock(&e->lock);
        measure_locked(e, in, rows, start_ns, end_ns);
        return_borrowed_locked(e, in);
        if (has_work(e)) /* requests that came meanwhile found this instance busy */
                schedule_and_unlock(e, NULL);
        else
                mutex_unlock(&e->lock);
        if (has_continuations)
                infer_thread_continue(thread, false);
}

/* Runs a batch here or wakes an instance. Releases the lock. `req` may be freed afterwards. */
static void act_on_arrival(struct pull_engine *e, struct infer_thread *thread, bool is_step,
                           uint64_t now_ns) {
        struct sched_event ev = { .thread = thread,
                                  .now_ns = now_ns,
                                  .may_run_here = may_run_here(e, thread, is_step),
                                  .spends_ns = e->average_ns };

        /* When the wake-up can be deferred, its flush asks the policy: now it would see one request, at
         * the end of the round all that the loop has read. Without an idle instance there is nothing to
         * defer; then the policy only updates what it waits for. */
        if (list_is_empty(&e->idle) || (ev.may_run_here && !e->batches_at_flush) ||
            !infer_thread_defer_wake(thread, e, e->model, wake_deferred))
                schedule_locked(e, &ev);
        else
                update_timer_locked(e);
        unlock_and_run(e, &ev);
}

/* Asks the policy with all requests that are queued now, and runs a batch here if it may. Returns
 * true when it ran one and more requests wait, for which no instance was woken. Adds the expected
 * duration to *spent_ns, the time that the current flush spends on batches. */
static bool schedule_again(struct pull_engine *e, uint64_t *spent_ns, bool asks_again) {
        struct sched_event ev = { .thread = infer_thread_self(),
                                  .now_ns = clock_now_ns(),
                                  .asks_again = asks_again };

        mutex_lock(&e->lock);
        ev.may_run_here = e->batches_at_flush &&
                          (*spent_ns == 0 || *spent_ns + e->average_ns < e->inline_limit_ns) &&
                          may_run_here(e, ev.thread, false);
        ev.spends_ns = e->average_ns;
        *spent_ns += e->average_ns;
        schedule_locked(e, &ev);
        unlock_and_run(e, &ev);
        return ev.has_more;
}

/* The flush of a submitter's deferred wake-ups. It asks the policy with all requests of the round,
 * and runs as many batches here as one event may. The submitter holds a reference to the model. */
static void wake_deferred(void *scheduler) {
        uint64_t spent_ns = 0;

        while (schedule_again(scheduler, &spent_ns, true))
                continue;
}

void pull_engine_ask_again(struct scheduler *s) {
        schedule_again(self_of(s), &(uint64_t){ 0 }, false);
}

static inline struct error *admit_locked(const struct pull_engine *e, const struct request *req) {
        if (e->is_draining && !req->is_inner)
                return error_draining(req);
        if (e->policy->ops->admit == NULL)
                return NULL;
        return e->policy->ops->admit(e->policy, req);
}

/* A thread reads the clock before it takes the lock, up to a round of its loop before
 * (infer/infer_thread.h). */
#define MAX_CLOCK_LAG_NS UINT64_C(100000)

/* Requests that come at the same time are queued in the order of their times, so that the oldest one is
 * the first (sched/queue_list.h). Requests of a sequence may have waited elsewhere before. */
static inline struct error *push_locked(struct pull_engine *e, struct request *req) {
        uint64_t now_ns = req->times.queue_start_ns;

        if (now_ns >= e->last_queued_ns)
                e->last_queued_ns = now_ns;
        else if (e->last_queued_ns - now_ns < MAX_CLOCK_LAG_NS)
                req->times.queue_start_ns = e->last_queued_ns;
        e->has_device_tensors = has_copies(req) || waits_for_copies(e);
        return request_queue_push(&e->queue, req, now_ns);
}

/* Queues the request. Releases the lock. */
static NOINLINE struct error *queue_and_unlock(struct pull_engine *e, struct infer_thread *thread,
                                               struct request *req) {
        uint64_t now_ns = req->times.request_start_ns;

        TRY_OR(push_locked(e, req), mutex_unlock(&e->lock));
        if (mark_queued_locked(e, req)) {
                notify_arrival_locked(e, req);
                act_on_arrival(e, thread, req->is_inner, now_ns);
        } else {
                mutex_unlock(&e->lock);
                refuse_cancelled(e, req);
        }
        return NULL;
}

static struct error *pull_submit(struct scheduler *base, struct request *req) {
        struct pull_engine  *e = self_of(base);
        struct infer_thread *thread = infer_thread_self();
        uint64_t             now_ns = req->times.request_start_ns;
        struct instance     *direct;

        /* No reading of the clock, here and under the lock: the time at which the request was made is
         * near enough for the policies, and a reading costs some 20 ns. */
        req->times.queue_start_ns = now_ns;
        mutex_lock(&e->lock);
        TRY_OR(admit_locked(e, req), mutex_unlock(&e->lock));
        direct = find_direct_locked(e, thread, req);
        if (direct != NULL)
                run_direct(e, thread, direct, req);
        else
                TRY(queue_and_unlock(e, thread, req));
        infer_thread_check_wakes(thread, now_ns);
        return NULL;
}

/* Queues one of several requests. Returns false when it is not in the queue: it was refused or
 * cancelled. */
static bool queue_one_locked(struct pull_engine *e, struct request *req, struct error **ret_error,
                             struct request **cancelled) {
        req->times.queue_start_ns = req->times.request_start_ns;
        *ret_error = admit_locked(e, req);
        if (*ret_error == NULL)
                *ret_error = push_locked(e, req);
        if (*ret_error != NULL)
                return false;
        if (mark_queued_locked(e, req))
                return true;
        req->queued.next = *cancelled;
        *cancelled = req;
        return false;
}

/* The requests are linked by queued.next. A policy may take some of them out of the queue in
 * arrived(). */
static void notify_arrivals_locked(struct pull_engine *e, struct request *first, uint32_t n) {
        if (n > 1 && e->policy->ops->arrived_together != NULL) {
                const struct sched_view view = view_of(e);

                e->policy->ops->arrived_together(e->policy, &view, first, n);
                return;
        }
        for (struct request *req = first, *next; req != NULL; req = next) {
                next = req->queued.next;
                notify_arrival_locked(e, req);
        }
}

/* Queues all requests before the policy is notified of any and before a batch is formed. */
static void pull_submit_all(struct scheduler *base, struct request *const *requests, uint32_t n,
                            struct error **ret_errors) {
        static const struct error why = ERROR_STATIC(ERR_CANCELLED, "");
        struct pull_engine       *e = self_of(base);
        struct infer_thread      *thread = infer_thread_self();
        struct request           *first = NULL, **end = &first;
        struct request           *cancelled = NULL;
        uint64_t                  now_ns = clock_now_ns();
        uint32_t                  n_queued = 0;

        mutex_lock(&e->lock);
        for (uint32_t i = 0; i < n; i++)
                if (queue_one_locked(e, requests[i], &ret_errors[i], &cancelled)) {
                        *end = requests[i];
                        end = &requests[i]->queued.next;
                        n_queued++;
                }
        *end = NULL;
        if (first != NULL) {
                notify_arrivals_locked(e, first, n_queued);
                act_on_arrival(e, thread, requests[0]->is_inner, now_ns);
        } else {
                mutex_unlock(&e->lock);
        }
        refuse_all(e, cancelled, &why, FAILURE_CANCELED);
        infer_thread_check_wakes(thread, now_ns);
}

static bool has_in_queue(struct pull_engine *e, const struct request *req) {
        struct queue_walk     walk = queue_walk_begin(&e->queue);
        const struct request *found;

        while ((found = queue_walk_next(&walk)) != NULL)
                if (found == req)
                        return true;
        return false;
}

/* False also for a request that its program has used again since its cancellation was begun: it may be in the queue
 * of another model, or of another instance for a sequence, of which there are as few requests as slots. */
static bool is_queued_here(struct pull_engine *e, const struct request *req) {
        return list_is_linked(&req->queued.node) && req->model == e->model &&
               (!req->has_sequence || has_in_queue(e, req));
}

static void pull_cancel(struct scheduler *base, struct request *req) {
        struct pull_engine *e = self_of(base);

        mutex_lock(&e->lock);
        /* `runs_cancelled` is fixed while the request is queued. */
        if (!is_queued_here(e, req) || req->runs_cancelled) {
                mutex_unlock(&e->lock);
                return;
        }
        request_queue_remove(&e->queue, req);
        if (e->policy->ops->withdrawn != NULL)
                e->policy->ops->withdrawn(e->policy, req);
        schedule_and_unlock(e, NULL);
        refuse_cancelled(e, req);
}

/* ---- the thread of an instance --------------------------------------------------------------- */

/* Sleeps until it is woken, or until the time that it watches. */
static void wait_idle_locked(struct pull_engine *e, struct instance *in) {
        if (e->watcher == in)
                cond_wait_until(&in->wake, &e->lock, in->watch_until_ns);
        else
                cond_wait(&in->wake, &e->lock);
        if (e->watcher == in) /* it is not the watcher any more when it was borrowed meanwhile */
                e->watcher = NULL;
        while (in->state == INSTANCE_BORROWED)
                cond_wait(&in->wake, &e->lock);
}

/* Runs the continuations of the batch. The caller holds the lock, which is released meanwhile. Then
 * the instance may be borrowed, because the next step may be one of the same model. It goes to the
 * end of the idle list: submitters first borrow instances whose threads are free. */
static void run_continuations(struct pull_engine *e, struct instance *in,
                              struct infer_thread *thread) {
        bool runs_steps = !has_work(e); /* otherwise the queued requests run first */

        in->is_continuing = true;
        if (!e->is_ending && !in->is_leaving)
                list_append(&e->idle, &in->idle_node);
        if (in->claim != NULL || e->policy->n_assigned > 0)
                schedule_and_unlock(e, in); /* the next step may need the same resource */
        else
                mutex_unlock(&e->lock);
        infer_thread_continue(thread, runs_steps);
        mutex_lock(&e->lock);
        in->is_continuing = false;
        while (in->state == INSTANCE_BORROWED)
                cond_wait(&in->wake, &e->lock);
}

/* Runs the batch that another thread took for this instance. */
static void run_dispatched(struct pull_engine *e, struct instance *in, struct sched_event *ev) {
        instance_set_state_locked(in, INSTANCE_RUNNING);
        ev->runner = in;
        ev->rows = in->rows;
        mutex_unlock(&e->lock);
        run_batch(e, ev, false);
        if (ev->has_continuations)
                run_continuations(e, in, ev->thread);
        leave_idle_locked(in);
}

/* One iteration of an instance's thread: asks for a batch and runs it, or sleeps. */
static void iterate_locked(struct pull_engine *e, struct instance *in,
                           struct infer_thread *thread) {
        struct sched_event ev = { .thread = thread, .now_ns = clock_now_ns(), .self = in };

        if (in->state == INSTANCE_DISPATCHED) {
                run_dispatched(e, in, &ev);
                return;
        }
        /* Idle before the policy is asked, since policies choose among the idle instances only. It is not
         * certain that this one gets the batch: a policy may prefer another, which is woken. */
        list_prepend(&e->idle, &in->idle_node);
        schedule_locked(e, &ev);
        if (ev.runner == NULL && ev.expired == NULL && ev.refused == NULL &&
            (e->limiter == NULL || !rate_limiter_has_permits(e->limiter))) {
                wake_signalled(&ev); /* the lock is released by the wait */
                wait_idle_locked(e, in);
        } else {
                leave_idle_locked(in);
                if (e->watcher == in)
                        e->watcher = NULL; /* it does not sleep: it asks again before */
                unlock_and_finish(e, &ev);
                if (ev.runner != NULL)
                        run_batch(e, &ev, false);
                else
                        mutex_lock(&e->lock);
                if (ev.has_continuations)
                        run_continuations(e, in, thread);
        }
        leave_idle_locked(in);
}

/* True when the instance has a batch for its thread, which runs it before it ends. */
static bool must_run(const struct instance *in) {
        return in->state == INSTANCE_ASSIGNED || in->state == INSTANCE_DISPATCHED;
}

static void instance_main(void *arg) {
        struct instance     *in = arg;
        struct pull_engine  *e = in->engine;
        struct infer_thread *thread = infer_thread_self();

        mutex_lock(&e->lock);
        while (in->state == INSTANCE_BORROWED)
                cond_wait(&in->wake, &e->lock);
        leave_idle_locked(in);
        while (must_run(in) || (!e->is_ending && !in->is_leaving))
                iterate_locked(e, in, thread);
        if (e->watcher == in)
                e->watcher = NULL;
        mutex_unlock(&e->lock);
}

/* ---- instances that come and go -------------------------------------------------------------- */

/* Creates the instance's claim at the rate limiter, if there is one. */
static struct error *join_limiter(struct instance *in) {
        struct pull_engine *e = in->engine;

        if (e->limiter == NULL)
                return NULL;
        if (e->policy->assigns_batches)
                in->group = rate_group_new(e->limiter);
        TRY(rate_claim_new(in->group != NULL ? in->group : e->group,
                           &(struct rate_claim_options){ .limits = in->executor->limits,
                                                         .device = in->executor->device,
                                                         .on_permit = on_permit,
                                                         .instance = in },
                           &in->claim));
        rate_limiter_deliver(e->limiter);
        return NULL;
}

static void notify_change_locked(struct pull_engine *e) {
        const struct sched_view view = view_of(e);

        if (e->policy->ops->instances_changed != NULL && e->is_ready)
                e->policy->ops->instances_changed(e->policy, &view);
}

/* Before the number of instances changes. */
static void count_available_locked(struct pull_engine *e) {
        uint64_t now_ns = clock_now_ns();

        e->available_ns += e->n_instances * (now_ns - e->counted_ns);
        e->counted_ns = now_ns;
}

static struct load_reading read_load(struct load_source *source, uint64_t now_ns) {
        struct pull_engine *e = CONTAINER_OF(source, struct pull_engine, load);
        struct load_reading r;

        MUTEX_GUARD(&e->lock);
        r = (struct load_reading){ .busy_ns = e->busy_ns,
                                   .available_ns = e->available_ns,
                                   .oldest_ns = request_queue_oldest(&e->queue) };
        if (now_ns > e->counted_ns)
                r.available_ns += e->n_instances * (now_ns - e->counted_ns);
        for (uint32_t i = 0; i < e->n_instances; i++) {
                uint64_t since_ns =
                        atomic_load_explicit(&e->instances[i]->busy_since_ns, memory_order_relaxed);

                if (since_ns != 0 && since_ns < now_ns)
                        r.busy_ns += now_ns - since_ns;
        }
        return r;
}

/* Its thread waits for the lock. */
static void join_locked(struct pull_engine *e, struct instance *in) {
        count_available_locked(e);
        e->instances = mem_realloc(e->instances, (e->n_instances + 1) * sizeof(struct instance *));
        e->instances[e->n_instances++] = in;
        notify_change_locked(e);
        if (e->policy->ops->instance_joined != NULL) {
                const struct sched_view view = view_of(e);

                e->policy->ops->instance_joined(e->policy, &view, in);
        }
        /* Otherwise another member would run a batch that belongs to this one. */
        if (e->policy->assigns_batches)
                list_append(&e->idle, &in->idle_node);
}

/* Frees an instance that has no thread and is not known to the policy. */
static void give_up_instance(struct pull_engine *e, struct instance *in) {
        rate_claim_free(STEAL(in->claim));
        mutex_lock(&e->lock);
        schedule_and_unlock(e, NULL); /* it may have got a permit meanwhile */
        instance_free(in);
}

static struct error *pull_add_executor(struct scheduler *base, struct executor *executor) {
        struct pull_engine *e = self_of(base);
        struct instance    *in;
        struct error       *err;

        if (executor->is_passive)
                return NULL;
        in = instance_new(e, executor);
        if (e->policy->has_members && e->counts != NULL)
                pull_count_member(e, in);
        TRY_OR(join_limiter(in), instance_free(in));
        /* The policy may assign a batch to the instance, so its thread must exist. */
        mutex_lock(&e->lock);
        err = instance_start_thread(in, instance_main);
        if (err == NULL)
                join_locked(e, in);
        mutex_unlock(&e->lock);
        if (err != NULL)
                give_up_instance(e, in);
        return err;
}

/* Removes the instance from the array and lets its thread end. Returns NULL when no instance has
 * the executor. */
static struct instance *detach_locked(struct pull_engine *e, const struct executor *executor) {
        for (uint32_t i = 0; i < e->n_instances; i++) {
                struct instance *in = e->instances[i];

                if (in->executor != executor)
                        continue;
                count_available_locked(e);
                e->instances[i] = e->instances[--e->n_instances];
                notify_change_locked(e);
                in->is_leaving = true;
                if (e->policy->ops->instance_left != NULL) {
                        const struct sched_view view = view_of(e);

                        e->policy->ops->instance_left(e->policy, &view, in);
                }
                if (in->state != INSTANCE_BORROWED)
                        wake_locked(in);
                return in;
        }
        return NULL;
}

static void pull_remove_executor(struct scheduler *base, struct executor *executor) {
        struct pull_engine *e = self_of(base);
        struct instance    *in;

        mutex_lock(&e->lock);
        in = detach_locked(e, executor);
        mutex_unlock(&e->lock);
        if (in == NULL)
                return;
        instance_join_thread(in);
        /* After this the instance gets no permit. A thread that is giving it one now holds the lock,
         * so it has finished when the lock is taken. */
        rate_claim_free(STEAL(in->claim));
        mutex_lock(&e->lock);
        /* When it left, the instance may have been woken for a batch, or have been the watcher. */
        schedule_and_unlock(e, NULL);
        instance_free(in);
}

/* ---- creation and end ------------------------------------------------------------------------ */

static void drain_policy_and_unlock(struct pull_engine *e) {
        if (e->policy->ops->drain != NULL)
                e->policy->ops->drain(e->policy, clock_now_ns());
        schedule_and_unlock(e, NULL);
}

static void pull_drain(struct scheduler *base) {
        struct pull_engine *e = self_of(base);

        mutex_lock(&e->lock);
        e->is_draining = true;
        drain_policy_and_unlock(e);
}

static void pull_retire(struct scheduler *base) {
        struct pull_engine *e = self_of(base);

        mutex_lock(&e->lock);
        drain_policy_and_unlock(e);
}

static void pull_free(struct scheduler *base) {
        struct pull_engine *e = self_of(base);

        load_source_remove(&e->load);
        mutex_lock(&e->lock);
        e->is_ending = true;
        for (uint32_t i = 0; i < e->n_instances; i++)
                cond_signal(&e->instances[i]->wake);
        mutex_unlock(&e->lock);
        for (uint32_t i = 0; i < e->n_instances; i++)
                instance_join_thread(e->instances[i]);
        timer_cancel(e->timers, &e->timeout);
        /* Until here another instance's thread, or the timer's, may go through all instances. */
        for (uint32_t i = 0; i < e->n_instances; i++)
                instance_free(e->instances[i]);
        rate_group_free(e->group);
        if (e->limiter != NULL)
                rate_limiter_deliver(e->limiter);
        request_queue_done(&e->queue);
        response_order_unref(e->base.order);
        policy_free(e->policy);
        mutex_done(&e->lock);
        free(e->instances);
        free(e);
}

static const struct scheduler_ops pull_ops = {
        .submit = pull_submit,
        .submit_all = pull_submit_all,
        .cancel = pull_cancel,
        .add_executor = pull_add_executor,
        .remove_executor = pull_remove_executor,
        .drain = pull_drain,
        .retire = pull_retire,
        .free = pull_free,
};

struct error *pull_engine_new(const struct pull_options *o, struct scheduler **ret) {
        struct pull_engine *e = mem_zalloc(sizeof(*e));

        e->base.ops = &pull_ops;
        e->model = o->model;
        e->policy = o->policy;
        e->base.may_split = o->policy->assigns_batches;
        e->timers = o->timers;
        e->limiter = o->limiter;
        e->counts = model_stats_batches(o->model->stats);
        e->group = o->limiter != NULL && !o->policy->assigns_batches ? rate_group_new(o->limiter)
                                                                     : NULL;
        timer_init(&e->timeout, on_timeout);
        e->timer_due_ns = CLOCK_NEVER;
        e->inline_execution = o->inline_execution;
        e->batches_at_flush = o->batches_at_flush;
        e->inline_limit_ns = o->inline_limit_ns > 0 ? o->inline_limit_ns : INLINE_DEFAULT_LIMIT_NS;
        if (e->policy->limits->preserve_ordering)
                e->base.order = response_order_new();
        mutex_init(&e->lock, LOCK_QUEUE);
        list_init(&e->idle);
        request_queue_init(&e->queue, e->policy->limits);
        for (uint32_t i = 0; i < o->n_executors; i++)
                TRY_OR(pull_add_executor(&e->base, o->executors[i]), pull_free(&e->base));
        load_source_add(&e->load, o->model->stats, read_load);
        mutex_lock(&e->lock);
        e->is_ready = true;
        mutex_unlock(&e->lock);
        *ret = &e->base;
        return NULL;
}
