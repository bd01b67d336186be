/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "pipeline/step_memory.h"

static void test_large_buffers_are_kept(void **state) {
        struct timer_thread *timers;
        struct byte_budget   budget;
        struct step_memory   m;
        struct buf          *a, *b;

        (void)state;
        assert_null(timer_thread_new(&timers));
        byte_budget_init(&budget, 64 << 20);
        step_memory_init(&m, &budget, timers);
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
        struct byte_budget   budget;
        struct step_memory   m;
        struct buf          *b[N];
        unsigned             n_fired = 0;

        (void)state;
        assert_null(timer_thread_new(&timers));
        byte_budget_init(&budget, 64 << 20);
        step_memory_init(&m, &budget, timers);
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
        struct byte_budget   budget;
        struct step_memory   m;

        (void)state;
        assert_null(timer_thread_new(&timers));
        byte_budget_init(&budget, 64 << 20);
        step_memory_init(&m, &budget, timers);
        mem_fail_after(1);
        assert_null(step_memory_get(&m, 1 << 20));
        assert_null(step_memory_get(&m, 100));
        mem_fail_after(0);
        step_memory_done(&m);
        timer_thread_free(timers);
}

static void count_refusal(void *owner) {
        ++*(unsigned *)owner;
}

static void assert_shortage(const struct step_memory *m, size_t bytes, const char *text) {
        struct error *err = step_memory_shortage(m, "Y", bytes);

        assert_int_equal(err->code, ERR_UNAVAILABLE);
        assert_string_equal(err->message, text);
        error_free(err);
}

/* With its head and its alignment. */
#define SMALL_COST (1000 + sizeof(struct buf) + 64)

/* What is in use is charged, large buffers and small ones. What does not fit is refused. */
static void test_budget(void **state) {
        const size_t         MIB = 1 << 20;
        struct timer_thread *timers;
        struct byte_budget   budget;
        struct step_memory   m;
        struct buf          *large, *small;
        unsigned             n_refused = 0;

        (void)state;
        assert_null(timer_thread_new(&timers));
        byte_budget_init(&budget, 64 * MIB);
        budget.on_refused = count_refusal;
        budget.owner = &n_refused;
        step_memory_init(&m, &budget, timers);
        small = step_memory_get(&m, 1000);
        assert_int_equal(byte_budget_used(&budget), SMALL_COST);
        large = step_memory_get(&m, 32 * MIB);
        assert_int_equal(byte_budget_used(&budget), 32 * MIB + SMALL_COST);
        assert_null(step_memory_get(&m, 30 * MIB));
        assert_int_equal(n_refused, 1);
        assert_shortage(&m, 30 * MIB,
                        "the server's memory budget (--memory-budget) is used up for output 'Y' of "
                        "31457280 bytes");
        buf_unref(large);
        assert_in_range(byte_budget_used(&budget), SMALL_COST, MIB + SMALL_COST);
        assert_shortage(&m, 30 * MIB, "out of memory for output 'Y' of 31457280 bytes");
        large = step_memory_get(&m, 30 * MIB);
        assert_non_null(large);
        buf_unref(large);
        buf_unref(small);
        step_memory_done(&m);
        assert_int_equal(byte_budget_used(&budget), 0);
        timer_thread_free(timers);
}

SUITE(step_memory) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_large_buffers_are_kept),
                cmocka_unit_test(test_what_is_kept_goes),
                cmocka_unit_test(test_memory_short),
                cmocka_unit_test(test_budget),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
