/* SPDX-License-Identifier: BSD-3-Clause */
/* Axes, canonical points, and how points are printed. */
#include "suite.h"

#include "base/compiler.h"
#include "tune/tune_space.h"

#include <string.h>

static const struct tune_limits digits = { .has_instances = true,
                                           .instances = 1,
                                           .max_instances = 4,
                                           .has_threads = true,
                                           .threads = 1,
                                           .max_threads = 2,
                                           .has_batching = true,
                                           .may_disable_batching = true,
                                           .is_batching = true,
                                           .max_batch = 64,
                                           .max_delay_us = 1000,
                                           .has_adaptive = true,
                                           .adaptive = TUNE_ADAPTIVE_OFF };

static void expect_axis(const struct tune_axis *a, const uint64_t *values, size_t n) {
        assert_int_equal(a->n, n);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(a->values[i], values[i]);
}

static void test_axes(void **state) {
        struct tune_space  s;
        struct tune_limits odd = digits;

        (void)state;
        tune_space_make(&digits, &s);
        expect_axis(&s.axes[TUNE_INSTANCES], (const uint64_t[]){ 1, 2, 4 }, 3);
        expect_axis(&s.axes[TUNE_THREADS], (const uint64_t[]){ 1, 2 }, 2);
        expect_axis(&s.axes[TUNE_BATCHING], (const uint64_t[]){ TUNE_NO_BATCHING, 0, 4, 16 }, 4);
        expect_axis(&s.axes[TUNE_DELAY], (const uint64_t[]){ 0, 100, 500 }, 3);
        expect_axis(&s.axes[TUNE_ADAPTIVE],
                    (const uint64_t[]){ TUNE_FLOW, TUNE_IDLE, TUNE_ADAPTIVE_OFF }, 3);
        /* 3 x 2 x (no batching, 3 without a delay, 3 x 2 x 3 with one) */
        assert_int_equal(tune_space_count(&s), 6 * (1 + 3 + 18));
        /* The present values are on their axes, whatever they are. */
        odd.instances = 7;
        odd.threads = 0;
        odd.preferred = 24;
        odd.delay_us = 750;
        odd.may_disable_batching = false;
        tune_space_make(&odd, &s);
        expect_axis(&s.axes[TUNE_INSTANCES], (const uint64_t[]){ 1, 2, 4, 7 }, 4);
        expect_axis(&s.axes[TUNE_THREADS], (const uint64_t[]){ 0, 1, 2 }, 3);
        expect_axis(&s.axes[TUNE_BATCHING], (const uint64_t[]){ 0, 4, 16, 24 }, 4);
        expect_axis(&s.axes[TUNE_DELAY], (const uint64_t[]){ 0, 100, 500, 750 }, 4);
        /* The sizes end, whatever a server says. */
        odd.max_batch = UINT64_MAX;
        tune_space_make(&odd, &s);
        assert_int_equal(s.axes[TUNE_BATCHING].n, TUNE_MAX_VALUES);
}

static void test_nothing_to_change(void **state) {
        struct tune_limits none = { .instances = 1 };
        struct tune_space  s;
        struct tune_point  p = { { 0 } };
        AUTO_STRBUF        text = { 0 };

        (void)state;
        strbuf_init(&text, 0);
        tune_space_make(&none, &s);
        assert_int_equal(tune_space_count(&s), 1);
        tune_space_print(&s, &p, &text);
        assert_string_equal(strbuf_cstr(&text), "as it is");
}

static void test_numbers(void **state) {
        struct tune_space s;

        (void)state;
        tune_space_make(&digits, &s);
        assert_int_equal(tune_space_size(&s), 3 * 2 * 4 * 3 * 3);
        for (size_t i = 0; i < tune_space_size(&s); i++) {
                struct tune_point p = tune_space_point(&s, i);

                assert_int_equal(tune_space_number(&s, &p), i);
        }
}

static void test_canonical(void **state) {
        struct tune_space s;
        struct tune_point off = { { 0, 0, 0, 2, 1 } }, no_delay = { { 0, 0, 1, 0, 2 } };
        struct tune_point whole = { { 2, 1, 3, 2, 1 } };
        AUTO_STRBUF       text = { 0 };

        (void)state;
        strbuf_init(&text, 0);
        tune_space_make(&digits, &s);
        assert_false(tune_space_is_canonical(&s, &off));
        tune_space_make_canonical(&s, &off);
        assert_memory_equal(off.at, ((uint8_t[]){ 0, 0, 0, 0, 0 }), TUNE_AXES);
        tune_space_print(&s, &off, &text);
        assert_string_equal(strbuf_cstr(&text), "1 instance, 1 thread, no batching");
        assert_false(tune_space_is_canonical(&s, &no_delay));
        assert_true(tune_space_is_canonical(&s, &whole));
        strbuf_clear(&text);
        tune_space_print(&s, &whole, &text);
        assert_string_equal(strbuf_cstr(&text),
                            "4 instances, 2 threads, batching in 16, delay 500 us, idle");
}

static void test_present(void **state) {
        struct tune_limits l = digits;
        struct tune_space  s;
        struct tune_point  p;

        (void)state;
        l.instances = 2;
        l.delay_us = 500;
        l.adaptive = TUNE_IDLE;
        tune_space_make(&l, &s);
        p = tune_space_present(&s, &l);
        assert_int_equal(tune_space_value(&s, &p, TUNE_INSTANCES), 2);
        assert_int_equal(tune_space_value(&s, &p, TUNE_BATCHING), 0);
        assert_int_equal(tune_space_value(&s, &p, TUNE_DELAY), 500);
        assert_int_equal(tune_space_value(&s, &p, TUNE_ADAPTIVE), TUNE_IDLE);
        l.is_batching = false;
        p = tune_space_present(&s, &l);
        assert_int_equal(tune_space_value(&s, &p, TUNE_BATCHING), TUNE_NO_BATCHING);
        assert_int_equal(tune_space_value(&s, &p, TUNE_DELAY), 0);
}

SUITE(tune_space) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_axes),    cmocka_unit_test(test_nothing_to_change),
                cmocka_unit_test(test_numbers), cmocka_unit_test(test_canonical),
                cmocka_unit_test(test_present),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
