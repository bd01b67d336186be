/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

#include <errno.h>

struct shared {
        struct mutex lock;
        struct cond  changed;
        unsigned     number;
};

static void shared_init(struct shared *s) {
        mutex_init(&s->lock, LOCK_QUEUE);
        cond_init(&s->changed);
        s->number = 0;
}

static void shared_done(struct shared *s) {
        cond_done(&s->changed);
        mutex_done(&s->lock);
}

static void add_many(void *arg) {
        struct shared *s = arg;

        for (int i = 0; i < 20000; i++) {
                MUTEX_GUARD(&s->lock);
                s->number++;
        }
}

static void test_mutual_exclusion(void **state) {
        (void)state;
        struct shared s;
        struct thread threads[4];

        shared_init(&s);
        for (int i = 0; i < 4; i++)
                assert_null(thread_start(&threads[i], "adder", add_many, &s));
        for (int i = 0; i < 4; i++)
                thread_join(&threads[i]);
        assert_int_equal(s.number, 80000);
        shared_done(&s);
}

static void answer(void *arg) {
        struct shared *s = arg;
        MUTEX_GUARD(&s->lock);

        while (s->number != 1)
                cond_wait(&s->changed, &s->lock);
        s->number = 2;
        cond_broadcast(&s->changed);
}

static void test_wait_and_signal(void **state) {
        (void)state;
        struct shared s;
        struct thread t;

        shared_init(&s);
        assert_null(thread_start(&t, "answer", answer, &s));
        mutex_lock(&s.lock);
        s.number = 1;
        cond_broadcast(&s.changed);
        while (s.number != 2)
                assert_true(cond_wait_until(&s.changed, &s.lock, CLOCK_NEVER));
        mutex_unlock(&s.lock);
        thread_join(&t);
        shared_done(&s);
}

static void test_deadline(void **state) {
        (void)state;
        struct shared s;
        uint64_t      deadline_ns = clock_now_ns() + 5 * NS_PER_MS;

        shared_init(&s);
        mutex_lock(&s.lock);
        while (cond_wait_until(&s.changed, &s.lock, deadline_ns))
                ; /* a wake-up without a reason is allowed */
        assert_true(clock_now_ns() >= deadline_ns);
        assert_false(cond_wait_until(&s.changed, &s.lock, 1)); /* long ago */
        mutex_unlock(&s.lock);
        shared_done(&s);
}

/* ---- signals ------------------------------------------------------------------------------------ */

/* Waits until there is a token, and takes it. `n_begun` says that the thread waits or has taken one. */
struct tokens {
        struct mutex lock;
        struct cond  begun, given;
        unsigned     n_begun, n_tokens;
};

static void take_token(void *arg) {
        struct tokens *t = arg;
        MUTEX_GUARD(&t->lock);

        t->n_begun++;
        cond_signal(&t->begun);
        while (t->n_tokens == 0)
                cond_wait(&t->given, &t->lock);
        t->n_tokens--;
}

/* Returns with the lock held, while all threads wait. */
static void begin_takers(struct tokens *t, struct thread *threads, unsigned n) {
        *t = (struct tokens){ 0 };
        mutex_init(&t->lock, LOCK_QUEUE);
        cond_init(&t->begun);
        cond_init(&t->given);
        for (unsigned i = 0; i < n; i++)
                assert_null(thread_start(&threads[i], "taker", take_token, t));
        mutex_lock(&t->lock);
        while (t->n_begun < n)
                cond_wait(&t->begun, &t->lock);
}

static void end_takers(struct tokens *t, struct thread *threads, unsigned n) {
        mutex_unlock(&t->lock);
        for (unsigned i = 0; i < n; i++)
                thread_join(&threads[i]);
        assert_int_equal(t->n_tokens, 0);
        assert_int_equal(atomic_load(&t->given.n_unsignalled), 0);
        assert_int_equal(t->given.n_waiting, 0);
        cond_done(&t->begun);
        cond_done(&t->given);
        mutex_done(&t->lock);
}

/* A thread that is to wake costs no system call for each further signal. */
static void test_signals_for_one_thread(void **state) {
        (void)state;
        struct tokens t;
        struct thread thread;

        begin_takers(&t, &thread, 1);
        t.n_tokens = 1;
        for (int i = 0; i < 10; i++)
                cond_signal(&t.given);
        cond_broadcast(&t.given);
        assert_int_equal(atomic_load(&t.given.n_signals), 1);
        end_takers(&t, &thread, 1);
}

static void test_signal_for_each_thread(void **state) {
        (void)state;
        struct tokens t;
        struct thread threads[3];

        begin_takers(&t, threads, 3);
        t.n_tokens = 3;
        for (int i = 0; i < 4; i++)
                cond_signal(&t.given);
        assert_int_equal(atomic_load(&t.given.n_signals), 3);
        end_takers(&t, threads, 3);
}

/* Waits that end without a signal leave nothing that hides, or adds up to, a later signal. */
static void test_signal_after_late_waits(void **state) {
        (void)state;
        struct tokens t;
        struct thread threads[2];

        begin_takers(&t, threads, 2);
        for (int i = 0; i < 100; i++)
                assert_false(cond_wait_until(&t.given, &t.lock, 1));
        assert_int_equal(atomic_load(&t.given.n_unsignalled), 2);
        t.n_tokens = 2;
        for (int i = 0; i < 4; i++)
                cond_signal(&t.given);
        assert_int_equal(atomic_load(&t.given.n_signals), 2);
        end_takers(&t, threads, 2);
}

/* The signal counts at once, and the thread sleeps until the system call. */
static void test_signal_in_two_parts(void **state) {
        (void)state;
        struct tokens     t;
        struct thread     thread;
        _Atomic uint32_t *signalled;

        begin_takers(&t, &thread, 1);
        t.n_tokens = 1;
        signalled = cond_signal_later(&t.given);
        assert_ptr_equal(signalled, &t.given.n_signals);
        assert_null(cond_signal_later(&t.given)); /* no other thread waits */
        cond_wake(NULL);
        assert_int_equal(atomic_load(&t.given.n_signals), 1);
        mutex_unlock(&t.lock);
        cond_wake(signalled);
        mutex_lock(&t.lock);
        end_takers(&t, &thread, 1);
}

/* ---- contention --------------------------------------------------------------------------------- */

static void add_one(void *arg) {
        struct shared *s = arg;

        mutex_lock(&s->lock);
        s->number++;
        cond_signal(&s->changed);
        mutex_unlock(&s->lock);
}

/* Another thread holds the mutex while this one asks for it, and releases it in its wait. */
static void test_errno_is_kept(void **state) {
        (void)state;
        struct shared s;
        struct thread t;

        shared_init(&s);
        mutex_lock(&s.lock);
        assert_null(thread_start(&t, "signals", add_one, &s));
        while (s.number == 0) {
                errno = ENOENT;
                cond_wait_until(&s.changed, &s.lock, CLOCK_NEVER);
                assert_int_equal(errno, ENOENT);
        }
        errno = ENOENT;
        assert_false(cond_wait_until(&s.changed, &s.lock, 1));
        assert_int_equal(errno, ENOENT);
        mutex_unlock(&s.lock);
        assert_int_equal(errno, ENOENT);
        thread_join(&t);
        shared_done(&s);
}

#define N_PASSES 5000

/* Number 2n is for the threads of one kind, 2n + 1 for those of the other; each thread adds 1. */
struct passing {
        struct mutex lock;
        struct cond  turns[2];
        unsigned     number;
};

struct passer {
        struct passing *p;
        unsigned        kind;
};

static void pass_on(void *arg) {
        struct passer    *me = arg;
        struct passing   *p = me->p;
        _Atomic uint32_t *signalled = NULL;

        for (;;) {
                mutex_lock(&p->lock);
                while (p->number % 2 != me->kind && p->number < N_PASSES)
                        cond_wait(&p->turns[me->kind], &p->lock);
                if (p->number >= N_PASSES)
                        break;
                p->number++;
                if (me->kind == 0)
                        signalled = cond_signal_later(&p->turns[1]);
                mutex_unlock(&p->lock);
                if (me->kind == 0)
                        cond_wake(signalled);
                else
                        cond_signal(&p->turns[0]); /* without the mutex */
        }
        mutex_unlock(&p->lock);
        cond_signal(&p->turns[0]);
        cond_signal(&p->turns[1]);
}

/* Each signal wakes a thread of the two that wait: a lost one would stop all four. */
static void test_no_signal_is_lost(void **state) {
        (void)state;
        struct passing p = { .number = 0 };
        struct passer  passers[4];
        struct thread  threads[4];

        mutex_init(&p.lock, LOCK_QUEUE);
        cond_init(&p.turns[0]);
        cond_init(&p.turns[1]);
        for (unsigned i = 0; i < 4; i++) {
                passers[i] = (struct passer){ &p, i % 2 };
                assert_null(thread_start(&threads[i], "passer", pass_on, &passers[i]));
        }
        for (unsigned i = 0; i < 4; i++)
                thread_join(&threads[i]);
        assert_int_equal(p.number, N_PASSES);
        cond_done(&p.turns[0]);
        cond_done(&p.turns[1]);
        mutex_done(&p.lock);
}

/* A request, a stream and a run have mutexes of their own, and most of them are never contended. */
static void test_is_small(void **state) {
        (void)state;
        assert_int_equal(sizeof(struct mutex), 8);
        assert_int_equal(sizeof(struct cond), 8);
}

SUITE(lock) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_mutual_exclusion),
                cmocka_unit_test(test_wait_and_signal),
                cmocka_unit_test(test_deadline),
                cmocka_unit_test(test_errno_is_kept),
                cmocka_unit_test(test_no_signal_is_lost),
                cmocka_unit_test(test_is_small),
                cmocka_unit_test(test_signals_for_one_thread),
                cmocka_unit_test(test_signal_for_each_thread),
                cmocka_unit_test(test_signal_after_late_waits),
                cmocka_unit_test(test_signal_in_two_parts),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
