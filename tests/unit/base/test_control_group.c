/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of control groups, in a directory that stands for the root. */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/compiler.h"
#include "base/control_group.h"

#include <string.h>

#define CGROUP "proc/self/cgroup"
#define TOP "sys/fs/cgroup/"

static const struct {
        const char *files[6][2]; /* name, text */
        uint64_t    limit;
} rows[] = {
        { { { CGROUP, "" } }, UINT64_MAX },
        { { { TOP "memory.max", "700\n" } }, 700 }, /* a container without /proc */
        { { { CGROUP, "0::/a/b\n" },
            { TOP "a/b/memory.max", "max\n" },
            { TOP "a/memory.max", "600\n" } },
          600 },
        { { { CGROUP, "0::/a/b\n" },
            { TOP "a/b/memory.max", "500\n" },
            { TOP "a/memory.max", "600\n" },
            { TOP "memory.max", "max\n" } },
          500 },
        { { { CGROUP, "3:pids:/x\n7:cpu,memory:/a\n" },
            { TOP "memory/a/memory.limit_in_bytes", "400\n" },
            { TOP "memory/memory.limit_in_bytes", "9223372036854771712\n" } },
          400 },
        /* the limit of another controller's group, and of a group beside ours */
        { { { CGROUP, "3:pids:/a\n7:memory:/\n" },
            { TOP "memory/a/memory.limit_in_bytes", "400\n" },
            { TOP "a/memory.max", "300\n" } },
          UINT64_MAX },
        { { { CGROUP, "memory\n::\n" }, { TOP "memory.max", "18446744073709551616\n" } },
          UINT64_MAX },
        { { { CGROUP, "0::/\n" }, { TOP "memory.max", "-5\n" } }, UINT64_MAX },
};

static void test_limits(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct temp_tree tree = temp_tree_make();

                for (size_t k = 0; k < ARRAY_LEN(rows[i].files) && rows[i].files[k][0] != NULL; k++)
                        temp_tree_write(&tree, rows[i].files[k][0], rows[i].files[k][1]);
                assert_int_equal(control_group_memory(tree.path), rows[i].limit);
                temp_tree_remove(&tree);
        }
}

/* The path of a group may be as long as the kernel lets it be; its parents count, too. */
static void test_long_path(void **state) {
        struct temp_tree tree = temp_tree_make();
        char             text[3000] = "0::/a";

        (void)state;
        while (strlen(text) < 2900)
                strcat(text, "/b");
        temp_tree_write(&tree, CGROUP, text);
        temp_tree_write(&tree, TOP "a/memory.max", "800\n");
        assert_int_equal(control_group_memory(tree.path), 800);
        temp_tree_remove(&tree);
}

SUITE(control_group) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_long_path),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
