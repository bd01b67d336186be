/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "auth/api_keys.h"
#include "backend/temp_tree.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define ONE "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
#define TWO "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"

static void test_reload(void **state) {
        struct temp_tree    tree = temp_tree_make();
        AUTO_CHARS          path = temp_tree_path(&tree, "keys");
        AUTO_ERROR          err = NULL;
        struct api_keys    *k;
        struct api_key_set *first, *second;

        (void)state;
        temp_tree_write(&tree, "keys", "a " ONE " health");
        assert_null(api_keys_open(path, &k));
        assert_int_equal(api_keys_count(k), 1);
        first = api_keys_hold(k);
        assert_ptr_equal(first, api_keys_current(k));

        temp_tree_write(&tree, "keys", "b " ONE " health\nc " TWO " health");
        assert_null(api_keys_reload(k));
        second = api_keys_hold(k);
        assert_ptr_not_equal(first, second);
        assert_int_equal(api_keys_count(k), 2);
        assert_string_equal(first->file.keys[0].name, "a"); /* who holds it has it */
        assert_string_equal(second->file.keys[0].name, "b");

        temp_tree_write(&tree, "keys", "b " ONE " helth");
        err = api_keys_reload(k);
        assert_non_null(err);
        assert_non_null(strstr(err->message, "/keys:1:68: unknown group 'helth'; did you mean "
                                             "'health'?"));
        assert_int_equal(api_keys_count(k), 2);
        assert_ptr_equal(api_keys_current(k), second);

        /* What nobody holds is used again. */
        api_keys_release(first);
        temp_tree_write(&tree, "keys", "d " TWO " health");
        assert_null(api_keys_reload(k));
        assert_ptr_equal(api_keys_current(k), first);
        assert_string_equal(second->file.keys[1].name, "c");
        api_keys_release(second);
        api_keys_free(k);
        temp_tree_remove(&tree);
}

static void test_missing_file(void **state) {
        struct api_keys *k = NULL;
        AUTO_ERROR       err = api_keys_open("/nowhere/keys", &k);

        (void)state;
        assert_null(k);
        assert_string_equal(err->message,
                            "unable to open '/nowhere/keys': No such file or directory");
        api_keys_free(NULL);
}

static void test_permissions(void **state) {
        struct temp_tree tree = temp_tree_make();
        AUTO_CHARS       path = temp_tree_path(&tree, "keys");
        struct api_keys *k;

        (void)state;
        temp_tree_write(&tree, "keys", "a " ONE " health");
        assert_null(api_keys_open(path, &k));
        assert_int_equal(chmod(path, 0644), 0);
        assert_false(api_keys_are_writable_by_others(k));
        assert_int_equal(chmod(path, 0620), 0);
        assert_true(api_keys_are_writable_by_others(k));
        assert_int_equal(chmod(path, 0602), 0);
        assert_true(api_keys_are_writable_by_others(k));
        assert_string_equal(api_keys_path(k), path);
        api_keys_free(k);
        temp_tree_remove(&tree);
}

/* Loops look while the file is read again and again: each sees one reading or the other, whole. */
struct crowd {
        struct api_keys *keys;
        _Atomic bool     is_over;
        _Atomic size_t   n_seen;
};

static void *look(void *argument) {
        struct crowd *c = argument;

        while (!atomic_load(&c->is_over)) {
                struct api_key_set   *set = api_keys_hold(c->keys);
                const struct api_key *key = &set->file.keys[0];

                if (strcmp(key->name, "first") == 0) {
                        assert_int_equal(set->file.n_keys, 1);
                        assert_string_equal(key->models, "x");
                } else {
                        assert_string_equal(key->name, "second");
                        assert_int_equal(set->file.n_keys, 2);
                }
                api_keys_release(set);
                atomic_fetch_add(&c->n_seen, 1);
        }
        return NULL;
}

static void test_readers_meanwhile(void **state) {
        struct temp_tree tree = temp_tree_make();
        AUTO_CHARS       path = temp_tree_path(&tree, "keys");
        struct crowd     c = { 0 };
        pthread_t        threads[3];

        (void)state;
        temp_tree_write(&tree, "keys", "first " ONE " health x");
        assert_null(api_keys_open(path, &c.keys));
        for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                assert_int_equal(pthread_create(&threads[i], NULL, look, &c), 0);
        for (unsigned i = 0; i < 200 || atomic_load(&c.n_seen) < 1000; i++) {
                temp_tree_write(&tree, "keys",
                                i % 2 ? "first " ONE " health x"
                                      : "second " ONE " health\nthird " TWO " health");
                assert_null(api_keys_reload(c.keys));
        }
        atomic_store(&c.is_over, true);
        for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                pthread_join(threads[i], NULL);
        api_keys_free(c.keys);
        temp_tree_remove(&tree);
}

SUITE(api_keys) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reload),
                cmocka_unit_test(test_missing_file),
                cmocka_unit_test(test_permissions),
                cmocka_unit_test(test_readers_meanwhile),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
