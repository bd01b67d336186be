/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "repo/repo_place.h"
#include "repo/repo_private.h"

#include <string.h>
#include <unistd.h>

static const char *const folders[] = { "models", "more" };

static void begin(struct repo_place *p) {
        repo_place_begin(p);
        temp_tree_folder(&p->tree, "models");
        temp_tree_folder(&p->tree, "more");
        repo_place_add(p, "a", "");
        p->is_followed = true;
        repo_place_open(p, folders, ARRAY_LEN(folders));
}

static void end(struct repo_place *p) {
        repo_place_close(p);
        repo_place_end(p);
}

static void assert_index(struct repo_place *p, bool only_ready, const char *expected) {
        struct repo_index index;
        AUTO_STRBUF       text = { 0 };

        repo_index_read(p->repo, only_ready, &index);
        strbuf_init(&text, 0);
        repo_index_print(&index, &text);
        assert_string_equal(strbuf_cstr(&text), expected);
        repo_index_done(&index);
}

#define NEVER(name) "{\"name\":\"" name "\"}"
#define READY(name) "{\"name\":\"" name "\",\"version\":\"1\",\"state\":\"READY\"}"
#define TWICE(name)                                                                                \
        "{\"name\":\"" name "\",\"state\":\"UNAVAILABLE\","                                        \
        "\"reason\":\"model appears in two or more repositories\"}"

/* Directories come and go. */
static void test_directories(void **state) {
        struct repo_place p;
        AUTO_CHARS        b = NULL;

        (void)state;
        begin(&p);
        assert_index(&p, false, "[" NEVER("a") "]");
        temp_tree_folder(&p.tree, "more/b");
        assert_index(&p, false, "[" NEVER("a") "," NEVER("b") "]");
        b = temp_tree_path(&p.tree, "more/b");
        assert_int_equal(rmdir(b), 0);
        assert_index(&p, false, "[" NEVER("a") "]");
        end(&p);
}

/* What a link leads to can go without a trace in the directory that has the link. */
static void test_links(void **state) {
        struct repo_place p;
        AUTO_CHARS        target = NULL;
        AUTO_CHARS        link = NULL;

        (void)state;
        begin(&p);
        temp_tree_folder(&p.tree, "elsewhere");
        target = temp_tree_path(&p.tree, "elsewhere");
        link = temp_tree_path(&p.tree, "more/linked");
        assert_int_equal(symlink(target, link), 0);
        assert_index(&p, false, "[" NEVER("a") "," NEVER("linked") "]");
        assert_int_equal(rmdir(target), 0);
        assert_index(&p, false, "[" NEVER("a") "]");
        end(&p);
}

static void test_unreadable_repository(void **state) {
        struct repo_place p;
        AUTO_CHARS        path = NULL;

        (void)state;
        begin(&p);
        path = temp_tree_path(&p.tree, "more");
        assert_int_equal(rmdir(path), 0);
        assert_index(&p, false, "[" NEVER("a") "]");
        assert_true(repo_is_readable(p.repo));
        temp_tree_folder(&p.tree, "more/b");
        assert_index(&p, false, "[" NEVER("a") "," NEVER("b") "]");
        end(&p);
}

/* Another repository; another name for a directory. */
static void test_other_repositories(void **state) {
        struct repo_place p;
        AUTO_CHARS        path = NULL;

        (void)state;
        begin(&p);
        temp_tree_folder(&p.tree, "more/b");
        assert_index(&p, false, "[" NEVER("a") "," NEVER("b") "]");
        path = temp_tree_path(&p.tree, "more");
        assert_null(repo_remove_path(p.repo, path));
        assert_index(&p, false, "[" NEVER("a") "]");
        assert_null(repo_add_path(p.repo, path, &(struct repo_name){ "b", "renamed" }, 1));
        assert_index(&p, false, "[" NEVER("a") "," NEVER("renamed") "]");
        end(&p);
}

/* Directories without a model in the table, before, between and after those that are there. */
static void test_merged_in_order(void **state) {
        struct repo_place p;

        (void)state;
        begin(&p);
        repo_place_add(&p, "c", "");
        temp_tree_folder(&p.tree, "models/both");
        temp_tree_folder(&p.tree, "more/both");
        temp_tree_folder(&p.tree, "models/0");
        temp_tree_folder(&p.tree, "models/z");
        assert_null(repo_load(p.repo, "a", NULL));
        assert_null(repo_load(p.repo, "c", NULL));
        assert_index(&p, false,
                     "[" NEVER("0") "," READY("a") "," TWICE("both") "," READY("c") "," NEVER(
                             "z") "]");
        assert_index(&p, true, "[" READY("a") "," READY("c") "]");
        temp_tree_folder(&p.tree, "more/c"); /* a twin of what serves */
        assert_index(&p, false,
                     "[" NEVER("0") "," READY("a") "," TWICE("both") "," TWICE("c") "," READY(
                             "c") "," NEVER("z") "]");
        end(&p);
}

static struct repo_entry *add_locked(struct repo_place *p, const char *name) {
        return repo_table_add_locked(&p->repo->table, &(struct model_key){ "", name }, "/", "");
}

/* Each state of versions; a model without a version to load is left out, unless it is there twice. */
static void test_versions(void **state) {
        static const char expected[] =
                "[" NEVER("a") ",{\"name\":\"m\",\"version\":\"1\",\"state\":\"UNAVAILABLE\","
                               "\"reason\":\"unloaded\"},{\"name\":\"m\",\"version\":\"3\","
                               "\"state\":\"LOADING\"},"
                               "{\"name\":\"m\",\"version\":\"4\",\"state\":\"UNAVAILABLE\","
                               "\"reason\":\"waits for "
                               "\\\"n\\\"\"}]";
        struct repo_place    p;
        struct repo_entry   *e;
        struct repo_version *v;

        (void)state;
        begin(&p);
        mutex_lock(&p.repo->table.lock);
        e = add_locked(&p, "m");
        v = repo_entry_add_version_locked(e, 3);
        assert_null(repo_version_set_locked(v, VERSION_LOADING, NULL, NULL));
        v = repo_entry_add_version_locked(e, 1);
        assert_null(repo_version_set_locked(v, VERSION_UNAVAILABLE, "unloaded", NULL));
        v = repo_entry_add_version_locked(e, 4);
        assert_null(repo_version_set_locked(v, VERSION_LOADING, NULL, NULL));
        repo_version_block_locked(v, &(struct repo_block){ .why = "waits for \"n\"" });
        repo_entry_set_versionless_locked(add_locked(&p, "none"), true);
        mutex_unlock(&p.repo->table.lock);
        assert_index(&p, false, expected);
        assert_index(&p, true, "[]");
        end(&p);
}

/* An index that is read stays as it was. */
static void test_outlives_its_models(void **state) {
        struct repo_place p;
        struct repo_index index;
        AUTO_STRBUF       text = { 0 };

        (void)state;
        begin(&p);
        mutex_lock(&p.repo->table.lock);
        add_locked(&p, "gone");
        mutex_unlock(&p.repo->table.lock);
        repo_index_read(p.repo, false, &index);
        mutex_lock(&p.repo->table.lock);
        repo_table_forget_locked(&p.repo->table, repo_table_first_locked(&p.repo->table, "gone"));
        mutex_unlock(&p.repo->table.lock);
        strbuf_init(&text, 0);
        repo_index_print(&index, &text);
        assert_string_equal(strbuf_cstr(&text), "[" NEVER("a") "," NEVER("gone") "]");
        repo_index_done(&index);
        assert_index(&p, false, "[" NEVER("a") "]");
        end(&p);
}

SUITE(repo_index) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_directories),
                cmocka_unit_test(test_links),
                cmocka_unit_test(test_unreadable_repository),
                cmocka_unit_test(test_other_repositories),
                cmocka_unit_test(test_merged_in_order),
                cmocka_unit_test(test_versions),
                cmocka_unit_test(test_outlives_its_models),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
