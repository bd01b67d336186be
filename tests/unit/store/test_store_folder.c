/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/store_folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct store_folder *open_folder(const struct temp_tree *t) {
        struct store_folder *f;

        assert_null(store_folder_open(t->path, &f));
        return f;
}

static void test_places(void **state) {
        struct temp_tree     t = temp_tree_make();
        struct store_folder *f = open_folder(&t);
        AUTO_CHARS           path = mem_strdup(store_folder_path(f));
        AUTO_CHARS           one = NULL;
        AUTO_CHARS           two = NULL;
        struct stat          stat_;

        (void)state;
        assert_null(store_folder_make_place(f, &one));
        assert_null(store_folder_make_place(f, &two));
        assert_string_not_equal(one, two);
        assert_int_equal(stat(path, &stat_), 0);
        assert_int_equal(stat_.st_mode & 0777, 0700);
        assert_true(file_exists(one) && file_exists(two));
        store_folder_close(f);
        assert_false(file_exists(path));
        temp_tree_remove(&t);
}

/* A process that ends without a word, as when it is killed. */
static void leave_folder(const struct temp_tree *t) {
        pid_t child = fork();
        int   status;

        if (child == 0) {
                AUTO_CHARS           place = NULL;
                struct store_folder *f = open_folder(t);

                assert_null(store_folder_make_place(f, &place));
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
}

static size_t count_folders(const struct temp_tree *t) {
        struct dir_list list;
        size_t          n;

        assert_null(dir_list_read(t->path, &list));
        n = list.n_names;
        dir_list_done(&list);
        return n;
}

static void test_dead_servers(void **state) {
        struct temp_tree     t = temp_tree_make();
        struct store_folder *f = open_folder(&t);
        struct store_folder *other;

        (void)state;
        leave_folder(&t);
        temp_tree_write(&t, "folderABCDEF/1/model", "of another program");
        temp_tree_write(&t, "models/neso.lock", "");
        assert_int_equal(count_folders(&t), 4);
        other = open_folder(&t);
        assert_int_equal(count_folders(&t), 4); /* f, other, and those of others */
        assert_true(file_exists(store_folder_path(f)));
        store_folder_close(other);
        store_folder_close(f);
        assert_int_equal(count_folders(&t), 2);
        temp_tree_remove(&t);
}

static void test_no_parent(void **state) {
        struct store_folder *f = NULL;
        AUTO_ERROR           err = store_folder_open("/nowhere/at/all", &f);

        (void)state;
        assert_non_null(err);
        assert_string_equal(err->message,
                            "unable to make a directory in '/nowhere/at/all': No such "
                            "file or directory");
        assert_null(f);
}

static void assert_parent(enum store_kind kind, const char *cache, const char *expected) {
        AUTO_CHARS parent = store_folder_parent(kind, cache);

        assert_string_equal(parent, expected);
}

static void test_parents(void **state) {
        (void)state;
        assert_int_equal(setenv("TRITON_AWS_MOUNT_DIRECTORY", "/aws", 1), 0);
        assert_int_equal(setenv("TRITON_GCS_MOUNT_DIRECTORY", "", 1), 0);
        assert_int_equal(setenv("TRITON_AZURE_MOUNT_DIRECTORY", "/azure", 1), 0);
        assert_parent(STORE_S3, "/cache", "/aws");
        assert_parent(STORE_GS, "/cache", "/tmp");
        assert_parent(STORE_AS, "/cache", "/azure");
        assert_parent(STORE_WEB, "/cache", "/cache");
        assert_parent(STORE_WEB, "", "/tmp");
        assert_int_equal(unsetenv("TRITON_AWS_MOUNT_DIRECTORY"), 0);
        assert_parent(STORE_S3, "/cache", "/tmp");
}

SUITE(store_folder) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_dead_servers),
                cmocka_unit_test(test_no_parent),
                cmocka_unit_test(test_parents),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
