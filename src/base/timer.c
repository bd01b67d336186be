/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/timer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"

struct timer_thread {
        struct thread thread;

        struct mutex    lock;     /* rank LOCK_TIMER; guards everything below and armed timers */
        struct cond     changed;  /* the first deadline moved, or `is_stopping` */
        struct cond     finished; /* `running` became NULL */
        struct due_heap armed;    /* struct timer, borrowed */
        struct timer   *running;  /* borrowed: only compared, since its owner may free it in the
                                 * callback */
        bool            is_stopping;
};

/* The calling thread's timer thread, if it is one: to detect a cancel from within a callback. */
static _Thread_local struct timer_thread *this_timer_thread;

static void disarm_locked(struct timer_thread *tt, struct timer *t) {
        if (t->due.due_ns == CLOCK_NEVER)
                return;
        due_heap_remove(&tt->armed, &t->due);
        t->due.due_ns = CLOCK_NEVER;
}

static struct timer *first_locked(const struct timer_thread *tt) {
        struct due *first = due_heap_first(&tt->armed);

        return first != NULL ? CONTAINER_OF(first, struct timer, due) : NULL;
}

/* Runs a timer without the lock; `t` may be freed when its callback returns. */
static void fire_locked(struct timer_thread *tt, struct timer *t) {
        timer_fn fire = t->fire;

        disarm_locked(tt, t);
        tt->running = t;
        mutex_unlock(&tt->lock);
        fire(t);
        mutex_lock(&tt->lock);
        tt->running = NULL;
        cond_broadcast(&tt->finished);
}

static void run_timers(void *arg) {
        struct timer_thread *tt = arg;
        MUTEX_GUARD(&tt->lock);

        this_timer_thread = tt;
        while (!tt->is_stopping) {
                struct timer *first = first_locked(tt);
                uint64_t      due_ns = first != NULL ? first->due.due_ns : CLOCK_NEVER;

                if (first != NULL && due_ns <= clock_now_ns())
                        fire_locked(tt, first);
                else
                        cond_wait_until(&tt->changed, &tt->lock, due_ns);
        }
}

static void release_timers(struct timer_thread *tt) {
        cond_done(&tt->finished);
        cond_done(&tt->changed);
        mutex_done(&tt->lock);
        due_heap_done(&tt->armed);
        free(tt);
}

struct error *timer_thread_new(struct timer_thread **ret) {
        struct timer_thread *tt = mem_zalloc(sizeof(*tt));

        mutex_init(&tt->lock, LOCK_TIMER);
        cond_init(&tt->changed);
        cond_init(&tt->finished);
        TRY_OR(thread_start(&tt->thread, "timer", run_timers, tt), release_timers(tt));
        *ret = tt;
        return NULL;
}

void timer_thread_free(struct timer_thread *tt) {
        if (tt == NULL)
                return;
        mutex_lock(&tt->lock);
        tt->is_stopping = true;
        cond_signal(&tt->changed);
        mutex_unlock(&tt->lock);

        thread_join(&tt->thread);
        release_timers(tt);
}

void timer_init(struct timer *t, timer_fn fire) {
        *t = (struct timer){ .due.due_ns = CLOCK_NEVER, .fire = fire };
}

void timer_arm(struct timer_thread *tt, struct timer *t, uint64_t due_ns) {
        _Atomic uint32_t *signalled = NULL;

        mutex_lock(&tt->lock);
        disarm_locked(tt, t);
        if (due_ns != CLOCK_NEVER) {
                t->due.due_ns = due_ns;
                due_heap_need(&tt->armed);
                (void)due_heap_push(&tt->armed, &t->due);
                if (first_locked(tt) == t)
                        signalled = cond_signal_later(&tt->changed);
        }
        mutex_unlock(&tt->lock);
        cond_wake(signalled);
}

void timer_cancel(struct timer_thread *tt, struct timer *t) {
        MUTEX_GUARD(&tt->lock);

        disarm_locked(tt, t);
        if (this_timer_thread == tt)
                return; /* within a callback: waiting for the callback would never end */
        while (tt->running == t) {
                cond_wait(&tt->finished, &tt->lock);
                disarm_locked(tt, t); /* the callback may have armed it again */
        }
}
