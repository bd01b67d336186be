/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/mem.h"

#include <sys/resource.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

static void count(void *owner) {
        ++*(int *)owner;
}

static void init_counting(struct byte_budget *b, size_t max, int *n_refused) {
        byte_budget_init(b, max);
        b->on_refused = count;
        b->owner = n_refused;
        *n_refused = 0;
}

static void test_take_and_give(void **state) {
        (void)state;
        struct byte_budget b;

        byte_budget_init(&b, 8 * MIB);
        assert_true(byte_budget_take(&b, 7 * MIB));
        assert_int_equal(byte_budget_used(&b), 7 * MIB);
        byte_budget_give(&b, 7 * MIB);
        assert_int_equal(byte_budget_used(&b), 0);
        assert_false(byte_budget_take(&b, SIZE_MAX));
        assert_int_equal(byte_budget_used(&b), 0);
}

static void test_last_eighth_is_for_small_pieces(void **state) {
        (void)state;
        struct byte_budget b;

        byte_budget_init(&b, 8 * MIB);
        assert_false(byte_budget_take(&b, 7 * MIB + 1));
        assert_false(byte_budget_fits(&b, 7 * MIB + 1));
        assert_true(byte_budget_fits(&b, 7 * MIB));
        assert_true(byte_budget_take(&b, 7 * MIB));
        assert_false(byte_budget_take(&b, BYTE_BUDGET_SMALL + 1));
        for (size_t i = 0; i < MIB / BYTE_BUDGET_SMALL; i++)
                assert_true(byte_budget_take(&b, BYTE_BUDGET_SMALL));
        assert_false(byte_budget_take(&b, 1));
        assert_false(byte_budget_fits(&b, 1));
}

static void test_beyond_the_maximum(void **state) {
        (void)state;
        struct byte_budget b;

        byte_budget_init(&b, MIB);
        byte_budget_force(&b, 2 * MIB);
        assert_int_equal(byte_budget_used(&b), 2 * MIB);
        assert_false(byte_budget_take(&b, 1));
        assert_false(byte_budget_fits(&b, 1));
        byte_budget_give(&b, 2 * MIB);
        assert_true(byte_budget_take(&b, 1));
}

/* Small buffers leave the budget alone: they are paid from a slab. */
static void test_account(void **state) {
        (void)state;
        const size_t        slab = 16 * MIB / BYTE_ACCOUNT_SLABS;
        struct byte_account a = { 0 };
        struct byte_budget  b;
        int                 n_refused;

        assert_true(byte_account_take(&a, SIZE_MAX)); /* without a budget */
        init_counting(&b, 16 * MIB, &n_refused);
        a.budget = &b;
        assert_true(byte_account_take(&a, 4 * KIB));
        assert_int_equal(byte_budget_used(&b), slab);
        assert_true(byte_account_take(&a, 8 * KIB));
        assert_int_equal(byte_budget_used(&b), slab);
        byte_account_give(&a, 12 * KIB);
        assert_int_equal(byte_budget_used(&b), slab);

        assert_true(byte_account_take(&a, 13 * MIB));
        assert_int_equal(byte_budget_used(&b), 13 * MIB);
        assert_false(byte_account_take(&a, 2 * MIB));
        assert_int_equal(n_refused, 0);          /* the pool reports, once its lock is released */
        assert_true(byte_account_take(&a, MIB)); /* no slab: exactly this */
        assert_int_equal(byte_budget_used(&b), 14 * MIB);

        byte_account_give(&a, 14 * MIB);
        assert_int_equal(byte_budget_used(&b), slab);
        byte_account_close(&a);
        assert_int_equal(byte_budget_used(&b), 0);

        byte_budget_init(&b, 1024 * MIB); /* a slab is no larger than this however large it is */
        assert_true(byte_account_take(&a, 1));
        assert_int_equal(byte_budget_used(&b), BYTE_ACCOUNT_SLAB);
        byte_account_give(&a, 1);
        byte_account_close(&a);
}

/* The last sixteenth is tight; a buffer that must be had is charged beyond the maximum. */
static void test_tight(void **state) {
        (void)state;
        struct buf_pool   *pool = buf_pool_new(MIB);
        struct byte_budget b;
        struct buf        *forced;

        assert_false(byte_budget_is_tight(NULL));
        assert_false(buf_pool_is_tight(pool));
        byte_budget_init(&b, 16 * MIB);
        buf_pool_set_budget(pool, &b);
        byte_budget_force(&b, 8 * MIB);
        assert_false(byte_budget_is_half_used(&b));
        byte_budget_force(&b, 7 * MIB);
        assert_true(byte_budget_is_half_used(&b));
        assert_false(byte_budget_is_tight(&b));
        assert_false(buf_pool_is_tight(pool));
        byte_budget_force(&b, MIB);
        assert_true(byte_budget_is_tight(&b));
        assert_true(buf_pool_is_tight(pool));
        assert_null(buf_new(pool, 1));
        forced = buf_new_beyond(pool, 300);
        assert_int_equal(forced->cap, 512);
        /* With its head and the room up to its alignment. */
        assert_int_equal(byte_budget_used(&b), 16 * MIB + 512 + sizeof(struct buf) + 64);
        buf_unref(forced);
        buf_pool_unref(pool);
        assert_int_equal(byte_budget_used(&b), 16 * MIB);
}

static void test_buffers(void **state) {
        (void)state;
        struct buf_pool   *pool = buf_pool_new(64 * MIB);
        struct buf        *first, *second;
        struct byte_budget b;
        int                n_refused;

        init_counting(&b, 16 * MIB, &n_refused);
        buf_pool_set_budget(pool, &b);
        assert_ptr_equal(buf_pool_budget(pool), &b);
        first = buf_new(pool, 8 * MIB);
        assert_non_null(first);
        assert_int_equal(byte_budget_used(&b), 8 * MIB);
        assert_null(buf_new(pool, 8 * MIB));
        assert_int_equal(n_refused, 1);
        assert_string_equal(buf_pool_shortage(pool, 8 * MIB), BYTE_BUDGET_USED_UP);
        assert_string_equal(buf_pool_shortage(pool, MIB), "out of memory");
        assert_string_equal(buf_pool_shortage(NULL, MIB), "out of memory");
        buf_unref(first);
        second = buf_new(pool, 8 * MIB);
        assert_non_null(second);
        buf_unref(second);
        buf_pool_unref(pool);
        assert_int_equal(byte_budget_used(&b), 0);
}

/* Larger than any class of the pool. */
static void test_buffer_without_a_pool(void **state) {
        (void)state;
        struct buf_pool   *pool = buf_pool_new(0);
        struct buf        *large;
        struct byte_budget b;
        int                n_refused;

        init_counting(&b, 256 * MIB, &n_refused);
        buf_pool_set_budget(pool, &b);
        large = buf_new(pool, 100 * MIB);
        assert_non_null(large);
        assert_int_equal(byte_budget_used(&b), 100 * MIB);
        assert_null(buf_new(pool, 200 * MIB));
        assert_int_equal(n_refused, 1);
        buf_unref(large);
        assert_int_equal(byte_budget_used(&b), 0);
        mem_fail_after(1);
        assert_null(buf_new(pool, 100 * MIB));
        assert_null(buf_new(pool, MIB));
        mem_fail_after(0);
        buf_pool_unref(pool);
        assert_int_equal(byte_budget_used(&b), 0);
}

static void test_arena(void **state) {
        (void)state;
        struct arena       a;
        struct byte_budget b;
        int                n_refused;

        init_counting(&b, 8 * MIB, &n_refused);
        arena_init(&a, NULL, 0, 0);
        arena_set_budget(&a, &b);
        assert_non_null(arena_try_alloc(&a, 6 * MIB));
        assert_int_equal(byte_budget_used(&b), 6 * MIB);
        assert_null(arena_try_alloc(&a, 2 * MIB));
        assert_int_equal(n_refused, 1);
        assert_non_null(arena_try_alloc(&a, 900 * KIB)); /* a block of just that */
        assert_int_equal(n_refused, 1);

        /* What is ours comes anyway, and is counted. */
        assert_non_null(arena_alloc(&a, 2 * MIB));
        assert_true(byte_budget_used(&b) >= 8 * MIB + 900 * KIB);
        arena_reset(&a);
        assert_int_equal(byte_budget_used(&b), 6 * MIB);
        arena_done(&a);
        assert_int_equal(byte_budget_used(&b), 0);
}

static void test_default_is_a_quarter(void **state) {
        (void)state;
        SKIP_WHEN_EMULATED("qemu-user does not set RLIMIT_AS");
        struct rlimit before, less;
        size_t        all = byte_budget_default();

        assert_true(all > 0);
        assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
        less = before;
        less.rlim_cur = all; /* a quarter of what there is, at most */
        if (setrlimit(RLIMIT_AS, &less) != 0)
                skip(); /* a sanitizer's shadow has taken more */
        assert_int_equal(byte_budget_default(), all / 4);
        assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

/* Two budgets with one counter: what one has taken, the other has not. */
static void test_shared_counter(void **state) {
        struct byte_budget front, core;

        (void)state;
        byte_budget_init(&front, 8 * MIB);
        byte_budget_share(&core, 8 * MIB, front.used);
        assert_true(byte_budget_take(&front, 5 * MIB));
        assert_int_equal(byte_budget_used(&core), 5 * MIB);
        assert_false(byte_budget_take(&core, 3 * MIB));
        assert_true(byte_budget_take(&core, 2 * MIB));
        assert_false(byte_budget_fits(&front, MIB));
        byte_budget_force(&core, MIB);
        assert_true(byte_budget_is_tight(&front));
        byte_budget_give(&core, 3 * MIB);
        byte_budget_give(&front, 5 * MIB);
        assert_int_equal(byte_budget_used(&front), 0);
}

SUITE(byte_budget) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_take_and_give),
                cmocka_unit_test(test_last_eighth_is_for_small_pieces),
                cmocka_unit_test(test_beyond_the_maximum),
                cmocka_unit_test(test_account),
                cmocka_unit_test(test_tight),
                cmocka_unit_test(test_buffers),
                cmocka_unit_test(test_buffer_without_a_pool),
                cmocka_unit_test(test_arena),
                cmocka_unit_test(test_default_is_a_quarter),
                cmocka_unit_test(test_shared_counter),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
