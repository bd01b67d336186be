/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "observe/batch_table.h"

static void test_sizes_stay_sorted(void **state) {
        const uint64_t     sizes[] = { 4, 4, 1, 9, 2, 4, 7, 1, 300, 3 };
        const uint64_t     sorted[] = { 1, 2, 3, 4, 7, 9, 300 };
        const uint64_t     counts[] = { 2, 1, 1, 3, 1, 1, 1 };
        struct batch_table t = { 0 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
                batch_table_add(&t, &(struct batch_stats){ .batch_size = sizes[i],
                                                           .compute_input = { 1, 2 },
                                                           .compute_infer = { 1, sizes[i] },
                                                           .compute_output = { 1, 5 } });
        assert_int_equal(t.n, ARRAY_LEN(sorted));
        for (size_t i = 0; i < t.n; i++) {
                assert_int_equal(t.items[i].batch_size, sorted[i]);
                assert_int_equal(t.items[i].compute_input.count, counts[i]);
                assert_int_equal(t.items[i].compute_input.ns, 2 * counts[i]);
                assert_int_equal(t.items[i].compute_infer.count, counts[i]);
                assert_int_equal(t.items[i].compute_infer.ns, sorted[i] * counts[i]);
                assert_int_equal(t.items[i].compute_output.count, counts[i]);
                assert_int_equal(t.items[i].compute_output.ns, 5 * counts[i]);
        }
        batch_table_done(&t);
}

static void test_bounded(void **state) {
        struct batch_table t = { 0 };

        (void)state;
        for (uint64_t size = 10000; size > 0; size--)
                (void)batch_table_at(&t, size);
        assert_int_equal(t.n, 4096);
        assert_null(batch_table_at(&t, 1));
        assert_int_equal(batch_table_at(&t, 10000)->batch_size, 10000);
        assert_int_equal(t.items[0].batch_size, 10000 - 4096 + 1);
        batch_table_done(&t);
}

static void test_short_memory_loses_only_the_new_size(void **state) {
        struct batch_table t = { 0 };

        (void)state;
        for (uint64_t size = 1; size <= 4; size++)
                assert_non_null(batch_table_at(&t, size));
        mem_fail_after(1);
        assert_null(batch_table_at(&t, 5));
        batch_table_add(&t, &(struct batch_stats){ .batch_size = 5 });
        assert_int_equal(batch_table_at(&t, 3)->batch_size, 3);
        mem_fail_after(0);
        assert_int_equal(t.n, 4);
        assert_int_equal(batch_table_at(&t, 5)->batch_size, 5);
        assert_int_equal(t.n, 5);
        batch_table_done(&t);
}

SUITE(batch_table) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes_stay_sorted),
                cmocka_unit_test(test_bounded),
                cmocka_unit_test(test_short_memory_loses_only_the_new_size),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
