/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/dir_fingerprint.h"
#include "store/store.h"
#include "store/store_copy.h"
#include "store/store_listing.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What one change of the directory "m" does: the parts of its mark that differ afterwards. */

enum part { CONFIG = 1, REST = 2, ONE = 4, TWO = 8 };

enum change_kind {
        WRITE,   /* the file, with other text of another length */
        REWRITE, /* the same length, later */
        REPLACE, /* by rename: the same text, length and time, another file */
        TOUCH,   /* its time alone */
        REMOVE,  /* the file */
        MAKE,    /* a folder */
};

static const struct mark_row {
        enum change_kind kind;
        const char      *path;
        unsigned         differs;
} rows[] = {
        { WRITE, "config.pbtxt", CONFIG },
        { REWRITE, "config.pbtxt", CONFIG },
        { REPLACE, "config.pbtxt", CONFIG },
        { TOUCH, "config.pbtxt", CONFIG },
        { REMOVE, "config.pbtxt", CONFIG },
        { WRITE, "configs/fast.pbtxt", CONFIG },
        { WRITE, "labels.txt", REST },
        { REWRITE, "labels.txt", REST },
        { REPLACE, "labels.txt", REST },
        { REMOVE, "labels.txt", REST },
        { WRITE, "new.txt", REST },
        { WRITE, "warmup/sample", REST },
        { MAKE, "folder", REST },
        { WRITE, "1/model.bin", ONE },
        { REWRITE, "1/model.bin", ONE },
        { REPLACE, "1/model.bin", ONE },
        { TOUCH, "1/model.bin", ONE },
        { REMOVE, "1/model.bin", ONE },
        { WRITE, "1/deep/er/part", ONE },
        { MAKE, "1/folder", ONE },
        { WRITE, "2/model.bin", TWO },
        { MAKE, "01", REST }, /* leading zeros: no version */
        { MAKE, "-1", REST },
        { WRITE, "3", REST }, /* a file is no version */
        /* What editors, file systems and interpreters leave behind. */
        { WRITE, ".config.pbtxt.swp", 0 },
        { WRITE, ".hidden", 0 },
        { WRITE, "config.pbtxt~", 0 },
        { WRITE, "config.pbtxt.swp", 0 },
        { WRITE, "#config.pbtxt#", 0 },
        { WRITE, "4913", 0 },
        { MAKE, "__pycache__", 0 },
        { WRITE, "1/.nfs0001", 0 },
        { WRITE, "1/__pycache__/model.pyc", 0 },
        { WRITE, "1/model.bin~", 0 },
};

static struct temp_tree make_model(void) {
        struct temp_tree t = temp_tree_make();

        temp_tree_write(&t, "m/config.pbtxt", "one");
        temp_tree_write(&t, "m/labels.txt", "cat");
        temp_tree_write(&t, "m/configs/fast.pbtxt", "two");
        temp_tree_write(&t, "m/1/model.bin", "abc");
        temp_tree_write(&t, "m/2/model.bin", "def");
        return t;
}

static struct dir_fingerprint *read_mark(const struct temp_tree *t) {
        AUTO_CHARS              path = temp_tree_path(t, "m");
        struct dir_fingerprint *mark;

        assert_ok(dir_fingerprint_read(path, &mark), path);
        return mark;
}

static void move_time(const char *path, time_t seconds, const struct timespec *from) {
        struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, *from };

        times[1].tv_sec += seconds;
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void replace(const struct temp_tree *t, const char *path) {
        AUTO_CHARS  other = temp_tree_path(t, "other");
        struct stat stat_before;

        assert_int_equal(stat(path, &stat_before), 0);
        temp_tree_copy(t, path, "other");
        move_time(other, 0, &stat_before.st_mtim);
        assert_int_equal(rename(other, path), 0);
}

static void make_change(const struct temp_tree *t, const struct mark_row *row) {
        AUTO_CHARS  relative = mem_printf("m/%s", row->path);
        AUTO_CHARS  path = temp_tree_path(t, relative);
        struct stat before = { 0 };

        (void)stat(path, &before);
        switch (row->kind) {
        case WRITE: temp_tree_write(t, relative, "other text"); break;
        case REWRITE:
                temp_tree_write(t, relative, "xyz");
                move_time(path, 1, &before.st_mtim);
                break;
        case REPLACE: replace(t, path); break;
        case TOUCH: move_time(path, -5, &before.st_mtim); break;
        case REMOVE: temp_tree_unlink(t, relative); break;
        case MAKE: temp_tree_folder(t, relative); break;
        }
}

static void test_changes(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const struct mark_row  *row = &rows[i];
                struct temp_tree        t = make_model();
                struct dir_fingerprint *before = read_mark(&t), *same = read_mark(&t), *after;

                print_message("%d %s\n", row->kind, row->path);
                assert_true(dir_fingerprint_equal(before, same));
                make_change(&t, row);
                after = read_mark(&t);
                assert_int_equal(after->n_versions, 2);
                assert_int_equal(before->config != after->config, (row->differs & CONFIG) != 0);
                assert_int_equal(before->rest != after->rest, (row->differs & REST) != 0);
                assert_int_equal(!dir_fingerprint_version_equal(before, after, 1),
                                 (row->differs & ONE) != 0);
                assert_int_equal(!dir_fingerprint_version_equal(before, after, 2),
                                 (row->differs & TWO) != 0);
                assert_int_equal(!dir_fingerprint_equal(before, after), row->differs != 0);
                assert_int_equal(dir_fingerprint_digest(before) != dir_fingerprint_digest(after),
                                 row->differs != 0);
                dir_fingerprint_free(before);
                dir_fingerprint_free(same);
                dir_fingerprint_free(after);
                temp_tree_remove(&t);
        }
}

static void test_versions_come_and_go(void **state) {
        struct temp_tree        t = make_model();
        struct dir_fingerprint *before = read_mark(&t), *after;

        (void)state;
        temp_tree_folder(&t, "m/10");
        temp_tree_folder(&t, "m/3");
        after = read_mark(&t);
        assert_int_equal(after->n_versions, 4);
        assert_int_not_equal(dir_fingerprint_digest(before), dir_fingerprint_digest(after));
        assert_int_not_equal(dir_fingerprint_digest(before), 0);
        assert_int_equal(dir_fingerprint_digest(NULL), 0);
        assert_int_equal(after->versions[2].number, 3);
        assert_int_equal(after->versions[3].number, 10);
        assert_false(dir_fingerprint_equal(before, after));
        assert_true(dir_fingerprint_version_equal(before, after, 1));
        assert_false(dir_fingerprint_version_equal(before, after, 3));
        assert_false(dir_fingerprint_version_equal(after, before, 10));
        assert_false(dir_fingerprint_version_equal(before, after, 77)); /* neither has it */
        dir_fingerprint_free(before);
        dir_fingerprint_free(after);
        temp_tree_remove(&t);
}

static void test_links_in_circles(void **state) {
        struct temp_tree        t = make_model();
        AUTO_CHARS              link = temp_tree_path(&t, "m/1/again");
        AUTO_CHARS              folder = temp_tree_path(&t, "m/1");
        struct dir_fingerprint *mark;

        (void)state;
        assert_int_equal(symlink(folder, link), 0);
        mark = read_mark(&t); /* it ends */
        assert_int_equal(mark->n_versions, 2);
        dir_fingerprint_free(mark);
        temp_tree_remove(&t);
}

/* Four links of each directory lead to the next one: 4^15, a billion, ways to the last file. The configuration, which comes
 * after them, is looked at nevertheless. */
static void test_many_ways_to_a_file(void **state) {
        struct temp_tree        t = make_model();
        AUTO_CHARS              first = temp_tree_path(&t, "m/0");
        AUTO_CHARS              outside = temp_tree_path(&t, "ways/0");
        struct dir_fingerprint *before, *after;

        (void)state;
        for (unsigned i = 0; i < 15; i++)
                for (unsigned k = 0; k < 4; k++) {
                        AUTO_CHARS folder = mem_printf("ways/%u", i);
                        AUTO_CHARS relative = mem_printf("ways/%u/%u", i, k);
                        AUTO_CHARS link = temp_tree_path(&t, relative);
                        AUTO_CHARS to = mem_printf("../%u", i + 1);

                        temp_tree_folder(&t, folder);
                        assert_int_equal(symlink(to, link), 0);
                }
        temp_tree_write(&t, "ways/15/file", "one");
        assert_int_equal(symlink(outside, first), 0);
        before = read_mark(&t);
        temp_tree_write(&t, "m/config.pbtxt", "another");
        after = read_mark(&t);
        assert_int_not_equal(before->config, after->config);
        assert_int_equal(before->rest, after->rest);
        assert_true(before->is_cut);
        dir_fingerprint_free(before);
        dir_fingerprint_free(after);
        temp_tree_remove(&t);
}

/* As volumes of container platforms do it: all files are links through a hidden folder. */
static void test_links_are_followed(void **state) {
        struct temp_tree        t = temp_tree_make();
        AUTO_CHARS              link = temp_tree_path(&t, "m/config.pbtxt");
        AUTO_CHARS              a = temp_tree_path(&t, "m/.a");
        AUTO_CHARS              b = temp_tree_path(&t, "m/.b");
        AUTO_CHARS              current = temp_tree_path(&t, "m/.current");
        struct dir_fingerprint *before, *after;

        (void)state;
        temp_tree_write(&t, "m/.a/config.pbtxt", "one");
        temp_tree_write(&t, "m/.b/config.pbtxt", "two");
        assert_int_equal(symlink(".current/config.pbtxt", link), 0);
        assert_int_equal(symlink(a, current), 0);
        before = read_mark(&t);
        assert_int_equal(unlink(current), 0);
        assert_int_equal(symlink(b, current), 0);
        after = read_mark(&t);
        assert_int_not_equal(before->config, after->config);
        dir_fingerprint_free(before);
        dir_fingerprint_free(after);
        temp_tree_remove(&t);
}

/* Who uses a pipe changes its time; the model is the same. */
static void test_pipes_in_use(void **state) {
        struct temp_tree        t = make_model();
        AUTO_CHARS              path = temp_tree_path(&t, "m/pipe");
        struct timespec         past = { .tv_sec = 1000 };
        struct dir_fingerprint *before, *after;

        (void)state;
        assert_int_equal(mkfifo(path, 0600), 0);
        before = read_mark(&t);
        move_time(path, 0, &past);
        after = read_mark(&t);
        assert_true(dir_fingerprint_equal(before, after));
        dir_fingerprint_free(before);
        dir_fingerprint_free(after);
        temp_tree_remove(&t);
}

static void test_no_directory(void **state) {
        struct temp_tree        t = temp_tree_make();
        AUTO_CHARS              path = temp_tree_path(&t, "nowhere");
        struct dir_fingerprint *mark = NULL;
        AUTO_ERROR              err = dir_fingerprint_read(path, &mark);

        (void)state;
        assert_non_null(err);
        assert_null(mark);
        assert_true(dir_fingerprint_equal(NULL, NULL));
        dir_fingerprint_free(NULL);
        temp_tree_remove(&t);
}

/* ---- remote directories ---------------------------------------------------------------------- */

struct object_row {
        const char *name, *etag;
        uint64_t    size;
};

#define N_OBJECTS 6

static const struct object_row objects[N_OBJECTS] = {
        { "m/config.pbtxt", "c", 1 }, { "m/configs/x.pbtxt", "x", 2 }, { "m/labels.txt", "l", 3 },
        { "m/1/model.bin", "a", 4 },  { "m/2/model.bin", "b", 5 },     { "m/3/", "", 0 },
};

static struct dir_fingerprint *read_remote(const struct object_row *given, size_t n) {
        struct store            store = { .url.text = (char *)(uintptr_t) "s3://b" };
        struct store_list       list;
        struct store_listing   *listing;
        struct store_copy      *copy;
        struct dir_fingerprint *m = NULL;

        ref_init(&store.ref);
        store_list_init(&list, "");
        for (size_t i = 0; i < n; i++)
                assert_null(
                        store_list_add(&list, &(struct store_object){ .key = str_of(given[i].name),
                                                                      .etag = str_of(given[i].etag),
                                                                      .size = given[i].size }));
        listing = store_listing_new(&list);
        copy = store_copy_new(&store, listing, "m");
        error_free(dir_fingerprint_of_copy(copy, &m));
        store_copy_unref(copy);
        store_listing_unref(listing);
        return m;
}

static void test_a_listing(void **state) {
        struct dir_fingerprint *m = read_remote(objects, N_OBJECTS);

        (void)state;
        assert_int_equal(m->n_versions, 3);
        assert_int_equal(m->versions[2].number, 3); /* without files */
        assert_int_not_equal(m->config, DIR_FINGERPRINT_NO_CONFIG);
        dir_fingerprint_free(m);
        assert_null(read_remote(objects, 0));
}

/* Each row replaces one object; the parts of the fingerprint that it changes are marked. */
static void test_changes_of_a_listing(void **state) {
        static const struct {
                size_t            at;
                struct object_row object;
                bool              config, rest, one, two;
        } changes[] = {
                { 0, { "m/config.pbtxt", "c", 1 }, false, false, false, false },
                { 0, { "m/config.pbtxt", "d", 1 }, true, false, false, false },
                { 0, { "m/config.pbtxt", "c", 9 }, true, false, false, false },
                { 1, { "m/configs/x.pbtxt", "y", 2 }, true, false, false, false },
                { 2, { "m/labels.txt", "m", 3 }, false, true, false, false },
                { 2, { "m/label.txt", "l", 3 }, false, true, false, false },
                { 3, { "m/1/model.bin", "z", 4 }, false, false, true, false },
                { 4, { "m/2/other.bin", "b", 5 }, false, false, false, true },
                { 5, { "m/.hidden", "h", 5 }, false, false, false, false },
                { 5, { "m/1/x~", "h", 5 }, false, false, false, false },
                { 5, { "m/1/__pycache__/x", "h", 5 }, false, false, false, false },
                { 5, { "n/config.pbtxt", "h", 5 }, false, false, false, false },
                { 5, { "m/4", "h", 5 }, false, true, false, false },
        };
        struct dir_fingerprint *before = read_remote(objects, N_OBJECTS - 1);

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
                struct object_row       changed[N_OBJECTS];
                struct dir_fingerprint *after;

                memcpy(changed, objects, sizeof(changed));
                changed[changes[i].at] = changes[i].object;
                after = read_remote(changed, changes[i].at < 5 ? N_OBJECTS - 1 : N_OBJECTS);
                assert_int_equal(before->config != after->config, changes[i].config);
                assert_int_equal(before->rest != after->rest, changes[i].rest);
                assert_int_equal(!dir_fingerprint_version_equal(before, after, 1), changes[i].one);
                assert_int_equal(!dir_fingerprint_version_equal(before, after, 2), changes[i].two);
                dir_fingerprint_replace(after, read_remote(objects, N_OBJECTS - 1));
                assert_true(dir_fingerprint_equal(before, after));
                dir_fingerprint_free(after);
        }
        dir_fingerprint_free(before);
}

SUITE(dir_fingerprint) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_changes),
                cmocka_unit_test(test_versions_come_and_go),
                cmocka_unit_test(test_links_in_circles),
                cmocka_unit_test(test_many_ways_to_a_file),
                cmocka_unit_test(test_links_are_followed),
                cmocka_unit_test(test_pipes_in_use),
                cmocka_unit_test(test_no_directory),
                cmocka_unit_test(test_a_listing),
                cmocka_unit_test(test_changes_of_a_listing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
