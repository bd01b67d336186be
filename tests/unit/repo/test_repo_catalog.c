/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "repo/repo_catalog.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "infer/fake_model.h"
#include "repo/index_line.h"
#include "repo/repo_inside.h"
#include "repo/repo_place.h"

static const char *const folders[] = { "models", "more" };

struct place {
        struct repo_place p;
        uint64_t          later_ns; /* when every stamp of now has settled */
};

static void begin(struct place *q) {
        repo_place_begin(&q->p);
        temp_tree_folder(&q->p.tree, "models");
        temp_tree_folder(&q->p.tree, "more");
        repo_place_add(&q->p, "a", "");
        q->p.is_followed = true;
        repo_place_open(&q->p, folders, ARRAY_LEN(folders));
        q->later_ns = clock_wall_ns() + 10 * NS_PER_S;
}

static void end(struct place *q) {
        repo_place_close(&q->p);
        repo_place_end(&q->p);
}

/* The lines of all models, and the catalog (a reference). */
static struct repo_catalog *assert_lines(struct place *q, uint64_t wall_ns, const char *expected) {
        struct repo_catalog *c = repo_catalog_get(q->p.repo, wall_ns);
        AUTO_STRBUF          text = { 0 };

        strbuf_init(&text, 0);
        for (size_t i = 0; i < c->scan.n_models; i++)
                strbuf_put(&text, c->texts + c->lines[i].begin, c->lines[i].len);
        assert_string_equal(strbuf_cstr(&text), expected);
        return c;
}

/* Elsewhere nothing is kept, and there is nothing to see. */
static void need_local_files(struct place *q) {
        AUTO_CHARS       path = temp_tree_path(&q->p.tree, "models");
        struct dir_stamp stamp;
        AUTO_ERROR       err = dir_stamp_read(path, &stamp);

        assert_null(err);
        if (!stamp.is_local) {
                end(q);
                skip();
        }
}

static void test_kept_until_a_change(void **state) {
        struct place         q;
        struct repo_catalog *first, *again, *other;

        (void)state;
        begin(&q);
        need_local_files(&q);
        first = assert_lines(&q, q.later_ns, "{\"name\":\"a\"}");
        again = assert_lines(&q, q.later_ns, "{\"name\":\"a\"}");
        assert_ptr_equal(first, again);
        temp_tree_folder(&q.p.tree, "more/b");
        other = assert_lines(&q, clock_wall_ns() + 10 * NS_PER_S, "{\"name\":\"a\"}{\"name\":\"b\"}");
        assert_ptr_not_equal(other, first);
        repo_catalog_unref(first);
        repo_catalog_unref(again);
        repo_catalog_unref(other);
        end(&q);
}

/* Before the stamps have settled, each look is a new one. */
static void test_not_kept_too_early(void **state) {
        struct place         q;
        struct repo_catalog *first, *again;

        (void)state;
        begin(&q);
        first = assert_lines(&q, 1, "{\"name\":\"a\"}");
        again = assert_lines(&q, 1, "{\"name\":\"a\"}");
        assert_ptr_not_equal(first, again);
        assert_null(q.p.repo->catalog);
        repo_catalog_unref(first);
        repo_catalog_unref(again);
        end(&q);
}

/* What a link leads to can go without a trace in the directory that has the link. */
static void test_not_kept_with_links(void **state) {
        struct place q;
        AUTO_CHARS   target = NULL;
        AUTO_CHARS   link = NULL;

        (void)state;
        begin(&q);
        temp_tree_folder(&q.p.tree, "elsewhere");
        target = temp_tree_path(&q.p.tree, "elsewhere");
        link = temp_tree_path(&q.p.tree, "more/linked");
        assert_int_equal(symlink(target, link), 0);
        q.later_ns = clock_wall_ns() + 10 * NS_PER_S;
        repo_catalog_unref(
                assert_lines(&q, q.later_ns, "{\"name\":\"a\"}{\"name\":\"linked\"}"));
        assert_int_equal(rmdir(target), 0);
        repo_catalog_unref(assert_lines(&q, q.later_ns, "{\"name\":\"a\"}"));
        assert_null(q.p.repo->catalog);
        end(&q);
}

static void test_not_kept_when_one_is_unreadable(void **state) {
        struct place         q;
        struct repo_catalog *c;
        AUTO_CHARS           path = NULL;

        (void)state;
        begin(&q);
        path = temp_tree_path(&q.p.tree, "more");
        assert_int_equal(rmdir(path), 0);
        c = assert_lines(&q, q.later_ns, "{\"name\":\"a\"}");
        assert_int_equal(c->scan.n_failures, 1);
        assert_null(q.p.repo->catalog);
        repo_catalog_unref(c);
        end(&q);
}

/* Other repositories are other models, whatever the directories' stamps say. */
static void test_other_repositories(void **state) {
        struct place q;
        AUTO_CHARS   path = NULL;
        AUTO_ERROR   err = NULL;

        (void)state;
        begin(&q);
        temp_tree_folder(&q.p.tree, "more/b");
        q.later_ns = clock_wall_ns() + 10 * NS_PER_S;
        repo_catalog_unref(assert_lines(&q, q.later_ns, "{\"name\":\"a\"}{\"name\":\"b\"}"));
        path = temp_tree_path(&q.p.tree, "more");
        err = repo_remove_path(q.p.repo, path);
        assert_null(err);
        repo_catalog_unref(assert_lines(&q, q.later_ns, "{\"name\":\"a\"}"));
        err = repo_add_path(q.p.repo, path, &(struct repo_name){ "b", "renamed" }, 1);
        assert_null(err);
        repo_catalog_unref(assert_lines(&q, q.later_ns, "{\"name\":\"a\"}{\"name\":\"renamed\"}"));
        end(&q);
}

/* Lines that were printed once say what their fields say. */
static void test_index_lines(void **state) {
        static const char expected[] =
                "[{\"name\":\"a\",\"version\":\"1\",\"state\":\"READY\"},"
                "{\"name\":\"both\",\"state\":\"UNAVAILABLE\","
                "\"reason\":\"model appears in two or more repositories\"},"
                "{\"name\":\"never\"}]";
        struct place      q;
        struct repo_index index;
        AUTO_STRBUF       text = { 0 };

        (void)state;
        begin(&q);
        temp_tree_folder(&q.p.tree, "more/both");
        temp_tree_folder(&q.p.tree, "models/both");
        temp_tree_folder(&q.p.tree, "models/never");
        assert_null(repo_load(q.p.repo, "a", NULL));
        for (int i = 0; i < 2; i++) {
                repo_index_read(q.p.repo, false, &index);
                for (size_t k = 0; i == 1 && k < index.n_entries; k++)
                        index.entries[k].line.len = 0;
                strbuf_init(&text, 0);
                repo_index_print(&index, &text);
                assert_string_equal(strbuf_cstr(&text), expected);
                strbuf_done(&text);
                repo_index_done(&index);
        }
        end(&q);
}

/* A line that could not be printed whole is not kept as it is. */
static void test_memory_is_short(void **state) {
        static const char expected[] = "[{\"name\":\"a\",\"version\":\"1\",\"state\":\"READY\"},"
                                       "{\"name\":\"never\"}]";
        struct place      q;
        bool              was_hit = true, lacks_lines = false;

        (void)state;
        begin(&q);
        temp_tree_folder(&q.p.tree, "models/never");
        assert_null(repo_load(q.p.repo, "a", NULL));
        for (unsigned n = 1; was_hit; n++) {
                struct repo_entry *e;
                struct repo_index  index;
                AUTO_STRBUF        text = { 0 };

                mem_fail_after(n);
                mutex_lock(&q.p.repo->table.lock);
                e = repo_table_first_locked(&q.p.repo->table, "a");
                repo_entry_set_wanted_locked(e, n % 2 != 0); /* listed anew */
                mutex_unlock(&q.p.repo->table.lock);
                repo_index_read(q.p.repo, false, &index);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                for (size_t i = 0; i < index.n_entries; i++)
                        lacks_lines = lacks_lines || index.entries[i].line.len == 0;
                strbuf_init(&text, 0);
                repo_index_print(&index, &text);
                assert_string_equal(strbuf_cstr(&text), expected);
                repo_index_done(&index);
        }
        assert_true(lacks_lines);
        end(&q);
}

SUITE(repo_catalog) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kept_until_a_change),
                cmocka_unit_test(test_not_kept_too_early),
                cmocka_unit_test(test_not_kept_with_links),
                cmocka_unit_test(test_not_kept_when_one_is_unreadable),
                cmocka_unit_test(test_other_repositories),
                cmocka_unit_test(test_index_lines),
                cmocka_unit_test(test_memory_is_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
