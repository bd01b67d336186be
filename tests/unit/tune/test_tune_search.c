/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of a search, early stops and the choice, with figures that a formula makes. */
#include "suite.h"

#include "base/compiler.h"
#include "tune/tune_search.h"

#include <math.h>
#include <string.h>

static const struct tune_limits limits = { .has_instances = true,
                                           .instances = 1,
                                           .max_instances = 8,
                                           .has_threads = true,
                                           .threads = 1,
                                           .max_threads = 4,
                                           .has_batching = true,
                                           .may_disable_batching = true,
                                           .is_batching = true,
                                           .max_batch = 64,
                                           .max_delay_us = 10000,
                                           .has_adaptive = true,
                                           .adaptive = TUNE_ADAPTIVE_OFF };

struct fixture {
        struct tune_space  space;
        struct tune_search search;
};

static void open_fixture(struct fixture *l) {
        struct tune_point present;

        tune_space_make(&limits, &l->space);
        present = tune_space_present(&l->space, &limits);
        tune_search_init(&l->search, &l->space, &present);
        l->search.budget_ns = 20e6;
}

/* Two instances of two threads are best, with batches of 16 and a short delay; 2 ms of delay and more are beyond
 * the budget. */
static struct tune_figures figures_of(const struct tune_space *s, const struct tune_point *p) {
        uint64_t batching = tune_space_value(s, p, TUNE_BATCHING);
        uint64_t delay = tune_space_value(s, p, TUNE_DELAY);
        double   rate = 1000.0;

        rate /= 1.0 + fabs(log2((double)tune_space_value(s, p, TUNE_INSTANCES)) - 1.0);
        rate /= 1.0 + fabs(log2((double)tune_space_value(s, p, TUNE_THREADS)) - 1.0);
        rate *= batching == TUNE_NO_BATCHING ? 0.5
                : batching == 16             ? 1.3
                : batching == 4              ? 1.15
                                             : 1.0;
        rate *= delay == 100 ? 1.1 : 1.0;
        rate *= 1.0 - 0.01 * (double)p->at[TUNE_ADAPTIVE];
        return (struct tune_figures){
                .rate = rate, .latency_ns = delay > 1000 ? 50e6 : 5e6, .cpu = 1.0, .is_whole = true
        };
}

static size_t run(struct fixture *l) {
        struct tune_point   p;
        struct tune_figures f;
        size_t              n = 0;

        while (tune_search_next(&l->search, &p)) {
                assert_true(tune_space_is_canonical(&l->space, &p));
                f = figures_of(&l->space, &p);
                tune_search_add(&l->search, &p, &f);
                n++;
        }
        return n;
}

/* The best of a grid of more than 600 points with a twelfth of its measurements. */
static void test_finds_the_best(void **state) {
        struct fixture           l;
        const struct tune_trial *best;
        size_t                   n, whole;

        (void)state;
        open_fixture(&l);
        l.search.noise = 0.0;
        whole = tune_space_count(&l.space);
        assert_int_equal(whole, 4 * 3 * (1 + 3 + 3 * 4 * 3));
        assert_int_equal(tune_search_size(&l.search), whole / 12);
        n = run(&l);
        assert_true(n <= whole / 12);
        best = tune_search_best(&l.search);
        assert_non_null(best);
        assert_true(best->figures.rate >= 0.95 * 1430.0);
        assert_true(best->figures.latency_ns <= l.search.budget_ns);
        tune_search_done(&l.search);
}

static void test_order(void **state) {
        struct fixture    l;
        struct tune_point p;

        (void)state;
        open_fixture(&l);
        assert_true(tune_search_next(&l.search, &p));
        assert_memory_equal(&p, &l.search.present, sizeof(p));
        tune_search_done(&l.search);
        /* No point comes twice, and the whole grid comes when it is wanted. */
        open_fixture(&l);
        l.search.is_exhaustive = true;
        assert_int_equal(tune_search_size(&l.search), tune_space_count(&l.space));
        assert_int_equal(run(&l), tune_space_count(&l.space));
        tune_search_done(&l.search);
}

static void add(struct fixture *l, size_t number, double rate, double latency_ms, bool is_whole) {
        struct tune_point   p = tune_space_point(&l->space, number);
        struct tune_figures f = { .rate = rate,
                                  .latency_ns = latency_ms * 1e6,
                                  .is_whole = is_whole };

        tune_search_add(&l->search, &p, &f);
}

static void test_early_stop(void **state) {
        struct fixture      l;
        struct tune_samples quiet = { { 1000, 1010, 990 }, { 5e6, 5.05e6, 4.95e6 }, 3 };
        struct tune_samples far = { { 900 }, { 5e6 }, 1 }, near = { { 960 }, { 5e6 }, 1 };
        struct tune_samples late = { { 2000 }, { 30e6 }, 1 }, edge = { { 2000 }, { 22e6 }, 1 };
        struct tune_samples twice = { { 960, 960 }, { 5e6, 5e6 }, 2 };

        (void)state;
        open_fixture(&l);
        /* Nothing to compare with. */
        assert_true(tune_search_wants_more(&l.search, &far));
        add(&l, 0, 1000, 5, true);
        tune_search_set_noise(&l.search, &quiet);
        assert_true(fabs(l.search.noise - 0.02) < 1e-9); /* not below what three windows can show */
        assert_true(fabs(l.search.latency_noise - 0.05) < 1e-9);
        assert_false(tune_search_wants_more(&l.search, &far));   /* 900 x 1.05 */
        assert_true(tune_search_wants_more(&l.search, &near));   /* 960 x 1.05 */
        assert_false(tune_search_wants_more(&l.search, &twice)); /* 960 x 1.035 */
        assert_false(tune_search_wants_more(&l.search, &late));
        assert_true(tune_search_wants_more(&l.search, &edge)); /* 22 ms x 0.875 */
        l.search.is_exhaustive = true;
        assert_true(tune_search_wants_more(&l.search, &far));
        tune_search_done(&l.search);
}

static void test_choice(void **state) {
        struct fixture l;

        (void)state;
        open_fixture(&l);
        l.search.noise = 0.02;
        assert_null(tune_search_best(&l.search));
        add(&l, 0, 500, 30, true); /* beyond the budget, and alone */
        assert_int_equal(tune_search_best(&l.search)->figures.rate, 500);
        add(&l, 1, 900, 40, true);
        assert_int_equal(tune_search_best(&l.search)->figures.rate, 500);
        add(&l, tune_space_size(&l.space) - 1, 1000, 10, true); /* 8 instances, 4 threads */
        assert_int_equal(tune_search_best(&l.search)->figures.rate, 1000);
        add(&l, 2, 985, 10, true); /* as good, with one instance */
        assert_int_equal(tune_search_best(&l.search)->figures.rate, 985);
        add(&l, 3, 2000, 10, false); /* given up: not measured to its end */
        assert_int_equal(tune_search_best(&l.search)->figures.rate, 985);
        tune_search_done(&l.search);
}

static void test_finalists(void **state) {
        struct fixture l;
        size_t         finalists[TUNE_FINALISTS];
        size_t         large;
        const double   close[] = { 985, 1000, 900 }, far[] = { 900, 1000, 980 };

        (void)state;
        open_fixture(&l);
        l.search.noise = 0.02;
        large = tune_space_size(&l.space) - 1; /* 8 instances, 4 threads */
        assert_int_equal(tune_search_finalists(&l.search, finalists), 0);
        add(&l, 0, 900, 5, true);
        add(&l, 1, 2000, 5, false); /* given up */
        add(&l, 2, 3000, 50, true); /* beyond the budget */
        add(&l, large, 1000, 5, true);
        assert_int_equal(tune_search_finalists(&l.search, finalists), 2);
        assert_int_equal(finalists[0], 3);
        assert_int_equal(finalists[1], 0);
        add(&l, 4, 800, 5, true);
        add(&l, 5, 700, 5, true);
        assert_int_equal(tune_search_finalists(&l.search, finalists), 3);
        assert_int_equal(finalists[2], 4);
        /* 985 against 1000 is a tie, which the large one has no advantage in; 980 is one, too. */
        assert_int_equal(tune_search_choose(&l.search, finalists, close, 3), 0);
        assert_int_equal(tune_search_choose(&l.search, finalists, far, 3), 0);
        assert_int_equal(tune_search_choose(&l.search, finalists,
                                            (const double[]){ 1000, 900, 800 }, 3),
                         3);
        tune_search_done(&l.search);
}

static void test_objectives(void **state) {
        (void)state;
        assert_true(fabs(tune_objective_value(TUNE_RATE, 100, 5e6, 2) - 100) < 1e-9);
        assert_true(fabs(tune_objective_value(TUNE_LATENCY, 100, 5e6, 2) - 200) < 1e-9);
        assert_true(fabs(tune_objective_value(TUNE_RATE_PER_CPU, 100, 5e6, 2) - 50) < 1e-9);
        assert_true(tune_objective_value(TUNE_RATE_PER_CPU, 100, 5e6, -1) < 1e-9);
}

static void test_gain(void **state) {
        double           a[] = { 100, 110, 100 }, b[] = { 120, 121, 150 }, c[] = { 99, 120, 110 };
        struct tune_gain g = tune_gain_of(a, b, 3);

        (void)state;
        assert_true(fabs(g.median - 0.2) < 1e-9 && fabs(g.least - 0.1) < 1e-9 &&
                    fabs(g.most - 0.5) < 1e-9);
        assert_false(tune_gain_is_noise(&g));
        g = tune_gain_of(a, c, 3);
        assert_true(tune_gain_is_noise(&g));
}

SUITE(tune_search) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_finds_the_best), cmocka_unit_test(test_order),
                cmocka_unit_test(test_early_stop),     cmocka_unit_test(test_choice),
                cmocka_unit_test(test_finalists),      cmocka_unit_test(test_objectives),
                cmocka_unit_test(test_gain),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
