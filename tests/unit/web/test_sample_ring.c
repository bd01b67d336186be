/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "web/sample_ring.h"

static void test_a_new_ring_has_no_samples(void **state) {
        struct sample_ring *r = sample_ring_new(2);

        (void)state;
        assert_null(sample_ring_get(r, 0));
        assert_null(sample_ring_get(r, 1));
        assert_true(sample_ring_is_stale(r, SAMPLE_RING_LENGTH));
        sample_ring_free(r);
}

static void test_the_latest_samples_are_kept(void **state) {
        struct sample_ring *r = sample_ring_new(2);

        (void)state;
        for (uint32_t period = 1; period <= 1000; period++)
                sample_ring_put(r, period, (uint32_t[]){ period, period * 2 });
        assert_null(sample_ring_get(r, 1000 - SAMPLE_RING_LENGTH));
        for (uint32_t period = 1001 - SAMPLE_RING_LENGTH; period <= 1000; period++) {
                const uint32_t *sample = sample_ring_get(r, period);

                assert_non_null(sample);
                assert_int_equal(sample[0], period);
                assert_int_equal(sample[1], period * 2);
        }
        sample_ring_free(r);
}

/* A model without requests has gaps. */
static void test_a_period_that_was_left_out_has_no_sample(void **state) {
        struct sample_ring *r = sample_ring_new(1);

        (void)state;
        sample_ring_put(r, 10, (uint32_t[]){ 1 });
        sample_ring_put(r, 10 + SAMPLE_RING_LENGTH + 1, (uint32_t[]){ 2 });
        assert_null(sample_ring_get(r, 10 + SAMPLE_RING_LENGTH));
        assert_int_equal(sample_ring_get(r, 11 + SAMPLE_RING_LENGTH)[0], 2);
        sample_ring_free(r);
}

static void test_a_ring_is_stale_when_all_samples_are_too_old(void **state) {
        struct sample_ring *r = sample_ring_new(1);

        (void)state;
        sample_ring_put(r, 10, (uint32_t[]){ 1 });
        assert_false(sample_ring_is_stale(r, 10));
        assert_false(sample_ring_is_stale(r, 10 + SAMPLE_RING_LENGTH - 1));
        assert_true(sample_ring_is_stale(r, 10 + SAMPLE_RING_LENGTH));
        sample_ring_free(r);
}

static void test_the_memory_is_what_the_documentation_says(void **state) {
        (void)state;
        assert_in_range(sample_ring_bytes(12), 180 * 13 * 4, 180 * 13 * 4 + 64);
}

SUITE(sample_ring) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_new_ring_has_no_samples),
                cmocka_unit_test(test_the_latest_samples_are_kept),
                cmocka_unit_test(test_a_period_that_was_left_out_has_no_sample),
                cmocka_unit_test(test_a_ring_is_stale_when_all_samples_are_too_old),
                cmocka_unit_test(test_the_memory_is_what_the_documentation_says),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
