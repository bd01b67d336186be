/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "infer/model.h"
#include "repo/repo_table.h"

#include <stdlib.h>

/* A model that only counts. */
struct stub {
        struct model model;
        unsigned     n_unused;
};

static void on_unused(struct model *model) {
        CONTAINER_OF(model, struct stub, model)->n_unused++;
}

static struct stub stub_of(int64_t version) {
        struct stub s = { .model.version = version, .model.on_unused = on_unused };

        ref_init(&s.model.ref);
        return s;
}

static struct repo_entry *find(struct repo_table *t, const char *name) {
        return repo_table_find_locked(t, &(struct model_key){ "", name });
}

static struct repo_entry *add(struct repo_table *t, const char *name, const char *directory) {
        return repo_table_add_locked(t, &(struct model_key){ "", name }, directory, "/models");
}

static void test_entries(void **state) {
        struct repo_table  t;
        struct repo_entry *a;

        (void)state;
        repo_table_init(&t);
        mutex_lock(&t.lock);
        assert_null(find(&t, "a"));
        a = add(&t, "a", "/models/a");
        assert_string_equal(a->name, "a");
        assert_string_equal(a->directory, "/models/a");
        assert_false(a->is_duplicate);
        assert_int_equal(a->n_versions, 0);
        assert_ptr_equal(find(&t, "a"), a);
        /* It stays where it was. */
        assert_ptr_equal(add(&t, "a", "/elsewhere/a"), a);
        assert_string_equal(a->directory, "/models/a");
        assert_null(find(&t, "A"));
        assert_null(find(&t, ""));
        mutex_unlock(&t.lock);
        repo_table_done(&t);
}

static void test_versions_ascend(void **state) {
        static const int64_t numbers[] = { 5, 1, INT64_MAX, 3, 4, 1, 5 };
        static const int64_t expected[] = { 1, 3, 4, 5, INT64_MAX };
        struct repo_table    t;
        struct repo_entry   *e;

        (void)state;
        repo_table_init(&t);
        mutex_lock(&t.lock);
        e = add(&t, "m", "/m");
        assert_null(repo_entry_latest_locked(e));
        assert_null(repo_entry_find_version_locked(e, 1));
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                assert_int_equal(repo_entry_add_version_locked(e, numbers[i])->number, numbers[i]);
        assert_int_equal(e->n_versions, ARRAY_LEN(expected));
        for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
                assert_int_equal(e->versions[i].number, expected[i]);
                assert_int_equal(e->versions[i].state, VERSION_UNKNOWN);
                assert_null(e->versions[i].reason);
                assert_null(e->versions[i].model);
                assert_ptr_equal(repo_entry_find_version_locked(e, expected[i]), &e->versions[i]);
        }
        assert_null(repo_entry_find_version_locked(e, 2));
        assert_null(repo_entry_find_version_locked(e, -1));
        mutex_unlock(&t.lock);
        repo_table_done(&t);
}

static void set(struct repo_entry *e, int64_t number, enum version_state state, const char *reason,
                struct model *model) {
        assert_null(repo_version_set_locked(repo_entry_add_version_locked(e, number), state, reason,
                                            model));
}

static void test_latest_is_the_highest_ready(void **state) {
        struct stub        first = stub_of(1), second = stub_of(2);
        struct repo_table  t;
        struct repo_entry *e;

        (void)state;
        repo_table_init(&t);
        mutex_lock(&t.lock);
        e = add(&t, "m", "/m");
        set(e, 3, VERSION_UNAVAILABLE, "unloaded", NULL);
        set(e, 4, VERSION_LOADING, NULL, NULL);
        assert_null(repo_entry_latest_locked(e));
        set(e, 1, VERSION_READY, NULL, &first.model);
        assert_int_equal(repo_entry_latest_locked(e)->number, 1);
        set(e, 2, VERSION_READY, NULL, &second.model);
        assert_int_equal(repo_entry_latest_locked(e)->number, 2);
        mutex_unlock(&t.lock);
        assert_int_equal(first.n_unused + second.n_unused, 0);
        repo_table_done(&t);
        assert_int_equal(first.n_unused, 1);
        assert_int_equal(second.n_unused, 1);
}

/* Clients that may load models determine the texts of errors, and the index has all of them. */
static void test_long_reasons_are_cut(void **state) {
        char                 text[REPO_REASON_MAX_BYTES + 4];
        struct repo_block    block = { .why = text };
        struct repo_version *v;
        struct repo_table    t;

        (void)state;
        memset(text, 'x', sizeof(text));
        repo_table_init(&t);
        mutex_lock(&t.lock);
        v = repo_entry_add_version_locked(add(&t, "m", "/m"), 1);
        text[REPO_REASON_MAX_BYTES] = '\0';
        assert_null(repo_version_set_locked(v, VERSION_UNAVAILABLE, text, NULL));
        assert_string_equal(v->reason, text);
        memcpy(&text[REPO_REASON_MAX_BYTES - 1], "\xe2\x82\xac", 4); /* a character of 3 bytes */
        assert_null(repo_version_set_locked(v, VERSION_UNAVAILABLE, text, NULL));
        assert_int_equal(strlen(v->reason), REPO_REASON_MAX_BYTES - 1 + 3);
        assert_string_equal(&v->reason[REPO_REASON_MAX_BYTES - 3], "xx...");
        repo_version_block_locked(v, &block);
        assert_string_equal(v->blocked, v->reason);
        mutex_unlock(&t.lock);
        repo_table_done(&t);
}

static void test_setting_gives_the_old_model(void **state) {
        struct stub          first = stub_of(1), second = stub_of(1);
        char                 reason[] = "Internal: x";
        struct repo_version *v;
        struct repo_table    t;

        (void)state;
        repo_table_init(&t);
        mutex_lock(&t.lock);
        v = repo_entry_add_version_locked(add(&t, "m", "/m"), 1);
        assert_null(repo_version_set_locked(v, VERSION_READY, NULL, &first.model));
        assert_ptr_equal(repo_version_set_locked(v, VERSION_READY, NULL, &second.model),
                         &first.model);
        assert_ptr_equal(repo_version_set_locked(v, VERSION_UNAVAILABLE, reason, NULL),
                         &second.model);
        reason[0] = '?';
        assert_int_equal(v->state, VERSION_UNAVAILABLE);
        assert_string_equal(v->reason, "Internal: x");
        assert_null(v->model);
        assert_null(repo_version_set_locked(v, VERSION_LOADING, NULL, NULL));
        assert_null(v->reason);
        mutex_unlock(&t.lock);
        repo_table_done(&t);
        /* They were handed out, so they are the caller's. */
        assert_int_equal(first.n_unused + second.n_unused, 0);
}

static void test_sorted_by_bytes(void **state) {
        static const char *const names[] = { "b", "a", "B", "aa", "\xc3\xa4", "0" };
        static const char *const expected[] = { "0", "B", "a", "aa", "b", "\xc3\xa4" };
        struct repo_entry      **sorted;
        struct repo_table        t;
        size_t                   n = 99;

        (void)state;
        repo_table_init(&t);
        mutex_lock(&t.lock);
        sorted = repo_table_sorted_locked(&t, &n);
        assert_int_equal(n, 0);
        free(sorted);
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                add(&t, names[i], "/");
        sorted = repo_table_sorted_locked(&t, &n);
        assert_int_equal(n, ARRAY_LEN(expected));
        for (size_t i = 0; i < n; i++)
                assert_string_equal(sorted[i]->name, expected[i]);
        free(sorted);
        mutex_unlock(&t.lock);
        repo_table_done(&t);
}

/* Names in no order come and go; of each there is one with another namespace. */
static void test_stays_sorted(void **state) {
        struct repo_table t;

        (void)state;
        repo_table_init(&t);
        mutex_lock(&t.lock);
        for (unsigned i = 0; i < 200; i++) {
                AUTO_CHARS name = mem_printf("m%03u", i * 37 % 100);

                repo_table_add_locked(&t, &(struct model_key){ i < 100 ? "x" : "", name }, "/", "");
        }
        for (unsigned i = 0; i < 100; i += 3) {
                AUTO_CHARS name = mem_printf("m%03u", i * 53 % 100);

                repo_table_forget_locked(&t, repo_table_first_locked(&t, name));
        }
        assert_int_equal(t.n_entries, 200 - 34);
        for (size_t i = 1; i < t.n_entries; i++) {
                int order = strcmp(t.sorted[i - 1]->name, t.sorted[i]->name);

                if (order == 0)
                        order = strcmp(t.sorted[i - 1]->namespace, t.sorted[i]->namespace);
                assert_true(order < 0);
        }
        mutex_unlock(&t.lock);
        repo_table_done(&t);
}

/* The entries whose backends must be queried. */
static size_t n_queried(struct repo_table *t) {
        size_t n = 0;

        LIST_FOR_EACH(&t->queried, node)
                n += LIST_ENTRY(node, struct repo_entry, queried)->n_may_be_unready > 0;
        return n;
}

/* What is counted, after each step of one story. */
static void test_counts_follow_each_change(void **state) {
        struct stub          first = stub_of(1), second = stub_of(2);
        struct repo_table    t;
        struct repo_entry   *a, *b;
        struct repo_version *v;

        (void)state;
        first.model.may_be_unready = true;
        repo_table_init(&t);
        mutex_lock(&t.lock);
        a = add(&t, "a", "/a");
        b = add(&t, "b", "/b");
        assert_int_equal(t.n_unready, 0);
        repo_entry_set_wanted_locked(a, true);
        repo_entry_set_wanted_locked(a, true);
        assert_int_equal(t.n_unready, 1);
        set(b, 1, VERSION_LOADING, NULL, NULL);
        assert_int_equal(t.n_unready, 2);
        set(a, 1, VERSION_READY, NULL, &first.model);
        assert_int_equal(t.n_unready, 1);
        assert_int_equal(n_queried(&t), 1);
        set(b, 1, VERSION_READY, NULL, &second.model);
        assert_int_equal(t.n_unready, 0);
        assert_int_equal(n_queried(&t), 1); /* the other cannot say such a thing */
        set(b, 2, VERSION_UNAVAILABLE, "Internal: broken", NULL);
        assert_int_equal(t.n_unready, 1);
        repo_entry_remove_version_locked(b, 2);
        assert_int_equal(t.n_unready, 0);

        v = repo_entry_find_version_locked(a, 1);
        assert_ptr_equal(repo_version_set_locked(v, VERSION_UNLOADING, NULL, NULL), &first.model);
        assert_int_equal(t.n_unready, 1);
        assert_int_equal(n_queried(&t), 0);
        assert_null(repo_version_set_locked(v, VERSION_UNAVAILABLE, "unloaded", NULL));
        assert_int_equal(t.n_unready, 1); /* the text does not count */
        assert_null(repo_version_set_unloaded_locked(v));
        assert_string_equal(v->reason, "unloaded");
        assert_int_equal(t.n_unready, 0);
        repo_entry_remove_version_locked(a, 1);
        assert_int_equal(t.n_unready, 1); /* it is wanted still */
        repo_table_forget_locked(&t, a);
        assert_int_equal(t.n_unready, 1);
        repo_entry_set_wanted_locked(a, false);
        assert_int_equal(t.n_unready, 0);
        a = add(&t, "c", "/c");
        set(a, 7, VERSION_UNKNOWN, NULL, NULL);
        assert_int_equal(t.n_unready, 1);
        mutex_unlock(&t.lock);
        repo_table_done(&t);
}

/* The oldest comes first; an entry that is appended again is the last; a forgotten one is not in the list. */
static void test_gone(void **state) {
        struct repo_table  t;
        struct repo_entry *a, *b, *c;

        (void)state;
        repo_table_init(&t);
        mutex_lock(&t.lock);
        a = add(&t, "a", "");
        b = add(&t, "b", "");
        c = add(&t, "c", "");
        repo_table_append_gone_locked(&t, a);
        repo_table_append_gone_locked(&t, b);
        repo_table_append_gone_locked(&t, c);
        repo_table_append_gone_locked(&t, a);
        assert_int_equal(t.n_gone, 3);
        assert_ptr_equal(repo_table_take_gone_locked(&t), b);
        assert_int_equal(t.n_gone, 2);
        repo_table_forget_locked(&t, c);
        assert_int_equal(t.n_gone, 1);
        assert_ptr_equal(repo_table_take_gone_locked(&t), a);
        assert_int_equal(t.n_gone, 0);
        repo_table_append_gone_locked(&t, b);
        mutex_unlock(&t.lock);
        repo_table_done(&t);
}

SUITE(repo_table) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_entries),
                cmocka_unit_test(test_versions_ascend),
                cmocka_unit_test(test_latest_is_the_highest_ready),
                cmocka_unit_test(test_long_reasons_are_cut),
                cmocka_unit_test(test_setting_gives_the_old_model),
                cmocka_unit_test(test_sorted_by_bytes),
                cmocka_unit_test(test_stays_sorted),
                cmocka_unit_test(test_counts_follow_each_change),
                cmocka_unit_test(test_gone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
