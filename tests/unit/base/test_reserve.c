/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "base/reserve.h"

#include <string.h>

static void test_closed(void **state) {
        (void)state;
        assert_null(reserve_take(1));
        assert_false(reserve_is_short());
}

static void test_take_and_fill_again(void **state) {
        static const size_t sizes[] = { 1, 576, 577, 4160, 10000, 60000, 200000, 426000 };

        (void)state;
        assert_null(reserve_open());
        assert_false(reserve_is_short());
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                void *block = reserve_take(sizes[i]);

                assert_non_null(block);
                assert_int_equal((uintptr_t)block % RESERVE_ALIGNMENT, 0);
                memset(block, 1, sizes[i]);
                free(block);
        }
        assert_false(reserve_is_short()); /* there is memory: it was filled */
        assert_null(reserve_take(1 << 20));
        reserve_close();
        assert_null(reserve_take(1));
}

/* Takes all blocks; `blocks` has room for them. */
static unsigned take_all(void **blocks) {
        unsigned n = 0;

        while ((blocks[n] = reserve_take(100)) != NULL)
                n++;
        return n;
}

/* A part of the blocks is there at the start, all of them from the first question on. */
static void test_filled_by_the_first_question(void **state) {
        void    *blocks[4096];
        unsigned n_at_start, n_full;

        (void)state;
        assert_null(reserve_open());
        n_at_start = take_all(blocks);
        for (unsigned i = 0; i < n_at_start; i++)
                free(blocks[i]);
        assert_false(reserve_is_short());
        n_full = take_all(blocks);
        for (unsigned i = 0; i < n_full; i++)
                free(blocks[i]);
        assert_true(n_at_start > 128);
        assert_in_range(n_full / n_at_start, 7, 8);
        reserve_close();
}

/* Smaller ones that are used up are taken from those that are larger, until nothing is left. */
static void test_empty(void **state) {
        void    *blocks[4096];
        unsigned n;

        (void)state;
        assert_null(reserve_open());
        assert_false(reserve_is_short());
        n = take_all(blocks);
        assert_true(n > 1024);
        assert_false(reserve_is_short());
        free(reserve_take(100));
        while (n > 0)
                free(blocks[--n]);
        reserve_close();
}

static void test_move(void **state) {
        char *old = mem_strdup("what was there"), *moved;

        (void)state;
        assert_null(reserve_move(old, 100));
        assert_string_equal(old, "what was there");
        assert_null(reserve_open());
        moved = reserve_move(old, 100);
        assert_string_equal(moved, "what was there");
        free(moved);
        moved = reserve_move(NULL, 100);
        assert_non_null(moved);
        free(moved);
        reserve_close();
}

static void test_users(void **state) {
        void *block;

        (void)state;
        assert_null(reserve_open());
        assert_null(reserve_open());
        reserve_close();
        block = reserve_take(10);
        assert_non_null(block);
        free(block);
        reserve_close();
        assert_null(reserve_take(10));
        assert_false(reserve_is_short());
}

SUITE(reserve) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_closed),
                cmocka_unit_test(test_take_and_fill_again),
                cmocka_unit_test(test_filled_by_the_first_question),
                cmocka_unit_test(test_empty),
                cmocka_unit_test(test_move),
                cmocka_unit_test(test_users),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
