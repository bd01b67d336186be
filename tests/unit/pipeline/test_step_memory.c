/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "pipeline/step_memory.h"

static void test_large_buffers_are_kept(void **state) {
        struct timer_thread *timers;
        struct step_memory   m;
        struct buf          *a, *b;

        (void)state;
        assert_null(timer_thread_new(&timers));
        step_memory_init(&m, timers);
        a = step_memory_get(&m, 1 << 20);
        assert_non_null(a);
        assert_true(a->cap >= 1 << 20);
        assert_ptr_equal(a->pool, m.pool);
        assert_true(atomic_load(&m.is_armed));
        assert_true(atomic_load(&m.was_used));
        buf_unref(a);
        b = step_memory_get(&m, 1000);
        assert_non_null(b);
        assert_null(b->pool);
        buf_unref(b);
        step_memory_done(&m);
        timer_thread_free(timers);
}

/* As the timer does it: half of it goes each time, and when nothing was used for a while it rests. */
static void test_what_is_kept_goes(void **state) {
        enum { N = 8 };
        struct timer_thread *timers;
        struct step_memory   m;
        struct buf          *b[N];
        unsigned             n_fired = 0;

        (void)state;
        assert_null(timer_thread_new(&timers));
        step_memory_init(&m, timers);
        for (int i = 0; i < N; i++) {
                b[i] = step_memory_get(&m, 1 << 20);
                assert_non_null(b[i]);
        }
        for (int i = 0; i < N; i++)
                buf_unref(b[i]);
        timer_cancel(timers, &m.trim); /* this thread is the timer's now */
        while (atomic_load(&m.is_armed)) {
                m.trim.fire(&m.trim);
                timer_cancel(timers, &m.trim);
                n_fired++;
                assert_true(n_fired < 50);
        }
        assert_false(atomic_load(&m.was_used));
        assert_int_equal(m.n_trims_left, 0);
        /* The next one begins it anew. */
        b[0] = step_memory_get(&m, 1 << 20);
        assert_true(atomic_load(&m.is_armed));
        buf_unref(b[0]);
        step_memory_done(&m);
        timer_thread_free(timers);
}

static void test_memory_short(void **state) {
        struct timer_thread *timers;
        struct step_memory   m;

        (void)state;
        assert_null(timer_thread_new(&timers));
        step_memory_init(&m, timers);
        mem_fail_after(1);
        assert_null(step_memory_get(&m, 1 << 20));
        assert_null(step_memory_get(&m, 100));
        mem_fail_after(0);
        step_memory_done(&m);
        timer_thread_free(timers);
}

SUITE(step_memory) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_large_buffers_are_kept),
                cmocka_unit_test(test_what_is_kept_goes),
                cmocka_unit_test(test_memory_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
