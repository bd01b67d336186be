/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of rows: the documented tables; and for 500 random sets of members, each number of rows up to
 * 4 096 against all possible plans.
 */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"
#include "sched/batch_sizes.h"

#include <stdio.h>

#define N_ROWS 4096
#define N_SETS 500
#define MAX_MEMBERS 5
#define NO_PLAN UINT32_MAX

enum { MUST_SERVE_ALL = false, MAY_WAIT = true };

static size_t read_ranges(const char *text, struct row_range *ranges) {
        size_t n = 0;
        char  *end = (char *)text - 1;

        do {
                ranges[n].min_rows = (uint32_t)strtoul(end + 1, &end, 10);
                ranges[n].max_rows = (uint32_t)strtoul(end + 1, &end, 10);
                n++;
        } while (*end == ' ');
        return n;
}

static void make_plan(const char *members, bool may_wait, struct batch_sizes *ret) {
        struct row_range ranges[MAX_MEMBERS];
        size_t           n = read_ranges(members, ranges);

        assert_ok(batch_sizes_init(ret, ranges, n, may_wait), members);
}

/* "8,4,1"; rows that wait follow after a "+". */
static void assert_plan(const char *members, bool may_wait, uint64_t n_rows, const char *expected) {
        struct batch_sizes p;
        char               got[256] = "";
        size_t             len = 0;
        uint32_t           size;

        make_plan(members, may_wait, &p);
        while ((size = batch_sizes_next(&p, n_rows)) != 0) {
                assert_in_range(size, 1, n_rows);
                len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%u", len > 0 ? "," : "",
                                        size);
                assert_true(len < sizeof(got));
                n_rows -= size;
        }
        if (n_rows > 0)
                snprintf(got + len, sizeof(got) - len, "+%llu", (unsigned long long)n_rows);
        assert_string_equal(got, expected);
        batch_sizes_done(&p);
}

static void test_fixed_sizes(void **state) {
        static const struct {
                uint64_t    n;
                const char *plan;
        } rows[] = { { 1, "1" },
                     { 2, "1,1" },
                     { 3, "1,1,1" },
                     { 4, "4" },
                     { 5, "4,1" },
                     { 7, "4,1,1,1" },
                     { 8, "8" },
                     { 9, "8,1" },
                     { 12, "8,4" },
                     { 13, "8,4,1" },
                     { 15, "8,4,1,1,1" },
                     { 16, "8,8" },
                     { 23, "8,8,4,1,1,1" },
                     { 31, "8,8,8,4,1,1,1" } };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_plan("1-1 4-4 8-8", MUST_SERVE_ALL, rows[i].n, rows[i].plan);
}

static void test_fewest_executions(void **state) {
        (void)state;
        assert_plan("1-1 4-6 9-16", MUST_SERVE_ALL, 8, "4,4"); /* not 6,1,1 */
        assert_plan("1-1 4-6 9-16", MUST_SERVE_ALL, 24, "16,4,4");
        assert_plan("1-1 3-3 4-4 8-8", MUST_SERVE_ALL, 6, "3,3"); /* not 4,1,1 */
        assert_plan("1-4 8-16", MUST_SERVE_ALL, 7, "4,3");
        assert_plan("1-4 8-16", MUST_SERVE_ALL, 20, "16,4");
        assert_plan("1-8", MUST_SERVE_ALL, 20, "8,8,4");
        /* the order of the members does not matter */
        assert_plan("8-8 1-1 4-4", MUST_SERVE_ALL, 13, "8,4,1");
}

static void test_the_rest_waits(void **state) {
        (void)state;
        assert_plan("2-9", MAY_WAIT, 1, "+1");
        assert_plan("2-9", MAY_WAIT, 10, "8,2");
        assert_plan("2-9", MAY_WAIT, 19, "9,8,2");
        assert_plan("4-4 8-8", MAY_WAIT, 5, "4+1");
        assert_plan("4-4 8-8", MAY_WAIT, 13, "8,4+1");
        assert_plan("8-8", MAY_WAIT, 7, "+7");
        assert_plan("8-8", MAY_WAIT, 17, "8,8+1");
        assert_plan("5-5 7-7", MAY_WAIT, 15, "5,5,5"); /* 7,7 would leave one row */
}

/* torchpipe's rule: rows for which fewer executions would do, rows for which not, and members that
 * leave gaps. */
static void test_greedy(void **state) {
        static const struct {
                const char *members;
                uint64_t    n_rows;
                const char *expected;
        } rows[] = {
                { "1-1 4-6 9-16", 8, "6,1,1" },         { "1-1 4-6 9-16", 24, "16,6,1,1" },
                { "1-1 3-3 4-4 8-8", 6, "4,1,1" },      { "1-1 4-4 8-8", 13, "8,4,1" },
                { "1-1 4-4 8-8", 31, "8,8,8,4,1,1,1" }, { "1-4 8-16", 20, "16,4" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct batch_sizes p;
                AUTO_STRBUF        text = { 0 };

                strbuf_init(&text, 0);
                make_plan(rows[i].members, MUST_SERVE_ALL, &p);
                batch_sizes_make_greedy(&p);
                batch_sizes_print(&p, rows[i].n_rows, &text);
                assert_string_equal(strbuf_str(&text).ptr, rows[i].expected);
                batch_sizes_done(&p);
        }
        {
                struct batch_sizes p;

                make_plan("4-4 8-8", MAY_WAIT, &p);
                batch_sizes_make_greedy(&p);
                assert_int_equal(batch_sizes_next(&p, 3), 0);
                assert_int_equal(batch_sizes_next(&p, 7), 4);
                assert_int_equal(batch_sizes_next(&p, 13), 8);
                batch_sizes_done(&p);
        }
}

static void test_print(void **state) {
        static const char *const rows[] = { "1 waits", "2 wait", "3 wait", "4", "4, 1 waits" };

        (void)state;
        for (uint64_t n = 1; n <= ARRAY_LEN(rows); n++) {
                struct batch_sizes p;
                AUTO_STRBUF        text = { 0 };

                strbuf_init(&text, 0);
                make_plan("4-4 8-8", MAY_WAIT, &p);
                batch_sizes_print(&p, n, &text);
                assert_string_equal(strbuf_str(&text).ptr, rows[n - 1]);
                batch_sizes_done(&p);
        }
}

static void test_size_one_is_needed(void **state) {
        struct row_range   ranges[] = { { 8, 8 }, { 4, 4 } };
        struct batch_sizes p;

        (void)state;
        assert_error(batch_sizes_init(&p, ranges, 2, MUST_SERVE_ALL), ERR_INVALID_ARG,
                     "cannot serve batch size 1 (smallest member minimum is 4)");
        assert_null(p.first);
        assert_null(p.sizes);
}

static void test_sizes(void **state) {
        struct batch_sizes p;
        AUTO_STRBUF        text = { 0 };

        (void)state;
        strbuf_init(&text, 0);
        make_plan("8-8 1-1 4-5 6-6", MUST_SERVE_ALL, &p);
        batch_sizes_print_sizes(&p, &text);
        assert_string_equal(strbuf_str(&text).ptr, "1,4-6,8");
        for (uint64_t n = 0; n < 12; n++)
                assert_int_equal(batch_sizes_has_size(&p, n),
                                 n == 1 || (n >= 4 && n <= 6) || n == 8);
        assert_int_equal(batch_sizes_next(&p, 0), 0);
        assert_int_equal(batch_sizes_next(&p, UINT64_MAX), 8);
        batch_sizes_done(&p);
}

/* ---- random sets ----------------------------------------------------------------------------- */

struct set {
        struct row_range ranges[MAX_MEMBERS];
        size_t           n;
        uint32_t         max_rows;
        bool             has_size[N_ROWS + 1];
};

static uint64_t draw(uint64_t *state, uint64_t below) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (*state >> 33) % below;
}

static void draw_set(uint64_t *random, bool may_wait, struct set *s) {
        uint32_t limit = draw(random, 25) == 0 ? 600 : draw(random, 3) == 0 ? 8 : 40;

        *s = (struct set){ .n = 1 + (size_t)draw(random, MAX_MEMBERS) };
        for (size_t i = 0; i < s->n; i++) {
                uint32_t from = 1 + (uint32_t)draw(random, limit);
                uint32_t to = from;

                if (i == 0 && !may_wait)
                        from = to = 1;
                if (draw(random, 2) == 0)
                        to += (uint32_t)draw(random, limit / 2);
                s->ranges[i] = (struct row_range){ from, to };
                s->max_rows = MAX(s->max_rows, to);
                for (uint32_t size = from; size <= to; size++)
                        s->has_size[size] = true;
        }
}

/* Computes for each number of rows the fewest executions that serve exactly these rows, from all
 * numbers that one execution fewer serves. */
static void count_fewest(const struct set *s, uint32_t *fewest) {
        for (uint32_t n = 0; n <= N_ROWS; n++)
                fewest[n] = n == 0 ? 0 : NO_PLAN;
        for (uint32_t n = 0; n < N_ROWS; n++) {
                if (fewest[n] == NO_PLAN)
                        continue;
                for (uint32_t size = 1; size <= s->max_rows && n + size <= N_ROWS; size++)
                        if (s->has_size[size])
                                fewest[n + size] = MIN(fewest[n + size], fewest[n] + 1);
        }
}

static uint32_t expected_next(const struct set *s, const uint32_t *fewest, bool may_wait,
                              uint32_t n) {
        if (!may_wait && n >= s->max_rows)
                return s->max_rows;
        while (fewest[n] == NO_PLAN) /* as many rows as can be served */
                n--;
        for (uint32_t size = MIN(n, s->max_rows); size > 0; size--)
                if (s->has_size[size] && fewest[n - size] != NO_PLAN &&
                    fewest[n - size] + 1 == fewest[n])
                        return size;
        return 0;
}

static void check_random_sets(bool may_wait, uint64_t random) {
        static uint32_t    fewest[N_ROWS + 1];
        static struct set  s;
        struct batch_sizes p;

        for (unsigned k = 0; k < N_SETS; k++) {
                draw_set(&random, may_wait, &s);
                count_fewest(&s, fewest);
                assert_ok(batch_sizes_init(&p, s.ranges, s.n, may_wait), "plan");
                for (uint32_t n = 1; n <= N_ROWS; n++) {
                        uint32_t expected = expected_next(&s, fewest, may_wait, n);

                        if (batch_sizes_next(&p, n) != expected)
                                fail_msg("set %u: %u rows: %u instead of %u", k, n,
                                         batch_sizes_next(&p, n), expected);
                }
                batch_sizes_done(&p);
        }
}

static void test_random_sets(void **state) {
        (void)state;
        check_random_sets(MUST_SERVE_ALL, 1);
        check_random_sets(MAY_WAIT, 2);
}

static void test_no_memory(void **state) {
        struct row_range ranges[] = { { 1, 1 }, { 4, 8 } };
        unsigned         n = 0;
        bool             was_hit;

        (void)state;
        do {
                struct batch_sizes p;
                struct error      *err;

                mem_fail_after(++n);
                err = batch_sizes_init(&p, ranges, 2, MUST_SERVE_ALL);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                assert_int_equal(err != NULL, was_hit);
                if (err == NULL)
                        batch_sizes_done(&p);
                error_free(err);
        } while (was_hit);
        assert_true(n > 4);
}

SUITE(batch_sizes) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fixed_sizes),    cmocka_unit_test(test_fewest_executions),
                cmocka_unit_test(test_the_rest_waits), cmocka_unit_test(test_print),
                cmocka_unit_test(test_greedy),         cmocka_unit_test(test_size_one_is_needed),
                cmocka_unit_test(test_sizes),          cmocka_unit_test(test_random_sets),
                cmocka_unit_test(test_no_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
