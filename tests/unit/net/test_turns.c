/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "net/turns.h"

#define NOW UINT64_C(1000000000)

/* How many requests the share has, up to `most`. */
static unsigned take(struct turns *s, struct turn *t, uint64_t now_ns, unsigned most) {
        unsigned n = 0;

        while (n < most && turns_take(s, t, now_ns))
                n++;
        return n;
}

static void test_share_by_number(void **state) {
        struct turns s;
        struct turn  a = { 0 }, b = { 0 };

        (void)state;
        turns_init(&s);
        assert_int_equal(take(&s, &a, NOW, 1000), TURNS_MAX_REQUESTS);
        assert_int_equal(take(&s, &a, NOW, 1000), 0);
        assert_int_equal(take(&s, &b, NOW, 1000), TURNS_MAX_REQUESTS);
        turns_end_round(&s);
        assert_int_equal(take(&s, &a, NOW, 1000), TURNS_MAX_REQUESTS);
}

/* When the round's time has passed, each connection still gets one request. */
static void test_share_by_time(void **state) {
        struct turns s;
        struct turn  a = { 0 }, b = { 0 };

        (void)state;
        turns_init(&s);
        assert_int_equal(take(&s, &a, NOW, 2), 2);
        assert_int_equal(take(&s, &a, NOW + TURNS_ROUND_NS - 1, 1), 1);
        assert_int_equal(take(&s, &a, NOW + TURNS_ROUND_NS, 1), 0);
        assert_int_equal(take(&s, &b, NOW + TURNS_ROUND_NS, 1000), 1);
        turns_end_round(&s);
        assert_int_equal(take(&s, &b, NOW + TURNS_ROUND_NS, 2), 2);
}

/* A turn is served in a later round than the one in which it was queued, in order, and once a round. */
static void test_queue(void **state) {
        struct turns s;
        struct turn  a = { 0 }, b = { 0 };

        (void)state;
        turns_init(&s);
        turns_wait(&s, &a);
        turns_wait(&s, &b);
        turns_wait(&s, &a);
        assert_null(turns_next(&s, NOW));
        turns_end_round(&s);
        assert_ptr_equal(turns_next(&s, NOW), &a);
        turns_wait(&s, &a);
        assert_ptr_equal(turns_next(&s, NOW), &b);
        assert_null(turns_next(&s, NOW));
        assert_true(turns_is_waiting(&a));
        assert_false(turns_is_waiting(&b));
        turns_cancel(&a);
        turns_cancel(&a);
        assert_true(turns_is_empty(&s));
}

/* The queue gets its time after a round that arrivals have used up, and then the next round begins. */
static void test_queue_has_time(void **state) {
        uint64_t     late = NOW + 2 * TURNS_ROUND_NS;
        struct turns s;
        struct turn  a = { 0 }, b = { 0 }, c = { 0 };

        (void)state;
        turns_init(&s);
        turns_wait(&s, &a);
        turns_wait(&s, &b);
        turns_end_round(&s);
        assert_true(turns_take(&s, &c, NOW));
        assert_ptr_equal(turns_next(&s, late), &a);
        assert_int_equal(take(&s, &a, late, 2), 2);
        assert_int_equal(take(&s, &a, late + TURNS_QUEUE_NS, 1), 0);
        assert_null(turns_next(&s, late + TURNS_QUEUE_NS));
        turns_end_round(&s);
        assert_ptr_equal(turns_next(&s, late + TURNS_QUEUE_NS), &b);
}

SUITE(turns) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_share_by_number),
                cmocka_unit_test(test_share_by_time),
                cmocka_unit_test(test_queue),
                cmocka_unit_test(test_queue_has_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
