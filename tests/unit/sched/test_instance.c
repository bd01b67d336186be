/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of an instance and of its permit: the tables of sched/instance.h, each change that they have. */
#include "suite.h"

#include "sched/instance.h"

struct change {
        unsigned from, to;
};

static bool has_change(const struct change *changes, size_t n, unsigned from, unsigned to) {
        for (size_t i = 0; i < n; i++)
                if (changes[i].from == from && changes[i].to == to)
                        return true;
        return false;
}

static void test_states(void **state) {
        static const struct change changes[] = {
                { INSTANCE_FREE, INSTANCE_ASSIGNED },
                { INSTANCE_FREE, INSTANCE_DISPATCHED },
                { INSTANCE_FREE, INSTANCE_RUNNING },
                { INSTANCE_FREE, INSTANCE_BORROWED },
                { INSTANCE_ASSIGNED, INSTANCE_DISPATCHED },
                { INSTANCE_ASSIGNED, INSTANCE_RUNNING },
                { INSTANCE_ASSIGNED, INSTANCE_BORROWED },
                { INSTANCE_DISPATCHED, INSTANCE_RUNNING },
                { INSTANCE_RUNNING, INSTANCE_FREE },
                { INSTANCE_BORROWED, INSTANCE_FREE },
        };

        (void)state;
        for (unsigned from = 0; from < INSTANCE_N_STATES; from++)
                for (unsigned to = 0; to < INSTANCE_N_STATES; to++)
                        assert_int_equal(instance_may_change_state(from, to),
                                         has_change(changes, ARRAY_LEN(changes), from, to));
}

static void test_permits(void **state) {
        static const struct change changes[] = {
                { PERMIT_NONE, PERMIT_ASKED },    { PERMIT_NONE, PERMIT_GIVEN },
                { PERMIT_ASKED, PERMIT_GIVEN },   { PERMIT_ASKED, PERMIT_DOUBTED },
                { PERMIT_DOUBTED, PERMIT_ASKED }, { PERMIT_DOUBTED, PERMIT_GIVEN },
                { PERMIT_DOUBTED, PERMIT_NONE },  { PERMIT_GIVEN, PERMIT_EXECUTED },
                { PERMIT_GIVEN, PERMIT_NONE },    { PERMIT_EXECUTED, PERMIT_NONE },
        };

        (void)state;
        for (unsigned from = 0; from < INSTANCE_N_PERMITS; from++)
                for (unsigned to = 0; to < INSTANCE_N_PERMITS; to++)
                        assert_int_equal(instance_may_change_permit(from, to),
                                         has_change(changes, ARRAY_LEN(changes), from, to));
}

SUITE(instance) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_states),
                cmocka_unit_test(test_permits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
