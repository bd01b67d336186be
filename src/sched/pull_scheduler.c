/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/pull_scheduler.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/placement.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_shape.h"
#include "infer/response_order.h"
#include "sched/batch_queue.h"
#include "sched/instance.h"
#include "sched/rate_limiter.h"
#include "sched/wake_hold.h"

#include <stdio.h>

struct pull_scheduler {
        struct scheduler       base;
        struct model          *model; /* borrowed: the owner */
        struct batch_policy    policy;
        struct timer_thread   *timers; /* borrowed */
        struct timer           timeout;
        struct rate_limiter   *limiter; /* borrowed; NULL: nothing is limited */
        struct rate_group     *group;   /* owned; NULL without a limiter */
        enum inline_execution  inline_execution;
        uint64_t               inline_limit_ns;
        _Atomic uint64_t       average_ns; /* of executions, moving; 0 = not measured yet */

        struct mutex       lock; /* rank LOCK_QUEUE; guards everything below */
        struct instance  **instances; /* owned, and each */
        uint32_t           n_instances;
        struct batch_queue queue;
        struct list        idle;    /* struct instance, the last to become idle first */
        struct instance   *watcher; /* borrowed: sleeps until its watch_until_ns; may be NULL */
        uint64_t           timer_due_ns;
        bool               is_stopping; /* no new requests */
        bool               is_ending;   /* instances leave */
};

/* More than 0 while this thread runs a batch for a submitter. */
static _Thread_local unsigned inline_depth;
static _Thread_local bool     inline_is_allowed;

void pull_scheduler_allow_inline(bool allow) {
        inline_is_allowed = allow;
}

static struct pull_scheduler *self(struct scheduler *s) {
        return CONTAINER_OF(s, struct pull_scheduler, base);
}

static void wake_locked(struct instance *in) {
        if (list_is_linked(&in->idle_node))
                list_remove(&in->idle_node);
        cond_signal(&in->wake);
}

static void give_turn_locked(struct instance *in) {
        in->has_turn = true;
        wake_locked(in);
}

/* The limiter's call. */
static void on_turn(void *instance) {
        struct instance *in = instance;

        MUTEX_GUARD(&in->scheduler->lock);
        give_turn_locked(in);
}

/* Instances of other models may have got their turn: no lock may be held. `l` may be NULL. */
static void tell_turns(struct rate_limiter *l) {
        if (UNLIKELY(l != NULL))
                rate_limiter_deliver(l);
}

static struct instance *first_idle_locked(struct pull_scheduler *s) {
        struct list_node *node = list_first(&s->idle);

        return node != NULL ? LIST_ENTRY(node, struct instance, idle_node) : NULL;
}

static void measure(struct pull_scheduler *s, uint64_t took_ns) {
        uint64_t old = atomic_load_explicit(&s->average_ns, memory_order_relaxed);

        if (took_ns == 0)
                took_ns = 1;
        atomic_store_explicit(&s->average_ns, old == 0 ? took_ns : (old * 7 + took_ns) / 8,
                              memory_order_relaxed);
}

static bool may_run_here(const struct pull_scheduler *s, const struct instance *in) {
        uint64_t average;

        if (s->inline_execution == INLINE_NEVER || inline_depth > 0 || in->executor->is_bound)
                return false;
        if (s->inline_execution == INLINE_ALWAYS)
                return true;
        average = atomic_load_explicit(&s->average_ns, memory_order_relaxed);
        return inline_is_allowed && in->executor->may_inline && average > 0 &&
               average < s->inline_limit_ns;
}

/* The timer follows the queue's next due time. */
static void follow_dues_locked(struct pull_scheduler *s) {
        uint64_t due_ns = batch_queue_next_due(&s->queue);

        if (due_ns == s->timer_due_ns)
                return;
        s->timer_due_ns = due_ns;
        timer_arm(s->timers, &s->timeout, due_ns);
}

static void refuse_all(struct pull_scheduler *s, struct request *first, const struct error *why,
                       enum failure_reason reason) {
        for (struct request *req = first, *next; req != NULL; req = next) {
                next = req->queued.next;
                model_stats_pending(s->model->stats, -1);
                request_refuse(req, why, reason);
        }
}

static void refuse_expired(struct pull_scheduler *s, struct request *first) {
        static const struct error expired = ERROR_STATIC(ERR_UNAVAILABLE,
                                                         "Request timeout expired");

        refuse_all(s, first, &expired, FAILURE_REJECTED);
}

static struct request *take_locked(struct pull_scheduler *s, uint32_t n) {
        struct request *first = batch_queue_take(&s->queue, n);

        if (s->base.order != NULL)
                for (struct request *req = first; req != NULL; req = req->queued.next)
                        if (req->slot == NULL) /* it may have got one before, for a cache */
                                req->slot = response_slot_new(s->base.order);
        return first;
}

/* The limiter knows whether there is a batch to run. A turn that comes at once is given. */
static void follow_queue_locked(struct pull_scheduler *s, uint64_t now_ns) {
        struct instance *in;

        if (batch_queue_decide(&s->queue, now_ns).verdict != BATCH_RUN) {
                rate_group_withdraw(s->group);
                return;
        }
        in = rate_group_ask(s->group);
        if (in != NULL)
                give_turn_locked(in);
}

/* With what waits in the queue by now: who goes on working competes for the next turn. */
static void end_turn_locked(struct instance *in, enum rate_turn_use use) {
        follow_queue_locked(in->scheduler, clock_now_ns());
        rate_claim_end(in->claim, use);
}

/* After something changed: somebody idle runs what may run, or watches the time. */
static void wake_for_work_locked(struct pull_scheduler *s, uint64_t now_ns) {
        struct instance      *in = first_idle_locked(s);
        struct batch_decision d;

        if (UNLIKELY(s->group != NULL))
                follow_queue_locked(s, now_ns);
        if (in == NULL)
                return;
        d = batch_queue_decide(&s->queue, now_ns);
        if (d.verdict == BATCH_RUN && s->group == NULL)
                wake_locked(in);
        else if (d.verdict == BATCH_WAIT && s->watcher == NULL)
                wake_locked(in);
        else if (d.verdict == BATCH_WAIT && d.wait_until_ns < s->watcher->watch_until_ns)
                wake_locked(s->watcher);
}

static void on_timeout(struct timer *t) {
        struct pull_scheduler *s = CONTAINER_OF(t, struct pull_scheduler, timeout);
        struct request        *expired;

        mutex_lock(&s->lock);
        s->timer_due_ns = CLOCK_NEVER;
        expired = batch_queue_expire(&s->queue, clock_now_ns());
        follow_dues_locked(s);
        if (UNLIKELY(s->group != NULL))
                follow_queue_locked(s, clock_now_ns());
        mutex_unlock(&s->lock);
        tell_turns(s->limiter);
        refuse_expired(s, expired);
}

/* Runs a batch on the submitter's thread. Takes and gives back the lock. */
static void run_borrowed_locked(struct pull_scheduler *s, struct instance *in, uint32_t n) {
        struct request *first = take_locked(s, n);

        list_remove(&in->idle_node);
        in->is_borrowed = true;
        if (s->watcher == in)
                s->watcher = NULL; /* it cannot act now: another one has to watch */
        follow_dues_locked(s);
        if (s->queue.n_waiting > 0 || s->group != NULL)
                wake_for_work_locked(s, clock_now_ns());
        mutex_unlock(&s->lock);
        tell_turns(s->limiter);

        inline_depth++;
        measure(s, instance_run(in, first, n, true));
        inline_depth--;

        mutex_lock(&s->lock);
        in->is_borrowed = false;
        if (s->is_ending || in->is_leaving)
                cond_signal(&in->wake);
        else
                list_prepend(&s->idle, &in->idle_node);
        if (UNLIKELY(in->claim != NULL))
                end_turn_locked(in, RATE_TURN_EXECUTED);
        if (s->queue.n_waiting > 0)
                wake_for_work_locked(s, clock_now_ns());
}

/* An instance whose turn it is and that can be borrowed; NULL when the turn is another one's, or
 * comes later. */
static struct instance *ask_locked(struct pull_scheduler *s) {
        struct instance *in = rate_group_ask(s->group);

        if (in == NULL || list_is_linked(&in->idle_node))
                return in;
        give_turn_locked(in); /* its thread is awake */
        return NULL;
}

static struct error *stopping(const struct request *req) {
        return request_error(req, ERR_UNAVAILABLE,
                             "Server is stopping, scheduler for model has stopped accepting new "
                             "inference requests");
}

static void refuse_cancelled(struct pull_scheduler *s, struct request *req) {
        static const struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "");

        req->queued.next = NULL;
        refuse_all(s, req, &cancelled, FAILURE_CANCELED);
}

/* For a submitter that held its wake-up back. */
static void wake_held(void *scheduler) {
        struct pull_scheduler *s = scheduler;

        mutex_lock(&s->lock);
        wake_for_work_locked(s, clock_now_ns());
        mutex_unlock(&s->lock);
        tell_turns(s->limiter);
}

static struct error *pull_submit(struct scheduler *base, struct request *req) {
        struct pull_scheduler *s = self(base);
        uint64_t               now_ns = req->times.request_start_ns;
        struct batch_decision  d = { .verdict = BATCH_NOTHING };
        struct request        *expired = NULL;
        struct rate_limiter   *limiter = s->limiter; /* outlives the scheduler */
        struct instance       *in;

        req->times.queue_start_ns = now_ns;
        mutex_lock(&s->lock);
        struct error *err = s->is_stopping ? stopping(req)
                                           : batch_queue_push(&s->queue, req, now_ns);
        if (err != NULL) {
                mutex_unlock(&s->lock);
                return err;
        }
        atomic_store(&req->state, REQUEST_PENDING);
        model_stats_pending(s->model->stats, 1);
        /* request_cancel() writes the flag, then reads the state: one of the two sees the other. */
        if (UNLIKELY(atomic_load(&req->flow->is_cancelled))) {
                batch_queue_remove(&s->queue, req);
                mutex_unlock(&s->lock);
                refuse_cancelled(s, req);
                return NULL;
        }
        if (UNLIKELY(s->queue.dues.n > 0))
                expired = batch_queue_expire(&s->queue, now_ns);
        in = first_idle_locked(s);
        /* Those that timed out get their answer before anything runs here. */
        if (in != NULL && expired == NULL && may_run_here(s, in))
                d = batch_queue_decide(&s->queue, now_ns);
        if (UNLIKELY(limiter != NULL) && d.verdict == BATCH_RUN)
                in = ask_locked(s);
        if (d.verdict == BATCH_RUN && in != NULL) {
                run_borrowed_locked(s, in, d.n_requests);
        } else {
                follow_dues_locked(s);
                if (in != NULL && !wake_hold_add(s, s->model, wake_held))
                        wake_for_work_locked(s, now_ns);
        }
        mutex_unlock(&s->lock);
        tell_turns(limiter);
        wake_hold_check(now_ns);
        refuse_expired(s, expired);
        return NULL;
}

static void pull_cancel(struct scheduler *base, struct request *req) {
        struct pull_scheduler *s = self(base);
        bool                   was_queued;

        mutex_lock(&s->lock);
        was_queued = batch_queue_remove(&s->queue, req);
        if (was_queued) {
                follow_dues_locked(s);
                wake_for_work_locked(s, clock_now_ns());
        }
        mutex_unlock(&s->lock);
        if (!was_queued)
                return;
        tell_turns(s->limiter);
        refuse_cancelled(s, req);
}

/* Sleeps until woken, or until the time to watch for. */
static void wait_idle_locked(struct pull_scheduler *s, struct instance *in,
                             const struct batch_decision *d) {
        list_prepend(&s->idle, &in->idle_node);
        if (d->verdict == BATCH_WAIT && s->watcher == NULL) {
                s->watcher = in;
                in->watch_until_ns = d->wait_until_ns;
                cond_wait_until(&in->wake, &s->lock, d->wait_until_ns);
                if (s->watcher == in) /* not any more when it was borrowed meanwhile */
                        s->watcher = NULL;
        } else {
                cond_wait(&in->wake, &s->lock);
        }
        while (in->is_borrowed)
                cond_wait(&in->wake, &s->lock);
        if (list_is_linked(&in->idle_node))
                list_remove(&in->idle_node);
}

/* With a limiter: false when the instance has waited, or given back a turn that it has nothing
 * for, and has to look again. */
static bool use_turn_locked(struct pull_scheduler *s, struct instance *in,
                            const struct batch_decision *d) {
        bool had_turn;

        if (d->verdict == BATCH_RUN && !in->has_turn)
                follow_queue_locked(s, clock_now_ns());
        had_turn = in->has_turn;
        in->has_turn = false;
        if (had_turn == (d->verdict == BATCH_RUN))
                return true;
        if (!had_turn) {
                wait_idle_locked(s, in, d);
                return false;
        }
        end_turn_locked(in, RATE_TURN_UNUSED);
        mutex_unlock(&s->lock);
        tell_turns(s->limiter);
        mutex_lock(&s->lock);
        return false;
}

static void instance_main(void *arg) {
        struct instance       *in = arg;
        struct pull_scheduler *s = in->scheduler;

        mutex_lock(&s->lock);
        while (!s->is_ending && !in->is_leaving) {
                uint64_t              now_ns = clock_now_ns();
                struct request       *expired = batch_queue_expire(&s->queue, now_ns);
                struct batch_decision d;

                if (expired != NULL) {
                        follow_dues_locked(s);
                        if (UNLIKELY(s->group != NULL))
                                follow_queue_locked(s, now_ns);
                        mutex_unlock(&s->lock);
                        tell_turns(s->limiter);
                        refuse_expired(s, expired);
                        mutex_lock(&s->lock);
                        continue;
                }
                d = batch_queue_decide(&s->queue, now_ns);
                if (UNLIKELY(s->group != NULL) && !use_turn_locked(s, in, &d))
                        continue;
                if (d.verdict != BATCH_RUN) {
                        wait_idle_locked(s, in, &d);
                        continue;
                }
                struct request *first = take_locked(s, d.n_requests);

                follow_dues_locked(s);
                if (s->queue.n_waiting > 0 || s->group != NULL)
                        wake_for_work_locked(s, now_ns);
                mutex_unlock(&s->lock);
                tell_turns(s->limiter);
                measure(s, instance_run(in, first, d.n_requests, false));
                mutex_lock(&s->lock);
                if (UNLIKELY(in->claim != NULL)) {
                        end_turn_locked(in, RATE_TURN_EXECUTED);
                        mutex_unlock(&s->lock);
                        tell_turns(s->limiter);
                        mutex_lock(&s->lock);
                }
        }
        mutex_unlock(&s->lock);
}

static void pull_stop(struct scheduler *base) {
        struct pull_scheduler *s = self(base);

        MUTEX_GUARD(&s->lock);
        s->is_stopping = true;
}

/* Its place at the limiter, if there is one. */
static struct error *join_limiter(struct instance *in) {
        struct pull_scheduler *s = in->scheduler;

        if (s->limiter == NULL)
                return NULL;
        TRY(rate_claim_new(s->group,
                           &(struct rate_claim_options){ .limits = in->executor->limits,
                                                         .device = in->executor->device,
                                                         .on_turn = on_turn,
                                                         .instance = in },
                           &in->claim));
        tell_turns(s->limiter);
        return NULL;
}

static struct error *pull_add(struct scheduler *base, struct executor *executor) {
        struct pull_scheduler *s = self(base);
        struct instance       *in;
        struct error          *err;

        if (executor->is_passive)
                return NULL;
        in = instance_new(s, executor);
        err = join_limiter(in);
        if (err != NULL) {
                instance_free(in);
                return err;
        }
        mutex_lock(&s->lock);
        s->instances = mem_realloc(s->instances, (s->n_instances + 1) * sizeof(struct instance *));
        s->instances[s->n_instances++] = in;
        mutex_unlock(&s->lock);
        err = placement_start_thread(executor->place, &in->thread, executor->name, instance_main,
                                     in);
        if (err != NULL)
                base->ops->remove_executor(base, executor);
        return err;
}

/* Out of the array, its thread told to leave; NULL when there is none. */
static struct instance *dismiss_locked(struct pull_scheduler *s, const struct executor *executor) {
        for (uint32_t i = 0; i < s->n_instances; i++) {
                struct instance *in = s->instances[i];

                if (in->executor != executor)
                        continue;
                s->instances[i] = s->instances[--s->n_instances];
                in->is_leaving = true;
                if (!in->is_borrowed)
                        wake_locked(in);
                return in;
        }
        return NULL;
}

static void pull_remove(struct scheduler *base, struct executor *executor) {
        struct pull_scheduler *s = self(base);
        struct instance       *in;

        mutex_lock(&s->lock);
        in = dismiss_locked(s, executor);
        mutex_unlock(&s->lock);
        if (in == NULL)
                return;
        thread_join(&in->thread);
        instance_free(in);
        /* It may have been woken for a batch, or have watched the time, when it left. */
        mutex_lock(&s->lock);
        wake_for_work_locked(s, clock_now_ns());
        mutex_unlock(&s->lock);
        tell_turns(s->limiter);
}

static void pull_free(struct scheduler *base) {
        struct pull_scheduler *s = self(base);

        mutex_lock(&s->lock);
        s->is_stopping = s->is_ending = true;
        for (uint32_t i = 0; i < s->n_instances; i++)
                cond_signal(&s->instances[i]->wake);
        mutex_unlock(&s->lock);
        for (uint32_t i = 0; i < s->n_instances; i++) {
                thread_join(&s->instances[i]->thread);
                instance_free(s->instances[i]);
        }
        timer_cancel(s->timers, &s->timeout);
        rate_group_free(s->group);
        tell_turns(s->limiter);
        batch_queue_done(&s->queue);
        response_order_unref(s->base.order);
        batch_policy_done(&s->policy);
        mutex_done(&s->lock);
        free(s->instances);
        free(s);
}

static const struct scheduler_ops pull_ops = {
        .submit = pull_submit,
        .cancel = pull_cancel,
        .add_executor = pull_add,
        .remove_executor = pull_remove,
        .stop = pull_stop,
        .free = pull_free,
};

struct error *pull_scheduler_new(const struct pull_options *o, struct scheduler **ret) {
        struct pull_scheduler *s = mem_zalloc(sizeof(*s));
        struct error          *err = NULL;

        s->base.ops = &pull_ops;
        s->model = o->model;
        s->policy = *o->policy;
        *o->policy = (struct batch_policy){ 0 };
        s->timers = o->timers;
        s->limiter = o->limiter;
        s->group = o->limiter != NULL ? rate_group_new(o->limiter) : NULL;
        timer_init(&s->timeout, on_timeout);
        s->timer_due_ns = CLOCK_NEVER;
        s->inline_execution = o->inline_execution;
        s->inline_limit_ns = o->inline_limit_ns > 0 ? o->inline_limit_ns : INLINE_DEFAULT_LIMIT_NS;
        if (s->policy.preserve_ordering)
                s->base.order = response_order_new();
        mutex_init(&s->lock, LOCK_QUEUE);
        list_init(&s->idle);
        batch_queue_init(&s->queue,
                         &(struct batch_rules){
                                 .policy = &s->policy,
                                 .one_by_one = o->one_by_one,
                                 .equal_shapes = model_io_needs_equal_shapes(o->model->io),
                                 .filter = o->filter,
                         });
        for (uint32_t i = 0; i < o->n_executors && err == NULL; i++)
                err = pull_add(&s->base, o->executors[i]);
        if (err != NULL) {
                pull_free(&s->base);
                return err;
        }
        *ret = &s->base;
        return NULL;
}
