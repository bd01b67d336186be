/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "repo/repo_scan.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/repo_place.h"

static const char *const folders[] = { "models", "more" };

/* "name:relative path[:twice]" of each model. */
static void assert_scan(struct repo_place *p, const char *only, const char *expected) {
        AUTO_STRBUF      text = { 0 };
        struct repo_scan scan;

        strbuf_init(&text, 0);
        strbuf_printf(&text, "%s", "");
        assert_ok(only != NULL ? repo_scan_read_one(p->repo, only, &scan)
                               : repo_scan_read(p->repo, &scan),
                  "scan");
        for (size_t i = 0; i < scan.n_models; i++) {
                const struct found_model *m = &scan.models[i];

                assert_ptr_equal(repo_scan_find(&scan, m->name), m);
                strbuf_printf(&text, "%s:%s%s\n", m->name, m->directory + strlen(p->tree.path) + 1,
                              m->is_duplicate ? ":twice" : "");
        }
        assert_null(repo_scan_find(&scan, "nobody"));
        assert_null(repo_scan_find(&scan, "../models/a"));
        assert_null(repo_scan_find(&scan, ""));
        repo_scan_done(&scan);
        assert_string_equal(strbuf_cstr(&text), expected);
}

static void test_scan(void **state) {
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
        assert_scan(&p, NULL, "A:more/A\na:models/a\nb:models/b\nlinked:more/linked\n"
                              "twin:models/twin:twice\n");
        assert_scan(&p, "a", "a:models/a\n");
        assert_scan(&p, "twin", "twin:models/twin:twice\n");
        assert_scan(&p, "file", "");
        assert_scan(&p, ".hidden", "");
        assert_scan(&p, "..", "");
        repo_place_end(&p);
}

/* A directory with another name; its own is nobody's then. */
static void test_names(void **state) {
        const struct repo_name names[] = { { "inside", "outside" }, { "left", "right" } };
        struct repo_place      p;
        AUTO_CHARS             more = NULL;

        (void)state;
        repo_place_begin(&p);
        temp_tree_folder(&p.tree, "models/right");
        temp_tree_folder(&p.tree, "more/inside");
        temp_tree_folder(&p.tree, "more/left");
        repo_place_open(&p, folders, 1);
        more = temp_tree_path(&p.tree, "more");
        assert_ok(repo_add_path(p.repo, more, names, 2), "add");
        assert_scan(&p, NULL, "outside:more/inside\nright:models/right:twice\n");
        assert_scan(&p, "inside", "");
        assert_scan(&p, "outside", "outside:more/inside\n");
        assert_scan(&p, "right", "right:models/right:twice\n");
        repo_place_end(&p);
}

static void test_unreadable(void **state) {
        struct repo_place p;
        struct repo_scan  scan;
        AUTO_CHARS        text = NULL;

        (void)state;
        repo_place_begin(&p);
        repo_place_open(&p, folders, 2); /* there is no "more" */
        AUTO_ERROR err = repo_scan_read(p.repo, &scan);

        text = mem_printf("failed to read model repository '%s/more'", p.tree.path);
        assert_non_null(err);
        assert_non_null(strstr(err->message, text));
        repo_place_end(&p);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_scan),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_unreadable),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
