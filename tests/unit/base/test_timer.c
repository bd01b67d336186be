/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/timer.h"

#include <stdlib.h>

#define MAX_FIRED 256

/* What the callbacks of a test write down. Waiting is on `changed`, never on the clock. */
struct record {
        struct timer_thread *thread;
        struct mutex         lock; /* rank LOCK_QUEUE: below the timer's, so that a callback that
                                    * holds it may arm */
        struct cond          changed;
        int                  fired[MAX_FIRED]; /* numbers of timers, in the order of the calls */
        size_t               n_fired;
        bool                 is_held; /* callbacks of held timers wait until it is false */
        bool                 is_early;
};

struct numbered {
        struct timer   timer;
        struct record *record;
        int            number;
        uint64_t       wanted_ns;
        int            n_again; /* how often the callback arms it again */
};

static struct record *record_new(void) {
        struct record *r = mem_zalloc(sizeof(*r));

        mutex_init(&r->lock, LOCK_QUEUE);
        cond_init(&r->changed);
        assert_null(timer_thread_new(&r->thread));
        return r;
}

static void record_free(struct record *r) {
        timer_thread_free(r->thread);
        cond_done(&r->changed);
        mutex_done(&r->lock);
        free(r);
}

static void write_down(struct numbered *n) {
        struct record *r = n->record;
        MUTEX_GUARD(&r->lock);

        if (clock_now_ns() < n->wanted_ns)
                r->is_early = true;
        if (r->n_fired < MAX_FIRED)
                r->fired[r->n_fired++] = n->number;
        cond_broadcast(&r->changed);
}

static void on_fire(struct timer *t) {
        struct numbered *n = CONTAINER_OF(t, struct numbered, timer);

        write_down(n);
        if (n->n_again > 0) {
                n->n_again--;
                timer_arm(n->record->thread, t, clock_now_ns());
        }
}

static void wait_for_fired(struct record *r, size_t n_fired) {
        uint64_t deadline_ns = clock_now_ns() + 20 * NS_PER_S;
        bool     is_late = false;
        MUTEX_GUARD(&r->lock);

        while (r->n_fired < n_fired && !is_late)
                is_late = !cond_wait_until(&r->changed, &r->lock, deadline_ns);
        assert_true(r->n_fired >= n_fired);
}

static size_t count_fired(struct record *r) {
        MUTEX_GUARD(&r->lock);

        return r->n_fired;
}

static void arm(struct record *r, struct numbered *n, int number, uint64_t due_ns) {
        *n = (struct numbered){ .record = r, .number = number, .wanted_ns = due_ns };
        timer_init(&n->timer, on_fire);
        timer_arm(r->thread, &n->timer, due_ns);
}

/* Says that it runs, then waits until the test lets it go. */
static void on_fire_held(struct timer *t) {
        struct numbered *n = CONTAINER_OF(t, struct numbered, timer);
        struct record   *r = n->record;

        write_down(n);
        mutex_lock(&r->lock);
        while (r->is_held)
                cond_wait(&r->changed, &r->lock);
        r->fired[r->n_fired++] = -n->number; /* the end of the callback */
        mutex_unlock(&r->lock);
        timer_arm(r->thread, t, clock_now_ns() + 3600 * NS_PER_S);
}

/* Keeps the thread in a callback, however long the test takes to arm the others. */
static void hold(struct record *r, struct numbered *n) {
        *n = (struct numbered){ .record = r, .number = 1000 };
        r->is_held = true;
        timer_init(&n->timer, on_fire_held);
        timer_arm(r->thread, &n->timer, clock_now_ns());
        wait_for_fired(r, 1);
}

static void release(struct record *r) {
        MUTEX_GUARD(&r->lock);

        r->is_held = false;
        cond_broadcast(&r->changed);
}

#define N_HELD 2 /* entries of a callback that was held: its beginning and its end */

static void test_fires_in_order_of_deadlines(void **state) {
        (void)state;
        struct record  *r = record_new();
        uint64_t        soon_ns = clock_now_ns() + 20 * NS_PER_MS;
        struct numbered timers[100], held;

        hold(r, &held);
        for (int i = 0; i < 100; i++) {
                int number = i * 37 % 100; /* each number once, in disorder */

                arm(r, &timers[i], number, soon_ns + (uint64_t)number * NS_PER_US);
        }
        release(r);
        wait_for_fired(r, N_HELD + 100);
        timer_cancel(r->thread, &held.timer);
        for (int i = 0; i < 100; i++) {
                assert_int_equal(r->fired[N_HELD + i], i);
                assert_true(timers[i].timer.due.due_ns == CLOCK_NEVER);
        }
        assert_false(r->is_early);
        record_free(r);
}

static void test_past_deadline_fires_at_once(void **state) {
        (void)state;
        struct record  *r = record_new();
        struct numbered late;

        arm(r, &late, 1, 1);
        wait_for_fired(r, 1);
        timer_cancel(r->thread, &late.timer); /* its callback has returned */
        assert_int_equal(count_fired(r), 1);
        assert_int_equal(r->fired[0], 1);
        assert_true(late.timer.due.due_ns == CLOCK_NEVER);
        record_free(r);
}

static void test_cancelled_and_moved(void **state) {
        (void)state;
        struct record  *r = record_new();
        uint64_t        soon_ns = clock_now_ns() + 10 * NS_PER_MS;
        uint64_t        far_ns = soon_ns + 3600 * NS_PER_S;
        struct numbered timers[6], held;

        hold(r, &held);
        for (int i = 0; i < 5; i++)
                arm(r, &timers[i], i, i % 2 ? far_ns : soon_ns + (uint64_t)i);
        timer_cancel(r->thread, &timers[0].timer);
        timer_cancel(r->thread, &timers[0].timer);             /* again: nothing */
        timer_arm(r->thread, &timers[1].timer, soon_ns + 100); /* nearer */
        timer_arm(r->thread, &timers[2].timer, far_ns);        /* further */
        timer_arm(r->thread, &timers[4].timer, CLOCK_NEVER);   /* off */
        arm(r, &timers[5], 5, soon_ns + 200);
        release(r);
        wait_for_fired(r, N_HELD + 2);
        timer_cancel(r->thread, &held.timer);
        for (int i = 0; i < 5; i++)
                timer_cancel(r->thread, &timers[i].timer);
        assert_int_equal(r->n_fired, N_HELD + 2);
        assert_int_equal(r->fired[N_HELD], 1);
        assert_int_equal(r->fired[N_HELD + 1], 5);
        record_free(r);
}

static void test_callback_arms_again(void **state) {
        (void)state;
        struct record  *r = record_new();
        struct numbered n;

        n = (struct numbered){ .record = r, .number = 3, .n_again = 9 };
        timer_init(&n.timer, on_fire);
        timer_arm(r->thread, &n.timer, clock_now_ns());
        wait_for_fired(r, 10);
        timer_cancel(r->thread, &n.timer);
        assert_int_equal(r->n_fired, 10);
        record_free(r);
}

static void let_go(struct timer *t) {
        release(CONTAINER_OF(t, struct numbered, timer)->record);
}

static void test_cancel_waits_for_the_callback(void **state) {
        (void)state;
        struct record  *r = record_new();
        struct record  *other = record_new(); /* its thread lets the first one's go */
        struct numbered held = { .record = r, .number = 7 };
        struct numbered release = { .record = r };

        r->is_held = true;
        timer_init(&held.timer, on_fire_held);
        timer_arm(r->thread, &held.timer, clock_now_ns());
        wait_for_fired(r, 1);

        timer_init(&release.timer, let_go);
        timer_arm(other->thread, &release.timer, clock_now_ns() + 5 * NS_PER_MS);
        timer_cancel(r->thread, &held.timer);
        assert_int_equal(count_fired(r), 2);
        assert_int_equal(r->fired[1], -7);                 /* it had come to its end */
        assert_true(held.timer.due.due_ns == CLOCK_NEVER); /* although it armed itself again */
        timer_cancel(other->thread, &release.timer);
        record_free(other);
        record_free(r);
}

/* Cancels and frees itself: the thread must not touch it afterwards. */
static void on_fire_free(struct timer *t) {
        struct numbered *n = CONTAINER_OF(t, struct numbered, timer);

        timer_cancel(n->record->thread, t);
        write_down(n);
        free(n);
}

static void test_callback_may_free_its_timer(void **state) {
        (void)state;
        struct record *r = record_new();
        bool           is_seen[50] = { false };

        for (int i = 0; i < 50; i++) {
                struct numbered *n = mem_zalloc(sizeof(*n));

                n->record = r;
                n->number = i;
                timer_init(&n->timer, on_fire_free);
                timer_arm(r->thread, &n->timer, clock_now_ns() + (uint64_t)(i % 7) * NS_PER_US);
        }
        wait_for_fired(r, 50);
        timer_thread_free(STEAL(r->thread)); /* no callback runs any more */
        assert_int_equal(r->n_fired, 50);
        for (int i = 0; i < 50; i++)
                is_seen[r->fired[i]] = true;
        for (int i = 0; i < 50; i++)
                assert_true(is_seen[i]);
        record_free(r);
}

/* Deterministic disorder; rand() is shared by whatever else runs. */
static unsigned next_random(unsigned *seed) {
        *seed = *seed * 1103515245 + 12345;
        return *seed >> 16;
}

static void test_heap_under_churn(void **state) {
        (void)state;
        struct record  *r = record_new();
        uint64_t        far_ns = clock_now_ns() + 3600 * NS_PER_S;
        uint64_t        start_ns;
        struct numbered timers[200], held;
        unsigned        seed = 1;

        for (int i = 0; i < 200; i++)
                arm(r, &timers[i], i, far_ns + next_random(&seed));
        for (int round = 0; round < 5000; round++) {
                struct numbered *n = &timers[next_random(&seed) % 200];

                if (next_random(&seed) % 3 == 0)
                        timer_cancel(r->thread, &n->timer);
                else
                        timer_arm(r->thread, &n->timer, far_ns + next_random(&seed));
        }
        assert_int_equal(count_fired(r), 0);

        hold(r, &held);
        start_ns = clock_now_ns() + 20 * NS_PER_MS;
        for (int i = 0; i < 200; i++)
                timer_arm(r->thread, &timers[i].timer, start_ns + (uint64_t)(199 - i) * 1000);
        release(r);
        wait_for_fired(r, N_HELD + 200);
        timer_cancel(r->thread, &held.timer);
        for (int i = 0; i < 200; i++)
                assert_int_equal(r->fired[N_HELD + i], 199 - i);
        record_free(r);
}

static void test_free_without_use(void **state) {
        (void)state;
        struct timer_thread *thread;

        assert_null(timer_thread_new(&thread));
        timer_thread_free(thread);
        timer_thread_free(NULL);
}

SUITE(timer) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fires_in_order_of_deadlines),
                cmocka_unit_test(test_past_deadline_fires_at_once),
                cmocka_unit_test(test_cancelled_and_moved),
                cmocka_unit_test(test_callback_arms_again),
                cmocka_unit_test(test_cancel_waits_for_the_callback),
                cmocka_unit_test(test_callback_may_free_its_timer),
                cmocka_unit_test(test_heap_under_churn),
                cmocka_unit_test(test_free_without_use),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
