/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/list.h"

struct item {
        int              number;
        struct list_node node;
};

static void assert_numbers(struct list *l, const int *numbers, size_t n) {
        size_t at = 0;

        LIST_FOR_EACH(l, position) {
                assert_in_range(at, 0, n - 1);
                assert_int_equal(LIST_ENTRY(position, struct item, node)->number, numbers[at++]);
        }
        assert_int_equal(at, n);
}

static void test_order(void **state) {
        (void)state;
        struct list l;
        struct item items[4] = {
                { .number = 0 }, { .number = 1 }, { .number = 2 }, { .number = 3 }
        };

        list_init(&l);
        assert_true(list_is_empty(&l));
        assert_null(list_first(&l));
        list_append(&l, &items[1].node);
        list_append(&l, &items[3].node);
        list_prepend(&l, &items[0].node);
        list_insert_before(&items[3].node, &items[2].node);
        assert_numbers(&l, (const int[]){ 0, 1, 2, 3 }, 4);
        assert_ptr_equal(list_first(&l), &items[0].node);
        assert_ptr_equal(list_next(&l, &items[2].node), &items[3].node);
        assert_null(list_next(&l, &items[3].node));
}

static void test_remove(void **state) {
        (void)state;
        struct list l;
        struct item items[3] = { { .number = 0 }, { .number = 1 }, { .number = 2 } };

        list_init(&l);
        for (int i = 0; i < 3; i++) {
                list_node_init(&items[i].node);
                assert_false(list_is_linked(&items[i].node));
                list_append(&l, &items[i].node);
                assert_true(list_is_linked(&items[i].node));
        }
        list_remove(&items[1].node);
        assert_false(list_is_linked(&items[1].node));
        assert_numbers(&l, (const int[]){ 0, 2 }, 2);
        LIST_FOR_EACH(&l, position)
                list_remove(position);
        assert_true(list_is_empty(&l));
}

SUITE(list) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_remove),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
