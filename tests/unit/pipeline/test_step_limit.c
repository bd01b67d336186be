/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/mem.h"
#include "pipeline/step_limit.h"

#define N_WAITERS 5
#define FAR_AWAY (clock_now_ns() + 3600 * NS_PER_S)

/* The waiters in the order in which they expired; guarded by expired_lock. */
static struct mutex              expired_lock;
static struct cond               expired_changed;
static const struct step_waiter *expired[N_WAITERS];
static size_t                    n_expired;
static struct step_limit        *freed_by_the_last; /* NULL: none is */

static void on_expired(struct step_waiter *w) {
        bool is_last;

        mutex_lock(&expired_lock);
        expired[n_expired++ % N_WAITERS] = w;
        is_last = freed_by_the_last != NULL && n_expired == N_WAITERS;
        mutex_unlock(&expired_lock);
        if (is_last) {
                assert_null(step_limit_leave(freed_by_the_last));
                step_limit_done(freed_by_the_last);
                free(freed_by_the_last);
        }
        cond_broadcast(&expired_changed);
}

static void wait_for_expired(size_t n) {
        MUTEX_GUARD(&expired_lock);
        while (n_expired < n)
                assert_true(cond_wait_until(&expired_changed, &expired_lock,
                                            clock_now_ns() + 60 * NS_PER_S));
        assert_int_equal(n_expired, n);
}

static struct timer_thread *open_timers(void) {
        struct timer_thread *timers;

        assert_null(timer_thread_new(&timers));
        n_expired = 0;
        freed_by_the_last = NULL;
        return timers;
}

static const _Atomic bool goes_on; /* false */

static void test_without_a_limit(void **state) {
        struct timer_thread *timers = open_timers();
        struct step_limit    l;
        struct step_waiter   w = { 0 };

        (void)state;
        step_limit_init(&l, 0, timers, on_expired);
        for (int i = 0; i < 100; i++)
                assert_int_equal(step_limit_enter(&l, &w, 1, &goes_on), STEP_INSIDE);
        assert_false(step_limit_withdraw(&l, &w));
        assert_null(step_limit_leave(&l));
        step_limit_done(&l);
        timer_thread_free(timers);
}

/* The one that leaves hands its room to the first in the line, whatever the deadlines are. */
static void test_line(void **state) {
        struct timer_thread *timers = open_timers();
        struct step_limit    l;
        struct step_waiter   w[N_WAITERS] = { 0 };
        uint64_t             later_ns = FAR_AWAY;

        (void)state;
        step_limit_init(&l, 2, timers, on_expired);
        assert_int_equal(step_limit_enter(&l, &w[0], CLOCK_NEVER, &goes_on), STEP_INSIDE);
        assert_int_equal(step_limit_enter(&l, &w[1], later_ns, &goes_on), STEP_INSIDE);
        assert_int_equal(step_limit_enter(&l, &w[2], CLOCK_NEVER, &goes_on), STEP_WAITS);
        assert_int_equal(step_limit_enter(&l, &w[3], later_ns, &goes_on), STEP_WAITS);
        assert_int_equal(step_limit_enter(&l, &w[4], later_ns - 1, &goes_on), STEP_WAITS);
        assert_ptr_equal(step_limit_leave(&l), &w[2]);
        assert_true(step_limit_withdraw(&l, &w[3]));
        assert_false(step_limit_withdraw(&l, &w[3])); /* once */
        assert_false(step_limit_withdraw(&l, &w[0])); /* is inside */
        assert_ptr_equal(step_limit_leave(&l), &w[4]);
        assert_null(step_limit_leave(&l));
        assert_int_equal(step_limit_enter(&l, &w[0], later_ns, &goes_on),
                         STEP_INSIDE); /* one was inside */
        assert_int_equal(step_limit_enter(&l, &w[1], later_ns, &goes_on), STEP_WAITS);
        assert_ptr_equal(step_limit_leave(&l), &w[1]);
        assert_null(step_limit_leave(&l));
        assert_null(step_limit_leave(&l));
        assert_int_equal(n_expired, 0);
        step_limit_done(&l);
        timer_thread_free(timers);
}

/* They leave at their deadlines, soonest first, while there is no room; the others stay. */
static void test_deadlines(void **state) {
        struct timer_thread *timers = open_timers();
        struct step_limit    l;
        struct step_waiter   w[N_WAITERS] = { 0 };
        uint64_t             soon_ns = clock_now_ns() + 20 * NS_PER_MS;

        (void)state;
        step_limit_init(&l, 1, timers, on_expired);
        assert_int_equal(step_limit_enter(&l, &w[0], 1, &goes_on),
                         STEP_INSIDE); /* its deadline is its own matter */
        assert_int_equal(step_limit_enter(&l, &w[1], soon_ns + NS_PER_MS, &goes_on), STEP_WAITS);
        assert_int_equal(step_limit_enter(&l, &w[2], CLOCK_NEVER, &goes_on), STEP_WAITS);
        assert_int_equal(step_limit_enter(&l, &w[3], soon_ns, &goes_on), STEP_WAITS);
        assert_int_equal(step_limit_enter(&l, &w[4], FAR_AWAY, &goes_on), STEP_WAITS);
        wait_for_expired(2);
        assert_ptr_equal(expired[0], &w[3]);
        assert_ptr_equal(expired[1], &w[1]);
        assert_true(clock_now_ns() >= soon_ns + NS_PER_MS);
        assert_false(step_limit_withdraw(&l, &w[1])); /* does not wait any more */
        assert_ptr_equal(step_limit_leave(&l), &w[2]);
        assert_ptr_equal(step_limit_leave(&l), &w[4]);
        assert_null(step_limit_leave(&l));
        assert_int_equal(n_expired, 2);
        step_limit_done(&l);
        timer_thread_free(timers);
}

/* A deadline that has passed already is no exception, and what is called for the last one may free all. */
static void test_the_last_one_frees(void **state) {
        struct timer_thread *timers = open_timers();
        struct step_limit   *l = mem_alloc(sizeof(*l));
        struct step_waiter   inside = { 0 }, w[N_WAITERS] = { 0 };

        (void)state;
        freed_by_the_last = l;
        step_limit_init(l, 1, timers, on_expired);
        assert_int_equal(step_limit_enter(l, &inside, CLOCK_NEVER, &goes_on), STEP_INSIDE);
        mutex_lock(&expired_lock); /* so that all wait before the last one is called */
        for (int i = 0; i < N_WAITERS; i++)
                assert_int_equal(step_limit_enter(l, &w[i], 1, &goes_on), STEP_WAITS);
        mutex_unlock(&expired_lock);
        wait_for_expired(N_WAITERS);
        timer_thread_free(timers);
}

/* A step of a run that has failed takes a place that is free, but does not wait for one. */
static void test_stopping(void **state) {
        static const _Atomic bool is_stopping = true;
        struct timer_thread      *timers = open_timers();
        struct step_limit         l;
        struct step_waiter        w[2] = { 0 };

        (void)state;
        step_limit_init(&l, 1, timers, on_expired);
        assert_int_equal(step_limit_enter(&l, &w[0], CLOCK_NEVER, &is_stopping), STEP_INSIDE);
        assert_int_equal(step_limit_enter(&l, &w[1], CLOCK_NEVER, &is_stopping), STEP_STOPPED);
        assert_false(step_limit_withdraw(&l, &w[1]));
        assert_null(step_limit_leave(&l));
        step_limit_done(&l);
        timer_thread_free(timers);
}

/* Without memory for its deadline it does not wait. */
static void test_memory_short(void **state) {
        struct timer_thread *timers = open_timers();
        struct step_limit    l;
        struct step_waiter   w[2] = { 0 };

        (void)state;
        step_limit_init(&l, 1, timers, on_expired);
        assert_int_equal(step_limit_enter(&l, &w[0], FAR_AWAY, &goes_on), STEP_INSIDE);
        mem_fail_after(1);
        assert_int_equal(step_limit_enter(&l, &w[1], FAR_AWAY, &goes_on), STEP_OUT_OF_MEMORY);
        mem_fail_after(0);
        assert_false(step_limit_withdraw(&l, &w[1]));
        assert_null(step_limit_leave(&l));
        step_limit_done(&l);
        timer_thread_free(timers);
}

SUITE(step_limit) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_a_limit), cmocka_unit_test(test_line),
                cmocka_unit_test(test_deadlines),       cmocka_unit_test(test_the_last_one_frees),
                cmocka_unit_test(test_stopping),        cmocka_unit_test(test_memory_short),
        };

        mutex_init(&expired_lock, LOCK_SERVER);
        cond_init(&expired_changed);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
