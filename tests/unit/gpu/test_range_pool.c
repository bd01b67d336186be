/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "gpu/range_pool.h"

#include <stdlib.h>
#include <string.h>

#define BASE 0x7f0000000000u
#define GRANULE 256u

static uint64_t take(struct range_pool *p, uint64_t bytes) {
        uint64_t at = 0;

        assert_true(range_pool_take(p, bytes, &at));
        return at;
}

static void test_sizes_are_multiples_of_the_granule(void **state) {
        (void)state;
        struct range_pool *p = range_pool_new(BASE, 4 * GRANULE, GRANULE);
        uint64_t           at;

        assert_int_equal(take(p, 0), BASE);
        assert_int_equal(take(p, GRANULE + 1), BASE + GRANULE);
        assert_int_equal(range_pool_used_bytes(p), 3 * GRANULE);
        assert_int_equal(take(p, GRANULE), BASE + 3 * GRANULE);
        assert_false(range_pool_take(p, 1, &at));
        assert_int_equal(range_pool_largest_free(p), 0);
        range_pool_free(p);
        range_pool_free(NULL);
}

static void test_best_fit(void **state) {
        (void)state;
        struct range_pool *p = range_pool_new(BASE, 20 * GRANULE, GRANULE);
        const uint64_t     large = take(p, 5 * GRANULE);
        uint64_t           small, small_again;

        take(p, 1);
        small = take(p, 2 * GRANULE);
        take(p, 1);
        small_again = take(p, 2 * GRANULE);
        take(p, 1);
        assert_true(range_pool_give(p, large));
        assert_true(range_pool_give(p, small_again));
        assert_true(range_pool_give(p, small));
        assert_int_equal(take(p, 2 * GRANULE), small);
        assert_int_equal(take(p, 2 * GRANULE), small_again);
        assert_int_equal(take(p, 2 * GRANULE), large);
        assert_int_equal(take(p, 3 * GRANULE), large + 2 * GRANULE);
        range_pool_free(p);
}

static void test_neighbours_become_one(void **state) {
        (void)state;
        struct range_pool *p = range_pool_new(BASE, 6 * GRANULE, GRANULE);
        uint64_t           at[6];

        for (size_t i = 0; i < ARRAY_LEN(at); i++)
                at[i] = take(p, GRANULE);
        assert_int_equal(range_pool_n_blocks(p), 6);
        assert_true(range_pool_give(p, at[1]));
        assert_true(range_pool_give(p, at[3]));
        assert_int_equal(range_pool_largest_free(p), GRANULE);
        assert_true(range_pool_give(p, at[2]));
        assert_int_equal(range_pool_largest_free(p), 3 * GRANULE);
        assert_true(range_pool_give(p, at[0]));
        assert_true(range_pool_give(p, at[5]));
        assert_true(range_pool_give(p, at[4]));
        assert_int_equal(range_pool_n_blocks(p), 1);
        assert_int_equal(range_pool_used_bytes(p), 0);
        assert_int_equal(take(p, 6 * GRANULE), BASE);
        range_pool_free(p);
}

static void test_refuses_what_it_did_not_give(void **state) {
        (void)state;
        struct range_pool *p = range_pool_new(BASE, 8 * GRANULE, GRANULE);
        const uint64_t     at = take(p, 2 * GRANULE);

        assert_false(range_pool_give(p, at + GRANULE));
        assert_false(range_pool_give(p, BASE + 7 * GRANULE));
        assert_false(range_pool_give(p, 0));
        assert_true(range_pool_give(p, at));
        assert_false(range_pool_give(p, at));
        range_pool_free(p);
}

static void test_huge_sizes(void **state) {
        (void)state;
        struct range_pool *p = range_pool_new(BASE, 8 * GRANULE, GRANULE);
        uint64_t           at;

        assert_false(range_pool_take(p, UINT64_MAX, &at));
        assert_false(range_pool_take(p, UINT64_MAX - GRANULE, &at));
        assert_false(range_pool_take(p, 8 * GRANULE + 1, &at));
        assert_int_equal(take(p, 8 * GRANULE), BASE);
        range_pool_free(p);
}

static void test_memory_is_short(void **state) {
        (void)state;
        struct range_pool *p = NULL;
        uint64_t           at;

        for (unsigned n = 1; p == NULL; n++) {
                mem_fail_after(n);
                p = range_pool_new(BASE, 8 * GRANULE, GRANULE);
                mem_fail_after(0);
                assert_true(p != NULL || n < 5);
        }
        mem_fail_after(1);
        assert_false(range_pool_take(p, GRANULE, &at));
        mem_fail_after(0);
        assert_int_equal(range_pool_largest_free(p), 8 * GRANULE);
        assert_int_equal(take(p, GRANULE), BASE);
        range_pool_free(p);
}

/* ---- against a simple model ------------------------------------------------------------------ */

#define N_GRANULES 400
#define N_STEPS 60000
#define MAX_LIVE N_GRANULES

/* The owner of each granule, by number of the block; 0: it is free. */
struct simple {
        unsigned owners[N_GRANULES];
        unsigned n_owners;
};

/* The smallest gap that is large enough, of several the first one; N_GRANULES: there is none. */
static size_t simple_take(struct simple *s, size_t n) {
        size_t best = N_GRANULES, best_n = SIZE_MAX, i = 0;

        while (i < N_GRANULES) {
                size_t end = i;

                while (end < N_GRANULES && s->owners[end] == 0)
                        end++;
                if (end - i >= n && end - i < best_n) {
                        best = i;
                        best_n = end - i;
                }
                i = end + 1;
        }
        if (best == N_GRANULES)
                return best;
        s->n_owners++;
        for (i = best; i < best + n; i++)
                s->owners[i] = s->n_owners;
        return best;
}

static size_t simple_give(struct simple *s, size_t at) {
        const unsigned owner = s->owners[at];
        size_t         n = 0;

        for (; at < N_GRANULES && s->owners[at] == owner; at++, n++)
                s->owners[at] = 0;
        return n;
}

static size_t simple_largest(const struct simple *s) {
        size_t largest = 0, n = 0;

        for (size_t i = 0; i < N_GRANULES; i++) {
                n = s->owners[i] == 0 ? n + 1 : 0;
                largest = MAX(largest, n);
        }
        return largest;
}

/* xorshift64, Marsaglia. */
static uint64_t random_of(uint64_t *seed) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed;
}

static void test_against_a_simple_model(void **state) {
        (void)state;
        struct range_pool *p = range_pool_new(BASE, N_GRANULES * GRANULE, GRANULE);
        struct simple      s = { 0 };
        size_t             live[MAX_LIVE], n_live = 0, n_used = 0;
        uint64_t           seed = 88172645463325252u;

        for (int step = 0; step < N_STEPS; step++) {
                /* Waves: it fills up, and empties again. */
                bool takes = random_of(&seed) % 8 < (step / 700 % 2 == 0 ? 6u : 2u);

                if (takes && n_live < MAX_LIVE) {
                        const size_t n = 1 + random_of(&seed) % (random_of(&seed) % 32 + 1);
                        const size_t wanted = simple_take(&s, n);
                        uint64_t     at = 0;

                        assert_int_equal(range_pool_take(p,
                                                         n * GRANULE - random_of(&seed) % GRANULE,
                                                         &at),
                                         wanted < N_GRANULES);
                        if (wanted == N_GRANULES)
                                continue;
                        assert_int_equal(at, BASE + wanted * GRANULE);
                        live[n_live++] = wanted;
                        n_used += n;
                } else if (n_live > 0) {
                        const size_t i = random_of(&seed) % n_live;

                        n_used -= simple_give(&s, live[i]);
                        assert_true(range_pool_give(p, BASE + live[i] * GRANULE));
                        live[i] = live[--n_live];
                }
                assert_int_equal(range_pool_used_bytes(p), n_used * GRANULE);
                assert_int_equal(range_pool_largest_free(p), simple_largest(&s) * GRANULE);
        }
        while (n_live > 0)
                assert_true(range_pool_give(p, BASE + live[--n_live] * GRANULE));
        assert_int_equal(range_pool_n_blocks(p), 1);
        range_pool_free(p);
}

SUITE(range_pool) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes_are_multiples_of_the_granule),
                cmocka_unit_test(test_best_fit),
                cmocka_unit_test(test_neighbours_become_one),
                cmocka_unit_test(test_refuses_what_it_did_not_give),
                cmocka_unit_test(test_huge_sizes),
                cmocka_unit_test(test_memory_is_short),
                cmocka_unit_test(test_against_a_simple_model),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
