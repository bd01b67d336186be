/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/block_cache.h"
#include "base/compiler.h"

struct block {
        struct cached_block link;
        int                 number;
};

static void test_last_in_first_out(void **state) {
        struct block_cache c = { 0 };
        struct block       blocks[3] = { { .number = 0 }, { .number = 1 }, { .number = 2 } };

        (void)state;
        assert_null(block_cache_take(&c));
        for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
                assert_true(block_cache_give(&c, &blocks[i], 3));
        assert_int_equal(c.n, 3);
        for (int i = 2; i >= 0; i--) {
                struct block *b = block_cache_take(&c);

                assert_ptr_equal(b, &blocks[i]);
                assert_int_equal(b->number, i);
        }
        assert_int_equal(c.n, 0);
        assert_null(block_cache_take(&c));
}

static void test_bound(void **state) {
        struct block_cache c = { 0 };
        struct block       blocks[2];

        (void)state;
        assert_false(block_cache_give(&c, &blocks[0], 0));
        assert_true(block_cache_give(&c, &blocks[0], 1));
        assert_false(block_cache_give(&c, &blocks[1], 1));
        assert_ptr_equal(block_cache_take(&c), &blocks[0]);
        assert_true(block_cache_give(&c, &blocks[1], 1));
}

SUITE(block_cache) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_last_in_first_out),
                cmocka_unit_test(test_bound),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
