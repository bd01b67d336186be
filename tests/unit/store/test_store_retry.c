/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "store/store_retry.h"

#define MS NS_PER_MS

static void test_pauses_grow(void **state) {
        static const uint64_t whole_ms[] = { 200, 400, 800, 1600, 3200, 6400, 10000, 10000 };

        struct store_retry least, most;
        uint64_t           at;

        (void)state;
        store_retry_init(&least, 1000 * NS_PER_S);
        store_retry_init(&most, 1000 * NS_PER_S);
        for (size_t i = 0; i < sizeof(whole_ms) / sizeof(whole_ms[0]); i++) {
                assert_true(store_retry_next(&least, 5 * MS, 0, 0, &at));
                assert_int_equal((at - 5 * MS) / MS, whole_ms[i] / 2);
                assert_true(store_retry_next(&most, 5 * MS, 0, 1024, &at));
                assert_in_range(at - 5 * MS, (whole_ms[i] - 1) * MS, whole_ms[i] * MS);
        }
}

static void test_the_time_ends(void **state) {
        struct store_retry r;
        uint64_t           at = 1, n = 0;

        (void)state;
        store_retry_init(&r, 3 * NS_PER_S);
        while (store_retry_next(&r, at, 0, 1024, &at))
                n++;
        assert_int_equal(n, 4); /* after 0.2, 0.6, 1.4 and 3.0 s */
        assert_in_range(at, 2999 * MS, 3001 * MS);
        store_retry_progress(&r);
        assert_true(store_retry_next(&r, at, 0, 0, &at));
}

static void test_the_wish_of_the_server(void **state) {
        struct store_retry r;
        uint64_t           at;

        (void)state;
        store_retry_init(&r, 60 * NS_PER_S);
        assert_true(store_retry_next(&r, 1, 7 * NS_PER_S, 0, &at));
        assert_int_equal(at, 7 * NS_PER_S + 1);
        assert_true(store_retry_next(&r, at, 1, 0, &at));
        assert_int_equal(at, 7 * NS_PER_S + 1 + 200 * MS);
        assert_false(store_retry_next(&r, at, 54 * NS_PER_S, 0, &at));
}

static void test_no_retries(void **state) {
        struct store_retry r;
        uint64_t           at;

        (void)state;
        store_retry_init(&r, 0);
        assert_false(store_retry_next(&r, 1, 0, 0, &at));
}

static void test_answers(void **state) {
        static const int transient[] = { 408, 429, 500, 502, 503, 504 };
        static const int final[] = { 0, 200, 206, 301, 400, 401, 403, 404, 412, 416, 501, 505 };

        (void)state;
        for (size_t i = 0; i < sizeof(transient) / sizeof(transient[0]); i++)
                assert_true(store_retry_is_transient(transient[i]));
        for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++)
                assert_false(store_retry_is_transient(final[i]));
}

static void test_retry_after(void **state) {
        /* 1994-11-06 08:49:37 UTC */
        const uint64_t wall_ns = UINT64_C(784111777) * NS_PER_S + 5;

        (void)state;
        assert_int_equal(store_retry_after_ns("7", wall_ns), 7 * NS_PER_S);
        assert_int_equal(store_retry_after_ns("0", wall_ns), 0);
        assert_int_equal(store_retry_after_ns("Sun, 06 Nov 1994 08:49:40 GMT", wall_ns),
                         3 * NS_PER_S);
        assert_int_equal(store_retry_after_ns("Sun, 06 Nov 1994 08:49:37 GMT", wall_ns), 0);
        assert_int_equal(store_retry_after_ns("Sun, 06 Nov 1994 08:49:30 GMT", wall_ns), 0);
        assert_int_equal(store_retry_after_ns("", wall_ns), 0);
        assert_int_equal(store_retry_after_ns("-1", wall_ns), 0);
        assert_int_equal(store_retry_after_ns("soon", wall_ns), 0);
        assert_int_equal(store_retry_after_ns("18446744073709551615", wall_ns),
                         24 * 3600 * NS_PER_S);
        assert_int_equal(store_retry_after_ns("18446744073709551616", wall_ns), 0);
}

SUITE(store_retry) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pauses_grow),
                cmocka_unit_test(test_the_time_ends),
                cmocka_unit_test(test_the_wish_of_the_server),
                cmocka_unit_test(test_no_retries),
                cmocka_unit_test(test_answers),
                cmocka_unit_test(test_retry_after),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
