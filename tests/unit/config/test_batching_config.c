/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "config/batching_config.h"
#include "config_rows.h"

static const char full[] =
        "name: 'm' max_batch_size: 16 dynamic_batching { preferred_batch_size: [8, 4, 16, 8]"
        " max_queue_delay_microseconds: 250 preserve_ordering: true priority_levels: 3"
        " default_priority_level: 2"
        " default_queue_policy { default_timeout_microseconds: 1000 max_queue_size: 7 }"
        " priority_queue_policy { key: 3 value { timeout_action: DELAY"
        "   default_timeout_microseconds: 20 allow_timeout_override: true } }"
        " priority_queue_policy { key: 1 value { max_queue_size: 1 } } }";

static void test_full(void **state) {
        struct model_config       *c = config_of(full);
        struct batching_config     p;
        const struct queue_policy *level;

        (void)state;
        assert_null(batching_config_init(&p, c));
        assert_int_equal(p.max_batch_size, 16);
        assert_int_equal(p.n_preferred_sizes, 3);
        assert_int_equal(p.preferred_sizes[0], 4);
        assert_int_equal(p.preferred_sizes[1], 8);
        assert_int_equal(p.preferred_sizes[2], 16);
        assert_int_equal(batching_config_largest_preferred(&p), 16);
        assert_int_equal(p.max_queue_delay_ns, 250000);
        assert_true(p.preserve_ordering);
        assert_int_equal(p.priority_levels, 3);

        level = queue_policy_for_level(&p, 1);
        assert_int_equal(level->max_queue_size, 1);
        assert_int_equal(level->default_timeout_ns, 0);
        assert_int_equal(level->action, QUEUE_TIMEOUT_REJECT);
        level = queue_policy_for_level(&p, 2);
        assert_ptr_equal(level, &p.default_policy);
        assert_int_equal(level->default_timeout_ns, 1000000);
        assert_int_equal(level->max_queue_size, 7);
        assert_false(level->allow_override);
        level = queue_policy_for_level(&p, 3);
        assert_int_equal(level->action, QUEUE_TIMEOUT_DELAY);
        assert_int_equal(level->default_timeout_ns, 20000);
        assert_true(level->allow_override);
        assert_ptr_equal(queue_policy_for_level(&p, 99), &p.default_policy);

        assert_int_equal(batching_config_level(&p, 0), 2);
        assert_int_equal(batching_config_level(&p, 1), 1);
        assert_int_equal(batching_config_level(&p, 3), 3);
        assert_int_equal(batching_config_level(&p, 4), 2);
        assert_int_equal(batching_config_level(&p, UINT64_MAX), 2);
        batching_config_done(&p);
        model_config_free(c);
}

static void test_timeouts(void **state) {
        const struct queue_policy fixed = { .default_timeout_ns = 5000 };
        const struct queue_policy open = { .default_timeout_ns = 5000, .allow_override = true };
        const struct queue_policy none = { .allow_override = true };

        (void)state;
        assert_int_equal(queue_policy_timeout_ns(&fixed, 1), 5000);
        assert_int_equal(queue_policy_timeout_ns(&open, 0), 5000);
        assert_int_equal(queue_policy_timeout_ns(&open, 1), 1000);
        assert_int_equal(queue_policy_timeout_ns(&open, 5), 5000);
        assert_int_equal(queue_policy_timeout_ns(&open, 6), 5000);
        assert_int_equal(queue_policy_timeout_ns(&open, UINT64_MAX), 5000);
        assert_int_equal(queue_policy_timeout_ns(&none, 1), 0);
}

static void test_without_batching(void **state) {
        struct model_config   *c = config_of("max_batch_size: 4 ensemble_scheduling { }");
        struct batching_config p;

        (void)state;
        assert_null(batching_config_init(&p, c));
        assert_int_equal(p.max_batch_size, 4);
        assert_int_equal(p.n_preferred_sizes, 0);
        assert_int_equal(batching_config_largest_preferred(&p), 0);
        assert_int_equal(p.max_queue_delay_ns, 0);
        assert_int_equal(batching_config_level(&p, 3), 0);
        assert_ptr_equal(queue_policy_for_level(&p, 0), &p.default_policy);
        batching_config_done(&p);
        model_config_free(c);
}

/* Times beyond what nanoseconds can count are "never", not short ones. */
static void test_huge_times(void **state) {
        struct model_config *c = config_of(
                "dynamic_batching { max_queue_delay_microseconds: 18446744073709551615"
                " default_queue_policy { default_timeout_microseconds: 18446744073709552 } }");
        struct batching_config p;

        (void)state;
        assert_null(batching_config_init(&p, c));
        assert_true(p.max_queue_delay_ns == UINT64_MAX);
        assert_int_equal(p.n_level_policies, 0);
        assert_true(p.default_policy.default_timeout_ns == UINT64_MAX);
        batching_config_done(&p);
        model_config_free(c);
}

static void test_memory_short(void **state) {
        struct model_config *c = config_of(full);
        unsigned             n = 0;
        struct error        *err;

        (void)state;
        do {
                struct batching_config p;

                mem_fail_after(++n);
                err = batching_config_init(&p, c);
                mem_fail_after(0);
                if (err == NULL)
                        batching_config_done(&p);
                else
                        assert_outcome(err, ERR_UNAVAILABLE, "out of memory", full);
        } while (err != NULL);
        assert_int_equal(n, 3);
        model_config_free(c);
}

SUITE(batching_config) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_timeouts),
                cmocka_unit_test(test_without_batching),
                cmocka_unit_test(test_huge_times),
                cmocka_unit_test(test_memory_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
