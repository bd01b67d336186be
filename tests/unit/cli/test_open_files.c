/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "cli/open_files.h"
#include "cli/option_parse.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_needed(void **state) {
        struct cli_options o;
        uint64_t           all;

        (void)state;
        cli_options_init(&o);
        o.http_max_connections = 1000;
        o.grpc_max_connections = 500;
        o.allow_http = o.allow_grpc = true;
        o.allow_client_shm = false;
        all = open_files_needed(&o);
        assert_in_range(all, 1500 + 100, 1500 + 10000);
        o.allow_client_shm = true;
        assert_int_equal(open_files_needed(&o), all + 1024);
        o.allow_client_shm = false;
        o.allow_http = false;
        assert_int_equal(open_files_needed(&o), all - 1000);
        o.allow_grpc = false;
        assert_int_equal(open_files_needed(&o), all - 1500);
        o.allow_sagemaker = o.allow_vertex_ai = true;
        assert_int_equal(open_files_needed(&o), all - 1500 + 2000);
        cli_options_done(&o);
}

struct row {
        uint64_t soft, hard, wanted, then;
};

static uint64_t soft_limit(void) {
        struct rlimit limit;

        return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

/* In a child: a hard limit that was lowered is never raised again. Its exit code tells. */
static void check(const struct row *row) {
        pid_t child = fork();
        int   status;

        assert_true(child >= 0);
        if (child == 0) {
                const struct rlimit limit = { row->soft, row->hard };

                if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
                        _exit(1);
                if (open_files_raise(row->wanted) != row->then)
                        _exit(2);
                _exit(soft_limit() == row->then ? 0 : 3);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
}

static void test_raise(void **state) {
        static const struct row rows[] = {
                { 64, 512, 100, 100 },     { 64, 512, 512, 512 },
                { 64, 512, 100000, 512 },                          /* as far as may be */
                { 64, 512, 64, 64 },       { 200, 512, 100, 200 }, /* never lowered */
                { 512, 512, 100000, 512 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                check(&rows[i]);
}

SUITE(open_files) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_needed),
                cmocka_unit_test(test_raise),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
