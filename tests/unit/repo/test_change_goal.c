/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "repo/change_goal.h"

static void test_which_goals_supersede(void **state) {
        static const struct {
                struct change_goal later, running;
                bool               supersedes;
        } rows[] = {
                /* An unload is never in vain, and ends each load. */
                { { true, 0, NULL }, { true, 0, NULL }, false },
                { { false, 5, NULL }, { true, 0, NULL }, false },
                { { true, 0, NULL }, { false, 5, NULL }, true },
                { { true, 0, NULL }, { false, 0, "{}" }, true },
                /* The same files: the second load will find nothing to do. */
                { { false, 5, NULL }, { false, 5, NULL }, false },
                { { false, 5, NULL }, { false, 5, "{}" }, false },
                { { false, 6, NULL }, { false, 5, NULL }, true },
                /* Configurations of requests. */
                { { false, 5, "{}" }, { false, 5, "{}" }, false },
                { { false, 5, "{}" }, { false, 5, "{ }" }, true },
                { { false, 5, "{}" }, { false, 5, NULL }, true },
                { { false, 6, "{}" }, { false, 5, "{}" }, true },
                /* Uploaded files are always others. */
                { { false, 0, "{}" }, { false, 0, "{}" }, true },
                { { false, 5, NULL }, { false, 0, "{}" }, true },
                { { false, 0, "{}" }, { false, 5, "{}" }, true },
        };

        (void)state;
        for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
                assert_int_equal(change_goal_supersedes(&rows[i].later, &rows[i].running),
                                 rows[i].supersedes);
}

SUITE(change_goal) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_which_goals_supersede) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
