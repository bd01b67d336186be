/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/due_heap.h"
#include "base/mem.h"

#include <stdlib.h>

#define N 300

static struct due *dues_new(void) {
        struct due *dues = calloc(N, sizeof(*dues));

        assert_non_null(dues);
        return dues;
}

static void push(struct due_heap *h, struct due *d, uint64_t due_ns) {
        d->due_ns = due_ns;
        assert_true(due_heap_push(h, d));
}

/* Every member knows its place, and no parent is due after its child. */
static void check(const struct due_heap *h) {
        for (size_t i = 0; i < h->n; i++) {
                assert_int_equal(h->dues[i]->at, i);
                if (i > 0)
                        assert_true(h->dues[(i - 1) / 2]->due_ns <= h->dues[i]->due_ns);
        }
}

static void test_soonest_first(void **state) {
        struct due     *r = dues_new();
        struct due_heap h;

        (void)state;
        due_heap_init(&h);
        assert_null(due_heap_first(&h));
        push(&h, &r[0], 30);
        push(&h, &r[1], 10);
        push(&h, &r[2], 20);
        assert_ptr_equal(due_heap_first(&h), &r[1]);
        due_heap_remove(&h, &r[1]);
        assert_ptr_equal(due_heap_first(&h), &r[2]);
        due_heap_remove(&h, &r[2]);
        assert_ptr_equal(due_heap_first(&h), &r[0]);
        due_heap_remove(&h, &r[0]);
        assert_null(due_heap_first(&h));
        due_heap_done(&h);
        free(r);
}

static void test_removal_from_anywhere(void **state) {
        struct due     *r = dues_new();
        struct due_heap h;

        (void)state;
        due_heap_init(&h);
        /* Removing the last child of the late branch moves an early one up, not down. */
        uint64_t dues[] = { 1, 10, 2, 11, 12, 3, 4, 13, 14, 15, 16, 5 };

        for (size_t i = 0; i < ARRAY_LEN(dues); i++)
                push(&h, &r[i], dues[i]);
        check(&h);
        due_heap_remove(&h, &r[8]);
        check(&h);
        assert_int_equal(h.n, ARRAY_LEN(dues) - 1);
        due_heap_remove(&h, &r[0]);
        check(&h);
        assert_ptr_equal(due_heap_first(&h), &r[2]);
        due_heap_done(&h);
        free(r);
}

static void test_random(void **state) {
        struct due     *r = dues_new();
        bool            is_in[N] = { false };
        struct due_heap h;
        uint64_t        random = 88172645463325252;
        size_t          n = 0;

        (void)state;
        due_heap_init(&h);
        for (unsigned step = 0; step < 20000; step++) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;

                size_t   at = random % N;
                uint64_t soonest = UINT64_MAX;

                if (is_in[at])
                        due_heap_remove(&h, &r[at]);
                else
                        push(&h, &r[at], (random >> 32) % 100);
                n += is_in[at] ? (size_t)-1 : 1;
                is_in[at] = !is_in[at];
                for (size_t i = 0; i < N; i++)
                        if (is_in[i] && r[i].due_ns < soonest)
                                soonest = r[i].due_ns;
                assert_int_equal(h.n, n);
                if (n > 0)
                        assert_true(due_heap_first(&h)->due_ns == soonest);
                if (step % 100 == 0)
                        check(&h);
        }
        due_heap_done(&h);
        free(r);
}

/* Growing fails: the heap is as it was. */
static void test_short_of_memory(void **state) {
        struct due     *r = dues_new();
        struct due_heap h;
        size_t          n = 0;

        (void)state;
        due_heap_init(&h);
        mem_fail_after(2); /* the second array */
        while (n < N) {
                r[n].due_ns = N - n;
                if (!due_heap_push(&h, &r[n]))
                        break;
                n++;
        }
        mem_fail_after(0);
        assert_in_range(n, 1, N - 1);
        assert_int_equal(h.n, n);
        check(&h);
        assert_ptr_equal(due_heap_first(&h), &r[n - 1]);
        push(&h, &r[n], 0);
        assert_ptr_equal(due_heap_first(&h), &r[n]);
        due_heap_done(&h);
        free(r);
}

static void test_room_that_is_needed(void **state) {
        struct due_heap h;
        struct due      d = { .due_ns = 7 };

        (void)state;
        due_heap_init(&h);
        mem_fail_after(1);
        due_heap_need(&h);
        push(&h, &d, 7);
        mem_fail_after(0);
        assert_ptr_equal(due_heap_first(&h), &d);
        due_heap_done(&h);
}

SUITE(due_heap) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_soonest_first),
                cmocka_unit_test(test_removal_from_anywhere),
                cmocka_unit_test(test_random),
                cmocka_unit_test(test_short_of_memory),
                cmocka_unit_test(test_room_that_is_needed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
