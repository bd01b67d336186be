/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/timer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"

struct timer_thread {
        struct thread thread;

        struct mutex   lock;     /* rank LOCK_TIMER; guards everything below and armed timers */
        struct cond    changed;  /* the first deadline moved, or `is_stopping` */
        struct cond    finished; /* `running` became NULL */
        struct timer **heap;     /* owned array of borrowed timers: a binary heap by due_ns */
        size_t         n_armed;
        size_t         heap_cap;
        struct timer  *running; /* borrowed: only compared, since its owner may free it in the
                                 * callback */
        bool           is_stopping;
};

/* The calling thread's timer thread, if it is one: to detect a cancel from within a callback. */
static _Thread_local struct timer_thread *this_timer_thread;

static void place_timer(struct timer_thread *tt, size_t at, struct timer *t) {
        tt->heap[at] = t;
        t->heap_at = at;
}

static void sift_up(struct timer_thread *tt, size_t at, struct timer *t) {
        while (at > 0) {
                size_t parent = (at - 1) / 2;

                if (tt->heap[parent]->due_ns <= t->due_ns)
                        break;
                place_timer(tt, at, tt->heap[parent]);
                at = parent;
        }
        place_timer(tt, at, t);
}

static void sift_down(struct timer_thread *tt, size_t at, struct timer *t) {
        for (;;) {
                size_t child = at * 2 + 1;

                if (child >= tt->n_armed)
                        break;
                if (child + 1 < tt->n_armed &&
                    tt->heap[child + 1]->due_ns < tt->heap[child]->due_ns)
                        child++;
                if (t->due_ns <= tt->heap[child]->due_ns)
                        break;
                place_timer(tt, at, tt->heap[child]);
                at = child;
        }
        place_timer(tt, at, t);
}

/* Puts `t` where position `at` is empty. */
static void settle(struct timer_thread *tt, size_t at, struct timer *t) {
        if (at > 0 && tt->heap[(at - 1) / 2]->due_ns > t->due_ns)
                sift_up(tt, at, t);
        else
                sift_down(tt, at, t);
}

static void disarm_locked(struct timer_thread *tt, struct timer *t) {
        struct timer *last;

        if (t->due_ns == CLOCK_NEVER)
                return;
        t->due_ns = CLOCK_NEVER;
        last = tt->heap[--tt->n_armed];
        if (last != t)
                settle(tt, t->heap_at, last);
}

static void arm_locked(struct timer_thread *tt, struct timer *t, uint64_t due_ns) {
        if (t->due_ns != CLOCK_NEVER) {
                t->due_ns = due_ns;
                settle(tt, t->heap_at, t);
                return;
        }
        if (tt->n_armed == tt->heap_cap) {
                tt->heap_cap = tt->heap_cap > 0 ? tt->heap_cap * 2 : 16;
                tt->heap = mem_realloc(tt->heap, tt->heap_cap * sizeof(struct timer *));
        }
        t->due_ns = due_ns;
        sift_up(tt, tt->n_armed++, t);
}

/* Runs the first timer without the lock; `t` may be freed when its callback returns. */
static void fire_locked(struct timer_thread *tt) {
        struct timer *t = tt->heap[0];
        timer_fn      fire = t->fire;

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
                uint64_t due_ns = tt->n_armed > 0 ? tt->heap[0]->due_ns : CLOCK_NEVER;

                if (due_ns != CLOCK_NEVER && due_ns <= clock_now_ns())
                        fire_locked(tt);
                else
                        cond_wait_until(&tt->changed, &tt->lock, due_ns);
        }
}

static void release_timers(struct timer_thread *tt) {
        cond_done(&tt->finished);
        cond_done(&tt->changed);
        mutex_done(&tt->lock);
        free(tt->heap);
        free(tt);
}

struct error *timer_thread_new(struct timer_thread **ret) {
        struct timer_thread *tt = mem_zalloc(sizeof(*tt));
        struct error        *err;

        mutex_init(&tt->lock, LOCK_TIMER);
        cond_init(&tt->changed);
        cond_init(&tt->finished);
        err = thread_start(&tt->thread, "timer", run_timers, tt);
        if (err != NULL) {
                release_timers(tt);
                return err;
        }
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
        *t = (struct timer){ .due_ns = CLOCK_NEVER, .fire = fire };
}

void timer_arm(struct timer_thread *tt, struct timer *t, uint64_t due_ns) {
        _Atomic uint32_t *signalled = NULL;

        mutex_lock(&tt->lock);
        if (due_ns == CLOCK_NEVER) {
                disarm_locked(tt, t);
        } else {
                arm_locked(tt, t, due_ns);
                if (tt->heap[0] == t)
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
