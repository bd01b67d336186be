/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/compiler.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/store_cache.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECES 3
#define SIZE (2 * STORE_PIECE_BYTES + 7)

struct cache_place {
        struct temp_tree    tree;
        struct store_cache *cache;
};

static void open_place(struct cache_place *p, uint64_t max_bytes, bool keeps_unused) {
        AUTO_CHARS    path = NULL;
        struct error *err;

        p->tree = temp_tree_make();
        path = temp_tree_path(&p->tree, "cache");
        err = store_cache_open(&(struct store_cache_options){ .directory = path,
                                                              .max_bytes = max_bytes,
                                                              .keeps_unused = keeps_unused },
                               &p->cache);
        assert_null(err);
}

static void close_place(struct cache_place *p) {
        store_cache_close(p->cache);
        temp_tree_remove(&p->tree);
}

static void key_of(const char *name, char key[CACHE_KEY_CHARS + 1]) {
        assert_null(cache_key_of("https://s", name, STR_LIT("\"e\""), 5, key));
}

static struct cache_file open_file(struct cache_place *p, const char *name, uint64_t size,
                                   enum cache_state expected) {
        struct cache_file f;
        enum cache_state  state;
        char              key[CACHE_KEY_CHARS + 1];

        key_of(name, key);
        assert_null(cache_file_open(p->cache, key, size, true, &f, &state));
        assert_int_equal(state, expected);
        return f;
}

static void note(struct cache_file *f, size_t piece) {
        assert_null(cache_file_note_piece(f, piece));
}

/* Fetches a file of `n` bytes, all the same. */
static void fill(struct cache_place *p, const char *name, size_t n, char byte) {
        struct cache_file f = open_file(p, name, n, CACHE_PART);
        char             *bytes = mem_alloc(n);

        memset(bytes, byte, n);
        assert_int_equal(pwrite(f.fd, bytes, n, 0), n);
        for (size_t i = 0; i < f.n_pieces; i++)
                note(&f, i);
        assert_null(cache_file_commit(&f));
        cache_file_close(&f);
        free(bytes);
}

static size_t count_files(const struct cache_place *p) {
        AUTO_CHARS      path = temp_tree_path(&p->tree, "cache");
        struct dir_list list;
        size_t          n = 0;

        assert_null(dir_list_read(path, &list));
        for (size_t i = 0; i < list.n_names; i++)
                n += strcmp(list.names[i], "lock") != 0;
        dir_list_done(&list);
        return n;
}

static void test_keys(void **state) {
        char a[CACHE_KEY_CHARS + 1], b[CACHE_KEY_CHARS + 1];

        (void)state;
        assert_null(cache_key_of("https://s", "s3://b/x", STR_LIT("1"), 5, a));
        assert_int_equal(strlen(a), CACHE_KEY_CHARS);
        assert_null(cache_key_of("https://s", "s3://b/x", STR_LIT("1"), 5, b));
        assert_string_equal(a, b);
        assert_null(cache_key_of("https://s", "s3://b/y", STR_LIT("1"), 5, b));
        assert_string_not_equal(a, b);
        assert_null(cache_key_of("https://s", "s3://b/x", STR_LIT("2"), 5, b));
        assert_string_not_equal(a, b);
        assert_null(cache_key_of("https://s", "s3://b/x", STR_LIT("1"), 6, b));
        assert_string_not_equal(a, b);
        assert_null(cache_key_of("https://t", "s3://b/x", STR_LIT("1"), 5, b));
        assert_string_not_equal(a, b);
}

static void test_a_file(void **state) {
        struct cache_place p;
        AUTO_ERROR         err = NULL;
        struct cache_file  f;
        AUTO_CHARS         target = NULL;
        struct stat        stat_;

        (void)state;
        open_place(&p, 0, true);
        fill(&p, "a", 100, 'x');
        f = open_file(&p, "a", 100, CACHE_WHOLE);
        target = temp_tree_path(&p.tree, "target");
        assert_null(cache_file_link(&f, target));
        assert_null(cache_file_link(&f, target)); /* it is there */
        assert_int_equal(stat(target, &stat_), 0);
        assert_int_equal(stat_.st_size, 100);
        assert_int_equal(stat_.st_nlink, 2);
        assert_int_equal(stat_.st_mode & 0777, 0400);
        assert_int_equal(unlink(target), 0);
        assert_int_equal(mkdir(target, 0700), 0); /* a store has "target" and "target/b" */
        err = cache_file_link(&f, target);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_non_null(strstr(err->message, "an object has the name of a folder: '"));
        cache_file_close(&f);
        f = open_file(&p, "a", 101, CACHE_PART); /* not a file of this size */
        cache_file_discard(&f);
        cache_file_close(&f);
        close_place(&p);
}

static void test_what_is_there_is_not_fetched_again(void **state) {
        struct cache_place p;
        struct cache_file  f;

        (void)state;
        open_place(&p, 0, true);
        f = open_file(&p, "a", SIZE, CACHE_PART);
        assert_int_equal(f.n_pieces, PIECES);
        note(&f, 0);
        note(&f, 2);
        cache_file_close(&f);
        f = open_file(&p, "a", SIZE, CACHE_PART);
        assert_memory_equal(f.has_piece, ((unsigned char[]){ 1, 0, 1 }), PIECES);
        cache_file_discard(&f);
        cache_file_close(&f);
        f = open_file(&p, "a", SIZE, CACHE_PART);
        assert_memory_equal(f.has_piece, ((unsigned char[]){ 0, 0, 0 }), PIECES);
        cache_file_close(&f);
        close_place(&p);
}

/* The record belongs to another file of that name. */
static void test_an_old_record_does_not_count(void **state) {
        struct cache_place p;
        struct cache_file  f;
        AUTO_CHARS         other = NULL;

        (void)state;
        open_place(&p, 0, true);
        f = open_file(&p, "a", SIZE, CACHE_PART);
        note(&f, 0);
        other = mem_printf("%s.other", f.part);
        assert_int_equal(rename(f.part, other), 0);
        cache_file_close(&f);
        f = open_file(&p, "a", SIZE, CACHE_PART);
        assert_memory_equal(f.has_piece, ((unsigned char[]){ 0, 0, 0 }), PIECES);
        note(&f, 0);
        assert_int_equal(ftruncate(f.fd, 5), 0);
        cache_file_close(&f);
        f = open_file(&p, "a", SIZE, CACHE_PART);
        assert_memory_equal(f.has_piece, ((unsigned char[]){ 0, 0, 0 }), PIECES);
        note(&f, 1);
        assert_int_equal(pwrite(f.record_fd, "XXXX", 4, 0), 4);
        cache_file_close(&f);
        f = open_file(&p, "a", SIZE, CACHE_PART);
        assert_memory_equal(f.has_piece, ((unsigned char[]){ 0, 0, 0 }), PIECES);
        cache_file_close(&f);
        close_place(&p);
}

/* Runs in a process of its own: begins the file, reports that, and ends when it is told so. */
static void hold_file(struct cache_place *p, int ready, int end) {
        struct cache_file f = open_file(p, "a", SIZE, CACHE_PART);
        char              byte;

        note(&f, 1);
        assert_int_equal(write(ready, "r", 1), 1);
        (void)!read(end, &byte, 1);
        _exit(0); /* without closing: as when it is killed */
}

static void test_two_processes(void **state) {
        struct cache_place p;
        struct cache_file  f;
        int                ready[2], end[2], status;
        char               byte;
        pid_t              child;

        (void)state;
        open_place(&p, 0, true);
        assert_int_equal(pipe(ready), 0);
        assert_int_equal(pipe(end), 0);
        child = fork();
        if (child == 0)
                hold_file(&p, ready[1], end[0]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        f = open_file(&p, "a", SIZE, CACHE_BUSY);
        cache_file_close(&f);
        fill(&p, "b", 10, 'b'); /* another file is not held */
        assert_int_equal(write(end[1], "e", 1), 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        f = open_file(&p, "a", SIZE, CACHE_PART);
        assert_memory_equal(f.has_piece, ((unsigned char[]){ 0, 1, 0 }), PIECES);
        cache_file_close(&f);
        for (int i = 0; i < 2; i++) {
                close(ready[i]);
                close(end[i]);
        }
        close_place(&p);
}

/* ---- between two looks --------------------------------------------------------------------- */

static struct {
        struct cache_place *place; /* NULL: nothing happens */
        const char         *name;
} other;

struct error *__real_file_open_locked(const char *path, int flags, int *ret_fd);
struct error *__wrap_file_open_locked(const char *path, int flags, int *ret_fd);

/* Another server fetches the whole file after this one has seen that it is not there. */
struct error *__wrap_file_open_locked(const char *path, int flags, int *ret_fd) {
        struct cache_place *place = other.place;

        other.place = NULL;
        if (place != NULL)
                fill(place, other.name, 100, 'x');
        return __real_file_open_locked(path, flags, ret_fd);
}

static void test_a_file_that_another_one_completes(void **state) {
        struct cache_place p;
        struct cache_file  f;
        AUTO_CHARS         target = NULL;

        (void)state;
        open_place(&p, 0, true);
        other.name = "a";
        other.place = &p;
        f = open_file(&p, "a", 100, CACHE_WHOLE);
        assert_int_equal(f.fd, -1);
        target = temp_tree_path(&p.tree, "target");
        assert_null(cache_file_link(&f, target));
        cache_file_close(&f);
        assert_int_equal(count_files(&p), 1);
        close_place(&p);
}

/* ---- eviction ------------------------------------------------------------------------------ */

/* Sets the time of the last use. */
static void set_use(struct cache_place *p, const char *name, time_t seconds) {
        const struct timespec times[] = { { .tv_sec = seconds }, { .tv_sec = seconds } };
        AUTO_CHARS            path = NULL;
        AUTO_CHARS            relative = NULL;
        char                  key[CACHE_KEY_CHARS + 1];

        key_of(name, key);
        relative = mem_printf("cache/%s", key);
        path = temp_tree_path(&p->tree, relative);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void assert_whole(struct cache_place *p, const char *name, size_t n, bool is_there) {
        struct cache_file f = open_file(p, name, n, is_there ? CACHE_WHOLE : CACHE_PART);

        cache_file_discard(&f);
        cache_file_close(&f);
}

static void test_eviction(void **state) {
        const size_t       n = 65536;
        struct cache_place p;
        struct cache_file  f;
        AUTO_CHARS         target = NULL;

        (void)state;
        open_place(&p, 2 * n + n / 2, true);
        for (const char *name = "abcd"; *name != '\0'; name++) {
                fill(&p, (char[]){ *name, '\0' }, n, *name);
                set_use(&p, (char[]){ *name, '\0' }, 1000 + *name);
        }
        f = open_file(&p, "a", n, CACHE_WHOLE);
        target = temp_tree_path(&p.tree, "target");
        assert_null(cache_file_link(&f, target));
        cache_file_close(&f);
        set_use(&p, "a", 1);
        store_cache_evict(p.cache);
        assert_whole(&p, "a", n, true); /* it is in use */
        assert_whole(&p, "b", n, false);
        assert_whole(&p, "c", n, false);
        assert_whole(&p, "d", n, true);
        close_place(&p);
}

static void test_nothing_is_kept(void **state) {
        struct cache_place p;
        struct cache_file  f;
        AUTO_CHARS         target = NULL;

        (void)state;
        open_place(&p, 0, false);
        fill(&p, "a", 100, 'a');
        fill(&p, "b", 100, 'b');
        f = open_file(&p, "a", 100, CACHE_WHOLE);
        target = temp_tree_path(&p.tree, "target");
        assert_null(cache_file_link(&f, target));
        cache_file_close(&f);
        f = open_file(&p, "c", SIZE, CACHE_PART); /* being fetched */
        assert_int_equal(count_files(&p), 4);
        store_cache_drop_unused(p.cache);
        assert_int_equal(count_files(&p), 3); /* a, and c with its record */
        cache_file_close(&f);
        store_cache_drop_unused(p.cache);
        assert_int_equal(count_files(&p), 1);
        assert_int_equal(unlink(target), 0);
        store_cache_drop_unused(p.cache);
        assert_int_equal(count_files(&p), 0);
        close_place(&p);
}

/* Another process has the lock, as a server that was stopped during an eviction would. */
static void test_an_eviction_waits_for_no_process(void **state) {
        struct cache_place p;
        AUTO_CHARS         path = NULL;
        int                fd;

        (void)state;
        open_place(&p, 0, false);
        fill(&p, "a", 100, 'a');
        path = temp_tree_path(&p.tree, "cache/lock");
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* flock() is by opened file */
        assert_int_equal(flock(fd, LOCK_EX), 0);
        store_cache_drop_unused(p.cache);
        assert_int_equal(count_files(&p), 1);
        close(fd);
        store_cache_drop_unused(p.cache);
        assert_int_equal(count_files(&p), 0);
        close_place(&p);
}

/* The memory for the pieces of an object is that of the size that a store claims. */
static void test_a_size_that_no_object_has(void **state) {
        const uint64_t     sizes[] = { STORE_MAX_OBJECT_BYTES + 1, (uint64_t)1 << 62, UINT64_MAX };
        struct cache_place p;

        (void)state;
        open_place(&p, 0, true);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                struct cache_file f;
                enum cache_state  found;
                char              key[CACHE_KEY_CHARS + 1];
                struct error     *err;

                key_of("a", key);
                err = cache_file_open(p.cache, key, sizes[i], true, &f, &found);
                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_non_null(strstr(err->message, "bytes is too large"));
                error_free(err);
        }
        assert_int_equal(count_files(&p), 0);
        close_place(&p);
}

/* Another file system for the copy, on which there is no room. */
static void test_half_a_copy_does_not_stay(void **state) {
        char               folder[] = "/dev/shm/neso-test-XXXXXX";
        struct rlimit      old, limit;
        struct cache_place p;
        struct cache_file  f;
        AUTO_CHARS         target = NULL;
        struct stat        here, there;
        struct error      *err;

        (void)state;
        if (mkdtemp(folder) == NULL)
                skip();
        open_place(&p, 0, true);
        fill(&p, "a", 100000, 'a');
        f = open_file(&p, "a", 100000, CACHE_WHOLE);
        assert_int_equal(stat(f.path, &here), 0);
        assert_int_equal(stat(folder, &there), 0);
        target = path_join(folder, "target");
        (void)signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        limit = (struct rlimit){ .rlim_cur = 50000, .rlim_max = old.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        err = cache_file_link(&f, target);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        if (here.st_dev != there.st_dev) {
                assert_non_null(err);
                error_free(err);
                assert_int_equal(access(target, F_OK), -1);
                assert_null(cache_file_link(&f, target));
        }
        assert_int_equal(stat(target, &there), 0);
        assert_int_equal(there.st_size, 100000);
        cache_file_close(&f);
        assert_null(dir_remove(folder));
        close_place(&p);
}

SUITE(store_cache) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_keys),
                cmocka_unit_test(test_a_file),
                cmocka_unit_test(test_what_is_there_is_not_fetched_again),
                cmocka_unit_test(test_an_old_record_does_not_count),
                cmocka_unit_test(test_two_processes),
                cmocka_unit_test(test_a_file_that_another_one_completes),
                cmocka_unit_test(test_eviction),
                cmocka_unit_test(test_an_eviction_waits_for_no_process),
                cmocka_unit_test(test_nothing_is_kept),
                cmocka_unit_test(test_half_a_copy_does_not_stay),
                cmocka_unit_test(test_a_size_that_no_object_has),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
