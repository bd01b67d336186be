/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sched/step_limit.h"

static void test_without_a_limit(void **state) {
        struct step_limit l;
        struct list_node  n = { 0 };

        (void)state;
        step_limit_init(&l, 0);
        for (int i = 0; i < 100; i++)
                assert_true(step_limit_enter(&l, &n));
        assert_false(step_limit_withdraw(&l, &n));
        assert_null(step_limit_leave(&l));
        step_limit_done(&l);
}

/* Who leaves hands the room to the first in the line. */
static void test_line(void **state) {
        struct step_limit l;
        struct list_node  n[5] = { 0 };

        (void)state;
        step_limit_init(&l, 2);
        assert_true(step_limit_enter(&l, &n[0]));
        assert_true(step_limit_enter(&l, &n[1]));
        for (int i = 2; i < 5; i++)
                assert_false(step_limit_enter(&l, &n[i]));
        assert_ptr_equal(step_limit_leave(&l), &n[2]);
        assert_true(step_limit_withdraw(&l, &n[3]));
        assert_false(step_limit_withdraw(&l, &n[3])); /* once */
        assert_false(step_limit_withdraw(&l, &n[0])); /* is inside */
        assert_ptr_equal(step_limit_leave(&l), &n[4]);
        assert_null(step_limit_leave(&l));
        assert_true(step_limit_enter(&l, &n[0])); /* one was inside still */
        assert_false(step_limit_enter(&l, &n[1]));
        assert_ptr_equal(step_limit_leave(&l), &n[1]);
        assert_null(step_limit_leave(&l));
        assert_null(step_limit_leave(&l));
        step_limit_done(&l);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_a_limit),
                cmocka_unit_test(test_line),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
