/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

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

SUITE(lock) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_mutual_exclusion),
                cmocka_unit_test(test_wait_and_signal),
                cmocka_unit_test(test_deadline),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
