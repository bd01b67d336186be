/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/byte_budget.h"
#include "base/mem.h"
#include "grpc/h2_blocks.h"

#include <string.h>

/* Sizes around the limits of the classes; each byte of a block is its own. */
static void test_sizes(void **state) {
        static const size_t sizes[] = { 0, 1, 63, 64, 65, 128, 511, 512, 513, 4096, 70000 };
        struct h2_blocks    b = { 0 };
        char               *blocks[ARRAY_LEN(sizes)];

        (void)state;
        for (int round = 0; round < 3; round++) {
                for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                        blocks[i] = h2_blocks_alloc(sizes[i], &b);
                        assert_non_null(blocks[i]);
                        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
                        memset(blocks[i], (int)i + 1, sizes[i]);
                }
                for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                        for (size_t at = 0; at < sizes[i]; at++)
                                assert_int_equal(blocks[i][at], i + 1);
                        h2_blocks_free(blocks[i], &b);
                }
        }
        h2_blocks_free(NULL, &b);
        h2_blocks_done(&b);
}

static void test_zeroed_and_grown(void **state) {
        static const char zeros[300];
        struct h2_blocks  b = { 0 };
        char             *block = h2_blocks_alloc(300, &b);

        (void)state;
        memset(block, 'x', 300);
        h2_blocks_free(block, &b);
        block = h2_blocks_zalloc(3, 100, &b); /* perhaps the same one */
        assert_memory_equal(block, zeros, 300);
        memset(block, 'y', 300);
        block = h2_blocks_realloc(block, 10000, &b);
        for (int i = 0; i < 300; i++)
                assert_int_equal(block[i], 'y');
        block = h2_blocks_realloc(block, 5, &b);
        assert_int_equal(block[4], 'y');
        h2_blocks_free(block, &b);
        block = h2_blocks_realloc(NULL, 7, &b);
        assert_non_null(block);
        h2_blocks_free(block, &b);
        assert_null(h2_blocks_zalloc(SIZE_MAX, 2, &b));
        assert_null(h2_blocks_alloc(SIZE_MAX, &b));
        h2_blocks_done(&b);
}

/* Every block is charged; small ones even beyond the maximum, large ones are refused. */
static void test_budget(void **state) {
        struct byte_budget budget;
        struct h2_blocks   b = { .account.budget = &budget };
        char              *small, *large;

        (void)state;
        byte_budget_init(&budget, 64 << 10);
        large = h2_blocks_alloc(40 << 10, &b);
        assert_non_null(large);
        assert_in_range(byte_budget_used(&budget), 40 << 10, 42 << 10);
        assert_null(h2_blocks_alloc(40 << 10, &b));
        byte_budget_force(&budget, 64 << 10);
        small = h2_blocks_alloc(1000, &b);
        assert_non_null(small);
        assert_true(byte_budget_used(&budget) >= (104 << 10) + 1000);
        h2_blocks_free(small, &b);
        h2_blocks_free(large, &b);
        h2_blocks_done(&b);
        assert_int_equal(byte_budget_used(&budget), 64 << 10);
}

/* What many streams needed at once does not stay for ever. */
static void test_keeps_few(void **state) {
        struct h2_blocks b = { 0 };
        void            *blocks[3 * H2_BLOCKS_MAX_KEPT];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
                blocks[i] = h2_blocks_alloc(100, &b);
        for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
                h2_blocks_free(blocks[i], &b);
        for (size_t i = 0; i < H2_BLOCK_CLASSES; i++)
                assert_true(b.kept[i].n <= (i == 1 ? H2_BLOCKS_MAX_KEPT : 0));
        h2_blocks_done(&b);
        for (size_t i = 0; i < H2_BLOCK_CLASSES; i++)
                assert_null(b.kept[i].first);
}

SUITE(h2_blocks) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_zeroed_and_grown),
                cmocka_unit_test(test_budget),
                cmocka_unit_test(test_keeps_few),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
