/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/step_limit.h"

#include "base/clock.h"

#include <assert.h>

static void unlink_locked(struct step_limit *l, struct step_waiter *w) {
        list_remove(&w->node);
        if (w->due.due_ns != CLOCK_NEVER)
                due_heap_remove(&l->deadlines, &w->due);
}

/* The timer fires at the first deadline, or before it; then it is armed again. */
static void arm_locked(struct step_limit *l) {
        const struct due *first = due_heap_first(&l->deadlines);

        if (first != NULL && first->due_ns < l->timer_due_ns) {
                l->timer_due_ns = first->due_ns;
                timer_arm(l->timers, &l->timer, first->due_ns);
        }
}

/* Returns NULL when none has expired. */
static struct step_waiter *take_expired_locked(struct step_limit *l) {
        struct due         *due = due_heap_first(&l->deadlines);
        struct step_waiter *w;

        if (due == NULL || due->due_ns > clock_now_ns())
                return NULL;
        w = CONTAINER_OF(due, struct step_waiter, due);
        unlink_locked(l, w);
        return w;
}

/* Expires one waiter for each call: the callback may free the limit, so it is the last action. The
 * timer fires again at once for further waiters. */
static void on_timer(struct timer *t) {
        struct step_limit  *l = CONTAINER_OF(t, struct step_limit, timer);
        step_expired_fn     expired = l->expired;
        struct step_waiter *w;

        mutex_lock(&l->lock);
        l->timer_due_ns = CLOCK_NEVER;
        w = take_expired_locked(l);
        arm_locked(l);
        mutex_unlock(&l->lock);
        if (w != NULL)
                expired(w);
}

void step_limit_init(struct step_limit *l, uint32_t max, struct timer_thread *timers,
                     step_expired_fn expired) {
        *l = (struct step_limit){
                .max = max, .timers = timers, .expired = expired, .timer_due_ns = CLOCK_NEVER
        };
        timer_init(&l->timer, on_timer);
        mutex_init(&l->lock, LOCK_RATE_LIMITER);
        list_init(&l->waiters);
        due_heap_init(&l->deadlines);
}

void step_limit_done(struct step_limit *l) {
        timer_cancel(l->timers, &l->timer);
        assert(l->n_inside == 0 && list_is_empty(&l->waiters));
        due_heap_done(&l->deadlines);
        mutex_done(&l->lock);
}

enum step_entry step_limit_enter(struct step_limit *l, struct step_waiter *w, uint64_t deadline_ns,
                                 const _Atomic bool *is_stopping) {
        if (l->max == 0)
                return STEP_INSIDE;
        MUTEX_GUARD(&l->lock);
        if (l->n_inside < l->max) {
                l->n_inside++;
                return STEP_INSIDE;
        }
        if (atomic_load(is_stopping))
                return STEP_STOPPED;
        w->due.due_ns = deadline_ns;
        if (deadline_ns != CLOCK_NEVER && !due_heap_push(&l->deadlines, &w->due))
                return STEP_OUT_OF_MEMORY;
        list_append(&l->waiters, &w->node);
        arm_locked(l);
        return STEP_WAITS;
}

struct step_waiter *step_limit_leave(struct step_limit *l) {
        struct list_node   *node;
        struct step_waiter *first;

        if (l->max == 0)
                return NULL;
        MUTEX_GUARD(&l->lock);
        node = list_first(&l->waiters);
        if (node == NULL) {
                l->n_inside--;
                return NULL;
        }
        first = LIST_ENTRY(node, struct step_waiter, node);
        unlink_locked(l, first);
        return first;
}

bool step_limit_withdraw(struct step_limit *l, struct step_waiter *w) {
        if (l->max == 0)
                return false;
        MUTEX_GUARD(&l->lock);
        if (!list_is_linked(&w->node))
                return false;
        unlink_locked(l, w);
        return true;
}
