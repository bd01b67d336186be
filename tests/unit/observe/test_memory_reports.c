/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "observe/memory_reports.h"

#include <string.h>

/* Owners are compared only. */
static const char model, first, second;

static void assert_sums(struct memory_reports *m, const struct memory_usage *expected, size_t n) {
        size_t               n_sums;
        struct memory_usage *sums = memory_reports_sum(m, &n_sums);

        assert_int_equal(n_sums, n);
        for (size_t i = 0; i < n; i++) {
                assert_string_equal(sums[i].type, expected[i].type);
                assert_int_equal(sums[i].id, expected[i].id);
                assert_int_equal(sums[i].byte_size, expected[i].byte_size);
        }
        assert_int_equal(sums == NULL, n == 0);
        free(sums);
}

#define EXPECT(m, ...)                                                                             \
        assert_sums(m, (const struct memory_usage[]){ __VA_ARGS__ },                               \
                    sizeof((const struct memory_usage[]){ __VA_ARGS__ }) /                         \
                            sizeof(struct memory_usage))

static void report(struct memory_reports *m, const void *owner, const char *type, int64_t id,
                   uint64_t n_bytes) {
        assert_true(memory_reports_set(m, owner, &(struct memory_usage){ type, id, n_bytes }, 1));
}

static void test_sums_of_all_owners(void **state) {
        static const struct memory_usage both[] = { { "GPU", 0, 10 }, { "CPU", 0, 5 } };
        struct memory_reports            m;

        (void)state;
        memory_reports_init(&m);
        assert_sums(&m, NULL, 0);
        report(&m, &model, "CPU", 0, 100);
        report(&m, &first, "GPU", 1, 20);
        assert_true(memory_reports_set(&m, &second, both, 2));
        EXPECT(&m, { "CPU", 0, 105 }, { "GPU", 1, 20 }, { "GPU", 0, 10 });
        memory_reports_done(&m);
}

static void test_a_report_replaces_that_of_its_owner(void **state) {
        struct memory_reports m;

        (void)state;
        memory_reports_init(&m);
        report(&m, &model, "CPU", 0, 100);
        report(&m, &first, "CPU", 0, 20);
        report(&m, &model, "CPU_PINNED", 0, 7);
        EXPECT(&m, { "CPU_PINNED", 0, 7 }, { "CPU", 0, 20 });
        assert_true(memory_reports_set(&m, &model, NULL, 0));
        EXPECT(&m, { "CPU", 0, 20 });
        memory_reports_remove(&m, &first);
        memory_reports_remove(&m, &second);
        assert_sums(&m, NULL, 0);
        memory_reports_done(&m);
}

static void test_a_sum_does_not_overflow(void **state) {
        struct memory_reports m;

        (void)state;
        memory_reports_init(&m);
        report(&m, &first, "GPU", 0, UINT64_MAX - 1);
        report(&m, &second, "GPU", 0, 2);
        EXPECT(&m, { "GPU", 0, UINT64_MAX });
        memory_reports_done(&m);
}

static void test_short_memory_keeps_the_report_before(void **state) {
        static const struct memory_usage more = { "CPU", 0, 2 };
        struct memory_reports            m;

        (void)state;
        memory_reports_init(&m);
        report(&m, &model, "CPU", 0, 1);
        mem_fail_after(1);
        assert_false(memory_reports_set(&m, &model, &more, 1));
        mem_fail_after(0);
        EXPECT(&m, { "CPU", 0, 1 });
        memory_reports_done(&m);
}

SUITE(memory_reports) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sums_of_all_owners),
                cmocka_unit_test(test_a_report_replaces_that_of_its_owner),
                cmocka_unit_test(test_a_sum_does_not_overflow),
                cmocka_unit_test(test_short_memory_keeps_the_report_before),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
