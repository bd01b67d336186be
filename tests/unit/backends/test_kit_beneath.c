/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "kit/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/kit_beneath_XXXXXX";
static char inner[sizeof(folder) + 3];

static void put(const char *name) {
        char  path[128];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fputs(name, file) >= 0 && fclose(file) == 0, 1);
}

static void link_to(const char *target, const char *name) {
        char path[128];

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        assert_int_equal(symlink(target, path), 0);
}

static int make_folder(void **state) {
        char path[128];

        (void)state;
        assert_non_null(mkdtemp(folder));
        snprintf(inner, sizeof(inner), "%s/in", folder);
        assert_int_equal(mkdir(inner, 0700), 0);
        snprintf(path, sizeof(path), "%s/in/deep", folder);
        assert_int_equal(mkdir(path, 0700), 0);
        put("outside");
        put("in/file");
        put("in/deep/file");
        link_to("file", "in/stays");
        link_to("../file", "in/deep/up");
        link_to("../outside", "in/leaves");
        link_to("/etc", "in/away");
        return 0;
}

static int remove_folder(void **state) {
        static const char *const names[] = { "in/stays", "in/deep/up", "in/leaves",
                                             "in/away",  "in/file",    "in/deep/file",
                                             "outside",  "in/deep",    "in",
                                             "" };
        char                     path[128];

        (void)state;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
                assert_int_equal(remove(path), 0);
        }
        return 0;
}

/* Returns 0 or errno. */
static int result_of(int fd) {
        if (fd < 0)
                return errno;
        assert_int_equal(close(fd), 0);
        return 0;
}

static void test_paths(void **state) {
        static const struct {
                const char *path;
                int         expected, walked; /* by the two ways */
        } rows[] = {
                { "file", 0, 0 },
                { "deep/file", 0, 0 },
                { "deep//file", 0, 0 },
                { "./file", 0, 0 },
                { "stays", 0, ELOOP },
                { "deep/up", 0, ELOOP },
                { "", EXDEV, EXDEV },
                { "/etc/passwd", EXDEV, EXDEV },
                { "..", EXDEV, EXDEV },
                { "../outside", EXDEV, EXDEV },
                { "deep/../file", EXDEV, EXDEV },
                { "leaves", EXDEV, ELOOP },
                { "away/passwd", EXDEV, ELOOP },
                { "..file", ENOENT, ENOENT },
                { "none", ENOENT, ENOENT },
                { "none/file", ENOENT, ENOENT },
                { "file/none", ENOTDIR, ENOTDIR },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                int found = result_of(kit_open_beneath(inner, rows[i].path, O_PATH));
                int walked = result_of(kit_open_beneath_walk(inner, rows[i].path, O_PATH));

                /* A filter of system calls leaves the walk alone. */
                if ((found != rows[i].expected && found != rows[i].walked) ||
                    walked != rows[i].walked)
                        fail_msg("'%s': %s, walked: %s", rows[i].path, strerror(found),
                                 strerror(walked));
        }
}

static void test_descriptor(void **state) {
        char text[16] = "";
        int  fd = kit_open_beneath(inner, "deep/file", O_RDONLY);

        (void)state;
        assert_true(fd >= 0);
        assert_int_equal(read(fd, text, sizeof(text)), (int)strlen("in/deep/file"));
        assert_string_equal(text, "in/deep/file");
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        close(fd);
        assert_int_equal(result_of(kit_open_beneath("/nowhere", "file", O_PATH)), ENOENT);
}

static void test_long_name(void **state) {
        char name[400];

        (void)state;
        memset(name, 'x', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        assert_int_equal(result_of(kit_open_beneath_walk(inner, name, O_PATH)), ENAMETOOLONG);
        assert_int_equal(result_of(kit_open_beneath(inner, name, O_PATH)), ENAMETOOLONG);
}

SUITE(kit_beneath) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_paths),
                cmocka_unit_test(test_descriptor),
                cmocka_unit_test(test_long_name),
        };

        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
