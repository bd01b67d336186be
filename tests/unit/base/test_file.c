/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory for one test:
 *
 *   root/secret                  beside `base`, to be reached by nobody
 *   root/base/file               "inside"
 *   root/base/sub/deep           "deep"
 *   root/base/...                links that stay in and links that lead out
 */
static char root[64];
static char base[80];

static void write_file(const char *path, const char *text) {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

static void in_root(const char *name, char *ret, size_t size) {
        assert_in_range(snprintf(ret, size, "%s/%s", root, name), 1, size - 1);
}

static void make_link(const char *target, const char *name) {
        char path[200];

        in_root(name, path, sizeof(path));
        assert_int_equal(symlink(target, path), 0);
}

static int set_up(void **state) {
        char path[200];

        (void)state;
        strcpy(root, "/tmp/neso-test-file-XXXXXX");
        assert_non_null(mkdtemp(root));
        in_root("base", base, sizeof(base));
        assert_int_equal(mkdir(base, 0700), 0);
        in_root("base/sub", path, sizeof(path));
        assert_int_equal(mkdir(path, 0700), 0);
        in_root("secret", path, sizeof(path));
        write_file(path, "secret");
        in_root("base/file", path, sizeof(path));
        write_file(path, "inside");
        in_root("base/sub/deep", path, sizeof(path));
        write_file(path, "deep");
        make_link("../secret", "base/out_relative");
        make_link("/etc/passwd", "base/out_absolute");
        make_link("..", "base/out_directory");
        make_link("/", "base/out_root");
        make_link("/proc/self/root", "base/out_magic");
        make_link("sub/deep", "base/in_file");
        make_link("sub", "base/in_directory");
        make_link("../file", "base/sub/in_upwards");
        make_link("loop", "base/loop");
        return 0;
}

static int tear_down(void **state) {
        AUTO_CHARS command = mem_printf("rm -rf '%s'", root);

        (void)state;
        return system(command);
}

typedef struct error *(*open_fn)(const char *directory, const char *relative, int *ret_fd);

static void assert_contents(open_fn open_it, const char *relative, const char *expected) {
        struct strbuf text;
        int           fd = -1;

        assert_null(open_it(base, relative, &fd));
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_null(file_read_fd(fd, relative, 100, &text));
        assert_string_equal(strbuf_cstr(&text), expected);
        strbuf_done(&text);
        close(fd);
}

static void assert_refused(open_fn open_it, const char *relative, enum error_code code) {
        int        fd = -1;
        AUTO_ERROR err = open_it(base, relative, &fd);

        assert_non_null(err);
        assert_int_equal(err->code, code);
        assert_int_equal(fd, -1);
}

static const open_fn both[] = { file_open_beneath, file_open_beneath_walk };

static void test_beneath_opens_what_is_inside(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(both); i++) {
                assert_contents(both[i], "file", "inside");
                assert_contents(both[i], "sub/deep", "deep");
                assert_contents(both[i], "./sub//deep", "deep");
                assert_refused(both[i], "absent", ERR_NOT_FOUND);
                assert_refused(both[i], "absent/deep", ERR_NOT_FOUND);
                assert_refused(both[i], "file/deep", ERR_NOT_FOUND);
        }
}

static void test_beneath_refuses_what_leaves(void **state) {
        (void)state;
        static const char *const attacks[] = {
                "",           "/etc/passwd",  "/",
                "..",         "../secret",    "sub/../../secret",
                "sub/..",     "./../secret",  "sub/../file",
                "..//secret", "out_relative", "out_absolute",
                "loop",
        };

        for (size_t i = 0; i < ARRAY_LEN(both); i++) {
                for (size_t j = 0; j < ARRAY_LEN(attacks); j++)
                        assert_refused(both[i], attacks[j], ERR_INVALID_ARG);
        }
}

static void test_beneath_refuses_directories_that_leave(void **state) {
        (void)state;
        static const char *const attacks[] = {
                "out_directory/secret",
                "out_root/etc/passwd",
                "out_magic/etc/passwd",
        };

        for (size_t j = 0; j < ARRAY_LEN(attacks); j++) {
                int fd = -1;

                for (size_t i = 0; i < ARRAY_LEN(both); i++) {
                        AUTO_ERROR err = both[i](base, attacks[j], &fd);

                        assert_non_null(err);
                        assert_int_equal(fd, -1);
                }
        }
}

static void test_beneath_links_that_stay(void **state) {
        (void)state;
        SKIP_WHEN_EMULATED("qemu-user of Debian 12 has no openat2()");
        assert_contents(file_open_beneath, "in_file", "deep");
        assert_contents(file_open_beneath, "in_directory/deep", "deep");
        assert_contents(file_open_beneath, "sub/in_upwards", "inside");
}

static void test_walk_follows_no_link(void **state) {
        (void)state;
        /* Without the kernel's help no link is followed. */
        assert_refused(file_open_beneath_walk, "in_file", ERR_INVALID_ARG);
        assert_refused(file_open_beneath_walk, "in_directory/deep", ERR_NOT_FOUND);
}

static void test_beneath_does_not_wait_for_a_fifo(void **state) {
        (void)state;
        char path[200];

        in_root("base/fifo", path, sizeof(path));
        assert_int_equal(mkfifo(path, 0600), 0);
        for (size_t i = 0; i < ARRAY_LEN(both); i++)
                assert_contents(both[i], "fifo", ""); /* nobody writes: it is at its end */
}

static void test_beneath_needs_its_directory(void **state) {
        (void)state;
        int fd = -1;

        for (size_t i = 0; i < ARRAY_LEN(both); i++) {
                AUTO_ERROR err = both[i]("/nonexistent", "file", &fd);

                assert_int_equal(err->code, ERR_NOT_FOUND);
                assert_string_equal(err->message, "unable to open directory '/nonexistent': "
                                                  "No such file or directory");
        }
}

static void test_read(void **state) {
        (void)state;
        char          path[200];
        struct strbuf text;

        in_root("base/file", path, sizeof(path));
        assert_null(file_read(path, 6, &text)); /* exactly */
        assert_string_equal(strbuf_cstr(&text), "inside");
        assert_int_equal(text.len, 6);
        strbuf_done(&text);

        AUTO_ERROR large = file_read(path, 5, &text);
        AUTO_CHARS expected = mem_printf("file '%s' is larger than the limit of 5 bytes", path);
        assert_int_equal(large->code, ERR_INVALID_ARG);
        assert_string_equal(large->message, expected);
        AUTO_ERROR absent = file_read("/nonexistent", 5, &text);
        assert_int_equal(absent->code, ERR_NOT_FOUND);
        assert_string_equal(absent->message,
                            "unable to open '/nonexistent': No such file or directory");
        AUTO_ERROR directory = file_read(base, 5, &text);
        assert_int_equal(directory->code, ERR_INTERNAL);
}

static void test_read_large_and_empty(void **state) {
        (void)state;
        char          path[200];
        struct strbuf text;
        char         *large = mem_alloc(100001);

        in_root("base/large", path, sizeof(path));
        memset(large, 'x', 100000);
        large[100000] = '\0';
        write_file(path, large);
        assert_null(file_read(path, SIZE_MAX, &text));
        assert_int_equal(text.len, 100000);
        assert_string_equal(text.ptr, large);
        strbuf_done(&text);
        free(large);

        write_file(path, "");
        assert_null(file_read(path, 0, &text));
        assert_int_equal(text.len, 0);
        strbuf_done(&text);
        assert_null(file_read("/proc/self/status", 1 << 20, &text)); /* says size 0 */
        assert_non_null(strstr(text.ptr, "Name:"));
        strbuf_done(&text);
}

static void test_read_without_memory(void **state) {
        (void)state;
        char          path[200];
        struct strbuf text = { .ptr = NULL };

        in_root("base/file", path, sizeof(path));
        mem_fail_after(1);
        AUTO_ERROR err = file_read(path, 100, &text);
        mem_fail_after(0);
        assert_non_null(err);
        assert_null(text.ptr);
}

static void test_stat(void **state) {
        (void)state;
        char             path[200];
        struct file_stat st;

        in_root("base/file", path, sizeof(path));
        assert_true(file_exists(path));
        assert_null(file_stat(path, &st));
        assert_true(st.is_regular);
        assert_false(st.is_directory);
        assert_int_equal(st.size_bytes, 6);
        assert_in_range(st.mtime_ns / (int64_t)NS_PER_S, clock_wall_ns() / NS_PER_S - 3600,
                        clock_wall_ns() / NS_PER_S + 2);
        assert_null(file_stat(base, &st));
        assert_true(st.is_directory);
        AUTO_ERROR err = file_stat("/nonexistent", &st);
        assert_int_equal(err->code, ERR_NOT_FOUND);
        assert_false(file_exists("/nonexistent"));
        assert_false(file_is_directory("/nonexistent"));
        assert_false(file_is_directory(path));
        in_root("base", path, sizeof(path));
        assert_true(file_is_directory(path));
}

static void test_dir_list(void **state) {
        (void)state;
        char            path[200];
        struct dir_list l;

        in_root("many", path, sizeof(path));
        assert_int_equal(mkdir(path, 0700), 0);
        assert_null(dir_list_read(path, &l));
        assert_int_equal(l.n_names, 0);
        dir_list_done(&l);
        for (int i = 0; i < 40; i++) {
                AUTO_CHARS name = mem_printf("%s/%c%d", path, i % 2 ? 'B' : 'a', i * 7 % 40);

                write_file(name, "");
        }
        assert_null(dir_list_read(path, &l));
        assert_int_equal(l.n_names, 40);
        assert_string_equal(l.names[0], "B1");
        assert_string_equal(l.names[39], "a8");
        for (size_t i = 1; i < l.n_names; i++)
                assert_true(strcmp(l.names[i - 1], l.names[i]) < 0);
        dir_list_done(&l);
        dir_list_done(&l);
        AUTO_ERROR err = dir_list_read("/nonexistent", &l);
        assert_int_equal(err->code, ERR_NOT_FOUND);
}

static void test_directories_of_a_list(void **state) {
        (void)state;
        static const struct {
                const char *name, *target;
        } links[] = { { "c", "a" }, { "lost", "nowhere" }, { "to-file", "file" } };
        static const char *const expected[] = { "a", "b", "c" };
        char                     path[200];
        AUTO_CHARS               file = NULL;
        struct dir_list          l;

        in_root("mixed", path, sizeof(path));
        file = path_join(path, "file");
        assert_int_equal(mkdir(path, 0700), 0);
        write_file(file, "");
        for (size_t i = 0; i < 2; i++) {
                AUTO_CHARS directory = path_join(path, expected[i]);

                assert_int_equal(mkdir(directory, 0700), 0);
        }
        for (size_t i = 0; i < ARRAY_LEN(links); i++) {
                AUTO_CHARS link = path_join(path, links[i].name);

                assert_int_equal(symlink(links[i].target, link), 0);
        }
        assert_null(dir_list_read_directories(path, &l));
        assert_int_equal(l.n_names, ARRAY_LEN(expected));
        for (size_t i = 0; i < l.n_names; i++)
                assert_string_equal(l.names[i], expected[i]);
        dir_list_done(&l);

        assert_null(dir_check(path));
        AUTO_ERROR no_directory = dir_check(file);
        AUTO_ERROR not_listed = dir_list_read_directories(file, &l);
        assert_non_null(no_directory);
        assert_string_equal(no_directory->message, not_listed->message);
}

static void test_names(void **state) {
        (void)state;
        static const struct {
                const char *directory, *name, *expected;
        } joins[] = {
                { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "a", "/b", "a/b" },
                { "", "b", "b" },    { "/", "b", "/b" },   { "a", "", "a/" },
        };
        static const struct {
                const char *path, *directory, *name;
        } parts[] = {
                { "a/b/c", "a/b", "c" },
                { "c", ".", "c" },
                { "/c", "/", "c" },
                { "a/", "a", "" },
        };

        for (size_t i = 0; i < ARRAY_LEN(joins); i++) {
                AUTO_CHARS joined = path_join(joins[i].directory, joins[i].name);

                assert_string_equal(joined, joins[i].expected);
        }
        for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
                AUTO_CHARS directory = path_dirname(parts[i].path);

                assert_string_equal(directory, parts[i].directory);
                assert_string_equal(path_basename(parts[i].path), parts[i].name);
        }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

SUITE(file) {
        const struct CMUnitTest tests[] = {
                TEST(test_beneath_opens_what_is_inside),
                TEST(test_beneath_refuses_what_leaves),
                TEST(test_beneath_refuses_directories_that_leave),
                TEST(test_beneath_links_that_stay),
                TEST(test_walk_follows_no_link),
                TEST(test_beneath_does_not_wait_for_a_fifo),
                TEST(test_beneath_needs_its_directory),
                TEST(test_read),
                TEST(test_read_large_and_empty),
                TEST(test_read_without_memory),
                TEST(test_stat),
                TEST(test_dir_list),
                TEST(test_directories_of_a_list),
                cmocka_unit_test(test_names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
