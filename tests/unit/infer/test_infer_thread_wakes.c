/* SPDX-License-Identifier: BSD-3-Clause */
/* Wake-ups held back by a thread that asks before it waits. */
#include "suite.h"

#include "infer/infer_thread.h"
#include "infer/model.h"

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

static bool defer_wake(void *scheduler, struct model *model, infer_thread_wake_fn wake) {
        return infer_thread_defer_wake(infer_thread_self(), scheduler, model, wake);
}

static void check_wakes(uint64_t now_ns) {
        infer_thread_check_wakes(infer_thread_self(), now_ns);
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
        assert_false(defer_wake(&wakes, &m, count_wake));
        check_wakes(1);
        assert_int_equal(wakes, 0);
}

static void test_one_wake_for_many_submissions(void **state) {
        struct model m;
        unsigned     wakes = 0;

        (void)state;
        make_model(&m);
        infer_thread_flush_wakes();
        for (unsigned i = 0; i < 100; i++) {
                assert_true(defer_wake(&wakes, &m, count_wake));
                check_wakes(1000 + i);
        }
        assert_int_equal(wakes, 0);
        infer_thread_flush_wakes();
        assert_int_equal(wakes, 1);
        infer_thread_flush_wakes();
        assert_int_equal(wakes, 1);
}

/* The loader lets go of a model between the submission and the end of the round. */
static void test_model_lives_until_the_flush(void **state) {
        struct model m;
        unsigned     wakes = 0;

        (void)state;
        make_model(&m);
        infer_thread_flush_wakes();
        n_unused = 0;
        assert_true(defer_wake(&wakes, &m, count_wake));
        model_unref(&m);
        assert_int_equal(n_unused, 0);
        infer_thread_flush_wakes();
        assert_int_equal(wakes, 1);
        assert_int_equal(n_unused, 1);
}

static void test_long_rounds_hold_nothing_back(void **state) {
        struct model m;
        unsigned     wakes = 0;

        (void)state;
        make_model(&m);
        infer_thread_flush_wakes();
        assert_true(defer_wake(&wakes, &m, count_wake));
        check_wakes(5000);
        check_wakes(5000 + SUBMITTER_DEFER_NS);
        assert_int_equal(wakes, 0);
        check_wakes(5000 + SUBMITTER_DEFER_NS + 1);
        assert_int_equal(wakes, 1);
}

static void test_no_room(void **state) {
        struct model m;
        unsigned     wakes[64] = { 0 };
        unsigned     n_held = 0;

        (void)state;
        make_model(&m);
        infer_thread_flush_wakes();
        while (n_held < 64 && defer_wake(&wakes[n_held], &m, count_wake))
                n_held++;
        assert_in_range(n_held, 1, 63);
        n_wakes = 0;
        infer_thread_flush_wakes();
        assert_int_equal(n_wakes, n_held);
        for (unsigned i = 0; i < n_held; i++)
                assert_int_equal(wakes[i], 1);
}

/* A wake-up may refuse a request that timed out, and its receiver submits again: nobody flushes once
 * more for that, and it must not get into the way of the wake-ups that are still to come. */
static struct model others[3];
static unsigned     n_late[3];

static void submit_to_others(void *scheduler) {
        count_wake(scheduler);
        for (unsigned i = 0; i < 3; i++)
                if (!defer_wake(&n_late[i], &others[i], count_wake))
                        count_wake(&n_late[i]);
        infer_thread_flush_wakes(); /* its loop does so as well */
        if (!defer_wake(&n_late[0], &others[0], count_wake))
                count_wake(&n_late[0]);
}

static void test_what_a_flush_submits_does_not_wait(void **state) {
        struct model first, second;
        unsigned     wakes = 0, second_wakes = 0;

        (void)state;
        make_model(&first);
        make_model(&second);
        for (unsigned i = 0; i < 3; i++)
                make_model(&others[i]);
        infer_thread_flush_wakes();
        assert_true(defer_wake(&wakes, &first, submit_to_others));
        assert_true(defer_wake(&second_wakes, &second, count_wake));
        infer_thread_flush_wakes();
        assert_int_equal(wakes, 1);
        assert_int_equal(second_wakes, 1);
        assert_int_equal(n_late[0], 2);
        assert_int_equal(n_late[1], 1);
        assert_int_equal(n_late[2], 1);

        /* Each reference was given back once. */
        n_unused = 0;
        model_unref(&first);
        model_unref(&second);
        for (unsigned i = 0; i < 3; i++)
                model_unref(&others[i]);
        assert_int_equal(n_unused, 5);
        make_model(&first);
        assert_true(defer_wake(&wakes, &first, count_wake)); /* the promise still holds */
        infer_thread_flush_wakes();
}

SUITE(infer_thread_wakes) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_is_held_before_the_promise),
                cmocka_unit_test(test_one_wake_for_many_submissions),
                cmocka_unit_test(test_model_lives_until_the_flush),
                cmocka_unit_test(test_long_rounds_hold_nothing_back),
                cmocka_unit_test(test_no_room),
                cmocka_unit_test(test_what_a_flush_submits_does_not_wait),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
