/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/dir_stamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"

#define S(seconds) ((uint64_t)(seconds) * NS_PER_S)
#define MS(milliseconds) ((uint64_t)(milliseconds) * NS_PER_MS)

static void test_settled(void **state) {
        static const struct {
                const char *what;
                uint64_t    modified_ns, changed_ns, now_ns;
                bool        is_local, expected;
        } rows[] = {
                { "long ago", S(1) + 1, S(1) + 1, S(9), true, true },
                { "on a share", S(1) + 1, S(1) + 1, S(9), false, false },
                { "within the tick", S(5) + 1, S(5) + 1, S(5) + MS(50), true, false },
                { "after it", S(5) + 1, S(5) + 1, S(5) + MS(51), true, true },
                { "only modified long ago", S(1) + 1, S(5) + 1, S(5) + MS(50), true, false },
                { "only changed long ago", S(5) + 1, S(1) + 1, S(5) + MS(50), true, false },
                { "whole seconds, in the second after", S(5), S(5), S(6) + 1, true, false },
                { "whole seconds, later", S(5), S(5), S(7) + 1, true, true },
                { "in the future", S(9) + 1, S(9) + 1, S(5), true, false },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const struct dir_stamp s = { .modified_ns = (int64_t)rows[i].modified_ns,
                                             .changed_ns = (int64_t)rows[i].changed_ns,
                                             .is_local = rows[i].is_local };

                if (dir_stamp_is_settled(&s, rows[i].now_ns) != rows[i].expected)
                        fail_msg("%s", rows[i].what);
        }
}

static void test_each_field_tells(void **state) {
        const struct dir_stamp s = { 1, 2, 3, 4, true };
        const struct dir_stamp others[] = {
                { 9, 2, 3, 4, true }, { 1, 9, 3, 4, true },  { 1, 2, 9, 4, true },
                { 1, 2, 3, 9, true }, { 1, 2, 3, 4, false },
        };

        (void)state;
        assert_true(dir_stamp_is_equal(&s, &(struct dir_stamp){ 1, 2, 3, 4, true }));
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                assert_false(dir_stamp_is_equal(&s, &others[i]));
}

static void assert_read(const char *path, struct dir_stamp *ret) {
        AUTO_ERROR err = dir_stamp_read(path, ret);

        if (err != NULL)
                fail_msg("%s: %s", path, err->message);
}

static void test_a_directory(void **state) {
        char             path[] = "/tmp/neso_dir_stamp_XXXXXX";
        struct dir_stamp before, again, after;
        struct stat      st;

        (void)state;
        assert_non_null(mkdtemp(path));
        assert_read(path, &before);
        assert_read(path, &again);
        assert_true(dir_stamp_is_equal(&before, &again));
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(before.inode, st.st_ino);
        assert_int_equal(before.modified_ns, st.st_mtim.tv_sec * (int64_t)NS_PER_S +
                                                     st.st_mtim.tv_nsec);
        assert_int_equal(rmdir(path), 0);
        assert_read("/", &after);
        assert_false(dir_stamp_is_equal(&before, &after));
}

static void test_what_is_none(void **state) {
        static const char *const rows[][2] = {
                { "/nowhere/at/all", "unable to open directory '/nowhere/at/all': "
                                     "No such file or directory" },
                { "/proc/self/status", "unable to open directory '/proc/self/status': "
                                       "Not a directory" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct dir_stamp s;
                AUTO_ERROR       err = dir_stamp_read(rows[i][0], &s);

                assert_non_null(err);
                assert_string_equal(err->message, rows[i][1]);
        }
}

SUITE(dir_stamp) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_settled),
                cmocka_unit_test(test_each_field_tells),
                cmocka_unit_test(test_a_directory),
                cmocka_unit_test(test_what_is_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
