/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/log_lines.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/repo_place.h"
#include "repo/repo_scan.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const folders[] = { "models", "more" };

static const struct found_model *find(const struct repo_scan *scan, const char *name) {
        return repo_scan_find(scan, &(struct model_key){ "", name });
}

/* "name:relative path[:twice]" of each model. */
static void assert_scan(struct repo_place *p, const char *only, const char *expected) {
        AUTO_STRBUF      text = { 0 };
        struct repo_scan scan;
        size_t           n;

        strbuf_init(&text, 0);
        strbuf_printf(&text, "%s", "");
        repo_scan_read_one(p->repo, only, &scan);
        assert_int_equal(scan.n_failures, 0);
        for (size_t i = 0; i < scan.n_models; i++) {
                const struct found_model *m = &scan.models[i];

                assert_ptr_equal(repo_scan_find(&scan, &m->key), m);
                assert_ptr_equal(repo_scan_find_name(&scan, m->key.name, &n), m);
                assert_int_equal(n, 1);
                strbuf_printf(&text, "%s:%s%s\n", m->key.name,
                              m->directory + strlen(p->tree.path) + 1,
                              m->is_duplicate ? ":twice" : "");
        }
        assert_null(find(&scan, "nobody"));
        assert_null(find(&scan, "../models/a"));
        assert_null(find(&scan, ""));
        repo_scan_done(&scan);
        assert_string_equal(strbuf_cstr(&text), expected);
}

static void test_scan(void **state) {
        static const char *const nobody[] = { "file", "broken", ".hidden", ".",   "..",
                                              "",     "a/../b", "a/",      "./a", "../models/a" };

        struct repo_place p;
        AUTO_CHARS        link = NULL;
        AUTO_CHARS        target = NULL;
        AUTO_CHARS        broken = NULL;

        (void)state;
        repo_place_begin(&p);
        temp_tree_folder(&p.tree, "models/b");
        temp_tree_folder(&p.tree, "models/a");
        temp_tree_folder(&p.tree, "models/twin");
        temp_tree_folder(&p.tree, "models/.hidden");
        temp_tree_write(&p.tree, "models/file", "");
        temp_tree_folder(&p.tree, "more/twin");
        temp_tree_folder(&p.tree, "more/A");
        temp_tree_folder(&p.tree, "elsewhere/linked");
        link = temp_tree_path(&p.tree, "more/linked");
        target = temp_tree_path(&p.tree, "elsewhere/linked");
        broken = temp_tree_path(&p.tree, "more/broken");
        assert_int_equal(symlink(target, link), 0);
        assert_int_equal(symlink("nowhere", broken), 0);
        repo_place_open(&p, folders, 2);
        assert_scan(&p, NULL,
                    "A:more/A\na:models/a\nb:models/b\nlinked:more/linked\n"
                    "twin:models/twin:twice\n");
        assert_scan(&p, "a", "a:models/a\n");
        assert_scan(&p, "twin", "twin:models/twin:twice\n");
        assert_scan(&p, "linked", "linked:more/linked\n");
        for (size_t i = 0; i < ARRAY_LEN(nobody); i++)
                assert_scan(&p, nobody[i], "");
        repo_place_end(&p);
}

/* Directories with other names; their own names are nobody's then. A given name means its directory,
 * although another one is called so. */
static void test_names(void **state) {
        const struct repo_name names[] = { { "inside", "outside" },
                                           { "left", "right" },
                                           { "left", "wrong" },
                                           { "../models/right", "far" } };
        struct repo_place      p;
        AUTO_CHARS             more = NULL;

        (void)state;
        repo_place_begin(&p);
        temp_tree_folder(&p.tree, "models/right");
        temp_tree_folder(&p.tree, "more/inside");
        temp_tree_folder(&p.tree, "more/left");
        repo_place_open(&p, folders, 1);
        more = temp_tree_path(&p.tree, "more");
        assert_ok(repo_add_path(p.repo, more, names, ARRAY_LEN(names)), "add");
        assert_scan(&p, NULL, "outside:more/inside\nright:more/left\nwrong:more/left\n");
        assert_scan(&p, "inside", "");
        assert_scan(&p, "outside", "outside:more/inside\n");
        assert_scan(&p, "right", "right:more/left\n");
        assert_scan(&p, "left", "");
        assert_scan(&p, "wrong", "wrong:more/left\n");
        assert_scan(&p, "far", "");
        repo_place_end(&p);
}

/* The others are there all the same, and the log hears of each change once. */
static void test_unreadable(void **state) {
        struct repo_place   p;
        struct repo_scan    scan;
        const struct error *err;
        AUTO_CHARS          text = NULL;
        AUTO_CHARS          bad = NULL;
        AUTO_CHARS          good = NULL;
        AUTO_CHARS          more = NULL;

        (void)state;
        repo_place_begin(&p);
        temp_tree_folder(&p.tree, "models/a");
        repo_place_open(&p, folders, 2); /* there is no "more" */
        more = temp_tree_path(&p.tree, "more");
        text = mem_printf("failed to read model repository '%s': ", more);
        bad = mem_printf("E %s", text);
        good = mem_printf("I model repository '%s' can be read again", more);
        log_lines_begin();
        for (int i = 0; i < 3; i++) {
                repo_scan_read(p.repo, &scan);
                assert_int_equal(scan.n_models, 1);
                assert_non_null(find(&scan, "a"));
                assert_int_equal(scan.n_failures, 1);
                assert_string_equal(scan.failures[0].repository, more);
                err = repo_scan_find_failure(&scan, more);
                assert_memory_equal(err->message, text, strlen(text));
                assert_null(repo_scan_find_failure(&scan, scan.models[0].repository));
                repo_scan_done(&scan);
        }
        assert_int_equal(log_lines_count_prefix(bad), 1);
        temp_tree_folder(&p.tree, "more/b");
        for (int i = 0; i < 3; i++) {
                repo_scan_read(p.repo, &scan);
                assert_int_equal(scan.n_models, 2);
                assert_int_equal(scan.n_failures, 0);
                repo_scan_done(&scan);
        }
        assert_int_equal(log_lines_count_prefix(bad), 1);
        assert_int_equal(log_lines_count(good), 1);
        log_lines_end();
        repo_place_end(&p);
}

/* Its names can be listed, and nothing can be asked of them: nobody may take them for gone. */
static void test_directory_without_search_permission(void **state) {
        struct repo_place p;
        struct repo_scan  scan;
        AUTO_CHARS        models = NULL;

        (void)state;
        if (geteuid() == 0) /* whom no permission stops */
                skip();
        repo_place_begin(&p);
        temp_tree_folder(&p.tree, "models/a");
        repo_place_open(&p, folders, 1);
        models = temp_tree_path(&p.tree, "models");
        assert_int_equal(chmod(models, 0400), 0);
        log_lines_begin();
        repo_scan_read(p.repo, &scan);
        log_lines_end();
        assert_int_equal(chmod(models, 0700), 0);
        assert_int_equal(scan.n_failures, 1);
        repo_scan_done(&scan);
        repo_place_end(&p);
}

SUITE(repo_scan) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_scan),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_unreadable),
                cmocka_unit_test(test_directory_without_search_permission),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
