/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "cli/cli_options.h"
#include "cli/migrate_table.h"

static bool is_about_nothing(const char *help) {
        static const char *const words[] = { "this build", "Accepted;", "without effect" };

        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                if (strstr(help, words[i]) != NULL)
                        return true;
        return false;
}

static void test_each_row_is_about_an_option(void **state) {
        (void)state;
        assert_true(n_migrate_rows > 10);
        for (size_t i = 0; i < n_migrate_rows; i++) {
                const struct migrate_row *m = &migrate_rows[i];
                const struct option_row  *row =
                        option_table_find(&cli_option_table, str_of(m->option));

                if (row == NULL || row->missing != NULL)
                        fail_msg("--%s is no option that the server takes", m->option);
                assert_string_equal(row->name, m->option);
                assert_true(strlen(m->why) > 0);
        }
}

/* What --help calls without effect, the table calls so, too. */
static void test_the_help_agrees(void **state) {
        size_t n = 0;

        (void)state;
        for (size_t i = 0; i < cli_option_table.n_rows; i++) {
                const struct option_row  *row = &cli_option_table.rows[i];
                const struct migrate_row *m;

                if (!is_about_nothing(row->help))
                        continue;
                m = migrate_table_find(row->name, "true");
                if (m == NULL || !m->is_ignored)
                        fail_msg("--%s has no effect, says its help", row->name);
                n++;
        }
        assert_true(n >= 2);
}

static void assert_row(const char *option, const char *value, const char *why) {
        const struct migrate_row *m = migrate_table_find(option, value);

        if (why == NULL && m != NULL)
                fail_msg("--%s=%s: %s", option, value, m->why);
        if (why != NULL && (m == NULL || strstr(m->why, why) == NULL))
                fail_msg("--%s=%s: %s", option, value, m != NULL ? m->why : "no row");
}

static void test_values(void **state) {
        (void)state;
        assert_row("http-port", "80", NULL);
        assert_row("allow-gpu-metrics", "true", NULL);
        assert_row("model-control-mode", "poll", "two polls");
        assert_row("model-control-mode", "explicit", NULL);
        assert_row("http-header-forward-pattern", "x-.*", NULL);
        assert_row("http-header-forward-pattern", "x-\\d+", "POSIX");
        assert_row("grpc-header-forward-pattern", "(?i)x", "POSIX");
        assert_row("exit-on-error", "true", NULL);
        assert_row("exit-on-error", "false", "ready");
        assert_row("host-policy", "a,cpu-cores=0-1", NULL);
        assert_row("host-policy", "a,numa-node=0", "preferred");
        assert_row("backend-config", "python,shm-default-byte-size=1048576", NULL);
        assert_row("backend-config", "python,thread-pool-size=8", "has no effect");
        assert_row("backend-config", "python,stub-timeout-seconds=8", "time limit");
        assert_row("backend-config", "onnxruntime,default-max-batch-size=8", NULL);
}

SUITE(migrate_table) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_row_is_about_an_option),
                cmocka_unit_test(test_the_help_agrees),
                cmocka_unit_test(test_values),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
