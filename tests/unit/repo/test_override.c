/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/file.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/override.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A place of its own for TMPDIR. */
struct place {
        struct temp_tree tree;
        char            *root;   /* owned; what the stores use */
        char            *before; /* owned; TMPDIR */
};

static int begin(void **state) {
        struct place *p = calloc(1, sizeof(*p));

        p->tree = temp_tree_make();
        p->before = mem_strdup(getenv("TMPDIR"));
        setenv("TMPDIR", p->tree.path, 1);
        p->root = mem_printf("%s/neso-%u", p->tree.path, (unsigned)geteuid());
        *state = p;
        return 0;
}

static int end(void **state) {
        struct place *p = *state;

        if (p->before != NULL)
                setenv("TMPDIR", p->before, 1);
        else
                unsetenv("TMPDIR");
        temp_tree_remove(&p->tree);
        free(p->before);
        free(p->root);
        free(p);
        return 0;
}

static size_t count_entries(const char *path) {
        struct dir_list list;
        size_t          n;

        assert_ok(dir_list_read(path, &list), path);
        n = list.n_names;
        dir_list_done(&list);
        return n;
}

static struct error *write_one(struct override_store *s, const char *path,
                               struct override_files **ret) {
        return override_files_write(s, &(struct override_file){ path, "bytes", 5 }, 1, ret);
}

/* clang-format off */
static const char *const attacks[] = {
        "", "/", "//", "/etc/passwd", "/1/model", "//1/model", "1/", "1//model", "1/model/",
        ".", "..", "./model", "../model", "1/.", "1/..", "1/./model", "1/../model", "1/../../model",
        "../../../../../../tmp/x", "1/../../../etc/passwd", "..\\model", "1\\..\\..\\model",
        "1/..\\..\\x", "\\etc", "C:\\x", "1/mo\\del", "1/new\nline", "1/\r", "\t/model", "1/\x01",
        "1/\x1b[2J", "1/\x7f", "\n", "1/model\n", "..//model", "./..", "../", "1/../", "/..", "/.",
        "./", "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q", /* 17 names */
};
/* clang-format on */

static void test_attacks_are_refused(void **state) {
        struct place          *p = *state;
        struct override_store *s = override_store_new();

        assert_true(ARRAY_LEN(attacks) >= 40);
        for (size_t i = 0; i < ARRAY_LEN(attacks); i++) {
                struct override_files *files = NULL;
                AUTO_CHARS             text = mem_printf(
                                    "Invalid file parameter 'file:%s', the path must stay within model "
                                                "directory.",
                                    attacks[i]);

                assert_error(write_one(s, attacks[i], &files), ERR_INVALID_ARG, text);
                assert_null(files);
        }
        /* Not even the place for them was made. */
        assert_int_equal(count_entries(p->tree.path), 0);
        override_store_free(s);
}

static void test_lengths(void **state) {
        struct override_store *s = override_store_new();
        struct override_files *files;
        char                   name[300], path[1100];

        (void)state;
        memset(name, 'x', sizeof(name));
        name[256] = '\0';
        AUTO_ERROR too_long = write_one(s, name, &files);

        assert_int_equal(too_long->code, ERR_INVALID_ARG);
        name[255] = '\0';
        assert_ok(write_one(s, name, &files), "255");
        override_files_unref(files);
        /* 16 names of 64 bytes are more than 1024. */
        for (size_t i = 0; i < 16; i++)
                snprintf(path + i * 65, 66, "%064d%s", 0, i < 15 ? "/" : "");
        AUTO_ERROR too_long_in_all = write_one(s, path, &files);

        assert_int_equal(too_long_in_all->code, ERR_INVALID_ARG);
        override_store_free(s);
}

/* Odd, but they stay where they belong. */
static void test_names_that_are_fine(void **state) {
        static const char *const names[] = { "1/model.bin", "config.pbtxt", "...",
                                             "..a",         "a..",          "1/a b",
                                             "1/\xc3\xa9",  "1/%2e%2e",     "1/~",
                                             "1/lock" };
        struct override_store   *s = override_store_new();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                struct override_files *files;
                AUTO_STRBUF            text = { 0 };

                assert_ok(write_one(s, names[i], &files), names[i]);

                AUTO_CHARS path = path_join(override_files_directory(files), names[i]);

                assert_ok(file_read(path, 100, &text), path);
                assert_string_equal(strbuf_cstr(&text), "bytes");
                override_files_unref(files);
        }
        override_store_free(s);
}

static void test_files_go_with_the_last_user(void **state) {
        struct place              *p = *state;
        const struct override_file both[] = { { "1/a", "A", 1 }, { "1/deep/b", "", 0 } };
        struct override_store     *s = override_store_new();
        struct override_files     *files;
        struct stat                stat_of;

        assert_ok(override_files_write(s, both, 2, &files), "write");

        AUTO_CHARS directory = mem_strdup(override_files_directory(files));
        AUTO_CHARS a = path_join(directory, "1/a");

        assert_int_equal(strncmp(directory, p->root, strlen(p->root)), 0);
        assert_int_equal(stat(a, &stat_of), 0);
        assert_int_equal(stat_of.st_mode & 07777, 0600);
        assert_int_equal(stat(directory, &stat_of), 0);
        assert_int_equal(stat_of.st_mode & 07777, 0700);
        assert_int_equal(stat(p->root, &stat_of), 0);
        assert_int_equal(stat_of.st_mode & 07777, 0700);
        assert_ptr_equal(override_files_ref(files), files);
        override_files_unref(files);
        assert_true(file_exists(a));
        override_files_unref(files);
        assert_false(file_exists(directory));
        override_files_unref(NULL);
        assert_null(override_files_ref(NULL));
        override_store_free(s);
        override_store_free(NULL);
        assert_int_equal(count_entries(p->tree.path), 0);
}

/* A path of sixteen names of one byte makes fifteen directories. */
static void test_many_directories(void **state) {
        struct place          *p = *state;
        struct override_file   all[257];
        struct override_store *s = override_store_new();
        struct override_files *files = NULL;

        for (size_t i = 0; i < ARRAY_LEN(all); i++)
                all[i] = (struct override_file){ mem_printf("%zu/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o", i),
                                                 "", 0 };
        assert_error(override_files_write(s, all, 257, &files), ERR_INVALID_ARG,
                     "the paths of the files have 4112 names, at most 4096 are supported");
        assert_int_equal(count_entries(p->tree.path), 0);
        assert_ok(override_files_write(s, all, 256, &files), "4096 names");
        override_files_unref(files);
        override_store_free(s);
        for (size_t i = 0; i < ARRAY_LEN(all); i++)
                free((char *)(uintptr_t)all[i].path);
}

static void test_twice_the_same(void **state) {
        struct place              *p = *state;
        const struct override_file both[] = { { "1/a", "A", 1 }, { "1/a", "B", 1 } };
        const struct override_file within[] = { { "1", "A", 1 }, { "1/a", "B", 1 } };
        struct override_store     *s = override_store_new();
        struct override_files     *files = NULL;

        assert_error(override_files_write(s, both, 2, &files), ERR_INVALID_ARG,
                     "'file:1/a' is given twice");
        AUTO_ERROR err = override_files_write(s, within, 2, &files);

        assert_non_null(err);
        assert_null(files);
        override_store_free(s);
        assert_int_equal(count_entries(p->tree.path), 0);
}

/* Nobody else may be able to put things where models are loaded from. */
static void test_the_root_must_be_ours(void **state) {
        struct place          *p = *state;
        struct override_store *s = override_store_new();
        struct override_files *files = NULL;
        AUTO_CHARS             text =
                mem_printf("'%s' must be a directory that only this user may use", p->root);
        AUTO_CHARS elsewhere = temp_tree_path(&p->tree, "elsewhere");

        for (mode_t mode = 1; mode < 0100; mode <<= 1) {
                assert_int_equal(mkdir(p->root, 0700), 0);
                assert_int_equal(chmod(p->root, 0700 | mode), 0);
                assert_error(write_one(s, "1/a", &files), ERR_INTERNAL, text);
                assert_int_equal(count_entries(p->root), 0);
                assert_int_equal(rmdir(p->root), 0);
        }
        temp_tree_folder(&p->tree, "elsewhere");
        assert_int_equal(chmod(elsewhere, 0700), 0);
        assert_int_equal(symlink(elsewhere, p->root), 0);
        assert_error(write_one(s, "1/a", &files), ERR_INTERNAL, text);
        override_store_free(s);
        /* A store that cleans up does not follow it either. */
        temp_tree_write(&p->tree, "elsewhere/x/kept", "");
        override_store_free(override_store_new());
        assert_int_equal(count_entries(elsewhere), 1);
        assert_int_equal(unlink(p->root), 0);
        temp_tree_write(&p->tree, path_basename(p->root), "a file");
        s = override_store_new();
        assert_error(write_one(s, "1/a", &files), ERR_INTERNAL, text);
        override_store_free(s);
}

/* A child with a store of its own, which is killed in the middle. */
static pid_t start_server(int *ret_fd) {
        int   fds[2];
        char  byte;
        pid_t pid;

        assert_int_equal(pipe(fds), 0);
        pid = fork();
        if (pid == 0) {
                struct override_files *files;
                struct override_store *s = override_store_new();

                if (write_one(s, "1/a", &files) == NULL && write(fds[1], "r", 1) == 1)
                        pause();
                _exit(1);
        }
        assert_true(pid > 0);
        assert_int_equal(read(fds[0], &byte, 1), 1);
        close(fds[1]);
        *ret_fd = fds[0];
        return pid;
}

static void kill_server(pid_t pid, int fd) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        close(fd);
}

static void test_what_dead_servers_left_is_removed(void **state) {
        struct place          *p = *state;
        int                    first_fd, second_fd;
        pid_t                  first = start_server(&first_fd), second = start_server(&second_fd);
        struct override_store *s;
        struct override_files *files;

        assert_int_equal(count_entries(p->root), 2);
        kill_server(first, first_fd);
        assert_int_equal(count_entries(p->root), 2);
        s = override_store_new();
        assert_int_equal(count_entries(p->root), 1); /* the other one lives */
        assert_ok(write_one(s, "1/a", &files), "write");
        assert_int_equal(count_entries(p->root), 2);
        kill_server(second, second_fd);
        override_store_free(override_store_new()); /* a third one comes and goes */
        assert_int_equal(count_entries(p->root), 1);
        assert_true(file_exists(override_files_directory(files)));
        override_files_unref(files);
        override_store_free(s);
        assert_int_equal(count_entries(p->tree.path), 0);
}

/* Killed before it had its lock: there is a directory and no more. */
static void test_a_directory_without_a_lock(void **state) {
        struct place *p = *state;
        AUTO_CHARS    path = mem_printf("%s/half", path_basename(p->root));

        temp_tree_folder(&p->tree, path);
        assert_int_equal(chmod(p->root, 0700), 0);
        override_store_free(override_store_new());
        assert_int_equal(count_entries(p->tree.path), 0);
}

static void test_removing_follows_no_link(void **state) {
        struct place          *p = *state;
        struct override_store *s = override_store_new();
        struct override_files *files;
        AUTO_CHARS             outside = temp_tree_path(&p->tree, "outside");

        temp_tree_write(&p->tree, "outside/kept", "");
        assert_ok(write_one(s, "1/a", &files), "write");

        AUTO_CHARS link = path_join(override_files_directory(files), "1/link");

        assert_int_equal(symlink(outside, link), 0);
        override_files_unref(files);
        assert_int_equal(count_entries(outside), 1);
        override_store_free(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

SUITE(override) {
        const struct CMUnitTest tests[] = {
                TEST(test_attacks_are_refused),
                TEST(test_lengths),
                TEST(test_names_that_are_fine),
                TEST(test_files_go_with_the_last_user),
                TEST(test_twice_the_same),
                TEST(test_many_directories),
                TEST(test_the_root_must_be_ours),
                TEST(test_what_dead_servers_left_is_removed),
                TEST(test_a_directory_without_a_lock),
                TEST(test_removing_follows_no_link),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
