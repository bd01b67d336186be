/* SPDX-License-Identifier: BSD-3-Clause */
/* What waits for the last of several responses sent in a row. */
#include "suite.h"

#include "base/compiler.h"
#include "infer/infer_thread.h"

static char     order[32]; /* a letter for each call */
static unsigned n_calls;

static void note(void *userp) {
        order[n_calls++] = *(const char *)userp;
        order[n_calls] = '\0';
}

static int set_up(void **state) {
        (void)state;
        n_calls = 0;
        order[0] = '\0';
        return 0;
}

static bool ask(const char *letter) {
        return infer_thread_call_after_responses(note, (void *)(uintptr_t)letter);
}

static void test_nothing_waits_outside_a_row(void **state) {
        (void)state;
        assert_false(ask("a"));
        infer_thread_end_responses();
        assert_false(ask("a"));
        assert_int_equal(n_calls, 0);
}

static void test_calls_come_at_the_end(void **state) {
        (void)state;
        infer_thread_begin_responses();
        assert_true(ask("a"));
        assert_true(ask("b"));
        assert_true(ask("a")); /* as often as it was asked for */
        assert_int_equal(n_calls, 0);
        infer_thread_end_responses();
        assert_string_equal(order, "aba");
        assert_false(ask("a"));
        infer_thread_begin_responses();
        infer_thread_end_responses();
        assert_string_equal(order, "aba");
}

static void test_the_outermost_end_counts(void **state) {
        (void)state;
        infer_thread_begin_responses();
        infer_thread_begin_responses();
        assert_true(ask("a"));
        infer_thread_end_responses();
        assert_int_equal(n_calls, 0);
        assert_true(ask("b"));
        infer_thread_end_responses();
        assert_string_equal(order, "ab");
}

/* Nobody is refused for want of room: those before are called earlier. */
static void test_many_ask(void **state) {
        static const char letters[] = "abcdefghijklmnopqrst";

        (void)state;
        infer_thread_begin_responses();
        for (unsigned i = 0; i < sizeof(letters) - 1; i++)
                assert_true(ask(&letters[i]));
        infer_thread_end_responses();
        assert_string_equal(order, letters);
}

static void test_what_was_left_open(void **state) {
        (void)state;
        infer_thread_begin_responses();
        infer_thread_begin_responses();
        assert_true(ask("a"));
        infer_thread_end_all_responses();
        assert_string_equal(order, "a");
        assert_false(ask("b"));
        infer_thread_end_all_responses();
        assert_string_equal(order, "a");
}

/* A call may ask again, while the row goes on: when there is no room even so, it is told. */
static void ask_again(void *userp) {
        note(userp);
        ask(userp);
}

static void test_calls_that_ask(void **state) {
        (void)state;
        infer_thread_begin_responses();
        for (unsigned i = 0; i < 8; i++)
                assert_true(infer_thread_call_after_responses(ask_again, (void *)(uintptr_t) "a"));
        assert_false(ask("b"));
        assert_string_equal(order, "aaaaaaaa");
        infer_thread_end_responses();
        assert_string_equal(order, "aaaaaaaaaaaaaaaa");
}

static void test_what_is_owed_before_a_wait(void **state) {
        (void)state;
        infer_thread_begin_responses();
        assert_true(ask("a"));
        infer_thread_flush_calls();
        assert_string_equal(order, "a");
        assert_true(ask("b")); /* the row goes on */
        assert_string_equal(order, "a");
        infer_thread_end_responses();
        assert_string_equal(order, "ab");
        infer_thread_flush_calls();
        assert_string_equal(order, "ab");
}

/* A call may itself send responses in a row. */
static void nested(void *userp) {
        infer_thread_begin_responses();
        assert_true(ask(userp));
        infer_thread_end_responses();
}

static void test_a_row_within_a_call(void **state) {
        (void)state;
        infer_thread_begin_responses();
        assert_true(infer_thread_call_after_responses(nested, (void *)(uintptr_t) "x"));
        assert_true(ask("a"));
        infer_thread_end_responses();
        assert_string_equal(order, "xa");
}

SUITE(infer_thread_responses) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_nothing_waits_outside_a_row, set_up),
                cmocka_unit_test_setup(test_calls_come_at_the_end, set_up),
                cmocka_unit_test_setup(test_the_outermost_end_counts, set_up),
                cmocka_unit_test_setup(test_many_ask, set_up),
                cmocka_unit_test_setup(test_calls_that_ask, set_up),
                cmocka_unit_test_setup(test_what_is_owed_before_a_wait, set_up),
                cmocka_unit_test_setup(test_what_was_left_open, set_up),
                cmocka_unit_test_setup(test_a_row_within_a_call, set_up),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
