/* SPDX-License-Identifier: BSD-3-Clause */
/* Wake-ups held back by a thread that asks before it waits. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "infer/model.h"
#include "sched/wake_hold.h"

static unsigned n_wakes;
static unsigned n_unused;

static void count_wake(void *scheduler) {
        (*(unsigned *)scheduler)++;
        n_wakes++;
}

static void count_unused(struct model *m) {
        (void)m;
        n_unused++;
}

static void make_model(struct model *m) {
        *m = (struct model){ .on_unused = count_unused };
        ref_init(&m->ref);
}

static void test_nothing_is_held_before_the_promise(void **state) {
        struct model m;
        unsigned     wakes = 0;

        (void)state;
        make_model(&m);
        assert_false(wake_hold_add(&wakes, &m, count_wake));
        wake_hold_check(1);
        assert_int_equal(wakes, 0);
}

static void test_one_wake_for_many_submissions(void **state) {
        struct model m;
        unsigned     wakes = 0;

        (void)state;
        make_model(&m);
        wake_hold_flush();
        for (unsigned i = 0; i < 100; i++) {
                assert_true(wake_hold_add(&wakes, &m, count_wake));
                wake_hold_check(1000 + i);
        }
        assert_int_equal(wakes, 0);
        wake_hold_flush();
        assert_int_equal(wakes, 1);
        wake_hold_flush();
        assert_int_equal(wakes, 1);
}

/* The loader lets go of a model between the submission and the end of the round. */
static void test_model_lives_until_the_flush(void **state) {
        struct model m;
        unsigned     wakes = 0;

        (void)state;
        make_model(&m);
        wake_hold_flush();
        n_unused = 0;
        assert_true(wake_hold_add(&wakes, &m, count_wake));
        model_unref(&m);
        assert_int_equal(n_unused, 0);
        wake_hold_flush();
        assert_int_equal(wakes, 1);
        assert_int_equal(n_unused, 1);
}

static void test_long_rounds_hold_nothing_back(void **state) {
        struct model m;
        unsigned     wakes = 0;

        (void)state;
        make_model(&m);
        wake_hold_flush();
        assert_true(wake_hold_add(&wakes, &m, count_wake));
        wake_hold_check(5000);
        wake_hold_check(5000 + WAKE_HOLD_NS);
        assert_int_equal(wakes, 0);
        wake_hold_check(5000 + WAKE_HOLD_NS + 1);
        assert_int_equal(wakes, 1);
}

static void test_no_room(void **state) {
        struct model m;
        unsigned     wakes[64] = { 0 };
        unsigned     n_held = 0;

        (void)state;
        make_model(&m);
        wake_hold_flush();
        while (n_held < 64 && wake_hold_add(&wakes[n_held], &m, count_wake))
                n_held++;
        assert_in_range(n_held, 1, 63);
        n_wakes = 0;
        wake_hold_flush();
        assert_int_equal(n_wakes, n_held);
        for (unsigned i = 0; i < n_held; i++)
                assert_int_equal(wakes[i], 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_is_held_before_the_promise),
                cmocka_unit_test(test_one_wake_for_many_submissions),
                cmocka_unit_test(test_model_lives_until_the_flush),
                cmocka_unit_test(test_long_rounds_hold_nothing_back),
                cmocka_unit_test(test_no_room),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
