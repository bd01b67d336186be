/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/map.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define N_KEYS 20000

static int values[N_KEYS];

static struct str key_of(int i, char *buffer, size_t size) {
        int len = snprintf(buffer, size, "model-%d", i);

        return str_range(buffer, (size_t)len);
}

static void fill(struct map *m, int n) {
        char text[32];

        for (int i = 0; i < n; i++)
                assert_null(map_set(m, key_of(i, text, sizeof(text)), &values[i]));
}

static void test_empty(void **state) {
        (void)state;
        struct map m;
        size_t     at = 0;

        map_init(&m);
        assert_null(map_find(&m, STR_LIT("x")));
        assert_null(map_remove(&m, STR_LIT("x")));
        assert_null(map_next(&m, &at));
        assert_int_equal(map_size(&m), 0);
        map_done(&m);
        map_done(&m);
}

static void test_set_find_replace_remove(void **state) {
        (void)state;
        struct map m;
        int        one = 1, two = 2;

        map_init(&m);
        assert_null(map_set(&m, STR_LIT("a"), &one));
        assert_ptr_equal(map_find(&m, STR_LIT("a")), &one);
        assert_ptr_equal(map_set(&m, STR_LIT("a"), &two), &one);
        assert_ptr_equal(map_find(&m, STR_LIT("a")), &two);
        assert_int_equal(map_size(&m), 1);
        assert_ptr_equal(map_remove(&m, STR_LIT("a")), &two);
        assert_null(map_find(&m, STR_LIT("a")));
        assert_null(map_remove(&m, STR_LIT("a")));
        assert_int_equal(map_size(&m), 0);
        map_done(&m);
}

static void test_keys_are_bytes_and_copied(void **state) {
        (void)state;
        struct map              m;
        char                    key[3] = { 'a', '\0', 'b' };
        int                     one = 1, two = 2, three = 3;
        size_t                  at = 0;
        const struct map_entry *e;

        map_init(&m);
        map_set(&m, str_range(key, 3), &one);
        map_set(&m, str_range(key, 1), &two);
        map_set(&m, str_range(NULL, 0), &three);
        key[0] = 'x';
        assert_ptr_equal(map_find(&m, str_range("a\0b", 3)), &one);
        assert_ptr_equal(map_find(&m, STR_LIT("a")), &two);
        assert_ptr_equal(map_find(&m, STR_LIT("")), &three);
        assert_null(map_find(&m, str_range(key, 3)));

        e = map_next(&m, &at);
        assert_int_equal(e->key_len, 3);
        assert_memory_equal(e->key, "a\0b", 4); /* with a NUL behind */
        map_done(&m);
}

static void test_thousands_in_insertion_order(void **state) {
        (void)state;
        struct map              m;
        const struct map_entry *e;
        char                    text[32];
        size_t                  at = 0;
        int                     expected = 0;

        map_init(&m);
        fill(&m, N_KEYS);
        assert_int_equal(map_size(&m), N_KEYS);
        for (int i = N_KEYS; i-- > 0;)
                assert_ptr_equal(map_find(&m, key_of(i, text, sizeof(text))), &values[i]);
        assert_null(map_find(&m, STR_LIT("model-20000")));
        while ((e = map_next(&m, &at)) != NULL)
                assert_ptr_equal(e->value, &values[expected++]);
        assert_int_equal(expected, N_KEYS);
        map_done(&m);
}

static void test_removal_keeps_order_and_the_rest(void **state) {
        (void)state;
        struct map              m;
        const struct map_entry *e;
        char                    text[32];
        size_t                  at = 0;
        int                     expected = 1;

        map_init(&m);
        fill(&m, N_KEYS);
        for (int i = 0; i < N_KEYS; i += 2)
                assert_ptr_equal(map_remove(&m, key_of(i, text, sizeof(text))), &values[i]);
        for (int i = 0; i < N_KEYS; i++) {
                void *value = map_find(&m, key_of(i, text, sizeof(text)));

                assert_ptr_equal(value, i % 2 ? &values[i] : NULL);
        }
        assert_null(map_set(&m, STR_LIT("model-0"), &values[0])); /* now the last one */
        while ((e = map_next(&m, &at)) != NULL) {
                assert_ptr_equal(e->value, expected < N_KEYS ? &values[expected] : &values[0]);
                expected += 2;
        }
        assert_int_equal(expected, N_KEYS + 3);
        map_done(&m);
}

static void test_churn_does_not_grow(void **state) {
        (void)state;
        struct map m;
        char       text[32];

        map_init(&m);
        for (int i = 0; i < N_KEYS; i++) {
                map_set(&m, key_of(i, text, sizeof(text)), &values[i]);
                if (i >= 5)
                        assert_non_null(map_remove(&m, key_of(i - 5, text, sizeof(text))));
        }
        assert_int_equal(map_size(&m), 5);
        assert_in_range(m.n_slots, 1, 32);
        map_done(&m);
}

static void test_removal_while_walking(void **state) {
        (void)state;
        struct map              m;
        const struct map_entry *e;
        size_t                  at = 0, n_seen = 0;

        map_init(&m);
        fill(&m, 1000);
        while ((e = map_next(&m, &at)) != NULL) {
                map_remove(&m, str_range(e->key, e->key_len));
                n_seen++;
        }
        assert_int_equal(n_seen, 1000);
        assert_int_equal(map_size(&m), 0);
        map_done(&m);
}

static void test_loop_can_be_left(void **state) {
        (void)state;
        struct map m;
        int        n_seen = 0;

        map_init(&m);
        MAP_FOR_EACH(&m, e)
                fail();
        fill(&m, 10);
        MAP_FOR_EACH(&m, e) {
                if (e->value == &values[3])
                        continue;
                assert_ptr_not_equal(e->value, &values[3]);
                if (e->value == &values[7])
                        break;
                n_seen++;
        }
        assert_int_equal(n_seen, 6);
        map_done(&m);
}

SUITE(map) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_empty),
                cmocka_unit_test(test_set_find_replace_remove),
                cmocka_unit_test(test_keys_are_bytes_and_copied),
                cmocka_unit_test(test_thousands_in_insertion_order),
                cmocka_unit_test(test_removal_keeps_order_and_the_rest),
                cmocka_unit_test(test_churn_does_not_grow),
                cmocka_unit_test(test_removal_while_walking),
                cmocka_unit_test(test_loop_can_be_left),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
